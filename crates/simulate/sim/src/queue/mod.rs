//! Queues that choose: the next frame of a port, and the frames that it drops.
//!
//! There are two kinds of ports, because they cost differently:
//! - **FIFO** ports decide about a frame at its arrival, from the bytes that wait. Its departure is
//!   known at once, so it goes straight to the transmitter ([`crate::port`]) and costs one event.
//!   Drop-tail and ECN marking above a threshold are this kind.
//! - **Scheduled** ports choose when the transmitter is free, so they keep the frames in a
//!   [`Queue`] and cost an event for each frame that waits.
//!
//! A queue has a discipline, which orders frames, and room: its own buffer, or a part of one that
//! the ports of a switch share ([`SharedBuffer`]). Disciplines are an enum, not trait objects: the
//! set is known, and the decision inlines.
//!
//! The discipline also chooses the frames to drop when there is no room: a FIFO drops the arriving
//! frame; strict priority drops less urgent ones; weighted classes drop frames of the longest
//! class; pFabric drops the frames ranked last. Otherwise a class could keep another one out of the
//! buffer and so out of its share. The decision precedes any drop: either the arriving frame fits
//! when some frames are given up, and exactly as many are dropped, or it is dropped alone.
//!
//! Marking: a frame is marked if it finds more than the threshold in the queue that it joins. That
//! is the waiting frames and the rest of the frame on the wire; where classes are distinguished,
//! those of its own class. So a scheduled port with one class in use marks the same packets as a
//! FIFO port.
//!
//! Example: a strict-priority queue of 3000 B with two frames of 1500 B of class 1 gives one of
//! them up for a frame of class 0, which leaves first.

mod deficit_round_robin;
mod marked_classes;
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
use crate::packet::{Arena, List, class_of};
pub(crate) use marked_classes::CreditClasses;
use marked_classes::MarkedClasses;
use std::collections::BTreeMap;
use weir_network::graph::{Discipline, PRIORITIES};

/// The bytes of the least weight in a round: a full Ethernet frame, so that each queue sends in every round.
pub(crate) const FRAME: u32 = 1_514;

/// The rule for the next frame.
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
    /// Bytes that wait, by class, where classes are distinguished.
    held: Option<Box<[u64]>>,
    /// The class of the frame that was sent last.
    on_wire: u8,
    /// The classes of packets by their marks; `None` where a packet's class is that of the port.
    marks: Option<Box<MarkedClasses>>,
    /// The switch's shared buffer, an index into the world's table.
    pub(crate) shared: Option<u32>,
    /// Frames of so many classes precede all others, the lowest class first: latency levels at a host's interface. At a
    /// port of marks, those of its strict classes.
    first: Option<(u8, Box<StrictPriority>)>,
}

impl Queue {
    /// An empty queue in the given order.
    pub(crate) fn new(order: Order) -> Self {
        let classes = matches!(order, Order::StrictPriority(_) | Order::DeficitRoundRobin(_));
        let held = classes.then(|| vec![0; PRIORITIES].into());
        Self { order, bytes: 0, frames: 0, held, on_wire: 0, marks: None, shared: None, first: None }
    }

    /// An empty port with `queues` weighted queues, to which packets are mapped by their marks, behind strict queues of
    /// the first `levels` classes. All packets are in queue 0 until [`Queue::configure`].
    pub(crate) fn of_marks(queues: u8, levels: u8) -> Self {
        let weights = vec![1; queues.max(1).into()];
        let mut queue = Self::new(Order::DeficitRoundRobin(Box::new(DeficitRoundRobin::new(&weights, 1))));
        queue.held = Some(vec![0; weights.len() + usize::from(levels)].into());
        queue.marks = Some(Box::new(MarkedClasses::new(queues.max(1), levels)));
        queue.serve_first(levels);
        queue
    }

    /// Gives credits their queues at an empty port of marks; a weighted one of data is the last of the weighted queues.
    ///
    /// # Panics
    /// If the port has other queues.
    pub(crate) fn add_credits(&mut self, own: CreditClasses) {
        debug_assert!(self.is_empty(), "ports are configured before the run");
        let (Order::DeficitRoundRobin(order), Some(marks)) = (&mut self.order, &mut self.marks) else {
            unreachable!("the port has no queues of marks")
        };
        if let Some((data, others)) = own.weights {
            let mut weights = vec![u32::from(others); order.len()];
            weights[order.len() - 1] = data.into();
            order.set_weights(&weights);
            order.set_quantum(FRAME.div_ceil(data.min(others).max(1).into()));
            order.keep(order.len() - 1);
        } else if order.len() == 1 {
            // No tenants, whose controller would set it.
            order.set_quantum(FRAME);
        }
        self.held = Some(vec![0; marks.add_credits(own)].into());
    }

    /// Whether the port has queues of marks.
    pub(crate) fn has_marks(&self) -> bool {
        self.marks.is_some()
    }

    /// The bytes that data with credits has for itself; 0 where it has no such room.
    pub(crate) fn credit_buffer(&self) -> u64 {
        self.marks.as_ref().and_then(|marks| marks.credits?.buffer).unwrap_or(0)
    }

    /// Whether a packet of this mark is in the queue of data with credits.
    #[inline]
    pub(crate) fn is_of_credits(&self, mark: u8) -> bool {
        let credits = self.marks.as_ref().and_then(|marks| marks.credits);
        credits.is_some_and(|room| room.class == self.class(mark))
    }

    /// The bytes that a frame of this mark lacks in the port's own buffer of `buffer` bytes, or in the room of data
    /// with credits, when `unsent` bytes of the frame on the wire have not left.
    #[inline]
    pub(crate) fn missing(&self, mark: u8, buffer: u64, unsent: u64, size: u32) -> u64 {
        let all = self.bytes + unsent;
        let credits = self.marks.as_ref().and_then(|marks| marks.credits);
        let (held, buffer) = match credits.and_then(|room| Some((room.class, room.buffer?))) {
            Some((class, own)) => {
                let of_credits = self.held_by(class, unsent);
                if self.class(mark) == class { (of_credits, own) } else { (all - of_credits, buffer) }
            }
            None => (all, buffer),
        };
        (held + u64::from(size)).saturating_sub(buffer)
    }

    /// Bytes of a class, that of the frame on the wire included.
    #[inline]
    fn held_by(&self, class: usize, unsent: u64) -> u64 {
        let held = self.held.as_ref().map_or(0, |held| held[class]);
        held + if usize::from(self.on_wire) == class { unsent } else { 0 }
    }

    /// Sets the weights of the queues of a port of marks, the bytes of a weight of 1, and the queues of DSCP values;
    /// all other values are in queue 0. Frames that wait stay in their queues.
    ///
    /// # Panics
    /// If the port has other queues.
    pub(crate) fn configure(&mut self, weights: &[u32], quantum: u32, map: &BTreeMap<u8, u8>) {
        let (Order::DeficitRoundRobin(order), Some(marks)) = (&mut self.order, &mut self.marks) else {
            unreachable!("the port has no queues of marks")
        };
        order.set_weights(weights);
        order.set_quantum(quantum);
        marks.assign(map);
    }

    /// The bytes that queue `class` of a port of marks has sent, the frame on the wire included, and those that wait in
    /// it.
    pub(crate) fn reading(&self, class: usize) -> (u64, u64) {
        let (Some(marks), Some(held)) = (&self.marks, &self.held) else { return (0, 0) };
        (marks.sent[class], held[class])
    }

    /// The class of a packet at this port.
    #[inline]
    fn class(&self, priority: u8) -> usize {
        match &self.marks {
            Some(marks) => marks.class(priority),
            None => class_of(priority),
        }
    }

    /// An empty queue of a discipline.
    pub(crate) fn of(discipline: Discipline) -> Self {
        Self::new(match discipline {
            Discipline::Fifo => Order::Fifo(List::default()),
            Discipline::StrictPriority => Order::StrictPriority(Box::default()),
            Discipline::DeficitRoundRobin { weights, quantum } => {
                Order::DeficitRoundRobin(Box::new(DeficitRoundRobin::new(&weights, quantum)))
            }
            Discipline::PFabric => Order::PFabric(PFabric::default()),
        })
    }

    /// Bytes that wait.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
    /// Bytes in the queue that a frame of this class joins, its class's or all, when `unsent` bytes
    /// of the frame on the wire have not left.
    #[inline]
    pub(crate) fn joined(&self, priority: u8, unsent: u64) -> u64 {
        match &self.held {
            Some(_) => self.held_by(self.class(priority), unsent),
            None => self.bytes + unsent,
        }
    }
    /// A frame of this class is being sent.
    #[inline]
    pub(crate) fn sends(&mut self, priority: u8, size: u32) {
        self.sends_class(self.class(priority), size);
    }
    #[inline]
    fn sends_class(&mut self, class: usize, size: u32) {
        self.on_wire = class as u8;
        if let Some(marks) = &mut self.marks {
            marks.sent[class] += u64::from(size);
        }
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
        let (size, mark, service) = (u64::from(packet.size), packet.priority, packet.service);
        let priority = self.class(mark);
        self.bytes += size;
        self.frames += 1;
        if let Some(held) = &mut self.held {
            held[priority] += size;
        }
        if let Some((classes, first)) = &mut self.first {
            let strict = match &self.marks {
                Some(marks) => marks.strict(priority),
                None => (mark < *classes).then_some(mark.into()),
            };
            if let Some(strict) = strict {
                return first.push(packets, strict, id);
            }
        }
        match &mut self.order {
            Order::Fifo(list) => list.push(packets, id),
            Order::RoundRobin(order) => order.push(packets, service, id),
            Order::StrictPriority(order) => order.push(packets, priority, id),
            Order::DeficitRoundRobin(order) => order.push(packets, priority, id),
            Order::PFabric(order) => order.push(packets, id),
        }
    }

    /// Takes the frame that leaves next, and sends it.
    #[inline]
    pub(crate) fn send_next(&mut self, packets: &mut Arena) -> Option<PacketId> {
        let (class, id) = self.take_next(packets)?;
        self.sends_class(class, packets.get(id).size);
        Some(id)
    }

    /// Takes the frame that would leave next.
    pub(crate) fn pop(&mut self, packets: &mut Arena) -> Option<PacketId> {
        self.take_next(packets).map(|(_, id)| id)
    }

    #[inline]
    fn take_next(&mut self, packets: &mut Arena) -> Option<(usize, PacketId)> {
        if let Some((_, first)) = &mut self.first
            && let Some(id) = first.pop(packets)
        {
            return Some((self.taken_out(packets, id, None), id));
        }
        let (class, id) = match &mut self.order {
            Order::Fifo(list) => (None, list.pop(packets)?),
            Order::RoundRobin(order) => (None, order.pop(packets)?),
            Order::StrictPriority(order) => (None, order.pop(packets)?),
            Order::DeficitRoundRobin(order) => order.pop(packets).map(|(class, id)| (Some(class), id))?,
            Order::PFabric(order) => (None, order.pop(packets)?),
        };
        Some((self.taken_out(packets, id, class), id))
    }

    /// Whether giving up frames for one of this class and rank would free `missing` bytes.
    pub(crate) fn can_give_up(&self, packets: &Arena, priority: u8, rank: u32, missing: u64) -> bool {
        // Its room is its own: frames of others would make none.
        if self.credit_buffer() > 0 && self.is_of_credits(priority) {
            return false;
        }
        let priority = self.class(priority);
        match (&self.order, &self.held) {
            (Order::StrictPriority(_), Some(held)) => StrictPriority::can_give_up(held, priority, missing),
            (Order::DeficitRoundRobin(order), Some(held)) => order.can_give_up(packets, held, priority, missing),
            (Order::PFabric(order), _) => order.can_give_up(packets, rank, missing),
            _ => false,
        }
    }

    /// Takes a frame out to make room for one of this class and rank; `None` if that one is the
    /// frame to drop.
    pub(crate) fn give_up(&mut self, packets: &mut Arena, priority: u8, rank: u32) -> Option<PacketId> {
        let priority = self.class(priority);
        let (class, id) = match (&mut self.order, &self.held) {
            (Order::StrictPriority(order), _) => (None, order.give_up(packets, priority)?),
            (Order::DeficitRoundRobin(order), Some(held)) => {
                order.give_up(packets, held, priority).map(|(class, id)| (Some(class), id))?
            }
            (Order::PFabric(order), _) => (None, order.take_worst(packets, rank)?),
            _ => return None,
        };
        self.taken_out(packets, id, class);
        Some(id)
    }

    /// The next frame, if it is known without a choice.
    #[inline]
    pub(crate) fn first(&self) -> PacketId {
        if let (Order::Fifo(list), None) = (&self.order, &self.first) { list.head } else { PacketId::NONE }
    }

    /// Serves the frames of the first `classes` classes before all others. The queue must be empty.
    pub(crate) fn serve_first(&mut self, classes: u8) {
        debug_assert!(self.is_empty(), "hosts are configured before the run");
        self.first = Some((classes, Box::default()));
    }

    /// Changes the weights of a weighted discipline. Returns whether it has any.
    pub(crate) fn set_weights(&mut self, weights: [u32; PRIORITIES]) -> bool {
        match &mut self.order {
            Order::DeficitRoundRobin(order) if self.marks.is_none() => {
                order.set_weights(&weights);
                true
            }
            _ => false,
        }
    }

    /// A frame is no longer in the queue: in `class`, which it joined, or in that of its mark. Returns the class.
    #[inline]
    fn taken_out(&mut self, packets: &Arena, id: PacketId, class: Option<usize>) -> usize {
        let packet = packets.get(id);
        self.bytes -= u64::from(packet.size);
        self.frames -= 1;
        let class = class.unwrap_or_else(|| self.class(packet.priority));
        if let Some(held) = &mut self.held {
            held[class] -= u64::from(packet.size);
        }
        class
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::ids::{HostId, ServiceIndex};
    use crate::packet::{Kind, OTHERS, Packet};
    use proptest::prelude::*;
    use weir_network::switches::{CREDIT_DATA, CREDIT_MESSAGES};

    /// A packet of a class in the arena.
    pub(crate) fn packet(packets: &mut Arena, size: u32, priority: u8) -> PacketId {
        let mut packet = Packet::new(Kind::Segment, size, HostId(0), ServiceIndex(u16::from(priority)));
        packet.priority = priority;
        packets.insert(packet)
    }

    const WEIGHTS: [u32; PRIORITIES] = [5, 1, 2, 1, 3, 1, 1, 4];

    proptest! {
        /// A queue reports that it can give up so many bytes exactly if giving up frame after frame
        /// frees them, and every frame that it gives up is worse than the arriving one: less
        /// urgent, of the longest class for its weight, of a worse rank.
        #[test]
        fn frames_given_up_are_worse_and_make_the_reported_room(
            discipline in prop_oneof![
                Just(Discipline::StrictPriority),
                Just(Discipline::DeficitRoundRobin { weights: WEIGHTS, quantum: 1500 }),
                Just(Discipline::PFabric),
                Just(Discipline::Fifo),
            ],
            frames in prop::collection::vec((60u32..1515, 0u8..8, 0u32..20), 0..40),
            sent in 0usize..20,
            (priority, rank, missing) in (0u8..8, 0u32..20, 1u64..20_000),
        ) {
            let (mut packets, mut queue) = (Arena::default(), Queue::of(discipline));
            for (size, class, rank) in frames {
                let id = packet(&mut packets, size, class);
                packets.get_mut(id).rank = rank;
                queue.push(&mut packets, id);
            }
            for _ in 0..sent {
                queue.pop(&mut packets);
            }
            let reported = queue.can_give_up(&packets, priority, rank, missing);
            let mut gone = 0;
            while gone < missing {
                let for_weight = |class: usize, queue: &Queue| {
                    let held = queue.held.as_ref().map_or(0, |held| held[class]);
                    held as f64 / f64::from(WEIGHTS[class])
                };
                let before: Vec<f64> = (0..PRIORITIES).map(|class| for_weight(class, &queue)).collect();
                let Some(id) = queue.give_up(&mut packets, priority, rank) else { break };
                let frame = packets.get(id);
                gone += u64::from(frame.size);
                match discipline {
                    Discipline::StrictPriority => prop_assert!(frame.priority > priority),
                    Discipline::DeficitRoundRobin { .. } => {
                        prop_assert!(frame.priority != priority);
                        prop_assert!(before.iter().all(|other| before[usize::from(frame.priority)] >= *other));
                    }
                    Discipline::PFabric => prop_assert!(frame.rank > rank),
                    Discipline::Fifo => prop_assert!(false, "first in, first out gives nothing up"),
                }
            }
            prop_assert_eq!(reported, gone >= missing);
        }
    }

    const DATA: u8 = OTHERS + CREDIT_DATA;
    const MESSAGES: u8 = OTHERS + CREDIT_MESSAGES;

    fn fill(queue: &mut Queue, packets: &mut Arena, frames: &[(u32, u8)]) {
        for &(size, mark) in frames {
            let id = packet(packets, size, mark);
            queue.push(packets, id);
        }
    }

    fn marks(queue: &mut Queue, packets: &mut Arena) -> Vec<u8> {
        std::iter::from_fn(|| queue.pop(packets).map(|id| packets.get(id).priority)).collect()
    }

    #[test]
    fn credits_have_room_and_a_weight_of_their_own() {
        let (mut packets, mut queue) = (Arena::default(), Queue::of_marks(2, 1));
        queue.add_credits(CreditClasses { weights: Some((3, 2)), has_messages: true, buffer: Some(3_000) });
        fill(&mut queue, &mut packets, &[(1_000, OTHERS), (1_000, OTHERS)]);
        assert_eq!([OTHERS, MESSAGES, DATA].map(|mark| queue.missing(mark, 2_000, 0, 1_000)), [1_000, 1_000, 0]);
        fill(&mut queue, &mut packets, &[(1_000, DATA); 3]);
        assert_eq!([OTHERS, DATA].map(|mark| queue.missing(mark, 2_000, 0, 500)), [500, 500]);
        // Others make room for a message, and data for nothing.
        let can = |mark| queue.can_give_up(&packets, mark, 0, 500);
        assert_eq!([OTHERS, DATA, MESSAGES, 0].map(can), [false, false, true, true]);
        fill(&mut queue, &mut packets, &[(100, MESSAGES), (100, 0)]);
        // In a round 2 · 757 B of others and 3 · 757 B of data.
        let expected = [0, MESSAGES, OTHERS, DATA, DATA, OTHERS, DATA];
        assert_eq!(marks(&mut queue, &mut packets), expected);
    }

    /// Without levels messages have the first strict queue, and beside tenants data has the next.
    #[test]
    fn credits_without_levels_have_the_first_strict_queues() {
        let (mut packets, mut queue) = (Arena::default(), Queue::of_marks(2, 0));
        queue.add_credits(CreditClasses { weights: Some((3, 2)), has_messages: true, buffer: Some(3_000) });
        let frames = [OTHERS, OTHERS, DATA, DATA, DATA, MESSAGES].map(|mark| (1_000, mark));
        fill(&mut queue, &mut packets, &frames);
        // Class 0 is a level's where a port has levels.
        fill(&mut queue, &mut packets, &[(1_000, 0)]);
        let classes = [MESSAGES, DATA, OTHERS, 0].map(|mark| queue.class(mark));
        assert_eq!(classes, [2, 1, 0, 0]);
        assert_eq!(marks(&mut queue, &mut packets), [MESSAGES, OTHERS, DATA, DATA, OTHERS, 0, DATA]);
        let mut queue = Queue::of_marks(2, 0);
        queue.add_credits(CreditClasses { weights: None, has_messages: true, buffer: None });
        fill(&mut queue, &mut packets, &frames);
        assert_eq!(marks(&mut queue, &mut packets), [MESSAGES, DATA, DATA, DATA, OTHERS, OTHERS]);
    }

    #[test]
    fn credits_beside_tenants_are_before_weighted_queues_whatever_their_map() {
        let (mut packets, mut queue) = (Arena::default(), Queue::of_marks(3, 1));
        queue.add_credits(CreditClasses { weights: None, has_messages: false, buffer: None });
        queue.configure(&[1, 1, 1], FRAME, &BTreeMap::from([(12, 2)]));
        let frames = [OTHERS, OTHERS + 12, DATA, MESSAGES, 0].map(|mark| (1_000, mark));
        fill(&mut queue, &mut packets, &frames);
        assert_eq!((queue.is_of_credits(MESSAGES), queue.is_of_credits(OTHERS)), (true, false));
        assert_eq!(marks(&mut queue, &mut packets), [0, DATA, MESSAGES, OTHERS, OTHERS + 12]);
    }

    #[test]
    fn the_frame_on_the_wire_counts_in_its_class() {
        let (mut packets, mut queue) = (Arena::default(), Queue::of(Discipline::StrictPriority));
        for (size, class) in [(1000, 2), (400, 2), (300, 5)] {
            let id = packet(&mut packets, size, class);
            queue.push(&mut packets, id);
        }
        let first = queue.pop(&mut packets).expect("a frame");
        queue.sends(packets.get(first).priority, 1000);
        // 250 B of it have left.
        assert_eq!([2, 5, 0].map(|class| queue.joined(class, 750)), [1150, 300, 0]);
        let mut fifo = Queue::of(Discipline::Fifo);
        let id = packet(&mut packets, 400, 5);
        fifo.push(&mut packets, id);
        assert_eq!(fifo.joined(2, 750), 1150);
    }

    #[test]
    fn counts_are_exact_for_every_order() {
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
            assert_eq!(
                (queue.bytes(), queue.joined(3, 0), queue.joined(0, 0)),
                (600, held.0, held.1),
                "{discipline:?}"
            );
            let first = queue.pop(&mut packets).expect("a frame");
            let size = u64::from(packets.get(first).size);
            assert_eq!(queue.bytes(), 600 - size);
            while queue.pop(&mut packets).is_some() {}
            assert!(queue.is_empty());
            assert_eq!((queue.bytes(), queue.joined(3, 0)), (0, 0));
        }
    }
}
