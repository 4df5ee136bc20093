//! The queues of ports: levels take strict ones, tenants weighted ones, one of which all others share.

use super::{Places, links::kind_name};
use serde_json::{Value, json};
use weir_placement::{CableId, CableKind};
use weir_policy::{Policy, QueueBudget};

/// The ports of switches at one kind of links, with the tenants that compete for their queues.
pub struct Ports {
    /// The kind of links behind the ports.
    pub kind: CableKind,
    /// The number of ports.
    pub ports: usize,
    /// The most tenants of one port.
    pub most: u32,
    /// Ports with more tenants than queues for single ones.
    pub contended: usize,
}

impl Ports {
    /// The queues for single tenants that stay free at the port with the most tenants.
    pub fn queues_left(&self, budget: &QueueBudget) -> usize {
        budget.tenants.saturating_sub(self.most as usize)
    }

    /// The ports of a network by kind.
    pub fn of(places: &Places, budget: &QueueBudget) -> Vec<Self> {
        let (fabric, ledger) = (places.placer.fabric(), places.placer.ledger());
        let mut all: Vec<Self> = Vec::new();
        for kind in [CableKind::Machine, CableKind::Uplink, CableKind::Core] {
            // The other end of a machine's cable is the machine's own interface.
            let ends = if kind == CableKind::Machine { 1 } else { 2 };
            let mut row = Self { kind, ports: 0, most: 0, contended: 0 };
            for cable in (0..fabric.cables() as u32).map(CableId).filter(|id| fabric.kind(&places.graph, *id) == kind) {
                let tenants = ledger.tenants(cable);
                row.ports += ends;
                row.most = row.most.max(tenants);
                row.contended += if tenants as usize > budget.tenants { ends } else { 0 };
            }
            all.extend((row.ports > 0).then_some(row));
        }
        all
    }
}

/// For programs: a row for each kind of ports.
pub fn to_json(places: &Places, policy: &Policy) -> Value {
    let budget = policy.queue_budget();
    let row = |row: Ports| {
        json!({
            "at": kind_name(row.kind),
            "ports": row.ports,
            "queues": budget.queues,
            "control": budget.control,
            "levels": budget.levels,
            "strict_left": budget.strict_left,
            "shared": budget.shared,
            "credits": budget.credits,
            "tenants": budget.tenants,
            "most_tenants": row.most,
            "queues_left": row.queues_left(&budget),
            "ports_with_more_tenants": row.contended,
        })
    };
    Ports::of(places, &budget).into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_policy::CreditQueue;
    use weir_switch::{PolicyNeeds, Schedule};

    /// The budget is that of the ports that `weir switch` configures.
    #[test]
    fn the_budget_is_that_of_configured_ports() {
        let offers = ["queues: 8, scheduler: weighted", "scheduler: { strict: 3, weighted: 5 }", "scheduler: plain"];
        let level = "levels: { factors: [1] }\nservices: { a: { match: [ { port: 1 } ], level: 1 } }\n";
        let tenants = "tenants: { t: { vms: 1, bandwidth: 1Mb/s, match: [ { port: 2 } ] } }\n";
        let service = "services: { a: { match: [ { port: 1 } ] } }\n";
        let mixed = [(offers[1], [level, tenants].concat()), (offers[1], level.to_owned())];
        let strict = ("queues: 8, scheduler: strict", level.to_owned());
        let cases = offers.map(|offer| (offer, tenants.to_owned())).into_iter().chain(mixed).chain([strict]);
        let credits = service.replace("} ]", "} ], credits: {} }, b: { match: [ { port: 3 } ]");
        let with_level = level.replace("services: {", "services: { c: { match: [ { port: 3 } ], credits: {} },");
        let more = offers.iter().flat_map(|offer| [&credits, &with_level].map(|rest| (*offer, rest)));
        let more = more.filter(|(offer, rest)| offer.contains("strict") || *rest == &credits);
        let more = more.map(|(offer, rest)| (offer, rest.clone()));
        let both = [(offers[1], [&credits, tenants].concat()), (offers[1], [&with_level, tenants].concat())];
        let cases = cases.chain(more).chain(both);
        for (offer, rest) in cases.chain([("scheduler: plain", service.to_owned())]) {
            let forwarders = if rest.contains("credits") { ", forwarders: true" } else { "" };
            let text = format!(
                "weir: 1\nnetwork: {{ nic: 1Gb/s, slots: 1, switches: {{ {offer}{forwarders} }}, racks: {{ r: {{ \
                 uplink: 1Gb/s, machines: [m1, m2] }} }} }}\n{rest}"
            );
            let policy = Policy::parse("p.yaml", &text).unwrap_or_else(|errors| panic!("{errors}")).0;
            let needs = PolicyNeeds::of(&policy, None, Vec::new());
            let config = needs.needs.of_port(None, None).lower(needs.offer).expect("fits");
            let strict = config.queues().filter(|queue| queue.schedule == Schedule::Strict).count();
            let all = config.queues().count();
            let budget = policy.queue_budget();
            let shared_is_strict = offer.ends_with("strict");
            let before = if policy.credit_queue() == Some(CreditQueue::Strict) { budget.credits } else { 0 };
            let of_strict = budget.control + budget.levels + before + usize::from(shared_is_strict) * budget.shared;
            assert_eq!(strict, of_strict, "{text}{budget:?}");
            let of_all = budget.control + budget.levels + budget.shared + budget.credits + budget.tenants;
            assert_eq!(all, of_all, "{text}{budget:?}");
            let sum = all + budget.strict_left + budget.weighted_left;
            assert_eq!(sum, budget.queues, "{text}{budget:?}");
        }
    }
}
