//! Extrapolation of demands that grow while the fabric limits other services.
//!
//! A service that shares an interface or an uplink with a fabric-limited service gets the capacity
//! that the limited one leaves. The more it uses, the less the fabric leaves the limited service,
//! and the more it gets again. Reporting its current share would overshoot the fabric's capacity at
//! every iteration, and the iterations converge slowly: each step is a fixed part of the one
//! before, close to one where most of the capacity that the fabric takes from the limited service
//! goes to this one.
//!
//! The rule converges from above instead, where each step leaves capacity unused. A service that
//! its rack limited at two reports in a row, and whose share exceeds the last reported demand,
//! reports
//!
//! - the first time, the share plus the growth once more: enough where a step is at most half of
//!   the one before;
//! - the second time in a row, the share that it would have if the fabric left the limited services
//!   nothing. It cannot get more, so from then on its share is below the reported demand until
//!   nothing changes.
//!
//! Hence **from the third fabric round after the first one that limits other services, a growing
//! service's reported demand is at least its share**, and the fabric's capacity holds. The excess
//! demand leaves capacity unused for one period, in proportion to the growth where the growth was
//! accidental. A report that follows no new fabric round repeats the reported demands.
//!
//! Worked example: interfaces of 10, a fabric of 12 of which `a` is guaranteed 10; `a` and `b`
//! demand 8 each on one machine, `b` demands 8 in another rack. `a` has 5, and the fabric leaves
//! `b` 7 / 2 here; so `a` has 6.5. With 6.5 reported, `b` is left 5.5 / 2, and `a` has 7.25, and so
//! on in halves. The demand grew, so 7.25 + 0.75 = 8 is reported; `b` is left 2 in each rack, `a`
//! has its 8, and the limits stay.
//!
//! Source: fill for a point that Parley §3.2.3 leaves open. See `docs/design/fabric-broker.md`.

use super::RackBroker;
use weir_alloc::{Constraint, FabricLimit, RackShares};
use weir_units::{Bandwidth, Direction, PerDirection};

/// Growth below this part of the reported demand is ignored: a steady load varies by as much. The
/// fabric's capacity is exceeded by at most this part over all services.
const GROWTH_PART: u64 = 1_000;

/// The reported demand of a service that its rack limits beside a fabric-limited one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reported {
    rate: Bandwidth,
    /// The number of reports in a row in which it had grown.
    grown: u8,
}

/// The last reported demands.
#[derive(Debug)]
pub(super) struct Extrapolation {
    /// By leaf; `None` where the service was not limited, or limited by the fabric itself.
    reported: PerDirection<Vec<Option<Reported>>>,
}

impl Extrapolation {
    pub(super) fn new(leaves: usize) -> Self {
        Self { reported: PerDirection::both(vec![None; leaves]) }
    }
}

impl RackBroker {
    /// Extrapolates the demands of the next report: the first since limits of a new fabric round.
    pub(super) fn extrapolate_demands(&mut self) {
        for direction in Direction::ALL {
            let limited = self.limited_by_fabric(direction);
            let now: Vec<Option<Reported>> = (0..limited.len())
                .map(|leaf| {
                    let rate = self.leader.peak_demands[direction][leaf];
                    let grown = match self.extrapolation.reported[direction][leaf] {
                        Some(reported)
                            if rate > reported.rate + Bandwidth::from_bps(reported.rate.bps() / GROWTH_PART) =>
                        {
                            reported.grown.saturating_add(1)
                        }
                        _ => 0,
                    };
                    self.shares_with_limited(direction, leaf, &limited).then_some(Reported { rate, grown })
                })
                .collect();
            let grows = now.iter().flatten().any(|reported| reported.grown > 0);
            let most = if grows { self.shares_without_limited(direction, &limited) } else { RackShares::default() };
            for (leaf, now) in now.into_iter().enumerate() {
                let before = std::mem::replace(&mut self.extrapolation.reported[direction][leaf], now);
                let (Some(before), Some(reported)) = (before, &mut self.extrapolation.reported[direction][leaf]) else {
                    continue;
                };
                let most = || most.of_service(&self.allocator, leaf).max(reported.rate);
                reported.rate = match reported.grown {
                    0 => reported.rate,
                    1 => (reported.rate + (reported.rate - before.rate)).min(most()),
                    _ => most(),
                };
                self.leader.peak_demands[direction][leaf] = reported.rate;
            }
        }
    }

    /// Repeats at least the last reported demands, in a report that follows no new fabric round: a
    /// repetition, or the report of a new leader. The fabric's limits have not changed, so growth
    /// in the interval is not their effect. Without the repetition a lost report would restart the
    /// extrapolation.
    pub(super) fn repeat_reported_demands(&mut self) {
        for direction in Direction::ALL {
            let limited = self.limited_by_fabric(direction);
            for leaf in 0..limited.len() {
                let before = self.extrapolation.reported[direction][leaf]
                    .filter(|_| self.shares_with_limited(direction, leaf, &limited));
                self.extrapolation.reported[direction][leaf] = before;
                let offered = &mut self.leader.peak_demands[direction][leaf];
                *offered = before.map_or(*offered, |reported| reported.rate.max(*offered));
            }
        }
    }

    /// By leaf: whether the fabric limits the service.
    fn limited_by_fabric(&self, direction: Direction) -> Vec<bool> {
        let shares = &self.shares[direction];
        (0..self.allocator.leaves().len()).map(|leaf| shares.is_limited_by_fabric(&self.allocator, leaf)).collect()
    }

    /// Whether the rack limits a service beside a fabric-limited one.
    fn shares_with_limited(&self, direction: Direction, leaf: usize, limited: &[bool]) -> bool {
        !limited[leaf] && limited.contains(&true) && self.is_limited_in_rack(direction, leaf)
    }

    /// Whether a constraint other than its demand and the fabric limits an instance of a service.
    fn is_limited_in_rack(&self, direction: Direction, leaf: usize) -> bool {
        let instances = &self.shares[direction].instances;
        (0..self.allocator.machines().len())
            .map(|index| instances[self.allocator.instance(leaf, index)].decided_by)
            .any(|decided_by| decided_by.is_limit() && decided_by != Constraint::Fabric)
    }

    /// The rack's shares if the fabric left nothing to the services that it limits, and limited no
    /// others.
    fn shares_without_limited(&self, direction: Direction, limited: &[bool]) -> RackShares {
        let nothing = FabricLimit { limit: Bandwidth::ZERO, decided_by: Constraint::Fabric };
        let limits: Vec<FabricLimit> =
            limited.iter().map(|limited| if *limited { nothing } else { FabricLimit::NONE }).collect();
        let mut shares = RackShares::default();
        self.allocator.allocate(direction, &self.demands[direction], &limits, &mut shares);
        shares
    }
}
