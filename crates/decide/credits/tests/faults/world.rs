//! The world: events in order of time, messages on links, and faults drawn from a seed.

use crate::flow::{Flow, Step, Timer};
use crate::plan::{Application, CONTROL, FRAME, Happening, Plan};
use crate::port::Port;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use weir_credits::{Allocation, Coding, Receiver, ReceiverSettings, Request, Return};
use weir_units::{Duration, Instant, Weight};

/// Nanoseconds since the start.
pub(crate) type Nanos = u64;

/// The kind of a message that goes with the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Request(Request),
    Data,
    Return,
    Terminate,
}

/// A message that goes with the data.
#[derive(Debug, Clone, Copy)]
struct Packet {
    flow: u32,
    kind: Kind,
    bytes: u64,
    returned: Option<Return>,
    /// Whether it is data within the credits.
    covered: bool,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Start(u32),
    Timer(u32, Timer),
    /// A packet arrives at the start of a hop.
    Forward(Packet, usize),
    /// An allocation arrives at the start of a hop, over the link of a port.
    Back(u32, Allocation, usize, usize),
    Happening(Happening),
}

/// Counts of the events of a run, so that a test can require them.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) events: u64,
    pub(crate) lost: u64,
    pub(crate) repeated: u64,
    pub(crate) delayed: u64,
    pub(crate) lost_data: u64,
    pub(crate) replayed: u64,
    /// Packets that an outage lost.
    pub(crate) cut_off: u64,
    pub(crate) writes: u64,
    /// Packets of data that ports dropped, and late bytes of the excluded cases.
    pub(crate) dropped: u64,
    pub(crate) late: u64,
    pub(crate) restarts: u64,
    pub(crate) reroutes: u64,
    /// Bytes that ports counted as such.
    pub(crate) rerouted: u64,
    pub(crate) rogues: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.lost += other.lost;
        self.repeated += other.repeated;
        self.delayed += other.delayed;
        self.lost_data += other.lost_data;
        self.replayed += other.replayed;
        self.cut_off += other.cut_off;
        self.writes += other.writes;
        self.dropped += other.dropped;
        self.late += other.late;
        self.restarts += other.restarts;
        self.reroutes += other.reroutes;
        self.rerouted += other.rerouted;
        self.rogues += other.rogues;
    }
}

/// A run of a plan.
pub(crate) struct World {
    pub(crate) plan: Plan,
    random: StdRng,
    now: Nanos,
    events: BTreeMap<(Nanos, u64), Event>,
    sequence: u64,
    pub(crate) ports: Vec<Port>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) counts: Counts,
    failure: Option<String>,
}

impl World {
    pub(crate) fn new(plan: Plan, seed: u64) -> Self {
        let flow = |flow: &_| Flow::new(*flow, plan.trunks, plan.whole_frames, plan.variant);
        let mut world = Self {
            random: StdRng::seed_from_u64(seed),
            now: 0,
            events: BTreeMap::new(),
            sequence: 0,
            ports: (0..plan.ports()).map(|_| Port::new(&plan)).collect(),
            flows: plan.flows.iter().map(flow).collect(),
            counts: Counts::default(),
            failure: None,
            plan,
        };
        for number in 0..world.flows.len() as u32 {
            world.at(world.plan.flows[number as usize].start, Event::Start(number));
        }
        for (at, happening) in world.plan.happenings.clone() {
            world.at(at, Event::Happening(happening));
        }
        world
    }

    /// Runs until then. The first violation ends the run.
    pub(crate) fn run(&mut self, until: Nanos) -> Result<(), String> {
        while let Some(entry) = self.events.first_entry()
            && entry.key().0 <= until
        {
            let ((at, _), event) = entry.remove_entry();
            self.now = at;
            self.counts.events += 1;
            self.handle(event);
            if let Some(failure) = self.failure.take() {
                return Err(format!("at {at} ns: {failure}"));
            }
        }
        self.now = until;
        Ok(())
    }

    /// The rates of all flows in bit/s between two times, measured at receivers.
    pub(crate) fn rates(&mut self, from: Nanos, until: Nanos) -> Result<Vec<f64>, String> {
        self.run(from)?;
        let before: Vec<u64> = self.flows.iter().map(|flow| flow.delivered).collect();
        self.run(until)?;
        let rate = |(flow, before): (&Flow, u64)| (flow.delivered - before) as f64 * 8e9 / (until - from) as f64;
        Ok(self.flows.iter().zip(before).map(rate).collect())
    }

    /// The ports of a flow's path, as it is now.
    pub(crate) fn path(&self, flow: u32) -> Vec<usize> {
        (0..self.hops(flow)).map(|hop| self.port(flow, hop)).collect()
    }

    fn hops(&self, flow: u32) -> usize {
        let plan = &self.flows[flow as usize].plan;
        self.plan.receivers[plan.to] - self.plan.senders[plan.from] + 2
    }

    fn port(&self, flow: u32, hop: usize) -> usize {
        let Flow { plan, paths, .. } = &self.flows[flow as usize];
        let trunk = self.plan.senders[plan.from] + hop;
        if hop == 0 {
            self.plan.first(plan.from)
        } else if hop + 1 == self.hops(flow) {
            self.plan.last(plan.to)
        } else {
            self.plan.trunk(trunk - 1, paths[trunk - 1])
        }
    }

    fn at(&mut self, at: Nanos, event: Event) {
        self.sequence += 1;
        self.events.insert((at, self.sequence), event);
    }

    /// Sets a timer of a flow, in place of the one of the same kind.
    fn arm(&mut self, flow: u32, timer: Timer, at: Option<Nanos>) {
        let at = at.map(|at| at.max(self.now));
        let due = &mut self.flows[flow as usize].due[timer as usize];
        if *due != at {
            *due = at;
            if let Some(at) = at {
                self.at(at, Event::Timer(flow, timer));
            }
        }
    }

    /// A control message is on a link, and arrives at `at`, later, twice or never.
    fn deliver(&mut self, at: Nanos, event: Event) {
        let faults = self.plan.faults;
        if self.now >= faults.until {
            return self.at(at, event);
        }
        let mut drawn = |thousandths: u32| self.random.random_range(0..1_000) < thousandths;
        let (lost, repeated, delayed) = (drawn(faults.lost_control), drawn(faults.repeated), drawn(faults.delayed));
        // Terminations have no clock: drivers discard those that later messages have overtaken by their numbers.
        let is_termination = matches!(event, Event::Forward(Packet { kind: Kind::Terminate, .. }, _));
        let (repeated, delayed) = (repeated && !is_termination, delayed && !is_termination);
        if drawn(faults.replayed) && !is_termination {
            self.counts.replayed += 1;
            let at = self.random.random_range(at..=at.max(faults.until));
            self.at(at, event);
        }
        if repeated {
            self.counts.repeated += 1;
            let after = self.random.random_range(0..=faults.delay);
            self.at(at + after, event);
        }
        if lost {
            self.counts.lost += 1;
        } else if delayed {
            self.counts.delayed += 1;
            let after = self.random.random_range(0..=faults.delay);
            self.at(at + after, event);
        } else {
            self.at(at, event);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Start(flow) => self.start(flow),
            Event::Timer(flow, timer) => {
                let due = &mut self.flows[flow as usize].due[timer as usize];
                if *due == Some(self.now) {
                    *due = None;
                    self.on_timer(flow, timer);
                }
            }
            Event::Forward(packet, hop) => self.forward(packet, hop),
            Event::Back(flow, allocation, hop, over) => self.back(flow, allocation, hop, over),
            Event::Happening(happening) => self.happen(happening),
        }
    }

    fn start(&mut self, flow: u32) {
        let state = &mut self.flows[flow as usize];
        state.start();
        let timer = state.sender.timer().map(Instant::nanos);
        self.arm(flow, Timer::Request, timer);
        if matches!(self.flows[flow as usize].plan.application, Application::Rate(_)) {
            self.arm(flow, Timer::Write, Some(self.now));
        }
    }

    fn on_timer(&mut self, flow: u32, timer: Timer) {
        let now = Instant::from_nanos(self.now);
        let state = &mut self.flows[flow as usize];
        match timer {
            Timer::Receiver => {
                let allocation = state.receiver.as_mut().and_then(|receiver| receiver.poll(now));
                // A host keeps no state of idle flows.
                state.receiver = state.receiver.take().filter(|receiver| !receiver.is_idle());
                self.arm_receiver(flow);
                if let Some(allocation) = allocation {
                    self.send_back(flow, allocation, self.hops(flow));
                }
            }
            _ if state.over => {}
            Timer::Request => {
                if let Some(request) = state.sender.request(now) {
                    self.control(flow, Kind::Request(request), None);
                }
                self.arm_request(flow);
            }
            Timer::Departure => self.pump(flow),
            Timer::Write => {
                let next = state.write(self.now).map(|after| self.now + after);
                self.arm(flow, Timer::Write, next);
                self.arm_request(flow);
                self.pump(flow);
            }
            Timer::Rogue => self.defy(flow),
        }
    }

    fn arm_receiver(&mut self, flow: u32) {
        let due = self.flows[flow as usize].receiver.as_ref().and_then(Receiver::timer);
        self.arm(flow, Timer::Receiver, due.map(Instant::nanos));
    }

    fn arm_request(&mut self, flow: u32) {
        let due = self.flows[flow as usize].sender.timer();
        self.arm(flow, Timer::Request, due.map(Instant::nanos));
    }

    /// Sends what the sender may send now.
    fn pump(&mut self, flow: u32) {
        loop {
            let state = &mut self.flows[flow as usize];
            if state.rogue_until > self.now {
                return;
            }
            match state.step(self.now) {
                Step::Send(bytes) => {
                    let returned = state.take_return();
                    let covered = state.send(bytes);
                    self.forward(Packet { flow, kind: Kind::Data, bytes, returned, covered }, 0);
                }
                Step::Wait(until) => {
                    self.arm(flow, Timer::Departure, Some(until));
                    break;
                }
                Step::Nothing => break,
            }
        }
        self.arm_request(flow);
        // Nothing left with the values: they go alone.
        let state = &mut self.flows[flow as usize];
        let returned = if state.sender.owes_return() { state.take_return() } else { None };
        if returned.is_some() {
            self.control(flow, Kind::Return, returned);
        }
        if self.flows[flow as usize].is_done() {
            self.end(flow);
        }
    }

    /// A sender that ignores its credits sends at the rate of its link.
    fn defy(&mut self, flow: u32) {
        let state = &mut self.flows[flow as usize];
        if state.rogue_until <= self.now {
            return self.pump(flow);
        }
        let returned = state.take_return();
        let covered = state.send(FRAME);
        self.forward(Packet { flow, kind: Kind::Data, bytes: FRAME, returned, covered }, 0);
        let next = self.now + FRAME * 8_000_000_000 / self.plan.rule.rate.bps();
        self.arm(flow, Timer::Rogue, Some(next));
    }

    fn end(&mut self, flow: u32) {
        let state = &mut self.flows[flow as usize];
        if !std::mem::replace(&mut state.over, true) {
            state.sender.terminate();
            self.arm_request(flow);
            self.control(flow, Kind::Terminate, None);
        }
    }

    fn control(&mut self, flow: u32, kind: Kind, returned: Option<Return>) {
        self.forward(Packet { flow, kind, bytes: CONTROL, returned, covered: true }, 0);
    }

    /// A packet arrives at the port of a hop, or at the receiver.
    fn forward(&mut self, packet: Packet, hop: usize) {
        let (flow, now) = (packet.flow, self.now);
        if hop == self.hops(flow) {
            return self.receive(packet);
        }
        let index = self.port(flow, hop);
        let ignores = self.flows[flow as usize].rogue_until > now;
        let mut ungranted = packet.bytes;
        if hop > 0 || !(self.plan.variant.first_port_open || ignores) {
            if let Some(returned) = &packet.returned {
                self.ports[index].on_return(now, flow, returned);
            }
            match packet.kind {
                Kind::Data => match self.arrive(index, &packet) {
                    Some(rerouted) => ungranted = rerouted,
                    None => return,
                },
                Kind::Terminate => self.ports[index].terminate(now, flow),
                Kind::Request(request) => self.ports[index].on_request(now, flow, request.clock),
                Kind::Return => {}
            }
        }
        let is_data = packet.kind == Kind::Data;
        let end = self.ports[index].transmit(now, packet.bytes, ungranted, is_data);
        self.check(index);
        if self.is_cut_off(flow, hop) {
            return;
        }
        let (at, next) = (end + self.plan.delay, Event::Forward(packet, hop + 1));
        let faults = self.plan.faults;
        if !is_data {
            self.deliver(at, next);
        } else if now < faults.until && self.random.random_range(0..1_000) < faults.lost_data {
            self.counts.lost_data += 1;
        } else {
            self.at(at, next);
        }
    }

    /// Data arrives at a port; returns its bytes of another path's grants, unless it is dropped.
    fn arrive(&mut self, index: usize, packet: &Packet) -> Option<u64> {
        let Packet { flow, bytes, .. } = *packet;
        let arrival = self.ports[index].on_data(self.now, flow, bytes);
        self.counts.rerouted += arrival.rerouted;
        let state = &mut self.flows[flow as usize];
        let without_grant = arrival.late + arrival.rerouted;
        self.counts.late += arrival.late;
        if !packet.covered {
            *state.debts.entry(index).or_default() += bytes - without_grant;
        } else if without_grant > 0 {
            self.without_grant(index, flow, without_grant);
        }
        self.counts.dropped += u64::from(arrival.is_dropped);
        (!arrival.is_dropped).then_some(arrival.rerouted)
    }

    /// Whether an outage of the link after a hop loses what is on it.
    fn is_cut_off(&mut self, flow: u32, hop: usize) -> bool {
        let is_cut_off = hop == 0 && self.flows[flow as usize].outage_until > self.now;
        self.counts.cut_off += u64::from(is_cut_off);
        is_cut_off
    }

    fn receive(&mut self, packet: Packet) {
        let now = Instant::from_nanos(self.now);
        let least = self.plan.rule.least;
        let state = &mut self.flows[packet.flow as usize];
        if let (Some(receiver), Some(returned)) = (state.receiver.as_mut(), &packet.returned) {
            receiver.on_return(now, returned);
        }
        match packet.kind {
            Kind::Data => state.delivered += packet.bytes,
            Kind::Request(request) => match state.receiver.as_mut() {
                Some(receiver) => receiver.on_request(now, &request),
                None => {
                    let settings = ReceiverSettings {
                        rate: self.plan.rule.rate,
                        least: state.plan.least.max(least),
                        timeout: Duration::from_millis(10),
                        weight: Weight::ONE,
                        coding: Coding::Wide,
                    };
                    state.receiver = Some(Receiver::new(now, settings, &request));
                }
            },
            Kind::Terminate => state.receiver = None,
            Kind::Return => {}
        }
        self.arm_receiver(packet.flow);
    }

    /// An allocation leaves over the link of the hop before `hop`.
    fn send_back(&mut self, flow: u32, allocation: Allocation, hop: usize) {
        let over = self.port(flow, hop - 1);
        let end = self.ports[over].transmit_back(self.now, CONTROL);
        if self.is_cut_off(flow, hop - 1) {
            return;
        }
        self.deliver(end + self.plan.delay, Event::Back(flow, allocation, hop - 1, over));
    }

    /// An allocation arrives at the start of a hop, where its port is, over the link of a port.
    fn back(&mut self, flow: u32, mut allocation: Allocation, hop: usize, over: usize) {
        if hop > 0 || !self.plan.variant.first_port_open {
            let direct = self.port(flow, hop) == over;
            self.ports[over].allocate(self.now, flow, &mut allocation, direct);
            self.check(over);
        }
        if hop > 0 {
            return self.send_back(flow, allocation, hop);
        }
        let state = &mut self.flows[flow as usize];
        if !state.over && state.on_allocation(self.now, &allocation) {
            self.pump(flow);
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Stop(flow) => self.end(flow),
            Happening::Reroute { flow, trunk } => {
                self.counts.reroutes += 1;
                let lifetime = self.ports[0].longest_lifetime().nanos();
                let state = &mut self.flows[flow as usize];
                state.paths[trunk] = (state.paths[trunk] + 1) % self.plan.paths;
                state.excluded_until = state.excluded_until.max(self.now + lifetime);
                state.remainder += if self.plan.whole_frames { 2 * FRAME } else { 0 };
            }
            Happening::Restart(port) => {
                self.counts.restarts += 1;
                self.ports[port].restart(self.now);
            }
            Happening::Rogue { flow, until } => {
                self.counts.rogues += 1;
                self.flows[flow as usize].rogue_until = until;
                self.arm(flow, Timer::Rogue, Some(self.now));
            }
            Happening::Write { flow, bytes } => {
                self.counts.writes += 1;
                self.flows[flow as usize].extend(self.now, bytes);
                self.arm_request(flow);
                self.pump(flow);
            }
            Happening::Outage { flow, until } => self.flows[flow as usize].outage_until = until,
        }
    }

    /// Data within the credits and without a grant is a violation, unless the flow is an excluded case.
    fn without_grant(&mut self, port: usize, flow: u32, bytes: u64) {
        let state = &mut self.flows[flow as usize];
        if state.excluded_until > self.now {
            return;
        }
        // Data beyond the credits has used the grants of other data.
        let debt = state.debts.get_mut(&port).filter(|debt| **debt >= bytes);
        if bytes <= state.remainder {
            state.remainder -= bytes;
        } else if let Some(debt) = debt {
            *debt -= bytes;
        } else {
            self.failure = Some(format!("{bytes} B of flow {flow} have no grant at port {port}"));
        }
    }

    fn check(&mut self, port: usize) {
        if let Err(violation) = self.ports[port].check(self.now) {
            self.failure.get_or_insert(format!("port {port}: {violation}"));
        }
    }
}
