//! Strict priority: the first frame of the most urgent class that has one; class 0 is the most
//! urgent.
//!
//! Approach: a FIFO for each of 8 classes and a bit for each that has frames; the lowest bit set is
//! the next class.
//!
//! Example: frames of classes 2, 0, 1, 0 leave as 0, 0, 1, 2. A frame that is being sent is not
//! interrupted, so the most urgent class waits for at most one frame of the others at each hop
//! (QJump's term for non-preemptible traffic).
//!
//! Source: IEEE 802.1Q §8.6.8.1 (strict priority algorithm), with its numbering turned round.

use crate::ids::PacketId;
use crate::packet::{Arena, List};
use weir_network::graph::PRIORITIES;

/// The frames of each class.
#[derive(Debug, Default)]
pub(crate) struct StrictPriority {
    classes: [List; PRIORITIES],
    /// Bit c is set if class c has frames.
    waiting: u32,
}

impl StrictPriority {
    #[inline]
    pub(crate) fn push(&mut self, packets: &mut Arena, priority: usize, id: PacketId) {
        self.classes[priority].push(packets, id);
        self.waiting |= 1 << priority;
    }

    #[inline]
    pub(crate) fn pop(&mut self, packets: &mut Arena) -> Option<PacketId> {
        let priority = self.waiting.trailing_zeros() as usize;
        let list = self.classes.get_mut(priority)?;
        let id = list.pop(packets);
        if list.is_empty() {
            self.waiting &= !(1 << priority);
        }
        id
    }

    /// Whether the frames that are less urgent than `priority` have `missing` bytes together.
    pub(crate) fn can_give_up(held: &[u64], priority: usize, missing: u64) -> bool {
        held[priority + 1..].iter().sum::<u64>() >= missing
    }

    /// Takes out the oldest frame of the least urgent class, if that is less urgent than
    /// `priority`. The oldest, since its sender then detects the loss earliest (Lakshman, Neidhardt
    /// and Ott, "The drop from front strategy in TCP", INFOCOM 1996).
    pub(crate) fn give_up(&mut self, packets: &mut Arena, priority: usize) -> Option<PacketId> {
        let worst = self.waiting.checked_ilog2()? as usize;
        if worst <= priority {
            return None;
        }
        let id = self.classes[worst].pop(packets);
        if self.classes[worst].is_empty() {
            self.waiting &= !(1 << worst);
        }
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::tests::packet;

    #[test]
    fn the_worked_example() {
        let (mut packets, mut queue) = (Arena::default(), StrictPriority::default());
        for class in [2, 0, 1, 0] {
            let id = packet(&mut packets, 1, class);
            queue.push(&mut packets, class.into(), id);
        }
        let order: Vec<u8> =
            std::iter::from_fn(|| queue.pop(&mut packets).map(|id| packets.get(id).priority)).collect();
        assert_eq!(order, [0, 0, 1, 2]);
        assert_eq!(queue.pop(&mut packets), None);
    }

    #[test]
    fn the_least_urgent_makes_room() {
        let (mut packets, mut queue) = (Arena::default(), StrictPriority::default());
        let ids = [5, 5, 2].map(|class| {
            let id = packet(&mut packets, 1, class);
            queue.push(&mut packets, class.into(), id);
            id
        });
        assert_eq!(queue.give_up(&mut packets, 5), None);
        assert_eq!(queue.give_up(&mut packets, 0), Some(ids[0]));
        assert_eq!(queue.give_up(&mut packets, 4), Some(ids[1]));
        assert_eq!(queue.give_up(&mut packets, 2), None);
        assert_eq!(queue.pop(&mut packets), Some(ids[2]));
    }
}
