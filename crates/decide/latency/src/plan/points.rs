//! Contention points of a network: their capacities and their peak loads under the caps.
//!
//! Problem: a completion time depends on the capacity and load of one queue, but a policy describes
//! machines, racks and the fabric, in two directions. Approach: for each contention point and
//! direction, find the lowest capacity, and the highest load that the caps allow. Without a cap the
//! neighbouring points may still limit the load.
//!
//! | point | capacity | peak load |
//! |---|---|---|
//! | machine | interface | `caps.machine`; else an even share of the rack's uplink |
//! | rack | uplink | `caps.rack`, or the sum of its machines if that is less |
//! | fabric | all uplinks together | `caps.fabric`, or the sum of the racks if that is less |
//!
//! A plan uses the lowest of these capacities with the highest of these loads. Both formulas give a
//! longer time for less capacity and for more load, so the plan is valid at each point. Parley's
//! Table 3 was computed in this way: 10 Gb/s of an interface under the load of the uplink.
//!
//! Worked example: 10 machines of 10 Gb/s behind 80 Gb/s, with `caps: { rack: 60Gb/s }`. The load
//! of the uplink is at most 75 %, and that of the interfaces 60 % if they share it evenly. The plan
//! is for 10 Gb/s at 75 %.
//!
//! Source: Parley §4, §6.3 (Table 3).

use weir_policy::{Caps, Place, Policy};
use weir_units::{Bandwidth, ContentionPoint, Direction, Load, MachineId, RackId, ServiceId};

/// The limit that determines a point's peak load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// A cap of the policy.
    Cap,
    /// The capacities of the points below it.
    Below,
    /// An even share of its rack's uplink.
    Evenly,
    /// None: the load may reach 100 %.
    Nothing,
}

/// The name of a kind of contention point in sentences.
pub fn name(point: ContentionPoint) -> &'static str {
    match point {
        ContentionPoint::Machine => "machine's interface",
        ContentionPoint::Rack => "rack's uplink",
        ContentionPoint::Fabric => "fabric",
    }
}

/// One contention point in one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// The kind of point.
    pub point: ContentionPoint,
    /// The direction, from the viewpoint of the machine or the rack.
    pub direction: Direction,
    /// The lowest capacity of all points of this kind.
    pub capacity: Bandwidth,
    /// The highest load of all points of this kind; `None` if it may reach 100 %.
    pub load: Option<Load>,
    /// The limit that determines that load.
    pub bound: Bound,
}

impl Point {
    /// Whether the load may be higher than `most`.
    pub fn exceeds(&self, most: Load) -> bool {
        self.load.is_none_or(|load| load > most)
    }
}

/// All points of a network under the given caps. A network with one rack has no fabric point, since
/// no traffic crosses the fabric.
pub fn points(policy: &Policy, caps: &Caps) -> Vec<Point> {
    points_where(policy, caps, &|_| true)
}

/// The points through which traffic of a service passes: machines on which it runs, and their racks.
pub fn points_of(policy: &Policy, caps: &Caps, service: ServiceId) -> Vec<Point> {
    points_where(policy, caps, &|place| policy.runs_at(service, place))
}

fn points_where(policy: &Policy, caps: &Caps, counts: &dyn Fn(Place) -> bool) -> Vec<Point> {
    let mut points = Vec::new();
    for point in ContentionPoint::ALL {
        if point == ContentionPoint::Fabric && policy.network().racks().len() < 2 {
            continue;
        }
        for direction in Direction::ALL {
            let network = Network { policy, caps, direction };
            let mut worst: Option<Point> = None;
            network.places(point, &mut |at, capacity, through, bound| {
                if !counts(at) {
                    return;
                }
                let load = part(through, capacity);
                let bound = if load.is_none() { Bound::Nothing } else { bound };
                let place = Point { point, direction, capacity, load, bound };
                worst = Some(match worst.take() {
                    None => place,
                    Some(other) => {
                        let capacity = other.capacity.min(place.capacity);
                        // The first of equal loads is kept, so that plans are reproducible.
                        let fuller = other.load.is_some_and(|load| place.exceeds(load));
                        Point { capacity, ..if fuller { place } else { other } }
                    }
                });
            });
            points.extend(worst);
        }
    }
    points
}

/// Rows of a table: a point that is equal in both directions has one row.
pub fn in_rows(points: &[Point]) -> Vec<(&Point, &'static str)> {
    let mut rows = Vec::new();
    let mut points = points.iter().peekable();
    while let Some(point) = points.next() {
        let alike = |next: &&Point| **next == Point { direction: next.direction, ..point.clone() };
        let both = points.next_if(|next| next.point == point.point && alike(next)).is_some();
        rows.push((point, if both { "tx, rx" } else { point.direction.name() }));
    }
    rows
}

/// `part` / `whole`, rounded up; `None` for 100 % and above.
fn part(part: Bandwidth, whole: Bandwidth) -> Option<Load> {
    let billionths = (u128::from(part.bps()) * 1_000_000_000).div_ceil(u128::from(whole.bps()).max(1));
    Load::from_billionths(u32::try_from(billionths.max(1)).ok()?).ok()
}

struct Network<'a> {
    policy: &'a Policy,
    caps: &'a Caps,
    direction: Direction,
}

impl Network<'_> {
    /// Calls `give` for every point of a kind, with its capacity, the maximum traffic through it,
    /// and the limit that determines that traffic.
    fn places(&self, point: ContentionPoint, give: &mut dyn FnMut(Place, Bandwidth, Bandwidth, Bound)) {
        let racks = (0..self.policy.network().racks().len() as u32).map(RackId);
        match point {
            ContentionPoint::Machine => {
                for rack in racks {
                    let machines = self.policy.network().rack(rack).machines();
                    let all: Bandwidth = machines.iter().map(|machine| self.interface(*machine)).sum();
                    let (uplink, _) = self.through_rack(rack);
                    for machine in machines {
                        let (nic, capped) = (self.interface(*machine), self.capped(*machine));
                        // The uplink, divided in proportion to the interfaces' rates.
                        let even = u128::from(uplink.bps()) * u128::from(nic.bps()) / u128::from(all.bps()).max(1);
                        let even = Bandwidth::from_bps(u64::try_from(even).unwrap_or(u64::MAX)).min(nic);
                        let at = Place::Machine(*machine);
                        if capped < nic {
                            give(at, nic, capped, Bound::Cap)
                        } else {
                            give(at, nic, even, Bound::Evenly)
                        }
                    }
                }
            }
            ContentionPoint::Rack => {
                for rack in racks {
                    let (through, bound) = self.through_rack(rack);
                    let uplink = self.policy.network().rack(rack).uplink()[self.direction];
                    give(Place::Rack(rack), uplink, through, bound);
                }
            }
            ContentionPoint::Fabric => {
                let all = racks.clone().map(|rack| self.policy.network().rack(rack).uplink()[self.direction]).sum();
                let below = racks.map(|rack| self.through_rack(rack).0).sum();
                let cap = self.caps[ContentionPoint::Fabric][self.direction].min(all);
                let (through, bound) = if cap <= below { (cap, Bound::Cap) } else { (below, Bound::Below) };
                give(Place::Fabric, all, through, bound);
            }
        }
    }

    fn interface(&self, machine: MachineId) -> Bandwidth {
        self.policy.network().machine(machine).nic()[self.direction]
    }

    fn capped(&self, machine: MachineId) -> Bandwidth {
        self.interface(machine).min(self.caps[ContentionPoint::Machine][self.direction])
    }

    fn through_rack(&self, rack: RackId) -> (Bandwidth, Bound) {
        let rack = self.policy.network().rack(rack);
        let below: Bandwidth = rack.machines().iter().map(|machine| self.capped(*machine)).sum();
        let cap = rack.uplink()[self.direction].min(self.caps[ContentionPoint::Rack][self.direction]);
        if cap <= below { (cap, Bound::Cap) } else { (below, Bound::Below) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(caps: &str) -> Policy {
        let text = format!(
            "weir: 1\nnetwork: {{ nic: 10Gb/s, racks: {{ r1: {{ uplink: 80Gb/s, machines: [\"m[1-10]\"] }}, \
             r2: {{ uplink: {{ tx: 80Gb/s, rx: 40Gb/s }}, machines: [\"n[1-5]\"] }} }} }}\n\
             services: {{ a: {{ match: [ {{ port: 1 }} ] }} }}\ncaps: {{ {caps} }}\n"
        );
        Policy::parse("policy.yaml", &text).map(|(policy, _)| policy).expect("sound")
    }

    fn shown(caps: &str) -> Vec<String> {
        let policy = policy(caps);
        let row = |(point, directions): &(&Point, &str)| {
            let load = point.load.map_or("full".to_owned(), |load| load.to_string());
            format!("{} {directions} {} {load} {:?}", point.point, point.capacity, point.bound)
        };
        in_rows(&points(&policy, policy.caps())).iter().map(row).collect()
    }

    /// Five machines of 10 Gb/s send at most 50 of r2's 80 Gb/s. They can receive more than its 40
    /// Gb/s.
    /// A service on machines of 10 Gb/s is not planned for the one of 1 Gb/s.
    #[test]
    fn only_machines_of_a_service_count() {
        let text = "weir: 1\nnetwork: { nic: 10Gb/s, racks: { r: { uplink: 40Gb/s, machines: [\"m[1-4]\"] } }, \
            machines: { m4: { nic: 1Gb/s } } }\nservices: { a: { match: [ { port: 1 } ], machines: [\"m[1-3]\"] } }\n";
        let (policy, _) = Policy::parse("policy.yaml", text).expect("sound");
        let slowest = |points: &[Point]| points.iter().map(|point| point.capacity).min();
        assert_eq!(slowest(&points(&policy, policy.caps())), Some(Bandwidth::from_gbps(1)));
        assert_eq!(slowest(&points_of(&policy, policy.caps(), ServiceId(0))), Some(Bandwidth::from_gbps(10)));
    }

    #[test]
    fn without_caps_neighbouring_points_limit_the_load() {
        assert_eq!(
            shown(""),
            [
                "machine tx 10 Gb/s full Nothing",
                "machine rx 10 Gb/s 80 % Evenly",
                "rack tx 80 Gb/s full Nothing",
                "rack rx 40 Gb/s full Nothing",
                "fabric tx 160 Gb/s 81.25 % Below",
                "fabric rx 120 Gb/s full Nothing",
            ]
        );
    }

    #[test]
    fn caps_limit_their_point_and_its_neighbours() {
        assert_eq!(
            shown("rack: { tx: 60Gb/s, rx: 30Gb/s }"),
            [
                // r2's machines share 50 Gb/s of tx, the sum of their interfaces.
                "machine tx 10 Gb/s full Nothing",
                "machine rx 10 Gb/s 60 % Evenly",
                "rack tx 80 Gb/s 75 % Cap",
                "rack rx 40 Gb/s 75 % Cap",
                "fabric tx 160 Gb/s 68.75 % Below",
                "fabric rx 120 Gb/s 50 % Below",
            ]
        );
        assert_eq!(
            shown("machine: 5Gb/s"),
            [
                "machine tx, rx 10 Gb/s 50 % Cap",
                "rack tx 80 Gb/s 62.5 % Below",
                "rack rx 40 Gb/s 62.5 % Below",
                "fabric tx 160 Gb/s 46.875 % Below",
                "fabric rx 120 Gb/s 62.5 % Below",
            ]
        );
    }
}
