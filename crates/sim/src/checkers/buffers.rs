//! Buffers: what a port holds, reckoned from the ends of its transmissions.

use super::entry;
use crate::ids::PortId;
use crate::link::Transmission;
use crate::time::SimTime;
use std::collections::VecDeque;

/// The bytes in each port.
#[derive(Debug, Default)]
pub struct Buffers {
    ports: Vec<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// End and size of the transmissions that were not over when last looked at.
    sending: VecDeque<(SimTime, u64)>,
    bytes: u64,
    most: u64,
}

impl Buffers {
    /// A port takes a frame.
    pub fn accepted(&mut self, now: SimTime, port: PortId, size: u32) {
        let held = entry(&mut self.ports, port.index());
        while let Some(&(end, size)) = held.sending.front()
            && end <= now
        {
            held.bytes -= size;
            held.sending.pop_front();
        }
        held.bytes += u64::from(size);
        held.most = held.most.max(held.bytes);
    }

    /// A port's transmitter is handed a frame.
    pub fn transmitted(&mut self, port: PortId, size: u32, transmission: Transmission) {
        entry(&mut self.ports, port.index()).sending.push_back((transmission.end, u64::from(size)));
    }

    /// The most bytes that a port held.
    pub fn most(&self, port: PortId) -> u64 {
        self.ports.get(port.index()).map_or(0, |held| held.most)
    }

    /// Checks that a port never held more than its buffer.
    pub fn check(&self, port: PortId, buffer: u64) {
        let most = self.most(port);
        assert!(most <= buffer, "port {} held {most} B in a buffer of {buffer} B", port.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "held 2000 B in a buffer of 1500 B")]
    fn catches_an_overfull_buffer() {
        let (mut buffers, t) = (Buffers::default(), SimTime::from_nanos);
        for start in [0, 10] {
            buffers.accepted(t(5), PortId(0), 1000);
            let (start, end) = (t(start), t(start + 10));
            buffers.transmitted(PortId(0), 1000, Transmission { start, end, arrival: end });
        }
        buffers.check(PortId(0), 1500);
    }
}
