//! Tenants: virtual machines whose guarantee follows the hose model.
//!
//! Problem: a tenant requests bandwidth at each of its virtual machines, not at machines and racks. Approach: a tenant
//! is a service of its own, found by filters as others are, and beside it the groups of virtual machines that a
//! placement puts onto machines.
//!
//! Example: `blue: { vms: { web: 4, db: 2 }, bandwidth: { web: 200Mb/s, db: 1Gb/s } }` has six virtual machines,
//! `blue-web-0` to `blue-web-3`, `blue-db-0` and `blue-db-1`, and pays for 2.8 Gb/s.
//!
//! Source: QShare §II-A (hose model), §V-B (payment).

use crate::machine_set::MachineSet;
use crate::model::{Policy, Share};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weir_network::switches::{CREDITS, pool};
use weir_units::{Bandwidth, ContentionPoint, Direction, Duration, MachineId, ServiceId, TenantId, Weight};

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    /// The name in the policy file, which no service has.
    pub name: String,
    /// The service of its packets.
    pub service: ServiceId,
    /// Its virtual machines, in the order of the groups' names.
    pub groups: Vec<VmGroup>,
}

/// Virtual machines of one bandwidth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmGroup {
    /// The name; `None` where all virtual machines of the tenant are alike.
    pub name: Option<String>,
    /// How many, at least 1.
    pub vms: u32,
    /// The bandwidth of each one's hose, more than zero.
    pub bandwidth: Bandwidth,
}

impl Tenant {
    /// How many virtual machines it has.
    pub fn vms(&self) -> u32 {
        self.groups.iter().map(|group| group.vms).sum()
    }
    /// The sum of the bandwidths of its virtual machines: what it pays for.
    pub fn bandwidth(&self) -> Bandwidth {
        self.groups.iter().map(|group| Bandwidth::from_bps(u64::from(group.vms) * group.bandwidth.bps())).sum()
    }
    /// The name of a virtual machine: the number is within its group.
    pub fn vm_name(&self, group: usize, number: u32) -> String {
        match &self.groups[group].name {
            Some(group) => format!("{}-{group}-{number}", self.name),
            None => format!("{}-{number}", self.name),
        }
    }
}

/// The binding of switches' queues to tenants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantQueues {
    /// The time between two choices of the tenants with queues of their own; more than zero.
    pub interval: Duration,
    /// The treatment of tenants without queues of their own.
    pub shared: SharedQueue,
    /// DSCP values that the operator uses for other purposes: no tenant has one of them.
    pub reserved_dscps: BTreeSet<u8>,
    /// The paths of tenants' packets where the network has several.
    pub paths: TenantPaths,
}

/// The paths of tenants' packets where the network has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TenantPaths {
    /// Not stated: each tenant reserves in one tree, and nothing is known about routes.
    #[default]
    Unstated,
    /// Each tenant reserves in one tree, and switches route its packets there.
    Routed,
    /// Switches spread packets over equal paths: each tenant reserves in full on all of them.
    Spread,
}

impl Default for TenantQueues {
    /// An interval of 4 s (QShare §VII-A).
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(4),
            shared: SharedQueue::default(),
            reserved_dscps: BTreeSet::new(),
            paths: TenantPaths::default(),
        }
    }
}

/// The treatment of the tenants that share a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SharedQueue {
    /// Hosts limit each to its reservation.
    Cap,
    /// Each may send more than its reservation while others leave bandwidth.
    #[default]
    Elastic,
}

/// A tenant's part of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantAtMachine {
    /// The tenant.
    pub tenant: TenantId,
    /// Its reservation at the machine's interface.
    pub reserved: Bandwidth,
    /// Whether it is limited to it, in both directions.
    pub limited: bool,
}

impl Policy {
    /// The policy as one machine enforces it, with the tenants there: as [`Policy::with_places`], with their limits.
    /// Tenants of other machines have no guarantee.
    ///
    /// # Panics
    /// If the policy has no such tenant.
    #[must_use]
    pub fn at_machine(&self, machine: MachineId, tenants: &[TenantAtMachine]) -> Self {
        let places: BTreeMap<TenantId, [(MachineId, Bandwidth); 1]> =
            tenants.iter().map(|own| (own.tenant, [(machine, own.reserved)])).collect();
        let mut policy = self.with_places(|tenant| places.get(&tenant).map_or(&[][..], |place| &place[..]));
        for own in tenants.iter().filter(|own| own.limited && own.reserved > Bandwidth::ZERO) {
            let service = policy.tenants[own.tenant.index()].service;
            let shares = &mut policy.services.get_mut(service).shares[ContentionPoint::Machine];
            Direction::ALL.into_iter().for_each(|direction| shares[direction].max = own.reserved);
        }
        policy
    }

    /// The DSCP values that tenants can have, ascending: all but 0, those of network control (CS6, CS7), of latency
    /// levels, of credits, of services' filters and of [`TenantQueues::reserved_dscps`]; none without tenants. No other
    /// packet may carry one of them.
    pub fn tenant_dscps(&self) -> Vec<u8> {
        if self.tenants.is_empty() {
            return Vec::new();
        }
        let levels = self.levels().into_iter().flat_map(|levels| levels.all()).map(|level| level.dscp);
        let filters = self.services().all().iter().flat_map(|service| service.matches());
        let of_credits = self.credits().map_or(&[][..], |_| &CREDITS).iter().copied();
        let reserved = self.tenant_queues.reserved_dscps.iter().copied().chain(of_credits);
        pool(&levels.chain(filters.filter_map(|filter| filter.dscp)).chain(reserved).collect())
    }

    /// The policy with its tenants on machines: `places` has the machines of each tenant, ascending, with its
    /// reservation at each one's interface. A tenant is guaranteed its reservation there, and its weight is its
    /// reservation over the mean of all tenants' there: tenants divide spare bandwidth as their reservations, and all
    /// together they weigh as many services as they are.
    #[must_use]
    pub fn with_places<'a>(&self, places: impl Fn(TenantId) -> &'a [(MachineId, Bandwidth)]) -> Self {
        let mut at: BTreeMap<MachineId, (u128, u128)> = BTreeMap::new();
        let tenants: Vec<(TenantId, ServiceId)> =
            (0..).map(TenantId).zip(self.tenants().iter().map(|own| own.service)).collect();
        for (machine, reserved) in tenants.iter().flat_map(|(tenant, _)| places(*tenant)) {
            let (sum, count) = at.entry(*machine).or_default();
            (*sum, *count) = (*sum + u128::from(reserved.bps()), *count + 1);
        }
        let share = |(machine, reserved): &(MachineId, Bandwidth)| {
            let (sum, count) = at[machine];
            let thousandths = (1_000 * count * u128::from(reserved.bps())).checked_div(sum).unwrap_or(1_000);
            let thousandths = u32::try_from(thousandths.max(1)).unwrap_or(u32::MAX);
            let weight = Weight::from_thousandths(thousandths).unwrap_or(Weight::MAX);
            (*machine, Share { min: *reserved, weight, ..Share::default() })
        };
        let mut policy = self.clone();
        for (tenant, service) in tenants {
            let places = places(tenant);
            let service = policy.services.get_mut(service);
            service.machines = Some(Arc::new(MachineSet::new(places.iter().map(|(machine, _)| *machine).collect())));
            service.reserved = places.iter().map(share).collect();
        }
        policy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Place;

    #[test]
    fn reservations_are_guarantees_and_weights_and_limits_hold_where_they_are_set() {
        let text = "weir: 1\nnetwork: { nic: 1Gb/s, slots: 4, racks: { r: { uplink: 1Gb/s, machines: [m1, m2] } } }\n\
                    tenants:\n  a: { vms: 2, bandwidth: 300Mb/s, match: [ { port: 1 } ] }\n  b: { vms: 2, bandwidth: \
                    100Mb/s, match: [ { port: 2 } ] }\n";
        let policy = Policy::parse("p.yaml", text).unwrap_or_else(|errors| panic!("{errors}")).0;
        let at = |tenant, mbps, limited| TenantAtMachine {
            tenant: TenantId(tenant),
            reserved: Bandwidth::from_mbps(mbps),
            limited,
        };
        let placed = policy.at_machine(MachineId(0), &[at(0, 300, false), at(1, 100, true)]);
        let of = |tenant: usize, machine| {
            let service = placed.tenants()[tenant].service;
            let share = placed.share_at(service, Place::Machine(MachineId(machine)), Direction::Tx);
            (share.min, share.weight.thousandths(), placed.machine_ceiling(service, Direction::Rx))
        };
        assert_eq!(of(0, 0), (Bandwidth::from_mbps(300), 1_500, Bandwidth::UNLIMITED));
        assert_eq!(of(1, 0), (Bandwidth::from_mbps(100), 500, Bandwidth::from_mbps(100)));
        assert_eq!(of(0, 1).0, Bandwidth::ZERO);
        assert_eq!(placed.digest(), policy.digest(), "places change no ids");
    }
}
