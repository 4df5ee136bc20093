//! A network with its binder, in virtual time.

use crate::checker::{self, Present};
use crate::draw;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weir_binding::binder::{
    Binder, BinderConfig, BinderInput, BinderOutput, BinderState, PortSettings, QueueId, TenantSettings, Version,
};
use weir_binding::{Map, PortId, Sites, SwitchId};
use weir_network::switches::pool;
use weir_units::{Bandwidth, Duration, Instant, MachineId, PerDirection, TenantId};

pub(crate) const MS: u64 = 1_000_000;
/// Faults end then; the rest of the run is calm.
const FAULTS: u64 = 6_000 * MS;
const END: u64 = 14_000 * MS;
/// Bytes that a queue sends in a millisecond.
const SENT_PER_MS: u64 = 1_000;
/// The time without a connection after which an agent limits its tenants, and after which no step waits for a machine.
pub(crate) const AGENT_LEASE: u64 = 300 * MS;
pub(crate) const LEASE: u64 = 600 * MS;

#[derive(Debug, Clone)]
pub(crate) enum Event {
    Wake,
    /// Settings on a connection of a machine: its number.
    ToMachine(MachineId, u64, Version, Vec<(TenantId, TenantSettings)>),
    /// A connection of a machine ends, and the controller notices it.
    Ended(MachineId, u64),
    /// A machine connects.
    Connect(MachineId, u64),
    /// An agent has been without a connection since this one ended.
    Limit(MachineId, u64),
    /// A machine fails.
    Fail(MachineId, Failure),
    /// A machine that was off starts; packets that it sent before it failed have left the network.
    Start(MachineId),
    Vanished(MachineId, u64),
    ToSwitch(SwitchId, Version, Vec<(PortId, PortSettings)>),
    /// A switch applies the settings of one port; the last one is answered.
    Apply(SwitchId, Version, Vec<(PortId, PortSettings)>),
    Read(QueueId, u64),
    ToBinder(u64, BinderInput),
    /// A value of a tenant is in no queue any more.
    Left(TenantId, MachineId, u8, u64),
    Reset(SwitchId),
    Succeed,
    Usage,
}

/// What happens to a machine.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Failure {
    /// It is off for a while.
    Off,
    /// Its agent dies and is started again.
    Agent,
    /// The network cuts it off from the controller.
    Cut,
}

#[derive(Debug, Default)]
pub(crate) struct Machine {
    pub(crate) applied: Version,
    pub(crate) tenants: BTreeMap<TenantId, TenantSettings>,
    /// Its agent does nothing until then.
    stopped_until: u64,
    pub(crate) is_off: bool,
    /// The number of its connection, and whether it is up; the number that the controller has.
    pub(crate) connection: u64,
    pub(crate) is_up: bool,
    pub(crate) known: u64,
}

#[derive(Debug, Default)]
struct Switch {
    version: Version,
    /// The settings of ports; none after a reset.
    ports: BTreeMap<PortId, PortSettings>,
}

pub(crate) struct World {
    seed: u64,
    pub(crate) random: StdRng,
    pub(crate) now: u64,
    events: BTreeMap<(u64, u64), Event>,
    number: u64,
    sites: Arc<Sites>,
    tenants: Vec<Vec<TenantId>>,
    config: BinderConfig,
    binder: Binder,
    epoch: u64,
    stored: BinderState,
    pub(crate) machines: BTreeMap<MachineId, Machine>,
    switches: BTreeMap<SwitchId, Switch>,
    /// By tenant and machine: values of packets that are in the network, and how often each was sent anew.
    pub(crate) values: BTreeMap<(TenantId, MachineId), BTreeMap<u8, u64>>,
    /// By port, the time that a packet spends in it, in ns.
    pub(crate) residence: Vec<u64>,
    active: Vec<bool>,
    pub(crate) moves: u64,
    pub(crate) resets: u64,
    pub(crate) successors: u64,
    /// Failures of machines, and moves that turned back for one.
    pub(crate) failures: u64,
    pub(crate) turned_back: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let sites = Arc::new(draw::sites(&mut random));
        let config = BinderConfig {
            interval: Duration::from_millis(400),
            retry: Duration::from_millis(50),
            poll: Duration::from_millis(20),
            map: if random.random() { Map::PerPort } else { Map::PerSwitch },
            most_weight: 1_000,
            pool: pool(&BTreeSet::new()).into_iter().take(random.random_range(1..8)).collect(),
            hops: 3,
            limit_shared: random.random(),
            lease: Duration::from_nanos(LEASE),
        };
        let residence = sites.ports.iter().map(|_| random.random_range(0..20) * MS).collect();
        let binder = Binder::new(&sites, config.clone(), 1, BinderState::new(), Instant::ZERO);
        let mut world = Self {
            seed,
            random,
            now: 0,
            events: BTreeMap::new(),
            number: 0,
            stored: binder.state().clone(),
            active: vec![false; sites.tenants.len()],
            tenants: sites.tenants_of_ports(),
            sites,
            config,
            binder,
            epoch: 1,
            machines: BTreeMap::new(),
            switches: BTreeMap::new(),
            values: BTreeMap::new(),
            residence,
            moves: 0,
            resets: 0,
            successors: 0,
            failures: 0,
            turned_back: 0,
        };
        world.begin();
        world
    }

    /// Machines and switches that have the first settings, and the faults of the run.
    fn begin(&mut self) {
        while let Some(output) = self.binder.poll_output() {
            match output {
                BinderOutput::Machine { machine, version, tenants } => {
                    for (tenant, settings) in &tenants {
                        self.values.entry((*tenant, machine)).or_default().insert(settings.dscp, 0);
                    }
                    let machine = self.machines.entry(machine).or_default();
                    (machine.applied, machine.tenants) = (version, tenants.into_iter().collect());
                    machine.is_up = true;
                }
                BinderOutput::Switch { switch, version, ports } => {
                    let switch = self.switches.entry(switch).or_default();
                    (switch.version, switch.ports) = (version, ports.into_iter().collect());
                }
                BinderOutput::Read { .. } | BinderOutput::Keep { .. } => {}
            }
        }
        let machines: Vec<MachineId> = self.machines.keys().copied().collect();
        for _ in 0..self.random.random_range(0..4) {
            let machine = machines[self.random.random_range(0..machines.len())];
            let failure = [Failure::Off, Failure::Agent, Failure::Cut][self.random.random_range(0..3)];
            let at = self.random.random_range(0..FAULTS);
            self.at(at, Event::Fail(machine, failure));
        }
        for _ in 0..self.random.random_range(0..3) {
            let switch = self.sites.ports[self.random.random_range(0..self.sites.ports.len())].switch;
            let at = self.random.random_range(0..FAULTS);
            self.at(at, Event::Reset(switch));
        }
        for _ in 0..self.random.random_range(0..3) {
            let at = self.random.random_range(0..FAULTS);
            self.at(at, Event::Succeed);
        }
        self.at(0, Event::Usage);
        self.at(0, Event::Wake);
    }

    pub(crate) fn at(&mut self, time: u64, event: Event) {
        self.number += 1;
        self.events.insert((time.max(self.now), self.number), event);
    }

    /// A message's delay; none where it is lost.
    fn delay(&mut self) -> Option<u64> {
        let faulty = self.now < FAULTS;
        if faulty && self.random.random_bool(0.1) {
            return None;
        }
        let most = if faulty && self.random.random_bool(0.1) { 500 } else { 10 };
        Some(self.random.random_range(0..most * MS) + 1)
    }

    fn send(&mut self, event: Event) {
        let copies = if self.now < FAULTS && self.random.random_bool(0.05) { 2 } else { 1 };
        for _ in 0..copies {
            if let Some(delay) = self.delay() {
                self.at(self.now + delay, event.clone());
            }
        }
    }

    pub(crate) fn run(&mut self) {
        while let Some(((time, _), event)) = self.events.pop_first() {
            if time > END {
                break;
            }
            self.now = time;
            // The others change neither packets nor queues.
            let changes = matches!(
                event,
                Event::ToMachine(..) | Event::Apply(..) | Event::Left(..) | Event::Reset(_) | Event::Start(_)
            );
            self.handle(event);
            if changes {
                self.check();
            }
        }
        self.count();
        let reached = self.binder.state().iter().all(|state| state.motion.is_none() && state.retained.is_none());
        assert!(reached, "seed {}: moves did not end: {:?}", self.seed, self.binder.state());
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Wake => {
                self.input(BinderInput::Timeout);
                let next = self.binder.poll_timeout().nanos();
                self.at(next.max(self.now + 1), Event::Wake);
            }
            Event::ToBinder(epoch, input) if epoch == self.epoch => self.input(input),
            Event::ToBinder(..) => {}
            Event::ToMachine(machine, connection, version, tenants) => {
                let own = &self.machines[&machine];
                if own.is_up && own.connection == connection {
                    self.machine(machine, version, tenants);
                }
            }
            Event::Ended(..) | Event::Connect(..) | Event::Limit(..) => self.connection(event),
            Event::Fail(..) | Event::Start(_) | Event::Vanished(..) => self.failure(event),
            Event::ToSwitch(switch, version, ports) => {
                if self.switches.get(&switch).is_none_or(|own| version >= own.version) {
                    self.switches.entry(switch).or_default().version = version;
                    self.at(self.now, Event::Apply(switch, version, ports));
                }
            }
            Event::Apply(switch, version, ports) => self.apply(switch, version, ports),
            Event::Read(queue, round) => {
                let residence = self.residence[queue.port.index()];
                let (sent, backlog) = (self.now / MS * SENT_PER_MS, residence.div_ceil(MS) * SENT_PER_MS);
                self.send(Event::ToBinder(self.epoch, BinderInput::QueueRead { queue, round, sent, backlog }));
            }
            Event::Left(tenant, machine, value, sent) => {
                if let Some(values) = self.values.get_mut(&(tenant, machine))
                    && values.get(&value) == Some(&sent)
                    && self.machines[&machine].tenants.get(&tenant).is_some_and(|settings| settings.dscp != value)
                {
                    values.remove(&value);
                }
            }
            Event::Reset(switch) => {
                self.resets += 1;
                let own = self.switches.entry(switch).or_default();
                own.ports.clear();
                self.at(self.now + 30 * MS, Event::ToBinder(self.epoch, BinderInput::SwitchReset { switch }));
            }
            Event::Succeed => self.succeed(),
            Event::Usage => self.usage(),
        }
    }

    fn usage(&mut self) {
        for active in &mut self.active {
            if self.now < FAULTS && self.random.random_bool(0.3) {
                *active = !*active;
            }
        }
        let sites = Arc::clone(&self.sites);
        let active = self.active.clone();
        for (tenant, site) in sites.all().filter(|(tenant, _)| active[tenant.index()]) {
            for (machine, reserved) in &site.machines {
                let used = PerDirection { tx: *reserved, rx: Bandwidth::ZERO };
                let usage = BinderInput::Usage { machine: *machine, tenant, used };
                self.input(usage);
            }
        }
        if self.now < FAULTS && self.random.random_bool(0.2) {
            let machines: Vec<MachineId> = self.machines.keys().copied().collect();
            let machine = machines[self.random.random_range(0..machines.len())];
            let until = self.now + self.random.random_range(0..1_000 * MS);
            self.machines.entry(machine).or_default().stopped_until = until;
        }
        self.at(self.now + 200 * MS, Event::Usage);
    }

    pub(crate) fn input(&mut self, input: BinderInput) {
        self.binder.handle_input(Instant::from_nanos(self.now), input);
        self.outputs();
    }

    fn outputs(&mut self) {
        while let Some(output) = self.binder.poll_output() {
            match output {
                BinderOutput::Keep { tenant, state } => self.stored[tenant.index()] = state,
                BinderOutput::Machine { machine, version, tenants } => {
                    let known = self.machines[&machine].known;
                    self.send(Event::ToMachine(machine, known, version, tenants));
                }
                BinderOutput::Switch { switch, version, ports } => self.send(Event::ToSwitch(switch, version, ports)),
                BinderOutput::Read { queue, round } => self.send(Event::Read(queue, round)),
            }
        }
    }

    /// A machine applies newer settings, and answers when its interface has sent what was queued before.
    fn machine(&mut self, machine: MachineId, version: Version, tenants: Vec<(TenantId, TenantSettings)>) {
        let own = self.machines.entry(machine).or_default();
        if self.now < own.stopped_until || version < own.applied {
            return;
        }
        own.applied = version;
        let mut queued = 0;
        for (tenant, settings) in tenants {
            let before = own.tenants.insert(tenant, settings).unwrap_or_default();
            let values = self.values.entry((tenant, machine)).or_default();
            *values.entry(settings.dscp).or_default() += 1;
            if before.dscp != settings.dscp {
                let waits = self.random.random_range(0..5 * MS);
                queued = queued.max(waits);
                let sent = values.get(&before.dscp).copied().unwrap_or(0);
                // The packets that leave its interface last pass three ports with the longest queues.
                let ports = self.sites.site(tenant).ports.iter();
                let longest = ports.map(|(port, _)| self.residence[port.index()]).max().unwrap_or(0);
                let left = self.now + waits + 3 * longest;
                self.number += 1;
                self.events.insert((left, self.number), Event::Left(tenant, machine, before.dscp, sent));
            }
        }
        let answer = Event::ToBinder(self.epoch, BinderInput::MachineApplied { machine, version });
        if let Some(delay) = self.delay() {
            self.at(self.now + queued + delay, answer);
        }
    }

    /// A switch applies the settings of one port after the other; newer settings take the place of those that are left.
    fn apply(&mut self, switch: SwitchId, version: Version, mut ports: Vec<(PortId, PortSettings)>) {
        let own = self.switches.entry(switch).or_default();
        if version < own.version {
            return;
        }
        let Some((port, settings)) = ports.pop() else {
            return self.send(Event::ToBinder(self.epoch, BinderInput::SwitchApplied { switch, version }));
        };
        own.ports.insert(port, settings);
        let most = if self.now < FAULTS { 50 } else { 5 };
        let wait = self.random.random_range(0..most * MS);
        self.at(self.now + wait, Event::Apply(switch, version, ports));
    }

    fn succeed(&mut self) {
        self.successors += 1;
        self.epoch += 1;
        self.count();
        let now = Instant::from_nanos(self.now);
        self.binder = Binder::new(&self.sites, self.config.clone(), self.epoch, self.stored.clone(), now);
        // The successor reads what switches have: one without settings is reset.
        let without: Vec<SwitchId> =
            self.switches.iter().filter(|(_, own)| own.ports.is_empty()).map(|(id, _)| *id).collect();
        // No message of it reaches a machine before that connects to it.
        self.machines.values_mut().for_each(|machine| machine.known = u64::MAX);
        self.outputs();
        without.into_iter().for_each(|switch| self.input(BinderInput::SwitchReset { switch }));
        let machines: Vec<MachineId> = self.machines.keys().copied().collect();
        for machine in machines {
            self.input(BinderInput::MachineDisconnected { machine });
            if self.machines[&machine].is_up {
                self.lose(machine, 100 * MS);
            }
        }
    }

    /// Adds the counters of a binder that ends.
    fn count(&mut self) {
        self.moves += self.binder.counters().moved;
        self.turned_back += self.binder.counters().turned_back;
    }

    /// Every port whose switch has its settings.
    fn check(&self) {
        for switch in self.switches.values() {
            for (port, settings) in &switch.ports {
                let present: Vec<Present> =
                    self.tenants[port.index()].iter().map(|tenant| self.present(*tenant, *port)).collect();
                // Where packets get their queues on arrival, the map of any port may apply.
                let maps: Vec<&PortSettings> = match self.config.map {
                    Map::PerPort => vec![settings],
                    Map::PerSwitch => switch.ports.values().collect(),
                };
                for by in maps {
                    let settings = PortSettings { weights: settings.weights.clone(), map: by.map.clone() };
                    if let Err(why) = checker::check(&settings, self.sites.ports[port.index()].rate.bps(), &present) {
                        panic!("seed {}, {} ms, port {}: {why}", self.seed, self.now / MS, port.0);
                    }
                }
            }
        }
    }

    fn present(&self, tenant: TenantId, port: PortId) -> Present {
        let site = self.sites.site(tenant);
        let (_, reserved) = site.ports.iter().find(|(at, _)| *at == port).expect("a port of the tenant");
        let machines = || site.machines.iter().map(|(machine, _)| *machine);
        let limited = machines().all(|machine| {
            let own = &self.machines[&machine];
            own.is_off || own.tenants.get(&tenant).is_some_and(|settings| settings.limited)
        });
        let values = machines().filter_map(|machine| self.values.get(&(tenant, machine))).flat_map(BTreeMap::keys);
        Present { tenant: tenant.0, reserved: reserved.bps(), limited, values: values.copied().collect() }
    }
}
