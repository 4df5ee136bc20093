//! The steps of moves: their ends, and the answers for which they wait.

use super::motion::{Drain, Motion, Place, Step, Waiting};
use super::{Binder, QueueId, Version};
use crate::queues::Map;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use weir_placement::SwitchId;
use weir_units::{MachineId, TenantId};

impl Binder {
    /// Ends steps whose answers are there and begins moves, until nothing changes.
    pub(super) fn advance(&mut self) {
        while !self.ready.is_empty() || !self.movable.is_empty() || !self.stepped.is_empty() {
            while let Some(tenant) = self.ready.pop_first() {
                if self.waiting.get(&tenant).is_some_and(Waiting::is_over) {
                    self.end_step(tenant);
                }
            }
            self.begin_moves();
            // Once for all: the settings of a machine depend on many tenants.
            self.refresh();
            for tenant in std::mem::take(&mut self.stepped) {
                self.wait(tenant);
            }
        }
    }

    fn end_step(&mut self, tenant: TenantId) {
        if self.has_gone(tenant) {
            self.missed.insert(tenant);
        }
        let state = &mut self.states[tenant.index()];
        let Some(motion) = state.motion.as_mut() else { return };
        match motion.step.next() {
            Some(step) => motion.step = step,
            None => {
                let to = motion.to.clone();
                let from = std::mem::replace(&mut state.place, to);
                state.motion = None;
                let missed = self.missed.remove(&tenant);
                if state.place == Place::Shared {
                    // A machine that is gone may still tag packets so; of one that is back some may be in the network.
                    state.retained = missed.then(|| from.dscp());
                    if !missed {
                        self.values.give_back(&self.sites, tenant);
                    }
                }
                self.counters.moved += 1;
            }
        }
        self.renew(tenant);
    }

    /// A tenant's state has another step, or the tenant does not move any more.
    pub(super) fn renew(&mut self, tenant: TenantId) {
        self.keep(tenant);
        self.forget(tenant);
        if self.states[tenant.index()].motion.is_none() {
            self.settings.set_in_motion(tenant, &self.sites, false);
            // Tenants that share ports with this one may have waited for the end of its move, for its queues, or for
            // its value.
            for (port, _) in &self.sites.site(tenant).ports {
                self.movable.extend(self.settings.tenants_of(*port));
            }
            self.movable.insert(tenant);
        } else {
            self.settings.mark(tenant, &self.sites);
        }
        self.stepped.push(tenant);
    }

    /// Ends the waiting of a tenant.
    fn forget(&mut self, tenant: TenantId) {
        let Some(waiting) = self.waiting.remove(&tenant) else { return };
        self.draining.remove(&tenant);
        for machine in waiting.machines.keys() {
            if let Some(tenants) = self.of_machines.get_mut(machine) {
                tenants.remove(&tenant);
            }
        }
        for switch in waiting.switches.keys() {
            if let Some(tenants) = self.of_switches.get_mut(switch) {
                tenants.remove(&tenant);
            }
        }
    }

    /// The answers for which a tenant's step waits, by the settings in force.
    pub(super) fn wait(&mut self, tenant: TenantId) {
        let state = &self.states[tenant.index()];
        let Some(motion) = &state.motion else { return };
        let site = self.sites.site(tenant);
        // A machine of the tenant that has lost its settings in a later step must have them again.
        let own = site.machines.iter().map(|(machine, _)| (*machine, self.settings.machine_version(*machine)));
        let mut waiting = Waiting { machines: own.collect(), ..Waiting::default() };
        match motion.step {
            Step::Cap => waiting.machines = self.limited_for(tenant),
            Step::Tag => {}
            Step::Raise | Step::Unmap | Step::Lower => {
                let switches = site.ports.iter().map(|(port, _)| self.sites.ports[port.index()].switch);
                waiting.switches = switches.map(|switch| (switch, self.settings.switch_version(switch))).collect();
            }
            Step::Drain => {
                self.rounds += 1;
                let drain = Drain::new(site, &state.place, self.config.hops, self.rounds);
                self.outputs.extend(drain.needed());
                waiting.drain = Some(drain);
                self.draining.insert(tenant);
            }
        }
        let is_open = |(machine, version): &(&MachineId, &Version)| self.is_machine_open(**machine, **version);
        waiting.open_machines = waiting.machines.iter().filter(is_open).map(|(machine, _)| *machine).collect();
        let is_open = |(switch, version): &(&SwitchId, &Version)| !self.settings.has_switch(**switch, **version);
        waiting.open_switches = waiting.switches.iter().filter(is_open).map(|(switch, _)| *switch).collect();
        for machine in waiting.machines.keys() {
            self.of_machines.entry(*machine).or_default().insert(tenant);
        }
        for switch in waiting.switches.keys() {
            self.of_switches.entry(*switch).or_default().insert(tenant);
        }
        if waiting.is_over() {
            self.ready.insert(tenant);
        }
        self.waiting.insert(tenant, waiting);
    }

    /// Whether the answer of a machine is missing.
    fn is_machine_open(&self, machine: MachineId, version: Version) -> bool {
        !self.gone.contains(&machine) && !self.settings.has_machine(machine, version)
    }

    /// A machine has answered, has connected, or is gone.
    pub(super) fn machine_changed(&mut self, machine: MachineId) {
        for tenant in self.of_machines.get(&machine).cloned().unwrap_or_default() {
            let version = self.waiting.get(&tenant).and_then(|waiting| waiting.machines.get(&machine)).copied();
            let is_open = version.is_some_and(|version| self.is_machine_open(machine, version));
            let Some(waiting) = self.waiting.get_mut(&tenant) else { continue };
            match is_open {
                true => waiting.open_machines.insert(machine),
                false => waiting.open_machines.remove(&machine),
            };
            self.ready.insert(tenant);
        }
    }

    /// A switch has answered, has connected, or has lost its settings.
    pub(super) fn switch_changed(&mut self, switch: SwitchId) {
        for tenant in self.of_switches.get(&switch).cloned().unwrap_or_default() {
            let Some(waiting) = self.waiting.get_mut(&tenant) else { continue };
            let Some(version) = waiting.switches.get(&switch) else { continue };
            match self.settings.has_switch(switch, *version) {
                true => waiting.open_switches.remove(&switch),
                false => waiting.open_switches.insert(switch),
            };
            self.ready.insert(tenant);
        }
    }

    pub(super) fn switch_applied(&mut self, switch: SwitchId) {
        let is_complete = self.settings.has_switch(switch, self.settings.switch_version(switch));
        if is_complete && self.lost.remove(&switch) {
            self.settings.mark_switch(switch);
            self.refresh();
        }
        self.switch_changed(switch);
    }

    /// The machines of a tenant and of those that are limited while it moves: the tenants of the shared queues of its
    /// ports.
    fn limited_for(&self, tenant: TenantId) -> BTreeMap<MachineId, Version> {
        let ports = self.sites.site(tenant).ports.iter();
        let met = ports.flat_map(|(port, _)| self.settings.tenants_of(*port).iter().copied());
        let met = met.filter(|other| self.states[other.index()].place == Place::Shared);
        let tenants: BTreeSet<TenantId> = met.chain([tenant]).collect();
        let machines = tenants.into_iter().flat_map(|tenant| self.sites.site(tenant).machines.iter());
        machines.map(|(machine, _)| (*machine, self.settings.machine_version(*machine))).collect()
    }

    /// Takes a reading of a queue that the packets of the tenant in motion at its port are leaving.
    pub(super) fn take_reading(&mut self, read: (QueueId, u64), sent: u64, backlog: u64) {
        let Some(tenant) = self.settings.moving_at(read.0.port) else { return };
        let Some(drain) = self.waiting.get_mut(&tenant).and_then(|waiting| waiting.drain.as_mut()) else { return };
        if drain.take(read, sent, backlog, self.rounds + 1) {
            self.rounds += 1;
            match drain.is_over() {
                true => drop(self.ready.insert(tenant)),
                false => self.outputs.extend(drain.needed()),
            }
        }
    }

    /// Begins the moves that can begin.
    fn begin_moves(&mut self) {
        let candidates = std::mem::take(&mut self.movable).into_iter().filter(|tenant| {
            let state = &self.states[tenant.index()];
            state.motion.is_none() && !self.is_in_place(*tenant, &state.place)
        });
        let takes = |tenant: &TenantId| self.states[tenant.index()].place == Place::Shared;
        let mut wanted: Vec<(TenantId, bool)> = candidates.map(|tenant| (tenant, takes(&tenant))).collect();
        wanted.sort_by_key(|(tenant, takes)| (*takes, Reverse(self.scores[tenant.index()]), *tenant));
        for (tenant, takes) in wanted {
            let ports = &self.sites.site(tenant).ports;
            if ports.iter().any(|(port, _)| self.settings.moving_at(*port).is_some()) {
                continue;
            }
            let to = match takes {
                true if self.has_gone(tenant) => None,
                true => self.dedicated(tenant),
                false => Some(Place::Shared),
            };
            let Some(to) = to else { continue };
            let state = &mut self.states[tenant.index()];
            (state.motion, state.retained) = (Some(Motion { to, step: Step::Cap }), None);
            self.counters.moves += 1;
            self.unsent.remove(&tenant);
            self.keep(tenant);
            self.settings.set_in_motion(tenant, &self.sites, true);
            self.stepped.push(tenant);
        }
    }

    /// Whether a tenant's queues are those that are chosen for it.
    pub(super) fn is_in_place(&self, tenant: TenantId, place: &Place) -> bool {
        match (place, self.chosen.of(tenant)) {
            (Place::Shared, None) => true,
            (Place::Dedicated { queues, .. }, Some(chosen)) => queues == chosen,
            _ => false,
        }
    }

    /// The queues that are chosen for a tenant, if no other tenant is in them, and a DSCP value.
    fn dedicated(&mut self, tenant: TenantId) -> Option<Place> {
        // Where a switch has one map, packets with a retained value would follow the first port that maps it again to
        // queues whose weights are not raised yet.
        if self.config.map == Map::PerSwitch && self.states[tenant.index()].retained.is_some() {
            return None;
        }
        let queues = self.chosen.of(tenant)?.to_vec();
        let mut ports = self.sites.site(tenant).ports.iter().zip(&queues);
        if ports.any(|((port, _), queue)| self.settings.is_taken(&self.sites, &self.states, *port, *queue)) {
            return None;
        }
        match self.values.take(&self.sites, tenant, &self.config.pool) {
            Some(dscp) => Some(Place::Dedicated { queues, dscp }),
            None => {
                self.chosen.release(&self.sites, tenant);
                self.counters.without_value += 1;
                None
            }
        }
    }
}
