//! Deficit round robin: classes in turn, each with a number of bytes per round proportional to its
//! weight.
//!
//! Approach. The classes that have frames form a ring. A class at its turn gets weight · quantum
//! bytes on top of its deficit, and sends frames while the first one fits; then the next class has
//! its turn. A class that runs empty loses its deficit, so no class saves up. Work is constant per
//! frame if a quantum is at least a frame; a smaller one only means more turns, and the shares are
//! equally exact.
//!
//! Example: weights 3 and 1 with a quantum of 1000 B and frames of 1000 B leave as a a a b a a a b.
//! Over any time in which both have frames, their bytes differ from 3 : 1 by less than one turn and
//! one frame each.
//!
//! A full queue gives up the oldest frame of the class that holds most for its weight, as the paper
//! does (its `FreeBuffer`): otherwise classes that arrive first fill the buffer and keep the others
//! from their shares. If the class of the arriving frame would become the longest before there is
//! room, that frame is dropped and the others stay.
//!
//! Weights may change at any time; they count from each class's next turn.
//!
//! Source: Shreedhar and Varghese, "Efficient fair queuing using deficit round-robin" (ToN 1996),
//! §III.

use crate::ids::PacketId;
use crate::packet::{Arena, List};
use std::collections::VecDeque;

/// The frames of each class and whose turn it is.
#[derive(Debug)]
pub(crate) struct DeficitRoundRobin {
    classes: Vec<Class>,
    quantum: u32,
    /// The classes that have frames; the first one has its turn.
    turns: VecDeque<u8>,
    /// The first class has had its bytes for this turn.
    granted: bool,
    /// A class whose frames make no room for others.
    kept: Option<usize>,
}

#[derive(Debug)]
struct Class {
    frames: List,
    /// Bytes that it may still send.
    deficit: u64,
    weight: u32,
}

impl DeficitRoundRobin {
    /// A class for each weight, at most 256; `quantum` is the bytes of a weight of 1. All are at least 1.
    pub(crate) fn new(weights: &[u32], quantum: u32) -> Self {
        let class = |weight: &u32| Class { frames: List::default(), deficit: 0, weight: (*weight).max(1) };
        let turns = VecDeque::with_capacity(weights.len());
        Self {
            classes: weights.iter().map(class).collect(),
            quantum: quantum.max(1),
            turns,
            granted: false,
            kept: None,
        }
    }

    /// Gives up no frames of a class from now on.
    pub(crate) fn keep(&mut self, class: usize) {
        self.kept = Some(class);
    }

    /// The number of classes.
    pub(crate) fn len(&self) -> usize {
        self.classes.len()
    }

    pub(crate) fn set_weights(&mut self, weights: &[u32]) {
        debug_assert_eq!(weights.len(), self.classes.len(), "a weight for each class");
        self.classes.iter_mut().zip(weights).for_each(|(class, weight)| class.weight = (*weight).max(1));
    }

    /// Changes the bytes of a weight of 1.
    pub(crate) fn set_quantum(&mut self, quantum: u32) {
        self.quantum = quantum.max(1);
    }

    #[inline]
    pub(crate) fn push(&mut self, packets: &mut Arena, priority: usize, id: PacketId) {
        let list = &mut self.classes[priority].frames;
        if list.is_empty() {
            self.turns.push_back(priority as u8);
        }
        list.push(packets, id);
    }

    /// Takes the next frame, with its class.
    #[inline]
    pub(crate) fn pop(&mut self, packets: &mut Arena) -> Option<(usize, PacketId)> {
        loop {
            let class = usize::from(*self.turns.front()?);
            let Class { frames: list, deficit, weight } = &mut self.classes[class];
            if !self.granted {
                *deficit += u64::from(*weight) * u64::from(self.quantum);
                self.granted = true;
            }
            let size = u64::from(packets.get(list.head).size);
            if size > *deficit {
                self.turns.rotate_left(1);
                self.granted = false;
                continue;
            }
            *deficit -= size;
            let id = list.pop(packets);
            if list.is_empty() {
                *deficit = 0;
                self.turns.pop_front();
                self.granted = false;
            }
            return id.map(|id| (class, id));
        }
    }

    /// The class that holds most for its weight, the last of several; `None` if that is `priority`,
    /// or if no class has frames.
    fn longest(&self, held: &[u64], priority: usize) -> Option<usize> {
        // held / weight, compared without fractions.
        let more = |a: &usize, b: &usize| {
            let (left, right) = (u128::from(held[*a]), u128::from(held[*b]));
            let weight = |class: usize| u128::from(self.classes[class].weight);
            (left * weight(*b)).cmp(&(right * weight(*a)))
        };
        let others = (0..self.len()).filter(|class| self.kept != Some(*class));
        others.max_by(more).filter(|&longest| longest != priority && held[longest] > 0)
    }

    /// Whether repeated calls of [`DeficitRoundRobin::give_up`] would free `missing` bytes.
    /// `held` has the bytes of each class.
    pub(crate) fn can_give_up(&self, packets: &Arena, held: &[u64], priority: usize, missing: u64) -> bool {
        let mut heads: Vec<PacketId> = self.classes.iter().map(|class| class.frames.head).collect();
        let (mut held, mut gone) = (held.to_vec(), 0);
        while gone < missing {
            let Some(longest) = self.longest(&held, priority) else { return false };
            let packet = packets.get(heads[longest]);
            heads[longest] = packet.next;
            held[longest] -= u64::from(packet.size);
            gone += u64::from(packet.size);
        }
        true
    }

    /// Takes out the oldest frame of the class that holds most for its weight, with the class, unless that is
    /// `priority` itself.
    pub(crate) fn give_up(&mut self, packets: &mut Arena, held: &[u64], priority: usize) -> Option<(usize, PacketId)> {
        let longest = self.longest(held, priority)?;
        let class = &mut self.classes[longest];
        let id = class.frames.pop(packets);
        if class.frames.is_empty() {
            class.deficit = 0;
            let index = self.turns.iter().position(|&class| usize::from(class) == longest);
            self.granted &= index != Some(0);
            self.turns.retain(|&class| usize::from(class) != longest);
        }
        id.map(|id| (longest, id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::tests::packet;
    use proptest::prelude::*;
    use weir_network::graph::PRIORITIES;

    fn weights(first: u32, second: u32) -> [u32; PRIORITIES] {
        let mut weights = [1; PRIORITIES];
        (weights[0], weights[1]) = (first, second);
        weights
    }

    fn fill(queue: &mut DeficitRoundRobin, packets: &mut Arena, class: u8, count: usize, size: u32) {
        for _ in 0..count {
            let id = packet(packets, size, class);
            queue.push(packets, class.into(), id);
        }
    }

    fn classes(queue: &mut DeficitRoundRobin, packets: &mut Arena, count: usize) -> Vec<u8> {
        (0..count).filter_map(|_| queue.pop(packets).map(|(_, id)| packets.get(id).priority)).collect()
    }

    #[test]
    fn the_worked_example() {
        let (mut packets, mut queue) = (Arena::default(), DeficitRoundRobin::new(&weights(3, 1), 1000));
        fill(&mut queue, &mut packets, 0, 10, 1000);
        fill(&mut queue, &mut packets, 1, 10, 1000);
        assert_eq!(classes(&mut queue, &mut packets, 8), [0, 0, 0, 1, 0, 0, 0, 1]);
        queue.set_weights(&weights(1, 2));
        assert_eq!(classes(&mut queue, &mut packets, 6), [0, 1, 1, 0, 1, 1]);
    }

    #[test]
    fn an_empty_class_saves_nothing() {
        let (mut packets, mut queue) = (Arena::default(), DeficitRoundRobin::new(&weights(1, 1), 1500));
        fill(&mut queue, &mut packets, 0, 1, 100);
        assert_eq!(classes(&mut queue, &mut packets, 2), [0]);
        assert_eq!(queue.classes[0].deficit, 0);
        assert_eq!(queue.pop(&mut packets), None);
    }

    #[test]
    fn the_longest_for_its_weight_makes_room() {
        let (mut packets, mut queue) = (Arena::default(), DeficitRoundRobin::new(&weights(4, 1), 1000));
        fill(&mut queue, &mut packets, 0, 6, 1000);
        fill(&mut queue, &mut packets, 1, 2, 1000);
        let mut held = [0; PRIORITIES];
        (held[0], held[1]) = (6000, 2000);
        // 1500 per weight, and 2000: class 1 is the longer one.
        assert_eq!(queue.give_up(&mut packets, &held, 1), None);
        let (_, id) = queue.give_up(&mut packets, &held, 0).expect("a frame");
        assert_eq!(packets.get(id).priority, 1);
        held[1] = 1000;
        let (_, id) = queue.give_up(&mut packets, &held, 1).expect("a frame");
        assert_eq!(packets.get(id).priority, 0);
        assert_eq!(classes(&mut queue, &mut packets, 6), [0, 0, 0, 0, 1, 0]);
    }

    proptest! {
        /// While all have frames, bytes over weight differ by at most a turn and a frame (Shreedhar
        /// and Varghese, theorem 2).
        #[test]
        fn shares_are_by_weight(
            weight in (1u32..9, 1u32..9), quantum in 1u32..4000,
            sizes in (60u32..1515, 60u32..1515), frames in 1usize..300,
        ) {
            let mut packets = Arena::default();
            let mut queue = DeficitRoundRobin::new(&weights(weight.0, weight.1), quantum);
            fill(&mut queue, &mut packets, 0, 400, sizes.0);
            fill(&mut queue, &mut packets, 1, 400, sizes.1);
            let mut bytes = [0i64; 2];
            for class in classes(&mut queue, &mut packets, frames) {
                bytes[usize::from(class)] += i64::from(if class == 0 { sizes.0 } else { sizes.1 });
            }
            // |b0/w0 - b1/w1| <= quantum + size0/w0 + size1/w1, without fractions.
            let (w0, w1) = (i64::from(weight.0), i64::from(weight.1));
            let apart = (bytes[0] * w1 - bytes[1] * w0).abs();
            let most = i64::from(quantum) * w0 * w1 + i64::from(sizes.0) * w1 + i64::from(sizes.1) * w0;
            prop_assert!(apart <= most, "{bytes:?}: {apart} > {most}");
        }
    }
}
