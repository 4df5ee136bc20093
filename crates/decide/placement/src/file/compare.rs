//! Reservations and DSCP values of a placement's file, compared with those that follow from its places.
//!
//! Both follow from the places and the policy, and everything that uses a placement derives them from these, so a file
//! that has others is of another policy or was edited. A broker would run on what no reader of the file expects.

use super::{FileEntry, Growth, Reader};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use weir_document::{Node, Span};
use weir_network::graph::{Graph, LinkRef};
use weir_network::switches::Map;
use weir_policy::Policy;

impl Reader<'_> {
    /// Reports reservations and DSCP values that are not those of the places under the policy. A placement that is
    /// continued gets new ones, so there these are remarks.
    pub(super) fn compare(&mut self, places: &[(FileEntry, &Node)], policy: &Policy, graph: &Graph) {
        for (entry, node) in places {
            self.links(entry, node, graph);
        }
        self.dscps(places, policy, graph);
    }

    fn differs(&mut self, span: Span, cause: String, hint: &str, first: Option<(Span, String)>) {
        match (self.growth, first) {
            (Growth::Allowed, _) => self.problems.note(span, cause, hint),
            (Growth::Refused, None) => self.problems.error(span, cause, hint),
            (Growth::Refused, Some(first)) => self.problems.error_with(span, cause, hint, first),
        }
    }

    /// The first reservation of a tenant that is not the one of its place.
    fn links(&mut self, FileEntry { tenant, placed, .. }: &FileEntry, node: &Node, graph: &Graph) {
        const HINT: &str = "it follows from the policy and the places: `weir place --placed` writes it anew";
        let Some(listed) = node.get("links") else { return };
        let reserved = placed.fit.reservations.iter().flat_map(|(cable, reserved)| {
            let (one, other) = self.fabric.links(*cable);
            [one, other].map(|link| (graph.link_name(link), *reserved))
        });
        let mut expected: BTreeMap<String, _> = reserved.collect();
        let mut seen: HashMap<&str, Span> = HashMap::new();
        for item in listed.items() {
            let (Some(link), Some(bps)) = (item.get("link"), item.get("reserved_bps")) else { return };
            let (Some(name), Some(written)) = (link.scalar(), bps.scalar()) else { return };
            if let Some(first) = seen.insert(name, link.span) {
                let cause = format!("link `{name}` is listed twice");
                return self.differs(link.span, cause, "keep one of them", Some((first, "first here".to_owned())));
            }
            let Some(reserved) = expected.remove(name) else {
                let cause = format!("tenant `{tenant}` has no reservation on `{name}`");
                return self.differs(link.span, cause, HINT, None);
            };
            if written.parse() != Ok(reserved.bps()) {
                let cause = format!("tenant `{tenant}` reserves {} bit/s of {name}, not {written}", reserved.bps());
                return self.differs(bps.span, cause, HINT, None);
            }
        }
        if let Some((name, reserved)) = expected.first_key_value() {
            let cause = format!("tenant `{tenant}` reserves {reserved} of {name}, which is not listed");
            self.differs(listed.span, cause, HINT, None);
        }
    }

    /// DSCP values that tenants cannot have, and those of two tenants whose packets a switch could not distinguish.
    fn dscps(&mut self, places: &[(FileEntry, &Node)], policy: &Policy, graph: &Graph) {
        let pool: BTreeSet<u8> = policy.tenant_dscps().into_iter().collect();
        let map = policy.network().map();
        let mut used: HashMap<(usize, u8), (&str, Span)> = HashMap::new();
        for (FileEntry { tenant, placed, dscp, .. }, node) in places {
            let (Some(dscp), Some(at)) = (*dscp, node.get("dscp").map(|node| node.span)) else { continue };
            if !pool.contains(&dscp) {
                let cause = format!("tenant `{tenant}` cannot have the DSCP value {dscp}");
                let hint = "0, CS6, CS7, those of latency levels, of filters and of `reserved-dscp` are not for \
                            tenants: `weir place --placed` chooses another one";
                self.differs(at, cause, hint, None);
                continue;
            }
            for (cable, _) in &placed.fit.reservations {
                let (one, other) = self.fabric.links(*cable);
                let maps = match map {
                    // Both directions have the reservation, so tenants on a cable pass its ports together.
                    Map::PerPort => [Some(cable.index()), None],
                    Map::PerSwitch => [one, other].map(|link| switch_before(link, graph)),
                };
                let new = |map| used.insert((map, dscp), (tenant, at)).filter(|(first, _)| first != tenant);
                let Some((first, before)) = maps.into_iter().flatten().find_map(new) else { continue };
                let place = match map {
                    Map::PerPort => format!("link {}", graph.link_name(one)),
                    Map::PerSwitch => "switch".to_owned(),
                };
                let cause = format!("tenants `{first}` and `{tenant}` pass one {place} with the DSCP value {dscp}");
                let hint = "a switch could not distinguish their packets: `weir place --placed` gives one of them \
                            another value";
                self.differs(at, cause, hint, Some((before, format!("`{first}`"))));
                break;
            }
        }
    }
}

/// The switch that sends to a link; `None` for a machine's own interface.
fn switch_before(link: LinkRef, graph: &Graph) -> Option<usize> {
    match link {
        LinkRef::Up(_) => None,
        LinkRef::Down(machine) => Some(graph.hosts[machine.index()].switch),
        LinkRef::Forward(cable) => Some(graph.cables[cable].a),
        LinkRef::Backward(cable) => Some(graph.cables[cable].b),
    }
}
