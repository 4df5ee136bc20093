//! The allocation of a policy for demands: the sum over a service's leaves and over machines.
//!
//! Worked example, Parley figure 6: `rest` demands 11 (virtual machines 9, MapReduce 2) and gets
//! 10.

use crate::model::Share;
use std::sync::Arc;
use weir_alloc::allocate;
use weir_policy::{Demands, Policy};
use weir_units::{Bandwidth, Direction, MachineId, ServiceId};

/// The number of an allocation, summed over the leaves of `service` and, without `machine`, over
/// all machines.
pub(super) fn allocation(
    policy: &Arc<Policy>,
    demands: &Demands,
    service: ServiceId,
    machine: Option<MachineId>,
    direction: Direction,
    share: Share,
) -> Bandwidth {
    let shares = allocate(policy, |machine, service, direction| demands.get(machine, service, direction));
    let here = |m: MachineId, s: ServiceId| machine.is_none_or(|machine| machine == m) && is_in(policy, s, service);
    if share == Share::Headroom {
        let machines = (0..policy.network().machines().len() as u32).map(MachineId);
        let all = machines.flat_map(|m| policy.services().leaves().map(move |(s, _)| (m, s)));
        return all.filter(|(m, s)| here(*m, *s)).filter_map(|(m, s)| shares.headroom(policy, m, s, direction)).sum();
    }
    let chosen = shares.allocations.iter().filter(|a| a.direction == direction && here(a.machine, a.service));
    chosen.map(|a| if share == Share::Demand { a.demand } else { a.allocation }).sum()
}

/// Whether `leaf` is `service` or somewhere below it.
fn is_in(policy: &Policy, leaf: ServiceId, service: ServiceId) -> bool {
    let mut at = Some(leaf);
    while let Some(id) = at {
        if id == service {
            return true;
        }
        at = policy.services().get(id).parent();
    }
    false
}
