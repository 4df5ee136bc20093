//! The bandwidth that an instance may take at once of its rack's limit from the fabric.
//!
//! Problem: an instance below its share is not limited (Parley §3.2.2), so a service that pauses
//! for a second loses its limit and comes back at the speed of its interface until the next period.
//! Below one uplink that is one burst. Below a limit of the fabric it happens in every rack in
//! turn, and the sum over all racks, which is what the fabric limits, never comes down. Approach:
//! while the fabric limits a rack's service, each of its instances has a limit, also one below its
//! share: the larger of
//!
//! - its usage, and a proportional part of the rack's unused limit: it counts as backlogged only
//!   when the whole rack is close to its limit;
//! - its part of the whole if all machines were active, so that a starting instance is not slowed
//!   to nothing.
//!
//! All limits together are then at most twice the fabric's, for one period, and the fabric's
//! exactly when all machines are active or none is.
//!
//! Worked example: the fabric gives a service 20 in a rack of ten machines. The first uses 10, the
//! second 5, the others are idle: the first may have 10 + 5 · 10/15 = 13.3, the second 6.7, each
//! other 20/10 = 2. One machine alone in its rack may have all 20.

use crate::fill::{Child, Filling};
use crate::rack::{Constraint, InstanceShare, RackAllocator, RackShares};
use weir_policy::Share;
use weir_units::{Bandwidth, ContentionPoint, Direction, MachineId};

impl RackAllocator {
    /// The bandwidth that the instance of the `leaf`-th service on the `machine`-th machine may
    /// take while the fabric's limit on the rack's service is `limit`; at least its share.
    pub fn room(
        &self,
        direction: Direction,
        leaf: usize,
        machine: usize,
        limit: Bandwidth,
        shares: &RackShares,
    ) -> Bandwidth {
        let own = shares.instances[self.instance(leaf, machine)];
        if own.decided_by.is_limit() {
            return own.share;
        }
        let service = self.policy().services().get(self.leaves()[leaf]);
        let share = Share { max: Bandwidth::UNLIMITED, ..service.share(ContentionPoint::Machine, direction) };
        let mut filling = Filling::default();
        let unlimited = Child::new(share, Bandwidth::UNLIMITED);
        filling.fill(service.sharing(), limit, &vec![unlimited; self.machines().len()]);
        let if_all_unlimited = filling.shares[machine];

        let instance = |index: usize| shares.instances[self.instance(leaf, index)];
        let unthrottled = (0..self.machines().len()).map(instance).filter(|instance| !instance.decided_by.is_limit());
        let used: u128 = unthrottled.map(|InstanceShare { share, .. }| u128::from(share.bps())).sum();
        let left = limit.saturating_sub(shares.of_service(self, leaf));
        let part = (u128::from(left.bps()) * u128::from(own.share.bps())).checked_div(used).unwrap_or(0);
        if_all_unlimited.max(own.share + Bandwidth::from_bps(part as u64))
    }
}

impl RackAllocator {
    /// The bandwidth that the `leaf`-th service could take of the rack's uplink under its own
    /// maxima alone: its machines' demands, at most the capacity of their interfaces, its maxima
    /// and the uplink.
    pub fn most(&self, direction: Direction, leaf: usize, demands: &[Bandwidth]) -> Bandwidth {
        let (policy, service) = (self.policy(), self.leaves()[leaf]);
        let at_machine = |(index, machine): (usize, &MachineId)| {
            let capacity = policy.machine_capacity(*machine, direction);
            let ceiling = policy.machine_ceiling(service, direction);
            demands[self.instance(leaf, index)].min(capacity).min(ceiling)
        };
        let all: Bandwidth = self.machines().iter().enumerate().map(at_machine).sum();
        let mut most = all.min(policy.rack_capacity(self.rack(), direction));
        let mut at = Some(service);
        while let Some(id) = at {
            let service = policy.services().get(id);
            most = most.min(service.share(ContentionPoint::Rack, direction).max);
            at = service.parent();
        }
        most
    }
}

impl RackShares {
    /// Whether a limit of the fabric affects any instance of the `leaf`-th service.
    pub fn is_limited_by_fabric(&self, allocator: &RackAllocator, leaf: usize) -> bool {
        let mut instances =
            (0..allocator.machines().len()).map(|index| self.instances[allocator.instance(leaf, index)]);
        instances.any(|instance| instance.decided_by == Constraint::Fabric)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Constraint, FabricLimit, RackAllocator, RackShares};
    use std::sync::Arc;
    use weir_policy::Policy;
    use weir_units::{Bandwidth, Direction, RackId};

    fn rooms(service: &str, demands: [u64; 10]) -> Vec<u64> {
        let text = format!(
            "weir: 1\nnetwork: {{ nic: 100Mb/s, racks: {{ r: {{ uplink: 100Mb/s, machines: [\"m[1-10]\"] }} }} }}\n\
             services: {{ s: {{ match: [ {{ protocol: udp, port: 1 }} ]{service} }} }}\n"
        );
        let policy = Arc::new(Policy::parse("policy.yaml", &text).expect("the policy is valid").0);
        let allocator = RackAllocator::new(&policy, RackId(0));
        let limit = Bandwidth::from_mbps(20);
        let demands = demands.map(Bandwidth::from_mbps);
        let mut shares = RackShares::default();
        let fabric = [FabricLimit { limit, decided_by: Constraint::Fabric }];
        allocator.allocate(Direction::Tx, &demands, &fabric, &mut shares);
        (0..10).map(|m| allocator.room(Direction::Tx, 0, m, limit, &shares).bps() / 1_000).collect()
    }

    #[test]
    fn worked_example() {
        let mut expected = [2_000; 10];
        expected[..2].copy_from_slice(&[13_333, 6_666]);
        assert_eq!(rooms("", [10, 5, 0, 0, 0, 0, 0, 0, 0, 0]), expected);
    }

    #[test]
    fn all_idle_or_all_active_add_up_to_the_limit() {
        assert_eq!(rooms("", [0; 10]), [2_000; 10]);
        assert_eq!(rooms("", [50; 10]), [2_000; 10]);
    }

    #[test]
    fn a_guarantee_waits_for_its_owner() {
        // Each machine is guaranteed 2 of the 20; one takes all the same while the others are idle.
        let mut expected = [2_000; 10];
        expected[3] = 20_000;
        assert_eq!(rooms(", machine: { min: 2Mb/s }", [0, 0, 0, 50, 0, 0, 0, 0, 0, 0]), expected);
    }
}
