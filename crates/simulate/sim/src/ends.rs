//! The ends of flows: the actions of senders and receivers upon packets, acknowledgements and
//! timers.
//!
//! The transports decide ([`weir_transport`]); this file turns their outputs into packets and
//! passes arrivals to them.

use crate::events::Event;
use crate::flow::{Address, Life, OPEN};
use crate::ids::{FlowId, HostId, PacketId};
use crate::observer::Observer;
use crate::packet::{CAPABLE, ECHO, Extension, Extensions, Kind, MARKED, Packet};
use crate::timer::Fired;
use crate::world::{Delivery, World};
use weir_transport::{Ack, AckContent, Acknowledge, Arrival, SackBlock, Segment, Timeout};
use weir_units::SimTime;

impl<O: Observer> World<O> {
    /// Lets a flow send as much as its windows and its host allow.
    pub(crate) fn pump(&mut self, id: FlowId) {
        if self.flows[id.index()].opening != OPEN {
            return self.open(id);
        }
        let frame = self.sizes.payload + self.sizes.headers;
        let mut throttled = false;
        loop {
            let flow = &mut self.flows[id.index()];
            if self.now >= flow.stop {
                flow.sender.close();
            }
            // The first comparison saves the division of the second: two segments are always
            // allowed.
            let held = flow.in_host + u64::from(frame);
            if held > 2 * u64::from(frame) && held > self.flow_limit.unwrap_or_else(|| flow.sender.host_limit(frame)) {
                throttled = true;
                break;
            }
            let Some(segment) = flow.sender.poll(self.now) else { break };
            self.send_segment(id, segment);
        }
        let flow = &mut self.flows[id.index()];
        // A paced flow that is throttled by its host is late for its time; it continues when a packet has left the
        // host. A timeout that passed meanwhile is due at once.
        let due = flow.sender.timer();
        let due = if throttled { due } else { due.max(self.now + SimTime::from_picos(1)) };
        if due > self.now
            && let Some(at) = flow.timer.set(due)
        {
            self.events.push(at, Event::Timer(id));
        }
        if flow.life == Life::Running && flow.packets == 0 && flow.sender.is_done() {
            self.settle(id);
        }
    }

    /// A flow without a connection sends the first packet of its handshake, unless that is under way.
    #[cold]
    fn open(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.index()];
        if self.now >= flow.stop {
            flow.opening = OPEN;
            flow.timer.cancel();
            return self.pump(id);
        }
        if !flow.timer.is_set() {
            let due = self.now + flow.open_again();
            if let Some(at) = flow.timer.set(due) {
                self.events.push(at, Event::Timer(id));
            }
            self.send_handshake(id, self.now, true);
        }
    }

    /// Sends a packet of a flow's handshake, to the receiver or back. It returns with the time `stamp` at which the
    /// exchange began.
    fn send_handshake(&mut self, id: FlowId, stamp: SimTime, to_receiver: bool) {
        let flow = &mut self.flows[id.index()];
        flow.packets += 1;
        let address = flow.address;
        let Address { from, to, hash, service, priority } = address;
        let (from, to, hash) = if to_receiver { (from, to, hash) } else { (to, from, address.reverse_hash()) };
        let mut packet = Packet::new(Kind::Handshake, self.sizes.headers, to, service);
        packet.flow = id;
        packet.hash = hash;
        packet.priority = priority;
        packet.stamp = stamp;
        self.send(from, packet);
    }

    /// A packet of a handshake has arrived: the receiver replies, and the sender begins with data.
    #[cold]
    fn on_handshake(&mut self, packet: &Packet) {
        let id = packet.flow;
        let flow = &mut self.flows[id.index()];
        flow.packets -= 1;
        if packet.to == flow.address.to {
            return self.send_handshake(id, packet.stamp, false);
        }
        if flow.opening != OPEN {
            flow.opening = OPEN;
            flow.timer.cancel();
            flow.sender.on_open(self.now, self.now - packet.stamp);
        }
        self.go_on(id);
    }

    /// Appends `bytes` to a flow that stays open. Its transport must be a stream
    /// ([`weir_transport::Parameters::is_stream`]).
    pub fn write(&mut self, id: FlowId, bytes: u64) {
        self.flows[id.index()].sender.write(self.now, bytes);
        self.pump(id);
    }

    /// Makes a flow that ended, because all awaited bytes were delivered, wait for its first `end`
    /// bytes: it ends again when they are delivered, which may be at once.
    pub fn expect(&mut self, id: FlowId, end: u64) {
        let flow = &mut self.flows[id.index()];
        debug_assert_eq!(flow.life, Life::Over, "one end of a flow is waited for at a time");
        flow.receiving.size = end;
        if flow.receiving.delivered() >= end {
            self.over.push_back(id);
        } else {
            flow.life = Life::Running;
        }
    }

    /// The receiving application of a flow responds: its pending acknowledgement is sent now.
    pub fn acknowledge_now(&mut self, id: FlowId) {
        if self.flows[id.index()].receiving.receiver.owes_ack() {
            self.acknowledge(id);
        }
    }

    #[inline]
    fn send_segment(&mut self, id: FlowId, segment: Segment) {
        let flow = &mut self.flows[id.index()];
        let size = segment.length + self.sizes.headers;
        flow.in_host += u64::from(size);
        flow.packets += 1;
        if segment.again {
            flow.retransmissions += 1;
            self.counters.retransmissions += 1;
        }
        let Address { from, to, hash, service, priority } = flow.address;
        let mut packet = Packet::new(Kind::Segment, size, to, service);
        packet.flow = id;
        packet.hash = hash;
        packet.priority = priority;
        packet.stamp = self.now;
        packet.sequence = segment.sequence;
        packet.rank = segment.rank;
        packet.set(CAPABLE, segment.capable);
        if segment.control {
            let bare_credits = segment.length == 0 && flow.sender.needs_credits();
            let field = flow.sender.control(self.now);
            if bare_credits {
                packet.priority = self.control_priority(priority);
            }
            packet.extension = self.extensions.insert(Extension::Control(field));
        }
        self.send(from, packet);
    }

    /// The event of a sender's timer.
    pub(crate) fn timer(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.index()];
        match flow.timer.fire(self.now) {
            Fired::Stale => {}
            Fired::Again(at) => self.events.push(at, Event::Timer(id)),
            Fired::Due if flow.opening != OPEN => {
                flow.timeouts += 1;
                self.counters.timeouts += 1;
                self.open(id);
            }
            Fired::Due => {
                let all_in_host = flow.all_in_host(self.sizes.payload, self.sizes.headers);
                if flow.sender.on_timer(self.now, all_in_host) == Timeout::Loss {
                    flow.timeouts += 1;
                    self.counters.timeouts += 1;
                }
                self.pump(id);
            }
        }
    }

    /// The event of a flow's delayed-acknowledgement timer.
    pub(crate) fn delayed_ack(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.index()];
        match flow.receiving.delayed_ack.fire(self.now) {
            Fired::Stale => {}
            Fired::Again(at) => self.events.push(at, Event::DelayedAck(id)),
            Fired::Due if flow.receiving.receiver.owes_ack() => self.acknowledge(id),
            Fired::Due => {}
        }
    }

    /// A packet has reached its host.
    #[inline]
    pub(crate) fn deliver(&mut self, host: HostId, id: PacketId) {
        if self.pairs.is_on() {
            self.count_pair(host, id);
        }
        if self.shaping.on && self.meter(host, id) {
            return self.drop_policed(host, id);
        }
        let packet = self.packets.remove(id);
        debug_assert_eq!(packet.to, host, "a packet went astray");
        if self.levels.is_on() {
            self.levels.delivered(self.now, id, packet.priority);
        }
        self.counters.delivered += 1;
        self.observer.delivered(self.now, id, packet.size);
        self.host_bytes[host.index() * self.service_count + packet.service.index()].rx += u64::from(packet.size);
        match packet.kind() {
            Kind::Segment => self.on_segment(&packet),
            Kind::Ack => self.on_ack(&packet),
            Kind::Message => self.on_message(&packet),
            Kind::Datagram => {
                if let Some(Extension::Datagram(bytes)) = self.extensions.remove(packet.extension) {
                    self.inbox.push_back(Delivery { at: self.now, to: host, bytes });
                }
            }
            Kind::Feedback => self.on_feedback(host, packet.feedback()),
            Kind::Report => self.on_report(host, packet.report()),
            Kind::Credits => self.on_credits(host, &packet),
            Kind::Handshake => self.on_handshake(&packet),
        }
    }

    #[inline]
    fn on_ack(&mut self, packet: &Packet) {
        let extension = self.extensions.remove(packet.extension);
        let flow = &mut self.flows[packet.flow.index()];
        flow.packets -= 1;
        let content = AckContent { next: packet.sequence, stamp: packet.stamp, echo: packet.has(ECHO) };
        let sack: &[SackBlock] = match &extension {
            None => &[],
            Some(Extension::Sack(blocks)) => &blocks.blocks[..usize::from(blocks.count)],
            Some(Extension::Control(field)) => {
                flow.sender.on_control(self.now, field);
                &[]
            }
            Some(Extension::Datagram(_)) => unreachable!("an acknowledgement carries no datagram"),
        };
        flow.sender.on_ack(self.now, &Ack { content, sack });
        self.go_on(packet.flow);
    }

    /// The sender of a flow has received a packet.
    #[inline]
    fn go_on(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.index()];
        if flow.life == Life::Running || !flow.sender.is_done() {
            self.pump(id);
        } else {
            flow.timer.cancel();
            self.recycle(id);
        }
    }

    /// The message of a port agent has reached an end of its flow.
    #[cold]
    fn on_message(&mut self, packet: &Packet) {
        let flow = &mut self.flows[packet.flow.index()];
        flow.packets -= 1;
        if packet.to == flow.address.to {
            self.keep_control(packet);
            return self.settle(packet.flow);
        }
        if let Some(Extension::Control(field)) = self.extensions.remove(packet.extension) {
            flow.sender.on_control(self.now, &field);
        }
        self.go_on(packet.flow);
    }

    /// Keeps the control field of a packet for the next acknowledgement, instead of an earlier one.
    #[cold]
    fn keep_control(&mut self, packet: &Packet) {
        let control = &mut self.flows[packet.flow.index()].receiving.control;
        let before = std::mem::replace(control, packet.extension);
        self.extensions.remove(before);
    }

    #[inline]
    fn on_segment(&mut self, packet: &Packet) {
        let id = packet.flow;
        if packet.extension != Extensions::NONE {
            self.keep_control(packet);
        }
        let flow = &mut self.flows[id.index()];
        flow.packets -= 1;
        let length = packet.size - self.sizes.headers;
        let range = packet.sequence..packet.sequence + u64::from(length);
        self.counters.overtaken += u64::from(flow.receiving.latest.is_overtaken(packet.stamp, range));
        let arrival = Arrival { sequence: packet.sequence, length, stamp: packet.stamp, marked: packet.has(MARKED) };
        let reaction = flow.receiving.receiver.on_segment(self.now, &arrival);
        if reaction.acknowledge == Acknowledge::Never {
            flow.receiving.unacknowledged += u64::from(length);
        }
        if flow.life == Life::Running && flow.receiving.delivered() >= flow.receiving.size {
            flow.receiving.finished = self.now;
            flow.life = Life::Over;
            self.over.push_back(id);
        }
        if let Some(before) = reaction.before {
            self.send_ack(id, before, false);
        }
        match reaction.acknowledge {
            Acknowledge::Now => self.acknowledge(id),
            Acknowledge::Later(due) => {
                if let Some(at) = self.flows[id.index()].receiving.delayed_ack.set(due) {
                    self.events.push(at, Event::DelayedAck(id));
                }
            }
            Acknowledge::Never => self.settle(id),
        }
    }

    /// A flow's receiver sends an acknowledgement.
    fn acknowledge(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.index()];
        flow.receiving.delayed_ack.cancel();
        let content = flow.receiving.receiver.acknowledge();
        self.send_ack(id, content, true);
    }

    /// Sends an acknowledgement; with `whole` it includes the control field to return, or the
    /// out-of-order blocks.
    fn send_ack(&mut self, id: FlowId, content: AckContent, whole: bool) {
        let flow = &mut self.flows[id.index()];
        self.observer.acknowledged(self.now, id, content.next, flow.sender.highest());
        flow.packets += 1;
        let address = flow.address;
        let Address { from, to, service, priority, .. } = address;
        let mut packet = Packet::new(Kind::Ack, self.sizes.headers, from, service);
        packet.flow = id;
        packet.hash = address.reverse_hash();
        packet.priority = priority;
        packet.stamp = content.stamp;
        packet.sequence = content.next;
        packet.set(ECHO, content.echo);
        if whole {
            packet.extension = std::mem::replace(&mut flow.receiving.control, Extensions::NONE);
            if packet.extension == Extensions::NONE {
                let blocks = flow.receiving.receiver.sack();
                if blocks.count > 0 {
                    packet.extension = self.extensions.insert(Extension::Sack(blocks));
                }
            }
        }
        self.send(to, packet);
    }

    /// A packet of a flow is gone: the flow may have ended, or its slot may be free.
    pub(crate) fn settle(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.index()];
        if flow.packets > 0 || !flow.sender.is_done() {
            return;
        }
        match flow.life {
            Life::Running => {
                flow.life = Life::Over;
                self.over.push_back(id);
            }
            Life::Released => self.recycle(id),
            Life::Over | Life::Gone => {}
        }
    }
}
