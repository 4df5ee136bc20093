//! Compatibility of a policy with the one that it replaces while a broker runs.
//!
//! Ids are indices into a policy's lists, so a broker's state stays valid only if both policies
//! name the same racks, machines and services in the same order. All their other values may differ.

use weir_policy::Policy;

/// The replacing policy has other racks, machines or services than the broker's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IncompatiblePolicy;

impl std::fmt::Display for IncompatiblePolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the policy has other racks, machines or services: restart the broker")
    }
}

impl std::error::Error for IncompatiblePolicy {}

pub(crate) fn check_compatible(one: &Policy, other: &Policy) -> Result<(), IncompatiblePolicy> {
    let machines = |policy: &Policy| -> Vec<(String, u32)> {
        policy.network().machines().iter().map(|machine| (machine.name().to_owned(), machine.rack().0)).collect()
    };
    let racks = |policy: &Policy| -> Vec<String> {
        policy.network().racks().iter().map(|rack| rack.name().to_owned()).collect()
    };
    let services = |policy: &Policy| -> Vec<(String, bool)> {
        policy.services().all().iter().map(|service| (service.path().to_owned(), service.is_leaf())).collect()
    };
    let same = machines(one) == machines(other) && racks(one) == racks(other) && services(one) == services(other);
    if same { Ok(()) } else { Err(IncompatiblePolicy) }
}
