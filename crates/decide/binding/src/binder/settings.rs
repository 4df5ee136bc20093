//! The settings of machines and switches: those wanted, and those applied.
//!
//! The settings of a machine are those of its tenants, the settings of a port those of the tenants that pass it. A
//! tenant's change therefore touches few of them; only these are computed anew ([`Settings::renew`]).

use super::interface::{BinderConfig, BinderOutput, PortSettings, TenantSettings, Version};
use super::motion::{Place, TenantState};
use crate::queues::{Map, QueueIndex};
use crate::site::{PortId, Site, Sites};
use crate::weights::weights;
use std::collections::{BTreeMap, BTreeSet};
use weir_placement::SwitchId;
use weir_units::{Bandwidth, MachineId, TenantId};

/// Settings with their versions.
#[derive(Debug)]
struct Versioned<T> {
    wanted: T,
    version: Version,
    applied: Version,
    /// Answers to earlier versions do not count: what they applied is lost.
    since: Version,
}

impl<T: Default> Default for Versioned<T> {
    fn default() -> Self {
        let none = Version::default();
        Self { wanted: T::default(), version: none, applied: none, since: none }
    }
}

/// The settings of all machines and switches.
#[derive(Debug)]
pub(super) struct Settings {
    last: Version,
    /// Where switches map packets to queues.
    map: Map,
    machines: BTreeMap<MachineId, Versioned<Vec<(TenantId, TenantSettings)>>>,
    switches: BTreeMap<SwitchId, Versioned<Vec<(PortId, PortSettings)>>>,
    /// By port with tenants, its tenants.
    tenants: BTreeMap<PortId, Vec<TenantId>>,
    /// By machine, its tenants.
    on_machine: BTreeMap<MachineId, Vec<TenantId>>,
    /// By switch, its ports with tenants.
    ports: BTreeMap<SwitchId, Vec<PortId>>,
    /// By port, the tenant in motion there.
    in_motion: BTreeMap<PortId, TenantId>,
    /// By tenant, whether it is limited to its reservations.
    limited: Vec<bool>,
    /// Tenants whose limits, and machines and ports whose settings are to be computed anew.
    dirty_tenants: BTreeSet<TenantId>,
    dirty_machines: BTreeSet<MachineId>,
    dirty_ports: BTreeSet<PortId>,
}

impl Settings {
    /// No settings, all of which are to be computed.
    pub(super) fn new(sites: &Sites, map: Map, epoch: u64) -> Self {
        let mut tenants: BTreeMap<PortId, Vec<TenantId>> = BTreeMap::new();
        let mut on_machine: BTreeMap<MachineId, Vec<TenantId>> = BTreeMap::new();
        for (tenant, site) in sites.all() {
            site.ports.iter().for_each(|(port, _)| tenants.entry(*port).or_default().push(tenant));
            site.machines.iter().for_each(|(machine, _)| on_machine.entry(*machine).or_default().push(tenant));
        }
        let mut ports: BTreeMap<SwitchId, Vec<PortId>> = BTreeMap::new();
        tenants.keys().for_each(|port| ports.entry(sites.ports[port.index()].switch).or_default().push(*port));
        let (dirty_machines, dirty_ports) = (on_machine.keys().copied().collect(), tenants.keys().copied().collect());
        Self {
            last: Version { epoch, number: 0 },
            map,
            machines: BTreeMap::new(),
            switches: BTreeMap::new(),
            tenants,
            on_machine,
            ports,
            in_motion: BTreeMap::new(),
            limited: vec![false; sites.tenants.len()],
            dirty_tenants: sites.all().map(|(tenant, _)| tenant).collect(),
            dirty_machines,
            dirty_ports,
        }
    }

    /// The tenants that pass a port.
    pub(super) fn tenants_of(&self, port: PortId) -> &[TenantId] {
        self.tenants.get(&port).map_or(&[], Vec::as_slice)
    }
    /// The tenants on a machine.
    pub(super) fn tenants_on(&self, machine: MachineId) -> &[TenantId] {
        self.on_machine.get(&machine).map_or(&[], Vec::as_slice)
    }
    /// The tenant in motion at a port.
    pub(super) fn moving_at(&self, port: PortId) -> Option<TenantId> {
        self.in_motion.get(&port).copied()
    }
    /// Whether a tenant is in a queue, or moves to or from it.
    pub(super) fn is_taken(&self, sites: &Sites, states: &[TenantState], port: PortId, queue: QueueIndex) -> bool {
        self.tenants_of(port).iter().any(|tenant| {
            let at = position(sites.site(*tenant), port);
            at.is_some_and(|(at, _)| states[tenant.index()].takes(at, queue))
        })
    }

    pub(super) fn machine_version(&self, machine: MachineId) -> Version {
        self.machines.get(&machine).map_or(Version::default(), |own| own.version)
    }
    pub(super) fn switch_version(&self, switch: SwitchId) -> Version {
        self.switches.get(&switch).map_or(Version::default(), |own| own.version)
    }
    /// Whether a machine has applied this version.
    pub(super) fn has_machine(&self, machine: MachineId, version: Version) -> bool {
        self.machines.get(&machine).is_none_or(|own| own.applied >= version)
    }
    /// The same of a switch.
    pub(super) fn has_switch(&self, switch: SwitchId, version: Version) -> bool {
        self.switches.get(&switch).is_none_or(|own| own.applied >= version)
    }

    /// Takes an answer; `false` if it is older than another or not of this binder.
    pub(super) fn machine_applied(&mut self, machine: MachineId, version: Version) -> bool {
        self.machines.get_mut(&machine).is_some_and(|own| take(own, version))
    }
    /// The same of a switch.
    pub(super) fn switch_applied(&mut self, switch: SwitchId, version: Version) -> bool {
        self.switches.get_mut(&switch).is_some_and(|own| take(own, version))
    }

    fn next(&mut self) -> Version {
        self.last.number += 1;
        self.last
    }

    /// A machine may have lost its settings: they have a new version, and earlier answers do not count.
    pub(super) fn machine_again(&mut self, machine: MachineId) -> Option<BinderOutput> {
        let next = self.next();
        let own = self.machines.get_mut(&machine)?;
        begin_again(own, next);
        Some(machine_output(machine, own))
    }
    /// The same of a switch.
    pub(super) fn switch_again(&mut self, switch: SwitchId) -> Option<BinderOutput> {
        let next = self.next();
        let own = self.switches.get_mut(&switch)?;
        begin_again(own, next);
        Some(switch_output(switch, own, self.map))
    }

    /// The settings that are not applied yet, but for those of machines that are gone.
    pub(super) fn unapplied(&self, gone: &BTreeSet<MachineId>) -> Vec<BinderOutput> {
        let machines = self.machines.iter().filter(|(id, own)| own.applied < own.version && !gone.contains(*id));
        let machines = machines.map(|(machine, own)| machine_output(*machine, own));
        let switches = self.switches.iter().filter(|(_, own)| own.applied < own.version);
        machines.chain(switches.map(|(switch, own)| switch_output(*switch, own, self.map))).collect()
    }

    /// The number of machines and switches that have not applied their settings.
    pub(super) fn unconfirmed(&self) -> usize {
        let machines = self.machines.values().filter(|own| own.applied < own.version).count();
        machines + self.switches.values().filter(|own| own.applied < own.version).count()
    }

    /// A tenant has begun or ended a move: those that share its ports may have other limits.
    pub(super) fn set_in_motion(&mut self, tenant: TenantId, sites: &Sites, moves: bool) {
        for (port, _) in &sites.site(tenant).ports {
            match moves {
                true => self.in_motion.insert(*port, tenant),
                false => self.in_motion.remove(port),
            };
            self.dirty_tenants.extend(self.tenants.get(port).into_iter().flatten());
        }
        self.mark(tenant, sites);
    }

    /// A tenant's state has changed.
    pub(super) fn mark(&mut self, tenant: TenantId, sites: &Sites) {
        let site = sites.site(tenant);
        self.dirty_tenants.insert(tenant);
        self.dirty_machines.extend(site.machines.iter().map(|(machine, _)| *machine));
        self.dirty_ports.extend(site.ports.iter().map(|(port, _)| *port));
    }

    /// A switch has lost its settings or has them again: the limits of the tenants that pass it change.
    pub(super) fn mark_switch(&mut self, switch: SwitchId) {
        for port in self.ports.get(&switch).into_iter().flatten() {
            self.dirty_tenants.extend(self.tenants.get(port).into_iter().flatten());
        }
    }

    /// Computes the settings that may have changed; returns those that have.
    pub(super) fn renew(
        &mut self,
        sites: &Sites,
        config: &BinderConfig,
        states: &[TenantState],
        lost: &BTreeSet<SwitchId>,
    ) -> Vec<BinderOutput> {
        for tenant in std::mem::take(&mut self.dirty_tenants) {
            let limited = self.is_limited(tenant, sites, config, states, lost);
            if std::mem::replace(&mut self.limited[tenant.index()], limited) != limited {
                self.dirty_machines.extend(sites.site(tenant).machines.iter().map(|(machine, _)| *machine));
            }
        }
        let mut outputs = Vec::new();
        for machine in std::mem::take(&mut self.dirty_machines) {
            let of = |tenant: &TenantId| {
                let (dscp, limited) = (states[tenant.index()].dscp(), self.limited[tenant.index()]);
                (*tenant, TenantSettings { dscp, limited })
            };
            let wanted: Vec<(TenantId, TenantSettings)> = self.tenants_on(machine).iter().map(of).collect();
            if self.machines.get(&machine).is_none_or(|own| own.wanted != wanted) {
                let version = self.next();
                let own = self.machines.entry(machine).or_default();
                (own.wanted, own.version) = (wanted, version);
                outputs.push(machine_output(machine, own));
            }
        }
        outputs.extend(self.renew_switches(sites, config, states));
        outputs
    }

    /// Whether a tenant is limited to its reservations.
    fn is_limited(
        &self,
        tenant: TenantId,
        sites: &Sites,
        config: &BinderConfig,
        states: &[TenantState],
        lost: &BTreeSet<SwitchId>,
    ) -> bool {
        let (state, site) = (&states[tenant.index()], sites.site(tenant));
        let passes_lost = || site.ports.iter().any(|(port, _)| lost.contains(&sites.ports[port.index()].switch));
        let meets = || site.ports.iter().any(|(port, _)| self.in_motion.contains_key(port));
        state.motion.is_some()
            || (!lost.is_empty() && passes_lost())
            || (state.place == Place::Shared && !site.ports.is_empty() && (config.limit_shared || meets()))
    }

    fn renew_switches(&mut self, sites: &Sites, config: &BinderConfig, states: &[TenantState]) -> Vec<BinderOutput> {
        let mut changed = BTreeSet::new();
        for port in std::mem::take(&mut self.dirty_ports) {
            let wanted = port_settings(port, self.tenants_of(port), sites, config, states);
            let switch = sites.ports[port.index()].switch;
            let all = &mut self.switches.entry(switch).or_default().wanted;
            match all.binary_search_by_key(&port, |(id, _)| *id) {
                Ok(at) if all[at].1 == wanted => continue,
                Ok(at) => all[at].1 = wanted,
                Err(at) => all.insert(at, (port, wanted)),
            }
            changed.insert(switch);
        }
        let mut outputs = Vec::new();
        for switch in changed {
            let version = self.next();
            if let Some(own) = self.switches.get_mut(&switch) {
                own.version = version;
                outputs.push(switch_output(switch, own, self.map));
            }
        }
        outputs
    }
}

/// Gives all ports of a switch one map: a packet's queue is chosen where it arrives.
fn unite(ports: &mut [(PortId, PortSettings)]) {
    let all: BTreeMap<u8, QueueIndex> = ports.iter().flat_map(|(_, own)| own.map.clone()).collect();
    ports.iter_mut().for_each(|(_, own)| own.map.clone_from(&all));
}

/// Takes the version of an answer.
fn take<T>(own: &mut Versioned<T>, answer: Version) -> bool {
    if answer < own.applied.max(own.since) || answer.epoch != own.version.epoch || answer > own.version {
        return false;
    }
    own.applied = answer;
    true
}

fn begin_again<T>(own: &mut Versioned<T>, version: Version) {
    (own.applied, own.version, own.since) = (Version::default(), version, version);
}

/// The weights and the map of a port, by the queues in which its tenants are counted.
fn port_settings(
    port: PortId,
    tenants: &[TenantId],
    sites: &Sites,
    config: &BinderConfig,
    states: &[TenantState],
) -> PortSettings {
    let queues = usize::from(sites.ports[port.index()].queues);
    let mut reserved = vec![Bandwidth::ZERO; queues + 1];
    reserved[0] = sites.ports[port.index()].others;
    let mut map = BTreeMap::new();
    for tenant in tenants {
        let (site, state) = (sites.site(*tenant), &states[tenant.index()]);
        let Some((at, part)) = position(site, port) else { continue };
        for place in state.counted() {
            let queue = place.queue(at);
            let sum = &mut reserved[queue.map_or(0, |queue| usize::from(queue) + 1)];
            *sum += part;
            if let Some(queue) = queue.filter(|_| state.maps(place)) {
                map.insert(place.dscp(), queue);
            }
        }
    }
    PortSettings { weights: weights_of(&reserved, config.most_weight), map }
}

/// The weights of all queues. Queues without tenants carry nothing, so theirs count for nothing; the shared queue
/// carries all other traffic.
fn weights_of(reserved: &[Bandwidth], most: u32) -> Vec<u32> {
    let used: Vec<usize> = (0..reserved.len()).filter(|at| *at == 0 || reserved[*at] > Bandwidth::ZERO).collect();
    let found = weights(&used.iter().map(|at| reserved[*at]).collect::<Vec<_>>(), most);
    let mut all = vec![1; reserved.len()];
    used.into_iter().zip(found.weights).for_each(|(at, weight)| all[at] = weight);
    all
}

/// The position of a port in a tenant's list, and its reservation there.
fn position(site: &Site, port: PortId) -> Option<(usize, Bandwidth)> {
    let at = site.ports.binary_search_by_key(&port, |(port, _)| *port).ok()?;
    Some((at, site.ports[at].1))
}

fn machine_output(machine: MachineId, own: &Versioned<Vec<(TenantId, TenantSettings)>>) -> BinderOutput {
    BinderOutput::Machine { machine, version: own.version, tenants: own.wanted.clone() }
}

fn switch_output(switch: SwitchId, own: &Versioned<Vec<(PortId, PortSettings)>>, map: Map) -> BinderOutput {
    let mut ports = own.wanted.clone();
    if map == Map::PerSwitch {
        unite(&mut ports);
    }
    BinderOutput::Switch { switch, version: own.version, ports }
}
