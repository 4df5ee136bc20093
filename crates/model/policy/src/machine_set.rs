//! [`MachineSet`]: the machines on which a service runs.
//!
//! Problem: a policy may have 100,000 services, each on some of 100,000 machines. Approach: machines of a rack have
//! adjacent ids, so a set is a list of ranges of ids, mostly one for each range of names in the file.
//!
//! Worked example: `["m[1-4]", m7]` of the machines `m1` to `m10` is the ranges 0..4 and 6..7.

use std::ops::Range;
use weir_network::{Network, Rack};
use weir_units::{MachineId, RackId};

/// Machines as ranges of ids, ascending, with a gap between two ranges.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct MachineSet {
    ranges: Vec<Range<u32>>,
}

impl MachineSet {
    /// The set of these machines, in any order.
    pub fn new(mut ids: Vec<MachineId>) -> Self {
        ids.sort_unstable();
        let mut ranges: Vec<Range<u32>> = Vec::new();
        for MachineId(id) in ids {
            match ranges.last_mut() {
                Some(last) if id <= last.end => last.end = last.end.max(id + 1),
                _ => ranges.push(id..id + 1),
            }
        }
        Self { ranges }
    }
    /// The ranges of ids, ascending.
    pub fn ranges(&self) -> &[Range<u32>] {
        &self.ranges
    }
    /// Whether a machine is in it.
    pub fn contains(&self, machine: MachineId) -> bool {
        self.overlaps(&(machine.0..machine.0 + 1))
    }
    /// Whether a machine of these ids is in it.
    pub fn overlaps(&self, ids: &Range<u32>) -> bool {
        let at = self.ranges.partition_point(|range| range.end <= ids.start);
        self.ranges.get(at).is_some_and(|range| range.start < ids.end)
    }
    /// How many machines are in it.
    pub fn count(&self) -> u64 {
        self.ranges.iter().map(|range| u64::from(range.end - range.start)).sum()
    }
    /// The union with another set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut all: Vec<Range<u32>> = self.ranges.iter().chain(&other.ranges).cloned().collect();
        all.sort_unstable_by_key(|range| range.start);
        let mut ranges: Vec<Range<u32>> = Vec::new();
        for range in all {
            match ranges.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => ranges.push(range),
            }
        }
        Self { ranges }
    }
    /// How many of these ids are in it.
    pub fn count_in(&self, ids: &Range<u32>) -> usize {
        let within = |range: &Range<u32>| range.end.min(ids.end).saturating_sub(range.start.max(ids.start)) as usize;
        self.ranges.iter().map(within).sum()
    }
    /// The first machine that is not in another set.
    pub fn first_outside(&self, other: &Self) -> Option<MachineId> {
        let outside = |range: &Range<u32>| {
            let at = other.ranges.partition_point(|of| of.end <= range.start);
            match other.ranges.get(at).filter(|of| of.start <= range.start) {
                None => Some(range.start),
                Some(of) => (of.end < range.end).then_some(of.end),
            }
        };
        self.ranges.iter().find_map(outside).map(MachineId)
    }
    /// The racks with a machine of the set, as a set of ranges of rack ids.
    pub(crate) fn racks(&self, network: &Network) -> Vec<Range<u32>> {
        let mut racks: Vec<Range<u32>> = Vec::new();
        for (rack, RackId(id)) in network.racks().iter().zip((0..).map(RackId)) {
            if !self.overlaps(&ids_of(rack)) {
                continue;
            }
            match racks.last_mut() {
                Some(last) if last.end == id => last.end += 1,
                _ => racks.push(id..id + 1),
            }
        }
        racks
    }
}

/// The ids of a rack's machines, which are adjacent.
pub(crate) fn ids_of(rack: &Rack) -> Range<u32> {
    match (rack.machines().first(), rack.machines().last()) {
        (Some(first), Some(last)) => first.0..last.0 + 1,
        _ => 0..0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn worked_example() {
        let set = MachineSet::new([3, 0, 6, 1, 2].map(MachineId).to_vec());
        assert_eq!(set.ranges(), [0..4, 6..7]);
        assert!(set.contains(MachineId(6)) && !set.contains(MachineId(5)));
    }

    proptest! {
        #[test]
        fn is_the_set_of_its_ids(
            ids in proptest::collection::vec(0u32..40, 0..30),
            others in proptest::collection::vec(0u32..40, 0..60),
        ) {
            let set = |ids: &[u32]| MachineSet::new(ids.iter().copied().map(MachineId).collect());
            let a: BTreeSet<u32> = ids.iter().copied().collect();
            let b: BTreeSet<u32> = others.iter().copied().collect();
            for id in 0..42 {
                prop_assert_eq!(set(&ids).contains(MachineId(id)), a.contains(&id));
            }
            prop_assert_eq!(set(&ids).count(), a.len() as u64);
            let all: Vec<u32> = a.union(&b).copied().collect();
            prop_assert_eq!(set(&ids).union(&set(&others)), set(&all));
            prop_assert_eq!(set(&ids).first_outside(&set(&others)), a.difference(&b).next().copied().map(MachineId));
            prop_assert!(set(&ids).ranges().windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }
}
