//! One queue for each service: the slowest capacity and the fullest load on its way, and its burst.

use crate::points::Point;
use weir_datapath::ShaperConfig;
use weir_policy::{LatencyTarget, Policy};
use weir_units::{Bandwidth, Bytes, ContentionPoint, Direction, Duration, ServiceId};

/// Steps of the rate law until senders have converged, unless somebody says otherwise: what Parley's Table 3 takes;
/// the worst case is 30 (§6.3).
pub const ITERATIONS: u32 = 15;
/// How many senders' bursts may come at once, unless somebody says otherwise.
pub const SENDERS: u32 = 1;

/// Where a planned capacity is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapacityFrom {
    /// No contention point is judged.
    Nothing,
    /// The slowest place of this contention point.
    Slowest(ContentionPoint),
    /// The service's own maximum at a machine, which its burst does not let a message jump over.
    OwnMaximum,
}

/// The interval and the burst with which a service's shapers run; of a service with others nested in it the longest and
/// the largest of those.
pub fn shaper(policy: &Policy, id: ServiceId, shapers: &ShaperConfig) -> (Duration, Bytes) {
    let is_within = |leaf: ServiceId| {
        std::iter::successors(Some(leaf), |&at| policy.services().get(at).parent()).any(|above| above == id)
    };
    let leaves = policy.services().leaves().zip(&shapers.services).filter(|((leaf, _), _)| is_within(*leaf));
    leaves.fold((Duration::ZERO, Bytes::ZERO), |(interval, burst), (_, shaper)| {
        (interval.max(shaper.interval), burst.max(shaper.burst))
    })
}

/// The slowest capacity that a message of `target` passes, and where it is from. `burst` is that of one shaper.
pub fn capacity(
    policy: &Policy,
    id: ServiceId,
    target: LatencyTarget,
    burst: Bytes,
    points: &[Point],
) -> (Bandwidth, CapacityFrom) {
    let slowest = points.iter().min_by_key(|point| point.capacity);
    let found = slowest.map_or((Bandwidth::UNLIMITED, CapacityFrom::Nothing), |point| {
        (point.capacity, CapacityFrom::Slowest(point.point))
    });
    let ceiling = Direction::ALL.into_iter().map(|direction| policy.machine_ceiling(id, direction)).min();
    match ceiling {
        Some(ceiling) if ceiling < found.0 && burst < target.message => (ceiling, CapacityFrom::OwnMaximum),
        _ => found,
    }
}

/// The point with the highest load.
pub fn fullest(points: &[Point]) -> Option<&Point> {
    // Nothing is fuller than what is full.
    points.iter().rev().max_by_key(|point| (point.load.is_none(), point.load))
}

/// How long senders need to converge when they take `iterations` intervals of the rate law.
pub fn convergence(interval: Duration, iterations: u32) -> Duration {
    Duration::from_nanos(interval.nanos().saturating_mul(iterations.into()))
}
