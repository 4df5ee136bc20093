//! Shares of a rack, for all demands: no bandwidth is invented or assigned twice.

use std::sync::Arc;
use weir_alloc::{RackAllocator, RackShares};
use weir_policy::Policy;
use weir_units::{Bandwidth, Direction, MachineId, RackId, ServiceId};

/// Instances above which a policy is not allocated: a fuzz case should take a millisecond.
const MOST_INSTANCES: usize = 200;

/// Allocates every rack of the policy and checks the result.
pub(crate) fn check(policy: &Arc<Policy>, demand: impl Fn(MachineId, ServiceId, Direction) -> Bandwidth) {
    let leaves = policy.services().leaves().count();
    if leaves * policy.network().machines().len() > MOST_INSTANCES {
        return;
    }
    for rack in 0..policy.network().racks().len() as u32 {
        let allocator = RackAllocator::new(policy, RackId(rack));
        for direction in Direction::ALL {
            let demands: Vec<Bandwidth> = allocator
                .leaves()
                .iter()
                .flat_map(|leaf| allocator.machines().iter().map(move |machine| (*machine, *leaf)))
                .map(|(machine, leaf)| demand(machine, leaf, direction))
                .collect();
            let mut shares = RackShares::default();
            allocator.allocate(direction, &demands, &[], &mut shares);
            check_one(&allocator, direction, &demands, &shares);
        }
    }
}

/// Checks the shares that an allocator computed from demands.
pub(crate) fn check_one(allocator: &RackAllocator, direction: Direction, demands: &[Bandwidth], shares: &RackShares) {
    let policy = allocator.policy();
    assert_eq!(shares.instances.len(), demands.len());
    for (share, demand) in shares.instances.iter().zip(demands) {
        assert!(share.share <= *demand, "{share:?} of a demand of {demand}");
        assert!(share.decided_by.is_limit() || share.share == *demand, "{share:?} is unlimited below {demand}");
    }
    let all: Bandwidth = shares.instances.iter().map(|instance| instance.share).sum();
    let capacity = policy.rack_capacity(allocator.rack(), direction);
    assert!(all <= capacity, "{all} is shared out of the rack's {capacity} ({direction})");
    for (index, machine) in allocator.machines().iter().enumerate() {
        let own = (0..allocator.leaves().len()).map(|leaf| shares.instances[allocator.instance(leaf, index)].share);
        let (own, capacity) = (own.sum::<Bandwidth>(), policy.machine_capacity(*machine, direction));
        assert!(own <= capacity, "{own} is shared out of a machine's {capacity} ({direction})");
    }
}
