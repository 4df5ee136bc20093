//! The result of `weir place`: each tenant's place, or its shortage.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use weir_answers::Places;
use weir_answers::tenants::routes::{self, TenantRoute};
use weir_binding::{Sites, Values};
use weir_placement::{Shortage, TenantPlace};
use weir_policy::{Policy, Tenant};
use weir_units::{MachineId, TenantId};

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
    /// Its virtual machines that had a place before.
    pub(super) kept: u32,
}

/// All tenants of a policy.
pub(super) struct Placement {
    pub(super) placed: Vec<PlacedTenant>,
    pub(super) routes: Vec<TenantRoute>,
    pub(super) places: Places,
}

impl Placement {
    /// The result of a places.
    pub(super) fn of(policy: &Policy, places: Places) -> Self {
        let values = values(policy, &places);
        let tenants = (0..).map(TenantId).zip(policy.tenants());
        let placed = tenants.filter_map(|(id, tenant)| {
            let placed = places.placer.placed().get(&tenant.name)?;
            Some(PlacedTenant::new(tenant, placed, values.get(id), &places))
        });
        Self { placed: placed.collect(), routes: routes::of(&places, policy), places }
    }

    /// Tenants all of whose virtual machines have a place.
    pub(super) fn whole(&self) -> usize {
        self.placed.len() - self.places.rejected.iter().filter(|rejected| rejected.kept > 0).count()
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
