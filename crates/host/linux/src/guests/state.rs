//! [`State`]: the entries of the programs' maps for the guests of an interface.
//!
//! A guest's row has its globs by both classifiers, the one in use and the next one, so that a packet has the globs of
//! the classifier that it is compared with. Order of calls: [`State::set_classifier`] for the one that is not in use;
//! [`State::replace`]; the classifiers change over; [`State::set_classifier`] with `None` for the earlier one. An
//! address belongs to the port where the bridge has it, so a guest gets no other packets by an address than those that
//! the bridge forwards to it. One guest has at most [`ADDRESSES_MAX`] addresses: it cannot fill the map, nor take the
//! entries of others.
//!
//! Worked example: a guest sends from 100 addresses. The first 64 that the bridge learnt have entries; received packets
//! to the others are of no guest, and [`State::missed`] reports it.

use super::neighbours::{Change, Neighbour};
use super::topology::Topology;
use crate::maps::GuestMaps;
use aya::maps::MapError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weir_datapath::abi::{ANY_VLAN, GUEST_ADDRESSES_MAX, GUESTS_MAX, Guest, GuestAddress, GuestPaths, TABLES};
use weir_datapath::{Classifier, GuestGlob};
use weir_policy::PodSelector;

/// Hardware addresses of one guest: a virtual machine has one for each of its interfaces, and one with containers or
/// a bridge of its own has some tens.
pub(super) const ADDRESSES_MAX: usize = 64;

/// The part of an interface's index that is the number of its packets (`skb->tc_index` has 16 bits).
const NUMBER: u32 = 0xffff;

/// The maps of guests.
pub(super) trait Store: Send {
    fn set_guest(&mut self, index: u32, guest: Option<Guest>) -> Result<(), MapError>;
    fn set_address(&mut self, address: GuestAddress, guest: Option<u32>) -> Result<(), MapError>;
    fn set_paths(&mut self, paths: GuestPaths) -> Result<(), MapError>;
    fn set_number(&mut self, number: u32, guest: Option<u32>) -> Result<(), MapError>;
}

impl Store for GuestMaps {
    fn set_guest(&mut self, index: u32, guest: Option<Guest>) -> Result<(), MapError> {
        match guest {
            Some(guest) => self.guests.insert(index, guest),
            None => self.guests.remove(index),
        }
    }
    fn set_address(&mut self, address: GuestAddress, guest: Option<u32>) -> Result<(), MapError> {
        match guest {
            Some(guest) => self.addresses.insert(address, guest),
            None => self.addresses.remove(address),
        }
    }
    fn set_paths(&mut self, paths: GuestPaths) -> Result<(), MapError> {
        self.paths.set(0, paths)
    }
    fn set_number(&mut self, number: u32, guest: Option<u32>) -> Result<(), MapError> {
        match guest {
            Some(guest) => self.numbers.insert(number, guest),
            None => self.numbers.remove(number),
        }
    }
}

/// A classifier's part of rows.
#[derive(Clone)]
enum Column {
    /// As an earlier agent wrote it.
    Found,
    Of(Option<Arc<Classifier>>),
}

/// An address in the order of maps.
type AddressKey = ([u8; 6], u16, u32);

fn key(address: &GuestAddress) -> AddressKey {
    (address.hardware, address.vlan, address.bridge)
}

/// The entries of the maps.
pub(super) struct State {
    store: Box<dyn Store>,
    columns: [Column; TABLES as usize],
    topology: Topology,
    /// The interfaces whose packets have a number, by index.
    numbered: BTreeMap<u32, String>,
    /// Rows by the index of the guest's interface.
    guests: BTreeMap<u32, Guest>,
    /// Guests by address; 0 is this host.
    addresses: BTreeMap<AddressKey, u32>,
    paths: GuestPaths,
    /// Routed guests by the number that their packets have.
    numbers: BTreeMap<u32, u32>,
    /// Entries of bridges at ports of guests.
    database: BTreeMap<Neighbour, u32>,
    /// By guest: the number of these.
    counts: BTreeMap<u32, usize>,
    /// Guests with more addresses than they may have, by name.
    crowded: BTreeSet<String>,
    /// Why packets of an interface that a glob matches are not of a guest.
    missed: Vec<String>,
    /// Why selectors of pods may miss packets of guests.
    without_pod: Vec<String>,
    /// By classifier: its globs that match no interface, guest's or not, and its selectors that match no pod.
    unmatched: [Vec<GuestGlob>; TABLES as usize],
}

impl State {
    /// From the maps as an earlier agent left them.
    pub(super) fn open(maps: GuestMaps) -> Result<Self, MapError> {
        let (mut guests, mut addresses) = (BTreeMap::new(), BTreeMap::new());
        for index in maps.guests.keys()? {
            guests.insert(index, maps.guests.get(index)?);
        }
        for address in maps.addresses.keys()? {
            addresses.insert(key(&address), maps.addresses.get(address)?);
        }
        let paths = maps.paths.get(0)?;
        let numbers = maps.numbers.keys()?.into_iter().map(|number| Ok((number, maps.numbers.get(number)?)));
        let numbers = numbers.collect::<Result<_, MapError>>()?;
        Ok(Self { guests, addresses, paths, numbers, ..Self::empty(Box::new(maps)) })
    }

    fn empty(store: Box<dyn Store>) -> Self {
        Self {
            store,
            columns: [const { Column::Found }; TABLES as usize],
            topology: Topology::default(),
            numbered: BTreeMap::new(),
            guests: BTreeMap::new(),
            addresses: BTreeMap::new(),
            paths: GuestPaths::default(),
            numbers: BTreeMap::new(),
            database: BTreeMap::new(),
            counts: BTreeMap::new(),
            crowded: BTreeSet::new(),
            missed: Vec::new(),
            without_pod: Vec::new(),
            unmatched: Default::default(),
        }
    }

    /// Sets a classifier, by the index of its table, from the next [`State::replace`] on.
    pub(super) fn set_classifier(&mut self, table: u32, classifier: Option<Arc<Classifier>>) {
        self.columns[table as usize % TABLES as usize] = Column::Of(classifier);
    }

    /// Whether a classifier selects pods.
    pub(super) fn selects_pods(&self) -> bool {
        self.classifiers().any(|classifier| classifier.guests().iter().any(|glob| glob.pod.is_some()))
    }

    fn classifiers(&self) -> impl Iterator<Item = &Arc<Classifier>> {
        self.columns.iter().filter_map(|column| match column {
            Column::Of(classifier) => classifier.as_ref(),
            Column::Found => None,
        })
    }

    /// Replaces links and forwarding databases.
    pub(super) fn replace(&mut self, mut topology: Topology, entries: &[Change]) -> Result<(), MapError> {
        let mut rows = self.rows(&topology);
        self.unmatched = self.columns.each_ref().map(|column| without_guest(column, &topology));
        // Those that are there already stay before newer ones.
        while rows.len() > GUESTS_MAX as usize {
            rows.pop_last();
        }
        let numbered = topology.numbered(|index| rows.contains_key(&index));
        topology.guests.retain(|index, _| rows.contains_key(index));
        let gone: Vec<u32> = self.guests.keys().filter(|index| !rows.contains_key(index)).copied().collect();
        for (index, row) in rows {
            if self.guests.get(&index) != Some(&row) {
                self.store.set_guest(index, Some(row))?;
                self.guests.insert(index, row);
            }
        }
        (self.topology, self.numbered) = (topology, numbered);
        self.collect(entries);
        self.write_addresses()?;
        self.write_numbers()?;
        let paths = self.topology.paths();
        if paths != self.paths {
            self.store.set_paths(paths)?;
            self.paths = paths;
        }
        // Last, so that no address leads to another guest meanwhile.
        for index in gone {
            self.store.set_guest(index, None)?;
            self.guests.remove(&index);
        }
        Ok(())
    }

    /// The rows of guests that a glob matches.
    fn rows(&mut self, topology: &Topology) -> BTreeMap<u32, Guest> {
        self.missed.clear();
        let mut rows = BTreeMap::new();
        for (index, link) in &topology.guests {
            let mut row = Guest::default();
            for (at, column) in self.columns.iter().enumerate() {
                row.interfaces[at] = match column {
                    Column::Found => self.guests.get(index).copied().unwrap_or_default().interfaces[at],
                    Column::Of(None) => Default::default(),
                    Column::Of(Some(classifier)) => {
                        classifier.globs_of_guest(&link.name, link.pod.as_ref()).unwrap_or_else(|| {
                            self.missed.push(format!("{} matches too many filters by interface or pod", link.name));
                            Default::default()
                        })
                    }
                };
            }
            if row != Guest::default() {
                rows.insert(*index, row);
            }
        }
        let matches = |name: &&String| {
            self.classifiers().flat_map(|classifier| classifier.guests()).any(|of| of.matches(name, None))
        };
        if let Some(other) = topology.others.iter().find(matches).cloned() {
            self.missed.push(format!("{other} is neither a tap nor a veth interface"));
        }
        self.without_pod = self.unknown_pods(topology, &rows);
        if let Some((guest, tunnel)) = topology.tunnelled(|index| rows.contains_key(&index)) {
            self.missed.push(format!("packets to {guest} arrive in the tunnel {tunnel}: match its `vni`"));
        }
        if rows.len() > GUESTS_MAX as usize {
            self.missed.push(format!("{} interfaces of guests, and at most {GUESTS_MAX} can be followed", rows.len()));
        }
        rows
    }

    /// Guests that no glob matches and of which there is no record, and pods whose labels are unknown, as far as
    /// classifiers select pods and labels.
    fn unknown_pods(&self, topology: &Topology, rows: &BTreeMap<u32, Guest>) -> Vec<String> {
        if !self.selects_pods() {
            return Vec::new();
        }
        let by_label = |glob: &GuestGlob| glob.pod.as_ref().is_some_and(PodSelector::needs_labels);
        let needs_labels = self.classifiers().flat_map(|classifier| classifier.guests()).any(by_label);
        let (mut guests, mut unlabelled) = (Vec::new(), Vec::new());
        for (index, link) in &topology.guests {
            match &link.pod {
                None if !rows.contains_key(index) => guests.push(link.name.clone()),
                Some(pod) if needs_labels && pod.labels.is_none() => {
                    unlabelled.push(format!("{}/{}", pod.namespace, pod.name));
                }
                _ => {}
            }
        }
        let line = |what: &str, names: Vec<String>| {
            let first = names.first()?;
            let more = if names.len() > 1 { format!(" (and {} more)", names.len() - 1) } else { String::new() };
            Some(format!("{what} {first}{more}"))
        };
        let reasons = [line("no record of a pod at", guests), line("no labels are known of pod", unlabelled)];
        reasons.into_iter().flatten().collect()
    }

    /// Collects the entries of forwarding databases at ports of guests: those that have a place keep it.
    fn collect(&mut self, entries: &[Change]) {
        let before = std::mem::take(&mut self.database);
        self.counts.clear();
        self.crowded.clear();
        let (known, new): (Vec<&Change>, Vec<&Change>) =
            entries.iter().partition(|entry| before.get(&entry.neighbour) == Some(&entry.port));
        for entry in known.into_iter().chain(new) {
            self.place(entry);
        }
    }

    /// Adds an entry, if it is of a guest that has room for it. Returns whether it was added.
    fn place(&mut self, entry: &Change) -> bool {
        let Some(link) = self.topology.guests.get(&entry.port).filter(|_| !entry.is_gone) else { return false };
        let count = self.counts.entry(entry.port).or_default();
        if *count >= ADDRESSES_MAX {
            self.crowded.insert(link.name.clone());
            return false;
        }
        *count += 1;
        self.database.insert(entry.neighbour, entry.port);
        true
    }

    /// Writes the addresses of all entries and of this host, and removes others.
    fn write_addresses(&mut self) -> Result<(), MapError> {
        let mut wanted = BTreeMap::new();
        for (neighbour, port) in &self.database {
            wanted.extend(self.topology.frames_to(neighbour).iter().map(|frame| (key(frame), *port)));
        }
        if !self.topology.guests.is_empty() {
            wanted.extend(self.topology.own.iter().map(|own| ((*own, ANY_VLAN as u16, 0), 0)));
        }
        let gone: Vec<AddressKey> =
            self.addresses.keys().filter(|address| !wanted.contains_key(address)).copied().collect();
        for address in gone {
            self.set_address(address, None)?;
        }
        wanted.into_iter().try_for_each(|(address, guest)| self.set_address(address, Some(guest)))
    }

    /// Writes the numbers of routed guests. Packets of two with one number are of none.
    fn write_numbers(&mut self) -> Result<(), MapError> {
        let (mut wanted, routed) = (BTreeMap::new(), self.topology.routed());
        for index in self.numbered.keys() {
            let (number, own) = (index & NUMBER, routed.contains_key(index).then_some(*index));
            let Some(other) = wanted.insert(number, own).filter(|_| number > 0).or((number == 0).then_some(None))
            else {
                continue;
            };
            wanted.insert(number, None);
            for guest in [own, other].into_iter().flatten() {
                self.missed.push(format!("another interface has the number of {}", routed[&guest]));
            }
        }
        let wanted: BTreeMap<u32, u32> =
            wanted.into_iter().filter_map(|(number, index)| Some((number, index?))).collect();
        for number in self.numbers.keys().filter(|number| !wanted.contains_key(number)) {
            self.store.set_number(*number, None)?;
        }
        for (number, index) in wanted.iter().filter(|(number, index)| self.numbers.get(number) != Some(index)) {
            self.store.set_number(*number, Some(*index))?;
        }
        self.numbers = wanted;
        Ok(())
    }

    /// The interfaces to which the program that numbers packets belongs, by index.
    pub(super) fn numbered(&self) -> &BTreeMap<u32, String> {
        &self.numbered
    }

    fn set_address(&mut self, key: AddressKey, guest: Option<u32>) -> Result<(), MapError> {
        if self.addresses.get(&key).copied() == guest {
            return Ok(());
        }
        if guest.is_some() && !self.addresses.contains_key(&key) && self.addresses.len() >= GUEST_ADDRESSES_MAX as usize
        {
            self.crowded.insert("the host".into());
            return Ok(());
        }
        let (hardware, vlan, bridge) = key;
        self.store.set_address(GuestAddress { hardware, vlan, bridge }, guest)?;
        match guest {
            Some(guest) => self.addresses.insert(key, guest),
            None => self.addresses.remove(&key),
        };
        Ok(())
    }

    /// Follows a change of a forwarding database.
    pub(super) fn follow(&mut self, change: &Change) -> Result<(), MapError> {
        let known = self.database.get(&change.neighbour).copied();
        let is_same = known == Some(change.port);
        if is_same != change.is_gone {
            // There already, or the end of an entry that has moved or had no place.
            return Ok(());
        }
        if let Some(port) = known {
            self.database.remove(&change.neighbour);
            self.counts.entry(port).and_modify(|count| *count -= 1);
        }
        let guest = self.place(change).then_some(change.port);
        for frame in self.topology.frames_to(&change.neighbour) {
            let there = self.addresses.get(&key(&frame)).copied();
            if guest.is_some() || there == known {
                self.set_address(key(&frame), guest)?;
            }
        }
        Ok(())
    }

    /// Removes the entries of an interface that has left the namespace: the next one may have its index (`ip link add …
    /// index N`), and would be taken for it until the next list.
    pub(super) fn forget(&mut self, index: u32) -> Result<(), MapError> {
        self.topology.guests.remove(&index);
        self.numbered.remove(&index);
        let numbers: Vec<u32> =
            self.numbers.iter().filter(|(_, of)| **of == index).map(|(number, _)| *number).collect();
        for number in numbers {
            self.store.set_number(number, None)?;
            self.numbers.remove(&number);
        }
        let addresses: Vec<AddressKey> =
            self.addresses.iter().filter(|(_, of)| **of == index).map(|(key, _)| *key).collect();
        addresses.into_iter().try_for_each(|key| self.set_address(key, None))?;
        if self.guests.remove(&index).is_some() {
            self.store.set_guest(index, None)?;
        }
        Ok(())
    }

    /// Removes all entries.
    pub(super) fn clear(&mut self) -> Result<(), MapError> {
        self.columns = [const { Column::Of(None) }; TABLES as usize];
        self.replace(Topology::default(), &[])
    }

    /// Guests of a classifier, by the index of its table.
    pub(super) fn count(&self, table: u32) -> usize {
        let at = table as usize % TABLES as usize;
        self.guests.values().filter(|row| row.interfaces[at][0] != 0).count()
    }

    /// Reasons why selectors of pods may miss packets of guests.
    pub(super) fn without_pod(&self) -> Vec<String> {
        self.without_pod.clone()
    }

    /// Globs of a classifier, by the index of its table, that match nothing.
    pub(super) fn unmatched(&self, table: u32) -> Vec<GuestGlob> {
        self.unmatched[table as usize % TABLES as usize].clone()
    }

    /// Why packets of some interfaces that globs match, or to some addresses of guests, are not theirs.
    pub(super) fn missed(&self) -> Option<String> {
        let crowded = self.crowded.iter().next().map(|name| match self.crowded.len() {
            1 => format!("{name} has more than {ADDRESSES_MAX} hardware addresses"),
            more => format!("{name} and {} more have more than {ADDRESSES_MAX} hardware addresses each", more - 1),
        });
        let reasons: Vec<String> = self.missed.iter().take(1).cloned().chain(crowded).collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

/// The globs of a classifier that match no interface, guest's or not, or no pod.
fn without_guest(column: &Column, topology: &Topology) -> Vec<GuestGlob> {
    let Column::Of(Some(classifier)) = column else { return Vec::new() };
    let mut unmatched = classifier.guests().to_vec();
    unmatched.retain(|of| {
        let is_guest = topology.guests.values().any(|link| of.matches(&link.name, link.pod.as_ref()));
        !is_guest && !topology.others.iter().any(|name| of.matches(name, None))
    });
    unmatched
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
