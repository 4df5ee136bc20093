//! The reference of a format for people: tables of keys in Markdown, from the same shapes as the
//! check.
//!
//! One table for each record and each variant of a choice, in the order in which they are first
//! referred to; a record is printed once and linked to from everywhere else.
//!
//! Worked example: the key `uplink` of a rack becomes the row
//! `` | `uplink` | required | a rate | Its speed to the fabric. `uplink: 80Gb/s` | ``.

use crate::shape::{Alternatives, Choice, Key, Record, Shape};
use std::fmt::Write as _;

/// The tables of everything that `root` refers to, with headings of level `level`.
pub fn tables(root: impl Into<Shape>, level: usize) -> String {
    let mut out =
        Tables { text: String::new(), level, records: Vec::new(), choices: Vec::new(), next: vec![root.into()] };
    while !out.next.is_empty() {
        let shape = out.next.remove(0);
        match shape {
            Shape::Record(record) => out.record(record),
            Shape::Choice(choice) => out.choice(choice),
            Shape::Alternatives(alternatives) => out.alternatives(alternatives),
            _ => {}
        }
    }
    out.text
}

struct Tables {
    text: String,
    level: usize,
    /// Records that have a table, and ids of choices that have. A record may be a variant of two
    /// choices, and two variants of different choices may have the same word.
    records: Vec<&'static Record>,
    choices: Vec<&'static str>,
    next: Vec<Shape>,
}

impl Tables {
    fn heading(&mut self, extra: usize, title: &str, doc: &str) {
        let marks = "#".repeat(self.level + extra);
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{marks} {title}\n\n{}\n\n", wrapped(doc));
    }

    fn is_new(&mut self, record: &'static Record) -> bool {
        let new = !self.records.iter().any(|done| std::ptr::eq(*done, record));
        if new {
            self.records.push(record);
        }
        new
    }

    fn record(&mut self, record: &'static Record) {
        if self.is_new(record) {
            self.heading(0, &heading(record.what), record.doc);
            self.rows(record.keys.iter());
        }
    }

    fn choice(&mut self, choice: &'static Choice) {
        if self.choices.contains(&choice.id) {
            return;
        }
        self.choices.push(choice.id);
        self.heading(0, &heading(choice.what), choice.doc);
        let words = (choice.variants)().iter().map(|variant| format!("`{}`", variant.id)).collect::<Vec<_>>();
        let text = format!("`{}` is one of {}: {}", choice.tag, words.join(", "), choice.tag_doc);
        let _ = write!(self.text, "{}\n\n", wrapped(&text));
        if !choice.common.is_empty() {
            self.text.push_str("Keys that all of them have:\n\n");
            self.rows(choice.common.iter());
        }
        for variant in (choice.variants)() {
            // Two choices may share their variants; these are printed once.
            if !self.is_new(variant) {
                continue;
            }
            self.heading(1, &format!("`{}: {}`", choice.tag, variant.id), variant.doc);
            if !variant.keys.is_empty() {
                self.rows(variant.keys.iter());
            }
        }
    }

    fn alternatives(&mut self, alternatives: &'static Alternatives) {
        for (_, record) in alternatives.records {
            self.record(record);
        }
    }

    fn rows(&mut self, keys: impl Iterator<Item = &'static Key>) {
        self.text.push_str("| key | | what | meaning and example |\n|---|---|---|---|\n");
        for key in keys {
            let need = if key.required { "required" } else { "" };
            let (what, doc, example) = (cell(&key.shape.what()), cell(key.doc), cell(key.example));
            let _ = writeln!(self.text, "| `{}` | {need} | {what} | {doc} `{example}` |", key.name);
            self.follow(key.shape);
        }
        self.text.push('\n');
    }

    /// Records the shape of a key to be printed later.
    fn follow(&mut self, shape: Shape) {
        match shape {
            Shape::Record(_) | Shape::Choice(_) | Shape::Alternatives(_) => self.next.push(shape),
            Shape::Map(map) => self.follow(map.value),
            Shape::List(list) => self.follow(list.item),
            Shape::OneOf(shapes) => shapes.iter().for_each(|shape| self.follow(*shape)),
            Shape::Scalar(_) => {}
        }
    }
}

/// `a rack` as a heading: `A rack`.
fn heading(what: &str) -> String {
    let mut letters = what.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// A text inside a table: its bars would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Columns of a line of prose in the references.
const COLUMNS: usize = 118;

/// A paragraph in lines of at most [`COLUMNS`] columns, as far as its words allow.
fn wrapped(text: &str) -> String {
    let (mut lines, mut columns) = (String::with_capacity(text.len() + 8), 0);
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if columns > 0 && columns + 1 + width > COLUMNS {
            lines.push('\n');
            columns = 0;
        } else if columns > 0 {
            lines.push(' ');
            columns += 1;
        }
        lines.push_str(word);
        columns += width;
    }
    lines
}
