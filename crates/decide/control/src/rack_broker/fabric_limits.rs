//! The fabric broker's limits on a rack: acceptance, relay within the rack, expiry.
//!
//! The limits reach one machine of the rack (its leader), which relays them to all others at once
//! and then repeats one part every other period, so that a lost datagram or a late machine costs
//! little. Limits carry the fabric broker's `(epoch, round)`, so relays may be repeated and may
//! come from several machines: the newer limits stay. Their age travels with them, so that they
//! expire on all machines of the rack at the same time, the fabric's timeout after their arrival
//! (50 s). A fabric broker whose epoch went down receives a notice from the leaders (`epochs.rs`).
//!
//! An attacker can replay recorded limits only to a machine that received neither them nor newer
//! ones. That machine keeps them until the next limits, or for the timeout. They are still limits
//! that the fabric broker computed for this rack.
//!
//! Worked example: limits of round 7 arrive at the leader at 100 s and expire at 150 s. A relay of
//! them that reaches another machine at 104 s has the age 4 s, and the limits expire there at 150 s
//! too.
//!
//! Source: Parley §5.3 (the timeout). The relay and expiry by age are a fill: the paper leaves the
//! distribution within a rack open.

use super::{Mode, Output, RackBroker};
use crate::fabric_message::{LimitsRelay, RackLimits, RateRow};
use crate::parts::well_formed;
use weir_alloc::{Constraint, FabricLimit};
use weir_units::{Bandwidth, Direction, Duration, Instant, PerDirection};

/// The last limits of the fabric broker.
#[derive(Debug)]
pub(super) struct FabricLimits {
    /// By leaf.
    leaves: Vec<LeafLimits>,
    /// The limits in force, by leaf; empty where there are none. Updated at the end of each period.
    in_force: PerDirection<Vec<FabricLimit>>,
    /// Whether any limits are unexpired.
    fresh: bool,
    /// The received parts of the newest round, each with its time of expiry.
    newest: Vec<(RackLimits, Instant)>,
    /// The part to repeat next.
    next_part: usize,
    /// Whether the last period repeated a part.
    repeats: bool,
    /// The newest (epoch, round) of the fabric broker, as far as the rack has sent it.
    pub(super) known: (u64, u64),
    /// The (epoch, round) of the last limits that the fabric broker sent to this machine itself.
    pub(super) direct: Option<(u64, u64)>,
}

#[derive(Debug, Clone, Copy)]
struct LeafLimits {
    stamp: (u64, u64),
    until: Instant,
    limits: PerDirection<Bandwidth>,
}

impl FabricLimits {
    pub(super) fn new(leaves: usize) -> Self {
        let unlimited =
            LeafLimits { stamp: (0, 0), until: Instant::ZERO, limits: PerDirection::both(Bandwidth::UNLIMITED) };
        Self {
            leaves: vec![unlimited; leaves],
            in_force: PerDirection::default(),
            fresh: false,
            newest: Vec::new(),
            next_part: 0,
            repeats: false,
            known: (0, 0),
            direct: None,
        }
    }

    /// The limits in force by leaf; empty where there are none.
    pub(super) fn in_force(&self, direction: Direction) -> &[FabricLimit] {
        &self.in_force[direction]
    }

    /// The limit in force on a leaf service.
    pub(super) fn limit(&self, direction: Direction, leaf: usize) -> Bandwidth {
        self.in_force[direction].get(leaf).map_or(Bandwidth::UNLIMITED, |limit| limit.limit)
    }

    /// The `(epoch, round)` of the fabric broker's last limits for a leaf service; `None` once they
    /// expired.
    pub(super) fn stamp(&self, leaf: usize, now: Instant) -> Option<(u64, u64)> {
        let entry = self.leaves[leaf];
        (now < entry.until).then_some(entry.stamp)
    }

    /// Updates the limits in force; `otherwise` holds by leaf where none have arrived or they
    /// expired. Returns whether the last unexpired ones just expired.
    pub(super) fn renew(&mut self, now: Instant, otherwise: &PerDirection<Vec<Bandwidth>>) -> bool {
        for direction in Direction::ALL {
            let entries = self.leaves.iter().zip(&otherwise[direction]);
            let limits = entries.map(|(entry, otherwise)| FabricLimit {
                limit: if now < entry.until { entry.limits[direction] } else { *otherwise },
                decided_by: Constraint::Fabric,
            });
            self.in_force[direction].clear();
            self.in_force[direction].extend(limits);
            if self.in_force[direction].iter().all(|limit| limit.limit.is_unlimited()) {
                self.in_force[direction].clear();
            }
        }
        let fresh = self.leaves.iter().any(|entry| now < entry.until);
        std::mem::replace(&mut self.fresh, fresh) && !fresh
    }

    /// Clears all limits but keeps the stamps, which still identify replays. This is no expiry: the
    /// next [`Self::renew`] does not report one.
    pub(super) fn clear(&mut self) {
        self.fresh = false;
        self.leaves.iter_mut().for_each(|entry| entry.until = Instant::ZERO);
        self.newest.clear();
    }

    /// Keeps a part for repetition and returns whether it is the first of a newer round.
    fn keep(&mut self, limits: &RackLimits, until: Instant) -> bool {
        let stamp = (limits.epoch, limits.round);
        let newest = self.newest.first().map_or((0, 0), |(limits, _)| (limits.epoch, limits.round));
        if stamp > newest {
            self.newest.clear();
            self.next_part = 0;
        }
        if stamp >= newest {
            self.newest.push((limits.clone(), until));
        }
        stamp > newest
    }

    /// The next part to repeat; it may have expired.
    fn repeat(&mut self) -> Option<&(RackLimits, Instant)> {
        let part = self.next_part % self.newest.len().max(1);
        self.next_part = part + 1;
        self.newest.get(part)
    }
}

impl RackBroker {
    /// Handles limits from the fabric broker itself.
    pub(super) fn take_limits(&mut self, limits: &RackLimits) {
        let known = self.counters.limits_known;
        let is_new = self.accept_limits(limits, Duration::ZERO, true);
        // A relay of another leader may have been faster.
        if is_new || self.counters.limits_known > known {
            self.reached_by_limits();
        }
        if is_new {
            self.relay(limits.clone(), Duration::ZERO);
        }
    }

    /// Handles limits that another machine of the rack relays.
    pub(super) fn take_relay(&mut self, relay: &LimitsRelay) {
        self.accept_limits(&relay.limits, relay.age, false);
    }

    /// Whether limits do not fit the policy or the rack, which is counted.
    pub(super) fn is_refused(&mut self, limits: &RackLimits) -> bool {
        let leaf = |row: &RateRow| self.allocator.leaves().binary_search(&row.service).is_ok();
        let counter = if limits.policy != self.allocator.policy().digest() {
            &mut self.counters.limits_other_policy
        } else if limits.rack != self.allocator.rack() {
            &mut self.counters.limits_other_rack
        } else if !self.leader.uses_fabric
            || !well_formed(limits.first, limits.last, &limits.rows)
            || !limits.rows.iter().all(leaf)
        {
            &mut self.counters.limits_malformed
        } else {
            return false;
        };
        *counter += 1;
        true
    }

    /// Checks and stores limits, of this machine's `own` stream or relayed, and returns whether they had
    /// new information.
    fn accept_limits(&mut self, limits: &RackLimits, age: Duration, own: bool) -> bool {
        if self.is_refused(limits) {
            return false;
        }
        if age >= self.config.fabric_timeout {
            self.counters.limits_expired += 1;
            return false;
        }
        let stamp = (limits.epoch, limits.round);
        if own {
            self.fabric.direct = Some(stamp);
            self.notify_fabric();
        }
        if stamp.0 < self.fabric.known.0 {
            self.take_older_epoch(own);
            return false;
        }
        self.fabric.known = stamp.max(self.fabric.known);
        let until = self.now + self.config.fabric_timeout.saturating_sub(age);
        let (mut is_new, mut known) = (false, false);
        let mut rows = limits.rows.iter().peekable();
        for (service, entry) in self.allocator.leaves().iter().zip(&mut self.fabric.leaves) {
            if *service < limits.first || *service > limits.last {
                continue;
            }
            let row = rows.next_if(|row| row.service == *service);
            known |= entry.stamp == stamp;
            if entry.stamp < stamp {
                is_new = true;
                let limits = row.map_or(PerDirection::both(Bandwidth::UNLIMITED), |row| row.rates);
                *entry = LeafLimits { stamp, until, limits };
            }
        }
        if is_new {
            self.counters.limits_accepted += 1;
            // A leader goes on reporting until limits arrive by its own stream.
            if self.fabric.keep(limits, until) && (own || !self.is_overdue()) {
                self.fabric_round_received(age);
            }
        } else if known {
            self.counters.limits_known += 1;
        } else {
            self.counters.limits_replayed += 1;
        }
        is_new
    }

    /// Repeats one part of the newest limits, every other period: with 1,000 limited services in a
    /// rack of 40 the leader's traffic stays below 3 Mb/s.
    pub(super) fn repeat_limits(&mut self) {
        self.fabric.repeats = !self.fabric.repeats;
        if !self.fabric.repeats {
            return;
        }
        if let Some((limits, until)) = self.fabric.repeat()
            && self.now < *until
        {
            let age = self.config.fabric_timeout.saturating_sub(until.saturating_since(self.now));
            let limits = limits.clone();
            self.relay(limits, age);
        }
    }

    fn relay(&mut self, limits: RackLimits, age: Duration) {
        if !self.is_alone() {
            self.outputs.push_back(Output::Relay(LimitsRelay { age, limits }));
        }
    }

    /// Whether limits of the fabric are in force on this machine.
    pub fn has_fabric_limits(&self) -> bool {
        self.mode == Mode::Runtime && self.fabric.fresh
    }
}
