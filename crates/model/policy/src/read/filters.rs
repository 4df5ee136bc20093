//! `match:` of services and tenants: from the fields of filters to [`Match`]es.
//!
//! A field with several values (`port: [80, 443]`, `port: 80,443`, `dscp: [AF31, AF32]`) stands for a filter with each
//! of them, and two such fields for a filter with each pair: everything behind this module, fingerprints too, has
//! filters with one value of each field. Their number is compared with the bounds before they are made.
//!
//! Worked example: `{ protocol: tcp, port: [80, 443] }` is `{ protocol: tcp, port: 80 }` and `{ protocol: tcp, port:
//! 443 }`.

use super::services::Reader;
use crate::dscp::dscp;
use crate::filter_syntax as syntax;
use crate::language::{MAX_ALL_FILTERS, MAX_FILTERS, MAX_PRIORITY, MAX_VNI, protocol};
use crate::model::{Match, Protocol, Service};
use crate::pod::{self, PodSelector};
use ipnet::IpNet;
use weir_document::scalar::{self, Refusal};
use weir_document::{Field, Kind, Node, Span, quote};

/// A filter as written: of `ports` and `dscps` any one holds; all hold where there is none.
struct Written {
    other: Match,
    ports: Vec<(u16, u16)>,
    dscps: Vec<u8>,
}

impl Written {
    /// The number of its matches. Saturates.
    fn count(&self) -> usize {
        self.ports.len().max(1).saturating_mul(self.dscps.len().max(1))
    }

    fn matches(self) -> impl Iterator<Item = Match> {
        let Self { other, ports, dscps } = self;
        let dscps = each(dscps);
        each(ports).into_iter().flat_map(move |ports| {
            let other = other.clone();
            dscps.clone().into_iter().map(move |dscp| Match { ports, dscp, ..other.clone() })
        })
    }
}

/// The values, or the absence of one.
fn each<T>(values: Vec<T>) -> Vec<Option<T>> {
    if values.is_empty() { vec![None] } else { values.into_iter().map(Some).collect() }
}

impl Reader<'_> {
    /// Reads the filters into `service`, sorted and each once, and returns their positions.
    pub(super) fn filters(&mut self, node: &Node, service: &mut Service) -> Vec<Span> {
        let Some(list) = node.get("match") else { return Vec::new() };
        let items = list.items().iter();
        let written: Vec<_> = items.filter_map(|item| Some((self.filter(item)?, item.span))).collect();
        let count = written.iter().fold(0, |sum: usize, (filter, _)| sum.saturating_add(filter.count()));
        self.filters = self.filters.saturating_add(count);
        if count > MAX_FILTERS || self.filters > MAX_ALL_FILTERS {
            if !std::mem::replace(&mut self.full, true) {
                self.problems.error(
                    list.span,
                    format!("too many filters: at most {MAX_FILTERS} in a service and {MAX_ALL_FILTERS} in a policy"),
                    "use ranges of ports and address prefixes; lists of ports and of DSCP values in one filter are a \
                     filter for each pair",
                );
            }
            return Vec::new();
        }
        let each = |(filter, span): (Written, Span)| filter.matches().map(move |filter| (filter, span));
        let mut filters: Vec<_> = written.into_iter().flat_map(each).collect();
        // In an order of their own: two files that list the same filters are the same policy.
        filters.sort_by_cached_key(|(filter, span)| (filter.canonical_text(), *span));
        filters.dedup_by(|(a, _), (b, _)| a == b);
        let spans;
        (service.matches, spans) = filters.into_iter().unzip();
        spans
    }

    /// Reads a filter. `None` if something in it is wrong, which the check or this function reports: without a wrong
    /// field it would match more packets than intended.
    fn filter(&mut self, node: &Node) -> Option<Written> {
        if matches!(&node.kind, Kind::Mapping(entries) if entries.is_empty()) {
            self.problems.error(
                node.span,
                "the filter is empty and would match every packet",
                "to match everything, write `{ address: 0.0.0.0/0 }` and `{ address: \"::/0\" }`",
            );
            return None;
        }
        let protocol = node.field("protocol", protocol);
        let ports = values(node, "port", syntax::ports);
        if let (Field::Value(protocol, _), Some(port)) = (&protocol, node.get("port"))
            && !protocol.has_ports()
            && ports.is_some()
        {
            self.problems.error(
                port.span,
                format!("packets of protocol {protocol} have no ports"),
                "remove `port`, or write `protocol: tcp`, `udp` or `sctp`",
            );
        }
        let address = node.field("address", syntax::prefix);
        if let (Field::Value(prefix @ IpNet::V4(_), span), Some(text)) =
            (&address, node.get("address").and_then(Node::scalar))
            && text.contains(':')
        {
            let cause =
                format!("{} is of IPv4 addresses in the notation of IPv6: it is read as `{prefix}`", quote(text));
            self.problems.note(*span, cause, format!("write `{prefix}`"));
        }
        let integer = |most: u32| move |text: &str| scalar::integer(text, "", 0, most.into()).map(|value| value as u32);
        let dscps = values(node, "dscp", |text| dscp(text).map(|dscp| vec![dscp]));
        let (ports, dscps) = (ports?, dscps?);
        let other = Match {
            protocol: sound(protocol)?,
            address: sound(address)?,
            interface: sound(node.field("interface", syntax::interface))?,
            pod: self.pod(node)?,
            cgroup: sound(node.field("cgroup", syntax::cgroup))?,
            vni: sound(node.field("vni", integer(MAX_VNI)))?,
            priority: sound(node.field("priority", integer(MAX_PRIORITY)))?,
            ..Match::default()
        };
        // A filter with unknown keys alone is empty.
        let is_empty = other == Match::default() && ports.is_empty() && dscps.is_empty();
        (!is_empty).then_some(Written { other, ports, dscps })
    }
}

impl Reader<'_> {
    /// The selector of pods of a filter that has one; `None` if it is wrong, and reported.
    fn pod(&mut self, node: &Node) -> Option<Option<PodSelector>> {
        let Some(node) = node.get("pod") else { return Some(None) };
        let keys = ["namespace", "name", "labels"].map(|key| node.get(key));
        if keys.iter().all(Option::is_none) {
            // Wrong keys are reported already.
            if matches!(&node.kind, Kind::Mapping(entries) if entries.is_empty()) {
                self.problems.error(node.span, "the selector of pods is empty", pod::EMPTY_HINT);
            }
            return None;
        }
        let [namespace, name, labels] = keys.map(|key| key.map(Node::scalar));
        // A value that is no text is reported already.
        let text = |value: Option<Option<_>>| value.map_or(Some(None), |text| text.map(Some));
        PodSelector::new(text(namespace)?, text(name)?, text(labels)?).ok().map(Some)
    }
}

/// The values of a key with one of them or a list; none where it is absent. `None` if one is wrong, and reported.
fn values<T>(node: &Node, key: &str, read: impl Fn(&str) -> Result<Vec<T>, Refusal>) -> Option<Vec<T>> {
    let Some(node) = node.get(key) else { return Some(Vec::new()) };
    let items = if node.scalar().is_some() { std::slice::from_ref(node) } else { node.items() };
    let mut values = Vec::new();
    for item in items {
        values.extend(item.scalar().and_then(|text| read(text).ok())?);
    }
    (!values.is_empty()).then_some(values)
}

/// The value of a key that may be absent; `None` if it is wrong, and reported.
fn sound<T>(field: Field<T>) -> Option<Option<T>> {
    match field {
        Field::Absent => Some(None),
        Field::Bad => None,
        Field::Value(value, _) => Some(Some(value)),
    }
}

impl Protocol {
    /// Whether packets of this protocol carry ports: TCP, UDP and SCTP.
    pub fn has_ports(self) -> bool {
        matches!(self, Self::TCP | Self::UDP | Self::SCTP)
    }
}
