//! [`Host`]: all aggregate flows of a host, as their sender, their receiver and their first port.
//!
//! Problem: on Linux, and by choice in the simulator, a flow with credits is the aggregate of a service's data from one
//! host to another. A host is the sender of some and the receiver of others, and its own interface is the first port of
//! all that it sends: without that, one sender to four receivers sends four times its link's rate. Approach: a machine
//! for a host, with a [`Sender`] or a [`Receiver`] for each flow and one [`FirstPort`]. It has no clock, no socket and
//! no queue: the driver passes times, messages and readings, and carries out the outputs.
//!
//! | module | contents |
//! |---|---|
//! | `aggregate` | [`Aggregate`]: the identity of a flow; [`Reading`]; [`Gate`] |
//! | `outgoing` | the sending end of a flow: readings, gate, return, end |
//! | `first_port` | [`FirstPort`]: the offline part of a port with an [`OnlinePort`], and the flows of both |
//! | `pairs` | [`PairWeights`]: the weight of a service over its active pairs at a port |
//! | `deadlines` | the next events of many flows |
//!
//! - A flow begins when a reading has data that waits: the host sends a request. It ends when nothing has waited or
//!   left for [`HostSettings::linger`]: the host sends a termination, and again for each allocation that still arrives.
//!   It ends, with its waiting packets, after [`HostSettings::abandon_after`] without an allocation: the other host is
//!   gone, and the driver needs the gate. Where gates are short it ends earlier ([`Host::give_up`]).
//! - An allocation is reduced by the first port and opens the flow's gate for its bytes and its period. The return goes
//!   out at once as a message of its own. The gate closes at the end of the period unless another allocation has come.
//! - A reading has the bytes that have left through the gate, and those that wait. Bytes beyond the credits, which a
//!   driver whose gate is coarse may let pass, are taken from the next allocation.
//! - A request makes a receiver, which continues after the sender's clock. So the sender of a flow that has ended is
//!   kept for [`HostSettings::memory`], without credits, and another request has its clock. After [`ENDED_MAX`] others
//!   a flow begins without clock: ports that have its last one grant nothing for a lifetime.
//!
//! Order of calls: [`Host::set_services`] first and after each change of the policy; [`Host::on_reading`] for a flow
//! before [`Host::on_message`] with its allocation, whenever data begins to wait, and for all of [`Host::due`] before
//! [`Host::on_timer`], which is called when [`Host::timer`] is due; [`Host::poll`] after each of these, until it gives
//! nothing.
//!
//! Worked example, 1 Gb/s, p = 1 ms: 5,000 B wait for host b. The host sends a request. b's first allocation has d = a
//! = 125,000 B; the gate opens for 125,000 B in 1 ms, and a return with d_p = 5,000 B goes to b, whose next allocation
//! has a = 5,000 B.
//!
//! Source: PACE §III.C and D; `docs/design/credits-linux.md`.

mod aggregate;
mod deadlines;
mod first_port;
mod outgoing;
mod pairs;
mod passage;
#[cfg(test)]
mod tests;

pub use aggregate::{Aggregate, Gate, Output, Reading};
pub use first_port::{FirstPort, NoPort, OnlinePort};
pub use pairs::PairWeights;
pub use passage::{Held, Passage};

use crate::message::{Allocation, Coding, Message, Request};
use crate::period::Period;
use crate::receiver::{Receiver, ReceiverSettings};
use crate::sender::SenderSettings;
use deadlines::Deadlines;
use outgoing::Outgoing;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use weir_units::{Bandwidth, Bytes, Duration, Instant, ServiceId, Weight};

/// The most flows that a host receives: those of a port (`WEIR_FORWARDER_FLOWS` of `bpf/forwarder.h`). Each has an
/// allocation in a period, and a faulty sender must not take all memory.
pub const INCOMING_MAX: usize = 16_384;

/// The most flows that have ended and whose clocks are kept; of more, the oldest are forgotten. A scan of a network
/// would otherwise take all memory.
pub const ENDED_MAX: usize = 16_384;

/// The constants of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostSettings {
    /// R of the direction in which the host receives: what its link carries of flows with credits.
    pub rate: Bandwidth,
    /// p-min, at least a round trip: 1 ms on a host, since allocations are sent by a thread.
    pub least: Period,
    /// The largest frame on the wire.
    pub frame: Bytes,
    /// Whether packets keep their sizes, as on Linux ([`SenderSettings::whole_frames`]).
    pub whole_frames: bool,
    /// The time after which an unanswered request is repeated, and the longest such time.
    pub timeout: [Duration; 2],
    /// The time without a return after which a receiver is idle ([`ReceiverSettings::timeout`]).
    pub silence: Duration,
    /// How long nothing of a flow waits and leaves before it ends.
    pub linger: Duration,
    /// How long after its newest allocation, or its begin, a flow ends although data waits ([`Output::Abandon`]): more
    /// than the timeout of some requests. `None` where all hosts reply, as in the simulator.
    pub abandon_after: Option<Duration>,
    /// How long the clock of a flow that has ended is kept: at least the longest lifetime of a grant at a port of the
    /// path, which grants nothing to an earlier clock for that time.
    pub memory: Duration,
    /// The widths of fields.
    pub coding: Coding,
}

/// Events of a host, since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostCounters {
    /// Flows that the host sends, each time that one began.
    pub begun: u64,
    /// Allocations that opened a gate.
    pub allocations: u64,
    /// Allocations of flows that the host does not send: each is replied to with a termination.
    pub unwanted: u64,
    /// Allocations that are not later than the newest of their flow.
    pub stale: u64,
    /// Returns of flows without a receiver.
    pub astray: u64,
    /// Returns that arrived after the next allocation was issued: round trips, with queues, longer than a period. The
    /// demand of their flows is a period older.
    pub slow: u64,
    /// Requests of flows beyond [`INCOMING_MAX`].
    pub refused: u64,
    /// Messages of services without credits.
    pub foreign: u64,
    /// Bytes that left beyond the credits of their flow.
    pub overspent: u64,
}

/// All flows of a host. See the module's documentation.
#[derive(Debug)]
pub struct Host<A, O: OnlinePort> {
    settings: HostSettings,
    weights: BTreeMap<ServiceId, Weight>,
    first: Option<FirstPort<Aggregate<A>, O>>,
    hides_backlog: bool,
    outgoing: BTreeMap<Aggregate<A>, Outgoing>,
    incoming: BTreeMap<Aggregate<A>, Receiver>,
    /// Of flows of `outgoing` that have not ended, the next event; of the others, when they are forgotten.
    sends: Deadlines<Aggregate<A>>,
    ended: Deadlines<Aggregate<A>>,
    receives: Deadlines<Aggregate<A>>,
    outputs: VecDeque<Output<A>>,
    counters: HostCounters,
}

impl<A: Copy + Ord, O: OnlinePort> Host<A, O> {
    /// A host without flows. `first` is its interface as the first port of its data, or `None` where another part of
    /// the driver is that port.
    pub fn new(settings: HostSettings, first: Option<FirstPort<Aggregate<A>, O>>) -> Self {
        Self {
            settings,
            weights: BTreeMap::new(),
            first,
            hides_backlog: false,
            outgoing: BTreeMap::new(),
            incoming: BTreeMap::new(),
            sends: Deadlines::new(),
            ended: Deadlines::new(),
            receives: Deadlines::new(),
            outputs: VecDeque::new(),
            counters: HostCounters::default(),
        }
    }

    /// The same host with applications that keep data back while some waits, as TCP does on Linux
    /// (tcp_small_queue_check): of a flow without limit two frames wait at any time. A flow of which data waits and
    /// which has used its gate then demands as much as the path allows.
    #[must_use]
    pub fn with_hidden_backlog(mut self) -> Self {
        self.hides_backlog = true;
        self
    }

    /// The services with credits and their weights. Flows of other services end; a new weight holds for requests from
    /// now on.
    pub fn set_services(&mut self, now: Instant, weights: BTreeMap<ServiceId, Weight>) {
        self.weights = weights;
        let is_over = |flow: &Aggregate<A>| !self.weights.contains_key(&flow.service);
        let over: Vec<_> = self.sending().filter(is_over).collect();
        let silent: Vec<_> = self.incoming.keys().copied().filter(is_over).collect();
        over.into_iter().for_each(|flow| self.end(now, flow, Output::End { flow }));
        for flow in silent {
            self.incoming.remove(&flow);
            self.receives.set(flow, None);
        }
    }

    /// R has changed: of the direction in which the host receives, and of the one in which it sends.
    pub fn set_rates(&mut self, receiving: Bandwidth, sending: Bandwidth) {
        self.settings.rate = receiving;
        self.incoming.values_mut().for_each(|receiver| receiver.set_rate(receiving));
        if let Some(first) = &mut self.first {
            first.set_rate(sending);
        }
    }

    /// A flow begins although nothing is known to wait, of which `sent` bytes have left before: the host requests
    /// credits for it, until [`HostSettings::linger`] is over. For a driver that has an event and no reading yet.
    pub fn begin(&mut self, now: Instant, flow: Aggregate<A>, sent: u64) {
        if !self.weights.contains_key(&flow.service) {
            return;
        }
        let sending = match self.outgoing.remove(&flow) {
            Some(sending) => {
                self.counters.begun += u64::from(sending.has_ended());
                self.ended.set(flow, None);
                sending.begin(now, sent)
            }
            None => {
                self.counters.begun += 1;
                Outgoing::new(now, self.sender_settings(), sent)
            }
        };
        self.keep(flow, sending);
    }

    /// The bytes of a flow that have left through its gate, and those that wait. Data of a service without credits
    /// begins no flow.
    pub fn on_reading(&mut self, now: Instant, flow: Aggregate<A>, reading: Reading) {
        if self.outgoing.get(&flow).is_none_or(Outgoing::has_ended) {
            if reading.waiting == Bytes::ZERO {
                return;
            }
            self.begin(now, flow, reading.sent);
        }
        let Some(mut sending) = self.outgoing.remove(&flow) else { return };
        let read = sending.on_reading(now, reading);
        self.counters.overspent += read.overspent.get();
        if let Some(first) = self.first.as_mut().filter(|_| read.sent > Bytes::ZERO) {
            first.on_data(now, flow, read.sent);
        }
        self.keep(flow, sending);
    }

    /// A message of a flow has arrived: an allocation of one that the host sends, all others of one that it receives.
    pub fn on_message(&mut self, now: Instant, flow: Aggregate<A>, message: &Message) {
        let Some(&weight) = self.weights.get(&flow.service) else {
            self.counters.foreign += 1;
            return;
        };
        match message {
            Message::Allocation(allocation) => self.on_allocation(now, flow, allocation),
            Message::Request(request) => self.on_request(now, flow, request, weight),
            Message::Return(returned) => match self.incoming.get_mut(&flow) {
                Some(receiver) => {
                    self.counters.slow += u64::from(receiver.is_slow(returned));
                    receiver.on_return(now, returned);
                    self.receives.set(flow, receiver.timer());
                }
                None => self.counters.astray += 1,
            },
            Message::Terminate => {
                self.incoming.remove(&flow);
                self.receives.set(flow, None);
            }
        }
    }

    fn on_request(&mut self, now: Instant, flow: Aggregate<A>, request: &Request, weight: Weight) {
        let settings = self.receiver_settings(weight);
        if self.incoming.len() >= INCOMING_MAX && !self.incoming.contains_key(&flow) {
            self.counters.refused += 1;
            return;
        }
        let receiver = self.incoming.entry(flow).or_insert_with(|| Receiver::new(now, settings, request));
        receiver.on_request(now, request);
        self.receives.set(flow, receiver.timer());
    }

    fn on_allocation(&mut self, now: Instant, flow: Aggregate<A>, allocation: &Allocation) {
        if self.outgoing.get(&flow).is_none_or(Outgoing::has_ended) {
            self.counters.unwanted += 1;
            self.outputs.push_back(Output::Send { flow, message: Message::Terminate });
            return;
        }
        let Some(mut sending) = self.outgoing.remove(&flow) else { return };
        let (arrived, mut allocation) = (*allocation, *allocation);
        if let Some(first) = &mut self.first {
            allocation = self.settings.coding.allocation(&first.allocate(now, flow, &allocation));
        }
        match sending.on_allocation(now, &allocation, self.hides_backlog) {
            Some((gate, returned)) => {
                self.counters.allocations += 1;
                sending.passed(Passage { at: now, arrived, left: allocation, returned });
                if let Some(first) = &mut self.first {
                    first.on_return(now, flow, &returned);
                }
                self.outputs.push_back(Output::Gate { flow, gate });
                self.outputs.push_back(Output::Send { flow, message: Message::Return(returned) });
            }
            None => self.counters.stale += 1,
        }
        self.keep(flow, sending);
    }

    /// The time of the next event without a message; `None` for a host without flows.
    pub fn timer(&self) -> Option<Instant> {
        [self.sends.first(), self.ended.first(), self.receives.first()].into_iter().flatten().min()
    }

    /// The flows that the host sends and of which something is due at `now`: the end of a period or of the flow, or a
    /// request. A driver reads them first: a flow without readings for [`HostSettings::linger`] ends, although data
    /// waits.
    pub fn due(&self, now: Instant) -> impl Iterator<Item = Aggregate<A>> + '_ {
        self.sends.due(now)
    }

    /// Carries out what is due at `now`: allocations, requests, and the ends of periods and flows.
    pub fn on_timer(&mut self, now: Instant) {
        while let Some(flow) = self.receives.pop(now) {
            let Some(receiver) = self.incoming.get_mut(&flow) else { continue };
            if let Some(allocation) = receiver.poll(now) {
                self.outputs.push_back(Output::Send { flow, message: Message::Allocation(allocation) });
            }
            let timer = receiver.timer();
            if receiver.is_idle() {
                self.incoming.remove(&flow);
            }
            self.receives.set(flow, timer);
        }
        while let Some(flow) = self.ended.pop(now) {
            self.outgoing.remove(&flow);
        }
        while let Some(flow) = self.sends.pop(now) {
            let Some(mut sending) = self.outgoing.remove(&flow) else { continue };
            let is_over = sending.is_over(now, self.settings.linger);
            if is_over || sending.is_abandoned(now, self.settings.abandon_after) {
                self.outgoing.insert(flow, sending);
                self.end(now, flow, if is_over { Output::End { flow } } else { Output::Abandon { flow } });
                continue;
            }
            if sending.closes(now) {
                self.outputs.push_back(Output::Gate { flow, gate: Gate::CLOSED });
            }
            if let Some(request) = sending.request(now) {
                if let Some(first) = &mut self.first {
                    first.on_request(now, flow, request.clock);
                }
                self.outputs.push_back(Output::Send { flow, message: Message::Request(request) });
            }
            self.keep(flow, sending);
        }
    }

    /// Gates are short by `count`: at most so many flows that have waited without any allocation for longer than the
    /// first timeout of requests are abandoned ([`Output::Abandon`]), each time the one that has waited for longest, of
    /// the service with the most flows that has such a one. A service with less than an equal part of all flows loses
    /// none, so data to hosts without an agent takes no gates of other services.
    pub fn give_up(&mut self, now: Instant, count: usize) {
        type Flows<A> = (usize, BTreeSet<(Instant, Aggregate<A>)>);
        let mut services: BTreeMap<ServiceId, Flows<A>> = BTreeMap::new();
        for (flow, sending) in self.outgoing.iter().filter(|(_, sending)| !sending.has_ended()) {
            let (flows, waiting) = services.entry(flow.service).or_default();
            *flows += 1;
            let since = sending.unallocated_since().filter(|since| now >= *since + self.settings.timeout[0]);
            waiting.extend(since.map(|since| (since, *flow)));
        }
        let mut all: usize = services.values().map(|(flows, _)| flows).sum();
        for _ in 0..count {
            let waiting = services.values_mut().filter(|(_, waiting)| !waiting.is_empty());
            let Some((flows, waiting)) = waiting.max_by_key(|(flows, _)| *flows) else { return };
            let Some((_, flow)) = waiting.pop_first().filter(|_| *flows * self.weights.len() >= all) else { return };
            (*flows, all) = (*flows - 1, all - 1);
            self.end(now, flow, Output::Abandon { flow });
        }
    }

    /// The next output.
    pub fn poll(&mut self) -> Option<Output<A>> {
        self.outputs.pop_front()
    }

    /// The flow that the host sends is over, as `output` reports.
    fn end(&mut self, now: Instant, flow: Aggregate<A>, output: Output<A>) {
        let Some(sending) = self.outgoing.get_mut(&flow) else { return };
        sending.end();
        self.sends.set(flow, None);
        self.ended.set(flow, Some(now + self.settings.memory));
        if self.ended.len() > ENDED_MAX
            && let Some(oldest) = self.ended.first().and_then(|first| self.ended.pop(first))
        {
            self.outgoing.remove(&oldest);
        }
        if let Some(first) = &mut self.first {
            first.terminate(now, flow);
        }
        self.outputs.push_back(output);
        self.outputs.push_back(Output::Send { flow, message: Message::Terminate });
    }

    fn keep(&mut self, flow: Aggregate<A>, sending: Outgoing) {
        self.sends.set(flow, Some(sending.timer(&self.settings)));
        self.outgoing.insert(flow, sending);
    }

    fn sender_settings(&self) -> SenderSettings {
        let HostSettings { frame, whole_frames, timeout, .. } = self.settings;
        // The weight of the service is the receiver's.
        SenderSettings { weight: Weight::ONE, frame, whole_frames, timeout }
    }

    fn receiver_settings(&self, weight: Weight) -> ReceiverSettings {
        let HostSettings { rate, least, silence, coding, .. } = self.settings;
        ReceiverSettings { rate, least, timeout: silence, weight, coding }
    }

    /// Events since the host began.
    pub fn counters(&self) -> HostCounters {
        self.counters
    }

    /// The host's interface as the first port of its data.
    pub fn first_port(&self) -> Option<&FirstPort<Aggregate<A>, O>> {
        self.first.as_ref()
    }

    /// The flows that the host sends.
    pub fn sending(&self) -> impl Iterator<Item = Aggregate<A>> + '_ {
        self.outgoing.iter().filter(|(_, sending)| !sending.has_ended()).map(|(flow, _)| *flow)
    }

    /// The newest allocation of each flow that the host sends; `None` before the first.
    pub fn passages(&self) -> impl Iterator<Item = (Aggregate<A>, Option<Passage>)> + '_ {
        let live = self.outgoing.iter().filter(|(_, sending)| !sending.has_ended());
        live.map(|(flow, sending)| (*flow, sending.passage()))
    }

    /// How many flows the host sends, and how many it receives.
    pub fn counts(&self) -> [usize; 2] {
        [self.outgoing.len() - self.ended.len(), self.incoming.len()]
    }

    /// The flows that it receives.
    pub fn receiving(&self) -> impl Iterator<Item = Aggregate<A>> + '_ {
        self.incoming.keys().copied()
    }
}
