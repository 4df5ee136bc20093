//! `kind: incast`, `shuffle`, `barrier` and `requests`: flows that follow each other.

use super::names::Names;
use super::traffic::Context;
use super::{Files, Reader};
use crate::language::{
    ARRIVALS_KEYWORDS, BARRIER_KEYWORDS, MAX_FLOWS_OF_ROUND, MAX_MANY_FLOWS, MAX_PARALLEL, ORDER_KEYWORDS,
    THINKING_KEYWORDS,
};
use weir_document::{Field, Node, Span, scalar};
use weir_units::{Duration, MachineId, SimTime};
use weir_workload::{
    Arrivals, Hosts, MeanGap, NextRound, Order, Pattern as RoundPattern, RequestLoop, Requests, Rounds, Shuffle, Spec,
    Think,
};

impl<F: Files> Reader<'_, F> {
    pub(super) fn incast(&mut self, item: &Node, context: Context<'_, '_>) -> Option<Spec> {
        if ["gap", "load", "rate", "fan-in", "arrivals", "stop"].into_iter().any(|key| item.get(key).is_some()) {
            return self.incasts(item, context);
        }
        let from = self.senders(item, "from", context.names);
        let to = item.get("to").and_then(|node| self.one_host(node, context.names));
        let size = item.field("size", scalar::size).value();
        let next = self.next_round(item);
        let (from, to, size) = (from?, to?, size?);
        if from.index_of(to).is_some() {
            let place = item.get("to").map_or(item.span, |node| node.span);
            let name = context.names.name_of(to);
            self.error(place, format!("host `{name}` would send to itself"), "name a receiver that is not in `from`");
            return None;
        }
        let rounds = self.accept(item, "size", Rounds::incast(from, to, size.get(), next?))?;
        self.rounds(item, rounds, context)
    }

    pub(super) fn barrier(&mut self, item: &Node, context: Context<'_, '_>) -> Option<Spec> {
        let among = self.senders(item, "among", context.names);
        let size = item.field("size", scalar::size).value();
        let root = item.get("root").map(|node| (node, self.one_host(node, context.names)));
        let pattern = match (item.field("pattern", |text| scalar::word(text, "", BARRIER_KEYWORDS)), root) {
            (Field::Value(2, _), Some((_, root))) => RoundPattern::ToOne(root?),
            (Field::Value(2, span), None) => {
                self.error(span, "the receiver of all flows is missing", "add it, for example `root: h0`");
                return None;
            }
            (_, Some((root, _))) => {
                self.error(root.span, "there is a `root`, but not all send to one host", "write `pattern: to-one`");
                return None;
            }
            (Field::Value(1, _), None) => RoundPattern::Ring,
            (_, None) => RoundPattern::AllToAll,
        };
        let think = item.field("think", |text| scalar::time(text, true));
        let among = among?;
        let hosts = among.len() as u64;
        if pattern == RoundPattern::AllToAll {
            self.round_fits(item, hosts * (hosts - 1))?;
        }
        let think = if think == Field::Absent { Duration::ZERO } else { think.value()? };
        let rounds = Rounds::barrier(among, pattern, size?.get(), think.into());
        let rounds = self.accept(item, "among", rounds)?;
        self.rounds(item, rounds, context)
    }

    pub(super) fn shuffle(&mut self, item: &Node, context: Context<'_, '_>) -> Option<Spec> {
        let among = self.senders(item, "among", context.names);
        let size = item.field("size", scalar::size).value();
        let parallel = item.field("parallel", |text| scalar::integer(text, "", 1, MAX_PARALLEL.into()));
        let parallel = if parallel == Field::Absent { 1 } else { u64::try_from(parallel.value()?).ok()? };
        let order = match item.field("order", |text| scalar::word(text, "", ORDER_KEYWORDS)) {
            Field::Value(1, _) => Order::Staggered,
            _ => Order::Random,
        };
        let start = self.start(item, context.duration)?;
        let among = among?;
        let hosts = among.len() as u64;
        self.round_fits(item, hosts * (hosts - 1))?;
        let shuffle = Shuffle::new(among, size?.get(), parallel, order, start.into());
        self.accept(item, "among", shuffle).map(Spec::Shuffle)
    }

    pub(super) fn requests(&mut self, item: &Node, context: Context<'_, '_>) -> Option<Spec> {
        let (from, to) = (self.senders(item, "from", context.names), self.senders(item, "to", context.names));
        let request = item.field("request", scalar::size).value();
        let response = item.get("response").and_then(|node| self.sizes(node));
        let driven = self.request_loop(item);
        let (start, stop) = self.interval(item, context.duration)?;
        let most = item.field("requests", |text| scalar::integer(text, "", 1, MAX_MANY_FLOWS.into()));
        let requests = Requests::new(from?, to?, request?.get(), response?, driven?);
        let requests = self.accept(item, "to", requests)?;
        let until = self.until(item, "requests", stop);
        let requests = self.accept(item, "stop", requests.times(start.into(), until))?;
        let requests = match most {
            Field::Absent => requests,
            most => self.accept(item, "requests", requests.at_most(u64::try_from(most.value()?).ok()?))?,
        };
        Some(Spec::Requests(requests))
    }

    /// The trigger of clients' requests: responses, or the time.
    fn request_loop(&mut self, item: &Node) -> Option<RequestLoop> {
        let outstanding = item.field("outstanding", |text| scalar::integer(text, "", 1, MAX_PARALLEL.into()));
        let gap = item.field("gap", |text| scalar::time(text, false));
        let think = item.field("think", |text| scalar::time(text, true));
        let arrivals = item.field("arrivals", |text| scalar::word(text, "", ARRIVALS_KEYWORDS));
        let (outstanding, gap) = match (outstanding, gap) {
            (Field::Absent, Field::Absent) => {
                self.error(
                    Span::new(item.span.start, item.span.start),
                    "the timing of requests is missing",
                    "write `outstanding: 1` for a request after each response, or `gap: 100us` for requests that \
                     arrive by \
                     themselves",
                );
                return None;
            }
            (Field::Value(_, first), Field::Value(_, second)) => {
                let cause = "both `outstanding` and `gap` set the timing of requests";
                self.problems.error_with(second, cause, "write one of them", (first, "the other one"));
                return None;
            }
            pair => pair,
        };
        let closed = matches!(outstanding, Field::Value(..));
        for (key, of_closed) in [("think", true), ("thinking", true), ("arrivals", false)] {
            if let Some(node) = item.get(key).filter(|_| of_closed != closed) {
                let other = if of_closed { "outstanding" } else { "gap" };
                self.error(node.span, format!("`{key}` goes with `{other}`"), format!("remove it, or write `{other}`"));
                return None;
            }
        }
        if closed {
            let think = if think == Field::Absent { Duration::ZERO } else { think.value()? };
            let think = match item.field("thinking", |text| scalar::word(text, "", THINKING_KEYWORDS)) {
                Field::Value(1, _) => Think::Exponential(think.into()),
                Field::Value(2, _) => Think::Dormant(think.into()),
                _ => Think::Constant(think.into()),
            };
            return Some(RequestLoop::Closed { outstanding: u32::try_from(outstanding.value()?).ok()?, think });
        }
        let arrivals = if arrivals == Field::Absent { Arrivals::Poisson } else { Arrivals::ALL[arrivals.value()?] };
        let gap = self.accept(item, "gap", MeanGap::from_time(gap.value()?.into()))?;
        Some(RequestLoop::Open { arrivals, gap })
    }

    /// The common keys of incasts and barriers.
    fn rounds(&mut self, item: &Node, rounds: Rounds, context: Context<'_, '_>) -> Option<Spec> {
        let start = self.start(item, context.duration)?;
        let mut rounds = rounds.start(start.into());
        match item.field("jitter", |text| scalar::time(text, false)) {
            Field::Absent => {}
            jitter => rounds = self.accept(item, "jitter", rounds.jitter(SimTime::from(jitter.value()?)))?,
        }
        match item.field("rounds", |text| scalar::integer(text, "", 1, MAX_MANY_FLOWS.into())) {
            Field::Absent => {}
            most => rounds = self.accept(item, "rounds", rounds.at_most(u64::try_from(most.value()?).ok()?))?,
        }
        Some(Spec::Rounds(rounds))
    }

    /// The start of the next round of an incast.
    fn next_round(&mut self, item: &Node) -> Option<NextRound> {
        let every = item.field("every", |text| scalar::time(text, false));
        let pause = item.field("pause", |text| scalar::time(text, true));
        match (every, pause) {
            (Field::Absent, Field::Absent) => {
                // A single round has no next one.
                if item.field("rounds", |text| scalar::integer(text, "", 1, 1)).value() == Some(1) {
                    return Some(NextRound::WhenDone(SimTime::ZERO));
                }
                self.error(
                    Span::new(item.span.start, item.span.start),
                    "the start of the next round is missing",
                    "write `every: 10ms`, or `pause: 0s` to wait for the last flow, or `rounds: 1`; or `gap: 10ms` for \
                     incasts that arrive by themselves",
                );
                None
            }
            (Field::Value(_, first), Field::Value(_, second)) => {
                let cause = "both `every` and `pause` set the start of the next round";
                self.problems.error_with(second, cause, "write one of them", (first, "the other one"));
                None
            }
            (every, Field::Absent) => Some(NextRound::Every(every.value()?.into())),
            (_, pause) => Some(NextRound::WhenDone(pause.value()?.into())),
        }
    }

    /// Hosts for a workload.
    pub(super) fn senders(&mut self, item: &Node, key: &str, names: &Names<'_>) -> Option<Hosts> {
        let hosts = self.hosts_of(item, key, names)?;
        self.accept(item, key, Hosts::new(hosts, key))
    }

    /// One host, not a group.
    pub(super) fn one_host(&mut self, node: &Node, names: &Names<'_>) -> Option<MachineId> {
        match self.hosts(node, names)?.as_slice() {
            [host] => Some(*host),
            more => {
                let cause = format!("one {} is needed here, but this is {}", names.host_line(), more.len());
                self.error(node.span, cause, "name one of them");
                None
            }
        }
    }

    /// The start of a flow group, before the end.
    fn start(&mut self, item: &Node, duration: Field<Duration>) -> Option<Duration> {
        let start = item.field("start", |text| scalar::time(text, true));
        let duration = duration.value()?;
        match start {
            Field::Absent => Some(Duration::ZERO),
            Field::Bad => None,
            Field::Value(start, span) if start >= duration => {
                self.error(
                    span,
                    format!("traffic starts at {start}, not before the end of the run at {duration}"),
                    "start earlier, or make `duration` longer",
                );
                None
            }
            Field::Value(start, _) => Some(start),
        }
    }

    /// Refuses more flows than memory holds for their order.
    fn round_fits(&mut self, item: &Node, flows: u64) -> Option<()> {
        if flows > MAX_FLOWS_OF_ROUND {
            let place = item.get("among").map_or(item.span, |node| node.span);
            let cause = format!("this is {flows} flows at once, more than {MAX_FLOWS_OF_ROUND}");
            self.error(place, cause, "name fewer hosts");
            return None;
        }
        Some(())
    }
}
