//! The conditions of credits: one path for both directions, and a period that is not below the round trip.
//!
//! - An allocation reserves at the ports that it passes, so the data must pass the same ones: where hosts have several
//!   paths, routing must be symmetric.
//! - Grants live for two periods and queues, and the sender spends an allocation in the period after its arrival; both
//!   hold if p is at least the round trip (`docs/design/credits.md`). Here that of the idle network is compared: an
//!   allocation to the sender, and a full frame back. With queues it is longer, which a run counts
//!   (`credits_slow_returns`).
//! - `aggregates` makes the data of all flows between two hosts one flow with credits; its flows must have one path.
//!   Under a policy its services with credits have aggregates (`credit_services`).
//! - `without-forwarder` names switches whose ports have no forwarder; then credits make no claim to be lossless.
//!
//! Worked example: two hosts at a switch, links of 1 Gb/s and 10 µs. An allocation of 84 B takes 0.672 µs on a link, a
//! frame of 1,514 B 12.112 µs; the round trip is 4 · 10 + 2 · 0.672 + 2 · 12.112 = 65.568 µs.

use super::traffic::Read;
use super::trips::{RoundTrips, Trip};
use super::{Files, Reader};
use crate::model::Aggregates;
use std::collections::BTreeSet;
use weir_document::{Node, Span, quote};
use weir_network::graph::{Graph, Routing};
use weir_network::layers::has_one_path;
use weir_network::names::NameRange;
use weir_transport::Parameters;
use weir_transport::pace::{self, ALLOCATION};
use weir_units::Duration;

impl<F: Files> Reader<'_, F> {
    /// The switches without forwarders, ascending; `None` only if something was reported.
    pub(super) fn without_forwarder(&mut self, node: Option<&Node>, graph: &Graph) -> Option<Vec<usize>> {
        let mut all = BTreeSet::new();
        for item in node.map_or(&[][..], Node::items) {
            let Some(Ok(range)) = item.scalar().map(NameRange::parse) else { return None };
            if range.count() > graph.switches.len() as u64 {
                let cause =
                    format!("the range names {} switches, the network has {}", range.count(), graph.switches.len());
                self.error(item.span, cause, "check the ends of this range");
                return None;
            }
            for name in range.names() {
                let Some(switch) = graph.switches.iter().position(|known| *known == name) else {
                    let known = graph.switches.iter().map(String::as_str);
                    let hint = self.suggester.hint_of_name(&name, known, "name switches of the network");
                    self.error(item.span, format!("there is no switch {} in the network", quote(&name)), hint);
                    return None;
                };
                all.insert(switch);
            }
        }
        Some(all.into_iter().collect())
    }

    /// Refuses flows with credits that the network does not carry. `items` are the flow groups as written.
    pub(super) fn credits_can_be(&mut self, root: &Node, items: &[Node], traffic: &[Read], graph: &Graph) {
        let mut refused_paths = false;
        let mut trips = RoundTrips::new(graph, ALLOCATION.into());
        for (item, read) in items.iter().zip(traffic) {
            let Parameters::Pace(pace) = &read.traffic.transport else { continue };
            let transport = item.get("transport").or(root.get("transport")).unwrap_or(item);
            if !refused_paths && graph.routing != Routing::Symmetric && !has_one_path(graph) {
                refused_paths = true;
                let at = root.get("network").map_or(transport.span, |node| node.get("routing").unwrap_or(node).span);
                self.error(
                    at,
                    "data of pace must leave by the links that its credits arrive over, but these hosts have several \
                     paths",
                    "write `routing: symmetric` in `network`",
                );
            }
            let at = transport.get("period").map_or(transport.span, |node| node.span);
            self.longer_than_trips(at, pace.period.duration(), read, &mut trips, &longer);
        }
    }

    /// Remarks on `without-forwarder`, if flows or aggregates have credits or none do.
    pub(super) fn remark_without_forwarder(&mut self, root: &Node, traffic: &[Read], has_aggregates: bool) {
        if let Some(node) = root.get("without-forwarder") {
            let paced = |read: &Read| matches!(read.traffic.transport, Parameters::Pace(_));
            let cause = match has_aggregates || traffic.iter().any(paced) {
                true => "some ports have no forwarder: credits make no claim to be lossless",
                false => "no flow group has credits, so `without-forwarder` has no effect",
            };
            self.problems.note(node.span, cause, "remove `without-forwarder`, and all ports have forwarders");
        }
    }
}

/// The remedy for a period that is too short.
fn longer(micros: u64) -> String {
    format!("write at least `period: {micros}us`")
}

impl<F: Files> Reader<'_, F> {
    /// The credits of all aggregates, without a policy; `None` without, or if something was reported.
    pub(super) fn aggregates(
        &mut self,
        root: &Node,
        items: &[Node],
        traffic: &[Read],
        graph: &Graph,
    ) -> Option<Aggregates> {
        let node = root.get("aggregates")?;
        let parameters = pace::read(node, self.problems)?;
        self.refuse_repair(node);
        if !has_one_path(graph) {
            let cause = "the flows of an aggregate must have one path, but these hosts have several";
            self.error(node.span, cause, "choose a network with one path between any two hosts");
        }
        let mut trips = RoundTrips::new(graph, ALLOCATION.into());
        let at = node.get("period").unwrap_or(node).span;
        for (item, read) in items.iter().zip(traffic) {
            if matches!(read.traffic.transport, Parameters::Pace(_)) {
                let at = item.get("transport").or(root.get("transport")).unwrap_or(item).span;
                let cause =
                    format!("{} has credits of its own flows, and aggregates have some for it", read.traffic.name);
                self.error(at, cause, "choose another transport, or remove `aggregates`");
            }
            self.longer_than_trips(at, parameters.period.duration(), read, &mut trips, &longer);
        }
        Some(Aggregates { parameters, weights: None })
    }

    /// Refuses the key of `pace` for lost segments. Returns whether it is written.
    pub(super) fn refuse_repair(&mut self, node: &Node) -> bool {
        let Some(node) = node.get("dup-thresh") else { return false };
        self.error(node.span, "aggregates repair nothing: transports do", "remove `dup-thresh`");
        true
    }

    /// Refuses a period that is shorter than a round trip of a flow group. `hint`: the remedy, by the microseconds of a
    /// period that is long enough.
    pub(super) fn longer_than_trips(
        &mut self,
        at: Span,
        period: Duration,
        read: &Read,
        trips: &mut RoundTrips<'_>,
        hint: &dyn Fn(u64) -> String,
    ) {
        let (senders, receivers) = read.traffic.spec.ends();
        let Some(Trip { time: trip, ends, .. }) = trips.longest(&senders, &receivers) else { return };
        if trip > period {
            let [from, to] = ends.map(|host| trips.graph.hosts[host.index()].name.as_str());
            self.error(
                at,
                format!(
                    "a round trip between `{from}` and `{to}` takes {trip} on the idle network, longer than the period \
                     of {period}"
                ),
                hint(trip.nanos().div_ceil(1_000).next_multiple_of(20)),
            );
        }
    }
}
