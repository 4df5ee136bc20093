//! Completion times, slowdowns, goodputs and deadlines, by group and size bin.
//!
//! Every flow is counted exactly once in its group and its bin, finished or not; [`crate::summary`]
//! defines the effect of unfinished flows on means and percentiles. Slowdowns are over the flows whose ideal
//! is known.
//!
//! Where an application waits for several flows, their coflow is counted as a whole too: see
//! [`crate::coflows`].
//!
//! Worked example: a group of a finished flow of 5 kB and an unfinished one of 5 MB has the bins
//! ≤ 10 kB (1 flow) and ≤ 10 MB (1 flow, 1 unfinished, no percentiles); over all its flows p50 is
//! the first flow's completion time, and p99 and the mean are not known.

use crate::bins::{Bin, SizeBins};
use crate::coflows::CoflowStatistics;
use crate::fairness::jain;
use crate::json;
use crate::record::{FlowRecord, Results, rate};
use crate::summary::Summary;
use serde::{Deserialize, Serialize};
use weir_units::{Bandwidth, SimTime};

/// Statistics of a whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// All flows together.
    pub all: GroupStatistics,
    /// The same for each group, in the run's order.
    pub groups: Vec<GroupStatistics>,
}

/// Statistics of one group, or of all flows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupStatistics {
    /// The group's name; empty for all flows.
    pub name: String,
    /// All sizes together.
    pub all: BinStatistics,
    /// The same for each size bin, also for those without flows.
    pub bins: Vec<BinStatistics>,
    /// Application bytes delivered.
    #[serde(rename = "delivered_bytes")]
    pub delivered: u64,
    /// Their rate over the whole simulated time.
    #[serde(rename = "goodput_bps", with = "json::bps")]
    pub goodput: Bandwidth,
    /// Jain's index over the flows' goodputs, each over its own life; `None` when nothing was
    /// delivered.
    pub jain: Option<f64>,
    /// Packets sent again.
    pub retransmissions: u64,
    /// Retransmission timers that expired.
    pub timeouts: u64,
    /// The outcome of flows with a deadline.
    pub deadlines: Deadlines,
    /// The times of its coflows; `None` if no flow is in one, and for all groups together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coflows: Option<CoflowStatistics>,
}

/// Statistics of the flows of one size bin.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BinStatistics {
    /// The sizes.
    #[serde(flatten)]
    pub bin: Bin,
    /// The number of flows, finished or not.
    pub flows: u64,
    /// The number of unfinished ones.
    pub unfinished: u64,
    /// Completion times.
    #[serde(rename = "fct_ps", with = "json::picos")]
    pub fct: Summary<SimTime>,
    /// Completion times over ideal ones.
    pub slowdown: Summary<f64>,
}

/// The outcome of flows with a deadline; the rest of `count` could still keep theirs when the run
/// ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Deadlines {
    /// Flows with a deadline.
    pub count: u64,
    /// Those that finished in time.
    pub met: u64,
    /// Those that did not.
    pub missed: u64,
}

impl Statistics {
    /// The statistics of a run.
    pub fn new(results: &Results, bins: &SizeBins) -> Self {
        let mut by_group: Vec<Vec<&FlowRecord>> = vec![Vec::new(); results.groups.len()];
        for flow in &results.flows {
            if let Some(flows) = by_group.get_mut(flow.group as usize) {
                flows.push(flow);
            }
        }
        let all: Vec<&FlowRecord> = results.flows.iter().collect();
        let group = |name: &str, flows: &[&FlowRecord]| GroupStatistics::new(name, flows, results.simulated, bins);
        Self {
            all: group("", &all),
            groups: results
                .groups
                .iter()
                .zip(&by_group)
                .map(|(is, flows)| GroupStatistics { coflows: CoflowStatistics::new(flows), ..group(&is.name, flows) })
                .collect(),
        }
    }
}

impl GroupStatistics {
    /// The statistics of `flows` in a run that ended at `end`, without those of coflows.
    pub fn new(name: &str, flows: &[&FlowRecord], end: SimTime, bins: &SizeBins) -> Self {
        let mut by_bin: Vec<Vec<&FlowRecord>> = vec![Vec::new(); bins.count()];
        for flow in flows {
            by_bin[bins.index(flow.bytes)].push(flow);
        }
        let goodputs: Vec<f64> = flows.iter().map(|flow| flow.goodput(end).bps() as f64).collect();
        let delivered = flows.iter().map(|flow| flow.delivered).fold(0, u64::saturating_add);
        Self {
            name: name.to_owned(),
            all: BinStatistics::new(Bin { over: 0, up_to: None }, flows),
            bins: bins.iter().zip(&by_bin).map(|(bin, flows)| BinStatistics::new(bin, flows)).collect(),
            delivered,
            goodput: rate(delivered, end),
            jain: jain(&goodputs),
            retransmissions: flows.iter().map(|flow| u64::from(flow.retransmissions)).sum(),
            timeouts: flows.iter().map(|flow| u64::from(flow.timeouts)).sum(),
            deadlines: Deadlines::new(flows, end),
            coflows: None,
        }
    }
}

impl BinStatistics {
    fn new(bin: Bin, flows: &[&FlowRecord]) -> Self {
        let times: Vec<SimTime> = flows.iter().filter_map(|flow| flow.completion_time()).collect();
        let slowdowns: Vec<f64> = flows.iter().filter_map(|flow| flow.slowdown()).collect();
        let unfinished = (flows.len() - times.len()) as u64;
        let with_ideal = flows.iter().filter(|flow| flow.ideal > SimTime::ZERO).count();
        Self {
            bin,
            flows: flows.len() as u64,
            unfinished,
            slowdown: Summary::new(slowdowns.clone(), (with_ideal - slowdowns.len()) as u64),
            fct: Summary::new(times, unfinished),
        }
    }
}

impl Deadlines {
    fn new(flows: &[&FlowRecord], end: SimTime) -> Self {
        let fared = |met: bool| flows.iter().filter(|flow| flow.met_deadline(end) == Some(met)).count() as u64;
        let count = flows.iter().filter(|flow| flow.deadline.is_some()).count() as u64;
        Self { count, met: fared(true), missed: fared(false) }
    }

    /// The share of flows that kept theirs, of those known to have kept or missed it.
    pub fn share_met(&self) -> Option<f64> {
        let known = self.met + self.missed;
        (known > 0).then(|| self.met as f64 / known as f64)
    }

    /// The same share for people, as `99.9 %`: rounded down, so that 100 % means all of them.
    pub fn percent_met(&self) -> Option<String> {
        let known = u128::from(self.met) + u128::from(self.missed);
        let tenths = (u128::from(self.met) * 1_000).checked_div(known)?;
        Some(format!("{}.{} %", tenths / 10, tenths % 10))
    }
}

#[cfg(test)]
#[path = "statistics_tests.rs"]
mod tests;
