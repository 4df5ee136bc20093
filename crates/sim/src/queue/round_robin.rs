//! Round robin: a FIFO for each class, one frame from each class that has any, in turn.
//!
//! This is a host's network interface above its services' limiters: it keeps a service that is not limited
//! from standing in front of the others. Frames of senders with much to send are full, so taking turns by
//! frame is taking turns by byte to within the acknowledgements.
//!
//! Approach: the classes that have frames stand in a ring. Taking a frame moves its class to the end of the ring, or out of it
//! when the class is empty; both directions are O(1) in the number of classes.

use crate::ids::Class;
use crate::packet::Label;
use std::collections::VecDeque;

/// The frames of each class and whose turn it is.
#[derive(Debug)]
pub struct RoundRobin {
    classes: Vec<VecDeque<Label>>,
    turns: VecDeque<Class>,
}

impl RoundRobin {
    /// Empty queues for `classes` classes.
    pub fn new(classes: usize) -> Self {
        Self { classes: vec![VecDeque::new(); classes], turns: VecDeque::new() }
    }

    /// Whether no frame waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Puts a frame at the end of its class.
    #[inline]
    pub fn push(&mut self, packet: Label) {
        let queue = &mut self.classes[packet.class.index()];
        if queue.is_empty() {
            self.turns.push_back(packet.class);
        }
        queue.push_back(packet);
    }

    /// Takes the frame whose class's turn it is.
    #[inline]
    pub fn pop(&mut self) -> Option<Label> {
        let class = self.turns.pop_front()?;
        let queue = &mut self.classes[class.index()];
        let packet = queue.pop_front();
        if !queue.is_empty() {
            self.turns.push_back(class);
        }
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{HostId, PacketId};

    #[test]
    fn classes_take_turns() {
        let mut queue = RoundRobin::new(2);
        for (id, class) in [(0, 0), (1, 0), (2, 0), (10, 1), (11, 1)] {
            queue.push(Label { id: PacketId(id), size: 1, to: HostId(0), hash: 0, class: Class(class) });
        }
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop()).map(|packet| packet.id.0).collect();
        assert_eq!(order, [0, 10, 1, 11, 2]);
        assert!(queue.is_empty());
    }
}
