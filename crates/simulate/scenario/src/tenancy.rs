//! The tenants of a run: their places, and the timing of their control.

use std::sync::Arc;
use weir_placement::{Fabric, TenantPlace};
use weir_units::{Bandwidth, Duration, MachineId, TenantId};

/// The tenants of a run, all of them placed.
#[derive(Debug, Clone)]
pub struct Tenancy {
    /// The trees of the network.
    pub fabric: Arc<Fabric>,
    /// The places of the policy's tenants; a [`weir_units::TenantId`] is the index into this list.
    pub placed: Vec<TenantPlace>,
    /// By tenant, its machines, ascending, with its reservation at each one's interface.
    pub machines: Vec<Vec<(MachineId, Bandwidth)>>,
    /// Weighted queues of a port, the shared one included; at least 1.
    pub queues: u8,
    /// The time that settings need from the controller to a machine or a switch, and responses back.
    pub delay: Duration,
}

/// The delay of control messages where a scenario gives none: a round trip of a management network takes about 1 ms.
pub(crate) const CONTROL_DELAY: Duration = Duration::from_millis(1);
/// The most queues of a simulated port; hardware has eight.
pub(crate) const MAX_QUEUES: u8 = 64;

impl Tenancy {
    /// The machines of a tenant.
    pub fn machines(&self, tenant: TenantId) -> &[(MachineId, Bandwidth)] {
        &self.machines[tenant.index()]
    }
}
