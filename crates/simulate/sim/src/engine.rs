//! The engine: takes events in order and moves packets.
//!
//! The path of a data packet: `pump` takes a segment from the flow's sender ([`crate::ends`]),
//! `send` passes it to the limiters of its host, it enters the interface at its departure, the interface
//! transmits it, each switch forwards it, and the receiving host passes it to the flow's receiver,
//! which may send an acknowledgement.
//!
//! No event is in progress between runs: flows may be added, limits set, links changed and
//! datagrams sent at [`World::now`].

use crate::agents::Moment;
use crate::events::Event;
use crate::ids::{HostId, Node, PacketId, PortId, SwitchId};
use crate::observer::Observer;
use crate::packet::{CAPABLE, ETHERNET_HEADER, Extension, Extensions, Kind, MARKED, Packet, class_of};
use crate::port::Service;
use crate::world::World;
use std::sync::Arc;
use weir_units::SimTime;

/// A datagram's frame without its payload: Ethernet, IPv4 (20 B, RFC 791) and UDP (8 B, RFC 768).
pub(crate) const UDP_OVERHEAD: u32 = ETHERNET_HEADER + 20 + 8;

/// Why a run stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// All events up to the limit are handled, and the time is the limit.
    Limit,
    /// A control datagram arrived: take it with [`World::next_delivery`] and continue.
    Delivery,
    /// A flow is over: take it with [`World::next_over`] and continue.
    Over,
}

impl<O: Observer> World<O> {
    /// Handles all events up to and at `limit`, or until a control datagram arrives or a flow is
    /// over.
    pub fn run_until(&mut self, limit: SimTime) -> Stop {
        self.start();
        if let Some(stop) = self.pending_stop() {
            return stop;
        }
        let fetches = self.is_large() || self.has_forwarders();
        loop {
            if self.events.is_bucket_empty() {
                if !self.events.advance(limit) {
                    break;
                }
                if fetches {
                    self.fetch_bucket();
                }
            }
            let Some((time, event, hint)) = self.events.pop(limit) else { break };
            debug_assert!(time >= self.now, "an event in the past");
            self.now = time;
            self.counters.events += 1;
            match event {
                Event::Arrive(packet) => self.arrive(packet, hint),
                Event::Free(port) => self.free(port),
                Event::Depart(packet) => self.depart(packet),
                Event::Release(host, level) => self.level_due(host, level),
                Event::Destination(slot) => self.destination_due(slot),
                Event::Start(flow) => self.pump(flow),
                Event::Timer(flow) => self.timer(flow),
                Event::DelayedAck(flow) => self.delayed_ack(flow),
                Event::Agent(agent) => self.agent_due(agent),
                Event::Pair(slot) => self.pair_due(slot),
                Event::Aggregate(slot) => self.aggregate_due(slot),
                Event::Credits(host) => self.aggregate_host_due(host),
            }
            if let Some(stop) = self.pending_stop() {
                return stop;
            }
        }
        self.now = self.now.max(limit);
        Stop::Limit
    }

    /// The reason to stop now, if any.
    #[inline]
    fn pending_stop(&self) -> Option<Stop> {
        if !self.over.is_empty() {
            return Some(Stop::Over);
        }
        (!self.inbox.is_empty()).then_some(Stop::Delivery)
    }

    /// Sends a control datagram from one host to another.
    pub fn send_datagram(&mut self, from: HostId, to: HostId, bytes: Arc<[u8]>) {
        self.start();
        let size = UDP_OVERHEAD + bytes.len() as u32;
        let mut packet = Packet::new(Kind::Datagram, size, to, self.control_service());
        packet.hash = from.0.wrapping_mul(0x10001) ^ to.0;
        packet.stamp = self.now;
        packet.extension = self.extensions.insert(Extension::Datagram(bytes));
        self.send(from, packet);
    }

    /// A packet has reached the far end of its link; `hint` is one more than its next port, or 0.
    #[inline]
    fn arrive(&mut self, id: PacketId, hint: u32) {
        let packet = self.packets.get_mut(id);
        debug_assert_eq!(packet.arrival, self.now, "a packet arrives at another time than its link computed");
        let port = packet.link();
        packet.leave_link();
        self.counters.packet_hops += 1;
        let is_read = self.inspects && (self.inspects_all || packet.extension != Extensions::NONE);
        if is_read && self.ports[port.index()].inspected {
            return self.arrive_inspected(port, id, hint);
        }
        match packet.towards.node() {
            Node::Switch(_) if hint > 0 => self.enqueue(PortId(hint - 1), id),
            Node::Switch(switch) => self.forward(switch, port, id),
            Node::Host(host) => self.deliver(host, id),
        }
    }

    /// A packet has arrived over a link where meters or agents inspect it.
    #[inline(never)]
    fn arrive_inspected(&mut self, port: PortId, id: PacketId, hint: u32) {
        let towards = self.packets.get(id).towards;
        if self.inspect(port, id) {
            return;
        }
        match towards.node() {
            Node::Switch(_) if hint > 0 => self.enqueue(PortId(hint - 1), id),
            Node::Switch(switch) => self.forward(switch, port, id),
            Node::Host(host) => self.deliver(host, id),
        }
    }

    /// A switch passes on a packet that came over the port `from`, or that an agent of this port
    /// originated.
    #[inline]
    pub(crate) fn forward(&mut self, switch: SwitchId, from: PortId, id: PacketId) {
        let packet = self.packets.get(id);
        if self.tags.has_trees()
            && let Some(next) = self.tags.next(packet.service, switch, packet.leaf)
        {
            return self.enqueue(next, id);
        }
        let hash = match &mut self.spray {
            Some(random) => random.next().picos() as u32,
            None => packet.hash,
        };
        match self.routes.route(switch, packet.leaf, packet.to, hash) {
            Some(next) => self.enqueue(next, id),
            None => self.unroutable(from, id),
        }
    }

    /// A port takes or drops a packet.
    #[inline]
    fn enqueue(&mut self, port: PortId, id: PacketId) {
        match self.ports[port.index()].service {
            Service::Fifo => self.enqueue_in_order(port, id),
            Service::Watched => self.enqueue_watched(port, id),
            Service::Scheduled => {
                let out = &self.ports[port.index()];
                if !out.waking && out.free_at <= self.now && out.owner().is_none() && !out.watched {
                    return self.enqueue_idle(port, id);
                }
                self.enqueue_scheduled(port, id);
            }
            Service::Down => self.enqueue_scheduled(port, id),
        }
    }

    /// A switch's port that chooses among frames has none, so it sends this one: what [`World::enqueue_scheduled`]
    /// comes to then, without the tests for room and marks.
    #[inline]
    fn enqueue_idle(&mut self, port: PortId, id: PacketId) {
        let out = &mut self.ports[port.index()];
        let packet = self.packets.get(id);
        let (size, priority) = (packet.size, packet.priority);
        out.peak_bytes = out.peak_bytes.max(size.into());
        self.queues[out.queue as usize].sends(priority, size);
        self.count(port, priority, size);
        self.observer.accepted(self.now, port, size);
        if self.levels.is_on() {
            self.levels.joined(port, priority, size.into());
        }
        self.transmit(self.now, port, id);
    }

    /// A first-in first-out port with agents takes or drops a packet.
    #[inline(never)]
    fn enqueue_watched(&mut self, port: PortId, id: PacketId) {
        self.enqueue_first_in_first_out::<true>(port, id);
    }

    /// A first-in first-out port takes or drops a packet.
    #[inline]
    fn enqueue_in_order(&mut self, port: PortId, id: PacketId) {
        self.enqueue_first_in_first_out::<false>(port, id);
    }

    /// A first-in first-out port takes or drops a packet; `WATCHED` if it has agents.
    #[inline]
    fn enqueue_first_in_first_out<const WATCHED: bool>(&mut self, port: PortId, id: PacketId) {
        let out = &self.ports[port.index()];
        let profile = &self.profiles[out.profile as usize];
        let wait = out.backlog(self.now, profile, &self.records[port.index()]);
        if !profile.fits(wait, self.packets.get(id).size) {
            return self.drop(port, id, false);
        }
        // Agents inspect only packets that the port takes.
        if WATCHED && self.show(port, id, Moment::Enters) {
            return;
        }
        let out = &mut self.ports[port.index()];
        let profile = &self.profiles[out.profile as usize];
        let packet = self.packets.get_mut(id);
        let class = class_of(packet.priority);
        if profile.marks(wait) && packet.has(CAPABLE) {
            packet.set(MARKED, true);
            self.records[port.index()].marked[class].add(packet.size);
            self.counters.marked += 1;
        }
        out.peak_time = out.peak_time.max(profile.with(wait, packet.size));
        if class == 0 {
            out.taken.add(packet.size);
        } else {
            self.records[port.index()].taken[class].add(packet.size);
        }
        let size = packet.size;
        self.observer.accepted(self.now, port, size);
        self.transmit(self.now, port, id);
    }

    /// A port that chooses among frames, or whose link is down, takes or drops a packet.
    pub(crate) fn enqueue_scheduled(&mut self, port: PortId, id: PacketId) {
        let out = &mut self.ports[port.index()];
        let down = out.service == Service::Down;
        // A host keeps the packets that it cannot send, as a computer whose cable is unplugged.
        if down && out.owner().is_none() {
            return self.drop(port, id, false);
        }
        let profile = &self.profiles[out.profile as usize];
        let (buffer, mark, index, owned) = (profile.buffer, profile.mark, out.queue as usize, out.owner().is_some());
        let mut unsent = profile.bytes_in(out.backlog(self.now, profile, &self.records[port.index()]));
        if owned {
            // A host's noise delays the beginning of a frame, and is no backlog.
            unsent = unsent.min(u64::from(self.sizes.payload + self.sizes.headers));
        }
        let idle = !out.waking && out.free_at <= self.now;
        // Most hosts drop nothing: the transports' backpressure bounds their queues.
        let drops = !owned || buffer != u64::MAX;
        let (size, rank, priority) = {
            let packet = self.packets.get(id);
            (packet.size, packet.rank, packet.priority)
        };
        if (!idle || down) && drops {
            let mut missing = self.missing(index, priority, buffer, unsent, size);
            if missing > 0 && !self.queues[index].can_give_up(&self.packets, priority, rank, missing) {
                if owned {
                    self.leave_host(id);
                }
                return self.drop(port, id, false);
            }
            while missing > 0
                && let Some(worst) = self.queues[index].give_up(&mut self.packets, priority, rank)
            {
                missing = missing.saturating_sub(self.packets.get(worst).size.into());
                self.drop(port, worst, true);
            }
            debug_assert_eq!(missing, 0, "a queue gives up less than it reported");
        }
        let watched = self.ports[port.index()].watched;
        if watched && self.show(port, id, Moment::Enters) {
            return;
        }
        let joined = self.queues[index].joined(priority, unsent);
        let waiting = self.queues[index].bytes() + unsent + u64::from(size);
        self.count(port, priority, size);
        let out = &mut self.ports[port.index()];
        out.peak_bytes = out.peak_bytes.max(waiting);
        let packet = self.packets.get_mut(id);
        if joined > mark && packet.has(CAPABLE) && !self.queues[index].is_of_credits(priority) {
            packet.set(MARKED, true);
            self.records[port.index()].marked[class_of(priority)].add(size);
            self.counters.marked += 1;
        }
        self.observer.accepted(self.now, port, size);
        if !owned && self.levels.is_on() {
            self.levels.joined(port, priority, joined + u64::from(size));
        }
        if idle && !owned {
            self.queues[index].sends(priority, size);
            if watched {
                self.show(port, id, Moment::Leaves);
            }
            return self.transmit(self.now, port, id);
        }
        if let Some(shared) = self.queues[index].shared {
            self.shared[shared as usize].take(size);
        }
        self.queues[index].push(&mut self.packets, id);
        let out = &mut self.ports[port.index()];
        if !out.waking && !down {
            out.waking = true;
            self.events.push(out.free_at.max(self.now), Event::Free(port));
        }
    }

    /// A packet of a flow does not enter its host's interface: the host has room for the flow's next segment. The
    /// flow's timer lets it send, because the flow may be sending now; an early timer is no timeout.
    pub(crate) fn leave_host(&mut self, id: PacketId) {
        let packet = *self.packets.get(id);
        if packet.kind() != Kind::Segment {
            return;
        }
        let flow = &mut self.flows[packet.flow.index()];
        flow.in_host -= u64::from(packet.size);
        if let Some(at) = flow.timer.set(self.now) {
            self.events.push(at, Event::Timer(packet.flow));
        }
    }

    /// Counts a frame that a port takes.
    #[inline]
    pub(crate) fn count(&mut self, port: PortId, priority: u8, size: u32) {
        if priority == 0 {
            self.ports[port.index()].taken.add(size);
        } else {
            self.records[port.index()].taken[class_of(priority)].add(size);
        }
    }

    /// A frame that a port took will not be sent.
    pub(crate) fn take_back(&mut self, port: PortId, priority: u8, size: u32) {
        if priority == 0 {
            self.ports[port.index()].taken.take_back(size);
        } else {
            self.records[port.index()].taken[class_of(priority)].take_back(size);
        }
    }

    /// The bytes that a queue must give up before a frame of `size` bytes fits: into its own
    /// buffer, or its part of a shared one.
    fn missing(&self, index: usize, priority: u8, buffer: u64, unsent: u64, size: u32) -> u64 {
        let queue = &self.queues[index];
        match queue.shared {
            Some(shared) => self.shared[shared as usize].missing(queue.bytes(), size),
            None => queue.missing(priority, buffer, unsent, size),
        }
    }

    /// A port drops a packet: an arriving or a waiting one.
    #[cold]
    pub(crate) fn drop(&mut self, port: PortId, id: PacketId, held: bool) {
        let (size, priority) = {
            let packet = self.packets.get(id);
            (packet.size, packet.priority)
        };
        self.records[port.index()].dropped[class_of(priority)].add(size);
        self.counters.dropped += 1;
        self.count_dropped_credits(port, id, held);
        self.observer.dropped(self.now, port, id, size, held);
        if self.pairs.is_on() {
            self.count_lost(id);
        }
        if held {
            self.take_back(port, priority, size);
            if let Some(queue) = self.queues.get(self.ports[port.index()].queue as usize)
                && let Some(shared) = queue.shared
            {
                self.shared[shared as usize].give_back(size);
            }
        }
        self.lose(id);
    }

    /// A switch has no route for a packet that came over `port`.
    #[cold]
    fn unroutable(&mut self, port: PortId, id: PacketId) {
        self.counters.unroutable += 1;
        self.counters.dropped += 1;
        self.count_unroutable_credits(id);
        self.observer.dropped(self.now, port, id, self.packets.get(id).size, false);
        self.lose(id);
    }

    /// A host drops a packet that has reached it over its link.
    #[cold]
    pub(crate) fn drop_policed(&mut self, host: HostId, id: PacketId) {
        self.counters.dropped += 1;
        self.observer.dropped(self.now, self.down_port(host), id, self.packets.get(id).size, false);
        self.lose(id);
    }

    /// Takes a packet out of the world without delivering it.
    pub(crate) fn lose(&mut self, id: PacketId) {
        if self.levels.is_on() {
            self.levels.lost(id);
        }
        let packet = self.packets.remove(id);
        self.extensions.remove(packet.extension);
        if packet.is_of_flow() {
            self.flows[packet.flow.index()].packets -= 1;
            self.settle(packet.flow);
        }
    }

    /// Passes a packet to a port's transmitter, which begins it at `at` or when it is free.
    #[inline]
    pub(crate) fn transmit(&mut self, at: SimTime, port: PortId, id: PacketId) {
        let out = &mut self.ports[port.index()];
        let packet = self.packets.get_mut(id);
        let size = packet.size;
        let profile = &self.profiles[out.profile as usize];
        let transmission = out.transmit(profile, &mut self.records[port.index()].clock, at, size);
        packet.set_link(port, out.to, transmission.arrival);
        self.events.push(transmission.arrival, Event::Arrive(id));
        self.observer.transmitted(port, size, transmission);
    }

    /// A port's transmitter is free and packets wait for it.
    fn free(&mut self, port: PortId) {
        let out = &mut self.ports[port.index()];
        if out.service != Service::Scheduled || !out.waking || out.free_at > self.now {
            // The event was planned before the link went down. Packets that wait now have their own
            // event.
            return;
        }
        out.waking = false;
        let (owner, watched) = (out.owner(), out.watched);
        let queue = &mut self.queues[out.queue as usize];
        let Some(id) = queue.send_next(&mut self.packets) else { return };
        let more = !queue.is_empty();
        if let Some(shared) = queue.shared {
            self.shared[shared as usize].give_back(self.packets.get(id).size);
        }
        if watched {
            self.show(port, id, Moment::Leaves);
        }
        self.transmit(self.now, port, id);
        if more {
            let out = &mut self.ports[port.index()];
            out.waking = true;
            self.events.push(out.free_at, Event::Free(port));
        }
        if let Some(host) = owner {
            self.left(host, id);
            self.resume(id);
        }
    }
}
