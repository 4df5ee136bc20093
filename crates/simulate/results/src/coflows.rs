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
    /// The number of flows of each.
    pub flows_per_coflow: u64,
    /// The number of started coflows.
    pub coflows: u64,
    /// The number of unfinished ones.
    pub unfinished: u64,
    /// Their completion times.
    #[serde(rename = "cct_ps", with = "json::picos")]
    pub cct: Summary<SimTime>,
}

impl CoflowStatistics {
    /// The statistics of the coflows of `flows_per_coflow` flows that a group's flows make. Flows
    /// of no coflow do not count.
    pub fn new(flows: &[&FlowRecord], flows_per_coflow: u64) -> Self {
        let mut coflows: BTreeMap<u64, Vec<&FlowRecord>> = BTreeMap::new();
        for flow in flows {
            if let Some(coflow) = flow.coflow {
                coflows.entry(coflow).or_default().push(flow);
            }
        }
        let whole = coflows.values().filter(|flows| flows.len() as u64 == flows_per_coflow);
        let times: Vec<SimTime> = whole.filter_map(|flows| completion_time(flows)).collect();
        let (coflows, unfinished) = (coflows.len() as u64, (coflows.len() - times.len()) as u64);
        Self { flows_per_coflow, coflows, unfinished, cct: Summary::new(times, unfinished) }
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
    use weir_units::MachineId;

    fn flow(coflow: u64, start: u64, finished: Option<u64>) -> FlowRecord {
        FlowRecord {
            coflow: Some(coflow),
            start: SimTime::from_micros(start),
            finished: finished.map(SimTime::from_micros),
            ..FlowRecord::new(0, MachineId(0), MachineId(1))
        }
    }

    #[test]
    fn the_worked_example() {
        let flows = [
            flow(0, 0, Some(10)),
            flow(1, 5, Some(15)),
            flow(0, 10, Some(300)),
            flow(1, 15, None),
            flow(2, 100, Some(110)),
            FlowRecord::new(9, MachineId(0), MachineId(1)),
        ];
        let flows: Vec<&FlowRecord> = flows.iter().collect();
        let statistics = CoflowStatistics::new(&flows, 2);
        assert_eq!((statistics.coflows, statistics.unfinished), (3, 2));
        let us = SimTime::from_micros;
        // Of three, two are slower than the one that is known.
        assert_eq!((statistics.cct.mean, statistics.cct.p50, statistics.cct.max), (None, None, None));
        assert_eq!(statistics.cct.finished_mean, Some(us(300)));
    }

    #[test]
    fn a_round_lasts_as_long_as_its_last_flow() {
        let flows = [flow(7, 3, Some(50)), flow(7, 1, Some(20)), flow(7, 2, Some(90)), flow(8, 200, Some(201))];
        let flows: Vec<&FlowRecord> = flows.iter().collect();
        let statistics = CoflowStatistics::new(&flows, 3);
        assert_eq!((statistics.coflows, statistics.unfinished), (2, 1));
        assert_eq!(statistics.cct.p50, Some(SimTime::from_micros(89)));
    }
}
