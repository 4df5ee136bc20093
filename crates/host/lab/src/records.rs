//! From the outcome of a run to the records of its result file.
//!
//! Problem: iperf3, clients of real servers, switch ports and agents report in forms of their own, by ids; a result
//! file has names and times. Approach: one record for each service, server, flow group, port and agent, as plain
//! data of `weir_results`; the bandwidths of services are added by the crate that writes the file.
//!
//! Worked example: of 100 messages of a group, 98 have arrived: the record has 2 unfinished ones, a median, no 99th
//! percentile and no maximum, since both fall on an unfinished message.

use crate::run::LabOutcome;
use crate::traffic::Goodput;
use weir_linux::port::QueueCounts;
use weir_results::LabRecords;
use weir_results::policy::{AgentRecord, Completion, MessagesRecord, PortRecord, RequestsRecord, TransferRecord};
use weir_scenario::{Application, Governed, LabScenario, Traffic};

impl LabOutcome {
    /// The records of a run of `scenario`.
    pub fn records(&self, scenario: LabScenario<'_>) -> LabRecords {
        let governed = scenario.governed();
        // The groups of the outcome's requests: applications first, then messages.
        let first = scenario.applications().len() as u32;
        let failed: usize = self.goodputs.iter().map(|goodput| goodput.failures.len()).sum();
        LabRecords {
            transfers: self.goodputs.iter().map(|goodput| transfer(governed, goodput)).collect(),
            requests: (0..)
                .zip(scenario.applications())
                .map(|(group, own)| self.request(governed, own, group))
                .collect(),
            messages: (first..)
                .zip(scenario.messages())
                .map(|(group, own)| self.message(governed, own, group))
                .collect(),
            ports: self.ports.iter().map(port).collect(),
            agents: self.agents.iter().map(|(machine, status)| agent(machine, status)).collect(),
            counters: {
                let failed = ("transfers_without_report".to_owned(), failed as u64);
                self.counters.clone().into_iter().chain([failed]).collect()
            },
        }
    }

    /// The number of a group's flows, and their times.
    fn times(&self, group: u32) -> (u64, Completion) {
        let flows: Vec<_> = self.requests.flows.iter().filter(|flow| flow.group == group).collect();
        let times: Vec<_> = flows.iter().filter_map(|flow| flow.completion_time()).collect();
        let unfinished = flows.len() - times.len();
        (flows.len() as u64, Completion::new(times, unfinished as u64))
    }

    /// The requests to one server.
    fn request(&self, governed: &Governed, own: &Application, group: u32) -> RequestsRecord {
        let (requests, times) = self.times(group);
        let service = governed.service_path(own.service).to_owned();
        RequestsRecord { name: own.name.clone(), service, requests, times }
    }

    /// The messages of one flow group.
    fn message(&self, governed: &Governed, own: &Traffic, group: u32) -> MessagesRecord {
        let (messages, times) = self.times(group);
        let service = own.service.expect("a flow group under a policy has a service");
        let service = governed.service_path(service).to_owned();
        MessagesRecord { name: own.name.clone(), service, messages, times }
    }
}

fn transfer(governed: &Governed, goodput: &Goodput) -> TransferRecord {
    TransferRecord {
        service: governed.service_path(goodput.service).to_owned(),
        flows: goodput.flows,
        delivered_bytes: goodput.delivered.get(),
        retransmissions: goodput.retransmissions,
        // iperf3 does not report them.
        timeouts: None,
    }
}

fn port((name, counts): &(String, QueueCounts)) -> PortRecord {
    PortRecord { port: name.clone(), packets: counts.packets, above: counts.above, marked: counts.marked }
}

/// The enforcement that an agent reported at the end.
fn agent(machine: &str, status: &serde_json::Value) -> AgentRecord {
    let text = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
    let services = status["services"].as_array().map_or(&[][..], Vec::as_slice);
    let sum = |direction: &str, key: &str| services.iter().filter_map(|own| own[direction][key].as_u64()).sum();
    AgentRecord {
        machine: machine.to_owned(),
        backend: text("backend"),
        attachment: text("attachment"),
        mode: text("mode"),
        packets_marked: sum("rx", "packets_marked"),
        packets_markable: sum("rx", "packets_markable"),
        feedback_sent: sum("rx", "feedback_sent"),
        feedback_received: sum("tx", "feedback_received"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_results::{FlowRecord, Results};
    use weir_units::{MachineId, SimTime};

    #[test]
    fn unfinished_flows_of_a_group_are_its_slowest() {
        let flow = |id: u64, group: u32, took: Option<u64>| FlowRecord {
            group,
            finished: took.map(SimTime::from_millis),
            ..FlowRecord::new(id, MachineId(0), MachineId(1))
        };
        let flows = vec![flow(0, 0, Some(3)), flow(1, 1, Some(9)), flow(2, 0, Some(1)), flow(3, 0, None)];
        let outcome = LabOutcome { requests: Results { flows, ..Results::default() }, ..LabOutcome::nothing() };
        let (count, times) = outcome.times(0);
        assert_eq!((count, times.unfinished), (3, 1));
        assert_eq!((times.p50, times.p99, times.max), (Some(SimTime::from_millis(3)), None, None));
        let (_, other) = outcome.times(1);
        assert_eq!((other.p99, other.max), (Some(SimTime::from_millis(9)), Some(SimTime::from_millis(9))));
    }

    #[test]
    fn agents_counters_are_sums_over_services() {
        let status = serde_json::json!({
            "backend": "edt", "attachment": "tcx", "mode": "runtime",
            "services": [
                {"rx": {"packets_marked": 2, "feedback_sent": 5}, "tx": {"feedback_received": 1}},
                {"rx": {"packets_marked": 3}, "tx": {"feedback_received": 4}},
            ],
        });
        let agent = agent("m1", &status);
        assert_eq!((agent.packets_marked, agent.feedback_sent, agent.feedback_received), (5, 5, 5));
        assert_eq!((agent.backend.as_str(), agent.mode.as_str(), agent.packets_markable), ("edt", "runtime", 0));
    }
}
