//! The index of a classifier's rules: for a value of a packet's field, the rules to compare (`datapath/rule_index.h`).
//!
//! Problem: a packet must not be compared with each of thousands of rules. Approach: each rule is in the lists of one
//! dimension ([`dimensions`]), the one in which the fewest rules share its value; its other fields are compared.
//! A list is in the order of the policy, without rules that an earlier rule of the list covers ([`cover`]). Rules that
//! share their values with too many others are refused.
//!
//! Worked example: `address 10.0.0.1`, `address 10.0.0.2 port 443` and 4,000 filters like them are in 4,000 lists of
//! one or two rules, by address: port 443 would have a list of thousands.
//!
//! Derivation, bounds and measurements: `docs/design/classification.md`.

mod addresses;
mod cover;
mod dimensions;
mod hash;
mod lists;
mod ports;

use crate::abi::{
    COMPARISONS_MAX, GUEST_GLOBS, INDEX_ADDRESSES, INDEX_GLOBS, INDEX_INTERFACES, INDEX_PORTS, INDEX_VNI_KEY,
    INDEX_VNIS, IndexSlot, RULE_CGROUP, RULE_INTERFACE, RULE_VNI, Rule, RuleIndex,
};
use dimensions::Dimension;
use lists::Lists;
use std::collections::BTreeMap;

/// Why rules have no index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unindexed {
    /// A packet may have to be compared with more than [`COMPARISONS_MAX`] rules.
    TooManyComparisons {
        /// The value of the longest list.
        key: String,
        /// How many are.
        listed: usize,
        /// The number of the last of them.
        last: usize,
    },
    /// The lists or the hash table would exceed their space.
    TooLarge,
}

/// The longest lists of a dimension, which bound its comparisons. A rule at the end of a list is not compared.
#[derive(Debug, Default)]
struct Longest {
    /// The lengths of the longest, as many as a packet has at most.
    lengths: [usize; 3],
    /// The first of them: its rules' key, and its last rule.
    key: String,
    last: usize,
}

impl Longest {
    /// Counts a list, once; `key` describes what it is for.
    fn count(&mut self, list: &[u16], key: impl FnOnce() -> String) {
        let length = list.len();
        if length > self.lengths[0] {
            self.key = key();
            self.last = list[length - 1].into();
        }
        let at = self.lengths.partition_point(|longer| *longer >= length);
        if let Some(shorter) = self.lengths.get_mut(at..).filter(|shorter| !shorter.is_empty()) {
            shorter.rotate_right(1);
            shorter[0] = length;
        }
    }

    /// The most comparisons of a packet with so many values that have a list each: its ends, or its globs.
    fn comparisons(&self, values: usize) -> usize {
        self.lengths.iter().take(values).sum()
    }
}

/// An index in the making.
struct Builder<'a> {
    rules: &'a [Rule],
    index: Box<RuleIndex>,
    lists: Lists,
    entries: Vec<IndexSlot>,
}

/// Builds the index of at most [`RULES_MAX`](crate::RULES_MAX) rules.
pub(crate) fn build(rules: &[Rule]) -> Result<Box<RuleIndex>, Unindexed> {
    let reached = reached(rules);
    let indexed = Builder::new(rules).finish(&dimensions::choose(&rules[..reached]));
    if indexed.is_err() && reached <= COMPARISONS_MAX as usize {
        // So few that a packet can be compared with all of them.
        return Builder::new(rules).finish(&vec![Dimension::None; reached]);
    }
    indexed
}

/// The number of rules up to the first that matches all packets: no packet reaches one after it.
fn reached(rules: &[Rule]) -> usize {
    rules.iter().position(|rule| rule.fields == 0).map_or(rules.len(), |all| all + 1)
}

impl<'a> Builder<'a> {
    fn new(rules: &'a [Rule]) -> Self {
        let mut index = bytemuck::zeroed_box::<RuleIndex>();
        index.count = rules.len() as u32;
        index.needs = rules.iter().fold(0, |needs, rule| needs | u32::from(rule.needs));
        index.rules[..rules.len()].copy_from_slice(rules);
        Self { rules, index, lists: Lists::default(), entries: Vec::new() }
    }

    /// The index with each rule in its dimension.
    fn finish(mut self, dimensions: &[Dimension]) -> Result<Box<RuleIndex>, Unindexed> {
        let of = |dimension| {
            let numbers = dimensions.iter().enumerate().filter(move |(_, of)| **of == dimension);
            numbers.map(|(number, _)| number as u16).collect::<Vec<_>>()
        };
        let (ports, addresses) = (of(Dimension::Ports), of(Dimension::Addresses));
        let (vnis, globs, interfaces) = (of(Dimension::Vnis), of(Dimension::Globs), of(Dimension::Interfaces));
        let linear = of(Dimension::None);
        for (bit, numbers) in [
            (INDEX_PORTS, &ports),
            (INDEX_ADDRESSES, &addresses),
            (INDEX_VNIS, &vnis),
            (INDEX_GLOBS, &globs),
            (INDEX_INTERFACES, &interfaces),
        ] {
            self.index.dimensions |= if numbers.is_empty() { 0 } else { bit };
        }
        let longest = [
            (self.ports(&ports)?, 2),
            (self.addresses(&addresses)?, 2),
            (self.vnis(&vnis)?, 1),
            (self.globs(&globs)?, 1),
            (self.interfaces(&interfaces)?, GUEST_GLOBS as usize),
            (self.linear(&linear)?, 1),
        ];
        let comparisons: usize = longest.iter().map(|(of, values)| of.comparisons(*values)).sum();
        if comparisons > COMPARISONS_MAX as usize {
            let most = longest.into_iter().map(|(of, _)| of).max_by_key(|of| of.lengths[0]).expect("six");
            return Err(Unindexed::TooManyComparisons { key: most.key, listed: most.lengths[0], last: most.last });
        }
        hash::place(&mut self.index, &self.entries).ok_or(Unindexed::TooLarge)?;
        self.lists.write(&mut self.index);
        Ok(self.index)
    }

    /// The reference to the list of rules that a packet with `key` may match by the field `given`.
    fn list(
        &mut self,
        numbers: impl IntoIterator<Item = u16>,
        given: u8,
        longest: &mut Longest,
        key: impl Fn() -> String,
    ) -> Result<u16, Unindexed> {
        let (compared, last) = cover::uncovered(self.rules, numbers, given);
        if compared.len() > COMPARISONS_MAX as usize {
            let last = compared[compared.len() - 1].into();
            return Err(Unindexed::TooManyComparisons { key: key(), listed: compared.len(), last });
        }
        let (reference, is_new) = self.lists.add(&compared, last).ok_or(Unindexed::TooLarge)?;
        if is_new {
            longest.count(&compared, key);
        }
        Ok(reference)
    }

    fn vnis(&mut self, numbers: &[u16]) -> Result<Longest, Unindexed> {
        let mut longest = Longest::default();
        for (vni, numbers) in grouped(numbers, |number| self.rules[usize::from(number)].vni) {
            let list = self.list(numbers, RULE_VNI, &mut longest, || format!("VNI {vni}"))?;
            let key = [u64::from(vni), 0];
            self.entries.push(IndexSlot { key, kind: INDEX_VNI_KEY, found: list.into() });
        }
        Ok(longest)
    }

    fn globs(&mut self, numbers: &[u16]) -> Result<Longest, Unindexed> {
        let mut longest = Longest::default();
        for (glob, numbers) in grouped(numbers, |number| self.rules[usize::from(number)].cgroups.trailing_zeros()) {
            let list = self.list(numbers, RULE_CGROUP, &mut longest, || "one glob over control groups".into())?;
            self.index.globs[glob as usize] = list;
        }
        Ok(longest)
    }

    fn interfaces(&mut self, numbers: &[u16]) -> Result<Longest, Unindexed> {
        let mut longest = Longest::default();
        for (glob, numbers) in grouped(numbers, |number| self.rules[usize::from(number)].interface.into()) {
            let list = self.list(numbers, RULE_INTERFACE, &mut longest, || "one glob over interfaces".into())?;
            self.index.interfaces[glob as usize - 1] = list;
        }
        Ok(longest)
    }

    fn linear(&mut self, numbers: &[u16]) -> Result<Longest, Unindexed> {
        let mut longest = Longest::default();
        self.index.linear = self.list(numbers.iter().copied(), 0, &mut longest, || "every packet".into())?.into();
        Ok(longest)
    }
}

/// Numbers by a value of their rules, each group in order.
fn grouped(numbers: &[u16], value: impl Fn(u16) -> u32) -> BTreeMap<u32, Vec<u16>> {
    let mut groups = BTreeMap::<_, Vec<_>>::new();
    for &number in numbers {
        groups.entry(value(number)).or_default().push(number);
    }
    groups
}

#[cfg(test)]
#[path = "rule_index/tests.rs"]
mod tests;
