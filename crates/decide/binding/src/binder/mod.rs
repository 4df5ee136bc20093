//! [`Binder`]: the state machine that brings tenants into their queues.
//!
//! Problem: a choice of queues is a table; the network is switches and machines that apply changes one after the other,
//! late, or never. Approach. The settings of a port or a machine are a function of the tenants' states
//! ([`TenantState`]), each tenant moves in steps, and a step waits until the machines or switches that it changes have
//! applied it. Settings carry versions and are sent again until their version is applied, so lost and repeated messages
//! change nothing. `docs/design/binding.md` derives the steps.
//!
//! Order of calls: [`Binder::handle_input`] with inputs and, at [`Binder::poll_timeout`], with a timeout; then
//! [`Binder::poll_output`] until it has none. Outputs are carried out in their order, after the states among them
//! ([`BinderOutput::Keep`]) are stored; a successor begins with these, under a higher epoch.
//!
//! A tenant moves if none of its ports has another tenant in motion, and if the queues to which it moves have no other
//! tenant any more. Moves to the shared queue come first, since others need the queues, then higher scores. A tenant
//! that is to have other queues than it has moves to the shared queue first.
//!
//! While a switch has lost its settings, all tenants that pass it are limited. No step waits for a machine whose
//! connection has ended a lease ago; its tenants move to the shared queue at most, and keep their DSCP values
//! (`machines.rs`).
//!
//! The work for an input is that for the tenants that it concerns: none passes over all tenants but the choice at the
//! end of an interval.
//!
//! Source: QShare §V-C, V-D. The paper changes weights and values at once.

mod interface;
mod machines;
mod motion;
mod settings;
mod steps;

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
    /// By tenant, the sum of its largest usage of the last interval at each machine.
    used: Vec<PerDirection<Bandwidth>>,
    /// The choice of this interval.
    chosen: Queues,
    values: Values,
    states: Vec<TenantState>,
    /// The tenants in motion, with the answers for which they wait.
    waiting: BTreeMap<TenantId, Waiting>,
    /// Those of them whose packets are leaving a queue.
    draining: BTreeSet<TenantId>,
    /// By machine and by switch, the tenants in motion that wait for an answer of it in this step.
    of_machines: BTreeMap<MachineId, BTreeSet<TenantId>>,
    of_switches: BTreeMap<SwitchId, BTreeSet<TenantId>>,
    /// Tenants in motion whose answers may be complete.
    ready: BTreeSet<TenantId>,
    /// Tenants with another step, whose settings are to be computed.
    stepped: Vec<TenantId>,
    /// Tenants that are not in the queues that are chosen for them, and may be able to move now.
    movable: BTreeSet<TenantId>,
    /// Rounds of readings that have begun.
    rounds: u64,
    scores: Vec<Score>,
    /// Switches whose settings are lost.
    lost: BTreeSet<SwitchId>,
    /// Machines without a connection, with the end of the lease; those whose lease is over.
    disconnected: BTreeMap<MachineId, Instant>,
    gone: BTreeSet<MachineId>,
    /// Tenants in motion that have made a step without one of their machines, or may have under an earlier binder.
    missed: BTreeSet<TenantId>,
    /// Tenants whose retained values no machine has sent since the last choice.
    unsent: BTreeSet<TenantId>,
    settings: Settings,
    outputs: VecDeque<BinderOutput>,
    counters: BinderCounters,
}

impl Binder {
    /// A binder for these tenants, which continues from the state of an earlier one. `epoch` must be higher than at any
    /// earlier start. The first interval ends one interval from `now`, that of a successor two: machines report their
    /// usage within an interval of their connection, and a tenant without a report would lose its queues.
    ///
    /// # Panics
    /// If the state is not of these tenants, or two of them have one queue in it, or a value is above 63.
    pub fn new(sites: &Arc<Sites>, config: BinderConfig, epoch: u64, state: BinderState, now: Instant) -> Self {
        let states = if state.is_empty() { vec![TenantState::default(); sites.tenants.len()] } else { state };
        assert_eq!(states.len(), sites.tenants.len(), "a state for each tenant");
        let mut chosen = Queues::new(sites, config.map);
        let mut values = Values::new(config.map);
        for (tenant, state) in (0..).map(TenantId).zip(&states) {
            if let Place::Dedicated { queues, .. } = state.last() {
                chosen.adopt(sites, tenant, queues.clone());
            }
            if let Some(value) = state.value() {
                values.adopt(sites, tenant, value);
            }
        }
        let succeeds = states.iter().any(|state| *state != TenantState::default());
        let first = if succeeds { config.interval * 2 } else { config.interval };
        let mut binder = Self {
            now,
            next_interval: now + first,
            next_retry: now + config.retry,
            next_poll: now + config.poll,
            usage: BTreeMap::new(),
            used: vec![PerDirection::both(Bandwidth::ZERO); states.len()],
            chosen,
            values,
            waiting: BTreeMap::new(),
            draining: BTreeSet::new(),
            of_machines: BTreeMap::new(),
            of_switches: BTreeMap::new(),
            ready: BTreeSet::new(),
            stepped: Vec::new(),
            movable: BTreeSet::new(),
            rounds: 0,
            scores: vec![Score::default(); states.len()],
            lost: BTreeSet::new(),
            disconnected: BTreeMap::new(),
            gone: BTreeSet::new(),
            missed: BTreeSet::new(),
            unsent: BTreeSet::new(),
            settings: Settings::new(sites, config.map, epoch),
            outputs: VecDeque::new(),
            counters: BinderCounters::default(),
            states,
            sites: Arc::clone(sites),
            config,
        };
        let moving: Vec<TenantId> = binder.moving().collect();
        for tenant in &moving {
            binder.settings.set_in_motion(*tenant, sites, true);
        }
        binder.refresh();
        binder.missed = moving.iter().copied().collect();
        moving.into_iter().for_each(|tenant| binder.wait(tenant));
        binder.movable = binder.misplaced();
        binder
    }

    /// Handles an input at `now`. Time that goes back counts as standing still.
    pub fn handle_input(&mut self, now: Instant, input: BinderInput) {
        self.now = self.now.max(now);
        match input {
            BinderInput::Timeout => self.time_out(),
            // A machine where the tenant has no place counts nothing of it.
            BinderInput::Usage { machine, tenant, .. } if !self.settings.tenants_on(machine).contains(&tenant) => {
                return;
            }
            BinderInput::Usage { machine, tenant, used } => {
                let known = self.usage.entry((tenant, machine)).or_default();
                *known = PerDirection { tx: known.tx.max(used.tx), rx: known.rx.max(used.rx) };
                return;
            }
            BinderInput::MachineApplied { machine, version } => match self.settings.machine_applied(machine, version) {
                true => self.machine_changed(machine),
                false => self.counters.outdated += 1,
            },
            BinderInput::SwitchApplied { switch, version } => match self.settings.switch_applied(switch, version) {
                true => self.switch_applied(switch),
                false => self.counters.outdated += 1,
            },
            BinderInput::SwitchReset { switch } => {
                self.outputs.extend(self.settings.switch_again(switch));
                if self.lost.insert(switch) {
                    self.settings.mark_switch(switch);
                }
                self.refresh();
                self.switch_changed(switch);
            }
            BinderInput::MachineConnected { machine } => self.connect(machine),
            BinderInput::MachineDisconnected { machine } => {
                self.disconnected.entry(machine).or_insert(self.now + self.config.lease);
            }
            BinderInput::SwitchConnected { switch } => {
                self.outputs.extend(self.settings.switch_again(switch));
                self.switch_changed(switch);
            }
            BinderInput::QueueRead { queue, round, sent, backlog } => self.take_reading((queue, round), sent, backlog),
        }
        self.advance();
    }

    /// The time of the next interval, repetition, reading or end of a lease.
    pub fn poll_timeout(&self) -> Instant {
        let next = self.next_interval.min(self.next_retry);
        if self.draining.is_empty() { next } else { next.min(self.next_poll) }.max(self.now)
    }
    /// The next output.
    pub fn poll_output(&mut self) -> Option<BinderOutput> {
        self.outputs.pop_front()
    }
    /// The tenants' states.
    pub fn state(&self) -> &BinderState {
        &self.states
    }
    /// The scores of the last interval, by tenant.
    pub fn scores(&self) -> &[Score] {
        &self.scores
    }
    /// The usage of the last interval, by tenant: the sum over its machines.
    pub fn used(&self) -> &[PerDirection<Bandwidth>] {
        &self.used
    }
    /// Machines for which no step waits: their connection ended a lease ago.
    pub fn gone(&self) -> &BTreeSet<MachineId> {
        &self.gone
    }
    /// The number of machines and switches that have not confirmed their settings.
    pub fn unconfirmed(&self) -> usize {
        self.settings.unconfirmed()
    }
    /// The counters since the start.
    pub fn counters(&self) -> &BinderCounters {
        &self.counters
    }

    fn moving(&self) -> impl Iterator<Item = TenantId> + '_ {
        (0..).map(TenantId).zip(&self.states).filter(|(_, state)| state.motion.is_some()).map(|(tenant, _)| tenant)
    }

    /// The tenants without a move that are not in the queues that are chosen for them.
    fn misplaced(&self) -> BTreeSet<TenantId> {
        let all = (0..).map(TenantId).zip(&self.states);
        let still = all.filter(|(tenant, state)| state.motion.is_none() && !self.is_in_place(*tenant, &state.place));
        still.map(|(tenant, _)| tenant).collect()
    }

    fn time_out(&mut self) {
        if self.now >= self.next_interval {
            self.choose();
            self.next_interval = self.now + self.config.interval;
        }
        if self.now >= self.next_retry {
            self.next_retry = self.now + self.config.retry;
            self.end_leases();
            let repeated = self.settings.unapplied(&self.gone);
            self.counters.repeated += repeated.len() as u64;
            self.outputs.extend(repeated);
        }
        if self.now >= self.next_poll {
            self.next_poll = self.now + self.config.poll;
            let drains = self.draining.iter().filter_map(|tenant| self.waiting.get(tenant)?.drain.as_ref());
            self.outputs.extend(drains.flat_map(Drain::needed));
        }
    }

    /// Chooses the tenants with queues by the usage of the interval that ends now.
    fn choose(&mut self) {
        let usage = std::mem::take(&mut self.usage);
        let none = PerDirection::both(Bandwidth::ZERO);
        let of = |tenant: TenantId, machine: MachineId| usage.get(&(tenant, machine)).copied().unwrap_or(none);
        self.scores = self.sites.all().map(|(tenant, site)| score(site, |machine| of(tenant, machine))).collect();
        self.used.fill(none);
        for ((tenant, _), used) in &usage {
            let sum = &mut self.used[tenant.index()];
            let add = |sum: Bandwidth, used: Bandwidth| {
                Bandwidth::from_bps(sum.bps().saturating_add(used.bps())).min(Bandwidth::MAX)
            };
            *sum = PerDirection { tx: add(sum.tx, used.tx), rx: add(sum.rx, used.rx) };
        }
        self.release_values();
        self.without_gone();
        self.chosen.allocate(&self.sites, &self.scores);
        self.movable = self.misplaced();
        self.counters.intervals += 1;
    }

    /// Computes the settings that may have changed; those that did get a version and are sent.
    fn refresh(&mut self) {
        let changed = self.settings.renew(&self.sites, &self.config, &self.states, &self.lost);
        self.outputs.extend(changed);
    }

    /// Has a tenant's state stored before anything that follows from it is sent.
    fn keep(&mut self, tenant: TenantId) {
        let state = self.states[tenant.index()].clone();
        self.outputs.push_back(BinderOutput::Keep { tenant, state });
    }
}
