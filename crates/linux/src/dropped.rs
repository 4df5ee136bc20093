//! [`Dropped`]: what a service's classes dropped, those among them that are gone.
//!
//! Problem: a service has classes that come and go with the rate-limited destinations, each with a
//! counter of its own. The sum over the existing classes falls when a class is deleted, and a
//! monitoring system takes that for a restart. Approach: each look adds the increase of a class's
//! counter since the last look; a class is looked at once more before it is deleted.
//!
//! Worked example: classes 0x1002 and 0x3007 of slot 2 have dropped 5 and 3: 8. Then 0x3007 goes,
//! and comes again with 1, and 0x1002 has 6: 10.

use std::collections::BTreeMap;

/// Totals of drops by service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dropped {
    /// By class: its counter at the last look.
    seen: BTreeMap<u16, u32>,
    /// By the service's slot, `None` for unclassified traffic.
    totals: BTreeMap<Option<u32>, u64>,
}

impl Dropped {
    /// Takes note of all classes that there are: number, the service's slot, counter.
    pub(crate) fn look(&mut self, classes: impl Iterator<Item = (u16, Option<u32>, u32)>) {
        let before = std::mem::take(&mut self.seen);
        for (minor, slot, drops) in classes {
            // One that has less was made anew meanwhile.
            let known = before.get(&minor).copied().filter(|known| *known <= drops).unwrap_or(0);
            *self.totals.entry(slot).or_default() += u64::from(drops - known);
            self.seen.insert(minor, drops);
        }
    }

    /// A class is deleted: one of the same number counts from zero.
    pub(crate) fn gone(&mut self, minor: u16) {
        self.seen.remove(&minor);
    }

    /// Of a service, or of unclassified traffic.
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
        dropped.look([(0x1002, slot, 5), (0x3007, slot, 3), (2, None, 7)].into_iter());
        assert_eq!((dropped.of(slot), dropped.of(None)), (8, 7));
        dropped.look([(0x1002, slot, 5), (2, None, 7)].into_iter());
        assert_eq!(dropped.of(slot), 8, "0x3007 has gone");
        dropped.look([(0x1002, slot, 6), (0x3007, slot, 1), (2, None, 7)].into_iter());
        assert_eq!((dropped.of(slot), dropped.of(None)), (10, 7));
        // Deleted and made anew between two looks, with as many drops as before.
        dropped.gone(0x3007);
        dropped.look([(0x1002, slot, 6), (0x3007, slot, 1), (2, None, 7)].into_iter());
        assert_eq!(dropped.of(slot), 11);
        assert_eq!(dropped.of(Some(3)), 0);
    }
}
