//! [`MachinePlan`]: what a machine enforces of a policy.
//!
//! Problem: shapers share an interface among leaf services, one level of guarantees, maxima and weights; a policy has a
//! tree. Approach: a leaf has the least maximum of itself and the services that it is nested in, and the product of
//! the weights along its path, each relative to its siblings. Guarantees come from the tree's
//! own shares while every service is backlogged, [`LeafShare::committed`]: [`crate::flat`] derives from them the
//! guarantee that makes the flat rule give the same shares. HTB, departure times, receive meters, the simulator and
//! `weir allocate` therefore agree where all services are backlogged. Where some are idle, their shares go to all
//! others by weight, not first to their siblings, until the rack brokers allocate by the tree a second later. A service
//! that does not run at the machine has no guarantee and is idle there, but keeps its weight: its replies may pass.
//!
//! Worked example: 12 Gb/s; `vm` of weight 1 and `dfs` of weight 3, at least 10 Gb/s, with two children of weight 1.
//! Committed are 0.5 (a quarter of the excess of 2), 5.75 and 5.75; the weights are 1, 1.5 and 1.5; `vm` has 0.5 of
//! the excess for its weight, so the children have 0.75 for theirs and are guaranteed 5 each.

use crate::flat::flat_guarantees;
use crate::level::LevelLimits;
use weir_alloc::ShareTree;
use weir_alloc::fill::{Child, Filling};
use weir_alloc::tree::{Scratch, TreeShares};
use weir_policy::{Level, Place, Policy, Share, Sharing};
use weir_units::{Bandwidth, Direction, MachineId, PerDirection, ServiceId, Weight};

/// A leaf service's share of one direction of a machine's interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeafShare {
    /// The policy's: its own guarantee where it runs, the least maximum along its path, its weight among all leaves.
    pub share: Share,
    /// Its share in the tree while all services are backlogged.
    pub committed: Bandwidth,
    /// The guarantee with which a flat list of leaves shares as the tree does; at least `share.min`.
    pub flat_min: Bandwidth,
    /// Whether what is sent is on a latency level, which has its own part of the interface: it has no share.
    pub on_level: bool,
}

impl LeafShare {
    /// The share that meters and departure times enforce; HTB guarantees `committed`.
    pub fn enforced(&self) -> Share {
        match self.on_level {
            true => Share { min: Bandwidth::ZERO, max: Bandwidth::ZERO, ..self.share },
            false => Share { min: self.flat_min, ..self.share },
        }
    }
}

/// A leaf service at a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeafPlan {
    /// The service.
    pub service: ServiceId,
    /// Its shares of the machine's interface.
    pub shares: PerDirection<LeafShare>,
    /// The latency level of what it sends; `None` for a service without one, and where it does not run.
    pub level: Option<Level>,
    /// Whether other machines send its packets on a level: no receive meter limits those.
    pub receives_on_level: bool,
}

/// The services of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachinePlan {
    /// The capacities that its services share.
    pub capacities: PerDirection<Bandwidth>,
    /// Its leaf services, in the policy's order.
    pub leaves: Vec<LeafPlan>,
    /// The limits of latency levels, the most urgent first; `None` for levels on which it sends nothing.
    pub levels: Vec<Option<LevelLimits>>,
}

/// How committed rates are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// By the policy's tree.
    Tree,
    /// By one list of all leaves, as EyeQ has it.
    List,
}

impl MachinePlan {
    /// The plan of a machine under Parley.
    ///
    /// # Panics
    /// If the policy has no such machine.
    pub fn new(policy: &Policy, machine: MachineId) -> Self {
        let capacity = |direction| policy.machine_capacity(machine, direction);
        Self::within(policy, machine, PerDirection { tx: capacity(Direction::Tx), rx: capacity(Direction::Rx) })
    }

    /// The same for an interface that lets services share these capacities.
    ///
    /// # Panics
    /// If the policy has no such machine.
    pub fn within(policy: &Policy, machine: MachineId, capacities: PerDirection<Bandwidth>) -> Self {
        Self::with(policy, machine, capacities, policy.sharing(), Shape::Tree)
    }

    /// The plan of a machine whose interface has these capacities and divides them by the rule `sharing`.
    pub(crate) fn with(
        policy: &Policy,
        machine: MachineId,
        capacities: PerDirection<Bandwidth>,
        sharing: Sharing,
        shape: Shape,
    ) -> Self {
        let side = |direction: Direction| side(policy, machine, direction, capacities[direction], sharing, shape);
        let (tx, rx) = (side(Direction::Tx), side(Direction::Rx));
        let leaves = policy.services().leaves().zip(tx.into_iter().zip(rx));
        let leaf = |((service, _), (tx, rx))| {
            let runs = policy.runs_at(service, Place::Machine(machine));
            let level = policy.level_of(service);
            let receives_on_level = level.is_some();
            LeafPlan { service, shares: PerDirection { tx, rx }, level: level.filter(|_| runs), receives_on_level }
        };
        Self { capacities, leaves: leaves.map(leaf).collect(), levels: LevelLimits::of_machine(policy, machine) }
    }

    /// The plan of a machine with a list of services, all of which run there.
    pub fn of_list(sharing: Sharing, capacities: PerDirection<Bandwidth>, shares: &[PerDirection<Share>]) -> Self {
        let side = |direction: Direction| {
            let own: Vec<Share> = shares.iter().map(|share| share[direction]).collect();
            let committed = of_list(sharing, capacities[direction], &own, |_| Bandwidth::UNLIMITED);
            leaf_shares(sharing, own, committed, |_| false)
        };
        let (tx, rx) = (side(Direction::Tx), side(Direction::Rx));
        let leaf = |(index, (tx, rx))| {
            let shares = PerDirection { tx, rx };
            LeafPlan { service: ServiceId(index), shares, level: None, receives_on_level: false }
        };
        Self { capacities, leaves: (0..).zip(tx.into_iter().zip(rx)).map(leaf).collect(), levels: Vec::new() }
    }
}

/// The shares of one direction, by leaf.
fn side(
    policy: &Policy,
    machine: MachineId,
    direction: Direction,
    capacity: Bandwidth,
    sharing: Sharing,
    shape: Shape,
) -> Vec<LeafShare> {
    let place = Place::Machine(machine);
    let share = |leaf: ServiceId| Share {
        min: policy.share_at(leaf, place, direction).min,
        max: policy.machine_ceiling(leaf, direction),
        weight: weight(policy, leaf, place, direction),
    };
    let leaves: Vec<ServiceId> = policy.services().leaves().map(|(id, _)| id).collect();
    let own: Vec<Share> = leaves.iter().map(|&leaf| share(leaf)).collect();
    let on_level = |index: usize| {
        let leaf = leaves[index];
        direction == Direction::Tx && policy.level_of(leaf).is_some() && policy.runs_at(leaf, place)
    };
    let demand = |index: usize| if on_level(index) { Bandwidth::ZERO } else { Bandwidth::UNLIMITED };
    let committed = match shape {
        Shape::List => of_list(sharing, capacity, &own, demand),
        Shape::Tree => {
            let tree = ShareTree::of_services(policy, place, direction);
            let demands: Vec<Bandwidth> = (0..leaves.len()).map(demand).collect();
            let (mut shares, mut scratch) = (TreeShares::default(), Scratch::default());
            tree.share(capacity, &demands, |_| Bandwidth::UNLIMITED, &mut shares, &mut scratch);
            (0..leaves.len()).map(|leaf| shares.leaf(&tree, leaf)).collect()
        }
    };
    leaf_shares(sharing, own, committed, on_level)
}

fn leaf_shares(
    sharing: Sharing,
    own: Vec<Share>,
    committed: Vec<Bandwidth>,
    on_level: impl Fn(usize) -> bool,
) -> Vec<LeafShare> {
    let others: Vec<usize> = (0..own.len()).filter(|&index| !on_level(index)).collect();
    let (shares, rates): (Vec<Share>, Vec<Bandwidth>) =
        others.iter().map(|&index| (own[index], committed[index])).unzip();
    let minima = flat_guarantees(sharing, &shares, &rates);
    let mut leaves: Vec<LeafShare> = own
        .into_iter()
        .zip(committed)
        .map(|(share, committed)| LeafShare { share, committed, flat_min: Bandwidth::ZERO, on_level: true })
        .collect();
    for (index, flat_min) in others.into_iter().zip(minima) {
        leaves[index] = LeafShare { flat_min, on_level: false, ..leaves[index] };
    }
    leaves
}

/// The shares of one list of services while all are backlogged.
fn of_list(
    sharing: Sharing,
    capacity: Bandwidth,
    services: &[Share],
    demand: impl Fn(usize) -> Bandwidth,
) -> Vec<Bandwidth> {
    let children: Vec<Child> =
        services.iter().enumerate().map(|(index, share)| Child::new(*share, demand(index))).collect();
    let mut filling = Filling::default();
    filling.fill(sharing, capacity, &children);
    filling.shares
}

/// A leaf's weight among all leaves at a machine.
fn weight(policy: &Policy, leaf: ServiceId, place: Place, direction: Direction) -> Weight {
    let services = policy.services();
    let own = |id: ServiceId| u128::from(policy.share_at(id, place, direction).weight.thousandths());
    // Numerator and denominator of the product; cut to 64 bits at each level, of which no tree has many.
    let (mut part, mut whole) = (own(leaf), 1u128);
    let mut at = leaf;
    while let Some(parent) = services.get(at).parent() {
        let siblings: u128 = services.get(parent).children().iter().map(|&id| own(id)).sum();
        (part, whole) = (part.saturating_mul(own(parent)), whole.saturating_mul(siblings));
        while part.max(whole) > u128::from(u64::MAX) {
            (part, whole) = (part >> 1, (whole >> 1).max(1));
        }
        at = parent;
    }
    let thousandths = u32::try_from((part / whole).max(1)).unwrap_or(u32::MAX);
    Weight::from_thousandths(thousandths).unwrap_or(Weight::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(nic: &str, services: &str) -> Policy {
        let text = format!(
            "weir: 1\nnetwork: {{ nic: {nic}, racks: {{ r: {{ uplink: 40Gb/s, machines: [m1, m2] }}, \
             q: {{ uplink: 40Gb/s, machines: [m3] }} }} }}\n{services}"
        );
        Policy::parse("policy.yaml", &text).unwrap_or_else(|errors| panic!("{errors}")).0
    }

    fn mbps(plan: &MachinePlan, of: impl Fn(&LeafShare) -> Bandwidth) -> Vec<u64> {
        plan.leaves.iter().map(|leaf| of(&leaf.shares.tx).bps() / 1_000_000).collect()
    }

    #[test]
    fn machines_without_a_service_give_it_no_guarantee() {
        let policy = policy(
            "10Gb/s",
            "services:
  a: { match: [ { port: 1 } ], machines: [m1, m2], machine: { min: 1Gb/s, max: 2Gb/s } }
  p:
    services: { b: { match: [ { port: 2 } ], machines: [m1] }, c: { match: [ { port: 3 } ], machines: [m1, m2] } }
",
        );
        let of = |name| {
            let plan = MachinePlan::new(&policy, policy.network().machine_named(name).expect("a machine"));
            let weights: Vec<u32> = plan.leaves.iter().map(|leaf| leaf.shares.tx.share.weight.thousandths()).collect();
            (mbps(&plan, |leaf| leaf.share.min), mbps(&plan, |leaf| leaf.committed), weights)
        };
        assert_eq!(of("m1"), (vec![1000, 0, 0], vec![2000, 4000, 4000], vec![1000, 500, 500]));
        assert_eq!(of("m2"), of("m1"));
        assert_eq!(of("m3"), (vec![0, 0, 0], vec![2000, 4000, 4000], vec![1000, 500, 500]));
    }

    #[test]
    fn guarantees_of_a_parent_are_its_childrens() {
        let policy = policy(
            "12Gb/s",
            "services:
  vm: { match: [ { port: 1 } ] }
  dfs:
    machine: { weight: 3, min: 10Gb/s }
    services: { a: { match: [ { port: 2 } ] }, b: { match: [ { port: 3 } ] } }
",
        );
        let plan = MachinePlan::new(&policy, MachineId(0));
        // In the order of leaves.
        let order: Vec<&str> = policy.services().leaves().map(|(_, service)| service.path()).collect();
        assert_eq!(order, ["dfs/a", "dfs/b", "vm"]);
        assert_eq!(mbps(&plan, |leaf| leaf.committed), [5750, 5750, 500]);
        assert_eq!(mbps(&plan, |leaf| leaf.flat_min), [5000, 5000, 0]);
    }

    #[test]
    fn services_on_levels_have_no_share() {
        let policy = policy(
            "10Gb/s",
            "levels: { factors: [1] }
services:
  a: { match: [ { port: 1 } ], level: 1, machines: [m1] }
  b: { match: [ { port: 2 } ], machine: { weight: 3, min: 1Gb/s } }
  c: { match: [ { port: 3 } ] }
",
        );
        let of = |machine, direction| {
            let plan = MachinePlan::new(&policy, policy.network().machine_named(machine).expect("a machine"));
            plan.leaves.iter().map(|leaf| leaf.shares[direction].committed.bps() / 1_000_000).collect::<Vec<u64>>()
        };
        assert_eq!(of("m1", Direction::Tx), [0, 7_750, 2_250]);
        // Where the service does not run its replies have no level, and such replies share what a host receives.
        assert_eq!(of("m2", Direction::Tx), [1_800, 6_400, 1_800]);
        assert_eq!(of("m1", Direction::Rx), [1_700, 6_100, 1_700]);
    }
}
