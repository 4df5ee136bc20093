//! Rates and lists for people.

use weir_units::Bandwidth;

pub(crate) use weir_report::whole;
pub(crate) use weir_runs::text::{count, list, shell_word};

/// A rate with at most three decimals. Exact values are in `--json`.
pub(crate) fn rate(bandwidth: Bandwidth) -> String {
    if bandwidth.is_unlimited() {
        return "unlimited".to_owned();
    }
    weir_report::Unit::Bandwidth.format(bandwidth.bps() as f64)
}

/// An amount of data with at most three decimals.
pub(crate) fn size(bytes: u64) -> String {
    weir_report::Unit::Size.format(bytes as f64)
}

/// Bit/s for programs; `null` when unlimited.
pub(crate) fn bps(bandwidth: Bandwidth) -> Option<u64> {
    (!bandwidth.is_unlimited()).then(|| bandwidth.bps())
}

/// A time in four digits.
pub(crate) fn time(seconds: f64) -> String {
    weir_report::Unit::Time.format_short(seconds)
}

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
    fn rates_are_short() {
        assert_eq!(rate(Bandwidth::from_bps(1_333_333_333)), "1.333 Gb/s");
        assert_eq!(rate(Bandwidth::from_bps(999_999_999)), "1 Gb/s");
        assert_eq!(rate(Bandwidth::from_gbps(10)), "10 Gb/s");
        assert_eq!(rate(Bandwidth::ZERO), "0 b/s");
        assert_eq!(rate(Bandwidth::UNLIMITED), "unlimited");
    }

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
    fn numbers_and_words() {
        assert_eq!([7, 999, 1_234_567].map(whole), ["7", "999", "1,234,567"]);
        assert_eq!(time(0.001_234_56), "1.235 ms");
        assert_eq!([0.5, 90.0, 600.0, 9_000.0].map(about), ["500 ms", "90 s", "10 min", "2 h"]);
        assert_eq!([172_799.0, 172_800.0, 1e6, 1e9].map(about), ["48 h", "2 days", "12 days", "11,574 days"]);
    }
}
