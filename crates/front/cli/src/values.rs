//! Values of options, by the rules of documents: the same units, no leading zeros, and hints that are accepted.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use weir_answers::check::interface_name;
use weir_document::scalar::{self, Refusal};
use weir_units::Duration;

/// A refusal in one line.
pub(crate) fn refusal_text(refusal: Refusal) -> String {
    format!("{}; {}", refusal.cause, refusal.hint)
}

/// A time above zero.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    scalar::time(text, false).map_err(refusal_text)
}

/// A seed: any whole number of 64 bits.
pub(crate) fn seed(text: &str) -> Result<u64, String> {
    whole(text, "a seed", 0..=u64::MAX)
}

/// The name of an interface.
pub(crate) fn interface(text: &str) -> Result<String, String> {
    interface_name(text).map_err(refusal_text)
}

/// A number of things, one or more.
pub(crate) fn count<T: TryFrom<i128>>(text: &str, most: u64) -> Result<T, String> {
    whole(text, "it", 1..=most)
}

/// A number of runs at once.
pub(crate) fn jobs(text: &str) -> Result<NonZeroUsize, String> {
    count(text, 4_096).and_then(|jobs: usize| NonZeroUsize::new(jobs).ok_or_else(|| "write one or more".to_owned()))
}

/// A whole number in a range that `T` has.
fn whole<T: TryFrom<i128>>(text: &str, what: &str, range: RangeInclusive<u64>) -> Result<T, String> {
    let number = scalar::integer(text, what, i128::from(*range.start()), i128::from(*range.end()));
    let number = number.map_err(|refusal| match refusal.instead.is_empty() {
        true => format!("{what} is a whole number from {} to {}", range.start(), range.end()),
        false => refusal_text(refusal),
    })?;
    T::try_from(number).map_err(|_| format!("{what} is not as large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_no_leading_zeros() {
        assert_eq!(seed("0"), Ok(0));
        assert_eq!(seed("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(count::<u32>("15", 100), Ok(15));
        for (text, hint) in [("010", "did you mean `10`?"), ("1,000", "whole number"), ("0", "1 to 100")] {
            let refused = count::<u32>(text, 100).expect_err(text);
            assert!(refused.contains(hint), "{refused}");
        }
    }

    #[test]
    fn names_of_interfaces_have_hints() {
        assert_eq!(interface("eth0.7").as_deref(), Ok("eth0.7"));
        let refused = interface("..").expect_err("a directory");
        assert!(refused.starts_with("Linux has no interface of this name") && refused.contains("`eth0`"), "{refused}");
    }
}
