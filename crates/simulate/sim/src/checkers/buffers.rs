//! Buffers: the bytes in a port, computed from its transmissions: frames that have not begun count
//! in full, a frame in transmission counts with its remaining part.

use super::entry;
use crate::ids::PortId;
use crate::port::Transmission;
use std::collections::VecDeque;
use weir_units::SimTime;

/// The bytes in each port.
#[derive(Debug, Default)]
pub struct Buffers {
    ports: Vec<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// The transmissions, with their sizes, that had not ended at the last check.
    sending: VecDeque<(Transmission, u64)>,
    bytes: u64,
    most: u64,
}

impl Buffers {
    /// A port takes a frame.
    pub fn accepted(&mut self, now: SimTime, port: PortId, size: u32) {
        let held = entry(&mut self.ports, port.index());
        while let Some(&(transmission, size)) = held.sending.front()
            && transmission.end <= now
        {
            held.bytes -= size;
            held.sending.pop_front();
        }
        held.bytes += u64::from(size);
        let sent = held.sending.front().map_or(0, |&(Transmission { start, end, .. }, size)| {
            let (past, whole) = (now.saturating_sub(start).picos(), (end - start).picos());
            (u128::from(size) * u128::from(past)).div_ceil(u128::from(whole)) as u64
        });
        held.most = held.most.max(held.bytes - sent);
    }

    /// A port's transmitter is handed a frame.
    pub fn transmitted(&mut self, port: PortId, size: u32, transmission: Transmission) {
        entry(&mut self.ports, port.index()).sending.push_back((transmission, u64::from(size)));
    }

    /// A port drops a waiting frame.
    pub fn gave_up(&mut self, port: PortId, size: u32) {
        entry(&mut self.ports, port.index()).bytes -= u64::from(size);
    }

    /// The last `count` frames of the transmitter wait again.
    pub fn withdraw(&mut self, port: PortId, count: u64) {
        let sending = &mut entry(&mut self.ports, port.index()).sending;
        sending.truncate(sending.len().saturating_sub(count as usize));
    }

    /// The frames of the transmitter are lost.
    pub fn cut(&mut self, port: PortId) {
        let held = entry(&mut self.ports, port.index());
        held.bytes -= held.sending.drain(..).map(|(_, size)| size).sum::<u64>();
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
    #[should_panic(expected = "held 1500 B in a buffer of 1499 B")]
    fn catches_an_overfull_buffer() {
        let (mut buffers, t) = (Buffers::default(), SimTime::from_nanos);
        for start in [0, 10] {
            buffers.accepted(t(5), PortId(0), 1000);
            let (start, end) = (t(start), t(start + 10));
            buffers.transmitted(PortId(0), 1000, Transmission { start, end, arrival: end });
        }
        buffers.check(PortId(0), 1499);
    }
}
