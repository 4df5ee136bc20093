//! One rack: machines' interfaces under the rack's uplink.
//!
//! Problem: two crossing trees limit a (machine, service) instance: its machine's (all services of
//! the machine share the interface) and its rack's (all machines of a service share the service's
//! part of the uplink). "The most constrained policy determines the service allocation" (Parley
//! §3.1).
//!
//! Approach, two passes as Parley §3.2.2, with the machines at the bottom:
//!
//! 1. Up: each machine's tree is shared by demand. An instance's share there is all that it can
//!    send to the uplink: its demand at the rack.
//! 2. Down: the rack's tree is shared among services, each service's part among its machines (with
//!    the machine's min and weight). The result is never above the machine's.
//!
//! Where the rack limits an instance below its share at its machine, the interface has room again
//! for the machine's other services. The two passes are then repeated with that instance's demand
//! lowered to the rack's share, until nothing changes or [`ROUNDS`] are done; the result is within
//! every capacity after any round, so stopping early wastes but never overloads.
//!
//! Worked example, Parley Fig 1 (10 Gb/s everywhere, rack capped at 9, VM at most 1, DFS at least 6
//! with weight 2): all backlogged, each machine halves its interface; at the rack VM gets 1 and DFS
//! 8, so each machine's VM gets 0.5 and its DFS 4.

pub(crate) mod ceilings;

use crate::fill::{Child, Filling};
use crate::tree::{Holder, Scratch, ShareTree, TreeShares};
use ceilings::Extremes;
use std::fmt;
use std::sync::Arc;
use weir_policy::{Place, Policy, Share};
use weir_units::{Bandwidth, ContentionPoint, Direction, MachineId, PerDirection, RackId, ServiceId};

/// Repetitions after which the rest stays unused. Random policies need 2, rarely 3. Where services exchange
/// capacity at two machines, each round halves the rest: 100 Gb/s are within 1 kb/s after 27.
pub const ROUNDS: u32 = 32;

/// The least difference that justifies another round. Parley tracks demands to 1 Mb/s (§6.2); below
/// this, rounding alone could keep the rounds going.
pub const WORTH_A_ROUND: Bandwidth = Bandwidth::from_bps(1_000);

/// Computes the shares of all (machine, service) instances of a rack. Make one per policy and keep
/// it.
#[derive(Debug, Clone)]
pub struct RackAllocator {
    policy: Arc<Policy>,
    rack: RackId,
    leaves: Vec<ServiceId>,
    /// By machine; the same tree for neighbours on which the same services run.
    machine_trees: PerDirection<Vec<Arc<ShareTree>>>,
    rack_trees: PerDirection<ShareTree>,
    fabric_trees: PerDirection<ShareTree>,
    extremes: PerDirection<Extremes>,
    fabric_extremes: PerDirection<Extremes>,
}

/// The share of one instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstanceShare {
    /// The bandwidth, at most the demand.
    pub share: Bandwidth,
    /// The constraint that decided it. Anything but [`Constraint::Demand`] means that a limit at
    /// `share` is needed.
    pub decided_by: Constraint,
}

/// A limit that the fabric sets on the rack's sum of a leaf service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FabricLimit {
    /// The most that the rack's machines may have together; [`Bandwidth::UNLIMITED`] when none.
    pub limit: Bandwidth,
    /// The constraint that decided it at the fabric.
    pub decided_by: Constraint,
}

impl FabricLimit {
    /// No limit.
    pub const NONE: Self = Self { limit: Bandwidth::UNLIMITED, decided_by: Constraint::Demand };
}

/// The constraint that decided a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Constraint {
    /// The instance's own demand: it needs no limit.
    Demand,
    /// The capacity of a machine's interface, shared with the machine's other services.
    Machine(MachineId),
    /// The capacity of a rack's uplink, shared with the rack's other instances.
    Rack(RackId),
    /// The capacity of the fabric, shared with all racks.
    Fabric,
    /// The maximum of a service at a point.
    Max(ServiceId, ContentionPoint),
}

impl Constraint {
    /// Whether a limit is needed to keep the instance to its share.
    pub fn is_limit(self) -> bool {
        self != Self::Demand
    }
    /// In words with the policy's names: `demand`, `rack r1`, `max of dfs at rack`.
    pub fn display(self, policy: &Policy) -> impl fmt::Display + '_ {
        ConstraintIn { constraint: self, policy }
    }
}

struct ConstraintIn<'a> {
    constraint: Constraint,
    policy: &'a Policy,
}

impl fmt::Display for ConstraintIn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let network = self.policy.network();
        match self.constraint {
            Constraint::Demand => f.write_str("demand"),
            Constraint::Machine(machine) => write!(f, "machine {}", network.machine(machine).name()),
            Constraint::Rack(rack) => write!(f, "rack {}", network.rack(rack).name()),
            Constraint::Fabric => f.write_str("fabric"),
            Constraint::Max(service, point) => {
                write!(f, "max of {} at {point}", self.policy.services().get(service).path())
            }
        }
    }
}

/// The shares of a rack in one direction, with their trees for explanations.
#[derive(Debug, Default)]
pub struct RackShares {
    /// By instance number, see [`RackAllocator::instance`].
    pub instances: Vec<InstanceShare>,
    /// The last round's sharing of the rack's tree.
    pub(crate) rack: TreeShares,
    /// The last round's sharing of each machine's tree.
    pub(crate) machines: Vec<TreeShares>,
    /// The demands of the last round's machine trees.
    pub(crate) demands: Vec<Bandwidth>,
    scratch: Scratch,
}

/// The tree of each machine.
fn machine_trees(policy: &Policy, machines: &[MachineId], direction: Direction) -> Vec<Arc<ShareTree>> {
    let placed: Vec<ServiceId> =
        policy.services().iter().filter(|(_, service)| service.machines().is_some()).map(|(id, _)| id).collect();
    let mut trees: Vec<Arc<ShareTree>> = Vec::with_capacity(machines.len());
    let mut last: Vec<bool> = Vec::new();
    for machine in machines {
        let place = Place::Machine(*machine);
        let runs: Vec<bool> = placed.iter().map(|service| policy.runs_at(*service, place)).collect();
        let tree = match trees.last() {
            Some(tree) if runs == last => Arc::clone(tree),
            _ => Arc::new(ShareTree::of_services(policy, place, direction)),
        };
        trees.push(tree);
        last = runs;
    }
    trees
}

impl RackAllocator {
    /// An allocator for one rack of a policy.
    pub fn new(policy: &Arc<Policy>, rack: RackId) -> Self {
        let machines = policy.network().rack(rack).machines();
        let leaves: Vec<ServiceId> = policy.services().leaves().map(|(id, _)| id).collect();
        let rack_tree = |direction| {
            // A machine's part of its service's bandwidth. Its maximum already holds in the
            // machine's tree.
            let part = |service: ServiceId, machine: usize| {
                let share = policy.share_at(service, Place::Machine(machines[machine]), direction);
                Some(Share { max: Bandwidth::UNLIMITED, ..share })
            };
            ShareTree::of_services_split(policy, Place::Rack(rack), direction, machines.len(), part)
        };
        let each =
            |tree: &dyn Fn(Direction) -> ShareTree| PerDirection { tx: tree(Direction::Tx), rx: tree(Direction::Rx) };
        let rack_trees = each(&rack_tree);
        let fabric_trees = each(&|direction| ceilings::fabric_tree(policy, direction));
        type Of<'a, T> = &'a dyn Fn(T) -> bool;
        let extremes =
            |trees: &PerDirection<ShareTree>, runs: Of<'_, usize>, capacity: &dyn Fn(Direction) -> Bandwidth| {
                let of = |direction| Extremes::new(&trees[direction], capacity(direction), runs);
                PerDirection { tx: of(Direction::Tx), rx: of(Direction::Rx) }
            };
        let instance_runs = |instance: usize| {
            let (leaf, machine) = (instance / machines.len(), instance % machines.len());
            policy.runs_at(leaves[leaf], Place::Machine(machines[machine]))
        };
        Self {
            policy: Arc::clone(policy),
            rack,
            machine_trees: PerDirection {
                tx: machine_trees(policy, machines, Direction::Tx),
                rx: machine_trees(policy, machines, Direction::Rx),
            },
            extremes: extremes(&rack_trees, &instance_runs, &|direction| policy.rack_capacity(rack, direction)),
            fabric_extremes: extremes(&fabric_trees, &|_| true, &|direction| policy.fabric_capacity(direction)),
            leaves,
            rack_trees,
            fabric_trees,
        }
    }

    /// The policy of the allocator.
    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }
    /// The rack.
    pub fn rack(&self) -> RackId {
        self.rack
    }
    /// The rack's machines, ascending.
    pub fn machines(&self) -> &[MachineId] {
        self.policy.network().rack(self.rack).machines()
    }
    /// The leaf services, ascending.
    pub fn leaves(&self) -> &[ServiceId] {
        &self.leaves
    }
    /// The number of the rack's instances.
    pub fn instance_count(&self) -> usize {
        self.leaves.len() * self.machines().len()
    }
    /// The instance number of the `leaf`-th leaf service on the `machine`-th machine of the rack.
    pub fn instance(&self, leaf: usize, machine: usize) -> usize {
        leaf * self.machines().len() + machine
    }
    pub(crate) fn rack_tree(&self, direction: Direction) -> &ShareTree {
        &self.rack_trees[direction]
    }
    pub(crate) fn machine_tree(&self, direction: Direction, machine: usize) -> &ShareTree {
        &self.machine_trees[direction][machine]
    }

    /// Shares the rack in one direction. `demands` is by instance number. `fabric` limits the
    /// rack's sum of each leaf service, by leaf; empty when the fabric sets no limits.
    ///
    /// # Panics
    /// If there is not one demand for each instance.
    pub fn allocate(
        &self,
        direction: Direction,
        demands: &[Bandwidth],
        fabric: &[FabricLimit],
        result: &mut RackShares,
    ) {
        assert_eq!(demands.len(), self.instance_count(), "one demand for each instance");
        let machines = self.machines().len();
        result.machines.resize_with(machines, TreeShares::default);
        result.demands.clear();
        result.demands.extend_from_slice(demands);
        result.instances.clear();
        result
            .instances
            .resize(demands.len(), InstanceShare { share: Bandwidth::ZERO, decided_by: Constraint::Demand });
        // The rack's limit on each instance in an earlier round, and its constraint.
        let mut ceilings = vec![Constraint::Demand; demands.len()];
        for _ in 0..ROUNDS {
            let offered = self.share_machines(direction, result);
            self.share_rack(direction, &offered, fabric, &mut ceilings, result);
            if !self.lower_demands(&offered, &ceilings, result) {
                break;
            }
        }
    }

    /// Lowers a leaf service's instances to `limit` together, without giving the difference to
    /// other services: the end of the fabric's rounds. The constraint of those that lose something
    /// is `decided_by`.
    pub(crate) fn trim(
        &self,
        direction: Direction,
        leaf: usize,
        limit: Bandwidth,
        decided_by: Constraint,
        result: &mut RackShares,
    ) {
        let service = self.policy.services().get(self.leaves[leaf]);
        let instances = &mut result.instances[leaf * self.machines().len()..(leaf + 1) * self.machines().len()];
        let child = |(instance, machine): (&InstanceShare, &MachineId)| {
            let share = self.policy.share_at(self.leaves[leaf], Place::Machine(*machine), direction);
            Child::new(Share { max: Bandwidth::UNLIMITED, ..share }, instance.share)
        };
        let children: Vec<Child> = instances.iter().zip(self.machines()).map(child).collect();
        let mut filling = Filling::default();
        filling.fill(service.sharing(), limit, &children);
        for (instance, share) in instances.iter_mut().zip(&filling.shares) {
            if *share < instance.share {
                *instance = InstanceShare { share: *share, decided_by };
            }
        }
    }

    /// Up: the bandwidth that each instance can send to the uplink.
    fn share_machines(&self, direction: Direction, result: &mut RackShares) -> Vec<Bandwidth> {
        let machines = self.machines();
        let mut offered = vec![Bandwidth::ZERO; result.demands.len()];
        let mut own = Vec::with_capacity(self.leaves.len());
        for (m, machine) in machines.iter().enumerate() {
            own.clear();
            own.extend((0..self.leaves.len()).map(|leaf| result.demands[self.instance(leaf, m)]));
            let capacity = self.policy.machine_capacity(*machine, direction);
            let tree = self.machine_tree(direction, m);
            let no_limit = |_| Bandwidth::UNLIMITED;
            tree.share(capacity, &own, no_limit, &mut result.machines[m], &mut result.scratch);
            for leaf in 0..self.leaves.len() {
                offered[self.instance(leaf, m)] = result.machines[m].leaf(tree, leaf);
            }
        }
        offered
    }

    /// Down: the rack's share of each of them.
    fn share_rack(
        &self,
        direction: Direction,
        offered: &[Bandwidth],
        fabric: &[FabricLimit],
        ceilings: &mut [Constraint],
        result: &mut RackShares,
    ) {
        let from_fabric = |service: ServiceId| {
            let leaf = self.leaves.binary_search(&service).ok();
            leaf.and_then(|leaf| fabric.get(leaf)).copied().unwrap_or(FabricLimit::NONE)
        };
        let capacity = self.policy.rack_capacity(self.rack, direction);
        let tree = &self.rack_trees[direction];
        tree.share(capacity, offered, |service| from_fabric(service).limit, &mut result.rack, &mut result.scratch);
        for (leaf, service) in self.leaves.iter().enumerate() {
            for (m, machine) in self.machines().iter().enumerate() {
                let i = self.instance(leaf, m);
                let own_max = self.policy.services().get(*service).share(ContentionPoint::Rack, direction).max;
                let decided_by = match result.rack.holder(tree, i) {
                    Holder::Capacity => Constraint::Rack(self.rack),
                    Holder::Max(Some(held)) if held == *service && from_fabric(held).limit < own_max => {
                        from_fabric(held).decided_by
                    }
                    Holder::Max(held) => Constraint::Max(held.unwrap_or(*service), ContentionPoint::Rack),
                    // An earlier round's limit still holds: it made the demand this small.
                    Holder::None if ceilings[i].is_limit() => ceilings[i],
                    Holder::None => match result.machines[m].holder(self.machine_tree(direction, m), leaf) {
                        Holder::None => Constraint::Demand,
                        Holder::Capacity => Constraint::Machine(*machine),
                        Holder::Max(held) => Constraint::Max(held.unwrap_or(*service), ContentionPoint::Machine),
                    },
                };
                result.instances[i] = InstanceShare { share: result.rack.leaf(tree, i), decided_by };
                if result.rack.holder(tree, i) != Holder::None {
                    ceilings[i] = decided_by;
                }
            }
        }
    }

    /// Lowers the demand of instances that the rack limits where that makes room for others on the
    /// machine. Returns whether another round can change anything.
    fn lower_demands(&self, offered: &[Bandwidth], ceilings: &[Constraint], result: &mut RackShares) -> bool {
        let mut again = false;
        for m in 0..self.machines().len() {
            let instances = (0..self.leaves.len()).map(|leaf| self.instance(leaf, m));
            let crowded = |i: usize| {
                matches!(
                    result.instances[i].decided_by,
                    Constraint::Machine(_) | Constraint::Max(_, ContentionPoint::Machine)
                )
            };
            let throttled = |i: usize| {
                ceilings[i].is_limit() && offered[i].saturating_sub(result.instances[i].share) > WORTH_A_ROUND
            };
            if !instances.clone().any(crowded) || !instances.clone().any(throttled) {
                continue;
            }
            for i in instances.filter(|i| throttled(*i)).collect::<Vec<_>>() {
                result.demands[i] = result.instances[i].share;
                again = true;
            }
        }
        again
    }
}

impl RackShares {
    /// The share of a leaf service in the whole rack, over all machines.
    pub fn of_service(&self, allocator: &RackAllocator, leaf: usize) -> Bandwidth {
        let machines = allocator.machines().len();
        self.instances[leaf * machines..(leaf + 1) * machines].iter().map(|instance| instance.share).sum()
    }
}
