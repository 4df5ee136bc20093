//! A machine's part of the brokers' backend: its broker, while it runs, and the runtime limits that
//! it last set.
//!
//! A machine shaper keeps the last limits when its broker ends. It returns to the static policy
//! when no broker has set limits for the timeout (Parley §5.2): the machine's part of each maximum.
//!
//! Worked example: a broker sets limits each second and crashes at 7.3 s; at 12 s the limits of 7 s
//! end.

use super::ServiceIndices;
use crate::ids::{HostId, ServiceIndex};
use crate::observer::Observer;
use crate::world::World;
use std::sync::Arc;
use weir_alloc::RackAllocator;
use weir_control::{LimitRule, RackBroker, RuntimeLimit, static_limits};
use weir_policy::Policy;
use weir_units::{Bandwidth, Direction, Instant, MachineId, PerDirection, ServiceId};

/// A machine's broker and limits.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) host: HostId,
    rule: LimitRule,
    /// `None` after a crash.
    pub(super) broker: Option<RackBroker>,
    /// The number of this start of its broker, from 1.
    pub(super) epoch: u64,
    /// The limits in force, by service index.
    limits: Vec<PerDirection<Bandwidth>>,
    /// Those of the static policy.
    of_policy: Vec<PerDirection<Bandwidth>>,
    /// When they end, unless they are set again.
    pub(super) until: Option<Instant>,
}

impl Machine {
    pub(super) fn new(host: HostId, broker: RackBroker, rule: LimitRule) -> Self {
        let of_policy = static_limits(broker.allocator(), MachineId(host.0), rule);
        Self { rule, host, broker: Some(broker), epoch: 1, limits: of_policy.clone(), of_policy, until: None }
    }

    /// Keeps the limits of a broker until `until`.
    pub(super) fn set<O: Observer>(
        &mut self,
        limits: &[RuntimeLimit],
        until: Instant,
        (policy, indices): (&Policy, &ServiceIndices),
        world: &mut World<O>,
    ) {
        for limit in limits {
            let Some(index) = indices.of(limit.service) else { continue };
            self.limits[index.index()][limit.direction] = limit.limit;
        }
        self.until = Some(until);
        self.apply((policy, indices), world);
    }

    /// The runtime limits in force, by leaf service. There is none where the policy's own maximum
    /// holds: as on Linux, the next policy may have another maximum.
    pub(super) fn in_force(&self, policy: &Policy, indices: &ServiceIndices) -> Vec<PerDirection<Bandwidth>> {
        let limits = |(service, index): (ServiceId, ServiceIndex)| {
            let PerDirection { tx, rx } = self.limits[index.index()];
            let below = tx < policy.machine_ceiling(service, Direction::Tx);
            PerDirection { tx: if below { tx } else { Bandwidth::UNLIMITED }, rx }
        };
        indices.iter().map(limits).collect()
    }

    /// Changes the static policy, which holds from now on if no broker's limits do.
    pub(super) fn set_policy(&mut self, policy: &Arc<Policy>) {
        let machine = MachineId(self.host.0);
        let allocator = RackAllocator::new(policy, policy.network().machine(machine).rack());
        self.of_policy = static_limits(&allocator, machine, self.rule);
        if self.until.is_none() {
            self.limits.clone_from(&self.of_policy);
        }
    }

    /// Returns to the static policy.
    pub(super) fn reset<O: Observer>(&mut self, policy: (&Policy, &ServiceIndices), world: &mut World<O>) {
        self.limits.clone_from(&self.of_policy);
        self.until = None;
        self.apply(policy, world);
    }

    /// Puts the limits in force together with the static policy's limits for the machine: the most
    /// constrained wins. The shaper itself applies the static limits of receiving.
    pub(super) fn apply<O: Observer>(&self, (policy, indices): (&Policy, &ServiceIndices), world: &mut World<O>) {
        for (service, index) in indices.iter() {
            let limits = self.limits[index.index()];
            let transmit = limits.tx.min(policy.machine_ceiling(service, Direction::Tx));
            if transmit != world.limit(self.host, index) {
                world.set_limit(self.host, index, transmit);
            }
            world.set_receive_limit(self.host, index, limits.rx);
        }
    }
}
