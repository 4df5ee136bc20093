//! [`Table`]: the groups in the programs' map, for the classifier in use and the one that follows it.
//!
//! An entry has a set of globs for each of the two classifiers, so that a packet of the classifier in use finds its
//! groups while those of the next are written. Order of calls: [`Table::begin_change`]; [`Table::set`] for either
//! classifier, which keeps the sets of the other one; the classifiers change over; [`Table::end_change`]. From then on
//! [`Table::set`] empties the sets of the other classifier. Entries without a set are removed.
//!
//! A deleted group keeps its entry: its sockets may still send, for as long as a process has them. Ids are not reused.
//! When the map is full the group that was deleted first leaves it.
//!
//! Worked example: the group 7 has bit 0 in classifier 0: `[1, 0]`. The next policy has its glob second: `[1, 2]`, then
//! the classifiers change over, then `[0, 2]`.

use super::walk::{Group, set_of};
use crate::maps::Entries;
use aya::maps::MapError;
use std::collections::BTreeMap;
use std::time::Instant;
use weir_datapath::abi::{CGROUPS_MAX, Cgroup, TABLES};
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
    /// Whether the sets of both classifiers are kept.
    is_changing: bool,
    /// The classifier and its globs with which the sets of all deleted groups were written.
    written: Option<(usize, Vec<CgroupGlob>)>,
    /// The most groups of a classifier that exist.
    most: usize,
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
        Ok(Self { entries, ..Self::empty(Box::new(map), CGROUPS_MAX as usize) })
    }

    /// For so many groups of each classifier.
    fn empty(map: Box<dyn Store>, most: usize) -> Self {
        let room = most * TABLES as usize;
        Self { map, entries: BTreeMap::new(), is_changing: false, written: None, most, room }
    }

    /// From now on the sets of both classifiers are kept.
    pub(crate) fn begin_change(&mut self) {
        (self.is_changing, self.written) = (true, None);
    }

    /// From now on only the sets of the classifier of the last [`Table::set`] are kept.
    pub(crate) fn end_change(&mut self) {
        self.is_changing = false;
    }

    /// Ends a change to the classifier `index`, which is not put in force, and removes its sets.
    pub(crate) fn abandon_change(&mut self, index: u32) -> Result<(), MapError> {
        self.end_change();
        let sets: Vec<(u64, Cgroup)> = self.entries.iter().map(|(id, entry)| (*id, entry.filters)).collect();
        for (id, mut filters) in sets {
            filters.filters[index as usize % 2] = 0;
            self.write(id, filters)?;
        }
        Ok(())
    }

    /// Sets the groups of the classifier `index`, which have `globs`. Deleted groups stay until there is no room.
    /// Returns the number of groups that have no entry.
    pub(crate) fn set(
        &mut self,
        found: &BTreeMap<u64, Group>,
        globs: &[CgroupGlob],
        index: u32,
        now: Instant,
    ) -> Result<usize, MapError> {
        let index = index as usize % 2;
        // Ids grow: the groups that were made last are left out.
        let kept: BTreeMap<u64, &Group> = found.iter().take(self.most).map(|(id, group)| (*id, group)).collect();
        self.set_absent(&kept, globs, index, now)?;
        let mut new = Vec::new();
        for (id, group) in &kept {
            let Some(entry) = self.entries.get_mut(id) else {
                new.push((*id, *group));
                continue;
            };
            entry.gone = None;
            entry.path.get_or_insert_with(|| group.path.clone());
            let before = entry.filters;
            self.write(*id, self.sets(index, group.globs, before))?;
        }
        let mut without = found.len() - kept.len();
        let is_full = self.entries.len() + new.len() > self.room;
        let mut removable = if is_full { self.removable() } else { Vec::new() }.into_iter();
        for (id, group) in new {
            if self.entries.len() >= self.room {
                let Some(oldest) = removable.next() else {
                    without += 1;
                    continue;
                };
                self.write(oldest, Cgroup::default())?;
            }
            let filters = self.sets(index, group.globs, Cgroup::default());
            self.map.set(id, filters)?;
            self.entries.insert(id, Entry { filters, path: Some(group.path.clone()), gone: None });
        }
        Ok(without)
    }

    /// Writes the sets of groups that were not found.
    fn set_absent(
        &mut self,
        kept: &BTreeMap<u64, &Group>,
        globs: &[CgroupGlob],
        index: usize,
        now: Instant,
    ) -> Result<(), MapError> {
        let is_written = self.written.as_ref().is_some_and(|(written, with)| *written == index && with == globs);
        let entries = self.entries.iter().filter(|(id, entry)| {
            let is_done = is_written && entry.gone.is_some();
            !is_done && !kept.contains_key(id)
        });
        let absent: Vec<u64> = entries.map(|(id, _)| *id).collect();
        for id in absent {
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            // While both classifiers have sets, it may be a group of the other one.
            if !self.is_changing {
                entry.gone.get_or_insert(now);
            }
            let own = entry.path.as_ref().map_or(0, |path| set_of(globs, path));
            let before = entry.filters;
            self.write(id, self.sets(index, own, before))?;
        }
        self.written = (!self.is_changing).then(|| (index, globs.to_vec()));
        Ok(())
    }

    /// The sets of an entry: a new one of the classifier `index`, and the other one while it is kept.
    fn sets(&self, index: usize, own: u64, before: Cgroup) -> Cgroup {
        let mut filters = if self.is_changing { before.filters } else { [0; 2] };
        filters[index] = own;
        Cgroup { filters }
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

    /// The entries that may leave a full map: deleted groups, the first ones first, then groups of an earlier agent
    /// that were not found.
    fn removable(&self) -> Vec<u64> {
        let entries = self.entries.iter().filter(|(_, entry)| entry.gone.is_some() || entry.path.is_none());
        let mut entries: Vec<_> = entries.map(|(id, entry)| (entry.gone.is_none(), entry.gone, *id)).collect();
        entries.sort_unstable();
        entries.into_iter().map(|(_, _, id)| id).collect()
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) -> Result<(), MapError> {
        while let Some((id, _)) = self.entries.first_key_value() {
            self.write(*id, Cgroup::default())?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
pub(super) mod tests;
