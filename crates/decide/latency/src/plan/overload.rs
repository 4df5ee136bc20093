//! Traffic that exceeds the peak load of an uplink or a machine's port until Weir has limited it.
//!
//! Problem: σ is what senders inject until congestion control has converged. No such time holds for
//! senders without an end of their data. UDP does not slow down, and TCP fills whatever buffer it
//! finds: it delays others at a deep one and makes them lose packets at a shallow one. At an uplink
//! only the rack brokers limit both. At a machine's port the receive meters do, but only after the
//! first intervals. Approach: sum up the highest rates of such services at each port. The sum must
//! stay within the port's peak load.
//!
//! | port | rate offered | peak load | limited by |
//! |---|---|---|---|
//! | uplink, transmit | what leaves the rack | `caps.rack` | brokers, after 300 ms |
//! | uplink, receive | what leaves the other racks | `caps.rack` | brokers, after 300 ms |
//! | machine, receive | the same within the uplink, and its neighbours | the planned load | meters |
//!
//! A planned load that is lower than the rack cap replaces it.
//!
//! The rate that leaves a rack is the sum of its machines' interfaces, under `caps.machine` and the
//! services' transmit maxima at machine, rack and fabric. A transmit maximum is a ceiling from the
//! first packet on; a receive maximum is none, as a receiving instance is unlimited until it has been
//! limited once (`docs/design/ceilings.md`).
//!
//! All services count but those that send TCP alone and have a latency target: these send messages,
//! and a plan assumes that they stay within what the others leave. The interfaces of a service with
//! a machine maximum are counted as if each could reach it.
//!
//! Worked example: 8 machines of 1 Gb/s behind 1 Gb/s with `caps: { rack: 750Mb/s }` may send 8 Gb/s
//! for 300 ms: (8 − 0.75) Gb/s · 0.3 s = 271.875 MB beyond the peak load. With `rack: { max:
//! 400Mb/s }` the service may send 490 Mb/s, and stays below it.

use std::fmt;
use weir_policy::{Policy, Protocol};
use weir_units::{Bandwidth, Bytes, ContentionPoint, Direction, Duration, Load, MachineId, RackId, ServiceId};

/// The longest time until the limits of a rack follow a change of load everywhere.
///
/// Usage is read every 100 ms, a change is reported at once, and limits fall one exchange later
/// (`docs/explanation/parley.md`, the rack broker). A receiving service that has a limit already is measured over a
/// period of 1 s; its limit bounds what it adds until then, which this time does not include.
pub const REACTION: Duration = Duration::from_millis(300);

/// The part by which the ceilings under a maximum may exceed it together, in fortieths: a tenth for
/// instances that may begin, and an eighth of what unlimited ones use (`docs/design/ceilings.md`).
const CEILINGS_BEYOND: u64 = 4 + 5;
const FORTIETHS: u64 = 40;

/// A port that services can overload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overload {
    /// The kind of port: a machine's or an uplink's.
    pub point: ContentionPoint,
    /// The direction, from the viewpoint of the machine or the rack.
    pub direction: Direction,
    /// The highest rate of these services together.
    pub offered: Bandwidth,
    /// The port's speed.
    pub capacity: Bandwidth,
    /// The port's peak load: the rack cap or the planned load at an uplink, the planned load at a
    /// machine's port.
    pub peak: Bandwidth,
    /// The excess until the brokers have limited the services. `None` at a machine's port: no
    /// bound is known for the time of receive meters under any number of senders.
    pub excess: Option<Excess>,
    /// The services, in the policy's order.
    pub services: Vec<String>,
}

/// The excess at an uplink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Excess {
    /// The time until the brokers have limited the services.
    pub until: Duration,
    /// The bytes beyond the peak load in that time, rounded up.
    pub burst: Bytes,
}

impl Overload {
    /// The overload of a port, if more than its peak load is offered.
    fn of(
        (point, direction): (ContentionPoint, Direction),
        offered: Bandwidth,
        capacity: Bandwidth,
        peak: Bandwidth,
    ) -> Option<Self> {
        let beyond = offered.bps().checked_sub(peak.bps()).filter(|beyond| *beyond > 0)?;
        let excess = (point == ContentionPoint::Rack).then(|| {
            let until = REACTION;
            let bytes = (u128::from(beyond) * u128::from(until.nanos())).div_ceil(8_000_000_000);
            Excess { until, burst: Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX)) }
        });
        Some(Self { point, direction, offered, capacity, peak, excess, services: Vec::new() })
    }

    /// The rate beyond the peak load.
    fn beyond(&self) -> Bandwidth {
        self.offered.saturating_sub(self.peak)
    }

    /// The sum of transmit maxima at racks under which the services cannot overload the port,
    /// rounded down to three digits for readability.
    fn preventing_maxima(&self) -> Bandwidth {
        let bps = u128::from(self.peak.bps()) * u128::from(FORTIETHS) / u128::from(FORTIETHS + CEILINGS_BEYOND);
        let bps = u64::try_from(bps).unwrap_or(u64::MAX);
        let step = 10u64.pow(bps.max(1).ilog10().saturating_sub(2));
        Bandwidth::from_bps(bps / step * step)
    }
}

impl fmt::Display for Overload {
    /// The clause of a verdict.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offered, capacity, services, .. } = self;
        let (all, those) = (services.len(), &services[..services.len().min(3)]);
        let more = if all > those.len() { format!(" and {} more", all - those.len()) } else { String::new() };
        let at = super::points::name(self.point);
        write!(f, "services with UDP or without a target ({}{more}) can offer ", those.join(", "))?;
        write!(f, "{offered} to a {at} of {capacity} until ")?;
        match self.excess {
            Some(Excess { until, burst }) => {
                write!(f, "its brokers limit them, {until} or {burst} that σ does not include")?;
            }
            None => f.write_str("its receive meters limit their senders, which σ does not include")?,
        }
        let racks = match (self.point, self.direction) {
            (ContentionPoint::Rack, Direction::Tx) => "the rack",
            (ContentionPoint::Rack, Direction::Rx) => "the other racks",
            (ContentionPoint::Machine | ContentionPoint::Fabric, _) => "all racks",
        };
        write!(f, "; with transmit maxima in {racks} of together at most {} they cannot", self.preventing_maxima())
    }
}

/// The worst overload of the racks' uplinks in each direction, and of the machines' ports under a
/// planned load; none where transmit maxima prevent it.
pub fn overloads(policy: &Policy, load: Option<Load>) -> Vec<Overload> {
    let leaves = policy.services().leaves().filter(|(leaf, _)| may_overload(policy, *leaf));
    let services: Vec<String> = leaves.map(|(_, service)| service.path().to_owned()).collect();
    if services.is_empty() {
        return Vec::new();
    }
    let sent = Sent::new(policy);
    let racks = || (0..policy.network().racks().len() as u32).map(RackId);
    let uplink = |direction| worst(racks().filter_map(|rack| sent.at_uplink(rack, direction, load)));
    let machine = worst(racks().filter_map(|rack| sent.at_machines(rack, load)));
    let found = Direction::ALL.map(uplink).into_iter().flatten().chain(machine);
    found.map(|overload| Overload { services: services.clone(), ..overload }).collect()
}

/// The one furthest beyond the peak load. The first of equal ones is kept, so that plans are
/// reproducible.
fn worst(overloads: impl Iterator<Item = Overload>) -> Option<Overload> {
    overloads.reduce(|worst, other| if other.beyond() > worst.beyond() { other } else { worst })
}

/// Whether a leaf may send without an end: it has no latency target, or its filters accept another
/// protocol than TCP.
fn may_overload(policy: &Policy, leaf: ServiceId) -> bool {
    let mut path = std::iter::successors(Some(leaf), |&at| policy.services().get(at).parent());
    let targeted = path.any(|id| policy.services().get(id).latency().is_some());
    let tcp = |filter: &weir_policy::Match| filter.protocol == Some(Protocol::TCP);
    !targeted || !policy.services().get(leaf).matches().iter().all(tcp)
}

/// The highest rate under a maximum at the rack or the fabric.
fn under_ceilings(max: Bandwidth) -> Bandwidth {
    if max.is_unlimited() {
        return max;
    }
    let bps = u128::from(max.bps()) * u128::from(FORTIETHS + CEILINGS_BEYOND) / u128::from(FORTIETHS);
    Bandwidth::from_bps(u64::try_from(bps).unwrap_or(u64::MAX).min(Bandwidth::MAX.bps()))
}

/// The highest rates of all services that [`may_overload`], together.
struct Sent<'a> {
    policy: &'a Policy,
    /// By rack: the rate that leaves its machines.
    by_machines: Vec<Bandwidth>,
    /// By rack: the rate that leaves its uplink.
    by_uplink: Vec<Bandwidth>,
    /// The same of all racks. A rack receives it without its own part.
    by_all: Bandwidth,
}

impl<'a> Sent<'a> {
    fn new(policy: &'a Policy) -> Self {
        let mut sent = Self { policy, by_machines: Vec::new(), by_uplink: Vec::new(), by_all: Bandwidth::ZERO };
        for rack in policy.network().racks() {
            let machines = rack.machines().len() as u64;
            let interfaces = rack.machines().iter().map(|machine| sent.interface(*machine)).sum();
            let together = sent.together(interfaces, machines);
            let through = together.min(rack.uplink().tx);
            sent.by_machines.push(together);
            sent.by_uplink.push(through);
            sent.by_all += through;
        }
        sent
    }

    /// The overload of one rack's uplink.
    fn at_uplink(&self, rack: RackId, direction: Direction, load: Option<Load>) -> Option<Overload> {
        let offered = match direction {
            Direction::Tx => self.by_machines[rack.index()],
            Direction::Rx => self.of_others(rack),
        };
        let capacity = self.policy.network().rack(rack).uplink()[direction];
        let peak = self.policy.rack_capacity(rack, direction).min(part(capacity, load));
        Overload::of((ContentionPoint::Rack, direction), offered, capacity, peak)
    }

    /// The worst overload of the ports towards one rack's machines.
    fn at_machines(&self, rack: RackId, load: Option<Load>) -> Option<Overload> {
        let network = self.policy.network();
        let machines = network.rack(rack).machines();
        let interfaces: Bandwidth = machines.iter().map(|machine| self.interface(*machine)).sum();
        // The maxima of all machines but one; the interface of that one follows below.
        let within = self.together(interfaces, machines.len() as u64 - 1);
        let outside = self.of_others(rack).min(network.rack(rack).uplink().rx);
        worst(machines.iter().filter_map(|machine| {
            let capacity = network.machine(*machine).nic().rx;
            let neighbours = within.min(interfaces.saturating_sub(self.interface(*machine)));
            let peak = part(capacity, load);
            Overload::of((ContentionPoint::Machine, Direction::Rx), neighbours + outside, capacity, peak)
        }))
    }

    fn of_others(&self, rack: RackId) -> Bandwidth {
        self.by_all.saturating_sub(self.by_uplink[rack.index()])
    }

    /// A machine's interface under `caps.machine`.
    fn interface(&self, machine: MachineId) -> Bandwidth {
        self.policy.network().machine(machine).nic().tx.min(self.policy.caps()[ContentionPoint::Machine].tx)
    }

    /// The rate that leaves `machines` machines of one rack with these `interfaces` together: the
    /// leaves' rates summed up the tree of services, under the transmit maxima of rack and fabric.
    fn together(&self, interfaces: Bandwidth, machines: u64) -> Bandwidth {
        let mut below = vec![Bandwidth::ZERO; self.policy.services().all().len()];
        let mut roots = Bandwidth::ZERO;
        let services: Vec<_> = self.policy.services().iter().collect();
        // Parents are before their children in the policy's order.
        for (id, service) in services.into_iter().rev() {
            let rate = if service.is_leaf() { self.leaf(id, interfaces, machines) } else { below[id.index()] };
            let max = |point| under_ceilings(service.share(point, Direction::Tx).max);
            let rate = rate.min(max(ContentionPoint::Rack)).min(max(ContentionPoint::Fabric));
            match service.parent() {
                Some(parent) => below[parent.index()] += rate,
                None => roots += rate,
            }
        }
        roots.min(interfaces)
    }

    fn leaf(&self, leaf: ServiceId, interfaces: Bandwidth, machines: u64) -> Bandwidth {
        if !may_overload(self.policy, leaf) {
            return Bandwidth::ZERO;
        }
        let ceiling = self.policy.machine_ceiling(leaf, Direction::Tx);
        let bps = if ceiling.is_unlimited() { u64::MAX } else { ceiling.bps().saturating_mul(machines) };
        interfaces.min(Bandwidth::from_bps(bps.min(Bandwidth::MAX.bps())))
    }
}

/// The part of a capacity that a load is, rounded down; all of it without a load below 100 %.
fn part(capacity: Bandwidth, load: Option<Load>) -> Bandwidth {
    let Some(load) = load else { return capacity };
    let bps = u128::from(capacity.bps()) * u128::from(load.billionths()) / 1_000_000_000;
    Bandwidth::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kind of port, the direction, Mb/s offered, bytes beyond.
    type Row = (ContentionPoint, Direction, u64, Option<u64>);
    const SENT: (ContentionPoint, Direction) = (ContentionPoint::Rack, Direction::Tx);
    const RECEIVED: (ContentionPoint, Direction) = (ContentionPoint::Rack, Direction::Rx);

    fn at((point, direction): (ContentionPoint, Direction), offered: u64, burst: u64) -> Row {
        (point, direction, offered, Some(burst))
    }

    fn at_port(offered: u64) -> Row {
        (ContentionPoint::Machine, Direction::Rx, offered, None)
    }

    fn rows(text: &str) -> Vec<Row> {
        let (policy, _) = Policy::parse("policy.yaml", text).expect("sound");
        let load = Load::from_fraction(0.75).expect("a load");
        let row = |found: &Overload| {
            let burst = found.excess.map(|excess| excess.burst.get());
            (found.point, found.direction, found.offered.bps() / 1_000_000, burst)
        };
        overloads(&policy, Some(load)).iter().map(row).collect()
    }

    /// Eight machines of 1 Gb/s in each of two racks behind 1 Gb/s, with a cap of 750 Mb/s.
    fn found(bulk: &str, caps: &str) -> Vec<Row> {
        rows(&format!(
            "weir: 1\nnetwork: {{ nic: 1Gb/s, racks: {{ a: {{ uplink: 1Gb/s, machines: [\"a[1-8]\"] }}, b: {{ uplink: \
             1Gb/s, machines: [\"b[1-8]\"] }} }} }}\nservices:\n  web: {{ match: [ {{ protocol: tcp, port: 80 }} ], \
             latency: {{ message: 20kB, p99: 13ms }} }}\n{bulk}caps: {{ rack: 750Mb/s{caps} }}\n"
        ))
    }

    /// 7.25 Gb/s · 0.3 s are 271.875 MB; the other uplink delivers 1 Gb/s: 0.25 Gb/s · 0.3 s are
    /// 9.375 MB. A port meets seven neighbours and the uplink.
    fn all() -> Vec<Row> {
        vec![at(SENT, 8_000, 271_875_000), at(RECEIVED, 1_000, 9_375_000), at_port(8_000)]
    }

    #[test]
    fn services_without_congestion_control_or_target_overload_ports() {
        let target = "latency: { message: 1MB, p99: 1s }";
        let both = "  bulk: { match: [ { protocol: tcp, port: 81 }, { protocol: udp, port: 81 } ]";
        assert_eq!(found("  bulk: { match: [ { port: 81 } ] }\n", ""), all());
        assert_eq!(found(&format!("{both}, {target} }}\n"), ""), all());
        // TCP fills a buffer of any size unless it has only messages to send.
        assert_eq!(found("  bulk: { match: [ { protocol: tcp, port: 81 } ] }\n", ""), all());
        assert_eq!(found(&format!("  bulk: {{ match: [ {{ protocol: tcp, port: 81 }} ], {target} }}\n"), ""), []);
        let above =
            format!("  p: {{ {target}, services: {{ bulk: {{ match: [ {{ protocol: tcp, port: 81 }} ] }} }} }}\n");
        assert_eq!(found(&above, ""), []);
    }

    /// Ceilings of 306 Mb/s are 374.85 Mb/s in each rack. With 612 Mb/s, 749.7, each uplink is safe, and a
    /// port has twice as much. Eight machines of 90 Mb/s are 720 Mb/s, of 100 Mb/s 800 Mb/s: 50 Mb/s ·
    /// 0.3 s are 1.875 MB.
    #[test]
    fn transmit_maxima_prevent_it() {
        let bulk = |shares: &str| format!("  bulk: {{ match: [ {{ port: 81 }} ], {shares} }}\n");
        for safe in ["rack: { max: 306Mb/s }", "rack: { tx: { max: 306Mb/s } }", "fabric: { max: 306Mb/s }"] {
            assert_eq!(found(&bulk(safe), ""), [], "{safe}");
        }
        assert_eq!(found(&bulk("rack: { max: 612Mb/s }"), ""), [at_port(1_499)]);
        let beyond = [at(SENT, 918, 6_328_125), at(RECEIVED, 918, 6_328_125), at_port(1_837)];
        assert_eq!(found(&bulk("rack: { max: 750Mb/s }"), ""), beyond);
        assert_eq!(found(&bulk("machine: { max: 46Mb/s }"), ""), []);
        assert_eq!(found(&bulk("machine: { max: 90Mb/s }"), ""), [at_port(630 + 720)]);
        assert_eq!(found(&bulk("order: 1"), ", machine: 90Mb/s"), [at_port(630 + 720)]);
        let more = [at(SENT, 800, 1_875_000), at(RECEIVED, 800, 1_875_000), at_port(700 + 800)];
        assert_eq!(found(&bulk("machine: { max: 100Mb/s }"), ""), more);
    }

    /// A receiving instance has no ceiling before it was limited once.
    #[test]
    fn receive_maxima_do_not_prevent_it() {
        let bulk = |shares: &str| format!("  bulk: {{ match: [ {{ port: 81 }} ], {shares} }}\n");
        for late in
            ["rack: { rx: { max: 50Mb/s } }", "fabric: { rx: { max: 50Mb/s } }", "machine: { rx: { max: 5Mb/s } }"]
        {
            assert_eq!(found(&bulk(late), ""), all(), "{late}");
        }
    }

    /// Two racks may send 735 Mb/s each to the third, whatever its receive maximum: 0.72 Gb/s · 0.3 s
    /// beyond its cap are 27 MB. Its uplink passes 1 Gb/s to its only machine.
    #[test]
    fn rack_receives_from_all_others() {
        let text = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { a: { uplink: 1Gb/s, machines: [m1] }, b: { uplink: 1Gb/s, \
                    machines: [m2] }, c: { uplink: 1Gb/s, machines: [m3] } } }\nservices: { bulk: { match: [ { port: \
                    81 } ], rack: { tx: { max: 600Mb/s }, rx: { max: 500Mb/s } } } }\ncaps: { rack: 750Mb/s }\n";
        assert_eq!(rows(text), [at(RECEIVED, 1_470, 27_000_000), at_port(1_000)]);
        let (policy, _) = Policy::parse("policy.yaml", text).expect("sound");
        let clauses: Vec<String> =
            overloads(&policy, Load::from_fraction(0.75).ok()).iter().map(Overload::to_string).collect();
        let received = "services with UDP or without a target (bulk) can offer 1.47 Gb/s to a rack's uplink of 1 Gb/s \
                        until its brokers limit them, 300 ms or 27 MB that σ does not include; with \
                        transmit maxima in the other racks of together at most 612 Mb/s they cannot";
        let port = "services with UDP or without a target (bulk) can offer 1 Gb/s to a machine's interface of 1 Gb/s \
                    until its receive meters limit their senders, which σ does not include; with transmit maxima in \
                    all racks of together at most 612 Mb/s they cannot";
        assert_eq!(clauses, [received, port]);
    }

    /// The ports of a rack's machines: no other machine, one of the same speed, a slower one.
    #[test]
    fn port_meets_its_neighbours() {
        let of = |machines: &str, more: &str| {
            rows(&format!(
                "weir: 1\nnetwork: {{ nic: 1Gb/s, racks: {{ a: {{ uplink: 10Gb/s, machines: {machines} }} }}{more} \
                 }}\nservices: {{ bulk: {{ match: [ {{ port: 81 }} ] }} }}\n"
            ))
        };
        assert_eq!(of("[m1]", ""), []);
        assert_eq!(of("[m1, m2]", ""), [at_port(1_000)]);
        assert_eq!(of("[m1, m2]", ", machines: { m1: { nic: 700Mb/s }, m2: { nic: 700Mb/s } }"), [at_port(700)]);
        // m1 sends 700 Mb/s to m2, which may have 750; m2 sends 1 Gb/s to m1.
        assert_eq!(of("[m1, m2]", ", machines: { m1: { nic: 700Mb/s } }"), [at_port(1_000)]);
        let slow = ", machines: { m1: { nic: { tx: 700Mb/s, rx: 10Gb/s } } }";
        assert_eq!(of("[m1, m2]", slow), []);
    }

    /// 500 Mb/s are within the rack cap and beyond a load of 40 %: 100 Mb/s · 0.3 s.
    #[test]
    fn planned_load_replaces_a_higher_cap() {
        let text = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { a: { uplink: 1Gb/s, machines: [m1] } } }\nservices: { \
                    bulk: { match: [ { port: 81 } ], machine: { max: 500Mb/s } } }\ncaps: { rack: 750Mb/s }\n";
        let (policy, _) = Policy::parse("policy.yaml", text).expect("sound");
        let found = |load: f64| overloads(&policy, Load::from_fraction(load).ok());
        assert_eq!(found(0.75), []);
        let lower = found(0.4);
        assert_eq!(lower.len(), 1);
        assert_eq!(lower[0].excess.map(|excess| excess.burst), Some(Bytes::new(3_750_000)));
    }

    /// Two children of 250 Mb/s each stay below their parent's maximum.
    #[test]
    fn parents_limit_their_children() {
        let nested = |max: &str| {
            format!(
                "  p:\n    rack: {{ max: {max} }}\n    services:\n      x: {{ match: [ {{ port: 81 }} ], rack: {{ max: \
                 250Mb/s }} }}\n      y: {{ match: [ {{ port: 82 }} ], rack: {{ max: 250Mb/s }} }}\n"
            )
        };
        assert_eq!(found(&nested("300Mb/s"), ""), []);
        assert_eq!(found(&nested("2Gb/s"), ""), [at_port(1_225)]);
    }
}
