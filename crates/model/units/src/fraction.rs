//! [`Load`] and [`Quantile`]: fractions strictly between 0 and 1, in billionths.
//!
//! Problem: `1/(1 − ρ)` has no value at a load of 1 and means nothing beyond it, and `ln(1/(1 −
//! p))` has none at a quantile of 1. Approach: types that cannot hold such values, so that no
//! formula needs to check. Integers inside make the inverse formulas of `weir-latency` exact: "the highest load" is a
//! number, not a limit.
//!
//! Worked example: at a load of 80 % a queue has 1 − 0.8 = 0.2 of its capacity free, so a work of 1
//! ms at an idle queue takes 5 ms.
//!
//! Source: Parley §2.1 and §4, ρ ∈ (0, 1).

use std::fmt;

/// Billionths in one.
pub const BILLION: u32 = 1_000_000_000;

/// A number that is not strictly between 0 and 1, or closer to either than a billionth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FractionError(pub f64);

impl fmt::Display for FractionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not strictly between 0 and 1", self.0)
    }
}

impl std::error::Error for FractionError {}

macro_rules! fraction {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// A fraction from billionths: 1 to 999,999,999.
            ///
            /// # Errors
            /// [`FractionError`] for zero, and for one and above.
            pub fn from_billionths(billionths: u32) -> Result<Self, FractionError> {
                if billionths == 0 || billionths >= BILLION {
                    return Err(FractionError(f64::from(billionths) / f64::from(BILLION)));
                }
                Ok(Self(billionths))
            }
            /// The fraction nearest to a number strictly between 0 and 1.
            ///
            /// # Errors
            /// [`FractionError`] if the number is not a number, outside, or nearer than
            /// half a billionth to either end.
            pub fn from_fraction(fraction: f64) -> Result<Self, FractionError> {
                let billionths = (fraction * f64::from(BILLION)).round();
                // `as` maps a value that is not a number to zero and cuts at the ends: all of it is
                // refused.
                Self::from_billionths(billionths as u32).map_err(|_| FractionError(fraction))
            }
            /// The fraction in billionths.
            pub const fn billionths(self) -> u32 {
                self.0
            }
            /// The fraction as a number, for display and statistics only.
            pub fn as_f64(self) -> f64 {
                f64::from(self.0) / f64::from(BILLION)
            }
        }

        impl fmt::Display for $name {
            /// In percent, as people write it: `80 %`, `58.5 %`.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let (whole, rest) = (self.0 / 10_000_000, self.0 % 10_000_000);
                let digits = format!("{whole}.{rest:07}");
                f.pad(&format!("{} %", digits.trim_end_matches('0').trim_end_matches('.')))
            }
        }
    };
}

fraction!(
    /// ρ: the long-term load on a queue as a part of its capacity, strictly between 0 and 1.
    Load
);
fraction!(
    /// p: the part of all messages that finish within a time, strictly between 0 and 1.
    Quantile
);

impl Load {
    /// 1 − ρ: the part of the capacity that the load leaves free, in billionths.
    pub const fn headroom(self) -> u32 {
        BILLION - self.0
    }
}

impl Quantile {
    /// Half of all messages.
    pub const P50: Self = Self(500_000_000);
    /// 99 of 100 messages, as a policy's `p99`.
    pub const P99: Self = Self(990_000_000);
    /// 999 of 1000 messages.
    pub const P999: Self = Self(999_000_000);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_strictly_between() {
        for refused in [0.0, 1.0, -0.5, 1.5, 1e-10, 0.999_999_999_9, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Load::from_fraction(refused), Err(FractionError(refused)));
        }
        assert!(Load::from_fraction(f64::NAN).is_err());
        assert_eq!(Load::from_billionths(0), Err(FractionError(0.0)));
        assert_eq!(Load::from_billionths(BILLION), Err(FractionError(1.0)));
        assert_eq!(Load::from_fraction(0.8).map(Load::billionths), Ok(800_000_000));
        assert_eq!(Load::from_billionths(1).map(Load::headroom), Ok(999_999_999));
    }

    #[test]
    fn prints_as_percent() {
        for (billionths, text) in [(800_000_000, "80 %"), (5, "0.0000005 %"), (585_000_000, "58.5 %")] {
            assert_eq!(Load::from_billionths(billionths).unwrap().to_string(), text);
        }
        assert_eq!(Quantile::P999.to_string(), "99.9 %");
    }
}
