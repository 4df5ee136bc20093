//! The metrics of switches' ports that grant credits.

use super::list::{BYTES, RATE, SECONDS, counter, gauge};
use super::table::{Give, Metric, Of, Value};
use crate::credits::PortCredits;
use crate::switch::SwitchStatus;

const PORT: &[&str] = &["port", "interface"];

fn of_each(status: &SwitchStatus, give: &mut Give<'_>, of: fn(&PortCredits) -> u64) {
    values(status, give, |credits| Value::Count(of(credits)));
}

fn values(status: &SwitchStatus, give: &mut Give<'_>, of: impl Fn(&PortCredits) -> Value) {
    for port in &status.ports {
        if let Some(credits) = &port.credits {
            give(vec![port.port.clone(), port.interface.clone()], of(credits));
        }
    }
}

/// The metrics of ports that grant credits.
pub(super) const CREDITS: &[Metric] = &[
    gauge(
        "weir_credit_port_rate",
        RATE,
        PORT,
        "The rate of which a port grants credits",
        Of::Switch(|status, give| values(status, give, |credits| Value::Number(credits.rate_bps as f64 / 8.0))),
    ),
    gauge(
        "weir_credit_port_lossless",
        None,
        PORT,
        "1 for a port that drops data without credits",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.lossless.into())),
    ),
    gauge(
        "weir_credit_port_closed",
        None,
        PORT,
        "1 for a port that grants nothing yet after a start without its state",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.closed.into())),
    ),
    gauge(
        "weir_credit_port_flows",
        None,
        PORT,
        "Flows with shares of a port",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.flows)),
    ),
    counter(
        "weir_credit_port_flows_expired",
        None,
        PORT,
        "Flows of a port that ended without a termination",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.flows_expired)),
    ),
    gauge(
        "weir_credit_port_period",
        SECONDS,
        PORT,
        "The period of a port",
        Of::Switch(|status, give| values(status, give, |credits| Value::Number(credits.period_us as f64 / 1e6))),
    ),
    gauge(
        "weir_credit_port_longest_period",
        SECONDS,
        PORT,
        "The longest period of a port and its flows",
        Of::Switch(|status, give| values(status, give, |credits| Value::Number(credits.longest_us as f64 / 1e6))),
    ),
    gauge(
        "weir_credit_port_level",
        None,
        PORT,
        "The part of a port for a service of weight 1, all of its pairs together",
        Of::Switch(|status, give| values(status, give, |credits| Value::Number(credits.level_billionths as f64 / 1e9))),
    ),
    gauge(
        "weir_credit_port_rest",
        None,
        PORT,
        "The part of a port that no flow demands",
        Of::Switch(|status, give| values(status, give, |credits| Value::Number(credits.rest_billionths as f64 / 1e9))),
    ),
    gauge(
        "weir_credit_port_budget",
        BYTES,
        PORT,
        "The most bytes that a port grants and queues",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.budget_bytes)),
    ),
    gauge(
        "weir_credit_port_outstanding",
        BYTES,
        PORT,
        "Granted bytes of a port that have not arrived",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.outstanding_bytes)),
    ),
    gauge(
        "weir_credit_port_queued",
        BYTES,
        PORT,
        "Bytes of data with credits in the queue of a port, by a model of it",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.queued_bytes)),
    ),
    counter(
        "weir_credit_port_granted",
        BYTES,
        PORT,
        "Bytes that a port granted",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.granted_bytes)),
    ),
    counter(
        "weir_credit_port_arrived",
        BYTES,
        PORT,
        "Bytes of data with credits at a port",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.arrived_bytes)),
    ),
    counter(
        "weir_credit_port_expired",
        BYTES,
        PORT,
        "Bytes of grants of a port that expired",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.expired_bytes)),
    ),
    counter(
        "weir_credit_port_released",
        BYTES,
        PORT,
        "Bytes of grants of a port that later ports cut, or flows did not use",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.released_bytes)),
    ),
    counter(
        "weir_credit_port_late",
        BYTES,
        PORT,
        "Bytes of data without credits at a port",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.late_bytes)),
    ),
    counter(
        "weir_credit_port_late_packets",
        None,
        PORT,
        "Packets of data without credits at a port",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.late_packets)),
    ),
    counter(
        "weir_credit_port_unaccounted",
        BYTES,
        PORT,
        "Bytes of data without credits while a port was closed",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.unaccounted_bytes)),
    ),
    counter(
        "weir_credit_port_rerouted",
        BYTES,
        PORT,
        "Bytes of data without credits of flows that had newly come from another path",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.rerouted_bytes)),
    ),
    counter(
        "weir_credit_port_allocations",
        None,
        PORT,
        "Allocations at a port",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.allocations)),
    ),
    counter(
        "weir_credit_port_allocations_duplicate",
        None,
        PORT,
        "Allocations that arrived at a port again",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.allocations_duplicate)),
    ),
    counter(
        "weir_credit_port_allocations_stale",
        None,
        PORT,
        "Allocations at a port older than the newest of their flow",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.allocations_stale)),
    ),
    counter(
        "weir_credit_port_allocations_astray",
        None,
        PORT,
        "Allocations at a port whose data leaves by another one",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.allocations_astray)),
    ),
    counter(
        "weir_credit_port_allocations_too_long",
        None,
        PORT,
        "Allocations whose lifetime is longer than a port can keep",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.allocations_too_long)),
    ),
    counter(
        "weir_credit_port_allocations_ended",
        None,
        PORT,
        "Allocations at a port of flows that had ended",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.allocations_ended)),
    ),
    counter(
        "weir_credit_port_messages",
        None,
        PORT,
        "Authentic messages of credits at a port",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.messages)),
    ),
    counter(
        "weir_credit_port_messages_forged",
        None,
        PORT,
        "Messages of credits whose tag no key verifies",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.messages_forged)),
    ),
    counter(
        "weir_credit_port_messages_replayed",
        None,
        PORT,
        "Messages of credits not newer than the last of their flow",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.messages_replayed)),
    ),
    counter(
        "weir_credit_port_messages_other_version",
        None,
        PORT,
        "Messages of credits of another version",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.messages_other_version)),
    ),
    counter(
        "weir_credit_port_messages_foreign",
        None,
        PORT,
        "Datagrams to the port of credits that are no messages",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.messages_foreign)),
    ),
    counter(
        "weir_credit_port_messages_malformed",
        None,
        PORT,
        "Messages of credits with impossible values",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.messages_malformed)),
    ),
    counter(
        "weir_credit_port_messages_unknown_service",
        None,
        PORT,
        "Messages of credits of services without credits",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.messages_unknown_service)),
    ),
    counter(
        "weir_credit_port_flows_refused",
        None,
        PORT,
        "Flows without an entry because the table of a port was full",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.flows_refused)),
    ),
    counter(
        "weir_credit_port_dropped_packets",
        None,
        PORT,
        "Packets of data without credits that a port dropped",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.dropped_packets)),
    ),
    counter(
        "weir_credit_port_rewrites_failed",
        None,
        PORT,
        "Allocations that a port could not rewrite",
        Of::Switch(|status, give| of_each(status, give, |credits| credits.rewrites_failed)),
    ),
];
