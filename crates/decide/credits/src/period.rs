//! [`Period`]: the time for which an allocation is made, and the rule by which a port selects its own.
//!
//! A flow must be able to send two frames per period, else frames get short and the headers' part grows. With n flows
//! of equal weight the share of one is p · R / n, hence p ≥ 2 · P · n / R; with weights p ≥ 2 · P · W / (w_min · R),
//! since the flow of least weight has the share w_min / W (PACE §III.E.3, and the corrected form of its rule).
//!
//! A longer period is taken at once. A shorter one is taken when it is below half of the present one, and at most once
//! per period, so that flows that come and go do not move it to and fro.
//!
//! Worked example, 1 Gb/s, frames of 1500 B, from 200 µs on: 8 flows keep 200 µs, 9 flows need 220 µs (216, rounded up
//! to 20 µs), 64 flows 1540 µs. Within 5.1 ms fit 212 flows.

use weir_units::{Bandwidth, Bytes, Duration, Instant};

/// A period of allocation in whole microseconds, up to 71 minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Period(u32);

impl Period {
    /// `micros` microseconds.
    pub const fn from_micros(micros: u32) -> Self {
        Self(micros)
    }
    /// The length in microseconds.
    pub const fn micros(self) -> u32 {
        self.0
    }
    /// The length.
    pub const fn duration(self) -> Duration {
        Duration::from_micros(self.0 as u64)
    }
    /// C(p) = p · R: the bytes of a link of this rate in the period, rounded down; at most 2³² − 1, the widest field.
    pub fn capacity(self, rate: Bandwidth) -> Bytes {
        let bytes = u128::from(rate.bps()) * u128::from(self.0) / 8_000_000;
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX).min(u64::from(u32::MAX)))
    }
}

/// The steps of periods: the unit of the paper's field (§III.B).
const STEP_MICROS: u64 = 20;

/// The rule of one port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeriodRule {
    /// R.
    pub rate: Bandwidth,
    /// p-min: at least a round trip, queueing in ports included.
    pub least: Period,
    /// p-max, from the buffer of the port: 2 · R · p-max must fit into it.
    pub most: Period,
    /// P: the largest frame on the wire.
    pub frame: Bytes,
}

impl PeriodRule {
    /// The period for flows of `weight` in all, the least of which has `least_weight`, in the same unit.
    pub fn wanted(&self, weight: u64, least_weight: u64) -> Period {
        let bits = 16 * u128::from(self.frame.get()) * u128::from(weight) * 1_000_000;
        let micros = bits.div_ceil(u128::from(self.rate.bps().max(1)) * u128::from(least_weight.max(1)));
        let step = u128::from(STEP_MICROS);
        let micros = micros.div_ceil(step) * step;
        Period(u32::try_from(micros).unwrap_or(u32::MAX)).clamp(self.least, self.most.max(self.least))
    }

    /// The period after `now` of a port whose present one, `present`, holds since `since`, when `wanted` is wanted.
    pub fn next(&self, now: Instant, present: Period, since: Instant, wanted: Period) -> Period {
        let may_fall =
            u64::from(wanted.0) * 2 < u64::from(present.0) && now.saturating_since(since) >= present.duration();
        if wanted > present || may_fall { wanted } else { present }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: PeriodRule = PeriodRule {
        rate: Bandwidth::from_gbps(1),
        least: Period::from_micros(200),
        most: Period::from_micros(5_100),
        frame: Bytes::new(1_500),
    };

    #[test]
    fn periods_of_equal_flows_are_those_of_the_paper() {
        let wanted = [8, 9, 10, 64, 212, 213].map(|flows| RULE.wanted(flows, 1).micros());
        assert_eq!(wanted, [200, 220, 240, 1_540, 5_100, 5_100]);
        let unbounded = PeriodRule { most: Period::from_micros(u32::MAX), ..RULE };
        assert_eq!([212, 213, 250].map(|flows| unbounded.wanted(flows, 1).micros()), [5_100, 5_120, 6_000]);
    }

    #[test]
    fn the_least_weight_sends_two_frames() {
        // Weights 1 and 9: a tenth of 240 µs at 1 Gb/s is 3,000 B.
        assert_eq!(RULE.wanted(10, 1).micros(), 240);
        assert_eq!(RULE.wanted(10_000, 1_000).micros(), 240);
        assert_eq!(RULE.wanted(10, 5).micros(), 200);
    }

    #[test]
    fn periods_rise_at_once_and_fall_below_half_once_a_period() {
        let micros = |now: u64, present: u32, wanted: u32| {
            let (now, present) = (Instant::from_nanos(now * 1_000), Period::from_micros(present));
            RULE.next(now, present, Instant::ZERO, Period::from_micros(wanted)).micros()
        };
        assert_eq!(micros(1, 400, 420), 420);
        assert_eq!(micros(10_000, 400, 200), 400);
        assert_eq!(micros(10_000, 420, 200), 200);
        assert_eq!(micros(419, 420, 200), 420);
    }

    #[test]
    fn capacities_are_bytes_of_a_period() {
        assert_eq!(Period::from_micros(200).capacity(Bandwidth::from_gbps(1)), Bytes::new(25_000));
        assert_eq!(Period::from_micros(u32::MAX).capacity(Bandwidth::from_gbps(100)), Bytes::new(u32::MAX.into()));
    }
}
