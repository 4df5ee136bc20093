//! The burst bound of every service with a latency target, from the policy alone.
//!
//! It is what `weir plan POLICY` gives without options: its assumptions are told there.

use crate::points::{Point, points};
use crate::queue;
use weir_datapath::ShaperConfig;
use weir_latency::{Burst, BurstBound};
use weir_policy::{LatencyTarget, Policy};
use weir_units::{Bytes, Duration, ServiceId};

/// What a policy promises of one service's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyBound {
    /// The service.
    pub service: ServiceId,
    /// What the policy asks for.
    pub target: LatencyTarget,
    /// Within what every message of the target's size finishes; `None` where no time holds: nothing keeps the load
    /// below 100 %, or nothing bounds the capacity.
    pub bound: Option<Duration>,
}

impl LatencyBound {
    /// Whether the bound is within the target.
    pub fn is_kept(&self) -> bool {
        self.bound.is_some_and(|bound| bound <= self.target.p99)
    }
}

/// The bounds of all services with a target, in the policy's order.
pub fn latency_bounds(policy: &Policy) -> Vec<LatencyBound> {
    let points = points(policy, policy.caps());
    let shapers = ShaperConfig::parley(policy, None, None);
    let of =
        |(service, target)| LatencyBound { service, target, bound: bound(policy, service, target, &points, &shapers) };
    policy.services().iter().filter_map(|(id, service)| Some((id, service.latency()?))).map(of).collect()
}

fn bound(
    policy: &Policy,
    service: ServiceId,
    target: LatencyTarget,
    points: &[Point],
    shapers: &ShaperConfig,
) -> Option<Duration> {
    let (interval, one) = queue::shaper(policy, service, shapers);
    let (capacity, _) = queue::capacity(policy, service, target, one, points);
    let load = queue::fullest(points)?.load?;
    let convergence = queue::convergence(interval, queue::ITERATIONS);
    let shapers = Bytes::new(one.get().saturating_mul(queue::SENDERS.into()));
    BurstBound { burst: Burst { convergence, shapers }, message: target.message }.completion_time(capacity, load).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(caps: &str) -> Vec<(Option<Duration>, bool)> {
        let text = format!(
            "weir: 1\nnetwork: {{ nic: 10Gb/s, racks: {{ r: {{ uplink: 10Gb/s, machines: [m1] }} }} }}\nservices:\n  \
             web: {{ match: [ {{ port: 80 }} ], latency: {{ message: 200kB, p99: 7ms }}, shaper: {{ interval: 200us }} }}\n  \
             bulk: {{ match: [ {{ port: 81 }} ] }}\n{caps}"
        );
        let (policy, _) = Policy::parse("policy.yaml", &text).expect("sound");
        latency_bounds(&policy).iter().map(|bound| (bound.bound, bound.is_kept())).collect()
    }

    /// The module's worked example: 15 × 200 µs at 10 Gb/s are 3 ms, 200 kB are 0.16 ms, all of it twice at a half.
    #[test]
    fn the_bound_is_the_planners() {
        assert_eq!(bounds("caps: { rack: 5Gb/s }\n"), [(Some(Duration::from_micros(6_320)), true)]);
        assert_eq!(bounds("caps: { rack: 8Gb/s }\n"), [(Some(Duration::from_micros(15_800)), false)]);
    }

    #[test]
    fn where_the_network_may_be_full_no_time_holds() {
        assert_eq!(bounds(""), [(None, false)]);
    }
}
