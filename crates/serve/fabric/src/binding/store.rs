//! The binder's state on disk: a successor continues each tenant's move at its step.
//!
//! Tenants are kept by name: a policy may get others meanwhile. A tenant whose state names another number of queues
//! than it has ports now begins in the shared queue, as a new one does.

use crate::state::replace;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use weir_binding::Sites;
use weir_binding::binder::{BinderState, Place, TenantState};
use weir_policy::Policy;

/// The file, under the state directory.
const FILE: &str = "tenant-queues.json";

#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    tenants: BTreeMap<String, TenantState>,
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
    pub(super) fn load(&self, policy: &Policy, sites: &Sites) -> io::Result<BinderState> {
        let text = match std::fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BinderState::new()),
            Err(error) => return Err(error),
        };
        let stored: Stored = serde_json::from_slice(&text).map_err(io::Error::other)?;
        let of = |(tenant, site): (&weir_policy::Tenant, &weir_binding::Site)| {
            let state = stored.tenants.get(&tenant.name).cloned().unwrap_or_default();
            let fits = |place: &Place| match place {
                Place::Shared => true,
                Place::Dedicated { queues, .. } => queues.len() == site.ports.len(),
            };
            let is_sound = fits(&state.place) && state.motion.as_ref().is_none_or(|motion| fits(&motion.to));
            if is_sound { state } else { TenantState::default() }
        };
        Ok(policy.tenants().iter().zip(&sites.tenants).map(of).collect())
    }

    /// Writes the state if it differs from the last one.
    pub(super) fn save(&mut self, policy: &Policy, state: &BinderState) -> io::Result<()> {
        if *state == self.last {
            return Ok(());
        }
        let names = policy.tenants().iter().map(|tenant| tenant.name.clone());
        let stored = Stored { tenants: names.zip(state.iter().cloned()).collect() };
        let text = serde_json::to_vec_pretty(&stored).map_err(io::Error::other)?;
        replace::write_durably(&self.path, &text)?;
        self.last.clone_from(state);
        Ok(())
    }
}
