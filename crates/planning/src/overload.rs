//! Traffic that only the rack brokers limit: more of it than an uplink's peak load, and no σ covers
//! the queue.
//!
//! Problem: σ is what senders inject until congestion control has converged. Receive meters make
//! them converge at a machine's own port. At an uplink no meter measures the overload: TCP adapts to
//! marks and losses, but a service that may send UDP continues until the brokers limit it. In the
//! simulator, eight machines of 1 Gb/s that begin to send UDP into an uplink of 1 Gb/s fill buffers
//! of any size. Approach: sum up the highest rates at which such services can send through each
//! uplink. Maxima count, as a service with a maximum has a ceiling from its first packet on. The sum
//! must stay within the uplink's peak load.
//!
//! | direction of the uplink | a service's highest rate |
//! |---|---|
//! | transmit | its machines' interfaces, under `caps.machine` and its maxima at machine, rack and fabric |
//! | receive | the same of all other racks together, each within its uplink, under its maximum there |
//!
//! A service can send UDP if one of its filters accepts another protocol than TCP. The interfaces
//! of a service with a machine maximum are counted as if each could reach it.
//!
//! Worked example: 8 machines of 1 Gb/s behind 1 Gb/s with `caps: { rack: 750Mb/s }` may send 8 Gb/s
//! for 300 ms: (8 − 0.75) Gb/s · 0.3 s = 271.875 MB beyond the peak load. With `rack: { max:
//! 500Mb/s }` the service stays below it.

use std::fmt;
use weir_policy::{Policy, Protocol, Service};
use weir_units::{Bandwidth, Bytes, ContentionPoint, Direction, Duration, RackId, ServiceId};

/// The longest time until the limits of a rack follow a change of load everywhere (docs/parley.md,
/// the rack broker: usage is read every 100 ms and a change reported at once).
pub const REACTION: Duration = Duration::from_millis(300);

/// An uplink that services without congestion control can overload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overload {
    /// The direction, from the viewpoint of the rack.
    pub direction: Direction,
    /// The highest rate of these services together.
    pub offered: Bandwidth,
    /// The uplink's speed.
    pub capacity: Bandwidth,
    /// The uplink's speed, or the rack cap where that is lower.
    pub peak: Bandwidth,
    /// The bytes beyond the peak load until the brokers have limited the services, rounded up.
    pub burst: Bytes,
    /// The services, in the policy's order.
    pub services: Vec<String>,
}

impl fmt::Display for Overload {
    /// The clause of a verdict.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offered, capacity, burst, services, peak, .. } = self;
        let (all, those) = (services.len(), &services[..services.len().min(3)]);
        let more = if all > those.len() { format!(" and {} more", all - those.len()) } else { String::new() };
        write!(
            f,
            "services that may send UDP ({}{more}) can offer {offered} to a rack's uplink of {capacity} until its \
             brokers limit them, {REACTION} or {burst} that σ does not include; with rack maxima of together at most \
             {peak} they cannot",
            those.join(", ")
        )
    }
}

/// The worst overload of the racks' uplinks in each direction; none where maxima prevent it.
pub fn overloads(policy: &Policy) -> Vec<Overload> {
    let leaves = policy.services().leaves().filter(|(_, service)| may_send_udp(service));
    let services: Vec<String> = leaves.map(|(_, service)| service.path().to_owned()).collect();
    if services.is_empty() {
        return Vec::new();
    }
    let racks = Racks::new(policy);
    let of = |direction: Direction| {
        let each = (0..policy.network().racks().len() as u32).map(RackId).filter_map(|rack| {
            let (offered, peak) = (racks.offered(rack, direction), policy.rack_capacity(rack, direction));
            let beyond = offered.bps().checked_sub(peak.bps()).filter(|beyond| *beyond > 0)?;
            let bytes = (u128::from(beyond) * u128::from(REACTION.nanos())).div_ceil(8_000_000_000);
            let burst = Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX));
            let capacity = policy.network().rack(rack).uplink()[direction];
            Some(Overload { direction, offered, capacity, peak, burst, services: services.clone() })
        });
        // The first of equal ones is kept, so that plans are reproducible.
        each.reduce(|worst, other| if other.burst > worst.burst { other } else { worst })
    };
    Direction::ALL.into_iter().filter_map(of).collect()
}

/// Whether a leaf's filters accept another protocol than TCP.
fn may_send_udp(service: &Service) -> bool {
    service.matches().iter().any(|filter| filter.protocol != Some(Protocol::TCP))
}

/// The highest rates of services that may send UDP, by rack.
struct Racks<'a> {
    policy: &'a Policy,
    /// The machines' interfaces under `caps.machine` together, and the number of machines.
    machines: Vec<(Bandwidth, u64)>,
    /// The rate that leaves each rack: all these services together, within its uplink.
    sent: Vec<Bandwidth>,
    /// The same of all racks, and for each service by id. A rack receives it without its own part.
    all_sent: Bandwidth,
    service_sent: Vec<Bandwidth>,
}

impl<'a> Racks<'a> {
    fn new(policy: &'a Policy) -> Self {
        let cap = policy.caps()[ContentionPoint::Machine].tx;
        let network = policy.network();
        let machines = network.racks().iter().map(|rack| {
            let nics = rack.machines().iter().map(|machine| network.machine(*machine).nic().tx.min(cap));
            (nics.sum(), rack.machines().len() as u64)
        });
        let mut racks = Self {
            policy,
            machines: machines.collect(),
            sent: Vec::new(),
            all_sent: Bandwidth::ZERO,
            service_sent: vec![Bandwidth::ZERO; policy.services().all().len()],
        };
        for rack in (0..network.racks().len() as u32).map(RackId) {
            let sent = racks.offered(rack, Direction::Tx).min(network.rack(rack).uplink().tx);
            racks.sent.push(sent);
            racks.all_sent += sent;
            for (service, _) in policy.services().leaves() {
                let sent = racks.sent_by(rack, service);
                racks.service_sent[service.index()] += sent;
            }
        }
        racks
    }

    /// The highest rate of all these services together through one rack's uplink.
    fn offered(&self, rack: RackId, direction: Direction) -> Bandwidth {
        match direction {
            Direction::Tx => {
                let all = self.together(direction, |service| self.sent_by(rack, service));
                all.min(self.machines[rack.index()].0)
            }
            Direction::Rx => {
                let of_others =
                    |service: ServiceId| self.service_sent[service.index()].saturating_sub(self.sent_by(rack, service));
                let others = self.all_sent.saturating_sub(self.sent[rack.index()]);
                self.together(direction, of_others).min(others)
            }
        }
    }

    /// The highest rate at which one leaf leaves a rack's machines.
    fn sent_by(&self, rack: RackId, service: ServiceId) -> Bandwidth {
        let (together, machines) = self.machines[rack.index()];
        let ceiling = self.policy.machine_ceiling(service, Direction::Tx);
        let bps = if ceiling.is_unlimited() { u64::MAX } else { ceiling.bps().saturating_mul(machines) };
        together.min(Bandwidth::from_bps(bps.min(Bandwidth::MAX.bps())))
    }

    /// The rates of `leaf` summed up the tree of services, under the maxima of rack and fabric.
    fn together(&self, direction: Direction, leaf: impl Fn(ServiceId) -> Bandwidth) -> Bandwidth {
        let mut below = vec![Bandwidth::ZERO; self.policy.services().all().len()];
        let mut roots = Bandwidth::ZERO;
        let services: Vec<_> = self.policy.services().iter().collect();
        // Parents are before their children in the policy's order.
        for (id, service) in services.into_iter().rev() {
            let rate = if service.is_leaf() && may_send_udp(service) { leaf(id) } else { below[id.index()] };
            let max = |point| service.share(point, direction).max;
            let rate = rate.min(max(ContentionPoint::Rack)).min(max(ContentionPoint::Fabric));
            match service.parent() {
                Some(parent) => below[parent.index()] += rate,
                None => roots += rate,
            }
        }
        roots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight machines of 1 Gb/s in each of two racks behind 1 Gb/s, with a cap of 750 Mb/s.
    fn found(bulk: &str, caps: &str) -> Vec<(Direction, u64, u64)> {
        let text = format!(
            "weir: 1\nnetwork: {{ nic: 1Gb/s, racks: {{ a: {{ uplink: 1Gb/s, machines: [\"a[1-8]\"] }}, b: {{ uplink: \
             1Gb/s, machines: [\"b[1-8]\"] }} }} }}\nservices:\n  web: {{ match: [ {{ protocol: tcp, port: 80 }} ] \
             }}\n{bulk}caps: {{ rack: 750Mb/s{caps} }}\n"
        );
        let (policy, _) = Policy::parse("policy.yaml", &text).expect("sound");
        let row = |found: &Overload| (found.direction, found.offered.bps() / 1_000_000, found.burst.get());
        overloads(&policy).iter().map(row).collect()
    }

    /// 7.25 Gb/s · 0.3 s are 271.875 MB; the other uplink delivers 1 Gb/s: 0.25 Gb/s · 0.3 s are 9.375 MB.
    #[test]
    fn udp_overloads_an_uplink() {
        let both = [(Direction::Tx, 8_000, 271_875_000), (Direction::Rx, 1_000, 9_375_000)];
        assert_eq!(found("  bulk: { match: [ { port: 81 } ] }\n", ""), both);
        assert_eq!(
            found("  bulk: { match: [ { protocol: tcp, port: 81 }, { protocol: udp, port: 81 } ] }\n", ""),
            both
        );
        assert_eq!(found("  bulk: { match: [ { protocol: tcp, port: 81 } ] }\n", ""), []);
    }

    /// Eight machines of 90 Mb/s are 720 Mb/s, of 100 Mb/s 800 Mb/s: 50 Mb/s · 0.3 s are 1.875 MB.
    #[test]
    fn maxima_prevent_it() {
        let bulk = |shares: &str| format!("  bulk: {{ match: [ {{ port: 81 }} ], {shares} }}\n");
        assert_eq!(found(&bulk("rack: { max: 750Mb/s }"), ""), []);
        assert_eq!(found(&bulk("fabric: { max: 500Mb/s }"), ""), []);
        assert_eq!(found(&bulk("machine: { max: 90Mb/s }"), ""), []);
        assert_eq!(found(&bulk("order: 1"), ", machine: 90Mb/s"), []);
        let more = [(Direction::Tx, 800, 1_875_000), (Direction::Rx, 800, 1_875_000)];
        assert_eq!(found(&bulk("machine: { max: 100Mb/s }"), ""), more);
        // One direction's maximum leaves the other.
        let received = [(Direction::Tx, 8_000, 271_875_000)];
        assert_eq!(found(&bulk("rack: { rx: { max: 750Mb/s } }"), ""), received);
    }

    /// Two of three racks may send 400 Mb/s each to the third, whose cap is 750 Mb/s: 50 Mb/s · 0.3 s.
    #[test]
    fn a_rack_receives_from_all_others() {
        let text = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { a: { uplink: 1Gb/s, machines: [m1] }, b: { uplink: 1Gb/s, \
                    machines: [m2] }, c: { uplink: 1Gb/s, machines: [m3] } } }\nservices: { bulk: { match: [ { port: \
                    81 } ], rack: { tx: { max: 400Mb/s } } } }\ncaps: { rack: 750Mb/s }\n";
        let (policy, _) = Policy::parse("policy.yaml", text).expect("sound");
        let found = overloads(&policy);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].direction, found[0].burst), (Direction::Rx, Bytes::new(1_875_000)));
        assert_eq!(found[0].offered, Bandwidth::from_mbps(800));
    }

    /// Two children of 500 Mb/s each stay below their parent's maximum.
    #[test]
    fn parents_limit_their_children() {
        let nested = |max: &str| {
            format!(
                "  p:\n    rack: {{ max: {max} }}\n    services:\n      x: {{ match: [ {{ port: 81 }} ], rack: {{ max: \
                 500Mb/s }} }}\n      y: {{ match: [ {{ port: 82 }} ], rack: {{ max: 500Mb/s }} }}\n"
            )
        };
        assert_eq!(found(&nested("700Mb/s"), ""), []);
        assert_eq!(found(&nested("2Gb/s"), "").first(), Some(&(Direction::Tx, 1_000, 9_375_000)));
    }
}
