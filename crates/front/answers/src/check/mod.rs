//! `check`: whether a policy is valid, its guarantees fit, and agents and forwarders can enforce it.
//!
//! A refused policy is an answer, [`Check::Refused`]: the mistakes are its content. An [`AnswerError`] is about the
//! question: a file of places that cannot be used, or places for a policy without tenants.

mod enforceable;
mod guarantees;

pub use enforceable::interface_name;
pub use guarantees::{Guarantees, guarantees};

use crate::error::AnswerError;
use crate::policy::ReadPolicy;
use crate::tenants::routes::{self, TenantRoute};
use crate::tenants::{OnArrival, Order, Places, admit, links, paths_name, queues};
use crate::{credits, levels, mechanisms, text};
use serde_json::{Value, json};
use std::path::PathBuf;
use weir_document::{Diagnostic, Diagnostics};
use weir_latency::levels::Admitted;
use weir_placement::Strategy;
use weir_policy::{Policy, TenantPaths};

/// The circumstances for which a policy is checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// The file of the tenants' places; tenants that it does not have are placed by the default search.
    pub placed: Option<PathBuf>,
    /// Only an agent on this interface; otherwise those on the interfaces that the policy's filters suggest.
    pub interface: Option<String>,
    /// Whether a policy that agents or forwarders refuse is valid, with a remark.
    pub for_planning: bool,
}

/// The answer.
pub enum Check {
    /// The policy is valid.
    Valid(Box<ValidPolicy>),
    /// The policy is refused, for these mistakes.
    Refused(Diagnostics),
}

/// A valid policy.
pub struct ValidPolicy {
    /// The policy as it is written.
    pub policy: Policy,
    /// Remarks.
    pub notes: Vec<Diagnostic>,
    /// The policy with numbered levels and their bounds, if it has latency levels.
    pub levels: Option<Admitted>,
    /// The tenants, if there are any.
    pub tenants: Option<CheckedTenants>,
}

/// The tenants of a valid policy.
pub struct CheckedTenants {
    /// Their places.
    pub places: Places,
    /// The routes that switches need for them.
    pub routes: Vec<TenantRoute>,
}

/// Checks a policy that was read, or refused by the reader.
///
/// # Errors
/// A file of places that does not match, or that a policy without tenants has; a caller that ends the placement.
pub fn check(
    read: Result<ReadPolicy, Diagnostics>,
    options: &CheckOptions,
    on_arrival: OnArrival<'_>,
) -> Result<Check, AnswerError> {
    let ReadPolicy { policy, mut notes, admitted } = match read {
        Ok(read) => read.with_shaper_remarks(),
        Err(refused) => return Ok(Check::Refused(refused)),
    };
    if let Some(obstacle) = enforceable::obstacle(&policy, options.interface.as_deref()) {
        if !options.for_planning {
            return Ok(Check::Refused(obstacle.error(&policy)));
        }
        notes.push(obstacle.note(&policy));
    }
    if let Some(name) = &options.interface {
        notes.extend(enforceable::guest_remark(&policy, name));
    }
    let valid = ValidPolicy { policy, notes, levels: admitted, tenants: None };
    if !valid.policy.tenants().is_empty() {
        return valid.with_tenants(options, on_arrival);
    }
    if options.placed.is_some() {
        let error = AnswerError::refused("the policy has no tenants that could be placed");
        return Err(error.hint("leave --placed out"));
    }
    Ok(Check::Valid(Box::new(valid)))
}

impl Check {
    /// Whether the policy is valid.
    pub fn is_valid(&self) -> bool {
        matches!(self, Self::Valid(_))
    }

    /// For programs; the keys are those of `weir check --help`.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Valid(valid) => valid.to_json(),
            Self::Refused(refused) => refused_json(refused),
        }
    }
}

/// The mistakes of a document that is refused, for programs.
pub fn refused_json(refused: &Diagnostics) -> Value {
    json!({"valid": false, "errors": refused.count(), "diagnostics": refused.to_json()})
}

impl ValidPolicy {
    /// The policy with numbered levels.
    pub fn numbered(&self) -> &Policy {
        self.levels.as_ref().map_or(&self.policy, |admitted| &admitted.policy)
    }

    /// The number of services that are not those of tenants.
    pub fn services(&self) -> usize {
        // Each tenant has a service of its own.
        self.policy.services().leaves().count() - self.policy.tenants().len()
    }

    fn with_tenants(mut self, options: &CheckOptions, on_arrival: OnArrival<'_>) -> Result<Check, AnswerError> {
        // Levels that the planner numbers reserve their part of links too.
        let numbered = self.levels.as_ref().map_or(&self.policy, |admitted| &admitted.policy);
        if let Err(refused) = admit::network(numbered) {
            return Ok(Check::Refused(refused));
        }
        let mut places = Places::new(numbered, Strategy::default());
        if let Some(path) = &options.placed {
            self.notes.extend(places.adopt(path, numbered)?);
        }
        places.arrive(numbered, Order::default(), on_arrival);
        if places.untried > 0 {
            return Err(AnswerError::stopped());
        }
        match admit::tenants(numbered, &places) {
            Ok(remarks) => self.notes.extend(remarks),
            Err(refused) => return Ok(Check::Refused(refused)),
        }
        let routes = routes::of(&places, numbered);
        self.notes.extend(route_remark(numbered, &routes));
        self.tenants = Some(CheckedTenants { places, routes });
        Ok(Check::Valid(Box::new(self)))
    }

    fn to_json(&self) -> Value {
        let policy = &self.policy;
        let guarantees = guarantees(policy).into_iter().map(|row| {
            json!({
                "point": row.point.name(),
                "places": row.places,
                "direction": row.direction.name(),
                "capacity_bps": text::bps(row.capacity),
                "guaranteed_bps": text::bps(row.guaranteed),
                "left_bps": text::bps(row.left()),
            })
        });
        let mut value = json!({
            "valid": true,
            "errors": 0,
            "diagnostics": self.notes.iter().map(Diagnostic::to_json).collect::<Value>(),
            "racks": policy.network().racks().len(),
            "machines": policy.network().machines().len(),
            "services": self.services(),
            "guarantees": guarantees.collect::<Value>(),
        });
        value["mechanisms"] = mechanisms::to_json(self.numbered());
        if let Some(admitted) = &self.levels {
            value["levels"] = levels::to_json(admitted);
        }
        if let Some(credits) = credits::to_json(self.numbered()) {
            value["credits"] = credits;
        }
        if let Some(tenants) = &self.tenants {
            value["tenants"] = tenants.to_json(policy, self.numbered());
        }
        value
    }
}

impl CheckedTenants {
    fn to_json(&self, policy: &Policy, numbered: &Policy) -> Value {
        let places = &self.places;
        let rejected = places.rejected.iter().map(|own| json!({ "tenant": own.name, "reason": own.reason() }));
        json!({
            "places": places.file_name(),
            "placed": places.placer.placed().len(),
            "rejected": rejected.collect::<Value>(),
            "paths": paths_name(policy),
            "switches_without_routes": routes::switches(&self.routes),
            "links": links::to_json(places),
            "queues": queues::to_json(places, numbered),
        })
    }
}

/// A remark on reservations that hold only with routes that nothing configures.
fn route_remark(policy: &Policy, found: &[TenantRoute]) -> Option<Diagnostic> {
    let first = found.first().filter(|_| policy.tenant_queues().paths == TenantPaths::Unstated)?;
    let cause = format!(
        "the network has several paths, and its switches spread the packets of tenants such as `{}` over them: \
         reservations hold in the simulator only, until the routes of tenants along their trees are configured at {}",
        first.tenant,
        routes::switches_text(found)
    );
    let hint = "`weir place` lists the routes: configure them and write `tenant-queues: { paths: routed }`, or write \
                `paths: spread`, which needs none and reserves in full on each of the equal uplinks";
    Some(policy.note(&["tenants"], &cause, hint))
}
