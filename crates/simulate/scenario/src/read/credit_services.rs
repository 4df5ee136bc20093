//! Services with credits under an enforcement: aggregates as on Linux, or flows with credits of their own.
//!
//! Rule: as agents do, the simulator makes the data of a service with credits from one host to another one aggregate,
//! whatever its transports ([`Aggregates`]). Weights, R and the longest period are the policy's, and ports of switches
//! are forwarders where the policy has some; `aggregates` changes the shortest period. If a flow group is sent by
//! `pace`, its flows have credits each, and all groups of services with credits must be sent so: ports have one mode.
//!
//! Refused: transports whose packets ports serve by rates or credits of their own; a path that differs by direction; a
//! period below the round trip or above the longest; events that change credits; a class of messages where ports have a
//! queue for them. The lab's agents and forwarders grant the credits of real TCP; it refuses policies whose switches
//! grant none, and those with periods shorter than its own.
//!
//! Worked example: `services: { x: { credits: { weight: 2 } } }` in the policy and `{ service: x, transport: dctcp }`
//! in the scenario: DCTCP's packets wait in their hosts for the credits of aggregates of weight 2.

use super::traffic::Read;
use super::trips::RoundTrips;
use super::{Files, Reader};
use crate::governed::{ControlChange, CreditQueues, Enforcement, Governed, KeptQueues};
use crate::model::{Aggregates, LAB_CREDIT_PERIOD};
use weir_document::{Node, Span, scalar};
use weir_network::graph::{Graph, Routing};
use weir_network::layers::has_one_path;
use weir_policy::{CreditPlan, Policy};
use weir_transport::Parameters;
use weir_transport::pace::{self, ALLOCATION};
use weir_units::{Bandwidth, Duration, Weight};

/// p-max where neither the policy nor its buffers state one: that of agents.
const PERIOD_MAX: Duration = Duration::from_millis(100);
/// The keys of `aggregates` whose values are the policy's, and where it has them.
const OF_POLICY: [(&str, &str); 4] = [
    ("weight", "a service has its weight in the policy (`credits: { weight: 2 }`)"),
    ("share", "the policy has the share of credits (`credits: { share: 80% }`)"),
    ("max-period", "the policy has the longest period (`credits: { period-max: 1ms }`)"),
    ("lossless", "ports lose nothing if the policy states what that needs (`weir check`)"),
];

/// The policy and the traffic that its credits are for.
#[derive(Clone, Copy)]
pub(super) struct CreditTraffic<'a> {
    pub(super) root: &'a Node,
    pub(super) traffic: &'a [Read],
    pub(super) graph: &'a Graph,
    pub(super) governed: &'a Governed,
}

impl<'a> CreditTraffic<'a> {
    fn policy(self) -> &'a Policy {
        &self.governed.policy
    }

    /// The flow groups with a service that has credits, with the path of the first such service and its weight.
    fn groups(self) -> impl Iterator<Item = (&'a Read, &'a str, Weight)> {
        self.traffic.iter().filter_map(move |read| {
            let mut services = read.traffic.services().map(|id| self.policy().services().get(id));
            services.find_map(|own| Some((read, own.path(), own.credits()?)))
        })
    }
}

impl<F: Files> Reader<'_, F> {
    /// The credits of the policy's services; `None` if no data waits for those of an aggregate, or if something was
    /// reported.
    pub(super) fn credits_of_policy(&mut self, of: CreditTraffic<'_>) -> Option<Aggregates> {
        let written = of.root.get("aggregates");
        let enforced = of.governed.enforcement != Enforcement::None;
        let Some(plan) = of.policy().credit_plan().filter(|_| enforced) else {
            match written {
                Some(node) if enforced => {
                    let cause = "no service of the policy has credits, so there are no aggregates";
                    self.error(node.span, cause, "remove `aggregates`");
                }
                // As for a run without enforcement beside the one with it.
                Some(node) => self.problems.note(
                    node.span,
                    "nothing enforces credits, so this has no effect",
                    "remove `aggregates`, or enforce the policy: `enforcement: shaper`",
                ),
                None => {}
            }
            return None;
        };
        if let Some(own) = of.traffic.iter().find(|read| matches!(read.traffic.transport, Parameters::Pace(_))) {
            if let Some(node) = written {
                let cause =
                    format!("{} has credits of its own flows, and aggregates have some for it", own.traffic.name);
                self.error(node.span, cause, "choose another transport, or remove `aggregates`");
            }
            self.sent_without_credits(of, &own.traffic.name);
            let classes = of.traffic.iter().filter(|read| match &read.traffic.transport {
                Parameters::Pace(pace) => pace.control_priority.is_some(),
                _ => false,
            });
            self.credit_queues(of, classes.map(|read| read.at));
            return None;
        }
        if of.groups().next().is_none() {
            if let Some(node) = written {
                let cause = "no flow group is of a service with credits, so this has no effect";
                self.problems.note(node.span, cause, "remove `aggregates`");
            }
            return None;
        }
        let parameters = self.parameters_of_policy(of, written, &plan)?;
        self.aggregates_can_be(of, written, &parameters);
        let class = written.filter(|_| parameters.control_priority.is_some());
        self.credit_queues(of, class.map(|node| node.get("control-priority").unwrap_or(node).span));
        let leaves = of.policy().services().leaves();
        let weights = leaves.filter_map(|(id, service)| Some((id, service.credits()?))).collect();
        Some(Aggregates { parameters, weights: Some(weights) })
    }

    /// Refuses flow groups of services with credits that are sent without them, beside flows with credits of their own.
    fn sent_without_credits(&mut self, of: CreditTraffic<'_>, paced: &str) {
        for (Read { traffic: group, at, .. }, service, weight) in of.groups() {
            let protocol = group.transport.protocol();
            if protocol != "pace" {
                self.error(
                    *at,
                    format!(
                        "service `{service}` has credits, and {} is sent by {protocol}, without any: the flows of \
                         {paced} have credits of their own, so there are no aggregates",
                        group.name
                    ),
                    format!(
                        "write `transport: {{ protocol: pace, weight: {weight} }}`, or send no flow group by `pace`"
                    ),
                );
            }
        }
    }

    /// The parameters of ports and hosts.
    fn parameters_of_policy(
        &mut self,
        of: CreditTraffic<'_>,
        written: Option<&Node>,
        plan: &CreditPlan,
    ) -> Option<pace::Parameters> {
        let of_length =
            |length: Duration| pace::Period::from_micros(u32::try_from(length.nanos() / 1_000).unwrap_or(u32::MAX));
        let max_period = of_length(plan.period_max.unwrap_or(PERIOD_MAX));
        let usual = pace::Parameters::default();
        // Any rate: both parts of R are parts of the link's.
        let whole = Bandwidth::from_gbps(1_000);
        let rate = of.policy().credit_rate(whole).unwrap_or(whole);
        let given = pace::Parameters {
            period: usual.period.min(max_period),
            max_period,
            share: rate.bps() as f64 / whole.bps() as f64,
            lossless: plan.obstacles.is_empty(),
            ..usual
        };
        let Some(node) = written else { return Some(given) };
        let mut refused = false;
        for (key, hint) in OF_POLICY {
            if let Some(value) = node.get(key) {
                self.error(value.span, format!("under a policy `{key}` is not of `aggregates`"), hint);
                refused = true;
            }
        }
        let repairs = self.refuse_repair(node);
        let read = pace::read_beside(node, given, self.problems)?;
        (!refused && !repairs).then_some(read)
    }

    /// Refuses classes of messages, written at `classes`, where ports have queues for credits; a remark where they have
    /// none, although the policy's switches have one.
    fn credit_queues(&mut self, of: CreditTraffic<'_>, classes: impl IntoIterator<Item = Span>) {
        let CreditTraffic { root, graph, governed, .. } = of;
        let (place, hint) = match governed.credit_queues(graph) {
            CreditQueues::Unneeded => return,
            CreditQueues::OfPolicy => {
                for at in classes {
                    let cause = "`control-priority` has no effect: messages of credits have the queue at ports that \
                                 the policy's switches give them";
                    self.error(at, cause, "remove `control-priority`");
                }
                return;
            }
            CreditQueues::Kept(KeptQueues::Disciplines) => (
                "beside a port with a discipline of its own".to_owned(),
                "leave the disciplines out: ports then have the queues of the policy's switches",
            ),
            CreditQueues::Kept(KeptQueues::PairPriorities(system)) => {
                (format!("with `enforcement: {}`", system.word()), "enforce the policy: `enforcement: parley`")
            }
        };
        let at = root.get("network").or(root.get("links")).or(root.get("policy")).map_or(root.span, |node| node.span);
        self.problems.note(
            at,
            format!("simulated ports have no queue for credits {place}, so other traffic may take their room"),
            hint,
        );
    }

    /// Refuses a network, transports and events under which aggregates cannot be served as on Linux.
    fn aggregates_can_be(&mut self, of: CreditTraffic<'_>, written: Option<&Node>, parameters: &pace::Parameters) {
        let (period, longest) = (parameters.period.duration(), parameters.max_period.duration());
        let CreditTraffic { root, graph, governed, .. } = of;
        let grants = of.policy().network().forwarders();
        if grants && graph.routing != Routing::Symmetric && !has_one_path(graph) {
            let at = root.get("network").or(root.get("policy")).map_or(root.span, |node| node.span);
            let cause = "the data of services with credits must leave by the links that their credits arrive over, but \
                         these hosts have several paths";
            self.error(at, cause, "write `routing: symmetric` in `network`");
        }
        let mut trips = RoundTrips::new(graph, ALLOCATION.into());
        let at = written.map(|node| node.get("period").unwrap_or(node).span);
        for (read, service, _) in of.groups() {
            let transport = &read.traffic.transport;
            if transport.has_agents() {
                let (protocol, name) = (transport.protocol(), &read.traffic.name);
                let cause = format!(
                    "service `{service}` has credits, and {name} is sent by {protocol}, which has agents of its own at \
                     ports"
                );
                self.error(
                    read.at,
                    cause,
                    "choose `newreno`, `cubic`, `dctcp` or `udp`, or send all such groups by `pace`",
                );
            }
            let hint = |needed: u64| match Duration::from_micros(needed) <= longest {
                true => format!("write at least `aggregates: {{ period: {needed}us }}`"),
                false => format!(
                    "the policy has periods of at most {longest}: write at least `credits: {{ period-max: \
                     {needed}us }}` in it, with buffers for such periods"
                ),
            };
            self.longer_than_trips(at.unwrap_or(read.at), period, read, &mut trips, &hint);
        }
        self.unchanged_credits(root, governed);
    }

    /// Refuses events that change credits: the simulator has those of the run's first policy.
    fn unchanged_credits(&mut self, root: &Node, governed: &Governed) {
        let weights = |policy: &Policy| policy.services().iter().map(|(_, own)| own.credits()).collect::<Vec<_>>();
        // Latency levels change R, too.
        let of =
            |policy: &Policy| (weights(policy), policy.credits().copied(), policy.credit_rate(Bandwidth::from_gbps(1)));
        let first = of(&governed.policy);
        let changes = governed.events.iter().any(|event| match &event.change {
            ControlChange::Policy(change) => of(&change.policy) != first,
            _ => false,
        });
        if changes {
            let at: Span = root.get("events").map_or(root.span, |node| node.span);
            let cause = "an event changes services' credits, which stay as they are during a simulation";
            self.error(at, cause, "write the change in `policy-set`, and simulate both policies");
        }
    }
}

/// Why the lab's aggregates are not those that `aggregates` states.
pub(super) fn aggregates_not_of_lab(aggregates: &Node) -> Option<String> {
    if let Some(entry) = aggregates.entries().iter().find(|entry| entry.0.text != "period") {
        return Some(format!("`{}` of its `aggregates` is the simulator's", entry.0.text));
    }
    let period = aggregates.get("period").and_then(Node::scalar).and_then(|text| scalar::time(text, false).ok());
    period.filter(|period| *period != LAB_CREDIT_PERIOD).map(|period| {
        format!("its `aggregates` have a shortest period of {period}, and the lab has one of {LAB_CREDIT_PERIOD}")
    })
}

/// Why the lab's agents and forwarders do not grant a policy's credits.
pub(super) fn not_of_lab(policy: &Policy) -> Option<String> {
    let plan = policy.credit_plan()?;
    if !policy.network().forwarders() {
        let (_, service) = policy.services().leaves().find(|(_, service)| service.credits().is_some())?;
        return Some(format!("service `{}` has credits, and the policy's switches grant none", service.path()));
    }
    match plan.period_max {
        None => Some("its policy has credits, and states neither `period-max` nor the buffers of all ports".to_owned()),
        Some(most) if most < LAB_CREDIT_PERIOD => Some(format!(
            "its policy limits the periods of credits to {most}, and the lab has {LAB_CREDIT_PERIOD} at least"
        )),
        Some(_) => None,
    }
}
