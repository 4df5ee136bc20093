//! The burst bound of every service with a latency target, from the policy alone.
//!
//! The result is that of `weir plan POLICY` without options, which also prints the assumptions.
//!
//! A bound within its target keeps the target only if its premises hold: each port's buffer holds
//! the queue, σ covers the arrivals, and no limiter at a host delays messages. Otherwise the target
//! is *unproven*: messages may wait elsewhere, or packets may be lost, and a retransmission timer
//! then decides the completion time.

use super::buffers::{PortNeed, port_needs};
use super::limiter::{Limiter, limiters};
use super::overload::{Overload, overloads};
use super::points::{Point, points, points_of};
use super::queue;
use crate::{Burst, BurstBound};
use std::fmt;
use weir_policy::{LatencyTarget, Policy};
use weir_shaping::ShaperConfig;
use weir_units::{Bytes, Duration, ServiceId};

/// Whether a target is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The completion time is within the target, and nothing contradicts its premises.
    Kept,
    /// The completion time is beyond the target, or there is none.
    NotKept,
    /// The completion time is within the target, but a premise of the bound is not known to hold.
    Unproven,
}

impl Verdict {
    /// Its name for people and for programs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::NotKept => "not kept",
            Self::Unproven => "unproven",
        }
    }
}

/// A premise of the bound that is not known to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gap {
    /// A port's buffer is smaller than its queue, or unknown.
    Buffer(PortNeed),
    /// Services can overload a port until Weir has limited them.
    Overload(Overload),
    /// Messages may wait at limiters of hosts.
    Limiter(Limiter),
}

impl Gap {
    /// Whether packets may be lost.
    pub fn may_lose(&self) -> bool {
        match self {
            Self::Buffer(_) | Self::Overload(_) => true,
            Self::Limiter(_) => false,
        }
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Buffer(need) => need.fmt(f),
            Self::Overload(overload) => overload.fmt(f),
            Self::Limiter(limiter) => limiter.fmt(f),
        }
    }
}

/// The gaps of a service's plan at `points`: ports whose needs are not met, overloads, limiters.
pub fn gaps(
    policy: &Policy,
    service: ServiceId,
    needs: &[PortNeed],
    overloads: &[Overload],
    points: &[Point],
) -> Vec<Gap> {
    let unmet = needs.iter().filter(|need| !need.is_met()).copied().map(Gap::Buffer);
    let planned =
        |overload: &&Overload| points.iter().any(|at| at.point == overload.point && at.direction == overload.direction);
    let limiters = limiters(policy, service, |point| points.iter().any(|at| at.point == point));
    unmet
        .chain(overloads.iter().filter(planned).cloned().map(Gap::Overload))
        .chain(limiters.into_iter().map(Gap::Limiter))
        .collect()
}

/// The bound on the completion time of one service's messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatencyBound {
    /// The service.
    pub service: ServiceId,
    /// The target in the policy.
    pub target: LatencyTarget,
    /// Maximum completion time of a message of the target's size. `None` if there is no bound: the
    /// load may reach 100 %, or the capacity is unlimited.
    pub bound: Option<Duration>,
    /// The premises of the bound that are not known to hold.
    pub gaps: Vec<Gap>,
}

impl LatencyBound {
    /// Whether the target is kept.
    pub fn verdict(&self) -> Verdict {
        match self.bound {
            Some(bound) if bound <= self.target.p99 && self.gaps.is_empty() => Verdict::Kept,
            Some(bound) if bound <= self.target.p99 => Verdict::Unproven,
            _ => Verdict::NotKept,
        }
    }
}

/// The bounds of all services with a target, in the policy's order.
pub fn latency_bounds(policy: &Policy) -> Vec<LatencyBound> {
    let points = points(policy, policy.caps());
    let shapers = ShaperConfig::parley(policy, None, None);
    let targets: Vec<_> = policy.services().iter().filter_map(|(id, service)| Some((id, service.latency()?))).collect();
    let load = queue::fullest(&points).and_then(|point| point.load);
    let overloads = if targets.is_empty() { Vec::new() } else { overloads(policy, load) };
    let of = |(service, target)| {
        let points = points_of(policy, policy.caps(), service);
        let (bound, needs) = bound(policy, service, target, &points, &shapers);
        LatencyBound { service, target, bound, gaps: gaps(policy, service, &needs, &overloads, &points) }
    };
    targets.into_iter().map(of).collect()
}

fn bound(
    policy: &Policy,
    service: ServiceId,
    target: LatencyTarget,
    points: &[Point],
    shapers: &ShaperConfig,
) -> (Option<Duration>, Vec<PortNeed>) {
    let (interval, one) = queue::shaper(policy, service, shapers);
    let (capacity, _) = queue::capacity(policy, service, target, one, points);
    let convergence = queue::convergence(interval, queue::ITERATIONS);
    let shapers = Bytes::new(one.get().saturating_mul(queue::SENDERS.into()));
    let bound = BurstBound { burst: Burst { convergence, shapers }, message: target.message };
    let load = queue::fullest(points).and_then(|point| point.load);
    let needs = port_needs(policy.network(), points, &bound, None, policy.network().port_buffers());
    // Without a queue that can be counted there is no bound either.
    match (load.and_then(|load| bound.completion_time(capacity, load).ok()), needs) {
        (time, Ok(needs)) => (time, needs),
        (_, Err(_)) => (None, Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(switches: &str, web: &str, bulk: &str, caps: &str) -> Vec<LatencyBound> {
        let text = format!(
            "weir: 1\nnetwork: {{ nic: 10Gb/s, racks: {{ r: {{ uplink: 10Gb/s, machines: [m1, m2] }} }}{switches} \
             }}\nservices:\n  web: {{ match: [ {{ protocol: tcp, port: 80 }} ], latency: {{ message: 200kB, p99: 7ms \
             }}, shaper: {{ interval: 200us }}{web} }}\n  bulk: {{ match: [ {{ protocol: udp, port: 81 }} ]{bulk} \
             }}\n{caps}"
        );
        let (policy, _) = Policy::parse("policy.yaml", &text).expect("sound");
        latency_bounds(&policy)
    }

    fn verdict(switches: &str, bulk: &str, caps: &str) -> (Option<Duration>, Verdict) {
        let bounds = bounds(switches, "", bulk, caps);
        assert_eq!(bounds.len(), 1);
        (bounds[0].bound, bounds[0].verdict())
    }

    const DEEP: &str = ", switches: { buffer: 3950kB }";
    /// 2.45 Gb/s with the ceilings' excess.
    const BOUNDED: &str = ", rack: { max: 2Gb/s }";
    const HALF: &str = "caps: { rack: 5Gb/s }\n";

    /// The crate's worked example: (15 × 200 µs + 200 kB / 10 Gb/s) / 0.5 = (3 + 0.16) ms / 0.5.
    #[test]
    fn bound_matches_the_worked_example() {
        assert_eq!(verdict(DEEP, BOUNDED, HALF), (Some(Duration::from_micros(6_320)), Verdict::Kept));
        let fuller = verdict(DEEP, BOUNDED, "caps: { rack: 8Gb/s }\n");
        assert_eq!(fuller, (Some(Duration::from_micros(15_800)), Verdict::NotKept));
    }

    #[test]
    fn full_load_has_no_bound() {
        assert_eq!(verdict(DEEP, BOUNDED, ""), (None, Verdict::NotKept));
    }

    /// The same bound without a premise: 3.75 MB and 200 kB need more than the network states, or it
    /// states nothing; bulk traffic overloads the uplink or, beside a fast one, the port of the other
    /// machine; or messages wait at limiters.
    #[test]
    fn bound_without_its_premises_is_unproven() {
        let own = ", rack: { max: 4Gb/s }";
        for (switches, web, bulk, caps, first) in [
            (
                "",
                "",
                BOUNDED,
                HALF,
                "the bound needs 3.95 MB of buffer at the machine's interface; the network states none",
            ),
            (
                ", switches: { buffer: { machine: 3950kB, rack: 3949999B } }",
                "",
                BOUNDED,
                HALF,
                "the bound needs 3.95 MB of buffer at the rack's uplink; the network states 3.949999 MB",
            ),
            (
                DEEP,
                "",
                "",
                HALF,
                "services with UDP or without a target (bulk) can offer 20 Gb/s to a rack's uplink of 10 Gb/s until \
                 its brokers limit them, 300 ms or 562.5 MB that σ does not include; with transmit maxima in the rack \
                 of together at most 4.08 Gb/s they cannot",
            ),
            (
                DEEP,
                "",
                BOUNDED,
                "caps: { rack: 5Gb/s, machine: 5Gb/s }\n",
                "the machine cap of 5 Gb/s limits each host: messages may wait at these limiters, which the bound does \
                 not count",
            ),
            (
                DEEP,
                own,
                BOUNDED,
                HALF,
                "its maxima (4 Gb/s at the rack) limit it at each host: messages may wait at these limiters, which the \
                 bound does not count",
            ),
        ] {
            let found = bounds(switches, web, bulk, caps);
            let first_bound = (found[0].bound, found[0].verdict());
            assert_eq!(first_bound, (Some(Duration::from_micros(6_320)), Verdict::Unproven));
            let found: Vec<String> = found[0].gaps.iter().map(ToString::to_string).collect();
            assert_eq!(found.first().map(String::as_str), Some(first));
        }
    }
}
