//! The division of links: latency levels, credits and services first, tenants from the rest.

use super::Places;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use weir_placement::{CableId, CableKind, CableRoom};
use weir_units::Bandwidth;

/// Links that are divided alike, and the reservations of tenants on them.
pub struct Links {
    /// The kind of links.
    pub kind: CableKind,
    /// The division of each of them.
    pub room: CableRoom,
    /// The links.
    pub cables: Vec<CableId>,
    /// The most that tenants reserve on one of them.
    pub most: Bandwidth,
    /// The link on which they do.
    pub fullest: CableId,
}

impl Links {
    /// The links of a network, in groups.
    pub fn of(places: &Places) -> Vec<Self> {
        let (fabric, ledger) = (places.placer.fabric(), places.placer.ledger());
        let mut groups: BTreeMap<(CableKind, CableRoom), Vec<CableId>> = BTreeMap::new();
        for (cable, room) in (0..).map(CableId).zip(&places.rooms) {
            groups.entry((fabric.kind(&places.graph, cable), *room)).or_default().push(cable);
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
    pub fn left(&self) -> Bandwidth {
        self.room.tenants.saturating_sub(self.most)
    }
}

/// The name of a kind of links.
pub fn kind_name(kind: CableKind) -> &'static str {
    match kind {
        CableKind::Machine => "machine",
        CableKind::Uplink => "uplink",
        CableKind::Core => "between switches",
    }
}

/// A cable's name, in one of its directions.
pub fn name(places: &Places, cable: CableId) -> String {
    places.graph.link_name(places.placer.fabric().links(cable).0)
}

/// Every link, for programs.
pub fn to_json(places: &Places) -> Value {
    let (fabric, ledger) = (places.placer.fabric(), places.placer.ledger());
    let link = |(cable, room): (CableId, &CableRoom)| {
        json!({
            "link": name(places, cable),
            "kind": kind_name(fabric.kind(&places.graph, cable)),
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
    (0..).map(CableId).zip(&places.rooms).map(link).collect()
}
