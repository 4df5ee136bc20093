//! `kind: incast` with arrivals: incasts to random receivers.
//!
//! The load is that of the receivers' links, on which the flows of an incast meet: with a load ρ, a fan-in n, W bytes
//! of a flow on the wire and a total capacity C of the receivers' links, incasts arrive every 8·n·W/(ρ·C) on average.
//!
//! Worked example: `{ from: all, to: all, fan-in: 30, size: 20kB, load: 5% }` over 144 hosts of 10 Gb/s with packets of
//! 1,460 + 40 B: an incast every 8 · 30 · 20,560 B / (0.05 · 1.44 Tb/s) = 68.5 µs.

use super::random::RateKeys;
use super::traffic::Context;
use super::{Files, Reader};
use crate::language::{MAX_FLOWS, MAX_MANY_FLOWS};
use std::collections::BTreeSet;
use weir_document::{Field, Node, scalar};
use weir_units::{Bandwidth, SimTime};
use weir_workload::{Framing, Hosts, Incasts, Spec};

impl<F: Files> Reader<'_, F> {
    pub(super) fn incasts(&mut self, item: &Node, context: Context<'_, '_>) -> Option<Spec> {
        for key in ["every", "pause"] {
            if let Some(node) = item.get(key) {
                let cause = format!("incasts that arrive by themselves have no `{key}`");
                self.error(node.span, cause, "write `gap`, `load` or `rate` in place of it, or remove the other keys");
                return None;
            }
        }
        let (from, to) = (self.senders(item, "from", context.names), self.senders(item, "to", context.names));
        let size = item.field("size", scalar::size).value();
        let arrivals = self.arrivals(item);
        let (from, to, size) = (from?, to?, size?);
        let fan_in = self.fan_in(item, &from, &to)?;
        let graph = context.names.graph;
        let framing = self.accept(item, "size", Framing::new(graph.packets.payload, graph.packets.headers))?;
        let wire = framing.wire_bytes(size.get()) as f64 * f64::from(fan_in);
        let capacity: Bandwidth = to.iter().map(|host| graph.hosts[host.index()].down.rate).sum();
        let keys = RateKeys { what: "incasts", load: "20%", rate: "1Gb/s" };
        let gap = self.mean_gap_of(item, &keys, Some(capacity), Some(wire))?;
        let (start, stop) = self.interval(item, context.duration)?;
        let rounds = item.field("rounds", |text| scalar::integer(text, "", 1, MAX_MANY_FLOWS.into()));
        let incasts = self.accept(item, "fan-in", Incasts::new(from, to, fan_in, size.get(), arrivals?, gap))?;
        let until = self.until(item, "rounds", stop);
        let incasts = self.accept(item, "stop", incasts.times(start.into(), until))?;
        let incasts = match rounds {
            Field::Absent => incasts,
            most => self.accept(item, "rounds", incasts.at_most(u64::try_from(most.value()?).ok()?))?,
        };
        match item.field("jitter", |text| scalar::time(text, false)) {
            Field::Absent => Some(Spec::Incasts(incasts)),
            jitter => {
                let jitter = SimTime::from(jitter.value()?);
                self.accept(item, "jitter", incasts.jitter(jitter)).map(Spec::Incasts)
            }
        }
    }

    /// The number of senders of each incast.
    fn fan_in(&mut self, item: &Node, from: &Hosts, to: &Hosts) -> Option<u32> {
        match item.field("fan-in", |text| scalar::integer(text, "", 1, MAX_FLOWS.into())) {
            Field::Absent => {}
            field => return u32::try_from(field.value()?).ok(),
        }
        let senders: BTreeSet<_> = from.iter().collect();
        let is_sender = |host| senders.contains(&host);
        if to.iter().any(is_sender) && !to.iter().all(is_sender) {
            let at = item.get("to").map_or(item.span, |node| node.span);
            let cause = "some receivers are senders and some are not, so incasts would differ in their senders";
            self.error(at, cause, format!("write their number, for example `fan-in: {}`", from.len() - 1));
            return None;
        }
        // Refused by the workload if it is 0: the only sender is the receiver.
        u32::try_from(Incasts::most(from, to).max(1)).ok()
    }
}
