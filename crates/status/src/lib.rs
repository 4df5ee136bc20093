//! What an agent or a fabric broker is doing.
//!
//! Problem: a status file, `/status`, `/metrics`, `weir top` and the dashboard show the same facts, and versions of
//! Weir meet in one network. Approach: one model with a version. Who does something fills it; everybody else reads it.
//! Nothing reads it to decide.
//!
//! | module | does |
//! |---|---|
//! | [`model`](AgentStatus) | the facts, as serde reads and writes them |
//! | [`counters`] | what is counted, each counter described once |
//! | [`fill`](mod@fill) | the facts from a policy and a broker |
//! | [`read`](mod@read) | a status from somebody else, refused where it is of another version |
//! | [`metrics`](mod@metrics) | the facts as Prometheus metrics |
//!
//! What a host does not deliver is absent, never zero. `null` in a rate that may be without bound (`limit_bps`,
//! `maximum_bps`, `demand_bps`) says that it is; a demand without bound is that of a backlogged service.
//!
//! ```json
//! { "kind": "agent", "version": 1, "machine": "m1", "rack": "r1", "mode": "runtime", "backend": "htb", "peers_heard": 9,
//!   "services": [ { "service": "dfs",
//!                   "tx": { "usage_bps": 1, "demand_bps": null, "limit_bps": 1, "share_bps": 1, "decided_by": "rack r1", … },
//!                   "rx": { … } } ],
//!   "counters": { "reports_accepted": 1, "reports_replayed": 0, … } }
//! ```
//!
//! Worked example:
//!
//! ```
//! use weir_status::{AgentStatus, Status};
//!
//! let text = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r1: { uplink: 1Gb/s, machines: [m1] } } }\n\
//!             services: { a: { match: [ { port: 1 } ], machine: { min: 200Mb/s } } }\n";
//! let (policy, _) = weir_policy::Policy::parse("policy.yaml", text)?;
//! let status = AgentStatus::outline(&policy, policy.network().machine_named("m1").expect("it is there"));
//! assert_eq!(status.services[0].tx.guarantee.bps(), 200_000_000);
//! assert_eq!(status.services[0].tx.backlog_bytes, None);
//!
//! let status = Status::Agent(status);
//! assert_eq!(Status::read(status.to_json().as_bytes()).expect("its own"), status);
//! # Ok::<(), weir_document::Diagnostics>(())
//! ```

pub mod counters;
pub mod fill;
pub mod metrics;
mod model;
mod rate;
pub mod read;

pub use counters::{AgentCounters, Counters, FabricCounters, KernelCounters, LineCounters, TimerCounters};
pub use model::{
    AgentStatus, DirectionStatus, FabricLimit, FabricLine, FabricLink, FabricStatus, Latency, LineState, Mode,
    ServiceStatus, Status, VERSION,
};
pub use read::ReadError;

/// The port on which agents serve their status unless told otherwise: beside that of rack datagrams.
pub const DEFAULT_PORT: u16 = 30_566;
