//! Graceful restart: a broker keeps its predecessor's limits until it has the same information.
//!
//! The datapath keeps a broker's limits when the broker ends. Its successor starts without
//! information: usage under those limits looks like a low demand, machines without a report count
//! as idle, and the fabric's limits are unknown. Its first limits would be too high for some
//! services and too low for others, for a period.
//!
//! The successor [inherits the limits](RackBroker::resume). Usage is measured against them, so that
//! its first report shows backlogs, and they stay unchanged until both hold, or until the timeout
//! (5 s):
//!
//! - every other machine of the rack has reported, or some have and [`PERIODS`] passed, in which
//!   every live machine reports;
//! - the fabric's limits on all services have arrived, where the policy has a fabric section. If
//!   only they are missing, the timeout grows by [`FABRIC_RESPONSE`] of a fabric period: a machine
//!   that becomes its rack's leader reports, and so receives limits, only after it has received reports
//!   for the timeout.
//!
//! The first reading shows no usage, so the broker reports from the second one on, a quarter of a
//! period later; the other machines keep its predecessor's last report meanwhile. The first period
//! is longer, up to a full period, where the lowest limit admits fewer than two bursts in a quarter
//! (`demand.rs`).
//!
//! Worked example: `a` may send 16 over the fabric, and each of two machines that always have a
//! backlog has 8. One broker restarts. After a period it has the other's report (unlimited demand)
//! but no fabric limits. The rack's limits alone would give `a` the whole rack. The broker keeps 8,
//! of which `a` uses all; `a` is backlogged, and has 8 when the fabric's limits arrive.
//!
//! Source: fill for a point that Parley §5.2 leaves open; the idea of graceful restart is RFC
//! 4724's.

use super::leader::part;
use super::{Mode, RackBroker};
use crate::demand::BURST;
use weir_units::{Bandwidth, Direction, Duration, PerDirection};

/// In this many periods every live machine has reported, also one that has just started; includes
/// one lost report of each.
const PERIODS: u64 = 2;
/// The first period, which has nothing to report, lasts at least this part of a period,
const FIRST: (u64, u64) = (1, 4);
/// and admits this many bursts.
const BURSTS: u64 = 2;
/// The part of a fabric period within which the fabric broker sends limits after a report that is
/// not lost: it computes once a period.
const FABRIC_RESPONSE: (u64, u64) = (5, 4);

impl RackBroker {
    /// Inherits the limits that an earlier broker of this machine left in force, one for each leaf
    /// service, ascending. Must be called before the first period.
    ///
    /// # Panics
    ///
    /// If the number of limits differs from the number of leaf services.
    pub fn resume(&mut self, limits: &[PerDirection<Bandwidth>]) {
        assert_eq!(limits.len(), self.allocator.leaves().len(), "a limit for each leaf service");
        for direction in Direction::ALL {
            self.own.inherit(direction, limits.iter().map(|limits| limits[direction]).collect());
        }
        self.resuming = true;
    }

    /// The length of the interval that begins.
    pub(super) fn interval_length(&self) -> Duration {
        let whole = self.config.period;
        if !self.resuming || self.round > 0 {
            return self.config.interval;
        }
        let limits = Direction::ALL.into_iter().flat_map(|direction| &self.own.limits[direction]);
        let lowest = limits.min().map_or(u64::MAX, |limit| limit.bps().max(1));
        let bursts = Duration::from_nanos(BURSTS * BURST.get() * 8_000_000_000 / lowest);
        bursts.max(part(whole, FIRST)).min(whole)
    }

    /// Whether the limits in force are inherited from an earlier broker.
    pub fn is_resuming(&self) -> bool {
        self.resuming
    }

    /// Whether the inherited limits stay for one more period. Once they are given up, they do not
    /// return.
    pub(super) fn keeps_inherited_limits(&mut self) -> bool {
        let age = self.now.saturating_since(self.started);
        let all = (0..self.last_reports.len()).all(|index| index == self.index || self.is_alive(index));
        let rack = self.mode == Mode::Runtime && self.round > 1 && (all || age >= self.config.period * PERIODS);
        let known = |leaf| self.fabric.stamp(leaf, self.now).is_some();
        let fabric = !self.leader.uses_fabric || (0..self.allocator.leaves().len()).all(known);
        let response = if rack && !fabric { part(self.config.fabric_period, FABRIC_RESPONSE) } else { Duration::ZERO };
        let longest = self.config.timeout + response;
        self.resuming = self.resuming && age < longest && !(rack && fabric);
        self.resuming
    }
}
