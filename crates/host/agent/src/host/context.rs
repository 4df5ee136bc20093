//! [`HostContext`]: what a host enforces, and for whom.

use std::sync::Arc;
use weir_alloc::RackAllocator;
use weir_control::wire::Keys;
use weir_control::{LimitRule, static_limits};
use weir_linux::settings::ControlSettings;
use weir_linux::shaper::Backend;
use weir_linux::tags::HostTags;
use weir_policy::Policy;
use weir_units::{Bandwidth, MachineId, PerDirection, ServiceId};

/// The configuration of a host in its network.
pub struct HostContext<'a> {
    /// The policy in force.
    pub policy: &'a Arc<Policy>,
    /// This machine.
    pub machine: MachineId,
    /// The keys that the deployment shares.
    pub keys: &'a Keys,
    /// The instances that have limits: with [`LimitRule::Ceilings`] also while no agent runs.
    pub rule: LimitRule,
    /// The sources and receivers of control traffic.
    pub control: ControlSettings,
    /// The backend that enforces rates; if absent, the first that is possible.
    pub backend: Option<Backend>,
    /// The tags of tenants; if absent, those of an earlier agent stay.
    pub tags: Option<&'a HostTags>,
    /// The reservations of tenants here: their limits in both directions while no agent runs.
    pub reserved: &'a [(ServiceId, Bandwidth)],
}

impl HostContext<'_> {
    /// By leaf service: the limits while no agent runs, of the static policy below the machine's maxima.
    pub(super) fn static_limits(&self) -> impl Iterator<Item = (ServiceId, PerDirection<Bandwidth>)> {
        let rack = self.policy.network().machine(self.machine).rack();
        let limits = static_limits(&RackAllocator::new(self.policy, rack), self.machine, self.rule);
        let leaves: Vec<ServiceId> = self.policy.services().leaves().map(|(id, _)| id).collect();
        let of_tenant = |(leaf, limits): (ServiceId, PerDirection<Bandwidth>)| {
            let own = self.reserved.iter().find(|(service, _)| *service == leaf);
            let least = |limit: Bandwidth| own.map_or(limit, |(_, reserved)| limit.min(*reserved));
            (leaf, PerDirection { tx: least(limits.tx), rx: least(limits.rx) })
        };
        leaves.into_iter().zip(limits).map(of_tenant)
    }
}
