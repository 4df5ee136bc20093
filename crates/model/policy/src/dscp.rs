//! DSCP values, by number or by the name that an RFC gives them.
//!
//! Rule: a file may have either; all messages and fingerprints have the number. Names are in capitals, as in the RFCs.
//!
//! | names | value | source |
//! |---|---|---|
//! | `DF` | 0 | RFC 2474 (default forwarding; the name is of RFC 4594) |
//! | `CS0` to `CS7` | 8x | RFC 2474 section 4.2.2 |
//! | `AF11` to `AF43` | 8x + 2y | RFC 2597 section 6 |
//! | `EF` | 46 | RFC 3246 |
//! | `VA` | 44 | RFC 5865 (VOICE-ADMIT) |
//! | `LE` | 1 | RFC 8622 |
//!
//! Worked example: `AF31` is 8 · 3 + 2 · 1 = 26.

use weir_document::scalar::{Refusal, Scalar, named};

const WHAT: &str = "a DSCP value";
const MAX: i128 = 63;
const NAMES: &[(&str, i128)] = &[
    ("DF", 0),
    ("LE", 1),
    ("CS0", 0),
    ("CS1", 8),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("CS2", 16),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("CS3", 24),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("CS4", 32),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("CS5", 40),
    ("VA", 44),
    ("EF", 46),
    ("CS6", 48),
    ("CS7", 56),
];

/// A DSCP value in a file.
pub(crate) static DSCP: Scalar = Scalar::Named { what: WHAT, min: 0, max: MAX, names: NAMES };

/// Reads a DSCP value, 0 to 63.
///
/// # Errors
/// If the text is neither such a number nor a name.
pub(crate) fn dscp(text: &str) -> Result<u8, Refusal> {
    named(text, WHAT, 0, MAX, NAMES).map(|value| value as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_values_of_their_rfcs() {
        for x in 0..8 {
            assert_eq!(dscp(&format!("CS{x}")), Ok(8 * x));
        }
        for (x, y) in (1..=4).flat_map(|x| (1..=3).map(move |y| (x, y))) {
            assert_eq!(dscp(&format!("AF{x}{y}")), Ok(8 * x + 2 * y));
        }
        assert_eq!(["EF", "VA", "LE", "DF", "63"].map(|text| dscp(text).ok()), [46, 44, 1, 0, 63].map(Some));
        assert_eq!(NAMES.len(), 8 + 12 + 4);
    }

    #[test]
    fn other_names_are_refused() {
        for (text, instead) in [("af31", Some("AF31")), ("ef", Some("EF")), ("AF15", Some("AF11")), ("voice", None)] {
            let refusal = DSCP.check(text).expect_err(text);
            assert_eq!(refusal.cause, format!("`{text}` is not a DSCP value"));
            assert_eq!(refusal.instead.first().map(String::as_str), instead, "{text}");
        }
        assert_eq!(dscp("64").expect_err("too large").cause, "`64` is out of range for a DSCP value");
    }
}
