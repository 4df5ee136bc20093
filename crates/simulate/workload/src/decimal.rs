//! Decimal numbers of tables, exact.
//!
//! Problem: `0.000008540` seconds are 8,540,000 picoseconds; through a float they may be 8,539,999.
//! Approach: digits are read as an integer and scaled by a power of ten. Programs print small
//! numbers with an exponent (`8.54e-06`) and floats with up to 17 digits, so both are read; digits
//! beyond the scale are cut. Leading zeros are read, unlike in the texts that people write
//! ([`weir_units::digits`]): programs pad numbers to a width, and no reader of such tables takes
//! them for octal numbers.
//!
//! Worked example: `8.54e-06` at scale 12 is 8,540,000.

/// The most digits that are read: as many as fit into `u128` with room for the scaling.
const MOST_DIGITS: usize = 38;

/// `text` · 10^`scale`, rounded down; `None` if it is not a number, is negative or is 2^127 and
/// above.
pub(crate) fn parse(text: &str, scale: i32) -> Option<u128> {
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) if !exponent.is_empty() => (number, exponent.parse::<i16>().ok()?),
        Some(_) => return None,
        None => (text, 0),
    };
    let number = number.strip_prefix('+').unwrap_or(number);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = || whole.bytes().chain(fraction.bytes());
    if digits().next().is_none() || digits().any(|digit| !digit.is_ascii_digit()) {
        return None;
    }
    let zeros = digits().take_while(|&digit| digit == b'0').count();
    // Digits that count after the scaling; what follows them is below one.
    let kept = whole.len() as i64 + i64::from(exponent) + i64::from(scale);
    let written = (whole.len() + fraction.len()) as i64;
    if kept - zeros as i64 > MOST_DIGITS as i64 {
        // A zero is a zero however it is written.
        return (zeros as i64 == written).then_some(0);
    }
    let mut value: u128 = 0;
    for digit in digits().take(usize::try_from(kept.clamp(0, written)).ok()?) {
        value = value.checked_mul(10)?.checked_add(u128::from(digit - b'0'))?;
    }
    for _ in written..kept.max(written) {
        value = value.checked_mul(10)?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_exactly() {
        for (text, scale, value) in [
            ("0.000008540", 12, 8_540_000),
            ("8.54e-06", 12, 8_540_000),
            ("8.54E-6", 12, 8_540_000),
            ("1", 12, 1_000_000_000_000),
            (".5", 1, 5),
            ("5.", 0, 5),
            ("+2", 0, 2),
            ("1.9999", 0, 1),
            ("1e3", 0, 1000),
            ("123e-5", 2, 0),
            ("0.1234567890123456789", 12, 123_456_789_012),
            ("0", 18, 0),
            ("0e999", 18, 0),
            ("00000000000000000000000000000000000000000001", 3, 1000),
        ] {
            assert_eq!(parse(text, scale), Some(value), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        for text in ["", ".", "e5", "1e", "-1", "1,5", "0x10", "1_000", "nan", "inf", "1e99", "1e99999", "1 2", "١"] {
            assert_eq!(parse(text, 12), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn agrees_with_integers(value in 0_u64.., scale in 0..12_u32) {
            let (whole, rest) = (value / 10_u64.pow(scale), value % 10_u64.pow(scale));
            let text = format!("{whole}.{rest:0width$}", width = scale as usize);
            prop_assert_eq!(parse(&text, scale as i32), Some(value.into()));
            let text = format!("{value}e-{scale}");
            prop_assert_eq!(parse(&text, scale as i32), Some(value.into()));
        }
        #[test]
        fn any_text_is_read_or_refused(text in "[0-9.eE+-]{0,60}", scale in 0..18) {
            let _ = parse(&text, scale);
        }
    }
}
