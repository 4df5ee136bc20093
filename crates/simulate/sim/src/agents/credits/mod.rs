//! PACE's forwarders in a world: the agent of each port, and the receivers of a host's flows.
//!
//! The agent of a port combines the offline part of a forwarder ([`Forwarder`]) with the online part ([`CreditPort`],
//! which runs per packet). The shares are published with each allocation. An agent at a host's interface is the first
//! port of the flows that leave the host, and has the receivers of those that arrive.
//!
//! - The aggregates of a service at a port divide its weight there, as at Linux's forwarders
//!   ([`weir_credits::port_shares::divided`]).
//! - A request passes on its way to the receiver: the port has state of its flow from then on.
//! - An allocation arrives over the opposite direction of the port's link: it is recorded, if it is new, and reduced.
//!   One of a flow whose data leaves by another port leaves no state.
//! - Data enters the port: it uses grants, and is dropped if it has none and the port is lossless.
//! - Messages of senders arrive at the receiving host: they end there, or leave the data that carried them.
//! - The network's routes change: for the lifetime of a grant, data beyond the grants of a port counts as re-routed. It
//!   passes and is counted apart, as are the port's losses in that time. `datapath/credit.h` recognises flows that the
//!   port has never had; a flow that returns to an earlier path is recognised here.
//!
//! Example: a flow's request reaches its host. The agent there issues an allocation at once; the agent of the port that
//! leads to the host reduces it first, the agent of the sender's interface last.

mod bound;
mod control;
mod flows;
mod queue;
mod readings;
mod receivers;

use crate::fetch::fetch_line;
use bound::CreditBound;
use control::Control;
use flows::Flows;
use queue::CreditQueue;
pub(crate) use readings::CreditLosses;
use receivers::Receivers;
use weir_credits::host::PairWeights;
use weir_credits::port_shares::divided;
use weir_credits::{Allocation, Forwarder, ForwarderSettings, Message, PeriodRule, ReceiverSettings};
use weir_datapath::{CreditCounters, CreditPort, CreditPortSettings};
use weir_transport::agents::{
    Agent, FlowEnd, FlowKey, Message as Packet, PacketKind, Passing, PortState, Verdict, Watch,
};
use weir_transport::pace::{ALLOCATION, Parameters};
use weir_units::{Bandwidth, Bytes, Instant, ServiceId, SimTime, Weight};

/// Bytes: frames up to this size need no credits where senders keep the sizes of frames (`datapath/credit.h`).
pub(crate) const EXEMPT: u32 = 128;
/// Periods without an allocation that end a flow at a port: three allocations in a row may be lost.
const MEMORY: u64 = 4;

/// The port that an agent is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PortOf {
    /// The rate of its link, and that of the opposite direction.
    pub(crate) rate: Bandwidth,
    pub(crate) ingress: Bandwidth,
    /// It is a host's interface.
    pub(crate) is_host: bool,
    /// It chooses among frames.
    pub(crate) scheduled: bool,
    /// Senders keep the sizes of frames.
    pub(crate) whole_frames: bool,
    /// The largest frame, and one without data.
    pub(crate) frame: u32,
    pub(crate) headers: u32,
    /// Ports without forwarders are on some paths: no port makes a claim.
    pub(crate) claims: bool,
    /// The seed of lost control messages.
    pub(crate) seed: u64,
}

/// The agent of a port.
#[derive(Debug)]
pub(crate) struct CreditAgent {
    forwarder: Forwarder,
    port: CreditPort,
    parameters: Parameters,
    headers: u32,
    scheduled: bool,
    flows: Flows,
    receivers: Option<Receivers>,
    /// Of aggregates: the number of each service's at the port.
    pairs: Option<PairWeights>,
    queue: CreditQueue,
    bound: CreditBound,
    control: Control,
    /// Bytes of data that the port took.
    data: u64,
    rerouted: Rerouted,
}

/// Data on changed routes.
#[derive(Debug, Default)]
struct Rerouted {
    /// A lifetime of grants after the last change.
    changed_until: Instant,
    /// A lifetime of grants after the last re-routed data: the port makes no claim.
    until: Instant,
    /// Re-routed packets, those of them that the port counted as late, and the bytes of these.
    packets: u64,
    late_packets: u64,
    late: u64,
}

/// Bytes of data without grants that have arrived at a port.
struct Ungranted {
    late: u64,
    rerouted: u64,
    unaccounted: u64,
}

impl Ungranted {
    fn of(counters: &CreditCounters) -> Self {
        let CreditCounters { late, rerouted, unaccounted, .. } = *counters;
        Self { late, rerouted, unaccounted }
    }
}

/// The part of a link's rate.
fn part(rate: Bandwidth, share: f64) -> Bandwidth {
    Bandwidth::from_bps((rate.bps() as f64 * share) as u64)
}

/// The service of an aggregate.
fn service(flow: FlowKey) -> ServiceId {
    ServiceId(flow.hash)
}

/// A flow has left the shares.
fn leave(pairs: &mut Option<PairWeights>, flow: FlowKey) {
    if let Some(pairs) = pairs {
        pairs.remove(service(flow));
    }
}

impl CreditAgent {
    /// The agent of a port; with receivers at a host's interface.
    pub(crate) fn new(parameters: &Parameters, of: PortOf) -> Self {
        let (least, share) = (parameters.period, parameters.share);
        let most = parameters.max_period.min(parameters.coding.longest());
        let rate = part(of.rate, share);
        let rule = PeriodRule { rate, least, most, frame: Bytes::new(of.frame.into()) };
        let receivers = of.is_host.then(|| {
            Receivers::new(ReceiverSettings {
                rate: part(of.ingress, share),
                least,
                timeout: parameters.min_rto.duration().max(most.duration() * MEMORY),
                weight: Weight::ONE,
                coding: parameters.coding,
            })
        });
        let lossless = parameters.lossless && of.claims;
        let port = CreditPort::new(&CreditPortSettings { rate, most, lossless });
        Self {
            forwarder: Forwarder::new(Instant::ZERO, ForwarderSettings { rule, memory: MEMORY }),
            port: if of.whole_frames { port.with_whole_frames(Bytes::new(of.frame.into())) } else { port },
            parameters: parameters.clone(),
            headers: of.headers,
            scheduled: of.scheduled,
            flows: Flows::default(),
            receivers,
            pairs: of.whole_frames.then(PairWeights::default),
            queue: CreditQueue::new(of.rate, of.scheduled),
            bound: CreditBound::default(),
            control: Control::new(parameters.control_loss, of.seed),
            data: 0,
            rerouted: Rerouted::default(),
        }
    }

    /// Ends flows whose allocations have stopped: at once in the shares, and when their last grant has expired in full.
    fn expire(&mut self, now: Instant) {
        let until = now + self.port.longest_lifetime();
        for number in self.forwarder.expire(now) {
            leave(&mut self.pairs, self.flows.key(number));
            self.flows.forget_at(number, until);
        }
        self.flows.forget(now);
    }

    /// An allocation passes on its way to the sender.
    fn allocate(&mut self, now: SimTime, flow: FlowKey, allocation: &Allocation, direct: bool) -> Allocation {
        let at = now.instant();
        self.expire(at);
        let held = self.queue.held(now);
        let queued = Bytes::new(held.bytes);
        let mut reduced = *allocation;
        if !direct {
            // Another port has the flow, and this one keeps nothing of it.
            let state = &mut weir_datapath::CreditFlow::default();
            self.port.allocate(state, &mut reduced, at, queued, false);
            return self.parameters.coding.allocation(&reduced);
        }
        let number = self.flows.number_or_new(flow);
        if self.port.is_new(self.flows.state(number), allocation) {
            self.flows.renew(number);
            if let Some(pairs) = self.pairs.as_mut().filter(|_| !self.forwarder.has(number)) {
                pairs.add(service(flow));
            }
            reduced.weight = self.weight(flow, allocation.weight);
            self.forwarder.record(at, number, &reduced);
        }
        reduced.weight = self.weight(flow, allocation.weight);
        let published = self.forwarder.publish(at);
        self.port.publish(&published);
        let granted = self.port.counters().granted;
        self.port.allocate(self.flows.state(number), &mut reduced, at, queued, true);
        if self.port.counters().granted > granted {
            self.bound.on_grant(self.forwarder.budget(&published).get());
        }
        self.bound.check(self.port.outstanding().get(), held);
        reduced.weight = allocation.weight;
        self.parameters.coding.allocation(&reduced)
    }

    /// The weight of a flow at the port.
    fn weight(&self, flow: FlowKey, weight: Weight) -> Weight {
        self.pairs.as_ref().map_or(weight, |pairs| divided(weight, pairs.count(service(flow))))
    }

    /// A sender's message passes with its data, or alone.
    fn on_message(&mut self, now: Instant, flow: FlowKey, message: &Message) {
        if let Message::Request(request) = message {
            // A flow of before, whose time is over, has clocks that may be later than the request's.
            self.expire(now);
            let number = self.flows.number_or_new(flow);
            self.port.on_request(self.flows.state(number), request.clock);
            self.flows.forget_at(number, now + self.port.longest_lifetime());
        }
        let Some(number) = self.flows.number(flow) else { return };
        match message {
            Message::Return(returned) => self.port.on_return(self.flows.state(number), returned, now),
            Message::Terminate => {
                self.port.terminate(self.flows.state(number), now);
                if self.forwarder.remove(number) {
                    leave(&mut self.pairs, flow);
                }
                self.flows.forget_at(number, now + self.port.longest_lifetime());
            }
            Message::Request(_) | Message::Allocation(_) => {}
        }
    }

    /// Data enters the port, which holds `held` bytes of all traffic.
    pub(crate) fn on_data(&mut self, now: SimTime, flow: FlowKey, size: u32, held: u64) -> Verdict {
        let (at, bytes) = (now.instant(), Bytes::new(size.into()));
        let is_changed = at < self.rerouted.changed_until;
        let number = match self.flows.number(flow) {
            None if is_changed => {
                let number = self.flows.number_or_new(flow);
                self.flows.forget_at(number, at + self.port.longest_lifetime());
                Some(number)
            }
            known => known,
        };
        let before = Ungranted::of(self.port.counters());
        let dropped = match number {
            Some(number) => self.port.on_data(self.flows.state(number), bytes, at),
            None => self.port.on_unknown_data(bytes, at),
        };
        let after = Ungranted::of(self.port.counters());
        let [late, rerouted] = [after.late - before.late, after.rerouted - before.rerouted];
        let ungranted = late + rerouted + (after.unaccounted - before.unaccounted);
        if late > 0 && is_changed {
            self.rerouted.late_packets += 1;
            self.rerouted.late += late;
        } else if dropped {
            return Verdict::Consume;
        }
        if rerouted > 0 || (late > 0 && is_changed) {
            self.rerouted.packets += 1;
            self.rerouted.until = at + self.port.longest_lifetime();
        }
        self.data += u64::from(size);
        self.queue.enter(now, size, ungranted as u32, held);
        let held = self.queue.held(now);
        self.bound.check(self.port.outstanding().get(), held);
        Verdict::Pass
    }

    /// Prefetches what data of the flow of a slot needs: the entry of its number, and what the port has.
    #[inline]
    pub(crate) fn fetch_number(&self, slot: u32) {
        self.flows.fetch_number(slot);
        self.queue.fetch();
        fetch_line(std::ptr::from_ref(self.port.raw()).cast());
    }

    /// Prefetches the state of the flow of a slot; returns its number.
    #[inline]
    pub(crate) fn fetch_state(&self, slot: u32) -> Option<u32> {
        self.flows.fetch_state(slot)
    }

    /// Prefetches the grants of a flow by its number.
    #[inline]
    pub(crate) fn fetch_grants(&self, number: u32) {
        self.flows.fetch_grants(number);
    }

    /// Whether a packet of credits carries data.
    fn is_data(&self, packet: &Passing<'_>) -> bool {
        packet.credits && self.is_frame_with_data(packet.size)
    }

    /// Whether a frame of a flow with credits carries data, by its size.
    #[inline]
    pub(crate) fn is_frame_with_data(&self, size: u32) -> bool {
        size > self.headers
    }

    /// Whether the port chooses among frames.
    #[inline]
    pub(crate) fn is_scheduled(&self) -> bool {
        self.scheduled
    }

    /// The transmission of a frame of data begins at a port that chooses.
    #[inline]
    pub(crate) fn on_data_leaves(&mut self, now: SimTime, size: u32) {
        self.queue.leave(now, size);
    }

    /// Whether re-routed data has entered the port within the longest lifetime of a grant: the port makes no claim.
    pub(crate) fn is_excluded(&self, now: Instant) -> bool {
        now < self.rerouted.until
    }

    /// The network has other routes.
    pub(crate) fn on_routes(&mut self, now: Instant) {
        self.rerouted.changed_until = now + self.port.longest_lifetime();
    }

    /// The port drops a frame of data that waited in it.
    pub(crate) fn on_given_up(&mut self, size: u32) {
        self.queue.give_up(size);
    }

    /// The link goes down, and loses the frames on it.
    pub(crate) fn on_down(&mut self) {
        self.queue.cut();
    }

    /// The rate of the port's link has changed.
    pub(crate) fn on_rate(&mut self, now: SimTime, rate: Bandwidth) {
        self.queue.set_rate(now, rate);
        let rate = part(rate, self.parameters.share);
        self.forwarder.set_rate(rate);
        self.port.set_rate(rate);
    }

    /// The rate of the opposite direction of the link has changed.
    pub(crate) fn on_ingress_rate(&mut self, rate: Bandwidth) {
        let rate = part(rate, self.parameters.share);
        if let Some(receivers) = &mut self.receivers {
            receivers.set_rate(rate);
        }
    }
}

impl Agent for CreditAgent {
    fn watch(&self) -> Watch {
        Watch { all: true, leaving: self.scheduled, returning: true }
    }

    fn on_enter(&mut self, now: SimTime, packet: &mut Passing<'_>) -> Verdict {
        let (size, held) = (packet.size, packet.port.held);
        let Some(flow) = packet.flow else { return Verdict::Pass };
        let is_data = self.is_data(packet);
        if let Some(message) = packet.control::<Box<Message>>().map(|message| **message) {
            self.on_message(now.instant(), flow, &message);
            if !is_data {
                self.control.on_enter(size);
            }
        }
        if is_data { self.on_data(now, flow, size, held) } else { Verdict::Pass }
    }

    fn on_leave(&mut self, now: SimTime, packet: &mut Passing<'_>) {
        if self.is_data(packet) {
            self.on_data_leaves(now, packet.size);
        }
    }

    fn on_return(&mut self, now: SimTime, packet: &mut Passing<'_>) -> Verdict {
        let (kind, direct) = (packet.kind, packet.direct);
        let (Some(flow), is_data) = (packet.flow, self.is_data(packet)) else { return Verdict::Pass };
        let Some(message) = packet.control::<Box<Message>>() else { return Verdict::Pass };
        if !is_data && self.control.is_lost() {
            return Verdict::Consume;
        }
        match (kind, &**message) {
            (PacketKind::Message, Message::Allocation(allocation)) => {
                let reduced = self.allocate(now, flow, allocation, direct);
                **message = Message::Allocation(reduced);
                Verdict::Pass
            }
            (PacketKind::Data, message) => {
                let Some(receivers) = &mut self.receivers else { return Verdict::Pass };
                receivers.on_message(now.instant(), flow, message);
                if is_data { Verdict::PassWithout } else { Verdict::Consume }
            }
            _ => Verdict::Pass,
        }
    }

    fn timer(&self) -> SimTime {
        self.receivers.as_ref().and_then(Receivers::timer).map_or(SimTime::NEVER, SimTime::from)
    }

    fn on_timer(&mut self, now: SimTime, _port: PortState) {
        if let Some(receivers) = &mut self.receivers {
            receivers.issue(now.instant());
        }
    }

    fn poll(&mut self) -> Option<Packet> {
        let (flow, allocation) = self.receivers.as_mut()?.poll()?;
        let control = Box::new(Message::Allocation(allocation)).into();
        Some(Packet { flow, to: FlowEnd::Sender, size: ALLOCATION, control })
    }
}

#[cfg(test)]
mod tests;
