//! `result.json`: the result of a run, in a stable format.
//!
//! The simulator and the lab write the same file, so one program draws both. It contains no
//! wall-clock time: the same scenario and seed give the same bytes. Times are seconds since the
//! start of the traffic, rates bit/s.
//!
//! Worked example: a run of 60 s with samples each second has 60 entries in `samples`, the first at `at_s`
//! 1.0 for the bandwidth between 0 and 1 s.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use weir_report::json;
use weir_results::FlowRecord;
use weir_scenario::{Governed, RunResult, Scenario};
use weir_sim::RunOutcome;
use weir_units::{Duration, ServiceId};

/// The version of the format; an additional key does not raise it.
pub const FORMAT: u32 = 1;

/// The whole file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFile {
    /// [`FORMAT`].
    pub format: u32,
    /// The scenario's name.
    pub scenario: String,
    /// `sim` or `lab`.
    pub backend: String,
    pub seed: u64,
    /// `none`, `shaper`, `eyeq` or `parley`.
    pub enforcement: String,
    /// Whether the run came to its end; otherwise this is its beginning.
    pub complete: bool,
    pub duration_s: f64,
    pub measure: MeasureEntry,
    /// The sending services, in the policy's order.
    pub services: Vec<String>,
    /// The windows between starts and stops.
    pub phases: Vec<PhaseEntry>,
    pub samples: Vec<SampleEntry>,
    /// By service, in the order of `services`.
    pub transfers: Vec<TransferEntry>,
    /// By real server: its requests. Only in the lab.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RequestsEntry>,
    /// By flow group of messages: its messages. Only in the lab.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<MessagesEntry>,
    /// By port of a switch that marks. Only in the lab.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortEntry>,
    /// By agent, at the end. Only in the lab.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentEntry>,
    /// Counters of the backend, by name.
    pub counters: BTreeMap<String, u64>,
}

/// The measuring point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasureEntry {
    pub rack: String,
    pub direction: String,
    pub every_s: f64,
    /// Its capacity by the policy.
    pub capacity_bps: u64,
}

/// A window in which the same services send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseEntry {
    pub from_s: f64,
    pub to_s: f64,
    /// The sending services.
    pub sending: Vec<String>,
    /// The mean over the samples inside the phase, by service; null without samples.
    pub mean_bps: BTreeMap<String, Option<u64>>,
    /// The same over the second half of the phase, when brokers have settled.
    pub settled_bps: BTreeMap<String, Option<u64>>,
}

/// One sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SampleEntry {
    /// The end of the interval.
    pub at_s: f64,
    pub bandwidth_bps: BTreeMap<String, u64>,
}

/// The connections of a service.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TransferEntry {
    pub service: String,
    pub flows: u64,
    pub delivered_bytes: u64,
    pub retransmissions: u64,
    /// None if the backend does not report it.
    pub timeouts: Option<u64>,
}

/// The requests to a real server, timed from their arrival at the client to the last byte of the
/// reply.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RequestsEntry {
    /// The name of its traffic.
    pub name: String,
    pub service: String,
    pub requests: u64,
    /// Requests without a reply at the end.
    pub unfinished: u64,
    /// Absent if too few requests have a reply.
    pub p50_s: Option<f64>,
    pub p99_s: Option<f64>,
    pub max_s: Option<f64>,
}

/// The messages of a flow group, timed from their due time to their last byte at the receiver.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MessagesEntry {
    /// The name of its traffic.
    pub name: String,
    pub service: String,
    pub messages: u64,
    /// Messages that were under way at the end.
    pub unfinished: u64,
    /// Absent if too few messages have arrived.
    pub p50_s: Option<f64>,
    pub p99_s: Option<f64>,
    pub max_s: Option<f64>,
}

/// The counters of a switch's port.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PortEntry {
    pub port: String,
    pub packets: u64,
    /// Packets that found its queue above the threshold.
    pub above: u64,
    /// Of these, those that could be marked, and were.
    pub marked: u64,
}

/// The enforcement of an agent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AgentEntry {
    pub machine: String,
    pub backend: String,
    pub attachment: String,
    /// `static` or `runtime`.
    pub mode: String,
    /// Packets that arrived marked, and those that were markable, of all services.
    pub packets_marked: u64,
    pub packets_markable: u64,
    pub feedback_sent: u64,
    pub feedback_received: u64,
}

impl RunFile {
    /// The file of a run without transfers and counters.
    pub fn new(
        scenario: &Scenario,
        governed: &Governed,
        (backend, seed): (&str, u64),
        result: &RunResult,
        complete: bool,
    ) -> Self {
        let (policy, measure) = (&governed.policy, governed.measure);
        let transfers = scenario.transfers().iter().map(|traffic| traffic.service);
        let applications = scenario.applications().iter().map(|own| own.service);
        let ids: BTreeSet<ServiceId> = transfers.chain(applications).collect();
        let path = |id: &ServiceId| governed.service_path(*id).to_owned();
        let sample = |sample: &weir_scenario::Sample| SampleEntry {
            at_s: sample.at.as_secs_f64(),
            bandwidth_bps: sample.bandwidth.iter().map(|(id, bandwidth)| (path(id), bandwidth.bps())).collect(),
        };
        Self {
            format: FORMAT,
            scenario: scenario.name().to_owned(),
            backend: backend.to_owned(),
            seed,
            enforcement: scenario.enforcement().word().to_owned(),
            complete,
            duration_s: scenario.duration().as_secs_f64(),
            measure: MeasureEntry {
                rack: policy.network().rack(measure.rack).name().to_owned(),
                direction: measure.direction.name().to_owned(),
                every_s: measure.every.as_secs_f64(),
                capacity_bps: policy.rack_capacity(measure.rack, measure.direction).bps(),
            },
            services: ids.iter().map(path).collect(),
            phases: phases((scenario, governed), &ids, result),
            samples: result.samples.iter().map(sample).collect(),
            transfers: Vec::new(),
            requests: Vec::new(),
            messages: Vec::new(),
            ports: Vec::new(),
            agents: Vec::new(),
            counters: BTreeMap::new(),
        }
    }

    /// The file of a simulated run under a policy.
    pub fn simulated(scenario: &Scenario, governed: &Governed, seed: u64, outcome: &RunOutcome) -> Self {
        let mut file = Self::new(scenario, governed, ("sim", seed), &outcome.uplink, !outcome.interrupted);
        let results = &outcome.results;
        let service =
            |flow: &FlowRecord| scenario.flow_groups().get(flow.group as usize).and_then(|group| group.service);
        let entry = |name: &String| {
            let id = governed.policy.services().named(name);
            let flows = results.flows.iter().filter(|flow| id.is_some() && service(flow) == id);
            flows.fold(TransferEntry { service: name.clone(), ..TransferEntry::default() }, |mut sum, flow| {
                sum.flows += 1;
                sum.delivered_bytes += flow.delivered;
                sum.retransmissions += u64::from(flow.retransmissions);
                sum.timeouts = Some(sum.timeouts.unwrap_or(0) + u64::from(flow.timeouts));
                sum
            })
        };
        file.transfers = file.services.iter().map(entry).collect();
        file.counters = results.counters.clone();
        file
    }

    /// The file's text: one sample on a line.
    pub fn to_text(&self) -> String {
        json::to_text(&self.to_value())
    }
    /// The file as JSON.
    pub fn to_value(&self) -> Value {
        // Strings, numbers and maps with string keys always have a JSON form.
        serde_json::to_value(self).unwrap_or_default()
    }
    /// Reads the text of [`RunFile::to_text`].
    pub fn from_text(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

fn phases(
    (scenario, governed): (&Scenario, &Governed),
    services: &BTreeSet<ServiceId>,
    result: &RunResult,
) -> Vec<PhaseEntry> {
    let every = governed.measure.every;
    let ends = scenario.transfers().iter().flat_map(|traffic| [traffic.start, traffic.stop]);
    let applications = scenario.applications().iter().flat_map(|own| [own.start, own.stop]);
    let ends: BTreeSet<Duration> = ends.chain(applications).chain([Duration::ZERO, scenario.duration()]).collect();
    let ends: Vec<Duration> = ends.into_iter().collect();
    let path = |id: &ServiceId| governed.service_path(*id).to_owned();
    let entry = |from: Duration, to: Duration| {
        let sends = |id: &&ServiceId| {
            let mut traffic = scenario.transfers().iter().filter(|traffic| traffic.service == **id);
            let mut applications = scenario.applications().iter().filter(|own| own.service == **id);
            traffic.any(|traffic| traffic.start < to && traffic.stop > from)
                || applications.any(|own| own.start < to && own.stop > from)
        };
        // Only samples inside the window: the first one begins at `from` or later.
        let means = |from: Duration| {
            let first_end = (from + every).saturating_sub(Duration::from_nanos(1));
            let mean = |id: &ServiceId| result.mean(*id, first_end, to).map(|mean| mean.bps());
            services.iter().map(|id| (path(id), mean(id))).collect()
        };
        let middle = Duration::from_nanos(from.nanos().midpoint(to.nanos()));
        PhaseEntry {
            from_s: from.as_secs_f64(),
            to_s: to.as_secs_f64(),
            sending: services.iter().filter(sends).map(path).collect(),
            mean_bps: means(from),
            settled_bps: means(middle),
        }
    };
    ends.windows(2).map(|ends| entry(ends[0], ends[1])).collect()
}
