//! [`Driver`]: the inputs and outputs of a host's credits.
//!
//! Each turn takes the events of the programs and all datagrams that have arrived. If an allocation is among them or a
//! pair is new, it closes the gates of the allocations and reads all. Then it carries out the outputs: gates in one
//! netlink batch, then the messages, since a return makes the kernel serve the gate that was set before it.
//!
//! Gates that no pair has are ready in a queue of the kernel ([`SPARE`]). A pair keeps its gate while it is idle; when
//! gates run short the pairs that have been idle for longest give theirs up.
//!
//! Worked example: an event reports a new pair with gate 3. A request leaves; 0.2 ms later an allocation of 9,000 B
//! arrives, the gates are read, gate 3 is set to 9,000 B, and the return leaves.

use super::messages::{Flow, Messages};
use super::socket::CreditSocket;
use super::{CreditReading, FirstPortReading, SendingFlow};
use crate::host::HostError;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, RawFd};
use tracing::debug;
use weir_credits::host::{FirstPort, Gate, Host, Output, Passage, Reading};
use weir_credits::{Message, Period, Published};
use weir_datapath::CreditPort;
use weir_linux::credits::{CreditGates, CreditPairs, PAIRS_MAX, Pair};
use weir_linux::shaper::ShaperError;
use weir_units::{Bandwidth, Instant, ServiceId};

/// Gates that are ready for new pairs: a host that begins to send to more hosts at once, within the time in which this
/// thread runs, drops packets.
const SPARE: usize = 64;
/// Bytes of the longest datagram that is read: longer ones are of another protocol.
const DATAGRAM: usize = 256;

/// All that the thread has.
pub(super) struct Driver {
    host: Host<IpAddr, CreditPort>,
    pairs: CreditPairs,
    gates: CreditGates,
    messages: Messages,
    socket: CreditSocket,
    /// Services by slot, and back.
    services: BTreeMap<u32, ServiceId>,
    slots: BTreeMap<ServiceId, u32>,
    /// The flows with a gate, and back.
    gate_of: BTreeMap<Flow, u32>,
    flow_of: BTreeMap<u32, Flow>,
    /// Flows that have ended and keep their gate, since when.
    idle: BTreeSet<(Instant, Flow)>,
    idle_since: BTreeMap<Flow, Instant>,
    /// Gates that are ready, and those that were never made or are deleted.
    ready: usize,
    unmade: Vec<u32>,
    /// Whether the thread is a real-time one.
    pub(super) is_prompt: bool,
}

impl Driver {
    /// A driver with ready gates; `services` has those with credits by their slots.
    pub(super) fn new(
        host: Host<IpAddr, CreditPort>,
        pairs: CreditPairs,
        gates: CreditGates,
        messages: Messages,
        socket: CreditSocket,
        services: BTreeMap<u32, ServiceId>,
    ) -> Result<Self, HostError> {
        let mut driver = Self {
            slots: services.iter().map(|(&slot, &service)| (service, slot)).collect(),
            host,
            pairs,
            gates,
            messages,
            socket,
            services,
            gate_of: BTreeMap::new(),
            flow_of: BTreeMap::new(),
            idle: BTreeSet::new(),
            idle_since: BTreeMap::new(),
            ready: 0,
            unmade: (0..PAIRS_MAX).rev().collect(),
            is_prompt: false,
        };
        driver.remove_leftovers()?;
        driver.make_ready()?;
        Ok(driver)
    }

    /// Gates of an earlier thread, whose pairs are gone.
    fn remove_leftovers(&mut self) -> Result<(), HostError> {
        let left: Vec<u32> = self.gates.read().map_err(shaper)?.iter().map(|reading| reading.gate).collect();
        self.gates.remove(&left).map_err(shaper)
    }

    /// The files that wake the thread.
    pub(super) fn files(&self) -> [RawFd; 2] {
        [self.socket.as_raw_fd(), self.pairs.as_fd().as_raw_fd()]
    }

    /// When the next turn is due at the latest.
    pub(super) fn timer(&self) -> Option<Instant> {
        self.host.timer()
    }

    /// One turn.
    pub(super) fn work(&mut self, now: Instant) -> Result<(), HostError> {
        let new = self.take_events();
        let messages = self.receive();
        let allocated = self.close(&messages)?;
        if allocated || !new.is_empty() {
            self.read(now, &new)?;
        }
        for (flow, message) in &messages {
            self.host.on_message(now, *flow, message);
        }
        if self.host.timer().is_some_and(|due| due <= now) {
            self.host.on_timer(now);
        }
        if self.perform(now)? {
            // A packet may have come between the last reading and the mark of an idle pair.
            self.read(now, &BTreeSet::new())?;
            self.perform(now)?;
        }
        if new.is_empty() { Ok(()) } else { self.make_ready() }
    }

    /// The flows of pairs that are new or no longer idle.
    fn take_events(&mut self) -> BTreeSet<Flow> {
        let mut flows = BTreeSet::new();
        for (pair, gate) in self.pairs.events() {
            let Some(&service) = self.services.get(&pair.slot) else { continue };
            let flow = Flow { service, source: pair.source, destination: pair.destination };
            if self.gate_of.insert(flow, gate) != Some(gate) {
                self.flow_of.insert(gate, flow);
                self.ready = self.ready.saturating_sub(1);
            }
            self.renew(flow);
            flows.insert(flow);
        }
        flows
    }

    /// All datagrams that have arrived.
    fn receive(&mut self) -> Vec<(Flow, Message)> {
        let (mut messages, mut buffer) = (Vec::new(), [0; DATAGRAM]);
        loop {
            match self.socket.receive(&mut buffer) {
                Ok(Some(arrival)) => {
                    messages.extend(self.messages.decode(&buffer[..arrival.length], arrival.from, arrival.to));
                }
                Ok(None) => return messages,
                Err(error) => {
                    // An ICMP error of an earlier datagram: that host has no agent.
                    debug!("receive credits: {error}");
                    return messages;
                }
            }
        }
    }

    /// Closes the gates for which there are allocations: a frame that leaves between the reading and the new gate would
    /// have credits that are carried over too. Returns whether there are any.
    fn close(&mut self, messages: &[(Flow, Message)]) -> Result<bool, HostError> {
        let allocations = messages.iter().filter(|(_, message)| matches!(message, Message::Allocation(_)));
        let gates: BTreeSet<u32> = allocations.filter_map(|(flow, _)| self.gate_of.get(flow).copied()).collect();
        if gates.is_empty() {
            return Ok(false);
        }
        let gates: Vec<(u32, Gate)> = gates.into_iter().map(|gate| (gate, Gate::CLOSED)).collect();
        self.gates.set(&gates).map_err(shaper)?;
        Ok(true)
    }

    /// Reads all gates; `new` flows begin, whether or not data waits yet.
    fn read(&mut self, now: Instant, new: &BTreeSet<Flow>) -> Result<(), HostError> {
        for reading in self.gates.read().map_err(shaper)? {
            let Some(&flow) = self.flow_of.get(&reading.gate) else { continue };
            if new.contains(&flow) {
                self.host.begin(now, flow, reading.sent);
            }
            if reading.waiting.get() > 0 {
                self.renew(flow);
            }
            self.host.on_reading(now, flow, Reading { sent: reading.sent, waiting: reading.waiting });
        }
        if self.host.timer().is_some_and(|due| due <= now) {
            self.host.on_timer(now);
        }
        Ok(())
    }

    /// Carries out the outputs; returns whether a flow has ended.
    fn perform(&mut self, now: Instant) -> Result<bool, HostError> {
        let (mut gates, mut sends, mut ended) = (BTreeMap::new(), Vec::new(), false);
        while let Some(output) = self.host.poll() {
            match output {
                Output::Gate { flow, gate } => {
                    gates.extend(self.gate_of.get(&flow).map(|&number| (number, gate)));
                }
                Output::Send { flow, message } => sends.push((flow, message)),
                Output::End { flow } => {
                    ended = true;
                    if let Some(&gate) = self.gate_of.get(&flow) {
                        gates.insert(gate, Gate::CLOSED);
                        self.set_idle(now, flow, gate)?;
                    }
                }
            }
        }
        let gates: Vec<(u32, Gate)> = gates.into_iter().collect();
        if !gates.is_empty() {
            self.gates.set(&gates).map_err(shaper)?;
        }
        for (flow, message) in sends {
            let Some((body, source, destination)) = self.messages.encode(flow, message) else { continue };
            if let Err(error) = self.socket.send(&body, source, destination) {
                self.messages.counters.unsent += 1;
                debug!("credits to {destination}: {error}");
            }
        }
        Ok(ended)
    }

    fn set_idle(&mut self, now: Instant, flow: Flow, gate: u32) -> Result<(), HostError> {
        self.idle_since.insert(flow, now);
        self.idle.insert((now, flow));
        let slot = self.slots[&flow.service];
        Ok(self.pairs.set_idle(Pair { slot, source: flow.source, destination: flow.destination }, gate)?)
    }

    fn renew(&mut self, flow: Flow) {
        if let Some(since) = self.idle_since.remove(&flow) {
            self.idle.remove(&(since, flow));
        }
    }

    /// Makes gates ready for new pairs, of those that idle pairs give up if there are no others.
    fn make_ready(&mut self) -> Result<(), HostError> {
        let wanted = SPARE.saturating_sub(self.ready);
        while self.unmade.len() < wanted
            && let Some((_, flow)) = self.idle.pop_first()
        {
            self.idle_since.remove(&flow);
            let Some(gate) = self.gate_of.remove(&flow) else { continue };
            self.flow_of.remove(&gate);
            let slot = self.slots[&flow.service];
            self.pairs.remove(Pair { slot, source: flow.source, destination: flow.destination })?;
            self.gates.remove(&[gate]).map_err(shaper)?;
            self.unmade.push(gate);
        }
        let new = self.unmade.split_off(self.unmade.len() - wanted.min(self.unmade.len()));
        self.gates.add(&new).map_err(shaper)?;
        for gate in &new {
            self.pairs.offer(*gate)?;
        }
        self.ready += new.len();
        Ok(())
    }

    /// All but the flows.
    pub(super) fn reading(&self, now: Instant) -> CreditReading {
        let online = self.host.first_port().map(FirstPort::online);
        CreditReading {
            host: self.host.counters(),
            port: online.map(|online| *online.counters()).unwrap_or_default(),
            messages: self.messages.counters,
            flows: [self.host.sending().count(), self.host.receiving().count()],
            outstanding: online.map_or(0, |online| online.outstanding().get()),
            is_prompt: self.is_prompt,
            first: self.host.first_port().map(|first| first_port(first, now)).unwrap_or_default(),
            sending: Vec::new(),
        }
    }

    /// The flows that the host sends.
    pub(super) fn sending(&self, now: Instant) -> Vec<SendingFlow> {
        let of = |(flow, passage): (Flow, Option<Passage>)| SendingFlow {
            flow,
            weight: passage.map(|passage| passage.weight()),
            share: passage.map_or(Bandwidth::ZERO, |passage| passage.share(now)),
            demand: passage.map_or(Bandwidth::ZERO, |passage| passage.demand()),
            held: passage.map(|passage| passage.held(now)),
        };
        self.host.passages().map(of).collect()
    }
}

fn first_port(first: &FirstPort<Flow, CreditPort>, now: Instant) -> FirstPortReading {
    let rules = first.online().rules();
    let (period, longest) = (Period::from_micros(rules.period), Period::from_micros(rules.longest));
    let published = Published { per_weight: rules.per_weight, rest: rules.rest, period, longest };
    FirstPortReading {
        rate_bps: rules.rate,
        period_us: rules.period,
        longest_us: rules.longest,
        per_weight: rules.per_weight,
        rest: rules.rest,
        budget: first.forwarder().budget(&published).get(),
        queued: first.queued(now).get(),
    }
}

fn shaper(error: weir_linux::netlink::NetlinkError) -> HostError {
    ShaperError::from(error).into()
}
