//! [`IdleTime`]: the time at an idle queue, exact for any load.
//!
//! Problem: "the highest load that keeps a target" must be a number for which the target holds, and the next one not.
//! Approach: integers in billionths, rounded up once.
//!
//! Worked example: a work of 1 ms at an idle queue takes 5 ms at a load of 80 %.
//!
//! Source: Parley §2.1 and §4.

use crate::error::LatencyError;
use weir_units::{BILLION, Bandwidth, Duration, Load, Quantile};

/// ln(1/(1 − p)): the quantile of an exponential distribution in mean times, in billionths and
/// rounded up. At least 1, and below 21 billion since 1 − p is at least a billionth.
pub(crate) fn mean_times(quantile: Quantile) -> u128 {
    let times = -(-quantile.as_f64()).ln_1p();
    ((times * f64::from(BILLION)).ceil() as u128).max(1)
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
            Ok(headroom) if headroom < BILLION => Ok(Load::from_billionths(BILLION - headroom)?),
            _ => Err(no_load()),
        }
    }
}

/// The load of traffic on [`Bandwidth::MAX`], rounded up to a billionth.
///
/// # Errors
/// [`LatencyError::OutOfRange`] if that capacity cannot carry it.
pub(crate) fn load_on_the_largest(traffic: Bandwidth) -> Result<Load, LatencyError> {
    let billionths = (u128::from(traffic.bps()) * u128::from(BILLION)).div_ceil(Bandwidth::MAX.bps().into()).max(1);
    let load = u32::try_from(billionths).ok().and_then(|billionths| Load::from_billionths(billionths).ok());
    load.ok_or(LatencyError::OutOfRange)
}

fn nanos(nanos: u128) -> Result<Duration, LatencyError> {
    u64::try_from(nanos).map(Duration::from_nanos).map_err(|_| LatencyError::OutOfRange)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// ln 2 and ln 100, by table, rounded up.
    #[test]
    fn quantiles_in_mean_times() {
        assert_eq!(mean_times(Quantile::P50), 693_147_181);
        assert_eq!(mean_times(Quantile::P99), 4_605_170_186);
        assert_eq!(mean_times(Quantile::P999), 6_907_755_279);
        assert_eq!(mean_times(Quantile::from_billionths(1).unwrap()), 2);
        assert!(mean_times(Quantile::from_billionths(BILLION - 1).unwrap()) < 21_000_000_000);
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
