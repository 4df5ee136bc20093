//! The backend of the brokers: it passes time, meter readings and datagrams to them, and executes
//! their outputs.
//!
//! Problem: the brokers decide and never act. Approach: every simulated machine has a rack broker,
//! and one machine has the fabric broker. When a broker's timeout is due, the backend reads the
//! host's counters. Messages between brokers travel as UDP datagrams, encoded in the wire format,
//! through the same links and queues as all other traffic, where they can be delayed or lost; the
//! backend verifies and decodes those that arrive. Messages between brokers of one machine do not
//! leave the machine.
//!
//! Rack brokers start spread over one period, as those of real machines do: datagrams of a whole
//! rack at one instant would be an unrealistic burst.
//!
//! Limits: a transmit limit goes to the service's root limiter, together with the static policy's
//! limit for the machine's interface (the least of the service's and its parents' maxima there). A
//! receive limit is the capacity of the service's receive meter, whose feedback to the senders
//! enforces it (Parley §3.2.1).
//!
//! A broker that crashes loses its state and takes no part; its machine continues under its last
//! limits for the timeout. A broker that restarts begins in a new epoch, and continues with those
//! limits if they have not ended (`weir-control`, `graceful_restart.rs`).
//!
//! Worked example: 20 machines in a rack with a period of 1 s send 20 · 19 datagrams a second.
//!
//! Source: Parley §3.2.2, §3.2.3, §5.2, §5.3.

mod machine;
mod service_indices;

pub use service_indices::ServiceIndices;

use crate::engine::UDP_OVERHEAD;
use crate::ids::HostId;
use crate::observer::Observer;
use crate::world::{Delivery, World};
use machine::Machine;
use rand::Rng;
use rand::rngs::StdRng;
use std::collections::BTreeSet;
use std::sync::Arc;
use weir_control::wire::{Key, Message};
use weir_control::{
    EpochNotice, FabricBroker, FabricBrokerConfig, FabricInput, FabricOutput, INTERVALS, Input, LimitRule,
    MeterReading, Output, RackBroker, RackBrokerConfig, Stale,
};
use weir_policy::Policy;
use weir_scenario::{BrokerSet, BrokerSettings};
use weir_units::{Duration, Instant, MachineId, SimTime};

/// The key that tags simulated datagrams. A simulation has no attackers, so the key only has to be
/// nonzero.
const KEY: [u8; 32] = *b"the simulated network's only key";

/// Datagrams that brokers exchanged over the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exchange {
    /// Datagrams sent.
    pub sent: u64,
    /// Their bytes, as frames.
    pub bytes: u64,
    /// Datagrams that arrived.
    pub received: u64,
    /// Datagrams that arrived and could not be read.
    pub refused: u64,
    /// Datagrams that arrived at a host whose broker had crashed.
    pub unreceived: u64,
}

/// The timer of a broker or of a machine's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A machine's rack broker.
    Rack(usize),
    /// The fabric broker.
    Fabric,
    /// A machine's limits, which expire.
    Limits(usize),
}

/// A broker on every machine and one for the fabric. Call [`Brokers::next_timeout`] for when to
/// call [`Brokers::on_time`], and [`Brokers::on_delivery`] for every datagram that arrives.
#[derive(Debug)]
pub struct Brokers {
    policy: Arc<Policy>,
    indices: ServiceIndices,
    key: Key,
    config: RackBrokerConfig,
    machines: Vec<Machine>,
    /// The host of the fabric broker.
    fabric_machine: usize,
    /// `None` after a crash.
    fabric: Option<FabricBroker>,
    fabric_epoch: u64,
    due: BTreeSet<(Instant, Timer)>,
    exchange: Exchange,
}

impl Brokers {
    /// Brokers for all machines of a policy, whose hosts have the machines' ids. The static limits
    /// of the machines' interfaces are in force from now on.
    pub fn new<O: Observer>(
        policy: &Arc<Policy>,
        settings: &BrokerSettings,
        rng: &mut StdRng,
        world: &mut World<O>,
    ) -> Self {
        let config = rack_config(settings);
        let start = world.now().instant();
        let indices = ServiceIndices::new(policy);
        let machine = |host: u32| {
            let phase = Duration::from_nanos(rng.random_range(0..config.period.nanos().max(1)));
            let broker = RackBroker::new(policy, MachineId(host), 1, config, start + phase);
            Machine::new(HostId(host), broker, config.rule)
        };
        let machines: Vec<Machine> = (0..policy.network().machines().len() as u32).map(machine).collect();
        let mut backend = Self {
            policy: Arc::clone(policy),
            indices,
            key: Key::new(KEY).expect("the key is not zero"),
            config,
            machines,
            fabric_machine: settings.fabric.index(),
            fabric: Some(FabricBroker::new(policy, 1, fabric_config(&config), start)),
            fabric_epoch: 1,
            due: BTreeSet::new(),
            exchange: Exchange::default(),
        };
        for index in 0..backend.machines.len() {
            backend.due.extend(backend.timeout_of(Timer::Rack(index)).map(|at| (at, Timer::Rack(index))));
            backend.machines[index].apply((policy, &backend.indices), world);
        }
        backend.due.extend(backend.timeout_of(Timer::Fabric).map(|at| (at, Timer::Fabric)));
        backend
    }

    /// The time at which the next broker is due.
    pub fn next_timeout(&self) -> Option<SimTime> {
        self.due.first().map(|&(at, _)| at.into())
    }

    /// The time at which a timer is due.
    fn timeout_of(&self, timer: Timer) -> Option<Instant> {
        match timer {
            Timer::Rack(index) => self.machines[index].broker.as_ref()?.poll_timeout(),
            Timer::Fabric => self.fabric.as_ref()?.poll_timeout(),
            Timer::Limits(index) => self.machines[index].until,
        }
    }

    /// Keeps [`Brokers::due`] up to date: `before` is the time at which `timer` was due.
    fn reschedule(&mut self, timer: Timer, before: Option<Instant>) {
        let after = self.timeout_of(timer);
        if before != after {
            if let Some(at) = before {
                self.due.remove(&(at, timer));
            }
            self.due.extend(after.map(|at| (at, timer)));
        }
    }

    /// Runs the brokers that are due.
    pub fn on_time<O: Observer>(&mut self, world: &mut World<O>) {
        let now = world.now().instant();
        while let Some(&(at, timer)) = self.due.first()
            && at <= now
        {
            match timer {
                Timer::Rack(index) => self.handle(index, Input::Timeout, world),
                Timer::Fabric => self.handle_fabric(FabricInput::Timeout, world),
                Timer::Limits(index) => {
                    self.machines[index].reset((&self.policy, &self.indices), world);
                    self.reschedule(timer, Some(at));
                }
            }
            if self.due.first() == Some(&(at, timer)) {
                // A broker that does not advance its timeout would stop time.
                self.due.remove(&(at, timer));
            }
        }
    }

    /// Passes a datagram to the broker of the host that it arrived at.
    pub fn on_delivery<O: Observer>(&mut self, delivery: &Delivery, world: &mut World<O>) {
        self.exchange.received += 1;
        match weir_control::wire::decode(&delivery.bytes, &self.key) {
            Ok(message) => self.take(delivery.to.index(), &message, world),
            Err(_) => self.exchange.refused += 1,
        }
    }

    /// Passes a message to the brokers of a machine.
    fn take<O: Observer>(&mut self, index: usize, message: &Message, world: &mut World<O>) {
        if let Some(input) = message.rack_input() {
            self.handle(index, input, world);
        } else if let Some(input) = message.fabric_input() {
            self.handle_fabric(input, world);
        }
    }

    fn handle<O: Observer>(&mut self, index: usize, input: Input<'_>, world: &mut World<O>) {
        let before = self.timeout_of(Timer::Rack(index));
        match &mut self.machines[index].broker {
            Some(broker) => broker.handle_input(world.now().instant(), input),
            None => self.exchange.unreceived += 1,
        }
        while let Some(output) = self.machines[index].broker.as_mut().and_then(RackBroker::poll_output) {
            self.carry_out(index, output, world);
        }
        self.reschedule(Timer::Rack(index), before);
    }

    fn handle_fabric<O: Observer>(&mut self, input: FabricInput<'_>, world: &mut World<O>) {
        let before = self.timeout_of(Timer::Fabric);
        match &mut self.fabric {
            Some(fabric) => fabric.handle_input(world.now().instant(), input),
            None => self.exchange.unreceived += 1,
        }
        while let Some(output) = self.fabric.as_mut().and_then(FabricBroker::poll_output) {
            let (to, message) = match output {
                FabricOutput::NotifyEpoch(notice) => {
                    self.notify(self.fabric_machine, &notice, world);
                    continue;
                }
                FabricOutput::StoreEpoch(epoch) => {
                    self.fabric_epoch = epoch;
                    continue;
                }
                FabricOutput::SendLimits { to, limits } => (to, limits.into()),
                FabricOutput::Propose { to, limits } => (to, Message::Proposal(limits)),
            };
            self.send(self.fabric_machine, to.index(), &message, world);
        }
        self.reschedule(Timer::Fabric, before);
    }

    fn carry_out<O: Observer>(&mut self, index: usize, output: Output, world: &mut World<O>) {
        let now = world.now().instant();
        match output {
            Output::ReadMeters => {
                let host = self.machines[index].host;
                let reading = |(service, service_index)| MeterReading {
                    service,
                    bytes: world.host_bytes(host, service_index),
                    waits: world.waiting(host, service_index) > 0,
                    network: world.network_reading(host, service_index),
                };
                let readings: Vec<MeterReading> = self.indices.iter().map(reading).collect();
                if let Some(broker) = &mut self.machines[index].broker {
                    broker.handle_input(now, Input::Meters(&readings));
                }
            }
            Output::Broadcast(report) => self.broadcast(index, &report.into(), world),
            Output::Relay(relay) => self.broadcast(index, &relay.into(), world),
            Output::ShutOut(notice) => self.broadcast(index, &notice.into(), world),
            Output::NotifyEpoch(notice) => self.notify(index, &notice, world),
            Output::FabricEpoch(notice) => self.broadcast(index, &Message::FabricEpoch(notice), world),
            Output::StoreEpoch(epoch) => self.machines[index].epoch = epoch,
            Output::ReportRack(report) => self.send(index, self.fabric_machine, &report.into(), world),
            Output::ReplyRack(reply) => self.send(index, self.fabric_machine, &Message::Reply(reply), world),
            Output::SetLimits(limits) => {
                let before = self.machines[index].until;
                let until = now + self.config.timeout;
                self.machines[index].set(&limits, until, (&self.policy, &self.indices), world);
                self.reschedule(Timer::Limits(index), before);
            }
        }
    }

    /// Sends a message to the other machines of the rack.
    fn broadcast<O: Observer>(&mut self, index: usize, message: &Message, world: &mut World<O>) {
        let bytes: Arc<[u8]> = weir_control::wire::encode(message, &self.key).into();
        let policy = Arc::clone(&self.policy);
        let network = policy.network();
        let rack = network.machine(MachineId(index as u32)).rack();
        for peer in network.rack(rack).machines().iter().filter(|peer| peer.index() != index) {
            self.put_on_wire(index, peer.index(), Arc::clone(&bytes), world);
        }
    }

    /// Sends a notice to the machine that it names, or to the one of the fabric broker.
    fn notify<O: Observer>(&mut self, from: usize, notice: &EpochNotice, world: &mut World<O>) {
        let to = notice.to.map_or(self.fabric_machine, |machine| machine.index());
        self.send(from, to, &(*notice).into(), world);
    }

    /// Sends a message to one machine.
    fn send<O: Observer>(&mut self, from: usize, to: usize, message: &Message, world: &mut World<O>) {
        if from == to {
            self.take(to, message, world);
        } else {
            self.put_on_wire(from, to, weir_control::wire::encode(message, &self.key).into(), world);
        }
    }

    fn put_on_wire<O: Observer>(&mut self, from: usize, to: usize, bytes: Arc<[u8]>, world: &mut World<O>) {
        self.exchange.sent += 1;
        self.exchange.bytes += u64::from(UDP_OVERHEAD) + bytes.len() as u64;
        world.send_datagram(self.machines[from].host, self.machines[to].host, bytes);
    }

    /// Puts another policy for the same machines and services in force, at all running brokers.
    pub fn set_policy<O: Observer>(&mut self, policy: &Arc<Policy>, world: &mut World<O>) {
        self.policy = Arc::clone(policy);
        let same = "a scenario changes a policy's values, not its names";
        for machine in &mut self.machines {
            if let Some(broker) = &mut machine.broker {
                broker.set_policy(policy).expect(same);
            }
            machine.set_policy(policy);
            machine.apply((policy, &self.indices), world);
        }
        if let Some(fabric) = &mut self.fabric {
            fabric.set_policy(policy).expect(same);
        }
    }

    /// Stops brokers.
    pub fn crash(&mut self, brokers: &BrokerSet) {
        for index in brokers.machines.iter().map(|machine| machine.index()) {
            let before = self.timeout_of(Timer::Rack(index));
            self.machines[index].broker = None;
            self.reschedule(Timer::Rack(index), before);
        }
        if brokers.fabric {
            let before = self.timeout_of(Timer::Fabric);
            self.fabric = None;
            self.reschedule(Timer::Fabric, before);
        }
    }

    /// Starts brokers; a running broker starts anew.
    pub fn restart(&mut self, brokers: &BrokerSet, now: Instant) {
        for &machine in &brokers.machines {
            let index = machine.index();
            let before = self.timeout_of(Timer::Rack(index));
            let of = &mut self.machines[index];
            of.epoch += 1;
            let mut broker = RackBroker::new(&self.policy, machine, of.epoch, self.config, now);
            if of.until.is_some() {
                broker.resume(&of.in_force(&self.policy, &self.indices));
            }
            of.broker = Some(broker);
            self.reschedule(Timer::Rack(index), before);
        }
        if brokers.fabric {
            let before = self.timeout_of(Timer::Fabric);
            self.fabric_epoch += 1;
            self.fabric = Some(FabricBroker::new(&self.policy, self.fabric_epoch, fabric_config(&self.config), now));
            self.reschedule(Timer::Fabric, before);
        }
    }

    /// Counts of the datagrams that brokers exchanged.
    pub fn exchange(&self) -> Exchange {
        self.exchange
    }
}

/// The rack brokers' timing and rules.
fn rack_config(settings: &BrokerSettings) -> RackBrokerConfig {
    let (rule, intervals) = match settings.rule {
        weir_scenario::BrokerRule::Ceilings => (LimitRule::Ceilings, INTERVALS),
        weir_scenario::BrokerRule::Published => (LimitRule::Backlogged, 1),
    };
    RackBrokerConfig {
        period: settings.period,
        interval: Duration::from_nanos(settings.period.nanos() / intervals),
        rule,
        timeout: settings.timeout,
        stale: match settings.stale {
            weir_scenario::Stale::Keep => Stale::Keep,
            weir_scenario::Stale::Forget => Stale::Forget,
        },
        fabric_period: settings.fabric_period,
        fabric_timeout: settings.fabric_timeout,
    }
}

/// The fabric broker's timing.
fn fabric_config(config: &RackBrokerConfig) -> FabricBrokerConfig {
    let intervals = config.period.nanos() / config.interval.nanos().max(1);
    FabricBrokerConfig {
        period: config.fabric_period,
        interval: Duration::from_nanos(config.fabric_period.nanos() / intervals.max(1)),
        timeout: config.fabric_timeout,
        stale: config.stale,
        rule: config.rule,
    }
}
