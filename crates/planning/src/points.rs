//! Where messages contend, how fast each place is, and how full it may become.
//!
//! Problem: a completion time depends on one queue's capacity and load, while a policy speaks of machines, racks and the
//! fabric, in two directions. Approach: for each contention point and direction the slowest place and the highest load
//! that the caps allow; what no cap holds may still be held by what is around it.
//!
//! | point | capacity | peak load |
//! |---|---|---|
//! | machine | its interface | `caps.machine`; without it, what its rack's uplink carries, if that is spread evenly over the rack |
//! | rack | its uplink | `caps.rack`, or what its machines bring if that is less |
//! | fabric | all uplinks together | `caps.fabric`, or what the racks bring if that is less |
//!
//! A plan is made for the slowest of these capacities under the highest of these loads. Both formulas give a longer time
//! for less capacity and for more load, so such a plan holds at each of the points. It is also how Parley's Table 3 was
//! computed: 10 Gb/s of an interface under the load of the uplink.
//!
//! Worked example: 10 machines of 10 Gb/s behind 80 Gb/s with `caps: { rack: 60Gb/s }`. The uplink has a load of at most
//! 75 %, the interfaces one of 60 % if they share it evenly. The plan is for 10 Gb/s at 75 %.
//!
//! Source: Parley §4, §6.3 (Table 3).

use weir_latency::Load;
use weir_policy::{Caps, Policy};
use weir_units::{Bandwidth, ContentionPoint, Direction, MachineId, RackId};

/// Why a point is not fuller than it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// A cap says so.
    Cap,
    /// Nothing more comes from the places below it.
    Below,
    /// Its rack's uplink carries no more, if the rack's machines share it evenly.
    Evenly,
    /// Nothing holds it: it may be full.
    Nothing,
}

/// One contention point in one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// Which kind of place.
    pub point: ContentionPoint,
    /// Seen from the machine or the rack.
    pub direction: Direction,
    /// The slowest place.
    pub capacity: Bandwidth,
    /// The highest load of all places; `None` where it may be full.
    pub load: Option<Load>,
    /// What holds the place with that load.
    pub held: Held,
}

impl Point {
    /// Whether the load may be higher than `most`.
    pub fn exceeds(&self, most: Load) -> bool {
        self.load.is_none_or(|load| load > most)
    }
}

/// All points of a network under some caps. Of a network with one rack the fabric is left out: nothing crosses it.
pub fn points(policy: &Policy, caps: &Caps) -> Vec<Point> {
    let mut points = Vec::new();
    for point in ContentionPoint::ALL {
        if point == ContentionPoint::Fabric && policy.network().racks().len() < 2 {
            continue;
        }
        for direction in Direction::ALL {
            let network = Network { policy, caps, direction };
            let mut worst: Option<Point> = None;
            network.places(point, &mut |capacity, through, held| {
                let load = part(through, capacity);
                let held = if load.is_none() { Held::Nothing } else { held };
                let place = Point { point, direction, capacity, load, held };
                worst = Some(match worst.take() {
                    None => place,
                    Some(other) => {
                        let capacity = other.capacity.min(place.capacity);
                        // The first of equals, so that a plan does not change from run to run.
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

/// The same point in both directions, told once where it is alike.
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

/// `part` of `whole`, rounded up; `None` for all of it.
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
    /// Gives every place its capacity, what can pass it, and what holds it to that.
    fn places(&self, point: ContentionPoint, give: &mut dyn FnMut(Bandwidth, Bandwidth, Held)) {
        let racks = (0..self.policy.network().racks().len() as u32).map(RackId);
        match point {
            ContentionPoint::Machine => {
                for rack in racks {
                    let machines = self.policy.network().rack(rack).machines();
                    let all: Bandwidth = machines.iter().map(|machine| self.interface(*machine)).sum();
                    let (uplink, _) = self.through_rack(rack);
                    for machine in machines {
                        let (nic, capped) = (self.interface(*machine), self.capped(*machine));
                        // An even share of the uplink, as long as the interface's part of all of them.
                        let even = u128::from(uplink.bps()) * u128::from(nic.bps()) / u128::from(all.bps()).max(1);
                        let even = Bandwidth::from_bps(u64::try_from(even).unwrap_or(u64::MAX)).min(nic);
                        if capped < nic { give(nic, capped, Held::Cap) } else { give(nic, even, Held::Evenly) }
                    }
                }
            }
            ContentionPoint::Rack => {
                for rack in racks {
                    let (through, held) = self.through_rack(rack);
                    give(self.policy.network().rack(rack).uplink()[self.direction], through, held);
                }
            }
            ContentionPoint::Fabric => {
                let all = racks.clone().map(|rack| self.policy.network().rack(rack).uplink()[self.direction]).sum();
                let below = racks.map(|rack| self.through_rack(rack).0).sum();
                let cap = self.caps[ContentionPoint::Fabric][self.direction].min(all);
                if cap <= below { give(all, cap, Held::Cap) } else { give(all, below, Held::Below) }
            }
        }
    }

    fn interface(&self, machine: MachineId) -> Bandwidth {
        self.policy.network().machine(machine).nic()[self.direction]
    }

    fn capped(&self, machine: MachineId) -> Bandwidth {
        self.interface(machine).min(self.caps[ContentionPoint::Machine][self.direction])
    }

    fn through_rack(&self, rack: RackId) -> (Bandwidth, Held) {
        let rack = self.policy.network().rack(rack);
        let below: Bandwidth = rack.machines().iter().map(|machine| self.capped(*machine)).sum();
        let cap = rack.uplink()[self.direction].min(self.caps[ContentionPoint::Rack][self.direction]);
        if cap <= below { (cap, Held::Cap) } else { (below, Held::Below) }
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
            format!("{} {directions} {} {load} {:?}", point.point, point.capacity, point.held)
        };
        in_rows(&points(&policy, policy.caps())).iter().map(row).collect()
    }

    /// Five machines of 10 Gb/s bring 50 of r2's 80 Gb/s; they can receive more than its 40.
    #[test]
    fn without_caps_only_what_is_around_holds() {
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
    fn caps_hold_what_is_above_them() {
        assert_eq!(
            shown("rack: { tx: 60Gb/s, rx: 30Gb/s }"),
            [
                // r2's machines share 50 Gb/s of tx, which is all that they have.
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
