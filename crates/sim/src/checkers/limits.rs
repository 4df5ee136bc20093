//! Limits: no service leaves its root limiter faster than the limit, and no receiver tells a rate out of its bounds.
//!
//! What has left in any window of t seconds is at most limit · t, the burst and the packet that opens the window. That holds for all
//! windows if it holds for a leaky bucket: it fills by what leaves and empties at the limit, and a packet may leave
//! only while no more than the burst is in it.

use crate::ids::{HostId, ServiceIndex};
use std::collections::BTreeMap;
use weir_units::{Bandwidth, Bytes, SimTime};

/// Bit/s times picoseconds: what one bit is in the buckets.
const BIT: u128 = 1_000_000_000_000;
/// Limiters count nanoseconds: the one in which a packet leaves and the one since which they count may both be cut.
const ROUNDING_PS: u128 = 2_000;

/// The buckets of all services at all hosts that ever had a limit.
#[derive(Debug, Default)]
pub struct Limits {
    buckets: BTreeMap<(HostId, ServiceIndex), Bucket>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    /// Bit/s; 0 while there is no limit.
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
    pub fn limit_set(&mut self, now: SimTime, host: HostId, class: ServiceIndex, limit: Bandwidth, burst: Bytes) {
        let bucket = self.buckets.entry((host, class)).or_default();
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
    pub fn released(&mut self, now: SimTime, host: HostId, class: ServiceIndex, size: u32) {
        let bucket = self.buckets.entry((host, class)).or_default();
        if bucket.limit == 0 {
            return;
        }
        bucket.settle(now);
        let allowed = u128::from(bucket.burst.get()) * 8 * BIT + ROUNDING_PS * bucket.highest;
        assert!(
            bucket.held <= allowed,
            "a packet of service {} leaves host {} at {now} while {} bits above its limit of {} bit/s are on their way; \
             {} may be",
            class.0,
            host.0,
            bucket.held / BIT,
            bucket.limit,
            allowed / BIT
        );
        bucket.held += u128::from(size) * 8 * BIT;
    }

    /// A receiver told a rate: at most its capacity, and not below 10 Mb/s or, under 10 Gb/s, a thousandth of it.
    pub fn told(&mut self, host: HostId, class: ServiceIndex, rate: Bandwidth, capacity: Bandwidth) {
        let floor = (capacity.bps() / 1000).min(10_000_000);
        assert!(
            floor <= rate.bps() && rate <= capacity,
            "service {} at host {} tells {rate}, and its capacity is {capacity}",
            class.0,
            host.0
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: HostId = HostId(2);
    const CLASS: ServiceIndex = ServiceIndex(0);

    fn limits() -> Limits {
        let mut limits = Limits::default();
        limits.limit_set(SimTime::ZERO, HOST, CLASS, Bandwidth::from_mbps(12), Bytes::new(1500));
        limits
    }

    #[test]
    fn a_burst_and_a_packet_may_leave_at_once_and_then_one_each_millisecond() {
        let mut limits = limits();
        for ms in [0, 0, 1, 2, 10, 10] {
            limits.released(SimTime::from_millis(ms), HOST, CLASS, 1500);
        }
    }

    #[test]
    #[should_panic(expected = "above its limit of 12000000 bit/s")]
    fn catches_a_packet_that_leaves_early() {
        let mut limits = limits();
        for us in [0, 0, 999] {
            limits.released(SimTime::from_micros(us), HOST, CLASS, 1500);
        }
    }

    #[test]
    #[should_panic(expected = "tells 2 Gb/s, and its capacity is 1 Gb/s")]
    fn catches_a_rate_above_the_capacity() {
        limits().told(HOST, CLASS, Bandwidth::from_gbps(2), Bandwidth::from_gbps(1));
    }
}
