//! The mechanism that serves each service and tenant, beside what it needs of the network.

use serde_json::{Value, json};
use weir_policy::{Mechanism, Policy, Service};
use weir_units::ServiceId;

/// For programs: a row for each service and tenant; the keys are those of `weir check --help`.
pub fn to_json(policy: &Policy) -> Value {
    let row = |(id, service): (ServiceId, &Service)| {
        let mechanism = policy.mechanism(id);
        let kind = match mechanism {
            Mechanism::Shares => "shares",
            Mechanism::Level(_) => "level",
            Mechanism::Tenant => "tenant-queues",
            Mechanism::Credits(_) => "credits",
        };
        json!({
            "service": service.path(),
            "mechanism": kind,
            "needs": mechanism.need().name(),
            "offered": policy.offers(mechanism.need()),
        })
    };
    policy.services().leaves().map(row).collect()
}
