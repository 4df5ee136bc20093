//! Limits: no packet departs before its service's root limit allows it or leaves before its departure, and every
//! receiver advertises a rate within its bounds.
//!
//! In any window of t seconds at most limit · t, the burst and the packet that opens the window may
//! pass a limiter. This holds for all windows if it holds for a leaky bucket: packets fill it as they are offered, it
//! empties at the limit, and a packet departs when those before it have left no more than the burst. Departure times
//! add (`datapath/departure.h`): an eighth of the burst for packets of a batch, the same for a lease, and what the
//! limit carries between two ticks, whose time replaces that of the clock. A new limit holds from the next packet on:
//! what is in the bucket then empties at it. A batch and a lease from before it may still be used up; what they carry
//! is a debt, which the new limit repays.

use super::entry;
use crate::ids::{HostId, PacketId, ServiceIndex};
use std::collections::BTreeMap;
use weir_units::{Bandwidth, Bytes, SimTime};

/// Bit/s times picoseconds: the unit of one bit in the buckets.
const BIT: u128 = 1_000_000_000_000;
/// Limiters count nanoseconds: a departure and the start of an interval may each be truncated by up
/// to one.
const ROUNDING_PS: u128 = 2_000;
/// The part of a burst that a batch adds, and a lease.
const BURST_PART: u128 = 8;
/// The time after which a batch and a lease have ended, with a tick: ticks of interfaces of 50 Mb/s and more are at
/// most as far apart. Until then an earlier limit is in force.
const LONGEST_TICK: SimTime = SimTime::from_millis(20);
/// The most bytes of a lease, or of a batch, without a limit (`WEIR_LEASE_MAX`).
const LEASE_MOST: u128 = 139_264;
/// The longest tick whose time replaces that of the clock (`WEIR_TICK_TIME_MAX`).
const TICK_PS: u128 = 500_000_000;

/// The buckets of all services at all hosts that ever sent or had a limit.
#[derive(Debug, Default)]
pub struct Limits {
    buckets: BTreeMap<(HostId, ServiceIndex), Bucket>,
    /// By packet: its departure.
    departures: Vec<SimTime>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    /// Bit/s; 0 is unlimited.
    limit: u128,
    /// The highest limit so far: what was rounded at it may still be there.
    highest: u128,
    burst: Bytes,
    /// The limit and the burst from the next packet on.
    next: Option<(u128, Bytes)>,
    held: u128,
    /// Of batches and leases of earlier limits, as far as it is not repaid.
    earlier: u128,
    at: SimTime,
    /// When the last packet was offered.
    offered: Option<SimTime>,
}

impl Bucket {
    fn settle(&mut self, now: SimTime) {
        let elapsed = u128::from((now - self.at).picos());
        self.held = self.held.saturating_sub(elapsed * self.limit);
        self.earlier = self.earlier.saturating_sub(elapsed * self.limit);
        self.at = now;
    }

    /// Bits of a batch and a lease.
    fn slack(&self) -> u128 {
        let most = 2 * LEASE_MOST * 8 * BIT;
        if self.limit == 0 { most } else { most.min(2 * u128::from(self.burst.get()) * 8 * BIT / BURST_PART) }
    }

    /// The most that it may hold when a packet leaves.
    fn allowed(&self) -> u128 {
        let burst = u128::from(self.burst.get()) * 8 * BIT;
        burst + self.slack() + self.earlier + TICK_PS * self.limit + ROUNDING_PS * self.highest
    }
}

impl Limits {
    /// A service has another limit or burst from its next packet on.
    pub fn limit_set(&mut self, host: HostId, service: ServiceIndex, limit: Bandwidth, burst: Bytes) {
        let bucket = self.buckets.entry((host, service)).or_default();
        let limit = if limit.is_unlimited() { 0 } else { limit.bps().max(1).into() };
        bucket.next = Some((limit, burst));
    }

    /// A packet of `size` bytes that is offered now has its departure.
    pub fn stamped(
        &mut self,
        now: SimTime,
        (host, service): (HostId, ServiceIndex),
        (packet, size): (PacketId, u32),
        departure: SimTime,
    ) {
        *entry(&mut self.departures, packet.index()) = departure;
        let bucket = self.buckets.entry((host, service)).or_default();
        bucket.settle(now);
        let offered = bucket.offered.replace(now);
        if let Some((limit, burst)) = bucket.next.take() {
            if limit == 0 || bucket.limit == 0 {
                bucket.held = 0;
            }
            if offered.is_some_and(|at| now - at <= LONGEST_TICK) {
                bucket.earlier += bucket.slack() + u128::from(LONGEST_TICK.picos()) * bucket.limit;
            }
            (bucket.limit, bucket.burst) = (limit, burst);
            bucket.highest = bucket.highest.max(limit);
        }
        if bucket.limit == 0 {
            return;
        }
        let paid = u128::from(departure.saturating_sub(now).picos()) * bucket.limit;
        let (left, allowed) = (bucket.held.saturating_sub(paid), bucket.allowed());
        assert!(
            left <= allowed,
            "a packet of service {} that host {} is offered at {now} departs at {departure} while {} bits above its \
             limit of {} bit/s are on their way; {} may be",
            service.0,
            host.0,
            left / BIT,
            bucket.limit,
            allowed / BIT
        );
        bucket.held += u128::from(size) * 8 * BIT;
    }

    /// A packet left the limiters of its host.
    pub fn released(&mut self, now: SimTime, packet: PacketId) {
        let departure = *entry(&mut self.departures, packet.index());
        assert!(now >= departure, "packet {} leaves at {now}, before its departure at {departure}", packet.0);
    }

    /// A receiver advertised a rate: at most its capacity, and at least 10 Mb/s or, under 10 Gb/s,
    /// a thousandth of it.
    pub fn advertised(&mut self, host: HostId, service: ServiceIndex, rate: Bandwidth, capacity: Bandwidth) {
        let floor = (capacity.bps() / 1000).min(10_000_000);
        assert!(
            floor <= rate.bps() && rate <= capacity,
            "service {} at host {} advertises {rate}, and its capacity is {capacity}",
            service.0,
            host.0
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: HostId = HostId(2);
    const SERVICE: ServiceIndex = ServiceIndex(0);

    /// A limit of 12 Mb/s, whose burst is a packet: 1,500 B more, of which a quarter is for batches and leases, and
    /// 750 B between two ticks.
    fn limits() -> Limits {
        let mut limits = Limits::default();
        limits.limit_set(HOST, SERVICE, Bandwidth::from_mbps(12), Bytes::new(1500));
        limits
    }

    /// A packet of 1,500 B that is offered and departs at these times, in microseconds.
    fn packet(limits: &mut Limits, offered: u64, departs: u64) {
        let at = SimTime::from_micros;
        limits.stamped(at(offered), (HOST, SERVICE), (PacketId(7), 1500), at(departs));
        limits.released(at(departs), PacketId(7));
    }

    #[test]
    fn a_burst_and_a_packet_may_leave_at_once_and_then_one_each_millisecond() {
        let mut limits = limits();
        for departs in [0, 0, 250, 1250] {
            packet(&mut limits, 0, departs);
        }
        for micros in [10_000, 10_000, 10_250] {
            packet(&mut limits, micros, micros);
        }
    }

    #[test]
    #[should_panic(expected = "above its limit of 12000000 bit/s")]
    fn catches_a_packet_that_leaves_early() {
        let mut limits = limits();
        for departs in [0, 0, 249] {
            packet(&mut limits, 0, departs);
        }
    }

    #[test]
    #[should_panic(expected = "above its limit of 12000000 bit/s")]
    fn catches_a_rate_one_percent_above_the_limit() {
        let mut limits = limits();
        for number in 0..500 {
            packet(&mut limits, number * 990, number * 990);
        }
    }

    /// Limits of 12 and 12.1 Mb/s, each for 0.1 s, and 10 % more than they allow.
    #[test]
    #[should_panic(expected = "bit/s are on their way")]
    fn catches_a_rate_above_limits_that_change() {
        let mut limits = limits();
        for number in 0..2000 {
            let micros = number * 900;
            if number % 100 == 0 {
                let limit = Bandwidth::from_bps(12_000_000 + number / 100 % 2 * 100_000);
                limits.limit_set(HOST, SERVICE, limit, Bytes::new(1500));
            }
            packet(&mut limits, micros, micros);
        }
    }

    /// A hundred packets have departures under 12 Mb/s when it falls to 1.2 Mb/s, after 30 of them have left; one more
    /// must wait for the others at that rate: for 105,000 B less the burst, a quarter of it and 75 B of a tick.
    #[test]
    fn earlier_departures_stay_when_the_limit_falls() {
        let fallen = |last: u64| {
            let mut limits = limits();
            packet(&mut limits, 0, 0);
            (0..99).for_each(|number| packet(&mut limits, 0, number * 1000));
            limits.limit_set(HOST, SERVICE, Bandwidth::from_bps(1_200_000), Bytes::new(1500));
            packet(&mut limits, 30_000, last);
        };
        fallen(720_000);
        assert!(std::panic::catch_unwind(|| fallen(700_000)).is_err(), "too early at the new rate");
    }

    #[test]
    #[should_panic(expected = "leaves at 0.000001000000 s, before its departure at 0.000002000000 s")]
    fn catches_a_packet_that_leaves_before_its_departure() {
        let mut limits = limits();
        limits.stamped(SimTime::ZERO, (HOST, SERVICE), (PacketId(1), 1500), SimTime::from_micros(2));
        limits.released(SimTime::from_micros(1), PacketId(1));
    }

    #[test]
    #[should_panic(expected = "advertises 2 Gb/s, and its capacity is 1 Gb/s")]
    fn catches_a_rate_above_the_capacity() {
        limits().advertised(HOST, SERVICE, Bandwidth::from_gbps(2), Bandwidth::from_gbps(1));
    }
}
