//! Scenarios: what traffic runs over a policy's network, for how long, and what is measured.
//!
//! A scenario is data. The simulator and the lab take the same file and give the same kind of result, so
//! that the two can be laid side by side.
//!
//! | module | does |
//! |---|---|
//! | [`model`](Scenario) | the valid scenario |
//! | [`language`] | what a file may contain, as one description; the JSON Schema |
//! | `read` | file → scenario |
//! | [`result`](RunResult) | what a run gives |
//! | [`experiment`] | published experiments and their values |
//!
//! Worked example, a file beside `parley-fig14.policy.yaml`:
//!
//! ```yaml
//! scenario: 1
//! name: parley-fig14
//! policy: parley-fig14.policy.yaml
//! duration: 60s
//! traffic:
//!   - { service: a, from: senders, to: receivers, stop: 40s }
//!   - { service: b, from: senders, to: receivers, start: 20s }
//! measure: { rack: senders, direction: tx, every: 1s }
//! ```

pub mod experiment;
pub mod graph;
pub mod language;
mod model;
mod read;
mod result;
pub mod topology;

pub use experiment::{Experiment, PublishedValue};
pub use graph::Graph;
pub use model::{
    Change, Enforcement, Governed, Links, Measure, Measurement, NetworkEvent, Pattern, Scenario, ServiceTransfers,
    Traffic,
};
pub use read::{Disk, Files, Outcome, PolicyOutcome, ReadOptions};
pub use result::{RunResult, Sample};
