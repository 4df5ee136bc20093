//! The M/M/1 queue: a quantile of the completion time, if arrivals are Poisson and sizes
//! exponential.
//!
//! Problem: "99 of 100 messages of 1 MB finish within 20 ms" needs a capacity and a load; without a
//! model of the arrivals there is no quantile. Approach: in a steady M/M/1 queue, served first in,
//! first out, the completion time (waiting and service) is exponentially distributed with rate `μ(1
//! − ρ)`, where `μ` is capacity over mean message size. So its quantile `p` is
//!
//! ```text
//! t = ln(1/(1 − p)) / (μ(1 − ρ)) = ln(1/(1 − p)) · S / (C(1 − ρ))
//! ```
//!
//! Worked example: 1 MB at 10 Gb/s is μ = 1.25 per ms; ln 100 = 4.605; at a load of 80 % the 99th
//! percentile is 4.605 / (1.25 · 0.2) = 18.42 ms. Parley §2.1 prints these 18.4 ms without the
//! load; 80 % is the one that gives them. That load is 8 Gb/s of traffic. To keep 20 ms, a load of 80 %
//! needs μ = 4.605 / (20 ms · 0.2), which is 9.21 Gb/s and carries 7.37 Gb/s; the same 8 Gb/s of
//! traffic need 8 Gb/s + 4.605 · 8 Mbit / 20 ms = 9.842 Gb/s.
//!
//! Limits. Real arrivals are burstier than Poisson (Parley §4), so a real tail is longer: use this
//! to compare choices, and [`crate::burst_bound`] for the worst case. The size is the mean over all
//! messages, and the quantile is over messages of all sizes; large ones take longer than small
//! ones. One queue: a path of several hops takes longer. Quantiles below a millionth are too high
//! by up to the rounding of the logarithm, a billionth of a mean time.
//!
//! Source: Parley §2.1, which takes the distribution from Harrison, "Response time distributions in
//! queueing network models".

use crate::error::{LatencyError, finite};
use crate::idle_time::{IdleTime, load_on_the_largest, mean_times};
use weir_units::{BILLION, Bandwidth, Bytes, Duration, Load, Quantile};

/// Nanoseconds in a second times bits in a byte: what `byte / (bit/s)` is in nanoseconds.
const NANOS_FOR_BYTE_AT_1_BPS: u128 = 8_000_000_000;

/// Messages of exponentially distributed size, and a quantile of their completion times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mm1 {
    /// Above zero.
    mean_message: Bytes,
    quantile: Quantile,
}

impl Mm1 {
    /// A model for messages of this mean size and this quantile of their completion times.
    ///
    /// # Errors
    /// [`LatencyError::EmptyMessage`] if the mean size is zero.
    pub fn new(mean_message: Bytes, quantile: Quantile) -> Result<Self, LatencyError> {
        if mean_message == Bytes::ZERO {
            return Err(LatencyError::EmptyMessage);
        }
        Ok(Self { mean_message, quantile })
    }

    /// The time within which the quantile of all messages finishes, rounded up to a nanosecond.
    ///
    /// # Errors
    /// [`LatencyError::Capacity`] if the capacity is zero or unlimited;
    /// [`LatencyError::OutOfRange`] if the time is longer than a [`Duration`], or messages are of
    /// exabytes.
    pub fn completion_time(&self, capacity: Bandwidth, load: Load) -> Result<Duration, LatencyError> {
        self.idle_time(capacity)?.at(load)
    }

    /// The highest load on `capacity` at which the quantile of all messages finishes within
    /// `target`.
    ///
    /// # Errors
    /// [`LatencyError::NoLoad`] if an idle queue is too slow already, and those of
    /// [`Mm1::completion_time`].
    pub fn largest_load(&self, capacity: Bandwidth, target: Duration) -> Result<Load, LatencyError> {
        self.idle_time(capacity)?.largest_load(target)
    }

    /// The lowest capacity at which the quantile of all messages finishes within `target`, if `load`
    /// is the load on that capacity.
    ///
    /// # Errors
    /// [`LatencyError::NoCapacity`] if even [`Bandwidth::MAX`] is too slow (a target of zero, say);
    /// [`LatencyError::OutOfRange`] if messages are of exabytes.
    pub fn smallest_capacity_at(&self, load: Load, target: Duration) -> Result<Bandwidth, LatencyError> {
        // ⌈⌈work / C⌉ / (1 − ρ)⌉ ≤ target where C ≥ work / (target · (1 − ρ)).
        let room = u128::from(target.nanos()) * u128::from(load.headroom());
        let bps = if room == 0 { u128::MAX } else { self.work()?.div_ceil(room) };
        if bps > Bandwidth::MAX.bps().into() {
            let least = self.completion_time(Bandwidth::MAX, load)?;
            return Err(LatencyError::NoCapacity { target, least });
        }
        Ok(Bandwidth::from_bps((bps as u64).max(1)))
    }

    /// The lowest capacity at which the quantile of all messages finishes within `target`, if the
    /// load on it is traffic of this rate.
    ///
    /// # Errors
    /// [`LatencyError::NoCapacity`] if even [`Bandwidth::MAX`] is too slow (a target of zero, say);
    /// [`LatencyError::OutOfRange`] if it cannot carry the traffic, or messages are of exabytes.
    pub fn smallest_capacity_for(&self, traffic: Bandwidth, target: Duration) -> Result<Bandwidth, LatencyError> {
        // work / (C − traffic) ≤ target where C ≥ traffic + work / target.
        let room = u128::from(target.nanos()) * u128::from(BILLION);
        let bps = if room == 0 { u128::MAX } else { u128::from(traffic.bps()) + self.work()?.div_ceil(room) };
        if bps > Bandwidth::MAX.bps().into() {
            let least = self.completion_time(Bandwidth::MAX, load_on_the_largest(traffic)?)?;
            return Err(LatencyError::NoCapacity { target, least });
        }
        Ok(Bandwidth::from_bps((bps as u64).max(1)))
    }

    fn idle_time(&self, capacity: Bandwidth) -> Result<IdleTime, LatencyError> {
        Ok(IdleTime(self.work()?.div_ceil(finite(capacity)?)))
    }

    /// The quantile's time at an idle queue of 1 bit/s, in billionths of a nanosecond.
    fn work(&self) -> Result<u128, LatencyError> {
        let one = u128::from(self.mean_message.get()) * NANOS_FOR_BYTE_AT_1_BPS;
        one.checked_mul(mean_times(self.quantile)).ok_or(LatencyError::OutOfRange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEN_GBPS: Bandwidth = Bandwidth::from_gbps(10);
    const MEGABYTE: Bytes = Bytes::new(1_000_000);

    fn load(fraction: f64) -> Load {
        Load::from_fraction(fraction).unwrap()
    }

    fn p99() -> Mm1 {
        Mm1::new(MEGABYTE, Quantile::P99).unwrap()
    }

    /// Parley §2.1: "99% of flow completion times are < 18.4 ms" for 1 MB at 10 Gb/s, which is at ρ
    /// = 0.8. 4.605170186 / (1.25 · 0.2) = 18.420680744 ms.
    #[test]
    fn the_example_of_the_paper() {
        assert_eq!(p99().completion_time(TEN_GBPS, load(0.8)), Ok(Duration::from_nanos(18_420_681)));
        // At other loads it would be 3.684/(1 − ρ): 7.37 ms at a half, 36.8 ms at nine tenths.
        assert_eq!(p99().completion_time(TEN_GBPS, load(0.5)), Ok(Duration::from_nanos(7_368_273)));
        assert_eq!(p99().completion_time(TEN_GBPS, load(0.9)), Ok(Duration::from_nanos(36_841_362)));
    }

    /// §2.1: "< 20 ms response time for 1 MB at the 99th percentile": 1 − ρ = 3.684136149 / 20.
    #[test]
    fn the_requirement_of_the_paper() {
        let target = Duration::from_millis(20);
        assert_eq!(p99().largest_load(TEN_GBPS, target), Ok(Load::from_billionths(815_793_192).expect("a load")));
        // 4.605170186 · 8 Mbit / (20 ms · 0.2) = 9.210340372 Gb/s
        assert_eq!(p99().smallest_capacity_at(load(0.8), target), Ok(Bandwidth::from_bps(9_210_340_372)));
        // 8 Gb/s + 4.605170186 · 8 Mbit / 20 ms = 9.8420680744 Gb/s
        let traffic = Bandwidth::from_gbps(8);
        assert_eq!(p99().smallest_capacity_for(traffic, target), Ok(Bandwidth::from_bps(9_842_068_075)));
    }

    /// The mean of an exponential time is its quantile 1 − 1/e; half of all finish within ln 2 of
    /// it.
    #[test]
    fn the_median() {
        let median = Mm1::new(MEGABYTE, Quantile::P50).unwrap();
        // 0.693147181 / (1.25 · 0.5) = 1.1090354896 ms
        assert_eq!(median.completion_time(TEN_GBPS, load(0.5)), Ok(Duration::from_nanos(1_109_036)));
    }

    #[test]
    fn refuses_inputs_without_a_result() {
        let half = load(0.5);
        assert_eq!(Mm1::new(Bytes::ZERO, Quantile::P99), Err(LatencyError::EmptyMessage));
        for capacity in [Bandwidth::ZERO, Bandwidth::UNLIMITED] {
            assert_eq!(p99().completion_time(capacity, half), Err(LatencyError::Capacity(capacity)));
            assert_eq!(p99().largest_load(capacity, Duration::from_secs(1)), Err(LatencyError::Capacity(capacity)));
        }
        let (target, least) = (Duration::from_millis(3), Duration::from_nanos(3_684_137));
        assert_eq!(p99().largest_load(TEN_GBPS, target), Err(LatencyError::NoLoad { target, least }));
        assert_eq!(
            p99().smallest_capacity_at(half, Duration::ZERO),
            Err(LatencyError::NoCapacity { target: Duration::ZERO, least: Duration::from_nanos(1) })
        );
        assert_eq!(
            p99().smallest_capacity_for(TEN_GBPS, Duration::ZERO),
            Err(LatencyError::NoCapacity { target: Duration::ZERO, least: Duration::from_nanos(1) })
        );
        for traffic in [Bandwidth::MAX, Bandwidth::UNLIMITED] {
            let refused = p99().smallest_capacity_for(traffic, Duration::from_secs(1));
            assert_eq!(refused, Err(LatencyError::OutOfRange), "{traffic}");
        }
        let huge = Mm1::new(Bytes::new(u64::MAX), Quantile::P99).unwrap();
        assert_eq!(huge.completion_time(TEN_GBPS, half), Err(LatencyError::OutOfRange));
    }

    proptest! {
        #[test]
        fn slower_with_load_and_size_and_faster_with_capacity(
            size in 1u64..1 << 40, p in 1u32..1_000_000_000, bps in 1_000u64..1 << 50, rho in 1u32..999_999_999,
        ) {
            let quantile = Quantile::from_billionths(p).unwrap();
            let model = Mm1::new(Bytes::new(size), quantile).unwrap();
            let larger = Mm1::new(Bytes::new(size + 1), quantile).unwrap();
            let (low, high) = (Load::from_billionths(rho).unwrap(), Load::from_billionths(rho + 1).unwrap());
            let (slow, fast) = (Bandwidth::from_bps(bps), Bandwidth::from_bps(bps + 1));
            // A time too long for a `Duration` is longer than all.
            let longest = Duration::from_nanos(u64::MAX);
            let time = |model: Mm1, capacity, load| model.completion_time(capacity, load).unwrap_or(longest);
            prop_assert!(time(model, slow, low) <= time(model, slow, high));
            prop_assert!(time(model, fast, low) <= time(model, slow, low));
            prop_assert!(time(model, slow, low) <= time(larger, slow, low));
        }
        /// From a time back to its load and its capacity: these keep the target, and nothing beyond
        /// does.
        #[test]
        fn inverses(size in 1u64..1 << 36, bps in 1_000_000u64..1 << 40, rho in 1u32..1_000_000_000) {
            let model = Mm1::new(Bytes::new(size), Quantile::P99).unwrap();
            let (capacity, load) = (Bandwidth::from_bps(bps), Load::from_billionths(rho).unwrap());
            let target = model.completion_time(capacity, load).unwrap();

            let largest = model.largest_load(capacity, target).unwrap();
            prop_assert!(largest >= load && model.completion_time(capacity, largest).unwrap() == target);
            if let Ok(more) = Load::from_billionths(largest.billionths() + 1) {
                prop_assert!(model.completion_time(capacity, more).unwrap() > target);
            }
            let smallest = model.smallest_capacity_at(load, target).unwrap();
            prop_assert!(smallest <= capacity && model.completion_time(smallest, load).unwrap() == target);
            if smallest.bps() > 1 {
                let less = Bandwidth::from_bps(smallest.bps() - 1);
                prop_assert!(model.completion_time(less, load).unwrap() > target);
            }
        }
        /// The capacity for a traffic keeps the target under it, and one bit/s less does not, whatever
        /// billionth the load is rounded to. No more is needed than where the same load kept the target.
        #[test]
        fn capacity_for_a_traffic_is_the_smallest(
            size in 1u64..1 << 36, bps in 1_000_000u64..1 << 40, rho in 1u32..1_000_000_000, nanos in 1u64..1 << 40,
        ) {
            let model = Mm1::new(Bytes::new(size), Quantile::P99).unwrap();
            let traffic = Bandwidth::from_bps(bps);
            let on = |capacity: u64| u128::from(bps) * 1_000_000_000 / u128::from(capacity);
            let time = |capacity: u64, billionths: u128| {
                let load = Load::from_billionths(billionths as u32).ok();
                load.and_then(|load| model.completion_time(Bandwidth::from_bps(capacity), load).ok())
            };
            let target = Duration::from_nanos(nanos);
            if let Ok(smallest) = model.smallest_capacity_for(traffic, target) {
                let smallest = smallest.bps();
                prop_assert!(smallest > bps);
                if let Some(time) = time(smallest, on(smallest)) {
                    prop_assert!(time <= target);
                }
                if let Some(time) = time(smallest - 1, on(smallest - 1) + 1) {
                    prop_assert!(time > target);
                }
            }
            let load = Load::from_billionths(rho).unwrap();
            if let Ok(kept) = model.completion_time(traffic, load) {
                let same = Bandwidth::from_bps((u128::from(bps) * u128::from(rho) / 1_000_000_000) as u64);
                prop_assert!(model.smallest_capacity_for(same, kept).unwrap() <= traffic);
            }
        }
    }
}
