//! A 4-ary min-heap of events.
//!
//! Four children are compared at once and share one and a half cache lines, and the tree is half as
//! deep as a binary one.

use weir_units::SimTime;

/// An event and its place in the order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) time: SimTime,
    pub(super) sequence: u64,
    /// The event, packed.
    pub(super) event: u64,
}

impl Entry {
    /// Time and sequence as one number, which compares without a branch.
    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.time.picos()) << 64 | u128::from(self.sequence)
    }
    #[inline]
    fn before(&self, other: &Self) -> bool {
        self.key() < other.key()
    }
}

/// Children of a node.
const ARITY: usize = 4;

/// The heap.
#[derive(Debug, Default)]
pub(super) struct Heap {
    entries: Vec<Entry>,
}

impl Heap {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The first entry.
    #[inline]
    pub(super) fn first(&self) -> Option<&Entry> {
        self.entries.first()
    }

    /// Adds an entry.
    #[inline]
    pub(super) fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
        let mut at = self.entries.len() - 1;
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if !entry.before(&self.entries[parent]) {
                break;
            }
            self.entries[at] = self.entries[parent];
            at = parent;
        }
        self.entries[at] = entry;
    }

    /// Removes the first entry.
    #[inline]
    pub(super) fn pop(&mut self) {
        if let Some(last) = self.entries.pop()
            && !self.entries.is_empty()
        {
            self.sift_down(last);
        }
    }

    /// Removes the entries whose event `keep` rejects.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(u64) -> bool) {
        let entries = std::mem::take(&mut self.entries);
        for entry in entries.into_iter().filter(|entry| keep(entry.event)) {
            self.push(entry);
        }
    }

    /// Moves the hole at the root down to the position of `entry`.
    fn sift_down(&mut self, entry: Entry) {
        let heap = self.entries.as_mut_slice();
        let mut at = 0;
        loop {
            let first = at * ARITY + 1;
            let best = match heap.get(first..first + ARITY) {
                Some(children) => first + least_of_four(children),
                None => {
                    let Some(last) = heap.len().checked_sub(first + 1) else { break };
                    let mut best = first;
                    for child in first + 1..=first + last {
                        if heap[child].before(&heap[best]) {
                            best = child;
                        }
                    }
                    best
                }
            };
            let least = heap[best];
            if entry.before(&least) {
                break;
            }
            heap[at] = least;
            at = best;
        }
        heap[at] = entry;
    }
}

/// The index of the first of four entries. Comparisons become numbers instead of branches: the
/// smallest child is as good as random, and a mispredicted branch costs more than all of this.
#[inline]
fn least_of_four(children: &[Entry]) -> usize {
    let first = usize::from(children[1].before(&children[0]));
    let second = 2 + usize::from(children[3].before(&children[2]));
    let later = usize::from(children[second].before(&children[first]));
    first + later * (second - first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_small() {
        assert_eq!(size_of::<Entry>(), 24);
    }
}
