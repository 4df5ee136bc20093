//! Tenants that no placement can have: refused at their position in the policy, with the resource that is missing.
//!
//! A placement is a search, so a tenant that finds no place beside others may find one after they have moved: that is a
//! remark. A tenant that finds none in the empty network, machines without slots for all, and switches that have no
//! queues for tenants are errors.

use super::{Plan, Rejected};
use crate::text;
use weir_document::{Diagnostic, Diagnostics, Problems};
use weir_placement::{Placer, Shortage, Strategy, file};
use weir_policy::Policy;

/// Tenants that are examined alone: each takes a search, and the first few show what is wrong.
const EXAMINED: usize = 20;

/// Refuses a network that has no room or no queues for tenants at all.
///
/// # Errors
/// Machines without slots, and switches that state that they have no weighted queues.
pub(crate) fn network(policy: &Policy) -> Result<(), Diagnostics> {
    let mut problems = policy.problems();
    if policy.network().machines().iter().all(|machine| machine.slots() == 0) {
        problems.error(
            policy.span_of(&["tenants"]),
            "no machine has room for virtual machines of tenants",
            "write `slots: 10` under `network`, or under machines in `network.machines`",
        );
    }
    if let Some(offer) = policy.network().offer().filter(|offer| offer.available().1 == 0) {
        let cause = format!(
            "the switches have no weighted queue for a tenant ({}), so tenants have no guarantees inside the network",
            offer.scheduler.name()
        );
        let hint = "write `scheduler: weighted`, or for levels too `scheduler: { strict: 2, weighted: 6 }`, if the \
                    switches have such queues; write no `scheduler` to plan without them";
        problems.error(policy.span_of(&["network", "switches", "scheduler"]), cause, hint);
    }
    problems.finish(()).map(drop)
}

/// Refuses tenants that do not fit, whatever their places.
///
/// # Errors
/// More virtual machines than slots; tenants that find no place even in the empty network.
pub(crate) fn tenants(policy: &Policy, plan: &Plan) -> Result<(), Diagnostics> {
    let mut problems = policy.problems();
    let vms: u64 = policy.tenants().iter().map(|tenant| u64::from(tenant.vms())).sum();
    let slots = plan.placer.ledger().slots().1;
    if vms > slots {
        problems.error(
            policy.span_of(&["tenants"]),
            format!(
                "the tenants have {} virtual machines and the machines have {} slots: {} are missing",
                text::whole(vms),
                text::whole(slots),
                text::whole(vms - slots)
            ),
            "give machines more `slots`, or add machines, or remove tenants",
        );
    }
    let mut alone = Plan::new(policy, Strategy::default()).placer;
    for rejected in plan.rejected.iter().take(EXAMINED) {
        examine(policy, plan, &mut alone, rejected, &mut problems);
    }
    problems.finish(()).map(drop)
}

/// Reports a tenant that finds no place in the empty network.
fn examine(policy: &Policy, plan: &Plan, alone: &mut Placer, rejected: &Rejected, problems: &mut Problems) {
    let Some(tenant) = policy.tenants().iter().find(|tenant| tenant.name == rejected.name) else { return };
    match alone.arrive(&tenant.name, file::hose(tenant)).map(drop) {
        Ok(()) => drop(alone.depart(&tenant.name)),
        Err(shortage) => {
            let own = Rejected { name: tenant.name.clone(), shortage, link: plan.link_of(shortage) };
            let cause = format!("tenant `{}` does not fit, even without other tenants: {}", tenant.name, own.reason());
            problems.error(policy.span_of(&["tenants", &tenant.name]), cause, hint(shortage));
        }
    }
}

/// The hint for a shortage.
fn hint(shortage: Shortage) -> &'static str {
    match shortage {
        Shortage::Slots { .. } => "give machines more `slots`, or the tenant fewer virtual machines",
        Shortage::Bandwidth { .. } => {
            "lower the tenant's bandwidth, or the guarantees of services and levels on that link; more slots on a \
             machine need less of its link"
        }
        Shortage::Groups => "use another strategy",
    }
}

/// Remarks on tenants that find no place beside the others.
pub(crate) fn remarks(policy: &Policy, plan: &Plan) -> Vec<Diagnostic> {
    let remark = |rejected: &Rejected| {
        let cause = format!("tenant `{}` finds no place beside the others: {}", rejected.name, rejected.reason());
        let hint = "smaller tenants, or an earlier name: `weir place` places tenants in the order of their names, and \
                    with --placed it moves none";
        policy.note(&["tenants", &rejected.name], &cause, hint)
    };
    let mut notes: Vec<Diagnostic> = plan.rejected.iter().take(EXAMINED).map(remark).collect();
    let more = plan.rejected.len().saturating_sub(EXAMINED);
    if more > 0 {
        notes.push(policy.note(&["tenants"], &format!("{more} more tenants find no place"), "see `weir place`"));
    }
    notes
}
