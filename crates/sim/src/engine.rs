//! The engine: takes events in order and moves packets.
//!
//! A data packet's way: `pump` asks the flow's sender for a segment, `send` puts it into its
//! service's queue, the limiter releases it to the interface, the interface transmits it, each switch
//! forwards it, the receiving host hands it to the flow's receiver, which may send an acknowledgement back.
//!
//! Between events the world is at rest: limits may be set and datagrams sent at [`World::now`].

use crate::events::Event;
use crate::host::{BURST, Head};
use crate::ids::{Class, FlowId, HostId, Node, PacketId, PortId};
use crate::observer::Observer;
use crate::packet::{ETHERNET_HEADER, Label, Packet, Payload};
use crate::queue::Queue;
use crate::timer::Fired;
use crate::transport::receiver::Acknowledge;
use crate::transport::{IPV4_HEADER, TCP_OVERHEAD, UDP_HEADER};
use crate::world::{Delivery, World};
use std::sync::Arc;
use weir_datapath::Limiter;
use weir_units::Bandwidth;
use weir_units::SimTime;

/// A datagram's frame without its payload: 42 bytes.
const UDP_OVERHEAD: u32 = ETHERNET_HEADER + IPV4_HEADER + UDP_HEADER;

/// Why a run stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Everything up to the limit has happened, and it is that time now.
    Limit,
    /// A control datagram arrived: take it with [`World::next_delivery`] and go on.
    Delivery,
}

impl<O: Observer> World<O> {
    /// Handles all events up to and at `limit`, or until a control datagram arrives.
    pub fn run_until(&mut self, limit: SimTime) -> Stop {
        while let Some((time, event)) = self.events.pop_until(limit) {
            debug_assert!(time >= self.now, "an event in the past");
            self.now = time;
            self.counters.events += 1;
            match event {
                Event::Arrive(port) => self.arrive(port),
                Event::Free(port) => self.free(port),
                Event::Release(host, class) => self.release(host, class),
                Event::Start(flow) => self.pump(flow),
                Event::Retransmit(flow) => self.retransmit(flow),
                Event::DelayedAck(flow) => self.delayed_ack(flow),
            }
            if !self.inbox.is_empty() {
                return Stop::Delivery;
            }
        }
        self.now = self.now.max(limit);
        Stop::Limit
    }

    /// Sets the limit of a service at a host, from now on; [`Bandwidth::UNLIMITED`] lifts it.
    pub fn set_limit(&mut self, host: HostId, class: Class, limit: Bandwidth) {
        let now = self.now.instant();
        let queue = &mut self.hosts[host.index()].services[class.index()];
        queue.limit = limit;
        if limit.is_unlimited() {
            queue.limiter = None;
        } else if let Some(limiter) = &mut queue.limiter {
            limiter.set_rate(now, limit);
        } else {
            let mut limiter = Limiter::new(Bandwidth::UNLIMITED, BURST);
            limiter.set_rate(now, limit);
            queue.limiter = Some(limiter);
        }
        self.release_heads(host, class);
    }

    /// Sends a control datagram from one host to another.
    pub fn send_datagram(&mut self, from: HostId, to: HostId, bytes: Arc<[u8]>) {
        let size = UDP_OVERHEAD + bytes.len() as u32;
        let index = self.free_datagrams.pop().unwrap_or_else(|| {
            self.datagrams.push(None);
            (self.datagrams.len() - 1) as u32
        });
        self.datagrams[index as usize] = Some(bytes);
        let packet = Packet {
            size,
            flow: FlowId(u32::MAX),
            to,
            hash: from.0.wrapping_mul(0x10001) ^ to.0,
            class: self.control_class(),
            stamp: self.now,
            payload: Payload::Datagram { index },
        };
        self.send(from, packet);
    }

    /// The first packet on a link has reached the far end.
    fn arrive(&mut self, port: PortId) {
        let from = &mut self.ports[port.index()];
        let Some(packet) = from.link.arrive() else { return };
        if let Some(next) = from.link.next_arrival() {
            self.events.push(next, Event::Arrive(port));
        }
        self.counters.packet_hops += 1;
        if let Some(meter) = from.meter {
            self.meters[meter.index()][packet.class.index()] += u64::from(packet.size);
        }
        match from.to {
            Node::Switch(switch) => {
                let next = self.switches[switch.index()].route(packet.to, packet.hash);
                self.enqueue(next, packet);
            }
            Node::Host(host) => self.deliver(host, packet.id),
        }
    }

    /// A port takes or drops a packet.
    #[inline]
    fn enqueue(&mut self, port: PortId, packet: Label) {
        let out = &mut self.ports[port.index()];
        match &mut out.queue {
            Queue::DropTail(queue) => {
                if !queue.admits(out.link.backlog(self.now), packet.size) {
                    return self.drop(port, packet);
                }
                self.observer.accepted(self.now, port, packet.size);
                self.transmit(self.now, port, packet);
            }
            Queue::RoundRobin(queue) => {
                self.observer.accepted(self.now, port, packet.size);
                queue.push(packet);
                if !out.waking {
                    out.waking = true;
                    self.events.push(out.link.free_at().max(self.now), Event::Free(port));
                }
            }
        }
    }

    #[cold]
    fn drop(&mut self, port: PortId, packet: Label) {
        self.ports[port.index()].dropped += 1;
        self.counters.dropped += 1;
        self.observer.dropped(self.now, port, packet.id, packet.size);
        let dropped = self.packets.remove(packet.id);
        self.discard(dropped.payload);
    }

    /// Hands a packet to a port's transmitter, which begins with it at `at` or when it is free.
    #[inline]
    fn transmit(&mut self, at: SimTime, port: PortId, packet: Label) {
        let link = &mut self.ports[port.index()].link;
        let idle = link.in_flight() == 0;
        let transmission = link.transmit(at, packet);
        if idle {
            self.events.push(transmission.arrival, Event::Arrive(port));
        }
        self.observer.transmitted(port, packet.size, transmission);
    }

    /// A port's transmitter is free and packets wait for it.
    fn free(&mut self, port: PortId) {
        let out = &mut self.ports[port.index()];
        out.waking = false;
        let Queue::RoundRobin(queue) = &mut out.queue else { return };
        let Some(label) = queue.pop() else { return };
        let more = !queue.is_empty();
        let owner = out.owner;
        self.transmit(self.now, port, label);
        if more {
            let out = &mut self.ports[port.index()];
            out.waking = true;
            self.events.push(out.link.free_at(), Event::Free(port));
        }
        if let Some(host) = owner {
            let packet = self.packets.get(label.id);
            let (payload, flow) = (packet.payload, packet.flow);
            self.left(host, &label, payload, flow);
            self.resume(payload, flow);
        }
    }

    /// Puts a new packet into its service's queue.
    fn send(&mut self, host: HostId, packet: Packet) {
        let id = self.packets.insert(packet);
        self.counters.sent += 1;
        self.observer.sent(self.now, id, packet.size);
        let queue = &mut self.hosts[host.index()].services[packet.class.index()];
        if queue.limiter.is_some() {
            let first = queue.waiting.is_empty();
            queue.waiting.push_back(id);
            if first {
                self.release_heads(host, packet.class);
            }
        } else {
            self.enter_interface(host, id, &packet);
        }
    }

    /// The event of a service queue's timer.
    fn release(&mut self, host: HostId, class: Class) {
        match self.hosts[host.index()].services[class.index()].release.fire(self.now) {
            Fired::Stale => {}
            Fired::Again(at) => self.events.push(at, Event::Release(host, class)),
            Fired::Due => self.release_heads(host, class),
        }
    }

    /// Releases the packets at the head of a service's queue that may leave, and sets its timer for the next.
    fn release_heads(&mut self, host: HostId, class: Class) {
        let now = self.now.instant();
        loop {
            let queue = &mut self.hosts[host.index()].services[class.index()];
            let Some(&id) = queue.waiting.front() else { return queue.release.cancel() };
            let packet = *self.packets.get(id);
            if let Head::Waits(until) = queue.head(now, packet.size) {
                if let Some(at) = queue.release.set(until.into()) {
                    self.events.push(at, Event::Release(host, class));
                }
                return;
            }
            queue.waiting.pop_front();
            if self.enter_interface(host, id, &packet) {
                self.resume(packet.payload, packet.flow);
            }
        }
    }

    /// Hands a packet to the host's interface. Says whether it was sent at once.
    #[inline]
    fn enter_interface(&mut self, host: HostId, id: PacketId, packet: &Packet) -> bool {
        let port = self.hosts[host.index()].interface;
        let out = &self.ports[port.index()];
        if out.waking || out.link.free_at() > self.now {
            self.enqueue(port, packet.label(id));
            return false;
        }
        let at = self.now + self.jitter.next();
        self.observer.accepted(at, port, packet.size);
        let label = packet.label(id);
        self.transmit(at, port, label);
        self.left(host, &label, packet.payload, packet.flow);
        true
    }

    /// A packet has left its host.
    #[inline]
    fn left(&mut self, host: HostId, packet: &Label, payload: Payload, flow: FlowId) {
        self.hosts[host.index()].bytes[packet.class.index()].tx += u64::from(packet.size);
        if let Payload::Segment { .. } = payload {
            self.flows[flow.index()].in_host -= u64::from(packet.size);
        }
    }

    /// Lets the flow of a segment that left its host send more.
    #[inline]
    fn resume(&mut self, payload: Payload, flow: FlowId) {
        if let Payload::Segment { .. } = payload {
            self.pump(flow);
        }
    }

    /// Lets a flow send what its windows and its host allow.
    fn pump(&mut self, id: FlowId) {
        loop {
            let flow = &mut self.flows[id.index()];
            if self.now >= flow.spec.stop {
                flow.sender.close();
            }
            let frame = flow.spec.tcp.mss + TCP_OVERHEAD;
            // The first comparison saves the division of the second: two segments are always allowed.
            let held = flow.in_host + u64::from(frame);
            if held > 2 * u64::from(frame) && held > flow.sender.host_limit(frame) {
                break;
            }
            let Some(segment) = flow.sender.poll(self.now) else { break };
            let size = segment.length + TCP_OVERHEAD;
            flow.in_host += u64::from(size);
            if segment.again {
                flow.retransmissions += 1;
                self.counters.retransmissions += 1;
            }
            let packet = Packet {
                size,
                flow: id,
                to: flow.spec.to,
                hash: flow.spec.hash,
                class: flow.spec.class,
                stamp: self.now,
                payload: Payload::Segment { sequence: segment.sequence, length: segment.length },
            };
            let from = flow.spec.from;
            self.send(from, packet);
        }
        let flow = &mut self.flows[id.index()];
        let deadline = flow.sender.deadline();
        if let Some(at) = flow.retransmit.set(deadline) {
            self.events.push(at, Event::Retransmit(id));
        }
    }

    /// The event of a flow's retransmission timer.
    fn retransmit(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.index()];
        match flow.retransmit.fire(self.now) {
            Fired::Stale => {}
            Fired::Again(at) => self.events.push(at, Event::Retransmit(id)),
            Fired::Due => {
                if flow.all_in_host() {
                    flow.sender.postpone(self.now);
                } else {
                    flow.timeouts += 1;
                    self.counters.timeouts += 1;
                    flow.sender.on_timeout(self.now);
                }
                self.pump(id);
            }
        }
    }

    /// The event of a flow's delayed-acknowledgement timer.
    fn delayed_ack(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.index()];
        match flow.delayed_ack.fire(self.now) {
            Fired::Stale => {}
            Fired::Again(at) => self.events.push(at, Event::DelayedAck(id)),
            Fired::Due if flow.receiver.owes_ack() => self.acknowledge(id),
            Fired::Due => {}
        }
    }

    /// A packet has reached its host.
    fn deliver(&mut self, host: HostId, id: PacketId) {
        let packet = self.packets.remove(id);
        debug_assert_eq!(packet.to, host, "a packet went astray");
        self.counters.delivered += 1;
        self.observer.delivered(self.now, id, packet.size);
        self.hosts[host.index()].bytes[packet.class.index()].rx += u64::from(packet.size);
        match packet.payload {
            Payload::Segment { sequence, length } => self.on_segment(packet.flow, sequence, length, packet.stamp),
            Payload::Ack { next } => {
                self.flows[packet.flow.index()].sender.on_ack(self.now, next, packet.stamp);
                self.pump(packet.flow);
            }
            Payload::Datagram { .. } => {
                if let Some(bytes) = self.discard(packet.payload) {
                    self.inbox.push_back(Delivery { at: self.now, to: host, bytes });
                }
            }
        }
    }

    fn on_segment(&mut self, id: FlowId, sequence: u64, length: u32, stamp: SimTime) {
        let flow = &mut self.flows[id.index()];
        let answer = flow.receiver.on_segment(sequence, length, stamp);
        if flow.finished.is_none() && flow.spec.size.is_some_and(|size| flow.receiver.next() >= size) {
            flow.finished = Some(self.now);
        }
        match answer {
            Acknowledge::Now => self.acknowledge(id),
            Acknowledge::Later => {
                if let Some(at) = flow.delayed_ack.set(self.now + flow.spec.tcp.delayed_ack) {
                    self.events.push(at, Event::DelayedAck(id));
                }
            }
        }
    }

    /// A flow's receiver sends an acknowledgement.
    fn acknowledge(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.index()];
        flow.delayed_ack.cancel();
        flow.receiver.acknowledged();
        let next = flow.receiver.next();
        self.observer.acknowledged(self.now, id, next, flow.sender.highest());
        let packet = Packet {
            size: TCP_OVERHEAD,
            flow: id,
            to: flow.spec.from,
            // The addresses are swapped, so the way back is hashed anew.
            hash: flow.spec.hash.rotate_left(16),
            class: flow.spec.class,
            stamp: flow.receiver.stamp(),
            payload: Payload::Ack { next },
        };
        let from = flow.spec.to;
        self.send(from, packet);
    }

    /// Frees what a lost or delivered packet refers to.
    fn discard(&mut self, payload: Payload) -> Option<Arc<[u8]>> {
        let Payload::Datagram { index } = payload else { return None };
        self.free_datagrams.push(index);
        self.datagrams[index as usize].take()
    }
}
