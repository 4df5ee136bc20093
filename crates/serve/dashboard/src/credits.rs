//! Credits as JSON: the ports of switches that grant them, the flows that these hold, and the flows of a machine.
//!
//! A machine's agent reports that the network holds a flow, not which port: an allocation has no such field. Each port
//! reports which flows it has reduced. Where several ports have reduced a flow, the one with the smallest share holds
//! it, so both reports together name the port.

use crate::network_status::NetworkStatus;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use weir_network::Network;
use weir_observe::Liveness;
use weir_status::{AgentStatus, CreditFlow, PortCredits, Status, SwitchPortStatus, SwitchStatus};

/// The most ports, and the most flows that ports hold, that the page shows.
const SHOWN: usize = 200;

/// The most characters of a name or a cause that the page shows.
const TEXT: usize = 200;

/// `held_by` of a flow in the status of a port that has reduced it.
const THIS_PORT: &str = "this port";

/// `held_by` of a flow in a host's status, if a port of the network limits it, or the receiver.
const NETWORK: &str = "network";

/// A port that grants credits, with its switch.
struct Port<'a> {
    liveness: &'a Liveness,
    switch: &'a SwitchStatus,
    port: &'a SwitchPortStatus,
    credits: &'a PortCredits,
}

impl Port<'_> {
    /// The switch and the port.
    fn name(&self) -> String {
        format!("{} {}", clipped(&self.liveness.name()), clipped(&self.port.port))
    }
}

/// The ports with credits of the watched switches, also of lost ones.
fn ports(seen: &NetworkStatus) -> impl Iterator<Item = Port<'_>> {
    let switches = seen.switches().filter_map(|liveness| match liveness.status.as_deref() {
        Some(Status::Switch(switch)) => Some((liveness, switch)),
        _ => None,
    });
    switches.flat_map(|(liveness, switch)| {
        let ports = switch.ports.iter();
        ports.filter_map(move |port| Some(Port { liveness, switch, port, credits: port.credits.as_ref()? }))
    })
}

/// The ports that grant credits, and the flows that they hold by falling share: `null` without any switch.
///
/// A lost switch has its last values and the time of its loss, and holds no flows.
pub(crate) fn now(seen: &NetworkStatus) -> Value {
    if seen.switches().next().is_none() {
        return Value::Null;
    }
    let mut held: Vec<(String, &CreditFlow)> = held(seen).collect();
    held.sort_by_key(|(_, flow)| Reverse(flow.share_bps));
    let silent = seen.switches().filter(|liveness| liveness.status.is_none());
    let silent = silent.filter_map(|liveness| Some((liveness.name(), liveness.lost.as_ref()?)));
    let silent = silent.map(|(name, lost)| json!({ "name": clipped(&name), "why": lost.why }));
    let network = seen.policy.network();
    let flow = |(port, flow): &(String, &CreditFlow)| {
        json!({
            "port": port,
            "service": clipped(&flow.service),
            "from": machine_at(network, &flow.source),
            "to": machine_at(network, &flow.destination),
            "weight": flow.weight_thousandths as f64 / 1e3,
            "share": flow.share_bps,
            "demand": flow.demand_bps,
        })
    };
    json!({
        "ports": ports(seen).take(SHOWN).map(|port| port_now(seen, &port)).collect::<Vec<_>>(),
        "ports_count": ports(seen).count(),
        "held": held.iter().take(SHOWN).map(flow).collect::<Vec<_>>(),
        "held_count": held.len(),
        "silent": silent.take(SHOWN).collect::<Vec<_>>(),
    })
}

fn port_now(seen: &NetworkStatus, port: &Port<'_>) -> Value {
    let Port { liveness, switch, credits, .. } = port;
    let lost = liveness.lost.as_ref();
    json!({
        "name": port.name(),
        "interface": clipped(&port.port.interface),
        "lost": lost.map(|lost| json!({ "for_s": seen.lost_for(lost.since), "why": lost.why })),
        "same_policy": switch.policy == seen.fingerprint,
        "trouble": port.port.differs.first().map(|cause| clipped(cause)),
        "closed": credits.closed,
        "lossless": credits.lossless,
        "rate": credits.rate_bps,
        "flows": credits.flows,
        "period_us": credits.period_us,
        "level": part(credits.rate_bps, credits.level_billionths),
        "budget": credits.budget_bytes,
        "outstanding": credits.outstanding_bytes,
        "queued": credits.queued_bytes,
        "granted": credits.granted_bytes,
        "expired": credits.expired_bytes,
        "late": credits.late_bytes,
        "dropped_packets": credits.dropped_packets,
    })
}

/// A machine's own port and its flows that send, by falling share; `null` without credits.
pub(crate) fn of_machine(seen: &NetworkStatus, agent: &AgentStatus) -> Value {
    let Some(credits) = &agent.credits else { return Value::Null };
    let (network, holders) = (seen.policy.network(), holders(seen));
    let flow = |flow: &CreditFlow| {
        let holder = holders.get(&key(flow)).filter(|_| flow.held_by == NETWORK);
        json!({
            "service": clipped(&flow.service),
            "to": machine_at(network, &flow.destination),
            "weight": flow.weight_thousandths as f64 / 1e3,
            "share": flow.share_bps,
            "demand": flow.demand_bps,
            "held_by": clipped(&flow.held_by),
            "held_at": holder.map(|(_, name)| name),
        })
    };
    let level = part(credits.rate_bps, credits.level_billionths);
    json!({ "level": level, "flows": credits.flows.iter().map(flow).collect::<Vec<_>>() })
}

/// The service and the addresses of a flow.
type Key<'a> = (&'a str, &'a str, &'a str);

fn key(flow: &CreditFlow) -> Key<'_> {
    (&flow.service, &flow.source, &flow.destination)
}

/// For each flow that ports of the network have reduced, the smallest share of these, and the port's name.
fn holders(seen: &NetworkStatus) -> HashMap<Key<'_>, (u64, String)> {
    let mut holders: HashMap<Key<'_>, (u64, String)> = HashMap::new();
    for (name, flow) in held(seen) {
        let holder = holders.entry(key(flow)).or_insert_with(|| (flow.share_bps, name.clone()));
        if flow.share_bps < holder.0 {
            *holder = (flow.share_bps, name);
        }
    }
    holders
}

/// The flows that ports of switches have reduced, with the port. A lost switch has none.
fn held(seen: &NetworkStatus) -> impl Iterator<Item = (String, &CreditFlow)> {
    let ports = ports(seen).filter(|port| port.liveness.lost.is_none());
    ports.flat_map(|port| {
        let flows = port.port.credit_flows.iter().filter(|flow| flow.held_by == THIS_PORT);
        let name = port.name();
        flows.map(move |flow| (name.clone(), flow))
    })
}

/// The machine of the policy with an address, or else the address.
fn machine_at(network: &Network, address: &str) -> String {
    let parsed: Option<IpAddr> = address.parse().ok();
    let machine = network.machines().iter().find(|machine| parsed.is_some() && machine.address() == parsed);
    machine.map_or_else(|| clipped(address), |machine| machine.name().to_owned())
}

/// A part of a rate, of billionths.
fn part(rate_bps: u64, billionths: u64) -> u64 {
    u64::try_from(u128::from(rate_bps) * u128::from(billionths) / 1_000_000_000).unwrap_or(u64::MAX)
}

fn clipped(text: &str) -> String {
    text.chars().take(TEXT).collect()
}
