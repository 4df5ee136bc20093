//! The units in which papers print values.
//!
//! Inside, a value is a number in the base unit of its [`Dimension`]: bit/s, seconds, bytes,
//! packets, or nothing. A [`Unit`] is the label beside it in a table, so that a reader finds the
//! paper's own figures.
//!
//! Worked example: 30 `Gb/s` are 30,000,000,000 bit/s; a completion time of 0.03874 s is 38.74
//! `ms`.

use std::fmt;

/// The dimension of a value, and thereby its base unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dimension {
    /// bit/s.
    Rate,
    /// Seconds.
    Time,
    /// Bytes.
    Size,
    /// Packets.
    Packets,
    /// A number without unit: an index, a ratio; of a share, per cent.
    Number,
}

impl Dimension {
    /// With an article, for messages.
    pub const fn what(self) -> &'static str {
        match self {
            Self::Rate => "a rate",
            Self::Time => "a time",
            Self::Size => "a size",
            Self::Packets => "a number of packets",
            Self::Number => "a number",
        }
    }
}

/// A unit of a value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    /// As it is written: a word of [`WORDS`].
    pub name: &'static str,
    /// Its dimension.
    pub dimension: Dimension,
    /// Base units in one of it.
    pub factor: f64,
}

const fn unit(name: &'static str, dimension: Dimension, factor: f64) -> Unit {
    Unit { name, dimension, factor }
}

static UNITS: [Unit; 12] = [
    unit("Gb/s", Dimension::Rate, 1e9),
    unit("Mb/s", Dimension::Rate, 1e6),
    unit("kb/s", Dimension::Rate, 1e3),
    unit("s", Dimension::Time, 1.0),
    unit("ms", Dimension::Time, 1e-3),
    unit("us", Dimension::Time, 1e-6),
    unit("MB", Dimension::Size, 1e6),
    unit("kB", Dimension::Size, 1e3),
    unit("B", Dimension::Size, 1.0),
    unit("packets", Dimension::Packets, 1.0),
    unit("1", Dimension::Number, 1.0),
    unit("%", Dimension::Number, 0.01),
];

/// The words, in the order of the table.
pub static WORDS: &[&str] = &["Gb/s", "Mb/s", "kb/s", "s", "ms", "us", "MB", "kB", "B", "packets", "1", "%"];

impl Unit {
    /// The unit with this name.
    pub fn named(name: &str) -> Option<Self> {
        UNITS.iter().copied().find(|unit| unit.name == name)
    }
    /// The units of a dimension, for messages.
    pub fn of(dimension: Dimension) -> Vec<&'static str> {
        UNITS.iter().filter(|unit| unit.dimension == dimension).map(|unit| unit.name).collect()
    }
    /// The value in this unit as a table shows it: four digits, or all before the point.
    pub fn number(self, base: f64) -> String {
        let value = base / self.factor;
        let digits = if value == 0.0 || !value.is_finite() { 0 } else { value.abs().log10().floor() as i32 };
        let decimals = (3 - digits).clamp(0, 6) as usize;
        let text = format!("{value:.decimals$}");
        let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        text.to_owned()
    }
    /// The value with its unit: `38.74 ms`; a bare number where it has none.
    pub fn text(self, base: f64) -> String {
        let number = self.number(base);
        match self.name {
            "1" => number,
            _ => format!("{number} {self}"),
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self.name {
            "us" => "µs",
            "1" => "",
            name => name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_units() {
        assert_eq!(UNITS.map(|unit| unit.name), WORDS);
    }

    #[test]
    fn four_digits() {
        let text = |name: &str, base: f64| Unit::named(name).expect("a unit").text(base);
        assert_eq!(text("Gb/s", 29.987e9), "29.99 Gb/s");
        assert_eq!(text("ms", 0.038_739_9), "38.74 ms");
        assert_eq!(text("us", 0.000_002), "2 µs");
        assert_eq!(text("kb/s", 2_543_210.0), "2543 kb/s");
        assert_eq!(text("1", 0.987_654), "0.9877");
        assert_eq!(text("%", 0.032_6), "3.26 %");
        assert_eq!(text("packets", 0.0), "0 packets");
    }
}
