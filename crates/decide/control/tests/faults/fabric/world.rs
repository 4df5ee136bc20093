//! The world of a fabric: events in time, and a driver for the brokers' outputs.

use super::checkers::Checkers;
use super::draw::{Drawn, FAULTY_SECONDS, MACHINES, PER_RACK, RACKS};
use super::node::{Broker, Clock, Flight, Node, SECOND, Traffic};
use crate::Observed;
use crate::world::in_force;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use weir_control::wire::{Key, Message};
use weir_control::{
    FabricBroker, FabricBrokerConfig, FabricInput, FabricOutput, Input, LimitRule, MeterReading, Output, RackBroker,
    RackBrokerConfig, Reach,
};
use weir_policy::Policy;
use weir_units::{Bandwidth, Direction, MachineId, PerDirection, RackId, ServiceId};

const MILLISECOND: u64 = 1_000_000;
/// The host of the fabric broker; the machines precede it.
pub(crate) const FABRIC: usize = MACHINES;
/// The time from the last fault until all machines of all racks have limits in force that were
/// computed from reports that all racks sent after it: two fabric periods. `leader.rs` derives it
/// from the brokers' periods.
pub(crate) const PROPAGATE_WITHIN_SECONDS: u64 = 20;
/// The time after the last fault until traffic complies. The limits in force by
/// [`PROPAGATE_WITHIN_SECONDS`] show each rack its shares under limits that were computed from all
/// reports. Usage under them changes which services are backlogged, and with them the demands of
/// the next reports: three more rounds, each of 10.2 s by a clock that runs 2 % slow, are 30.6 s.
/// The rest is for the changes that these cause in turn.
pub(crate) const COMPLY_WITHIN_SECONDS: u64 = 52;
/// Where queues before racks mark, limits that are final by then may fill a queue (with traffic of
/// a rack whose limits the last round was the first to lift), and throttled services report half
/// more. The next round shares those demands, and growth that follows is reported from above once
/// more: as it is, with the growth once more, with the maximum. Three more rounds of 10.2 s, and a
/// rack's period.
///
/// This is the latest time. A queue that starts to throttle is a change of load to the brokers, so
/// traffic complies also [`COMPLY_WITHIN_SECONDS`] after the last such start. This concerns only
/// traffic received through such a queue: sent traffic is not marked at all, and remote marks are
/// constant, as a steady load.
pub(crate) const COMPLY_MARKED_WITHIN_SECONDS: u64 = COMPLY_WITHIN_SECONDS + 32;

enum Event {
    Timer { node: usize, incarnation: u64 },
    Deliver(Flight),
    Crash,
    FabricCrash,
    Restart { node: usize },
    Partition,
    Heal,
    ShutOut,
    Reachable { machine: usize },
    Load,
    FaultsEnd,
    DatapathTimeout { machine: usize, incarnation: u64 },
}

pub(crate) struct World {
    pub(crate) policy: Arc<Policy>,
    pub(crate) config: RackBrokerConfig,
    pub(crate) nodes: Vec<Node>,
    pub(crate) traffic: Vec<Traffic>,
    pub(crate) leaves: Vec<ServiceId>,
    pub(crate) drawn: Drawn,
    pub(crate) now: u64,
    rng: SmallRng,
    /// Draws of lost epochs and of the notices about them, on its own: other worlds stay as they are.
    epoch_rng: SmallRng,
    /// Draws of machines that cannot reach the fabric broker for a while, on its own.
    reach_rng: SmallRng,
    /// By machine: whether it cannot reach the fabric broker now.
    shut_out: [bool; MACHINES],
    key: Key,
    faulty: bool,
    /// The last time that traffic changed its rates while the queue before a rack was full.
    full_at: [Option<u64>; RACKS],
    /// Datagrams recorded by an attacker.
    received: Vec<Arc<[u8]>>,
    events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    payloads: Vec<Option<Event>>,
    verbose: bool,
}

/// Runs one seed and returns the observed events or the failure.
pub(crate) fn run(seed: u64, verbose: bool) -> Result<Observed, String> {
    let mut world = World::new(seed, verbose);
    let mut checkers = Checkers::new(&world);
    let later = world.drawn.later_by_s();
    let at = |seconds: u64| (FAULTY_SECONDS + later + seconds) * SECOND;
    let complies_within = match world.drawn.marks.throttles() {
        false => COMPLY_WITHIN_SECONDS,
        true => COMPLY_MARKED_WITHIN_SECONDS,
    };
    let end = at(complies_within + 3);
    while let Some(Reverse((time, _, payload))) = world.events.pop() {
        if time > end {
            break;
        }
        world.now = time;
        let event = world.payloads[payload].take().expect("an event happens once");
        let with_time = |failure: String| format!("at {:.3} s: {failure}", time as f64 / 1e9);
        world.step(event, &mut checkers).map_err(with_time)?;
        if time > at(PROPAGATE_WITHIN_SECONDS) {
            checkers.propagation(&world).map_err(with_time)?;
        }
        if time > at(COMPLY_WITHIN_SECONDS) {
            checkers.compliance(&world, Direction::Tx).map_err(with_time)?;
        }
        let rx_from = match checkers.throttled_since() {
            Some(since) if world.drawn.marks.at_racks() => (since + COMPLY_WITHIN_SECONDS * SECOND)
                .clamp(at(COMPLY_WITHIN_SECONDS), at(COMPLY_MARKED_WITHIN_SECONDS)),
            _ => at(COMPLY_WITHIN_SECONDS),
        };
        if time > rx_from {
            checkers.compliance(&world, Direction::Rx).map_err(with_time)?;
        }
    }
    checkers.check_coverage(&world)
}

impl World {
    fn new(seed: u64, verbose: bool) -> Self {
        let drawn = Drawn::new(seed);
        let policy = drawn.policy();
        let leaves: Vec<ServiceId> = policy.services().leaves().map(|(id, _)| id).collect();
        let mut rng = SmallRng::seed_from_u64(seed ^ 0xfab_5eed);
        let skew = drawn.skew_per_mille * 1_000;
        let nodes = (0..=FABRIC).map(|_| Node {
            broker: None,
            clock: Clock {
                offset: rng.random_range(0..1_000_000 * SECOND),
                speed: rng.random_range(1_000_000 - skew..=1_000_000 + skew),
            },
            incarnation: 0,
            epoch: 0,
            partition: 0,
            crashed: None,
            inherited: PerDirection::default(),
            started: 0,
        });
        let nodes = nodes.collect();
        let mut world = Self {
            config: RackBrokerConfig { stale: drawn.stale, ..RackBrokerConfig::published() },
            nodes,
            traffic: (0..MACHINES).map(|_| Traffic::new(leaves.len(), drawn.marks)).collect(),
            leaves,
            policy,
            now: 0,
            rng,
            epoch_rng: SmallRng::seed_from_u64(seed ^ 0xe70c),
            reach_rng: SmallRng::seed_from_u64(seed ^ 0x4eac5),
            shut_out: drawn.shut_out,
            key: Key::new([9; 32]).expect("a key"),
            faulty: true,
            full_at: [None; RACKS],
            received: Vec::new(),
            events: BinaryHeap::new(),
            payloads: Vec::new(),
            verbose,
            drawn,
        };
        for node in 0..=FABRIC {
            let at = world.rng.random_range(0..SECOND);
            world.schedule(at, Event::Restart { node });
        }
        for machine in 0..MACHINES {
            (0..world.leaves.len()).for_each(|leaf| world.draw_load(machine, leaf));
        }
        world.schedule(FAULTY_SECONDS * SECOND, Event::FaultsEnd);
        world.schedule_next(world.drawn.load_every_ms, Event::Load);
        world.schedule_next(world.drawn.crash_every_s * 1_000, Event::Crash);
        world.schedule_next(world.drawn.fabric_crash_every_s * 1_000, Event::FabricCrash);
        world.schedule_next(world.drawn.partition_every_s * 1_000, Event::Partition);
        world.schedule_shut_out();
        world
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.payloads.push(Some(event));
        let payload = self.payloads.len() - 1;
        self.events.push(Reverse((at, payload as u64, payload)));
    }

    /// Schedules an event at a random time with a mean of `mean_ms` from now; never if zero.
    fn schedule_next(&mut self, mean_ms: u64, event: Event) {
        if mean_ms > 0 {
            let at = self.now + self.rng.random_range(0..2 * mean_ms) * MILLISECOND;
            self.schedule(at, event);
        }
    }

    /// Schedules the next machine that cannot reach the fabric broker.
    fn schedule_shut_out(&mut self) {
        let mean_ms = self.drawn.shut_out_every_s * 1_000;
        if mean_ms > 0 {
            let at = self.now + self.reach_rng.random_range(0..2 * mean_ms) * MILLISECOND;
            self.schedule(at, Event::ShutOut);
        }
    }

    /// A machine cannot reach the fabric broker for up to 60 s: longer than limits hold.
    fn shut_out_one(&mut self) {
        let machine = self.reach_rng.random_range(0..MACHINES);
        self.shut_out[machine] = true;
        self.log(|| format!("{} cannot reach the fabric broker", name(machine)));
        let until = self.now + self.reach_rng.random_range(0..60 * SECOND);
        self.schedule(until, Event::Reachable { machine });
        self.schedule_shut_out();
    }

    /// Whether a machine can reach the fabric broker, as its session shows: it tries only while the machine leads, and
    /// its last result stays.
    fn reach(&self, machine: usize, broker: &RackBroker) -> Option<Reach> {
        match self.shut_out[machine] {
            true if self.drawn.shut_out[machine] && self.drawn.without_session[machine] => Some(Reach::Never),
            true => broker.leads().then_some(Reach::Trying),
            false => Some(Reach::Able),
        }
    }

    fn log(&self, text: impl FnOnce() -> String) {
        if self.verbose {
            println!("{:>10.6} s  {}", self.now as f64 / 1e9, text());
        }
    }

    fn draw_load(&mut self, machine: usize, leaf: usize) {
        self.traffic[machine].count(self.now);
        for direction in Direction::ALL {
            let most = [0, 1_000, 10_000, 10_000][self.rng.random_range(0..4)];
            let load = Bandwidth::from_mbps(self.rng.random_range(0..=most));
            self.traffic[machine].offered[direction][leaf] = load;
        }
        self.flow(machine / PER_RACK);
    }

    fn is_full(&self, rack: usize) -> bool {
        self.traffic[rack * PER_RACK..(rack + 1) * PER_RACK].iter().any(Traffic::is_throttled)
    }

    /// Whether a queue before a rack throttled any service without visible marks since the bound on
    /// compliance started.
    pub(crate) fn had_hidden_overload_recently(&self) -> bool {
        let recently = |at: u64| self.now - at < COMPLY_WITHIN_SECONDS * SECOND;
        let hidden = |rack: usize| !self.drawn.marks.reveal_overload(&self.policy, RackId(rack as u32));
        (0..RACKS).any(|rack| hidden(rack) && (self.is_full(rack) || self.full_at[rack].is_some_and(recently)))
    }

    /// Recomputes the rates of a rack's traffic after a load or a limit changed.
    fn flow(&mut self, rack: usize) {
        if self.is_full(rack) {
            self.full_at[rack] = Some(self.now);
        }
        let leaves = 0..self.leaves.len();
        let traffic = &mut self.traffic[rack * PER_RACK..(rack + 1) * PER_RACK];
        let wanted = |traffic: &Traffic| leaves.clone().map(|leaf| traffic.wanted(Direction::Rx, leaf)).collect();
        let wanted: Vec<Vec<Bandwidth>> = traffic.iter().map(wanted).collect();
        let arrivals = self.drawn.marks.arrivals(&self.policy, RackId(rack as u32), wanted);
        traffic.iter_mut().zip(arrivals).for_each(|(traffic, arrival)| traffic.receive(self.now, arrival));
    }

    fn step(&mut self, event: Event, checkers: &mut Checkers) -> Result<(), String> {
        match event {
            Event::Timer { node, incarnation } => {
                if self.nodes[node].incarnation == incarnation && self.nodes[node].broker.is_some() {
                    self.drive(node, None, checkers)?;
                }
            }
            Event::Deliver(flight) => {
                if self.nodes[flight.to].broker.is_some() && !self.is_cut_off(&flight) {
                    let message =
                        weir_control::wire::decode(&flight.bytes, &self.key).map_err(|error| error.to_string())?;
                    self.drive(flight.to, Some(message), checkers)?;
                }
            }
            Event::Crash if self.faulty => {
                let machine = self.rng.random_range(0..MACHINES);
                self.crash(machine, 6_000);
                self.schedule_next(self.drawn.crash_every_s * 1_000, Event::Crash);
            }
            Event::FabricCrash if self.faulty => {
                self.crash(FABRIC, self.drawn.fabric_away_s * 1_000);
                self.schedule_next(self.drawn.fabric_crash_every_s * 1_000, Event::FabricCrash);
            }
            Event::Restart { node } => {
                if self.nodes[node].broker.is_none() {
                    self.restart(node, checkers)?;
                }
            }
            Event::Partition if self.faulty => {
                let sides = self.rng.random_range(2..4);
                self.nodes.iter_mut().for_each(|node| node.partition = self.rng.random_range(0..sides));
                self.log(|| "the network is partitioned".to_owned());
                self.schedule_next(8_000, Event::Heal);
                self.schedule_next(self.drawn.partition_every_s * 1_000, Event::Partition);
            }
            Event::Heal => self.nodes.iter_mut().for_each(|node| node.partition = 0),
            Event::Load if self.faulty => {
                let (machine, leaf) = (self.rng.random_range(0..MACHINES), self.rng.random_range(0..self.leaves.len()));
                self.draw_load(machine, leaf);
                self.schedule_next(self.drawn.load_every_ms, Event::Load);
            }
            Event::ShutOut if self.faulty => self.shut_out_one(),
            Event::Reachable { machine } => self.shut_out[machine] = self.drawn.shut_out[machine],
            Event::FaultsEnd => {
                self.log(|| "faults end".to_owned());
                self.faulty = false;
                self.shut_out = self.drawn.shut_out;
                for node in 0..=FABRIC {
                    self.nodes[node].partition = 0;
                    if self.nodes[node].broker.is_none() {
                        self.restart(node, checkers)?;
                    }
                }
            }
            Event::DatapathTimeout { machine, incarnation } => {
                let node = &self.nodes[machine];
                if node.incarnation == incarnation && node.broker.is_none() {
                    self.traffic[machine].count(self.now);
                    let leaves = self.leaves.len();
                    self.traffic[machine].limits = PerDirection::both(vec![Bandwidth::UNLIMITED; leaves]);
                    self.flow(machine / PER_RACK);
                }
            }
            Event::Crash | Event::FabricCrash | Event::Partition | Event::ShutOut | Event::Load => {}
        }
        Ok(())
    }

    fn crash(&mut self, node: usize, away_ms: u64) {
        if self.nodes[node].broker.take().is_none() {
            return;
        }
        self.log(|| format!("{} crashes", name(node)));
        self.nodes[node].crashed = Some(self.now);
        let incarnation = self.nodes[node].incarnation;
        if node != FABRIC {
            let at = self.now + self.config.timeout.nanos();
            self.schedule(at, Event::DatapathTimeout { machine: node, incarnation });
        }
        self.schedule_next(away_ms, Event::Restart { node });
    }

    fn restart(&mut self, node: usize, checkers: &mut Checkers) -> Result<(), String> {
        let policy = Arc::clone(&self.policy);
        let local = self.nodes[node].clock.local(self.now);
        let n = &mut self.nodes[node];
        n.incarnation += 1;
        n.started = self.now;
        // The clock may have gone back while the host was down; the stored number must not.
        n.epoch = (n.epoch + 1).max(local.nanos());
        if self.epoch_rng.random_bool(self.drawn.state_lost) {
            // Restored from a backup, or lost by a host whose clock was ahead before.
            n.epoch = self.epoch_rng.random_range(1..=n.epoch);
        }
        n.broker = Some(if node == FABRIC {
            let config = FabricBrokerConfig {
                stale: self.drawn.stale,
                rule: LimitRule::Backlogged,
                ..FabricBrokerConfig::default()
            };
            Broker::Fabric(Box::new(FabricBroker::new(&policy, n.epoch, config, local)))
        } else {
            let mut broker = RackBroker::new(&policy, MachineId(node as u32), n.epoch, self.config, local);
            if n.crashed.take().is_some_and(|at| self.now - at < self.config.timeout.nanos()) {
                n.inherited = self.traffic[node].limits.clone();
                broker.resume(&in_force(&n.inherited));
            }
            Broker::Rack(Box::new(broker))
        });
        self.log(|| format!("{} starts", name(node)));
        checkers.restarted(node);
        self.drive(node, None, checkers)
    }

    /// Handles an input (a message, or a timeout), then all outputs, then the next timer.
    fn drive(&mut self, node: usize, message: Option<Message>, checkers: &mut Checkers) -> Result<(), String> {
        let mut broker = self.nodes[node].broker.take().expect("the broker is present");
        let local = self.nodes[node].clock.local(self.now);
        let next = match &mut broker {
            Broker::Rack(rack) => {
                match &message {
                    None => {
                        if let Some(reach) = self.reach(node, rack) {
                            rack.handle_input(local, Input::Reach(reach));
                        }
                        // A notice that follows at once is not lost with the next interval.
                        while let Some(output) = rack.poll_output() {
                            self.carry_out(node, rack, output, checkers)?;
                        }
                        rack.handle_input(local, Input::Timeout);
                    }
                    Some(message) => match message.rack_input() {
                        Some(input) => rack.handle_input(local, input),
                        None => return Err(self.restore(node, broker, "a rack report at a machine")),
                    },
                }
                while let Some(output) = rack.poll_output() {
                    let repeats = matches!(message, Some(Message::EpochNotice(_)));
                    match output {
                        Output::Broadcast(report) if repeats => self.broadcast(node, &report.into()),
                        output => self.carry_out(node, rack, output, checkers)?,
                    }
                }
                checkers.step(node, rack)?;
                rack.poll_timeout()
            }
            Broker::Fabric(fabric) => {
                let round = fabric.round();
                match &message {
                    None => fabric.handle_input(local, FabricInput::Timeout),
                    // Old datagrams are replayed to any node.
                    Some(message) => match message.fabric_input() {
                        Some(input) => {
                            let accepted = fabric.counters().accepted;
                            fabric.handle_input(local, input);
                            let is_new = fabric.counters().accepted > accepted;
                            if let (FabricInput::Report(report), false, true) = (input, self.faulty, is_new) {
                                checkers.report_delivered(report.machine.index());
                            }
                        }
                        None => return Err(self.restore(node, broker, "a rack's message at the fabric broker")),
                    },
                }
                if fabric.round() != round {
                    checkers.allocated(self, fabric)?;
                }
                while let Some(output) = fabric.poll_output() {
                    self.carry_out_of_fabric(output, checkers);
                }
                checkers.fabric_step(fabric)?;
                fabric.poll_timeout()
            }
        };
        let next = next.ok_or("a broker without a next period")?;
        // The fabric broker may be due at once.
        if next < local || (next == local && node != FABRIC) {
            return Err(format!("{} has its next period at {next}, which is not after {local}", name(node)));
        }
        self.nodes[node].broker = Some(broker);
        // A message can bring the fabric broker's next step forward; its earlier timers do nothing.
        if message.is_none() || node == FABRIC {
            let at = self.nodes[node].clock.global(next).max(self.now + 1);
            let incarnation = self.nodes[node].incarnation;
            self.schedule(at, Event::Timer { node, incarnation });
        }
        Ok(())
    }

    fn carry_out_of_fabric(&mut self, output: FabricOutput, checkers: &mut Checkers) {
        match output {
            FabricOutput::NotifyEpoch(notice) => self.notify(FABRIC, Message::EpochNotice(notice)),
            FabricOutput::StoreEpoch(epoch) => self.nodes[FABRIC].epoch = epoch,
            FabricOutput::SendLimits { to, limits } => {
                checkers.limits_sent(self.now, &limits);
                self.send(FABRIC, to.index(), &limits.into());
            }
            FabricOutput::Propose { to, limits } => {
                self.log(|| format!("the fabric broker proposes {:?} to {}", limits.rows, name(to.index())));
                self.send(FABRIC, to.index(), &Message::Proposal(limits));
            }
        }
    }

    fn is_cut_off(&self, flight: &Flight) -> bool {
        let shut_out = |node: usize| self.shut_out.get(node).is_some_and(|shut_out| *shut_out);
        let to_or_from_fabric = flight.to == FABRIC || flight.from == FABRIC;
        self.nodes[flight.to].partition != self.nodes[flight.from].partition
            || (to_or_from_fabric && (shut_out(flight.to) || shut_out(flight.from)))
    }

    fn restore(&mut self, node: usize, broker: Broker, failure: &str) -> String {
        self.nodes[node].broker = Some(broker);
        failure.to_owned()
    }

    fn carry_out(
        &mut self,
        machine: usize,
        rack: &mut RackBroker,
        output: Output,
        checkers: &mut Checkers,
    ) -> Result<(), String> {
        let local = self.nodes[machine].clock.local(self.now);
        match output {
            Output::ReadMeters => {
                self.traffic[machine].count(self.now);
                let traffic = &self.traffic[machine];
                let reading = |(leaf, service): (usize, &ServiceId)| {
                    let network = traffic.network(leaf);
                    checkers.read(machine, leaf, self.now, traffic.received(leaf), &network);
                    MeterReading { service: *service, bytes: traffic.bytes(leaf), waits: false, network }
                };
                let readings: Vec<MeterReading> = self.leaves.iter().enumerate().map(reading).collect();
                rack.handle_input(local, Input::Meters(&readings));
            }
            Output::Broadcast(report) => {
                checkers.reported(self.now, machine, &report)?;
                self.broadcast(machine, &report.into());
            }
            Output::Relay(relay) => self.broadcast(machine, &relay.into()),
            Output::ShutOut(notice) => self.broadcast(machine, &notice.into()),
            Output::NotifyEpoch(notice) => self.notify(machine, Message::EpochNotice(notice)),
            Output::FabricEpoch(notice) => self.notify(machine, Message::FabricEpoch(notice)),
            Output::StoreEpoch(epoch) => {
                self.log(|| format!("{} continues in epoch {epoch}", name(machine)));
                self.nodes[machine].epoch = epoch;
            }
            Output::ReportRack(report) => {
                self.log(|| format!("{} reports {:?}", name(machine), report.rows));
                self.send(machine, FABRIC, &report.into());
            }
            Output::ReplyRack(reply) => self.send(machine, FABRIC, &Message::Reply(reply)),
            Output::SetLimits(limits) => {
                self.traffic[machine].count(self.now);
                for limit in &limits {
                    let leaf = self.leaves.iter().position(|id| *id == limit.service).ok_or("a limit of no leaf")?;
                    self.traffic[machine].limits[limit.direction][leaf] = limit.limit;
                }
                self.flow(machine / PER_RACK);
                checkers.limited(self, machine, rack, &limits)?;
            }
        }
        Ok(())
    }

    fn broadcast(&mut self, from: usize, message: &Message) {
        let rack = from / PER_RACK;
        debug_assert!(rack < RACKS);
        for peer in (rack * PER_RACK..(rack + 1) * PER_RACK).filter(|peer| *peer != from) {
            self.send(from, peer, message);
        }
    }

    fn send(&mut self, from: usize, to: usize, message: &Message) {
        let bytes: Arc<[u8]> = weir_control::wire::encode(message, &self.key).into();
        let faulty = self.faulty;
        let mut chance = |p: f64| faulty && self.rng.random_bool(p);
        let (lost, twice, replayed) =
            (chance(self.drawn.loss), chance(self.drawn.duplication), chance(self.drawn.replay));
        for _ in 0..u64::from(!lost) + u64::from(twice) {
            self.deliver(to, from, Arc::clone(&bytes));
        }
        if replayed && !self.received.is_empty() {
            let old = Arc::clone(&self.received[self.rng.random_range(0..self.received.len())]);
            // Only to nodes that handle this kind of message: rejection is tested elsewhere.
            let is_report = matches!(old[5], 3 | 6);
            if is_report == (to == FABRIC) {
                self.deliver(to, from, old);
            }
        }
        if self.drawn.replay > 0.0 {
            self.received.push(bytes);
        }
    }

    /// Sends a notice about an epoch.
    fn notify(&mut self, from: usize, message: Message) {
        let to: Vec<usize> = match &message {
            Message::EpochNotice(notice) => vec![notice.to.map_or(FABRIC, |machine| machine.index())],
            _ => (0..MACHINES).filter(|peer| *peer != from && peer / PER_RACK == from / PER_RACK).collect(),
        };
        let bytes: Arc<[u8]> = weir_control::wire::encode(&message, &self.key).into();
        let (longest, end) = (if self.faulty { self.drawn.delay_ms } else { 1 }, FAULTY_SECONDS * SECOND);
        for to in to {
            let lost = self.faulty && self.epoch_rng.random_bool(self.drawn.loss);
            let twice = self.faulty && self.epoch_rng.random_bool(self.drawn.duplication);
            for _ in 0..u64::from(!lost) + u64::from(twice) {
                let at = self.now + self.epoch_rng.random_range(0..=longest * MILLISECOND);
                if !self.faulty || at < end {
                    self.schedule(at, Event::Deliver(Flight { to, from, bytes: Arc::clone(&bytes) }));
                }
            }
        }
    }

    fn deliver(&mut self, to: usize, from: usize, bytes: Arc<[u8]>) {
        let longest = if self.faulty { self.drawn.delay_ms } else { 1 };
        let at = self.now + self.rng.random_range(0..=longest * MILLISECOND);
        // Datagrams from before the end of the faults do not arrive after it: a delay is a fault
        // too.
        if !self.faulty || at < FAULTY_SECONDS * SECOND {
            self.schedule(at, Event::Deliver(Flight { to, from, bytes }));
        }
    }
}

pub(crate) fn name(node: usize) -> String {
    if node == FABRIC { "the fabric broker".to_owned() } else { format!("m{}", node + 1) }
}
