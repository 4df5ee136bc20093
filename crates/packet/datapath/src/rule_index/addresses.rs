//! The search for an address: binary search on prefix lengths (`datapath/rule_index.h`).
//!
//! Problem: of all prefixes that contain an address, the rules in the order of the policy; the longest prefix alone is
//! not enough, as an earlier rule may have a shorter one. Approach: the lengths of one family form a balanced tree of
//! steps. A prefix is an entry at the step of its length, and a marker at each step of a shorter length on the way
//! there. The list of an entry or marker has the rules of all prefixes that contain it.
//!
//! Worked example: lengths 8, 16 and 32 form a tree with 16 above 8 and 32. The prefix 10.1.0.7/32 is an entry at step
//! 32 and the marker 10.1.0.0/16 at step 16, whose list has the rules of 10.1.0.0/16 and 10.0.0.0/8, if there are any.
//!
//! Source: Waldvogel et al., SIGCOMM 1997, sections 3 and 4.

use super::{Builder, Longest, Unindexed};
use crate::abi::{INDEX_STEP_SHIFT, IndexSlot, IndexStep, RULE_ADDRESS, Rule};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::Ipv6Addr;

/// Bits of an IPv6 address, and of the part that precedes an IPv4 address in it.
const BITS: u8 = 128;
const MAPPED: u8 = 96;

/// A prefix of 128-bit addresses of one family; one of IPv4 is 96 bits longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Prefix {
    family: u8,
    bits: u128,
    length: u8,
}

impl Prefix {
    /// That of a rule with an address.
    pub(super) fn of(rule: &Rule) -> Self {
        let length = rule.mask.iter().map(|word| word.count_ones()).sum::<u32>() as u8;
        Self { family: rule.family, bits: host_order(rule.address), length }
    }

    /// Whether it contains all addresses of its family.
    pub(super) fn is_any(&self) -> bool {
        self.length == if self.family == 4 { MAPPED } else { 0 }
    }

    pub(super) fn contains(&self, other: &Self) -> bool {
        self.family == other.family && self.length <= other.length && other.cut(self.length) == *self
    }

    /// The prefix of a shorter length that contains it.
    fn cut(&self, length: u8) -> Self {
        Self { bits: self.bits & mask(length), length, ..*self }
    }
}

impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let address = Ipv6Addr::from(self.bits);
        match address.to_ipv4_mapped().filter(|_| self.family == 4) {
            Some(address) => write!(f, "{address}/{}", self.length - MAPPED),
            None => write!(f, "{address}/{}", self.length),
        }
    }
}

fn mask(length: u8) -> u128 {
    u128::MAX.checked_shl((BITS - length).into()).unwrap_or(0)
}

/// The words of an address in network order as a number, and the reverse.
fn host_order(words: [u64; 2]) -> u128 {
    u128::from(u64::from_be(words[0])) << 64 | u128::from(u64::from_be(words[1]))
}

fn network_order(bits: u128) -> [u64; 2] {
    [(bits >> 64) as u64, bits as u64].map(u64::to_be)
}

/// A step in the state of a search.
fn shifted(step: u16) -> u32 {
    u32::from(step) << INDEX_STEP_SHIFT
}

/// The steps of one family's searches by length: a balanced tree.
#[derive(Debug, Default)]
struct Steps {
    root: u16,
    /// By length.
    steps: BTreeMap<u8, Step>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Step {
    number: u16,
    /// The next step after a hit and after a miss; 0: none.
    longer: u16,
    shorter: u16,
}

impl Steps {
    /// The tree of these lengths, in order, whose numbers follow `first`.
    fn new(lengths: &[u8], first: u16) -> Self {
        let mut tree = Self::default();
        tree.root = tree.grow(lengths, &mut { first });
        tree
    }

    /// Adds the tree of these lengths; returns its root. Of two lengths the longer is the root: host addresses are
    /// found in one step.
    fn grow(&mut self, lengths: &[u8], next: &mut u16) -> u16 {
        let middle = lengths.len() / 2;
        let Some(length) = lengths.get(middle) else { return 0 };
        let number = *next;
        *next += 1;
        let shorter = self.grow(&lengths[..middle], next);
        let longer = self.grow(&lengths[middle + 1..], next);
        self.steps.insert(*length, Step { number, longer, shorter });
        number
    }

    /// The steps on the way to a length, with the steps that follow a hit: markers, and the length's own with none.
    fn way(&self, to: u8) -> Vec<(u8, Step)> {
        let by_number = |number: u16| self.steps.iter().find(|(_, step)| step.number == number);
        let mut way = Vec::new();
        let mut at = by_number(self.root);
        while let Some((&length, &step)) = at {
            if length <= to {
                let longer = if length == to { 0 } else { step.longer };
                way.push((length, Step { longer, ..step }));
            }
            at = match length.cmp(&to) {
                std::cmp::Ordering::Less => by_number(step.longer),
                std::cmp::Ordering::Equal => None,
                std::cmp::Ordering::Greater => by_number(step.shorter),
            };
        }
        way
    }
}

impl Builder<'_> {
    /// Writes the steps, and adds the entries, of the rules that are indexed by their addresses.
    pub(super) fn addresses(&mut self, numbers: &[u16]) -> Result<Longest, Unindexed> {
        let mut longest = Longest::default();
        let mut first = 1;
        for (of, family) in [4, 6].into_iter().enumerate() {
            let mut rules = HashMap::<Prefix, Vec<u16>>::new();
            for &number in numbers {
                let prefix = Prefix::of(&self.rules[usize::from(number)]);
                if prefix.family == family {
                    rules.entry(prefix).or_default().push(number);
                }
            }
            let lengths: Vec<u8> =
                rules.keys().map(|prefix| prefix.length).collect::<BTreeSet<_>>().into_iter().collect();
            let steps = Steps::new(&lengths, first);
            first += lengths.len() as u16;
            self.index.search[of] = shifted(steps.root);
            for (&length, step) in &steps.steps {
                self.index.steps[usize::from(step.number)] =
                    IndexStep { mask: network_order(mask(length)), miss: shifted(step.shorter), reserved: 0 };
            }
            self.prefixes(&rules, &lengths, &steps, &mut longest)?;
        }
        Ok(longest)
    }

    /// Adds the entries and markers of one family.
    fn prefixes(
        &mut self,
        rules: &HashMap<Prefix, Vec<u16>>,
        lengths: &[u8],
        steps: &Steps,
        longest: &mut Longest,
    ) -> Result<(), Unindexed> {
        let ways: BTreeMap<u8, Vec<(u8, Step)>> = lengths.iter().map(|length| (*length, steps.way(*length))).collect();
        // In an order of their own: the table does not depend on that of a hash map. A marker's next step prevails.
        let mut entries = BTreeMap::<Prefix, (u16, u16)>::new();
        for prefix in rules.keys() {
            for (length, step) in &ways[&prefix.length] {
                let (_, next) = entries.entry(prefix.cut(*length)).or_insert((step.number, 0));
                *next = (*next).max(step.longer);
            }
        }
        for (prefix, (kind, next)) in entries {
            let containing = lengths.iter().filter(|length| **length <= prefix.length);
            let containing = containing.filter_map(|length| rules.get(&prefix.cut(*length)));
            let numbers: BTreeSet<u16> = containing.flatten().copied().collect();
            let list = self.list(numbers, RULE_ADDRESS, longest, || format!("address {prefix}"))?;
            let key = network_order(prefix.bits);
            self.entries.push(IndexSlot { key, kind: kind.into(), found: shifted(next) | u32::from(list) });
        }
        Ok(())
    }
}

/// For each of these prefixes, the most rules that contain one address in it: of the prefixes around and within it.
pub(super) fn crowds(prefixes: impl IntoIterator<Item = Prefix>) -> HashMap<Prefix, usize> {
    let mut counts = BTreeMap::<Prefix, usize>::new();
    for prefix in prefixes {
        *counts.entry(prefix).or_default() += 1;
    }
    let mut crowds = HashMap::new();
    // In order, prefixes follow those that contain them: the stack has those around the next one.
    let mut around: Vec<(Prefix, usize, usize)> = Vec::new();
    let leave = |around: &mut Vec<(Prefix, usize, usize)>, crowds: &mut HashMap<Prefix, usize>| {
        let (prefix, _, most) = around.pop().expect("the caller checked");
        crowds.insert(prefix, most);
        if let Some((_, _, outer)) = around.last_mut() {
            *outer = most.max(*outer);
        }
    };
    for (prefix, count) in counts {
        while around.last().is_some_and(|(outer, _, _)| !outer.contains(&prefix)) {
            leave(&mut around, &mut crowds);
        }
        let sum = around.last().map_or(0, |(_, sum, _)| *sum) + count;
        around.push((prefix, sum, sum));
    }
    while !around.is_empty() {
        leave(&mut around, &mut crowds);
    }
    crowds
}
