//! The shown rows of credits: ports of hosts and switches, and flows.

use super::rows::{Filter, Machine};
use std::cmp::Reverse;
use weir_status::CreditFlow;

/// A port that grants credits: a host's own, or one of a switch.
#[derive(Debug, Clone)]
pub(crate) struct CreditPort<'a> {
    /// The machine, or the switch and the port.
    pub(crate) name: String,
    pub(crate) rate_bps: u64,
    pub(crate) flows: u64,
    pub(crate) period_us: u64,
    pub(crate) level_billionths: u64,
    pub(crate) outstanding_bytes: u64,
    pub(crate) queued_bytes: u64,
    pub(crate) expired_bytes: u64,
    of_flows: &'a [CreditFlow],
}

/// The ports of sources that are not lost.
pub(crate) fn credit_ports<'a>(machines: &[Machine<'a>]) -> Vec<CreditPort<'a>> {
    let mut ports = Vec::new();
    for machine in machines.iter().filter(|machine| machine.lost.is_none()) {
        if let Some(credits) = machine.agent.and_then(|agent| agent.credits.as_ref()) {
            ports.push(CreditPort {
                name: machine.name.clone(),
                rate_bps: credits.rate_bps,
                flows: credits.flows_sent,
                period_us: credits.period_us,
                level_billionths: credits.level_billionths,
                outstanding_bytes: credits.outstanding_bytes,
                queued_bytes: credits.queued_bytes,
                expired_bytes: credits.expired_bytes,
                of_flows: &credits.flows,
            });
        }
        for port in machine.switch.map_or(&[][..], |switch| &switch.ports) {
            let Some(credits) = &port.credits else { continue };
            ports.push(CreditPort {
                name: format!("{} {}", machine.name, port.port),
                rate_bps: credits.rate_bps,
                flows: credits.flows,
                period_us: credits.period_us,
                level_billionths: credits.level_billionths,
                outstanding_bytes: credits.outstanding_bytes,
                queued_bytes: credits.queued_bytes,
                expired_bytes: credits.expired_bytes,
                of_flows: &port.credit_flows,
            });
        }
    }
    ports
}

/// The flows of ports that have all words of the filter, by falling share.
pub(crate) fn credit_flows<'a, 'b>(ports: &'b [CreditPort<'a>], filter: &Filter) -> Vec<(&'b str, &'a CreditFlow)> {
    let all = ports.iter().flat_map(|port| port.of_flows.iter().map(|flow| (port.name.as_str(), flow)));
    let matches = |(port, flow): &(&str, &CreditFlow)| {
        let texts = [*port, &flow.service, &flow.source, &flow.destination, &flow.held_by];
        filter.words.split_whitespace().all(|word| texts.iter().any(|text| text.contains(word)))
    };
    let mut rows: Vec<(&str, &CreditFlow)> = all.filter(matches).collect();
    rows.sort_by_key(|(_, flow)| Reverse(flow.share_bps));
    rows
}

#[cfg(test)]
mod tests {
    use super::super::fixture::with_credits;
    use super::super::rows::machines;
    use super::*;

    #[test]
    fn hosts_and_ports_of_switches_have_rows() {
        let view = with_credits();
        let machines = machines(&view);
        let ports = credit_ports(&machines);
        let names: Vec<&str> = ports.iter().map(|port| port.name.as_str()).collect();
        assert_eq!(names, ["m1", "f1 m2"]);
        let filtered = |words: &str| {
            let filter = Filter { words: words.to_owned(), direction: None };
            let rows = credit_flows(&ports, &filter);
            rows.iter().map(|(port, flow)| format!("{port} {} {}", flow.service, flow.held_by)).collect::<Vec<_>>()
        };
        assert_eq!(filtered(""), ["m1 bulk network", "f1 m2 bulk this port", "m1 web demand"]);
        assert_eq!(filtered("network 10.0.0.2"), ["m1 bulk network"]);
    }
}
