//! The whole network in one shot: machines, racks and the fabric.
//!
//! Problem: a policy may limit a service over all racks together (Parley §3.2.3): caps, guarantees
//! and weights over (rack, service).
//!
//! Approach: the same two passes one level up. Each rack is shared as if there were no fabric; a
//! service's share at a rack is its demand at the fabric. The fabric's tree is shared among
//! services and each service's part among racks. A (rack, service) that the fabric limits is a
//! limit with which that rack is shared again. If the policy sets no service limit and no cap at
//! the fabric, and the uplinks are its only bound, the fabric limits no service and is skipped.
//!
//! Worked example: two racks whose services `a` could each send 8, fabric maximum of `a` 10: 5 and
//! 5; each rack shares its uplink again with `a` at most 5.

use crate::rack::{Constraint, FabricLimit, RackAllocator, RackShares, WORTH_A_ROUND};
use crate::tree::{Holder, Scratch, ShareTree, TreeShares};
use std::sync::Arc;
use weir_policy::{Place, Policy, Share};
use weir_units::{Bandwidth, ContentionPoint, Direction, MachineId, RackId, ServiceId};

/// Repetitions over the racks, as many as the fabric broker's proposals in an allocation: each costs a
/// message to every leader.
pub const ROUNDS: u32 = 8;

/// The share of one machine's part of a service in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    /// The machine.
    pub machine: MachineId,
    /// A leaf service.
    pub service: ServiceId,
    /// Transmit or receive.
    pub direction: Direction,
    /// Its demand.
    pub demand: Bandwidth,
    /// Its share, at most the demand.
    pub allocation: Bandwidth,
    /// The constraint that decided it; a limit is needed unless it is its own demand.
    pub decided_by: Constraint,
}

/// The allocation of a whole network, with the sharing that led to it.
#[derive(Debug)]
pub struct NetworkShares {
    pub(crate) allocators: Vec<RackAllocator>,
    /// By rack, in both directions.
    pub(crate) racks: Vec<[RackShares; 2]>,
    /// The fabric's tree and its sharing, in both directions, if the policy limits the fabric.
    pub(crate) fabric: Option<[(ShareTree, TreeShares); 2]>,
    /// In order of machine, service, direction; only instances with a demand.
    pub allocations: Vec<Allocation>,
}

/// Shares the whole network once. `demand` is called for every machine, leaf service and direction.
pub fn allocate(policy: &Arc<Policy>, demand: impl Fn(MachineId, ServiceId, Direction) -> Bandwidth) -> NetworkShares {
    let racks = policy.network().racks().len();
    let allocators: Vec<_> = (0..racks).map(|rack| RackAllocator::new(policy, RackId(rack as u32))).collect();
    let mut shares: Vec<[RackShares; 2]> = (0..racks).map(|_| Default::default()).collect();
    let mut demands = Vec::new();
    let mut allocations = Vec::new();
    let mut fabric = has_fabric_limits(policy).then(Vec::new);
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
                    let demanded = demand(*machine, *service, direction);
                    let instance = shares[d].instances[allocator.instance(leaf, m)];
                    if demanded > Bandwidth::ZERO {
                        allocations.push(Allocation {
                            machine: *machine,
                            service: *service,
                            direction,
                            demand: demanded,
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

/// Whether the policy limits the fabric beyond the racks' uplinks: only then is there work for a
/// fabric broker.
pub fn has_fabric_limits(policy: &Policy) -> bool {
    let point = ContentionPoint::Fabric;
    let caps = Direction::ALL.iter().any(|direction| !policy.caps()[point][*direction].is_unlimited());
    let shares =
        |direction: &Direction| policy.services().iter().any(|(_, s)| s.share(point, *direction) != Share::default());
    caps || Direction::ALL.iter().any(shares)
}

/// Shares the fabric by the racks' offers, and again those racks that it limits, until it limits no
/// service below its rack's offer. The racks' first shares, without the fabric, are in `shares`.
fn share_fabric(
    policy: &Arc<Policy>,
    direction: Direction,
    allocators: &[RackAllocator],
    demands: &[Vec<Bandwidth>],
    d: usize,
    shares: &mut [[RackShares; 2]],
) -> (ShareTree, TreeShares) {
    let racks = allocators.len();
    let part = |service: ServiceId, rack: usize| {
        let share = policy.share_at(service, Place::Rack(RackId(rack as u32)), direction);
        Some(Share { max: Bandwidth::UNLIMITED, ..share })
    };
    let tree = ShareTree::of_services_split(policy, Place::Fabric, direction, racks, part);
    let leaves: Vec<ServiceId> = policy.services().leaves().map(|(id, _)| id).collect();
    let capacity = policy.fabric_capacity(direction);
    let (mut result, mut scratch) = (TreeShares::default(), Scratch::default());
    let mut limits = vec![vec![FabricLimit::NONE; leaves.len()]; racks];
    for round in 1..=ROUNDS {
        let part = |leaf: usize, rack: usize| leaf * racks + rack;
        let offered: Vec<Bandwidth> = (0..leaves.len())
            .flat_map(|leaf| (0..racks).map(move |rack| (leaf, rack)))
            .map(|(leaf, rack)| shares[rack][d].of_service(&allocators[rack], leaf))
            .collect();
        tree.share(capacity, &offered, |_| Bandwidth::UNLIMITED, &mut result, &mut scratch);
        let reason = |leaf: usize, rack: usize| match result.holder(&tree, part(leaf, rack)) {
            Holder::None => None,
            Holder::Capacity => Some(Constraint::Fabric),
            Holder::Max(held) => Some(Constraint::Max(held.unwrap_or(leaves[leaf]), ContentionPoint::Fabric)),
        };
        let less = |part: usize| offered[part].saturating_sub(result.leaf(&tree, part));
        let settled = (0..offered.len()).all(|part| less(part) <= WORTH_A_ROUND);
        for (rack, allocator) in allocators.iter().enumerate() {
            let mut changed = false;
            for (leaf, earlier) in limits[rack].iter_mut().enumerate() {
                let Some(decided_by) = reason(leaf, rack) else { continue };
                let limit = result.leaf(&tree, part(leaf, rack));
                if settled || round == ROUNDS {
                    allocator.trim(direction, leaf, limit, decided_by, &mut shares[rack][d]);
                    continue;
                }
                *earlier = FabricLimit { limit, decided_by };
                changed |= less(part(leaf, rack)) > Bandwidth::ZERO;
            }
            if changed {
                allocator.allocate(direction, &demands[rack], &limits[rack], &mut shares[rack][d]);
            }
        }
        if settled {
            break;
        }
    }
    (tree, result)
}
