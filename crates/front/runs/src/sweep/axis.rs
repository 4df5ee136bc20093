//! `--set PATH=VALUE` and `--sweep PATH=VALUES`.
//!
//! Problem: a list of values is written in one word of a command line, and a value may itself contain commas. Approach:
//! values of a sweep are separated by commas; `1..5` stands for the whole numbers from 1 to 5, both
//! included. Commas inside brackets belong to the value. Paths with semicolons between them in one
//! option change together: the first value of each path, then the second, and so on.
//!
//! Worked example: `seed=1..3,7` has the values 1, 2, 3 and 7. `transport=dctcp,pfabric;
//! network.queue={discipline: ecn, mark: 30kB},pfabric` gives two points, each transport with its
//! own queues.

use crate::text;
use serde::{Deserialize, Serialize};
use weir_units::digits::{self, Digits};

/// The most values of an axis: a longer range is a mistake.
const MAX_VALUES: u64 = 100_000;

/// The reason why the text of an option is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidOption(String);

/// A changed value of the scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The path, as `weir_document::set` takes it.
    pub path: String,
    /// The value, as in the file.
    pub value: String,
}

impl Setting {
    /// Reads `PATH=VALUE`.
    ///
    /// # Errors
    /// A text without a path or without `=`.
    pub fn parse(text: &str) -> Result<Self, InvalidOption> {
        let (path, value) = split(text, "VALUE")?;
        Ok(Self { path: path.to_owned(), value: value.to_owned() })
    }
    /// The option that sets it, for a command line.
    pub fn option(&self) -> String {
        match self.path.as_str() {
            "seed" => format!("--seed {}", text::shell_word(&self.value)),
            path => format!("--set {}", text::shell_word(&format!("{path}={}", self.value))),
        }
    }
    /// As the scenario's reader takes them.
    pub fn pairs(settings: &[Self]) -> Vec<(String, String)> {
        settings.iter().map(|setting| (setting.path.clone(), setting.value.clone())).collect()
    }
}

/// A value of the scenario with all its values in a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// The path.
    pub path: String,
    /// At least one; each once, or each once together with those that change with it.
    pub values: Vec<String>,
    /// Whether it changes together with the axis before it, value by value.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub together: bool,
}

/// The axes of one `--sweep`: one, or several that change together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axes(
    /// In the order of the option.
    pub Vec<Axis>,
);

impl Axes {
    /// Reads `PATH=VALUES`, or several of them with semicolons.
    ///
    /// # Errors
    /// A value that is missing or listed twice, a range that is none, or lists of different lengths.
    pub fn parse(text: &str) -> Result<Self, InvalidOption> {
        let parts = parts(text, ';').into_iter().enumerate();
        Self::new(parts.map(|(at, part)| Axis::parse(part, at > 0)).collect::<Result<_, _>>()?)
    }

    /// Axes that change together.
    ///
    /// # Errors
    /// No values, a value that is listed twice, or lists of different lengths.
    pub fn new(axes: Vec<Axis>) -> Result<Self, InvalidOption> {
        if let Some(empty) = axes.iter().find(|axis| axis.values.is_empty()) {
            return Err(InvalidOption(format!("`{}` has no values", empty.path)));
        }
        for axis in &axes {
            if let Some(first) = axes.first().filter(|first| first.values.len() != axis.values.len()) {
                return Err(InvalidOption(format!(
                    "`{}` has {} and `{}` has {}: values that change together are as many",
                    first.path,
                    text::count(first.values.len(), "value"),
                    axis.path,
                    text::count(axis.values.len(), "value"),
                )));
            }
        }
        let count = axes.first().map_or(0, |axis| axis.values.len());
        let mut together: Vec<Vec<&str>> =
            (0..count).map(|index| axes.iter().map(|axis| &*axis.values[index]).collect()).collect();
        together.sort_unstable();
        if let Some(twice) = together.windows(2).find(|pair| pair[0] == pair[1]) {
            let twice = twice[0].join("; ");
            let cause = format!("`{twice}` is in the list twice, and would give the same result twice");
            return Err(InvalidOption(cause));
        }
        Ok(Self(axes))
    }
}

impl Axis {
    fn parse(text: &str, together: bool) -> Result<Self, InvalidOption> {
        let (path, list) = split(text, "VALUE,VALUE")?;
        let mut values = Vec::new();
        for part in parts(list, ',') {
            match part.trim() {
                "" => {
                    let cause = "a value is missing: write values with one comma between two of them";
                    return Err(InvalidOption(cause.to_owned()));
                }
                part => match part.split_once("..") {
                    Some((first, last)) if first.starts_with(|c: char| c.is_ascii_digit()) => {
                        values.extend(range(part, first, last)?)
                    }
                    _ => values.push(part.to_owned()),
                },
            }
        }
        Ok(Self { path: path.to_owned(), values, together })
    }
}

/// The command that repeats a run: `start` with an option for each changed value.
pub fn command(start: &str, settings: &[Setting]) -> String {
    std::iter::once(start.to_owned()).chain(settings.iter().map(Setting::option)).collect::<Vec<_>>().join(" ")
}

/// The options that give axes, for a command line.
pub fn options(axes: &[Axis]) -> Vec<String> {
    let groups = axes.chunk_by(|_, next| next.together);
    let option = |group: &[Axis]| {
        let group: Vec<String> = group.iter().map(|axis| format!("{}={}", axis.path, joined(&axis.values))).collect();
        format!("--sweep {}", text::shell_word(&group.join("; ")))
    };
    groups.map(option).collect()
}

/// The parts of a text between separators, of which those inside of brackets and double quotes do not count.
fn parts(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut quoted) = (Vec::new(), 0, 0usize, false);
    for (at, c) in text.char_indices() {
        match c {
            // An index in a path, `traffic[0]`, opens and closes like a list.
            '"' if depth > 0 => quoted = !quoted,
            _ if quoted => {}
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            _ if c == separator && depth == 0 => {
                parts.push(&text[start..at]);
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// The shortest unique name of each axis: the last key, or the whole path.
pub fn short_names(axes: &[Axis]) -> Vec<&str> {
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

fn split<'a>(text: &'a str, what: &str) -> Result<(&'a str, &'a str), InvalidOption> {
    match text.split_once('=') {
        Some((path, value)) if !path.trim().is_empty() => Ok((path.trim(), value.trim())),
        _ => Err(InvalidOption(format!("write PATH={what}, for example `traffic[0].load=60%`"))),
    }
}

fn range(text: &str, first: &str, last: &str) -> Result<impl Iterator<Item = String> + use<>, InvalidOption> {
    for end in [first, last].map(str::trim) {
        if let Err(Digits::LeadingZero(_)) = digits::whole(end) {
            return Err(InvalidOption(format!("{}: {}", digits::leading_zero(end), digits::LEADING_ZERO)));
        }
    }
    let number = |text: &str| digits::whole(text.trim()).ok().and_then(|number| u64::try_from(number).ok());
    let (Some(first), Some(last)) = (number(first), number(last)) else {
        return Err(InvalidOption(format!("`{text}` is not a range of whole numbers such as `1..5`")));
    };
    if first > last {
        return Err(InvalidOption(format!("the range `{text}` is reversed")));
    }
    if last - first >= MAX_VALUES {
        return Err(InvalidOption(format!("the range `{text}` has more than {MAX_VALUES} values")));
    }
    Ok((first..=last).map(|value| value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges() {
        let values = |text| Axes::parse(text).map(|axes| axes.0[0].values.join(" "));
        assert_eq!(values("seed=1..3,7"), Ok("1 2 3 7".to_owned()));
        assert_eq!(values("traffic[0].load = 20%, 40%"), Ok("20% 40%".to_owned()));
        assert_eq!(values("traffic[0].flows=../a.csv,b..c"), Ok("../a.csv b..c".to_owned()));
        assert_eq!(values("a=b=c"), Ok("b=c".to_owned()));
        for wrong in ["seed", "=1", "seed=", "seed=1,,2", "seed=1,1..2", "seed=3..1", "seed=1..x", "seed=0..100000"] {
            assert!(values(wrong).is_err(), "{wrong}");
        }
        for zeros in ["seed=01..3", "seed=1..03", "seed=8..010", "seed=00..3"] {
            let InvalidOption(cause) = values(zeros).expect_err(zeros);
            assert!(cause.contains("has a leading zero"), "{cause}");
        }
    }

    #[test]
    fn together() {
        let axes = Axes::parse("transport=dctcp,dctcp,cubic; network.queue = {discipline: ecn, mark: 30kB},fifo,fifo");
        let axes = axes.expect("two axes").0;
        assert_eq!(axes.iter().map(|axis| axis.together).collect::<Vec<_>>(), [false, true]);
        assert_eq!(axes[1].values, ["{discipline: ecn, mark: 30kB}", "fifo", "fifo"]);
        assert_eq!(Axes::parse("measure.links=[\"a,b;\", c],[]").map(|axes| axes.0[0].values.len()), Ok(2));
        for wrong in ["a=1,2;b=1", "a=1,2,1;b=3,4,3", "a=1;", "a=1;b", ";", "a={1,2"] {
            assert!(Axes::parse(wrong).is_err() == (wrong != "a={1,2"), "{wrong}");
        }
    }

    #[test]
    fn names_are_as_short_as_they_can_be() {
        let axes = ["seed=1", "traffic[0].load=1%", "traffic[1].load=1%", "transport.g=1"];
        let axes = axes.map(|text| Axis::parse(text, false).expect("an axis"));
        assert_eq!(short_names(&axes), ["seed", "traffic[0].load", "traffic[1].load", "g"]);
    }

    #[test]
    fn options_read_back() {
        let again = |text: &str| Axes::parse(text).map(|axes| options(&axes.0).join(" "));
        assert_eq!(again("traffic[0].load=20%,40%"), Ok("--sweep 'traffic[0].load=20%,40%'".to_owned()));
        for text in ["seed=1..5", "seed=1,2,4..6,1k", "seed=01,02,03", "seed=18446744073709551615,1"] {
            assert_eq!(again(text), Ok(format!("--sweep {text}")));
        }
        let of = |text| Axes::parse(text).expect("axes").0;
        let both = [of("seed=1,2"), of("a=1,1;b={x: 1, y: 2},3")].concat();
        assert_eq!(options(&both), ["--sweep seed=1,2", "--sweep 'a=1,1; b={x: 1, y: 2},3'"]);
        let setting = Setting::parse("transport.protocol=dctcp").expect("a setting");
        assert_eq!(setting.option(), "--set transport.protocol=dctcp");
        assert_eq!(Setting::parse("seed=3").map(|seed| seed.option()), Ok("--seed 3".to_owned()));
    }
}
