//! What the fabric broker said: taken, told on in the rack, forgotten.
//!
//! The fabric broker's word reaches one machine of the rack (its leader), which tells it to all others at once and
//! then repeats a part of it every other period, so that a lost datagram or a machine that starts late costs little. The word
//! carries the fabric broker's own `(epoch, round)`, so any machine may relay it, often or twice, and two that relay
//! different words cannot confuse anyone: the newer one stays. Its age travels with it, so that all machines of the
//! rack forget it at the same time, the fabric's timeout after it arrived (Parley §5.3: 50 s).
//!
//! Whoever recorded a word can replay it, but only to a machine that heard neither it nor a newer one: that machine
//! then keeps it until the next word, or for the timeout. It is still a word that the fabric broker said of this rack.

use super::{Mode, Output, RackBroker};
use crate::fabric_message::{LimitsRelay, RackLimits, RateRow};
use crate::parts::well_formed;
use weir_alloc::{Constraint, FabricLimit};
use weir_units::{Bandwidth, Direction, Duration, Instant, PerDirection};

/// The last word of the fabric broker.
#[derive(Debug)]
pub(super) struct FabricLimits {
    /// By leaf.
    leaves: Vec<LeafLimits>,
    /// The limits in force, by leaf; empty where there are none. Renewed at each period's end.
    in_force: PerDirection<Vec<FabricLimit>>,
    /// Whether any word is fresh.
    fresh: bool,
    /// The parts of the newest round, as they came, with the time at which each is forgotten.
    newest: Vec<(RackLimits, Instant)>,
    /// The part that is repeated next.
    next_part: usize,
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

    /// The `(epoch, round)` of the fabric broker's last word about a leaf service; `None` once it is forgotten.
    pub(super) fn stamp(&self, leaf: usize, now: Instant) -> Option<(u64, u64)> {
        let entry = self.leaves[leaf];
        (now < entry.until).then_some(entry.stamp)
    }

    /// Ends what is too old. Whether the last word did.
    pub(super) fn renew(&mut self, now: Instant) -> bool {
        for direction in Direction::ALL {
            let limit =
                |entry: &LeafLimits| if now < entry.until { entry.limits[direction] } else { Bandwidth::UNLIMITED };
            let any = self.leaves.iter().any(|entry| !limit(entry).is_unlimited());
            let limits = self
                .leaves
                .iter()
                .filter(|_| any)
                .map(|entry| FabricLimit { limit: limit(entry), decided_by: Constraint::Fabric });
            self.in_force[direction].clear();
            self.in_force[direction].extend(limits);
        }
        let fresh = self.leaves.iter().any(|entry| now < entry.until);
        std::mem::replace(&mut self.fresh, fresh) && !fresh
    }

    /// Forgets everything but the stamps, which still tell a replay. Nothing fell silent: the next [`Self::renew`] does not
    /// tell of an end.
    pub(super) fn clear(&mut self) {
        self.fresh = false;
        self.leaves.iter_mut().for_each(|entry| entry.until = Instant::ZERO);
        self.newest.clear();
    }

    /// Keeps a part to repeat it. Whether it is the first of a newer round.
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

    /// The next part to repeat, if it is not forgotten yet.
    fn repeat(&mut self) -> Option<&(RackLimits, Instant)> {
        let part = self.next_part % self.newest.len().max(1);
        self.next_part = part + 1;
        self.newest.get(part)
    }
}

impl RackBroker {
    /// From the fabric broker itself.
    pub(super) fn take_limits(&mut self, limits: &RackLimits) {
        if self.accept_limits(limits, Duration::ZERO) {
            self.relay(limits.clone(), Duration::ZERO);
        }
    }

    /// As another machine of the rack tells it.
    pub(super) fn take_relay(&mut self, relay: &LimitsRelay) {
        self.accept_limits(&relay.limits, relay.age);
    }

    /// Whether they told something new.
    fn accept_limits(&mut self, limits: &RackLimits, age: Duration) -> bool {
        let leaf = |row: &RateRow| self.allocator.leaves().binary_search(&row.service).is_ok();
        let refused = if limits.policy != self.allocator.policy().digest() {
            Some(&mut self.counters.limits_other_policy)
        } else if limits.rack != self.allocator.rack() {
            Some(&mut self.counters.limits_other_rack)
        } else if !self.leader.uses_fabric
            || !well_formed(limits.first, limits.last, &limits.rows)
            || !limits.rows.iter().all(leaf)
        {
            Some(&mut self.counters.limits_malformed)
        } else if age >= self.config.fabric_timeout {
            Some(&mut self.counters.limits_expired)
        } else {
            None
        };
        if let Some(counter) = refused {
            *counter += 1;
            return false;
        }
        let stamp = (limits.epoch, limits.round);
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
            if self.fabric.keep(limits, until) {
                self.fabric_round_received(age);
            }
        } else if known {
            self.counters.limits_known += 1;
        } else {
            self.counters.limits_replayed += 1;
        }
        is_new
    }

    /// Repeats one part of the newest word, every other period: with 1,000 limited services in a rack of 40 the leader
    /// stays below 3 Mb/s with all that it sends.
    pub(super) fn repeat_limits(&mut self) {
        if self.round.is_multiple_of(2) {
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

    /// Whether limits of the fabric are in force here.
    pub fn has_fabric_limits(&self) -> bool {
        self.mode == Mode::Runtime && self.fabric.fresh
    }
}
