//! [`HostContext`]: what a host enforces, and for whom.

use std::path::Path;
use std::sync::Arc;
use weir_alloc::RackAllocator;
use weir_control::wire::Keys;
use weir_control::{LimitRule, static_limits};
use weir_linux::fabric_sockets::FabricSockets;
use weir_linux::settings::ControlSettings;
use weir_linux::shaper::Backend;
use weir_linux::tags::HostTags;
use weir_policy::Policy;
use weir_shaping::ShaperConfig;
use weir_units::{Bandwidth, Duration, MachineId, PerDirection, ServiceId};

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
    /// The fabric brokers, and the sockets that may connect to them.
    pub fabric: &'a Arc<FabricSockets>,
    /// The directory of the records of pods.
    pub pods: &'a Path,
    /// The backend that enforces rates; if absent, the first that is possible.
    pub backend: Option<Backend>,
    /// p-min of credits, at least 20 µs.
    pub credit_period: Duration,
    /// The tags of tenants; if absent, those of an earlier agent stay.
    pub tags: Option<&'a HostTags>,
    /// The reservations of tenants here: their limits in both directions while no agent runs.
    pub reserved: &'a [(ServiceId, Bandwidth)],
}

/// The machine shapers of a policy on Linux: switches bind queues to its tenants, so marks count as
/// [`ShaperConfig::qshare`] states.
pub(crate) fn shaper_config(policy: &Policy) -> ShaperConfig {
    ShaperConfig::qshare(policy, None, None)
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

#[cfg(test)]
mod tests {
    use super::*;
    use weir_datapath::receive_law;
    use weir_policy::TenantAtMachine;
    use weir_units::TenantId;

    /// The receive meters in the kernel ignore the marks of a tenant with a reservation here, and of no other service.
    #[test]
    fn marks_of_placed_tenants_do_not_count_in_the_kernel() {
        let text = "weir: 1\nnetwork: { nic: 1Gb/s, slots: 4, racks: { r: { uplink: 1Gb/s, machines: [m1, m2] } } }\n\
                    services: { s: { match: [ { port: 1 } ] } }\ntenants:\n  a: { vms: 2, bandwidth: 300Mb/s, match: [ \
                    { port: 2 } ] }\n  b: { vms: 2, bandwidth: 100Mb/s, match: [ { port: 3 } ] }\n";
        let policy = Policy::parse("p.yaml", text).unwrap_or_else(|errors| panic!("{errors}")).0;
        let a = TenantAtMachine { tenant: TenantId(0), reserved: Bandwidth::from_mbps(300), limited: false };
        let marks = |policy: &Policy| -> Vec<(String, u32)> {
            let config = shaper_config(policy);
            let of = |((_, service), own)| (service, receive_law(&config.of(own)).marks);
            let leaves = policy.services().leaves().zip(&config.services).map(of);
            leaves.map(|(service, marks): (&weir_policy::Service, u32)| (service.path().to_owned(), marks)).collect()
        };
        let expected = |a: u32| [("s", 1), ("a", a), ("b", 1)].map(|(name, marks)| (name.to_owned(), marks)).to_vec();
        assert_eq!(marks(&policy.at_machine(MachineId(0), &[a])), expected(0));
        assert_eq!(marks(&policy), expected(1));
    }
}
