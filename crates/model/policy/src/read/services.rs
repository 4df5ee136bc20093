//! The tree of services, read in canonical order with their positions for later rules.
//!
//! Siblings are sorted by name before ids are given, parents come before children: the order of the
//! file has no effect. `sharing:` is inherited: a service without it divides as its parent does, a
//! top-level service by the file's rule.

use super::share::{self, ReadShare};
use crate::language::{LEVEL_KEYWORDS, MAX_SERVICES};
use crate::levels::{Level, LevelChoice};
use crate::machine_set::MachineSet;
use crate::model::{Service, Shaper, Sharing};
use crate::read::{credits, levels, machines, shaper};
use crate::tenants::Tenant;
use std::sync::Arc;
use weir_document::{Key, Node, Problems, Span, scalar};
use weir_network::names::natural_order;
use weir_network::read::ReadNetwork;
use weir_units::{ContentionPoint, Direction, PerDirection, PerPoint, ServiceId};

/// A service with its positions.
#[derive(Debug)]
pub(crate) struct ReadService {
    /// Whether it is the service of a tenant's packets.
    pub(crate) is_tenant: bool,
    pub(crate) service: Service,
    /// Its name, the key of the mapping.
    pub(crate) name: Span,
    pub(crate) shares: PerPoint<PerDirection<ReadShare>>,
    /// The position of each of `service.matches`.
    pub(crate) match_spans: Vec<Span>,
    pub(crate) level_span: Option<Span>,
    pub(crate) latency_span: Option<Span>,
    pub(crate) credits_span: Option<Span>,
    pub(crate) senders_span: Option<Span>,
    /// The position of `machines`.
    pub(crate) machines_span: Option<Span>,
}

/// Reads all services, those of tenants last. A [`ServiceId`] is the index into the result.
pub(crate) fn read(
    (services, tenants): (Option<&Node>, Option<&Node>),
    sharing: Sharing,
    network: &ReadNetwork,
    problems: &mut Problems,
) -> (Vec<ReadService>, Vec<Tenant>) {
    let (senders, machines) = (shaper::Senders::new(network), machines::Machines::new(network));
    let mut reader = Reader { services: Vec::new(), filters: 0, full: false, senders, machines, problems };
    if let Some(node) = services {
        reader.siblings(node, None, sharing);
    }
    let tenants = tenants.map(|node| reader.tenants(node)).unwrap_or_default();
    (reader.services, tenants)
}

pub(super) struct Reader<'a> {
    pub(super) services: Vec<ReadService>,
    pub(super) filters: usize,
    pub(super) full: bool,
    senders: shaper::Senders<'a>,
    machines: machines::Machines<'a>,
    pub(super) problems: &'a mut Problems,
}

impl Reader<'_> {
    /// Reads the services of one mapping and everything below; the depth is bounded by that of the
    /// tree.
    fn siblings(&mut self, node: &Node, parent: Option<ServiceId>, inherited: Sharing) -> Vec<ServiceId> {
        let mut entries: Vec<_> = node.entries().iter().collect();
        entries.sort_by(|(a, _), (b, _)| natural_order(&a.text, &b.text));
        let mut ids = Vec::new();
        for (key, node) in entries {
            if self.services.len() >= MAX_SERVICES {
                if !std::mem::replace(&mut self.full, true) {
                    self.problems.error(
                        key.span,
                        format!("the policy has more than {MAX_SERVICES} services"),
                        "bundle services that are treated alike into one with several filters",
                    );
                }
                break;
            }
            self.refuse_loop(key, parent);
            ids.push(self.service(key, node, parent, inherited));
        }
        ids
    }

    /// A service inside one of its own name would be its own ancestor.
    fn refuse_loop(&mut self, key: &Key, parent: Option<ServiceId>) {
        let mut above = parent;
        while let Some(id) = above {
            let ancestor = &self.services[id.index()];
            let path = &ancestor.service.path;
            if path.rsplit('/').next() == Some(&key.text) {
                let inner = self.services[parent.unwrap_or(id).index()].service.path();
                return self.problems.error_with(
                    key.span,
                    format!("`{inner}/{}` makes a loop: `{}` is nested inside itself", key.text, key.text),
                    "give the inner service another name",
                    (ancestor.name, "inside this one"),
                );
            }
            above = ancestor.service.parent;
        }
    }

    fn service(&mut self, key: &Key, node: &Node, parent: Option<ServiceId>, inherited: Sharing) -> ServiceId {
        let id = ServiceId(self.services.len() as u32);
        let path = match parent {
            Some(parent) => format!("{}/{}", self.services[parent.index()].service.path, key.text),
            None => key.text.clone(),
        };
        let sharing = super::sharing(node);
        let mut level_shares =
            |point: ContentionPoint| share::read(&path, point, node.get(point.name()), self.problems);
        let shares = PerPoint {
            machine: level_shares(ContentionPoint::Machine),
            rack: level_shares(ContentionPoint::Rack),
            fabric: level_shares(ContentionPoint::Fabric),
        };
        let mut service = Service {
            path,
            parent,
            children: Vec::new(),
            sharing: sharing.value().unwrap_or(inherited),
            matches: Vec::new(),
            order: node.field("order", order).value().unwrap_or(0),
            shares: PerPoint::default(),
            latency: node.get("latency").and_then(|node| levels::latency(node, self.problems)),
            level: node.field("level", level).value(),
            credits: node.get("credits").map(credits::weight),
            shaper: Shaper::default(),
            senders: Vec::new(),
            machines: None,
            reserved: Vec::new(),
        };
        for point in ContentionPoint::ALL {
            for direction in Direction::ALL {
                service.shares[point][direction] = shares[point][direction].share();
            }
        }
        let match_spans = self.filters(node, &mut service);
        if let Some(node) = node.get("shaper") {
            service.shaper = shaper::read(node, self.problems);
        }
        if let Some(node) = node.get("senders") {
            service.senders = self.senders.read(node, self.problems);
        }
        service.machines = self.machines_of(node, &service);
        self.leaf_or_inner(key, node, &service.path);
        let key_span = |name: &str| node.entries().iter().find(|(key, _)| key.text == name).map(|(key, _)| key.span);
        self.services.push(ReadService {
            is_tenant: false,
            name: key.span,
            shares,
            match_spans,
            level_span: key_span("level"),
            latency_span: key_span("latency"),
            credits_span: key_span("credits"),
            senders_span: key_span("senders"),
            machines_span: key_span("machines"),
            service,
        });
        if let Some(children) = node.get("services") {
            let sharing = self.services[id.index()].service.sharing;
            let children = self.siblings(children, Some(id), sharing);
            self.services[id.index()].service.children = children;
        }
        id
    }

    /// The machines of a service: its own, which are some of its parent's, or its parent's.
    fn machines_of(&mut self, node: &Node, service: &Service) -> Option<Arc<MachineSet>> {
        let parent = service.parent.map(|id| &self.services[id.index()]);
        let inherited = parent.and_then(|parent| parent.service.machines.clone());
        let Some(list) = node.get("machines") else { return inherited };
        let Some(own) = self.machines.read(list, self.problems) else { return inherited };
        if let (Some(all), Some(parent)) = (&inherited, parent)
            && let Some(outside) = own.first_outside(all)
        {
            let cause = format!(
                "service `{}` runs on machine `{}`, and service `{}`, in which it is nested, does not",
                service.path,
                self.machines.name(outside),
                parent.service.path
            );
            let hint = "name some of the machines of the service above, or more there";
            match parent.machines_span {
                Some(span) => self.problems.error_with(list.span, cause, hint, (span, "its machines")),
                None => self.problems.error(list.span, cause, hint),
            }
        }
        Some(Arc::new(own))
    }

    /// Leaves have filters and no keys of parents; services with children the reverse.
    fn leaf_or_inner(&mut self, key: &Key, node: &Node, path: &str) {
        // A value that is not a mapping has been reported as such.
        if node.scalar().is_some() || !node.items().is_empty() || matches!(node.kind, weir_document::Kind::Refused) {
            return;
        }
        let misplaced = |name: &str| node.entries().iter().find(|(key, _)| key.text == name).map(|(key, _)| key.span);
        if node.get("services").is_some() {
            if let Some(span) = misplaced("match") {
                self.problems.error(
                    span,
                    format!("service `{path}` has both `match` and `services`"),
                    "packets belong to leaves: move `match` into a service nested in this one",
                );
            }
            if let Some(span) = misplaced("order") {
                self.problems.error(
                    span,
                    format!("service `{path}` has an `order` but no filters of its own"),
                    "write `order` on the leaves whose matches overlap",
                );
            }
            for name in ["shaper", "senders", "level", "credits"] {
                let Some(span) = misplaced(name) else { continue };
                self.problems.error(
                    span,
                    format!("service `{path}` has `{name}` but no packets of its own"),
                    format!("packets belong to leaves: write `{name}` on the services nested in this one"),
                );
            }
            return;
        }
        if node.get("match").is_none() {
            self.problems.error(
                key.span,
                format!("service `{path}` has no match"),
                "give the packets that belong to it, for example `match: [ { protocol: tcp, port: 80 } ]`, or nest \
                 services in it",
            );
        }
        if let Some(span) = misplaced("sharing") {
            self.problems.error(
                span,
                format!("service `{path}` has no children that could share"),
                "remove `sharing`, or write it on the service above",
            );
        }
    }
}

pub(super) fn order(text: &str) -> Result<i32, scalar::Refusal> {
    scalar::integer(text, "an order", i32::MIN.into(), i32::MAX.into()).map(|order| order as i32)
}

fn level(text: &str) -> Result<LevelChoice, scalar::Refusal> {
    scalar::word(text, "a level", LEVEL_KEYWORDS).map(|place| match place {
        0 => LevelChoice::Auto,
        // `guaranteed` and `1` are the same.
        n => LevelChoice::Numbered(Level::from_index(n.saturating_sub(2))),
    })
}
