//! This machine's limits: ceilings from the last allocation, and the order of their changes.
//!
//! The machines of a rack compute at different times within an interval, so a share that moves from
//! one machine to another would exist twice for that time. A limit therefore falls at once, and
//! rises one interval later, when the other machines have computed with the same report. Without
//! intervals shorter than the period it rises at once, as in the paper.
//!
//! Worked example: two instances of 5 Gb/s each under a maximum of 10; the second stops. At its next
//! interval it reports that and lowers its limit to 0.5; the first computes 9.5 within an interval,
//! and has it one interval later.
//!
//! Source: Parley §3.2.2 (the limits of backlogged instances); ceilings and order of changes are
//! fills. See `docs/design/ceilings.md`.

use super::{LOWEST_LIMIT, LimitRule, Mode, Output, RackBroker, RuntimeLimit};
use crate::demand::is_lowered;
use weir_alloc::RackAllocator;
use weir_alloc::tree::{Ceilings, VARIATION_PART};
use weir_units::{Bandwidth, Direction, MachineId, PerDirection};

/// The limits of this machine.
#[derive(Debug)]
pub(super) struct OwnLimits {
    /// By leaf: the runtime limits in force.
    pub(super) limits: PerDirection<Vec<Bandwidth>>,
    /// By leaf: those of the last allocation. A limit in force may still be lower.
    due: PerDirection<Vec<Bandwidth>>,
    /// By leaf: whether the limit was lowered sharply at the start of the interval.
    pub(super) lowered: PerDirection<Vec<bool>>,
    /// By leaf: whether the instance has been limited since its uplink and its maxima were contended.
    limited: PerDirection<Vec<bool>>,
    /// Whether the rack's uplink is contended.
    pub(super) contended: PerDirection<bool>,
    /// The shares of instances that alone would demand everything.
    ceilings: Ceilings,
}

impl OwnLimits {
    pub(super) fn new(allocator: &RackAllocator, index: usize, rule: LimitRule) -> Self {
        let leaves = allocator.leaves().len();
        let of = |direction| (0..leaves).map(|leaf| static_limit(allocator, direction, leaf, index, rule)).collect();
        let limits = PerDirection { tx: of(Direction::Tx), rx: of(Direction::Rx) };
        Self {
            due: limits.clone(),
            limits,
            lowered: PerDirection::both(vec![false; leaves]),
            limited: PerDirection::both(vec![false; leaves]),
            contended: PerDirection::default(),
            ceilings: Ceilings::default(),
        }
    }

    /// Replaces the limits in force by those of an earlier broker, by leaf.
    pub(super) fn inherit(&mut self, direction: Direction, limits: Vec<Bandwidth>) {
        self.due[direction].clone_from(&limits);
        self.limits[direction] = limits;
    }

    /// Whether a limit is to rise with the next interval.
    pub(super) fn rises(&self) -> bool {
        Direction::ALL.iter().any(|direction| self.limits[*direction] != self.due[*direction])
    }
}

/// The limits of the static policy on a machine, by leaf service: those that hold before the first
/// report and after the timeout.
///
/// # Panics
/// If the machine is not one of the allocator's rack.
pub fn static_limits(allocator: &RackAllocator, machine: MachineId, rule: LimitRule) -> Vec<PerDirection<Bandwidth>> {
    let index = allocator.machines().iter().position(|id| *id == machine).expect("a machine is in its rack");
    let limit = |leaf| {
        let of = |direction| static_limit(allocator, direction, leaf, index, rule);
        PerDirection { tx: of(Direction::Tx), rx: of(Direction::Rx) }
    };
    (0..allocator.leaves().len()).map(limit).collect()
}

fn static_limit(
    allocator: &RackAllocator,
    direction: Direction,
    leaf: usize,
    index: usize,
    rule: LimitRule,
) -> Bandwidth {
    match rule {
        LimitRule::Ceilings => allocator.static_ceiling(direction, leaf, index).max(LOWEST_LIMIT),
        LimitRule::Backlogged => Bandwidth::UNLIMITED,
    }
}

impl RackBroker {
    pub(super) fn set_own_limits(&mut self) {
        let stay = self.keeps_inherited_limits();
        let at_once = self.config.interval >= self.config.period;
        let mut limits = Vec::with_capacity(2 * self.allocator.leaves().len());
        for direction in Direction::ALL {
            self.update_contention(direction);
            for leaf in 0..self.allocator.leaves().len() {
                let (before, due) = (self.own.limits[direction][leaf], self.own.due[direction][leaf]);
                self.update_limited(direction, leaf);
                let now = if stay { before } else { self.due_limit(direction, leaf) };
                self.own.due[direction][leaf] = now;
                let limit = if at_once { now } else { now.min(before.max(due)) };
                // Under a fabric limit a demand must not exceed the real one: the fabric's limits
                // last ten periods. A ceiling that falls with its demand throttles nothing.
                let by_fabric = !self.fabric.limit(direction, leaf).is_unlimited();
                let throttles = self.is_limited(direction, leaf) && !by_fabric;
                self.own.lowered[direction][leaf] = throttles && is_lowered(before, limit);
                self.own.limits[direction][leaf] = limit;
                limits.push(RuntimeLimit { service: self.allocator.leaves()[leaf], direction, limit });
            }
        }
        self.outputs.push_back(Output::SetLimits(limits));
    }

    /// Decides whether the uplink is contended, and computes the ceilings that then hold.
    fn update_contention(&mut self, direction: Direction) {
        let shares = &mut self.shares[direction];
        let contended = self.config.rule == LimitRule::Ceilings
            && self.allocator.is_contended(direction, shares, self.own.contended[direction]);
        self.own.contended[direction] = contended;
        if contended {
            self.allocator.ceilings(direction, shares, &mut self.own.ceilings);
        }
    }

    /// An instance that is limited counts as such until its uplink and its maxima are relieved.
    fn update_limited(&mut self, direction: Direction, leaf: usize) {
        let contended = || {
            self.own.contended[direction]
                || self.allocator.has_contended_maximum(direction, leaf, &self.shares[direction])
        };
        let limited = self.is_limited(direction, leaf) || (self.own.limited[direction][leaf] && contended());
        self.own.limited[direction][leaf] = limited;
    }

    /// Whether an instance of this machine demanded more than its share at the last allocation.
    fn is_limited(&self, direction: Direction, leaf: usize) -> bool {
        self.shares[direction].instances[self.allocator.instance(leaf, self.index)].decided_by.is_limit()
    }

    /// The limit of an instance of this machine by the last allocation.
    fn due_limit(&self, direction: Direction, leaf: usize) -> Bandwidth {
        let limit = match self.mode {
            Mode::Static => static_limit(&self.allocator, direction, leaf, self.index, self.config.rule),
            Mode::Runtime => self.ceiling(direction, leaf),
        };
        limit.max(LOWEST_LIMIT)
    }

    /// The limit of an instance of this machine under the runtime policy.
    fn ceiling(&self, direction: Direction, leaf: usize) -> Bandwidth {
        let shares = &self.shares[direction];
        let own = shares.instances[self.allocator.instance(leaf, self.index)];
        if self.is_limited(direction, leaf) {
            return own.share;
        }
        // Limits of the fabric last ten periods: an instance that pauses must not return unlimited.
        if self.config.rule == LimitRule::Backlogged && self.fabric.limit(direction, leaf).is_unlimited() {
            return Bandwidth::UNLIMITED;
        }
        // The law of a receive meter throttles all senders of a service for longer than a burst, so
        // a receiving instance has a ceiling only while it would otherwise return unlimited.
        let ceilings = self.config.rule == LimitRule::Ceilings;
        if ceilings && direction == Direction::Rx && !self.own.limited[direction][leaf] {
            return Bandwidth::UNLIMITED;
        }
        let mut bound = self.allocator.bound(direction, leaf, self.index, shares);
        if direction == Direction::Rx {
            // Below it the rate law would throttle the service, which would then count as backlogged.
            let passing = self.meters.passing[leaf];
            bound = bound.max(passing.min(self.allocator.lowest_maximum(direction, leaf, self.index, shares)));
        }
        if !self.own.contended[direction] {
            return bound;
        }
        // A steady demand that filled its ceiling would count as backlogged, and have another share.
        let steady = own.share + Bandwidth::from_bps(own.share.bps() / VARIATION_PART);
        bound.min(self.allocator.ceiling(direction, leaf, self.index, &self.own.ceilings).max(steady))
    }
}
