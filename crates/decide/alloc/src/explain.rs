//! The reason of a share.
//!
//! Problem: "when a service does not get its bandwidth", an operator wants to see which constraint
//! decided (Parley §3.1 gives this as a reason for hierarchical policies). Approach: the sharing is
//! kept with every node's demand and share; an explanation walks from each root to the instance and
//! lists, at each split on the way, the children and the share of each. The last round's trees are
//! shown: where rounds were repeated, an instance that the rack limits has in its machine's tree
//! the demand after the rack's limit.
//!
//! Worked example: see `weir explain --help`.

use crate::fabric::NetworkShares;
use crate::fill::Decision;
use crate::rack::Constraint;
use crate::tree::{Scratch, ShareTree, TreeShares};
use weir_policy::{Policy, Share, Sharing};
use weir_units::{Bandwidth, ContentionPoint, Direction, MachineId, RackId, ServiceId};

/// All splits on the way to one instance, from its machine up to the fabric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Its demand.
    pub demand: Bandwidth,
    /// Its share.
    pub share: Bandwidth,
    /// The constraint that decided it.
    pub decided_by: Constraint,
    /// The splits, point by point, each from the root to the instance.
    pub steps: Vec<Step>,
}

/// One node's bandwidth among its children.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The contention point.
    pub point: ContentionPoint,
    /// The name of the machine, the rack or `fabric`.
    pub place: String,
    /// The service that is split; none for everything at this point.
    pub service: Option<ServiceId>,
    /// The capacity to share.
    pub available: Bandwidth,
    /// The sharing rule.
    pub sharing: Sharing,
    /// The children.
    pub rows: Vec<StepRow>,
}

/// One child of a split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRow {
    /// The service, the machine or the rack.
    pub name: String,
    /// Whether it is on the way to the instance.
    pub chosen: bool,
    /// Its guarantee, limit and weight here.
    pub share: Share,
    /// Its demand here.
    pub demand: Bandwidth,
    /// Its share here.
    pub got: Bandwidth,
    /// The constraint that decided it.
    pub decision: Decision,
}

/// Explains the share of a leaf service's instance on a machine; `None` if `service` is not a leaf.
pub fn explain(
    policy: &Policy,
    shares: &NetworkShares,
    machine: MachineId,
    service: ServiceId,
    direction: Direction,
    demand: Bandwidth,
) -> Option<Explanation> {
    let network = policy.network();
    let rack = network.machine(machine).rack();
    let allocator = &shares.allocators[rack.index()];
    let leaf = allocator.leaves().iter().position(|id| *id == service)?;
    let index = allocator.machines().iter().position(|id| *id == machine)?;
    let d = usize::from(direction == Direction::Rx);
    let result = &shares.racks[rack.index()][d];
    let instance = result.instances[allocator.instance(leaf, index)];

    let machine_name = |part: usize| network.machine(allocator.machines()[part]).name().to_owned();
    let rack_name = |part: usize| network.rack(RackId(part as u32)).name().to_owned();
    let mut steps = Vec::new();
    let at_machine = Point {
        point: ContentionPoint::Machine,
        place: format!("machine {}", network.machine(machine).name()),
        capacity: policy.machine_capacity(machine, direction),
        tree: allocator.machine_tree(direction, index),
        shares: &result.machines[index],
    };
    at_machine.steps(policy, leaf, &machine_name, &mut steps);
    let at_rack = Point {
        point: ContentionPoint::Rack,
        place: format!("rack {}", network.rack(rack).name()),
        capacity: policy.rack_capacity(rack, direction),
        tree: allocator.rack_tree(direction),
        shares: &result.rack,
    };
    at_rack.steps(policy, allocator.instance(leaf, index), &machine_name, &mut steps);
    if let Some(fabric) = &shares.fabric {
        let (tree, sharing) = &fabric[d];
        let at_fabric = Point {
            point: ContentionPoint::Fabric,
            place: "fabric".to_owned(),
            capacity: policy.fabric_capacity(direction),
            tree,
            shares: sharing,
        };
        at_fabric.steps(policy, leaf * network.racks().len() + rack.index(), &rack_name, &mut steps);
    }
    Some(Explanation { demand, share: instance.share, decided_by: instance.decided_by, steps })
}

impl NetworkShares {
    /// The bandwidth of its rack that an instance could take at once, for display (Parley Fig 6);
    /// `None` if not a leaf.
    pub fn headroom(
        &self,
        policy: &Policy,
        machine: MachineId,
        service: ServiceId,
        direction: Direction,
    ) -> Option<Bandwidth> {
        let rack = policy.network().machine(machine).rack();
        let allocator = &self.allocators[rack.index()];
        let leaf = allocator.leaves().iter().position(|id| *id == service)?;
        let index = allocator.machines().iter().position(|id| *id == machine)?;
        let shares = &self.racks[rack.index()][usize::from(direction == Direction::Rx)].rack;
        let headroom = shares.headroom(allocator.rack_tree(direction), &mut Scratch::default());
        Some(headroom[allocator.instance(leaf, index)])
    }
}

/// One tree with its sharing.
struct Point<'a> {
    point: ContentionPoint,
    place: String,
    capacity: Bandwidth,
    tree: &'a ShareTree,
    shares: &'a TreeShares,
}

impl Point<'_> {
    fn steps(&self, policy: &Policy, leaf: usize, part_name: &dyn Fn(usize) -> String, steps: &mut Vec<Step>) {
        let mut parent: Option<(usize, ServiceId)> = None;
        for at in self.tree.path(leaf) {
            let siblings = self.tree.siblings(at.node);
            let rows = siblings.clone().map(|node| {
                let (demand, got, decision) = self.shares.node(node);
                let name = match self.tree.service_of(node) {
                    _ if at.part => part_name(node - siblings.start),
                    Some(service) => policy.services().get(service).path().to_owned(),
                    None => String::new(),
                };
                StepRow {
                    name,
                    chosen: node == at.node,
                    share: self.shares.share_of(self.tree, node),
                    demand,
                    got,
                    decision,
                }
            });
            let available = parent.map_or(self.capacity, |(node, _)| self.shares.node(node).1);
            steps.push(Step {
                point: self.point,
                place: self.place.clone(),
                service: parent.map(|(_, service)| service),
                available,
                sharing: at.sharing,
                rows: rows.collect(),
            });
            parent = at.service.map(|service| (at.node, service));
        }
    }
}
