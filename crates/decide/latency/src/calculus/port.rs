//! One port: the worst delay and backlog of each level under non-preemptive strict priority.
//!
//! Level `i` of a port of rate `C` receives at most `Σᵢ + Pᵢt` bytes in any time `t` from all its senders. Frames of
//! levels `j < i` precede it; a frame of less urgent traffic, `L`, is not interrupted:
//!
//! ```text
//! delay   ≤ ( Σ_{j≤i} Σⱼ + L ) / ( C − Σ_{j<i} Pⱼ )                    if Σ_{j≤i} Pⱼ ≤ C
//! backlog ≤ Σᵢ + Pᵢ · ( Σ_{j<i} Σⱼ + L ) / ( C − Σ_{j<i} Pⱼ )
//! ```
//!
//! The delay includes the frame's own transmission. A level without a bound has less urgent levels without one.
//!
//! Worked example: `C` = 10 Gb/s, ten senders on each of two levels with f = 1 and 2, frames of 1500 B, T = 36 µs: the
//! delays are 16,500 B / C = 13.2 µs and 46,500 B / (C − C/3) = 55.8 µs.
//!
//! Source: Le Boudec and Thiran, Network Calculus, §6.2; Cruz 1991, part I.

use weir_units::{Bandwidth, Bytes, Duration};

/// Bits of a byte times nanoseconds of a second: what turns `bytes / (bit/s)` into nanoseconds.
const NANOBITS: u128 = 8_000_000_000;

/// The traffic of a level at a port, of all its senders: at most `burst + rate · t` bytes in any time `t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Aggregate {
    /// Bytes.
    pub burst: u128,
    /// Bit/s.
    pub rate: u128,
}

/// The worst case of a level at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortBound {
    /// From the arrival of a frame's last bit to the departure of its last bit; rounded up to a nanosecond.
    pub delay: Duration,
    /// Bytes of the level in the port; rounded up to a byte.
    pub backlog: Bytes,
}

/// The bounds of levels, the most urgent first; `None` from the first level on that has none. `others` is by level the
/// largest burst of less urgent traffic that is not interrupted.
///
/// # Panics
/// If `others` is shorter than `levels`.
pub fn port_bounds(capacity: Bandwidth, levels: &[Aggregate], others: &[Bytes]) -> Vec<Option<PortBound>> {
    let capacity = u128::from(capacity.bps());
    let (mut burst_above, mut rate_above) = (0u128, 0u128);
    let mut bounded = true;
    let bound = |(level, other): (&Aggregate, &Bytes)| {
        bounded &= rate_above + level.rate <= capacity && rate_above < capacity;
        let left = capacity - rate_above.min(capacity);
        let before = burst_above + u128::from(other.get());
        burst_above += level.burst;
        rate_above += level.rate;
        let bound = || {
            let delay = ((before + level.burst).checked_mul(NANOBITS)?).div_ceil(left);
            let built_up = (level.rate.checked_mul(before)?).div_ceil(left);
            Some(PortBound {
                delay: Duration::from_nanos(u64::try_from(delay).ok()?),
                backlog: Bytes::new(u64::try_from(level.burst + built_up).ok()?),
            })
        };
        if bounded { bound() } else { None }
    };
    assert!(others.len() >= levels.len(), "a burst of less urgent traffic for each level");
    levels.iter().zip(others).map(bound).collect()
}

/// The time of `bytes` at a rate, rounded down to a nanosecond.
pub(crate) fn shortest_time(bytes: Bytes, rate: Bandwidth) -> Duration {
    let nanos = u128::from(bytes.get()) * NANOBITS / u128::from(rate.bps().max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Bytes at a rate in a time, rounded up.
pub(crate) fn most_bytes(rate: Bandwidth, time: Duration) -> u128 {
    (u128::from(rate.bps()) * u128::from(time.nanos())).div_ceil(NANOBITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEN: Bandwidth = Bandwidth::from_gbps(10);
    const FRAME: Bytes = Bytes::new(1_500);

    /// Ten senders of a factor with frames of 1500 B in an epoch.
    fn ten(factor: u128, epoch_ns: u128) -> Aggregate {
        Aggregate { burst: 10 * factor * 1_500, rate: 10 * factor * 1_500 * 8_000_000_000 / epoch_ns }
    }

    fn nanos(bounds: &[Option<PortBound>]) -> Vec<Option<u64>> {
        bounds.iter().map(|bound| bound.map(|bound| bound.delay.nanos())).collect()
    }

    #[test]
    fn two_levels_at_one_port() {
        let levels = [ten(1, 36_000), ten(2, 36_000)];
        let bounds = port_bounds(TEN, &levels, &[FRAME; 2]);
        assert_eq!(nanos(&bounds), [Some(13_200), Some(55_800)]);
        // Level 2 has 30,000 B, and 2/3 of C while 16,500 B precede it at 2/3 of C.
        assert_eq!(bounds[1].map(|bound| bound.backlog.get()), Some(46_500));
        assert_eq!(levels.iter().map(|level| level.rate).sum::<u128>(), 9_999_999_999);
    }

    #[test]
    fn an_overloaded_level_is_unbounded() {
        let levels = [ten(1, 12_000), ten(2, 12_000), ten(1, 1_000_000)];
        assert_eq!(nanos(&port_bounds(TEN, &levels, &[FRAME; 3])), [Some(13_200), None, None]);
    }

    /// `nP/R`, the slides' bound: 144 hosts with frames of 9,000 B, and 12 with 1518 B.
    #[test]
    fn the_slides_bound() {
        for (hosts, packet, expected) in [(144, 9_000, 1_036_800), (12, 1_518, 14_573)] {
            let level = Aggregate { burst: hosts * packet, rate: 1 };
            assert_eq!(nanos(&port_bounds(TEN, &[level], &[Bytes::ZERO])), [Some(expected)]);
        }
    }

    fn aggregate() -> impl Strategy<Value = Aggregate> {
        (1u128..10_000_000, 1u128..4_000_000_000).prop_map(|(burst, rate)| Aggregate { burst, rate })
    }

    proptest! {
        /// More traffic on a level, or larger frames of others, never make a bound smaller.
        #[test]
        fn bounds_grow_with_traffic(
            levels in proptest::collection::vec(aggregate(), 1..5),
            more in (0usize..5, aggregate()),
            other in 0u64..10_000,
            larger in 0u64..70_000,
        ) {
            let bounds = |levels: &[Aggregate], other: u64| {
                port_bounds(TEN, levels, &vec![Bytes::new(other); levels.len()])
            };
            let mut busier = levels.clone();
            let at = more.0 % levels.len();
            busier[at].burst += more.1.burst;
            busier[at].rate += more.1.rate;
            let before = bounds(&levels, other);
            for after in [bounds(&busier, other), bounds(&levels, other + larger)] {
                for (before, after) in before.iter().zip(after) {
                    let Some(after) = after else { continue };
                    let before = before.expect("bounded with less traffic");
                    prop_assert!(before.delay <= after.delay && before.backlog <= after.backlog);
                }
            }
        }
    }
}
