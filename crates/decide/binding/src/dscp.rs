//! DSCP values of tenants with queues of their own.
//!
//! Problem: switches know a tenant's packets by their DSCP value, and there are 64. Approach: tenants that pass a
//! common port have different values; a tenant has the least value of the pool that none of those has. One that has a
//! value keeps it. Where the pool has none left, the tenant has none, and no queue.
//!
//! Where a switch has one map for all its ports ([`Map::PerSwitch`]), a value has one queue at each switch: tenants of
//! a common switch have the same value only if they have the same queue there, at different ports.
//!
//! Source: QShare §V-D (the fewest values would be a colouring of a graph; the paper's greedy choice needs less than 64
//! in a fully reserved datacenter, §VII-C1).

use crate::queues::{Map, QueueIndex};
use crate::site::{PortId, Sites};
use std::collections::BTreeMap;
use weir_units::TenantId;

/// The values of tenants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Values {
    map: Map,
    values: BTreeMap<TenantId, u8>,
    /// By port or switch, whichever has a map, the values in use there.
    used: BTreeMap<u32, u64>,
    /// By switch with one map and value in use there, its queue, and the number of ports of tenants with it.
    queues: BTreeMap<(u32, u8), (QueueIndex, u32)>,
}

impl Values {
    /// No values in use, on switches with these maps.
    pub fn new(map: Map) -> Self {
        Self { map, ..Self::default() }
    }

    /// The number of the map by which a port's packets get their queues.
    fn map_of(&self, sites: &Sites, port: PortId) -> u32 {
        match self.map {
            Map::PerPort => port.0,
            Map::PerSwitch => sites.ports[port.index()].switch.0,
        }
    }

    /// The value of a tenant.
    pub fn get(&self, tenant: TenantId) -> Option<u8> {
        self.values.get(&tenant).copied()
    }
    /// All tenants with values.
    pub fn all(&self) -> &BTreeMap<TenantId, u8> {
        &self.values
    }

    /// Gives a tenant a value of the pool; `None` if all are in use at its ports. `queues` are its queues at each of
    /// its ports; they matter where switches have one map for all ports.
    pub fn take(&mut self, sites: &Sites, tenant: TenantId, queues: &[QueueIndex], pool: &[u8]) -> Option<u8> {
        if let Some(value) = self.get(tenant) {
            return Some(value);
        }
        let is_free = |value: &u8| {
            sites.site(tenant).ports.iter().enumerate().all(|(at, (port, _))| {
                let place = self.map_of(sites, *port);
                let is_used = self.used.get(&place).is_some_and(|used| used >> value & 1 == 1);
                let own = self.queues.get(&(place, *value)).map(|(queue, _)| queue);
                !is_used || own.is_some_and(|own| queues.get(at) == Some(own))
            })
        };
        let value = pool.iter().copied().find(is_free)?;
        self.adopt(sites, tenant, queues, value);
        Some(value)
    }

    /// Takes over the value of a tenant with these queues from an earlier choice.
    pub fn adopt(&mut self, sites: &Sites, tenant: TenantId, queues: &[QueueIndex], value: u8) {
        for (at, (port, _)) in sites.site(tenant).ports.iter().enumerate() {
            let place = self.map_of(sites, *port);
            *self.used.entry(place).or_default() |= 1 << value;
            if let (Map::PerSwitch, Some(queue)) = (self.map, queues.get(at)) {
                self.queues.entry((place, value)).or_insert((*queue, 0)).1 += 1;
            }
        }
        self.values.insert(tenant, value);
    }

    /// Frees a tenant's value.
    pub fn give_back(&mut self, sites: &Sites, tenant: TenantId) {
        let Some(value) = self.values.remove(&tenant) else { return };
        for (port, _) in &sites.site(tenant).ports {
            let place = self.map_of(sites, *port);
            if let Some((_, ports)) = self.queues.get_mut(&(place, value)) {
                *ports -= 1;
                if *ports > 0 {
                    continue;
                }
                self.queues.remove(&(place, value));
            }
            if let Some(used) = self.used.get_mut(&place) {
                *used &= !(1 << value);
            }
        }
    }
}
