//! Scenarios: the traffic over a network, its duration, and the measurement.
//!
//! A scenario is data. It runs over the network of a policy, in the simulator or in the lab with the
//! same kind of result, so that the two can be compared; or, in the simulator, over a network of its
//! own, with a policy or without.
//!
//! | module | contents |
//! |---|---|
//! | [`model`](Scenario), [`governed`](Governed) | the valid scenario, and its part that depends on a policy |
//! | [`language`] | the content of a file, as one description; the JSON Schema |
//! | `read` | file → scenario |
//! | [`result`](RunResult) | the result of a run |
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
//!
//! and one with a network of its own:
//!
//! ```
//! use weir_document::Source;
//! use weir_scenario::{Disk, ReadOptions, Scenario};
//!
//! let text = "scenario: 1\nname: star\nduration: 1s\n\
//!     network: { topology: star, hosts: 4, host-link: { rate: 10Gb/s } }\n\
//!     traffic: [ { from: h1, to: h0 }, { kind: random, from: all, to: all, sizes: websearch, load: 60% } ]\n";
//! let source = Source::from_text("star.scenario.yaml", text);
//! let set = vec![("traffic[1].load".to_owned(), "30%".to_owned())];
//! let options = ReadOptions { set, ..ReadOptions::default() };
//! let (scenario, _) = Scenario::from_files(&source, "".as_ref(), &mut Disk, &options)?;
//! assert_eq!(scenario.graph().hosts.len(), 4);
//! assert_eq!(scenario.flow_groups()[1].name, "random1");
//! # Ok::<(), weir_document::Diagnostics>(())
//! ```

mod governed;
pub mod language;
mod model;
mod read;
mod result;
mod tenancy;

pub use governed::{
    BrokerRule, BrokerSet, BrokerSettings, ControlChange, ControlEvent, CreditQueues, Enforcement, Governed,
    KeptQueues, MARK, PolicyChange, ShaperSettings, Stale,
};
pub use model::{
    Aggregates, Application, Change, FlowQuotas, HostOrder, HostQueues, LAB_CREDIT_PERIOD, LabScenario, Measure,
    Measurement, NetworkEvent, Pattern, Program, Scenario, ServiceTransfers, Traffic, ValueServer, Values,
};
pub use read::{Disk, Files, Outcome, PolicyOutcome, ReadOptions};
pub use result::{RunResult, Sample};
pub use tenancy::Tenancy;
