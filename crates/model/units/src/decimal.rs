//! Exact decimal numbers with a unit: the common parser of all quantities.
//!
//! Problem: `1.5Gb/s` must become exactly 1,500,000,000 bit/s. Floating-point arithmetic would
//! round some rates, and the sum of shares would no longer equal the capacity. Approach: the digits
//! are parsed as an integer with a number of decimals, and multiplied by the unit in 128 bits. A
//! remaining fraction is an error.
//!
//! People write units in more ways than are accepted. Those that [`crate::aliases`] has are refused with a whole value
//! of the same amount that this parser accepts, since a unit that only looks alike (`kb/s` for `KB/s`) is another
//! amount.
//!
//! Worked example: `10KB/s` is refused, and `10kB/s` suggested; for `10mbps` both `10Mb/s` and `10MB/s` are, since `tc`
//! means bytes by it.

use crate::aliases::Alias;
use crate::digits::{self, Digits};
use std::fmt;

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct QuantityError {
    /// The cause, in one clause without a full stop.
    pub cause: String,
    /// The correction.
    pub hint: String,
    /// The texts that `hint` suggests in place of the refused one; each is read as a quantity of the same kind.
    pub instead: Vec<String>,
}

impl QuantityError {
    pub(crate) fn new(cause: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { cause: cause.into(), hint: hint.into(), instead: Vec::new() }
    }
    /// A refusal of `text` for a leading zero; `meant` is the text without it.
    pub(crate) fn leading_zero(text: &str, meant: String) -> Self {
        let hint = format!("did you mean `{meant}`? {}", digits::LEADING_ZERO);
        Self { instead: vec![meant], ..Self::new(digits::leading_zero(text), hint) }
    }
}

/// A unit: its spelling, and its size in base units.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) spelling: &'static str,
    pub(crate) factor: u64,
}

pub(crate) const fn unit(spelling: &'static str, factor: u64) -> Unit {
    Unit { spelling, factor }
}

/// A kind of quantity.
pub(crate) struct Quantity {
    /// Its name, for messages.
    pub(crate) what: &'static str,
    /// A valid example.
    pub(crate) example: &'static str,
    /// The accepted units; the first ones, ascending, are printed.
    pub(crate) units: &'static [Unit],
    /// The number of units that are printed.
    pub(crate) printed: usize,
    /// The largest value.
    pub(crate) most: u64,
    /// The meanings of a unit that is not accepted, the likeliest first.
    pub(crate) aliases: fn(&str) -> Vec<Alias>,
}

/// A decimal number and the text behind it.
struct Number<'a> {
    whole: &'a str,
    fraction: &'a str,
    unit: &'a str,
}

impl<'a> Number<'a> {
    fn split(text: &'a str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, rest) = text.split_at(end);
        let (whole, fraction) = match number.split_once('.') {
            Some((whole, fraction)) if !fraction.is_empty() && !fraction.contains('.') => (whole, fraction),
            Some(_) => return None,
            None => (number, ""),
        };
        // 20 digits hold any u64, and 20 + 12 digits fit into u128.
        let fits = !whole.is_empty() && whole.len() <= 20 && fraction.len() <= 12;
        fits.then(|| Self { whole, fraction, unit: rest.trim() })
    }
    /// All digits as a whole number.
    fn digits(&self) -> Option<u128> {
        format!("{}{}", self.whole, self.fraction).parse().ok()
    }
    /// The number of base units, `multiplier / divisor` of them for each unit; `None` if it is not whole.
    fn times(&self, multiplier: u64, divisor: u64) -> Option<u128> {
        let scale = 10u128.pow(self.fraction.len() as u32) * u128::from(divisor);
        // 32 digits and a u64 may exceed 128 bits.
        let product = self.digits()?.checked_mul(u128::from(multiplier))?;
        (product % scale == 0).then_some(product / scale)
    }
    /// The number as it is written, but for leading zeros, with a unit.
    fn with_unit(&self, unit: &str) -> String {
        let whole = self.whole.trim_start_matches('0');
        let whole = if whole.is_empty() { "0" } else { whole };
        let point = if self.fraction.is_empty() { "" } else { "." };
        format!("{whole}{point}{}{unit}", self.fraction)
    }
}

impl Quantity {
    /// Parses a number with one of the units, in base units.
    pub(crate) fn parse(&self, text: &str) -> Result<u64, QuantityError> {
        let (what, example) = (self.what, self.example);
        let text = text.trim();
        if text.starts_with('-') {
            return Err(QuantityError::new(
                format!("`{text}` is negative"),
                format!("a {what} is zero or more, for example `{example}`"),
            ));
        }
        let Some(number) = Number::split(text) else {
            return Err(QuantityError::new(
                format!("`{text}` is not a {what}"),
                format!("write a decimal number and a unit, for example `{example}`"),
            ));
        };
        if number.unit.is_empty() {
            return Err(QuantityError::new(
                format!("`{text}` has no unit"),
                format!("write the unit, for example `{example}`; known units are {}", self.spellings()),
            ));
        }
        // The Greek letter looks like the micro sign, which keyboards have.
        let spelling = number.unit.replace('\u{3bc}', "\u{b5}");
        let Some(unit) = self.units.iter().find(|unit| unit.spelling == spelling) else {
            return Err(self.unknown_unit(text, &number));
        };
        if let Err(Digits::LeadingZero(_)) = digits::whole(number.whole) {
            return Err(QuantityError::leading_zero(text, number.with_unit(unit.spelling)));
        }
        let Some(value) = number.times(unit.factor, 1) else {
            return Err(QuantityError::new(
                format!("`{text}` is finer than the smallest unit, {}", self.units[0].spelling),
                format!("use fewer decimals, for example `{example}`"),
            ));
        };
        match u64::try_from(value) {
            Ok(value) if value <= self.most => Ok(value),
            Ok(_) => Err(QuantityError::new(
                format!("`{text}` is above the largest {what}, {}", self.print(self.most)),
                format!("for example `{example}`"),
            )),
            Err(_) => Err(QuantityError::new(
                format!("`{text}` is too large for a {what}"),
                format!("for example `{example}`"),
            )),
        }
    }

    fn spellings(&self) -> String {
        self.units.iter().map(|unit| unit.spelling).collect::<Vec<_>>().join(", ")
    }

    /// The refusal of a unit, with the values that may be meant.
    fn unknown_unit(&self, text: &str, number: &Number<'_>) -> QuantityError {
        let (mut instead, mut shown) = (Vec::new(), Vec::new());
        for Alias { multiplier, divisor, note } in (self.aliases)(number.unit) {
            let Some(meant) = self.instead(number, multiplier, divisor).filter(|meant| !instead.contains(meant)) else {
                continue;
            };
            let note = if note.is_empty() { String::new() } else { format!(" ({note})") };
            shown.push(format!("`{meant}`{note}"));
            instead.push(meant);
        }
        for reading in digits::comma_readings(text) {
            let texts = match self.parse(&reading) {
                Ok(_) => vec![reading],
                Err(refused) => refused.instead,
            };
            shown.extend(texts.iter().map(|meant| format!("`{meant}`")));
            instead.extend(texts);
        }
        let known = format!("known units are {}", self.spellings());
        let hint = match shown.is_empty() {
            true => known,
            false => format!("did you mean {}? {known}", shown.join(" or ")),
        };
        let cause = match number.unit.starts_with(',') {
            true => format!("`{text}` has a comma"),
            false => format!("`{}` is not a unit of a {}", number.unit, self.what),
        };
        QuantityError { instead, ..QuantityError::new(cause, hint) }
    }

    /// The text of a number of units of `multiplier / divisor` base units each, with an accepted unit; `None` if no
    /// text is read as exactly that.
    fn instead(&self, number: &Number<'_>, multiplier: u64, divisor: u64) -> Option<String> {
        let value = u64::try_from(number.times(multiplier, divisor)?).ok()?;
        let equal = || self.units.iter().filter(|unit| divisor == 1 && unit.factor == multiplier);
        // `us` where the spelling has only ASCII letters, else `µs`.
        let equal = equal().find(|unit| unit.spelling.is_ascii() == number.unit.is_ascii()).or(equal().next());
        let text = match equal {
            Some(unit) => number.with_unit(unit.spelling),
            None => self.print(value).replace(' ', ""),
        };
        (self.parse(&text).as_ref() == Ok(&value)).then_some(text)
    }

    /// `value` exactly, with the largest of the printed units that is not larger than it.
    pub(crate) fn print(&self, value: u64) -> String {
        let units = &self.units[..self.printed];
        let unit = units.iter().rev().find(|u| value >= u.factor).unwrap_or(&units[0]);
        let (whole, rest) = (value / unit.factor, value % unit.factor);
        let mut text = whole.to_string();
        if rest > 0 {
            let width = unit.factor.ilog10() as usize;
            let fraction = format!("{rest:0width$}");
            text.push('.');
            text.push_str(fraction.trim_end_matches('0'));
        }
        format!("{text} {}", unit.spelling)
    }

    /// [`Quantity::print`] for `Display`.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>, value: u64) -> fmt::Result {
        f.pad(&self.print(value))
    }
}
