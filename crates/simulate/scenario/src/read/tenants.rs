//! `tenants:`, and the places of the policy's tenants.

use super::names::Names;
use super::{Files, Reader};
use crate::governed::Enforcement;
use crate::language::STRATEGY_KEYWORDS;
use crate::tenancy::{CONTROL_DELAY, Tenancy};
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_document::{Node, Span, quote, scalar};
use weir_network::layers;
use weir_network::names::NameRange;
use weir_network::switches::{COMMON_QUEUES, Offer};
use weir_placement::{Fabric, Ledger, Part, Placer, Shortage, Strategy, Weighing, arrivals, file};
use weir_policy::{Policy, Tenant, TenantPaths};
use weir_units::MachineId;

/// The machines that a scenario gives a tenant, and their position.
type Place = (Vec<Part>, Span);

impl<F: Files> Reader<'_, F> {
    /// The tenants and their places under an enforcement that places them; `None` inside for others and without
    /// tenants, and `None` only if something was reported.
    pub(super) fn tenancy(
        &mut self,
        root: &Node,
        enforcement: Enforcement,
        names: &Names<'_>,
        policy: &Policy,
    ) -> Option<Option<Tenancy>> {
        let node = root.get("tenants");
        if !enforcement.may_place_tenants() {
            if let Some(node) = node {
                let cause = format!("`enforcement: {}` does not depend on the places of tenants", enforcement.word());
                self.problems.note(node.span, cause, "leave `tenants` out, or write `enforcement: qshare`");
            }
            return Some(None);
        }
        let at = node.or(root.get("policy")).map_or(root.span, |node| node.span);
        if policy.tenants().is_empty() && !enforcement.places_tenants() {
            return Some(None);
        }
        if policy.tenants().is_empty() {
            let hint = "write `tenants` in the policy, or another `enforcement`";
            self.error(
                at,
                format!("`enforcement: {}` needs tenants, and the policy has none", enforcement.word()),
                hint,
            );
            return None;
        }
        let places = self.places(node.and_then(|node| node.get("places")), names, policy)?;
        let strategy =
            node.map(|node| node.field("strategy", |text| scalar::word(text, "", STRATEGY_KEYWORDS)).value());
        let queues = self.queues(node, policy)?;
        let is_layered = || layers::has_one_path(names.graph) || layers::is_layered(names.graph);
        if policy.tenant_queues().paths == TenantPaths::Spread && !is_layered() {
            let cause = "`paths: spread` of the policy needs a network whose shortest paths all go up and then down";
            self.error(at, cause, "write `paths: routed` in the policy, or another network");
            return None;
        }
        let fabric = Arc::new(Fabric::of_policy(policy, names.graph));
        let ledger = Ledger::of_policy(policy, names.graph, &fabric);
        let mut placer = Placer::new(Arc::clone(&fabric), ledger, strategy_of(strategy.flatten()), queues.into());
        for (tenant, place) in
            policy.tenants().iter().zip(&places).filter_map(|(tenant, place)| Some((tenant, place.as_ref()?)))
        {
            let (parts, at) = place;
            if let Err(shortage) = placer.arrive_at(&tenant.name, file::hose(tenant), parts) {
                self.no_place(tenant, shortage, *at, names, &fabric);
                return None;
            }
        }
        let new: Vec<&Tenant> =
            policy.tenants().iter().zip(&places).filter(|(_, place)| place.is_none()).map(|(own, _)| own).collect();
        let hoses: Vec<_> = new.iter().map(|tenant| file::hose(tenant)).collect();
        for index in arrivals(&hoses) {
            let tenant = new[index];
            if let Err(shortage) = placer.arrive(&tenant.name, hoses[index].clone()) {
                self.no_place(tenant, shortage, at, names, &fabric);
                return None;
            }
        }
        let placed: Vec<_> = policy.tenants().iter().map(|tenant| placer.placed()[&tenant.name].clone()).collect();
        let machines = placed.iter().map(|placed| placed.fit.machines()).collect();
        let delay = node.map(|node| node.field("delay", |text| scalar::time(text, true)).value());
        Some(Some(Tenancy { fabric, placed, machines, queues, delay: delay.flatten().unwrap_or(CONTROL_DELAY) }))
    }

    /// Weighted queues of a port, the shared one included.
    fn queues(&mut self, node: Option<&Node>, policy: &Policy) -> Option<u8> {
        let written = node.map(|node| node.field("queues", |text| scalar::integer(text, "", 1, u8::MAX.into())));
        if let Some(queues) = written.and_then(|field| field.value()) {
            return u8::try_from(queues).ok();
        }
        let offered = |offer: Offer| offer.available().1 as u8 + 1;
        Some(policy.network().offer().map_or(COMMON_QUEUES, offered))
    }

    fn no_place(&mut self, tenant: &Tenant, shortage: Shortage, at: Span, names: &Names<'_>, fabric: &Fabric) {
        let shortage = shortage.text(|cable| names.graph.link_name(fabric.links(cable).0));
        let cause = format!("tenant `{}` has no place: {shortage}", tenant.name);
        self.error(
            at,
            cause,
            "give machines more `slots` and links more bandwidth, or name other machines in `places`",
        );
    }

    /// The given places, by tenant, with their positions.
    fn places(&mut self, node: Option<&Node>, names: &Names<'_>, policy: &Policy) -> Option<Vec<Option<Place>>> {
        let before = self.problems.count();
        let mut places = vec![None; policy.tenants().len()];
        for (key, machines) in node.map_or(&[][..], Node::entries) {
            let Some(index) = policy.tenants().iter().position(|tenant| tenant.name == key.text) else {
                let known = policy.tenants().iter().map(|tenant| &*tenant.name);
                let hint = self.suggester.hint(&key.text, known, "name a tenant of the policy");
                self.error(key.span, format!("there is no tenant {} in the policy", quote(&key.text)), hint);
                continue;
            };
            let parts = self.parts(machines, names, &policy.tenants()[index]);
            places[index] = parts.map(|parts| (parts, machines.span));
        }
        (self.problems.count() == before).then_some(places)
    }

    /// The virtual machines of a tenant by machine.
    fn parts(&mut self, node: &Node, names: &Names<'_>, tenant: &Tenant) -> Option<Vec<Part>> {
        let mut machines = Vec::new();
        for item in node.items() {
            for name in NameRange::parse(item.scalar()?).ok()?.names() {
                let Some(machine) = names.host(&name) else {
                    let known = names.graph.hosts.iter().map(|host| &*host.name);
                    let hint = self.suggester.hint_of_name(&name, known, "name machines of the policy");
                    self.error(item.span, format!("there is no machine {} in the policy", quote(&name)), hint);
                    return None;
                };
                machines.push(machine);
            }
        }
        if machines.len() as u64 != u64::from(tenant.vms()) {
            let cause =
                format!("{} machines for the {} virtual machines of `{}`", machines.len(), tenant.vms(), tenant.name);
            self.error(node.span, cause, "name one machine for each virtual machine; a machine may have several");
            return None;
        }
        let groups =
            tenant.groups.iter().enumerate().flat_map(|(at, group)| std::iter::repeat_n(at, group.vms as usize));
        let mut parts: BTreeMap<MachineId, Vec<u32>> = BTreeMap::new();
        for (machine, group) in machines.into_iter().zip(groups) {
            parts.entry(machine).or_insert_with(|| vec![0; tenant.groups.len()])[group] += 1;
        }
        Some(parts.into_iter().map(|(machine, vms)| Part { machine, vms }).collect())
    }
}

fn strategy_of(word: Option<usize>) -> Strategy {
    match word {
        Some(1) => Strategy::QShare(Weighing::Queues),
        Some(2) => Strategy::QShare(Weighing::Bandwidth),
        Some(3) => Strategy::FirstFit,
        Some(4) => Strategy::Oktopus,
        _ => Strategy::QShare(Weighing::Load),
    }
}
