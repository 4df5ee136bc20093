//! Exact decimal numbers with a unit: the common parser of all quantities.
//!
//! Problem: `1.5Gb/s` must become exactly 1,500,000,000 bit/s. Floating-point arithmetic would
//! round some rates, and the sum of shares would no longer equal the capacity. Approach: the digits
//! are parsed as an integer with a number of decimals, and multiplied by the unit in 128 bits. A
//! remaining fraction is an error.

use std::fmt;

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cause}")]
pub struct QuantityError {
    /// The cause, in one clause without a full stop.
    pub cause: String,
    /// The correction.
    pub hint: String,
}

impl QuantityError {
    pub(crate) fn new(cause: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { cause: cause.into(), hint: hint.into() }
    }
}

/// A unit: its spelling, and its size in base units.
pub(crate) struct Unit {
    pub(crate) spelling: &'static str,
    pub(crate) factor: u64,
}

pub(crate) const fn unit(spelling: &'static str, factor: u64) -> Unit {
    Unit { spelling, factor }
}

/// Splits `text` into digits, the number of decimals, and the unit (trimmed).
fn split(text: &str) -> Option<(u128, u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() && !fraction.contains('.') => (whole, fraction),
        Some(_) => return None,
        None => (number, ""),
    };
    // 20 digits hold any u64, and 20 + 12 digits fit into u128.
    if whole.is_empty() || whole.len() > 20 || fraction.len() > 12 {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    Some((digits, fraction.len() as u32, rest.trim()))
}

/// Parses a number with one of `units`. Messages contain `what`, the name of the quantity, and
/// `example`.
pub(crate) fn parse(text: &str, units: &[Unit], what: &str, example: &str) -> Result<u64, QuantityError> {
    let text = text.trim();
    let spellings = || units.iter().map(|u| u.spelling).collect::<Vec<_>>().join(", ");
    if text.starts_with('-') {
        return Err(QuantityError::new(
            format!("`{text}` is negative"),
            format!("a {what} is zero or more, for example `{example}`"),
        ));
    }
    let Some((digits, decimals, unit_text)) = split(text) else {
        return Err(QuantityError::new(
            format!("`{text}` is not a {what}"),
            format!("write a decimal number and a unit, for example `{example}`"),
        ));
    };
    if unit_text.is_empty() {
        return Err(QuantityError::new(
            format!("`{text}` has no unit"),
            format!("write the unit, for example `{example}`; known units are {}", spellings()),
        ));
    }
    let Some(unit) = units.iter().find(|u| u.spelling == unit_text) else {
        let nearest = units.iter().find(|u| u.spelling.eq_ignore_ascii_case(unit_text));
        let hint = match nearest {
            Some(u) => format!("did you mean `{}`? known units are {}", u.spelling, spellings()),
            None => format!("known units are {}", spellings()),
        };
        return Err(QuantityError::new(format!("`{unit_text}` is not a unit of a {what}"), hint));
    };
    let scale = 10u128.pow(decimals);
    let product = digits * u128::from(unit.factor);
    if product % scale != 0 {
        return Err(QuantityError::new(
            format!("`{text}` is finer than the smallest unit, {}", units[0].spelling),
            format!("use fewer decimals, for example `{example}`"),
        ));
    }
    u64::try_from(product / scale).map_err(|_| {
        QuantityError::new(format!("`{text}` is too large for a {what}"), format!("for example `{example}`"))
    })
}

/// Writes `value` exactly, with the largest of `units` (ascending) that is not larger than it.
pub(crate) fn write(f: &mut fmt::Formatter<'_>, value: u64, units: &[Unit]) -> fmt::Result {
    let unit = units.iter().rev().find(|u| value >= u.factor).unwrap_or(&units[0]);
    let (whole, rest) = (value / unit.factor, value % unit.factor);
    let mut text = whole.to_string();
    if rest > 0 {
        let width = unit.factor.ilog10() as usize;
        let fraction = format!("{rest:0width$}");
        text.push('.');
        text.push_str(fraction.trim_end_matches('0'));
    }
    f.pad(&format!("{text} {}", unit.spelling))
}
