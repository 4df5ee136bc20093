//! `traffic:`: flow groups and their transports.

use super::names::Names;
use super::{Files, Reader};
use crate::language::{MAX_CONNECTIONS, MAX_FLOWS, SERVICE_TRAFFIC, Sizes, TRANSPORT, is_real, sizes_of};
use crate::model::{Application, ServiceTransfers, Traffic};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use weir_document::{Diagnostic, Diagnostics, Field, Kind, Node, Source, Span, scalar};
use weir_policy::{Place, Policy};
use weir_transport::Parameters;
use weir_units::{Duration, MachineId, ServiceId, SimTime};
use weir_workload::{FlowList, SizeDistribution, Spec, SpecError, TableError, Workload};

/// A parsed flow group.
pub(super) struct Read {
    pub(super) traffic: Traffic,
    /// The same as long-lived transfers of a service, if it is that.
    pub(super) transfers: Option<ServiceTransfers>,
    /// Where its transport is written, or else its service.
    pub(super) at: Span,
}

/// The context of flow groups.
#[derive(Clone, Copy)]
pub(super) struct Context<'a, 'g> {
    pub(super) names: &'a Names<'g>,
    pub(super) duration: Field<Duration>,
}

impl<F: Files> Reader<'_, F> {
    /// A transport; the default without keys. `None` only if something was reported.
    pub(super) fn transport(&mut self, node: Option<&Node>) -> Option<Parameters> {
        let Some(node) = node else { return Some(Parameters::default()) };
        let variant = TRANSPORT.chosen(node)?;
        let mapping = matches!(node.kind, Kind::Mapping(_)).then_some(node);
        weir_transport::read(variant.id, mapping, self.problems)
    }

    /// The flow groups and the applications, each in file order.
    pub(super) fn traffic(
        &mut self,
        node: Option<&Node>,
        names: &Names<'_>,
        policy: Option<&Arc<Policy>>,
        transport: Option<&Parameters>,
        duration: Field<Duration>,
    ) -> (Vec<Read>, Vec<Application>) {
        let mut groups: Vec<Read> = Vec::new();
        let mut applications: Vec<Application> = Vec::new();
        let mut taken: HashMap<String, Span> = HashMap::new();
        let mut flows: u64 = 0;
        let mut agents = Vec::new();
        let context = Context { names, duration };
        for (place, item) in node.map_or(&[][..], Node::items).iter().enumerate() {
            // Reported once; a file may have thousands of flow groups that each name a whole
            // network.
            if flows > MAX_FLOWS || names.are_used_up() {
                break;
            }
            // The variants of both choices are the same.
            let Some(variant) = SERVICE_TRAFFIC.chosen(item) else { continue };
            let service = policy.map(|policy| item.get("service").and_then(|node| self.service(node, policy)));
            let transport = match item.get("transport") {
                Some(node) => self.transport(Some(node)),
                None => transport.cloned(),
            };
            let name = self.group_name(item, variant.id, place, &mut taken);
            if is_real(variant.id) {
                let own = self.application(item, (variant.id, context), name);
                if let (Some(own), Some(Some(service))) = (own, service) {
                    applications.push(Application { service, ..own });
                }
                continue;
            }
            let priority = item.field("priority", |text| scalar::integer(text, "", 0, 7)).value().unwrap_or(0);
            self.deadline_can_be(item, transport.as_ref());
            self.agents_can_be(item, transport.as_ref(), &mut agents);
            let spec = match variant.id {
                "transfers" => self.transfers(item, context, &mut flows),
                "random" => self.random(item, context).map(|random| (Spec::Random(random), None)),
                "bursts" => self.bursts(item, context).map(|spec| (spec, None)),
                "list" => self.list(item, context).map(|list| (Spec::List(list), None)),
                "incast" => self.incast(item, context).map(|spec| (spec, None)),
                "shuffle" => self.shuffle(item, context).map(|spec| (spec, None)),
                "barrier" => self.barrier(item, context).map(|spec| (spec, None)),
                _ => self.requests(item, context).map(|spec| (spec, None)),
            };
            let connections =
                self.connections(item, transport.as_ref(), spec.as_ref().map(|(spec, _)| spec), &mut flows);
            let (by_size, quotas) = (self.by_size(item, policy), self.quotas(item));
            let service = match service {
                Some(None) => continue,
                Some(service) => service,
                None => None,
            };
            let (Some(transport), Some((spec, transfers))) = (transport, spec) else { continue };
            let transfers = match (transfers, service) {
                (Some(transfers), Some(service)) => {
                    if let Some(policy) = policy {
                        self.elsewhere(item, &transfers, service, policy);
                    }
                    let udp = match &transport {
                        Parameters::Udp(udp) => Some(udp.rate),
                        _ => None,
                    };
                    Some(ServiceTransfers { service, udp, ..transfers })
                }
                _ => None,
            };
            let (Some(by_size), Some(quotas)) = (by_size, quotas) else { continue };
            let priority = priority as u8;
            let traffic = Traffic { name, service, transport, priority, spec, connections, by_size, quotas };
            let at = item.get("transport").or_else(|| item.get("service")).map_or(item.span, |node| node.span);
            groups.push(Read { traffic, transfers, at });
        }
        (groups, applications)
    }

    /// The name of a flow group: its own, or its kind and index.
    fn group_name(&mut self, item: &Node, kind: &str, index: usize, taken: &mut HashMap<String, Span>) -> String {
        let written = item.get("name").and_then(|node| Some((node.scalar()?.to_owned(), node.span)));
        let (name, span) = written.unwrap_or_else(|| (format!("{kind}{index}"), item.span));
        if let Some(first) = taken.insert(name.clone(), span) {
            let cause = format!("two flow groups are called `{name}`");
            self.problems.error_with(span, cause, "give each a name of its own", (first, "the other one"));
        }
        name
    }

    /// A remark on a service that sends or receives at machines on which it does not run.
    fn elsewhere(&mut self, item: &Node, transfers: &ServiceTransfers, service: ServiceId, policy: &Policy) {
        let ends = transfers.from.iter().chain(&transfers.to);
        let elsewhere = |machine: &&MachineId| !policy.runs_at(service, Place::Machine(**machine));
        let machines: BTreeSet<MachineId> = ends.filter(elsewhere).copied().collect();
        let Some(first) = machines.first().map(|machine| policy.network().machine(*machine).name()) else { return };
        let others = match machines.len() - 1 {
            0 => String::new(),
            1 => " and 1 other".to_owned(),
            more => format!(" and {more} others"),
        };
        let path = policy.services().get(service).path();
        self.problems.note(
            item.get("service").map_or(item.span, |node| node.span),
            format!("service `{path}` does not run on {first}{others}: it has no guarantee there"),
            "name machines of the service's `machines`, or add them there",
        );
    }

    /// Refuses deadlines of flows whose end is not observed.
    fn deadline_can_be(&mut self, item: &Node, transport: Option<&Parameters>) {
        if let (Some(deadline), Some(transport)) = (item.get("deadline"), transport)
            && transport.protocol() == "udp"
        {
            self.error(
                deadline.span,
                "flows of udp have no deadline: their sender gets no acknowledgements",
                "choose a transport that acknowledges, or remove the `deadline`",
            );
        }
    }

    /// The number of connections between two hosts that carry a flow group's flows; `flows` counts
    /// them beside the flows of other groups.
    fn connections(
        &mut self,
        item: &Node,
        transport: Option<&Parameters>,
        spec: Option<&Spec>,
        flows: &mut u64,
    ) -> Option<u32> {
        let node = item.get("connections")?;
        let read = item.field("connections", |text| scalar::integer(text, "", 1, MAX_CONNECTIONS.into()));
        let connections = u32::try_from(read.value()?).ok()?;
        if let Some(transport) = transport.filter(|transport| !transport.is_stream()) {
            let protocol = transport.protocol();
            self.error(
                node.span,
                format!("flows of {protocol} cannot share connections that stay open"),
                "choose `newreno`, `cubic` or `dctcp`, or remove `connections`",
            );
            return None;
        }
        let pairs = match spec? {
            Spec::Random(random) => random.senders().len() as u64 * random.receivers().len() as u64,
            Spec::Incasts(incasts) => incasts.senders().len() as u64 * incasts.receivers().len() as u64,
            // Requests go one way and responses the other.
            Spec::Requests(requests) => 2 * requests.clients().len() as u64 * requests.servers().len() as u64,
            // Each flow may have another pair.
            Spec::List(list) => list.len() as u64,
            // Each flow of a round has another sender.
            spec => {
                let workload = Workload::new(spec, 1);
                workload.coflow(0).map(|coflow| coflow.flows).or(workload.expected()).unwrap_or(0)
            }
        };
        *flows = flows.saturating_add(pairs.saturating_mul(connections.into()));
        if *flows > MAX_FLOWS {
            let cause = format!("the scenario may have more than {MAX_FLOWS} connections");
            self.error(node.span, cause, "write fewer `connections`, or name fewer hosts");
        }
        Some(connections)
    }

    /// Refuses two flow groups of one transport with different port agents; `agents` has the first
    /// group of each transport that has agents.
    fn agents_can_be(&mut self, item: &Node, transport: Option<&Parameters>, agents: &mut Vec<(Parameters, Span)>) {
        let Some(here) = transport.filter(|transport| transport.has_agents()) else { return };
        let written = item.get("transport");
        let at = written.map_or(item.span, |node| node.span);
        let protocol = here.protocol();
        let Some((there, first)) = agents.iter().find(|(there, _)| there.protocol() == protocol) else {
            agents.push((here.clone(), at));
            return;
        };
        for ((key, here), (_, there)) in here.agent_parameters().into_iter().zip(there.agent_parameters()) {
            if here != there {
                let at = written.and_then(|node| node.get(key)).map_or(at, |node| node.span);
                self.problems.error_with(
                    at,
                    format!(
                        "{protocol}'s `{key}` is {here} here and {there} in a flow group before; it is the ports' own, \
                         so all flows share it"
                    ),
                    format!("give all flow groups with {protocol} the same `{key}`"),
                    (*first, "the flow group before"),
                );
            }
        }
    }

    /// The senders or receivers behind a key.
    pub(super) fn hosts_of(&mut self, item: &Node, key: &str, names: &Names<'_>) -> Option<Vec<MachineId>> {
        item.get(key).and_then(|node| self.hosts(node, names))
    }

    /// Reports a refusal of a workload, at a key or else at the whole flow group.
    pub(super) fn accept<T>(&mut self, item: &Node, key: &str, result: Result<T, SpecError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                let span = item.get(key).map_or(item.span, |node| node.span);
                self.error(span, error.cause, error.hint);
                None
            }
        }
    }

    /// The times of a flow group: `start` before `stop`, `stop` within the duration.
    pub(super) fn interval(&mut self, item: &Node, duration: Field<Duration>) -> Option<(Duration, Duration)> {
        let start = item.field("start", |text| scalar::time(text, true));
        let stop = item.field("stop", |text| scalar::time(text, false));
        if start.is_bad() || stop.is_bad() {
            return None;
        }
        let duration = duration.value()?;
        let from = start.value().unwrap_or(Duration::ZERO);
        let to = stop.value().unwrap_or(duration);
        if let Field::Value(stop, span) = stop
            && stop > duration
        {
            self.error(
                span,
                format!("traffic stops at {stop}, after the end of the run at {duration}"),
                "stop earlier, or make `duration` longer",
            );
            return None;
        }
        if to <= from {
            let (span, cause, hint) = match stop.span() {
                Some(stop) => {
                    (stop, format!("traffic stops at {to} but starts at {from}"), "write a `stop` after the `start`")
                }
                None => (
                    start.span().unwrap_or(item.span),
                    format!("traffic starts at {from}, but the run ends at {to}"),
                    "start earlier, or make `duration` longer",
                ),
            };
            self.error(span, cause, hint);
            return None;
        }
        Some((from, to))
    }

    /// The end of arrivals: `stop`, except that arrivals bounded only by the number of flows end by
    /// that number.
    pub(super) fn until(&self, item: &Node, number: &str, stop: Duration) -> SimTime {
        match (item.get("stop"), item.get(number)) {
            (None, Some(_)) => SimTime::NEVER,
            _ => stop.into(),
        }
    }

    /// A distribution of sizes; `None` only if something was reported.
    pub(super) fn sizes(&mut self, node: &Node) -> Option<SizeDistribution> {
        match node.scalar().map(sizes_of)?.ok()? {
            Sizes::Builtin(builtin) => Some(builtin.sizes()),
            Sizes::Range(least, most) => match SizeDistribution::uniform(least.get(), most.get()) {
                Ok(sizes) => Some(sizes),
                Err(error) => {
                    self.error(node.span, error.cause, error.hint);
                    None
                }
            },
            Sizes::File(path) => {
                let source = self.table(node, path)?;
                let read = SizeDistribution::read(source.text().as_bytes());
                self.of_table(&source, read)
            }
        }
    }

    fn list(&mut self, item: &Node, context: Context<'_, '_>) -> Option<FlowList> {
        let node = item.get("file")?;
        let source = self.table(node, node.scalar().filter(|path| !path.is_empty())?)?;
        let names = context.names;
        let hosts = names.graph.hosts.len() as u32;
        let numbered = FlowList::numbered(hosts);
        let resolve = |text: &str| match names.host(text) {
            Some(host) => Ok(host),
            None => numbered(text).map_err(|hint| format!("{hint}, or names")),
        };
        let read = FlowList::read(source.text().as_bytes(), names.graph.packets.payload, resolve);
        let list = self.of_table(&source, read)?;
        if let Field::Value(duration, _) = context.duration
            && list.last_start() > SimTime::from(duration)
        {
            self.problems.note(
                node.span,
                format!(
                    "the last flow of the list starts at {}, after the end of the run",
                    list.last_start().duration()
                ),
                "flows after the end do not start; make `duration` longer to have them",
            );
        }
        Some(list)
    }

    /// A table that the scenario names.
    fn table(&mut self, node: &Node, path: &str) -> Option<Arc<Source>> {
        let path = self.directory.join(path);
        match self.files.table(&path) {
            Ok(source) => Some(source),
            Err(errors) => {
                let cause = errors.all().first().map_or("cannot read the file", |error| error.cause());
                self.error(
                    node.span,
                    format!("{}: {cause}", path.display()),
                    "the path is relative to the scenario's file",
                );
                None
            }
        }
    }

    /// The content of a table, or its mistakes under the table's own name.
    fn of_table<T>(&mut self, source: &Arc<Source>, read: Result<T, TableError>) -> Option<T> {
        let error = match read {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let left_out = error.left_out;
        for (i, row) in error.rows.iter().enumerate() {
            let mut hint = row.hint.clone();
            if left_out > 0 && i + 1 == error.rows.len() {
                hint.push_str(&format!("; {left_out} more lines are wrong"));
            }
            let span = row.line.map_or_else(Span::default, |line| line_of(source, line));
            self.others.push(Diagnostics::one(Diagnostic::error(source, span, row.cause.clone(), hint)));
        }
        None
    }
}

/// The span of a line, counted from 1.
fn line_of(source: &Source, line: u64) -> Span {
    let mut start = 0;
    for (number, text) in (1..).zip(source.text().split_inclusive('\n')) {
        if number == line {
            return Span::new(start, start + text.trim_end().len() as u32);
        }
        start += text.len() as u32;
    }
    Span::new(start, start)
}
