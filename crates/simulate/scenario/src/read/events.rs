//! `events:` and `measure:`: the events of links, and the watched links.

use super::names::Names;
use super::{Files, Reader};
use crate::language::{MAX_SAMPLES, SERVICE_EVENT};
use crate::model::{Change, Measurement, NetworkEvent};
use std::collections::BTreeSet;
use weir_document::{Field, Node, scalar};
use weir_network::graph::{Discipline, LinkRef};
use weir_units::Duration;

/// Samples of a run without `every`: about as many points as a curve shows.
const SAMPLES: u64 = 200;
/// Links that are watched by default: as many curves as a page can hold.
const LINKS: usize = 64;

impl<F: Files> Reader<'_, F> {
    /// The events, by time.
    pub(super) fn events(
        &mut self,
        node: Option<&Node>,
        names: &Names<'_>,
        duration: Field<Duration>,
    ) -> Vec<NetworkEvent> {
        let mut events: Vec<_> =
            node.map_or(&[][..], Node::items).iter().filter_map(|item| self.event(item, names, duration)).collect();
        // Stable: simultaneous events keep the file's order.
        events.sort_by_key(|event| event.at);
        events
    }

    fn event(&mut self, node: &Node, names: &Names<'_>, duration: Field<Duration>) -> Option<NetworkEvent> {
        // The variants of the other choice are these and more.
        let kind = SERVICE_EVENT.chosen(node)?.id;
        if !matches!(kind, "down" | "up" | "rate" | "weights") {
            return None;
        }
        let at = self.event_time(node, duration);
        let link = node.get("link")?;
        let links = self.links(link, names);
        let change = match kind {
            "down" => Some(Change::Down),
            "up" => Some(Change::Up),
            "rate" => self.networks().link_rate(node).value().map(Change::Rate),
            _ => node.get("weights").and_then(|node| self.networks().weights(node)).map(Change::Weights),
        };
        let links = links?;
        if kind == "weights" {
            let weighted = |link: &LinkRef| {
                matches!(names.graph.link(*link).queue.discipline, Discipline::DeficitRoundRobin { .. })
            };
            if let Some(other) = links.iter().find(|link| !weighted(link)) {
                let name = names.graph.link_name(*other);
                self.error(
                    link.span,
                    format!("the queue of {name} has no weights"),
                    "write `queue: deficit-round-robin` for this link, or name another one",
                );
                return None;
            }
        }
        Some(NetworkEvent { at: at.value()?, links, change: change? })
    }

    /// The time of an event: not after the end.
    pub(super) fn event_time(&mut self, node: &Node, duration: Field<Duration>) -> Field<Duration> {
        let at = node.field("at", |text| scalar::time(text, true));
        if let (Field::Value(at, span), Field::Value(duration, _)) = (at, duration)
            && at > duration
        {
            self.error(
                span,
                format!("this happens at {at}, after the end of the run at {duration}"),
                "let it happen earlier, or make `duration` longer",
            );
        }
        at
    }

    /// Checks the length of a sample against that of the run.
    pub(super) fn samples(&mut self, every: Field<Duration>, duration: Field<Duration>) {
        let (Field::Value(every, span), Field::Value(duration, _)) = (every, duration) else { return };
        if every > duration {
            self.error(
                span,
                format!("one sample of {every} is longer than the run of {duration}"),
                "sample more often, or make `duration` longer",
            );
        } else if every.nanos() > 0 && duration.nanos() / every.nanos() > MAX_SAMPLES {
            let least = Duration::from_nanos(duration.nanos().div_ceil(MAX_SAMPLES));
            self.error(
                span,
                format!("a sample every {every} in a run of {duration} gives more than {MAX_SAMPLES} samples"),
                format!("sample every {least} or less often; `--set measure.every=TIME` does it from outside"),
            );
        }
    }

    /// The watched links of a network; `None` only if something was reported.
    pub(super) fn measure_links(
        &mut self,
        node: Option<&Node>,
        names: &Names<'_>,
        duration: Field<Duration>,
    ) -> Option<Measurement> {
        let every = node.map_or(Field::Absent, |node| node.field("every", |text| scalar::time(text, false)));
        self.samples(every, duration);
        let named = node.and_then(|node| node.get("links"));
        let links = match named {
            Some(list) => {
                let mut all = BTreeSet::new();
                let before = self.problems.count();
                for item in list.items() {
                    let Some(links) = self.links(item, names) else { continue };
                    for link in links {
                        if !all.insert(link) {
                            let name = names.graph.link_name(link);
                            self.error(item.span, format!("the link {name} is named twice"), "name each link once");
                            break;
                        }
                    }
                }
                (self.problems.count() == before && !all.is_empty()).then(|| all.into_iter().collect())?
            }
            None => watched(names),
        };
        let every = match every {
            Field::Absent => Duration::from_nanos((duration.value()?.nanos() / SAMPLES).max(1)),
            every => every.value()?,
        };
        Some(Measurement { every, links, are_named: named.is_some() })
    }
}

/// The links that are watched by default.
fn watched(names: &Names<'_>) -> Vec<LinkRef> {
    let graph = names.graph;
    let fabric = graph.links().filter(|link| matches!(link, LinkRef::Forward(_) | LinkRef::Backward(_)));
    let down = graph.links().filter(|link| matches!(link, LinkRef::Down(_)));
    match graph.cables.is_empty() {
        true => down.take(LINKS).collect(),
        false => fabric.take(LINKS).collect(),
    }
}
