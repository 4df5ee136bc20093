//! Questions about policies and their answers: a function for each, without a command line.
//!
//! Problem: a script in another language needs what `weir check`, `allocate`, `explain`, `plan` and `place` print, not
//! their text. Approach: this crate computes, and its callers read arguments and show results. Data flows in one
//! direction: [`ReadPolicy`] reads a policy and computes the bounds of its latency levels. A question takes the policy
//! and its own input (demands, [`Places`] of tenants, a [`PlannedNetwork`](plan::PlannedNetwork), a
//! [`TraceInput`](plan::TraceInput)), and returns a structure. The structure has the values that tables and pages show,
//! and `to_json`, which is the output of `--json`. Remarks are [`Diagnostic`](weir_document::Diagnostic)s, and failures
//! [`AnswerError`]s: both keep position, cause and hint apart. Long work calls its caller now and then, and ends when
//! the caller returns `Break`; there is no terminal, signal handler or exit code here. Files are read, never written.
//!
//! | question | function | answer |
//! |---|---|---|
//! | is the policy valid, and what does it guarantee? | [`check()`](check::check) | [`Check`](check::Check) |
//! | what is every service's share? | [`allocate()`](allocate::allocate) | [`Allocated`](allocate::Allocated) |
//! | why does a service have its share? | [`explain()`](explain::explain) | [`Explained`](explain::Explained) |
//! | why does a tenant have its place? | [`explain_tenant()`] | [`ExplainedTenant`](explain::tenant::ExplainedTenant) |
//! | which capacity or cap keeps the latency targets? | [`plan()`](plan::plan) | [`Plan`](plan::Plan) |
//! | where do the tenants' virtual machines go? | [`place()`](place::place) | [`Placement`](place::Placement) |
//!
//! Worked example: two services of equal weight share an interface of 10 Gb/s.
//!
//! ```
//! use std::sync::Arc;
//! use weir_answers::allocate;
//! use weir_policy::{Demands, Policy};
//!
//! let text = "weir: 1\nnetwork: { nic: 10Gb/s, racks: { r: { uplink: 10Gb/s, machines: [m] } } }\n\
//!             services: { a: { match: [ { port: 1 } ] }, b: { match: [ { port: 2 } ] } }\n";
//! let policy = Arc::new(Policy::parse("policy.yaml", text)?.0);
//! let demands = Demands::parse(&policy, "demands.csv", "m,a,tx,unlimited\nm,b,tx,unlimited\n")?;
//! let json = allocate(&policy, &demands).to_json();
//! assert_eq!(json["allocations"][1]["allocation_bps"], 5_000_000_000_u64);
//! # Ok::<(), weir_document::Diagnostics>(())
//! ```

pub mod allocate;
pub mod check;
pub mod credits;
mod error;
pub mod explain;
pub mod levels;
pub mod mechanisms;
pub mod place;
pub mod plan;
mod policy;
pub mod tenants;
pub mod text;

pub use allocate::allocate;
pub use check::check;
pub use error::{AnswerError, Cause, Location};
pub use explain::explain;
pub use explain::tenant::explain as explain_tenant;
pub use place::place;
pub use plan::plan;
pub use policy::ReadPolicy;
pub use tenants::Places;
