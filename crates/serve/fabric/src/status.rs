//! The status of a fabric broker, as watchers read it.

use crate::clock::now_ms;
use crate::counters::Counters;
use weir_control::FabricBroker;
use weir_policy::Policy;
use weir_status::{FabricCounters, FabricStatus, Status, TenantQueuesStatus};
use weir_units::Duration;

/// The daemon's part of the status.
pub(crate) struct Around<'a> {
    /// The address at which agents reach this broker.
    pub(crate) url: &'a str,
    /// The address of the leading broker, if it is known.
    pub(crate) leader: Option<&'a str>,
    pub(crate) epoch: u64,
    pub(crate) uptime: Duration,
    pub(crate) period: Duration,
    pub(crate) certificate_ends: i64,
    pub(crate) refused: Option<&'a str>,
    pub(crate) certificate_refused: Option<&'a str>,
    pub(crate) streams: usize,
    pub(crate) tenants: Option<TenantQueuesStatus>,
    pub(crate) counters: &'a Counters,
}

/// The status; `broker` is `Some` if this broker leads.
pub(crate) fn of(policy: &Policy, broker: Option<&FabricBroker>, around: &Around<'_>) -> Status {
    let mut status = FabricStatus::outline(policy, around.url, around.epoch);
    status.written_ms = now_ms();
    status.period_ms = around.period.nanos() / 1_000_000;
    status.uptime_ms = around.uptime.nanos() / 1_000_000;
    status.leads = broker.is_some();
    status.leader = around.leader.map(str::to_owned);
    status.policy_refused = around.refused.map(str::to_owned);
    status.certificate_refused = around.certificate_refused.map(str::to_owned);
    status.certificate_ends = Some(around.certificate_ends);
    status.streams = around.streams as u64;
    status.tenant_queues.clone_from(&around.tenants);
    if let Some(broker) = broker {
        status.decided(policy, broker);
    }
    let counters = around.counters;
    status.counters = FabricCounters {
        rack_reports_malformed: status.counters.rack_reports_malformed + counters.malformed.get(),
        handshakes_failed: counters.handshakes_failed.get(),
        handshakes_replaced: counters.handshakes_replaced.get(),
        streams_other_machine: counters.other_machine.get(),
        streams_unknown_machine: counters.unknown_machine.get(),
        streams_redirected: counters.redirected.get(),
        limits_unsent: counters.unsent.get(),
        limits_not_taken: counters.not_taken.get(),
        ..status.counters
    };
    Status::Fabric(status)
}
