//! The metrics of hosts that send with credits, and of flows.

use super::list::{BYTES, RATE, SECONDS, counter, gauge};
use super::table::{Give, Metric, Of, Value};
use crate::credits::{CreditFlow, HostCredits};
use crate::model::AgentStatus;
use crate::switch::SwitchStatus;

const FLOW: &[&str] = &["service", "source", "destination"];
const PORT_FLOW: &[&str] = &["port", "interface", "service", "source", "destination"];

fn value(status: &AgentStatus, give: &mut Give<'_>, of: impl Fn(&HostCredits) -> Value) {
    if let Some(credits) = &status.credits {
        give(Vec::new(), of(credits));
    }
}

fn count(status: &AgentStatus, give: &mut Give<'_>, of: fn(&HostCredits) -> u64) {
    value(status, give, |credits| Value::Count(of(credits)));
}

fn labels(flow: &CreditFlow) -> [String; 3] {
    [flow.service.clone(), flow.source.clone(), flow.destination.clone()]
}

/// Flows of the host; `also` is a further label.
fn flows(
    status: &AgentStatus,
    give: &mut Give<'_>,
    also: fn(&CreditFlow) -> Option<&str>,
    of: fn(&CreditFlow) -> Value,
) {
    for flow in status.credits.iter().flat_map(|credits| &credits.flows) {
        let also = also(flow).map(str::to_owned);
        give(labels(flow).into_iter().chain(also).collect(), of(flow));
    }
}

fn port_flows(status: &SwitchStatus, give: &mut Give<'_>, of: fn(&CreditFlow) -> Value) {
    for port in &status.ports {
        for flow in &port.credit_flows {
            let place = [port.port.clone(), port.interface.clone()];
            give(place.into_iter().chain(labels(flow)).collect(), of(flow));
        }
    }
}

fn rate(bps: u64) -> Value {
    Value::Number(bps as f64 / 8.0)
}

fn weight(flow: &CreditFlow) -> Value {
    Value::Number(flow.weight_thousandths as f64 / 1e3)
}

/// The metrics of a host's credits, and those of flows.
pub(super) const HOST_CREDITS: &[Metric] = &[
    gauge(
        "weir_credit_host_rate",
        RATE,
        &[],
        "The rate of which a host's own port grants credits",
        Of::Agent(|status, give| value(status, give, |credits| Value::Number(credits.rate_bps as f64 / 8.0))),
    ),
    gauge(
        "weir_credit_host_period",
        SECONDS,
        &[],
        "The period of a host's own port",
        Of::Agent(|status, give| value(status, give, |credits| Value::Number(credits.period_us as f64 / 1e6))),
    ),
    gauge(
        "weir_credit_host_longest_period",
        SECONDS,
        &[],
        "The longest period of a host's own port and its flows",
        Of::Agent(|status, give| value(status, give, |credits| Value::Number(credits.longest_us as f64 / 1e6))),
    ),
    gauge(
        "weir_credit_host_level",
        None,
        &[],
        "The part of a host's own port for a service of weight 1, all of its pairs together",
        Of::Agent(|status, give| value(status, give, |credits| Value::Number(credits.level_billionths as f64 / 1e9))),
    ),
    gauge(
        "weir_credit_host_rest",
        None,
        &[],
        "The part of a host's own port that no flow demands",
        Of::Agent(|status, give| value(status, give, |credits| Value::Number(credits.rest_billionths as f64 / 1e9))),
    ),
    gauge(
        "weir_credit_host_budget",
        BYTES,
        &[],
        "The most bytes that a host's own port grants and queues",
        Of::Agent(|status, give| count(status, give, |credits| credits.budget_bytes)),
    ),
    gauge(
        "weir_credit_host_outstanding",
        BYTES,
        &[],
        "Granted bytes of a host that have not left",
        Of::Agent(|status, give| count(status, give, |credits| credits.outstanding_bytes)),
    ),
    gauge(
        "weir_credit_host_queued",
        BYTES,
        &[],
        "Bytes that have left their gates and not the interface, by a model",
        Of::Agent(|status, give| count(status, give, |credits| credits.queued_bytes)),
    ),
    counter(
        "weir_credit_host_granted",
        BYTES,
        &[],
        "Bytes that a host's own port granted",
        Of::Agent(|status, give| count(status, give, |credits| credits.granted_bytes)),
    ),
    counter(
        "weir_credit_host_sent",
        BYTES,
        &[],
        "Bytes that left a host with credits",
        Of::Agent(|status, give| count(status, give, |credits| credits.sent_bytes)),
    ),
    counter(
        "weir_credit_host_expired",
        BYTES,
        &[],
        "Bytes of grants of a host that expired",
        Of::Agent(|status, give| count(status, give, |credits| credits.expired_bytes)),
    ),
    counter(
        "weir_credit_host_released",
        BYTES,
        &[],
        "Bytes of grants that flows of a host did not use",
        Of::Agent(|status, give| count(status, give, |credits| credits.released_bytes)),
    ),
    counter(
        "weir_credit_host_overspent",
        BYTES,
        &[],
        "Bytes that left a host beyond the credits of their flow",
        Of::Agent(|status, give| count(status, give, |credits| credits.overspent_bytes)),
    ),
    gauge(
        "weir_credit_host_flows_sent",
        None,
        &[],
        "Flows with credits that a host sends",
        Of::Agent(|status, give| count(status, give, |credits| credits.flows_sent)),
    ),
    gauge(
        "weir_credit_host_flows_received",
        None,
        &[],
        "Flows with credits that a host receives",
        Of::Agent(|status, give| count(status, give, |credits| credits.flows_received)),
    ),
    gauge(
        "weir_credit_host_prompt",
        None,
        &[],
        "1 if the thread of credits is a real-time one",
        Of::Agent(|status, give| count(status, give, |credits| credits.prompt.into())),
    ),
    counter(
        "weir_credit_host_allocations",
        None,
        &[],
        "Allocations that opened a gate of a host",
        Of::Agent(|status, give| count(status, give, |credits| credits.allocations)),
    ),
    counter(
        "weir_credit_host_allocations_unwanted",
        None,
        &[],
        "Allocations of flows that a host does not send",
        Of::Agent(|status, give| count(status, give, |credits| credits.allocations_unwanted)),
    ),
    counter(
        "weir_credit_host_allocations_stale",
        None,
        &[],
        "Allocations at a host not later than the newest of their flow",
        Of::Agent(|status, give| count(status, give, |credits| credits.allocations_stale)),
    ),
    counter(
        "weir_credit_host_returns_astray",
        None,
        &[],
        "Returns of flows that a host does not receive",
        Of::Agent(|status, give| count(status, give, |credits| credits.returns_astray)),
    ),
    counter(
        "weir_credit_host_returns_slow",
        None,
        &[],
        "Returns at a host whose round trip was longer than a period",
        Of::Agent(|status, give| count(status, give, |credits| credits.returns_slow)),
    ),
    counter(
        "weir_credit_host_flows_refused",
        None,
        &[],
        "Messages of new flows beyond the most that a host has a state for",
        Of::Agent(|status, give| count(status, give, |credits| credits.flows_refused)),
    ),
    counter(
        "weir_credit_host_dropped_packets",
        None,
        &[],
        "Packets that waited for credits and were dropped: full queue, no allocation, or service without credits",
        Of::Agent(|status, give| count(status, give, |credits| credits.dropped_packets)),
    ),
    counter(
        "weir_credit_host_messages_forged",
        None,
        &[],
        "Messages of credits at a host whose tag no key verifies",
        Of::Agent(|status, give| count(status, give, |credits| credits.messages_forged)),
    ),
    counter(
        "weir_credit_host_messages_replayed",
        None,
        &[],
        "Messages of credits at a host not newer than the last of their flow",
        Of::Agent(|status, give| count(status, give, |credits| credits.messages_replayed)),
    ),
    counter(
        "weir_credit_host_messages_other_version",
        None,
        &[],
        "Messages of credits at a host of another version",
        Of::Agent(|status, give| count(status, give, |credits| credits.messages_other_version)),
    ),
    counter(
        "weir_credit_host_messages_foreign",
        None,
        &[],
        "Datagrams to the port of credits of a host that are no messages",
        Of::Agent(|status, give| count(status, give, |credits| credits.messages_foreign)),
    ),
    counter(
        "weir_credit_host_messages_malformed",
        None,
        &[],
        "Messages of credits at a host with impossible values",
        Of::Agent(|status, give| count(status, give, |credits| credits.messages_malformed)),
    ),
    counter(
        "weir_credit_host_messages_unknown_service",
        None,
        &[],
        "Messages of credits at a host of services without credits",
        Of::Agent(|status, give| count(status, give, |credits| credits.messages_unknown_service)),
    ),
    counter(
        "weir_credit_host_messages_unsent",
        None,
        &[],
        "Messages of credits that a host could not send",
        Of::Agent(|status, give| count(status, give, |credits| credits.messages_unsent)),
    ),
    gauge(
        "weir_credit_flow_share",
        RATE,
        FLOW,
        "What a flow with credits may send",
        Of::Agent(|status, give| flows(status, give, |_| None, |flow| rate(flow.share_bps))),
    ),
    gauge(
        "weir_credit_flow_demand",
        RATE,
        FLOW,
        "What a flow with credits could use, as its allocation arrived at its host",
        Of::Agent(|status, give| flows(status, give, |_| None, |flow| rate(flow.demand_bps))),
    ),
    gauge(
        "weir_credit_flow_weight",
        None,
        FLOW,
        "The weight of a flow with credits",
        Of::Agent(|status, give| flows(status, give, |_| None, weight)),
    ),
    gauge(
        "weir_credit_flow_held_by",
        None,
        &["service", "source", "destination", "held_by"],
        "1 for the constraint that holds a flow with credits",
        Of::Agent(|status, give| flows(status, give, |flow| Some(&flow.held_by), |_| Value::Count(1))),
    ),
    gauge(
        "weir_credit_port_flow_share",
        RATE,
        PORT_FLOW,
        "What a flow may send, as its allocation left a port",
        Of::Switch(|status, give| port_flows(status, give, |flow| rate(flow.share_bps))),
    ),
    gauge(
        "weir_credit_port_flow_demand",
        RATE,
        PORT_FLOW,
        "What a flow could use, as its allocation arrived at a port",
        Of::Switch(|status, give| port_flows(status, give, |flow| rate(flow.demand_bps))),
    ),
    gauge(
        "weir_credit_port_flow_weight",
        None,
        PORT_FLOW,
        "The weight of a flow at a port",
        Of::Switch(|status, give| port_flows(status, give, weight)),
    ),
    gauge(
        "weir_credit_port_flow_held",
        None,
        PORT_FLOW,
        "1 for a flow that a port holds",
        Of::Switch(|status, give| port_flows(status, give, |flow| Value::Count((flow.held_by == "this port").into()))),
    ),
];
