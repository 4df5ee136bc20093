//! Packets and the arena that they live in.
//!
//! Problem: a simulation makes thousands of millions of packets, and a heap allocation for each would cost
//! more than everything else that happens to it. Approach: packets live in one vector and are named by
//! [`PacketId`]; a freed place goes to a free list and is the next one used, so the arena is as large as
//! the most packets that ever existed at once, and stays in the cache. A packet is at most 64 bytes: one cache line.
//!
//! Sizes: a packet's `size` is the frame that the links carry and that results count: Ethernet header
//! (14 B) and IP packet, without preamble, frame check and gap. A full frame of a 1500 B MTU is 1514 B.
//! Linux's HTB and TBF count the same, so a limit means the same in the simulator and in the lab.

use crate::ids::{Class, FlowId, HostId, PacketId};
use weir_units::SimTime;

/// Bytes of an Ethernet header: two addresses and the type (IEEE 802.3).
pub const ETHERNET_HEADER: u32 = 14;

/// What a packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// Bytes `[sequence, sequence + length)` of a flow.
    Segment {
        /// Offset of the first byte.
        sequence: u64,
        /// Number of bytes.
        length: u32,
    },
    /// Everything before `next` has been received.
    Ack {
        /// The first byte that is still missing.
        next: u64,
    },
    /// A control datagram, kept in the world's table of datagrams.
    Datagram {
        /// The place in that table.
        index: u32,
    },
}

/// A packet on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// The frame's size on a link; see the module's documentation.
    pub size: u32,
    /// The flow that it belongs to; meaningless for a datagram.
    pub flow: FlowId,
    /// The host that it goes to.
    pub to: HostId,
    /// What the packets of a flow share, so that switches send them one way (ECMP).
    pub hash: u32,
    /// The traffic class at the hosts.
    pub class: Class,
    /// The time stamp of RFC 7323: when a segment was sent, or what an acknowledgement echoes.
    pub stamp: SimTime,
    /// What it carries.
    pub payload: Payload,
}

/// What a switch needs to know of a packet. It travels with the packet's id, so that forwarding does not
/// touch the arena: a network holds many more packets than a cache does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// The packet.
    pub id: PacketId,
    /// The frame's size.
    pub size: u32,
    /// The host that it goes to.
    pub to: HostId,
    /// Its ECMP hash.
    pub hash: u32,
    /// Its traffic class.
    pub class: Class,
}

impl Packet {
    /// The label of this packet, whose id is `id`.
    #[inline]
    pub fn label(&self, id: PacketId) -> Label {
        Label { id, size: self.size, to: self.to, hash: self.hash, class: self.class }
    }
}

/// All packets that exist.
#[derive(Debug, Default)]
pub struct Arena {
    packets: Vec<Packet>,
    free: Vec<PacketId>,
}

impl Arena {
    /// Puts a packet into the arena.
    #[inline]
    pub fn insert(&mut self, packet: Packet) -> PacketId {
        if let Some(id) = self.free.pop() {
            self.packets[id.index()] = packet;
            return id;
        }
        let id = PacketId(self.packets.len() as u32);
        self.packets.push(packet);
        id
    }

    /// The packet with this id.
    #[inline]
    pub fn get(&self, id: PacketId) -> &Packet {
        &self.packets[id.index()]
    }

    /// Takes a packet out; its id may be used again.
    #[inline]
    pub fn remove(&mut self, id: PacketId) -> Packet {
        self.free.push(id);
        self.packets[id.index()]
    }

    /// How many packets exist.
    pub fn len(&self) -> usize {
        self.packets.len() - self.free.len()
    }

    /// Whether no packet exists.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most packets that existed at once.
    pub fn peak(&self) -> usize {
        self.packets.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again() {
        let packet = Packet {
            size: 1514,
            flow: FlowId(0),
            to: HostId(1),
            hash: 0,
            class: Class(0),
            stamp: SimTime::ZERO,
            payload: Payload::Ack { next: 0 },
        };
        let mut arena = Arena::default();
        let a = arena.insert(packet);
        let b = arena.insert(packet);
        arena.remove(a);
        assert_eq!(arena.insert(packet), a);
        assert_ne!(a, b);
        assert_eq!((arena.len(), arena.peak()), (2, 2));
        assert!(size_of::<Packet>() <= 64, "{} bytes", size_of::<Packet>());
    }
}
