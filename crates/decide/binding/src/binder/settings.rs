//! The settings of machines and switches: what they shall be, and what they have applied.

use super::interface::{BinderConfig, BinderOutput, PortSettings, TenantSettings, Version};
use super::motion::{Place, TenantState, Waiting};
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

/// The settings of all machines and switches.
#[derive(Debug)]
pub(super) struct Settings {
    last: Version,
    machines: BTreeMap<MachineId, Versioned<Vec<(TenantId, TenantSettings)>>>,
    switches: BTreeMap<SwitchId, Versioned<Vec<(PortId, PortSettings)>>>,
    /// By port with tenants, its tenants.
    tenants: BTreeMap<PortId, Vec<TenantId>>,
    /// By machine, its tenants.
    on_machine: BTreeMap<MachineId, Vec<TenantId>>,
    /// Queues that some tenant is in, or moves to or from.
    taken: BTreeSet<(PortId, QueueIndex)>,
}

impl Settings {
    pub(super) fn new(sites: &Sites, epoch: u64) -> Self {
        let mut tenants: BTreeMap<PortId, Vec<TenantId>> = BTreeMap::new();
        let mut on_machine: BTreeMap<MachineId, Vec<TenantId>> = BTreeMap::new();
        for (tenant, site) in sites.all() {
            site.ports.iter().for_each(|(port, _)| tenants.entry(*port).or_default().push(tenant));
            site.machines.iter().for_each(|(machine, _)| on_machine.entry(*machine).or_default().push(tenant));
        }
        let last = Version { epoch, number: 0 };
        Self { last, machines: BTreeMap::new(), switches: BTreeMap::new(), tenants, on_machine, taken: BTreeSet::new() }
    }

    /// The tenants that pass a port.
    pub(super) fn tenants_of(&self, port: PortId) -> &[TenantId] {
        self.tenants.get(&port).map_or(&[], Vec::as_slice)
    }
    pub(super) fn machine_version(&self, machine: MachineId) -> Version {
        self.machines.get(&machine).map_or(Version::default(), |own| own.version)
    }
    pub(super) fn switch_version(&self, switch: SwitchId) -> Version {
        self.switches.get(&switch).map_or(Version::default(), |own| own.version)
    }
    /// Whether a tenant is in a queue, or moves to or from it.
    pub(super) fn is_taken(&self, port: PortId, queue: QueueIndex) -> bool {
        self.taken.contains(&(port, queue))
    }
    /// Whether a switch has applied its settings.
    pub(super) fn is_applied(&self, switch: SwitchId) -> bool {
        self.switches.get(&switch).is_none_or(|own| own.applied >= own.version)
    }
    /// Whether the answers are there.
    pub(super) fn has(&self, waiting: &Waiting) -> bool {
        let machine = |(machine, version): &(MachineId, Version)| {
            self.machines.get(machine).is_none_or(|own| own.applied >= *version)
        };
        let switch = |(switch, version): &(SwitchId, Version)| {
            self.switches.get(switch).is_none_or(|own| own.applied >= *version)
        };
        waiting.machines.iter().all(machine)
            && waiting.switches.iter().all(switch)
            && waiting.drain.as_ref().is_none_or(super::motion::Drain::is_over)
    }

    /// Takes an answer; `false` if it is older than another or not of this binder.
    pub(super) fn machine_applied(&mut self, machine: MachineId, version: Version) -> bool {
        self.machines.get_mut(&machine).is_some_and(|own| take(own, version))
    }
    /// The same of a switch.
    pub(super) fn switch_applied(&mut self, switch: SwitchId, version: Version) -> bool {
        self.switches.get_mut(&switch).is_some_and(|own| take(own, version))
    }
    /// A switch has lost its settings: older answers do not count.
    pub(super) fn reset(&mut self, switch: SwitchId) {
        let next = self.next();
        if let Some(own) = self.switches.get_mut(&switch) {
            own.applied = Version::default();
            (own.version, own.since) = (next, next);
        }
    }

    fn next(&mut self) -> Version {
        self.last.number += 1;
        self.last
    }

    /// The settings of a machine or a switch that has connected, under a new version: earlier ones do not count.
    pub(super) fn again(&mut self, machine: Option<MachineId>, switch: Option<SwitchId>) -> Option<BinderOutput> {
        let next = self.next();
        if let Some(own) = machine.and_then(|machine| self.machines.get_mut(&machine)) {
            own.applied = Version::default();
            (own.version, own.since) = (next, next);
        }
        if let Some(own) = switch.and_then(|switch| self.switches.get_mut(&switch)) {
            own.applied = Version::default();
            (own.version, own.since) = (next, next);
        }
        match (machine, switch) {
            (Some(machine), _) => self.machine(machine),
            (None, Some(switch)) => self.switch(switch),
            (None, None) => None,
        }
    }

    /// The settings of a machine.
    pub(super) fn machine(&self, machine: MachineId) -> Option<BinderOutput> {
        Some(machine_output(machine, self.machines.get(&machine)?))
    }
    /// The settings of a switch.
    pub(super) fn switch(&self, switch: SwitchId) -> Option<BinderOutput> {
        Some(switch_output(switch, self.switches.get(&switch)?))
    }

    /// The settings that are not applied yet.
    pub(super) fn unapplied(&self) -> Vec<BinderOutput> {
        let machines = self.machines.iter().filter(|(_, own)| own.applied < own.version);
        let machines = machines.map(|(machine, own)| machine_output(*machine, own));
        let switches = self.switches.iter().filter(|(_, own)| own.applied < own.version);
        machines.chain(switches.map(|(switch, own)| switch_output(*switch, own))).collect()
    }

    /// Computes all settings; returns those that changed.
    pub(super) fn renew(
        &mut self,
        sites: &Sites,
        config: &BinderConfig,
        states: &[TenantState],
        lost: &BTreeSet<SwitchId>,
    ) -> Vec<BinderOutput> {
        let mut outputs = Vec::new();
        let moving = sites.all().filter(|(tenant, _)| states[tenant.index()].motion.is_some());
        let in_motion: BTreeSet<PortId> =
            moving.flat_map(|(_, site)| site.ports.iter().map(|(port, _)| *port)).collect();
        let limited = |tenant: TenantId| {
            let (state, site) = (&states[tenant.index()], sites.site(tenant));
            let passes_lost =
                !lost.is_empty() && site.ports.iter().any(|(port, _)| lost.contains(&sites.ports[port.index()].switch));
            let is_shared = state.place == Place::Shared && !site.ports.is_empty();
            let meets = || site.ports.iter().any(|(port, _)| in_motion.contains(port));
            state.motion.is_some() || passes_lost || (is_shared && (config.limit_shared || meets()))
        };
        let wanted = self.on_machine.iter().map(|(machine, tenants)| {
            let of = |tenant: &TenantId| {
                let settings = TenantSettings { dscp: states[tenant.index()].dscp(), limited: limited(*tenant) };
                (*tenant, settings)
            };
            (*machine, tenants.iter().map(of).collect::<Vec<_>>())
        });
        for (machine, wanted) in wanted.collect::<Vec<_>>() {
            if self.machines.get(&machine).is_none_or(|own| own.wanted != wanted) {
                let version = self.next();
                let known = self.machines.get(&machine).map(|own| (own.applied, own.since));
                let (applied, since) = known.unwrap_or_default();
                let own = Versioned { wanted, version, applied, since };
                outputs.push(machine_output(machine, &own));
                self.machines.insert(machine, own);
            }
        }
        outputs.extend(self.renew_switches(sites, config, states));
        outputs
    }

    fn renew_switches(&mut self, sites: &Sites, config: &BinderConfig, states: &[TenantState]) -> Vec<BinderOutput> {
        self.taken.clear();
        let mut wanted: BTreeMap<SwitchId, Vec<(PortId, PortSettings)>> = BTreeMap::new();
        for (port, tenants) in &self.tenants {
            let settings = port_settings(*port, tenants, sites, config, states, &mut self.taken);
            wanted.entry(sites.ports[port.index()].switch).or_default().push((*port, settings));
        }
        if config.map == Map::PerSwitch {
            wanted.values_mut().for_each(|ports| unite(ports));
        }
        let mut outputs = Vec::new();
        for (switch, wanted) in wanted {
            if self.switches.get(&switch).is_none_or(|own| own.wanted != wanted) {
                let version = self.next();
                let known = self.switches.get(&switch).map(|own| (own.applied, own.since));
                let (applied, since) = known.unwrap_or_default();
                let own = Versioned { wanted, version, applied, since };
                outputs.push(switch_output(switch, &own));
                self.switches.insert(switch, own);
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

/// The weights and the map of a port, by the queues in which its tenants are counted.
fn port_settings(
    port: PortId,
    tenants: &[TenantId],
    sites: &Sites,
    config: &BinderConfig,
    states: &[TenantState],
    taken: &mut BTreeSet<(PortId, QueueIndex)>,
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
            if let Some(queue) = queue {
                map.insert(place.dscp(), queue);
            }
        }
        let moves = state.motion.as_ref().map(|motion| &motion.to);
        let all = [Some(&state.place), moves].into_iter().flatten();
        taken.extend(all.filter_map(|place| Some((port, place.queue(at)?))));
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

fn switch_output(switch: SwitchId, own: &Versioned<Vec<(PortId, PortSettings)>>) -> BinderOutput {
    BinderOutput::Switch { switch, version: own.version, ports: own.wanted.clone() }
}
