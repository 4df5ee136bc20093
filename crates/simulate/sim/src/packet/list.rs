//! Lists of packets, through the packets themselves.
//!
//! Example: packets 3 and 5 wait: the head is 3, its `next` is 5, whose `next` is none.

use super::Arena;
use crate::ids::PacketId;

/// A first-in first-out list of packets, through their `next`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    pub(crate) head: PacketId,
    tail: PacketId,
}

impl Default for List {
    fn default() -> Self {
        Self { head: PacketId::NONE, tail: PacketId::NONE }
    }
}

impl List {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head == PacketId::NONE
    }

    /// Puts a packet at the end. Its `next` must be [`PacketId::NONE`].
    #[inline]
    pub(crate) fn push(&mut self, packets: &mut Arena, id: PacketId) {
        debug_assert_eq!(packets.get(id).next, PacketId::NONE, "a packet in two lists");
        if self.head == PacketId::NONE {
            self.head = id;
        } else {
            packets.get_mut(self.tail).next = id;
        }
        self.tail = id;
    }

    /// Takes the first packet.
    #[inline]
    pub(crate) fn pop(&mut self, packets: &mut Arena) -> Option<PacketId> {
        let id = self.head;
        if id == PacketId::NONE {
            return None;
        }
        let packet = packets.get_mut(id);
        self.head = packet.next;
        packet.next = PacketId::NONE;
        Some(id)
    }

    /// The packets, first to last.
    pub(crate) fn iter<'a>(&self, packets: &'a Arena) -> impl Iterator<Item = PacketId> + use<'a> {
        let mut at = self.head;
        std::iter::from_fn(move || {
            let id = at;
            (id != PacketId::NONE).then(|| {
                at = packets.get(id).next;
                id
            })
        })
    }

    /// Takes a packet out of the middle; linear in the packets before it.
    pub(crate) fn take(&mut self, packets: &mut Arena, wanted: PacketId) {
        let next = packets.get(wanted).next;
        if self.head == wanted {
            self.head = next;
        } else {
            let before = self.iter(packets).find(|&id| packets.get(id).next == wanted);
            let Some(before) = before else { return };
            packets.get_mut(before).next = next;
            if self.tail == wanted {
                self.tail = before;
            }
        }
        packets.get_mut(wanted).next = PacketId::NONE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{HostId, ServiceIndex};
    use crate::packet::{Kind, Packet};

    fn packet() -> Packet {
        Packet::new(Kind::Ack, 66, HostId(1), ServiceIndex(0))
    }

    #[test]
    fn lists_are_first_in_first_out() {
        let mut arena = Arena::default();
        let ids: Vec<PacketId> = (0..5).map(|_| arena.insert(packet())).collect();
        let mut list = List::default();
        for &id in &ids {
            list.push(&mut arena, id);
        }
        assert_eq!(list.iter(&arena).collect::<Vec<_>>(), ids);
        for index in [2, 0, 4] {
            list.take(&mut arena, ids[index]);
        }
        list.push(&mut arena, ids[2]);
        let order: Vec<PacketId> = std::iter::from_fn(|| list.pop(&mut arena)).collect();
        assert_eq!(order, [ids[1], ids[3], ids[2]]);
        assert!(list.is_empty());
    }
}
