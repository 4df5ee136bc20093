//! [`place`]: a new set of keys in the map of a running program.
//!
//! Problem: during a change of keys, packets must be verified and signed without a gap. Approach: a key that stays
//! keeps its index, since an entry that is being written verifies nothing. New keys take other indexes, then the
//! caller switches the index of the signing key, and the rest is cleared. With more than [`KEYS_MAX`] keys in both
//! sets together, some old ones are overwritten first.
//!
//! Worked example: keys A, B become B, C: B stays at 1, C takes 2, the signing key's index becomes 1, and A at 0 is
//! cleared.

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
    let indexes = assign(&there, keys);
    for (key, &index) in keys.iter().zip(&indexes) {
        if !is(&there[index], key) {
            map.set(index as u32, Key::default())?;
            map.set(index as u32, Key { sip: key.key.raw(), id: key.id, known: 1, reserved: 0 })?;
        }
    }
    Ok(Placed(indexes))
}

fn is(entry: &Key, key: &FeedbackKey) -> bool {
    entry.known == 1 && entry.id == key.id && entry.sip == key.key.raw()
}

/// The indexes of keys: that of a key that is there, else an empty one, else one of a key that goes.
fn assign(there: &[Key], keys: &[FeedbackKey]) -> Vec<usize> {
    let mut indexes: Vec<Option<usize>> =
        keys.iter().map(|key| there.iter().position(|entry| is(entry, key))).collect();
    let mut free: Vec<usize> = (0..there.len()).filter(|index| !indexes.contains(&Some(*index))).collect();
    free.sort_by_key(|index| (there[*index].known, *index));
    let mut free = free.into_iter();
    let mut next = || free.next().expect("at least as many entries as keys");
    indexes.iter_mut().map(|index| index.take().unwrap_or_else(&mut next)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use weir_datapath::SipKey;

    #[test]
    fn keys_that_stay_keep_their_indexes() {
        let key = |id: u16| FeedbackKey { id, key: SipKey::new([id as u8; 16]) };
        let entry = |id: u16| Key { sip: key(id).key.raw(), id, known: 1, reserved: 0 };
        let there = [entry(1), entry(2), Key::default(), Key::default()];
        let of = |ids: &[u16]| assign(&there, &ids.iter().map(|id| key(*id)).collect::<Vec<_>>());
        assert_eq!((of(&[2, 1]), of(&[2, 3]), of(&[3, 1, 4])), (vec![1, 0], vec![1, 2], vec![2, 0, 3]));
        // No empty entry is left for the last two.
        assert_eq!(of(&[3, 4, 5, 6]), [2, 3, 0, 1]);
        // Another key of the same number.
        assert_eq!(of(&[1, 2]), [0, 1]);
        assert_eq!(assign(&there, &[FeedbackKey { id: 1, key: SipKey::new([9; 16]) }]), [2]);
    }
}
