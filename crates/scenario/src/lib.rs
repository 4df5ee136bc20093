//! Scenarios: what traffic runs over a policy's network, for how long, and what is measured.
//!
//! A scenario is data. The simulator and the lab take the same file and give the same kind of result, so
//! that the two can be laid side by side.

mod model;
mod result;

pub use model::{Enforcement, Links, Measure, Pattern, Scenario, Traffic};
pub use result::{RunResult, Sample};
