//! The one check of a tree against a shape.
//!
//! Reports unknown keys (with the nearest known one), values of the wrong kind, scalars that do not
//! parse, invalid names, and missing required keys: all of them, each at its position. Accepted
//! content can be read without further checks; readers skip reported content silently.
//!
//! Worked example: `{ uplnik: 10Gb/s, machines: m1 }` as a rack gives two errors: `uplnik` is not a
//! key of a rack (did you mean `uplink`?), and a list of machines is expected where a single value
//! stands. The missing `uplink` is not reported in addition.
//!
//! Of a choice, the variant of its tag is checked, and a key of another variant is reported with
//! its owner; if the tag is wrong or missing, only the common keys of all variants are checked.

use crate::diagnostic::{Problems, quote};
use crate::nearest::nearest;
use crate::scalar::{self, Refusal, Scalar};
use crate::shape::{Alternatives, Choice, Key, List, Map, Record, Shape};
use crate::source::Span;
use crate::tree::{self, Kind, Node};
use std::sync::Arc;

/// Checks `node` against `shape`. The recursion is bounded by the depth of the tree.
pub fn check(node: &Node, shape: &Shape, problems: &mut Problems) {
    Checker { problems }.node(node, shape);
}

struct Checker<'a> {
    problems: &'a mut Problems,
}

impl Checker<'_> {
    fn node(&mut self, node: &Node, shape: &Shape) {
        match (shape, &node.kind) {
            (_, Kind::Refused) => {}
            (Shape::Scalar(scalar), Kind::Scalar { text, quoted }) => self.scalar(node, text, *quoted, scalar),
            (Shape::Record(record), Kind::Mapping(_)) => self.record(node, record),
            (Shape::Map(map), Kind::Mapping(_)) => self.map(node, map),
            (Shape::List(list), Kind::Sequence(_)) => self.list(node, list),
            (Shape::OneOf(shapes), _) => match shapes.iter().find(|shape| fits(shape, node)) {
                Some(shape) => self.node(node, shape),
                None => self.wrong_kind(node, shape),
            },
            (Shape::Choice(choice), Kind::Scalar { text, quoted }) if *quoted || !text.is_empty() => {
                self.bare_word(node, text, choice);
            }
            (Shape::Choice(choice), Kind::Mapping(_)) => self.choice(node, choice),
            (Shape::Alternatives(alternatives), Kind::Mapping(_)) => self.alternatives(node, alternatives),
            _ => self.wrong_kind(node, shape),
        }
    }

    fn wrong_kind(&mut self, node: &Node, shape: &Shape) {
        let found = match node.scalar() {
            Some(text) if !text.is_empty() => format!("{} stands here", quote(text)),
            _ => format!("this is {}", node.kind_name()),
        };
        self.problems.error(head(node), format!("{} is expected, but {found}", shape.what()), hint(shape));
    }

    fn scalar(&mut self, node: &Node, text: &str, quoted: bool, scalar: &'static Scalar) {
        if text.is_empty() && !quoted {
            return self.wrong_kind(node, &Shape::Scalar(scalar));
        }
        if let Err(refusal) = scalar.check(text) {
            self.refuse(node.span, refusal);
        }
    }

    /// Reports a refused text, with its correction if the hint suggests a single one.
    fn refuse(&mut self, span: Span, refusal: Refusal) {
        let Refusal { cause, hint, instead } = refusal;
        let fix = match &*instead {
            [text] => self.as_written(span, text),
            _ => None,
        };
        match fix {
            Some(text) => self.problems.error_with_fix(span, cause, hint, (span, text)),
            None => self.problems.error(span, cause, hint),
        }
    }

    /// A text as it stands in the document, in quotes if the one at `span` is or YAML would read something else. `None`
    /// for a setting from outside, which has a notation of its own.
    fn as_written(&self, span: Span, text: &str) -> Option<String> {
        let (source, span) = self.problems.place(span);
        if !Arc::ptr_eq(&source, self.problems.source()) || text.contains(['"', '\\']) {
            return None;
        }
        let special =
            text.starts_with(|c: char| !c.is_ascii_alphanumeric()) || text.contains([',', ':', '#', '[', '{']);
        let quoted = special || source.slice(span).starts_with(['"', '\'']);
        Some(if quoted { format!("\"{text}\"") } else { text.to_owned() })
    }

    fn record(&mut self, node: &Node, record: &'static Record) {
        self.keys(node, record.what, record.keys, &|_| None);
    }

    /// Checks the keys of a mapping. `elsewhere` gives the reason why a key that people may expect
    /// here is not.
    fn keys<'k>(
        &mut self,
        node: &Node,
        what: &str,
        keys: impl IntoIterator<Item = &'k Key, IntoIter: Clone>,
        elsewhere: &dyn Fn(&str) -> Option<String>,
    ) {
        let keys = keys.into_iter();
        // Keys that an unknown one was taken for: reporting them as missing would repeat the
        // mistake.
        let mut misspelt = Vec::new();
        let mut entries = node.entries();
        while let [(key, value), rest @ ..] = entries {
            entries = rest;
            if let Some(known) = keys.clone().find(|known| known.name == key.text) {
                match self.cut_by_commas(value, rest) {
                    0 => self.node(value, &known.shape),
                    count => {
                        let (cut, rest) = rest.split_at(count);
                        self.comma_in_braces(value, cut, &known.shape);
                        entries = rest;
                    }
                }
                continue;
            }
            let cause = format!("{} is not a key of {what}", quote(&key.text));
            if let Some(reason) = elsewhere(&key.text) {
                self.problems.error(key.span, cause, reason);
                continue;
            }
            let names = keys.clone().map(|known| known.name);
            // A key that is there already would be written twice.
            let absent = names.clone().filter(|name| node.get(name).is_none());
            let list = names.clone().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let near = nearest(&key.text, absent);
            misspelt.extend(near);
            let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
            self.problems.error(key.span, cause, format!("{near}known keys are {list}"));
        }
        for known in keys.filter(|known| known.required && node.get(known.name).is_none()) {
            if misspelt.contains(&known.name) {
                continue;
            }
            self.problems.error(
                head(node),
                format!("`{}` is missing in {what}", known.name),
                format!("add it, for example `{}`", known.example),
            );
        }
    }

    /// The number of keys behind a value that are the rest of it: digits behind a comma, without a value.
    fn cut_by_commas(&self, value: &Node, behind: &[(tree::Key, Node)]) -> usize {
        let mut end = value.span.end;
        let is_rest = |(key, value): &&(tree::Key, Node)| {
            let between = Span::new(std::mem::replace(&mut end, key.span.end), key.span.start);
            let is_digits = key.text.starts_with(|c: char| c.is_ascii_digit()) && is_plain(&key.text);
            let is_empty = matches!(&value.kind, Kind::Scalar { text, quoted: false } if text.is_empty());
            let comma = || {
                let (source, between) = self.problems.place(between);
                source.slice(between).trim() == ","
            };
            is_digits && is_empty && comma()
        };
        if value.scalar().is_some_and(is_plain) { behind.iter().take_while(is_rest).count() } else { 0 }
    }

    /// Reports a value that goes on behind a comma, with a list, a decimal number or the same text in quotes in its
    /// place if the shape accepts it.
    fn comma_in_braces(&mut self, value: &Node, rest: &[(tree::Key, Node)], shape: &Shape) {
        let parts: Vec<&str> = value.scalar().into_iter().chain(rest.iter().map(|(key, _)| &*key.text)).collect();
        let span = Span::new(value.span.start, rest.last().map_or(value.span.end, |(key, _)| key.span.end));
        let scalar = |text: &str| Node { span, kind: Kind::Scalar { text: text.to_owned(), quoted: false } };
        let list = Node { span, kind: Kind::Sequence(parts.iter().copied().map(scalar).collect()) };
        let accepted = |node: &Node| {
            let mut problems = Problems::new(self.problems.source());
            check(node, shape, &mut problems);
            problems.count() == 0
        };
        let cause = "a comma in braces ends a value";
        if accepted(&list) {
            let list = format!("[{}]", parts.join(", "));
            let hint = format!("did you mean {}?", quote(&list));
            return self.problems.error_with_fix(span, cause, hint, (span, list));
        }
        let text = parts.join(",");
        let readings = number_in(shape).and_then(|scalar| scalar.check(&text).err());
        match readings.filter(|refusal| !refusal.instead.is_empty()) {
            Some(refusal) => self.refuse(span, Refusal::instead(cause, refusal.instead, "")),
            None if accepted(&scalar(&text)) => {
                let text = format!("\"{text}\"");
                self.problems.error_with_fix(span, cause, format!("did you mean {}?", quote(&text)), (span, text));
            }
            None => self.problems.error(span, cause, "write one value without a comma"),
        }
    }

    /// A variant written as its word alone.
    fn bare_word(&mut self, node: &Node, word: &str, choice: &'static Choice) {
        let Some(variant) = choice.variant(word) else {
            let refusal = scalar::word(word, choice.what, &choice.words()).err();
            if let Some(refusal) = refusal {
                self.refuse(node.span, refusal);
            }
            return;
        };
        if let Some(key) = choice.keys(variant).find(|key| key.required) {
            self.problems.error(
                node.span,
                format!("{} needs `{}`", variant.what, key.name),
                format!("write it with its keys, for example `{{ {}: {word}, {} }}`", choice.tag, key.example),
            );
        }
    }

    fn choice(&mut self, node: &Node, choice: &'static Choice) {
        if let Some(variant) = choice.chosen(node) {
            return self.variant(node, choice, variant);
        }
        if let Some(value) = node.get(choice.tag) {
            match value.scalar() {
                Some(word) if !word.is_empty() => {
                    if let Err(refusal) = scalar::word(word, choice.tag_what, &choice.words()) {
                        self.refuse(value.span, refusal);
                    }
                }
                _ if value.kind == Kind::Refused => {}
                _ => self.problems.error(
                    head(value),
                    format!("{} is expected, but this is {}", choice.tag_what, value.kind_name()),
                    one_of(choice),
                ),
            }
        } else {
            let known =
                |name: &str| (choice.variants)().iter().copied().any(|v| choice.keys(v).any(|key| key.name == name));
            // The tag, or the key of a variant that needs none.
            let by_key = (choice.variants)().iter().copied().filter(|variant| choice.is_named_by_key(variant));
            let deciding: Vec<&str> = std::iter::once(choice.tag).chain(by_key.map(|variant| variant.id)).collect();
            let misspelt = node.entries().iter().filter(|(key, _)| !known(&key.text));
            let misspelt = misspelt.filter_map(|(key, _)| Some((key, nearest(&key.text, deciding.iter().copied())?)));
            match misspelt.min_by_key(|(key, _)| key.span) {
                Some((key, near)) => self.problems.error(
                    key.span,
                    format!("{} is not a key of {}", quote(&key.text), choice.what),
                    format!("did you mean `{near}`? {}", one_of(choice)),
                ),
                None => self.problems.error(
                    head(node),
                    format!("`{}` is missing in {}", choice.tag, choice.what),
                    one_of(choice),
                ),
            }
        }
        // The other keys are not known; the values of the common ones are.
        for (key, value) in node.entries() {
            if let Some(known) = choice.common.iter().find(|known| known.name == key.text) {
                self.node(value, &known.shape);
            }
        }
    }

    fn variant(&mut self, node: &Node, choice: &'static Choice, variant: &'static Record) {
        static ANY: Scalar = Scalar::Text { what: "a word" };
        let tag = [Key::optional(choice.tag, Shape::Scalar(&ANY), choice.tag_doc, "")];
        let elsewhere = |name: &str| {
            if let Some((_, reason)) = choice.elsewhere.iter().find(|(key, _)| *key == name) {
                return Some((*reason).to_owned());
            }
            let has = |other: &&'static Record| other.keys.iter().any(|key| key.name == name);
            let goes = |other: &Record| format!("`{}: {}`", choice.tag, other.id);
            let owners: Vec<_> = (choice.variants)().iter().copied().filter(has).map(goes).collect();
            (!owners.is_empty()).then(|| format!("it goes with {}", owners.join(" or ")))
        };
        // The closure shortens a lifetime, no more.
        let others = choice.keys(variant).map(|key| -> &Key { key });
        self.keys(node, variant.what, tag.iter().chain(others), &elsewhere);
    }

    fn alternatives(&mut self, node: &Node, alternatives: &'static Alternatives) {
        let record = alternatives.chosen(node);
        let list = || alternatives.records.iter().map(|(key, _)| format!("`{key}`")).collect::<Vec<_>>().join(" or ");
        if let Some(record) = record {
            let elsewhere = |name: &str| {
                let has = |other: &&(&str, &'static Record)| other.1.keys.iter().any(|key| key.name == name);
                let owner = alternatives.records.iter().find(has)?;
                Some(format!("it is a key of {}, which has `{}`", owner.1.what, owner.0))
            };
            return self.keys(node, record.what, record.keys, &elsewhere);
        }
        let mut written = node.entries().iter().filter(|(key, _)| alternatives.records.iter().any(|r| r.0 == key.text));
        match (written.next(), written.next()) {
            (Some((first, _)), Some((second, _))) => self.problems.error_with(
                second.span,
                format!("{} has both `{}` and `{}`", alternatives.what, first.text, second.text),
                "write one of them",
                (first.span, "the other one"),
            ),
            _ => {
                let deciding = alternatives.records.iter().map(|(key, _)| *key);
                let near =
                    node.entries().iter().find_map(|(key, _)| Some((key, nearest(&key.text, deciding.clone())?)));
                match near {
                    Some((key, near)) => self.problems.error(
                        key.span,
                        format!("{} is not a key of {}", quote(&key.text), alternatives.what),
                        format!("did you mean `{near}`? it has either {}", list()),
                    ),
                    None => self.problems.error(
                        head(node),
                        format!("{} has neither {}", alternatives.what, list().replace(" or ", " nor ")),
                        format!("add {}", list()),
                    ),
                }
            }
        }
        // The record is not known: the common keys of all are checked.
        for (key, value) in node.entries() {
            let mut shapes =
                alternatives.records.iter().map(|(_, r)| r.keys.iter().find(|known| known.name == key.text));
            if let Some(Some(first)) = shapes.next()
                && shapes.all(|other| other.is_some_and(|other| other.shape.is_same(&first.shape)))
            {
                self.node(value, &first.shape);
            }
        }
    }

    fn map(&mut self, node: &Node, map: &'static Map) {
        if node.entries().len() < map.min {
            self.problems.error(
                node.span,
                format!("{} is expected, but this is empty", map.what),
                hint(&Shape::Map(map)),
            );
        }
        for (key, value) in node.entries() {
            if let Err(refusal) = map.check_name(&key.text) {
                self.refuse(key.span, refusal);
            }
            self.node(value, &map.value);
        }
    }

    fn list(&mut self, node: &Node, list: &'static List) {
        if node.items().len() < list.min {
            let found = match node.items().len() {
                0 => "this is empty".to_owned(),
                count => format!("this has {count} of them"),
            };
            let cause = format!("{} is expected, but {found}", list.what);
            self.problems.error(node.span, cause, hint(&Shape::List(list)));
        }
        for item in node.items() {
            self.node(item, &list.item);
        }
    }
}

/// Whether a text has only letters, digits and blanks, and marks that mean nothing in a YAML list.
fn is_plain(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '.' | '_' | '/' | '%' | '-');
    !text.is_empty() && text.chars().all(plain)
}

/// The kind of a value that is written as a scalar.
fn number_in(shape: &Shape) -> Option<&'static Scalar> {
    match shape {
        Shape::Scalar(scalar) => Some(scalar),
        Shape::OneOf(shapes) => shapes.iter().find_map(number_in),
        _ => None,
    }
}

fn fits(shape: &Shape, node: &Node) -> bool {
    match (shape, &node.kind) {
        (Shape::Scalar(_), Kind::Scalar { text, quoted }) => *quoted || !text.is_empty(),
        (Shape::Choice(_), Kind::Scalar { text, quoted }) => *quoted || !text.is_empty(),
        (Shape::Record(_) | Shape::Map(_) | Shape::Choice(_) | Shape::Alternatives(_), Kind::Mapping(_))
        | (Shape::List(_), Kind::Sequence(_)) => true,
        (Shape::OneOf(shapes), _) => shapes.iter().any(|shape| fits(shape, node)),
        _ => false,
    }
}

/// The start of a node: a mistake about a whole mapping does not underline all of it.
fn head(node: &Node) -> Span {
    match node.kind {
        Kind::Scalar { .. } => node.span,
        _ => Span::new(node.span.start, node.span.start),
    }
}

/// A hint from the shape.
fn hint(shape: &Shape) -> String {
    match shape {
        Shape::Scalar(scalar) => format!("for example `{}`", scalar.example()),
        Shape::Record(record) => {
            let example = record.keys.iter().find(|key| key.required).or(record.keys.first());
            example.map_or_else(String::new, |key| format!("for example `{{ {} }}`", key.example))
        }
        Shape::Map(map) => format!("write a name, a colon and {}", map.value.what()),
        Shape::List(list) => match list.item {
            Shape::Scalar(scalar) => format!("for example `[{}]`", scalar.example()),
            item => format!("write a list with `-` or brackets, each item {}", item.what()),
        },
        Shape::OneOf(shapes) => shapes.first().map_or_else(String::new, hint),
        Shape::Choice(choice) => match (choice.variants)().iter().copied().find(|variant| choice.is_bare(variant)) {
            Some(variant) => format!("for example `{}`", variant.id),
            None => format!("write `{}: ` and one of {}", choice.tag, words(choice)),
        },
        Shape::Alternatives(alternatives) => {
            alternatives.records.first().map_or_else(String::new, |(_, record)| hint(&Shape::Record(record)))
        }
    }
}

fn words(choice: &Choice) -> String {
    choice.words().iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

fn one_of(choice: &Choice) -> String {
    format!("write `{}: ` and one of {}", choice.tag, words(choice))
}
