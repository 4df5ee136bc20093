//! `--set PATH=VALUE` and `--sweep PATH=VALUES`.
//!
//! Values of a sweep are separated by commas; `1..5` stands for the whole numbers from 1 to 5, both included.
//!
//! Worked example: `seed=1..3,7` has the values 1, 2, 3 and 7.

use crate::text;
use serde::{Deserialize, Serialize};

/// As many values as an axis may have: a range that is longer is a slip, not a sweep.
const MAX_VALUES: u64 = 100_000;

/// A value of the scenario that is changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Setting {
    /// Where, as `weir_document::set` takes it.
    pub(crate) path: String,
    /// As it would be written in the file.
    pub(crate) value: String,
}

impl Setting {
    /// Reads `PATH=VALUE`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (path, value) = split(text, "VALUE")?;
        Ok(Self { path: path.to_owned(), value: value.to_owned() })
    }
    /// The option that sets it, for a command line.
    pub(crate) fn option(&self) -> String {
        match self.path.as_str() {
            "seed" => format!("--seed {}", text::shell_word(&self.value)),
            path => format!("--set {}", text::shell_word(&format!("{path}={}", self.value))),
        }
    }
    /// As the scenario's reader takes them.
    pub(crate) fn pairs(settings: &[Self]) -> Vec<(String, String)> {
        settings.iter().map(|setting| (setting.path.clone(), setting.value.clone())).collect()
    }
}

/// A value of the scenario with all that a sweep gives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Axis {
    /// Where.
    pub(crate) path: String,
    /// At least one, each once.
    pub(crate) values: Vec<String>,
}

impl Axis {
    /// Reads `PATH=VALUES`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (path, list) = split(text, "VALUE,VALUE")?;
        let mut values = Vec::new();
        for part in list.split(',') {
            match part.trim() {
                "" => return Err("a value is missing: write values with one comma between two of them".to_owned()),
                part => match part.split_once("..") {
                    Some((first, last)) => values.extend(range(part, first, last)?),
                    None => values.push(part.to_owned()),
                },
            }
        }
        let mut sorted: Vec<&String> = values.iter().collect();
        sorted.sort();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("`{}` is in the list twice, and would give the same result twice", twice[0]));
        }
        Ok(Self { path: path.to_owned(), values })
    }
    /// The option that gives it, for a command line.
    pub(crate) fn option(&self) -> String {
        format!("--sweep {}", text::shell_word(&format!("{}={}", self.path, joined(&self.values))))
    }
}

/// The shortest name of each axis that is no other's: the last key, or the whole path.
pub(crate) fn short_names(axes: &[Axis]) -> Vec<&str> {
    let last = |axis: &'_ Axis| axis.path.rfind('.').map_or(0, |dot| dot + 1);
    let lasts: Vec<&str> = axes.iter().map(|axis| &axis.path[last(axis)..]).collect();
    let alone = |key: &str| lasts.iter().filter(|other| **other == key).count() == 1;
    lasts.iter().zip(axes).map(|(key, axis)| if alone(key) { *key } else { axis.path.as_str() }).collect()
}

/// Values with commas; three or more numbers in a row as a range.
fn joined(values: &[String]) -> String {
    // Only numbers that a range writes the same way.
    let number = |value: &String| value.parse::<u64>().ok().filter(|number| number.to_string() == *value);
    let next = |value: &String| number(value).and_then(|number| number.checked_add(1));
    let follows = |pair: &[String]| next(&pair[0]).is_some_and(|next| number(&pair[1]) == Some(next));
    let mut parts = Vec::new();
    let mut rest = values;
    while let Some(first) = rest.first() {
        let row = 1 + rest.windows(2).take_while(|pair| follows(pair)).count();
        let row = if row >= 3 { row } else { 1 };
        parts.push(if row == 1 { first.clone() } else { format!("{first}..{}", rest[row - 1]) });
        rest = &rest[row..];
    }
    parts.join(",")
}

fn split<'a>(text: &'a str, what: &str) -> Result<(&'a str, &'a str), String> {
    match text.split_once('=') {
        Some((path, value)) if !path.trim().is_empty() => Ok((path.trim(), value.trim())),
        _ => Err(format!("write PATH={what}, for example `traffic[0].load=60%`")),
    }
}

fn range(text: &str, first: &str, last: &str) -> Result<impl Iterator<Item = String> + use<>, String> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let (Some(first), Some(last)) = (number(first), number(last)) else {
        return Err(format!("`{text}` is not a range of whole numbers such as `1..5`"));
    };
    if first > last {
        return Err(format!("the range `{text}` is reversed"));
    }
    if last - first >= MAX_VALUES {
        return Err(format!("the range `{text}` has more than {MAX_VALUES} values"));
    }
    Ok((first..=last).map(|value| value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges() {
        let values = |text| Axis::parse(text).map(|axis| axis.values.join(" "));
        assert_eq!(values("seed=1..3,7"), Ok("1 2 3 7".to_owned()));
        assert_eq!(values("traffic[0].load = 20%, 40%"), Ok("20% 40%".to_owned()));
        assert_eq!(values("a=b=c"), Ok("b=c".to_owned()));
        for wrong in ["seed", "=1", "seed=", "seed=1,,2", "seed=1,1..2", "seed=3..1", "seed=1..x", "seed=0..100000"] {
            assert!(values(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_as_short_as_they_can_be() {
        let axes = ["seed=1", "traffic[0].load=1%", "traffic[1].load=1%", "transport.g=1"];
        let axes = axes.map(|text| Axis::parse(text).expect("an axis"));
        assert_eq!(short_names(&axes), ["seed", "traffic[0].load", "traffic[1].load", "g"]);
    }

    #[test]
    fn options_read_back() {
        let axis = Axis::parse("traffic[0].load=20%,40%").expect("an axis");
        assert_eq!(axis.option(), "--sweep 'traffic[0].load=20%,40%'");
        for text in ["seed=1..5", "seed=1,2,4..6,1k", "seed=01,02,03", "seed=18446744073709551615,1"] {
            assert_eq!(Axis::parse(text).map(|axis| axis.option()), Ok(format!("--sweep {text}")));
        }
        let setting = Setting::parse("transport.protocol=dctcp").expect("a setting");
        assert_eq!(setting.option(), "--set transport.protocol=dctcp");
        assert_eq!(Setting::parse("seed=3").map(|seed| seed.option()), Ok("--seed 3".to_owned()));
    }
}
