//! Limits: no service leaves its root limiter faster than the limit, and every receiver advertises
//! a rate within its bounds.
//!
//! In any window of t seconds at most limit · t, the burst and the packet that opens the window may
//! leave. This holds for all windows if it holds for a leaky bucket: departures fill it, it empties
//! at the limit, and a packet may leave only while it contains no more than the burst.

use crate::ids::{HostId, ServiceIndex};
use std::collections::BTreeMap;
use weir_units::{Bandwidth, Bytes, SimTime};

/// Bit/s times picoseconds: the unit of one bit in the buckets.
const BIT: u128 = 1_000_000_000_000;
/// Limiters count nanoseconds: a departure and the start of an interval may each be truncated by up
/// to one.
const ROUNDING_PS: u128 = 2_000;

/// The buckets of all services at all hosts that ever had a limit.
#[derive(Debug, Default)]
pub struct Limits {
    buckets: BTreeMap<(HostId, ServiceIndex), Bucket>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    /// The highest limit so far: rounding at that limit may still be in the bucket.
    limit: u128,
    /// The highest limit so far: what was rounded at it may still be there.
    highest: u128,
    burst: Bytes,
    held: u128,
    at: SimTime,
}

impl Bucket {
    fn settle(&mut self, now: SimTime) {
        let elapsed = u128::from((now - self.at).picos());
        self.held = self.held.saturating_sub(elapsed * self.limit);
        self.at = now;
    }
}

impl Limits {
    /// A service has another limit or burst.
    pub fn limit_set(&mut self, now: SimTime, host: HostId, service: ServiceIndex, limit: Bandwidth, burst: Bytes) {
        let bucket = self.buckets.entry((host, service)).or_default();
        bucket.settle(now);
        bucket.burst = burst;
        if limit.is_unlimited() {
            (bucket.limit, bucket.held) = (0, 0);
        } else {
            bucket.limit = limit.bps().max(1).into();
            bucket.highest = bucket.highest.max(bucket.limit);
        }
    }

    /// A packet left a root limiter.
    pub fn released(&mut self, now: SimTime, host: HostId, service: ServiceIndex, size: u32) {
        let bucket = self.buckets.entry((host, service)).or_default();
        if bucket.limit == 0 {
            return;
        }
        bucket.settle(now);
        let allowed = u128::from(bucket.burst.get()) * 8 * BIT + ROUNDING_PS * bucket.highest;
        assert!(
            bucket.held <= allowed,
            "a packet of service {} leaves host {} at {now} while {} bits above its limit of {} bit/s are on their \
             way; \
             {} may be",
            service.0,
            host.0,
            bucket.held / BIT,
            bucket.limit,
            allowed / BIT
        );
        bucket.held += u128::from(size) * 8 * BIT;
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

    fn limits() -> Limits {
        let mut limits = Limits::default();
        limits.limit_set(SimTime::ZERO, HOST, SERVICE, Bandwidth::from_mbps(12), Bytes::new(1500));
        limits
    }

    #[test]
    fn a_burst_and_a_packet_may_leave_at_once_and_then_one_each_millisecond() {
        let mut limits = limits();
        for ms in [0, 0, 1, 2, 10, 10] {
            limits.released(SimTime::from_millis(ms), HOST, SERVICE, 1500);
        }
    }

    #[test]
    #[should_panic(expected = "above its limit of 12000000 bit/s")]
    fn catches_a_packet_that_leaves_early() {
        let mut limits = limits();
        for us in [0, 0, 999] {
            limits.released(SimTime::from_micros(us), HOST, SERVICE, 1500);
        }
    }

    #[test]
    #[should_panic(expected = "advertises 2 Gb/s, and its capacity is 1 Gb/s")]
    fn catches_a_rate_above_the_capacity() {
        limits().advertised(HOST, SERVICE, Bandwidth::from_gbps(2), Bandwidth::from_gbps(1));
    }
}
