//! `kind: random` and `bursts`: flows between random pairs, how often they arrive, and their
//! deadlines.

use super::names::Names;
use super::traffic::Context;
use super::{Files, Reader};
use crate::language::{ARRIVALS_KEYWORDS, LOAD_TOO_MUCH, MAX_MANY_FLOWS, SWITCH_KEYWORDS};
use crate::model::FlowQuotas;
use std::sync::Arc;
use weir_document::{Field, Node, Span, scalar};
use weir_network::graph::PRIORITIES;
use weir_policy::Policy;
use weir_units::Load;
use weir_units::{Bandwidth, Bytes, Duration, MachineId, ServiceId, SimTime};
use weir_workload::{
    Arrivals, Bursts, Deadlines, Framing, Hosts, MeanGap, Random, SizeDistribution, Spec, mean_gap, mean_gap_of_rate,
};

/// Words for messages on the rate of arrivals.
pub(super) struct RateKeys {
    /// The things that arrive.
    pub(super) what: &'static str,
    /// An example of a load.
    pub(super) load: &'static str,
    /// An example of a rate.
    pub(super) rate: &'static str,
}

impl<F: Files> Reader<'_, F> {
    pub(super) fn random(&mut self, item: &Node, context: Context<'_, '_>) -> Option<Random> {
        let names = context.names;
        let (from, to) = (self.hosts_of(item, "from", names), self.hosts_of(item, "to", names));
        let sizes = item.get("sizes").and_then(|node| self.sizes(node));
        let gap = self.gap(item, from.as_deref(), sizes.as_ref(), names);
        let interval = self.interval(item, context.duration);
        let deadlines = self.deadlines(item);
        let arrivals = self.arrivals(item)?;
        let flows = item.field("flows", |text| scalar::integer(text, "", 1, MAX_MANY_FLOWS.into()));
        let (from, to) = (Hosts::new(from?, "senders"), Hosts::new(to?, "receivers"));
        let (from, to) = (self.accept(item, "from", from)?, self.accept(item, "to", to)?);
        let (start, stop) = interval?;
        let random = self.accept(item, "to", Random::new(from, to, arrivals, gap?, sizes?))?;
        let until = self.until(item, "flows", stop);
        let random = self.accept(item, "stop", random.times(start.into(), until))?;
        let random = match flows {
            Field::Absent => random,
            field => self.accept(item, "flows", random.at_most(u64::try_from(field.value()?).ok()?))?,
        };
        let random = match item.field("per-sender", |text| scalar::word(text, "", SWITCH_KEYWORDS)) {
            Field::Value(0, _) => self.accept(item, "gap", random.per_sender())?,
            _ => random,
        };
        match deadlines? {
            Some(deadlines) => self.accept(item, "deadline", random.deadlines(deadlines)),
            None => Some(random),
        }
    }

    /// The distribution of gaps.
    pub(super) fn arrivals(&self, item: &Node) -> Option<Arrivals> {
        match item.field("arrivals", |text| scalar::word(text, "", ARRIVALS_KEYWORDS)) {
            Field::Absent => Some(Arrivals::Poisson),
            field => field.value().map(|word| Arrivals::ALL[word]),
        }
    }

    /// The mean gap of random traffic: a load is of the senders' links.
    fn gap(
        &mut self,
        item: &Node,
        from: Option<&[MachineId]>,
        sizes: Option<&SizeDistribution>,
        names: &Names<'_>,
    ) -> Option<MeanGap> {
        let graph = names.graph;
        let framing = self.accept(item, "sizes", Framing::new(graph.packets.payload, graph.packets.headers))?;
        let capacity = from.map(|from| from.iter().map(|host| graph.hosts[host.index()].up.rate).sum());
        let keys = RateKeys { what: "flows", load: "60%", rate: "10Gb/s" };
        self.mean_gap_of(item, &keys, capacity, sizes.map(|sizes| sizes.mean_wire_bytes(framing)))
    }

    /// The mean gap between arrivals of `wire` bytes each, from `gap`, `rate` or the `load` of links of `capacity`.
    pub(super) fn mean_gap_of(
        &mut self,
        item: &Node,
        keys: &RateKeys,
        capacity: Option<Bandwidth>,
        wire: Option<f64>,
    ) -> Option<MeanGap> {
        let load = item.field("load", |text| scalar::percent(text, "", LOAD_TOO_MUCH));
        let rate = item.field("rate", |text| scalar::rate(text, false, false));
        let gap = item.field("gap", |text| scalar::time(text, false));
        let mut written = ["load", "rate", "gap"].into_iter().filter_map(|key| Some((key, item.get(key)?.span)));
        let Some((first, span)) = written.next() else {
            let RateKeys { what, load, rate } = keys;
            self.error(
                Span::new(item.span.start, item.span.start),
                "the rate of arrivals is missing",
                format!("write `load: {load}`, a `rate: {rate}`, or the mean time between two {what} as `gap: 100us`"),
            );
            return None;
        };
        if let Some((second, at)) = written.next() {
            let cause = format!("both `{first}` and `{second}` set the rate of arrivals");
            self.problems.error_with(at, cause, "write one of them", (span, "the other one"));
            return None;
        }
        match (load, rate, gap) {
            (.., Field::Value(gap, _)) => self.accept(item, "gap", MeanGap::from_time(gap.into())),
            (_, Field::Value(rate, _), _) => self.accept(item, "rate", mean_gap_of_rate(rate, wire?)),
            (Field::Value(load, span), ..) => {
                // Millionths are thousands of billionths; below one by the check.
                let Ok(load) = Load::from_billionths(load as u32 * 1_000) else {
                    self.error(span, "a load is above zero and below 100%", "for example `60%`");
                    return None;
                };
                self.accept(item, "load", mean_gap(load, capacity?, wire?))
            }
            _ => None,
        }
    }

    /// Reads `by-size`; `None` only if something was reported.
    pub(super) fn by_size(&mut self, item: &Node, policy: Option<&Arc<Policy>>) -> Option<Vec<(Bytes, ServiceId)>> {
        let Some(node) = item.get("by-size") else { return Some(Vec::new()) };
        let Some(policy) = policy else {
            self.error(node.span, "services belong to a policy", "remove it, or write `policy` in place of `network`");
            return None;
        };
        if let Some(connections) = item.get("connections") {
            let cause = "flows that share connections have one service";
            self.error(connections.span, cause, "remove `connections` or `by-size`");
            return None;
        }
        let mut classes: Vec<(Bytes, ServiceId)> = Vec::new();
        for class in node.items() {
            let largest = class.field("up-to", scalar::size).value();
            let service = class.get("service").and_then(|node| self.service(node, policy));
            let (largest, service) = (largest?, service?);
            self.ascends(class.get("up-to").unwrap_or(class).span, largest, classes.last().map(|(size, _)| *size))?;
            classes.push((largest, service));
        }
        Some(classes)
    }

    /// Reads `quotas`; the outer `None` only if something was reported.
    pub(super) fn quotas(&mut self, item: &Node) -> Option<Option<FlowQuotas>> {
        let Some(node) = item.get("quotas") else { return Some(None) };
        let epoch = node.field("epoch", |text| scalar::time(text, false)).value();
        let mut sizes: Vec<Bytes> = Vec::new();
        for item in node.get("sizes")?.items() {
            let size = scalar::size(item.scalar()?).ok()?;
            self.ascends(item.span, size, sizes.last().copied())?;
            sizes.push(size);
        }
        if sizes.len() > PRIORITIES {
            let cause = format!("{} quotas are more than the {PRIORITIES} classes of a queue", sizes.len());
            self.error(node.span, cause, format!("write at most {PRIORITIES} sizes"));
            return None;
        }
        if let Some(connections) = item.get("connections") {
            let cause = "flows that share connections have no quota of their own";
            self.error(connections.span, cause, "remove `connections` or `quotas`");
            return None;
        }
        Some(Some(FlowQuotas { epoch: epoch?, sizes }))
    }

    /// Refuses a size that is not above the one before.
    fn ascends(&mut self, span: Span, size: Bytes, before: Option<Bytes>) -> Option<()> {
        let before = before.filter(|before| size <= *before);
        if let Some(before) = before {
            self.error(span, format!("{size} is not more than {before} before it"), "write ascending sizes");
        }
        before.is_none().then_some(())
    }

    pub(super) fn bursts(&mut self, item: &Node, context: Context<'_, '_>) -> Option<Spec> {
        let names = context.names;
        let (from, to) = (self.hosts_of(item, "from", names), self.hosts_of(item, "to", names));
        let on = item.field("on", |text| scalar::time(text, false));
        let off = item.field("off", |text| scalar::time(text, true));
        let spread = item.field("spread", |text| scalar::time(text, false));
        let (start, stop) = self.interval(item, context.duration)?;
        let or_none = |field: Field<Duration>| match field {
            Field::Absent => Some(Duration::ZERO),
            field => field.value(),
        };
        let (off, spread) = (or_none(off)?, or_none(spread)?);
        let (from, to) = (Hosts::new(from?, "senders"), Hosts::new(to?, "receivers"));
        let (from, to) = (self.accept(item, "from", from)?, self.accept(item, "to", to)?);
        let bursts = self.accept(item, "to", Bursts::new(from, to, on.value()?.into(), off.into()))?;
        self.accept(item, "spread", bursts.times(start.into(), spread.into(), stop.into())).map(Spec::Bursts)
    }

    /// A deadline or a distribution of them; the outer `None` only if something was reported.
    fn deadlines(&mut self, item: &Node) -> Option<Option<Deadlines>> {
        let Some(node) = item.get("deadline") else { return Some(None) };
        let time = |field: Field<Duration>| field.value().map(SimTime::from);
        if node.scalar().is_some() {
            return Some(Some(Deadlines::Fixed(time(node.read(|text| scalar::time(text, false)))?)));
        }
        let mean = time(node.field("mean", |text| scalar::time(text, false)))?;
        let floor = node.field("floor", |text| scalar::time(text, false));
        let floor = if floor == Field::Absent { SimTime::ZERO } else { time(floor)? };
        Some(Some(Deadlines::Exponential { mean, floor }))
    }
}
