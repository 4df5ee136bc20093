//! The burst bound of every service with a latency target, from the policy alone.
//!
//! The result is that of `weir plan POLICY` without options, which also prints the assumptions.

use crate::points::{Point, points};
use crate::queue;
use weir_datapath::ShaperConfig;
use weir_latency::{Burst, BurstBound};
use weir_policy::{LatencyTarget, Policy};
use weir_units::{Bytes, Duration, ServiceId};

/// The bound on the completion time of one service's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyBound {
    /// The service.
    pub service: ServiceId,
    /// The target in the policy.
    pub target: LatencyTarget,
    /// Maximum completion time of a message of the target's size. `None` if there is no bound: the
    /// load may reach 100 %, or the capacity is unlimited.
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
             web: {{ match: [ {{ port: 80 }} ], latency: {{ message: 200kB, p99: 7ms }}, shaper: {{ interval: 200us \
             }} }}\n  \
             bulk: {{ match: [ {{ port: 81 }} ] }}\n{caps}"
        );
        let (policy, _) = Policy::parse("policy.yaml", &text).expect("sound");
        latency_bounds(&policy).iter().map(|bound| (bound.bound, bound.is_kept())).collect()
    }

    /// The crate's worked example: (15 × 200 µs + 200 kB / 10 Gb/s) / 0.5 = (3 + 0.16) ms / 0.5.
    #[test]
    fn bound_matches_the_worked_example() {
        assert_eq!(bounds("caps: { rack: 5Gb/s }\n"), [(Some(Duration::from_micros(6_320)), true)]);
        assert_eq!(bounds("caps: { rack: 8Gb/s }\n"), [(Some(Duration::from_micros(15_800)), false)]);
    }

    #[test]
    fn full_load_has_no_bound() {
        assert_eq!(bounds(""), [(None, false)]);
    }
}
