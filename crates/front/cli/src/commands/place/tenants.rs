//! The result of `weir place`: each tenant's place, or its shortage.

use crate::tenants::Plan;
use crate::tenants::routes::{self, TenantRoute};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use weir_binding::{Sites, Values};
use weir_network::Graph;
use weir_placement::{Placed, Placer, Shortage};
use weir_policy::{Policy, Tenant};
use weir_units::TenantId;

/// A tenant with a place.
pub(super) struct PlacedTenant {
    pub(super) name: String,
    /// The switch at the root of its tree, or its machine.
    pub(super) tree: String,
    /// The switches that this one stands for, itself included; 0 for a machine.
    pub(super) roots: usize,
    /// Virtual machines and their machines.
    pub(super) vms: Vec<(String, String)>,
    pub(super) dscp: Option<u8>,
    /// The links with a reservation, and the reservation in bit/s.
    pub(super) links: Vec<(String, u64)>,
    /// It was placed now.
    pub(super) is_new: bool,
}

/// All tenants of a policy.
pub(super) struct Placement {
    pub(super) placed: Vec<PlacedTenant>,
    pub(super) routes: Vec<TenantRoute>,
    pub(super) plan: Plan,
}

impl Placement {
    /// The result of a plan; `old` are the tenants that had a place before.
    pub(super) fn of(policy: &Policy, plan: Plan, old: &BTreeSet<String>) -> Self {
        let values = values(policy, &plan.graph, &plan.placer);
        let tenants = (0..).map(TenantId).zip(policy.tenants());
        let placed = tenants.filter_map(|(id, tenant)| {
            let placed = plan.placer.placed().get(&tenant.name)?;
            let is_new = !old.contains(&tenant.name);
            Some(PlacedTenant::new(tenant, placed, values.get(id), &plan, is_new))
        });
        Self { placed: placed.collect(), routes: routes::of(&plan, policy), plan }
    }

    /// The file's content.
    pub(super) fn to_json(&self) -> Value {
        let tenants = self.placed.iter().map(|tenant| {
            let vms = tenant.vms.iter().map(|(vm, machine)| json!({ "vm": vm, "machine": machine }));
            let links = tenant.links.iter().map(|(link, bps)| json!({ "link": link, "reserved_bps": bps }));
            let mut value = json!({
                "tenant": tenant.name,
                "tree": tenant.tree,
                "vms": vms.collect::<Value>(),
                "links": links.collect::<Value>(),
            });
            if let Some(dscp) = tenant.dscp {
                value["dscp"] = dscp.into();
            }
            value
        });
        let rejected = self.plan.rejected.iter().map(|tenant| {
            let mut value = match tenant.shortage {
                Shortage::Slots { missing } => json!({ "reason": "slots", "missing": missing }),
                Shortage::Bandwidth { missing, left, .. } => {
                    json!({ "reason": "bandwidth", "missing": missing.bps(), "left": left, "link": tenant.link })
                }
                Shortage::Groups => json!({ "reason": "groups" }),
            };
            value["tenant"] = tenant.name.clone().into();
            value
        });
        json!({
            "placement": 1,
            "tenants": tenants.collect::<Value>(),
            "rejected": rejected.collect::<Value>(),
            "routes": routes::to_json(&self.routes),
        })
    }
}

impl PlacedTenant {
    fn new(tenant: &Tenant, placed: &Placed, dscp: Option<u8>, plan: &Plan, is_new: bool) -> Self {
        let (graph, placer) = (&plan.graph, &plan.placer);
        let mut vms = Vec::new();
        let mut numbers = vec![0; tenant.groups.len()];
        for part in &placed.fit.parts {
            for (group, count) in part.vms.iter().enumerate() {
                for _ in 0..*count {
                    let machine = graph.hosts[part.machine.index()].name.clone();
                    vms.push(((group, numbers[group]), machine));
                    numbers[group] += 1;
                }
            }
        }
        vms.sort();
        let vms = vms.into_iter().map(|((group, number), machine)| (tenant.vm_name(group, number), machine));
        let links = placed.fit.reservations.iter().flat_map(|(cable, reserved)| {
            let (one, other) = placer.fabric().links(*cable);
            [one, other].map(|link| (graph.link_name(link), reserved.bps()))
        });
        Self {
            name: tenant.name.clone(),
            tree: placed.fit.root.name(graph).to_owned(),
            roots: placer.fabric().roots(placed.fit.root).len(),
            vms: vms.collect(),
            dscp,
            links: links.collect(),
            is_new,
        }
    }
}

/// The DSCP values of tenants that use links, as if all of them had queues.
fn values(policy: &Policy, graph: &Graph, placer: &Placer) -> Values {
    let places = policy.tenants().iter().map(|tenant| placer.placed().get(&tenant.name));
    let sites = Sites::of_placement(places, placer.fabric(), graph, 1, &[]);
    let pool = policy.tenant_dscps();
    let mut values = Values::new(policy.network().map());
    for (tenant, site) in sites.all() {
        if !site.ports.is_empty() {
            values.take(&sites, tenant, &pool);
        }
    }
    values
}
