//! From a destination to its slot: a small open-addressing table.
//!
//! Problem: every packet of a shaped service looks up the limiter of its destination, and a service
//! may have limiters to thousands of hosts, of which a few are created and removed. Approach: keys
//! and values in one array of a power of two, at most half full; a key is stored at the index of its
//! hash or, if that is taken, at the next free index. Removing a key moves the following ones back,
//! so that no gap splits a run of keys. The array is never iterated: its order has no effect.
//!
//! Worked example: of 16 indices hosts 1 and 22 both have the home 9; they are stored at 9 and 10.
//! Host 1 is removed: host 22 moves to 9.

use crate::fetch::fetch_line;

/// No key.
const FREE: u32 = u32::MAX;
/// The smallest table.
const LEAST: usize = 8;

/// A table from numbers to numbers; `u32::MAX` is not a key.
#[derive(Debug, Default)]
pub(crate) struct SlotTable {
    table: Box<[(u32, u32)]>,
    used: usize,
}

impl SlotTable {
    /// The index of a key in an empty table: Fibonacci hashing, which spreads the small consecutive
    /// numbers that hosts have.
    #[inline]
    fn home(&self, key: u32) -> usize {
        let hash = key.wrapping_mul(0x9E37_79B9);
        ((u64::from(hash) * self.table.len() as u64) >> 32) as usize
    }

    /// The index of a key, or the free index at which it would be inserted.
    #[inline]
    fn find(&self, key: u32) -> usize {
        let mask = self.table.len() - 1;
        let mut at = self.home(key);
        while self.table[at].0 != key && self.table[at].0 != FREE {
            at = (at + 1) & mask;
        }
        at
    }

    /// The value of a key.
    #[inline]
    pub(crate) fn get(&self, key: u32) -> Option<u32> {
        if self.used == 0 {
            return None;
        }
        let (found, value) = self.table[self.find(key)];
        (found == key).then_some(value)
    }

    /// Prefetches the place of a key.
    #[inline]
    pub(crate) fn fetch(&self, key: u32) {
        if let Some(place) = self.table.get(self.home(key)) {
            fetch_line(std::ptr::from_ref(place).cast());
        }
    }

    /// Sets the value of a key.
    pub(crate) fn insert(&mut self, key: u32, value: u32) {
        debug_assert_ne!(key, FREE, "a key that means none");
        if 2 * (self.used + 1) > self.table.len() {
            let larger = vec![(FREE, 0); (2 * self.table.len()).max(LEAST)].into_boxed_slice();
            for (key, value) in std::mem::replace(&mut self.table, larger) {
                if key != FREE {
                    let at = self.find(key);
                    self.table[at] = (key, value);
                }
            }
        }
        let at = self.find(key);
        self.used += usize::from(self.table[at].0 == FREE);
        self.table[at] = (key, value);
    }

    /// Removes a key.
    pub(crate) fn remove(&mut self, key: u32) {
        if self.get(key).is_none() {
            return;
        }
        let mask = self.table.len() - 1;
        let mut gap = self.find(key);
        self.used -= 1;
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            let (key, value) = self.table[at];
            if key == FREE {
                break;
            }
            // It may move back to the gap unless its home lies between the two.
            let from_home = at.wrapping_sub(self.home(key)) & mask;
            let from_gap = at.wrapping_sub(gap) & mask;
            if from_home >= from_gap {
                self.table[gap] = (key, value);
                gap = at;
            }
        }
        self.table[gap] = (FREE, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn agrees_with_a_map(steps in prop::collection::vec((0..40u32, 0..3u8, any::<u32>()), 1..300)) {
            let (mut table, mut map) = (SlotTable::default(), BTreeMap::new());
            for (key, what, value) in steps {
                match what {
                    0 => {
                        table.remove(key);
                        map.remove(&key);
                    }
                    _ => {
                        table.insert(key, value);
                        map.insert(key, value);
                    }
                }
                prop_assert_eq!(table.used, map.len());
                for key in 0..40 {
                    prop_assert_eq!(table.get(key), map.get(&key).copied());
                }
            }
        }
    }
}
