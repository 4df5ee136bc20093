//! [`Driver`]: the inputs and outputs of a host's credits.
//!
//! Each turn takes the events of the programs and the datagrams that have arrived, at most [`TURN`] of each: another
//! host or a tenant that sends more of them must not hold a real-time thread. It closes the gates of allocations among
//! them, and reads the gates of these, of new pairs, and of flows of which something is due. Then it carries out the
//! outputs: gates in one netlink batch, then the messages, since a return makes the kernel serve the gate that was set
//! before it.
//!
//! Gates that no pair has are ready in a queue of the kernel ([`SPARE`]); `assignment` has the gates of flows. A pair
//! keeps its gate while it is idle; when gates run short the pairs that have been idle for longest give theirs up,
//! unless a packet has come meanwhile. Where none is idle, flows that wait for a first allocation are abandoned, of the
//! service with the most gates. The gate of a flow that has had no allocation for [`super::ABANDON`] timeouts of
//! requests is deleted with the packets in it.
//!
//! Worked example: an event reports a new pair with gate 3. A request leaves; 0.2 ms later an allocation of 9,000 B
//! arrives, the gates are read, gate 3 is set to 9,000 B, and the return leaves.

use super::assignment::Assignment;
use super::messages::{Flow, Messages, Newest};
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
use weir_units::{Bandwidth, Duration, Instant, ServiceId};

/// Gates that are ready for new pairs: a host that begins to send to more hosts at once, within the time in which this
/// thread runs, drops packets.
const SPARE: usize = 64;
/// The most events and the most datagrams of a turn: hundreds of flows have one in a period each.
const TURN: usize = 256;

/// How often active flows give up gates, [`SPARE`] at most: it takes a look at all flows.
const GIVE_UP: Duration = Duration::from_millis(10);

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
    assignment: Assignment,
    /// Pairs of services without credits, of an earlier policy.
    others: Vec<(Pair, u32)>,
    /// All gates are to be read in the next turn: flows of an earlier thread may wait.
    is_to_read: bool,
    /// When active flows may give up gates again.
    gives_up_at: Instant,
    /// Packets that gates have dropped: of each gate as last read, and of all since the thread began.
    drops: BTreeMap<u32, u32>,
    dropped: u64,
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
            assignment: Assignment::new(PAIRS_MAX, SPARE),
            others: Vec::new(),
            is_to_read: true,
            gives_up_at: Instant::ZERO,
            drops: BTreeMap::new(),
            dropped: 0,
            is_prompt: false,
        };
        driver.take_over()?;
        driver.make_ready(Instant::ZERO)?;
        Ok(driver)
    }

    /// Takes the pairs and gates of an earlier thread over, with the packets in them. The gates are closed: what its
    /// credits had left is void, so the first port begins without grants.
    fn take_over(&mut self) -> Result<(), HostError> {
        let readings = self.gates.read().map_err(shaper)?;
        let gates: BTreeSet<u32> = readings.iter().map(|reading| reading.gate).collect();
        self.drops = readings.iter().map(|reading| (reading.gate, reading.drops)).collect();
        let left = self.pairs.take_over(&gates)?;
        let (own, others): (Vec<_>, Vec<_>) =
            left.pairs.into_iter().partition(|(pair, _)| self.services.contains_key(&pair.slot));
        self.others = others;
        let used: BTreeSet<u32> =
            own.iter().chain(&self.others).map(|(_, gate)| *gate).chain(left.ready.iter().copied()).collect();
        let unused: Vec<u32> = gates.difference(&used).copied().collect();
        self.gates.add(&used.iter().copied().collect::<Vec<_>>()).map_err(shaper)?;
        self.gates.remove(&unused).map_err(shaper)?;
        // A gate that is made again counts from 0.
        self.drops.retain(|gate, _| used.contains(gate));
        self.assignment.note_existing(&used);
        left.ready.into_iter().for_each(|gate| self.assignment.add_ready(gate));
        for (pair, gate) in own {
            let flow = Flow { service: self.services[&pair.slot], source: pair.source, destination: pair.destination };
            self.assignment.resume(Instant::ZERO, flow, gate);
            // Its next packet posts an event; packets that wait already are found by the first reading.
            self.pairs.set_idle(pair, gate)?;
        }
        Ok(())
    }

    /// Removes the pairs of services that have no credits any more, with their waiting packets. Later packets do not
    /// enter gates.
    pub(super) fn remove_others(&mut self) -> Result<(), HostError> {
        for (pair, gate) in std::mem::take(&mut self.others) {
            self.pairs.remove(pair)?;
            self.delete(&[gate])?;
        }
        Ok(())
    }

    /// Closes all gates: no thread ends their periods any more.
    pub(super) fn close_all(&mut self) -> Result<(), HostError> {
        let gates: Vec<(u32, Gate)> = self.assignment.gates().map(|gate| (gate, Gate::CLOSED)).collect();
        self.gates.set(&gates).map_err(shaper)
    }

    /// The newest order of each sender, which the next thread takes over beside pairs and gates.
    pub(super) fn into_newest(self) -> Newest {
        self.messages.into_newest()
    }

    /// The number by which the kernel identifies the socket.
    pub(super) fn cookie(&self) -> Result<u64, HostError> {
        self.socket.cookie().map_err(HostError::CreditSocket)
    }

    /// The files that wake the thread.
    pub(super) fn files(&self) -> [RawFd; 2] {
        [self.socket.as_raw_fd(), self.pairs.as_fd().as_raw_fd()]
    }

    /// When the next turn is due at the latest.
    pub(super) fn timer(&self) -> Option<Instant> {
        if self.is_to_read { Some(Instant::ZERO) } else { self.host.timer() }
    }

    /// One turn.
    pub(super) fn work(&mut self, now: Instant) -> Result<(), HostError> {
        let new = self.take_events()?;
        let messages = self.receive();
        let mut gates = self.close(&messages)?;
        if std::mem::take(&mut self.is_to_read) {
            gates.extend(self.assignment.gates());
        }
        let flows = new.iter().copied().chain(self.host.due(now));
        gates.extend(flows.filter_map(|flow| self.assignment.gate(flow)));
        self.read(now, &gates, &new)?;
        for (flow, message) in &messages {
            self.host.on_message(now, *flow, message);
        }
        if self.host.timer().is_some_and(|due| due <= now) {
            self.host.on_timer(now);
        }
        self.give_up(now);
        let ended = self.perform(now)?;
        if !ended.is_empty() {
            // A packet may have come between the last reading and the mark of an idle pair.
            self.read(now, &ended, &BTreeSet::new())?;
            self.perform(now)?;
        }
        if self.assignment.is_short() {
            self.make_ready(now)?;
        }
        Ok(())
    }

    /// The flows of pairs that are new or no longer idle.
    fn take_events(&mut self) -> Result<BTreeSet<Flow>, HostError> {
        let mut flows = BTreeSet::new();
        for (pair, gate) in self.pairs.events(TURN) {
            if self.pairs.gate(pair)? != Some(gate) {
                // The pair was removed after the event.
                continue;
            }
            let Some(&service) = self.services.get(&pair.slot) else {
                // Of a service that had credits until a moment ago.
                if self.assignment.discard(gate) {
                    self.pairs.remove(pair)?;
                    self.delete(&[gate])?;
                }
                continue;
            };
            let flow = Flow { service, source: pair.source, destination: pair.destination };
            if self.assignment.on_event(flow, gate) {
                flows.insert(flow);
            }
        }
        Ok(flows)
    }

    /// The messages of datagrams that have arrived.
    fn receive(&mut self) -> Vec<(Flow, Message)> {
        let Self { socket, messages, .. } = self;
        let mut decoded = Vec::new();
        let received = socket.receive_up_to(TURN, |body, arrival| {
            decoded.extend(messages.decode(body, arrival.from, arrival.to));
        });
        if let Err(error) = received {
            // An ICMP error of an earlier datagram: that host has no agent.
            debug!("receive credits: {error}");
        }
        decoded
    }

    /// Closes the gates for which there are allocations: a frame that leaves between the reading and the new gate would
    /// have credits that are carried over too. Returns these gates.
    fn close(&mut self, messages: &[(Flow, Message)]) -> Result<BTreeSet<u32>, HostError> {
        let allocations = messages.iter().filter(|(_, message)| matches!(message, Message::Allocation(_)));
        let gates: BTreeSet<u32> = allocations.filter_map(|(flow, _)| self.assignment.gate(*flow)).collect();
        let closed: Vec<(u32, Gate)> = gates.iter().map(|gate| (*gate, Gate::CLOSED)).collect();
        self.gates.set(&closed).map_err(shaper)?;
        Ok(gates)
    }

    /// Reads gates; `new` flows begin, whether or not data waits yet.
    fn read(&mut self, now: Instant, gates: &BTreeSet<u32>, new: &BTreeSet<Flow>) -> Result<(), HostError> {
        let gates: Vec<u32> = gates.iter().copied().collect();
        for reading in self.gates.read_some(&gates).map_err(shaper)? {
            let before = self.drops.insert(reading.gate, reading.drops).unwrap_or(0);
            self.dropped += u64::from(reading.drops.saturating_sub(before));
            let Some(flow) = self.assignment.flow(reading.gate) else { continue };
            if new.contains(&flow) {
                self.host.begin(now, flow, reading.sent);
            }
            if reading.waiting.get() > 0 {
                self.assignment.renew(flow);
            }
            self.host.on_reading(now, flow, Reading { sent: reading.sent, waiting: reading.waiting });
        }
        if self.host.timer().is_some_and(|due| due <= now) {
            self.host.on_timer(now);
        }
        Ok(())
    }

    /// Carries out the outputs; returns the gates of flows that have ended and keep them.
    fn perform(&mut self, now: Instant) -> Result<BTreeSet<u32>, HostError> {
        let (mut gates, mut sends, mut ended) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        let mut abandoned = Vec::new();
        while let Some(output) = self.host.poll() {
            match output {
                Output::Gate { flow, gate } => {
                    gates.extend(self.assignment.gate(flow).map(|number| (number, gate)));
                }
                Output::Send { flow, message } => sends.push((flow, message)),
                Output::End { flow } => {
                    if let Some(gate) = self.assignment.gate(flow) {
                        ended.insert(gate);
                        gates.insert(gate, Gate::CLOSED);
                        self.set_idle(now, flow, gate)?;
                    }
                }
                Output::Abandon { flow } => abandoned.push(flow),
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
        self.abandon(abandoned)?;
        Ok(ended)
    }

    /// Ends active flows if their gates are needed.
    fn give_up(&mut self, now: Instant) {
        let lacking = self.assignment.lacking();
        if lacking > 0 && now >= self.gives_up_at {
            self.gives_up_at = now + GIVE_UP;
            self.host.give_up(now, lacking);
        }
    }

    /// Flows that have ended although data waits lose their gates with it: their next packets get others.
    fn abandon(&mut self, flows: Vec<Flow>) -> Result<(), HostError> {
        let mut gates = Vec::new();
        for flow in flows {
            self.pairs.remove(self.pair(flow))?;
            gates.extend(self.assignment.remove(flow));
        }
        self.delete(&gates)
    }

    /// Deletes gates that no pair has any more. Packets in them count as dropped.
    fn delete(&mut self, gates: &[u32]) -> Result<(), HostError> {
        for reading in self.gates.read_some(gates).map_err(shaper)? {
            // A gate that is made again counts from 0.
            let before = self.drops.remove(&reading.gate).unwrap_or(0);
            self.dropped += u64::from(reading.drops.saturating_sub(before)) + u64::from(reading.packets);
        }
        self.gates.remove(gates).map_err(shaper)?;
        gates.iter().for_each(|gate| self.assignment.add_unmade(*gate));
        Ok(())
    }

    fn set_idle(&mut self, now: Instant, flow: Flow, gate: u32) -> Result<(), HostError> {
        self.assignment.set_idle(now, flow);
        Ok(self.pairs.set_idle(self.pair(flow), gate)?)
    }

    fn pair(&self, flow: Flow) -> Pair {
        Pair { slot: self.slots[&flow.service], source: flow.source, destination: flow.destination }
    }

    /// Makes gates ready for new pairs, of those that idle pairs give up if there are no others.
    fn make_ready(&mut self, now: Instant) -> Result<(), HostError> {
        let retired = self.assignment.retire();
        self.remove_idle(now, retired)?;
        let new = self.assignment.make();
        self.gates.add(&new).map_err(shaper)?;
        for gate in &new {
            self.pairs.offer(*gate)?;
        }
        Ok(())
    }

    /// Removes idle flows and their gates, but for those of which a packet has come meanwhile.
    fn remove_idle(&mut self, now: Instant, retired: Vec<(Flow, u32)>) -> Result<(), HostError> {
        let mut flows = BTreeMap::new();
        for (flow, gate) in retired {
            let pair = self.pair(flow);
            if self.pairs.is_idle(pair)? {
                self.pairs.remove(pair)?;
                flows.insert(gate, flow);
            } else {
                // Its event is on its way.
                self.assignment.keep(flow, gate);
            }
        }
        let gates: Vec<u32> = flows.keys().copied().collect();
        for reading in self.gates.read_some(&gates).map_err(shaper)? {
            let Some(&flow) = flows.get(&reading.gate).filter(|_| reading.waiting.get() > 0) else { continue };
            if self.pairs.put_back(self.pair(flow), reading.gate)? {
                flows.remove(&reading.gate);
                self.assignment.keep(flow, reading.gate);
                self.host.on_reading(now, flow, Reading { sent: reading.sent, waiting: reading.waiting });
            }
            // Otherwise later packets have another gate already.
        }
        self.delete(&flows.into_keys().collect::<Vec<_>>())
    }

    /// All but the flows.
    pub(super) fn reading(&self, now: Instant) -> CreditReading {
        let online = self.host.first_port().map(FirstPort::online);
        CreditReading {
            host: self.host.counters(),
            port: online.map(|online| *online.counters()).unwrap_or_default(),
            messages: self.messages.counters,
            flows: self.host.counts(),
            outstanding: online.map_or(0, |online| online.outstanding().get()),
            dropped: self.dropped,
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
