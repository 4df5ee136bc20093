//! [`Dropped`]: packets that a service's classes have dropped, including deleted classes.
//!
//! Problem: classes are created and deleted with the rate-limited destinations, each with a counter
//! of its own. The sum over the existing classes falls when a class is deleted, and a monitoring
//! system takes that for a restart. Approach: each reading adds the increase of a class's counter
//! since the last reading; a class is read once more before it is deleted.
//!
//! Worked example: classes 0x1002 and 0x3007 of slot 2 have dropped 5 and 3: 8. Then 0x3007 is
//! deleted and created again, and has dropped 1, and 0x1002 has dropped 6: 10.

use std::collections::BTreeMap;

/// Totals of drops by service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dropped {
    /// By class: its counter at the last reading.
    seen: BTreeMap<u16, u32>,
    /// By the service's slot, `None` for unclassified traffic.
    totals: BTreeMap<Option<u32>, u64>,
}

impl Dropped {
    /// Adds a reading of all existing classes: minor number, the service's slot, counter.
    pub(crate) fn read(&mut self, classes: impl Iterator<Item = (u16, Option<u32>, u32)>) {
        let before = std::mem::take(&mut self.seen);
        for (minor, slot, drops) in classes {
            // A counter that has fallen is that of a new class of the same number.
            let known = before.get(&minor).copied().filter(|known| *known <= drops).unwrap_or(0);
            *self.totals.entry(slot).or_default() += u64::from(drops - known);
            self.seen.insert(minor, drops);
        }
    }

    /// Records that a class was deleted: a new class of the same number counts from zero.
    pub(crate) fn deleted(&mut self, minor: u16) {
        self.seen.remove(&minor);
    }

    /// The total of a service, or of unclassified traffic.
    pub(crate) fn of(&self, slot: Option<u32>) -> u64 {
        self.totals.get(&slot).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_monotonic() {
        let mut dropped = Dropped::default();
        let slot = Some(2);
        dropped.read([(0x1002, slot, 5), (0x3007, slot, 3), (2, None, 7)].into_iter());
        assert_eq!((dropped.of(slot), dropped.of(None)), (8, 7));
        dropped.read([(0x1002, slot, 5), (2, None, 7)].into_iter());
        assert_eq!(dropped.of(slot), 8, "0x3007 was deleted");
        dropped.read([(0x1002, slot, 6), (0x3007, slot, 1), (2, None, 7)].into_iter());
        assert_eq!((dropped.of(slot), dropped.of(None)), (10, 7));
        // Deleted and created again between two readings, with as many drops as before.
        dropped.deleted(0x3007);
        dropped.read([(0x1002, slot, 6), (0x3007, slot, 1), (2, None, 7)].into_iter());
        assert_eq!(dropped.of(slot), 11);
        assert_eq!(dropped.of(Some(3)), 0);
    }
}
