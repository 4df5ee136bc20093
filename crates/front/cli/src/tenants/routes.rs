//! The routes that confine tenants to their trees, by switch.

use super::Plan;
use crate::output::{Table, Ui};
use crate::text;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io;
use weir_placement::Routes;
use weir_policy::{Match, Policy, Tenant};
use weir_units::TenantId;

/// Routes of the table; `--json` has all.
const SHOWN: usize = 40;

/// A route that a switch needs for a tenant.
pub(crate) struct TenantRoute {
    pub(crate) switch: String,
    pub(crate) tenant: String,
    /// The tenant's filters, by which the switch selects its packets.
    pub(crate) packets: Vec<String>,
    /// The machines that the packets go to.
    pub(crate) towards: Vec<String>,
    /// The next switch, whose port it is.
    pub(crate) next: String,
    /// The next switches on shortest paths.
    pub(crate) instead_of: Vec<String>,
}

/// All routes, by switch, then by tenant.
pub(crate) fn of(plan: &Plan, policy: &Policy) -> Vec<TenantRoute> {
    let mut routes = Routes::new(&plan.graph, plan.placer.fabric());
    let mut found = Vec::new();
    for (id, tenant) in (0..).map(TenantId).zip(policy.tenants()) {
        let Some(placed) = plan.placer.placed().get(&tenant.name) else { continue };
        found.extend(routes.of(&placed.fit).into_iter().map(|route| (route.switch, id, tenant, route)));
    }
    found.sort_by_key(|(switch, id, _, _)| (*switch, *id));
    let next = |link| {
        let name = plan.graph.link_name(link);
        name.split_once("->").map_or(name.clone(), |(_, next)| next.to_owned())
    };
    let route =
        |(switch, _, tenant, route): (weir_placement::SwitchId, _, &Tenant, weir_placement::Route)| TenantRoute {
            switch: plan.graph.switches[switch.index()].clone(),
            tenant: tenant.name.clone(),
            packets: packets(policy, tenant),
            towards: route.towards.iter().map(|machine| plan.graph.hosts[machine.index()].name.clone()).collect(),
            next: next(route.link),
            instead_of: route.instead_of.into_iter().map(next).collect(),
        };
    found.into_iter().map(route).collect()
}

/// A tenant's filters in one spelling.
pub(crate) fn packets(policy: &Policy, tenant: &Tenant) -> Vec<String> {
    policy.services().get(tenant.service).matches().iter().map(Match::canonical_text).collect()
}

/// How many switches need routes.
pub(crate) fn switches(routes: &[TenantRoute]) -> usize {
    routes.iter().map(|route| route.switch.as_str()).collect::<BTreeSet<_>>().len()
}

/// The same in words.
pub(crate) fn switches_text(routes: &[TenantRoute]) -> String {
    match switches(routes) {
        1 => "1 switch".to_owned(),
        more => format!("{} switches", text::whole(more as u64)),
    }
}

/// Prints a row for each route.
pub(crate) fn print(routes: &[TenantRoute], ui: &mut Ui) -> io::Result<()> {
    let mut table = Table::new(&["routes at", "tenant", "packets", "to", "by", "shortest paths"]);
    for route in routes.iter().take(SHOWN) {
        table.row([
            route.switch.clone(),
            route.tenant.clone(),
            text::list(&route.packets, 2),
            text::list(&route.towards, 4),
            route.next.clone(),
            text::list(&route.instead_of, 4),
        ]);
    }
    ui.print_table(&table, 0)?;
    if routes.len() > SHOWN {
        ui.print(&format!("… and {} more, which --json has\n", text::whole((routes.len() - SHOWN) as u64)))?;
    }
    Ok(())
}

/// The same for programs.
pub(crate) fn to_json(routes: &[TenantRoute]) -> Value {
    let route = |route: &TenantRoute| {
        json!({
            "switch": route.switch,
            "tenant": route.tenant,
            "packets": route.packets,
            "to": route.towards,
            "by": route.next,
            "instead_of": route.instead_of,
        })
    };
    routes.iter().map(route).collect()
}
