//! Services with credits: a simulation enforces them by the transport of their flows.
//!
//! Rule: under an enforcement, traffic of a service with credits is sent by `pace`, whose ports grant it credits. Any
//! other transport would send without them, and results would not be those of the policy. The lab's agents and
//! forwarders grant the credits of real TCP; it refuses policies whose switches grant none, and those with periods
//! shorter than its own.
//!
//! Worked example: `services: { x: { credits: {} } }` in the policy and `{ service: x, transport: dctcp }` in the
//! scenario is refused at the flow group.

use super::traffic::Read;
use super::{Files, Reader};
use crate::governed::Enforcement;
use crate::model::{LAB_CREDIT_PERIOD, Traffic};
use weir_policy::Policy;

impl<F: Files> Reader<'_, F> {
    /// Refuses flow groups of services with credits that are sent without them.
    pub(super) fn sent_without_credits(&mut self, traffic: &[Read], policy: &Policy, enforcement: Enforcement) {
        if enforcement == Enforcement::None {
            return;
        }
        for Read { traffic: group, at, .. } in traffic {
            let protocol = group.transport.protocol();
            let mut services = group.services().map(|id| policy.services().get(id));
            let Some((service, weight)) = services.find_map(|own| Some((own, own.credits()?))) else { continue };
            if protocol == "pace" {
                continue;
            }
            self.error(
                *at,
                format!(
                    "service `{}` has credits, and {} is sent by {protocol}, without any",
                    service.path(),
                    group.name
                ),
                format!("write `transport: {{ protocol: pace, weight: {weight} }}`, or `enforcement: none`"),
            );
        }
    }
}

/// Whether a flow group's data waits for credits in the lab: all of its services have them.
pub(super) fn waits(group: &Traffic, policy: &Policy, enforcement: Enforcement) -> bool {
    enforcement != Enforcement::None && group.services().all(|id| policy.services().get(id).credits().is_some())
}

/// Why the lab's agents and forwarders do not grant a policy's credits.
pub(super) fn not_of_lab(policy: &Policy) -> Option<String> {
    let plan = policy.credit_plan()?;
    if !policy.network().forwarders() {
        let (_, service) = policy.services().leaves().find(|(_, service)| service.credits().is_some())?;
        return Some(format!("service `{}` has credits, and the policy's switches grant none", service.path()));
    }
    match plan.period_max {
        None => Some("its policy has credits, and states neither `period-max` nor the buffers of all ports".to_owned()),
        Some(most) if most < LAB_CREDIT_PERIOD => Some(format!(
            "its policy limits the periods of credits to {most}, and the lab has {LAB_CREDIT_PERIOD} at least"
        )),
        Some(_) => None,
    }
}
