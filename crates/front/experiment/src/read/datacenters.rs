//! `datacenters:`, and the measures of them.

use super::measures::{count, percent, word};
use super::{Reader, both, integer};
use crate::datacenter::Datacenter;
use crate::figure::FigureKind;
use crate::language::{
    DIVIDING_KEYWORDS, DRAWN_KEYWORDS, DSCP_KEYWORDS, LINKS_KEYWORDS, MAP_KEYWORDS, QUEUED_KEYWORDS, STRATEGIES,
    TENANT_KEYWORDS,
};
use crate::model::{Measure, PerSetting};
use weir_binding::Map;
use weir_document::scalar::{self, MILLION};
use weir_document::{Node, quote};
use weir_placement::{Strategy, Weighing};
use weir_tenancy::{Condition, Dividing, DrawnPer, Filling, Quantity, Requests};
use weir_units::Bandwidth;

impl Reader<'_> {
    /// Whether all datacenters are good.
    pub(super) fn read_datacenters(&mut self, root: &Node) -> bool {
        let entries = root.get("datacenters").map_or(&[][..], Node::entries);
        let mut refused: Vec<&str> = Vec::new();
        for (name, node) in entries {
            let like = node.get("like").and_then(Node::scalar);
            // The mistakes of the other one are reported already.
            let is_like_a_refused_one = like.is_some_and(|like| refused.contains(&like));
            let datacenter = if is_like_a_refused_one { None } else { self.datacenter(&name.text, node) };
            match datacenter {
                Some(datacenter) => self.datacenters.push(datacenter),
                None => refused.push(&name.text),
            }
        }
        self.datacenters.len() == entries.len()
    }

    /// `None` only if something was reported.
    fn datacenter(&mut self, name: &str, node: &Node) -> Option<Datacenter> {
        let like = match node.get("like") {
            Some(like) => {
                let index = self.datacenter_at(like)?;
                Some(self.datacenters[index].clone())
            }
            None => None,
        };
        let like = like.as_ref();
        let policy = match (node.get("policy"), like) {
            (Some(_), _) => self.policy(node)?,
            (None, Some(like)) => like.policy.clone(),
            (None, None) => return self.missing(node, "policy", "policy: ../scenarios/qshare-1-to-1.policy.yaml"),
        };
        let of_like = |read: fn(&Filling) -> u32| like.map(|like| read(&like.filling));
        let slots = count(node, "slots").or_else(|| like.and_then(|like| like.slots));
        let has_slots = slots.is_some() || policy.network().machines().iter().any(|machine| machine.slots() > 0);
        if !has_slots {
            let hint = "write `slots: 100` here, or under `network` in the policy";
            self.error(node.span, "no machine has room for virtual machines", hint);
            return None;
        }
        let Some(mean_vms) = count(node, "mean-vms").or_else(|| of_like(|filling| filling.requests.mean_vms)) else {
            return self.missing(node, "mean-vms", "mean-vms: 49");
        };
        let bandwidths = match (node.get("bandwidths"), like) {
            (Some(list), _) => bandwidths(list),
            (None, Some(like)) => like.filling.requests.bandwidths.clone(),
            (None, None) => return self.missing(node, "bandwidths", "bandwidths: [10Mb/s, 100Mb/s]"),
        };
        let drawn_per = match (word(node, "drawn-per", DRAWN_KEYWORDS), like) {
            (Some(word), _) => [DrawnPer::Tenant, DrawnPer::Vm][word],
            (None, like) => like.map(|like| like.filling.requests.drawn_per).unwrap_or_default(),
        };
        let strategy = match (word(node, "strategy", STRATEGIES), like) {
            (Some(word), _) => strategies()[word],
            (None, like) => like.map(|like| like.filling.strategy).unwrap_or_default(),
        };
        if strategy == Strategy::Oktopus && drawn_per == DrawnPer::Vm {
            let hint = "write `drawn-per: tenant`, or another strategy";
            self.error(node.span, "`oktopus` places tenants whose virtual machines have one bandwidth", hint);
            return None;
        }
        let least_vms = count(node, "least-vms").or_else(|| of_like(|filling| filling.requests.least_vms));
        let per_machine = count(node, "per-machine").or_else(|| like.and_then(|like| like.filling.per_machine));
        let machines = count(node, "machines").or_else(|| of_like(|filling| filling.machines));
        let refusals = count(node, "refusals").or_else(|| of_like(|filling| filling.refusals));
        let seeds = match node.get("seeds") {
            Some(seeds) => both(|setting| {
                integer(seeds.get(setting.name()).unwrap_or(seeds)).and_then(|seeds| u32::try_from(seeds).ok())
            })?,
            None => like.map_or(PerSetting { quick: 1, full: 1 }, |like| like.seeds),
        };
        let requests = Requests { mean_vms, least_vms: least_vms.unwrap_or(1), bandwidths, drawn_per };
        let filling = Filling {
            requests,
            strategy,
            per_machine,
            machines: machines.unwrap_or(1),
            refusals: refusals.unwrap_or(1),
        };
        Some(Datacenter { name: name.to_owned(), policy, slots, filling, seeds })
    }

    fn missing<T>(&mut self, node: &Node, key: &str, example: &str) -> Option<T> {
        let cause = format!("the key `{key}` is missing");
        self.error(node.span, cause, format!("write it, for example `{example}`, or `like: NAME`"));
        None
    }

    /// The index of the datacenter that a key names.
    fn datacenter_at(&mut self, node: &Node) -> Option<usize> {
        let found = self.datacenters.iter().position(|one| Some(one.name.as_str()) == node.scalar());
        if found.is_none() {
            let names: Vec<String> = self.datacenters.iter().map(|one| one.name.clone()).collect();
            self.unknown(node, "datacenter", &names.iter().map(String::as_str).collect::<Vec<_>>());
        }
        found
    }

    fn datacenter_of(&mut self, node: &Node) -> Option<usize> {
        self.datacenter_at(node.get("datacenter")?)
    }

    /// A measure of a datacenter with tenants.
    pub(super) fn tenancy(&mut self, kind: &str, node: &Node) -> Option<Measure> {
        let datacenter = self.datacenter_of(node)?;
        let map = map(node);
        let of = match kind {
            "tenants" => [
                Quantity::Tenants,
                Quantity::OnOneMachine,
                Quantity::Machines,
                Quantity::Slots,
                Quantity::Reserved,
                Quantity::MostTenants,
            ][word(node, "of", TENANT_KEYWORDS)?],
            "ports" => self.ports(node)?,
            "queued" => self.queued(node, map)?,
            "dscp-values" => [Quantity::DscpValues(map), Quantity::WithoutDscp(map)][word(node, "of", DSCP_KEYWORDS)?],
            "gain" => Quantity::Gain { when: when(node), dividing: dividing(node) },
            _ => Quantity::Links {
                when: when(node),
                dividing: dividing(node),
                above: share(node, "above"),
                reserved_only: word(node, "of", LINKS_KEYWORDS) == Some(1),
            },
        };
        Some(Measure::Datacenter { datacenter, of })
    }

    fn ports(&mut self, node: &Node) -> Option<Quantity> {
        let (least, most) = (count(node, "least").unwrap_or(0), count(node, "most"));
        if most.is_some_and(|most| most < least) {
            let cause = format!("no port has at least {least} and at most {} tenants", most.unwrap_or(0));
            self.error(node.span, cause, "write a `most` that is not smaller than `least`");
            return None;
        }
        Some(Quantity::Ports { least, most })
    }

    fn queued(&mut self, node: &Node, map: Map) -> Option<Quantity> {
        let always = word(node, "of", QUEUED_KEYWORDS)? == 0;
        if !always {
            let intervals = count(node, "intervals").unwrap_or(1);
            return Some(Quantity::Alone { map, inactive: inactive(node), intervals });
        }
        for key in ["inactive", "intervals"] {
            if let Some(written) = node.get(key) {
                let cause = format!("`{key}` does not go with `of: always`");
                self.error(written.span, cause, "remove it, or write `of: interval`");
                return None;
            }
        }
        Some(Quantity::Uncontended(map))
    }

    pub(super) fn reservation(&mut self, node: &Node) -> Option<Measure> {
        let machines: Vec<Vec<Bandwidth>> = node.get("machines")?.items().iter().map(bandwidths).collect();
        let machine = node.get("machine")?;
        let number = integer(machine)? as usize;
        if number > machines.len() {
            let cause = format!("{} is more than the {} machines", quote(machine.scalar()?), machines.len());
            self.error(machine.span, cause, "write the number of a machine, from 1 on");
            return None;
        }
        Some(Measure::Reservation { machines, machine: number - 1 })
    }

    pub(super) fn use_of_links(&mut self, node: &Node) -> Option<FigureKind> {
        Some(FigureKind::UseOfLinks { datacenter: self.datacenter_of(node)?, when: when(node) })
    }
}

/// In the order of [`STRATEGIES`].
fn strategies() -> [Strategy; 5] {
    let weighed = [Weighing::Load, Weighing::Queues, Weighing::Bandwidth].map(Strategy::QShare);
    [weighed[0], weighed[1], weighed[2], Strategy::FirstFit, Strategy::Oktopus]
}

fn bandwidths(list: &Node) -> Vec<Bandwidth> {
    list.items().iter().filter_map(|item| item.read(|text| scalar::rate(text, false, false)).value()).collect()
}

fn map(node: &Node) -> Map {
    word(node, "map", MAP_KEYWORDS).map_or(Map::PerPort, |word| [Map::PerPort, Map::PerSwitch][word])
}

fn when(node: &Node) -> Condition {
    let inactive_use = share(node, "inactive-use").unwrap_or(0.0);
    Condition { map: map(node), inactive: inactive(node), inactive_use }
}

fn dividing(node: &Node) -> Dividing {
    let all = [Dividing::Static, Dividing::Queues, Dividing::MaxMin];
    word(node, "divide", DIVIDING_KEYWORDS).map_or(Dividing::Queues, |word| all[word])
}

/// A share, 0 to 1.
fn share(node: &Node, key: &str) -> Option<f64> {
    percent(node, key).map(|millionths| millionths as f64 / MILLION as f64)
}

fn inactive(node: &Node) -> f64 {
    share(node, "inactive").unwrap_or(0.0)
}
