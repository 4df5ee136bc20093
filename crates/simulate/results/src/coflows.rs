//! Coflows: flows that an application waits for together, timed as a whole.
//!
//! Problem: a client waits for the request and the response, and a barrier or an aggregator for the
//! last flow of the round; percentiles over single flows measure neither, and for requests they are
//! dominated by the small ones. Approach: a coflow's completion time goes from the start of its
//! first flow to the last byte of its last one (the query completion time, the job's round). It has
//! finished when all of its flows have started and finished; one that has not is slower than all
//! others, as in [`crate::summary`].
//!
//! Worked example: a request from 0 to 10 µs and its response from 10 to 300 µs are a coflow of 300
//! µs. A request whose response had not started when the run ended is a coflow that did not finish.
//!
//! Source: Chowdhury and Stoica, "Coflow: a networking abstraction for cluster applications"
//! (HotNets 2012).

use crate::json;
use crate::record::FlowRecord;
use crate::summary::Summary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_units::SimTime;

/// Statistics of the coflows of one group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CoflowStatistics {
    /// The number of flows of each; `None` if they differ.
    pub flows_per_coflow: Option<u64>,
    /// The fewest flows of a coflow.
    #[serde(default)]
    pub fewest_flows: u64,
    /// The most flows of a coflow.
    #[serde(default)]
    pub most_flows: u64,
    /// The number of started coflows.
    pub coflows: u64,
    /// The number of unfinished ones.
    pub unfinished: u64,
    /// Their completion times.
    #[serde(rename = "cct_ps", with = "json::picos")]
    pub cct: Summary<SimTime>,
}

impl CoflowStatistics {
    /// The statistics of the coflows that a group's flows make; `None` without any. Flows of no coflow do not count.
    pub fn new(flows: &[&FlowRecord]) -> Option<Self> {
        // The flows of a coflow have the same number of flows, by the check of results.
        let mut coflows: BTreeMap<u64, (u64, Vec<&FlowRecord>)> = BTreeMap::new();
        for flow in flows {
            if let Some(coflow) = flow.coflow {
                coflows.entry(coflow.id).or_insert((coflow.flows, Vec::new())).1.push(flow);
            }
        }
        let sizes = || coflows.values().map(|(flows, _)| *flows);
        let (fewest_flows, most_flows) = (sizes().min()?, sizes().max()?);
        let whole = coflows.values().filter(|(all, flows)| flows.len() as u64 == *all);
        let times: Vec<SimTime> = whole.filter_map(|(_, flows)| completion_time(flows)).collect();
        let (coflows, unfinished) = (coflows.len() as u64, (coflows.len() - times.len()) as u64);
        Some(Self {
            flows_per_coflow: (fewest_flows == most_flows).then_some(most_flows),
            fewest_flows,
            most_flows,
            coflows,
            unfinished,
            cct: Summary::new(times, unfinished),
        })
    }

    /// The number of flows of each for people, `4` or `2–40`; `whole` prints a number.
    pub fn flows_of_each(&self, whole: impl Fn(u64) -> String) -> String {
        match self.flows_per_coflow {
            Some(flows) => whole(flows),
            None => format!("{}–{}", whole(self.fewest_flows), whole(self.most_flows)),
        }
    }
}

/// From the first start to the last finish; `None` if a flow did not finish.
fn completion_time(flows: &[&FlowRecord]) -> Option<SimTime> {
    let finished: Option<Vec<SimTime>> = flows.iter().map(|flow| flow.finished).collect();
    let start = flows.iter().map(|flow| flow.start).min()?;
    Some(finished?.into_iter().max()?.saturating_sub(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Coflow;
    use weir_units::MachineId;

    fn flow((id, flows): (u64, u64), start: u64, finished: Option<u64>) -> FlowRecord {
        FlowRecord {
            coflow: Some(Coflow { id, flows }),
            start: SimTime::from_micros(start),
            finished: finished.map(SimTime::from_micros),
            ..FlowRecord::new(0, MachineId(0), MachineId(1))
        }
    }

    #[test]
    fn the_worked_example() {
        let flows = [
            flow((0, 2), 0, Some(10)),
            flow((1, 2), 5, Some(15)),
            flow((0, 2), 10, Some(300)),
            flow((1, 2), 15, None),
            flow((2, 2), 100, Some(110)),
            FlowRecord::new(9, MachineId(0), MachineId(1)),
        ];
        let flows: Vec<&FlowRecord> = flows.iter().collect();
        let statistics = CoflowStatistics::new(&flows).expect("coflows");
        assert_eq!((statistics.coflows, statistics.unfinished, statistics.flows_per_coflow), (3, 2, Some(2)));
        let us = SimTime::from_micros;
        // Of three, two are slower than the one that is known.
        assert_eq!((statistics.cct.mean, statistics.cct.p50, statistics.cct.max), (None, None, None));
        assert_eq!(statistics.cct.finished_mean, Some(us(300)));
    }

    #[test]
    fn a_round_lasts_as_long_as_its_last_flow() {
        let round = (7, 3);
        let flows = [
            flow(round, 3, Some(50)),
            flow(round, 1, Some(20)),
            flow(round, 2, Some(90)),
            flow((8, 3), 200, Some(201)),
        ];
        let flows: Vec<&FlowRecord> = flows.iter().collect();
        let statistics = CoflowStatistics::new(&flows).expect("coflows");
        assert_eq!((statistics.coflows, statistics.unfinished), (2, 1));
        assert_eq!(statistics.cct.p50, Some(SimTime::from_micros(89)));
    }

    /// Coflows of one, two and three flows, one of which has a flow that never started.
    #[test]
    fn coflows_may_differ_in_their_flows() {
        let flows = [
            flow((5, 2), 0, Some(10)),
            flow((5, 2), 0, Some(20)),
            flow((6, 3), 0, Some(5)),
            flow((6, 3), 1, Some(6)),
            flow((9, 1), 100, Some(130)),
            FlowRecord::new(9, MachineId(0), MachineId(1)),
        ];
        let flows: Vec<&FlowRecord> = flows.iter().collect();
        let statistics = CoflowStatistics::new(&flows).expect("coflows");
        assert_eq!((statistics.coflows, statistics.unfinished), (3, 1));
        assert_eq!((statistics.flows_per_coflow, statistics.fewest_flows, statistics.most_flows), (None, 1, 3));
        assert_eq!(statistics.flows_of_each(|flows| flows.to_string()), "1–3");
        // 20 and 30 µs, and one that is slower than both.
        assert_eq!((statistics.cct.p50, statistics.cct.max), (Some(SimTime::from_micros(30)), None));
        assert_eq!(CoflowStatistics::new(&flows[5..]), None);
    }
}
