//! The queue model of a service: the lowest capacity and the highest load on its path, and its
//! burst.

use super::points::Point;
use weir_policy::{LatencyTarget, Policy};
use weir_shaping::ShaperConfig;
use weir_units::{Bandwidth, Bytes, ContentionPoint, Direction, Duration, ServiceId};

/// Default number of intervals of the rate law until senders have converged: that of Parley's Table
/// 3. The worst case is 30 (§6.3).
pub const ITERATIONS: u32 = 15;
/// Default number of senders whose bursts may arrive simultaneously.
pub const SENDERS: u32 = 1;

/// The origin of a planned capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapacityFrom {
    /// None: there is no contention point.
    Nothing,
    /// The lowest capacity of this kind of contention point.
    Slowest(ContentionPoint),
    /// The service's maximum at a machine, if a message is larger than the burst of its shaper.
    OwnMaximum,
}

/// The interval and the burst of a service's shapers. For a service with children they are the
/// longest interval and the largest burst of its leaves.
pub fn shaper(policy: &Policy, id: ServiceId, shapers: &ShaperConfig) -> (Duration, Bytes) {
    let is_within = |leaf: ServiceId| {
        std::iter::successors(Some(leaf), |&at| policy.services().get(at).parent()).any(|above| above == id)
    };
    let leaves = policy.services().leaves().zip(&shapers.services).filter(|((leaf, _), _)| is_within(*leaf));
    leaves.fold((Duration::ZERO, Bytes::ZERO), |(interval, burst), (_, shaper)| {
        (interval.max(shaper.interval), burst.max(shaper.burst))
    })
}

/// The lowest capacity on the path of a message of `target`, and its origin. `burst` is that of one
/// shaper.
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
    // A point without a load limit ranks highest. The first of equal points wins, hence `rev`.
    points.iter().rev().max_by_key(|point| (point.load.is_none(), point.load))
}

/// The time of `iterations` intervals of the rate law, after which senders have converged.
pub fn convergence(interval: Duration, iterations: u32) -> Duration {
    Duration::from_nanos(interval.nanos().saturating_mul(iterations.into()))
}
