//! [`Weight`]: a service's relative share of the capacity that guarantees leave.

use crate::decimal::QuantityError;
use crate::digits::{self, Digits};
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// A relative weight in thousandths, from 0.001 to 1,000,000; the default is 1.
///
/// Fixed point keeps shares exact. Three decimals are sufficient for policies. The maximum keeps
/// `rate × weight`, and sums over millions of services, within the allocator's integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(NonZeroU32);

impl Weight {
    /// The default weight, 1.
    pub const ONE: Self = Self::whole(1);
    /// The largest weight, 1,000,000.
    pub const MAX: Self = Self::whole(1_000_000);

    const fn whole(weight: u32) -> Self {
        match NonZeroU32::new(weight * 1000) {
            Some(w) => Self(w),
            None => panic!("a weight is above zero"),
        }
    }
    /// A weight from thousandths; `None` for zero or above [`Weight::MAX`].
    pub fn from_thousandths(thousandths: u32) -> Option<Self> {
        NonZeroU32::new(thousandths).map(Self).filter(|w| *w <= Self::MAX)
    }
    /// The weight in thousandths.
    pub const fn thousandths(self) -> u32 {
        self.0.get()
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::ONE
    }
}

impl FromStr for Weight {
    type Err = QuantityError;
    /// Parses `2` or `0.5`: a number without a unit, with at most three decimals.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let text = text.trim();
        let hint = "a weight is a number from 0.001 to 1000000 without a unit, for example `2` or `0.5`";
        let refuse = |cause: &str| QuantityError::new(format!("`{text}` {cause}"), hint);
        if text.starts_with('-') {
            return Err(refuse("is negative"));
        }
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |s: &str| !s.is_empty() && s.len() <= 9 && s.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(fraction) {
            return Err(refuse("is not a weight"));
        }
        if let Err(Digits::LeadingZero(meant)) = digits::whole(whole) {
            return Err(QuantityError::leading_zero(text, text.replacen(whole, &meant, 1)));
        }
        let fraction = fraction.trim_end_matches('0');
        if fraction.len() > 3 {
            return Err(refuse("has more than three decimals"));
        }
        let thousandths: u64 = format!("{whole}{fraction:0<3}").parse().map_err(|_| refuse("is not a weight"))?;
        if thousandths == 0 {
            return Err(refuse("is zero"));
        }
        u32::try_from(thousandths)
            .ok()
            .and_then(Self::from_thousandths)
            .ok_or_else(|| refuse("is above the largest weight, 1000000"))
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0.get() / 1000, self.0.get() % 1000);
        if rest == 0 {
            return f.pad(&whole.to_string());
        }
        f.pad(format!("{whole}.{rest:03}").trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_parsed_and_printed() {
        for (text, thousandths, printed) in
            [("1", 1000, "1"), ("0.5", 500, "0.5"), ("2.125", 2125, "2.125"), ("3.000", 3000, "3")]
        {
            let weight: Weight = text.parse().expect(text);
            assert_eq!(weight.thousandths(), thousandths);
            assert_eq!(weight.to_string(), printed);
        }
    }

    #[test]
    fn invalid_weights_are_rejected_with_a_cause() {
        for (text, cause) in [
            ("0", "`0` is zero"),
            ("0.000", "`0.000` is zero"),
            ("-1", "`-1` is negative"),
            ("0.0001", "`0.0001` has more than three decimals"),
            ("heavy", "`heavy` is not a weight"),
            ("1000001", "`1000001` is above the largest weight, 1000000"),
            ("99999999999", "`99999999999` is not a weight"),
            ("02", "`02` has a leading zero"),
            ("00.5", "`00.5` has a leading zero"),
        ] {
            assert_eq!(text.parse::<Weight>().expect_err(text).cause, cause);
        }
        assert_eq!("02.50".parse::<Weight>().unwrap_err().instead, ["2.50"]);
    }
}
