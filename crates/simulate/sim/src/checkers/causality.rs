//! Causality: time never goes back, and no packet arrives or is lost before it was sent.

use super::entry;
use crate::ids::PacketId;
use weir_units::SimTime;

/// The send time of each existing packet.
#[derive(Debug, Default)]
pub struct Causality {
    now: SimTime,
    sent: Vec<SimTime>,
}

impl Causality {
    /// A packet came into being.
    pub fn sent(&mut self, now: SimTime, packet: PacketId) {
        self.pass(now);
        *entry(&mut self.sent, packet.index()) = now;
    }

    /// A packet was delivered or lost.
    pub fn gone(&mut self, now: SimTime, packet: PacketId) {
        self.pass(now);
        let sent = *entry(&mut self.sent, packet.index());
        assert!(sent <= now, "packet {} ends at {now} but was sent at {sent}", packet.0);
    }

    fn pass(&mut self, now: SimTime) {
        assert!(now >= self.now, "time goes back from {} to {now}", self.now);
        self.now = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "time goes back")]
    fn catches_time_that_goes_back() {
        let mut causality = Causality::default();
        causality.sent(SimTime::from_nanos(2), PacketId(0));
        causality.gone(SimTime::from_nanos(1), PacketId(0));
    }
}
