//! Machines that cannot reach the fabric broker.
//!
//! Problem: the rack's leader may have no stream to the fabric broker (a certificate of another CA, no session
//! configured, a filter on its path) while other machines of the rack could have one.
//!
//! Rule: a machine is **shut out**
//!
//! - while it leads, has needed a stream for [`WITHOUT_STREAM`] of a fabric period and had none ([`Reach::Trying`]),
//! - while it has no session that could open one ([`Reach::Never`]),
//! - when it has led for [`REFUSED`] fabric periods without new limits by its own stream: a broker that takes its
//!   reports sends some within two, and within three if it has just started.
//!
//! A shut-out machine broadcasts a notice of this once a period, and of its end at once; a notice holds for the rack's
//! timeout. A machine leads if all live machines with lower ids are shut out. With k of them shut out the next k²
//! lead, until one of them broadcasts that limits have arrived by its own stream; the machines after it then end
//! their leadership. A shut-out leader goes on trying, so the lowest id leads alone again as soon as it is not shut out
//! any more. If all machines are shut out (the broker is down), all lead.
//!
//! **Bound.** 1, 2, 6, then 42 machines lead, at intervals of [`WITHOUT_STREAM`] and a rack's period. The last limits
//! are a period old at most when the sessions fail, and the broker sends the next ones within a period of a report:
//!
//! | at most | with Table 1's times | until |
//! |---|---|---|
//! | a period | 10 s | the sessions fail |
//! | three times 3/4 of a period, and a rack's period | 25.5 s | a machine leads that reaches the broker |
//! | a period | 10 s | its first limits |
//!
//! 45.5 s, so **a rack of up to 42 machines keeps its limits, which hold for 50 s, if any machine reaches the broker**.
//! Reports that are refused take longer to show: limits stay if one set of leaders is refused, not if two are.
//!
//! A replayed notice has no effect on a machine that has received it, a later one, or a later report: a notice
//! must be newer than the last one and not older than the newest report. To other machines (one that has just started)
//! it adds leaders for the timeout.
//!
//! Source: a fill; Parley does not say how leaders are chosen.

use super::leader::part;
use super::{Output, RackBroker, Reach};
use crate::fabric_message::ShutOutNotice;
use std::ops::RangeInclusive;
use weir_units::{Duration, Instant, MachineId};

/// After this part of a fabric period a leader without a stream is shut out: longer than the brokers take to replace
/// their leader (`weir fabric --lease`, half a period, and the sessions' longest wait, an eighth), and short enough
/// that three times this is within the time for which limits hold.
const WITHOUT_STREAM: (u64, u64) = (3, 4);
/// After so many fabric periods without limits by its own stream, the broker refuses a leader's reports. The limits of
/// the next leader follow within two more, so it is earlier where limits hold for less than five, but not below the two
/// within which limits arrive.
const REFUSED: RangeInclusive<u64> = 2..=3;
/// The fabric periods from then until limits of the next leader are in force everywhere.
const JOINED: u64 = 2;
/// After this part of a fabric period without limits by its own stream, a leader repeats its report whatever others
/// relay. A relay before that postpones the report by 3/4 of a period at most, in time for the broker's next round, so
/// limits arrive within 5/2.
const OVERDUE: (u64, u64) = (3, 2);

/// The state of this machine's reach, and the notices of the others.
#[derive(Debug)]
pub(super) struct ShutOut {
    reach: Reach,
    /// Since when the machine has led and had no stream.
    trying_since: Option<Instant>,
    /// While the machine leads: when the leadership began, or the newest limits arrived by its own stream.
    without_limits_since: Option<Instant>,
    /// Whether limits have arrived by its own stream since the leadership began or the stream was lost.
    reaches: bool,
    /// The last notice of this machine: whether it is shut out.
    stated: bool,
    /// By index in the rack: the last notice of each other machine.
    others: Vec<Option<Statement>>,
}

#[derive(Debug, Clone, Copy)]
struct Statement {
    /// The epoch and the round, in which an end follows the notice that it ends.
    stamp: (u64, u64, bool),
    shut_out: bool,
    /// The time until which the notice holds.
    until: Instant,
}

impl ShutOut {
    pub(super) fn new(machines: usize) -> Self {
        Self {
            reach: Reach::default(),
            trying_since: None,
            without_limits_since: None,
            reaches: false,
            stated: false,
            others: vec![None; machines],
        }
    }

    /// The policy needs no leader any more.
    pub(super) fn forget_leadership(&mut self) {
        (self.trying_since, self.without_limits_since) = (None, None);
        (self.reaches, self.stated) = (false, false);
    }
}

impl RackBroker {
    /// Whether this machine cannot reach the fabric broker, by the rule of `shut_out.rs`.
    pub fn is_shut_out(&self) -> bool {
        let for_longer =
            |since: Option<Instant>, than| since.is_some_and(|since| self.now.saturating_since(since) >= than);
        self.leader.uses_fabric
            && (self.shut_out.reach == Reach::Never
                || for_longer(self.shut_out.trying_since, part(self.config.fabric_period, WITHOUT_STREAM))
                || for_longer(self.shut_out.without_limits_since, self.refused_after()))
    }

    /// The time without limits by its own stream after which the broker refuses this machine's reports.
    fn refused_after(&self) -> Duration {
        let (period, timeout) = (self.config.fabric_period, self.config.fabric_timeout);
        timeout.saturating_sub(period * JOINED).clamp(period * *REFUSED.start(), period * *REFUSED.end())
    }

    /// Whether this machine has led for [`OVERDUE`] without limits by its own stream.
    pub(super) fn is_overdue(&self) -> bool {
        let least = part(self.config.fabric_period, OVERDUE);
        self.shut_out.without_limits_since.is_some_and(|since| self.now.saturating_since(since) >= least)
    }

    /// The machine that leads the rack as far as this one has received: the live machine with the lowest id that is not
    /// shut out, or with the lowest id if all are. `None` while this machine has no live peer.
    pub fn leader(&self) -> Option<MachineId> {
        let live = || (0..self.last_reports.len()).filter(|index| *index == self.index || self.is_alive(*index));
        let chosen = live().find(|index| !self.is_index_shut_out(*index)).or_else(|| live().next());
        chosen.filter(|_| self.mode == super::Mode::Runtime).map(|index| self.allocator.machines()[index])
    }

    /// Whether this machine leads, as far as the machines with lower ids decide this.
    pub(super) fn is_next(&self) -> bool {
        let (mut shut_out, mut able, mut reached) = (0_usize, 0, false);
        for index in (0..self.index).filter(|index| self.is_alive(*index)) {
            match self.statement(index) {
                Some(true) => shut_out += 1,
                statement => {
                    able += 1;
                    reached |= statement.is_some();
                }
            }
        }
        able == 0 || (able < shut_out.saturating_mul(shut_out) && !reached)
    }

    /// The number of live machines with lower ids. If this machine leads, they lead as well or try to, and so use the
    /// same brokers.
    pub fn leads_after(&self) -> usize {
        (0..self.index).filter(|index| self.is_alive(*index)).count()
    }

    /// Whether a machine of the rack has broadcast that it is shut out, or this one is.
    pub(super) fn is_index_shut_out(&self, index: usize) -> bool {
        if index == self.index { self.is_shut_out() } else { self.statement(index) == Some(true) }
    }

    /// Whether another machine is shut out by its last notice, while that holds.
    fn statement(&self, index: usize) -> Option<bool> {
        let statement = self.shut_out.others[index].filter(|statement| self.now < statement.until);
        statement.map(|statement| statement.shut_out)
    }

    pub(super) fn take_reach(&mut self, reach: Reach) {
        self.shut_out.reach = reach;
        self.follow_leadership(self.leader.was_leader);
        self.state_end();
    }

    /// The newest limits arrived by this machine's own stream.
    pub(super) fn reached_by_limits(&mut self) {
        let since = &mut self.shut_out.without_limits_since;
        *since = since.and(Some(self.now));
        self.shut_out.reaches = since.is_some() && self.shut_out.reach == Reach::Able;
        self.state_end();
    }

    /// Times count from the beginning of the leadership: a stream is needed only while the machine leads.
    fn follow_leadership(&mut self, leads: bool) {
        let (now, state) = (self.now, &mut self.shut_out);
        let begin = |counts: bool, since: Option<Instant>| counts.then_some(since.unwrap_or(now));
        state.trying_since = begin(leads && state.reach == Reach::Trying, state.trying_since);
        state.without_limits_since = begin(leads, state.without_limits_since);
        state.reaches &= leads && state.reach == Reach::Able;
    }

    pub(super) fn take_notice(&mut self, notice: &ShutOutNotice) {
        if notice.policy != self.allocator.policy().digest() {
            self.counters.other_policy += 1;
            return;
        }
        let Some(index) = self.peer(notice.machine) else {
            self.counters.unknown_machine += 1;
            return;
        };
        let stamp = (notice.epoch, notice.round, !notice.shut_out);
        let stated = self.shut_out.others[index].map(|statement| statement.stamp);
        if self.is_older(index, (notice.epoch, notice.round)) || stated.is_some_and(|last| stamp <= last) {
            self.counters.notices_replayed += 1;
            return;
        }
        let until = self.now + self.config.timeout;
        self.shut_out.others[index] = Some(Statement { stamp, shut_out: notice.shut_out, until });
    }

    /// At the end of an interval: follows the leadership, and broadcasts a change, and in each period that this machine
    /// is shut out or leads in place of several that are.
    pub(super) fn state_shut_out(&mut self, leads: bool, ends_period: bool) {
        self.follow_leadership(leads);
        let shut_out = self.is_shut_out();
        let ends_others = self.shut_out.reaches && self.leads_after() > 1;
        if shut_out != self.shut_out.stated || ((shut_out || ends_others) && ends_period) {
            self.state(shut_out);
        }
    }

    /// Broadcasts at once that this machine is no longer shut out.
    fn state_end(&mut self) {
        if self.shut_out.stated && !self.is_shut_out() {
            self.state(false);
        }
    }

    fn state(&mut self, shut_out: bool) {
        self.shut_out.stated = shut_out;
        if self.is_alone() {
            return;
        }
        self.counters.notices += 1;
        self.outputs.push_back(Output::ShutOut(ShutOutNotice {
            machine: self.machine,
            policy: self.allocator.policy().digest(),
            epoch: self.epoch,
            round: self.round,
            shut_out,
        }));
    }
}
