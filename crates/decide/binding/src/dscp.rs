//! DSCP values of tenants with queues of their own.
//!
//! Problem: switches classify a tenant's packets by their DSCP value, and there are 64. Approach: tenants that pass a
//! common port have different values; a tenant has the least value of the pool that none of those has. One that has a
//! value keeps it. Where the pool has none left, the tenant has none, and no queue.
//!
//! Where a switch has one map for all its ports ([`Map::PerSwitch`]), tenants that pass a common switch have different
//! values. Two of them could have one value as long as they had the same queue there, at different ports; but packets
//! of a machine that is off and returns with its earlier value would then enter the queue of that number, which at its
//! ports may be of a third tenant or have no weight.
//!
//! Source: QShare §V-D (the fewest values would be a colouring of a graph; the paper's greedy choice needs less than 64
//! in a fully reserved datacenter, §VII-C1).

use crate::queues::Map;
use crate::site::Sites;
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

    /// The value of a tenant.
    pub fn get(&self, tenant: TenantId) -> Option<u8> {
        self.values.get(&tenant).copied()
    }
    /// All tenants with values.
    pub fn all(&self) -> &BTreeMap<TenantId, u8> {
        &self.values
    }

    /// Gives a tenant a value of the pool; `None` if all are in use at its ports or, where these have one map, its
    /// switches.
    pub fn take(&mut self, sites: &Sites, tenant: TenantId, pool: &[u8]) -> Option<u8> {
        if let Some(value) = self.get(tenant) {
            return Some(value);
        }
        let maps = sites.site(tenant).ports.iter().map(|(port, _)| sites.map_of(self.map, *port));
        let used = maps.fold(0, |used, map| used | self.used.get(&map).copied().unwrap_or(0));
        let value = pool.iter().copied().find(|value| used >> value & 1 == 0)?;
        self.adopt(sites, tenant, value);
        Some(value)
    }

    /// Takes over the value of a tenant from an earlier choice: 1 to 63, which no other tenant of its ports (or
    /// switches) has.
    ///
    /// # Panics
    /// If the value is above 63, the largest of six bits (RFC 2474, section 3).
    pub fn adopt(&mut self, sites: &Sites, tenant: TenantId, value: u8) {
        assert!(value < 64, "a DSCP value has six bits");
        for (port, _) in &sites.site(tenant).ports {
            let map = sites.map_of(self.map, *port);
            *self.used.entry(map).or_default() |= 1 << value;
        }
        self.values.insert(tenant, value);
    }

    /// Frees a tenant's value.
    pub fn give_back(&mut self, sites: &Sites, tenant: TenantId) {
        let Some(value) = self.values.remove(&tenant) else { return };
        for (port, _) in &sites.site(tenant).ports {
            let map = sites.map_of(self.map, *port);
            if let Some(used) = self.used.get_mut(&map) {
                *used &= !(1 << value);
            }
        }
    }
}
