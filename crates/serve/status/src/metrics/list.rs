//! Every metric but the plain counters.

use super::table::{Give, Kind, Metric, Of, Value};
use crate::model::{AgentStatus, FabricLink, Mode, SessionState};
use weir_units::{Bandwidth, Direction};

/// Prometheus' base unit of a rate.
pub(super) const RATE: Option<&str> = Some("bytes_per_second");
pub(super) const SECONDS: Option<&str> = Some("seconds");
pub(super) const BYTES: Option<&str> = Some("bytes");
const SERVICE: &[&str] = &["service", "direction"];
const DIRECTION: &[&str] = &["direction"];
const LEVEL: &[&str] = &["level"];
const LIMIT: &[&str] = &["rack", "service", "direction"];

pub(super) fn rate(rate: Bandwidth) -> Value {
    Value::Number(if rate.is_unlimited() { f64::INFINITY } else { rate.bps() as f64 / 8.0 })
}
pub(super) fn seconds_of_ms(ms: u64) -> Value {
    Value::Number(ms as f64 / 1e3)
}
fn seconds_of_ns(ns: u64) -> Value {
    Value::Number(ns as f64 / 1e9)
}
pub(super) fn flag(flag: bool) -> Value {
    Value::Count(flag.into())
}
pub(super) fn alone(give: &mut Give<'_>, value: Value) {
    give(Vec::new(), value);
}
fn present(give: &mut Give<'_>, value: Option<Value>) {
    value.into_iter().for_each(|value| alone(give, value));
}
fn both(give: &mut Give<'_>, tx: Bandwidth, rx: Bandwidth) {
    for (direction, bandwidth) in [(Direction::Tx, tx), (Direction::Rx, rx)] {
        give(vec![direction.name().to_owned()], rate(bandwidth));
    }
}
fn link(status: &AgentStatus, give: &mut Give<'_>, of: fn(&FabricLink) -> Value) {
    if let Some(link) = &status.fabric {
        alone(give, of(link));
    }
}

pub(super) const fn gauge(
    name: &'static str,
    unit: Option<&'static str>,
    labels: &'static [&'static str],
    help: &'static str,
    of: Of,
) -> Metric {
    Metric { name, unit, kind: Kind::Gauge, labels, help, of }
}
pub(super) const fn counter(
    name: &'static str,
    unit: Option<&'static str>,
    labels: &'static [&'static str],
    help: &'static str,
    of: Of,
) -> Metric {
    Metric { name, unit, kind: Kind::Counter, labels, help, of }
}

const fn info(name: &'static str, labels: &'static [&'static str], help: &'static str, of: Of) -> Metric {
    Metric { name, unit: None, kind: Kind::Info, labels, help, of }
}

/// Every metric but the plain counters and those of tenants and of switches' queues.
pub const METRICS: &[Metric] = &[
    info(
        "weir_agent",
        &["machine", "rack", "interface", "backend", "attachment", "policy"],
        "An agent's identity, in its labels; `policy` is the policy's fingerprint",
        Of::Agent(|status, give| {
            let attachment = status.attachment.clone().unwrap_or_default();
            let texts =
                [&status.machine, &status.rack, &status.interface, &status.backend, &attachment, &status.policy];
            give(texts.map(String::clone).to_vec(), Value::Count(1));
        }),
    ),
    gauge(
        "weir_agent_status_time",
        SECONDS,
        &[],
        "When the agent's last period ended, in seconds since 1970",
        Of::Agent(|status, give| alone(give, seconds_of_ms(status.written_ms))),
    ),
    gauge(
        "weir_agent_start_time",
        SECONDS,
        &[],
        "When the agent started, in seconds since 1970",
        Of::Agent(|status, give| alone(give, seconds_of_ms(status.written_ms.saturating_sub(status.uptime_ms)))),
    ),
    gauge(
        "weir_agent_policy_refused",
        None,
        &[],
        "Whether the last reload of policy and keys was refused",
        Of::Agent(|status, give| alone(give, flag(status.policy_refused.is_some()))),
    ),
    gauge(
        "weir_agent_interface_absent",
        None,
        &[],
        "Whether the interface is gone, so that nothing is limited until it is back",
        Of::Agent(|status, give| alone(give, flag(status.interface_absent))),
    ),
    gauge(
        "weir_agent_not_enforced",
        None,
        &[],
        "Whether limits are not enforced although the interface is there",
        Of::Agent(|status, give| alone(give, flag(status.not_enforced.is_some()))),
    ),
    gauge(
        "weir_agent_cgroups",
        None,
        &[],
        "The number of control groups that filters match, if any filter names control groups",
        Of::Agent(|status, give| present(give, status.cgroups.map(Value::Count))),
    ),
    gauge(
        "weir_agent_cgroups_missed",
        None,
        &[],
        "Whether sockets of some control groups do not belong to their service",
        Of::Agent(|status, give| alone(give, flag(status.cgroups_missed.is_some()))),
    ),
    gauge(
        "weir_agent_guests",
        None,
        &[],
        "The number of interfaces of guests that filters match, if any filter names interfaces other than the agent's",
        Of::Agent(|status, give| present(give, status.guests.map(Value::Count))),
    ),
    gauge(
        "weir_agent_guests_missed",
        None,
        &[],
        "Whether packets of some interfaces of guests do not belong to their service",
        Of::Agent(|status, give| alone(give, flag(status.guests_missed.is_some()))),
    ),
    gauge(
        "weir_agent_filters_unmatched",
        None,
        &[],
        "The number of services with filters by control group, interface or pod of which this host has none, by kind",
        Of::Agent(|status, give| alone(give, Value::Count(status.filters_unmatched.len() as u64))),
    ),
    gauge(
        "weir_agent_mode",
        None,
        &["mode"],
        "Which policy is in force: 1 for `static` (the machine's own) or `runtime` (the rack's), 0 for the other; \
         no series while the interface is absent or limits of an earlier agent are in force",
        Of::Agent(|status, give| {
            if let Some(now) = status.mode {
                Mode::ALL.iter().for_each(|mode| give(vec![mode.name().to_owned()], flag(*mode == now)));
            }
        }),
    ),
    gauge(
        "weir_agent_epoch",
        None,
        &[],
        "The epoch of the machine's broker, which counts its starts",
        Of::Agent(|status, give| alone(give, Value::Count(status.epoch))),
    ),
    gauge(
        "weir_interface_capacity",
        RATE,
        DIRECTION,
        "The capacity of the interface: its speed (95 % of it for receiving), or the machine cap where that is lower",
        Of::Agent(|status, give| both(give, status.capacity_tx_bps, status.capacity_rx_bps)),
    ),
    counter(
        "weir_interface_unattributed_dropped_packets",
        None,
        &[],
        "Packets that the qdisc dropped and does not attribute to a service: unclassified and control traffic, and \
         with `edt` what fq dropped",
        Of::Agent(|status, give| present(give, status.drops_unattributed.map(Value::Count))),
    ),
    gauge(
        "weir_fabric_link_leads",
        None,
        &[],
        "Whether the machine leads its rack at the fabric broker",
        Of::Agent(|status, give| link(status, give, |link| flag(link.leads))),
    ),
    gauge(
        "weir_fabric_link_shut_out",
        None,
        &[],
        "Whether the machine cannot reach the fabric broker, so that the rack's next machine leads",
        Of::Agent(|status, give| link(status, give, |link| flag(link.shut_out))),
    ),
    gauge(
        "weir_fabric_link_receives",
        None,
        &[],
        "Whether limits of the fabric arrived, from its broker or relayed, within the timeout",
        Of::Agent(|status, give| link(status, give, |link| flag(link.receives))),
    ),
    gauge(
        "weir_fabric_session_state",
        None,
        &["state"],
        "The state of the session with the fabric broker: 1 for `idle` (nothing to report), `connecting`, `waiting` \
         or `up`, 0 for the others",
        Of::Agent(|status, give| {
            if let Some(session) = status.fabric.as_ref().and_then(|link| link.session.as_ref()) {
                SessionState::ALL
                    .iter()
                    .for_each(|state| give(vec![state.name().to_owned()], flag(*state == session.state)));
            }
        }),
    ),
    gauge(
        "weir_fabric_session_silence",
        SECONDS,
        &[],
        "The time since the last limits of a fabric broker",
        Of::Agent(|status, give| {
            let session = status.fabric.as_ref().and_then(|link| link.session.as_ref());
            if let Some(silent) = session.and_then(|session| session.silent_ms) {
                alone(give, seconds_of_ms(silent));
            }
        }),
    ),
    gauge(
        "weir_fabric_session_certificate_end_time",
        SECONDS,
        &[],
        "When the machine's certificate for the fabric broker ends, in seconds since 1970",
        Of::Agent(|status, give| {
            let session = status.fabric.as_ref().and_then(|link| link.session.as_ref());
            if let Some(end) = session.and_then(|session| session.certificate_ends) {
                alone(give, Value::Number(end as f64));
            }
        }),
    ),
    gauge(
        "weir_service_usage",
        RATE,
        SERVICE,
        "The rate that the service used in the last period; sent: what left the interface",
        Of::Service(|of| of.usage.map(rate)),
    ),
    gauge(
        "weir_service_demand",
        RATE,
        SERVICE,
        "The service's demand; +Inf when it is backlogged",
        Of::Service(|of| of.demand.map(rate)),
    ),
    gauge(
        "weir_service_guarantee",
        RATE,
        SERVICE,
        "The service's guarantee on the machine",
        Of::Service(|of| Some(rate(of.guarantee))),
    ),
    gauge(
        "weir_service_rack_guarantee",
        RATE,
        SERVICE,
        "The service's guarantee in the rack, all machines together",
        Of::Service(|of| Some(rate(of.rack_guarantee))),
    ),
    gauge(
        "weir_service_maximum",
        RATE,
        SERVICE,
        "The service's maximum on the machine by the static policy; +Inf when there is none",
        Of::Service(|of| Some(rate(of.maximum))),
    ),
    gauge(
        "weir_service_share",
        RATE,
        SERVICE,
        "The service's share of the last period; no series while the rack's policy is not in force",
        Of::Service(|of| of.share.map(rate)),
    ),
    gauge(
        "weir_service_limit",
        RATE,
        SERVICE,
        "The runtime limit in force; +Inf when there is none",
        Of::Service(|of| Some(rate(of.limit))),
    ),
    gauge(
        "weir_service_decided_by",
        None,
        &["service", "direction", "decided_by"],
        "The constraint that decided the service's share, in a label; always 1, and absent once another one decides",
        Of::Service(|of| of.decided_by.as_ref().map(|_| Value::Count(1))),
    ),
    counter(
        "weir_service_traffic",
        BYTES,
        SERVICE,
        "Bytes of the service; sent: those that left the interface",
        Of::Service(|of| of.bytes.map(Value::Count)),
    ),
    gauge(
        "weir_service_meter_capacity",
        RATE,
        SERVICE,
        "Received: the capacity of the service's receive meter",
        Of::Service(|of| of.meter_capacity.map(rate)),
    ),
    gauge(
        "weir_service_sender_rate",
        RATE,
        SERVICE,
        "Received: the rate that each sender may use; no series while no sender is rate-limited",
        Of::Service(|of| of.sender_rate.map(rate)),
    ),
    counter(
        "weir_service_markable_packets",
        None,
        SERVICE,
        "Received: packets that switches could mark",
        Of::Service(|of| of.packets_markable.map(Value::Count)),
    ),
    counter(
        "weir_service_marked_packets",
        None,
        SERVICE,
        "Received: packets that were marked and count",
        Of::Service(|of| of.packets_marked.map(Value::Count)),
    ),
    counter(
        "weir_service_feedback_sent",
        None,
        SERVICE,
        "Received: feedback sent to senders",
        Of::Service(|of| of.feedback_sent.map(Value::Count)),
    ),
    counter(
        "weir_service_stranger_traffic",
        BYTES,
        SERVICE,
        "Received: bytes of senders without Weir that passed the policer of the receive limit",
        Of::Service(|of| of.stranger_bytes.map(Value::Count)),
    ),
    counter(
        "weir_service_stranger_marked_packets",
        None,
        SERVICE,
        "Received: packets of senders without Weir that the policer marked",
        Of::Service(|of| of.stranger_packets_marked.map(Value::Count)),
    ),
    counter(
        "weir_service_stranger_dropped",
        BYTES,
        SERVICE,
        "Received: bytes of senders without Weir that the policer dropped",
        Of::Service(|of| of.stranger_bytes_dropped.map(Value::Count)),
    ),
    counter(
        "weir_service_stranger_dropped_packets",
        None,
        SERVICE,
        "Received: packets of senders without Weir that the policer dropped",
        Of::Service(|of| of.stranger_packets_dropped.map(Value::Count)),
    ),
    counter(
        "weir_service_feedback_received",
        None,
        SERVICE,
        "Sent: feedback accepted from receivers",
        Of::Service(|of| of.feedback_received.map(Value::Count)),
    ),
    gauge(
        "weir_service_backlog",
        BYTES,
        SERVICE,
        "Sent: bytes that wait for a limiter",
        Of::Service(|of| of.backlog_bytes.map(Value::Count)),
    ),
    gauge(
        "weir_service_offered",
        RATE,
        SERVICE,
        "Sent: the rate that the service offered to the interface in the last period",
        Of::Service(|of| of.offered.map(rate)),
    ),
    counter(
        "weir_service_offered",
        BYTES,
        SERVICE,
        "Sent: bytes that the service offered to the interface: those that left it, were dropped or wait",
        Of::Service(|of| of.offered_bytes.map(Value::Count)),
    ),
    counter(
        "weir_service_dropped",
        BYTES,
        SERVICE,
        "Sent: bytes that the service's pacing or queue dropped",
        Of::Service(|of| of.dropped_bytes.map(Value::Count)),
    ),
    counter(
        "weir_service_dropped_packets",
        None,
        SERVICE,
        "Sent: packets that the service's pacing or queue dropped; with segmentation offload one stands for several",
        Of::Service(|of| of.drops.map(Value::Count)),
    ),
    gauge(
        "weir_service_destinations_limited",
        None,
        SERVICE,
        "Sent: destinations that are rate-limited by their receivers",
        Of::Service(|of| of.destinations_limited.map(Value::Count)),
    ),
    gauge(
        "weir_service_latency_target",
        SECONDS,
        &["service"],
        "The target: 99 of 100 messages of the policy's size must finish within this time",
        Of::Latency(|of| Some(seconds_of_ns(of.target_ns))),
    ),
    gauge(
        "weir_service_latency_bound",
        SECONDS,
        &["service"],
        "The burst bound: every message of the policy's size finishes within this time unless the bound is unproven; \
         no series if there is no bound",
        Of::Latency(|of| of.bound_ns.map(seconds_of_ns)),
    ),
    gauge(
        "weir_service_latency_unproven",
        None,
        &["service"],
        "Whether a premise of the burst bound is not known to hold, so that it does not show that the target is kept",
        Of::Latency(|of| Some(flag(of.unproven))),
    ),
    gauge(
        "weir_level_rate",
        RATE,
        LEVEL,
        "The rate at which the machine may send on a latency level",
        Of::Level(|of| Some(rate(of.rate))),
    ),
    gauge(
        "weir_level_delay_bound",
        SECONDS,
        LEVEL,
        "The longest time of a frame of a latency level from its host's regulator to any host; no series for an \
         unbounded level",
        Of::Level(|of| of.bound_ns.map(seconds_of_ns)),
    ),
    gauge(
        "weir_level_longest_wait",
        SECONDS,
        LEVEL,
        "The longest wait of a packet at the level's regulator",
        Of::Level(|of| of.counters.map(|counters| seconds_of_ns(counters.longest_wait_ns))),
    ),
    gauge(
        "weir_level_backlog",
        BYTES,
        LEVEL,
        "Bytes that wait at the level's regulator",
        Of::Level(|of| of.counters.map(|counters| Value::Count(counters.backlog_bytes))),
    ),
    counter(
        "weir_level_sent",
        BYTES,
        LEVEL,
        "Bytes sent on the level, with the framing of links",
        Of::Level(|of| of.counters.map(|counters| Value::Count(counters.bytes))),
    ),
    counter(
        "weir_level_packets",
        None,
        LEVEL,
        "Frames sent on the level",
        Of::Level(|of| of.counters.map(|counters| Value::Count(counters.packets))),
    ),
    counter(
        "weir_level_oversize",
        None,
        LEVEL,
        "Frames of the level larger than the policy's `levels.packet`, and super-packets that nothing cuts: the bound \
         does not hold beside them",
        Of::Level(|of| of.counters.map(|counters| Value::Count(counters.oversize))),
    ),
    counter(
        "weir_level_drops",
        None,
        LEVEL,
        "Buffers of the level that were dropped since too much waited",
        Of::Level(|of| of.counters.map(|counters| Value::Count(counters.dropped))),
    ),
    counter(
        "weir_level_remarked",
        None,
        LEVEL,
        "Packets of no level that carried the level's DSCP value and were re-marked to 0",
        Of::Level(|of| of.counters.map(|counters| Value::Count(counters.remarked))),
    ),
    gauge(
        "weir_level_bounds_in_force",
        None,
        &[],
        "Whether the bounds of latency levels hold beside the machine's packets, by the agent's last check and the \
         packets of the last minute",
        Of::Agent(|status, give| {
            if !status.levels.is_empty() {
                alone(give, flag(status.obstacles_to_bounds().is_empty()));
            }
        }),
    ),
    info(
        "weir_switch",
        &["name", "policy"],
        "A switch's identity, in its labels",
        Of::Switch(|status, give| give(vec![status.name.clone(), status.policy.clone()], Value::Count(1))),
    ),
    gauge(
        "weir_switch_status_time",
        SECONDS,
        &[],
        "When the switch's ports were last read, in seconds since 1970",
        Of::Switch(|status, give| alone(give, seconds_of_ms(status.written_ms))),
    ),
    gauge(
        "weir_switch_port_in_force",
        None,
        &["port", "interface"],
        "Whether a port of the switch has the policy's configuration; bounds of latency do not hold through others",
        Of::Switch(|status, give| {
            for port in &status.ports {
                give(vec![port.port.clone(), port.interface.clone()], flag(port.differs.is_empty()));
            }
        }),
    ),
    gauge(
        "weir_switch_policy_refused",
        None,
        &[],
        "Whether the policy's file, or the ports that it needs, are not in force: refused, or not applied",
        Of::Switch(|status, give| alone(give, flag(status.policy_refused.is_some()))),
    ),
    counter(
        "weir_switch_changes_found",
        None,
        &[],
        "Times that a port was found without the policy's configuration",
        Of::Switch(|status, give| alone(give, Value::Count(status.changes_found))),
    ),
    counter(
        "weir_switch_repaired",
        None,
        &[],
        "Ports whose configuration was restored",
        Of::Switch(|status, give| alone(give, Value::Count(status.repaired))),
    ),
    info(
        "weir_fabric",
        &["name", "leader", "policy"],
        "A fabric broker's identity, in its labels",
        Of::Fabric(|status, give| {
            let leader = status.leader.clone().unwrap_or_default();
            give(vec![status.name.clone(), leader, status.policy.clone()], Value::Count(1));
        }),
    ),
    gauge(
        "weir_fabric_status_time",
        SECONDS,
        &[],
        "When the fabric broker's status was made, in seconds since 1970",
        Of::Fabric(|status, give| alone(give, seconds_of_ms(status.written_ms))),
    ),
    gauge(
        "weir_fabric_start_time",
        SECONDS,
        &[],
        "When the fabric broker started, in seconds since 1970",
        Of::Fabric(|status, give| alone(give, seconds_of_ms(status.written_ms.saturating_sub(status.uptime_ms)))),
    ),
    gauge(
        "weir_fabric_leads",
        None,
        &[],
        "Whether this fabric broker leads, so that it computes and sends limits",
        Of::Fabric(|status, give| alone(give, flag(status.leads))),
    ),
    gauge(
        "weir_fabric_racks",
        None,
        &[],
        "Racks of the policy",
        Of::Fabric(|status, give| alone(give, Value::Count(status.racks))),
    ),
    gauge(
        "weir_fabric_racks_reporting",
        None,
        &[],
        "Racks that reported within the timeout",
        Of::Fabric(|status, give| alone(give, Value::Count(status.racks_reporting))),
    ),
    gauge(
        "weir_fabric_machines_connected",
        None,
        &[],
        "Machines with a stream to this fabric broker",
        Of::Fabric(|status, give| alone(give, Value::Count(status.streams))),
    ),
    gauge(
        "weir_fabric_policy_refused",
        None,
        &[],
        "Whether the last reload of the policy was refused",
        Of::Fabric(|status, give| alone(give, flag(status.policy_refused.is_some()))),
    ),
    gauge(
        "weir_fabric_certificate_refused",
        None,
        &[],
        "Whether the last reload of the certificates was refused",
        Of::Fabric(|status, give| alone(give, flag(status.certificate_refused.is_some()))),
    ),
    gauge(
        "weir_fabric_certificate_end_time",
        SECONDS,
        &[],
        "When the fabric broker's certificate ends, in seconds since 1970",
        Of::Fabric(|status, give| present(give, status.certificate_ends.map(|end| Value::Number(end as f64)))),
    ),
    counter(
        "weir_fabric_rounds",
        None,
        &[],
        "Periods that ended",
        Of::Fabric(|status, give| alone(give, Value::Count(status.round))),
    ),
    gauge(
        "weir_fabric_capacity",
        RATE,
        DIRECTION,
        "The capacity of the fabric",
        Of::Fabric(|status, give| both(give, status.capacity_tx_bps, status.capacity_rx_bps)),
    ),
    gauge(
        "weir_fabric_demand",
        RATE,
        LIMIT,
        "A rack's demand for a service that is limited there; series as of the limit",
        Of::Fabric(|status, give| {
            for of in &status.limits {
                give(vec![of.rack.clone(), of.service.clone(), of.direction.clone()], rate(of.demand));
            }
        }),
    ),
    gauge(
        "weir_fabric_limit",
        RATE,
        LIMIT,
        "A rack's limit of a service; no series where there is no limit, nor for limits that are left out",
        Of::Fabric(|status, give| {
            for of in &status.limits {
                give(vec![of.rack.clone(), of.service.clone(), of.direction.clone()], rate(of.limit));
            }
        }),
    ),
    gauge(
        "weir_fabric_limits_left_out",
        None,
        &[],
        "Limits that have no series, because there are more than the 10,000 that a status holds",
        Of::Fabric(|status, give| alone(give, Value::Count(status.limits_left_out))),
    ),
];
