//! [`Limiter`]: departure times that keep a service within its rate.
//!
//! The arithmetic, its bounds and its source are in `datapath/limiter.h`: a debt in nanobits that
//! elapsed time pays back exactly, so rounding errors do not accumulate. Call
//! [`Limiter::departure`] once per packet, in order of time.
//!
//! Worked example: 1 Gb/s, no burst, three packets of 1,500 B offered at 0: they leave at 0, 12 and 24 µs.

use crate::abi;
use weir_units::{Bandwidth, Bytes, Instant};

/// Paces packets to a rate, with a burst after a pause.
///
/// In every window of length `t` the departures carry at most `rate × t + burst` and one packet more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limiter {
    raw: abi::Limiter,
}

impl Limiter {
    /// A limiter without debt. `burst` is at most 256 MiB.
    pub fn new(rate: Bandwidth, burst: Bytes) -> Self {
        let mut limiter = Self { raw: abi::Limiter::default() };
        limiter.set_burst(burst);
        limiter.set_rate(Instant::ZERO, rate);
        limiter
    }

    /// Sets the rate from `now` on; earlier time counts at the old rate.
    ///
    /// Zero is taken as 1 bit/s, since every packet that is handed in has a departure.
    pub fn set_rate(&mut self, now: Instant, rate: Bandwidth) {
        let bps = if rate.is_unlimited() { 0 } else { rate.bps().max(1) };
        abi::limiter_set_rate(&mut self.raw, now.nanos(), bps);
    }

    /// Sets the burst after a pause.
    pub fn set_burst(&mut self, burst: Bytes) {
        abi::limiter_set_burst(&mut self.raw, narrow(burst));
    }

    /// The C structure.
    pub(crate) fn raw_mut(&mut self) -> &mut abi::Limiter {
        &mut self.raw
    }

    /// The rate in force.
    pub fn rate(&self) -> Bandwidth {
        if self.raw.rate == 0 { Bandwidth::UNLIMITED } else { Bandwidth::from_bps(self.raw.rate) }
    }

    /// The departure, at `now` or later, of a packet of `bytes` offered at `now`; charges its bytes.
    pub fn departure(&mut self, now: Instant, bytes: Bytes) -> Instant {
        Instant::from_nanos(abi::limiter_departure(&mut self.raw, now.nanos(), narrow(bytes)))
    }

    /// The departure of a packet offered at `now`, without charging it.
    pub fn earliest(&mut self, now: Instant) -> Instant {
        Instant::from_nanos(abi::limiter_earliest(&mut self.raw, now.nanos()))
    }
}

/// Narrows to the 32 bits of the C code, which clips at 256 MiB itself.
fn narrow(bytes: Bytes) -> u32 {
    u32::try_from(bytes.get()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_units::Duration;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn departures_are_those_of_the_header() {
        let mut limiter = Limiter::new(Bandwidth::from_gbps(1), Bytes::ZERO);
        let leave: Vec<u64> = (0..3).map(|_| limiter.departure(at(0), Bytes::new(1500)).nanos()).collect();
        assert_eq!(leave, [0, 12_000, 24_000]);
        let mut limiter = Limiter::new(Bandwidth::from_gbps(3), Bytes::ZERO);
        let leave: Vec<u64> = (0..4).map(|_| limiter.departure(at(0), Bytes::new(100)).nanos()).collect();
        assert_eq!(leave, [0, 267, 534, 800]);
    }

    #[test]
    fn rate_applies_after_the_burst() {
        // 1 Gb/s with a burst of 3,000 B: the packet that finds 3,000 B owed still leaves, the fourth waits 12 µs.
        let mut limiter = Limiter::new(Bandwidth::from_gbps(1), Bytes::new(3000));
        let leave: Vec<u64> = (0..5).map(|_| limiter.departure(at(5), Bytes::new(1500)).nanos()).collect();
        assert_eq!(leave, [5, 5, 5, 12_005, 24_005]);
    }

    #[test]
    fn debt_in_bits_is_kept_at_a_new_rate() {
        // 12,500 B at 1 kb/s is 100 s of debt; at 1 Gb/s the same bits are 100 µs.
        let mut limiter = Limiter::new(Bandwidth::from_bps(1000), Bytes::ZERO);
        limiter.departure(at(0), Bytes::new(12_500));
        assert_eq!(limiter.earliest(at(0)), at(100_000_000_000));
        limiter.set_rate(at(0), Bandwidth::from_gbps(1));
        assert_eq!(limiter.earliest(at(0)), at(100_000));
    }

    #[test]
    fn unlimited_rate_and_zero_rate() {
        let mut limiter = Limiter::new(Bandwidth::UNLIMITED, Bytes::ZERO);
        for i in 0..10 {
            assert_eq!(limiter.departure(at(i), Bytes::new(65_536)), at(i));
        }
        assert_eq!(limiter.rate(), Bandwidth::UNLIMITED);
        limiter.set_rate(at(10), Bandwidth::ZERO);
        assert_eq!(limiter.departure(at(10), Bytes::new(1)), at(10));
        assert_eq!(limiter.departure(at(10), Bytes::new(1)), at(8_000_000_010));
    }

    #[test]
    fn departures_do_not_drift_over_millions_of_packets() {
        // 64 B at 999,999,937 b/s (prime): 512,000,000,000 / 999,999,937 ns each, never whole.
        let rate = 999_999_937u128;
        let mut limiter = Limiter::new(Bandwidth::from_bps(rate as u64), Bytes::ZERO);
        let mut now = at(0);
        for n in 0..3_000_000u128 {
            now = limiter.departure(now, Bytes::new(64));
            assert_eq!(u128::from(now.nanos()), (n * 512_000_000_000).div_ceil(rate), "packet {n}");
        }
    }

    /// The same law in 128-bit arithmetic, without the C code's shortcuts.
    struct Model {
        rate: u128,
        burst: u128,
        owed: u128,
        at: u128,
    }

    impl Model {
        fn settle(&mut self, now: u128) {
            if now > self.at {
                self.owed = if self.rate == 0 { 0 } else { self.owed.saturating_sub((now - self.at) * self.rate) };
                self.at = now;
            }
        }
        fn departure(&mut self, now: u128, bytes: u128) -> u128 {
            self.settle(now);
            if self.rate == 0 {
                return now;
            }
            let ahead = self.owed.saturating_sub(self.burst);
            self.owed = (self.owed + bytes * 8_000_000_000).min(1 << 62);
            now.max(self.at + ahead.div_ceil(self.rate))
        }
    }

    fn any_rate() -> impl Strategy<Value = u64> {
        prop_oneof![
            Just(0),
            1_000..1_000_000u64,
            1_000_000..1_000_000_000u64,
            1_000_000_000..=1_000_000_000_000u64,
            Just(Bandwidth::MAX.bps()),
        ]
    }

    proptest! {
        #[test]
        fn departures_agree_with_the_model(
            burst in 0..200_000u32,
            start in 0..=(1u64 << 62),
            steps in prop::collection::vec(
                (any_rate(), prop::bool::weighted(0.1), 0..=65_536u32, 0..40u32, any::<u32>()),
                1..200,
            ),
        ) {
            let mut raw = abi::Limiter::default();
            let mut model = Model { rate: 0, burst: u128::from(burst) * 8_000_000_000, owed: 0, at: 0 };
            abi::limiter_set_burst(&mut raw, burst);
            let mut now = start;
            for (rate, change, bytes, shift, gap) in steps {
                now += u64::from(gap) >> (shift % 33);
                if change {
                    abi::limiter_set_rate(&mut raw, now, rate);
                    model.settle(u128::from(now));
                    model.rate = u128::from(rate);
                    if rate == 0 { model.owed = 0; }
                }
                let leaves = abi::limiter_departure(&mut raw, now, bytes);
                prop_assert_eq!(u128::from(leaves), model.departure(u128::from(now), u128::from(bytes)));
            }
        }

        #[test]
        fn every_window_stays_within_rate_and_burst(
            rate in 1_000..=1_000_000_000_000u64,
            burst in 0..200_000u64,
            packets in prop::collection::vec((1..=65_536u64, 0..50_000u64), 1..120),
        ) {
            let mut limiter = Limiter::new(Bandwidth::from_bps(rate), Bytes::new(burst));
            let mut now = 0;
            let mut sent: Vec<(u64, u64)> = Vec::new();
            for (bytes, gap) in packets {
                now += gap;
                let leaves = limiter.departure(at(now), Bytes::new(bytes)).nanos();
                prop_assert!(leaves >= now);
                prop_assert!(sent.last().is_none_or(|(last, _)| *last <= leaves), "in order");
                sent.push((leaves, bytes));
            }
            for (i, (from, _)) in sent.iter().enumerate() {
                let mut nanobits = 0u128;
                let mut opening = 0u128;
                for (until, bytes) in &sent[i..] {
                    nanobits += u128::from(*bytes) * 8_000_000_000;
                    opening = opening.max(u128::from(*bytes) * 8_000_000_000);
                    let window = u128::from(until - from);
                    // The last ns is the rounding of the departure that opens the window.
                    let allowed = u128::from(rate) * (window + 1) + u128::from(burst) * 8_000_000_000 + opening;
                    prop_assert!(nanobits <= allowed, "{nanobits} > {allowed} in {window} ns");
                }
            }
        }

        /// Work conservation: a backlog uses the full rate, to the nanosecond.
        #[test]
        fn a_backlog_leaves_at_exactly_the_rate(
            rate in 1_000..=1_000_000_000_000u64,
            sizes in prop::collection::vec(1..=65_536u64, 1..200),
        ) {
            let mut limiter = Limiter::new(Bandwidth::from_bps(rate), Bytes::ZERO);
            let mut nanobits = 0u128;
            for bytes in sizes {
                let leaves = limiter.departure(at(0), Bytes::new(bytes)).nanos();
                prop_assert_eq!(u128::from(leaves), nanobits.div_ceil(u128::from(rate)));
                nanobits += u128::from(bytes) * 8_000_000_000;
            }
        }

        #[test]
        fn packet_that_finds_no_debt_leaves_at_once(rate in 1_000..=1_000_000_000_000u64, bytes in 1..=65_536u64) {
            let mut limiter = Limiter::new(Bandwidth::from_bps(rate), Bytes::ZERO);
            limiter.departure(at(7), Bytes::new(bytes));
            let free = limiter.earliest(at(7));
            prop_assert_eq!(limiter.departure(free, Bytes::new(bytes)), free);
            let later = free + Duration::from_secs(3600 * 24);
            prop_assert_eq!(limiter.departure(later, Bytes::new(bytes)), later);
        }
    }
}
