//! Sets of bytes above a gap, as disjoint ranges.
//!
//! The receiver keeps the data received out of order in one, the sender the selectively
//! acknowledged data (the scoreboard of RFC 6675). Both are empty almost always and then own no
//! memory; otherwise they are short, so a sorted vector beats a tree.
//!
//! Example: `[10, 20)` and `[30, 40)` hold 20 bytes; adding `[15, 32)` adds 10 and leaves `[10,
//! 40)`.

/// Disjoint ranges `[from, to)` that do not touch, ascending.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ranges {
    ranges: Vec<(u64, u64)>,
    /// Bytes in all of them.
    bytes: u64,
}

impl Ranges {
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
    /// Bytes in all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
    /// The byte after the last one.
    pub(crate) fn end(&self) -> u64 {
        self.ranges.last().map_or(0, |range| range.1)
    }
    /// The ranges, ascending.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        self.ranges.iter().copied()
    }
    /// The range that holds `byte`.
    pub(crate) fn containing(&self, byte: u64) -> Option<(u64, u64)> {
        let index = self.ranges.partition_point(|range| range.1 <= byte);
        self.ranges.get(index).copied().filter(|range| range.0 <= byte)
    }

    /// Adds `[from, to)`. Returns how many bytes of it were new.
    pub(crate) fn insert(&mut self, mut from: u64, mut to: u64) -> u64 {
        if from >= to {
            return 0;
        }
        // The last range grows most often, in order.
        if let Some(last) = self.ranges.last_mut()
            && last.1 == from
        {
            last.1 = to;
            self.bytes += to - from;
            return to - from;
        }
        let first = self.ranges.partition_point(|range| range.1 < from);
        let mut last = first;
        let mut there = 0;
        while let Some(&(start, end)) = self.ranges.get(last)
            && start <= to
        {
            there += end - start;
            from = from.min(start);
            to = to.max(end);
            last += 1;
        }
        self.ranges.splice(first..last, [(from, to)]);
        let new = to - from - there;
        self.bytes += new;
        new
    }

    /// Removes everything before `edge`. Returns how many bytes were dropped.
    pub(crate) fn drop_below(&mut self, edge: u64) -> u64 {
        let mut dropped = 0;
        let whole = self.ranges.partition_point(|range| range.1 <= edge);
        dropped += self.ranges.drain(..whole).map(|range| range.1 - range.0).sum::<u64>();
        if let Some(first) = self.ranges.first_mut()
            && first.0 < edge
        {
            dropped += edge - first.0;
            first.0 = edge;
        }
        self.bytes -= dropped;
        dropped
    }

    /// The number of bytes before `edge` in the set.
    pub(crate) fn bytes_below(&self, edge: u64) -> u64 {
        self.ranges.iter().take_while(|range| range.0 < edge).map(|range| range.1.min(edge) - range.0).sum()
    }

    /// The first bytes at or after `from` that are missing: their start, and the start of the next
    /// range (`u64::MAX` if there is none).
    pub(crate) fn gap(&self, from: u64) -> (u64, u64) {
        let mut index = self.ranges.partition_point(|range| range.1 <= from);
        let mut start = from;
        if let Some(&(begin, end)) = self.ranges.get(index)
            && begin <= from
        {
            start = end;
            index += 1;
        }
        (start, self.ranges.get(index).map_or(u64::MAX, |range| range.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_worked_example() {
        let mut ranges = Ranges::default();
        assert_eq!((ranges.insert(10, 20), ranges.insert(30, 40), ranges.bytes()), (10, 10, 20));
        assert_eq!(ranges.insert(15, 32), 10);
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [(10, 40)]);
    }

    proptest! {
        /// Ranges behave as a set of bytes does.
        #[test]
        fn are_a_set(steps in proptest::collection::vec((0u64..60, 0u64..6, 0u64..8), 0..60)) {
            let mut ranges = Ranges::default();
            let mut set = std::collections::BTreeSet::new();
            for (from, length, edge) in steps {
                let before = set.len();
                set.extend(from..from + length);
                prop_assert_eq!(ranges.insert(from, from + length), (set.len() - before) as u64);
                let below = set.range(..edge).count() as u64;
                prop_assert_eq!(ranges.bytes_below(edge), below);
                prop_assert_eq!(ranges.drop_below(edge), below);
                set.retain(|byte| *byte >= edge);
                prop_assert_eq!(ranges.bytes(), set.len() as u64);
                prop_assert_eq!(ranges.is_empty(), set.is_empty());
                prop_assert_eq!(ranges.end(), set.last().map_or(0, |byte| byte + 1));
                let listed: Vec<_> = ranges.iter().flat_map(|(from, to)| from..to).collect();
                prop_assert_eq!(listed, set.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(ranges.containing(from).is_some(), set.contains(&from));
                let (start, end) = ranges.gap(from);
                prop_assert_eq!(start, (from..).find(|byte| !set.contains(byte)).unwrap());
                prop_assert_eq!(end, set.range(start..).next().copied().unwrap_or(u64::MAX));
                prop_assert!(ranges.ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
            }
        }
    }
}
