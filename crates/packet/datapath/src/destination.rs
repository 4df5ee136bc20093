//! [`Destination`]: a sender's limiter towards one destination of a service.
//!
//! The algorithm, its bounds and its source are in `datapath/destination.h`. Create it with the first feedback
//! ([`Destination::by_feedback`]) or, where the parameters have an initial rate, with the first packet
//! ([`Destination::initial`]). Charge each packet to it and to the service's root limiter. Call
//! [`Destination::silent`] at least once per `silence`.
//!
//! Worked example: feedback of 3 Gb/s to a sender of weight 2: it sends 6 Gb/s.

use crate::abi;
use crate::parameters::destination_rules;
use weir_shaping::DestinationParameters;
use weir_units::{Bandwidth, Bytes, Instant, Weight};

/// Effect of a time without feedback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The limiter stays (its rate may have halved).
    Keep,
    /// The limiter is removed: packets are no longer rate-limited.
    Drop,
}

/// Paces the packets of a service to one destination at the rate in that destination's feedback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    raw: abi::Destination,
}

impl Destination {
    /// A limiter created by feedback of `rate` to a sender of `weight`.
    pub fn by_feedback(now: Instant, parameters: &DestinationParameters, rate: Bandwidth, weight: Weight) -> Self {
        let mut destination = Self::with_rate(now, parameters, rate);
        destination.feedback(now, rate, weight);
        destination
    }

    /// A limiter before any feedback; `None` if the parameters have no initial rate.
    pub fn initial(now: Instant, parameters: &DestinationParameters) -> Option<Self> {
        Some(Self::with_rate(now, parameters, parameters.initial?))
    }

    fn with_rate(now: Instant, parameters: &DestinationParameters, rate: Bandwidth) -> Self {
        let mut raw = abi::Destination::default();
        abi::destination_init(&mut raw, now.nanos(), &destination_rules(parameters), rate.bps());
        Self { raw }
    }

    /// Applies feedback of `rate` (at most 8 Tb/s) to a sender of `weight`. Returns false while the
    /// previous rate is still being held.
    pub fn feedback(&mut self, now: Instant, rate: Bandwidth, weight: Weight) -> bool {
        abi::destination_feedback(&mut self.raw, now.nanos(), rate.bps(), weight.thousandths()) != 0
    }

    /// Whether the packet that leaves at `now` requests feedback, because none was received for
    /// `request_after`. Call it once per departing packet.
    #[inline]
    pub fn requests_feedback(&mut self, now: Instant) -> bool {
        abi::destination_requests(&mut self.raw, now.nanos()) != 0
    }

    /// Applies the effect of silence until `now`. The rate halves at most once per call.
    pub fn silent(&mut self, now: Instant) -> Verdict {
        if abi::destination_silent(&mut self.raw, now.nanos()) == abi::DESTINATION_DROP as i32 {
            Verdict::Drop
        } else {
            Verdict::Keep
        }
    }

    /// The departure, at `now` or later, of a packet of `bytes` offered at `now`; charges its bytes.
    #[inline]
    pub fn departure(&mut self, now: Instant, bytes: Bytes) -> Instant {
        let bytes = u32::try_from(bytes.get()).unwrap_or(u32::MAX);
        Instant::from_nanos(abi::limiter_departure(&mut self.raw.limiter, now.nanos(), bytes))
    }

    /// The departure of a packet offered at `now`, without charging it.
    #[inline]
    pub fn earliest(&mut self, now: Instant) -> Instant {
        Instant::from_nanos(abi::limiter_earliest(&mut self.raw.limiter, now.nanos()))
    }

    /// The rate in force.
    pub fn rate(&self) -> Bandwidth {
        Bandwidth::from_bps(self.raw.limiter.rate)
    }

    /// The time of the last feedback, or of creation.
    pub fn feedback_at(&self) -> Instant {
        Instant::from_nanos(self.raw.feedback_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_shaping::ShaperParameters;

    const PARLEY: DestinationParameters = ShaperParameters::PARLEY.destination;
    const EYEQ: DestinationParameters = ShaperParameters::EYEQ.destination;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }
    fn mbps(rate: u64) -> Bandwidth {
        Bandwidth::from_mbps(rate)
    }

    #[test]
    fn parley_creates_a_limiter_by_feedback_and_drops_it_after_a_second() {
        assert_eq!(Destination::initial(at(0), &PARLEY), None);
        let two = Weight::from_thousandths(2000).expect("a weight");
        let mut destination = Destination::by_feedback(at(0), &PARLEY, mbps(3000), two);
        assert_eq!(destination.rate(), mbps(6000));
        assert!(destination.feedback(at(1), mbps(1), Weight::from_thousandths(500).expect("a weight")));
        assert_eq!(destination.rate(), Bandwidth::from_bps(500_000));
        assert_eq!(destination.silent(at(1_000_000)), Verdict::Keep);
        assert_eq!(destination.silent(at(1_000_001)), Verdict::Drop);
        // 64,000 B leave ahead; at 500 kb/s 1,500 B take 24 ms.
        let leave: Vec<_> = (0..46).map(|_| destination.departure(at(1), Bytes::new(1500))).collect();
        assert_eq!(leave[42], at(1));
        assert!(leave[43] > at(1) && leave[44] - leave[43] == weir_units::Duration::from_millis(24));
    }

    #[test]
    fn feedback_is_requested_after_a_time_without_feedback() {
        let mut destination = Destination::by_feedback(at(0), &PARLEY, mbps(10), Weight::ONE);
        let requests: Vec<u64> = (0..40).map(|i| i * 100).filter(|i| destination.requests_feedback(at(*i))).collect();
        assert_eq!(requests, [500, 1000, 1500, 2000, 2500, 3000, 3500]);
        destination.feedback(at(4500), mbps(10), Weight::ONE);
        assert!(!destination.requests_feedback(at(4900)) && destination.requests_feedback(at(5000)));
        let mut eyeq = Destination::by_feedback(at(0), &EYEQ, mbps(10), Weight::ONE);
        assert!(!eyeq.requests_feedback(at(10_000_000)));
    }

    #[test]
    fn eyeq_holds_a_rate_and_halves_it_in_silence() {
        let mut destination = Destination::initial(at(0), &EYEQ).expect("EyeQ limits before any feedback");
        assert_eq!(destination.rate(), mbps(5000));
        assert!(destination.feedback(at(0), mbps(900), Weight::ONE));
        assert!(!destination.feedback(at(100), mbps(600), Weight::ONE));
        assert_eq!(destination.rate(), mbps(900));
        assert!(destination.feedback(at(120), mbps(600), Weight::ONE));
        for (second, rate) in [(0, 600), (1, 300), (2, 150), (3, 75)] {
            assert_eq!(destination.silent(at(second * 1_000_000 + 120)), Verdict::Keep);
            assert_eq!(destination.rate(), mbps(rate), "after {second} s");
        }
        for second in 4..20 {
            destination.silent(at(second * 1_000_000 + 120));
        }
        assert_eq!(destination.rate(), mbps(2));
    }

    #[test]
    fn eyeq_burst_grows_with_the_rate() {
        // 8 Gb/s * 150 µs = 150 kB, above 64 KiB: 100 packets of 1,500 B, and the one that finds 150 kB owed.
        let mut destination = Destination::by_feedback(at(0), &EYEQ, mbps(8000), Weight::ONE);
        let at_once = (0..200).filter(|_| destination.departure(at(0), Bytes::new(1500)) == at(0)).count();
        assert_eq!(at_once, 101);
    }

    #[test]
    fn any_feedback_and_weight_are_accepted() {
        let mut destination = Destination::by_feedback(at(0), &PARLEY, Bandwidth::UNLIMITED, Weight::MAX);
        assert_eq!(destination.rate(), mbps(8_000_000));
        destination.feedback(at(0), Bandwidth::ZERO, Weight::ONE);
        assert_eq!(destination.rate(), Bandwidth::from_bps(1));
        let least = Weight::from_thousandths(1).expect("a weight");
        destination.feedback(at(0), Bandwidth::from_bps(1999), least);
        assert_eq!(destination.rate(), Bandwidth::from_bps(1));
        destination.feedback(at(0), mbps(8_000_000), Weight::from_thousandths(999).expect("a weight"));
        assert_eq!(destination.rate(), mbps(7_992_000));
    }

    proptest! {
        /// The rate is the product, exactly, rounded down, from 1 bit/s to 8 Tb/s.
        #[test]
        fn the_rate_is_feedback_times_weight(
            rate in prop_oneof![0..10_000u64, 0..100_000_000_000u64, 0..=u64::MAX],
            thousandths in prop_oneof![1..10_000u32, 1..=1_000_000_000u32],
        ) {
            let weight = Weight::from_thousandths(thousandths).expect("in range");
            let destination = Destination::by_feedback(at(0), &PARLEY, Bandwidth::from_bps(rate), weight);
            let exact = u128::from(rate.min(8_000_000_000_000)) * u128::from(thousandths) / 1000;
            prop_assert_eq!(u128::from(destination.rate().bps()), exact.clamp(1, 8_000_000_000_000));
        }

        /// EyeQ's rate n seconds after the last feedback, if it is read at least once each second.
        #[test]
        fn silence_halves_once_a_second(
            mbps in 2..8_000_000u64, reads in prop::collection::vec(1..1_000_000u64, 1..60),
        ) {
            let mut destination = Destination::by_feedback(at(0), &EYEQ, self::mbps(mbps), Weight::ONE);
            let mut now = 0;
            for gap in reads {
                now += gap;
                destination.silent(at(now));
                let expected = (mbps * 1_000_000) >> (now / 1_000_000).min(63);
                prop_assert_eq!(destination.rate().bps(), expected.max(2_000_000));
            }
        }
    }
}
