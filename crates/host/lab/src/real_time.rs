//! Time since the start of the traffic, for its senders.

use std::time::Instant;
use weir_units::{Duration, SimTime};

/// How long a thread waits before it checks again whether it must end.
pub(crate) const LOOK: std::time::Duration = std::time::Duration::from_millis(50);
/// How long a connection may take.
pub(crate) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// Seconds since the origin.
pub(crate) fn since(origin: Instant) -> f64 {
    origin.elapsed().as_secs_f64()
}

/// Seconds since the start as results have them.
pub(crate) fn time(seconds: f64) -> SimTime {
    SimTime::from(Duration::from_nanos((seconds * 1e9) as u64))
}
