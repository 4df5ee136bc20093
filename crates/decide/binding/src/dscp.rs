//! DSCP values of tenants with queues of their own.
//!
//! Problem: switches know a tenant's packets by their DSCP value, and there are 64. Approach: tenants that pass a
//! common port have different values; a tenant has the least value of the pool that none of those has. One that has a
//! value keeps it. Where the pool has none left, the tenant has none, and no queue.
//!
//! Source: QShare §V-D (the fewest values would be a colouring of a graph; the paper's greedy choice needs less than 64
//! in a fully reserved datacenter, §VII-C1).

use crate::site::Sites;
use std::collections::BTreeMap;
use weir_units::TenantId;

/// The values of tenants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Values {
    values: BTreeMap<TenantId, u8>,
    /// By port, the values in use there.
    used: BTreeMap<u32, u64>,
}

impl Values {
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
        let used = ports.iter().fold(0, |used, (port, _)| used | self.used.get(&port.0).copied().unwrap_or(0));
        let value = pool.iter().copied().find(|value| used >> value & 1 == 0)?;
        for (port, _) in ports {
            *self.used.entry(port.0).or_default() |= 1 << value;
        }
        self.values.insert(tenant, value);
        Some(value)
    }

    /// Takes over the value of a tenant from an earlier choice.
    pub fn adopt(&mut self, sites: &Sites, tenant: TenantId, value: u8) {
        for (port, _) in &sites.site(tenant).ports {
            *self.used.entry(port.0).or_default() |= 1 << value;
        }
        self.values.insert(tenant, value);
    }

    /// Frees a tenant's value.
    pub fn give_back(&mut self, sites: &Sites, tenant: TenantId) {
        let Some(value) = self.values.remove(&tenant) else { return };
        for (port, _) in &sites.site(tenant).ports {
            if let Some(used) = self.used.get_mut(&port.0) {
                *used &= !(1 << value);
            }
        }
    }
}
