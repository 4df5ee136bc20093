//! `place`: tenants' virtual machines onto machines.
//!
//! [`place`] continues [`Places`], those of an earlier placement or none; its [`Placement`] is the content of the file
//! that the next one continues. [`compare`] places the same tenants by every strategy, from nothing.

mod compare;

pub use compare::{Compared, Comparison, compare};

use crate::error::AnswerError;
use crate::tenants::routes::{self, TenantRoute};
use crate::tenants::{OnArrival, Order, Places, admit};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weir_binding::{Sites, Values};
use weir_placement::{Shortage, Strategy, TenantPlace, Weighing};
use weir_policy::{Policy, Tenant};
use weir_units::{MachineId, TenantId};

/// The strategies by their names.
pub const STRATEGIES: [(&str, Strategy); 5] = [
    ("load", Strategy::QShare(Weighing::Load)),
    ("queues", Strategy::QShare(Weighing::Queues)),
    ("bandwidth", Strategy::QShare(Weighing::Bandwidth)),
    ("first-fit", Strategy::FirstFit),
    ("oktopus", Strategy::Oktopus),
];

/// The strategy of a name.
///
/// # Errors
/// The known names.
pub fn strategy(text: &str) -> Result<Strategy, String> {
    let named = STRATEGIES.iter().find(|(name, _)| *name == text).map(|(_, strategy)| *strategy);
    named.ok_or_else(|| "a strategy is `load`, `queues`, `bandwidth`, `first-fit` or `oktopus`".to_owned())
}

/// The order of a name.
///
/// # Errors
/// The known names.
pub fn order(text: &str) -> Result<Order, String> {
    match text {
        "names" => Ok(Order::Names),
        "payment" => Ok(Order::Payment),
        _ => Err("an order is `payment` or `names`".to_owned()),
    }
}

/// Refuses a policy none of whose tenants could have a place.
///
/// # Errors
/// No tenants, machines without slots, and switches without queues for tenants.
pub fn can_place(policy: &Policy) -> Result<(), AnswerError> {
    if policy.tenants().is_empty() {
        return Err(AnswerError::refused("the policy has no tenants")
            .hint("write them under `tenants`, for example `tenants: { red: { vms: 10, bandwidth: 100Mb/s } }`"));
    }
    Ok(admit::network(policy)?)
}

/// Places the tenants of a policy that `places` does not have, in this order. A caller that ends it gets those so far,
/// and the number of the others in [`Places::untried`].
pub fn place(policy: &Policy, mut places: Places, order: Order, on_arrival: OnArrival<'_>) -> Placement {
    places.arrive(policy, order, on_arrival);
    Placement::of(policy, places)
}

/// A tenant with a place.
pub struct PlacedTenant {
    /// The tenant.
    pub name: String,
    /// The switch at the root of its tree, or its machine.
    pub tree: String,
    /// The switches that this one stands for, itself included; 0 for a machine.
    pub roots: usize,
    /// Virtual machines and their machines.
    pub vms: Vec<(String, String)>,
    /// The DSCP value of its packets in queues of its own.
    pub dscp: Option<u8>,
    /// The links with a reservation, and the reservation in bit/s.
    pub links: Vec<(String, u64)>,
    /// Its virtual machines that had a place before.
    pub kept: u32,
}

/// All tenants of a policy.
pub struct Placement {
    /// The tenants with a place.
    pub placed: Vec<PlacedTenant>,
    /// The routes that switches need for them.
    pub routes: Vec<TenantRoute>,
    /// The network with their reservations, and the tenants without a place.
    pub places: Places,
}

impl Placement {
    fn of(policy: &Policy, places: Places) -> Self {
        let values = values(policy, &places);
        let tenants = (0..).map(TenantId).zip(policy.tenants());
        let placed = tenants.filter_map(|(id, tenant)| {
            let placed = places.placer.placed().get(&tenant.name)?;
            Some(PlacedTenant::new(tenant, placed, values.get(id), &places))
        });
        Self { placed: placed.collect(), routes: routes::of(&places, policy), places }
    }

    /// Tenants all of whose virtual machines have a place.
    pub fn whole(&self) -> usize {
        self.placed.len() - self.places.rejected.iter().filter(|rejected| rejected.kept > 0).count()
    }

    /// The content of the placement's file; the keys are those of `weir place --help`.
    pub fn to_json(&self) -> Value {
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
        let rejected = self.places.rejected.iter().map(|tenant| {
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
    fn new(tenant: &Tenant, placed: &TenantPlace, dscp: Option<u8>, places: &Places) -> Self {
        let (graph, placer) = (&places.graph, &places.placer);
        let kept = places.kept.get(&tenant.name).map_or(&[][..], |entry| &entry.vms);
        let mut vms = Vec::new();
        for group in 0..tenant.groups.len() {
            let machines = machines(placed, group, kept.get(group).map_or(&[][..], Vec::as_slice));
            let name = |machine: MachineId| graph.hosts[machine.index()].name.clone();
            vms.extend(machines.into_iter().map(|(number, machine)| (tenant.vm_name(group, number), name(machine))));
        }
        let links = placed.fit.reservations.iter().flat_map(|(cable, reserved)| {
            let (one, other) = placer.fabric().links(*cable);
            [one, other].map(|link| (graph.link_name(link), reserved.bps()))
        });
        Self {
            name: tenant.name.clone(),
            tree: placed.fit.root.name(graph).to_owned(),
            roots: placer.fabric().roots(placed.fit.root).len(),
            vms,
            dscp,
            links: links.collect(),
            kept: kept.iter().map(|group| group.len() as u32).sum(),
        }
    }
}

/// The machines of a group's virtual machines by number. Those of `kept` have the machine that they had; the others get
/// the free numbers, ascending, by machine.
fn machines(placed: &TenantPlace, group: usize, kept: &[(u32, MachineId)]) -> BTreeMap<u32, MachineId> {
    let mut machines: BTreeMap<u32, MachineId> = kept.iter().copied().collect();
    let mut number = 0;
    for part in &placed.fit.parts {
        let had = kept.iter().filter(|(_, machine)| *machine == part.machine).count() as u32;
        for _ in had..part.vms[group] {
            while machines.contains_key(&number) {
                number += 1;
            }
            machines.insert(number, part.machine);
        }
    }
    machines
}

/// The DSCP values of tenants that use links, as if all of them had queues. A tenant keeps the value of the file that
/// the placement continues.
fn values(policy: &Policy, places: &Places) -> Values {
    let placer = &places.placer;
    let fits = policy.tenants().iter().map(|tenant| placer.placed().get(&tenant.name));
    let sites = Sites::of_placement(fits, placer.fabric(), &places.graph, 1, &[]);
    let pool = policy.tenant_dscps();
    let mut values = Values::new(policy.network().map());
    let on_links = || sites.all().filter(|(_, site)| !site.ports.is_empty()).map(|(tenant, _)| tenant);
    for tenant in on_links() {
        let kept = places.kept.get(&policy.tenants()[tenant.index()].name).and_then(|entry| entry.dscp);
        if let Some(value) = kept.filter(|value| pool.contains(value)) {
            values.take(&sites, tenant, &[value]);
        }
    }
    for tenant in on_links() {
        values.take(&sites, tenant, &pool);
    }
    values
}
