//! [`HtbShaper`]: services and destinations as HTB classes.
//!
//! A service has a class with its guarantee and its limit, and a leaf in it. Each class costs
//! memory and time, so a destination has a leaf of its own only while the rate in its feedback is
//! below the service's limit, which is rare. After that the leaf stays for a while at the service's
//! limit, so that a rate near the limit does not create and delete classes repeatedly.
//!
//! The leaves of a service share its weight: HTB serves all leaves of a class before the next
//! class, so a class's share of excess capacity is the sum of its leaves' quanta (`crate::class`).
//! With more than eight rate-limited destinations a service gets more than its weight of the excess
//! capacity of its own interface; guarantees and limits hold.
//!
//! Worked example: `dfs`, guaranteed 3 of 10 Gb/s. Feedback of 9.5 Gb/s from receiver b: no class.
//! Feedback of 1 Gb/s: the service's general leaf keeps 10 Gb/s, and packets to b get a leaf with a
//! ceiling of 1 Gb/s.
//!
//! Source: Parley section 3.2.1, Figure 10 (destination limiters below a root limiter); net/sched/sch_htb.c.

use crate::class::{ClassSpec, Sending};
use crate::dropped::Dropped;
use crate::htb::{
    ClassStatus, DESTINATION_FIRST, FIRST_MINOR, HtbError, HtbTree, LEVEL_FIRST, OTHERS_FIRST, STATIC_FIRST,
};
use crate::interface::Interface;
use crate::shaper::{Backend, DestinationRate, ServiceQueue, ServiceRate, Shaper, ShaperError};
use std::collections::BTreeMap;
use weir_shaping::LevelLimits;
use weir_units::{Bandwidth, Bytes};

/// Consecutive feedback at or above the service's limit after which a destination's leaf is deleted.
const UNLIMITED_FOR: u32 = 1000;

/// Rates by HTB.
#[derive(Debug)]
pub struct HtbShaper {
    tree: HtbTree,
    /// By slot.
    services: BTreeMap<u32, ServiceRate>,
    /// By slot of the destination.
    destinations: BTreeMap<u32, Limited>,
    /// Leaves to be deleted, with the services' slots. They are deleted when rates are next set:
    /// until the caller has reset the destinations' classes, packets still enter them, and their
    /// queues drain.
    leaving: Vec<(u16, u32)>,
    dropped: Dropped,
}

/// A destination with a leaf.
#[derive(Debug, Clone, Copy)]
struct Limited {
    /// The service's slot.
    slot: u32,
    rate: Bandwidth,
    /// Consecutive feedback at or above the service's limit.
    free: u32,
}

impl HtbShaper {
    /// Installs classes for each service and latency level, and leaves for the destinations of an earlier agent's
    /// leaves; see [`HtbTree::install`].
    pub fn install(
        interface: &Interface,
        nic: Bandwidth,
        rates: &[ServiceRate],
        limited: &[DestinationRate],
        levels: &[Option<LevelLimits>],
        sending: Sending,
        force: bool,
    ) -> Result<Self, HtbError> {
        let services: BTreeMap<u32, ServiceRate> = rates.iter().map(|rate| (rate.slot, *rate)).collect();
        let limited = limited.iter().filter(|limited| services.contains_key(&limited.slot));
        let limited = limited.filter_map(|l| Some((l.destination, Limited { slot: l.slot, rate: l.rate?, free: 0 })));
        let destinations: BTreeMap<u32, Limited> = limited.collect();
        let specs: Vec<ClassSpec> =
            services.values().flat_map(|service| classes(service, &of_service(&destinations, service.slot))).collect();
        let tree = HtbTree::install(interface, nic, &specs, levels, sending, force)?;
        Ok(Self { tree, services, destinations, leaving: Vec::new(), dropped: Dropped::default() })
    }

    /// Bytes sent through the classes of the static policy, by slot.
    pub fn static_bytes(&mut self) -> Result<Vec<Bytes>, HtbError> {
        let classes = self.tree.status()?.into_iter();
        Ok(classes
            .filter(|class| (STATIC_FIRST..DESTINATION_FIRST).contains(&class.minor))
            .map(|class| class.bytes)
            .collect())
    }

    /// The existing leaves, each with the slot of its service; counts their drops.
    fn leaves(&mut self) -> Result<Vec<(Option<u32>, ClassStatus)>, HtbError> {
        let mut leaves = Vec::new();
        for class in self.tree.status()? {
            let slot = match class.minor {
                DESTINATION_FIRST.. => {
                    let destination = u32::from(class.minor - DESTINATION_FIRST);
                    let given_up =
                        || self.leaving.iter().find(|(minor, _)| *minor == class.minor).map(|(_, slot)| *slot);
                    let Some(slot) = self.destinations.get(&destination).map(|limited| limited.slot).or_else(given_up)
                    else {
                        continue;
                    };
                    Some(slot)
                }
                STATIC_FIRST.. => Some(u32::from(class.minor - STATIC_FIRST)),
                OTHERS_FIRST.. => Some(u32::from(class.minor - OTHERS_FIRST)),
                // Levels count by themselves (crate::levels).
                LEVEL_FIRST.. => continue,
                _ => None,
            };
            leaves.push((slot, class));
        }
        self.dropped.read(leaves.iter().map(|(slot, class)| (class.minor, *slot, class.drops)));
        Ok(leaves)
    }

    /// Deletes classes whose drops are counted.
    fn delete(&mut self, minors: &[u16]) -> Result<(), HtbError> {
        self.tree.delete_classes(minors)?;
        minors.iter().for_each(|minor| self.dropped.deleted(*minor));
        Ok(())
    }

    /// Deletes the leaves in `leaving`.
    fn delete_given_up(&mut self) -> Result<(), HtbError> {
        if self.leaving.is_empty() {
            return Ok(());
        }
        self.leaves()?;
        let gone: Vec<u16> = std::mem::take(&mut self.leaving).into_iter().map(|(minor, _)| minor).collect();
        self.delete(&gone)
    }

    /// The classes of one service.
    fn of(&self, slot: u32) -> Vec<ClassSpec> {
        let Some(service) = self.services.get(&slot) else { return Vec::new() };
        classes(service, &of_service(&self.destinations, slot))
    }
}

fn of_service(destinations: &BTreeMap<u32, Limited>, slot: u32) -> Vec<(u32, Bandwidth)> {
    destinations.iter().filter(|(_, limited)| limited.slot == slot).map(|(id, limited)| (*id, limited.rate)).collect()
}

/// The classes of a service with these rate-limited destinations.
pub(crate) fn classes(service: &ServiceRate, limited: &[(u32, Bandwidth)]) -> Vec<ClassSpec> {
    let &ServiceRate { slot, min, max, static_limit, weight, .. } = service;
    let minor = |first: u16, slot: u32| first + slot as u16;
    let own = minor(FIRST_MINOR, slot);
    let parts = limited.len() as u32 + 1;
    // A leaf without a guarantee of its own borrows also what its service is guaranteed, and HTB
    // charges its turn for it: the service would take less than its part of the excess.
    let part = Bandwidth::from_bps(min.min(max).bps() / u64::from(parts));
    let guaranteed: Bandwidth = limited.iter().map(|(_, rate)| part.min(*rate)).sum();
    let inner = ClassSpec { minor: own, parent: None, leaf: false, parts: 1, min: min.min(max), max, weight };
    let others = ClassSpec {
        minor: minor(OTHERS_FIRST, slot),
        parent: Some(own),
        leaf: true,
        parts,
        min: min.min(max).saturating_sub(guaranteed),
        max,
        weight,
    };
    let of_policy = ClassSpec {
        minor: minor(STATIC_FIRST, slot),
        parent: None,
        parts: 1,
        min: min.min(static_limit),
        max: static_limit,
        ..others
    };
    let destination = |(id, rate): &(u32, Bandwidth)| ClassSpec {
        minor: minor(DESTINATION_FIRST, *id),
        min: part.min(*rate),
        max: (*rate).min(max),
        ..others
    };
    [inner, others, of_policy].into_iter().chain(limited.iter().map(destination)).collect()
}

impl Shaper for HtbShaper {
    fn backend(&self) -> Backend {
        Backend::Htb
    }

    fn is_installed(&mut self) -> Result<bool, ShaperError> {
        Ok(self.tree.is_installed()?)
    }

    fn set(&mut self, rates: &[ServiceRate]) -> Result<(), ShaperError> {
        self.delete_given_up()?;
        self.services.extend(rates.iter().map(|rate| (rate.slot, *rate)));
        let specs: Vec<ClassSpec> = rates.iter().flat_map(|rate| self.of(rate.slot)).collect();
        Ok(self.tree.set(&specs)?)
    }

    fn forget(&mut self, slots: &[u32]) -> Result<(), ShaperError> {
        let gone: Vec<u16> = slots.iter().flat_map(|slot| self.of(*slot)).map(|class| class.minor).collect();
        self.services.retain(|slot, _| !slots.contains(slot));
        self.destinations.retain(|_, limited| !slots.contains(&limited.slot));
        Ok(self.delete(&gone)?)
    }

    fn limit_destinations(&mut self, rates: &[DestinationRate]) -> Result<Vec<(u32, u16)>, ShaperError> {
        self.delete_given_up()?;
        let (mut changed, mut classes) = (Vec::new(), Vec::new());
        for &DestinationRate { destination, slot, rate } in rates {
            let Some(service) = self.services.get(&slot) else { continue };
            let free = rate.is_none_or(|rate| rate >= service.max);
            let mut class = Some(DESTINATION_FIRST + destination as u16);
            match (self.destinations.get_mut(&destination), rate) {
                (None, _) if free => class = None,
                (None, Some(rate)) => {
                    self.destinations.insert(destination, Limited { slot, rate, free: 0 });
                    changed.push(slot);
                }
                (Some(limited), Some(rate)) if !free || limited.free < UNLIMITED_FOR => {
                    limited.free = if free { limited.free + 1 } else { 0 };
                    limited.rate = rate;
                    changed.push(slot);
                }
                (Some(_), _) => {
                    self.destinations.remove(&destination);
                    self.leaving.extend(class.take().map(|class| (class, slot)));
                    changed.push(slot);
                }
                (None, None) => unreachable!("a destination without a rate is free"),
            }
            classes.push((destination, class.unwrap_or(0)));
        }
        changed.sort_unstable();
        changed.dedup();
        let specs: Vec<ClassSpec> = changed.iter().flat_map(|slot| self.of(*slot)).collect();
        self.tree.set(&specs)?;
        Ok(classes)
    }

    fn queues(&mut self) -> Result<Vec<ServiceQueue>, ShaperError> {
        let empty = |slot| ServiceQueue { slot, sent: Bytes::ZERO, backlog: Bytes::ZERO, drops: 0, destinations: 0 };
        let slots = self.services.keys().map(|slot| Some(*slot)).chain([None]);
        let mut queues: BTreeMap<Option<u32>, ServiceQueue> = slots.map(|slot| (slot, empty(slot))).collect();
        for (slot, class) in self.leaves()? {
            let Some(queue) = queues.get_mut(&slot) else { continue };
            queue.sent += class.bytes;
            queue.backlog += class.backlog;
            let limits =
                |minor: u16| minor >= DESTINATION_FIRST && !self.leaving.iter().any(|(gone, _)| *gone == minor);
            queue.destinations += u32::from(limits(class.minor));
        }
        for (slot, queue) in &mut queues {
            queue.drops = self.dropped.of(*slot);
        }
        Ok(queues.into_values().collect())
    }

    fn dropped(&mut self) -> Result<Dropped, ShaperError> {
        self.leaves()?;
        Ok(self.dropped.clone())
    }

    fn go_on_from(&mut self, dropped: Dropped) {
        self.dropped = dropped;
    }

    fn remove(self: Box<Self>) -> Result<(), ShaperError> {
        Ok(self.tree.remove()?)
    }

    fn set_kept(&mut self, kept: bool) {
        self.tree.set_kept(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::{ServiceId, Weight};

    fn service() -> ServiceRate {
        ServiceRate {
            service: ServiceId(5),
            slot: 2,
            min: Bandwidth::from_gbps(3),
            max: Bandwidth::from_gbps(8),
            machine_max: Bandwidth::from_gbps(10),
            static_limit: Bandwidth::from_gbps(10),
            weight: Weight::ONE,
        }
    }

    #[test]
    fn class_of_the_static_policy_keeps_the_guarantee_under_a_low_limit() {
        let limited = ServiceRate { max: Bandwidth::from_gbps(1), static_limit: Bandwidth::from_gbps(2), ..service() };
        let mins: Vec<u64> = classes(&limited, &[]).iter().map(|spec| spec.min.bps() / 1_000_000_000).collect();
        assert_eq!(mins, [1, 1, 2]);
    }

    #[test]
    fn service_has_a_class_two_leaves_and_one_per_limited_destination() {
        let specs = classes(&service(), &[(7, Bandwidth::from_gbps(1)), (9, Bandwidth::from_gbps(9))]);
        let row = |spec: &ClassSpec| (spec.minor, spec.parent, spec.leaf, spec.parts, spec.max.bps() / 1_000_000_000);
        let rows: Vec<_> = specs.iter().map(row).collect();
        assert_eq!(
            rows,
            [
                (0x12, None, false, 1, 8),
                (0x1002, Some(0x12), true, 3, 8),
                (0x2002, None, true, 1, 10),
                (0x3007, Some(0x12), true, 3, 1),
                // At most the service's limit.
                (0x3009, Some(0x12), true, 3, 8),
            ]
        );
        let mins: Vec<u64> = specs.iter().map(|spec| spec.min.bps()).collect();
        assert_eq!(mins, [3_000_000_000, 1_000_000_000, 3_000_000_000, 1_000_000_000, 1_000_000_000]);
    }
}
