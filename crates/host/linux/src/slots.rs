//! Slots of services: their indexes in the maps.
//!
//! A service's number is its index in the policy's order, which changes with the policy, while
//! meters, limiters and classes persist in the kernel. A service therefore keeps a slot as long as
//! policies have a service of its name. The kernel's map stores the first 128 bits of SHA-256 of
//! the name with each slot, from which the next agent restores the assignment.
//!
//! Worked example: `dfs` and `vm` have slots 0 and 1. A policy without `dfs` and with `web`: `vm`
//! keeps 1, `web` gets 0.

use crate::loader::LoaderError;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use weir_datapath::abi::SERVICES_MAX;
use weir_units::ServiceId;

/// Identifies a service in the maps.
pub(crate) type Name = [u32; 4];

/// The name of the service with this path.
pub(crate) fn name(path: &str) -> Name {
    let digest = Sha256::digest(path.as_bytes());
    let word = |i: usize| u32::from_be_bytes([digest[4 * i], digest[4 * i + 1], digest[4 * i + 2], digest[4 * i + 3]]);
    [word(0), word(1), word(2), word(3)]
}

/// The number of a service in feedback and in PACE's messages: the first four bytes of SHA-256 over its path.
pub fn service_number(path: &str) -> u32 {
    name(path)[0]
}

/// The slots of an interface.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// By name: all services in the maps.
    by_name: BTreeMap<Name, u32>,
    /// By service of the policy in force.
    by_service: BTreeMap<u32, (u32, Name)>,
}

impl Slots {
    /// The slots in use in the maps.
    pub(crate) fn known(names: impl Iterator<Item = (u32, Name)>) -> Self {
        Self { by_name: names.map(|(slot, name)| (name, slot)).collect(), by_service: BTreeMap::new() }
    }

    /// Assigns a slot to each of these services and releases all others. Returns the slots that became free.
    pub(crate) fn assign<'a>(
        &mut self,
        services: impl Iterator<Item = (ServiceId, &'a str)>,
    ) -> Result<Vec<u32>, LoaderError> {
        let wanted: Vec<(ServiceId, Name)> = services.map(|(id, path)| (id, name(path))).collect();
        if wanted.len() > SERVICES_MAX as usize {
            return Err(LoaderError::TooManyServices);
        }
        let keeps = |name: &Name| wanted.iter().any(|(_, wanted)| wanted == name);
        let (kept, gone): (BTreeMap<Name, u32>, BTreeMap<Name, u32>) =
            std::mem::take(&mut self.by_name).into_iter().partition(|(name, _)| keeps(name));
        self.by_name = kept;
        let taken: Vec<u32> = self.by_name.values().copied().collect();
        let mut free = (0..SERVICES_MAX).filter(|slot| !taken.contains(slot));
        self.by_service.clear();
        for (id, name) in wanted {
            let slot = *self.by_name.entry(name).or_insert_with(|| free.next().expect("as many slots as services"));
            self.by_service.insert(id.0, (slot, name));
        }
        let used: Vec<u32> = self.by_name.values().copied().collect();
        Ok(gone.into_values().filter(|slot| !used.contains(slot)).collect())
    }

    /// The slot of a service of the policy in force.
    pub(crate) fn of(&self, service: ServiceId) -> Result<u32, LoaderError> {
        self.by_service.get(&service.0).map(|(slot, _)| *slot).ok_or(LoaderError::Service(service))
    }

    /// The service of a slot.
    pub(crate) fn service(&self, slot: u32) -> Option<ServiceId> {
        self.by_service.iter().find(|(_, (of, _))| *of == slot).map(|(service, _)| ServiceId(*service))
    }

    /// All services with their slots and names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ServiceId, u32, Name)> + '_ {
        self.by_service.iter().map(|(service, (slot, name))| (ServiceId(*service), *slot, *name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assign(slots: &mut Slots, paths: &[&str]) -> Vec<u32> {
        let services = paths.iter().enumerate().map(|(i, path)| (ServiceId(i as u32), *path));
        slots.assign(services).expect("few")
    }

    #[test]
    fn slot_is_kept_across_policies() {
        let mut slots = Slots::default();
        assert!(assign(&mut slots, &["dfs", "vm"]).is_empty());
        assert_eq!(slots.of(ServiceId(1)).expect("vm"), 1);
        // `vm` is first now and keeps 1; `web` gets the slot of `dfs`.
        assert!(assign(&mut slots, &["vm", "web"]).is_empty());
        assert_eq!((slots.of(ServiceId(0)).expect("vm"), slots.of(ServiceId(1)).expect("web")), (1, 0));
        assert_eq!(assign(&mut slots, &["vm"]), [0], "the slot of `web`");
        assert_eq!(slots.service(1), Some(ServiceId(0)));
        assert_eq!(slots.service(0), None);
        assert!(matches!(slots.of(ServiceId(1)), Err(LoaderError::Service(_))));
    }

    #[test]
    fn next_agent_restores_the_slots() {
        let mut slots = Slots::known([(7, name("dfs")), (3, name("gone"))].into_iter());
        assert_eq!(assign(&mut slots, &["a", "dfs"]), [3]);
        assert_eq!(slots.of(ServiceId(1)).expect("dfs"), 7);
        assert_eq!(slots.of(ServiceId(0)).expect("a"), 0);
    }

    #[test]
    fn names_are_sha_256() {
        // SHA-256("abc") = ba7816bf 8f01cfea 414140de 5dae2223 ...
        assert_eq!(name("abc"), [0xba78_16bf, 0x8f01_cfea, 0x4141_40de, 0x5dae_2223]);
    }

    #[test]
    fn more_services_than_slots_are_refused() {
        let paths: Vec<String> = (0..=SERVICES_MAX).map(|i| i.to_string()).collect();
        let services = paths.iter().enumerate().map(|(i, path)| (ServiceId(i as u32), path.as_str()));
        assert!(matches!(Slots::default().assign(services), Err(LoaderError::TooManyServices)));
    }
}
