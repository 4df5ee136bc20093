//! Names: their syntax, their order, and ranges of them.
//!
//! Names are used in CSV files, in paths such as `dfs/hbase` and in file names, so they are made of
//! ASCII letters, digits, `-`, `_` and `.`, start with a letter, digit or `_`, and have at most
//! [`MAX_NAME`] characters.
//!
//! The order is the natural one: runs of digits compare by value, so `m2` comes before `m10`. Names
//! that differ only in leading zeros (`m1`, `m01`) are different names and compare by their bytes.
//!
//! Worked example: `m[8-11]` stands for `m8`, `m9`, `m10`, `m11`, and `m[08-11]` for `m08` to
//! `m11`. The number of a range's names is computed before any of them is made.

use std::cmp::Ordering;
use weir_document::quote;
use weir_document::scalar::Refusal;

/// Characters of a name, as many as in a label of the domain name system.
pub const MAX_NAME: usize = 63;
/// The pattern of a name, for JSON Schema.
pub const NAME_PATTERN: &str = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$";
/// The pattern of a range of names, for JSON Schema.
pub const RANGE_PATTERN: &str = r"^[A-Za-z0-9_.-]{0,63}(\[[0-9]{1,9}-[0-9]{1,9}\])?[A-Za-z0-9_.-]{0,63}$";

/// Refuses an invalid name.
pub fn check_name(text: &str) -> Result<(), Refusal> {
    let hint = "names are ASCII letters, digits, `-`, `_` and `.`, for example `dfs` or `m1`";
    let refuse = |cause: String| Err(Refusal::new(cause, hint));
    if text.is_empty() {
        return refuse("a name is empty".to_owned());
    }
    if text.len() > MAX_NAME {
        return refuse(format!("the name {} is longer than {MAX_NAME} characters", quote(text)));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if let Some(c) = text.chars().find(|c| !allowed(*c)) {
        return refuse(format!("the name {} has {} in it", quote(text), quote(&c.to_string())));
    }
    if text.starts_with(['-', '.']) {
        return refuse(format!("the name {} starts with {}", quote(text), quote(&text[..1])));
    }
    Ok(())
}

/// The indices `0..len` sorted by the bytes of their names, for [`find`].
pub fn index_by_name<'a>(len: usize, name: impl Fn(u32) -> &'a str) -> Vec<u32> {
    let mut index: Vec<u32> = (0..len as u32).collect();
    index.sort_by_key(|place| name(*place));
    index
}

/// The index with this name in a result of [`index_by_name`].
pub fn find<'a>(index: &[u32], wanted: &str, name: impl Fn(u32) -> &'a str) -> Option<u32> {
    index.binary_search_by_key(&wanted, |place| name(*place)).ok().map(|i| index[i])
}

/// The natural order: runs of digits by value, everything else by bytes.
pub fn natural_order(a: &str, b: &str) -> Ordering {
    let (mut x, mut y) = (a.as_bytes(), b.as_bytes());
    while let (Some(first_x), Some(first_y)) = (x.first(), y.first()) {
        let order = if first_x.is_ascii_digit() && first_y.is_ascii_digit() {
            let (value_x, value_y) = (take_digits(&mut x), take_digits(&mut y));
            // Without leading zeros the longer number is the larger one.
            value_x.len().cmp(&value_y.len()).then(value_x.cmp(value_y))
        } else {
            x = &x[1..];
            y = &y[1..];
            first_x.cmp(first_y)
        };
        if order.is_ne() {
            return order;
        }
    }
    x.len().cmp(&y.len()).then_with(|| a.cmp(b))
}

/// Cuts a run of digits off the front and gives it without leading zeros.
fn take_digits<'a>(text: &mut &'a [u8]) -> &'a [u8] {
    let end = text.iter().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    *text = rest;
    let zeros = digits.iter().position(|b| *b != b'0').unwrap_or(digits.len());
    &digits[zeros..]
}

/// A name, or a range of names such as `m[1-10]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameRange<'a> {
    text: &'a str,
    range: Option<(&'a str, u64, u64, usize, &'a str)>,
}

impl<'a> NameRange<'a> {
    /// Reads a name or a range; the names that it stands for are names.
    pub fn parse(text: &'a str) -> Result<Self, Refusal> {
        let Some((prefix, rest)) = text.split_once('[') else {
            return check_name(text).map(|()| Self { text, range: None });
        };
        let refuse = |cause: &str| {
            Refusal::new(format!("{} {cause}", quote(text)), "write a range as `m[1-10]`: one pair of whole numbers")
        };
        let (inside, suffix) = rest.split_once(']').ok_or_else(|| refuse("has a `[` without a `]`"))?;
        let Some((first, last)) = inside.split_once('-') else {
            let one = format!("{prefix}{inside}{suffix}");
            return Err(match check_name(&one) {
                Ok(()) if !inside.is_empty() => Refusal::new(
                    format!("{} is not a range", quote(text)),
                    format!("write {} for the one, or both ends of a range as `m[1-10]`", quote(&one)),
                ),
                _ => refuse("is not a range"),
            });
        };
        let number = |digits: &str| {
            // Nine digits are more machines than any limit allows and fit every integer.
            let fine = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            if !fine {
                return Err(refuse("is not a range"));
            }
            digits.parse::<u64>().ok().filter(|_| digits.len() <= 9).ok_or_else(|| refuse("has too large a number"))
        };
        // A suffix with another bracket is refused below, as a name with `[` in it.
        let (from, to) = (number(first)?, number(last)?);
        if from > to {
            return Err(Refusal::new(
                format!("the range {} is reversed", quote(text)),
                format!("write `{prefix}[{last}-{first}]{suffix}`"),
            ));
        }
        let width = if first.starts_with('0') { first.len() } else { 0 };
        let range = Self { text, range: Some((prefix, from, to, width, suffix)) };
        // All names of a range differ only in digits: the last one is the longest.
        check_name(&range.name(to)).map(|()| range)
    }
    /// The number of its names.
    pub fn count(&self) -> u64 {
        self.range.map_or(1, |(_, from, to, ..)| to - from + 1)
    }
    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let (from, to) = self.range.map_or((0, 0), |(_, from, to, ..)| (from, to));
        (from..=to).map(|number| self.name(number))
    }
    fn name(&self, number: u64) -> String {
        match self.range {
            Some((prefix, _, _, width, suffix)) => format!("{prefix}{number:0width$}{suffix}"),
            None => self.text.to_owned(),
        }
    }
}

/// Refuses a text that is neither a name nor a range.
pub fn check_range(text: &str) -> Result<(), Refusal> {
    NameRange::parse(text).map(drop)
}

/// Names for a message: the first few in backquotes, then how many more.
pub fn list_names<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 5;
    let count = names.len();
    let mut text = names.take(SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if count > SHOWN {
        text.push_str(&format!(" and {} more", count - SHOWN));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_sort_by_value() {
        let mut names =
            ["m10", "m2", "m1", "m01", "a", "m2b", "m2a", "m", "m00000000000000000000000003", "r1.m10", "r1.m9"];
        names.sort_by(|a, b| natural_order(a, b));
        assert_eq!(
            names,
            ["a", "m", "m01", "m1", "m2", "m2a", "m2b", "m00000000000000000000000003", "m10", "r1.m9", "r1.m10"]
        );
    }

    #[test]
    fn ranges() {
        let names = |text: &str| NameRange::parse(text).map(|range| range.names().collect::<Vec<_>>());
        assert_eq!(names("m[8-10]").unwrap(), ["m8", "m9", "m10"]);
        assert_eq!(names("m[08-10]x").unwrap(), ["m08x", "m09x", "m10x"]);
        assert_eq!(names("m1").unwrap(), ["m1"]);
        assert_eq!(NameRange::parse("m[1-900000000]").unwrap().count(), 900_000_000);
        for (text, cause) in [
            ("m[1-4000000000]", "`m[1-4000000000]` has too large a number"),
            ("m[2-1]", "the range `m[2-1]` is reversed"),
            ("m[1]", "`m[1]` is not a range"),
            ("m[1-x]", "`m[1-x]` is not a range"),
            ("m[1-", "`m[1-` has a `[` without a `]`"),
            ("m[1-2][1-2]", "the name `m2[1-2]` has `[` in it"),
            ("m 1", "the name `m 1` has ` ` in it"),
            ("a/b", "the name `a/b` has `/` in it"),
            ("-a", "the name `-a` starts with `-`"),
            ("", "a name is empty"),
        ] {
            assert_eq!(NameRange::parse(text).unwrap_err().cause, cause);
        }
    }

    proptest! {
        #[test]
        fn the_order_is_total(a in "[a-b0-2]{0,6}", b in "[a-b0-2]{0,6}", c in "[a-b0-2]{0,6}") {
            prop_assert_eq!(natural_order(&a, &b), natural_order(&b, &a).reverse());
            prop_assert_eq!(natural_order(&a, &b).is_eq(), a == b);
            if natural_order(&a, &b).is_le() && natural_order(&b, &c).is_le() {
                prop_assert!(natural_order(&a, &c).is_le());
            }
        }
        #[test]
        fn any_text_is_a_range_or_refused(text in "\\PC{0,20}|m\\[[0-9]{1,3}-[0-9]{1,3}\\]") {
            if let Ok(range) = NameRange::parse(&text) {
                prop_assert_eq!(range.names().count() as u64, range.count());
            }
        }
    }
}
