//! Independent arrivals of flows: [`Arrivals`], [`MeanGap`] and the load that they make.
//!
//! Problem: an experiment is given as a load ("60 %"), a generator needs a gap between arrivals.
//! Approach: at load ρ, flows of W mean wire bytes make ρ times the senders' capacity C when they
//! arrive every W·8/(ρ·C). W must be the mean of the rule that draws the sizes
//! ([`crate::SizeDistribution::mean_wire_bytes`]).
//!
//! Gaps are fractions of picoseconds; the fraction is carried from arrival to arrival, so the rate
//! has no rounding error for any gap.
//!
//! Worked example: web search in 1500-byte packets is 1,711,490 wire bytes a flow; 144 senders of
//! 10 Gb/s at 60 % start one every 15.847 µs.
//!
//! Sources: QJump (NSDI 2015), Fig 9 and its ns-2 scripts, λ = load·R/(mean wire bits); the uniform
//! gaps U(0, 2t) are those of Parley, Table 3.

use crate::Rng;
use crate::error::{SpecError, SpecResult};
use weir_units::Load;
use weir_units::{Bandwidth, SimTime};

/// The distribution of gaps between arrivals around their mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Exponential gaps: arrivals of many independent users.
    Poisson,
    /// Always the mean gap.
    Constant,
    /// Uniform between 0 and twice the mean.
    Uniform,
}

impl Arrivals {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Poisson, Self::Constant, Self::Uniform];
    /// Its name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Poisson => "poisson",
            Self::Constant => "constant",
            Self::Uniform => "uniform",
        }
    }
    /// A gap in multiples of the mean.
    fn draw(self, rng: &mut Rng) -> f64 {
        match self {
            Self::Poisson => rng.exponential(),
            Self::Constant => 1.0,
            Self::Uniform => 2.0 * rng.unit(),
        }
    }
}

/// Picoseconds in a second.
const PICOS: f64 = 1e12;

/// The mean time between two arrivals of a whole workload: above 0.001 ps, at most 2^63 ps (106
/// days).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct MeanGap {
    picos: f64,
}

impl MeanGap {
    /// The shortest: a thousand arrivals in a picosecond are a mistake in some unit.
    const SHORTEST: f64 = 1e-3;
    /// The longest: larger ones would not fit a [`SimTime`].
    const LONGEST: f64 = (1_u64 << 63) as f64;

    /// A gap in picoseconds.
    ///
    /// # Errors
    /// A value that is not a number or out of range.
    pub fn from_picos(picos: f64) -> SpecResult<Self> {
        if !(Self::SHORTEST..=Self::LONGEST).contains(&picos) {
            return Err(SpecError::new(
                format!("a mean gap of {picos} ps between arrivals is out of range"),
                "gaps are from 0.001 ps to 106 days",
            ));
        }
        Ok(Self { picos })
    }
    /// A gap as a time.
    ///
    /// # Errors
    /// Zero, or more than 106 days.
    pub fn from_time(gap: SimTime) -> SpecResult<Self> {
        Self::from_picos(gap.picos() as f64)
    }
    /// The gap in picoseconds.
    pub const fn picos(self) -> f64 {
        self.picos
    }
}

/// The mean gap between flows of `mean_wire_bytes` that offers `load` to links of `capacity` in all
/// (the sum of the senders' links).
///
/// # Errors
/// A capacity of zero or without limit, a mean that is no number above zero, or a gap out of range.
pub fn mean_gap(load: Load, capacity: Bandwidth, mean_wire_bytes: f64) -> SpecResult<MeanGap> {
    if capacity == Bandwidth::ZERO || capacity.is_unlimited() {
        return Err(SpecError::new(
            format!("a load of senders with {capacity} in all is undefined"),
            "give the senders links of a finite rate",
        ));
    }
    MeanGap::from_picos(mean_wire_bytes * 8.0 * PICOS / (load.as_f64() * capacity.bps() as f64))
}

/// The mean gap between flows of `mean_wire_bytes` that offer `rate` in all, which may exceed any
/// link's rate.
///
/// # Errors
/// A rate of zero or without limit, a mean that is no number above zero, or a gap out of range.
pub fn mean_gap_of_rate(rate: Bandwidth, mean_wire_bytes: f64) -> SpecResult<MeanGap> {
    if rate == Bandwidth::ZERO || rate.is_unlimited() {
        return Err(SpecError::new(format!("flows cannot arrive at {rate}"), "write a finite rate above zero"));
    }
    MeanGap::from_picos(mean_wire_bytes * 8.0 * PICOS / rate.bps() as f64)
}

/// The points of an open arrival process, one after the other.
#[derive(Debug, Clone)]
pub(crate) struct ArrivalClock {
    arrivals: Arrivals,
    gap: MeanGap,
    rng: Rng,
    at: SimTime,
    /// The part of a picosecond by which the arrival is later than `at`.
    part: f64,
}

impl ArrivalClock {
    /// The first arrival is one gap after `start`.
    pub(crate) fn new(arrivals: Arrivals, gap: MeanGap, start: SimTime, rng: Rng) -> Self {
        let mut clock = Self { arrivals, gap, rng, at: start, part: 0.0 };
        clock.advance();
        clock
    }
    /// The next arrival; [`SimTime::NEVER`] when it is beyond the clock's range.
    pub(crate) const fn at(&self) -> SimTime {
        self.at
    }
    /// Moves to the next arrival.
    pub(crate) fn advance(&mut self) {
        let gap = self.arrivals.draw(&mut self.rng) * self.gap.picos + self.part;
        // `as` rounds towards zero and stops at the largest integer.
        let whole = gap as u64;
        self.part = gap - whole as f64;
        self.at = later(self.at, SimTime::from_picos(whole));
    }
}

/// `time` + `length`, at most [`SimTime::NEVER`].
pub(crate) const fn later(time: SimTime, length: SimTime) -> SimTime {
    SimTime::from_picos(time.picos().saturating_add(length.picos()))
}

/// A random length: of a mean, in picoseconds, from the exponential distribution.
pub(crate) fn exponential(mean: SimTime, rng: &mut Rng) -> SimTime {
    SimTime::from_picos((rng.exponential() * mean.picos() as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(arrivals: Arrivals, picos: f64, n: usize) -> Vec<f64> {
        let gap = MeanGap::from_picos(picos).expect("a gap");
        let mut clock = ArrivalClock::new(arrivals, gap, SimTime::ZERO, Rng::stream(9, 0));
        let mut before = SimTime::ZERO;
        (0..n)
            .map(|_| {
                let gap = clock.at() - before;
                before = clock.at();
                clock.advance();
                gap.picos() as f64
            })
            .collect()
    }

    #[test]
    fn gaps_have_the_mean_and_variance_of_their_distribution() {
        // Variances in units of the squared mean: 1, 0, 4/12. The mean of n gaps has the standard
        // error √(v/n), their variance at most √(8/n), the exponential's (fourth central moment 9,
        // less 1).
        let n = 200_000;
        for (arrivals, variance) in
            [(Arrivals::Poisson, 1.0), (Arrivals::Constant, 0.0), (Arrivals::Uniform, 1.0 / 3.0)]
        {
            let gaps = gaps(arrivals, 1e6, n);
            let mean = gaps.iter().sum::<f64>() / n as f64 / 1e6;
            let spread = gaps.iter().map(|gap| (gap / 1e6 - mean).powi(2)).sum::<f64>() / n as f64;
            let error = 4.0 / (n as f64).sqrt();
            assert!((mean - 1.0).abs() <= error * f64::sqrt(variance) + 1e-9, "{arrivals:?}: mean {mean}");
            assert!((spread - variance).abs() <= error * f64::sqrt(8.0) * variance + 1e-9, "{arrivals:?}: {spread}");
        }
    }

    #[test]
    fn poisson_gaps_are_exponential_at_every_size() {
        // Ten bins of equal probability, the edges −ln(1 − k/10): chi-square with 9 degrees of
        // freedom, above 27.9 in one of a thousand.
        let n = 100_000;
        let mut seen = [0_u32; 10];
        for gap in gaps(Arrivals::Poisson, 1e9, n) {
            let below = 1.0 - (-gap / 1e9).exp();
            seen[((below * 10.0) as usize).min(9)] += 1;
        }
        let expected = n as f64 / 10.0;
        let chi: f64 = seen.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
        assert!(chi < 27.9, "{seen:?}: {chi}");
    }

    #[test]
    fn short_gaps_keep_their_rate() {
        // A third of a picosecond: rounding each gap would stop the clock.
        let n = 300_000;
        let total: f64 = gaps(Arrivals::Constant, 1.0 / 3.0, n).iter().sum();
        assert!((total - 100_000.0).abs() <= 1.0, "{total}");
    }

    #[test]
    fn a_load_is_a_gap() {
        let load = Load::from_fraction(0.6).expect("a load");
        let capacity = Bandwidth::from_gbps(1440);
        let gap = mean_gap(load, capacity, 1_711_490.0).expect("a gap");
        assert!((gap.picos() / 15_847_129.6 - 1.0).abs() < 1e-6, "{}", gap.picos());
        assert!(mean_gap(load, Bandwidth::ZERO, 1500.0).is_err());
        assert!(mean_gap(load, Bandwidth::UNLIMITED, 1500.0).is_err());
        for mean in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(mean_gap(load, capacity, mean).is_err(), "{mean}");
        }
    }

    /// A rate is the load of links of just that rate.
    #[test]
    fn a_rate_is_a_gap() {
        // 1 MB with headers at 56 Gb/s: 142.857 µs.
        let gap = mean_gap_of_rate(Bandwidth::from_gbps(56), 1e6).expect("a gap");
        assert!((gap.picos() / 142_857_142.857 - 1.0).abs() < 1e-9, "{}", gap.picos());
        let load = Load::from_fraction(0.7).expect("a load");
        assert_eq!(gap, mean_gap(load, Bandwidth::from_gbps(80), 1e6).expect("a gap"));
        assert!(mean_gap_of_rate(Bandwidth::ZERO, 1e6).is_err());
        assert!(mean_gap_of_rate(Bandwidth::UNLIMITED, 1e6).is_err());
    }

    #[test]
    fn the_clock_ends_instead_of_turning_over() {
        let gap = MeanGap::from_picos(MeanGap::LONGEST).expect("a gap");
        let mut clock = ArrivalClock::new(Arrivals::Constant, gap, SimTime::from_picos(5), Rng::stream(1, 0));
        clock.advance();
        assert_eq!(clock.at(), SimTime::NEVER);
    }
}
