//! The bounds of a policy's latency levels, and the levels that keep its targets.
//!
//! Problem: an operator gives a service a level, or only a worst latency, and needs to know what holds on this network.
//! Approach: the network calculus of [`crate::calculus`] for the traffic that hosts limit.
//!
//! | module | computes |
//! |---|---|
//! | `traffic` | the senders and bursts of a policy's levels on its network |
//! | [`bounds`] | delay and backlog of each level at each port; the worst latency of each service |
//! | [`choose`] | levels and factors for `level: auto` |
//! | [`admit`](mod@admit) | the policy with levels that hold, or the reasons why none do |
//!
//! A message of a service waits in its host for the messages of all services on its level there: the regulator is
//! common to them. It holds σ, so a message whose bytes, with theirs, exceed σ waits for the rest at ρ; then its frames
//! take at most the delay of the path:
//!
//! ```text
//! worst ≤ max(0, Σ wire bytes − σ) / ρ + path                 while Σ rates ≤ ρ
//! ```
//!
//! Worked example: `docs/how-to/levels.md`.
//!
//! Source: QJump's slides; the wait and the inverse are ours: the slides leave levels to applications, and name no way
//! to find their rates.

pub mod admit;
pub mod bounds;
pub mod choose;
mod traffic;

pub use admit::{Admitted, admit};
pub use bounds::{Bounds, LevelBound, Premise, ServiceBound};
pub use choose::Chosen;
pub use traffic::{LevelNetwork, Sizes};
