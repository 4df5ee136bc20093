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
//! `m11`: a leading zero is the width of the numbers, so both ends have as many digits then.
//! `r[1-2]m[1-2]` stands for `r1m1`, `r1m2`, `r2m1`, `r2m2`. The number of a range's names is
//! computed before any of them is made.

use std::cmp::Ordering;
use weir_document::quote;
use weir_document::scalar::Refusal;

/// Characters of a name, as many as in a label of the domain name system.
pub const MAX_NAME: usize = 63;
/// The pattern of a name, for JSON Schema.
pub const NAME_PATTERN: &str = r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$";
/// Pairs of brackets of a range: data centre, row, rack and machine.
pub const MAX_BRACKETS: usize = 4;
/// The pattern of a range of names, for JSON Schema.
pub const RANGE_PATTERN: &str = r"^[A-Za-z0-9_.-]{0,63}(\[[0-9]{1,9}-[0-9]{1,9}\][A-Za-z0-9_.-]{0,63}){0,4}$";

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

/// A name, or a range of names such as `m[1-10]` or `r[1-2]m[01-40]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameRange<'a> {
    /// The numbers in brackets, each with the text before it.
    parts: Vec<Part<'a>>,
    /// The text behind the last bracket; all of a single name.
    suffix: &'a str,
}

/// A range of numbers in brackets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part<'a> {
    /// The text before the bracket.
    before: &'a str,
    first: u64,
    last: u64,
    /// The digits of each number, zeros in front of it; 0: as many as it needs.
    width: usize,
}

impl Part<'_> {
    fn count(&self) -> u64 {
        self.last - self.first + 1
    }
}

impl<'a> NameRange<'a> {
    /// Reads a name or a range; the names that it stands for are names.
    pub fn parse(text: &'a str) -> Result<Self, Refusal> {
        if text.matches('[').count() > MAX_BRACKETS {
            let cause = format!("{} has more than {MAX_BRACKETS} ranges in it", quote(text));
            return Err(Refusal::new(cause, "write several items, with fewer ranges each"));
        }
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, behind)) = rest.split_once('[') {
            let (inside, suffix) = behind.split_once(']').ok_or_else(|| refuse(text, "has a `[` without a `]`"))?;
            let numbers = Numbers { text, before: &text[..text.len() - behind.len() - 1], inside, suffix };
            let (first, last, width) = numbers.read()?;
            parts.push(Part { before, first, last, width });
            rest = suffix;
        }
        let range = Self { parts, suffix: rest };
        // All names of a range differ only in digits: the last one is the longest.
        check_name(&range.spell(range.parts.iter().map(|part| part.last))).map(|()| range)
    }
    /// The number of its names; saturating.
    pub fn count(&self) -> u64 {
        self.parts.iter().map(Part::count).fold(1, u64::saturating_mul)
    }
    /// The names, in order: the number in the last brackets changes fastest.
    pub fn names(&self) -> impl Iterator<Item = String> {
        (0..self.count()).map(|index| self.name(index))
    }
    /// The name at this index, counted from 0.
    fn name(&self, index: u64) -> String {
        let mut rest = index;
        let mut numbers = [0; MAX_BRACKETS];
        for (number, part) in numbers.iter_mut().zip(&self.parts).rev() {
            *number = part.first + rest % part.count();
            rest /= part.count();
        }
        self.spell(numbers)
    }
    /// The name with these numbers.
    fn spell(&self, numbers: impl IntoIterator<Item = u64>) -> String {
        let mut name = String::new();
        for (number, Part { before, width, .. }) in numbers.into_iter().zip(&self.parts) {
            name.push_str(&format!("{before}{number:0width$}"));
        }
        name + self.suffix
    }
}

fn refuse(text: &str, cause: &str) -> Refusal {
    Refusal::new(format!("{} {cause}", quote(text)), "write a range as `m[1-10]`: a pair of whole numbers in brackets")
}

/// A pair of brackets, and the text around it.
struct Numbers<'a> {
    /// All of the text.
    text: &'a str,
    before: &'a str,
    inside: &'a str,
    suffix: &'a str,
}

impl Numbers<'_> {
    /// The first and the last number, and the width of both.
    fn read(&self) -> Result<(u64, u64, usize), Refusal> {
        let Self { text, before, inside, suffix } = self;
        let Some((first, last)) = inside.split_once('-') else {
            let ends = ["..", ":", "–"].into_iter().find_map(|between| inside.split_once(between));
            if let Some((first, last)) = ends {
                let meant = format!("{before}[{}-{}]{suffix}", first.trim(), last.trim());
                let meant = Some(meant).filter(|meant| check_range(meant).is_ok());
                let more = "a range has both ends, as `m[1-10]`";
                return Err(Refusal::instead(format!("{} is not a range", quote(text)), meant, more));
            }
            let one = format!("{before}{inside}{suffix}");
            return Err(match check_range(&one) {
                Ok(()) if !inside.is_empty() => Refusal::new(
                    format!("{} is not a range", quote(text)),
                    format!("write {} for the one, or both ends of a range as `m[1-10]`", quote(&one)),
                ),
                _ => refuse(text, "is not a range"),
            });
        };
        let number = |digits: &str| {
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return Err(refuse(text, "is not a range"));
            }
            // Nine digits are more machines than any limit allows and fit every integer.
            let number = digits.parse::<u64>().ok().filter(|_| digits.len() <= 9);
            number.ok_or_else(|| refuse(text, "has too large a number"))
        };
        let (from, to) = (number(first)?, number(last)?);
        let padded = |digits: &str| digits.len() > 1 && digits.starts_with('0');
        let width = if padded(first) || padded(last) { first.len() } else { 0 };
        if from > to {
            let cause = format!("the range {} is reversed", quote(text));
            return Err(self.instead(cause, (to, last), (from, first), "write the smaller number first"));
        }
        if width > 0 && first.len() != last.len() {
            let cause = format!("the numbers of {} have different widths", quote(text));
            let hint = "write both with as many digits, or both without leading zeros";
            return Err(self.instead(cause, (from, first), (to, last), hint));
        }
        Ok((from, to, width))
    }

    /// A refusal with the ranges that may be meant: both numbers as wide as one of them is. `hint` stands where none of
    /// these is a range.
    fn instead(&self, cause: String, first: (u64, &str), last: (u64, &str), hint: &str) -> Refusal {
        let padded = |(_, digits): (u64, &str)| digits.len() > 1 && digits.starts_with('0');
        let mut found: Vec<String> = Vec::new();
        for (_, digits) in [first, last] {
            let fits = last.0.checked_ilog10().map_or(1, |log| log as usize + 1) <= digits.len();
            let width = if fits && (padded(first) || padded(last)) { digits.len() } else { 0 };
            let inside = format!("{:0width$}-{:0width$}", first.0, last.0);
            let meant = format!("{}[{inside}]{}", self.before, self.suffix);
            if !found.contains(&meant) && check_range(&meant).is_ok() {
                found.push(meant);
            }
        }
        let more = if found.is_empty() { hint } else { "" };
        Refusal::instead(cause, found, more)
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
        assert_eq!(names("m[0-1]").unwrap(), ["m0", "m1"]);
        assert_eq!(names("m[00-01]").unwrap(), ["m00", "m01"]);
        assert_eq!(names("n[1-2]c[09-10].x").unwrap(), ["n1c09.x", "n1c10.x", "n2c09.x", "n2c10.x"]);
        assert_eq!(names("[1-2][1-2]").unwrap(), ["11", "12", "21", "22"]);
        assert_eq!(NameRange::parse("m[1-900000000]").unwrap().count(), 900_000_000);
        assert_eq!(NameRange::parse("[0-999999999][0-999999999][0-999999999]").unwrap().count(), u64::MAX);
        for (text, cause) in [
            ("m[1-4000000000]", "`m[1-4000000000]` has too large a number"),
            ("m[2-1]", "the range `m[2-1]` is reversed"),
            ("m[1]", "`m[1]` is not a range"),
            ("m[1-x]", "`m[1-x]` is not a range"),
            ("m[1-", "`m[1-` has a `[` without a `]`"),
            ("m[1-2][1]", "`m[1-2][1]` is not a range"),
            ("m[1-2]]", "the name `m2]` has `]` in it"),
            ("m[1-2]x[", "`m[1-2]x[` has a `[` without a `]`"),
            ("[1-2][1-2][1-2][1-2][1-2]", "`[1-2][1-2][1-2][1-2][1-2]` has more than 4 ranges in it"),
            ("c[1-03]", "the numbers of `c[1-03]` have different widths"),
            ("m 1", "the name `m 1` has ` ` in it"),
            ("a/b", "the name `a/b` has `/` in it"),
            ("-a", "the name `-a` starts with `-`"),
            ("", "a name is empty"),
        ] {
            assert_eq!(NameRange::parse(text).unwrap_err().cause, cause);
        }
    }

    #[test]
    fn ranges_that_may_be_meant() {
        for (text, hint) in [
            ("c[1-03]", "did you mean `c[1-3]` or `c[01-03]`?"),
            ("c[08-011]", "did you mean `c[08-11]` or `c[008-011]`?"),
            ("c[01-100]", "did you mean `c[1-100]` or `c[001-100]`?"),
            ("c[00-0]", "did you mean `c[00-00]` or `c[0-0]`?"),
            ("c[2-1]", "did you mean `c[1-2]`?"),
            ("c[03-1]x[1-2]", "did you mean `c[1-3]x[1-2]` or `c[01-03]x[1-2]`?"),
            ("a[1-2]c[2-1]", "did you mean `a[1-2]c[1-2]`?"),
            ("m[1..3]", "did you mean `m[1-3]`? a range has both ends, as `m[1-10]`"),
            ("m[1:3]", "did you mean `m[1-3]`? a range has both ends, as `m[1-10]`"),
            ("a[1-2]c[3]", "write `a[1-2]c3` for the one, or both ends of a range as `m[1-10]`"),
            ("-c[2-1]", "write the smaller number first"),
        ] {
            assert_eq!(NameRange::parse(text).unwrap_err().hint, hint, "{text}");
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
        fn any_text_is_a_range_or_refused(text in "\\PC{0,20}|(m?\\[[0-9]{1,2}-[0-9]{1,2}\\]){1,2}") {
            match NameRange::parse(&text) {
                Ok(range) => {
                    let names: std::collections::BTreeSet<String> = range.names().collect();
                    // `[1-11][1-11]` has `111` twice.
                    let apart = range.parts.len() < 2 || text.contains("]m") || range.parts[1].width > 0;
                    prop_assert!(!apart || names.len() as u64 == range.count());
                    prop_assert_eq!(range.names().count() as u64, range.count());
                    for name in names {
                        prop_assert!(check_name(&name).is_ok());
                    }
                }
                Err(refusal) => {
                    for meant in &refusal.instead {
                        prop_assert!(check_range(meant).is_ok(), "{}", refusal.hint);
                    }
                }
            }
        }
    }
}
