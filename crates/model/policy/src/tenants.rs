//! Tenants: virtual machines whose guarantee follows the hose model.
//!
//! Problem: a tenant requests bandwidth at each of its virtual machines, not at machines and racks. Approach: a tenant
//! is a service of its own, found by filters as others are, and beside it the groups of virtual machines that a
//! placement puts onto machines.
//!
//! Example: `blue: { vms: { web: 4, db: 2 }, bandwidth: { web: 200Mb/s, db: 1Gb/s } }` has six virtual machines,
//! `blue-web-0` to `blue-web-3`, `blue-db-0` and `blue-db-1`, and pays for 2.8 Gb/s.
//!
//! Source: QShare §II-A (hose model), §V-B (payment).

use weir_units::{Bandwidth, ServiceId};

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tenant {
    /// The name in the policy file, which no service has.
    pub name: String,
    /// The service of its packets.
    pub service: ServiceId,
    /// Its virtual machines, in the order of the groups' names.
    pub groups: Vec<VmGroup>,
}

/// Virtual machines of one bandwidth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmGroup {
    /// The name; `None` where all virtual machines of the tenant are alike.
    pub name: Option<String>,
    /// How many, at least 1.
    pub vms: u32,
    /// The bandwidth of each one's hose, more than zero.
    pub bandwidth: Bandwidth,
}

impl Tenant {
    /// How many virtual machines it has.
    pub fn vms(&self) -> u32 {
        self.groups.iter().map(|group| group.vms).sum()
    }
    /// The sum of the bandwidths of its virtual machines: what it pays for.
    pub fn bandwidth(&self) -> Bandwidth {
        self.groups.iter().map(|group| Bandwidth::from_bps(u64::from(group.vms) * group.bandwidth.bps())).sum()
    }
    /// The name of a virtual machine: the number is within its group.
    pub fn vm_name(&self, group: usize, number: u32) -> String {
        match &self.groups[group].name {
            Some(group) => format!("{}-{group}-{number}", self.name),
            None => format!("{}-{number}", self.name),
        }
    }
}
