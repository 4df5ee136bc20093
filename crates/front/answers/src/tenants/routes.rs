//! The routes that confine tenants to their trees, by switch.

use super::Places;
use crate::text;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use weir_placement::Routes;
use weir_policy::{Match, Policy, Tenant};
use weir_units::TenantId;

/// A route that a switch needs for a tenant.
pub struct TenantRoute {
    /// The switch.
    pub switch: String,
    /// The tenant.
    pub tenant: String,
    /// The tenant's filters, by which the switch selects its packets.
    pub packets: Vec<String>,
    /// The machines that the packets go to.
    pub towards: Vec<String>,
    /// The next switch, whose port it is.
    pub next: String,
    /// The next switches on shortest paths.
    pub instead_of: Vec<String>,
}

/// All routes, by switch, then by tenant.
pub fn of(places: &Places, policy: &Policy) -> Vec<TenantRoute> {
    let mut routes = Routes::new(&places.graph, places.placer.fabric());
    let mut found = Vec::new();
    for (id, tenant) in (0..).map(TenantId).zip(policy.tenants()) {
        let Some(placed) = places.placer.placed().get(&tenant.name) else { continue };
        found.extend(routes.of(&placed.fit).into_iter().map(|route| (route.switch, id, tenant, route)));
    }
    found.sort_by_key(|(switch, id, _, _)| (*switch, *id));
    let next = |link| {
        let name = places.graph.link_name(link);
        name.split_once("->").map_or(name.clone(), |(_, next)| next.to_owned())
    };
    let route =
        |(switch, _, tenant, route): (weir_placement::SwitchId, _, &Tenant, weir_placement::Route)| TenantRoute {
            switch: places.graph.switches[switch.index()].clone(),
            tenant: tenant.name.clone(),
            packets: packets(policy, tenant),
            towards: route.towards.iter().map(|machine| places.graph.hosts[machine.index()].name.clone()).collect(),
            next: next(route.link),
            instead_of: route.instead_of.into_iter().map(next).collect(),
        };
    found.into_iter().map(route).collect()
}

/// A tenant's filters in one spelling.
pub fn packets(policy: &Policy, tenant: &Tenant) -> Vec<String> {
    policy.services().get(tenant.service).matches().iter().map(Match::canonical_text).collect()
}

/// How many switches need routes.
pub fn switches(routes: &[TenantRoute]) -> usize {
    routes.iter().map(|route| route.switch.as_str()).collect::<BTreeSet<_>>().len()
}

/// The same in words.
pub fn switches_text(routes: &[TenantRoute]) -> String {
    match switches(routes) {
        1 => "1 switch".to_owned(),
        more => format!("{} switches", text::whole(more as u64)),
    }
}

/// For programs.
pub fn to_json(routes: &[TenantRoute]) -> Value {
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
