//! Whole numbers in decimal digits: the one rule of all texts that people write.
//!
//! Problem: `010` is ten to YAML 1.2 and to most people, eight to YAML 1.1 and to C, and a reader that accepts it in
//! one key and refuses it in another surprises its user. Approach: one function reads the digits of all quantities,
//! numbers and ports, and a leading zero is refused with the number that was probably meant. Names may have leading
//! zeros, as they are no numbers; tables that programs write have a reader of their own.
//!
//! Worked example: `0` and `10` are read, `010` is refused with `10`, and `+1`, `1_000` and `١` are no digits.

/// The reason why a text is not a whole number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Digits {
    /// Something else than the ASCII digits is in it, or nothing is.
    NotDigits,
    /// A zero stands in front of other digits; the text without such zeros.
    LeadingZero(String),
    /// It is 2^128 or more.
    TooLarge,
}

/// Reads a whole number.
///
/// # Errors
/// See [`Digits`].
pub fn whole(text: &str) -> Result<u128, Digits> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Digits::NotDigits);
    }
    if text.len() > 1 && text.starts_with('0') {
        let rest = text.trim_start_matches('0');
        return Err(Digits::LeadingZero(if rest.is_empty() { "0".to_owned() } else { rest.to_owned() }));
    }
    text.parse().map_err(|_| Digits::TooLarge)
}

/// The cause of a refusal of `text` for a leading zero.
pub fn leading_zero(text: &str) -> String {
    format!("`{text}` has a leading zero")
}

/// The reason for the refusal of a leading zero, behind a suggestion.
pub const LEADING_ZERO: &str = "numbers are written without leading zeros";

/// The texts without a comma in their number that `text` may stand for: `1,5Gb/s` is `1.5Gb/s`, `1,500Gb/s` may be
/// `1500Gb/s` as well, and several commas, or one before a point, part groups of three digits. Empty without a comma,
/// and for commas that part no number.
pub fn comma_readings(text: &str) -> Vec<String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != ',' && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let groups: Vec<&str> = whole.split(',').collect();
    let [first, rest @ ..] = &*groups else { return Vec::new() };
    if rest.is_empty() || first.is_empty() || rest.contains(&"") || fraction.contains([',', '.']) {
        return Vec::new();
    }
    let mut readings = Vec::new();
    if let ([part], false) = (rest, number.contains('.')) {
        readings.push(format!("{first}.{part}{unit}"));
    }
    if first.len() <= 3 && *first != "0" && rest.iter().all(|group| group.len() == 3) {
        readings.push(format!("{}{unit}", number.replace(',', "")));
    }
    readings
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_leading_zero_is_refused() {
        assert_eq!(whole("0"), Ok(0));
        assert_eq!(whole("10"), Ok(10));
        assert_eq!(whole("340282366920938463463374607431768211455"), Ok(u128::MAX));
        assert_eq!(whole("340282366920938463463374607431768211456"), Err(Digits::TooLarge));
        for (text, meant) in
            [("010", "10"), ("00", "0"), ("007", "7"), ("0000000000000000000000000000000000000001", "1")]
        {
            assert_eq!(whole(text), Err(Digits::LeadingZero(meant.to_owned())), "{text}");
        }
        for text in ["", "-1", "+1", " 1", "1_000", "0x1", "1.0", "١"] {
            assert_eq!(whole(text), Err(Digits::NotDigits), "{text}");
        }
    }

    #[test]
    fn commas_part_decimals_or_thousands() {
        for (text, readings) in [
            ("1,5Gb/s", &["1.5Gb/s"][..]),
            ("1,500 Gb/s", &["1.500 Gb/s", "1500 Gb/s"]),
            ("0,125", &["0.125"]),
            ("1,000,000b/s", &["1000000b/s"]),
            ("1,000.5Mb/s", &["1000.5Mb/s"]),
            ("1000,500", &["1000.500"]),
            ("15", &[]),
            ("1,2,5Gb/s", &[]),
            (",5", &[]),
            ("1,", &[]),
            ("1.5,5", &[]),
            ("a,5", &[]),
        ] {
            assert_eq!(comma_readings(text), readings, "{text}");
        }
    }

    proptest! {
        #[test]
        fn read_numbers_print_as_they_were_written(text in "[0-9]{1,42}|\\PC{0,6}") {
            match whole(&text) {
                Ok(number) => prop_assert_eq!(number.to_string(), text),
                Err(Digits::LeadingZero(meant)) => {
                    prop_assert!(whole(&meant) != Err(Digits::NotDigits) && meant != text);
                }
                Err(_) => {}
            }
        }
    }
}
