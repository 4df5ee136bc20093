//! Queues that choose: which frame a port sends next, and which it drops.
//!
//! There are two kinds of ports, because they cost differently:
//! - **FIFO** ports decide about a frame when it comes, from the bytes that wait. Its departure is known
//!   at once, so it goes straight to the transmitter ([`crate::port`]) and costs one event. Drop-tail and ECN marking
//!   above a threshold are this kind.
//! - **Scheduled** ports choose when the transmitter is free, so they keep the frames in a [`Queue`] and
//!   cost an event for each frame that waits.
//!
//! A queue has a discipline, which orders frames, and room: its own buffer, or a part of one that the ports of a
//! switch share ([`SharedBuffer`]). Disciplines are an enum, not trait objects: the set is known, and the
//! decision inlines.
//!
//! What is dropped when there is no room is the discipline's choice, too: a FIFO drops what comes; strict priority what is
//! less urgent; weighted classes what belongs to the longest of them; pFabric what is ranked last. Otherwise a class could
//! keep another one out of the buffer and so out of its share.
//!
//! Example: a strict-priority queue of 3000 B with two frames of 1500 B of class 1 gives one of them up for a frame of
//! class 0, which leaves first.

mod deficit_round_robin;
mod pfabric;
mod round_robin;
mod shared;
mod strict_priority;

pub(crate) use deficit_round_robin::DeficitRoundRobin;
pub(crate) use pfabric::PFabric;
pub(crate) use round_robin::RoundRobin;
pub(crate) use shared::SharedBuffer;
pub(crate) use strict_priority::StrictPriority;

use crate::ids::PacketId;
use crate::packet::{Arena, List};
use weir_scenario::graph::{Discipline, PRIORITIES};

/// What leaves next.
#[derive(Debug)]
pub(crate) enum Order {
    /// The first.
    Fifo(List),
    /// The first of each service in turn: a host's interface.
    RoundRobin(Box<RoundRobin>),
    /// The first of the most urgent class.
    StrictPriority(Box<StrictPriority>),
    /// Classes in turn, by weight.
    DeficitRoundRobin(Box<DeficitRoundRobin>),
    /// The earliest of the most urgent flow.
    PFabric(PFabric),
}

/// The frames that wait at a scheduled port.
#[derive(Debug)]
pub(crate) struct Queue {
    order: Order,
    /// Bytes and frames that wait.
    bytes: u64,
    frames: u32,
    /// Bytes that wait, by class, where classes are told apart.
    held: Option<Box<[u64; PRIORITIES]>>,
    /// The switch's shared buffer, a place in the world's table.
    pub(crate) shared: Option<u32>,
}

impl Queue {
    /// An empty queue in the given order.
    pub(crate) fn new(order: Order) -> Self {
        let classes = matches!(order, Order::StrictPriority(_) | Order::DeficitRoundRobin(_));
        Self { order, bytes: 0, frames: 0, held: classes.then(Box::default), shared: None }
    }

    /// An empty queue of a discipline.
    pub(crate) fn of(discipline: Discipline) -> Self {
        Self::new(match discipline {
            Discipline::Fifo => Order::Fifo(List::default()),
            Discipline::StrictPriority => Order::StrictPriority(Box::default()),
            Discipline::DeficitRoundRobin { weights, quantum } => {
                Order::DeficitRoundRobin(Box::new(DeficitRoundRobin::new(weights, quantum)))
            }
            Discipline::PFabric => Order::PFabric(PFabric::default()),
        })
    }

    /// Bytes that wait.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
    /// Bytes that wait in the queue that a frame of this class joins: its class's, or all.
    #[inline]
    pub(crate) fn held(&self, priority: u8) -> u64 {
        self.held.as_ref().map_or(self.bytes, |held| held[usize::from(priority)])
    }
    /// Whether nothing waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// Puts a frame into the queue.
    #[inline]
    pub(crate) fn push(&mut self, packets: &mut Arena, id: PacketId) {
        let packet = packets.get(id);
        let (size, priority, class) = (u64::from(packet.size), usize::from(packet.priority), packet.class);
        self.bytes += size;
        self.frames += 1;
        if let Some(held) = &mut self.held {
            held[priority] += size;
        }
        match &mut self.order {
            Order::Fifo(list) => list.push(packets, id),
            Order::RoundRobin(order) => order.push(packets, class, id),
            Order::StrictPriority(order) => order.push(packets, priority, id),
            Order::DeficitRoundRobin(order) => order.push(packets, priority, id),
            Order::PFabric(order) => order.push(packets, id),
        }
    }

    /// Takes the frame that leaves next.
    #[inline]
    pub(crate) fn pop(&mut self, packets: &mut Arena) -> Option<PacketId> {
        let id = match &mut self.order {
            Order::Fifo(list) => list.pop(packets),
            Order::RoundRobin(order) => order.pop(packets),
            Order::StrictPriority(order) => order.pop(packets),
            Order::DeficitRoundRobin(order) => order.pop(packets),
            Order::PFabric(order) => order.pop(packets),
        }?;
        self.taken_out(packets, id);
        Some(id)
    }

    /// Takes a frame out to make room for one of this class and rank; `None` if that one is the one to drop.
    pub(crate) fn give_up(&mut self, packets: &mut Arena, priority: u8, rank: u32) -> Option<PacketId> {
        let priority = usize::from(priority);
        let id = match (&mut self.order, &self.held) {
            (Order::StrictPriority(order), _) => order.give_up(packets, priority),
            (Order::DeficitRoundRobin(order), Some(held)) => order.give_up(packets, held, priority),
            (Order::PFabric(order), _) => order.take_worst(packets, rank),
            _ => None,
        }?;
        self.taken_out(packets, id);
        Some(id)
    }

    /// The frame that leaves next, where that is known without choosing.
    #[inline]
    pub(crate) fn first(&self) -> PacketId {
        if let Order::Fifo(list) = &self.order { list.head } else { PacketId::NONE }
    }

    /// Changes the weights of a weighted discipline. Says whether it has any.
    pub(crate) fn set_weights(&mut self, weights: [u32; PRIORITIES]) -> bool {
        match &mut self.order {
            Order::DeficitRoundRobin(order) => {
                order.set_weights(weights);
                true
            }
            _ => false,
        }
    }

    #[inline]
    fn taken_out(&mut self, packets: &Arena, id: PacketId) {
        let packet = packets.get(id);
        self.bytes -= u64::from(packet.size);
        self.frames -= 1;
        if let Some(held) = &mut self.held {
            held[usize::from(packet.priority)] -= u64::from(packet.size);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::ids::{Class, HostId};
    use crate::packet::{Kind, Packet};

    /// A packet of a class in the arena.
    pub(crate) fn packet(packets: &mut Arena, size: u32, priority: u8) -> PacketId {
        let mut packet = Packet::new(Kind::Segment, size, HostId(0), Class(u16::from(priority)));
        packet.priority = priority;
        packets.insert(packet)
    }

    #[test]
    fn keeps_the_books_whatever_the_order() {
        let weights = [1; PRIORITIES];
        let orders = [
            Discipline::Fifo,
            Discipline::StrictPriority,
            Discipline::DeficitRoundRobin { weights, quantum: 1500 },
            Discipline::PFabric,
        ];
        for discipline in orders {
            let (mut packets, mut queue) = (Arena::default(), Queue::of(discipline));
            for (size, priority) in [(100, 3), (200, 0), (300, 3)] {
                let id = packet(&mut packets, size, priority);
                queue.push(&mut packets, id);
            }
            let held = match discipline {
                Discipline::Fifo | Discipline::PFabric => (600, 600),
                _ => (400, 200),
            };
            assert_eq!((queue.bytes(), queue.held(3), queue.held(0)), (600, held.0, held.1), "{discipline:?}");
            let first = queue.pop(&mut packets).expect("a frame");
            let size = u64::from(packets.get(first).size);
            assert_eq!(queue.bytes(), 600 - size);
            while queue.pop(&mut packets).is_some() {}
            assert!(queue.is_empty());
            assert_eq!((queue.bytes(), queue.held(3)), (0, 0));
        }
    }
}
