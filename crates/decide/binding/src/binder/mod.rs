//! [`Binder`]: the state machine that brings tenants into their queues.
//!
//! Problem: a choice of queues is a table; the network is switches and machines that apply changes one after the other,
//! late, or never. Approach. The settings of a port or a machine are a function of the tenants' states
//! ([`TenantState`]), each tenant moves in steps, and a step waits until the machines or switches that it changes have
//! applied it. Settings carry versions and are sent again until their version is applied, so lost and repeated messages
//! change nothing. `docs/design/binding.md` derives the steps.
//!
//! Order of calls: [`Binder::handle_input`] with inputs and, at [`Binder::poll_timeout`], with a timeout; then
//! [`Binder::poll_output`] until it has none. Before outputs are carried out, [`Binder::state`] is stored; a successor
//! begins with it, under a higher epoch.
//!
//! A tenant moves if none of its ports has another tenant in motion, and if the queues to which it moves have no other
//! tenant any more. Moves to the shared queue come first, since others need the queues, then higher scores. A tenant
//! that is to have other queues than it has moves to the shared queue first.
//!
//! While a switch has lost its settings, all tenants that pass it are limited.
//!
//! Source: QShare §V-C, V-D. The paper changes weights and values at once.

mod interface;
mod motion;
mod settings;

pub use interface::{
    BinderConfig, BinderCounters, BinderInput, BinderOutput, PortSettings, QueueId, TenantSettings, Version,
};
pub use motion::{Motion, Place, Step, TenantState};

use crate::dscp::Values;
use crate::queues::Queues;
use crate::score::{Score, score};
use crate::site::Sites;
use motion::{Drain, Waiting};
use settings::Settings;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use weir_placement::SwitchId;
use weir_units::{Bandwidth, Instant, MachineId, PerDirection, TenantId};

/// The tenants' states, as a successor needs them.
pub type BinderState = Vec<TenantState>;

/// The state machine.
#[derive(Debug)]
pub struct Binder {
    config: BinderConfig,
    sites: Arc<Sites>,
    now: Instant,
    next_interval: Instant,
    next_retry: Instant,
    /// The next reading of queues that packets are leaving.
    next_poll: Instant,
    usage: BTreeMap<(TenantId, MachineId), PerDirection<Bandwidth>>,
    /// The choice of this interval.
    chosen: Queues,
    values: Values,
    states: Vec<TenantState>,
    waiting: BTreeMap<TenantId, Waiting>,
    /// Rounds of readings that have begun.
    rounds: u64,
    scores: Vec<Score>,
    /// Switches whose settings are lost.
    lost: BTreeSet<SwitchId>,
    settings: Settings,
    outputs: VecDeque<BinderOutput>,
    counters: BinderCounters,
}

impl Binder {
    /// A binder for these tenants, which continues from the state of an earlier one. `epoch` must be higher than at any
    /// earlier start. The first interval ends one interval from `now`.
    ///
    /// # Panics
    /// If the state is not of these tenants.
    pub fn new(sites: &Arc<Sites>, config: BinderConfig, epoch: u64, state: BinderState, now: Instant) -> Self {
        let states = if state.is_empty() { vec![TenantState::default(); sites.tenants.len()] } else { state };
        assert_eq!(states.len(), sites.tenants.len(), "a state for each tenant");
        let mut chosen = Queues::new(sites, config.map);
        let mut values = Values::new(config.map);
        for (tenant, state) in (0..).map(TenantId).zip(&states) {
            let last = state.motion.as_ref().map_or(&state.place, |motion| &motion.to);
            if let Place::Dedicated { queues, .. } = last {
                chosen.adopt(sites, tenant, queues.clone());
            }
            for place in [&state.place, last] {
                if let (Place::Dedicated { queues, dscp }, None) = (place, values.get(tenant)) {
                    values.adopt(sites, tenant, queues, *dscp);
                }
            }
        }
        let mut binder = Self {
            now,
            next_interval: now + config.interval,
            next_retry: now + config.retry,
            next_poll: now + config.poll,
            usage: BTreeMap::new(),
            chosen,
            values,
            waiting: BTreeMap::new(),
            rounds: 0,
            scores: vec![Score::default(); states.len()],
            lost: BTreeSet::new(),
            settings: Settings::new(sites, epoch),
            outputs: VecDeque::new(),
            counters: BinderCounters::default(),
            states,
            sites: Arc::clone(sites),
            config,
        };
        binder.refresh();
        let moving: Vec<TenantId> = binder.moving().collect();
        moving.into_iter().for_each(|tenant| binder.wait(tenant));
        binder
    }

    /// Handles an input at `now`. Time that goes back counts as standing still.
    pub fn handle_input(&mut self, now: Instant, input: BinderInput) {
        self.now = self.now.max(now);
        match input {
            BinderInput::Timeout => self.time_out(),
            BinderInput::Usage { machine, tenant, used } => {
                let known = self.usage.entry((tenant, machine)).or_default();
                *known = PerDirection { tx: known.tx.max(used.tx), rx: known.rx.max(used.rx) };
            }
            BinderInput::MachineApplied { machine, version } => {
                if !self.settings.machine_applied(machine, version) {
                    self.counters.outdated += 1;
                }
            }
            BinderInput::SwitchApplied { switch, version } => match self.settings.switch_applied(switch, version) {
                true if self.settings.is_applied(switch) && self.lost.remove(&switch) => self.refresh(),
                true => {}
                false => self.counters.outdated += 1,
            },
            BinderInput::SwitchReset { switch } => {
                self.settings.reset(switch);
                self.lost.insert(switch);
                self.refresh();
            }
            BinderInput::MachineConnected { machine } => self.outputs.extend(self.settings.again(Some(machine), None)),
            BinderInput::SwitchConnected { switch } => self.outputs.extend(self.settings.again(None, Some(switch))),
            BinderInput::QueueRead { queue, round, sent, backlog } => self.take_reading((queue, round), sent, backlog),
        }
        self.advance();
    }

    /// The time of the next interval, repetition or reading.
    pub fn poll_timeout(&self) -> Instant {
        let drains = self.waiting.values().any(|waiting| waiting.drain.is_some());
        let next = self.next_interval.min(self.next_retry);
        if drains { next.min(self.next_poll) } else { next }.max(self.now)
    }
    /// The next output.
    pub fn poll_output(&mut self) -> Option<BinderOutput> {
        self.outputs.pop_front()
    }
    /// The settings of a machine, for one that has just connected; `None` if no tenant is on it.
    pub fn machine(&self, machine: MachineId) -> Option<BinderOutput> {
        self.settings.machine(machine)
    }
    /// The settings of a switch; `None` if no tenant passes it.
    pub fn switch(&self, switch: SwitchId) -> Option<BinderOutput> {
        self.settings.switch(switch)
    }
    /// The tenants' states.
    pub fn state(&self) -> &BinderState {
        &self.states
    }
    /// The scores of the last interval, by tenant.
    pub fn scores(&self) -> &[Score] {
        &self.scores
    }
    /// The counters since the start.
    pub fn counters(&self) -> &BinderCounters {
        &self.counters
    }

    fn moving(&self) -> impl Iterator<Item = TenantId> + '_ {
        (0..).map(TenantId).zip(&self.states).filter(|(_, state)| state.motion.is_some()).map(|(tenant, _)| tenant)
    }

    fn time_out(&mut self) {
        if self.now >= self.next_interval {
            self.choose();
            self.next_interval = self.now + self.config.interval;
        }
        if self.now >= self.next_retry {
            self.next_retry = self.now + self.config.retry;
            let repeated = self.settings.unapplied();
            self.counters.repeated += repeated.len() as u64;
            self.outputs.extend(repeated);
        }
        if self.now >= self.next_poll {
            self.next_poll = self.now + self.config.poll;
            let drains = self.waiting.values().filter_map(|waiting| waiting.drain.as_ref());
            self.outputs.extend(drains.flat_map(Drain::needed));
        }
    }

    /// Chooses the tenants with queues by the usage of the interval that ends now.
    fn choose(&mut self) {
        let usage = std::mem::take(&mut self.usage);
        let none = PerDirection::both(Bandwidth::ZERO);
        let of = |tenant: TenantId, machine: MachineId| usage.get(&(tenant, machine)).copied().unwrap_or(none);
        self.scores = self.sites.all().map(|(tenant, site)| score(site, |machine| of(tenant, machine))).collect();
        self.chosen.allocate(&self.sites, &self.scores);
        self.counters.intervals += 1;
    }

    /// Ends steps whose answers are there and begins moves, until nothing changes.
    fn advance(&mut self) {
        loop {
            let moving: Vec<TenantId> = self.moving().collect();
            let mut changed = false;
            for tenant in moving {
                if self.waiting.get(&tenant).is_some_and(|waiting| self.settings.has(waiting)) {
                    self.end_step(tenant);
                    changed = true;
                }
            }
            changed |= self.begin_moves();
            if !changed {
                return;
            }
        }
    }

    fn end_step(&mut self, tenant: TenantId) {
        let state = &mut self.states[tenant.index()];
        let Some(motion) = state.motion.as_mut() else { return };
        match motion.step.next() {
            Some(step) => motion.step = step,
            None => {
                state.place = motion.to.clone();
                state.motion = None;
                if state.place == Place::Shared {
                    self.values.give_back(&self.sites, tenant);
                }
                self.counters.moved += 1;
            }
        }
        self.waiting.remove(&tenant);
        self.refresh();
        self.wait(tenant);
    }

    /// The answers for which a tenant's step waits, by the settings in force.
    fn wait(&mut self, tenant: TenantId) {
        let state = &self.states[tenant.index()];
        let Some(motion) = &state.motion else { return };
        let site = self.sites.site(tenant);
        // A machine of the tenant that has lost its settings in a later step must have them again.
        let own = site.machines.iter().map(|(machine, _)| (*machine, self.settings.machine_version(*machine)));
        let mut waiting = Waiting { machines: own.collect(), ..Waiting::default() };
        match motion.step {
            Step::Cap => waiting.machines = self.limited_for(tenant),
            Step::Tag => {}
            Step::Raise | Step::Lower => {
                let switches: BTreeSet<SwitchId> =
                    site.ports.iter().map(|(port, _)| self.sites.ports[port.index()].switch).collect();
                waiting.switches =
                    switches.into_iter().map(|switch| (switch, self.settings.switch_version(switch))).collect();
            }
            Step::Drain => {
                self.rounds += 1;
                let drain = Drain::new(site, &state.place, self.config.hops, self.rounds);
                self.outputs.extend(drain.needed());
                waiting.drain = Some(drain);
            }
        }
        self.waiting.insert(tenant, waiting);
    }

    /// The machines of a tenant and of those that are limited while it moves: the tenants of the shared queues of its
    /// ports.
    fn limited_for(&self, tenant: TenantId) -> Vec<(MachineId, Version)> {
        let ports = self.sites.site(tenant).ports.iter();
        let met = ports.flat_map(|(port, _)| self.settings.tenants_of(*port).iter().copied());
        let met = met.filter(|other| self.states[other.index()].place == Place::Shared);
        let tenants: BTreeSet<TenantId> = met.chain([tenant]).collect();
        let machines = tenants.into_iter().flat_map(|tenant| self.sites.site(tenant).machines.iter());
        let machines: BTreeSet<MachineId> = machines.map(|(machine, _)| *machine).collect();
        machines.into_iter().map(|machine| (machine, self.settings.machine_version(machine))).collect()
    }

    fn take_reading(&mut self, read: (QueueId, u64), sent: u64, backlog: u64) {
        for waiting in self.waiting.values_mut() {
            let Some(drain) = &mut waiting.drain else { continue };
            if drain.take(read, sent, backlog, self.rounds + 1) {
                self.rounds += 1;
                if !drain.is_over() {
                    self.outputs.extend(drain.needed());
                }
            }
        }
    }

    /// Begins the moves that can begin; returns whether any did.
    fn begin_moves(&mut self) -> bool {
        let mut busy: BTreeSet<u32> = BTreeSet::new();
        for tenant in self.moving() {
            busy.extend(self.sites.site(tenant).ports.iter().map(|(port, _)| port.0));
        }
        let wanted = (0..).map(TenantId).zip(&self.states).filter(|(_, state)| state.motion.is_none());
        let mut wanted: Vec<(TenantId, bool)> = wanted
            .filter(|(tenant, state)| !self.is_in_place(*tenant, &state.place))
            .map(|(tenant, state)| (tenant, state.place == Place::Shared))
            .collect();
        wanted.sort_by_key(|(tenant, takes)| (*takes, Reverse(self.scores[tenant.index()]), *tenant));
        let mut begun = false;
        for (tenant, takes) in wanted {
            let site = self.sites.site(tenant);
            if site.ports.iter().any(|(port, _)| busy.contains(&port.0)) {
                continue;
            }
            let to = if takes { self.dedicated(tenant) } else { Some(Place::Shared) };
            let Some(to) = to else { continue };
            busy.extend(self.sites.site(tenant).ports.iter().map(|(port, _)| port.0));
            self.states[tenant.index()].motion = Some(Motion { to, step: Step::Cap });
            self.counters.moves += 1;
            self.refresh();
            self.wait(tenant);
            begun = true;
        }
        begun
    }

    /// Whether a tenant's queues are those that are chosen for it.
    fn is_in_place(&self, tenant: TenantId, place: &Place) -> bool {
        match (place, self.chosen.of(tenant)) {
            (Place::Shared, None) => true,
            (Place::Dedicated { queues, .. }, Some(chosen)) => queues == chosen,
            _ => false,
        }
    }

    /// The queues that are chosen for a tenant, if no other tenant is in them, and a DSCP value.
    fn dedicated(&mut self, tenant: TenantId) -> Option<Place> {
        let queues = self.chosen.of(tenant)?.to_vec();
        let ports = self.sites.site(tenant).ports.iter().zip(&queues);
        let taken = ports.clone().any(|((port, _), queue)| self.settings.is_taken(*port, *queue));
        if taken {
            return None;
        }
        match self.values.take(&self.sites, tenant, &queues, &self.config.pool) {
            Some(dscp) => Some(Place::Dedicated { queues, dscp }),
            None => {
                self.chosen.release(&self.sites, tenant);
                self.counters.without_value += 1;
                None
            }
        }
    }

    /// Computes all settings anew; those that changed get a version and are sent.
    fn refresh(&mut self) {
        let changed = self.settings.renew(&self.sites, &self.config, &self.states, &self.lost);
        self.outputs.extend(changed);
    }
}
