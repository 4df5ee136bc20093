//! Aggregate mode of credits: the data of a service from one host to another is one flow, whatever its transports.
//!
//! Problem: on Linux a flow with credits is such an aggregate, and its packets are TCP's. Approach: the packets of an
//! aggregate wait in their host, in order, and leave through a gate that its allocations open. The host is
//! [`weir_credits::host::Host`], the gate the per-packet code of `datapath/credit_gate.h`; ports are the forwarders of
//! [`crate::agents`], for whole frames. A flow's window still applies before: its packets wait in the host.
//!
//! - Frames up to 128 B need no credits and do not wait: acknowledgements and messages.
//! - Messages go between the hosts as frames of their own. A host acts on one when it arrives, without a thread's
//!   delay.
//! - A port has the flows of aggregates by their slots in this module, and divides the weight of a service by its
//!   aggregates there, as hosts and forwarders on Linux do.
//! - All flows of an aggregate have one hash, and so one path, which its messages take, too.
//! - Under a policy its services with credits have aggregates, and other packets pass as they do without any. Packets
//!   that leave a gate go to the interface: on Linux, too, they have no class of their service or their destination.
//!
//! Order of calls: [`World::set_aggregates`] or [`World::set_aggregates_of`] before the first event.
//!
//! Example: ten TCP flows of one host to another and one flow of another host share a port. Each host's aggregate has a
//! half of the port.

use crate::agents::EXEMPT;
use crate::events::Event;
use crate::flow::Address;
use crate::host::Host as Machine;
use crate::ids::{FlowId, HostId, PacketId, ServiceIndex, SlotId};
use crate::observer::Observer;
use crate::packet::{Extension, Kind, List, OTHERS, Packet};
use crate::routes::mix;
use crate::timer::{Fired, Timer};
use crate::world::World;
use std::collections::BTreeMap;
use weir_credits::host::{Aggregate, Gate, Host, HostCounters, HostSettings, NoPort, Output, Reading};
use weir_credits::{Allocation, Message};
use weir_datapath::{CreditGate, CreditPort, CreditPortSettings};
use weir_transport::Parameters;
use weir_transport::agents::FlowKey;
use weir_transport::pace::{self, ALLOCATION};
use weir_units::{Bandwidth, Bytes, Instant, ServiceId, SimTime, Weight};

/// A period and more for allocations of others: how long nothing of an aggregate waits and leaves before it ends.
const LINGER: u64 = 10;

/// The aggregates of a world.
#[derive(Debug, Default)]
pub(crate) struct Aggregates {
    /// By host; empty where flows need no credits.
    hosts: Vec<(Host<u32, NoPort>, Timer)>,
    /// By service index: whether its data needs credits.
    services: Vec<bool>,
    slots: Vec<Slot>,
    index: BTreeMap<Aggregate<u32>, u32>,
}

/// One aggregate at its sending host.
#[derive(Debug)]
struct Slot {
    flow: Aggregate<u32>,
    gate: CreditGate,
    /// Allocations that have opened the gate.
    opened: u32,
    /// Frames that wait, their bytes, and the bytes that have left.
    waiting: List,
    bytes: u64,
    sent: u64,
    /// When the first frame may leave, once it has credits.
    departure: Option<Instant>,
    release: Timer,
}

impl Aggregates {
    /// Whether data of some services needs credits of its aggregate.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        !self.hosts.is_empty()
    }

    /// Whether data of a service needs credits of its aggregate.
    #[inline]
    pub(crate) fn has(&self, service: ServiceIndex) -> bool {
        self.services.get(service.index()) == Some(&true)
    }

    /// The identity of an aggregate at ports; its hash is the service.
    fn key(&self, slot: u32) -> FlowKey {
        let flow = self.slots[slot as usize].flow;
        FlowKey { slot, from: flow.source, to: flow.destination, hash: flow.service.0 }
    }

    /// The address of an aggregate's data.
    pub(crate) fn address(&self, slot: u32) -> Address {
        let Aggregate { service, source, destination } = self.slots[slot as usize].flow;
        let service = ServiceIndex(service.0 as u16);
        Address {
            from: HostId(source),
            to: HostId(destination),
            hash: path(HostId(source), HostId(destination), service),
            service,
            priority: 0,
        }
    }
}

/// The hash of all data of an aggregate.
pub(crate) fn path(from: HostId, to: HostId, service: ServiceIndex) -> u32 {
    mix(mix(mix(from.0) ^ to.0) ^ u32::from(service.0))
}

impl<O: Observer> World<O> {
    /// Makes all data wait for the credits of its aggregate, with these ports and hosts. All links must exist, and
    /// forwarders need one path for each pair of hosts, or symmetric routing.
    pub fn set_aggregates(&mut self, parameters: &pace::Parameters) {
        self.set_aggregates_of(
            parameters,
            (0..self.service_count as u16).map(|own| (ServiceIndex(own), parameters.weight)),
        );
    }

    /// Makes the data of these services wait for the credits of its aggregate: [`World::set_aggregates`].
    pub fn set_aggregates_of(
        &mut self,
        parameters: &pace::Parameters,
        weights: impl IntoIterator<Item = (ServiceIndex, Weight)>,
    ) {
        assert!(!self.started, "aggregates are configured before the run");
        let weights: BTreeMap<ServiceId, Weight> =
            weights.into_iter().map(|(service, weight)| (ServiceId(service.0.into()), weight)).collect();
        self.aggregates.services = vec![false; self.service_count];
        weights.keys().for_each(|service| self.aggregates.services[service.0 as usize] = true);
        let (least, most) = (parameters.period, parameters.max_period.min(parameters.coding.longest()));
        let part = |rate: Bandwidth| Bandwidth::from_bps((rate.bps() as f64 * parameters.share) as u64);
        let frame = Bytes::new((self.sizes.payload + self.sizes.headers).into());
        for host in (0..self.hosts.len() as u32).map(HostId) {
            let rate = part(self.rate(self.down_port(host)));
            let port = CreditPort::new(&CreditPortSettings { rate, most, lossless: parameters.lossless });
            let longest = SimTime::from_secs(1).max(parameters.min_rto);
            let settings = HostSettings {
                rate,
                least,
                frame,
                whole_frames: true,
                timeout: [parameters.min_rto.duration(), longest.duration()],
                silence: parameters.min_rto.duration().max(most.duration() * 4),
                linger: most.duration().max(least.duration() * LINGER),
                abandon_after: None,
                memory: port.longest_lifetime(),
                coding: parameters.coding,
            };
            let mut machine = Host::new(settings, None);
            machine.set_services(Instant::ZERO, weights.clone());
            self.aggregates.hosts.push((machine, Timer::default()));
        }
        self.hosts.iter_mut().for_each(|host: &mut Machine| host.limited += 1);
        self.install_agents(&Parameters::Pace(parameters.clone()));
    }

    /// The sum of the hosts' counters.
    pub fn aggregate_counters(&self) -> HostCounters {
        let mut sum = HostCounters::default();
        for (host, _) in &self.aggregates.hosts {
            let of = host.counters();
            sum.allocations += of.allocations;
            sum.unwanted += of.unwanted;
            sum.stale += of.stale;
            sum.astray += of.astray;
            sum.foreign += of.foreign;
            sum.overspent += of.overspent;
        }
        sum
    }

    /// The aggregate of a packet at ports, if it is one's data or message.
    pub(crate) fn aggregate_of(&self, packet: &Packet) -> Option<FlowKey> {
        match packet.kind() {
            Kind::Credits => Some(self.aggregates.key(packet.flow.0)),
            Kind::Segment if packet.size > EXEMPT => {
                let (service, source) =
                    (ServiceId(packet.service.0.into()), self.flows[packet.flow.index()].address.from.0);
                let flow = Aggregate { service, source, destination: packet.to.0 };
                self.aggregates.index.get(&flow).map(|&slot| self.aggregates.key(slot))
            }
            _ => None,
        }
    }

    /// Whether a new packet needs credits of its aggregate.
    #[inline]
    pub(crate) fn needs_aggregate(&self, id: PacketId) -> bool {
        let packet = self.packets.get(id);
        packet.kind() == Kind::Segment && packet.size > EXEMPT && self.aggregates.has(packet.service)
    }

    /// A new packet of a host that needs credits of its aggregate.
    pub(crate) fn enter_aggregate(&mut self, host: HostId, id: PacketId) {
        self.leave_levels(id);
        let packet = self.packets.get(id);
        let (size, service, to) = (packet.size, ServiceId(packet.service.0.into()), packet.to.0);
        let flow = Aggregate { service, source: host.0, destination: to };
        let number = self.aggregate_slot(flow);
        let slot = &mut self.aggregates.slots[number as usize];
        let is_first = slot.waiting.is_empty();
        slot.waiting.push(&mut self.packets, id);
        slot.bytes += u64::from(size);
        slot.gate.offer(Bytes::new(size.into()));
        if is_first {
            self.read_aggregate(number);
            self.run_aggregates(host);
            // Not at once: the flow that sends this packet may be sending more now.
            self.set_release(number, self.now);
        }
    }

    fn aggregate_slot(&mut self, flow: Aggregate<u32>) -> u32 {
        let Aggregates { slots, index, .. } = &mut self.aggregates;
        *index.entry(flow).or_insert_with(|| {
            slots.push(Slot {
                flow,
                // The remainder below a frame is the host's to carry over.
                gate: CreditGate::new(self.now.instant(), Bytes::new(1)),
                opened: 0,
                waiting: List::default(),
                bytes: 0,
                sent: 0,
                departure: None,
                release: Timer::default(),
            });
            (slots.len() - 1) as u32
        })
    }

    /// The sending host reads the bytes of an aggregate that have left and those that wait.
    fn read_aggregate(&mut self, number: u32) {
        let Slot { flow, bytes, sent, .. } = self.aggregates.slots[number as usize];
        let reading = Reading { sent, waiting: Bytes::new(bytes) };
        self.aggregates.hosts[flow.source as usize].0.on_reading(self.now.instant(), flow, reading);
    }

    /// A message of an aggregate has reached its host.
    pub(crate) fn on_credits(&mut self, host: HostId, packet: &Packet) {
        let Some(Extension::Control(field)) = self.extensions.remove(packet.extension) else { return };
        let Some(message) = field.get::<Box<Message>>() else { return };
        if matches!(**message, Message::Allocation(_)) {
            self.read_aggregate(packet.flow.0);
        }
        let flow = self.aggregates.slots[packet.flow.0 as usize].flow;
        self.aggregates.hosts[host.index()].0.on_message(self.now.instant(), flow, message);
        self.run_aggregates(host);
    }

    /// The event of a host's timer.
    pub(crate) fn aggregate_host_due(&mut self, host: HostId) {
        let (machine, timer) = &mut self.aggregates.hosts[host.index()];
        match timer.fire(self.now) {
            Fired::Stale => return,
            Fired::Again(at) => return self.events.push(at, Event::Credits(host)),
            Fired::Due => {}
        }
        machine.on_timer(self.now.instant());
        self.run_aggregates(host);
    }

    /// Carries out what a host's machine decides, and sets its timer.
    fn run_aggregates(&mut self, host: HostId) {
        while let Some(output) = self.aggregates.hosts[host.index()].0.poll() {
            match output {
                Output::Send { flow, message } => self.send_credits(host, flow, message),
                Output::Gate { flow, gate } => self.open_gate(flow, gate),
                Output::End { .. } => {}
                Output::Abandon { .. } => unreachable!("`abandon_after` is `None`"),
            }
        }
        let (machine, timer) = &mut self.aggregates.hosts[host.index()];
        let due = machine.timer().map_or(SimTime::NEVER, SimTime::from);
        if let Some(at) = timer.set(due.max(self.now)) {
            self.events.push(at, Event::Credits(host));
        }
    }

    fn send_credits(&mut self, host: HostId, flow: Aggregate<u32>, message: Message) {
        let number = self.aggregate_slot(flow);
        let to = if host.0 == flow.source { flow.destination } else { flow.source };
        let mut packet = Packet::new(Kind::Credits, ALLOCATION, HostId(to), ServiceIndex(flow.service.0 as u16));
        packet.flow = FlowId(number);
        let address = self.aggregates.address(number);
        packet.hash = if host.0 == flow.source { address.hash } else { address.reverse_hash() };
        packet.leaf = self.hosts[to as usize].leaf;
        packet.priority = self.control_priority(if self.levels.is_on() || self.tags.is_on() { OTHERS } else { 0 });
        packet.stamp = self.now;
        packet.extension = self.extensions.insert(Extension::Control(Box::new(message).into()));
        let size = packet.size;
        let id = self.packets.insert(packet);
        self.counters.sent += 1;
        self.counters.originated += 1;
        self.observer.sent(self.now, id, size);
        self.enter_interface(host, id);
    }

    fn open_gate(&mut self, flow: Aggregate<u32>, gate: Gate) {
        let number = self.aggregate_slot(flow);
        let slot = &mut self.aggregates.slots[number as usize];
        slot.opened = slot.opened.wrapping_add(1).max(1);
        let allocation = Allocation {
            clock: slot.opened,
            period: gate.period,
            longest: gate.period,
            potential: gate.bytes,
            demand: gate.bytes,
            allocation: gate.bytes,
            weight: Weight::ONE,
            queueing: weir_units::Duration::ZERO,
        };
        slot.gate.on_allocation(self.now.instant(), &allocation, Bytes::new(slot.bytes));
        slot.gate.take_return();
        // The first frame has not left: it needs credits of this allocation.
        slot.departure = None;
        self.set_release(number, self.now);
    }

    fn set_release(&mut self, number: u32, at: SimTime) {
        if let Some(at) = self.aggregates.slots[number as usize].release.set(at) {
            self.events.push(at, Event::Aggregate(SlotId(number)));
        }
    }

    /// The event of an aggregate's gate: frames that have credits leave.
    pub(crate) fn aggregate_due(&mut self, slot: SlotId) {
        match self.aggregates.slots[slot.index()].release.fire(self.now) {
            Fired::Stale => return,
            Fired::Again(at) => return self.events.push(at, Event::Aggregate(slot)),
            Fired::Due => {}
        }
        let now = self.now.instant();
        loop {
            let of = &mut self.aggregates.slots[slot.index()];
            let id = of.waiting.head;
            if id == PacketId::NONE {
                return;
            }
            let size = Bytes::new(self.packets.get(id).size.into());
            if of.departure.is_none() {
                of.departure = of.gate.departure(now, size);
            }
            let Some(departure) = of.departure else { return };
            if departure > now {
                return self.set_release(slot.0, departure.into());
            }
            of.waiting.pop(&mut self.packets);
            of.departure = None;
            of.bytes -= size.get();
            of.sent += size.get();
            let host = HostId(of.flow.source);
            self.datapath.count_ahead(host.index(), now, size.get());
            if self.enter_interface(host, id) {
                self.resume(id);
            }
        }
    }
}
