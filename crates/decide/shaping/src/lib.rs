//! From a policy to what machines enforce.
//!
//! Pure code, without the per-packet code in C: plans and displays of shares need no C compiler.
//!
//! | type | contents |
//! |---|---|
//! | [`MachinePlan`] | the leaf services of one machine: guarantees, maxima, weights, committed rates |
//! | [`LevelLimits`] | the limits of a latency level at a machine |
//! | [`ShaperConfig`] | the machine shapers of all machines: intervals, bursts, senders' weights, capacities |
//! | [`SharedQueueLimit`] | the receive limit of a machine for an elastic tenant in the shared queue |
//! | [`ShaperParameters`] | the constants of machine shapers, and those of EyeQ |
//!
//! Worked example: `vm` of weight 1 and `dfs` of weight 2 with two children of weight 1 are three leaves of weight 1.

mod config;
mod flat;
mod level;
mod machine;
mod parameters;
mod shared_queue;

pub use config::{ServiceShaper, ShaperConfig};
pub use level::{LevelLimits, SMALLEST_FRAME, htb_burst, htb_rate};
pub use machine::{LeafPlan, LeafShare, MachinePlan};
pub use parameters::{ALPHA_ONE, Alpha, DestinationParameters, InterfaceParameters, Marks, ShaperParameters, Silence};
pub use shared_queue::{Received, SHARED_QUEUE, SharedQueueLimit, shared_queue_system};
