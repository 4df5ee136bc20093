//! The receiving side: every packet is counted, some packets get feedback, the interface's capacity
//! is divided.

use crate::ids::{HostId, PacketId, ServiceIndex};
use crate::observer::Observer;
use crate::packet::{CAPABLE, Feedback, MARKED, Packet, REQUESTS_FEEDBACK, SHAPED};
use crate::world::World;
use weir_datapath::PoliceVerdict;
use weir_units::{Bandwidth, Bytes, Direction, MachineId};

/// The frame of a feedback packet: Ethernet's smallest, as EyeQ's.
const FEEDBACK_SIZE: u32 = 64;

impl<O: Observer> World<O> {
    /// Counts a packet that has reached its host, and sends feedback if it is due. Returns whether the policer drops
    /// it.
    pub(crate) fn meter(&mut self, host: HostId, id: PacketId) -> bool {
        let packet = self.packets.get_mut(id);
        let service = packet.service;
        // As on Linux, senders' levels limit what arrives on a level.
        if service.index() + 1 == self.service_count || self.levels.has(packet.priority) {
            return false;
        }
        let policed = if self.shaping.strangers.is_empty() { None } else { self.police(host, id) };
        if policed == Some(PoliceVerdict::Drop) {
            self.count_dropped(host, id);
            return true;
        }
        let packet = self.packets.get_mut(id);
        let (capable, marked) = (u32::from(packet.has(CAPABLE)), u32::from(packet.has(MARKED)));
        let requested = packet.has(REQUESTS_FEEDBACK) && !packet.has(MARKED);
        if packet.has(SHAPED) {
            packet.clear(MARKED);
        }
        let (now, bytes) = (self.now.instant(), Bytes::new(packet.size.into()));
        let index = host.index() * self.service_count + service.index();
        let shaping = &mut self.shaping;
        let receiver = &mut shaping.receivers[index];
        // A service below that by its brokers' limit demands no more than the limit.
        let committed = receiver.committed.min(receiver.limit);
        let interface = &mut shaping.interfaces[host.index()].receive;
        let config = &shaping.config;
        let share = config.leaf_share(service.index(), MachineId(host.0), Direction::Rx).enforced();
        interface.reach(&receiver.meter, now, bytes, &share, receiver.limit, config.sharing);
        let received = interface.receive(&mut receiver.meter, now, bytes, capable, marked, committed);
        if policed.is_some() {
            receiver.meter.take_back(bytes);
        }
        if received.shares {
            self.share_receiving(host);
        }
        let rate = self.shaping.receivers[index].meter.rate();
        if received.feedback || (requested && !rate.is_unlimited()) {
            self.send_feedback(host, id, rate);
        }
        false
    }

    /// Counts a packet that the policer drops at the interface, which it has crossed.
    fn count_dropped(&mut self, host: HostId, id: PacketId) {
        let (now, bytes) = (self.now.instant(), Bytes::new(self.packets.get(id).size.into()));
        if self.shaping.interfaces[host.index()].receive.packet(now, bytes) {
            self.share_receiving(host);
        }
    }

    /// The host that a packet of a flow comes from.
    pub(crate) fn source(&self, id: PacketId) -> HostId {
        let packet = self.packets.get(id);
        let flow = &self.flows[packet.flow.index()].address;
        if packet.to == flow.to { flow.from } else { flow.to }
    }

    /// Decides about a packet in a world where some hosts have no agent; `None` if its sender applies feedback, or the
    /// service has no limit. A sender applies feedback if it has a limiter to this host.
    fn police(&mut self, host: HostId, id: PacketId) -> Option<PoliceVerdict> {
        let source = self.source(id);
        let packet = self.packets.get_mut(id);
        let (now, service, bytes) = (self.now.instant(), packet.service, Bytes::new(packet.size.into()));
        let shaping = &mut self.shaping;
        let receiver = &mut shaping.receivers[host.index() * self.service_count + service.index()];
        if !shaping.config.parameters.polices || shaping.strangers[host.index()] {
            return None;
        }
        let share = shaping.config.leaf_share(service.index(), MachineId(host.0), Direction::Rx).share;
        let limit = receiver.limit.min(share.max);
        let limiters = &shaping.destinations[source.index() * self.service_count + service.index()];
        let is_stranger = limiters.get(host.0).is_none();
        let followed = if is_stranger { Bytes::ZERO } else { bytes };
        let passed = std::mem::take(&mut receiver.passed);
        let drained = receiver.policer.tick(now, limit, receiver.meter.interval(), followed, passed);
        receiver.meter.count(drained);
        if limit.is_unlimited() || !is_stranger {
            return None;
        }
        let verdict = receiver.policer.police(now, bytes, 1, packet.has(CAPABLE));
        match verdict {
            PoliceVerdict::Drop => receiver.policed.dropped += 1,
            PoliceVerdict::Mark => {
                packet.set(MARKED, true);
                receiver.policed.marked += 1;
                receiver.policed.passed += 1;
            }
            PoliceVerdict::Pass => receiver.policed.passed += 1,
        }
        if verdict != PoliceVerdict::Drop {
            receiver.passed = bytes;
        }
        Some(verdict)
    }

    /// Sends a rate to a packet's source.
    fn send_feedback(&mut self, host: HostId, id: PacketId, rate: Bandwidth) {
        let (service, source) = (self.packets.get(id).service, self.source(id));
        let meter = &self.shaping.receivers[host.index() * self.service_count + service.index()].meter;
        self.observer.advertised(self.now, host, service, rate, meter.capacity());
        self.counters.feedback += 1;
        let feedback = Feedback { from: host, service, rate };
        let mut packet = Packet::of_feedback(feedback, FEEDBACK_SIZE, source, self.control_service());
        packet.stamp = self.now;
        self.send(host, packet);
    }

    /// Divides what a host's interface may receive among its services.
    pub(super) fn share_receiving(&mut self, host: HostId) {
        for service in (0..self.service_count as u16 - 1).map(ServiceIndex) {
            let Some(share) = self.share_of(host, service, Direction::Rx) else { return };
            let receiver = &mut self.shaping.receivers[host.index() * self.service_count + service.index()];
            let leaf = self.shaping.config.leaf_share(service.index(), MachineId(host.0), Direction::Rx);
            let own = receiver.limit.min(leaf.share.max);
            if share < own {
                receiver.meter.set_share(share);
            } else {
                receiver.meter.set_capacity(own);
            }
        }
    }
}
