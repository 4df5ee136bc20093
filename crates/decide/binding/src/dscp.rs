//! DSCP values of tenants with queues of their own.
//!
//! Problem: switches know a tenant's packets by their DSCP value, and there are 64. Approach: tenants that pass a
//! common port have different values; a tenant has the least value of the pool that none of those has. One that has a
//! value keeps it. Where the pool has none left, the tenant has none, and no queue. Where a switch has one map for all
//! its ports ([`Map::PerSwitch`]), the same holds for tenants that pass a common switch.
//!
//! Source: QShare §V-D (the fewest values would be a colouring of a graph; the paper's greedy choice needs less than 64
//! in a fully reserved datacenter, §VII-C1).

use crate::queues::Map;
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

    /// Gives a tenant a value of the pool; `None` if all are in use at its ports.
    pub fn take(&mut self, sites: &Sites, tenant: TenantId, pool: &[u8]) -> Option<u8> {
        if let Some(value) = self.get(tenant) {
            return Some(value);
        }
        let ports = &sites.site(tenant).ports;
        let at = |(port, _): &(PortId, _)| self.used.get(&self.map_of(sites, *port)).copied().unwrap_or(0);
        let used = ports.iter().fold(0, |used, port| used | at(port));
        let value = pool.iter().copied().find(|value| used >> value & 1 == 0)?;
        self.adopt(sites, tenant, value);
        Some(value)
    }

    /// Takes over the value of a tenant from an earlier choice.
    pub fn adopt(&mut self, sites: &Sites, tenant: TenantId, value: u8) {
        for (port, _) in &sites.site(tenant).ports {
            *self.used.entry(self.map_of(sites, *port)).or_default() |= 1 << value;
        }
        self.values.insert(tenant, value);
    }

    /// Frees a tenant's value.
    pub fn give_back(&mut self, sites: &Sites, tenant: TenantId) {
        let Some(value) = self.values.remove(&tenant) else { return };
        for (port, _) in &sites.site(tenant).ports {
            if let Some(used) = self.used.get_mut(&self.map_of(sites, *port)) {
                *used &= !(1 << value);
            }
        }
    }
}
