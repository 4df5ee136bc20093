//! The lists of rules' numbers, one behind the other; equal lists are one.
//!
//! Worked example: rules 3 and 7, of which 7 matches all packets of the list, are the numbers 3 and 0x8007. Rule 7
//! alone needs no list: 0x8007 is the reference.

use crate::abi::{INDEX_END, INDEX_LAST, INDEX_LISTS, RuleIndex};
use std::collections::HashMap;

/// The bit of the end of a list.
const LAST: u16 = INDEX_LAST as u16;

#[derive(Debug)]
pub(super) struct Lists {
    numbers: Vec<u16>,
    known: HashMap<Vec<u16>, u16>,
}

impl Default for Lists {
    /// With the empty list, which is the first.
    fn default() -> Self {
        Self { numbers: vec![INDEX_END as u16], known: HashMap::new() }
    }
}

impl Lists {
    /// The reference to the list of the numbers of rules to compare, and of the one that matches all packets of the
    /// list, if any. Also returns whether the list is new. `None` if there is no space for it.
    pub(super) fn add(&mut self, compared: &[u16], last: Option<u16>) -> Option<(u16, bool)> {
        let end = last.map_or(INDEX_END as u16, |number| number | LAST);
        let list: Vec<u16> = compared.iter().copied().chain([end]).collect();
        let reference = match list[..] {
            [end] if last.is_some() => Some(end),
            [_] => Some(0),
            _ => self.known.get(&list).copied(),
        };
        if let Some(reference) = reference {
            return Some((reference, false));
        }
        let at = self.numbers.len();
        if at + list.len() > INDEX_LISTS as usize {
            return None;
        }
        self.numbers.extend(&list);
        self.known.insert(list, at as u16);
        Some((at as u16, true))
    }

    /// Writes the lists; what is behind them ends every list.
    pub(super) fn write(&self, index: &mut RuleIndex) {
        let (used, rest) = index.lists.split_at_mut(self.numbers.len());
        used.copy_from_slice(&self.numbers);
        rest.fill(INDEX_END as u16);
    }
}
