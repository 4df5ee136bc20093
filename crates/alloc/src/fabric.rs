//! The whole network in one shot: machines, racks and the fabric.
//!
//! Problem: a service may be held over all racks together (Parley §3.2.3): caps, guarantees and weights
//! over (rack, service).
//!
//! Approach: the same two passes one level up. Each rack is shared as if there were no fabric; what a
//! service gets at a rack is its demand at the fabric. The fabric's tree is shared among services and each
//! service's part among racks. A (rack, service) that the fabric holds back is a limit with which that rack
//! is shared again. Where no service and no cap speaks of the fabric, and the uplinks are its only bound,
//! the fabric holds nobody and is skipped.
//!
//! Worked example: two racks whose services `a` could each send 8, fabric maximum of `a` 10: 5 and 5; each
//! rack shares its uplink again with `a` at most 5.

use crate::rack::{Constraint, FabricLimit, RackAllocator, RackShares};
use crate::tree::{Holder, Scratch, ShareTree, TreeShares};
use std::sync::Arc;
use weir_policy::{Policy, Share};
use weir_units::{Bandwidth, ContentionPoint, Direction, MachineId, RackId, ServiceId};

/// What one machine's part of a service gets in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    /// The machine.
    pub machine: MachineId,
    /// A leaf service.
    pub service: ServiceId,
    /// Transmit or receive.
    pub direction: Direction,
    /// What it asked for.
    pub demand: Bandwidth,
    /// What it gets, at most the demand.
    pub allocation: Bandwidth,
    /// What decided it; a limit is needed unless it is its own demand.
    pub decided_by: Constraint,
}

/// The allocation of a whole network, kept with what led to it.
#[derive(Debug)]
pub struct NetworkShares {
    pub(crate) allocators: Vec<RackAllocator>,
    /// By rack, in both directions.
    pub(crate) racks: Vec<[RackShares; 2]>,
    /// The fabric's tree and its sharing, in both directions, where the policy speaks of the fabric.
    pub(crate) fabric: Option<[(ShareTree, TreeShares); 2]>,
    /// In order of machine, service, direction; only instances that asked for something.
    pub allocations: Vec<Allocation>,
}

/// Shares the whole network once. `demand` is asked for every machine, leaf service and direction.
pub fn allocate(policy: &Arc<Policy>, demand: impl Fn(MachineId, ServiceId, Direction) -> Bandwidth) -> NetworkShares {
    let racks = policy.network().racks().len();
    let allocators: Vec<_> = (0..racks).map(|rack| RackAllocator::new(policy, RackId(rack as u32))).collect();
    let mut shares: Vec<[RackShares; 2]> = (0..racks).map(|_| Default::default()).collect();
    let mut demands = Vec::new();
    let mut allocations = Vec::new();
    let mut fabric = speaks_of_fabric(policy).then(Vec::new);
    for (d, direction) in Direction::ALL.into_iter().enumerate() {
        demands.clear();
        for (allocator, shares) in allocators.iter().zip(&mut shares) {
            demands.push(rack_demands(allocator, direction, &demand));
            allocator.allocate(direction, &demands[demands.len() - 1], &[], &mut shares[d]);
        }
        if let Some(fabric) = &mut fabric {
            fabric.push(share_fabric(policy, direction, &allocators, &demands, d, &mut shares));
        }
    }
    for (allocator, shares) in allocators.iter().zip(&shares) {
        for (m, machine) in allocator.machines().iter().enumerate() {
            for (leaf, service) in allocator.leaves().iter().enumerate() {
                for (d, direction) in Direction::ALL.into_iter().enumerate() {
                    let asked = demand(*machine, *service, direction);
                    let instance = shares[d].instances[allocator.instance(leaf, m)];
                    if asked > Bandwidth::ZERO {
                        allocations.push(Allocation {
                            machine: *machine,
                            service: *service,
                            direction,
                            demand: asked,
                            allocation: instance.share,
                            decided_by: instance.decided_by,
                        });
                    }
                }
            }
        }
    }
    let fabric = fabric.and_then(|fabric| <[_; 2]>::try_from(fabric).ok());
    NetworkShares { allocators, racks: shares, fabric, allocations }
}

fn rack_demands(
    allocator: &RackAllocator,
    direction: Direction,
    demand: impl Fn(MachineId, ServiceId, Direction) -> Bandwidth,
) -> Vec<Bandwidth> {
    let machines = allocator.machines();
    let leaves = allocator.leaves().iter();
    leaves.flat_map(|service| machines.iter().map(|machine| demand(*machine, *service, direction))).collect()
}

/// Whether anything but the uplinks themselves bounds the fabric.
fn speaks_of_fabric(policy: &Policy) -> bool {
    let point = ContentionPoint::Fabric;
    let caps = Direction::ALL.iter().any(|direction| !policy.caps()[point][*direction].is_unlimited());
    let shares =
        |direction: &Direction| policy.services().iter().any(|(_, s)| s.share(point, *direction) != Share::default());
    caps || Direction::ALL.iter().any(shares)
}

/// Shares the fabric by what the racks offer, and those racks again that it holds back.
fn share_fabric(
    policy: &Arc<Policy>,
    direction: Direction,
    allocators: &[RackAllocator],
    demands: &[Vec<Bandwidth>],
    d: usize,
    shares: &mut [[RackShares; 2]],
) -> (ShareTree, TreeShares) {
    let racks = allocators.len();
    let part = |service: ServiceId, _| {
        let share = policy.services().get(service).share(ContentionPoint::Rack, direction);
        Some(Share { max: Bandwidth::UNLIMITED, ..share })
    };
    let tree = ShareTree::of_services_split(policy, ContentionPoint::Fabric, direction, racks, part);
    let leaves = policy.services().leaves().count();
    let offered: Vec<Bandwidth> = (0..leaves)
        .flat_map(|leaf| (0..racks).map(move |rack| (leaf, rack)))
        .map(|(leaf, rack)| shares[rack][d].of_service(&allocators[rack], leaf))
        .collect();
    let mut result = TreeShares::default();
    let no_limit = |_| Bandwidth::UNLIMITED;
    tree.share(policy.fabric_capacity(direction), &offered, no_limit, &mut result, &mut Scratch::default());
    for (rack, allocator) in allocators.iter().enumerate() {
        let limit = |leaf: usize| {
            let decided_by = match result.holder(&tree, leaf * racks + rack) {
                Holder::Nobody => return FabricLimit::NONE,
                Holder::Capacity => Constraint::Fabric,
                Holder::Max(held) => Constraint::Max(held.unwrap_or(allocator.leaves()[leaf]), ContentionPoint::Fabric),
            };
            FabricLimit { limit: result.leaf(&tree, leaf * racks + rack), decided_by }
        };
        let limits: Vec<FabricLimit> = (0..leaves).map(limit).collect();
        if limits.iter().any(|limit| *limit != FabricLimit::NONE) {
            allocator.allocate(direction, &demands[rack], &limits, &mut shares[rack][d]);
        }
    }
    (tree, result)
}
