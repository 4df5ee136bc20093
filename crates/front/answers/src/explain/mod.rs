//! `explain`: the derivation of a service's share, and of a tenant's place.
//!
//! The allocator keeps every split on the way from a machine's interface up to the fabric; [`Explained`] has them, with
//! the arithmetic of each in a sentence ([`arithmetic`]) and possible changes. [`tenant`] has the searches and the
//! reservations of a tenant.

pub mod arithmetic;
mod change;
pub mod tenant;

use crate::allocate::allocate;
use crate::error::AnswerError;
use crate::text;
use serde_json::{Value, json};
use std::sync::Arc;
use weir_alloc::{Constraint, Decision, Explanation, NetworkShares, Step, StepRow};
use weir_document::{Suggester, quote};
use weir_policy::{Demands, Policy};
use weir_units::{Bandwidth, ContentionPoint, Direction, MachineId, ServiceId};

/// A service on a machine in one direction, with the explanation of its share.
pub struct Explained<'a> {
    policy: &'a Policy,
    demands: &'a Demands,
    machine: MachineId,
    service: ServiceId,
    /// The direction.
    pub direction: Direction,
    /// The splits that led to the share.
    pub explanation: Explanation,
    /// The most that it could have at once, if its demand were higher.
    headroom: Option<Bandwidth>,
}

/// Explains the share of an instance such as `m1/dfs/hbase`: in one direction, or in those with a demand. Empty if
/// it has a demand in neither direction, so a share of zero.
///
/// # Errors
/// A name of no service on a machine, or of one whose traffic is its children's.
pub fn explain<'a>(
    policy: &'a Arc<Policy>,
    demands: &'a Demands,
    instance: &str,
    direction: Option<Direction>,
) -> Result<Vec<Explained<'a>>, AnswerError> {
    let (machine, service) = find(policy, instance)?;
    let has_demand = |direction: &Direction| demands.get(machine, service, *direction) > Bandwidth::ZERO;
    let directions: Vec<Direction> = match direction {
        Some(direction) => vec![direction],
        None => Direction::ALL.into_iter().filter(has_demand).collect(),
    };
    if directions.is_empty() {
        return Ok(Vec::new());
    }
    let allocated = allocate(policy, demands);
    let of = |direction| Explained::new(policy, demands, allocated.shares(), (machine, service, direction));
    Ok(directions.into_iter().filter_map(of).collect())
}

/// The output for programs; the keys are those of `weir explain --help`.
pub fn to_json(explained: &[Explained<'_>]) -> Value {
    json!({ "explanations": explained.iter().map(Explained::to_json).collect::<Value>() })
}

/// The machine and the leaf service of `m1/dfs/hbase`.
fn find(policy: &Policy, instance: &str) -> Result<(MachineId, ServiceId), AnswerError> {
    let Some((machine_name, path)) = instance.split_once('/') else {
        return Err(AnswerError::refused(format!("{} names no service on a machine", quote(instance)))
            .hint("write MACHINE/SERVICE, for example `m1/dfs`, nested services as `m1/dfs/hbase`"));
    };
    let (network, services) = (policy.network(), policy.services());
    let mut suggester = Suggester::default();
    let Some(machine) = network.machine_named(machine_name) else {
        let known = network.machines().iter().map(|machine| machine.name());
        let hint = suggester.hint_of_name(machine_name, known, "name a machine of the policy");
        return Err(
            AnswerError::refused(format!("there is no machine {} in the policy", quote(machine_name))).hint(hint)
        );
    };
    let Some(service) = services.named(path) else {
        let known = services.leaves().map(|(_, service)| service.path());
        let hint = suggester.hint(path, known, "name a service of the policy, nested ones as `parent/child`");
        return Err(AnswerError::refused(format!("there is no service {} in the policy", quote(path))).hint(hint));
    };
    if !services.get(service).is_leaf() {
        let children = services.get(service).children().iter();
        let children: Vec<_> =
            children.map(|child| format!("`{machine_name}/{}`", services.get(*child).path())).collect();
        return Err(AnswerError::refused(format!("service `{path}` has no traffic of its own: its children have"))
            .hint(format!("name {}", text::list(&children, 5))));
    }
    Ok((machine, service))
}

impl<'a> Explained<'a> {
    fn new(
        policy: &'a Policy,
        demands: &'a Demands,
        shares: &NetworkShares,
        (machine, service, direction): (MachineId, ServiceId, Direction),
    ) -> Option<Self> {
        let demand = demands.get(machine, service, direction);
        let explanation = weir_alloc::explain(policy, shares, machine, service, direction, demand)?;
        let headroom = shares.headroom(policy, machine, service, direction);
        Some(Self { policy, demands, machine, service, direction, explanation, headroom })
    }

    /// The machine and the service: `m1/dfs`.
    pub fn name(&self) -> String {
        let machine = self.policy.network().machine(self.machine).name();
        format!("{machine}/{}", self.policy.services().get(self.service).path())
    }

    /// The constraint that decided the share, in words.
    pub fn decided_by(&self) -> String {
        self.explanation.decided_by.display(self.policy).to_string()
    }

    /// The place of a split, with the service whose share is split among its children.
    pub fn place(&self, step: &Step) -> String {
        match step.service {
            Some(service) => format!("{} of {}", self.policy.services().get(service).path(), step.place),
            None => step.place.clone(),
        }
    }

    /// A sentence or two for the operator who needs another share.
    pub fn advice(&self) -> String {
        change::advice(self)
    }

    /// Whether the rack lowered a service's demand at its machine.
    pub fn lowered(&self, step: &Step, row: &StepRow) -> bool {
        let service = self.policy.services().named(&row.name);
        let leaf = service.filter(|id| self.policy.services().get(*id).is_leaf());
        step.point == ContentionPoint::Machine
            && leaf.is_some_and(|service| row.demand < self.demands.get(self.machine, service, self.direction))
    }

    /// Whether the fabric set a service's maximum at its rack below the policy's.
    pub fn limited_by_fabric(&self, step: &Step, row: &StepRow) -> bool {
        let service = self.policy.services().named(&row.name);
        let own = |service| self.policy.services().get(service).share(step.point, self.direction).max;
        step.point == ContentionPoint::Rack && service.is_some_and(|service| row.share.max < own(service))
    }

    /// Whether the fabric decided the share.
    pub fn fabric_decides(&self) -> bool {
        matches!(self.explanation.decided_by, Constraint::Fabric | Constraint::Max(_, ContentionPoint::Fabric))
    }

    /// For programs.
    fn to_json(&self) -> Value {
        let explanation = &self.explanation;
        let row = |row: &StepRow| {
            json!({
                "name": row.name,
                "chosen": row.chosen,
                "min_bps": text::bps(row.share.min),
                "max_bps": text::bps(row.share.max),
                "weight": f64::from(row.share.weight.thousandths()) / 1000.0,
                "demand_bps": text::bps(row.demand),
                "got_bps": text::bps(row.got),
                "decided_by": decision_name(row.decision),
            })
        };
        let step = |step: &Step| {
            json!({
                "point": step.point.name(),
                "place": step.place,
                "service": step.service.map(|service| self.policy.services().get(service).path()),
                "available_bps": text::bps(step.available),
                "sharing": step.sharing.name(),
                "rows": step.rows.iter().map(row).collect::<Value>(),
                "text": arithmetic::sentence(step),
            })
        };
        json!({
            "machine": self.policy.network().machine(self.machine).name(),
            "service": self.policy.services().get(self.service).path(),
            "direction": self.direction.name(),
            "demand_bps": text::bps(explanation.demand),
            "allocation_bps": text::bps(explanation.share),
            "limited": explanation.decided_by.is_limit(),
            "decided_by": self.decided_by(),
            "headroom_bps": self.headroom.map(text::bps),
            "steps": explanation.steps.iter().map(step).collect::<Value>(),
            "advice": self.advice(),
        })
    }
}

/// The decision for programs.
fn decision_name(decision: Decision) -> &'static str {
    match decision {
        Decision::Demand => "demand",
        Decision::Max => "max",
        Decision::Level => "level",
    }
}
