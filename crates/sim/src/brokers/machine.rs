//! A machine's part of the brokers' body: its broker, while it runs, and the runtime limits that it last set.
//!
//! A machine shaper keeps the last limits when its broker ends, and goes back to the static policy by itself when none has set
//! limits for the timeout (Parley §5.2).
//!
//! Worked example: a broker sets limits each second and crashes at 7.3 s; at 12 s the last ones of 7 s end.

use super::ServiceIndices;
use crate::ids::{HostId, ServiceIndex};
use crate::observer::Observer;
use crate::world::World;
use weir_control::{RackBroker, RuntimeLimit};
use weir_policy::Policy;
use weir_units::{Bandwidth, Direction, Instant, PerDirection, ServiceId};

/// A machine's broker and limits.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) host: HostId,
    /// `None` while it has crashed.
    pub(super) broker: Option<RackBroker>,
    /// Which start of its broker this is, from 1.
    pub(super) epoch: u64,
    /// The runtime limits, by class.
    limits: Vec<PerDirection<Bandwidth>>,
    /// When they end, unless they are set again.
    pub(super) until: Option<Instant>,
}

impl Machine {
    pub(super) fn new(host: HostId, broker: RackBroker, services: usize) -> Self {
        let limits = vec![PerDirection::both(Bandwidth::UNLIMITED); services];
        Self { host, broker: Some(broker), epoch: 1, limits, until: None }
    }

    /// Keeps what a broker says, until `until`.
    pub(super) fn set<O: Observer>(
        &mut self,
        limits: &[RuntimeLimit],
        until: Instant,
        (policy, classes): (&Policy, &ServiceIndices),
        world: &mut World<O>,
    ) {
        for limit in limits {
            let Some(class) = classes.of(limit.service) else { continue };
            self.limits[class.index()][limit.direction] = limit.limit;
        }
        self.until = Some(until);
        self.apply((policy, classes), world);
    }

    /// By leaf service: the runtime limits in force. Where the policy's own maximum holds there is none: as on Linux, the next policy
    /// may have another.
    pub(super) fn in_force(&self, policy: &Policy, classes: &ServiceIndices) -> Vec<PerDirection<Bandwidth>> {
        let limits = |(service, class): (ServiceId, ServiceIndex)| {
            let PerDirection { tx, rx } = self.limits[class.index()];
            let below = tx < policy.machine_ceiling(service, Direction::Tx);
            PerDirection { tx: if below { tx } else { Bandwidth::UNLIMITED }, rx }
        };
        classes.iter().map(limits).collect()
    }

    /// Goes back to the static policy.
    pub(super) fn reset<O: Observer>(&mut self, policy: (&Policy, &ServiceIndices), world: &mut World<O>) {
        self.limits.fill(PerDirection::both(Bandwidth::UNLIMITED));
        self.until = None;
        self.apply(policy, world);
    }

    /// Puts the limits in force, with what the static policy says of the machine: the most constrained wins. What it says of
    /// receiving is the shaper's own.
    pub(super) fn apply<O: Observer>(&self, (policy, classes): (&Policy, &ServiceIndices), world: &mut World<O>) {
        for (service, class) in classes.iter() {
            let limits = self.limits[class.index()];
            let transmit = limits.tx.min(policy.machine_ceiling(service, Direction::Tx));
            if transmit != world.limit(self.host, class) {
                world.set_limit(self.host, class, transmit);
            }
            world.set_receive_limit(self.host, class, limits.rx);
        }
    }
}
