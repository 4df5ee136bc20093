//! Results of a run under a policy: the bandwidths of services at one rack's uplink, and the records of the lab.
//!
//! Problem: a run under a policy is judged by the bandwidths of its services, which the simulator and the lab measure
//! at the same point; each of them has further records that the other one lacks. Approach: one object for both, in
//! the units of the whole file: picoseconds, bit/s and bytes. Lists that only the lab fills are absent in the files of
//! the simulator.
//!
//! Worked example: a run of 60 s with samples each second has 60 entries in `samples`, the first at 1 s (`at_ps` is
//! 1,000,000,000,000) for the bandwidth between 0 and 1 s. A service that starts at 30 s gives two phases.

use crate::json;
use crate::summary::Summary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_units::{Bandwidth, SimTime};

/// The backend of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// The simulator: flows, links and samples of both.
    #[default]
    Sim,
    /// Linux in network namespaces: no flows and no links.
    Lab,
}

/// Results of a run under a policy.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PolicyResults {
    /// `none`, `shaper`, `eyeq` or `parley`.
    pub enforcement: String,
    /// The duration of the traffic by the scenario.
    #[serde(rename = "duration_ps", with = "json::time")]
    pub duration: SimTime,
    /// The measuring point.
    pub measure: MeasuringPoint,
    /// The sending services, in the policy's order.
    pub services: Vec<String>,
    /// The windows between starts and stops of traffic.
    pub phases: Vec<Phase>,
    /// Bandwidths over time.
    pub samples: Vec<ServiceSample>,
    /// By service, in the order of `services`.
    pub transfers: Vec<TransferRecord>,
    /// By real server: its requests. Only in the lab.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RequestsRecord>,
    /// By flow group of messages: its messages. Only in the lab.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<MessagesRecord>,
    /// By port of a switch that marks. Only in the lab.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortRecord>,
    /// By agent, at the end. Only in the lab.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentRecord>,
}

/// One direction of a rack's uplink.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MeasuringPoint {
    /// The rack's name.
    pub rack: String,
    /// `tx` or `rx`.
    pub direction: String,
    /// The interval of samples.
    #[serde(rename = "every_ps", with = "json::time")]
    pub every: SimTime,
    /// Its capacity by the policy.
    #[serde(rename = "capacity_bps", with = "json::bps")]
    pub capacity: Bandwidth,
}

/// A window in which the same services send.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Phase {
    /// Its beginning.
    #[serde(rename = "from_ps", with = "json::time")]
    pub from: SimTime,
    /// Its end.
    #[serde(rename = "to_ps", with = "json::time")]
    pub to: SimTime,
    /// The sending services.
    pub sending: Vec<String>,
    /// The mean over the samples inside the phase, by service; null without samples.
    #[serde(rename = "mean_bps", with = "json::known_rates")]
    pub mean: BTreeMap<String, Option<Bandwidth>>,
    /// The same over the second half of the phase, when brokers have settled.
    #[serde(rename = "settled_bps", with = "json::known_rates")]
    pub settled: BTreeMap<String, Option<Bandwidth>>,
}

/// The bandwidths of one interval.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ServiceSample {
    /// The end of the interval.
    #[serde(rename = "at_ps", with = "json::time")]
    pub at: SimTime,
    /// The mean in the interval, by service.
    #[serde(rename = "bandwidth_bps", with = "json::rates")]
    pub bandwidth: BTreeMap<String, Bandwidth>,
}

/// The connections of a service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TransferRecord {
    /// The service.
    pub service: String,
    /// Its connections.
    pub flows: u64,
    /// Application bytes delivered.
    pub delivered_bytes: u64,
    /// Packets sent again.
    pub retransmissions: u64,
    /// Retransmission timers that expired; None if the backend does not report them.
    pub timeouts: Option<u64>,
}

/// Completion times in the lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Completion {
    /// Requests or messages under way at the end.
    pub unfinished: u64,
    /// The median; None if too few are complete.
    #[serde(rename = "p50_ps", with = "json::known_time")]
    pub p50: Option<SimTime>,
    /// The 99th percentile; None if too few are complete.
    #[serde(rename = "p99_ps", with = "json::known_time")]
    pub p99: Option<SimTime>,
    /// The longest; None if one is not complete.
    #[serde(rename = "max_ps", with = "json::known_time")]
    pub max: Option<SimTime>,
}

impl Completion {
    /// The times of finished ones in any order, and the number of the others, which are longer.
    pub fn new(times: Vec<SimTime>, unfinished: u64) -> Self {
        let Summary { unknown, p50, p99, max, .. } = Summary::new(times, unfinished);
        Self { unfinished: unknown, p50, p99, max }
    }
}

/// The requests to a real server, timed from their arrival at the client to the last byte of the
/// reply.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RequestsRecord {
    /// The name of its traffic.
    pub name: String,
    /// The service.
    pub service: String,
    /// All requests.
    pub requests: u64,
    /// Their times.
    #[serde(flatten)]
    pub times: Completion,
}

/// The messages of a flow group, timed from their due time to their last byte at the receiver.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MessagesRecord {
    /// The name of its traffic.
    pub name: String,
    /// The service.
    pub service: String,
    /// All messages.
    pub messages: u64,
    /// Their times.
    #[serde(flatten)]
    pub times: Completion,
}

/// The counters of a switch's port.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PortRecord {
    /// The port.
    pub port: String,
    /// All packets.
    pub packets: u64,
    /// Packets that found its queue above the threshold.
    pub above: u64,
    /// Of these, those that could be marked, and were.
    pub marked: u64,
}

/// The enforcement of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AgentRecord {
    /// Its machine.
    pub machine: String,
    /// The shaper.
    pub backend: String,
    /// The attachment of its programs.
    pub attachment: String,
    /// `static` or `runtime`.
    pub mode: String,
    /// Packets of all services that arrived marked.
    pub packets_marked: u64,
    /// Packets of all services that arrived markable.
    pub packets_markable: u64,
    /// Feedback packets sent.
    pub feedback_sent: u64,
    /// Feedback packets received.
    pub feedback_received: u64,
}

/// The records of a run in the lab, apart from the bandwidths of services.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabRecords {
    /// By service: the reports of its connections.
    pub transfers: Vec<TransferRecord>,
    /// By real server.
    pub requests: Vec<RequestsRecord>,
    /// By flow group of messages.
    pub messages: Vec<MessagesRecord>,
    /// By port that marks.
    pub ports: Vec<PortRecord>,
    /// By agent.
    pub agents: Vec<AgentRecord>,
    /// Totals by name.
    pub counters: BTreeMap<String, u64>,
}

impl PolicyResults {
    /// Adds the records of the lab, except its counters.
    pub fn with_lab(self, records: LabRecords) -> Self {
        let LabRecords { transfers, requests, messages, ports, agents, counters: _ } = records;
        Self { transfers, requests, messages, ports, agents, ..self }
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
