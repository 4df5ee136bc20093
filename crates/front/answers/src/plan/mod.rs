//! `plan`: from latency targets to capacities and caps.
//!
//! `weir_latency::plan` computes the contention points of messages and their highest loads.
//!
//! | module | does |
//! |---|---|
//! | `compute` | the estimates of all methods, for each service with a target |
//! | `model` | the content of a plan |
//! | `network` | the buffers and timers of the policy's network, or of a scenario's |
//! | `trace` | reading and simulating a trace, with progress and an early end |
//! | [`caps`] | the caps that keep every target, and a policy with one of them |
//! | [`words`] | loads and limits in words |

pub mod caps;
mod compute;
mod json;
mod model;
mod network;
mod trace;
pub mod words;

pub use compute::{PlanOptions, plan, targets};
pub use json::{levels_to_json, to_json};
pub use model::{AsItIs, Estimate, Found, Method, NeededCap, Plan, ServicePlan, TraceSummary};
pub use network::{PlannedNetwork, Timer};
pub use trace::{Monitor, TraceInput, cannot_read};
