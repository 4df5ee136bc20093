//! Epochs of machines that are lower than the known ones: notices to them, and the notices of machines to this broker.
//! The rule is in [`crate::epoch`].

use super::racks::Rack;
use super::{FabricBroker, FabricOutput};
use crate::epoch::{EpochNotice, LARGEST_CLAIM};
use weir_units::{Duration, MachineId};

/// At most one notice in this part of a period to a machine: a report may have several parts, and leaders repeat
/// reports after two thirds of a period.
const NOTICE_EVERY: (u64, u64) = (1, 20);

impl FabricBroker {
    /// The broker's epoch. It rises where machines have a higher one.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Sends a machine that ever reported the newest stamp of it, where its report has an older one.
    pub(super) fn notify(&mut self, rack: usize, machine: MachineId, stamp: (u64, u64)) {
        let (of, whole) = NOTICE_EVERY;
        let least = Duration::from_nanos(self.config.period.nanos() * of / whole);
        let Some(reporter) = self.racks[rack].reporter(machine) else { return };
        let (epoch, round) = reporter.stamp;
        let is_due = reporter.noticed.is_none_or(|last| self.now.saturating_since(last) >= least);
        if stamp < (epoch, round) && is_due && epoch <= LARGEST_CLAIM {
            reporter.noticed = Some(self.now);
            self.counters.epoch_notices += 1;
            let policy = self.allocator.policy().digest();
            let notice = EpochNotice { from: None, policy, to: Some(machine), epoch, round };
            self.notices.push_back(FabricOutput::NotifyEpoch(notice));
        }
    }

    pub(super) fn take_epoch_notice(&mut self, notice: &EpochNotice) {
        let policy = self.allocator.policy();
        if notice.policy != policy.digest() {
            self.counters.other_policy += 1;
            return;
        }
        let is_known = |machine: MachineId| policy.network().machines().get(machine.index()).is_some();
        if notice.to.is_some() || !notice.from.is_some_and(is_known) {
            self.counters.unknown_machine += 1;
            return;
        }
        if notice.epoch > LARGEST_CLAIM {
            self.counters.malformed += 1;
            return;
        }
        let Some(epoch) = notice.raises((self.epoch, self.round)) else { return };
        if !self.raises.allow(self.now, self.config.period) {
            return;
        }
        self.epoch = epoch;
        self.counters.epochs_raised += 1;
        self.notices.push_back(FabricOutput::StoreEpoch(epoch));
        // Replies to proposals of the old epoch are obsolete, and machines ignored its limits.
        self.outdated = true;
        self.exchange.cancel();
        self.racks.iter_mut().for_each(Rack::repeat_period);
        if self.round > 0 {
            self.start_allocation();
        }
    }
}
