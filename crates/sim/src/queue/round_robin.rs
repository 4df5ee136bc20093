//! Round robin: a FIFO for each class, one frame from each class that has any, in turn.
//!
//! This is a host's network interface above its services' limiters: it keeps a service that is not limited
//! from standing in front of the others. Frames of senders with much to send are full, so taking turns by
//! frame is taking turns by byte to within the acknowledgements.
//!
//! Approach: the classes that have frames stand in a ring. Taking a frame moves its class to the end of the ring, or out of it
//! when the class is empty; both directions are O(1) in the number of classes.

use crate::ids::{PacketId, ServiceIndex};
use crate::packet::{Arena, List};
use std::collections::VecDeque;

/// The frames of each class and whose turn it is.
#[derive(Debug)]
pub(crate) struct RoundRobin {
    classes: Vec<List>,
    turns: VecDeque<ServiceIndex>,
}

impl RoundRobin {
    /// Empty queues for `classes` classes.
    pub(crate) fn new(classes: usize) -> Self {
        Self { classes: vec![List::default(); classes], turns: VecDeque::new() }
    }

    /// Puts a frame at the end of its class.
    #[inline]
    pub(crate) fn push(&mut self, packets: &mut Arena, class: ServiceIndex, id: PacketId) {
        let list = &mut self.classes[class.index()];
        if list.is_empty() {
            self.turns.push_back(class);
        }
        list.push(packets, id);
    }

    /// Takes the frame whose class's turn it is.
    #[inline]
    pub(crate) fn pop(&mut self, packets: &mut Arena) -> Option<PacketId> {
        let class = self.turns.pop_front()?;
        let list = &mut self.classes[class.index()];
        let id = list.pop(packets);
        if !list.is_empty() {
            self.turns.push_back(class);
        }
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::tests::packet;

    #[test]
    fn classes_take_turns() {
        let (mut packets, mut queue) = (Arena::default(), RoundRobin::new(2));
        for class in [0, 0, 0, 1, 1] {
            let id = packet(&mut packets, 1, class);
            queue.push(&mut packets, ServiceIndex(class.into()), id);
        }
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop(&mut packets)).map(|id| id.0).collect();
        assert_eq!(order, [0, 3, 1, 4, 2]);
    }
}
