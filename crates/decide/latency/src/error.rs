//! [`LatencyError`]: the reason why there is no result.

use weir_units::{Bandwidth, Duration, FractionError};

/// The reason why a completion time, a load or a capacity cannot be computed.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum LatencyError {
    /// A load or a quantile that is not strictly between 0 and 1.
    #[error(transparent)]
    Fraction(#[from] FractionError),
    /// A capacity of zero, or without limit: no queue has it.
    #[error("a capacity is a finite rate above zero, not {0}")]
    Capacity(Bandwidth),
    /// A mean message size of zero bytes.
    #[error("a mean message size is above zero")]
    EmptyMessage,
    /// The target cannot be kept at any load. `least` is the time at an idle queue, the limit for
    /// low loads.
    #[error("no load keeps {target} at this capacity: an idle queue needs {least}")]
    NoLoad {
        /// The completion time to keep.
        target: Duration,
        /// The completion time at an idle queue.
        least: Duration,
    },
    /// The target cannot be kept under this load or traffic with any capacity. `least` is the time at the largest
    /// one; for the burst bound it is almost only the convergence of congestion control.
    #[error("no capacity keeps {target} under this load: even {} needs {least}", Bandwidth::MAX)]
    NoCapacity {
        /// The completion time to keep.
        target: Duration,
        /// The completion time at the largest capacity.
        least: Duration,
    },
    /// The result is longer than the longest [`Duration`] (584 years), or sizes are beyond 128-bit
    /// sums.
    #[error("the completion time is beyond what can be computed")]
    OutOfRange,
}

/// The capacity in bit/s.
pub(crate) fn finite(capacity: Bandwidth) -> Result<u128, LatencyError> {
    if capacity == Bandwidth::ZERO || capacity.is_unlimited() {
        return Err(LatencyError::Capacity(capacity));
    }
    Ok(capacity.bps().into())
}
