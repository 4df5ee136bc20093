//! The path of a packet in its host: the service's queue with its root limiter, and the interface.
//!
//! The engine's part of [`crate::host`]: [`World::set_limit`] sets a root limiter, `send` puts a
//! packet before it, `release_heads` releases packets, `enter_interface` sends or queues.

use crate::agents::Moment;
use crate::events::Event;
use crate::host::{BURST, Head};
use crate::ids::{HostId, PacketId, PortId, ServiceIndex};
use crate::observer::Observer;
use crate::packet::{Kind, OTHERS, Packet};
use crate::port::Service;
use crate::timer::Fired;
use crate::world::World;
use weir_datapath::Limiter;
use weir_units::{Bandwidth, Bytes};

impl<O: Observer> World<O> {
    /// Sets the limit of a service at a host, from now on; [`Bandwidth::UNLIMITED`] lifts it.
    pub fn set_limit(&mut self, host: HostId, service: ServiceIndex, limit: Bandwidth) {
        let now = self.now.instant();
        let of_host = &mut self.hosts[host.index()];
        let queue = &mut self.services[host.index() * self.service_count + service.index()];
        queue.limit = limit;
        let before = queue.limiter.is_some();
        if limit.is_unlimited() {
            queue.limiter = None;
        } else {
            let burst = queue.burst;
            let limiter = queue.limiter.get_or_insert_with(|| Limiter::new(Bandwidth::UNLIMITED, burst));
            limiter.set_rate(now, limit);
        }
        self.observer.limit_set(self.now, host, service, limit, queue.burst);
        of_host.limited = of_host.limited + u32::from(queue.limiter.is_some()) - u32::from(before);
        self.release_heads(host, service);
    }

    /// Sets the burst of a root limiter after a pause.
    pub(crate) fn set_burst(&mut self, host: HostId, service: ServiceIndex, burst: Bytes) {
        let queue = &mut self.services[host.index() * self.service_count + service.index()];
        queue.burst = burst.max(BURST);
        if let Some(limiter) = &mut queue.limiter {
            limiter.set_burst(queue.burst);
        }
        self.observer.limit_set(self.now, host, service, queue.limit, queue.burst);
    }

    /// Puts a new packet into its service's queue.
    #[inline]
    pub(crate) fn send(&mut self, host: HostId, mut packet: Packet) {
        packet.leaf = self.hosts[packet.to.index()].leaf;
        if self.tags.is_on() {
            // Latency levels give their packets other classes.
            packet.priority = OTHERS;
        }
        let size = packet.size;
        let id = self.packets.insert(packet);
        self.counters.sent += 1;
        self.observer.sent(self.now, id, size);
        if self.hosts[host.index()].limited == 0 {
            self.enter_interface(host, id);
        } else if self.quotas.is_on() && self.exceeds_quota(host, id) {
            // It is gone.
        } else if self.aggregates.is_on() && self.needs_aggregate(id) {
            self.enter_aggregate(host, id);
        } else if self.levels.is_on() {
            self.enter_level(host, id);
        } else if self.pairs.is_on() {
            self.enter_pair(host, id);
        } else if self.shaping.on {
            self.shape(host, id);
        } else {
            self.enter_service(host, id);
        }
    }

    /// Puts a packet into its service's queue, or passes it to the interface if the service has no
    /// limiter. Returns whether it was sent at once and its flow has not been notified.
    #[inline]
    pub(crate) fn enter_service(&mut self, host: HostId, id: PacketId) -> bool {
        let service = self.packets.get(id).service;
        let queue = &self.services[host.index() * self.service_count + service.index()];
        if queue.limiter.is_none() {
            return self.enter_interface(host, id);
        }
        let first = queue.waiting.is_empty();
        self.push_to_service(host, service, id);
        if first {
            self.release_heads(host, service);
        }
        false
    }

    pub(crate) fn push_to_service(&mut self, host: HostId, service: ServiceIndex, id: PacketId) {
        let queue = &mut self.services[host.index() * self.service_count + service.index()];
        queue.waiting.push(&mut self.packets, id);
        queue.count += 1;
    }

    /// The event of a service queue's timer.
    pub(crate) fn release_due(&mut self, host: HostId, service: ServiceIndex) {
        if service.index() >= self.service_count {
            return self.level_due(host, service);
        }
        match self.services[host.index() * self.service_count + service.index()].release.fire(self.now) {
            Fired::Stale => {}
            Fired::Again(at) => self.events.push(at, Event::Release(host, service)),
            Fired::Due => self.release_heads(host, service),
        }
    }

    /// Releases the packets at the head of a service's queue that may leave, and sets its timer for
    /// the next.
    pub(crate) fn release_heads(&mut self, host: HostId, service: ServiceIndex) {
        let now = self.now.instant();
        loop {
            let queue = &mut self.services[host.index() * self.service_count + service.index()];
            let id = queue.waiting.head;
            if id == PacketId::NONE {
                return queue.release.cancel();
            }
            let size = self.packets.get(id).size;
            if let Head::Waits(until) = queue.head(now, size) {
                if let Some(at) = queue.release.set(until.into()) {
                    self.events.push(at, Event::Release(host, service));
                }
                return;
            }
            queue.waiting.pop(&mut self.packets);
            queue.count -= 1;
            self.observer.released(self.now, host, service, size);
            if self.enter_interface(host, id) {
                self.resume(id);
            }
            if self.shaping.on {
                self.count_sent(host, size);
            }
        }
    }

    /// Passes a packet to the host's interface. Returns whether it was sent at once. A packet that
    /// an agent of the interface consumes is gone.
    #[inline]
    pub(crate) fn enter_interface(&mut self, host: HostId, id: PacketId) -> bool {
        let port = self.hosts[host.index()].interface;
        let out = &self.ports[port.index()];
        if out.waking || out.free_at > self.now || out.service == Service::Down {
            self.enqueue_scheduled(port, id);
            return false;
        }
        if out.watched {
            return !self.show(port, id, Moment::Enters) && self.send_at_once::<true>(host, port, id);
        }
        self.send_at_once::<false>(host, port, id)
    }

    /// An idle interface sends a packet; `WATCHED` if it has agents.
    #[inline]
    fn send_at_once<const WATCHED: bool>(&mut self, host: HostId, port: PortId, id: PacketId) -> bool {
        let packet = self.packets.get(id);
        let (size, priority) = (packet.size, packet.priority);
        self.count(port, priority, size);
        let out = &mut self.ports[port.index()];
        out.peak_bytes = out.peak_bytes.max(size.into());
        if WATCHED {
            self.show(port, id, Moment::Leaves);
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
        if self.tags.is_on() {
            self.tag(host, id);
        }
        if self.has_credit_queues {
            self.mark_credits(id);
        }
        let packet = self.packets.get(id);
        self.host_bytes[host.index() * self.service_count + packet.service.index()].tx += u64::from(packet.size);
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
