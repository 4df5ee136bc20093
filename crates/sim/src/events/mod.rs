//! The event queue: what happens next, ordered by (time, sequence).
//!
//! Problem: the queue is touched for every packet on every link, so it decides the simulator's speed; and
//! two events at the same picosecond must come out in the same order in every run.
//!
//! Approach: few events, and cheap ones.
//! - A link has one pending event however many packets fly on it, because they arrive in order
//!   ([`crate::link`]), and a timer has one ([`crate::timer`]): the queue grows with links and flows, not with packets.
//! - A wheel of 8192 buckets of 65.5 ns holds what is due within half a millisecond: an insertion is a push
//!   onto a bucket's list. Only the current bucket is ordered, in a small heap; a bitmap finds the next one. What is
//!   due later (timers, mostly) waits in a second heap.
//! - Lists live in one arena whose free places are used again last in, first out, so the memory in use stays small and cached.
//!
//! Each insertion gets the next sequence number, which breaks ties: first scheduled, first handled.
//! Nothing is ever searched for or removed; a timer that moved ignores the event that it no longer expects.
//!
//! Example: insertions at 5 ns (a), 3 ns (b), 5 ns (c) come out as b, a, c.
//!
//! Source: Brown, "Calendar queues" (CACM 1988), with a fixed width and heaps for the ends; the
//! one-event-per-pipe trick is htsim's (`sim/pipe.cpp`, `sim/queue.cpp`).

mod heap;

use crate::ids::{Class, FlowId, HostId, PortId};
use heap::{Entry, Heap};
use weir_units::SimTime;

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The first packet on this port's link reaches the far end.
    Arrive(PortId),
    /// The port has sent a packet and others wait.
    Free(PortId),
    /// The first packet of a limited service may leave the host's service queue.
    Release(HostId, Class),
    /// The flow begins.
    Start(FlowId),
    /// The flow's retransmission timer.
    Retransmit(FlowId),
    /// The flow's delayed-acknowledgement timer.
    DelayedAck(FlowId),
}

impl Event {
    /// The event as one word: kind in the low byte, class above it, id in the high half. It is written and read
    /// in one go; a compiler's layout would be written in parts, and reading those together stalls.
    #[inline]
    fn pack(self) -> u64 {
        let word = |kind: u64, id: u32| kind | u64::from(id) << 32;
        match self {
            Self::Arrive(port) => word(0, port.0),
            Self::Free(port) => word(1, port.0),
            Self::Release(host, class) => word(2, host.0) | u64::from(class.0) << 8,
            Self::Start(flow) => word(3, flow.0),
            Self::Retransmit(flow) => word(4, flow.0),
            Self::DelayedAck(flow) => word(5, flow.0),
        }
    }

    /// The event of a word made by [`Event::pack`].
    #[inline]
    fn unpack(word: u64) -> Self {
        let id = (word >> 32) as u32;
        match word as u8 {
            0 => Self::Arrive(PortId(id)),
            1 => Self::Free(PortId(id)),
            2 => Self::Release(HostId(id), Class((word >> 8) as u16)),
            3 => Self::Start(FlowId(id)),
            4 => Self::Retransmit(FlowId(id)),
            _ => Self::DelayedAck(FlowId(id)),
        }
    }
}

/// A bucket is 2^16 ps = 65.5 ns wide: in a network of hundreds of busy 10 Gb/s links some tens of events.
const SHIFT: u32 = 16;
/// Buckets in the wheel: 8192 · 65.5 ns = 537 µs, four full frames at 100 Mb/s.
const SLOTS: usize = 8192;
/// Bits in a word of the bitmap.
const WORD: usize = u64::BITS as usize;
/// The end of a list.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Listed {
    entry: Entry,
    next: u32,
}

/// Pending events. See the module's documentation.
#[derive(Debug)]
pub struct EventQueue {
    /// The bucket that is being emptied: its number is its time shifted, not its slot.
    bucket: u64,
    /// What is due in that bucket, or before it.
    current: Heap,
    /// For each slot, its list; a slot holds bucket numbers in `(bucket, bucket + SLOTS)`.
    slots: Vec<u32>,
    /// Which slots have a list.
    occupied: [u64; SLOTS / WORD],
    listed: Vec<Listed>,
    free: u32,
    in_wheel: usize,
    /// What is due beyond the wheel.
    far: Heap,
    sequence: u64,
}

impl Default for EventQueue {
    fn default() -> Self {
        Self {
            bucket: 0,
            current: Heap::default(),
            slots: vec![NONE; SLOTS],
            occupied: [0; SLOTS / WORD],
            listed: Vec::new(),
            free: NONE,
            in_wheel: 0,
            far: Heap::default(),
            sequence: 0,
        }
    }
}

/// The bucket that a time falls into.
#[inline]
fn bucket_of(time: SimTime) -> u64 {
    time.picos() >> SHIFT
}

impl EventQueue {
    /// No events.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many events are pending.
    pub fn len(&self) -> usize {
        self.current.len() + self.in_wheel + self.far.len()
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Schedules `event` at `time`, after everything scheduled earlier for the same time.
    #[inline]
    pub fn push(&mut self, time: SimTime, event: Event) {
        let entry = Entry { time, sequence: self.sequence, event: event.pack() };
        self.sequence += 1;
        let bucket = bucket_of(time);
        if bucket <= self.bucket {
            self.current.push(entry);
        } else if bucket - self.bucket < SLOTS as u64 {
            self.list(bucket as usize % SLOTS, entry);
        } else {
            self.far.push(entry);
        }
    }

    /// Takes the first event if it is due at or before `limit`.
    #[inline]
    pub fn pop_until(&mut self, limit: SimTime) -> Option<(SimTime, Event)> {
        if self.current.len() == 0 && !self.advance(limit) {
            return None;
        }
        let first = *self.current.first()?;
        if first.time > limit {
            return None;
        }
        self.current.pop();
        Some((first.time, Event::unpack(first.event)))
    }

    #[inline]
    fn list(&mut self, slot: usize, entry: Entry) {
        let next = self.slots[slot];
        let listed = Listed { entry, next };
        let place = self.free;
        self.slots[slot] = if let Some(free) = self.listed.get_mut(place as usize) {
            self.free = free.next;
            *free = listed;
            place
        } else {
            self.listed.push(listed);
            (self.listed.len() - 1) as u32
        };
        self.occupied[slot / WORD] |= 1 << (slot % WORD);
        self.in_wheel += 1;
    }

    /// Goes on to the next bucket that has events, unless it begins after `limit`.
    fn advance(&mut self, limit: SimTime) -> bool {
        let far = self.far.first().map(|entry| bucket_of(entry.time));
        let next = match (self.next_in_wheel(), far) {
            (Some(wheel), Some(far)) => wheel.min(far),
            (Some(bucket), None) | (None, Some(bucket)) => bucket,
            (None, None) => return false,
        };
        if next > bucket_of(limit) {
            return false;
        }
        self.bucket = next;
        let slot = next as usize % SLOTS;
        let mut at = std::mem::replace(&mut self.slots[slot], NONE);
        self.occupied[slot / WORD] &= !(1 << (slot % WORD));
        while at != NONE {
            let Listed { entry, next } = self.listed[at as usize];
            self.current.push(entry);
            self.listed[at as usize].next = self.free;
            self.free = at;
            self.in_wheel -= 1;
            at = next;
        }
        while let Some(&entry) = self.far.first()
            && bucket_of(entry.time) == next
        {
            self.current.push(entry);
            self.far.pop();
        }
        true
    }

    /// The number of the first bucket in the wheel that has events.
    #[inline]
    fn next_in_wheel(&self) -> Option<u64> {
        if self.in_wheel == 0 {
            return None;
        }
        // Slots after the current one, to the end and around; the current slot itself is empty.
        let start = (self.bucket as usize + 1) % SLOTS;
        let (word, bit) = (start / WORD, start % WORD);
        let words = self.occupied.len();
        let mut bits = self.occupied[word] & (u64::MAX << bit);
        let mut steps = 0;
        while bits == 0 {
            steps += 1;
            // In the last step this is the first word again, with the bits that were masked.
            bits = self.occupied[(word + steps) % words];
        }
        let slot = (word + steps) % words * WORD + bits.trailing_zeros() as usize;
        let distance = (slot + SLOTS - start) % SLOTS;
        Some(self.bucket + 1 + distance as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drain(queue: &mut EventQueue) -> Vec<(u64, u32)> {
        std::iter::from_fn(|| queue.pop_until(SimTime::NEVER))
            .map(|(time, event)| match event {
                Event::Arrive(port) => (time.picos(), port.0),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn ties_keep_the_order_of_scheduling() {
        let mut queue = EventQueue::new();
        for (id, time) in [5, 3, 5, 3, 5].into_iter().enumerate() {
            queue.push(SimTime::from_picos(time), Event::Arrive(PortId(id as u32)));
        }
        assert_eq!(drain(&mut queue), [(3, 1), (3, 3), (5, 0), (5, 2), (5, 4)]);
    }

    #[test]
    fn events_survive_packing() {
        let (id, class) = (u32::MAX - 1, Class(u16::MAX - 1));
        for event in [
            Event::Arrive(PortId(id)),
            Event::Free(PortId(id)),
            Event::Release(HostId(id), class),
            Event::Start(FlowId(id)),
            Event::Retransmit(FlowId(id)),
            Event::DelayedAck(FlowId(id)),
        ] {
            assert_eq!(Event::unpack(event.pack()), event);
        }
    }

    #[test]
    fn nothing_comes_out_before_its_time() {
        let mut queue = EventQueue::new();
        queue.push(SimTime::from_picos(7), Event::Arrive(PortId(0)));
        assert_eq!(queue.pop_until(SimTime::from_picos(6)), None);
        assert_eq!(queue.len(), 1);
        assert!(queue.pop_until(SimTime::from_picos(7)).is_some());
        assert!(queue.is_empty());
        assert_eq!(queue.pop_until(SimTime::NEVER), None);
    }

    /// Distances on all scales: the same bucket, another bucket, beyond the wheel.
    fn time() -> impl Strategy<Value = u64> {
        prop_oneof![
            0..50u64,
            0..(SLOTS as u64 * 3) << SHIFT,
            Just(1 << SHIFT),
            Just((SLOTS as u64) << SHIFT),
            0..1u64 << 50
        ]
    }

    #[test]
    fn a_limit_does_not_disturb_what_comes_before_the_next_event() {
        let mut queue = EventQueue::new();
        queue.push(SimTime::from_millis(5), Event::Arrive(PortId(0)));
        assert_eq!(queue.pop_until(SimTime::from_millis(1)), None);
        queue.push(SimTime::from_millis(2), Event::Arrive(PortId(1)));
        assert_eq!(drain(&mut queue), [(2_000_000_000, 1), (5_000_000_000, 0)]);
    }

    proptest! {
        /// Insertions, never before what was taken, and removals in any order give what a stable sort by time gives.
        #[test]
        fn agrees_with_a_stable_sort(steps in proptest::collection::vec(proptest::option::of(time()), 0..300)) {
            let mut queue = EventQueue::new();
            let mut model: Vec<(u64, u32)> = Vec::new();
            let mut now = 0;
            for (id, step) in steps.into_iter().enumerate() {
                if let Some(distance) = step {
                    let time = now + distance;
                    queue.push(SimTime::from_picos(time), Event::Arrive(PortId(id as u32)));
                    model.push((time, id as u32));
                } else {
                    model.sort_by_key(|&(time, _)| time);
                    let expected = (!model.is_empty()).then(|| model.remove(0));
                    let got = queue.pop_until(SimTime::NEVER).map(|(time, event)| match event {
                        Event::Arrive(port) => (time.picos(), port.0),
                        other => panic!("{other:?}"),
                    });
                    prop_assert_eq!(got, expected);
                    now = got.map_or(now, |(time, _)| time);
                }
            }
            model.sort_by_key(|&(time, _)| time);
            prop_assert_eq!(drain(&mut queue), model);
        }
    }
}
