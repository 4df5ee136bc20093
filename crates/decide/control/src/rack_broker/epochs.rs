//! Epochs of the rack's machines and of the fabric broker that are lower than the known ones: notices to their owners,
//! and the notices of others to this machine. The rule is in [`crate::epoch`].

use super::leader::part;
use super::{Output, RackBroker};
use crate::epoch::{EpochNotice, LARGEST_CLAIM, NOTICE_EVERY, Raises};
use crate::report::UsageRow;
use weir_units::{Instant, MachineId};

/// The known epochs, and the machines that report in older ones.
#[derive(Debug)]
pub(super) struct Epochs {
    /// By index in the rack: the newest (epoch, round) of its reports and notices.
    newest: Vec<(u64, u64)>,
    /// By index in the rack: the time of the last notice to it.
    noticed: Vec<Option<Instant>>,
    /// The same of the fabric broker, and of notices about it to the rack.
    noticed_fabric: Option<Instant>,
    spread: Option<Instant>,
    /// By index in the rack: the times of the first and the last report of an older epoch since the last accepted one.
    older: Vec<Option<(Instant, Instant)>>,
    /// The epochs in which this machine continued.
    raises: Raises,
    /// The rows of this machine's last report.
    pub(super) reported: Option<Vec<UsageRow>>,
}

impl Epochs {
    pub(super) fn new(machines: usize) -> Self {
        Self {
            newest: vec![(0, 0); machines],
            noticed: vec![None; machines],
            noticed_fabric: None,
            spread: None,
            older: vec![None; machines],
            raises: Raises::default(),
            reported: None,
        }
    }
}

impl RackBroker {
    /// The epoch of this machine's broker. It rises where others have a higher one.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The machines whose reports have had older epochs than the known ones for the timeout: this machine uses none of
    /// their demands.
    pub fn unheard(&self) -> impl Iterator<Item = MachineId> + '_ {
        let lasts = |(first, last): (Instant, Instant)| {
            last.saturating_since(first) >= self.config.timeout && self.now.saturating_since(last) < self.config.timeout
        };
        let machines = self.allocator.machines().iter().zip(&self.epochs.older);
        machines.filter(move |(_, older)| older.is_some_and(lasts)).map(|(machine, _)| *machine)
    }

    /// Whether a machine's report is of an older epoch than the known one.
    pub(super) fn is_of_older_epoch(&mut self, index: usize, epoch: u64) -> bool {
        let is_older = epoch < self.epochs.newest[index].0;
        if is_older {
            let first = self.epochs.older[index].map_or(self.now, |(first, _)| first);
            self.epochs.older[index] = Some((first, self.now));
        }
        is_older
    }

    pub(super) fn accepted_report(&mut self, index: usize, stamp: (u64, u64)) {
        self.epochs.older[index] = None;
        self.is_older(index, stamp);
    }

    /// Whether the stamp of a machine's message is older than the known one. The machine receives a notice if so, and
    /// otherwise the stamp is the known one from now on.
    pub(super) fn is_older(&mut self, index: usize, stamp: (u64, u64)) -> bool {
        self.notify_peer(index, stamp);
        let newest = &mut self.epochs.newest[index];
        let is_older = stamp < *newest;
        *newest = stamp.max(*newest);
        is_older
    }

    /// Sends a machine the newest stamp of it, where its report has an older one.
    pub(super) fn notify_peer(&mut self, index: usize, stamp: (u64, u64)) {
        let newest = self.epochs.newest[index];
        if stamp < newest && self.is_due(self.epochs.noticed[index]) && newest.0 <= LARGEST_CLAIM {
            self.epochs.noticed[index] = Some(self.now);
            self.notify(Some(self.allocator.machines()[index]), newest);
        }
    }

    /// Sends the fabric broker the newest stamp of it, where the last limits that it sent to this machine have an older
    /// one.
    pub(super) fn notify_fabric(&mut self) {
        let (direct, known) = (self.fabric.direct, self.fabric.known);
        let is_older = direct.is_some_and(|direct| direct < known);
        if is_older && self.is_due(self.epochs.noticed_fabric) && known.0 <= LARGEST_CLAIM {
            self.epochs.noticed_fabric = Some(self.now);
            self.notify(None, known);
        }
    }

    /// Counts limits of an older epoch than the known one. Where another machine relays them, the fabric broker's epoch
    /// may have gone down, and the leader has started since: it receives the known one.
    pub(super) fn take_older_epoch(&mut self, own: bool) {
        if own {
            self.counters.limits_older_epoch += 1;
            return;
        }
        self.counters.limits_replayed += 1;
        let (epoch, round) = self.fabric.known;
        if self.is_due(self.epochs.spread) && epoch <= LARGEST_CLAIM {
            self.epochs.spread = Some(self.now);
            self.counters.epoch_notices += 1;
            let policy = self.allocator.policy().digest();
            let notice = EpochNotice { from: Some(self.machine), policy, to: None, epoch, round };
            self.outputs.push_back(Output::FabricEpoch(notice));
        }
    }

    fn is_due(&self, last: Option<Instant>) -> bool {
        let least = part(self.config.period, NOTICE_EVERY);
        last.is_none_or(|last| self.now.saturating_since(last) >= least)
    }

    fn notify(&mut self, to: Option<MachineId>, (epoch, round): (u64, u64)) {
        self.counters.epoch_notices += 1;
        let policy = self.allocator.policy().digest();
        self.outputs.push_back(Output::NotifyEpoch(EpochNotice { from: Some(self.machine), policy, to, epoch, round }));
    }

    /// Another machine of the rack has this stamp of the fabric broker.
    pub(super) fn take_fabric_epoch(&mut self, notice: &EpochNotice) {
        if self.accepts_notice(notice, None) {
            self.fabric.known = self.fabric.known.max((notice.epoch, notice.round));
            self.notify_fabric();
        }
    }

    /// Whether a notice fits the policy, the rack and its receiver; if not, it is counted.
    fn accepts_notice(&mut self, notice: &EpochNotice, to: Option<MachineId>) -> bool {
        let is_known = notice.from.map_or(self.leader.uses_fabric, |machine| self.peer(machine).is_some());
        let counter = if notice.policy != self.allocator.policy().digest() {
            &mut self.counters.other_policy
        } else if !is_known || notice.to != to {
            &mut self.counters.unknown_machine
        } else if notice.epoch > LARGEST_CLAIM {
            &mut self.counters.malformed
        } else {
            return true;
        };
        *counter += 1;
        false
    }

    pub(super) fn take_epoch_notice(&mut self, notice: &EpochNotice) {
        if !self.accepts_notice(notice, Some(self.machine)) {
            return;
        }
        if let Some(epoch) = notice.raises((self.epoch, self.round))
            && self.epochs.raises.allow(self.now, self.config.period)
        {
            self.epoch = epoch;
            self.counters.epochs_raised += 1;
            self.outputs.push_back(Output::StoreEpoch(epoch));
            self.report_again();
        }
    }

    /// Sends the last reports again, in the new epoch.
    fn report_again(&mut self) {
        if let Some(rows) = self.epochs.reported.take() {
            self.report_usage(&rows);
        }
        if self.leader.was_leader && self.counters.rack_reports > 0 {
            self.repeat_rack_report();
        }
    }
}
