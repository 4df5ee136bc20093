//! [`Table`]: the groups in the programs' map, for the classifier in use and the one that follows it.
//!
//! An entry has a set of globs for each of the two classifiers, so that a packet of the classifier in use finds its
//! groups while those of the next are written. [`Table::set`] with `beside` writes one set and keeps the other;
//! without it, the other one is emptied. Entries without a set are removed.
//!
//! Worked example: the group 7 has bit 0 in classifier 0: `[1, 0]`. The next policy has its glob second: `[1, 2]`, then
//! the classifiers change over, then `[0, 2]`.

use super::KEPT;
use super::walk::{Group, including};
use crate::maps::Entries;
use aya::maps::MapError;
use std::collections::BTreeMap;
use std::time::Instant;
use weir_datapath::abi::{CGROUPS_MAX, Cgroup};
use weir_policy::CgroupGlob;

/// A map of sets by group.
pub(crate) trait Store: Send {
    fn set(&mut self, id: u64, filters: Cgroup) -> Result<(), MapError>;
    fn remove(&mut self, id: u64) -> Result<(), MapError>;
}

impl Store for Entries<u64, Cgroup> {
    fn set(&mut self, id: u64, filters: Cgroup) -> Result<(), MapError> {
        self.insert(id, filters)
    }
    fn remove(&mut self, id: u64) -> Result<(), MapError> {
        Self::remove(self, id)
    }
}

/// An entry of the map.
#[derive(Debug, Clone)]
struct Entry {
    filters: Cgroup,
    /// Unknown of entries of an earlier agent that were not found since.
    path: Option<String>,
    /// The time at which the group was first not found.
    gone: Option<Instant>,
}

/// The entries of the map.
pub(crate) struct Table {
    map: Box<dyn Store>,
    entries: BTreeMap<u64, Entry>,
    /// The most entries.
    room: usize,
}

impl Table {
    /// From the map of an earlier agent, whose sets are kept for the classifier in use.
    pub(crate) fn open(map: Entries<u64, Cgroup>) -> Result<Self, MapError> {
        let mut entries = BTreeMap::new();
        for id in map.keys()? {
            entries.insert(id, Entry { filters: map.get(id)?, path: None, gone: None });
        }
        Ok(Self { map: Box::new(map), entries, room: CGROUPS_MAX as usize })
    }

    /// Sets the groups of the classifier `index`, which have `globs`; `beside` those of the other classifier. Deleted
    /// groups stay for [`KEPT`], unless there is no room. Returns the number of groups that have no entry.
    pub(crate) fn set(
        &mut self,
        found: &BTreeMap<u64, Group>,
        globs: &[CgroupGlob],
        index: u32,
        beside: bool,
        now: Instant,
    ) -> Result<usize, MapError> {
        let index = index as usize % 2;
        let sets = |own: u64, before: Option<&Entry>| {
            let other = before.filter(|_| beside).map_or(0, |entry| entry.filters.filters[1 - index]);
            let mut filters = [other; 2];
            filters[index] = own;
            Cgroup { filters }
        };
        let absent: Vec<u64> = self.entries.keys().filter(|id| !found.contains_key(id)).copied().collect();
        for id in absent {
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            let since = *entry.gone.get_or_insert(now);
            let own = entry.path.as_ref().filter(|_| now.saturating_duration_since(since) < KEPT);
            let filters = sets(own.map_or(0, |path| including(globs, path)), Some(entry));
            self.write(id, filters)?;
        }
        let mut without = 0;
        for (id, group) in found {
            let filters = sets(group.globs, self.entries.get(id));
            if !self.entries.contains_key(id) {
                if self.entries.len() >= self.room && !self.make_room(beside)? {
                    without += 1;
                    continue;
                }
                self.map.set(*id, filters)?;
                self.entries.insert(*id, Entry { filters, path: None, gone: None });
            }
            self.write(*id, filters)?;
            if let Some(entry) = self.entries.get_mut(id) {
                (entry.path, entry.gone) = (Some(group.path.clone()), None);
            }
        }
        Ok(without)
    }

    /// Writes an existing entry if it differs, or removes it if its sets are empty.
    fn write(&mut self, id: u64, filters: Cgroup) -> Result<(), MapError> {
        if filters == Cgroup::default() {
            self.map.remove(id)?;
            self.entries.remove(&id);
        } else if let Some(entry) = self.entries.get_mut(&id).filter(|entry| entry.filters != filters) {
            self.map.set(id, filters)?;
            entry.filters = filters;
        }
        Ok(())
    }

    /// Removes the group that was deleted first; `false` if there is none, or the classifier in use may need it.
    fn make_room(&mut self, beside: bool) -> Result<bool, MapError> {
        let gone = |(id, entry): (&u64, &Entry)| Some((entry.gone?, *id));
        let Some((_, id)) = self.entries.iter().filter_map(gone).min().filter(|_| !beside) else { return Ok(false) };
        self.write(id, Cgroup::default())?;
        Ok(true)
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) -> Result<(), MapError> {
        while let Some((id, _)) = self.entries.first_key_value() {
            self.write(*id, Cgroup::default())?;
        }
        Ok(())
    }

    /// Groups that exist.
    pub(crate) fn groups(&self) -> usize {
        self.entries.values().filter(|entry| entry.gone.is_none()).count()
    }

    /// The time at which the next deleted group leaves the map.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.entries.values().filter_map(|entry| Some(entry.gone? + KEPT)).min()
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
