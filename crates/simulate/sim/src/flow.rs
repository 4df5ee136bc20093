//! Flows: a connection between two hosts and its slot in the world.

use crate::ids::{HostId, ServiceIndex};
use crate::packet::Extensions;
use crate::timer::Timer;
use std::ops::Range;
use weir_transport::{Connection, Parameters, Receiver, Sender};
use weir_units::{Bytes, SimTime};

/// The specification of a flow.
#[derive(Debug, Clone, Copy)]
pub struct FlowSpec {
    /// The host that sends.
    pub from: HostId,
    /// The host that receives.
    pub to: HostId,
    /// The service that its packets, both ways, belong to.
    pub service: ServiceIndex,
    /// The priority class of its packets at queues that distinguish classes: 0, the most urgent, to
    /// 7.
    pub priority: u8,
    /// When it starts.
    pub start: SimTime,
    /// The time from which it sends nothing new; [`SimTime::NEVER`] to continue.
    pub stop: SimTime,
    /// How many bytes it carries; `None` to go on until it is stopped.
    pub size: Option<u64>,
    /// The deadline of the last byte, for transports that use deadlines.
    pub deadline: Option<SimTime>,
    /// The identity of the flow for ECMP (a hash of its addresses and ports).
    pub hash: u32,
}

/// A flow in a world. The sender's fields come first and the receiver's behind them, on cache lines
/// of their own: an acknowledgement touches the five lines of the sender, a segment the two of the
/// receiver and the sender's last.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Flow {
    pub(crate) sender: Sender,
    pub(crate) timer: Timer,
    /// Bytes of its frames that have not left the sending host.
    pub(crate) in_host: u64,
    pub(crate) stop: SimTime,
    pub(crate) address: Address,
    /// Its packets that exist, acknowledgements included.
    pub(crate) packets: u32,
    pub(crate) retransmissions: u32,
    pub(crate) timeouts: u32,
    pub(crate) life: Life,
    /// The number of packets that its handshake has sent; [`OPEN`] when it is complete, or where there is none.
    pub(crate) opening: u8,
    /// Its packets' sequence numbers are the bytes that were sent before.
    pub(crate) is_stream: bool,
    pub(crate) receiving: Receiving,
    start: SimTime,
    deadline: Option<SimTime>,
    /// The time after which the first packet of its handshake is repeated, and the longest such time.
    handshake: [SimTime; 2],
}

/// Doublings of a handshake's timeout: more than a day passes before the next, from a second on.
const MOST_DOUBLINGS: u8 = 17;
/// A connection that carries data.
pub(crate) const OPEN: u8 = u8::MAX;

/// The common fields of all packets of a flow; acknowledgements have the ends exchanged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Address {
    pub(crate) from: HostId,
    pub(crate) to: HostId,
    pub(crate) hash: u32,
    pub(crate) service: ServiceIndex,
    pub(crate) priority: u8,
}

impl Address {
    /// The hash of packets to the sender. The addresses are swapped, so the reverse path is hashed
    /// anew.
    #[inline]
    pub(crate) fn reverse_hash(&self) -> u32 {
        self.hash.rotate_left(16)
    }
}

/// The receiver's part of a flow.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Receiving {
    pub(crate) receiver: Receiver,
    /// The control field that arrived last, for the next acknowledgement: its index in the table of
    /// extensions, or [`Extensions::NONE`].
    pub(crate) control: u32,
    pub(crate) delayed_ack: Timer,
    /// The bytes that the flow carries; `u64::MAX` for one that has no end.
    pub(crate) size: u64,
    /// Payload bytes that arrived without being acknowledged (UDP).
    pub(crate) unacknowledged: u64,
    /// When the last byte arrived; [`SimTime::NEVER`] before.
    pub(crate) finished: SimTime,
    pub(crate) latest: Latest,
}

/// Of a flow's arrived segments those that were sent last.
#[derive(Debug, Default)]
pub(crate) struct Latest {
    /// The time at which they were sent.
    at: SimTime,
    /// The largest end of their data.
    end: u64,
    /// The end of all data that was sent earlier.
    earlier: u64,
}

impl Latest {
    /// Takes a segment that has arrived; returns whether another one that was sent later had arrived before. A repeated
    /// segment is sent when it is repeated, so losses and repairs overtake nothing.
    ///
    /// New data that is sent at one time ascends. A segment below data that was sent earlier is a repeated one, which
    /// may follow new data of the same time (RFC 6675, section 4, `NextSeg` 3), and so may one with the end of that
    /// data (`NextSeg` 4).
    #[inline]
    pub(crate) fn is_overtaken(&mut self, sent: SimTime, range: Range<u64>) -> bool {
        if sent > self.at {
            *self = Self { at: sent, end: range.end, earlier: self.earlier.max(self.end) };
            return false;
        }
        if sent < self.at {
            self.earlier = self.earlier.max(range.end);
            return true;
        }
        let overtaken = !range.is_empty() && range.start >= self.earlier && range.end < self.end;
        self.end = self.end.max(range.end);
        overtaken
    }
}

impl Receiving {
    /// Payload bytes that arrived: in order, but for datagrams.
    #[inline]
    pub(crate) fn delivered(&self) -> u64 {
        self.receiver.next().max(self.unacknowledged)
    }
}

/// The progress of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// Some bytes are still to be delivered.
    Running,
    /// The world has reported that everything was delivered, or that nothing more will be.
    Over,
    /// The flow is released: its slot is free once its sender is done and its packets are gone.
    Released,
    /// Its slot is free.
    Gone,
}

impl Flow {
    pub(crate) fn new(spec: FlowSpec, parameters: &Parameters, connection: &Connection) -> Self {
        let FlowSpec { from, to, service, priority, start, stop, size, deadline, hash } = spec;
        Self {
            sender: Sender::new(parameters, connection),
            timer: Timer::default(),
            in_host: 0,
            stop,
            address: Address { from, to, hash, service, priority },
            packets: 0,
            retransmissions: 0,
            timeouts: 0,
            life: Life::Running,
            is_stream: parameters.is_stream(),
            opening: if parameters.handshake().is_some() { 0 } else { OPEN },
            receiving: Receiving {
                receiver: Receiver::new(parameters),
                control: Extensions::NONE,
                delayed_ack: Timer::default(),
                size: size.unwrap_or(u64::MAX),
                unacknowledged: 0,
                finished: SimTime::NEVER,
                latest: Latest::default(),
            },
            start,
            deadline,
            handshake: parameters.handshake().unwrap_or_default(),
        }
    }

    /// Its specification.
    pub fn spec(&self) -> FlowSpec {
        let Address { from, to, hash, service, priority } = self.address;
        let (size, start, stop, deadline) = (self.receiving.size, self.start, self.stop, self.deadline);
        FlowSpec { from, to, service, priority, start, stop, size: (size != u64::MAX).then_some(size), deadline, hash }
    }
    /// The sending half.
    pub fn sender(&self) -> &Sender {
        &self.sender
    }
    /// Bytes that the receiving application got: in order, but for datagrams.
    pub fn delivered(&self) -> Bytes {
        Bytes::new(self.receiving.delivered())
    }
    /// When the last byte of a finite flow reached its receiver.
    pub fn finished(&self) -> Option<SimTime> {
        let finished = self.receiving.finished;
        (finished != SimTime::NEVER).then_some(finished)
    }
    /// How many segments were sent again.
    pub fn retransmissions(&self) -> u32 {
        self.retransmissions
    }
    /// How often its retransmission timer expired.
    pub fn timeouts(&self) -> u32 {
        self.timeouts
    }
    /// Bytes of its frames that have not left the sending host.
    pub fn in_host(&self) -> u64 {
        self.in_host
    }

    /// Whether no unacknowledged segment has left the sending host: then none can have been lost.
    pub(crate) fn all_in_host(&self, payload: u32, headers: u32) -> bool {
        let frame = u64::from(payload + headers);
        self.in_host > 0 && self.in_host.div_ceil(frame) * u64::from(payload) >= self.sender.flight()
    }

    /// Counts a packet of its handshake that is sent; returns the time until the next, doubled with each.
    pub(crate) fn open_again(&mut self) -> SimTime {
        let [first, longest] = self.handshake;
        let timeout = SimTime::from_picos(first.picos().saturating_mul(1 << self.opening.min(MOST_DOUBLINGS)));
        self.opening = (self.opening + 1).min(OPEN - 1);
        timeout.min(longest)
    }

    /// Whether its slot may be reused.
    pub(crate) fn is_gone(&self) -> bool {
        self.life == Life::Released && self.packets == 0 && self.sender.is_done()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn overtaken_segments_and_repeated_ones() {
        let mut latest = Latest::default();
        let mut arrivals = |segments: &[(u64, Range<u64>)]| -> Vec<bool> {
            segments.iter().map(|(at, range)| latest.is_overtaken(SimTime::from_micros(*at), range.clone())).collect()
        };
        // The second of three new segments of one time arrives last, and then one of an earlier time.
        let new = arrivals(&[(2, 10..20), (2, 30..40), (2, 20..30), (1, 0..10)]);
        assert_eq!(new, [false, false, true, true]);
        // New data, a repeated segment below what was sent before, and one with the new end.
        assert_eq!(arrivals(&[(3, 40..45), (3, 20..30), (3, 35..45)]), [false; 3]);
        // Repeated segments alone.
        assert_eq!(arrivals(&[(4, 20..30), (3, 35..45)]), [false, true]);
    }

    #[test]
    fn the_halves_of_a_flow_are_on_separate_cache_lines() {
        assert_eq!((offset_of!(Flow, receiving), size_of::<Flow>()), (5 * 64, 8 * 64));
        // The sender's fields that a segment needs are on its last line.
        assert!(offset_of!(Flow, timer) <= 4 * 64 && offset_of!(Flow, in_host) >= 4 * 64);
        assert!(offset_of!(Receiving, delayed_ack) == 64);
    }
}
