//! The most that an instance may take at once: ceilings.
//!
//! Problem: an instance below its share needs no limit as long as it stays there, but nothing keeps
//! it there until the next exchange of demands. Two rules bound what it may take meanwhile:
//!
//! - **A configured maximum is a bound.** Under a maximum at the rack, or a limit from the fabric,
//!   every instance has a ceiling at all times. A limited one has its share. Any other has its share
//!   and a part of what the maximum leaves unused: of one half in proportion to its share, so that
//!   it can grow; of the other half, or of a tenth of the maximum where that is more, the part that
//!   it would have if all instances demanded everything, so that it can begin. Together they exceed
//!   the maximum by a tenth and an eighth of what unlimited ones use, until the next exchange.
//! - **At a contended uplink no instance has more than its share if it alone demanded everything**
//!   (the headroom of Parley's Fig 6), whether it was judged to demand that much or not. So one that
//!   was misjudged, or grows, meets its due share and not the whole uplink.
//!
//! The static policy has no demands: its ceiling is the instance's part of the maximum if all
//! instances of the rack, or of the fabric, demanded everything.
//!
//! Worked example: a service with a maximum of 20 on ten machines. All idle: 2 each. One alone
//! demands everything: 20 for it, a tenth of 2 for each other. Two demand everything: 10 each. One
//! uses 10 and one 5 of what they may: of the rest of 5, 2.5 go to these two, 1.67 and 0.83, and 0.25
//! to each of the ten.
//!
//! Source: the ceilings are a fill; nearest published rule: Raghavan et al., "Cloud control with
//! distributed rate limiting", SIGCOMM 2007. See `docs/design/ceilings.md`.

use crate::rack::{RackAllocator, RackShares};
use crate::tree::{Ceilings, Scratch, ShareTree, TreeShares};
use weir_policy::{Place, Policy};
use weir_units::{Bandwidth, Direction};

/// The shares of a rack or of the fabric at the two extremes of demand.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extremes {
    /// All instances demand everything.
    pub(crate) if_all: TreeShares,
    /// None demands anything.
    if_none: TreeShares,
}

impl Extremes {
    /// `runs` states for each leaf of the tree whether it can demand anything.
    pub(crate) fn new(tree: &ShareTree, capacity: Bandwidth, runs: &dyn Fn(usize) -> bool) -> Self {
        let mut extremes = Self::default();
        let share = |demand: Bandwidth, shares: &mut TreeShares| {
            let of = |leaf| if runs(leaf) { demand } else { Bandwidth::ZERO };
            let demands: Vec<Bandwidth> = (0..tree.leaf_count()).map(of).collect();
            tree.share(capacity, &demands, |_| Bandwidth::UNLIMITED, shares, &mut Scratch::default());
        };
        share(Bandwidth::UNLIMITED, &mut extremes.if_all);
        share(Bandwidth::ZERO, &mut extremes.if_none);
        extremes
    }
}

/// The tenths of a capacity from which it counts as contended. Below it everyone has room to grow by
/// a tenth of it until the next exchange.
const CONTENDED_TENTHS: u128 = 9;
/// And those to which its usage must fall before it is not: a steady load that varies by a tenth does
/// not toggle the limits.
const RELIEVED_TENTHS: u128 = 8;

/// Whether a capacity of which `used` is assigned is contended; `already` if it was.
pub(crate) fn is_contended(used: Bandwidth, capacity: Bandwidth, already: bool) -> bool {
    let tenths = if already { RELIEVED_TENTHS } else { CONTENDED_TENTHS };
    !capacity.is_unlimited() && u128::from(used.bps()) * 10 >= u128::from(capacity.bps()) * tenths
}

/// The bandwidth that a capacity of which `used` is assigned has until it is contended.
fn room(used: Bandwidth, capacity: Bandwidth) -> Bandwidth {
    let contended = u128::from(capacity.bps()) * CONTENDED_TENTHS / 10;
    if capacity.is_unlimited() { capacity } else { Bandwidth::from_bps(contended as u64).saturating_sub(used) }
}

impl RackAllocator {
    /// The ceiling of an instance under maxima at the rack and limits from the fabric;
    /// [`Bandwidth::UNLIMITED`] where there is none. `shares` are those of the last allocation.
    pub fn bound(&self, direction: Direction, leaf: usize, machine: usize, shares: &RackShares) -> Bandwidth {
        let instance = self.instance(leaf, machine);
        shares.rack.bound(&self.rack_trees[direction], instance, &self.extremes[direction].if_all, true)
    }

    /// The lowest maximum of an instance at the rack, or limit from the fabric; [`Bandwidth::UNLIMITED`] where there is
    /// none.
    pub fn lowest_maximum(&self, direction: Direction, leaf: usize, machine: usize, shares: &RackShares) -> Bandwidth {
        shares.rack.lowest_maximum(&self.rack_trees[direction], self.instance(leaf, machine))
    }

    /// Whether a maximum of a leaf service at the rack, or a limit from the fabric, is used to eight
    /// tenths.
    pub fn has_contended_maximum(&self, direction: Direction, leaf: usize, shares: &RackShares) -> bool {
        shares.rack.has_maximum_used(&self.rack_trees[direction], self.instance(leaf, 0), RELIEVED_TENTHS)
    }

    /// Each instance's share of the uplink if it alone demanded everything, beside the demands of
    /// the last allocation.
    pub fn ceilings(&self, direction: Direction, shares: &mut RackShares, ceilings: &mut Ceilings) {
        let capacity = self.policy.rack_capacity(self.rack, direction);
        let tree = &self.rack_trees[direction];
        tree.ceilings(capacity, &shares.rack, &mut shares.scratch, ceilings);
    }

    /// An instance's ceiling in [`Self::ceilings`].
    pub fn ceiling(&self, direction: Direction, leaf: usize, machine: usize, ceilings: &Ceilings) -> Bandwidth {
        ceilings.leaf(&self.rack_trees[direction], self.instance(leaf, machine))
    }

    /// Whether the uplink is contended; `already` if it was at the allocation before.
    pub fn is_contended(&self, direction: Direction, shares: &RackShares, already: bool) -> bool {
        is_contended(shares.rack.used(), self.policy.rack_capacity(self.rack, direction), already)
    }

    /// The bandwidth that the uplink has until it is contended.
    pub fn room(&self, direction: Direction, shares: &RackShares) -> Bandwidth {
        room(shares.rack.used(), self.policy.rack_capacity(self.rack, direction))
    }

    /// An instance's ceiling without knowledge of any demand: its part of the maxima at the rack and
    /// at the fabric; [`Bandwidth::UNLIMITED`] where there is none.
    pub fn static_ceiling(&self, direction: Direction, leaf: usize, machine: usize) -> Bandwidth {
        let Extremes { if_all, if_none } = &self.extremes[direction];
        let at_rack = if_none.bound(&self.rack_trees[direction], self.instance(leaf, machine), if_all, false);
        at_rack.min(self.part_of_fabric(direction, leaf, Place::Machine(self.machines()[machine])))
    }

    /// The rack's part of a service's maxima at the fabric if all machines of all racks demanded
    /// everything; [`Bandwidth::UNLIMITED`] where there is none.
    pub fn static_fabric_limit(&self, direction: Direction, leaf: usize) -> Bandwidth {
        self.part_of_fabric(direction, leaf, Place::Rack(self.rack))
    }

    fn part_of_fabric(&self, direction: Direction, leaf: usize, place: Place) -> Bandwidth {
        let Extremes { if_all, if_none } = &self.fabric_extremes[direction];
        let bound = if_none.bound(&self.fabric_trees[direction], leaf, if_all, false);
        if bound.is_unlimited() {
            return bound;
        }
        let running = |place| self.policy.machines_running(self.leaves[leaf], place) as u128;
        Bandwidth::from_bps((u128::from(bound.bps()) * running(place) / running(Place::Fabric).max(1)) as u64)
    }
}

/// The services' tree at the fabric, without the racks.
pub(super) fn fabric_tree(policy: &Policy, direction: Direction) -> ShareTree {
    ShareTree::of_services(policy, Place::Fabric, direction)
}

#[cfg(test)]
mod tests {
    use crate::{Constraint, FabricLimit, RackAllocator, RackShares};
    use std::sync::Arc;
    use weir_policy::Policy;
    use weir_units::{Bandwidth, Direction, RackId};

    fn allocator(service: &str) -> RackAllocator {
        let text = format!(
            "weir: 1\nnetwork: {{ nic: 100Mb/s, racks: {{ r: {{ uplink: 100Mb/s, machines: [\"m[1-10]\"] }} }} }}\n\
             services: {{ s: {{ match: [ {{ protocol: udp, port: 1 }} ]{service} }} }}\n"
        );
        let policy = Arc::new(Policy::parse("policy.yaml", &text).expect("the policy is valid").0);
        RackAllocator::new(&policy, RackId(0))
    }

    /// The bounds under a limit of 20 Mb/s, in kb/s.
    fn bounds(service: &str, fabric: bool, demands: [u64; 10]) -> Vec<u64> {
        let allocator = allocator(service);
        let limit = Bandwidth::from_mbps(20);
        let demands = demands.map(Bandwidth::from_mbps);
        let mut shares = RackShares::default();
        let limits = [FabricLimit { limit, decided_by: Constraint::Fabric }];
        allocator.allocate(Direction::Tx, &demands, if fabric { &limits } else { &[] }, &mut shares);
        (0..10).map(|m| allocator.bound(Direction::Tx, 0, m, &shares).bps() / 1_000).collect()
    }

    const MAX: &str = ", rack: { max: 20Mb/s }";

    #[test]
    fn worked_example() {
        for (service, fabric) in [(MAX, false), ("", true)] {
            assert_eq!(bounds(service, fabric, [0; 10]), [2_000; 10]);
            let mut one = [200; 10];
            one[3] = 20_000;
            assert_eq!(bounds(service, fabric, [0, 0, 0, 50, 0, 0, 0, 0, 0, 0]), one);
            let mut two = [200; 10];
            two[..2].copy_from_slice(&[10_000; 2]);
            assert_eq!(bounds(service, fabric, [50, 50, 0, 0, 0, 0, 0, 0, 0, 0]), two);
            let mut some = [250; 10];
            some[..2].copy_from_slice(&[11_916, 6_083]);
            assert_eq!(bounds(service, fabric, [10, 5, 0, 0, 0, 0, 0, 0, 0, 0]), some);
        }
    }

    #[test]
    fn without_a_maximum_there_is_no_bound() {
        let allocator = allocator("");
        let mut shares = RackShares::default();
        allocator.allocate(Direction::Tx, &[Bandwidth::from_mbps(5); 10], &[], &mut shares);
        assert!(allocator.bound(Direction::Tx, 0, 3, &shares).is_unlimited());
        assert!(allocator.static_ceiling(Direction::Tx, 0, 3).is_unlimited());
    }

    #[test]
    fn service_beside_guarantees_of_the_whole_uplink_can_begin() {
        let text = "weir: 1\nnetwork: { nic: 100Mb/s, racks: { r: { uplink: 100Mb/s, machines: [m1, m2] } } }\n\
                    services:\n  a: { match: [ { protocol: udp, port: 1 } ], rack: { min: 100Mb/s } }\n  \
                    b: { match: [ { protocol: udp, port: 2 } ], rack: { max: 10Mb/s } }\n";
        let policy = Arc::new(Policy::parse("policy.yaml", text).expect("the policy is valid").0);
        let allocator = RackAllocator::new(&policy, RackId(0));
        assert_eq!(allocator.static_ceiling(Direction::Tx, 1, 0), Bandwidth::from_mbps(5));
        let mut shares = RackShares::default();
        allocator.allocate(Direction::Tx, &[Bandwidth::ZERO; 4], &[], &mut shares);
        assert_eq!(allocator.bound(Direction::Tx, 1, 0, &shares), Bandwidth::from_mbps(5));
    }

    /// A maximum of 20 Mb/s is divided among the two machines of ten on which the service runs; one of 10 Mb/s at the
    /// fabric likewise.
    #[test]
    fn static_ceilings_divide_maxima_among_machines_of_the_service() {
        let allocator =
            allocator(", machines: [m1, m2], rack: { tx: { max: 20Mb/s } }, fabric: { rx: { max: 10Mb/s } }");
        let ceiling = |direction, machine| allocator.static_ceiling(direction, 0, machine);
        assert_eq!(ceiling(Direction::Tx, 1), Bandwidth::from_mbps(10));
        // Traffic of the service elsewhere can begin.
        assert_eq!(ceiling(Direction::Tx, 2), Bandwidth::from_mbps(2));
        assert_eq!(ceiling(Direction::Rx, 0), Bandwidth::from_mbps(5));
    }

    #[test]
    fn static_ceilings_divide_maxima_among_all_instances() {
        let allocator = allocator(", rack: { tx: { max: 20Mb/s } }, fabric: { max: 10Mb/s }");
        assert_eq!(allocator.static_ceiling(Direction::Tx, 0, 3), Bandwidth::from_mbps(1));
        assert_eq!(allocator.static_fabric_limit(Direction::Rx, 0), Bandwidth::from_mbps(10));
    }
}
