//! The indices of services at hosts.

use crate::ids::ServiceIndex;
use weir_policy::Policy;
use weir_units::ServiceId;

/// The index of each leaf service: its position among the leaves.
#[derive(Debug, Clone)]
pub struct ServiceIndices {
    leaves: Vec<ServiceId>,
}

impl ServiceIndices {
    /// The indices of a policy's leaf services.
    pub fn new(policy: &Policy) -> Self {
        Self { leaves: policy.services().leaves().map(|(id, _)| id).collect() }
    }
    /// How many there are.
    pub fn count(&self) -> usize {
        self.leaves.len()
    }
    /// The index of a leaf service; `None` for a service with children.
    pub fn of(&self, service: ServiceId) -> Option<ServiceIndex> {
        self.leaves.binary_search(&service).ok().map(|index| ServiceIndex(index as u16))
    }
    /// Every leaf with its index.
    pub fn iter(&self) -> impl Iterator<Item = (ServiceId, ServiceIndex)> {
        self.leaves.iter().zip(0..).map(|(&service, index)| (service, ServiceIndex(index)))
    }
}
