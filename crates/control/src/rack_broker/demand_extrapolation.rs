//! What grows as the fabric holds others: the demand of a service that shares an interface or an uplink with one that
//! the fabric holds.
//!
//! Problem: such a service gets what the held one leaves. The more it uses, the less the fabric leaves the held one, and
//! the more it gets again. If it told what it has, the fabric's capacity would be exceeded by each step, and the steps
//! become small only slowly: each is a fixed part of the one before, and that part comes near to one where most of what the
//! fabric takes from the held service goes to this one. Approach: come from above, where each step leaves capacity unused
//! instead. A service that was held by its rack at two reports, and has more now than it told, tells
//!
//! - the first time as much more again: enough where a step is at most half of the one before;
//! - the second time in a row what it would get if the fabric left the held services nothing. It cannot get more, so
//!   from then on it gets less than it told until nothing changes.
//!
//! Hence **in the third word after the one that first holds others, what grows is told with at least what it gets**, and
//! the fabric's capacity is kept. What is told too much is unused for one period, and is in proportion to the growth where
//! that was a chance.
//!
//! A report that no word came before repeats what was told (`repeat_reported_demands`).
//!
//! Worked example: interfaces of 10, a fabric of 12 of which `a` is guaranteed 10; `a` and `b` ask for 8 each on one machine, `b`
//! for 8 in another rack. `a` has 5, and the fabric leaves `b` 7 / 2 here; so `a` has 6.5. Reported 6.5, `b` is left 5.5 / 2, and
//! `a` has 7.25, and so on in halves. It grew, so it tells 7.25 + 0.75 = 8; `b` is left 2 in each rack, `a` has its 8, and
//! nothing changes any more.
//!
//! Source: fill for a point that Parley §3.2.3 leaves open.

use super::RackBroker;
use weir_alloc::{Constraint, FabricLimit, RackShares};
use weir_units::{Bandwidth, Direction, PerDirection};

/// Extrapolation below this part of what was told is no growth: by as much a steady load varies, and by as much in all services
/// the fabric is exceeded at most.
const GROWTH_PART: u64 = 1_000;

/// What was told of a service that its rack held next to one that the fabric held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reported {
    rate: Bandwidth,
    /// In how many reports in a row it had grown.
    grown: u8,
}

/// What was told last.
#[derive(Debug)]
pub(super) struct Extrapolation {
    /// By leaf; `None` where the service was not held, or by the fabric itself.
    reported: PerDirection<Vec<Option<Reported>>>,
}

impl Extrapolation {
    pub(super) fn new(leaves: usize) -> Self {
        Self { reported: PerDirection::both(vec![None; leaves]) }
    }
}

impl RackBroker {
    /// Makes what the next report tells of what the interval showed: the first since a word of the fabric broker.
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

    /// The same of a report that no word came before: a repetition, or that of a machine that begins to lead after its own was
    /// due. The fabric's limits are what they were, so what the interval shows is no growth that they brought; it tells at
    /// least what was told last. By what it shows alone, a lost report would have the growth begin anew.
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

    /// By leaf: whether a limit of the fabric holds the service.
    fn limited_by_fabric(&self, direction: Direction) -> Vec<bool> {
        let shares = &self.shares[direction];
        (0..self.allocator.leaves().len()).map(|leaf| shares.is_limited_by_fabric(&self.allocator, leaf)).collect()
    }

    /// Whether the rack holds a service that shares with one that the fabric holds.
    fn shares_with_limited(&self, direction: Direction, leaf: usize, limited: &[bool]) -> bool {
        !limited[leaf] && limited.contains(&true) && self.is_limited_in_rack(direction, leaf)
    }

    /// Whether anything but its demand and the fabric holds an instance of a service.
    fn is_limited_in_rack(&self, direction: Direction, leaf: usize) -> bool {
        let instances = &self.shares[direction].instances;
        (0..self.allocator.machines().len())
            .map(|index| instances[self.allocator.instance(leaf, index)].decided_by)
            .any(|decided_by| decided_by.is_limit() && decided_by != Constraint::Fabric)
    }

    /// The rack's shares if the fabric left nothing to the services that it holds, and held nobody else.
    fn shares_without_limited(&self, direction: Direction, limited: &[bool]) -> RackShares {
        let nothing = FabricLimit { limit: Bandwidth::ZERO, decided_by: Constraint::Fabric };
        let limits: Vec<FabricLimit> =
            limited.iter().map(|limited| if *limited { nothing } else { FabricLimit::NONE }).collect();
        let mut shares = RackShares::default();
        self.allocator.allocate(direction, &self.demands[direction], &limits, &mut shares);
        shares
    }
}
