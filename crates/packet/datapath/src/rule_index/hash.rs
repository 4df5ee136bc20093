//! The hash table without collisions (`datapath/rule_index.h`).
//!
//! Problem: a lookup is to cost the same for every key. Approach: a hash selects a bucket; each bucket has a
//! displacement, such that the keys of all buckets get slots of their own. The largest buckets choose first. Two keys
//! of one bucket whose hashes agree in the slot have no displacement; then another seed is tried.
//!
//! Worked example: keys with the slots 3 and 5 in one bucket, where 3 is taken: displacement 1 gives 4 and 6.
//!
//! Source: Pagh, "Hash and Displace: Efficient Evaluation of Minimal Perfect Hash Functions" (WADS 1999).

use crate::abi::{INDEX_BUCKETS, INDEX_SLOTS, IndexSlot, RuleIndex, index_bucket, index_hash, index_slot_of};

/// Most entries: with a quarter of the slots free, a bucket finds a displacement after a few tries.
const ENTRIES_MAX: usize = INDEX_SLOTS as usize / 4 * 3;
/// Seeds to try. With the most entries one in three succeeds.
const SEEDS: u64 = 64;

/// Places the entries in the table; `None` if they are too many.
pub(super) fn place(index: &mut RuleIndex, entries: &[IndexSlot]) -> Option<()> {
    if entries.len() > ENTRIES_MAX {
        return None;
    }
    let (seed, displacements) = (0..SEEDS).find_map(|seed| Some((seed, displacements(entries, seed)?)))?;
    index.seed = seed;
    index.displacements.copy_from_slice(&displacements);
    for entry in entries {
        let hash = hash(entry, seed);
        let slot = index_slot_of(hash, displacements[index_bucket(hash) as usize].into());
        index.slots[slot as usize] = *entry;
    }
    Some(())
}

fn hash(entry: &IndexSlot, seed: u64) -> u64 {
    index_hash(seed, entry.kind, entry.key[0], entry.key[1])
}

/// The displacement of each bucket; `None` if a bucket has none.
fn displacements(entries: &[IndexSlot], seed: u64) -> Option<Vec<u16>> {
    let mut buckets = vec![Vec::new(); INDEX_BUCKETS as usize];
    for entry in entries {
        let hash = hash(entry, seed);
        buckets[index_bucket(hash) as usize].push(hash);
    }
    let mut order: Vec<usize> = (0..buckets.len()).filter(|bucket| !buckets[*bucket].is_empty()).collect();
    order.sort_by_key(|bucket| std::cmp::Reverse(buckets[*bucket].len()));
    let mut displacements = vec![0; buckets.len()];
    let mut taken = vec![false; INDEX_SLOTS as usize];
    for bucket in order {
        let slots = |displacement: u32| buckets[bucket].iter().map(move |hash| index_slot_of(*hash, displacement));
        let displacement = (0..INDEX_SLOTS).find(|displacement| takes(&mut taken, slots(*displacement)))?;
        displacements[bucket] = displacement as u16;
    }
    Some(displacements)
}

/// Takes all of these slots, or none if one of them is taken or occurs twice.
fn takes(taken: &mut [bool], slots: impl Iterator<Item = u32> + Clone) -> bool {
    for (count, slot) in slots.clone().enumerate() {
        if std::mem::replace(&mut taken[slot as usize], true) {
            slots.take(count).for_each(|slot| taken[slot as usize] = false);
            return false;
        }
    }
    true
}
