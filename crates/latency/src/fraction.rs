//! [`Load`] and [`Quantile`]: fractions strictly between 0 and 1, in billionths.
//!
//! Problem: `1/(1 − ρ)` has no value at a load of 1 and means nothing beyond it, and `ln(1/(1 −
//! p))` has none at a quantile of 1. Approach: types that cannot hold such values, so that no
//! formula needs to check. Integers inside make the inverse formulas exact: "the highest load" is a
//! number, not a limit.
//!
//! Worked example: at a load of 80 % a queue has 1 − 0.8 = 0.2 of its capacity free, so a work of 1
//! ms at an idle queue takes 5 ms.
//!
//! Source: Parley §2.1 and §4, ρ ∈ (0, 1).

use crate::error::LatencyError;
use std::fmt;
use weir_units::Duration;

/// Billionths in one.
pub(crate) const BILLION: u32 = 1_000_000_000;

macro_rules! fraction {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// A fraction from billionths: 1 to 999,999,999.
            ///
            /// # Errors
            /// [`LatencyError::Fraction`] for zero, and for one and above.
            pub fn from_billionths(billionths: u32) -> Result<Self, LatencyError> {
                if billionths == 0 || billionths >= BILLION {
                    return Err(LatencyError::Fraction(f64::from(billionths) / f64::from(BILLION)));
                }
                Ok(Self(billionths))
            }
            /// The fraction nearest to a number strictly between 0 and 1.
            ///
            /// # Errors
            /// [`LatencyError::Fraction`] if the number is not a number, outside, or nearer than
            /// half a billionth to either end.
            pub fn from_fraction(fraction: f64) -> Result<Self, LatencyError> {
                let billionths = (fraction * f64::from(BILLION)).round();
                // `as` maps a value that is not a number to zero and cuts at the ends: all of it is
                // refused.
                Self::from_billionths(billionths as u32).map_err(|_| LatencyError::Fraction(fraction))
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

    /// ln(1/(1 − p)): the quantile of an exponential distribution in mean times, in billionths and
    /// rounded up. At least 1, and below 21 billion since 1 − p is at least a billionth.
    pub(crate) fn mean_times(self) -> u128 {
        let times = -(-self.as_f64()).ln_1p();
        ((times * f64::from(BILLION)).ceil() as u128).max(1)
    }
}

/// Time at an idle queue, in billionths of a nanosecond, rounded up.
///
/// Both formulas are this over `1 − ρ`. Rounding up twice gives the same as once: for a whole `n`,
/// ⌈⌈x⌉ / n⌉ = ⌈x / n⌉. So [`IdleTime::at`] is exact, and so are its inverses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IdleTime(pub(crate) u128);

impl IdleTime {
    /// The completion time at a load.
    pub(crate) fn at(self, load: Load) -> Result<Duration, LatencyError> {
        nanos(self.0.div_ceil(load.headroom().into()))
    }

    /// The highest load at which the completion time is at most `target`: ⌈idle / (1 − ρ)⌉ ≤ target
    /// where 1 − ρ ≥ idle / target.
    pub(crate) fn largest_load(self, target: Duration) -> Result<Load, LatencyError> {
        let no_load = || match nanos(self.0.div_ceil(BILLION.into())) {
            Ok(least) => LatencyError::NoLoad { target, least },
            Err(error) => error,
        };
        if target.is_zero() {
            return Err(no_load());
        }
        let headroom = self.0.div_ceil(target.nanos().into()).max(1);
        match u32::try_from(headroom) {
            Ok(headroom) if headroom < BILLION => Load::from_billionths(BILLION - headroom),
            _ => Err(no_load()),
        }
    }
}

fn nanos(nanos: u128) -> Result<Duration, LatencyError> {
    u64::try_from(nanos).map(Duration::from_nanos).map_err(|_| LatencyError::OutOfRange)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_values_strictly_between() {
        for refused in [0.0, 1.0, -0.5, 1.5, 1e-10, 0.999_999_999_9, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Load::from_fraction(refused), Err(LatencyError::Fraction(refused)));
        }
        assert!(Load::from_fraction(f64::NAN).is_err());
        assert_eq!(Load::from_billionths(0), Err(LatencyError::Fraction(0.0)));
        assert_eq!(Load::from_billionths(BILLION), Err(LatencyError::Fraction(1.0)));
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

    /// ln 2 and ln 100, by table, rounded up.
    #[test]
    fn quantiles_in_mean_times() {
        assert_eq!(Quantile::P50.mean_times(), 693_147_181);
        assert_eq!(Quantile::P99.mean_times(), 4_605_170_186);
        assert_eq!(Quantile::P999.mean_times(), 6_907_755_279);
        assert_eq!(Quantile::from_billionths(1).unwrap().mean_times(), 2);
        assert!(Quantile::from_billionths(BILLION - 1).unwrap().mean_times() < 21_000_000_000);
    }

    proptest! {
        /// The highest load keeps the target and the next one does not.
        #[test]
        fn the_highest_load_is_the_highest(idle in 0u128..1 << 80, target in any::<u64>()) {
            let (idle, target) = (IdleTime(idle), Duration::from_nanos(target));
            match idle.largest_load(target) {
                Ok(load) => {
                    prop_assert!(idle.at(load).unwrap() <= target);
                    if let Ok(next) = Load::from_billionths(load.billionths() + 1) {
                        prop_assert!(idle.at(next).map_or(true, |time| time > target));
                    }
                }
                Err(_) => {
                    let lowest = Load::from_billionths(1).unwrap();
                    prop_assert!(idle.at(lowest).map_or(true, |time| time > target) || target.is_zero());
                }
            }
        }
    }
}
