//! The interface between a transport and the backend that carries its packets.

use weir_units::{Bandwidth, SimTime};

/// The parameters of a flow for its transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// Bytes that the application has to send; `u64::MAX` to continue until it is closed.
    pub bytes: u64,
    /// The most payload bytes of a packet.
    pub payload: u32,
    /// Header bytes of every packet, which are also the whole size of an acknowledgement.
    pub headers: u32,
    /// When the flow starts.
    pub start: SimTime,
    /// The deadline of the last byte, for transports that use deadlines.
    pub deadline: Option<SimTime>,
    /// The rate of the sending host's link.
    pub line_rate: Bandwidth,
    /// The round trip that the handshake measured, for transports that have one; the connection is
    /// established.
    pub round_trip: Option<SimTime>,
    /// Whether its packets are sprayed over several paths.
    pub sprayed: bool,
}

/// A data packet to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Offset of the first byte.
    pub sequence: u64,
    /// Payload bytes; 0 for a packet that only carries headers.
    pub length: u32,
    /// Whether any of it was sent before.
    pub again: bool,
    /// Whether queues may mark it (ECN-capable).
    pub capable: bool,
    /// Urgency for queues that order by it, lower first (pFabric: bytes that remain).
    pub rank: u32,
    /// Whether the packet carries the control field of [`crate::Sender::control`].
    pub control: bool,
}

/// A data packet as it arrives at the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Offset of the first byte.
    pub sequence: u64,
    /// Payload bytes.
    pub length: u32,
    /// When it was sent.
    pub stamp: SimTime,
    /// Whether a queue marked it (CE).
    pub marked: bool,
}

/// The content of an acknowledgement, without its selective part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckContent {
    /// Every byte before this one has been received.
    pub next: u64,
    /// The time stamp that it echoes (RFC 7323).
    pub stamp: SimTime,
    /// Whether it echoes a mark (ECE).
    pub echo: bool,
}

/// A range of bytes `[from, to)` that was received out of order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlock {
    /// The first byte.
    pub from: u64,
    /// The byte after the last.
    pub to: u64,
}

/// Up to three ranges, the one that changed last first (RFC 2018 §4; three fit beside time stamps).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlocks {
    /// The ranges; only the first `count` mean anything.
    pub blocks: [SackBlock; 3],
    /// The number of valid ranges.
    pub count: u8,
}

/// An acknowledgement as it arrives at the sender.
#[derive(Debug, Clone, Copy)]
pub struct Ack<'a> {
    /// Its content.
    pub content: AckContent,
    /// The ranges received out of order; empty almost always.
    pub sack: &'a [SackBlock],
}

/// When to acknowledge a data packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledge {
    /// Now.
    Now,
    /// At this time, unless something else is acknowledged before.
    Later(SimTime),
    /// Not for this packet.
    Never,
}

/// A receiver's reaction to a data packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reaction {
    /// An acknowledgement of the data before this packet, to send first (DCTCP: the mark changed).
    pub before: Option<AckContent>,
    /// The acknowledgement of this packet.
    pub acknowledge: Acknowledge,
}

/// The meaning of an expired timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timeout {
    /// A segment is considered lost.
    Loss,
    /// No segment is lost: pacing, or a spurious call.
    Nothing,
}
