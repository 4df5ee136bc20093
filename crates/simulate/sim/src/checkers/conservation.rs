//! Conservation: packets neither vanish nor multiply.

use super::entry;
use crate::ids::PacketId;
use crate::world::Counters;

/// Which packets exist.
#[derive(Debug, Default)]
pub struct Conservation {
    exists: Vec<bool>,
    sent: u64,
    gone: u64,
}

impl Conservation {
    /// A packet came into being.
    pub fn sent(&mut self, packet: PacketId) {
        let exists = entry(&mut self.exists, packet.index());
        assert!(!*exists, "packet {} is sent while it is on its way", packet.0);
        *exists = true;
        self.sent += 1;
    }

    /// A packet was delivered, dropped or consumed.
    pub fn gone(&mut self, packet: PacketId) {
        let exists = entry(&mut self.exists, packet.index());
        assert!(*exists, "packet {} arrives or is dropped twice", packet.0);
        *exists = false;
        self.gone += 1;
    }

    /// Checks the sums against the world's: `packets` is how many the arena holds.
    pub fn check(&self, packets: usize, counters: &Counters) {
        let there = self.exists.iter().filter(|&&exists| exists).count();
        assert_eq!(there, packets, "packets that exist");
        assert_eq!(self.sent, counters.sent, "packets sent");
        let gone = counters.delivered + counters.dropped + counters.consumed;
        assert_eq!(self.gone, gone, "packets delivered, dropped or consumed");
        assert_eq!(self.sent, self.gone + there as u64, "sent = gone + on the way");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "packet 3 arrives or is dropped twice")]
    fn catches_a_second_delivery() {
        let mut conservation = Conservation::default();
        conservation.sent(PacketId(3));
        conservation.gone(PacketId(3));
        conservation.gone(PacketId(3));
    }
}
