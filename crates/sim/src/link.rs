//! Links: a transmitter that takes a frame's length over the rate, and a pipe in which frames fly.
//!
//! Problem: with an event for the end of each transmission and one for each arrival, a packet costs two
//! events per hop, and the event queue holds every packet in flight.
//!
//! Approach. Frames are sent one after the other and arrive in the order in which they were sent. When the
//! transmitter takes a frame, its end and its arrival are known: start = max(now, end of the one before),
//! end = start + size / rate, arrival = end + delay. The pipe is a first-in first-out ring of (arrival,
//! packet), and only its first entry has an event. A FIFO port hands each frame over at once, so a hop
//! costs one event, and the bytes that wait need no book: they are what the transmitter carries until it is
//! free, (free − now) · rate. A port that chooses among classes hands a frame over only when the transmitter is free.
//!
//! Exactness: where a byte takes a whole number of picoseconds the time is a product. Elsewhere (300 Mb/s)
//! the fraction is carried from frame to frame inside a busy period, so that n frames end at exactly
//! ⌈n · 8 · size / rate⌉ ps after its start: never faster than the rate, and never a picosecond too slow.
//!
//! So a byte leaves the buffer when it has been sent, not when its whole frame has: a buffer holds up to a
//! frame more than one that is freed frame by frame (htsim's).

use crate::packet::Label;
use std::collections::VecDeque;
use weir_units::Bandwidth;
use weir_units::SimTime;

/// Picoseconds in a second times bits in a byte: a byte takes this over the rate in bit/s.
const BYTE_PICOS: u64 = 8 * 1_000_000_000_000;

/// How long frames take at a rate, exactly: see the module's documentation.
#[derive(Debug, Clone)]
pub struct SerialClock {
    bps: u64,
    /// Whole picoseconds of a byte.
    whole: u64,
    /// The rest of a byte's time, in 1/bps ps.
    rest: u64,
    /// What the frames so far were rounded up by, in 1/bps ps; below `bps`.
    credit: u64,
}

impl SerialClock {
    /// A clock for `rate`.
    ///
    /// # Panics
    /// If the rate is zero or above 8 Tb/s, where a byte takes less than a picosecond.
    pub fn new(rate: Bandwidth) -> Self {
        let bps = rate.bps();
        assert!(bps > 0 && bps <= BYTE_PICOS, "a link of {rate} cannot be simulated: 1 b/s to 8 Tb/s");
        Self { bps, whole: BYTE_PICOS / bps, rest: BYTE_PICOS % bps, credit: 0 }
    }

    /// The rate.
    pub fn rate(&self) -> Bandwidth {
        Bandwidth::from_bps(self.bps)
    }

    /// The time of the next frame of a busy period.
    #[inline]
    pub fn advance(&mut self, bytes: u32) -> SimTime {
        let bytes = u64::from(bytes);
        let mut picos = bytes * self.whole;
        if self.rest > 0 {
            let parts = bytes * self.rest;
            if parts <= self.credit {
                self.credit -= parts;
            } else {
                let owed = parts - self.credit;
                let extra = owed.div_ceil(self.bps);
                self.credit = extra * self.bps - owed;
                picos += extra;
            }
        }
        SimTime::from_picos(picos)
    }

    /// How many bytes take `time`, a byte that has begun counting in full.
    #[inline]
    pub fn bytes_in(&self, time: SimTime) -> u64 {
        if self.rest == 0 {
            return time.picos().div_ceil(self.whole);
        }
        let bytes = (u128::from(time.picos()) * u128::from(self.bps)).div_ceil(u128::from(BYTE_PICOS));
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Begins a new busy period.
    #[inline]
    pub fn reset(&mut self) {
        self.credit = 0;
    }
}

/// A frame that has been handed to the transmitter.
#[derive(Debug, Clone, Copy)]
struct Flying {
    arrival: SimTime,
    packet: Label,
}

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

/// A one-way link: transmitter and pipe.
#[derive(Debug)]
pub struct Link {
    clock: SerialClock,
    delay: SimTime,
    /// When the transmitter has sent what it was given.
    free_at: SimTime,
    flight: VecDeque<Flying>,
}

impl Link {
    /// A link with this rate and one-way propagation delay.
    pub fn new(rate: Bandwidth, delay: SimTime) -> Self {
        Self { clock: SerialClock::new(rate), delay, free_at: SimTime::ZERO, flight: VecDeque::new() }
    }

    /// The rate.
    pub fn rate(&self) -> Bandwidth {
        self.clock.rate()
    }

    /// When the transmitter has sent what it was given.
    #[inline]
    pub fn free_at(&self) -> SimTime {
        self.free_at
    }

    /// Bytes that have been handed over and not been sent at `now`.
    #[inline]
    pub fn backlog(&self, now: SimTime) -> u64 {
        self.clock.bytes_in(self.free_at.saturating_sub(now))
    }

    /// Hands a frame to the transmitter, behind those before it.
    #[inline]
    pub fn transmit(&mut self, now: SimTime, packet: Label) -> Transmission {
        let start = if self.free_at < now {
            self.clock.reset();
            now
        } else {
            self.free_at
        };
        let end = start + self.clock.advance(packet.size);
        let arrival = end + self.delay;
        self.free_at = end;
        self.flight.push_back(Flying { arrival, packet });
        Transmission { start, end, arrival }
    }

    /// Takes the first frame in flight, which has arrived.
    #[inline]
    pub fn arrive(&mut self) -> Option<Label> {
        self.flight.pop_front().map(|first| first.packet)
    }

    /// When the first frame in flight arrives.
    #[inline]
    pub fn next_arrival(&self) -> Option<SimTime> {
        self.flight.front().map(|first| first.arrival)
    }

    /// How many frames have been handed over and have not arrived.
    pub fn in_flight(&self) -> usize {
        self.flight.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Class, HostId, PacketId};
    use proptest::prelude::*;

    fn packet(id: u32) -> Label {
        Label { id: PacketId(id), size: 1000, to: HostId(0), hash: 0, class: Class(0) }
    }

    #[test]
    fn a_frame_at_10_gbps_is_exact() {
        let mut clock = SerialClock::new(Bandwidth::from_gbps(10));
        assert_eq!(clock.advance(1514), SimTime::from_picos(1_211_200));
    }

    #[test]
    fn thirds_of_a_picosecond_do_not_add_up() {
        // At 300 Mb/s a byte takes 26,666 2/3 ps. One byte rounds up; three take exactly 80,000.
        let mut clock = SerialClock::new(Bandwidth::from_mbps(300));
        assert_eq!(clock.advance(1).picos(), 26_667);
        assert_eq!(clock.advance(1).picos(), 26_667);
        assert_eq!(clock.advance(1).picos(), 26_666);
    }

    #[test]
    fn the_backlog_is_what_has_not_been_sent() {
        // 1000 B at 8 Mb/s take 1 ms.
        let ms = SimTime::from_millis;
        let mut link = Link::new(Bandwidth::from_mbps(8), ms(5));
        for id in 0..3 {
            link.transmit(SimTime::ZERO, packet(id));
        }
        assert_eq!(link.backlog(SimTime::ZERO), 3000);
        assert_eq!(link.backlog(ms(1)), 2000);
        assert_eq!(link.backlog(SimTime::from_picos(1_500_000_001)), 1500);
        assert_eq!(link.backlog(SimTime::from_picos(1_499_999_999)), 1501);
        assert_eq!(link.next_arrival(), Some(ms(6)));
        assert_eq!(link.arrive(), Some(packet(0)));
        assert_eq!(link.backlog(ms(6)), 0);
        assert_eq!(link.transmit(ms(6), packet(3)).start, ms(6));
        assert_eq!(link.in_flight(), 3);
    }

    proptest! {
        #[test]
        fn a_busy_period_is_exact(bps in 1_000u64..400_000_000_000, sizes in proptest::collection::vec(1u32..9014, 1..100)) {
            let mut clock = SerialClock::new(Bandwidth::from_bps(bps));
            let mut bytes: u128 = 0;
            let mut picos: u128 = 0;
            for size in sizes {
                bytes += u128::from(size);
                picos += u128::from(clock.advance(size).picos());
                prop_assert_eq!(picos, (bytes * u128::from(BYTE_PICOS)).div_ceil(u128::from(bps)));
            }
        }
    }
}
