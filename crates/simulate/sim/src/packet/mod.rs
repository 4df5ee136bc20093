//! Packets and the arena that they live in.
//!
//! Problem: a simulation makes thousands of millions of packets, and a heap allocation for each
//! would cost more than everything else that happens to it. Approach: packets live in one vector
//! and are named by [`PacketId`]; a freed slot goes to a free list and is the next one used, so the
//! arena is as large as the most packets that ever existed at once, and stays in the cache. A
//! packet is exactly one cache line of 64 bytes, and lists of packets (queues) go through the
//! packets themselves: code that takes a packet from a list needs its line anyway, and no other
//! ring has to be fetched. A packet on a link is in no list: it holds the link and its far end, and
//! an event names the packet. The rare fields (selective acknowledgements, control fields of port
//! agents, datagrams) are in a table beside ([`Extension`]).
//!
//! Sizes: a packet's `size` is the frame that the links carry and that results count: header bytes
//! and payload, without preamble, frame check and gap. With the default headers (Ethernet 14, IPv4
//! 20, TCP 32) a full frame of a 1500 B MTU is 1514 B. Linux's HTB and TBF count the same, so a
//! limit means the same in the simulator and in the lab.

mod extension;
mod list;

pub(crate) use extension::{Extension, Extensions};
pub(crate) use list::List;

use crate::ids::{End, FlowId, HostId, PacketId, PortId, ServiceIndex};
use crate::pages;
use weir_network::graph::PRIORITIES;
use weir_units::{Bandwidth, SimTime};

/// Bytes of an Ethernet header: two addresses and the type (IEEE 802.3).
pub const ETHERNET_HEADER: u32 = 14;

/// The kind of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Bytes `[sequence, sequence + length)` of a flow.
    Segment,
    /// Everything before `sequence` has been received.
    Ack,
    /// The message of a port agent to an end of a flow; its control field is an [`Extension`].
    Message,
    /// A packet of a flow's handshake, to the receiver or back.
    Handshake,
    /// A control datagram; its bytes are an [`Extension`].
    Datagram,
    /// Feedback of a receiver to a sender ([`Packet::feedback`]).
    Feedback,
    /// A receiver's report about a pair of machines ([`Packet::report`]).
    Report,
    /// A message of an aggregate with credits, whose slot is in place of the flow; its control field is an
    /// [`Extension`].
    Credits,
}

/// A receiver's feedback to a host that sends to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Feedback {
    /// The receiver.
    pub(crate) from: HostId,
    /// The service.
    pub(crate) service: ServiceIndex,
    /// The rate of each sender of weight 1.
    pub(crate) rate: Bandwidth,
}

/// A receiver's report about a pair of machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Report {
    /// The receiver.
    pub(crate) from: HostId,
    /// The service.
    pub(crate) service: ServiceIndex,
    /// The percentage of marked bytes since the report before.
    pub(crate) marked_percent: u8,
    /// The receiver's part of the pair's guarantee.
    pub(crate) part: Bandwidth,
}

/// The packet may be marked instead of dropped (ECT).
pub(crate) const CAPABLE: u8 = 1;
/// A queue marked it (CE).
pub(crate) const MARKED: u8 = 2;
/// The acknowledgement echoes a mark (ECE).
pub(crate) const ECHO: u8 = 4;
/// A machine shaper made it [`CAPABLE`] for its own use: the transport did not, and receives no
/// mark.
pub(crate) const SHAPED: u8 = 8;

/// Its sender requests feedback: it is ECT(1) instead of ECT(0). A mark removes the request.
pub(crate) const REQUESTS_FEEDBACK: u8 = 16;

/// The least urgent priority class.
pub(crate) const OTHERS: u8 = PRIORITIES as u8 - 1;

/// The priority class of a packet's mark ([`Packet::priority`]).
#[inline]
pub(crate) fn class_of(priority: u8) -> usize {
    priority.min(OTHERS).into()
}

/// A packet on its way.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub struct Packet {
    /// When it reaches the far end of the link that it is on.
    pub(crate) arrival: SimTime,
    /// The time stamp of RFC 7323: when a segment was sent, or what an acknowledgement echoes.
    pub(crate) stamp: SimTime,
    /// The first byte of a segment, or the first that is missing.
    pub(crate) sequence: u64,
    /// The packet behind it in its list; for a packet on a link, the link's port
    /// ([`Packet::link`]).
    pub(crate) next: PacketId,
    /// The frame's size on a link; see the module's documentation.
    pub(crate) size: u32,
    /// The flow that it belongs to; meaningless for datagrams and feedback.
    pub(crate) flow: FlowId,
    /// The host that it goes to.
    pub(crate) to: HostId,
    /// That host's leaf (its switch, among those with hosts).
    pub(crate) leaf: u32,
    /// The common hash of a flow's packets, so that switches send them one way (ECMP).
    pub(crate) hash: u32,
    /// The node at the far end of its link.
    pub(crate) towards: End,
    /// Urgency for queues that order by it, lower first.
    pub(crate) rank: u32,
    /// Its index in the table of extensions, or [`Extensions::NONE`].
    pub(crate) extension: u32,
    /// The service at the hosts.
    pub(crate) service: ServiceIndex,
    /// The priority class at queues that distinguish classes, 0 the most urgent; above that, [`OTHERS`] and the DSCP
    /// value of a packet of the least urgent class, to which the queues of tenants are mapped.
    pub(crate) priority: u8,
    flags: u8,
}

/// The flags hold the kind in their three highest bits.
const KIND_SHIFT: u32 = 5;

impl Packet {
    /// A packet without a flow or a link.
    pub(crate) fn new(kind: Kind, size: u32, to: HostId, service: ServiceIndex) -> Self {
        Self {
            arrival: SimTime::ZERO,
            stamp: SimTime::ZERO,
            sequence: 0,
            next: PacketId::NONE,
            size,
            flow: FlowId(u32::MAX),
            to,
            leaf: 0,
            hash: 0,
            towards: End::NOWHERE,
            rank: 0,
            extension: Extensions::NONE,
            service,
            priority: 0,
            flags: (kind as u8) << KIND_SHIFT,
        }
    }

    /// Its kind.
    #[inline]
    pub fn kind(&self) -> Kind {
        match self.flags >> KIND_SHIFT {
            0 => Kind::Segment,
            1 => Kind::Ack,
            2 => Kind::Message,
            3 => Kind::Handshake,
            4 => Kind::Datagram,
            5 => Kind::Feedback,
            6 => Kind::Report,
            _ => Kind::Credits,
        }
    }
    /// Whether it belongs to a flow.
    #[inline]
    pub(crate) fn is_of_flow(&self) -> bool {
        self.flags >> KIND_SHIFT <= Kind::Handshake as u8
    }
    /// A packet that carries feedback to `to`. It needs no extension: its fields take the place of
    /// a segment's.
    pub(crate) fn of_feedback(feedback: Feedback, size: u32, to: HostId, service: ServiceIndex) -> Self {
        let mut packet = Self::new(Kind::Feedback, size, to, service);
        packet.hash = feedback.from.0.wrapping_mul(0x10001) ^ to.0;
        packet.flow = FlowId(feedback.from.0);
        packet.rank = feedback.service.0.into();
        packet.sequence = feedback.rate.bps();
        packet
    }
    /// Its feedback.
    pub(crate) fn feedback(&self) -> Feedback {
        debug_assert_eq!(self.kind(), Kind::Feedback);
        let (from, service) = (HostId(self.flow.0), ServiceIndex(self.rank as u16));
        Feedback { from, service, rate: Bandwidth::from_bps(self.sequence) }
    }
    /// A packet that carries a report to `to`, in the fields of a segment.
    pub(crate) fn of_report(report: Report, size: u32, to: HostId, service: ServiceIndex) -> Self {
        let mut packet = Self::new(Kind::Report, size, to, service);
        packet.hash = report.from.0.wrapping_mul(0x10001) ^ to.0;
        packet.flow = FlowId(report.from.0);
        packet.rank = u32::from(report.service.0) | u32::from(report.marked_percent) << 16;
        packet.sequence = report.part.bps();
        packet
    }
    /// Its report.
    pub(crate) fn report(&self) -> Report {
        debug_assert_eq!(self.kind(), Kind::Report);
        Report {
            from: HostId(self.flow.0),
            service: ServiceIndex(self.rank as u16),
            marked_percent: (self.rank >> 16) as u8,
            part: Bandwidth::from_bps(self.sequence),
        }
    }
    /// Puts it on a link. It must be in no list.
    #[inline]
    pub(crate) fn set_link(&mut self, port: PortId, towards: End, arrival: SimTime) {
        debug_assert_eq!(self.next, PacketId::NONE, "a packet in a list and on a link");
        self.next = PacketId(port.0);
        (self.towards, self.arrival) = (towards, arrival);
    }
    /// The port whose link it is on.
    #[inline]
    pub(crate) fn link(&self) -> PortId {
        PortId(self.next.0)
    }
    /// Takes it from its link, so that it may join a list.
    #[inline]
    pub(crate) fn leave_link(&mut self) {
        self.next = PacketId::NONE;
    }
    /// The frame's size on a link in bytes.
    pub fn size(&self) -> u32 {
        self.size
    }
    #[inline]
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
    #[inline]
    pub(crate) fn set(&mut self, flag: u8, on: bool) {
        self.flags |= if on { flag } else { 0 };
    }
    #[inline]
    pub(crate) fn clear(&mut self, flag: u8) {
        self.flags &= !flag;
    }
}

/// All packets that exist.
#[derive(Debug)]
pub struct Arena {
    packets: Vec<Packet>,
    free: PacketId,
    count: usize,
}

impl Default for Arena {
    fn default() -> Self {
        Self { packets: Vec::new(), free: PacketId::NONE, count: 0 }
    }
}

impl Arena {
    /// Puts a packet into the arena.
    #[inline]
    pub(crate) fn insert(&mut self, packet: Packet) -> PacketId {
        self.count += 1;
        let id = self.free;
        if let Some(slot) = self.packets.get_mut(id.index()) {
            self.free = slot.next;
            *slot = packet;
            return id;
        }
        let id = PacketId(self.packets.len() as u32);
        pages::push(&mut self.packets, packet);
        id
    }

    /// The packet with this id.
    #[inline]
    pub(crate) fn get(&self, id: PacketId) -> &Packet {
        &self.packets[id.index()]
    }
    #[inline]
    pub(crate) fn get_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.packets[id.index()]
    }

    /// Prefetches a packet's cache line.
    #[inline]
    pub(crate) fn fetch(&self, id: PacketId) {
        crate::fetch::fetch_first(&self.packets, id.index());
    }

    /// Takes a packet out; its id may be used again.
    #[inline]
    pub(crate) fn remove(&mut self, id: PacketId) -> Packet {
        self.count -= 1;
        let slot = &mut self.packets[id.index()];
        let packet = *slot;
        slot.next = self.free;
        self.free = id;
        packet
    }

    /// How many packets exist.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether no packet exists.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The most packets that existed at once.
    pub fn peak(&self) -> usize {
        self.packets.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet() -> Packet {
        Packet::new(Kind::Ack, 66, HostId(1), ServiceIndex(0))
    }

    #[test]
    fn freed_slots_are_reused() {
        let mut arena = Arena::default();
        let a = arena.insert(packet());
        let b = arena.insert(packet());
        arena.remove(a);
        assert_eq!(arena.insert(packet()), a);
        assert_ne!(a, b);
        assert_eq!((arena.len(), arena.peak()), (2, 2));
        assert_eq!(size_of::<Packet>(), 64);
    }

    #[test]
    fn kinds_and_flags_share_a_byte() {
        for kind in [
            Kind::Segment,
            Kind::Ack,
            Kind::Message,
            Kind::Handshake,
            Kind::Datagram,
            Kind::Feedback,
            Kind::Report,
            Kind::Credits,
        ] {
            let mut packet = Packet::new(kind, 1, HostId(0), ServiceIndex(0));
            packet.set(MARKED, true);
            packet.set(CAPABLE, false);
            assert_eq!(packet.kind(), kind);
            assert_eq!(
                packet.is_of_flow(),
                matches!(kind, Kind::Segment | Kind::Ack | Kind::Message | Kind::Handshake)
            );
            assert!(packet.has(MARKED) && !packet.has(CAPABLE) && !packet.has(ECHO));
        }
    }

    #[test]
    fn feedback_survives_its_packet() {
        let feedback = Feedback { from: HostId(7), service: ServiceIndex(3), rate: Bandwidth::from_mbps(4167) };
        let packet = Packet::of_feedback(feedback, 64, HostId(1), ServiceIndex(9));
        assert_eq!((packet.feedback(), packet.to, packet.service), (feedback, HostId(1), ServiceIndex(9)));
        let (from, service, part) = (HostId(7), ServiceIndex(65_000), Bandwidth::from_mbps(47));
        let report = Report { from, service, marked_percent: 100, part };
        assert_eq!(Packet::of_report(report, 64, HostId(1), ServiceIndex(9)).report(), report);
    }
}
