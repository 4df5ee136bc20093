//! The burst bound: the worst completion time of a message at a queue with bounded bursts.
//!
//! Problem: arrivals are bursty and of no known distribution, and an operator still needs a
//! completion time that holds. Approach: bound the arrivals instead of modelling them. If a
//! work-conserving queue of capacity `C` receives at most `σ + ρC·t` bytes in any time `t`, a flow
//! of `Z` bytes finishes within
//!
//! ```text
//! FCT ≤ (σ + Z) / (C(1 − ρ))                                          (Parley equation 2)
//! ```
//!
//! by counting: arrivals during the flow are served at most once. Weir's limits enforce `ρ`; `σ` is
//! the larger of two bursts ([`Burst`]): the data that senders transmit at line rate until
//! congestion control has converged, `C × convergence time`, and the burst of their shapers.
//!
//! Worked example (Parley Table 3): C = 10 Gb/s, convergence within 15 iterations of 500 µs, so σ =
//! 9.375 MB (7.5 ms at C). A message of 200 kB (0.16 ms at C) at a load of a half: (7.5 + 0.16) /
//! 0.5 = 15.32 ms. To keep it within 20 ms, 1 − ρ must be at least 7.66 / 20: a load of up to 61.7
//! %. That load keeps the target at 10 Gb/s, with 6.17 Gb/s of traffic; 7.5 Gb/s of traffic keep 25 ms
//! from (1.6 Mbit + 7.5 Gb/s · 25 ms) / (25 − 7.5 ms) = 10.81 Gb/s on.
//!
//! # Buffer
//!
//! The bound counts the work of a queue that loses nothing. In a busy period that began `t` ago the
//! queue holds at most `σ + ρC·t − C·t ≤ σ` bytes of the arrivals that σ and ρ describe, and the
//! message: `σ + Z`, the numerator of the bound ([`BurstBound::buffer`]). In the worked example
//! that is 9.575 MB. A port with a smaller buffer may lose packets, and a retransmission timer
//! then decides the completion time ([`crate::retransmission`]).
//!
//! # Limits
//!
//! - The printed proof counts arrivals from the flow's start on and ignores the queue at that time.
//!   The bound is safe all the same if σ and ρ describe all arrivals, the flow's included: a busy
//!   period lasts at most σ/(C(1 − ρ)), and that includes Z already. Adding Z is needed, and right,
//!   where σ and ρ describe only the others. So for a flow within its envelope the bound is too
//!   high by up to Z/(C(1 − ρ)).
//! - The flow itself must not be limited below the queue's speed: a limited flow waits at its
//!   limiter, which the bound does not include.
//! - One queue. On a path of several, each adds its own, and bursts grow from hop to hop.
//! - If congestion control needs a fixed time to converge, σ grows with C: no capacity brings the
//!   bound below `convergence / (1 − ρ)`, and [`BurstBound::smallest_capacity_at`] reports it. For a
//!   given traffic ρ falls as C grows, so there the limit is the convergence itself.
//! - σ is an observed or assumed burst, not a proven one. Table 3 takes 15 iterations, although
//!   Parley §6.3 states that the worst case is within 30; with these its first bound would be 17.8
//!   ms, not 9.0.
//!
//! Source: Parley §4, equations 1 and 2, with Cruz's (σ, ρ) constraint and his bound on the backlog
//! (A calculus for network delay, part I, 1991); Table 3 (§6.3). Table 3's C is one machine's
//! interface, not the rack's uplink, and its last column is at ρ = 0.80, although 60 of 80 Gb/s is
//! 0.75.

use crate::error::{LatencyError, finite};
use crate::idle_time::{IdleTime, load_on_the_largest};
use weir_units::Load;
use weir_units::{Bandwidth, Bytes, Duration};

/// Billionths of a nanosecond in a second times bits in a byte: what `byte / (bit/s)` is in
/// billionths of a nanosecond.
const BILLIONTHS_FOR_BYTE_AT_1_BPS: u128 = 8_000_000_000_000_000_000;
/// Nanoseconds in a second times bits in a byte: what `byte / (bit/s)` is in nanoseconds.
const NANOS_FOR_BYTE_AT_1_BPS: u128 = 8_000_000_000;
/// Billionths of a nanosecond in a nanosecond.
const BILLIONTHS_IN_NANO: u128 = 1_000_000_000;

/// σ: the bytes that may arrive beyond the long-term load. The larger of its two parts (Parley §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Burst {
    /// How long congestion control takes to converge; until then senders may fill the queue at its
    /// own speed.
    pub convergence: Duration,
    /// The burst of the senders' shapers, all senders together.
    pub shapers: Bytes,
}

impl Burst {
    /// A burst of `capacity × convergence`. In Parley's experience this is the larger part.
    pub const fn from_convergence(convergence: Duration) -> Self {
        Self { convergence, shapers: Bytes::ZERO }
    }
    /// A burst of a fixed size.
    pub const fn from_bytes(shapers: Bytes) -> Self {
        Self { convergence: Duration::ZERO, shapers }
    }
    /// σ at a queue of this capacity, rounded up to a byte. Saturates at the largest [`Bytes`].
    pub fn size(self, capacity: Bandwidth) -> Bytes {
        let bytes = (u128::from(capacity.bps()) * u128::from(self.convergence.nanos())).div_ceil(8_000_000_000);
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX)).max(self.shapers)
    }
}

/// A message behind a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BurstBound {
    /// σ, the bytes that may arrive beyond the load.
    pub burst: Burst,
    /// Z, the message's size.
    pub message: Bytes,
}

impl BurstBound {
    /// The time within which the message finishes in every case, rounded up to a nanosecond.
    ///
    /// # Errors
    /// [`LatencyError::Capacity`] if the capacity is zero or unlimited;
    /// [`LatencyError::OutOfRange`] if the time is longer than a [`Duration`].
    pub fn completion_time(&self, capacity: Bandwidth, load: Load) -> Result<Duration, LatencyError> {
        self.idle_time(capacity)?.at(load)
    }

    /// The highest load on `capacity` at which the message finishes within `target` in every case:
    /// the limit of the peak load.
    ///
    /// # Errors
    /// [`LatencyError::NoLoad`] if burst and message alone take longer, and those of
    /// [`BurstBound::completion_time`].
    pub fn largest_load(&self, capacity: Bandwidth, target: Duration) -> Result<Load, LatencyError> {
        self.idle_time(capacity)?.largest_load(target)
    }

    /// The lowest capacity at which the message finishes within `target` in every case, if `load` is
    /// the load on that capacity.
    ///
    /// # Errors
    /// [`LatencyError::NoCapacity`] if convergence alone takes longer, or [`Bandwidth::MAX`] is too
    /// slow.
    pub fn smallest_capacity_at(&self, load: Load, target: Duration) -> Result<Bandwidth, LatencyError> {
        // Both parts of the burst must fit: t + Z/C ≤ target(1 − ρ) and (shapers + Z)/C ≤ target(1
        // − ρ).
        let room = u128::from(target.nanos()) * u128::from(load.headroom());
        let room_after_convergence = room.checked_sub(self.convergence());
        let bps = room_after_convergence
            .and_then(|left| Some(least_bps(self.message_work(), left)?.max(least_bps(self.burst_work(), room)?)));
        match bps {
            Some(bps) if bps <= Bandwidth::MAX.bps().into() => Ok(Bandwidth::from_bps((bps as u64).max(1))),
            _ => {
                let least = self.completion_time(Bandwidth::MAX, load)?;
                Err(LatencyError::NoCapacity { target, least })
            }
        }
    }

    /// The lowest capacity at which the message finishes within `target` in every case, if the load on
    /// it is traffic of this rate. Unlike a load, traffic does not grow with the capacity: one exists for
    /// every target above the convergence.
    ///
    /// # Errors
    /// [`LatencyError::NoCapacity`] if convergence alone takes the target, or [`Bandwidth::MAX`] is too
    /// slow; [`LatencyError::OutOfRange`] if that cannot carry the traffic.
    pub fn smallest_capacity_for(&self, traffic: Bandwidth, target: Duration) -> Result<Bandwidth, LatencyError> {
        // σ(C) + Z ≤ target (C − traffic) for both parts of the burst, t the convergence: Z + traffic ·
        // target ≤ C (target − t) and shapers + Z ≤ (C − traffic) target.
        let (traffic_bps, nanos) = (u128::from(traffic.bps()), u128::from(target.nanos()));
        let converging = || {
            let work = (u128::from(self.message.get()) * NANOS_FOR_BYTE_AT_1_BPS).checked_add(traffic_bps * nanos)?;
            least_bps(work, nanos.checked_sub(self.burst.convergence.nanos().into())?)
        };
        let bursting = || Some(traffic_bps + least_bps(self.burst_work(), nanos * BILLIONTHS_IN_NANO)?);
        match converging().zip(bursting()).map(|(one, other)| one.max(other)) {
            Some(bps) if bps <= Bandwidth::MAX.bps().into() => Ok(Bandwidth::from_bps((bps as u64).max(1))),
            _ => {
                let least = self.completion_time(Bandwidth::MAX, load_on_the_largest(traffic)?)?;
                Err(LatencyError::NoCapacity { target, least })
            }
        }
    }

    /// The most bytes in the queue, σ + Z: the buffer that the bound needs. Rounded up to a byte.
    ///
    /// # Errors
    /// [`LatencyError::Capacity`] if the capacity is zero or unlimited;
    /// [`LatencyError::OutOfRange`] if it is more than [`Bytes`] can count.
    pub fn buffer(&self, capacity: Bandwidth) -> Result<Bytes, LatencyError> {
        finite(capacity)?;
        let burst = self.burst.size(capacity);
        // A saturated σ is one that no buffer is known to hold.
        let bytes = burst.get().checked_add(self.message.get()).filter(|_| burst.get() < u64::MAX);
        bytes.map(Bytes::new).ok_or(LatencyError::OutOfRange)
    }

    /// The larger of `t + Z/C` and `(shapers + Z)/C`.
    fn idle_time(&self, capacity: Bandwidth) -> Result<IdleTime, LatencyError> {
        let bps = finite(capacity)?;
        let converging = self.convergence() + self.message_work().div_ceil(bps);
        Ok(IdleTime(converging.max(self.burst_work().div_ceil(bps))))
    }

    /// In billionths of a nanosecond.
    fn convergence(&self) -> u128 {
        u128::from(self.burst.convergence.nanos()) * BILLIONTHS_IN_NANO
    }
    /// The message's time at 1 bit/s in billionths of a nanosecond; below 2^127.
    fn message_work(&self) -> u128 {
        u128::from(self.message.get()) * BILLIONTHS_FOR_BYTE_AT_1_BPS
    }
    /// The shapers' burst and the message's time at 1 bit/s in billionths of a nanosecond; below
    /// 2^128.
    fn burst_work(&self) -> u128 {
        (u128::from(self.burst.shapers.get()) + u128::from(self.message.get())) * BILLIONTHS_FOR_BYTE_AT_1_BPS
    }
}

/// The lowest rate at which `work` takes at most `room`; `None` if there is work and no room.
fn least_bps(work: u128, room: u128) -> Option<u128> {
    match (work, room) {
        (0, _) => Some(0),
        (_, 0) => None,
        _ => Some(work.div_ceil(room)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEN_GBPS: Bandwidth = Bandwidth::from_gbps(10);
    /// Table 3: 15 iterations of T = 500 µs (not Table 1's 200 µs).
    const TABLE_3: Burst = Burst::from_convergence(Duration::from_micros(15 * 500));
    const A: BurstBound = BurstBound { burst: TABLE_3, message: Bytes::new(200_000) };
    const B: BurstBound = BurstBound { burst: TABLE_3, message: Bytes::new(1_000_000) };

    fn load(fraction: f64) -> Load {
        Load::from_fraction(fraction).unwrap()
    }

    /// All of Table 3's bounds, in nanoseconds rounded up: (7.5 + 0.16) ms / (1 − ρ) for A, (7.5 +
    /// 0.8) ms / (1 − ρ) for B. The paper prints A 9.01, 15.32, 25.53, 38.30 and B 9.77, 16.60,
    /// 27.67 ms; it prints no bound for B in the last column.
    #[test]
    fn table_3() {
        assert_eq!(TABLE_3.size(TEN_GBPS), Bytes::new(9_375_000));
        for (rho, a, b) in [
            (0.15, 9_011_765, 9_764_706),
            (0.50, 15_320_000, 16_600_000),
            (0.70, 25_533_334, 27_666_667),
            (0.80, 38_300_000, 41_500_000),
        ] {
            assert_eq!(A.completion_time(TEN_GBPS, load(rho)), Ok(Duration::from_nanos(a)), "A at {rho}");
            assert_eq!(B.completion_time(TEN_GBPS, load(rho)), Ok(Duration::from_nanos(b)), "B at {rho}");
        }
    }

    /// Other readings of the paper's text do not give Table 3: 30 iterations, the uplink's 80 Gb/s,
    /// and 60 of 80 Gb/s as the last column's load.
    #[test]
    fn other_readings_of_table_3_differ() {
        let thirty = BurstBound { burst: Burst::from_convergence(Duration::from_millis(15)), ..A };
        assert_eq!(thirty.completion_time(TEN_GBPS, load(0.15)), Ok(Duration::from_nanos(17_835_295)));
        assert_eq!(A.completion_time(Bandwidth::from_gbps(80), load(0.15)), Ok(Duration::from_nanos(8_847_059)));
        assert_eq!(A.completion_time(TEN_GBPS, load(0.75)), Ok(Duration::from_nanos(30_640_000)));
    }

    /// §4: "if C = 100 Mb/s and congestion control takes 10 ms to converge, the maximum burst is
    /// about 83 MTU sized packets": 125,000 B / 1500 B = 83.3.
    #[test]
    fn the_burst_of_section_4() {
        let capacity = Bandwidth::from_mbps(100);
        let burst = Burst::from_convergence(Duration::from_millis(10)).size(capacity);
        assert_eq!(burst, Bytes::new(125_000));
        assert_eq!(burst.get() * 10 / 1500, 833);
        // Fig 9: shapers of 64 kB bring queues of less than 25 packets at 90 % load, so convergence
        // decides.
        let both = Burst { convergence: Duration::from_millis(10), shapers: Bytes::new(25 * 1500) };
        assert_eq!(both.size(capacity), burst);
        assert_eq!(Burst { shapers: Bytes::new(125_001), ..both }.size(capacity), Bytes::new(125_001));
    }

    /// The worked example, and the same turned to capacity: (0.2 · 20 ms − 7.5 ms) is no room at
    /// all; at half the load 10 − 7.5 = 2.5 ms remain for 1.6 Mbit, 640 Mb/s.
    #[test]
    fn inverses_keep_the_target() {
        let target = Duration::from_millis(20);
        assert_eq!(A.largest_load(TEN_GBPS, target), Ok(Load::from_fraction(0.617).expect("a load")));
        assert_eq!(A.smallest_capacity_at(load(0.5), target), Ok(Bandwidth::from_mbps(640)));
        let least = Duration::from_nanos(37_500_001);
        assert_eq!(A.smallest_capacity_at(load(0.8), target), Err(LatencyError::NoCapacity { target, least }));
        // A burst of fixed size shrinks in time as the capacity grows: 1.2 MB in 20 ms · 0.2 is 2.4
        // Gb/s.
        let fixed = BurstBound { burst: Burst::from_bytes(Bytes::new(1_000_000)), ..A };
        assert_eq!(fixed.smallest_capacity_at(load(0.8), target), Ok(Bandwidth::from_mbps(2_400)));
        assert_eq!(fixed.completion_time(Bandwidth::from_mbps(2_400), load(0.8)), Ok(target));
        // For 2 Gb/s of traffic: 2 Gb/s + 9.6 Mbit / 20 ms.
        assert_eq!(fixed.smallest_capacity_for(Bandwidth::from_gbps(2), target), Ok(Bandwidth::from_mbps(2_480)));
    }

    /// 7.5 Gb/s of traffic within 25 ms: (1.6 Mbit + 187.5 Mbit) / 17.5 ms = 10.805714… Gb/s, although no capacity
    /// keeps 25 ms at a load of 75 % (7.5 ms / 0.25 = 30 ms). At 10 Gb/s it takes 30.64 ms.
    #[test]
    fn capacity_for_a_traffic_is_not_that_for_a_load() {
        let (traffic, target) = (Bandwidth::from_mbps(7_500), Duration::from_millis(25));
        assert_eq!(A.smallest_capacity_for(traffic, target), Ok(Bandwidth::from_bps(10_805_714_286)));
        assert!(matches!(A.smallest_capacity_at(load(0.75), target), Err(LatencyError::NoCapacity { .. })));
        // A target of the convergence, or less, is kept by no capacity.
        for nanos in [0, 7_499_999, 7_500_000] {
            let target = Duration::from_nanos(nanos);
            let refused = A.smallest_capacity_for(traffic, target);
            assert!(matches!(refused, Err(LatencyError::NoCapacity { least, .. }) if least > target), "{refused:?}");
        }
        for traffic in [Bandwidth::MAX, Bandwidth::UNLIMITED] {
            assert_eq!(A.smallest_capacity_for(traffic, target), Err(LatencyError::OutOfRange));
        }
    }

    #[test]
    fn refuses_inputs_without_a_result() {
        let target = Duration::from_millis(7);
        let least = Duration::from_micros(7_660);
        assert_eq!(A.largest_load(TEN_GBPS, target), Err(LatencyError::NoLoad { target, least }));
        assert_eq!(
            A.largest_load(TEN_GBPS, least),
            Err(LatencyError::NoLoad { target: least, least }),
            "only no load at all would do"
        );
        for capacity in [Bandwidth::ZERO, Bandwidth::UNLIMITED] {
            assert_eq!(A.completion_time(capacity, load(0.5)), Err(LatencyError::Capacity(capacity)));
        }
        let huge = BurstBound { burst: Burst::from_bytes(Bytes::new(u64::MAX)), message: Bytes::new(u64::MAX) };
        assert_eq!(huge.completion_time(Bandwidth::from_bps(1), load(0.5)), Err(LatencyError::OutOfRange));
        assert!(huge.completion_time(Bandwidth::MAX, load(0.5)).is_ok());
        let text = A.smallest_capacity_at(load(0.5), target).unwrap_err().to_string();
        assert_eq!(text, "no capacity keeps 7 ms under this load: even 1000000 Tb/s needs 15.000001 ms");
    }

    /// Table 3's burst and message A: 9.375 MB and 200 kB; at 1 Gb/s a tenth of the burst. σ is
    /// rounded up: 3 Gb/s · 1 ns is 0.375 B.
    #[test]
    fn buffer_holds_burst_and_message() {
        assert_eq!(A.buffer(TEN_GBPS), Ok(Bytes::new(9_575_000)));
        assert_eq!(A.buffer(Bandwidth::from_gbps(1)), Ok(Bytes::new(1_137_500)));
        let short = BurstBound { burst: Burst::from_convergence(Duration::from_nanos(1)), message: Bytes::new(10) };
        assert_eq!(short.buffer(Bandwidth::from_gbps(3)), Ok(Bytes::new(11)));
        assert_eq!(A.buffer(Bandwidth::UNLIMITED), Err(LatencyError::Capacity(Bandwidth::UNLIMITED)));
        let huge = BurstBound { burst: Burst::from_bytes(Bytes::new(u64::MAX)), message: Bytes::ZERO };
        assert_eq!(huge.buffer(TEN_GBPS), Err(LatencyError::OutOfRange));
    }

    #[test]
    fn nothing_takes_no_time() {
        let nothing = BurstBound { burst: Burst::default(), message: Bytes::ZERO };
        assert_eq!(nothing.completion_time(TEN_GBPS, load(0.5)), Ok(Duration::ZERO));
        assert_eq!(
            nothing.largest_load(TEN_GBPS, Duration::from_secs(1)),
            Ok(Load::from_billionths(999_999_999).expect("a load"))
        );
        assert_eq!(nothing.smallest_capacity_at(load(0.5), Duration::ZERO), Ok(Bandwidth::from_bps(1)));
        assert_eq!(nothing.smallest_capacity_for(Bandwidth::ZERO, Duration::ZERO), Ok(Bandwidth::from_bps(1)));
    }

    fn bounds() -> impl Strategy<Value = BurstBound> {
        (0u64..1 << 34, 0u64..1 << 32, 0u64..1 << 36).prop_map(|(convergence, shapers, message)| BurstBound {
            burst: Burst { convergence: Duration::from_nanos(convergence), shapers: Bytes::new(shapers) },
            message: Bytes::new(message),
        })
    }

    proptest! {
        /// The bound as Parley writes it, with σ from [`Burst::size`]: off by σ's rounding to a
        /// byte only.
        #[test]
        fn is_equation_2(bound in bounds(), bps in 1_000_000u64..1 << 40, rho in 1u32..990_000_000) {
            let (capacity, load) = (Bandwidth::from_bps(bps), Load::from_billionths(rho).unwrap());
            let bits = (bound.burst.size(capacity).get() + bound.message.get()) as f64 * 8.0;
            let printed = bits / (bps as f64 * (1.0 - load.as_f64()));
            let byte = 8.0 / (bps as f64 * (1.0 - load.as_f64()));
            let computed = bound.completion_time(capacity, load).unwrap().as_secs_f64();
            prop_assert!((computed - printed).abs() <= byte + 2e-9 + 1e-9 * printed, "{computed} and {printed}");
        }
        /// Arrivals within σ and ρ and one message never fill the buffer beyond [`BurstBound::buffer`], and the
        /// burst at once beside the message fills it.
        #[test]
        fn buffer_holds_every_backlog(
            bound in bounds(), rho in 1u32..1_000_000_000,
            arrivals in prop::collection::vec((0u64..100_000, 0u64..1 << 20), 1..50),
        ) {
            let (capacity, load) = (Bandwidth::from_gbps(8), Load::from_billionths(rho).unwrap());
            let (sigma, buffer) = (bound.burst.size(capacity).get(), bound.buffer(capacity).unwrap().get());
            prop_assert_eq!(buffer, sigma + bound.message.get());
            // At 8 Gb/s a nanosecond is a byte; tokens and queue in billionths of a byte.
            let unit = 1_000_000_000u128;
            let (mut tokens, mut queue) = (u128::from(sigma) * unit, u128::from(bound.message.get()) * unit);
            for (gap, wanted) in arrivals {
                tokens = (tokens + u128::from(gap) * u128::from(load.billionths())).min(u128::from(sigma) * unit);
                queue = queue.saturating_sub(u128::from(gap) * unit);
                let sent = (u128::from(wanted) * unit).min(tokens);
                (tokens, queue) = (tokens - sent, queue + sent);
                prop_assert!(queue <= u128::from(buffer) * unit);
            }
        }
        #[test]
        fn slower_with_load_and_size_and_faster_with_capacity(
            bound in bounds(), bps in 1_000u64..1 << 50, rho in 1u32..999_999_999,
        ) {
            let (low, high) = (Load::from_billionths(rho).unwrap(), Load::from_billionths(rho + 1).unwrap());
            let (slow, fast) = (Bandwidth::from_bps(bps), Bandwidth::from_bps(bps + 1));
            let larger = BurstBound { message: bound.message + Bytes::new(1), ..bound };
            // A time too long for a `Duration` is longer than all.
            let longest = Duration::from_nanos(u64::MAX);
            let time = |bound: BurstBound, capacity, load| bound.completion_time(capacity, load).unwrap_or(longest);
            prop_assert!(time(bound, slow, low) <= time(bound, slow, high));
            prop_assert!(time(bound, fast, low) <= time(bound, slow, low));
            prop_assert!(time(bound, slow, low) <= time(larger, slow, low));
        }
        /// From a time back to its load and its capacity: these keep the target, and nothing beyond
        /// does.
        #[test]
        fn inverses(bound in bounds(), bps in 1_000_000u64..1 << 40, rho in 1u32..1_000_000_000) {
            prop_assume!(bound.message > Bytes::ZERO);
            let (capacity, load) = (Bandwidth::from_bps(bps), Load::from_billionths(rho).unwrap());
            let target = bound.completion_time(capacity, load).unwrap();

            let largest = bound.largest_load(capacity, target).unwrap();
            prop_assert!(largest >= load && bound.completion_time(capacity, largest).unwrap() == target);
            if let Ok(more) = Load::from_billionths(largest.billionths() + 1) {
                prop_assert!(bound.completion_time(capacity, more).unwrap() > target);
            }
            let smallest = bound.smallest_capacity_at(load, target).unwrap();
            prop_assert!(smallest <= capacity && bound.completion_time(smallest, load).unwrap() == target);
            if smallest.bps() > 1 {
                let less = Bandwidth::from_bps(smallest.bps() - 1);
                prop_assert!(bound.completion_time(less, load).map_or(true, |time| time > target));
            }
        }
        /// The capacity for a traffic keeps the target under it, and one bit/s less does not, whatever
        /// billionth the load is rounded to. No more is needed than where the same load kept the target.
        #[test]
        fn capacity_for_a_traffic_is_the_smallest(
            bound in bounds(), bps in 1_000_000u64..1 << 40, rho in 1u32..1_000_000_000, nanos in 1u64..1 << 40,
        ) {
            prop_assume!(bound.message > Bytes::ZERO);
            let (traffic, target) = (Bandwidth::from_bps(bps), Duration::from_nanos(nanos));
            let on = |capacity: u64| u128::from(bps) * 1_000_000_000 / u128::from(capacity);
            let time = |capacity: u64, billionths: u128| {
                let load = Load::from_billionths(billionths as u32).ok();
                load.and_then(|load| bound.completion_time(Bandwidth::from_bps(capacity), load).ok())
            };
            match bound.smallest_capacity_for(traffic, target) {
                Ok(smallest) => {
                    let smallest = smallest.bps();
                    prop_assert!(smallest > bps);
                    if let Some(time) = time(smallest, on(smallest)) {
                        prop_assert!(time <= target);
                    }
                    if let Some(time) = time(smallest - 1, on(smallest - 1) + 1) {
                        prop_assert!(time > target);
                    }
                }
                Err(LatencyError::NoCapacity { least, .. }) => prop_assert!(least > target),
                Err(other) => prop_assert!(false, "{other}"),
            }
            if let Ok(kept) = bound.completion_time(traffic, Load::from_billionths(rho).unwrap()) {
                let same = Bandwidth::from_bps((u128::from(bps) * u128::from(rho) / 1_000_000_000) as u64);
                prop_assert!(bound.smallest_capacity_for(same, kept).unwrap() <= traffic);
            }
        }
        /// For any target, a result keeps it and a refusal names a time beyond it.
        #[test]
        fn any_target(bound in bounds(), rho in 1u32..1_000_000_000, nanos in 0u64..1 << 40) {
            let (load, target) = (Load::from_billionths(rho).unwrap(), Duration::from_nanos(nanos));
            match bound.smallest_capacity_at(load, target) {
                Ok(capacity) => prop_assert!(bound.completion_time(capacity, load).unwrap() <= target),
                Err(LatencyError::NoCapacity { least, .. }) => prop_assert!(least > target),
                Err(other) => prop_assert!(false, "{other}"),
            }
            match bound.largest_load(TEN_GBPS, target) {
                Ok(load) => prop_assert!(bound.completion_time(TEN_GBPS, load).unwrap() <= target),
                Err(LatencyError::NoLoad { least, .. }) => prop_assert!(least >= target),
                Err(other) => prop_assert!(false, "{other}"),
            }
        }
    }
}
