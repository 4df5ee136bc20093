//! The metrics of tenants' queues, of the fabric broker that binds them.
//!
//! The label `tenant` has the names of the policy's tenants, for at most
//! [`TenantQueuesStatus::MOST_TENANTS`] of them.

use super::list::{RATE, SECONDS, alone, counter, flag, gauge, rate, seconds_of_ms};
use super::table::{Give, Metric, Of, Value};
use crate::model::{FabricStatus, TenantQueuesStatus, TenantStatus, TenantTimes};

const TENANT: &[&str] = &["tenant"];

fn of_all(status: &FabricStatus, give: &mut Give<'_>, of: fn(&TenantQueuesStatus) -> u64) {
    if let Some(queues) = &status.tenant_queues {
        alone(give, Value::Count(of(queues)));
    }
}

fn longest(status: &FabricStatus, give: &mut Give<'_>, of: fn(&TenantQueuesStatus) -> TenantTimes) {
    if let Some(times) = status.tenant_queues.as_ref().map(of).filter(|times| times.count > 0) {
        alone(give, Value::Number(times.longest_us as f64 / 1e6));
    }
}

fn of_each(status: &FabricStatus, give: &mut Give<'_>, of: fn(&TenantStatus) -> Option<Value>) {
    for tenant in status.tenant_queues.iter().flat_map(|queues| &queues.tenants) {
        if let Some(value) = of(tenant) {
            give(vec![tenant.tenant.clone()], value);
        }
    }
}

/// The metrics of tenants' queues.
pub(super) const TENANTS: &[Metric] = &[
    gauge(
        "weir_tenant_subscribers",
        None,
        &[],
        "Machines and switches with a stream to the controller of tenants' queues",
        Of::Fabric(|status, give| of_all(status, give, |queues| queues.subscribers)),
    ),
    gauge(
        "weir_tenant_machines_gone",
        None,
        &[],
        "Machines for which no move waits, because they have been without a stream for 90 s",
        Of::Fabric(|status, give| of_all(status, give, |queues| queues.machines_gone)),
    ),
    counter(
        "weir_tenant_switch_resets",
        None,
        &[],
        "Losses of queues that switches have reported",
        Of::Fabric(|status, give| of_all(status, give, |queues| queues.switch_resets)),
    ),
    counter(
        "weir_tenant_intervals",
        None,
        &[],
        "Choices of the tenants with queues of their own",
        Of::Fabric(|status, give| of_all(status, give, |queues| queues.intervals)),
    ),
    counter(
        "weir_tenant_moves_begun",
        None,
        &[],
        "Moves of tenants between queues that began",
        Of::Fabric(|status, give| of_all(status, give, |queues| queues.moves_begun)),
    ),
    counter(
        "weir_tenant_moves_ended",
        None,
        &[],
        "Moves of tenants between queues that ended",
        Of::Fabric(|status, give| of_all(status, give, |queues| queues.moves_ended)),
    ),
    counter(
        "weir_tenant_moves_turned_back",
        None,
        &[],
        "Moves that turned back because a machine of the tenant was off",
        Of::Fabric(|status, give| of_all(status, give, |queues| queues.moves_turned_back)),
    ),
    counter(
        "weir_tenant_without_dscp",
        None,
        &[],
        "Tenants that got no queues in an interval because no DSCP value was left",
        Of::Fabric(|status, give| of_all(status, give, |queues| queues.without_dscp)),
    ),
    gauge(
        "weir_tenant_unconfirmed",
        None,
        &[],
        "Machines and switches that have not confirmed their settings",
        Of::Fabric(|status, give| of_all(status, give, |queues| queues.unconfirmed)),
    ),
    gauge(
        "weir_tenant_move_longest",
        SECONDS,
        &[],
        "The longest move of a tenant between queues since the broker began to lead",
        Of::Fabric(|status, give| longest(status, give, |queues| queues.move_times)),
    ),
    gauge(
        "weir_tenant_switches_longest",
        SECONDS,
        &[],
        "The longest time in which weights reached all switches of a tenant, since the broker began to lead",
        Of::Fabric(|status, give| longest(status, give, |queues| queues.switch_times)),
    ),
    gauge(
        "weir_tenants_left_out",
        None,
        &[],
        "Tenants that have no series, because there are more than the 10,000 that a status holds",
        Of::Fabric(|status, give| of_all(status, give, |queues| queues.tenants_left_out)),
    ),
    gauge(
        "weir_tenant_guarantee",
        RATE,
        TENANT,
        "A tenant's guarantee, the sum over its virtual machines",
        Of::Fabric(|status, give| of_each(status, give, |tenant| Some(rate(tenant.guarantee)))),
    ),
    gauge(
        "weir_tenant_sent",
        RATE,
        TENANT,
        "What a tenant sent in the last control interval, the sum over its machines",
        Of::Fabric(|status, give| of_each(status, give, |tenant| Some(rate(tenant.used_tx)))),
    ),
    gauge(
        "weir_tenant_received",
        RATE,
        TENANT,
        "What a tenant received in the last control interval, the sum over its machines",
        Of::Fabric(|status, give| of_each(status, give, |tenant| Some(rate(tenant.used_rx)))),
    ),
    gauge(
        "weir_tenant_score",
        RATE,
        TENANT,
        "A tenant's score in the last control interval: its usage factor times its guarantee",
        Of::Fabric(|status, give| {
            of_each(status, give, |tenant| Some(Value::Number(tenant.score_bps as f64 / 8.0)));
        }),
    ),
    gauge(
        "weir_tenant_has_queues",
        None,
        TENANT,
        "Whether a tenant has queues of its own; 0 in the shared queue",
        Of::Fabric(|status, give| of_each(status, give, |tenant| Some(flag(tenant.has_queues)))),
    ),
    gauge(
        "weir_tenant_since_time",
        SECONDS,
        TENANT,
        "When a tenant got or lost its queues, in seconds since 1970; no series if the broker did not lead then",
        Of::Fabric(|status, give| of_each(status, give, |tenant| tenant.since_ms.map(seconds_of_ms))),
    ),
    gauge(
        "weir_tenant_moves",
        None,
        TENANT,
        "Whether a tenant moves between queues, so that hosts limit it to its guarantee",
        Of::Fabric(|status, give| of_each(status, give, |tenant| Some(flag(tenant.moves.is_some())))),
    ),
    gauge(
        "weir_tenant_contended_ports",
        None,
        TENANT,
        "Ports that a tenant passes with more tenants than they have queues for single tenants",
        Of::Fabric(|status, give| {
            of_each(status, give, |tenant| Some(Value::Count(tenant.competes.len() as u64 + tenant.competes_left_out)));
        }),
    ),
];
