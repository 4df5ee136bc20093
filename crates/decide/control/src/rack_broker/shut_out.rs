//! Machines that cannot reach the fabric broker.
//!
//! Problem: the rack's leader may have no stream to the fabric broker (a certificate of another CA, no session
//! configured, a filter on its path) while other machines of the rack could have one.
//!
//! Rule: a machine is **shut out**
//!
//! - while it has needed a stream for the rack's timeout and had none ([`Reach::Trying`]),
//! - while it has no session that could open one ([`Reach::Never`]),
//! - when it has led for [`REFUSED`] of a fabric period without new limits by its own stream: a broker that takes its
//!   reports sends some within two, and within three if it has just started.
//!
//! A shut-out machine broadcasts this once a period, and its end at once; the statement holds for the timeout. A
//! machine leads if all live machines with lower ids are shut out. A shut-out leader goes on trying, so the lowest id
//! leads alone again as soon as its stream is up. If all machines are shut out (the broker is down), all lead.
//!
//! Worked example, with Table 1's times: the session of the first machine fails from 100 s on. At 105 s the machine
//! states that it is shut out, and the second machine leads from the end of its period, at 106 s at the latest, while
//! the fabric's last limits hold until 150 s. Each further machine that cannot reach the broker costs 6 s.
//!
//! A replayed statement has no effect: it must be newer than the last one and not older than the newest report of its
//! machine.
//!
//! Source: a fill; Parley does not say how leaders are chosen.

use super::leader::part;
use super::{Output, RackBroker, Reach};
use crate::fabric_message::ShutOutNotice;
use weir_units::{Instant, MachineId};

/// After this part of a fabric period without limits by its own stream, the broker refuses a leader's reports.
const REFUSED: (u64, u64) = (3, 1);
/// After this part of a fabric period without limits by its own stream, a leader repeats its report whatever others
/// relay. A relay before that postpones the report by 3/4 of a period at most, in time for the broker's next round, so
/// limits arrive within 5/2, before [`REFUSED`].
pub(super) const OVERDUE: (u64, u64) = (3, 2);

/// The state of this machine's reach, and the statements of the others.
#[derive(Debug)]
pub(super) struct ShutOut {
    reach: Reach,
    /// Since when the machine has needed a stream and had none.
    trying_since: Option<Instant>,
    /// While the machine leads: when the leadership began, or the newest limits arrived by its own stream.
    without_limits_since: Option<Instant>,
    /// The last statement of this machine.
    stated: bool,
    /// By index in the rack: the last statement of each other machine.
    others: Vec<Option<Statement>>,
}

#[derive(Debug, Clone, Copy)]
struct Statement {
    /// The epoch and the round, in which an end follows the statement that it ends.
    stamp: (u64, u64, bool),
    /// The end of the statement that the machine is shut out; `None` if it stated the opposite.
    until: Option<Instant>,
}

impl ShutOut {
    pub(super) fn new(machines: usize) -> Self {
        Self {
            reach: Reach::default(),
            trying_since: None,
            without_limits_since: None,
            stated: false,
            others: vec![None; machines],
        }
    }
}

impl RackBroker {
    /// Whether this machine cannot reach the fabric broker, by the rule of `shut_out.rs`.
    pub fn is_shut_out(&self) -> bool {
        let for_longer =
            |since: Option<Instant>, than| since.is_some_and(|since| self.now.saturating_since(since) >= than);
        self.leader.uses_fabric
            && (self.shut_out.reach == Reach::Never
                || for_longer(self.shut_out.trying_since, self.config.timeout)
                || self.lacks_limits_for(REFUSED))
    }

    /// Whether this machine has led for this part of a fabric period without limits by its own stream.
    pub(super) fn lacks_limits_for(&self, of_period: (u64, u64)) -> bool {
        let least = part(self.config.fabric_period, of_period);
        self.shut_out.without_limits_since.is_some_and(|since| self.now.saturating_since(since) >= least)
    }

    /// The machine that leads the rack as far as this one has received: the live machine with the lowest id that is not
    /// shut out, or with the lowest id if all are. `None` while this machine has no live peer.
    pub fn leader(&self) -> Option<MachineId> {
        let live = || (0..self.last_reports.len()).filter(|index| *index == self.index || self.is_alive(*index));
        let chosen = live().find(|index| !self.is_index_shut_out(*index)).or_else(|| live().next());
        chosen.filter(|_| self.mode == super::Mode::Runtime).map(|index| self.allocator.machines()[index])
    }

    /// The number of live machines with lower ids. If this machine leads, all of them are shut out, so they try to
    /// reach the same brokers.
    pub fn leads_after(&self) -> usize {
        (0..self.index).filter(|index| self.is_alive(*index)).count()
    }

    /// Whether a machine of the rack has stated that it is shut out, or this one is.
    pub(super) fn is_index_shut_out(&self, index: usize) -> bool {
        if index == self.index {
            return self.is_shut_out();
        }
        self.shut_out.others[index].and_then(|statement| statement.until).is_some_and(|until| self.now < until)
    }

    pub(super) fn take_reach(&mut self, reach: Reach) {
        let since = self.shut_out.trying_since.unwrap_or(self.now);
        self.shut_out.trying_since = (reach == Reach::Trying).then_some(since);
        self.shut_out.reach = reach;
        self.state_end();
    }

    /// The newest limits arrived by this machine's own stream.
    pub(super) fn reached_by_limits(&mut self) {
        let since = &mut self.shut_out.without_limits_since;
        *since = since.and(Some(self.now));
        self.state_end();
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
        let until = notice.shut_out.then_some(self.now + self.config.timeout);
        self.shut_out.others[index] = Some(Statement { stamp, until });
    }

    /// At the end of an interval: follows the leadership, and states a change, and in each period that this machine is
    /// shut out.
    pub(super) fn state_shut_out(&mut self, leads: bool, ends_period: bool) {
        let since = self.shut_out.without_limits_since.unwrap_or(self.now);
        self.shut_out.without_limits_since = leads.then_some(since);
        let shut_out = self.is_shut_out();
        if shut_out != self.shut_out.stated || (shut_out && ends_period) {
            self.state(shut_out);
        }
    }

    /// States at once that this machine is no longer shut out.
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
