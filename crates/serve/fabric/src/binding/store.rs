//! [`Store`]: the binder's state, where a successor finds it.
//!
//! Problem: a successor continues each tenant's move at its step, so a state is stored before settings that follow from
//! it are sent; of 10,000 tenants few change at a time, and etcd, where several fabric brokers keep the state, takes
//! requests of limited size and replies later. Approach: an entry for each tenant that is not in the shared queue at
//! rest, by name, since policy and places may be others meanwhile. Changes are numbered ([`Store::put`]) and stored in
//! their order, so the entries are at every time a state that the binder was in. An output is carried out when the
//! changes before it are stored ([`Store::stored`]).
//!
//! - A single fabric broker appends them to a file ([`super::journal`]).
//! - One of several hands them to etcd in batches, one at a time ([`Store::poll_batch`]); etcd takes a batch whole or
//!   not at all, and only from the broker that leads.
//!
//! A tenant with other ports than its entry has, a queue that does not exist any more or that another one has, or a
//! DSCP value that it may not have, begins in the shared queue, as a new one does. So does one with several queues of a
//! switch that has one map for all ports. Its value is retained at its ports, since a machine that is off may return
//! with it (`docs/design/binding.md`, *Another placement*).

use super::journal::Journal;
use super::placement::Places;
use crate::cluster::{KeptTenants, TenantBatch};
use crate::etcd::MOST_KEYS;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::Path;
use weir_binding::binder::{BinderState, Place, TenantState};
use weir_binding::{Map, PortId, QueueIndex, Site};
use weir_policy::Policy;
use weir_units::{Duration, Instant};

/// The wait before a batch that etcd did not take is handed over again.
const RETRY: Duration = Duration::from_secs(1);

/// A tenant's entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredTenant {
    /// A hash of its ports, by the names of switch and neighbour.
    ports: String,
    state: TenantState,
}

/// A tenant by name, with its entry; `None` for one at rest in the shared queue.
pub(super) type Entry = (String, Option<StoredTenant>);

/// The state of a policy's tenants, of the entries that fit them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Adopted {
    pub(super) state: BinderState,
    /// The tenants with entries that do not fit: they begin in the shared queue.
    pub(super) others: usize,
    /// Those of them whose DSCP value another tenant of their ports has, so that it cannot be retained.
    pub(super) without_value: usize,
}

/// The entries, and those that are not stored yet.
#[derive(Debug)]
pub(crate) struct Store {
    kept: BTreeMap<String, StoredTenant>,
    medium: Medium,
    waiting: VecDeque<Entry>,
    /// The numbers of the last change and of the last one that is stored.
    put: u64,
    stored: u64,
}

#[derive(Debug)]
enum Medium {
    File(Journal),
    Etcd {
        /// The epoch of the leadership.
        epoch: u64,
        /// The changes of the batch that etcd has not confirmed.
        under_way: Option<usize>,
        /// After a failure.
        not_before: Instant,
    },
}

impl Store {
    /// The entries of a file in the directory of state.
    pub(crate) fn in_file(directory: &Path) -> io::Result<Self> {
        let (journal, kept) = Journal::open(directory)?;
        Ok(Self { kept, medium: Medium::File(journal), waiting: VecDeque::new(), put: 0, stored: 0 })
    }

    /// The entries that etcd has at the begin of a leadership.
    pub(crate) fn in_etcd(epoch: u64, kept: KeptTenants) -> io::Result<Self> {
        let read = |(name, value): (String, Vec<u8>)| match serde_json::from_slice(&value) {
            Ok(stored) => Ok((name, stored)),
            Err(error) => Err(io::Error::other(format!("the state of `{name}` in etcd: {error}"))),
        };
        let kept = kept.into_iter().map(read).collect::<Result<_, _>>()?;
        let medium = Medium::Etcd { epoch, under_way: None, not_before: Instant::ZERO };
        Ok(Self { kept, medium, waiting: VecDeque::new(), put: 0, stored: 0 })
    }

    /// The state of the tenants of this policy. The store has it from now on, and no entries of other tenants.
    pub(super) fn state(&mut self, policy: &Policy, places: &Places) -> Adopted {
        let mut allocation =
            Allocation { map: policy.network().map(), pool: policy.tenant_dscps(), ..Allocation::default() };
        // First those that stay as they are, so that no other takes their values.
        let (mut state, mut others) = (BinderState::new(), Vec::new());
        for (at, (tenant, site)) in policy.tenants().iter().zip(&places.sites.tenants).enumerate() {
            let kept = self.kept.get(&tenant.name);
            let fits = kept.filter(|kept| {
                kept.ports == hash(&places.ports_of(site)) && allocation.takes(places, site, &kept.state)
            });
            state.push(fits.map(|kept| kept.state.clone()).unwrap_or_default());
            if let (Some(kept), None) = (kept, fits) {
                others.push((at, kept.state.value().filter(|value| allocation.pool.contains(value))));
            }
        }
        let (others_count, mut without_value) = (others.len(), 0);
        for (at, retained) in others {
            let anew = TenantState { retained, ..TenantState::default() };
            match allocation.takes(places, &places.sites.tenants[at], &anew) {
                true => state[at] = anew,
                false => without_value += 1,
            }
            self.put(policy, places, at, state[at].clone());
        }
        let names: BTreeSet<&str> = policy.tenants().iter().map(|tenant| tenant.name.as_str()).collect();
        let obsolete: Vec<String> = self.kept.keys().filter(|name| !names.contains(name.as_str())).cloned().collect();
        obsolete.into_iter().for_each(|name| self.change(name, None));
        Adopted { state, others: others_count, without_value }
    }

    /// Takes a change of a tenant.
    pub(super) fn put(&mut self, policy: &Policy, places: &Places, at: usize, state: TenantState) {
        let stored = (state != TenantState::default())
            .then(|| StoredTenant { ports: hash(&places.ports_of(&places.sites.tenants[at])), state });
        self.change(policy.tenants()[at].name.clone(), stored);
    }

    fn change(&mut self, name: String, stored: Option<StoredTenant>) {
        match &stored {
            Some(stored) => self.kept.insert(name.clone(), stored.clone()),
            None => self.kept.remove(&name),
        };
        self.waiting.push_back((name, stored));
        self.put += 1;
    }

    /// The number of the last change.
    pub(super) fn last(&self) -> u64 {
        self.put
    }
    /// The number of the last change that is stored.
    pub(super) fn stored(&self) -> u64 {
        self.stored
    }

    /// Writes the changes that are not stored yet, if the entries are in a file.
    pub(super) fn write(&mut self) -> io::Result<()> {
        if let (Medium::File(journal), false) = (&mut self.medium, self.waiting.is_empty()) {
            journal.append(self.waiting.make_contiguous(), &self.kept)?;
            self.waiting.clear();
            self.stored = self.put;
        }
        Ok(())
    }

    /// The next batch for etcd; `None` while one is under way.
    pub(super) fn poll_batch(&mut self, now: Instant) -> Option<TenantBatch> {
        let Medium::Etcd { epoch, under_way, not_before } = &mut self.medium else { return None };
        if under_way.is_some() || self.waiting.is_empty() || now < *not_before {
            return None;
        }
        let count = self.waiting.len().min(MOST_KEYS);
        *under_way = Some(count);
        // Of several changes of a tenant the last one counts.
        let entries: BTreeMap<&String, &Option<StoredTenant>> =
            self.waiting.iter().take(count).map(|(name, stored)| (name, stored)).collect();
        let value = |stored: &Option<StoredTenant>| {
            stored.as_ref().map(|stored| serde_json::to_vec(stored).expect("plain data is JSON"))
        };
        let entries = entries.into_iter().map(|(name, stored)| (name.clone(), value(stored))).collect();
        Some(TenantBatch { epoch: *epoch, entries })
    }

    /// etcd has taken the batch, or not.
    pub(super) fn replied(&mut self, now: Instant, is_taken: bool) {
        let Medium::Etcd { under_way, not_before, .. } = &mut self.medium else { return };
        let Some(count) = under_way.take() else { return };
        if is_taken {
            self.waiting.drain(..count);
            self.stored += count as u64;
        } else {
            *not_before = now + RETRY;
        }
    }

    /// Whether changes are in a file, so that [`Store::write`] has stored them.
    pub(super) fn is_file(&self) -> bool {
        matches!(self.medium, Medium::File(_))
    }

    /// The time of the next batch, if one waits for its time.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match self.medium {
            Medium::Etcd { under_way: None, not_before, .. } if !self.waiting.is_empty() => Some(not_before),
            _ => None,
        }
    }
}

/// 64 bits of FNV-1a over the names, a line each: <http://www.isthe.com/chongo/tech/comp/fnv/>.
fn hash(names: &[String]) -> String {
    let bytes = names.iter().flat_map(|name| name.bytes().chain([b'\n']));
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("{hash:016x}")
}

/// The queues and DSCP values of ports that tenants have so far.
#[derive(Default)]
struct Allocation {
    map: Map,
    pool: Vec<u8>,
    queues: BTreeSet<(PortId, QueueIndex)>,
    /// By port, or by switch where that has the map.
    dscps: BTreeSet<(u32, u8)>,
}

impl Allocation {
    /// Takes the queues and values of a state, if they exist and no other tenant has them.
    fn takes(&mut self, places: &Places, site: &Site, state: &TenantState) -> bool {
        let all = [Some(&state.place), state.motion.as_ref().map(|motion| &motion.to)];
        let value = state.value();
        if value.is_some_and(|value| !self.pool.contains(&value)) {
            return false;
        }
        let mut queues = BTreeSet::new();
        let map = self.map;
        let of_ports = |value| site.ports.iter().map(move |(port, _)| (places.sites.map_of(map, *port), value));
        let dscps: BTreeSet<(u32, u8)> = value.into_iter().flat_map(of_ports).collect();
        for place in all.into_iter().flatten() {
            let Place::Dedicated { queues: own, .. } = place else { continue };
            if own.len() != site.ports.len() {
                return false;
            }
            let mut of_switch: BTreeMap<u32, QueueIndex> = BTreeMap::new();
            for ((port, _), queue) in site.ports.iter().zip(own) {
                let at = &places.sites.ports[port.index()];
                let is_one = self.map == Map::PerPort || *of_switch.entry(at.switch.0).or_insert(*queue) == *queue;
                if *queue >= at.queues || !is_one {
                    return false;
                }
                queues.insert((*port, *queue));
            }
        }
        let is_free = queues.is_disjoint(&self.queues) && dscps.is_disjoint(&self.dscps);
        if is_free {
            self.queues.extend(queues);
            self.dscps.extend(dscps);
        }
        is_free
    }
}

#[cfg(test)]
mod tests {
    use super::super::two_tenants::{placement, policy};
    use super::*;

    fn entry(name: &str, dscp: u8) -> (String, Option<StoredTenant>) {
        let place = Place::Dedicated { queues: vec![1], dscp };
        let state = TenantState { place, motion: None, retained: None };
        (name.to_owned(), Some(StoredTenant { ports: hash(&["r1 spine0".to_owned()]), state }))
    }

    #[test]
    fn entries_survive_in_the_file_also_after_a_torn_line() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut store = Store::in_file(directory.path()).expect("opened");
        for (name, dscp) in [("red", 1), ("blue", 2), ("red", 3)] {
            let (name, stored) = entry(name, dscp);
            store.change(name, stored);
        }
        store.change("blue".to_owned(), None);
        assert_eq!((store.last(), store.stored()), (4, 0));
        store.write().expect("written");
        assert_eq!(store.stored(), 4);
        let red = BTreeMap::from([entry("red", 3)].map(|(name, stored)| (name, stored.expect("an entry"))));
        assert_eq!(Store::in_file(directory.path()).expect("opened").kept, red);
        // A crash in the middle of a line: what was being written was not stored.
        let file = directory.path().join("tenant-queues.jsonl");
        let mut text = std::fs::read_to_string(&file).expect("there");
        text.push_str("{\"tenant\":\"green\",\"entr");
        std::fs::write(&file, &text).expect("written");
        assert_eq!(Store::in_file(directory.path()).expect("opened").kept, red);
        std::fs::write(&file, format!("nonsense\n{text}")).expect("written");
        let error = Store::in_file(directory.path()).expect_err("damaged");
        assert!(error.to_string().contains("line 1"), "{error}");
    }

    #[test]
    fn value_of_a_tenant_with_other_ports_is_retained_until_its_machines_confirm() {
        let policy = Policy::parse("policy.yaml", &policy(3, "")).unwrap_or_else(|errors| panic!("{errors}")).0;
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("placement.json");
        std::fs::write(&file, placement("spine0")).expect("written");
        let places = Places::read(&file, &policy).unwrap_or_else(|error| panic!("{error}"));
        let value = policy.tenant_dscps()[1];
        let mut store = Store::in_file(directory.path()).expect("opened");
        let (name, red) = entry("red", value);
        store.change(name, red.clone());
        let retained = TenantState { retained: Some(value), ..TenantState::default() };
        let adopted = store.state(&policy, &places);
        let state = vec![TenantState::default(), retained];
        assert_eq!(adopted, Adopted { state: state.clone(), others: 1, without_value: 0 });
        // A successor continues with it: the entry has the new ports.
        store.write().expect("written");
        let mut store = Store::in_file(directory.path()).expect("opened");
        assert_eq!(store.state(&policy, &places), Adopted { state, others: 0, without_value: 0 });
        // Blue has the value at these ports, and keeps it.
        let queues = vec![0; places.sites.tenants[0].ports.len()];
        let blue = TenantState { place: Place::Dedicated { queues, dscp: value }, ..TenantState::default() };
        store.put(&policy, &places, 0, blue.clone());
        store.change("red".to_owned(), red);
        let state = vec![blue, TenantState::default()];
        assert_eq!(store.state(&policy, &places), Adopted { state, others: 1, without_value: 1 });
        assert!(!store.kept.contains_key("red"));
    }

    #[test]
    fn batches_are_stored_one_after_the_other_in_the_order_of_changes() {
        let mut store = Store::in_etcd(7, Vec::new()).expect("empty");
        let now = Instant::ZERO;
        for number in 0..130 {
            let (name, stored) = entry(&format!("t{number:03}"), 1);
            store.change(name, stored);
        }
        let first = store.poll_batch(now).expect("a batch");
        assert_eq!((first.epoch, first.entries.len()), (7, 120));
        assert_eq!(store.poll_batch(now), None, "one at a time");
        store.replied(now, false);
        assert_eq!((store.poll_batch(now), store.stored()), (None, 0));
        assert_eq!(store.poll_timeout(), Some(now + RETRY));
        assert_eq!(store.poll_batch(now + RETRY), Some(first.clone()));
        store.replied(now, true);
        assert_eq!(store.stored(), 120);
        let second = store.poll_batch(now + RETRY).expect("the rest");
        assert_eq!(second.entries.len(), 10);
        store.replied(now, true);
        assert_eq!((store.stored(), store.poll_timeout()), (130, None));
        // A successor reads them.
        let all = [first.entries, second.entries].concat();
        let all: KeptTenants = all.into_iter().map(|(name, value)| (name, value.expect("a value"))).collect();
        assert_eq!(Store::in_etcd(8, all).expect("read").kept, store.kept);
        let refused = Store::in_etcd(8, vec![("red".to_owned(), b"{".to_vec())]).expect_err("no entry");
        assert!(refused.to_string().contains("`red` in etcd"), "{refused}");
    }
}
