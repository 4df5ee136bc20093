//! The world of one rack: machines with their own traffic and clocks, a network with faults, and
//! time.
//!
//! Traffic is a fluid: a service sends at the lower of its offered load and its limit, and receives
//! the part of that which the network delivers ([`crate::network`]). A machine whose broker crashed
//! keeps its limits for the timeout and then falls back to its static policy: the longest time that
//! a datapath may enforce a dead broker's rates. (The limits of this version's agent end at once
//! with it, which is the milder case for the other machines.)

use crate::checkers::Checkers;
use crate::compliance::SAME;
use crate::draw::{Drawn, FAULTY_SECONDS, MACHINES};
use crate::network::{Arrival, Marks};
use crate::{Late, Observed};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use weir_alloc::RackAllocator;
use weir_control::rack_broker::static_limits;
use weir_control::wire::{Key, Message};
use weir_control::{EpochNotice, Input, LimitRule, MeterReading, Output, RackBroker, RackBrokerConfig, UsageReport};
use weir_policy::Policy;
use weir_units::{Bandwidth, Bytes, Direction, Instant, MachineId, PerDirection, RackId, ServiceId};

const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;
/// The time from the last fault until all machines have the reports that the others sent after it,
/// and apply them. Two periods, until the last report is sent and until the last machine computes,
/// by clocks that run up to 2 % slow; and a delivery.
pub(crate) const PROPAGATE_WITHIN: u64 = 2_045 * MILLISECOND;
/// The same where epochs go down: one more period. The last notice may have been lost just before the last fault, and
/// the next one follows the first report after three quarters of a period, at which the machine reports again at once.
const PROPAGATE_WITHIN_OF_LOWER_EPOCHS: u64 = PROPAGATE_WITHIN + 1_025 * MILLISECOND;
/// The time after that until all shares are equal and traffic complies with them, in almost all
/// worlds. Two periods carry the last changes of load to all machines and a limit's effect back into
/// a demand, twice over, since a limit that is lifted or set can change another service's share; one
/// more for clock skew, and the timeout of a machine in fallback. Four more serve racks whose machines
/// receive at their interfaces' capacity, where a limit at one service changes another's in the same
/// machine first.
///
/// A world that needs more time must approach agreement: machines differ by no more than the last
/// step of the shares, and steps do not grow ([`crate::steps`]), until [`latest`].
pub(crate) const AGREE_WITHIN_SECONDS: u64 = 12;
/// A step takes one period in which its effect shows and one in which the others react, by clocks
/// that run up to 2 % slow.
pub(crate) const LATE_STEP: u64 = 2_045 * MILLISECOND;

/// The periods in which a margin at a contended uplink goes (`rack_broker/margin.rs`): it halves five times, and a
/// sixth period shows that.
const MARGIN_SECONDS: u64 = 6;

/// The time until almost all worlds agree. The rule of this version adds a margin to demands at a contended uplink,
/// which moves shares until it has gone; then a service that it displaced may grow, and has a margin of its own.
fn agree_within(rule: LimitRule) -> u64 {
    match rule {
        LimitRule::Backlogged => AGREE_WITHIN_SECONDS,
        LimitRule::Ceilings => AGREE_WITHIN_SECONDS + 2 * MARGIN_SECONDS,
    }
}

/// The time by which shares agree in all worlds.
///
/// By the published rule they approach each other in steps. At n machines an error of a share becomes (n - 1) / n of it
/// in a step ([`crate::steps`]; all n only where the loads leave the uplink no room at all), so a step is an nth of the
/// error. An error is an interface's rate at most, and shares agree if a step is less than [`SAME`]: for ten machines
/// of 10 Gb/s after 66 steps, since 10^10 · 0.9^66 / 10 < 10^6, in 135 s.
///
/// By the rule of this version a service at a full interface counts as backlogged, so there is no such iteration. A
/// margin that goes may let an instance have all of its demand, which then has a margin itself, once: there are at most
/// as many margins as instances, one after the other. Seed 995 has four.
fn latest(world: &World) -> u64 {
    let end = (FAULTY_SECONDS + agree_within(world.config.rule)) * SECOND;
    if world.config.rule == LimitRule::Ceilings {
        return end + (MACHINES * world.leaves.len()) as u64 * MARGIN_SECONDS * SECOND;
    }
    let machines = MACHINES as u64;
    let nic = Direction::ALL.map(|direction| world.policy.machine_capacity(MachineId(0), direction).bps());
    let (mut error, mut steps) = (nic[0].max(nic[1]), 0);
    while error / machines >= SAME.bps() {
        error = error / machines * (machines - 1);
        steps += 1;
    }
    end + steps * LATE_STEP
}

/// A machine: its traffic continues with or without a broker.
pub(crate) struct Machine {
    pub(crate) broker: Option<RackBroker>,
    /// Starts of its broker so far, which identify stale timers.
    incarnation: u64,
    /// The last epoch, kept on disk.
    pub(crate) epoch: u64,
    clock_offset: u64,
    /// Speed of its clock in millionths.
    clock_speed: u64,
    partition: u8,
    dead_since: Option<u64>,
    pub(crate) offered: PerDirection<Vec<Bandwidth>>,
    pub(crate) limits: PerDirection<Vec<Bandwidth>>,
    /// The limits that the broker inherited at its start, and the time of that on its own clock.
    pub(crate) inherited: (PerDirection<Vec<Bandwidth>>, Instant),
    /// Bits × 10^9 sent and received so far, without rounding errors.
    counted: PerDirection<Vec<u128>>,
    /// The received part in marked packets.
    marked: Vec<u128>,
    counted_until: u64,
    marks: Marks,
    arrival: Arrival,
}

impl Machine {
    /// The time on the machine's own clock at `time`.
    pub(crate) fn local(&self, time: u64) -> Instant {
        Instant::from_nanos(self.clock_offset + (u128::from(time) * u128::from(self.clock_speed) / 1_000_000) as u64)
    }
    /// The first true time at which the machine's clock shows `local`.
    fn global(&self, local: Instant) -> u64 {
        let ticks = u128::from(local.nanos().saturating_sub(self.clock_offset));
        (ticks * 1_000_000).div_ceil(u128::from(self.clock_speed)) as u64
    }
    /// The rate at which a service would send or receive under its limit.
    fn wanted(&self, direction: Direction, leaf: usize) -> Bandwidth {
        self.offered[direction][leaf].min(self.limits[direction][leaf])
    }
    /// The rate at which a service sends, or is sent traffic: within its limits and its interface.
    pub(crate) fn sent(&self, direction: Direction, leaf: usize) -> Bandwidth {
        match direction {
            Direction::Tx => self.wanted(direction, leaf),
            Direction::Rx => self.arrival.sent[leaf],
        }
    }
    /// The rate at which a service sends, or receives: the delivered part.
    pub(crate) fn usage(&self, direction: Direction, leaf: usize) -> Bandwidth {
        match direction {
            Direction::Tx => self.wanted(direction, leaf),
            Direction::Rx => self.arrival.rates[leaf],
        }
    }
    fn count(&mut self, now: u64) {
        let time = u128::from(now - self.counted_until);
        self.counted_until = now;
        for direction in Direction::ALL {
            for leaf in 0..self.counted[direction].len() {
                let bits = u128::from(self.usage(direction, leaf).bps()) * time;
                self.counted[direction][leaf] += bits;
                if direction == Direction::Rx {
                    self.marked[leaf] += self.arrival.marked(leaf, bits);
                }
            }
        }
    }
}

enum Event {
    Timer { machine: usize, incarnation: u64 },
    Deliver { machine: usize, from: usize, datagram: Vec<u8> },
    Crash,
    Restart { machine: usize },
    Partition,
    Heal,
    Load,
    FaultsEnd,
    DatapathTimeout { machine: usize, incarnation: u64 },
}

pub(crate) struct World {
    pub(crate) policy: Arc<Policy>,
    pub(crate) config: RackBrokerConfig,
    pub(crate) machines: Vec<Machine>,
    pub(crate) leaves: Vec<ServiceId>,
    /// By machine: the limits of its static policy.
    pub(crate) fallback: Vec<PerDirection<Vec<Bandwidth>>>,
    drawn: Drawn,
    rng: SmallRng,
    key: Key,
    pub(crate) now: u64,
    faulty: bool,
    /// The last time that traffic changed its rates while the queue before the rack was full.
    full_at: Option<u64>,
    /// Datagrams recorded by an attacker.
    received: Vec<Vec<u8>>,
    /// Draws of lost epochs and of the notices about them, on its own: other worlds stay as they are.
    epoch_rng: SmallRng,
    /// Notices recorded by an attacker.
    notices: Vec<Vec<u8>>,
    events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    payloads: Vec<Option<Event>>,
    verbose: bool,
}

/// Runs one seed and returns the observed events or the failure.
pub(crate) fn run(seed: u64, verbose: bool) -> Result<Observed, String> {
    let mut world = World::new(seed, verbose);
    let mut checkers = Checkers::new(&world);
    let end = (FAULTY_SECONDS + agree_within(world.config.rule)) * SECOND;
    let (latest, is_published) = (latest(&world), world.config.rule == LimitRule::Backlogged);
    let propagates_within = match world.has_lower_epochs() {
        true => PROPAGATE_WITHIN_OF_LOWER_EPOCHS,
        false => PROPAGATE_WITHIN,
    };
    // A machine may be in the middle of a period at the end, so the last comparison is repeated.
    let mut until = end + 3 * SECOND;
    let (mut late, mut cycles) = (None, None);
    while let Some(Reverse((at, _, payload))) = world.events.pop() {
        if at > until {
            break;
        }
        world.now = at;
        let event = world.payloads[payload].take().expect("an event happens once");
        let with_time = |failure: String| format!("at {:.3} s: {failure}", at as f64 / 1e9);
        world.step(event, &mut checkers).map_err(with_time)?;
        if at > FAULTY_SECONDS * SECOND + propagates_within {
            checkers.propagation(&world).map_err(with_time)?;
        }
        if at <= end {
            continue;
        }
        match checkers.agreement(&world) {
            Err(disagreement) if at < latest => {
                if is_published {
                    checkers.contraction(&world).map_err(with_time)?;
                }
                late = Some(Late { at, last: disagreement });
                until = at + 3 * SECOND;
            }
            Err(disagreement) if !is_published && world.marks() != Marks::None => {
                checkers.receiving_cycles(&world).map_err(with_time)?;
                cycles = Some(disagreement);
            }
            agreed => agreed.map_err(with_time)?,
        }
    }
    let late = late.filter(|_| cycles.is_none());
    Ok(Observed { late, cycles, ..checkers.check_coverage(&world)? })
}

impl World {
    fn new(seed: u64, verbose: bool) -> Self {
        let drawn = Drawn::new(seed);
        let policy = drawn.policy();
        let leaves: Vec<ServiceId> = policy.services().leaves().map(|(id, _)| id).collect();
        let mut rng = SmallRng::seed_from_u64(seed ^ 0x5eed);
        let skew = drawn.skew_per_mille * 1_000;
        let machines = (0..MACHINES).map(|_| Machine {
            broker: None,
            incarnation: 0,
            epoch: 0,
            clock_offset: rng.random_range(0..1_000_000 * SECOND),
            clock_speed: rng.random_range(1_000_000 - skew..=1_000_000 + skew),
            partition: 0,
            dead_since: None,
            offered: PerDirection::both(vec![Bandwidth::ZERO; leaves.len()]),
            limits: PerDirection::both(vec![Bandwidth::UNLIMITED; leaves.len()]),
            inherited: (PerDirection::default(), Instant::ZERO),
            counted: PerDirection::both(vec![0; leaves.len()]),
            marked: vec![0; leaves.len()],
            counted_until: 0,
            marks: drawn.marks,
            arrival: Arrival::nothing(leaves.len()),
        });
        let config = drawn.config();
        let machines = machines.collect();
        let allocator = RackAllocator::new(&policy, RackId(0));
        let fallback = (0..MACHINES as u32)
            .map(|machine| by_direction(&static_limits(&allocator, MachineId(machine), config.rule)));
        let fallback = fallback.collect();
        let mut world = Self {
            policy,
            config,
            machines,
            leaves,
            fallback,
            drawn,
            rng,
            key: Key::new([9; 32]).expect("a key"),
            now: 0,
            faulty: true,
            full_at: None,
            received: Vec::new(),
            epoch_rng: SmallRng::seed_from_u64(seed ^ 0xe70c),
            notices: Vec::new(),
            events: BinaryHeap::new(),
            payloads: Vec::new(),
            verbose,
        };
        for machine in 0..MACHINES {
            world.machines[machine].limits = world.fallback[machine].clone();
            let at = world.rng.random_range(0..SECOND);
            world.schedule(at, Event::Restart { machine });
            for leaf in 0..world.leaves.len() {
                world.draw_load(machine, leaf);
            }
        }
        world.flow();
        world.schedule(FAULTY_SECONDS * SECOND, Event::FaultsEnd);
        world.schedule_next(world.drawn.load_every_ms, Event::Load);
        world.schedule_next(world.drawn.crash_every_s * 1_000, Event::Crash);
        world.schedule_next(world.drawn.partition_every_s * 1_000, Event::Partition);
        world
    }

    fn is_full(&self) -> bool {
        self.machines.iter().any(|machine| machine.arrival.rates != machine.arrival.sent)
    }

    /// Whether the queue before the rack throttled any service since the bound on agreement
    /// started.
    pub(crate) fn was_full_recently(&self) -> bool {
        self.is_full() || self.full_at.is_some_and(|full| self.now - full < AGREE_WITHIN_SECONDS * SECOND)
    }

    /// Recomputes the rates of all traffic after a load or a limit changed.
    fn flow(&mut self) {
        if self.is_full() {
            self.full_at = Some(self.now);
        }
        let leaves = 0..self.leaves.len();
        let (marks, by_law) = (self.drawn.marks, self.config.rule == LimitRule::Ceilings);
        let wanted = |(m, machine): (usize, &Machine)| {
            let passed = |leaf: usize| match machine.limits.rx[leaf] {
                limit if by_law => marks.passed(MachineId(m as u32), leaf, limit),
                limit => limit,
            };
            leaves.clone().map(|leaf| machine.offered.rx[leaf].min(passed(leaf))).collect()
        };
        let wanted: Vec<Vec<Bandwidth>> = self.machines.iter().enumerate().map(wanted).collect();
        let arrivals = self.drawn.marks.arrivals(&self.policy, RackId(0), wanted);
        for (machine, arrival) in self.machines.iter_mut().zip(arrivals) {
            machine.count(self.now);
            machine.arrival = arrival;
        }
    }

    /// The index where packets are marked.
    pub(crate) fn marks(&self) -> Marks {
        self.drawn.marks
    }

    /// The rate that a service would receive under its limit if remote queues marked no packets; `None` if none does.
    pub(crate) fn granted(&self, direction: Direction, machine: usize, leaf: usize) -> Option<Bandwidth> {
        let is_marked = direction == Direction::Rx && self.drawn.marks == Marks::Elsewhere;
        is_marked.then(|| self.machines[machine].wanted(direction, leaf))
    }

    /// Whether restarts may find a lower epoch than the last one.
    pub(crate) fn has_lower_epochs(&self) -> bool {
        self.drawn.state_lost > 0.0
    }

    /// The clocks' largest deviation in parts per thousand.
    pub(crate) fn skew_per_mille(&self) -> u64 {
        self.drawn.skew_per_mille
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

    fn log(&self, text: impl FnOnce() -> String) {
        if self.verbose {
            println!("{:>10.6} s  {}", self.now as f64 / 1e9, text());
        }
    }

    fn draw_load(&mut self, machine: usize, leaf: usize) {
        for direction in Direction::ALL {
            let load = match self.rng.random_range(0..4) {
                0 => Bandwidth::ZERO,
                1 => Bandwidth::from_mbps(self.rng.random_range(1..1_000)),
                _ => Bandwidth::from_mbps(self.rng.random_range(1..10_000)),
            };
            self.machines[machine].offered[direction][leaf] = load;
        }
    }

    fn step(&mut self, event: Event, checkers: &mut Checkers) -> Result<(), String> {
        match event {
            Event::Timer { machine, incarnation } => {
                if self.machines[machine].incarnation == incarnation && self.machines[machine].broker.is_some() {
                    self.drive(machine, None, checkers)?;
                }
            }
            Event::Deliver { machine, from, datagram } => {
                let cut_off = self.machines[machine].partition != self.machines[from].partition;
                if self.machines[machine].broker.is_some() && !cut_off {
                    match weir_control::wire::decode(&datagram, &self.key) {
                        Ok(message @ (Message::Usage(_) | Message::EpochNotice(_))) => {
                            self.drive(machine, Some(message), checkers)?;
                        }
                        Ok(other) => return Err(format!("a message that no broker sent: {other:?}")),
                        Err(error) => checkers.rejected(&datagram, error)?,
                    }
                }
            }
            Event::Crash if self.faulty => {
                let machine = self.rng.random_range(0..MACHINES);
                self.crash(machine);
                self.schedule_next(self.drawn.crash_every_s * 1_000, Event::Crash);
            }
            Event::Restart { machine } => {
                if self.machines[machine].broker.is_none() {
                    self.restart(machine, checkers)?;
                }
            }
            Event::Partition if self.faulty => {
                let sides = self.rng.random_range(2..4);
                for machine in &mut self.machines {
                    machine.partition = self.rng.random_range(0..sides);
                }
                self.log(|| "the rack is partitioned".to_owned());
                self.schedule_next(3_000, Event::Heal);
                self.schedule_next(self.drawn.partition_every_s * 1_000, Event::Partition);
            }
            Event::Heal => self.machines.iter_mut().for_each(|machine| machine.partition = 0),
            Event::Load if self.faulty => {
                let (machine, leaf) = (self.rng.random_range(0..MACHINES), self.rng.random_range(0..self.leaves.len()));
                let now = self.now;
                self.machines[machine].count(now);
                self.draw_load(machine, leaf);
                self.flow();
                self.schedule_next(self.drawn.load_every_ms, Event::Load);
            }
            Event::FaultsEnd => {
                self.log(|| "faults end".to_owned());
                self.faulty = false;
                for machine in 0..MACHINES {
                    self.machines[machine].partition = 0;
                    if self.machines[machine].broker.is_none() {
                        self.restart(machine, checkers)?;
                    }
                }
                checkers.faults_end(self);
            }
            Event::DatapathTimeout { machine, incarnation } => {
                let (now, fallback) = (self.now, &self.fallback[machine]);
                let machine = &mut self.machines[machine];
                if machine.incarnation == incarnation && machine.broker.is_none() {
                    machine.count(now);
                    machine.limits.clone_from(fallback);
                    self.flow();
                }
            }
            Event::Crash | Event::Partition | Event::Load => {}
        }
        Ok(())
    }

    fn crash(&mut self, machine: usize) {
        if self.machines[machine].broker.take().is_none() {
            return;
        }
        self.log(|| format!("m{} crashes", machine + 1));
        self.machines[machine].dead_since = Some(self.now);
        let incarnation = self.machines[machine].incarnation;
        self.schedule(self.now + self.config.timeout.nanos(), Event::DatapathTimeout { machine, incarnation });
        self.schedule_next(4_000, Event::Restart { machine });
    }

    fn restart(&mut self, machine: usize, checkers: &mut Checkers) -> Result<(), String> {
        let now = self.now;
        let policy = Arc::clone(&self.policy);
        let m = &mut self.machines[machine];
        m.incarnation += 1;
        // The clock may have gone back while the machine was down; the stored number must not.
        m.epoch = (m.epoch + 1).max(m.local(now).nanos());
        if self.epoch_rng.random_bool(self.drawn.state_lost) {
            // Restored from a backup, or lost by a host whose clock was ahead before.
            m.epoch = self.epoch_rng.random_range(1..=m.epoch);
        }
        let dead = m.dead_since.take().map(|since| now - since);
        m.count(now);
        let mut broker = RackBroker::new(&policy, MachineId(machine as u32), m.epoch, self.config, m.local(now));
        if dead.is_some_and(|dead| dead < self.config.timeout.nanos()) {
            broker.resume(&in_force(&m.limits));
        }
        m.inherited = (m.limits.clone(), m.local(now));
        m.broker = Some(broker);
        self.log(|| format!("m{} starts", machine + 1));
        checkers.restarted(machine);
        self.drive(machine, None, checkers)
    }

    /// One step of the agent's loop: an input, then all outputs, then the next timer.
    fn drive(&mut self, machine: usize, message: Option<Message>, checkers: &mut Checkers) -> Result<(), String> {
        let mut broker = self.machines[machine].broker.take().expect("the broker is present");
        let local = self.machines[machine].local(self.now);
        let input = message.as_ref().map_or(Some(Input::Timeout), Message::rack_input);
        broker.handle_input(local, input.ok_or("a message for a fabric broker")?);
        let report = message.as_ref().and_then(|message| match message {
            Message::Usage(report) => Some(report),
            _ => None,
        });
        while let Some(output) = broker.poll_output() {
            match output {
                Output::ReadMeters => {
                    let readings = self.read_meters(machine, checkers);
                    broker.handle_input(local, Input::Meters(&readings));
                }
                Output::Broadcast(report) => {
                    self.log(|| format!("m{} reports {:?}", machine + 1, report.rows));
                    let repeats = matches!(message, Some(Message::EpochNotice(_)));
                    checkers.sent(self.now, machine, &report, repeats)?;
                    self.broadcast(machine, &report);
                }
                Output::NotifyEpoch(notice) => self.notify(machine, &notice),
                Output::StoreEpoch(epoch) => {
                    self.log(|| format!("m{} continues in epoch {epoch}", machine + 1));
                    self.machines[machine].epoch = epoch;
                }
                Output::Relay(_)
                | Output::ReportRack(_)
                | Output::ReplyRack(_)
                | Output::ShutOut(_)
                | Output::FabricEpoch(_) => {
                    return Err("a fabric message under a policy without a fabric section".to_owned());
                }
                Output::SetLimits(limits) => {
                    self.log(|| format!("m{} {:?} {:?}", machine + 1, broker.mode(), limits));
                    let now = self.now;
                    self.machines[machine].count(now);
                    for limit in &limits {
                        let leaf =
                            self.leaves.iter().position(|id| *id == limit.service).ok_or("a limit of no leaf")?;
                        self.machines[machine].limits[limit.direction][leaf] = limit.limit;
                    }
                    self.flow();
                    checkers.limited(self, machine, &broker, local, &limits)?;
                }
            }
        }
        let next = broker.poll_timeout().ok_or("a broker without a next period")?;
        // A message may arrive at the due time itself, before the timer.
        if next < local || next == local && message.is_none() {
            return Err(format!("m{} has its next period at {next}, which is not after {local}", machine + 1));
        }
        checkers.step(machine, &broker, local, report)?;
        self.machines[machine].broker = Some(broker);
        if message.is_none() {
            let at = self.machines[machine].global(next).max(self.now + 1);
            let incarnation = self.machines[machine].incarnation;
            self.schedule(at, Event::Timer { machine, incarnation });
        }
        Ok(())
    }

    fn read_meters(&mut self, index: usize, checkers: &mut Checkers) -> Vec<MeterReading> {
        let now = self.now;
        let laws = self.laws(index);
        let machine = &mut self.machines[index];
        machine.count(now);
        let bytes = |bits: u128| Bytes::new((bits / (8 * u128::from(SECOND))) as u64);
        let leaves = self.leaves.iter().enumerate();
        leaves
            .map(|(leaf, service)| {
                let (received, marked) = (machine.counted.rx[leaf], machine.marked[leaf]);
                let usage = machine.usage(Direction::Rx, leaf);
                let network = machine.marks.reading((received, marked), usage, laws.get(leaf).copied());
                checkers.read(index, leaf, now, received, marked, &network);
                let bytes = PerDirection { tx: bytes(machine.counted.tx[leaf]), rx: bytes(received) };
                MeterReading { service: *service, bytes, waits: false, network }
            })
            .collect()
    }

    /// By service of a machine: the capacity of its rate law, and whether R settles below it: where the part of it
    /// that is unused is at most the marked part of packets (`demand.rs`). The published rule depends on neither.
    fn laws(&self, index: usize) -> Vec<(Bandwidth, bool)> {
        if self.config.rule == LimitRule::Backlogged {
            return Vec::new();
        }
        let machine = &self.machines[index];
        let wanted: Vec<_> = (0..self.leaves.len()).map(|leaf| machine.wanted(Direction::Rx, leaf)).collect();
        let law = |leaf: usize| {
            let limit = machine.limits.rx[leaf];
            let capacity = machine.marks.capacity(&self.policy, MachineId(index as u32), (&wanted, leaf, limit));
            (capacity, machine.arrival.settles(leaf, capacity))
        };
        (0..self.leaves.len()).map(law).collect()
    }

    fn broadcast(&mut self, from: usize, report: &UsageReport) {
        let datagram = weir_control::wire::encode(&report.clone().into(), &self.key);
        for machine in (0..MACHINES).filter(|machine| *machine != from) {
            let faulty = self.faulty;
            let mut chance = |p: f64| faulty && self.rng.random_bool(p);
            let (lost, twice) = (chance(self.drawn.loss), chance(self.drawn.duplication));
            let (altered, replayed) = (chance(self.drawn.alteration), chance(self.drawn.replay));
            if !lost {
                self.deliver(machine, from, datagram.clone());
            }
            if twice {
                self.deliver(machine, from, datagram.clone());
            }
            if altered {
                let mut copy = datagram.clone();
                let bit = self.rng.random_range(0..copy.len() * 8);
                copy[bit / 8] ^= 1 << (bit % 8);
                self.deliver(machine, from, copy);
            }
            if replayed && !self.received.is_empty() {
                let old = self.received[self.rng.random_range(0..self.received.len())].clone();
                self.deliver(machine, from, old);
            }
        }
        self.received.push(datagram);
    }

    /// Sends a notice, and replays an old one to any machine.
    fn notify(&mut self, from: usize, notice: &EpochNotice) {
        let Some(to) = notice.to.map(MachineId::index) else { return };
        let datagram = weir_control::wire::encode(&(*notice).into(), &self.key);
        let mut flights = vec![(to, datagram.clone())];
        let faulty = self.faulty;
        let mut chance = |p: f64| faulty && self.epoch_rng.random_bool(p);
        if chance(self.drawn.loss) {
            flights.clear();
        }
        if chance(self.drawn.duplication) {
            flights.push((to, datagram.clone()));
        }
        if chance(self.drawn.replay) && !self.notices.is_empty() {
            let old = self.epoch_rng.random_range(0..self.notices.len());
            flights.push((self.epoch_rng.random_range(0..MACHINES), self.notices[old].clone()));
        }
        let (longest, end) = (if faulty { self.drawn.delay_ms } else { 1 }, FAULTY_SECONDS * SECOND);
        for (machine, datagram) in flights {
            let at = self.now + self.epoch_rng.random_range(0..=longest * MILLISECOND);
            if !faulty || at < end {
                self.schedule(at, Event::Deliver { machine, from, datagram });
            }
        }
        self.notices.push(datagram);
    }

    fn deliver(&mut self, machine: usize, from: usize, datagram: Vec<u8>) {
        let longest = if self.faulty { self.drawn.delay_ms } else { 1 };
        let delay = self.rng.random_range(0..=longest * MILLISECOND);
        // Datagrams from before the end of the faults do not arrive after it: a delay is a fault
        // too.
        let at = self.now + delay;
        let end = FAULTY_SECONDS * SECOND;
        if !self.faulty || at < end {
            self.schedule(at, Event::Deliver { machine, from, datagram });
        }
    }
}

/// The limits of each direction by leaf.
fn by_direction(limits: &[PerDirection<Bandwidth>]) -> PerDirection<Vec<Bandwidth>> {
    let of = |direction: Direction| limits.iter().map(|limit| limit[direction]).collect();
    PerDirection { tx: of(Direction::Tx), rx: of(Direction::Rx) }
}

/// By leaf: the limits that a datapath keeps.
pub(crate) fn in_force(limits: &PerDirection<Vec<Bandwidth>>) -> Vec<PerDirection<Bandwidth>> {
    limits.tx.iter().zip(&limits.rx).map(|(tx, rx)| PerDirection { tx: *tx, rx: *rx }).collect()
}
