//! A ring of slots that hold items, in any order.
//!
//! A slot's contents are in chunks. Chunks live in one arena whose free indices are reused last in,
//! first out, so the memory in use stays small and cached. The fill of a slot's first chunk and the
//! links between chunks are in separate tables that stay cached: a push waits for no chunk, and the
//! code that empties a slot waits for all of its chunks at once. A bitmap marks the slots that have
//! items, so that 64 empty ones are passed at a time.
//!
//! Numbers of slots run on for ever; a ring holds those in `(now, now + SLOTS]`, where its user
//! chooses `now`, each at the index of its lowest bits.
//!
//! Example: with 8192 slots, number 8197 has index 5.

use super::NONE;
use crate::pages;

/// Slots of a ring.
pub(super) const SLOTS: usize = 8192;
/// Bits of a bitmap word.
const WORD: usize = u64::BITS as usize;

/// Items in a chunk: of 16 bytes, two cache lines.
const CHUNK: usize = 8;

/// A part of a slot.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Chunk<T>([T; CHUNK]);

/// A slot: its first chunk, and the number of items in it; the following chunks are full.
#[derive(Debug, Clone, Copy)]
struct Slot {
    first: u32,
    count: u32,
}

/// An empty slot: a chunk that is full requires another one.
const EMPTY: Slot = Slot { first: NONE, count: CHUNK as u32 };

/// The ring.
#[derive(Debug)]
pub(super) struct Wheel<T> {
    slots: Vec<Slot>,
    /// The slots that have items.
    occupied: [u64; SLOTS / WORD],
    chunks: Vec<Chunk<T>>,
    /// For each chunk, the slot's next chunk, or the next free one.
    next: Vec<u32>,
    free: u32,
    count: usize,
}

impl<T: Copy> Wheel<T> {
    pub(super) fn new() -> Self {
        let (slots, occupied) = (vec![EMPTY; SLOTS], [0; SLOTS / WORD]);
        Self { slots, occupied, chunks: Vec::new(), next: Vec::new(), free: NONE, count: 0 }
    }

    /// The number of items.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Puts an item into the slot of this number.
    #[inline]
    pub(super) fn push(&mut self, number: u64, thing: T) {
        self.count += 1;
        let index = number as usize % SLOTS;
        let slot = &mut self.slots[index];
        if slot.count as usize == CHUNK {
            self.occupied[index / WORD] |= 1 << (index % WORD);
            let chunk = self.free;
            let before = slot.first;
            if let Some(next) = self.next.get_mut(chunk as usize) {
                self.free = std::mem::replace(next, before);
                *slot = Slot { first: chunk, count: 0 };
            } else {
                *slot = Slot { first: self.chunks.len() as u32, count: 0 };
                pages::push(&mut self.chunks, Chunk([thing; CHUNK]));
                self.next.push(before);
            }
        }
        self.chunks[slot.first as usize].0[slot.count as usize] = thing;
        slot.count += 1;
    }

    /// Empties the slot of this number and passes its contents on, a chunk at a time.
    #[inline]
    pub(super) fn take(&mut self, number: u64, mut receive: impl FnMut(&[T])) {
        let index = number as usize % SLOTS;
        let Slot { first: mut at, mut count } = std::mem::replace(&mut self.slots[index], EMPTY);
        self.occupied[index / WORD] &= !(1 << (index % WORD));
        while at != NONE {
            receive(&self.chunks[at as usize].0[..count as usize]);
            self.count -= count as usize;
            count = CHUNK as u32;
            let next = std::mem::replace(&mut self.next[at as usize], self.free);
            self.free = at;
            at = next;
        }
    }

    /// Prefetches the contents of the slot of this number.
    #[inline]
    pub(super) fn fetch(&self, number: u64) {
        let mut at = self.slots[number as usize % SLOTS].first;
        while at != NONE {
            crate::fetch::fetch(&self.chunks, at as usize);
            at = self.next[at as usize];
        }
    }

    /// Removes the items that `keep` rejects.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        let mut kept = Vec::new();
        for slot in 0..SLOTS as u64 {
            self.take(slot, |things| kept.extend(things.iter().copied().filter(&mut keep)));
            for thing in kept.drain(..) {
                self.push(slot, thing);
            }
        }
    }

    /// The first number from `start` on, and below `start + SLOTS`, whose slot has items.
    #[inline]
    pub(super) fn next(&self, start: u64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let first = start as usize % SLOTS;
        let (word, bit) = (first / WORD, first % WORD);
        let words = self.occupied.len();
        let mut bits = self.occupied[word] & (u64::MAX << bit);
        let mut steps = 0;
        while bits == 0 {
            steps += 1;
            // In the last step this is the first word again, with the bits that were masked.
            bits = self.occupied[(word + steps) % words];
        }
        let slot = (word + steps) % words * WORD + bits.trailing_zeros() as usize;
        Some(start + ((slot + SLOTS - first) % SLOTS) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_out_of_their_slot() {
        let mut wheel: Wheel<u64> = Wheel::new();
        assert_eq!(wheel.next(7), None);
        let numbers = [8, 9, 100, 8191 + 7, 8192 + 7];
        for number in numbers {
            for copy in 0..12 {
                wheel.push(number, 100 * number + copy);
            }
        }
        wheel.retain(|thing| thing % 100 != 3);
        let mut at = 8;
        for number in numbers {
            at = wheel.next(at).expect("a slot that has something");
            assert_eq!(at, number);
            let mut things = Vec::new();
            wheel.take(at, |some| things.extend_from_slice(some));
            things.sort_unstable();
            assert_eq!(things, (0..12).filter(|copy| *copy != 3).map(|copy| 100 * number + copy).collect::<Vec<_>>());
        }
        assert_eq!((wheel.len(), wheel.next(at)), (0, None));
    }
}
