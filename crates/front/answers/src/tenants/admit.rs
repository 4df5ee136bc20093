//! Tenants that no placement can have: refused at their position in the policy, with the resource that is missing.
//!
//! A placement is a heuristic search, in an order of arrival (QShare §IV), so a tenant that finds no place may find one
//! in another order or by another search: that is a remark, with the command that places it if one does. Errors are
//! tenants that no tree of the empty network can have whatever the search (`weir_placement`'s `possible`), machines
//! without slots for all, and switches that have no queues for tenants.

use super::{Order, Places, Rejection};
use crate::text;
use weir_document::{Diagnostic, Diagnostics, Problems};
use weir_network::switches::Scheduler;
use weir_placement::{EXAMINED_MAX, Shortage, Strategy, file};
use weir_policy::{Policy, Tenant};

/// Tenants that are examined alone: each takes a search, and the first few show what is wrong.
const EXAMINED: usize = 20;

/// Tenants times machines up to which other orders and searches are tried: some seconds for five of them.
const TRIED: usize = 3_000_000;

/// Refuses a network that has no room or no queues for tenants at all.
///
/// # Errors
/// Machines without slots, and switches that state that they have no weighted queues.
pub fn network(policy: &Policy) -> Result<(), Diagnostics> {
    let mut problems = policy.problems();
    if policy.network().machines().iter().all(|machine| machine.slots() == 0) {
        problems.error(
            policy.span_of(&["tenants"]),
            "no machine has room for virtual machines of tenants",
            "write `slots: 10` under `network`, or under machines in `network.machines`",
        );
    }
    if let Some(offer) = policy.network().offer().filter(|offer| offer.available().1 == 0) {
        let (path, lack, hint) = match offer.scheduler {
            Scheduler::Weighted => (
                &["network", "switches", "queues"][..],
                "one queue at each port, which all tenants share",
                "write `queues: 2` or more, as the switches have: one is shared, the others are for tenants",
            ),
            Scheduler::Mixed { .. } => (
                &["network", "switches", "scheduler", "weighted"][..],
                "one weighted queue at each port, which all tenants share",
                "write `weighted: 2` or more, as the switches have: one is shared, the others are for tenants",
            ),
            Scheduler::Plain | Scheduler::Strict => (
                &["network", "switches", "scheduler"][..],
                "no weighted queue for a tenant",
                "write `scheduler: weighted`, or for levels too `scheduler: { strict: 2, weighted: 6 }`, if the \
                 switches have such queues; write no `scheduler` to plan without them",
            ),
        };
        let cause = format!(
            "the switches have {lack} ({}), so tenants have no guarantees inside the network",
            offer.scheduler.name()
        );
        problems.error(policy.span_of(path), cause, hint);
    }
    problems.finish(()).map(drop)
}

/// Refuses tenants that have no place in any tree; remarks on others that found none.
///
/// # Errors
/// More virtual machines than slots; tenants that no tree can have even in the empty network.
pub fn tenants(policy: &Policy, places: &Places) -> Result<Vec<Diagnostic>, Diagnostics> {
    let mut problems = policy.problems();
    let vms: u64 = policy.tenants().iter().map(|tenant| u64::from(tenant.vms())).sum();
    let slots = places.placer.ledger().slots().1;
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
    let mut alone = Places::new(policy, Strategy::default());
    let mut beside = Vec::new();
    for rejected in places.rejected.iter().take(EXAMINED) {
        let Some(tenant) = policy.tenants().iter().find(|tenant| tenant.name == rejected.name) else { continue };
        match examine(tenant, &mut alone) {
            Lack::Others => beside.push(rejected),
            Lack::Network(lack) => {
                let cause =
                    format!("tenant `{}` cannot fit, even without other tenants: {}", tenant.name, lack.reason());
                problems.error(policy.span_of(&["tenants", &tenant.name]), cause, hint(lack.shortage));
            }
            Lack::Search(lack) => unfound(policy, tenant, &lack, &mut problems),
        }
    }
    let more = places.rejected.len().saturating_sub(EXAMINED);
    if problems.count() == 0 && (more > 0 || !beside.is_empty()) {
        let found = other_order(policy, places);
        beside.iter().for_each(|rejected| displaced(policy, rejected, found.as_deref(), &mut problems));
        if more > 0 {
            let hint = found.unwrap_or_else(|| "see `weir place`".to_owned());
            problems.note(policy.span_of(&["tenants"]), format!("{more} more tenants find no place"), hint);
        }
    }
    problems.finish(()).map(|((), notes)| notes)
}

/// Why a tenant was not placed.
enum Lack {
    /// It has a place in the empty network.
    Others,
    /// No tree of the empty network can have it.
    Network(Rejection),
    /// The search finds none in the empty network, and that there is none is not proven.
    Search(Rejection),
}

fn examine(tenant: &Tenant, alone: &mut Places) -> Lack {
    let hose = file::hose(tenant);
    match alone.placer.arrive(&tenant.name, hose.clone()).map(drop) {
        Ok(()) => {
            alone.placer.depart(&tenant.name);
            Lack::Others
        }
        Err(shortage) => {
            let lack = Rejection::new(&tenant.name, shortage, alone);
            if alone.placer.rules_out(&hose) { Lack::Network(lack) } else { Lack::Search(lack) }
        }
    }
}

/// Remarks on a tenant that the search does not place even in the empty network.
fn unfound(policy: &Policy, tenant: &Tenant, lack: &Rejection, problems: &mut Problems) {
    let others = [("first-fit", Strategy::FirstFit), ("oktopus", Strategy::Oktopus)];
    let finds = |strategy| Places::new(policy, strategy).placer.arrive(&tenant.name, file::hose(tenant)).is_ok();
    let hint = match others.into_iter().find(|(_, strategy)| finds(*strategy)) {
        Some((name, _)) => format!("`weir place --strategy {name}` finds a place for it in the empty network"),
        None if is_examined(tenant) => {
            "a place exists, but no strategy finds it: try other numbers of virtual machines or slots".to_owned()
        }
        None => format!("no strategy finds one, which does not prove that there is none; {}", hint(lack.shortage)),
    };
    let cause = format!(
        "tenant `{}` is not placed by the search of `weir place`, even without other tenants: {}",
        tenant.name,
        lack.reason()
    );
    problems.note(policy.span_of(&["tenants", &tenant.name]), cause, hint);
}

/// Whether a place exists if it is not ruled out.
fn is_examined(tenant: &Tenant) -> bool {
    let is_uniform = tenant.groups.iter().all(|group| group.bandwidth == tenant.groups[0].bandwidth);
    is_uniform && file::hose(tenant).vms() <= EXAMINED_MAX
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

/// Remarks on a tenant that finds no place beside the others.
fn displaced(policy: &Policy, rejected: &Rejection, found: Option<&str>, problems: &mut Problems) {
    let cause = format!(
        "tenant `{}` is not placed beside the others, which `weir place` places by their payment: {}",
        rejected.name,
        rejected.reason()
    );
    let hint = found.unwrap_or(
        "neither another order (`--order names`) nor another search (`--strategy`) places all tenants: smaller \
         tenants, or more room",
    );
    problems.note(policy.span_of(&["tenants", &rejected.name]), cause, hint);
}

/// The command that places all tenants in another order or by another search, if one of those that are tried does;
/// tenants of a file stay where they are.
fn other_order(policy: &Policy, places: &Places) -> Option<String> {
    let work = policy.tenants().len() * policy.network().machines().len();
    if work > TRIED {
        return Some("another order (`--order names`) or search (`--strategy`) may place them all".to_owned());
    }
    let strategies = [("", Strategy::default()), (" --strategy first-fit", Strategy::FirstFit)];
    let strategies = strategies.into_iter().chain([(" --strategy oktopus", Strategy::Oktopus)]);
    let orders = [("", Order::Payment), (" --order names", Order::Names)];
    // The first, the default, gave `places`.
    let tried = strategies.flat_map(|strategy| orders.map(|order| (strategy, order))).skip(1);
    let mut complete =
        tried.filter(|((_, strategy), (_, order))| places.anew(policy, *order, *strategy).rejected.is_empty());
    let ((strategy, _), (order, _)) = complete.next()?;
    let (file, moves) = match places.file_name().filter(|_| !places.kept.is_empty()) {
        Some(file) => (format!(" --placed {file}"), ", and moves none,"),
        None => (String::new(), ""),
    };
    Some(format!("`weir place{strategy}{order}{file}`{moves} places all tenants"))
}
