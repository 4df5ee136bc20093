//! PACE's forwarders in a world: the agent of each port, and the receivers of a host's flows.
//!
//! The agent of a port combines the offline part of a forwarder ([`Forwarder`]) with the online part ([`CreditPort`],
//! which runs per packet). The shares are published with each allocation. An agent at a host's interface is the first
//! port of the flows that leave the host, and has the receivers of those that arrive.
//!
//! - An allocation arrives over the opposite direction of the port's link: it is recorded and reduced.
//! - Data enters the port: it uses grants, and is dropped if it has none and the port is lossless.
//! - Messages of senders arrive at the receiving host: they end there, or leave the data that carried them.
//!
//! Example: a flow's request reaches its host. The agent there issues an allocation at once; the agent of the port that
//! leads to the host reduces it first, the agent of the sender's interface last.

use super::credit_bound::CreditBound;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use weir_credits::{
    Allocation, Coding, Forwarder, ForwarderSettings, Message, PeriodRule, Receiver, ReceiverSettings, Return,
};
use weir_datapath::{CreditCounters, CreditFlow, CreditPort, CreditPortSettings};
use weir_transport::agents::{
    Agent, FlowEnd, FlowKey, Message as Packet, PacketKind, Passing, PortState, Verdict, Watch,
};
use weir_transport::pace::Parameters;
use weir_units::{Bandwidth, Bytes, Instant, SimTime, Weight};

/// Bytes of an allocation's frame: the smallest frame on the wire, with its check, preamble and gap (IEEE 802.3), of
/// which messages of the paper's widths fill a part.
const ALLOCATION: u32 = 84;
/// Periods without an allocation that end a flow at a port: three allocations in a row may be lost.
const MEMORY: u64 = 4;

/// The agent of a port.
#[derive(Debug)]
pub(crate) struct CreditAgent {
    forwarder: Forwarder,
    port: CreditPort,
    coding: Coding,
    /// The part of the link that flows with credits have, 0 to 1.
    share: f64,
    headers: u32,
    /// The flows of the port, and their states by number.
    numbers: BTreeMap<FlowKey, u32>,
    keys: Vec<FlowKey>,
    states: Vec<CreditFlow>,
    free: Vec<u32>,
    /// Flows without allocations, and until when their states are kept: data may still arrive, and allocations after a
    /// termination. An entry of another time than the flow's is void.
    silent: VecDeque<(Instant, u32)>,
    silent_until: Vec<Instant>,
    receivers: Option<Receivers>,
    bound: CreditBound,
}

/// The receivers of a host.
#[derive(Debug)]
struct Receivers {
    settings: ReceiverSettings,
    flows: BTreeMap<FlowKey, Receiver>,
    due: BTreeSet<(Instant, FlowKey)>,
    out: VecDeque<(FlowKey, Allocation)>,
}

/// The part of a link's rate.
fn part(rate: Bandwidth, share: f64) -> Bandwidth {
    Bandwidth::from_bps((rate.bps() as f64 * share) as u64)
}

impl CreditAgent {
    /// The agent of a port whose link has this rate; with receivers at a host's interface. `frame` is the largest
    /// frame, `headers` one without data.
    pub(crate) fn new(parameters: &Parameters, rate: Bandwidth, is_host: bool, frame: u32, headers: u32) -> Self {
        let (least, share) = (parameters.period, parameters.share);
        let most = parameters.max_period.min(parameters.coding.longest());
        let rate = part(rate, share);
        let rule = PeriodRule { rate, least, most, frame: Bytes::new(frame.into()) };
        let receivers = is_host.then(|| Receivers {
            settings: ReceiverSettings {
                rate,
                least,
                timeout: parameters.min_rto.duration().max(most.duration() * MEMORY),
                weight: Weight::ONE,
                coding: parameters.coding,
            },
            flows: BTreeMap::new(),
            due: BTreeSet::new(),
            out: VecDeque::new(),
        });
        let port = CreditPort::new(&CreditPortSettings { rate, most, lossless: parameters.lossless });
        let bound = CreditBound::new(port.longest_lifetime());
        Self {
            forwarder: Forwarder::new(Instant::ZERO, ForwarderSettings { rule, memory: MEMORY }),
            port,
            bound,
            coding: parameters.coding,
            share,
            headers,
            numbers: BTreeMap::new(),
            keys: Vec::new(),
            states: Vec::new(),
            free: Vec::new(),
            silent: VecDeque::new(),
            silent_until: Vec::new(),
            receivers,
        }
    }

    /// The counters of the port, and how often more was granted and queued than [`CreditBound`] allows.
    pub(crate) fn counters(&self) -> (&CreditCounters, u64) {
        (self.port.counters(), self.bound.exceeded())
    }

    fn number(&mut self, flow: FlowKey) -> u32 {
        if let Some(&number) = self.numbers.get(&flow) {
            return number;
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.states.push(CreditFlow::default());
            self.keys.push(flow);
            self.silent_until.push(Instant::ZERO);
            (self.states.len() - 1) as u32
        });
        self.keys[number as usize] = flow;
        self.states[number as usize] = CreditFlow::default();
        self.numbers.insert(flow, number);
        number
    }

    /// The port has no more state of a flow.
    fn forget(&mut self, number: u32) {
        self.numbers.remove(&self.keys[number as usize]);
        self.free.push(number);
    }

    /// Keeps the state of a flow for another lifetime.
    fn keep(&mut self, now: Instant, number: u32) {
        let until = now + self.port.longest_lifetime();
        self.silent.push_back((until, number));
        self.silent_until[number as usize] = until;
    }

    /// Ends flows whose allocations have stopped: at once in the shares, and when their last grant has expired in full.
    fn expire(&mut self, now: Instant) {
        for number in self.forwarder.expire(now) {
            self.keep(now, number);
        }
        while let Some(&(until, number)) = self.silent.front()
            && until <= now
        {
            self.silent.pop_front();
            if !self.forwarder.has(number) && self.silent_until[number as usize] == until {
                self.forget(number);
            }
        }
    }

    /// An allocation passes on its way to the sender.
    fn allocate(
        &mut self,
        now: Instant,
        flow: FlowKey,
        allocation: &Allocation,
        queued: u64,
        direct: bool,
    ) -> Allocation {
        self.expire(now);
        let number = self.number(flow);
        if direct && self.port.is_new(&self.states[number as usize], allocation) {
            self.forwarder.record(now, number, allocation);
        }
        let published = self.forwarder.publish(now);
        self.port.publish(&published);
        let drain = published.longest.duration() * 2;
        self.bound.set_budget(now, self.forwarder.budget(&published).get(), drain);
        let mut reduced = *allocation;
        self.port.allocate(&mut self.states[number as usize], &mut reduced, now, Bytes::new(queued), direct);
        self.bound.check(now, self.port.outstanding().get() + queued);
        self.coding.allocation(&reduced)
    }

    /// A sender's message passes with its data, or alone.
    fn on_message(&mut self, now: Instant, flow: FlowKey, message: &Message) {
        if let Message::Request(request) = message {
            let number = self.number(flow);
            self.port.on_request(&mut self.states[number as usize], request.clock);
            self.keep(now, number);
        }
        let Some(&number) = self.numbers.get(&flow) else { return };
        let state = &mut self.states[number as usize];
        match message {
            Message::Return(returned) => self.port.on_return(state, returned, now),
            Message::Terminate => {
                self.port.terminate(state, now);
                self.forwarder.remove(number);
                self.keep(now, number);
            }
            Message::Request(_) | Message::Allocation(_) => {}
        }
    }
}

impl Receivers {
    /// A sender's message has arrived at the host.
    fn on_message(&mut self, now: Instant, flow: FlowKey, message: &Message) {
        match message {
            Message::Request(request) => {
                self.unschedule(flow);
                let new = || Receiver::new(now, self.settings, request);
                self.flows.entry(flow).or_insert_with(new).on_request(now, request);
                self.schedule(flow);
            }
            Message::Return(returned) => self.on_return(now, flow, returned),
            Message::Terminate => {
                self.unschedule(flow);
                self.flows.remove(&flow);
            }
            Message::Allocation(_) => {}
        }
    }

    fn on_return(&mut self, now: Instant, flow: FlowKey, returned: &Return) {
        self.unschedule(flow);
        if let Some(receiver) = self.flows.get_mut(&flow) {
            receiver.on_return(now, returned);
        }
        self.schedule(flow);
    }

    fn unschedule(&mut self, flow: FlowKey) {
        if let Some(due) = self.flows.get(&flow).and_then(Receiver::timer) {
            self.due.remove(&(due, flow));
        }
    }

    fn schedule(&mut self, flow: FlowKey) {
        if let Some(due) = self.flows.get(&flow).and_then(Receiver::timer) {
            self.due.insert((due, flow));
        }
    }

    /// Issues the allocations that are due.
    fn issue(&mut self, now: Instant) {
        while let Some(&(due, flow)) = self.due.first()
            && due <= now
        {
            self.due.remove(&(due, flow));
            if let Some(receiver) = self.flows.get_mut(&flow) {
                self.out.extend(receiver.poll(now).map(|allocation| (flow, allocation)));
                if receiver.is_idle() {
                    self.flows.remove(&flow);
                }
            }
            self.schedule(flow);
        }
    }
}

impl Agent for CreditAgent {
    fn watch(&self) -> Watch {
        Watch { all: true, leaving: false, returning: true }
    }

    fn on_enter(&mut self, now: SimTime, packet: &mut Passing<'_>) -> Verdict {
        let (now, size) = (now.instant(), packet.size);
        let Some(flow) = packet.flow.filter(|_| packet.credits) else {
            self.bound.on_exempt(now, size);
            return Verdict::Pass;
        };
        if let Some(message) = packet.control::<Box<Message>>() {
            self.on_message(now, flow, message);
        }
        let number = self.numbers.get(&flow).copied();
        if size <= self.headers {
            self.bound.on_exempt(now, size);
            return Verdict::Pass;
        }
        let late = match number {
            Some(number) => self.port.on_data(&mut self.states[number as usize], Bytes::new(size.into()), now),
            None => self.port.on_unknown_data(Bytes::new(size.into()), now),
        };
        if late {
            return Verdict::Consume;
        }
        self.bound.check(now, self.port.outstanding().get() + packet.port.held + u64::from(size));
        Verdict::Pass
    }

    fn on_return(&mut self, now: SimTime, packet: &mut Passing<'_>) -> Verdict {
        let (kind, size, now) = (packet.kind, packet.size, now.instant());
        let (queued, direct) = (packet.port.held, packet.direct);
        let Some(flow) = packet.flow else { return Verdict::Pass };
        let Some(message) = packet.control::<Box<Message>>() else { return Verdict::Pass };
        match (kind, &**message) {
            (PacketKind::Message, Message::Allocation(allocation)) => {
                let reduced = self.allocate(now, flow, allocation, queued, direct);
                **message = Message::Allocation(reduced);
                Verdict::Pass
            }
            (PacketKind::Data, message) => {
                let Some(receivers) = &mut self.receivers else { return Verdict::Pass };
                receivers.on_message(now, flow, message);
                if size <= self.headers { Verdict::Consume } else { Verdict::PassWithout }
            }
            _ => Verdict::Pass,
        }
    }

    fn timer(&self) -> SimTime {
        let first = self.receivers.as_ref().and_then(|receivers| receivers.due.first());
        first.map_or(SimTime::NEVER, |&(due, _)| due.into())
    }

    fn on_timer(&mut self, now: SimTime, _port: PortState) {
        if let Some(receivers) = &mut self.receivers {
            receivers.issue(now.instant());
        }
    }

    fn poll(&mut self) -> Option<Packet> {
        let (flow, allocation) = self.receivers.as_mut()?.out.pop_front()?;
        let control = Box::new(Message::Allocation(allocation)).into();
        Some(Packet { flow, to: FlowEnd::Sender, size: ALLOCATION, control })
    }

    fn set_rate(&mut self, rate: Bandwidth) {
        let rate = part(rate, self.share);
        self.forwarder.set_rate(rate);
        self.port.set_rate(rate);
        if let Some(receivers) = &mut self.receivers {
            receivers.settings.rate = rate;
            receivers.flows.values_mut().for_each(|receiver| receiver.set_rate(rate));
        }
    }
}
