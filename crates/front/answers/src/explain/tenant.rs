//! A tenant's place and its reservations, with the reason of each.

use crate::error::AnswerError;
use crate::tenants::routes::{self, TenantRoute};
use crate::tenants::{OnArrival, Order, Places, links};
use serde_json::{Value, json};
use weir_placement::{CableId, Fit, Hose, Placer, Shortage, SurveyLayer, TenantPlace, file};
use weir_policy::{Policy, Tenant};
use weir_units::Bandwidth;

/// A tenant with its place, and the network without it.
pub struct ExplainedTenant<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// The tenant.
    pub tenant: &'a Tenant,
    /// The network of all other tenants.
    pub places: Places,
    /// Its place, if it has one.
    pub placed: Option<TenantPlace>,
    /// Why it has none, or none for all of its virtual machines.
    pub rejected: Option<String>,
    /// The most free slots of a machine.
    pub most_free: u32,
    /// The layers that a search from now compares; none if a machine has room for all.
    pub survey: Vec<SurveyLayer>,
    /// The place that a search from now would choose, if it is another one.
    pub other: Option<Fit>,
    /// The routes that keep its packets on its links.
    pub routes: Vec<TenantRoute>,
}

/// Explains a tenant: `places` has the tenants of an earlier placement, or none; all others are placed by the default
/// search.
///
/// # Errors
/// A caller that ends the placement.
pub fn explain<'a>(
    policy: &'a Policy,
    tenant: &'a Tenant,
    mut places: Places,
    on_arrival: OnArrival<'_>,
) -> Result<ExplainedTenant<'a>, AnswerError> {
    places.arrive(policy, Order::default(), on_arrival);
    if places.untried > 0 {
        return Err(AnswerError::stopped());
    }
    let routes = routes::of(&places, policy).into_iter().filter(|route| route.tenant == tenant.name).collect();
    let rejected = places.rejected.iter().find(|own| own.name == tenant.name).map(|own| own.reason());
    let placed = places.placer.depart(&tenant.name);
    let machines = 0..policy.network().machines().len() as u32;
    let free = machines.map(|at| places.placer.ledger().free(weir_units::MachineId(at)));
    let most_free = free.max().unwrap_or(0);
    let hose = file::hose(tenant);
    let survey = if most_free < tenant.vms() { places.placer.survey(&hose) } else { Vec::new() };
    let other = placed.as_ref().and_then(|placed| other_place(&mut places.placer, &tenant.name, &hose, placed));
    Ok(ExplainedTenant { policy, tenant, places, placed, rejected, most_free, survey, other, routes })
}

/// The place that a search from now would choose for a tenant, beside all others, if it is not the place that it has.
fn other_place(placer: &mut Placer, name: &str, hose: &Hose, placed: &TenantPlace) -> Option<Fit> {
    let now = placer.arrive(name, hose.clone()).ok()?.fit.clone();
    placer.depart(name);
    (now != placed.fit).then_some(now)
}

/// A tenant of a policy by its name.
pub fn named<'a>(policy: &'a Policy, name: &str) -> Option<&'a Tenant> {
    policy.tenants().iter().find(|tenant| tenant.name == name)
}

impl ExplainedTenant<'_> {
    /// A shortage in words, with its link.
    pub fn lack(&self, shortage: Shortage) -> String {
        shortage.text(|cable| links::name(&self.places, cable))
    }

    /// For programs; the keys are those of `weir explain --help`.
    pub fn to_json(&self) -> Value {
        let (tenant, graph) = (self.tenant, &self.places.graph);
        let fit = self.placed.as_ref().map(|placed| &placed.fit);
        let machines = |fit: &Fit| {
            let part = |part: &weir_placement::Part| {
                let name = &graph.hosts[part.machine.index()].name;
                json!({ "machine": name, "vms": part.vms.iter().sum::<u32>() })
            };
            fit.parts.iter().map(part).collect::<Value>()
        };
        let layer = |layer: &SurveyLayer| {
            let tree = |fit: &Fit| {
                json!({
                    "tree": fit.root.name(graph),
                    "cb_bps": u64::try_from(fit.bandwidth()).unwrap_or(u64::MAX),
                    "cq": fit.tenants(self.places.placer.ledger()),
                })
            };
            json!({
                "trees": layer.trees,
                "without_slots": layer.without_slots,
                "without_bandwidth": layer.without_bandwidth,
                "nearest": layer.nearest.map(|lack| self.lack(lack)),
                "feasible": layer.feasible.iter().map(tree).collect::<Value>(),
            })
        };
        let link = |(cable, own): &(CableId, Bandwidth)| {
            let (ledger, room) = (self.places.placer.ledger(), self.places.rooms[cable.index()]);
            json!({
                "link": links::name(&self.places, *cable),
                "reserved_bps": own.bps(),
                "larger_side_bps": tenant.bandwidth().saturating_sub(*own).bps(),
                "other_tenants_bps": ledger.reserved(*cable).bps(),
                "services_bps": room.services.bps(),
                "levels_bps": room.levels.bps(),
                "rate_bps": room.rate.bps(),
                "tenants": ledger.tenants(*cable) + 1,
            })
        };
        json!({
            "tenant": tenant.name,
            "vms": tenant.vms(),
            "bandwidth_bps": tenant.bandwidth().bps(),
            "packets": routes::packets(self.policy, tenant),
            "places": self.places.file_name(),
            "tree": fit.map(|fit| fit.root.name(graph)),
            "machines": fit.map(machines),
            "search_from_now": self.other.as_ref().map(|fit| json!({
                "tree": fit.root.name(graph),
                "machines": machines(fit),
            })),
            "rejected": self.rejected,
            "most_free_slots": self.most_free,
            "survey": self.survey.iter().map(layer).collect::<Value>(),
            "links": fit.into_iter().flat_map(|fit| &fit.reservations).map(link).collect::<Value>(),
            "queues_for_tenants": self.policy.queue_budget().tenants,
            "routes": routes::to_json(&self.routes),
        })
    }
}
