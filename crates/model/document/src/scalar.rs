//! Kinds of scalars: the allowed texts of a single value, and reading it.
//!
//! A kind is data, so that the check, the reader and the JSON Schema cannot disagree. The functions
//! here are called by readers after the check: `scalar::rate(text, ..)` accepts exactly the texts
//! of [`Scalar::Rate`].
//!
//! A hint that suggests another text is shown only if the kind accepts that text: [`Scalar::check`] reads it again.
//!
//! Worked example: `Scalar::Rate { unlimited: true, zero: false }` accepts `1.5Gb/s` and
//! `unlimited`, refuses `10` ("has no unit") and `0b/s` ("is zero"), and its schema pattern agrees.
//! It refuses `07Gb/s` and suggests `7Gb/s`, but suggests nothing for `00Gb/s`.

use crate::diagnostic::quote;
use std::str::FromStr;
use weir_units::digits::{self, Digits};
use weir_units::{Bandwidth, Bytes, Duration, QuantityError, Weight};

/// The reason why a text is refused, and a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The cause.
    pub cause: String,
    /// The hint.
    pub hint: String,
    /// The complete texts that the hint suggests in place of the refused one.
    pub instead: Vec<String>,
}

impl Refusal {
    /// A refusal from two clauses.
    pub fn new(cause: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { cause: cause.into(), hint: hint.into(), instead: Vec::new() }
    }
    /// A refusal that suggests complete texts in place of the refused one: its hint is "did you mean `a` or `b`?" and
    /// `more`, which stands alone if there is no suggestion. The caller has checked the texts, or [`Scalar::check`]
    /// will.
    pub fn instead<T: Into<String>>(
        cause: impl Into<String>,
        texts: impl IntoIterator<Item = T>,
        more: impl Into<String>,
    ) -> Self {
        let instead: Vec<String> = texts.into_iter().map(Into::into).collect();
        let more = more.into();
        let hint = match (did_you_mean(&instead), &*more) {
            (None, _) => more,
            (Some(question), "") => question,
            (Some(question), _) => format!("{question} {more}"),
        };
        Self { cause: cause.into(), hint, instead }
    }
    /// The same refusal as one of a longer text, of which the refused text is a part: its suggestions with the text
    /// `before` and `behind` the part.
    #[must_use]
    pub fn within(self, before: &str, behind: &str) -> Self {
        let more = did_you_mean(&self.instead).and_then(|question| self.hint.strip_prefix(&*question));
        let more = more.unwrap_or(&self.hint).trim_start().to_owned();
        Self::instead(self.cause, self.instead.iter().map(|text| format!("{before}{text}{behind}")), more)
    }
    /// A refusal of `text` for a leading zero in it; `meant` is the text without it.
    pub fn leading_zero(text: &str, meant: impl Into<String>) -> Self {
        Self::instead(format!("{} has a leading zero", quote(text)), [meant], digits::LEADING_ZERO)
    }
}

/// The question for some texts; `None` without one.
fn did_you_mean(texts: &[String]) -> Option<String> {
    let texts = texts.iter().map(|text| quote(text)).collect::<Vec<_>>();
    (!texts.is_empty()).then(|| format!("did you mean {}?", texts.join(" or ")))
}

impl From<QuantityError> for Refusal {
    fn from(error: QuantityError) -> Self {
        Self { cause: error.cause, hint: error.hint, instead: error.instead }
    }
}

/// The kind of a single value.
#[derive(Debug, Clone, Copy)]
pub enum Scalar {
    /// A rate with a unit.
    Rate {
        /// Whether the word `unlimited` is accepted.
        unlimited: bool,
        /// Whether zero is accepted.
        zero: bool,
    },
    /// A size with a unit, above zero.
    Bytes,
    /// A time with a unit.
    Duration {
        /// Whether zero is accepted.
        zero: bool,
    },
    /// A weight.
    Weight {
        /// The largest, in whole weights.
        most: u32,
    },
    /// A whole number in a range, both ends included.
    Integer {
        /// The name of the counted things, with an article, for messages.
        what: &'static str,
        /// The smallest.
        min: i128,
        /// The largest.
        max: i128,
    },
    /// A decimal number in a range, both ends included, in millionths.
    Decimal {
        /// Its name with an article, for messages.
        what: &'static str,
        /// The smallest, in millionths.
        min: u64,
        /// The largest, in millionths.
        max: u64,
    },
    /// A percentage above zero and below 100%, in millionths of the whole.
    Percent {
        /// Its name with an article, for messages.
        what: &'static str,
        /// The reason why it cannot be the whole or more: a clause.
        too_much: &'static str,
    },
    /// A whole number in a range, both ends included, or a name of one.
    Named {
        /// The name of the numbers, with an article, for messages.
        what: &'static str,
        /// The smallest.
        min: i128,
        /// The largest.
        max: i128,
        /// The names, none of which is a number.
        names: &'static [(&'static str, i128)],
    },
    /// One of a few words.
    Words {
        /// The subject of the choice, with an article, for messages.
        what: &'static str,
        /// The words.
        words: &'static [&'static str],
    },
    /// Any text that is not empty.
    Text {
        /// Its name with an article, for messages.
        what: &'static str,
    },
    /// A text with a syntax of its own.
    Checked {
        /// Its name with an article, for messages.
        what: &'static str,
        /// Refuses an invalid text.
        check: fn(&str) -> Result<(), Refusal>,
        /// The same as a regular expression for the schema, as near as possible.
        pattern: &'static str,
        /// A valid example.
        example: &'static str,
    },
}

/// No number or unit is longer; the text of a longer scalar is not worth repeating in a message.
const LONGEST_QUANTITY: usize = 60;

impl Scalar {
    /// Refuses a text that is not of this kind. The hint suggests no text that is not of it either.
    pub fn check(&self, text: &str) -> Result<(), Refusal> {
        self.accept(text).map_err(|mut refusal| {
            let suggested = refusal.instead.len();
            if suggested == 0 {
                refusal.instead = self.readings_of_commas(text);
                if let Some(question) = did_you_mean(&refusal.instead) {
                    refusal.hint = question;
                }
                return refusal;
            }
            refusal.instead.retain(|text| self.accept(text).is_ok());
            if refusal.instead.len() < suggested {
                refusal.hint = did_you_mean(&refusal.instead).unwrap_or_else(|| self.hint());
            }
            refusal
        })
    }
    /// The accepted texts that a number with commas may stand for.
    fn readings_of_commas(&self, text: &str) -> Vec<String> {
        match self {
            Self::Text { .. } | Self::Words { .. } => Vec::new(),
            _ => digits::comma_readings(text).into_iter().filter(|reading| self.accept(reading).is_ok()).collect(),
        }
    }
    fn accept(&self, text: &str) -> Result<(), Refusal> {
        match *self {
            Self::Rate { unlimited, zero } => rate(text, unlimited, zero).map(drop),
            Self::Bytes => size(text).map(drop),
            Self::Duration { zero } => time(text, zero).map(drop),
            Self::Weight { most } => weight_up_to(text, most).map(drop),
            Self::Integer { what, min, max } => integer(text, what, min, max).map(drop),
            Self::Decimal { what, min, max } => decimal(text, what, min, max).map(drop),
            Self::Named { what, min, max, names } => named(text, what, min, max, names).map(drop),
            Self::Percent { what, too_much } => percent(text, what, too_much).map(drop),
            Self::Words { what, words } => word(text, what, words).map(drop),
            Self::Text { what } if text.is_empty() => Err(Refusal::new(format!("{what} is empty"), "write one")),
            Self::Text { .. } => Ok(()),
            Self::Checked { check, .. } => check(text),
        }
    }
    /// Its name with an article: `a rate`.
    pub fn what(&self) -> &'static str {
        match *self {
            Self::Rate { .. } => "a rate",
            Self::Bytes => "a size",
            Self::Duration { .. } => "a time",
            Self::Weight { .. } => "a weight",
            Self::Integer { what, .. }
            | Self::Decimal { what, .. }
            | Self::Named { what, .. }
            | Self::Percent { what, .. }
            | Self::Words { what, .. }
            | Self::Text { what }
            | Self::Checked { what, .. } => what,
        }
    }
    /// A valid example.
    pub fn example(&self) -> String {
        match *self {
            Self::Rate { .. } => "10Gb/s".to_owned(),
            Self::Bytes => "80kB".to_owned(),
            Self::Duration { .. } => "200us".to_owned(),
            Self::Weight { .. } => "2".to_owned(),
            Self::Integer { min, max, .. } | Self::Named { min, max, .. } => format!("{}", 1.clamp(min, max)),
            Self::Decimal { min, max, .. } => millionths(MILLION.clamp(min, max)),
            Self::Percent { .. } => "60%".to_owned(),
            Self::Words { words, .. } => words.first().copied().unwrap_or_default().to_owned(),
            Self::Text { .. } => "some text".to_owned(),
            Self::Checked { example, .. } => example.to_owned(),
        }
    }
    /// The accepted texts, as a hint.
    fn hint(&self) -> String {
        match *self {
            Self::Integer { what, min, max } => format!("{what} is a whole number from {min} to {max}"),
            Self::Named { what, min, max, names } => numbers_and_names(what, min, max, names),
            Self::Decimal { what, min, max } => numbers(what, min, max),
            _ => format!("for example `{}`", self.example()),
        }
    }
}

fn quantity<T: FromStr<Err = QuantityError>>(text: &str, what: &str, example: &str) -> Result<T, Refusal> {
    if text.len() > LONGEST_QUANTITY {
        return Err(Refusal::new(
            format!("{} is too long for {what}", quote(text)),
            format!("for example `{example}`"),
        ));
    }
    text.parse().map_err(Refusal::from)
}

/// Reads a rate; `unlimited` is [`Bandwidth::UNLIMITED`] where allowed.
pub fn rate(text: &str, unlimited: bool, zero: bool) -> Result<Bandwidth, Refusal> {
    if text == "unlimited" {
        return match unlimited {
            true => Ok(Bandwidth::UNLIMITED),
            false => Err(Refusal::new("`unlimited` is not allowed here", "write a rate, for example `10Gb/s`")),
        };
    }
    let rate: Bandwidth = quantity(text, "a rate", "10Gb/s")?;
    if rate == Bandwidth::ZERO && !zero {
        return Err(Refusal::new(format!("{} is zero", quote(text)), "write a rate above zero, or leave the key out"));
    }
    Ok(rate)
}

/// Reads a size above zero.
pub fn size(text: &str) -> Result<Bytes, Refusal> {
    let size: Bytes = quantity(text, "a size", "80kB")?;
    if size == Bytes::ZERO {
        return Err(Refusal::new(format!("{} is zero", quote(text)), "write a size above zero, for example `80kB`"));
    }
    Ok(size)
}

/// Reads a time.
pub fn time(text: &str, zero: bool) -> Result<Duration, Refusal> {
    let time: Duration = quantity(text, "a time", "200us")?;
    if time.is_zero() && !zero {
        return Err(Refusal::new(format!("{} is zero", quote(text)), "write a time above zero, for example `200us`"));
    }
    Ok(time)
}

/// The largest weight of all, [`Weight::MAX`], in whole weights.
pub const MAX_WEIGHT: u32 = Weight::MAX.thousandths() / 1_000;

/// Reads a weight.
pub fn weight(text: &str) -> Result<Weight, Refusal> {
    quantity(text, "a weight", "2")
}

/// Reads a weight of at most `most`.
pub fn weight_up_to(text: &str, most: u32) -> Result<Weight, Refusal> {
    let weight = weight(text)?;
    if weight.thousandths() > most.saturating_mul(1_000) {
        let hint = "only ratios of weights count: write smaller ones for all";
        return Err(Refusal::new(format!("{} is above the largest weight here, {most}", quote(text)), hint));
    }
    Ok(weight)
}

/// Reads a whole number from `min` to `max`, written in decimal without a unit.
pub fn integer(text: &str, what: &str, min: i128, max: i128) -> Result<i128, Refusal> {
    let refuse = |cause: &str| {
        Refusal::new(format!("{} {cause} {what}", quote(text)), format!("{what} is a whole number from {min} to {max}"))
    };
    let (sign, number) = match text.strip_prefix('-') {
        Some(number) => ("-", number),
        None => ("", text),
    };
    let value = match digits::whole(number) {
        Ok(value) => i128::try_from(value).ok().map(|value| if sign.is_empty() { value } else { -value }),
        Err(Digits::NotDigits) => return Err(refuse("is not")),
        Err(Digits::LeadingZero(meant)) => return Err(Refusal::leading_zero(text, format!("{sign}{meant}"))),
        Err(Digits::TooLarge) => None,
    };
    value.filter(|value| (min..=max).contains(value)).ok_or_else(|| refuse("is out of range for"))
}

/// Reads a whole number from `min` to `max`, or a name of one.
pub fn named(text: &str, what: &str, min: i128, max: i128, names: &[(&str, i128)]) -> Result<i128, Refusal> {
    if let Some((_, value)) = names.iter().find(|(name, _)| *name == text) {
        return Ok(*value);
    }
    if text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        return integer(text, what, min, max);
    }
    let near = crate::nearest::nearest(text, names.iter().map(|(name, _)| *name));
    Err(Refusal::instead(format!("{} is not {what}", quote(text)), near, numbers_and_names(what, min, max, names)))
}

fn numbers_and_names(what: &str, min: i128, max: i128, names: &[(&str, i128)]) -> String {
    let list = names.iter().map(|(name, _)| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    format!("{what} is a whole number from {min} to {max}, or one of {list}")
}

fn numbers(what: &str, min: u64, max: u64) -> String {
    format!("{what} is a number from {} to {}", millionths(min), millionths(max))
}

/// The unit of decimal numbers: six digits behind the point.
pub const MILLION: u64 = 1_000_000;

/// A number of millionths as people write it.
fn millionths(value: u64) -> String {
    let (whole, part) = (value / MILLION, value % MILLION);
    let text = format!("{whole}.{part:06}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Digits with at most one point, as millionths.
fn parse_millionths(text: &str) -> Result<u64, Digits> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let point_is_fine = !text.contains('.') || !part.is_empty();
    if !point_is_fine || whole.len() > 12 || part.len() > 6 || !part.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Digits::NotDigits);
    }
    let whole = digits::whole(whole).map_err(|error| match error {
        Digits::LeadingZero(meant) => Digits::LeadingZero(text.replacen(whole, &meant, 1)),
        other => other,
    })?;
    let part: u64 = format!("{part:0<6}").parse().map_err(|_| Digits::NotDigits)?;
    // Twelve digits times a million fit.
    Ok(whole as u64 * MILLION + part)
}

/// Reads a decimal number of at most six digits behind the point, in millionths, from `min` to
/// `max`.
pub fn decimal(text: &str, what: &str, min: u64, max: u64) -> Result<u64, Refusal> {
    let hint = || numbers(what, min, max);
    match parse_millionths(text) {
        Err(Digits::LeadingZero(meant)) => Err(Refusal::leading_zero(text, meant)),
        Err(_) => Err(Refusal::new(format!("{} is not {what}", quote(text)), hint())),
        Ok(value) if !(min..=max).contains(&value) => {
            Err(Refusal::new(format!("{} is out of range for {what}", quote(text)), hint()))
        }
        Ok(value) => Ok(value),
    }
}

/// Reads a percentage above zero and below 100%, such as `60%` or `62.5%`, in millionths of the
/// whole.
pub fn percent(text: &str, what: &str, too_much: &str) -> Result<u64, Refusal> {
    let example = "for example `60%`";
    let value = match text.strip_suffix('%').map(|number| parse_millionths(number.trim_end())) {
        Some(Ok(value)) => value,
        Some(Err(Digits::LeadingZero(meant))) => return Err(Refusal::leading_zero(text, format!("{meant}%"))),
        Some(Err(_)) => return Err(Refusal::new(format!("{} is not {what}", quote(text)), example)),
        None => {
            let meant = parse_millionths(text).ok().map(|value| match value {
                // A part of one.
                0..MILLION => format!("{}%", millionths(value * 100)),
                _ => format!("{text}%"),
            });
            let more = if meant.is_some() { "write it as a percentage" } else { example };
            return Err(Refusal::instead(format!("{} is not {what}", quote(text)), meant, more));
        }
    };
    if value % 100 != 0 {
        return Err(Refusal::new(format!("{} is finer than a ten-thousandth of a per cent", quote(text)), example));
    }
    let value = value / 100;
    if value == 0 {
        return Err(Refusal::new(format!("{} is zero", quote(text)), format!("write more than nothing, {example}")));
    }
    if value >= MILLION {
        return Err(Refusal::new(
            format!("{} is {what} of 100% or more: {too_much}", quote(text)),
            format!("write less than `100%`, {example}"),
        ));
    }
    Ok(value)
}

/// Reads one of `words` and returns its index among them.
pub fn word(text: &str, what: &str, words: &[&str]) -> Result<usize, Refusal> {
    words.iter().position(|word| *word == text).ok_or_else(|| {
        let list = words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
        let near = crate::nearest::nearest(text, words.iter().copied());
        let more = format!("{} {list}", if near.is_some() { "it is one of" } else { "write one of" });
        Refusal::instead(format!("{} is not {what}", quote(text)), near, more)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(scalar: Scalar, text: &str) -> String {
        let refusal = scalar.check(text).expect_err(text);
        assert!(!refusal.hint.is_empty());
        refusal.cause
    }

    #[test]
    fn accepts_and_refuses() {
        let rate = Scalar::Rate { unlimited: true, zero: false };
        assert_eq!(rate.check("1.5Gb/s"), Ok(()));
        assert_eq!(rate.check("unlimited"), Ok(()));
        assert_eq!(refusal(rate, "0b/s"), "`0b/s` is zero");
        assert_eq!(refusal(rate, "10"), "`10` has no unit");
        assert!(refusal(rate, &"9".repeat(100)).ends_with("…` is too long for a rate"));
        let dscp = Scalar::Integer { what: "a DSCP value", min: 0, max: 63 };
        assert_eq!(dscp.check("63"), Ok(()));
        assert_eq!(refusal(dscp, "64"), "`64` is out of range for a DSCP value");
        assert_eq!(refusal(dscp, "-1"), "`-1` is out of range for a DSCP value");
        assert_eq!(refusal(dscp, "0x1"), "`0x1` is not a DSCP value");
        assert_eq!(refusal(dscp, "007"), "`007` has a leading zero");
        assert_eq!(dscp.check("007").unwrap_err().instead, ["7"]);
        assert_eq!(refusal(dscp, &"9".repeat(50)), format!("`{}` is out of range for a DSCP value", "9".repeat(50)));
        let words = Scalar::Words { what: "a sharing rule", words: &["add", "fill"] };
        assert_eq!(
            word("fil", "a sharing rule", &["add", "fill"]).unwrap_err().hint,
            "did you mean `fill`? it is one of `add`, `fill`"
        );
        assert_eq!(refusal(words, ""), "`` is not a sharing rule");
    }

    #[test]
    fn decimals_and_percentages() {
        let gain = |text: &str| decimal(text, "a gain", 1, MILLION);
        assert_eq!(gain("0.0625"), Ok(62_500));
        assert_eq!(gain("1"), Ok(1_000_000));
        assert_eq!(gain("0.000001"), Ok(1));
        for text in ["", ".", "1.", ".5", "0.0000001", "1e3", "-1", "1/16", "0x1"] {
            assert_eq!(gain(text).unwrap_err().cause, format!("`{text}` is not a gain"));
        }
        assert_eq!(gain("1.1").unwrap_err().hint, "a gain is a number from 0.000001 to 1");
        let load = |text: &str| percent(text, "a load", "the links do not carry it");
        assert_eq!(load("60%"), Ok(600_000));
        assert_eq!(load("62.5 %"), Ok(625_000));
        assert_eq!(load("99.9999%"), Ok(999_999));
        assert_eq!(load("100%").unwrap_err().cause, "`100%` is a load of 100% or more: the links do not carry it");
        assert_eq!(load("0%").unwrap_err().cause, "`0%` is zero");
        assert_eq!(load("0.6").unwrap_err().hint, "did you mean `60%`? write it as a percentage");
        assert_eq!(load("62.5").unwrap_err().instead, ["62.5%"]);
        assert!(load("0.00001%").is_err());
    }

    #[test]
    fn a_leading_zero_is_refused_in_every_number() {
        let kinds = [
            (Scalar::Rate { unlimited: true, zero: true }, "07Gb/s", "7Gb/s"),
            (Scalar::Bytes, "080 kB", "80kB"),
            (Scalar::Duration { zero: false }, "00.5ms", "0.5ms"),
            (Scalar::Weight { most: 10 }, "02", "2"),
            (Scalar::Integer { what: "a number", min: -9, max: 99 }, "-07", "-7"),
            (Scalar::Named { what: "a number", min: 0, max: 99, names: &[("A", 1)] }, "046", "46"),
            (Scalar::Decimal { what: "a factor", min: 1, max: 10 * MILLION }, "01.5", "1.5"),
            (Scalar::Percent { what: "a load", too_much: "" }, "060%", "60%"),
        ];
        for (scalar, text, instead) in kinds {
            let refusal = scalar.check(text).expect_err(text);
            assert_eq!(refusal.cause, format!("`{text}` has a leading zero"));
            assert_eq!(refusal.hint, format!("did you mean `{instead}`? {}", digits::LEADING_ZERO));
            assert_eq!(refusal.instead, [instead]);
        }
    }

    /// A text that would be refused as well is not suggested.
    #[test]
    fn suggestions_are_accepted() {
        for (scalar, text, hint) in [
            (Scalar::Rate { unlimited: false, zero: false }, "00Gb/s", "for example `10Gb/s`"),
            (Scalar::Weight { most: 10 }, "011", "for example `2`"),
            (
                Scalar::Integer { what: "a DSCP value", min: 0, max: 63 },
                "099",
                "a DSCP value is a whole number from 0 to 63",
            ),
            (Scalar::Decimal { what: "a gain", min: 1, max: MILLION }, "02", "a gain is a number from 0.000001 to 1"),
            (Scalar::Percent { what: "a load", too_much: "" }, "100", "for example `60%`"),
            (Scalar::Bytes, "0k", "for example `80kB`"),
        ] {
            let refusal = scalar.check(text).expect_err(text);
            assert_eq!((&*refusal.hint, refusal.instead.len()), (hint, 0), "{text}");
        }
        // Of two meanings one is left.
        let even = |text: &str| match text {
            "2" => Ok(()),
            _ => Err(Refusal::instead("odd", ["1", "2"], "")),
        };
        let scalar = Scalar::Checked { what: "an even number", check: even, pattern: "", example: "4" };
        let refusal = scalar.check("3").unwrap_err();
        assert_eq!((&*refusal.hint, refusal.instead), ("did you mean `2`?", vec!["2".to_owned()]));
    }

    #[test]
    fn names_of_numbers() {
        const NAMES: &[(&str, i128)] = &[("CS5", 40), ("AF31", 26)];
        let read = |text: &str| named(text, "a DSCP value", 0, 63, NAMES);
        assert_eq!((read("AF31"), read("26"), read("CS5")), (Ok(26), Ok(26), Ok(40)));
        let all = "a DSCP value is a whole number from 0 to 63, or one of `CS5`, `AF31`";
        for (text, cause, hint) in [
            ("af31", "is not a DSCP value", format!("did you mean `AF31`? {all}")),
            ("best", "is not a DSCP value", all.to_owned()),
            ("64", "is out of range for a DSCP value", "a DSCP value is a whole number from 0 to 63".to_owned()),
        ] {
            let refusal = read(text).unwrap_err();
            assert_eq!((refusal.cause, refusal.hint), (format!("`{text}` {cause}"), hint));
        }
    }
}
