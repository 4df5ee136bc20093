//! [`place`]: a new set of keys in the map of a running program.
//!
//! Problem: during a change of keys, packets must be verified and signed without a gap. Approach: a key that stays keeps
//! its index, since an entry that is being written verifies nothing. New keys take other indexes, then the caller
//! switches the index of the signing key, and the rest is cleared. With more than [`KEYS_MAX`] keys in both sets
//! together, some old ones are overwritten first.
//!
//! Worked example: keys A, B become B, C: B stays at 1, C takes 0 in place of A, the signing key's index becomes 1.

use crate::KEYS_MAX;
use crate::loader::LoaderError;
use crate::maps::Values;
use crate::settings::FeedbackKey;
use weir_datapath::abi::Key;

/// The indexes of keys in a map, in their order.
pub(crate) struct Placed(Vec<usize>);

/// Writes the keys that a map lacks. [`Placed::clear_others`] is to follow.
///
/// # Panics
/// With more than [`KEYS_MAX`] keys, or none.
pub(crate) fn place(map: &mut Values<Key>, keys: &[FeedbackKey]) -> Result<Placed, LoaderError> {
    assert!((1..=KEYS_MAX).contains(&keys.len()), "{} keys", keys.len());
    let there: Vec<Key> = (0..KEYS_MAX as u32).map(|index| map.get(index)).collect::<Result<_, _>>()?;
    let is = |entry: &Key, key: &FeedbackKey| entry.known == 1 && entry.id == key.id && entry.sip == key.key.raw();
    let mut indexes: Vec<Option<usize>> =
        keys.iter().map(|key| there.iter().position(|entry| is(entry, key))).collect();
    for (key, at) in keys.iter().zip(0..) {
        if indexes[at].is_none() {
            let can_be = |index: &usize| !indexes.contains(&Some(*index));
            let empty = (0..KEYS_MAX).filter(|index| there[*index].known == 0).find(can_be);
            let free = empty.or_else(|| (0..KEYS_MAX).find(can_be)).expect("at least as many entries as keys");
            map.set(free as u32, Key::default())?;
            map.set(free as u32, Key { sip: key.key.raw(), id: key.id, known: 1, reserved: 0 })?;
            indexes[at] = Some(free);
        }
    }
    Ok(Placed(indexes.into_iter().map(|index| index.expect("assigned above")).collect()))
}

impl Placed {
    /// The index of the key that signs.
    pub(crate) fn signing(&self) -> u32 {
        self.0[0] as u32
    }

    /// Clears the entries of all other keys.
    pub(crate) fn clear_others(&self, map: &mut Values<Key>) -> Result<(), LoaderError> {
        let others = (0..KEYS_MAX).filter(|index| !self.0.contains(index));
        Ok(others.map(|index| index as u32).try_for_each(|index| map.set(index, Key::default()))?)
    }
}
