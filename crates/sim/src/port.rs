//! Output ports: a queue, a transmitter that takes a frame's length over the rate, and a pipe in which frames fly.
//!
//! Problem: with an event for the end of each transmission and one for each arrival, a packet costs two
//! events per hop, and the event queue holds every packet in flight.
//!
//! Approach. Frames are sent one after the other and arrive in the order in which they were sent. When the
//! transmitter takes a frame, its end and its arrival are known: start = max(now, end of the one before),
//! end = start + size / rate, arrival = end + delay. What has been handed over is one list through the packets,
//! and only its first packet has an event. A port whose queue is first in, first out ([`Service::Fifo`]) hands each
//! frame over at once, so a hop costs one event, and the bytes that wait need no book: they are what the transmitter carries
//! until it is free, (free − now) · rate. "Does it fit" and "is it to be marked" compare times, not bytes, so
//! no hop divides. A port that chooses among frames ([`crate::queue`]) hands one over only when the transmitter is free.
//!
//! So a byte leaves the buffer when it has been sent, not when its whole frame has: a buffer holds up to a
//! frame more than one that is freed frame by frame (htsim's).
//!
//! Example: at 8 Mb/s a frame of 1000 B takes 1 ms. Two frames handed over at 0 leave at 1 and 2 ms; at 1.5 ms the port
//! holds 500 B.

use crate::ids::{HostId, MeterId, Node};
use crate::packet::List;
use crate::serial_clock::SerialClock;
use weir_scenario::graph::PRIORITIES;
use weir_units::{Bandwidth, SimTime};

/// When a frame's first bit leaves, when its last bit has left, and when that reaches the far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmission {
    /// The first bit leaves.
    pub start: SimTime,
    /// The last bit has left.
    pub end: SimTime,
    /// The last bit is at the far end.
    pub arrival: SimTime,
}

/// How a port serves what it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    /// At once, in order.
    Fifo,
    /// When the transmitter is free, as the queue with the port's number chooses.
    Scheduled,
    /// Not at all: the link is down.
    Down,
}

/// An output port and the link behind it; what every packet touches is in the first cache line.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Port {
    /// When the transmitter has sent what it was given.
    pub(crate) free_at: SimTime,
    /// What the transmitter was given and has not arrived.
    pub(crate) flight: List,
    /// Picoseconds of a byte, where they are a whole number.
    pub(crate) byte: u64,
    pub(crate) delay: SimTime,
    /// The time that a full buffer takes to send, where [`Port::exact`].
    pub(crate) buffer_time: u64,
    /// The time that the marking threshold takes, where [`Port::exact`].
    pub(crate) mark_time: u64,
    /// What the link leads to.
    pub(crate) to: Node,
    pub(crate) service: Service,
    /// Whether times are products of [`Port::byte`].
    pub(crate) exact: bool,
    /// A [`crate::events::Event::Free`] is pending.
    pub(crate) waking: bool,
    /// Bytes are counted by a meter where they arrive.
    pub(crate) metered: bool,
    /// Its place in the queues' table, for [`Service::Scheduled`].
    pub(crate) queue: u32,
    // The second line.
    pub(crate) clock: SerialClock,
    /// The buffer in bytes; `u64::MAX` where nothing is dropped.
    pub(crate) buffer: u64,
    /// The marking threshold in bytes; `u64::MAX` where nothing is marked.
    pub(crate) mark: u64,
    /// The service when the link is up.
    pub(crate) usual: Service,
    pub(crate) meter: MeterId,
    /// The host that it is the interface of, if any.
    pub(crate) owner: Option<HostId>,
}

impl Port {
    pub(crate) fn new(rate: Bandwidth, delay: SimTime, to: Node, owner: Option<HostId>) -> Self {
        let mut port = Self {
            free_at: SimTime::ZERO,
            flight: List::default(),
            byte: 0,
            delay,
            buffer_time: u64::MAX,
            mark_time: u64::MAX,
            to,
            service: Service::Fifo,
            exact: true,
            waking: false,
            metered: false,
            queue: u32::MAX,
            clock: SerialClock::new(rate),
            buffer: u64::MAX,
            mark: u64::MAX,
            usual: Service::Fifo,
            meter: MeterId(u32::MAX),
            owner,
        };
        port.set_rate(rate);
        port
    }

    /// Takes a new rate for what is handed over from now on.
    pub(crate) fn set_rate(&mut self, rate: Bandwidth) {
        self.clock = SerialClock::new(rate);
        self.exact = self.clock.is_exact();
        self.byte = self.clock.byte();
        self.buffer_time = self.buffer.saturating_mul(self.byte);
        self.mark_time = self.mark.saturating_mul(self.byte);
    }

    /// The buffer and the marking threshold in bytes; `u64::MAX` for none.
    pub(crate) fn set_thresholds(&mut self, buffer: u64, mark: u64) {
        (self.buffer, self.mark) = (buffer, mark);
        self.buffer_time = buffer.saturating_mul(self.byte);
        self.mark_time = mark.saturating_mul(self.byte);
    }

    /// Whether a frame fits behind `wait` of backlog.
    #[inline]
    pub(crate) fn fits(&self, wait: SimTime, size: u32) -> bool {
        if self.exact {
            wait.picos() + u64::from(size) * self.byte <= self.buffer_time
        } else {
            self.clock.bytes_in(wait).saturating_add(u64::from(size)) <= self.buffer
        }
    }

    /// Whether `wait` of backlog is above the marking threshold.
    #[inline]
    pub(crate) fn marks(&self, wait: SimTime) -> bool {
        if self.exact { wait.picos() > self.mark_time } else { self.clock.bytes_in(wait) > self.mark }
    }

    /// The time until the transmitter is free.
    #[inline]
    pub(crate) fn wait(&self, now: SimTime) -> SimTime {
        self.free_at.saturating_sub(now)
    }

    /// Hands a frame of `size` bytes to the transmitter, which begins with it at `at` or when it is free.
    #[inline]
    pub(crate) fn transmit(&mut self, at: SimTime, size: u32) -> Transmission {
        let start = self.free_at.max(at);
        let time = if self.exact {
            SimTime::from_picos(u64::from(size) * self.byte)
        } else {
            if self.free_at < at {
                self.clock.reset();
            }
            self.clock.advance(size)
        };
        let end = start + time;
        self.free_at = end;
        Transmission { start, end, arrival: end + self.delay }
    }

    /// The link's rate.
    pub fn rate(&self) -> Bandwidth {
        self.clock.rate()
    }
    /// The link's propagation delay.
    pub fn delay(&self) -> SimTime {
        self.delay
    }
    /// When the transmitter has sent what it was given.
    #[inline]
    pub fn free_at(&self) -> SimTime {
        self.free_at
    }
    /// Bytes that have been handed to the transmitter and not been sent at `now`.
    pub fn unsent(&self, now: SimTime) -> u64 {
        self.clock.bytes_in(self.wait(now))
    }
    /// The size of the buffer in bytes; `None` where nothing is dropped.
    pub fn buffer(&self) -> Option<u64> {
        (self.buffer != u64::MAX).then_some(self.buffer)
    }
    /// Whether the link is up.
    pub fn is_up(&self) -> bool {
        self.service != Service::Down
    }
    /// What the link leads to.
    pub fn to(&self) -> Node {
        self.to
    }
}

/// Bytes and packets of a class at a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClassCount {
    /// Bytes taken.
    pub bytes: u64,
    /// Packets taken.
    pub packets: u64,
}

/// What a port counted since the start.
#[derive(Debug, Clone, Default)]
#[repr(C, align(64))]
pub struct PortCounts {
    /// The most picoseconds of backlog since the peak was last taken.
    pub(crate) peak_time: u64,
    /// The most bytes since then, of ports that keep books.
    pub(crate) peak_bytes: u64,
    /// Taken, by class.
    pub(crate) taken: [ClassCount; PRIORITIES],
    /// Dropped, by class.
    pub(crate) dropped: [ClassCount; PRIORITIES],
    /// Marked, by class.
    pub(crate) marked: [ClassCount; PRIORITIES],
}

impl PortCounts {
    /// What it took, by class.
    pub fn taken(&self) -> &[ClassCount; PRIORITIES] {
        &self.taken
    }
    /// What it dropped, by class.
    pub fn dropped(&self) -> &[ClassCount; PRIORITIES] {
        &self.dropped
    }
    /// What it marked, by class.
    pub fn marked(&self) -> &[ClassCount; PRIORITIES] {
        &self.marked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let ms = SimTime::from_millis;
        let mut port = Port::new(Bandwidth::from_mbps(8), ms(5), Node::Host(HostId(0)), None);
        port.set_thresholds(2500, 1000);
        assert!(port.fits(port.wait(SimTime::ZERO), 2500) && !port.fits(port.wait(SimTime::ZERO), 2501));
        port.transmit(SimTime::ZERO, 1000);
        let second = port.transmit(SimTime::ZERO, 1000);
        assert_eq!(second, Transmission { start: ms(1), end: ms(2), arrival: ms(7) });
        assert_eq!(port.unsent(SimTime::from_micros(1500)), 500);
        assert!(port.marks(port.wait(SimTime::ZERO)) && !port.marks(port.wait(ms(1))));
        assert_eq!(port.transmit(ms(6), 1000).start, ms(6));
        assert_eq!(size_of::<Port>(), 128);
    }

    #[test]
    fn thresholds_are_exact_where_a_byte_takes_a_fraction() {
        // At 300 Mb/s three bytes take 80,000 ps.
        let mut port = Port::new(Bandwidth::from_mbps(300), SimTime::ZERO, Node::Host(HostId(0)), None);
        port.set_thresholds(1000, 600);
        port.transmit(SimTime::ZERO, 600);
        assert!(!port.marks(port.wait(SimTime::ZERO)));
        assert!(port.fits(port.wait(SimTime::ZERO), 400) && !port.fits(port.wait(SimTime::ZERO), 401));
        port.transmit(SimTime::ZERO, 1);
        assert!(port.marks(port.wait(SimTime::ZERO)));
        assert!(!port.marks(port.wait(SimTime::from_picos(26_667))));
    }
}
