//! The binder's state on disk: a successor continues each tenant's move at its step.
//!
//! Tenants and ports are kept by name: policy and places may be others meanwhile. A tenant with other ports, a queue
//! that does not exist any more or that another one has, or a DSCP value that it may not have, begins in the shared
//! queue, as a new one does. So does one with several queues of a switch that has one map for all ports.

use super::placement::Places;
use crate::state::replace;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use weir_binding::binder::{BinderState, Place, TenantState};
use weir_binding::{Map, PortId, QueueIndex, Site};
use weir_policy::Policy;

/// The file, under the state directory.
const FILE: &str = "tenant-queues.json";

#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    tenants: BTreeMap<String, StoredTenant>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredTenant {
    /// Its ports, by the names of switch and neighbour.
    ports: Vec<String>,
    state: TenantState,
}

/// The state's file.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    last: BinderState,
}

impl Store {
    /// The file in a directory of state.
    pub(super) fn new(directory: &std::path::Path) -> Self {
        Self { path: directory.join(FILE), last: BinderState::new() }
    }

    /// The state of an earlier binder, by the tenants of this policy.
    pub(super) fn load(&self, policy: &Policy, places: &Places) -> io::Result<BinderState> {
        let text = match std::fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BinderState::new()),
            Err(error) => return Err(error),
        };
        let stored: Stored = serde_json::from_slice(&text).map_err(io::Error::other)?;
        let mut taken = Taken { map: policy.network().map(), pool: policy.tenant_dscps(), ..Taken::default() };
        let of = |(tenant, site): (&weir_policy::Tenant, &Site)| {
            let known = stored.tenants.get(&tenant.name).filter(|known| known.ports == places.ports_of(site));
            let state = known.map(|known| known.state.clone()).unwrap_or_default();
            if taken.takes(places, site, &state) { state } else { TenantState::default() }
        };
        Ok(policy.tenants().iter().zip(&places.sites.tenants).map(of).collect())
    }

    /// Writes the state if it differs from the last one.
    pub(super) fn save(&mut self, policy: &Policy, places: &Places, state: &BinderState) -> io::Result<()> {
        if *state == self.last {
            return Ok(());
        }
        let names = policy.tenants().iter().map(|tenant| tenant.name.clone());
        let states = places.sites.tenants.iter().zip(state);
        let states = states.map(|(site, state)| StoredTenant { ports: places.ports_of(site), state: state.clone() });
        let stored = Stored { tenants: names.zip(states).collect() };
        let text = serde_json::to_vec_pretty(&stored).map_err(io::Error::other)?;
        replace::write_durably(&self.path, &text)?;
        self.last.clone_from(state);
        Ok(())
    }
}

/// The queues and DSCP values of ports that tenants have so far.
#[derive(Default)]
struct Taken {
    map: Map,
    pool: Vec<u8>,
    queues: BTreeSet<(PortId, QueueIndex)>,
    /// By port, or by switch where that has the map, and value: its queue.
    dscps: BTreeMap<(u32, u8), QueueIndex>,
}

impl Taken {
    /// Takes the queues and values of a state, if they exist and no other tenant has them.
    fn takes(&mut self, places: &Places, site: &Site, state: &TenantState) -> bool {
        let all = [Some(&state.place), state.motion.as_ref().map(|motion| &motion.to)];
        let (mut queues, mut dscps) = (BTreeSet::new(), BTreeMap::new());
        for place in all.into_iter().flatten() {
            let Place::Dedicated { queues: own, dscp } = place else { continue };
            if own.len() != site.ports.len() || !self.pool.contains(dscp) {
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
                dscps.insert((if self.map == Map::PerPort { port.0 } else { at.switch.0 }, *dscp), *queue);
            }
        }
        let fits = |(at, queue): (&(u32, u8), &QueueIndex)| self.dscps.get(at).is_none_or(|own| own == queue);
        let is_free = queues.is_disjoint(&self.queues) && dscps.iter().all(fits);
        if is_free {
            self.queues.extend(queues);
            self.dscps.extend(dscps);
        }
        is_free
    }
}
