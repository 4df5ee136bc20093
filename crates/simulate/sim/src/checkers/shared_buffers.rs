//! Shared buffers: the total occupancy of a switch's ports, and the threshold of each when it takes
//! a frame.
//!
//! A frame that finds its port idle is sent at once and never enters the buffer. Any other frame is
//! in it from when the port takes it until its transmission begins or it is dropped. The checker's
//! accounts use these events alone.
//!
//! Example: in 1000 B with alpha 1 a port that holds 300 B, beside another one with 200 B, may take
//! 200 B more, not 201: 500 B are free.

use super::entry;
use crate::ids::PortId;
use crate::port::Transmission;
use weir_units::SimTime;

/// The bytes in each shared buffer, by port.
#[derive(Debug, Default)]
pub struct SharedBuffers {
    buffers: Vec<Buffer>,
    ports: Vec<Option<PortUse>>,
}

#[derive(Debug, Default)]
struct Buffer {
    size: u64,
    alpha_thousandths: u64,
    bytes: u64,
}

/// The bytes of a port in its buffer.
#[derive(Debug, Default)]
struct PortUse {
    buffer: u32,
    bytes: u64,
    /// The time at which its transmitter is free.
    free_at: SimTime,
    /// It has taken a frame to send it at once.
    passing: bool,
}

impl SharedBuffers {
    /// A port has a part of a shared buffer of `size` bytes.
    pub fn shares(&mut self, port: PortId, buffer: u32, size: u64, alpha_thousandths: u32) {
        let known = entry(&mut self.buffers, buffer as usize);
        (known.size, known.alpha_thousandths) = (size, alpha_thousandths.into());
        *entry(&mut self.ports, port.index()) = Some(PortUse { buffer, ..PortUse::default() });
    }

    /// A port takes a frame.
    pub fn accepted(&mut self, now: SimTime, port: PortId, size: u32) {
        let Some((held, buffer)) = self.part(port) else { return };
        if held.bytes == 0 && held.free_at <= now {
            held.passing = true;
            return;
        }
        let (size, free) = (u64::from(size), buffer.size - buffer.bytes);
        assert!(
            size <= free,
            "port {} takes {size} B into a shared buffer of {} B that has {free} B free",
            port.0,
            buffer.size
        );
        let (taken, alpha) = (held.bytes + size, buffer.alpha_thousandths);
        assert!(
            u128::from(taken) * 1000 <= u128::from(free) * u128::from(alpha),
            "port {} holds {taken} B, above {alpha}/1000 of {free} B that were free in its shared buffer",
            port.0
        );
        held.bytes = taken;
        buffer.bytes += size;
    }

    /// A port's transmitter is handed a frame.
    pub fn transmitted(&mut self, port: PortId, size: u32, transmission: Transmission) {
        let Some((held, _)) = self.part(port) else { return };
        held.free_at = transmission.end;
        if !std::mem::take(&mut held.passing) {
            self.gone(port, size);
        }
    }

    /// A port drops a waiting frame.
    pub fn gave_up(&mut self, port: PortId, size: u32) {
        self.gone(port, size);
    }

    /// The frames of a port's transmitter are lost.
    pub fn cut(&mut self, now: SimTime, port: PortId) {
        if let Some((held, _)) = self.part(port) {
            held.free_at = held.free_at.min(now);
        }
    }

    /// Checks a port's bytes against the world's account; skips a port with a buffer of its own.
    pub fn check_port(&self, port: PortId, bytes: u64) {
        if let Some(Some(held)) = self.ports.get(port.index()) {
            assert_eq!(held.bytes, bytes, "port {}: bytes in its shared buffer", port.0);
        }
    }

    /// Checks a buffer's occupancy against the sum over its ports.
    pub fn check(&self, buffer: u32, bytes: u64) {
        let held: u64 = self.ports.iter().flatten().filter(|held| held.buffer == buffer).map(|held| held.bytes).sum();
        assert_eq!(held, bytes, "shared buffer {buffer}: bytes that its ports hold");
    }

    fn gone(&mut self, port: PortId, size: u32) {
        let Some((held, buffer)) = self.part(port) else { return };
        let size = u64::from(size);
        assert!(held.bytes >= size, "port {} takes {size} B out of its shared buffer and holds {}", port.0, held.bytes);
        held.bytes -= size;
        buffer.bytes -= size;
    }

    fn part(&mut self, port: PortId) -> Option<(&mut PortUse, &mut Buffer)> {
        let held = self.ports.get_mut(port.index())?.as_mut()?;
        let buffer = self.buffers.get_mut(held.buffer as usize)?;
        Some((held, buffer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: [PortId; 2] = [PortId(3), PortId(7)];

    /// Two ports on 1000 B; each sends a frame and holds so many bytes.
    fn holding(alpha_thousandths: u32, bytes: [u32; 2]) -> SharedBuffers {
        let mut buffers = SharedBuffers::default();
        let (start, end) = (SimTime::ZERO, SimTime::from_nanos(1000));
        for port in PORTS {
            buffers.shares(port, 0, 1000, alpha_thousandths);
            buffers.accepted(start, port, 5000);
            buffers.transmitted(port, 5000, Transmission { start, end, arrival: end });
        }
        for (port, size) in PORTS.into_iter().zip(bytes) {
            buffers.accepted(SimTime::from_nanos(1), port, size);
        }
        buffers
    }

    #[test]
    fn the_worked_example() {
        let mut buffers = holding(1000, [300, 200]);
        buffers.accepted(SimTime::from_nanos(2), PORTS[0], 200);
        buffers.check_port(PORTS[0], 500);
        buffers.check(0, 700);
        let (start, end) = (SimTime::from_nanos(1000), SimTime::from_nanos(2000));
        buffers.transmitted(PORTS[0], 300, Transmission { start, end, arrival: end });
        buffers.gave_up(PORTS[1], 200);
        buffers.check(0, 200);
    }

    #[test]
    #[should_panic(expected = "port 3 holds 501 B, above 1000/1000 of 500 B")]
    fn catches_a_port_above_its_threshold() {
        holding(1000, [300, 200]).accepted(SimTime::from_nanos(2), PORTS[0], 201);
    }

    #[test]
    #[should_panic(expected = "takes 701 B into a shared buffer of 1000 B that has 700 B free")]
    fn catches_an_overfull_buffer() {
        holding(8000, [300, 0]).accepted(SimTime::from_nanos(2), PORTS[1], 701);
    }

    #[test]
    #[should_panic(expected = "shared buffer 0: bytes that its ports hold")]
    fn catches_an_occupancy_that_is_not_the_sum() {
        holding(1000, [300, 200]).check(0, 499);
    }
}
