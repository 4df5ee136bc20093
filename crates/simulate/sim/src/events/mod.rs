//! The event queue: pending events, ordered by (time, sequence).
//!
//! Problem: every packet on every link uses the queue, so it decides the simulator's speed; and two
//! events at the same picosecond must leave it in the same order in every run.
//!
//! Approach: few events, and cheap ones.
//! - A packet has one event for each link, its arrival, because a port computes it when it takes
//!   the packet ([`crate::port`]), and a timer has one ([`crate::timer`]). The event names the
//!   packet, not the link: its handler needs no state of the link.
//! - A wheel of 8192 buckets holds the events that are due soon: an insertion is a push onto a
//!   bucket's list. A bucket is sorted when its turn comes, and then emptied from its end. A second
//!   wheel has slots as wide as one round of the first; later events wait there (behind a long
//!   queue, mostly), and move to the first wheel at their slot. Events beyond the second wheel
//!   (timers) wait in a heap.
//! - A bucket's width is a power of two picoseconds, chosen for the network
//!   ([`EventQueue::with_width`]) so that a bucket has some tens of events: wide buckets are long
//!   to sort, narrow ones are many to visit.
//! - Within a bucket an event's key is one word: its time inside the bucket above its sequence
//!   number.
//! - Since a whole bucket is known before its first event is handled, the handlers' memory can be
//!   prefetched ([`EventQueue::bucket`]).
//!
//! Each insertion gets the next sequence number, which breaks ties: first scheduled, first handled.
//! A timer that moved ignores its stale event. Only a link that changes removes events
//! ([`EventQueue::take_arrivals`]), by a scan of all pending events.
//!
//! Example: insertions at 5 ns (a), 3 ns (b), 5 ns (c) come out as b, a, c.
//!
//! Source: Brown, "Calendar queues" (CACM 1988), with a fixed width; Varghese and Lauck, "Hashed
//! and hierarchical timing wheels" (SOSP 1987), scheme 7, for the second wheel.

mod event;
mod heap;
mod wheel;

pub use event::Event;

use crate::ids::PacketId;
use heap::{Entry, Heap};
use weir_units::SimTime;
use wheel::{SLOTS, Wheel};

/// The end of a list.
const NONE: u32 = u32::MAX;
/// Log2 of the buckets that a slot of the second wheel is wide.
const ROUND: u32 = SLOTS.ilog2();
/// The widest bucket: 2^20 ps, a microsecond. The other 44 bits of an entry's key count 17 million
/// million events.
const MAX_SHIFT: u32 = 20;
/// The narrowest: 2^10 ps, a nanosecond; the wheel then spans 8.4 µs, several frames at 10 Gb/s.
const MIN_SHIFT: u32 = 10;
/// The width for an unknown network: 65.5 ns.
const DEFAULT_SHIFT: u32 = 16;

/// An event in a bucket.
#[derive(Debug, Clone, Copy)]
struct Due {
    /// The time inside the bucket, and the sequence number below it.
    key: u64,
    /// The event, packed.
    event: u64,
}

/// Pending events. See the module's documentation.
#[derive(Debug)]
pub struct EventQueue {
    /// Log2 of a bucket's width in picoseconds.
    shift: u32,
    /// The bucket that is being emptied: its number is its time shifted, not its slot.
    bucket: u64,
    /// The events of that bucket, the first at the end.
    current: Vec<Due>,
    /// By bucket, the events due in `(bucket, bucket + SLOTS]`.
    soon: Wheel<Due>,
    /// By round, the events due in the [`SLOTS`] rounds after this bucket's.
    later: Wheel<Entry>,
    /// The events beyond the wheels.
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

    /// No events, in buckets about as wide as `width`, and wide enough for the wheel to span
    /// `reach`.
    pub fn with_width(width: SimTime, reach: SimTime) -> Self {
        let wanted = width.picos().max(reach.picos() / SLOTS as u64).max(1);
        Self::with_shift(wanted.ilog2().clamp(MIN_SHIFT, MAX_SHIFT))
    }

    fn with_shift(shift: u32) -> Self {
        Self {
            shift,
            bucket: 0,
            current: Vec::new(),
            soon: Wheel::new(),
            later: Wheel::new(),
            far: Heap::default(),
            sequence: 0,
        }
    }

    /// How many events are pending.
    pub fn len(&self) -> usize {
        self.current.len() + self.soon.len() + self.later.len() + self.far.len()
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
        if ahead < SLOTS as u64 {
            self.soon.push(bucket, Due { key: self.key(time, sequence), event });
        } else if bucket <= self.bucket {
            self.insert_now(time, sequence, event);
        } else if (bucket >> ROUND) - (self.bucket >> ROUND) <= SLOTS as u64 {
            self.later.push(bucket >> ROUND, Entry { time, sequence, event });
        } else {
            self.far.push(Entry { time, sequence, event });
        }
    }

    #[inline]
    fn key(&self, time: SimTime, sequence: u64) -> u64 {
        key(self.shift, time, sequence)
    }

    /// Puts an event into the bucket that is being emptied; an event of the past is due at its
    /// start.
    fn insert_now(&mut self, time: SimTime, sequence: u64, event: u64) {
        let begin = SimTime::from_picos(self.bucket << self.shift);
        let due = Due { key: self.key(time.max(begin), sequence), event };
        let index = self.current.partition_point(|other| other.key > due.key);
        self.current.insert(index, due);
    }

    /// Takes the first event if it is due at or before `limit`.
    #[inline]
    pub fn pop_until(&mut self, limit: SimTime) -> Option<(SimTime, Event)> {
        if self.current.is_empty() && !self.advance(limit) {
            return None;
        }
        self.pop(limit).map(|(time, event, _)| (time, event))
    }

    /// Takes the first event of the current bucket, with its hint, if it is due at or before
    /// `limit`.
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

    /// Whether the current bucket is empty: [`EventQueue::advance`] moves to the next one.
    #[inline]
    pub fn is_bucket_empty(&self) -> bool {
        self.current.is_empty()
    }

    /// Prefetches the events of the bucket after the current one.
    #[inline]
    pub fn fetch_next(&self) {
        if let Some(next) = self.soon.next(self.bucket + 1) {
            self.soon.fetch(next);
        }
    }

    /// The events of the current bucket, the first one first.
    #[inline]
    pub fn bucket(&self) -> impl Iterator<Item = Event> {
        self.current.iter().rev().map(|due| Event::unpack(due.event))
    }

    /// Puts hints beside the arrivals of the current bucket: `hint` gives a number below 2^24, or 0
    /// for none. The hints come with the events, so that their handlers do not repeat a lookup.
    #[inline]
    pub fn give_hints(&mut self, mut hint: impl FnMut(PacketId) -> u32) {
        for due in self.current.iter_mut().rev() {
            if let Some(packet) = Event::arriving(due.event) {
                due.event = Event::with_hint(due.event, hint(packet));
            }
        }
    }

    /// Removes all hints: their sources have changed.
    pub fn forget_hints(&mut self) {
        self.give_hints(|_| 0);
    }

    /// Removes the arrivals that `wanted` accepts, and returns their packets, in no particular
    /// order.
    pub fn take_arrivals(&mut self, mut wanted: impl FnMut(PacketId) -> bool) -> Vec<PacketId> {
        let mut taken = Vec::new();
        let mut keep = |event: u64| match Event::unpack(event) {
            Event::Arrive(packet) if wanted(packet) => {
                taken.push(packet);
                false
            }
            _ => true,
        };
        self.current.retain(|due| keep(due.event));
        self.soon.retain(|due| keep(due.event));
        self.later.retain(|entry| keep(entry.event));
        self.far.retain(keep);
        taken
    }

    /// Moves to the next bucket that has events, unless it begins after `limit`. The current one
    /// must be empty.
    pub fn advance(&mut self, limit: SimTime) -> bool {
        let last = self.bucket_of(limit);
        loop {
            let soon = self.soon.next(self.bucket + 1);
            let far = self.far.first().map(|entry| self.bucket_of(entry.time));
            let next = [soon, far].into_iter().flatten().min();
            // An event of the next round may be due before the earliest known one.
            if let Some(round) = self.later.next((self.bucket >> ROUND) + 1)
                && next.is_none_or(|next| round << ROUND <= next)
            {
                if round << ROUND > last {
                    return false;
                }
                self.begin_round(round);
                continue;
            }
            let Some(next) = next.filter(|&next| next <= last) else { return false };
            self.go_to(next);
            return true;
        }
    }

    /// Moves the events of a round to the first wheel. No event may be due before it.
    fn begin_round(&mut self, round: u64) {
        // The bucket before the round's first: it is empty, and the whole round lies within the
        // first wheel's reach.
        self.bucket = (round << ROUND) - 1;
        let (shift, soon) = (self.shift, &mut self.soon);
        self.later.take(round, |entries| {
            for &Entry { time, sequence, event } in entries {
                soon.push(time.picos() >> shift, Due { key: key(shift, time, sequence), event });
            }
        });
    }

    /// Takes the events of a bucket as the current one.
    fn go_to(&mut self, bucket: u64) {
        self.bucket = bucket;
        let current = &mut self.current;
        self.soon.take(bucket, |due| current.extend_from_slice(due));
        while let Some(&Entry { time, sequence, event }) = self.far.first()
            && self.bucket_of(time) == bucket
        {
            self.current.push(Due { key: self.key(time, sequence), event });
            self.far.pop();
        }
        // Keys differ, so an unstable sort gives the same order as a stable one.
        self.current.sort_unstable_by_key(|due| std::cmp::Reverse(due.key));
    }
}

/// An event's position in its bucket: its time inside the bucket, and its sequence number below it.
#[inline]
fn key(shift: u32, time: SimTime, sequence: u64) -> u64 {
    let inside = time.picos() & ((1 << shift) - 1);
    inside << (u64::BITS - MAX_SHIFT) | sequence
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
