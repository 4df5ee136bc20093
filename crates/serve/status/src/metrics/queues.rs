//! The metrics of switches' queues.

use super::list::{BYTES, counter, gauge};
use super::table::{Give, Metric, Of, Value};
use crate::switch::{SwitchQueueStatus, SwitchStatus};

const QUEUE: &[&str] = &["port", "interface", "queue"];

fn of_each(status: &SwitchStatus, give: &mut Give<'_>, of: fn(&SwitchQueueStatus) -> Option<u64>) {
    for port in &status.ports {
        for queue in &port.queues {
            if let Some(value) = of(queue) {
                let labels = vec![port.port.clone(), port.interface.clone(), queue.queue.to_string()];
                give(labels, Value::Count(value));
            }
        }
    }
}

fn unread(status: &SwitchStatus, give: &mut Give<'_>) {
    for port in &status.ports {
        if let Some(reason) = &port.queues_unread {
            give(vec![port.port.clone(), port.interface.clone(), reason.clone()], Value::Count(1));
        }
    }
}

/// The metrics of switches' queues.
pub(super) const QUEUES: &[Metric] = &[
    gauge(
        "weir_switch_queue_weight",
        None,
        QUEUE,
        "The weight of a weighted queue of a switch's port",
        Of::Switch(|status, give| of_each(status, give, |queue| queue.weight.map(u64::from))),
    ),
    counter(
        "weir_switch_queue_sent",
        BYTES,
        QUEUE,
        "Bytes that a queue of a switch's port has sent",
        Of::Switch(|status, give| of_each(status, give, |queue| queue.sent_bytes)),
    ),
    counter(
        "weir_switch_queue_dropped",
        None,
        QUEUE,
        "Packets that found a queue of a switch's port full",
        Of::Switch(|status, give| of_each(status, give, |queue| queue.dropped_packets)),
    ),
    counter(
        "weir_switch_queue_marked",
        None,
        QUEUE,
        "Packets that a queue of a switch's port has marked",
        Of::Switch(|status, give| of_each(status, give, |queue| queue.marked_packets)),
    ),
    gauge(
        "weir_switch_queue_backlog",
        BYTES,
        QUEUE,
        "Bytes in a queue of a switch's port",
        Of::Switch(|status, give| of_each(status, give, |queue| queue.backlog_bytes)),
    ),
    gauge(
        "weir_switch_queues_unread",
        None,
        &["port", "interface", "reason"],
        "1 for a switch's port with queues whose counters could not be read, which have no series then",
        Of::Switch(unread),
    ),
    counter(
        "weir_switch_queue_readings_failed",
        None,
        &[],
        "Times that counters of the queues of a switch's port could not be read",
        Of::Switch(|status, give| give(Vec::new(), Value::Count(status.queue_readings_failed))),
    ),
];
