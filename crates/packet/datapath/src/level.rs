//! [`LevelRegulator`]: departure times that keep a latency level of a host within its burst and rate.
//!
//! The arithmetic, its forms and its source are in `datapath/level.h`. Call [`LevelRegulator::departure`] once per
//! packet, in order of time.
//!
//! Worked example: 100 Mb/s, a burst of 3,000 B: four frames of 1,500 B offered at 0 leave at 0, 0, 120 and 240 µs.

use crate::abi;
use weir_shaping::LevelLimits;
use weir_units::{Bytes, Duration, Instant};

/// The most bytes of a level that wait at a host: five times the send buffer of a Linux socket (`wmem_default`, 212,992
/// B), so that a few sockets meet their own buffer first.
pub const LEVEL_QUEUE: Bytes = Bytes::new(5 * 212_992);

/// The regulator of a level at a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelRegulator {
    rules: abi::LevelRules,
    raw: abi::Level,
}

/// The rules of the per-packet code for a level's limits, with this much of a queue.
pub fn level_rules(limits: &LevelLimits, queue: Bytes) -> abi::LevelRules {
    let narrow = |bytes: Bytes| u32::try_from(bytes.get()).unwrap_or(u32::MAX).min(abi::CHARGE_MAX);
    abi::LevelRules {
        rate: limits.rate.bps().max(1),
        epoch: limits.epoch.map_or(0, Duration::nanos),
        burst: narrow(limits.burst),
        packet: narrow(limits.packet),
        framing: narrow(limits.framing),
        queue: narrow(queue),
        dscp: limits.dscp.into(),
        cuts: 0,
        smallest: 0,
        reserved: 0,
    }
}

impl LevelRegulator {
    /// A regulator that has sent nothing; `queue` is the most bytes that wait.
    pub fn new(limits: &LevelLimits, queue: Bytes) -> Self {
        Self { rules: level_rules(limits, queue), raw: abi::Level::default() }
    }

    /// A regulator of the kernel, as its maps have it.
    pub fn from_raw(rules: abi::LevelRules, raw: abi::Level) -> Self {
        Self { rules, raw }
    }

    /// The departure, at `now` or later, of a buffer of `bytes` in `frames` frames, which are charged; `None` if it is
    /// dropped, since too much waits.
    pub fn departure(&mut self, now: Instant, bytes: u32, frames: u32) -> Option<Instant> {
        let departure = abi::level_departure(&mut self.raw, &self.rules, now.nanos(), bytes, frames.max(1));
        (departure != u64::MAX).then(|| Instant::from_nanos(departure))
    }

    /// Bytes that wait.
    pub fn backlog(&self, now: Instant) -> Bytes {
        Bytes::new(abi::level_backlog(&self.raw, &self.rules, now.nanos()))
    }

    /// The counters and the state of the per-packet code.
    pub fn raw(&self) -> &abi::Level {
        &self.raw
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_units::Bandwidth;

    fn limits(epoch: Option<Duration>) -> LevelLimits {
        LevelLimits {
            rate: Bandwidth::from_mbps(100),
            burst: Bytes::new(3_000),
            epoch,
            packet: Bytes::new(1_500),
            framing: Bytes::ZERO,
            dscp: 46,
        }
    }

    fn leave(limits: &LevelLimits, packets: &[(u64, u32)]) -> Vec<Option<u64>> {
        let mut regulator = LevelRegulator::new(limits, Bytes::new(20_000));
        let offer = |(at, bytes): &(u64, u32)| regulator.departure(Instant::from_nanos(*at), *bytes, 1);
        packets.iter().map(offer).map(|at| at.map(Instant::nanos)).collect()
    }

    #[test]
    fn departures_are_those_of_the_header() {
        let four = [(0, 1_500); 4];
        assert_eq!(leave(&limits(None), &four), [0, 0, 120_000, 240_000].map(Some));
        let windows = limits(Some(Duration::from_micros(240)));
        assert_eq!(leave(&windows, &four), [0, 0, 240_000, 240_000].map(Some));
    }

    /// A window begins with its first packet, not at a multiple of the epoch.
    #[test]
    fn windows_begin_with_their_first_packet() {
        let limits = LevelLimits { burst: Bytes::new(1_500), ..limits(Some(Duration::from_micros(100))) };
        let packets = [(90_000, 1_500), (100_000, 1_500), (400_000, 1_500), (499_999, 1_500)];
        assert_eq!(leave(&limits, &packets), [90_000, 190_000, 400_000, 500_000].map(Some));
    }

    #[test]
    fn large_buffers_are_counted_and_pay_in_full() {
        let mut regulator = LevelRegulator::new(&limits(None), LEVEL_QUEUE);
        let mut at = |bytes, frames| regulator.departure(Instant::ZERO, bytes, frames).map(Instant::nanos);
        // 9,000 B at 100 Mb/s are 720 µs, of which the bucket held 240.
        assert_eq!([at(9_000, 6), at(1_500, 1)], [Some(0), Some(600_000)]);
        assert_eq!((regulator.raw().oversize, regulator.raw().packets), (1, 7));
        assert_eq!(regulator.raw().longest_wait, 600_000);
        assert_eq!(regulator.backlog(Instant::from_nanos(300_000)), Bytes::new(3_750));
    }

    #[test]
    fn full_queues_drop() {
        let left = leave(&limits(None), &[(0, 1_500); 20]);
        // 20,000 B wait: 13 frames beside the burst of two.
        assert_eq!(left.iter().filter(|at| at.is_some()).count(), 15);
    }

    #[test]
    fn framing_counts() {
        let limits = LevelLimits { framing: Bytes::new(24), packet: Bytes::new(1_538), ..limits(None) };
        let mut regulator = LevelRegulator::new(&LevelLimits { burst: Bytes::new(1_538), ..limits }, LEVEL_QUEUE);
        regulator.departure(Instant::ZERO, 1_514, 1);
        let second = regulator.departure(Instant::ZERO, 1_514, 1).map(Instant::nanos);
        assert_eq!((second, regulator.raw().oversize), (Some(123_040), 0));
    }

    proptest! {
        /// In any time t at most burst + rate · t bytes leave, or the burst of two windows and their rate.
        #[test]
        fn every_window_stays_within_burst_and_rate(
            rate in 1_000_000u64..10_000_000_000,
            factor in 1u64..20,
            windowed in any::<bool>(),
            packets in prop::collection::vec((60u32..=1_500, 0u64..100_000), 1..150),
        ) {
            let burst = 1_500 * factor;
            let epoch = burst * 8_000_000_000 / rate;
            let limits = LevelLimits {
                rate: Bandwidth::from_bps(rate),
                burst: Bytes::new(burst),
                epoch: windowed.then(|| Duration::from_nanos(epoch.max(1))),
                packet: Bytes::new(1_500),
                framing: Bytes::ZERO,
                dscp: 46,
            };
            let mut regulator = LevelRegulator::new(&limits, Bytes::new(1 << 28));
            let (mut now, mut sent) = (0, Vec::new());
            for (bytes, gap) in packets {
                now += gap;
                let leaves = regulator.departure(Instant::from_nanos(now), bytes, 1).expect("room").nanos();
                prop_assert!(leaves >= now && sent.last().is_none_or(|(last, _)| *last <= leaves));
                sent.push((leaves, u64::from(bytes)));
            }
            for (i, (from, _)) in sent.iter().enumerate() {
                let mut bytes = 0;
                for (until, size) in &sent[i..] {
                    bytes += size;
                    let most = if windowed {
                        // Two windows meet in any time, and one more for each further epoch.
                        u128::from(burst) * u128::from(2 + (until - from) / epoch.max(1))
                    } else {
                        u128::from(burst) + (u128::from(rate) * u128::from(until - from + 1)).div_ceil(8_000_000_000)
                    };
                    prop_assert!(u128::from(bytes) <= most, "{bytes} in {} ns", until - from);
                }
            }
            prop_assert_eq!(regulator.raw().oversize, 0);
        }
    }
}
