//! The path of a packet in its host: the limiters, which decide about its departure, and the interface.
//!
//! The engine's part of [`crate::host`]: [`World::set_limit`] sets a root limiter, `send` puts a
//! packet before it, `depart` releases it at its departure, `enter_interface` sends or queues.

use crate::agents::Moment;
use crate::events::Event;
use crate::ids::{HostId, Node, PacketId, PortId, ServiceIndex};
use crate::observer::Observer;
use crate::packet::{Kind, OTHERS, Packet};
use crate::port::Service;
use crate::world::World;
use weir_units::Bandwidth;

impl<O: Observer> World<O> {
    /// Sets the limit of a service at a host, from its next packet on; [`Bandwidth::UNLIMITED`] lifts it.
    pub fn set_limit(&mut self, host: HostId, service: ServiceIndex, limit: Bandwidth) {
        let of_service = &mut self.services[host.index() * self.service_count + service.index()];
        let before = std::mem::replace(&mut of_service.limit, limit);
        if before.is_unlimited() && limit.is_unlimited() {
            return;
        }
        if before.is_unlimited() {
            // For good: the limiter's debt is paid while packets pass it.
            self.hosts[host.index()].limited += 1;
        }
        let burst = self.datapath.set_limit(host.index(), service.index(), limit);
        self.observer.limit_set(self.now, host, service, limit, burst);
    }

    /// Puts a new packet before the limiters of its host.
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

    /// Passes a packet through its service's root limiter and the machine's: to the interface, or until its departure.
    /// Returns whether it was sent at once and its flow has not been notified.
    #[inline]
    pub(crate) fn enter_service(&mut self, host: HostId, id: PacketId) -> bool {
        let packet = self.packets.get(id);
        let (service, size, now) = (packet.service, packet.size, self.now.instant());
        let Some(departure) = self.datapath.send(host.index(), service.index(), now, size) else {
            let port = self.hosts[host.index()].interface;
            self.leave_host(id);
            self.drop(port, id, false);
            return false;
        };
        self.observer.stamped(self.now, host, service, id, size, departure.into());
        let waiting = &mut self.services[host.index() * self.service_count + service.index()].waiting;
        // Packets that wait for the same time are first.
        if departure <= now && *waiting == 0 {
            return self.leave_service(host, id);
        }
        *waiting += 1;
        self.packets.get_mut(id).towards = Node::Host(host).into();
        self.events.push(self.now.max(departure.into()), Event::Depart(id));
        false
    }

    /// A packet's departure has come.
    pub(crate) fn depart(&mut self, id: PacketId) {
        let packet = self.packets.get(id);
        let (service, Node::Host(host)) = (packet.service, packet.towards.node()) else {
            unreachable!("a packet departs from a host")
        };
        self.services[host.index() * self.service_count + service.index()].waiting -= 1;
        if self.leave_service(host, id) {
            self.resume(id);
        }
    }

    /// A packet leaves the limiters of its host. Returns whether it was sent at once.
    #[inline]
    fn leave_service(&mut self, host: HostId, id: PacketId) -> bool {
        let size = self.packets.get(id).size;
        self.observer.released(self.now, id);
        let sent = self.enter_interface(host, id);
        if self.shaping.measures_sending() {
            self.count_sent(host, size);
        }
        sent
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
