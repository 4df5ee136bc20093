//! The policy file of an operator, read into a [`Policy`] that is valid by type.
//!
//! Problem: brokers on many hosts must agree on ids and shares, and an operator needs all mistakes
//! of a policy reported before it reaches any of them. Approach: one reader with admission control;
//! its only result is a [`Policy`] in canonical order with a fingerprint, or a list of mistakes
//! with positions.
//!
//! | module | content |
//! |---|---|
//! | [`model`](Policy) | the valid policy |
//! | [`tenants`](Tenant) | virtual machines with the bandwidth of their hoses |
//! | [`queue_budget`](QueueBudget) | the queues of a switch's port, by what they are for |
//! | [`levels`](Levels) | the latency levels, their senders and rates |
//! | [`credits`](CreditPlan) | the ports of services with credits, and whether they lose nothing |
//! | [`language`] | the content of a file, as one description; the JSON Schema |
//! | `read` | file → policy |
//! | `overlap`, [`glob`], [`cgroup`](CgroupGlob), [`pod`](PodSelector) | packets that would belong to two services |
//! | `membership` | the control group in which a process is a service's |
//! | `admission` | minima that do not fit |
//! | `change` | a policy with one value changed: [`Policy::with`] |
//! | `write` | a cap written back into the file: [`Policy::write_cap`] |
//! | [`Demands`] | the CSV of demands for one allocation |
//!
//! Worked example:
//!
//! ```
//! use weir_policy::Policy;
//! use weir_units::{Bandwidth, ContentionPoint, Direction};
//!
//! let text = r#"
//! weir: 1
//! network: { nic: 10Gb/s, racks: { r1: { uplink: 10Gb/s, machines: ["m[1-2]"] } } }
//! services:
//!   dfs: { match: [ { protocol: tcp, port: 7000-7099 } ], rack: { min: 6Gb/s, weight: 2 } }
//!   vm: { match: [ { interface: "tap*" } ], rack: { max: 1Gb/s } }
//! "#;
//! let (policy, notes) = Policy::parse("policy.yaml", text)?;
//! let dfs = policy.services().named("dfs").expect("it is in the file");
//! let share = policy.services().get(dfs).share(ContentionPoint::Rack, Direction::Tx);
//! assert_eq!(share.min, Bandwidth::from_gbps(6));
//! assert!(notes.is_empty());
//!
//! let errors = Policy::parse("policy.yaml", &text.replace("weight", "weigth")).unwrap_err();
//! assert_eq!(errors.all()[0].cause(), "`weigth` is not a key of a share");
//! # Ok::<(), weir_document::Diagnostics>(())
//! ```
//!
//! Source: Parley §3.1 (services, contention points, shares, admission control).

mod admission;
mod cgroup;
mod change;
mod credits;
mod demands;
mod digest;
mod dscp;
mod export;
mod filter_syntax;
pub mod glob;
pub mod language;
mod levels;
mod machine_set;
mod mechanism;
mod membership;
mod model;
mod overlap;
mod pod;
mod queue_budget;
mod read;
mod sweep;
mod tenants;
mod tunnels;
mod write;

pub use admission::beside_levels;
pub use cgroup::CgroupGlob;
pub use credits::{CreditPlan, CreditPort, CreditQueue, Credits, Obstacle, credit_budget, credit_room};
pub use demands::Demands;
pub use levels::{EpochForm, Level, LevelChoice, LevelRates, LevelSettings, Levels, WorstLatency};
pub use machine_set::MachineSet;
pub use mechanism::{Mechanism, Need};
pub use model::{
    Caps, LatencyTarget, Match, Place, Policy, Protocol, RECEIVE_PERCENT, Service, Services, Shaper, Share, Sharing,
};
pub use pod::{PodFacts, PodSelector};
pub use queue_budget::QueueBudget;
pub use tenants::{SharedQueue, Tenant, TenantAtMachine, TenantPaths, TenantQueues, VmGroup};
pub use tunnels::{TUNNEL_PORTS_MAX, Tunnels};
pub use weir_document::{Diagnostic, Diagnostics};
pub use write::cap_text;
