//! Results of a run: flow records, services' bandwidths, time series, statistics, files and pages.
//!
//! Problem: a run is judged by its flows' completion times, by the utilisation of its links and by
//! the fairness among its flows; and it is judged again, years later, from its files alone.
//! Approach: the simulator and the lab fill plain [`Results`]; everything else is computed from them by pure
//! functions, so a page drawn from files is the page drawn after the run.
//!
//! | module | content |
//! |---|---|
//! | [`record`] | [`Results`]: flows, links, samples |
//! | [`policy`] | [`PolicyResults`]: services' bandwidths, and the records of the lab |
//! | [`bins`] | bins of flow sizes |
//! | [`summary`] | mean and percentiles |
//! | [`statistics`] | completion times, slowdowns and deadlines by group and size bin |
//! | [`coflows`] | completion times of flows that an application awaits together |
//! | [`fairness`] | Jain's index |
//! | [`series`] | utilisation, goodput, queues and machine shapers over time |
//! | [`student`] | confidence intervals over seeds |
//! | [`invalid`] | the checks of results |
//! | `tables`, `columns`, `json` | the files' contents: CSV, Parquet, JSON |
//! | [`files`] | the files of a run: the only part that uses a disk |
//! | [`dataset`] | the points of a sweep as one Parquet dataset |
//! | [`page`], [`policy_page`] | the page of a run, and its part about services |
//! | [`sweep`], [`mod@sweep_page`] | the points of a sweep and their page |
//!
//! Worked example: a flow of 1 MB that starts at 1 ms and ends at 3 ms has a completion time of 2
//! ms. If the idle network would have taken 1 ms, its slowdown is 2 and its goodput 4 Gb/s.
//!
//! ```
//! use weir_results::FlowRecord;
//! use weir_units::{Bandwidth, MachineId, SimTime};
//!
//! let flow = FlowRecord {
//!     bytes: 1_000_000,
//!     delivered: 1_000_000,
//!     start: SimTime::from_millis(1),
//!     finished: Some(SimTime::from_millis(3)),
//!     ideal: SimTime::from_millis(1),
//!     ..FlowRecord::new(0, MachineId(0), MachineId(1))
//! };
//! assert_eq!(flow.completion_time(), Some(SimTime::from_millis(2)));
//! assert_eq!(flow.slowdown(), Some(2.0));
//! assert_eq!(flow.goodput(SimTime::from_millis(3)), Bandwidth::from_gbps(4));
//! ```

pub mod bins;
pub mod coflows;
mod columns;
pub mod dataset;
pub mod fairness;
pub mod files;
pub mod invalid;
mod json;
pub mod page;
mod page_charts;
mod page_tables;
pub mod policy;
pub mod policy_page;
pub mod record;
pub mod series;
pub mod statistics;
pub mod student;
pub mod summary;
pub mod sweep;
pub mod sweep_page;
mod sweep_runs;
mod tables;
mod text;

#[cfg(test)]
mod sample;

pub use bins::{Bin, SizeBins};
pub use coflows::CoflowStatistics;
pub use fairness::jain;
pub use files::{FileError, ResultsDirectory};
pub use invalid::InvalidResults;
pub use page::page;
pub use policy::{Backend, LabRecords, PolicyResults};
pub use record::{ClassCount, Coflow, FlowRecord, Group, GroupSample, LinkRecord, LinkSample, MeterSample, Results};
pub use statistics::{BinStatistics, Deadlines, GroupStatistics, Statistics};
pub use student::{Interval, confidence};
pub use summary::{Percentile, Summary, percentile_of};
pub use sweep::{Outcome, PointSummary};
pub use sweep_page::sweep_page;
