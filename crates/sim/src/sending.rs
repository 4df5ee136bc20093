//! What a packet passes in its host: the service's queue with its root limiter, and the interface.
//!
//! The engine's part of [`crate::host`]: [`World::set_limit`] sets a root limiter, `send` puts a packet before it, `release_heads`
//! lets go what may leave, `enter_interface` sends or queues.

use crate::events::Event;
use crate::host::{BURST, Head};
use crate::ids::{Class, HostId, PacketId};
use crate::observer::Observer;
use crate::packet::{Extensions, Kind, Packet};
use crate::port::Service;
use crate::timer::Fired;
use crate::world::World;
use weir_datapath::Limiter;
use weir_units::Bandwidth;

impl<O: Observer> World<O> {
    /// Sets the limit of a service at a host, from now on; [`Bandwidth::UNLIMITED`] lifts it.
    pub fn set_limit(&mut self, host: HostId, class: Class, limit: Bandwidth) {
        let now = self.now.instant();
        let place = &mut self.hosts[host.index()];
        let queue = &mut self.services[host.index() * self.classes + class.index()];
        queue.limit = limit;
        let before = queue.limiter.is_some();
        if limit.is_unlimited() {
            queue.limiter = None;
        } else if let Some(limiter) = &mut queue.limiter {
            limiter.set_rate(now, limit);
        } else {
            let mut limiter = Limiter::new(Bandwidth::UNLIMITED, BURST);
            limiter.set_rate(now, limit);
            queue.limiter = Some(limiter);
        }
        place.limited = place.limited + u32::from(queue.limiter.is_some()) - u32::from(before);
        self.release_heads(host, class);
    }

    /// Puts a new packet into its service's queue.
    #[inline]
    pub(crate) fn send(&mut self, host: HostId, mut packet: Packet) {
        packet.leaf = self.hosts[packet.to.index()].leaf;
        let (class, size) = (packet.class, packet.size);
        let id = self.packets.insert(packet);
        self.counters.sent += 1;
        self.observer.sent(self.now, id, size);
        let service = host.index() * self.classes + class.index();
        if self.hosts[host.index()].limited > 0 && self.services[service].limiter.is_some() {
            let queue = &mut self.services[service];
            let first = queue.waiting.is_empty();
            queue.waiting.push(&mut self.packets, id);
            queue.count += 1;
            if first {
                self.release_heads(host, class);
            }
        } else {
            self.enter_interface(host, id);
        }
    }

    /// The event of a service queue's timer.
    pub(crate) fn release_due(&mut self, host: HostId, class: Class) {
        match self.services[host.index() * self.classes + class.index()].release.fire(self.now) {
            Fired::Stale => {}
            Fired::Again(at) => self.events.push(at, Event::Release(host, class)),
            Fired::Due => self.release_heads(host, class),
        }
    }

    /// Releases the packets at the head of a service's queue that may leave, and sets its timer for the next.
    fn release_heads(&mut self, host: HostId, class: Class) {
        let now = self.now.instant();
        loop {
            let queue = &mut self.services[host.index() * self.classes + class.index()];
            let id = queue.waiting.head;
            if id == PacketId::NONE {
                return queue.release.cancel();
            }
            if let Head::Waits(until) = queue.head(now, self.packets.get(id).size) {
                if let Some(at) = queue.release.set(until.into()) {
                    self.events.push(at, Event::Release(host, class));
                }
                return;
            }
            queue.waiting.pop(&mut self.packets);
            queue.count -= 1;
            if self.enter_interface(host, id) {
                self.resume(id);
            }
        }
    }

    /// Hands a packet to the host's interface. Says whether it was sent at once.
    #[inline]
    fn enter_interface(&mut self, host: HostId, id: PacketId) -> bool {
        let port = self.hosts[host.index()].interface;
        let out = &self.ports[port.index()];
        if out.waking || out.free_at > self.now || out.service == Service::Down {
            self.enqueue_scheduled(port, id);
            return false;
        }
        let packet = self.packets.get(id);
        let (size, priority, extension) = (packet.size, packet.priority, packet.extension);
        self.count(port, priority, size);
        let out = &mut self.ports[port.index()];
        out.peak_bytes = out.peak_bytes.max(size.into());
        if extension != Extensions::NONE {
            self.request(port, id);
        }
        let at = self.now + self.jitter.next();
        self.observer.accepted(at, port, size);
        self.transmit(at, port, id);
        self.left(host, id);
        true
    }

    /// A packet has left its host.
    #[inline]
    pub(crate) fn left(&mut self, host: HostId, id: PacketId) {
        let packet = self.packets.get(id);
        self.host_bytes[host.index() * self.classes + packet.class.index()].tx += u64::from(packet.size);
        if packet.kind() == Kind::Segment {
            self.flows[packet.flow.index()].in_host -= u64::from(packet.size);
        }
    }

    /// Lets the flow of a segment that left its host send more.
    #[inline]
    pub(crate) fn resume(&mut self, id: PacketId) {
        let packet = self.packets.get(id);
        if packet.kind() == Kind::Segment {
            self.pump(packet.flow);
        }
    }
}
