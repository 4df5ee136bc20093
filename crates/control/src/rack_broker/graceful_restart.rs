//! Limits that an earlier broker of the same machine left in force, until this one knows as much.
//!
//! Problem: the datapath keeps a broker's limits when the broker ends, and the next one knows nothing: what its services use is what
//! those limits leave them, so it would take them to be content with that; whom it has not heard yet it takes to want nothing;
//! and of the fabric's limits it has no word. Its first limits would be too high for some and too low for others, for a period.
//!
//! Approach: it [takes the limits over](RackBroker::resume). Usage is measured against them, so that it tells from its first report on what
//! is backlogged; and they stay as they are until
//!
//! - every other machine of the rack has spoken, or some have and two periods passed, in which every one that lives speaks;
//! - where the policy speaks of the fabric, its word is there on all services;
//!
//! or for the timeout (5 s), whatever is missing then. Where it is the fabric's word alone, for the timeout and as long as the fabric broker may take
//! to answer besides: a machine that is to lead its rack asks for that word only when it has listened for the timeout. Its first reading of the meters shows
//! no usage, so it reports from the second on, which it makes a quarter of a period later: the others keep the last word of the broker before it
//! meanwhile. Longer, up to a period, where the lowest limit lets less than two lumps through by then, which would tell little (`demand.rs`).
//!
//! Worked example: `a` may send 16 over the fabric, two machines of the rack always have more, and each has 8. One's broker begins anew.
//! After a period it has heard the other, whose demand is without bound, and not the fabric: limits of the rack alone would
//! give `a` all that the rack allows, and an `a` that is content with 8 would get a third of 16 for a period, as a machine that may
//! start does (`weir-alloc`, `rack/room.rs`). It leaves the 8, of which `a` uses all; so `a` is backlogged, and has 8 when the word comes.
//!
//! Source: fill for a point that Parley §5.2 leaves open.

use super::leader::part;
use super::{Mode, RackBroker};
use crate::demand::BURST;
use weir_units::{Bandwidth, Direction, Duration, PerDirection};

/// In so many periods every machine that lives has been heard, also one that has just begun; a lost report of each included.
const PERIODS: u64 = 2;
/// The first period, in which nothing can be told, is this part of the others at least.
const FIRST: (u64, u64) = (1, 4);
/// And lets so many lumps through.
const BURSTS: u64 = 2;
/// The part of a fabric period within which the fabric broker answers a report that is not lost: it computes once a period.
const FABRIC_RESPONSE: (u64, u64) = (5, 4);

impl RackBroker {
    /// Takes over the limits that an earlier broker of this machine left in force, one for each leaf service, ascending. To be called
    /// before the first period.
    ///
    /// # Panics
    ///
    /// If there are not as many as leaf services.
    pub fn resume(&mut self, limits: &[PerDirection<Bandwidth>]) {
        assert_eq!(limits.len(), self.allocator.leaves().len(), "a limit for each leaf service");
        for direction in Direction::ALL {
            self.limits[direction] = limits.iter().map(|limits| limits[direction]).collect();
        }
        self.resuming = true;
    }

    /// How long the period is that begins.
    pub(super) fn period_length(&self) -> Duration {
        let whole = self.config.period;
        if !self.resuming || self.round > 0 {
            return whole;
        }
        let limits = Direction::ALL.into_iter().flat_map(|direction| &self.limits[direction]);
        let lowest = limits.min().map_or(u64::MAX, |limit| limit.bps().max(1));
        let bursts = Duration::from_nanos(BURSTS * BURST.get() * 8_000_000_000 / lowest);
        bursts.max(part(whole, FIRST)).min(whole)
    }

    /// Whether the limits in force are those that an earlier broker left.
    pub fn is_resuming(&self) -> bool {
        self.resuming
    }

    /// Whether they stay for one more period. Once they do not, they never do again.
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
