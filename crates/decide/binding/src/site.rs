//! [`Sites`]: the ports and machines of every tenant.
//!
//! Problem: binding decides by tenants, ports and machines alone, in a controller and in the simulator, whatever the
//! network and the placement are made of. Approach: plain tables of ids, made once for a placement.

use crate::queues::Map;
use weir_placement::SwitchId;
use weir_units::{Bandwidth, MachineId, TenantId};

/// A port of a switch: an index into [`Sites::ports`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

impl PortId {
    /// The position in lists of ports.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A port and the link behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Port {
    /// Its switch.
    pub switch: SwitchId,
    /// The rate of its link.
    pub rate: Bandwidth,
    /// Queues for single tenants, beside the shared one.
    pub queues: u8,
    /// The guarantees of services, whose packets are in the shared queue.
    pub others: Bandwidth,
}

/// A tenant's place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Site {
    /// The sum of the bandwidths of its virtual machines, to which its payment is proportional (QShare §V-B).
    pub payment: Bandwidth,
    /// The ports that its packets can pass, ascending, with its reservation at each.
    pub ports: Vec<(PortId, Bandwidth)>,
    /// Its machines, ascending, with its reservation at each one's interface; zero where all of it is on one machine.
    pub machines: Vec<(MachineId, Bandwidth)>,
}

/// The tenants of a network.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sites {
    /// The ports; a [`PortId`] is the index into this list.
    pub ports: Vec<Port>,
    /// The tenants; a [`TenantId`] is the index into this list. One without ports needs no queues.
    pub tenants: Vec<Site>,
}

impl Sites {
    /// The place of a tenant.
    pub fn site(&self, tenant: TenantId) -> &Site {
        &self.tenants[tenant.index()]
    }
    /// The reservation of a tenant at a machine's interface; zero where none of it is there.
    pub fn reserved(&self, tenant: TenantId, machine: MachineId) -> Bandwidth {
        let machines = &self.site(tenant).machines;
        machines.binary_search_by_key(&machine, |(id, _)| *id).map_or(Bandwidth::ZERO, |at| machines[at].1)
    }
    /// The number of the map by which a port's packets get their queues: that of the port or of its switch.
    pub fn map_of(&self, map: Map, port: PortId) -> u32 {
        match map {
            Map::PerPort => port.0,
            Map::PerSwitch => self.ports[port.index()].switch.0,
        }
    }
    /// Every tenant with its place, in order.
    pub fn all(&self) -> impl Iterator<Item = (TenantId, &Site)> {
        (0..).map(TenantId).zip(&self.tenants)
    }
    /// By port, the tenants that pass it, ascending.
    pub fn tenants_of_ports(&self) -> Vec<Vec<TenantId>> {
        let mut all = vec![Vec::new(); self.ports.len()];
        for (tenant, site) in self.all() {
            site.ports.iter().for_each(|(port, _)| all[port.index()].push(tenant));
        }
        all
    }
}
