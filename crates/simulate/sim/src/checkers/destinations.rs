//! Queues of destinations: each waiting packet continues once, in order.

use super::entry;
use crate::ids::{HostId, PacketId, ServiceIndex};
use std::collections::{BTreeMap, VecDeque};

/// The packets that wait for the limiters of destinations, by sender, service and destination.
#[derive(Debug, Default)]
pub struct Destinations {
    queues: BTreeMap<(HostId, ServiceIndex, HostId), VecDeque<PacketId>>,
    /// By packet.
    waits: Vec<bool>,
}

impl Destinations {
    /// A packet waits.
    pub fn waits(&mut self, host: HostId, service: ServiceIndex, to: HostId, packet: PacketId) {
        let waits = entry(&mut self.waits, packet.index());
        assert!(!*waits, "packet {} waits twice", packet.0);
        *waits = true;
        self.queues.entry((host, service, to)).or_default().push_back(packet);
    }

    /// A packet is released.
    pub fn released(&mut self, host: HostId, service: ServiceIndex, to: HostId, packet: PacketId) {
        let first = self.queues.get_mut(&(host, service, to)).and_then(VecDeque::pop_front);
        assert_eq!(first, Some(packet), "a packet other than the oldest was released");
        *entry(&mut self.waits, packet.index()) = false;
    }

    /// Checks the sum against the world's.
    pub fn check(&self, waiting: usize) {
        assert_eq!(
            self.queues.values().map(VecDeque::len).sum::<usize>(),
            waiting,
            "packets that wait for destinations"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a packet other than the oldest was released")]
    fn catches_a_packet_that_overtakes() {
        let mut destinations = Destinations::default();
        let (host, service, to) = (HostId(0), ServiceIndex(0), HostId(1));
        destinations.waits(host, service, to, PacketId(3));
        destinations.waits(host, service, to, PacketId(4));
        destinations.released(host, service, to, PacketId(4));
    }
}
