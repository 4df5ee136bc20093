//! Output ports: a queue, a transmitter that takes a frame's length over the rate, and a pipe in
//! which frames fly.
//!
//! Problem: with an event for the end of each transmission and one for each arrival, a packet costs
//! two events per hop, and the event queue holds every packet in flight.
//!
//! Approach. Frames are sent one after the other and arrive in the order in which they were sent.
//! When the transmitter takes a frame, its end and its arrival are known: start = max(now, end of
//! the one before), end = start + size / rate, arrival = end + delay. The arrival is an event of
//! the packet. A port whose queue is first in, first out ([`Service::Fifo`]) passes each frame on
//! at once, so a hop costs one event, and waiting bytes need no account: they are the transmitter's
//! load until it is free, (free − now) · rate. The tests for "does it fit" and "is it to be marked"
//! compare times, not bytes, so no hop divides; they are the same for all links of a kind
//! ([`Profile`]), so a port itself is one cache line. A port that chooses among frames
//! ([`crate::queue`]) passes one on only when the transmitter is free.
//!
//! So a byte leaves the buffer when it has been sent, not when its whole frame has: a buffer holds
//! up to a frame more than one that is freed frame by frame (htsim's).
//!
//! Example: at 8 Mb/s a frame of 1000 B takes 1 ms. Two frames handed over at 0 leave at 1 and 2
//! ms; at 1.5 ms the port holds 500 B.

use crate::ids::{End, HostId, MeterId, Node, PortId};
use crate::serial_clock::SerialClock;
use weir_network::graph::PRIORITIES;
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

/// The service of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    /// At once, in order.
    Fifo,
    /// At once, in order, after the port's agents have inspected the frame.
    Watched,
    /// When the transmitter is free, as the queue with the port's number chooses.
    Scheduled,
    /// Not at all: the link is down.
    Down,
}

/// The common properties of equal links. A network has few kinds of links, so these stay in the
/// nearest cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Profile {
    /// Picoseconds of a byte, where they are a whole number.
    byte: u64,
    delay: SimTime,
    /// The time that a full buffer takes to send, where [`Profile::exact`].
    buffer_time: u64,
    /// The time that the marking threshold takes, where [`Profile::exact`].
    mark_time: u64,
    /// Whether times are products of [`Profile::byte`].
    exact: bool,
    clock: SerialClock,
    /// The buffer in bytes; `u64::MAX` for an unlimited one.
    pub(crate) buffer: u64,
    /// The marking threshold in bytes; `u64::MAX` for none.
    pub(crate) mark: u64,
}

impl Profile {
    /// A link's profile; `u64::MAX` for an unlimited buffer and for no threshold.
    pub(crate) fn new(rate: Bandwidth, delay: SimTime, buffer: u64, mark: u64) -> Self {
        let clock = SerialClock::new(rate);
        let byte = clock.byte();
        Self {
            byte,
            delay,
            buffer_time: buffer.saturating_mul(byte),
            mark_time: mark.saturating_mul(byte),
            exact: clock.is_exact(),
            clock,
            buffer,
            mark,
        }
    }

    /// The same link with another queue.
    pub(crate) fn with_queue(&self, buffer: u64, mark: u64) -> Self {
        Self::new(self.rate(), self.delay, buffer, mark)
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

    /// The backlog behind a frame of `size` bytes that has joined `wait` of it, rounded down.
    #[inline]
    pub(crate) fn with(&self, wait: SimTime, size: u32) -> u64 {
        wait.picos() + u64::from(size) * self.byte
    }

    /// Bytes that take `time`; a byte that has begun counts in full.
    #[inline]
    pub(crate) fn bytes_in(&self, time: SimTime) -> u64 {
        self.clock.bytes_in(time)
    }

    pub(crate) fn rate(&self) -> Bandwidth {
        self.clock.rate()
    }
    pub(crate) fn delay(&self) -> SimTime {
        self.delay
    }
    pub(crate) fn clock(&self) -> &SerialClock {
        &self.clock
    }
}

/// No host, queue or meter.
pub(crate) const NONE: u32 = u32::MAX;

/// An output port and the link behind it: the fields that every packet touches, in one cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Port {
    /// The time at which the transmitter has sent all of its frames.
    pub(crate) free_at: SimTime,
    /// Its count of class 0, the only class of most networks.
    pub(crate) taken: ClassCount,
    /// The most picoseconds of backlog since the peak was last taken.
    pub(crate) peak_time: u64,
    /// The same in bytes, for scheduled ports and after a change of the rate.
    pub(crate) peak_bytes: u64,
    /// The profile's index in the world's table.
    pub(crate) profile: u32,
    pub(crate) to: End,
    /// Its index in the queues' table, for [`Service::Scheduled`].
    pub(crate) queue: u32,
    /// The host that it is the interface of, or [`NONE`].
    owner: u32,
    pub(crate) service: Service,
    /// A [`crate::events::Event::Free`] is pending.
    pub(crate) waking: bool,
    /// A meter or the agents of the opposite port inspect the packets that arrive over its link.
    pub(crate) inspected: bool,
    /// It has agents.
    pub(crate) watched: bool,
    /// The frame in transmission may have begun at another rate than the profile's.
    pub(crate) mixed: bool,
}

impl Port {
    pub(crate) fn new(profile: u32, to: Node, owner: Option<HostId>) -> Self {
        Self {
            free_at: SimTime::ZERO,
            taken: ClassCount::default(),
            peak_time: 0,
            peak_bytes: 0,
            profile,
            to: to.into(),
            queue: NONE,
            owner: owner.map_or(NONE, |host| host.0),
            service: Service::Fifo,
            waking: false,
            inspected: false,
            watched: false,
            mixed: false,
        }
    }

    /// The unsent frames of the transmitter, as the time that they take at the link's rate.
    #[inline]
    pub(crate) fn backlog(&self, now: SimTime, profile: &Profile, record: &PortRecord) -> SimTime {
        if self.mixed { record.mixed_backlog(self.free_at, now, profile) } else { self.wait(now) }
    }

    /// The time until the transmitter is free.
    #[inline]
    pub(crate) fn wait(&self, now: SimTime) -> SimTime {
        self.free_at.saturating_sub(now)
    }

    /// Hands a frame of `size` bytes to the transmitter, which begins with it at `at` or when it is
    /// free. `clock` is the port's own, which keeps the fractions of a busy period.
    #[inline]
    pub(crate) fn transmit(
        &mut self,
        profile: &Profile,
        clock: &mut SerialClock,
        at: SimTime,
        size: u32,
    ) -> Transmission {
        let start = self.free_at.max(at);
        let time = if profile.exact {
            SimTime::from_picos(u64::from(size) * profile.byte)
        } else {
            if self.free_at < at {
                clock.reset();
            }
            clock.advance(size)
        };
        let end = start + time;
        self.free_at = end;
        Transmission { start, end, arrival: end + profile.delay }
    }

    /// The node at the far end of the link.
    #[inline]
    pub fn to(&self) -> Node {
        self.to.node()
    }
    /// The host that it is the interface of, if any.
    #[inline]
    pub fn owner(&self) -> Option<HostId> {
        (self.owner != NONE).then_some(HostId(self.owner))
    }
    /// The time at which the transmitter has sent all of its frames.
    #[inline]
    pub fn free_at(&self) -> SimTime {
        self.free_at
    }
    /// Whether the link is up.
    pub fn is_up(&self) -> bool {
        self.service != Service::Down
    }
}

/// Bytes and packets of a class at a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClassCount {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
}

impl ClassCount {
    #[inline]
    pub(crate) fn add(&mut self, size: u32) {
        self.bytes += u64::from(size);
        self.packets += 1;
    }
    pub(crate) fn take_back(&mut self, size: u32) {
        self.bytes -= u64::from(size);
        self.packets -= 1;
    }
}

/// The fields of a port that few packets touch.
#[derive(Debug, Clone)]
pub(crate) struct PortRecord {
    /// The clock of a port where a byte takes a fraction of a picosecond.
    pub(crate) clock: SerialClock,
    /// The service when the link is up.
    pub(crate) usual: Service,
    pub(crate) meter: MeterId,
    /// Its first agent, or [`NONE`].
    pub(crate) agent: u32,
    /// The node that it belongs to, and the port at the far end of its link that leads back there.
    pub(crate) at: End,
    pub(crate) opposite: PortId,
    /// Bytes that could have been sent until `rated_at`.
    pub(crate) capacity: u64,
    pub(crate) rated_at: SimTime,
    /// The end of the frame that was on the wire when the rate last changed, and its rate.
    pub(crate) wire_end: SimTime,
    pub(crate) wire_rate: Bandwidth,
    /// Its counts by class; for class 0, see [`Port::taken`].
    pub(crate) taken: [ClassCount; PRIORITIES],
    pub(crate) dropped: [ClassCount; PRIORITIES],
    pub(crate) marked: [ClassCount; PRIORITIES],
}

impl PortRecord {
    pub(crate) fn new(clock: SerialClock, at: Node) -> Self {
        let none = [ClassCount::default(); PRIORITIES];
        Self {
            clock,
            usual: Service::Fifo,
            meter: MeterId(NONE),
            agent: NONE,
            at: at.into(),
            opposite: PortId(NONE),
            capacity: 0,
            rated_at: SimTime::ZERO,
            wire_end: SimTime::ZERO,
            wire_rate: Bandwidth::ZERO,
            taken: none,
            dropped: none,
            marked: none,
        }
    }
}

impl PortRecord {
    /// The backlog of a port whose rate has changed: the rest of the frame on the wire counts by
    /// that frame's rate.
    #[cold]
    fn mixed_backlog(&self, free_at: SimTime, now: SimTime, profile: &Profile) -> SimTime {
        if now >= self.wire_end {
            return free_at.saturating_sub(now);
        }
        let rest = u128::from((self.wire_end - now).picos()) * u128::from(self.wire_rate.bps());
        let rest = rest / u128::from(profile.rate().bps().max(1));
        SimTime::from_picos(u64::try_from(rest).unwrap_or(u64::MAX / 2)) + free_at.saturating_sub(self.wire_end)
    }
}

/// A port's counts since the start, by class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortCounts {
    /// Frames that it took.
    pub taken: [ClassCount; PRIORITIES],
    /// Frames that it dropped.
    pub dropped: [ClassCount; PRIORITIES],
    /// Frames that it marked.
    pub marked: [ClassCount; PRIORITIES],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SwitchId;

    const ZERO: SimTime = SimTime::ZERO;

    fn port() -> Port {
        Port::new(0, Node::Host(HostId(3)), None)
    }

    #[test]
    fn the_worked_example() {
        let ms = SimTime::from_millis;
        let profile = Profile::new(Bandwidth::from_mbps(8), ms(5), 2500, 1000);
        let (mut port, mut clock) = (port(), profile.clock().clone());
        assert!(profile.fits(port.wait(ZERO), 2500) && !profile.fits(port.wait(ZERO), 2501));
        port.transmit(&profile, &mut clock, ZERO, 1000);
        let second = port.transmit(&profile, &mut clock, ZERO, 1000);
        assert_eq!(second, Transmission { start: ms(1), end: ms(2), arrival: ms(7) });
        assert_eq!(profile.bytes_in(port.wait(SimTime::from_micros(1500))), 500);
        assert!(profile.marks(port.wait(ZERO)) && !profile.marks(port.wait(ms(1))));
        assert_eq!(port.transmit(&profile, &mut clock, ms(6), 1000).start, ms(6));
    }

    #[test]
    fn a_port_is_a_cache_line_and_computes_its_ends() {
        assert_eq!(size_of::<Port>(), 64);
        assert_eq!((port().to(), port().owner()), (Node::Host(HostId(3)), None));
        let interface = Port::new(0, Node::Switch(SwitchId(7)), Some(HostId(2)));
        assert_eq!((interface.to(), interface.owner()), (Node::Switch(SwitchId(7)), Some(HostId(2))));
    }

    #[test]
    fn thresholds_are_exact_where_a_byte_takes_a_fraction() {
        // At 300 Mb/s three bytes take 80,000 ps.
        let profile = Profile::new(Bandwidth::from_mbps(300), ZERO, 1000, 600);
        let (mut port, mut clock) = (port(), profile.clock().clone());
        port.transmit(&profile, &mut clock, ZERO, 600);
        assert!(!profile.marks(port.wait(ZERO)));
        assert!(profile.fits(port.wait(ZERO), 400) && !profile.fits(port.wait(ZERO), 401));
        port.transmit(&profile, &mut clock, ZERO, 1);
        assert!(profile.marks(port.wait(ZERO)));
        assert!(!profile.marks(port.wait(SimTime::from_picos(26_667))));
    }
}
