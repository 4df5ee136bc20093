//! The event queue: what happens next, ordered by (time, sequence).
//!
//! Problem: the queue is touched for every packet on every link, so it decides the simulator's speed; and
//! two events at the same picosecond must come out in the same order in every run.
//!
//! Approach: few events, and cheap ones.
//! - A link has one pending event however many packets fly on it, because they arrive in order
//!   ([`crate::port`]), and a timer has one ([`crate::timer`]): the queue grows with links and flows, not with packets.
//! - A wheel of 8192 buckets holds what is due soon: an insertion is a push onto a bucket's list. A bucket is
//!   sorted when its turn comes, and then emptied from its end. What is due beyond the wheel (timers, mostly)
//!   waits in a heap.
//! - A bucket's width is a power of two picoseconds, chosen for the network ([`EventQueue::with_width`]) so that a
//!   bucket has some tens of events: wide ones are long to sort, narrow ones are many to visit.
//! - Within a bucket an event's place is one word: its time inside the bucket above its sequence number.
//! - A bucket's events stand in chunks of two cache lines. Chunks live in one arena whose free places are used again
//!   last in, first out, so the memory in use stays small and cached.
//! - Since a whole bucket is known before its first event is handled, whoever handles them can have what they need fetched
//!   meanwhile ([`EventQueue::bucket`]).
//!
//! Each insertion gets the next sequence number, which breaks ties: first scheduled, first handled.
//! Nothing is ever searched for or removed; a timer that moved ignores the event that it no longer expects.
//!
//! Example: insertions at 5 ns (a), 3 ns (b), 5 ns (c) come out as b, a, c.
//!
//! Source: Brown, "Calendar queues" (CACM 1988), with a fixed width; the one-event-per-pipe trick is htsim's
//! (`sim/pipe.cpp`, `sim/queue.cpp`).

mod event;
mod heap;

pub use event::Event;

use crate::ids::PortId;
use crate::pages;
use heap::{Entry, Heap};
use weir_units::SimTime;

/// Buckets in the wheel.
const SLOTS: usize = 8192;
/// Bits in a word of the bitmap.
const WORD: usize = u64::BITS as usize;
/// The end of a list.
const NONE: u32 = u32::MAX;
/// The widest bucket: 2^20 ps, a microsecond. The other 44 bits of an entry's key count 17 million million events.
const MAX_SHIFT: u32 = 20;
/// The narrowest: 2^10 ps, a nanosecond; the wheel then spans 8.4 µs, several frames at 10 Gb/s.
const MIN_SHIFT: u32 = 10;
/// The width where nothing is known of the network: 65.5 ns.
const DEFAULT_SHIFT: u32 = 16;

/// An event in a bucket.
#[derive(Debug, Clone, Copy)]
struct Due {
    /// The time inside the bucket, and the sequence number below it.
    key: u64,
    /// What happens, packed.
    event: u64,
}

/// Events in a chunk: with its two numbers, 120 of 128 bytes.
const CHUNK: usize = 7;

/// A part of a bucket.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(128))]
struct Chunk {
    due: [Due; CHUNK],
    /// How many there are.
    count: u32,
    /// The bucket's next chunk, or the next free one.
    next: u32,
}

/// Pending events. See the module's documentation.
#[derive(Debug)]
pub struct EventQueue {
    /// Log2 of a bucket's width in picoseconds.
    shift: u32,
    /// The bucket that is being emptied: its number is its time shifted, not its slot.
    bucket: u64,
    /// What is due in that bucket, the first at the end.
    current: Vec<Due>,
    /// For each slot, its chunks; a slot holds bucket numbers in `(bucket, bucket + SLOTS)`.
    slots: Vec<u32>,
    /// Which slots have any.
    occupied: [u64; SLOTS / WORD],
    chunks: Vec<Chunk>,
    free: u32,
    in_wheel: usize,
    /// What is due beyond the wheel.
    far: Heap,
    sequence: u64,
}

impl Default for EventQueue {
    fn default() -> Self {
        Self::with_shift(DEFAULT_SHIFT)
    }
}

impl EventQueue {
    /// No events.
    pub fn new() -> Self {
        Self::default()
    }

    /// No events, in buckets about as wide as `width`, and wide enough for the wheel to span `reach`.
    pub fn with_width(width: SimTime, reach: SimTime) -> Self {
        let wanted = width.picos().max(reach.picos() / SLOTS as u64).max(1);
        Self::with_shift(wanted.ilog2().clamp(MIN_SHIFT, MAX_SHIFT))
    }

    fn with_shift(shift: u32) -> Self {
        Self {
            shift,
            bucket: 0,
            current: Vec::new(),
            slots: vec![NONE; SLOTS],
            occupied: [0; SLOTS / WORD],
            chunks: Vec::new(),
            free: NONE,
            in_wheel: 0,
            far: Heap::default(),
            sequence: 0,
        }
    }

    /// How many events are pending.
    pub fn len(&self) -> usize {
        self.current.len() + self.in_wheel + self.far.len()
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn bucket_of(&self, time: SimTime) -> u64 {
        time.picos() >> self.shift
    }

    /// Schedules `event` at `time`, after everything scheduled earlier for the same time.
    #[inline]
    pub fn push(&mut self, time: SimTime, event: Event) {
        let sequence = self.sequence;
        self.sequence += 1;
        let event = event.pack();
        let bucket = self.bucket_of(time);
        // Wraps to a large number for a bucket that has passed.
        let ahead = bucket.wrapping_sub(self.bucket).wrapping_sub(1);
        if ahead < SLOTS as u64 - 1 {
            self.list(bucket as usize % SLOTS, Due { key: self.key(time, sequence), event });
        } else if bucket <= self.bucket {
            self.insert_now(time, sequence, event);
        } else {
            self.far.push(Entry { time, sequence, event });
        }
    }

    #[inline]
    fn key(&self, time: SimTime, sequence: u64) -> u64 {
        let inside = time.picos() & ((1 << self.shift) - 1);
        inside << (u64::BITS - MAX_SHIFT) | sequence
    }

    /// Puts an event into the bucket that is being emptied; one of the past is due at its start.
    fn insert_now(&mut self, time: SimTime, sequence: u64, event: u64) {
        let begin = SimTime::from_picos(self.bucket << self.shift);
        let due = Due { key: self.key(time.max(begin), sequence), event };
        let place = self.current.partition_point(|other| other.key > due.key);
        self.current.insert(place, due);
    }

    /// Takes the first event if it is due at or before `limit`.
    #[inline]
    pub fn pop_until(&mut self, limit: SimTime) -> Option<(SimTime, Event)> {
        if self.current.is_empty() && !self.advance(limit) {
            return None;
        }
        self.pop(limit).map(|(time, event, _)| (time, event))
    }

    /// Takes the first event of the bucket at hand, with its hint, if it is due at or before `limit`.
    #[inline]
    pub fn pop(&mut self, limit: SimTime) -> Option<(SimTime, Event, u32)> {
        let first = *self.current.last()?;
        let time = SimTime::from_picos(self.bucket << self.shift | first.key >> (u64::BITS - MAX_SHIFT));
        if time > limit {
            return None;
        }
        self.current.pop();
        Some((time, Event::unpack(first.event), Event::hint(first.event)))
    }

    /// Whether the bucket at hand has been emptied: [`EventQueue::advance`] goes on to the next one.
    #[inline]
    pub fn is_bucket_empty(&self) -> bool {
        self.current.is_empty()
    }

    /// The events of the bucket at hand, the first one first.
    #[inline]
    pub fn bucket(&self) -> impl Iterator<Item = Event> {
        self.current.iter().rev().map(|due| Event::unpack(due.event))
    }

    /// Puts hints beside the arrivals of the bucket at hand: `hint` gives a number below 2^24, or 0 for none. They come with the
    /// events, for those who would otherwise find out the same thing twice.
    #[inline]
    pub fn give_hints(&mut self, mut hint: impl FnMut(PortId) -> u32) {
        for due in self.current.iter_mut().rev() {
            if let Event::Arrive(port) = Event::unpack(due.event) {
                due.event = Event::with_hint(due.event, hint(port));
            }
        }
    }

    /// Takes all hints away: what they were made from has changed.
    pub fn forget_hints(&mut self) {
        self.give_hints(|_| 0);
    }

    #[inline]
    fn list(&mut self, slot: usize, due: Due) {
        let first = self.slots[slot];
        self.in_wheel += 1;
        if let Some(chunk) = self.chunks.get_mut(first as usize)
            && let Some(place) = chunk.due.get_mut(chunk.count as usize)
        {
            *place = due;
            chunk.count += 1;
            return;
        }
        self.occupied[slot / WORD] |= 1 << (slot % WORD);
        let place = self.free;
        let place = if let Some(chunk) = self.chunks.get_mut(place as usize) {
            self.free = chunk.next;
            chunk.due[0] = due;
            (chunk.count, chunk.next) = (1, first);
            place
        } else {
            pages::push(&mut self.chunks, Chunk { due: [due; CHUNK], count: 1, next: first });
            (self.chunks.len() - 1) as u32
        };
        self.slots[slot] = place;
    }

    /// Goes on to the next bucket that has events, unless it begins after `limit`. The one at hand must be empty.
    pub fn advance(&mut self, limit: SimTime) -> bool {
        let far = self.far.first().map(|entry| self.bucket_of(entry.time));
        let next = match (self.next_in_wheel(), far) {
            (Some(wheel), Some(far)) => wheel.min(far),
            (Some(bucket), None) | (None, Some(bucket)) => bucket,
            (None, None) => return false,
        };
        if next > self.bucket_of(limit) {
            return false;
        }
        self.bucket = next;
        let slot = next as usize % SLOTS;
        let mut at = std::mem::replace(&mut self.slots[slot], NONE);
        self.occupied[slot / WORD] &= !(1 << (slot % WORD));
        while let Some(chunk) = self.chunks.get_mut(at as usize) {
            self.current.extend_from_slice(&chunk.due[..chunk.count as usize]);
            let next = std::mem::replace(&mut chunk.next, self.free);
            self.free = at;
            at = next;
        }
        self.in_wheel -= self.current.len();
        while let Some(&Entry { time, sequence, event }) = self.far.first()
            && self.bucket_of(time) == next
        {
            self.current.push(Due { key: self.key(time, sequence), event });
            self.far.pop();
        }
        // Keys differ, so an unstable sort is as good as a stable one.
        self.current.sort_unstable_by_key(|due| std::cmp::Reverse(due.key));
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
#[path = "tests.rs"]
mod tests;
