//! Rates and lists for people; the layout of texts.

pub(crate) use weir_answers::text::{count, list, rate, size, time, whole};
pub(crate) use weir_runs::text::shell_word;

/// A rounded time for people: `20 s`, `10 min`, `2 h`, `12 days`.
pub(crate) fn about(seconds: f64) -> String {
    match seconds {
        _ if seconds < 1.0 => time(seconds),
        _ if seconds < 120.0 => format!("{seconds:.0} s"),
        _ if seconds < 7_200.0 => format!("{:.0} min", seconds / 60.0),
        _ if seconds < 172_800.0 => format!("{:.0} h", seconds / 3_600.0),
        _ => format!("{} days", whole((seconds / 86_400.0).round() as u64)),
    }
}

/// `text` in lines of at most 100 columns, each after `indent` blanks, with a line end.
pub(crate) fn wrapped(text: &str, indent: usize) -> String {
    let blanks = " ".repeat(indent);
    filled(text, 100, &blanks, &blanks)
}

/// `text` in lines of at most `columns` columns, the first after `first`, all others after
/// `indent`, with a line end.
pub(crate) fn filled(text: &str, columns: usize, first: &str, indent: &str) -> String {
    let mut out = first.to_owned();
    let mut column = first.chars().count();
    // A number and its unit stay together.
    let joined = text.replace(" Gb/s", "\u{a0}Gb/s").replace(" Mb/s", "\u{a0}Mb/s").replace(" kb/s", "\u{a0}kb/s");
    for (place, word) in joined.split(' ').enumerate() {
        let length = word.chars().count();
        if place > 0 && column + 1 + length > columns {
            out.push('\n');
            out.push_str(indent);
            column = indent.chars().count();
        } else if place > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(&word.replace('\u{a0}', " "));
        column += length;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_of_a_list_is_indented_below_its_bullet() {
        assert_eq!(filled("one two 3 Mb/s four", 9, "- ", "  "), "- one two\n  3 Mb/s\n  four\n");
    }

    #[test]
    fn long_texts_have_lines() {
        let text = wrapped(&"word ".repeat(30), 2);
        assert!(text.lines().count() == 2 && text.lines().all(|line| line.len() <= 100 && line.starts_with("  word")));
    }

    #[test]
    fn times_are_rounded() {
        assert_eq!([0.5, 90.0, 600.0, 9_000.0].map(about), ["500 ms", "90 s", "10 min", "2 h"]);
        assert_eq!([172_799.0, 172_800.0, 1e6, 1e9].map(about), ["48 h", "2 days", "12 days", "11,574 days"]);
    }
}
