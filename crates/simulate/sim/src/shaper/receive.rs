//! The receiving side: every packet is counted, and some packets get feedback.

use crate::ids::{HostId, PacketId};
use crate::observer::Observer;
use crate::packet::{CAPABLE, Feedback, MARKED, Packet, REQUESTS_FEEDBACK, SHAPED};
use crate::world::World;
use weir_datapath::{Arrival, Peer, PoliceVerdict};
use weir_units::Bandwidth;

/// The frame of a feedback packet: Ethernet's smallest, as EyeQ's.
const FEEDBACK_SIZE: u32 = 64;

impl<O: Observer> World<O> {
    /// Counts a packet that has reached its host, and sends feedback if it is due. Returns whether the policer drops
    /// it.
    pub(crate) fn meter(&mut self, host: HostId, id: PacketId) -> bool {
        let packet = self.packets.get(id);
        let service = packet.service;
        // As on Linux, senders' levels limit what arrives on a level.
        if service.index() + 1 == self.service_count || self.levels.has(packet.priority) {
            return false;
        }
        let peer = if self.shaping.strangers.is_empty() { Peer::Follower } else { self.peer(host, id) };
        let packet = self.packets.get_mut(id);
        let (capable, marked, shaped) = (packet.has(CAPABLE), packet.has(MARKED), packet.has(SHAPED));
        let requests_feedback = packet.has(REQUESTS_FEEDBACK) && !marked;
        if shaped {
            packet.clear(MARKED);
        }
        let reacts = capable && !shaped;
        let arrival = Arrival { bytes: packet.size, capable, marked, requests_feedback, reacts, peer };
        let now = self.now.instant();
        let reception = self.datapath.receive(host.index(), service.index(), now, arrival);
        if peer == Peer::Stranger {
            self.count_policed(host, id, reception.verdict);
        }
        if let Some(rate) = reception.feedback {
            self.send_feedback(host, id, rate);
        }
        reception.verdict == PoliceVerdict::Drop
    }

    /// The host that a packet of a flow comes from.
    pub(crate) fn source(&self, id: PacketId) -> HostId {
        let packet = self.packets.get(id);
        let flow = &self.flows[packet.flow.index()].address;
        if packet.to == flow.to { flow.from } else { flow.to }
    }

    /// The kind of a packet's sender in a world where some hosts have no agent. A sender applies feedback if it has a
    /// limiter to this host.
    fn peer(&self, host: HostId, id: PacketId) -> Peer {
        let shaping = &self.shaping;
        if !shaping.config.parameters.polices || shaping.strangers[host.index()] {
            return Peer::Follower;
        }
        let (source, service) = (self.source(id), self.packets.get(id).service);
        let limiters = &shaping.destinations[source.index() * self.service_count + service.index()];
        if limiters.get(host.0).is_none() { Peer::Stranger } else { Peer::Follower }
    }

    fn count_policed(&mut self, host: HostId, id: PacketId, verdict: PoliceVerdict) {
        let packet = self.packets.get_mut(id);
        let service = packet.service;
        if verdict == PoliceVerdict::Mark {
            packet.set(MARKED, true);
        }
        // Without a receive limit every packet passes, and none counts.
        if self.datapath.receive_limit(host.index(), service.index()).is_unlimited() {
            return;
        }
        let policed = &mut self.shaping.policed[host.index() * self.service_count + service.index()];
        match verdict {
            PoliceVerdict::Drop => policed.dropped += 1,
            PoliceVerdict::Mark => {
                policed.marked += 1;
                policed.passed += 1;
            }
            PoliceVerdict::Pass => policed.passed += 1,
        }
    }

    /// Sends a rate to a packet's source.
    fn send_feedback(&mut self, host: HostId, id: PacketId, rate: Bandwidth) {
        let (service, source) = (self.packets.get(id).service, self.source(id));
        if let Some(meter) = self.datapath.meter(host.index(), service.index()) {
            self.observer.advertised(self.now, host, service, rate, meter.capacity());
        }
        self.counters.feedback += 1;
        let feedback = Feedback { from: host, service, rate };
        let mut packet = Packet::of_feedback(feedback, FEEDBACK_SIZE, source, self.control_service());
        packet.stamp = self.now;
        self.send(host, packet);
    }
}
