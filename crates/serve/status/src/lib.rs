//! The status of an agent, a fabric broker or a switch.
//!
//! Problem: a status file, `/status`, `/metrics`, `weir top` and the dashboard show the same facts,
//! and versions of Weir meet in one network. Approach: one model with a version. The agent or
//! fabric broker fills it, or `weir switch watch` and `bind`; all other programs read it. No decision depends on it.
//!
//! | module | does |
//! |---|---|
//! | [`model`](AgentStatus) | the facts, as serde reads and writes them |
//! | [`counters`] | all counters, each described once |
//! | [`fill`](mod@fill) | the facts from a policy and a broker |
//! | [`read`](mod@read) | reads the status of another program and refuses other versions |
//! | [`metrics`](mod@metrics) | the facts as Prometheus metrics |
//!
//! A fact that a host does not deliver is absent, never zero. `null` in a rate that may be
//! unlimited (`limit_bps`, `maximum_bps`, `demand_bps`) means unlimited; an unlimited demand is
//! that of a backlogged service.
//!
//! ```json
//! { "kind": "agent", "version": 1, "machine": "m1", "rack": "r1", "mode": "runtime",
//!   "backend": "htb", "peers_alive": 9,
//!   "services": [
//!     { "service": "dfs",
//!       "tx": { "usage_bps": 1, "demand_bps": null, "limit_bps": 1, "share_bps": 1, "decided_by":
//!       "rack r1", … },
//!       "rx": { … } } ],
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
mod credits;
pub mod fill;
pub mod metrics;
mod model;
mod rate;
pub mod read;
mod strangers;
mod switch;

pub use counters::{
    AgentCounters, Counters, EventCounters, FabricCounters, KernelCounters, SessionCounters, TimerCounters,
};
pub use credits::{CreditFlow, HostCredits, PortCredits};
pub use model::{
    AgentStatus, DirectionStatus, FabricLimit, FabricLink, FabricSession, FabricStatus, Latency, LevelCounters,
    LevelStatus, Mode, NO_POD, ServiceStatus, SessionState, Status, TenantPort, TenantQueuesStatus, TenantStatus,
    TenantTimes, VERSION,
};
pub use read::ReadError;
pub use strangers::Strangers;
pub use switch::{SwitchPortStatus, SwitchQueueStatus, SwitchStatus};

/// The default port of an agent's status: beside that of rack datagrams.
pub const DEFAULT_PORT: u16 = 30_566;
