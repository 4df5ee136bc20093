//! Wall-clock time, for progress and for speeds.
//!
//! Problem: results must not depend on wall-clock time, and a user needs the speed of a run and its remaining time.
//! Approach: this is the only place that reads the clock; the values reach progress and tables of speeds, never a
//! result.
//!
//! Worked example: a run that has simulated a tenth after 4 s has 36 s left.

use std::time::Instant;

/// Wall-clock time since a start.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts the clock.
    #[expect(clippy::disallowed_methods, reason = "progress is about wall-clock time; the run itself uses none")]
    pub fn start() -> Self {
        Self(Instant::now())
    }
    /// Seconds since the start.
    pub fn seconds(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
