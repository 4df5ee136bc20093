//! The credits of a host in its status.

use super::{CreditReading, SendingFlow};
use weir_datapath::abi;
use weir_policy::Policy;
use weir_status::{CreditFlow, HostCredits};
use weir_units::Weight;

/// The status of a reading; services have the policy's paths.
pub(crate) fn status(reading: &CreditReading, policy: &Policy) -> HostCredits {
    let CreditReading { host, port, messages, first, .. } = reading;
    let level = u128::from(first.per_weight) * u128::from(Weight::ONE.thousandths());
    let billionths = |part: u128, whole: u128| (part * 1_000_000_000 / whole).min(1_000_000_000) as u64;
    let count = |flows: usize| u64::try_from(flows).unwrap_or(u64::MAX);
    HostCredits {
        rate_bps: first.rate_bps,
        period_us: first.period_us.into(),
        longest_us: first.longest_us.into(),
        level_billionths: billionths(level, u128::from(abi::CREDIT_WHOLE)),
        rest_billionths: billionths(first.rest.into(), 1 << 32),
        budget_bytes: first.budget,
        outstanding_bytes: reading.outstanding,
        queued_bytes: first.queued,
        granted_bytes: port.granted,
        sent_bytes: port.arrived,
        expired_bytes: port.expired,
        released_bytes: port.released,
        overspent_bytes: host.overspent,
        flows_sent: count(reading.flows[0]),
        flows_received: count(reading.flows[1]),
        prompt: reading.is_prompt,
        allocations: host.allocations,
        allocations_unwanted: host.unwanted,
        allocations_stale: host.stale,
        returns_astray: host.astray,
        returns_slow: host.slow,
        flows_refused: host.refused + messages.refused,
        dropped_packets: reading.dropped,
        messages_forged: messages.forged,
        messages_replayed: messages.replayed,
        messages_other_version: messages.other_version,
        messages_foreign: messages.foreign,
        messages_malformed: messages.malformed,
        messages_unknown_service: messages.unknown_service,
        messages_unsent: messages.unsent,
        flows: CreditFlow::largest(reading.sending.iter().map(|flow| of(flow, policy)).collect()),
    }
}

fn of(sending: &SendingFlow, policy: &Policy) -> CreditFlow {
    let SendingFlow { flow, weight, share, demand, held } = sending;
    CreditFlow {
        service: policy.services().get(flow.service).path().to_owned(),
        source: flow.source.to_string(),
        destination: flow.destination.to_string(),
        weight_thousandths: weight.map_or(0, |weight| weight.thousandths().into()),
        share_bps: share.bps(),
        demand_bps: demand.bps(),
        held_by: held.map_or_else(String::new, |held| held.name().to_owned()),
    }
}
