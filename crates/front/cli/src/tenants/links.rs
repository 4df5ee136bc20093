//! The division of links: latency levels, credits and services first, tenants from the rest.

use super::Plan;
use crate::output::{Table, Ui};
use crate::text;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use weir_placement::{CableId, CableKind, CableRoom};
use weir_units::Bandwidth;

/// Links that are divided alike, and the reservations of tenants on them.
pub(crate) struct Links {
    pub(crate) kind: CableKind,
    pub(crate) room: CableRoom,
    pub(crate) cables: Vec<CableId>,
    /// The most that tenants reserve on one of them, and which.
    pub(crate) most: Bandwidth,
    pub(crate) fullest: CableId,
}

impl Links {
    /// The links of a plan, in groups.
    pub(crate) fn of(plan: &Plan) -> Vec<Self> {
        let (fabric, ledger) = (plan.placer.fabric(), plan.placer.ledger());
        let mut groups: BTreeMap<(CableKind, CableRoom), Vec<CableId>> = BTreeMap::new();
        for (cable, room) in (0..).map(CableId).zip(&plan.rooms) {
            groups.entry((fabric.kind(&plan.graph, cable), *room)).or_default().push(cable);
        }
        let group = |((kind, room), cables): ((CableKind, CableRoom), Vec<CableId>)| {
            // The first of equal ones.
            let fullest =
                cables.iter().copied().max_by_key(|cable| (ledger.reserved(*cable), std::cmp::Reverse(*cable)));
            let fullest = fullest.expect("a group has a link");
            Self { kind, room, most: ledger.reserved(fullest), fullest, cables }
        };
        groups.into_iter().map(group).collect()
    }

    /// The free bandwidth of the fullest link.
    pub(crate) fn left(&self) -> Bandwidth {
        self.room.tenants.saturating_sub(self.most)
    }
}

/// The name of a kind of links.
pub(crate) fn kind_name(kind: CableKind) -> &'static str {
    match kind {
        CableKind::Machine => "machine",
        CableKind::Uplink => "uplink",
        CableKind::Core => "between switches",
    }
}

/// Prints a row for each group of links.
pub(crate) fn print(plan: &Plan, ui: &mut Ui) -> io::Result<()> {
    let groups = Links::of(plan);
    let has_caps = groups.iter().any(|group| group.room.capped > Bandwidth::ZERO);
    let has_credits = groups.iter().any(|group| group.room.credits > Bandwidth::ZERO);
    let mut columns = vec!["link", "between", ">links", ">rate", ">levels"];
    if has_credits {
        columns.push(">credits");
    }
    columns.push(">services");
    if has_caps {
        columns.push(">not usable");
    }
    columns.extend([">for tenants", ">most reserved", ">left", "fullest"]);
    let mut table = Table::new(&columns);
    for group in &groups {
        let names: Vec<String> = group.cables.iter().map(|cable| name(plan, *cable)).collect();
        let CableRoom { rate, levels, credits, services, capped, tenants } = group.room;
        let mut row = vec![kind_name(group.kind).to_owned(), text::list(&names, 1), text::whole(names.len() as u64)];
        row.extend([rate, levels].map(text::rate));
        if has_credits {
            row.push(text::rate(credits));
        }
        row.push(text::rate(services));
        if has_caps {
            row.push(text::rate(capped));
        }
        row.extend([tenants, group.most, group.left()].map(text::rate));
        row.push(if group.most > Bandwidth::ZERO { name(plan, group.fullest) } else { String::new() });
        table.row(row);
    }
    ui.print_table(&table, 2)
}

/// A cable's name, in one of its directions.
pub(crate) fn name(plan: &Plan, cable: CableId) -> String {
    plan.graph.link_name(plan.placer.fabric().links(cable).0)
}

/// Every link, for programs.
pub(crate) fn to_json(plan: &Plan) -> Value {
    let (fabric, ledger) = (plan.placer.fabric(), plan.placer.ledger());
    let link = |(cable, room): (CableId, &CableRoom)| {
        json!({
            "link": name(plan, cable),
            "kind": kind_name(fabric.kind(&plan.graph, cable)),
            "rate_bps": room.rate.bps(),
            "levels_bps": room.levels.bps(),
            "credits_bps": room.credits.bps(),
            "services_bps": room.services.bps(),
            "not_usable_bps": room.capped.bps(),
            "for_tenants_bps": room.tenants.bps(),
            "reserved_bps": ledger.reserved(cable).bps(),
            "left_bps": room.tenants.saturating_sub(ledger.reserved(cable)).bps(),
            "tenants": ledger.tenants(cable),
        })
    };
    (0..).map(CableId).zip(&plan.rooms).map(link).collect()
}
