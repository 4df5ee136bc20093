//! Reports of the rack's other machines and their liveness.

use super::{Mode, RackBroker, Stale};
use crate::parts::well_formed;
use crate::report::{UsageReport, UsageRow};
use weir_units::{Bandwidth, Direction, PerDirection};

impl RackBroker {
    pub(super) fn take_report(&mut self, report: &UsageReport) {
        if report.policy != self.allocator.policy().digest() {
            self.counters.other_policy += 1;
            return;
        }
        let Some(index) = self.peer(report.machine) else {
            self.counters.unknown_machine += 1;
            return;
        };
        let leaf = |row: &UsageRow| self.allocator.leaves().binary_search(&row.service).is_ok();
        if !well_formed(report.first, report.last, &report.rows) || !report.rows.iter().all(leaf) {
            self.counters.malformed += 1;
            return;
        }
        let stamp = (report.epoch, report.round);
        if self.is_of_older_epoch(index, report.epoch) {
            self.counters.older_epoch += 1;
            self.notify_peer(index, stamp);
            return;
        }
        let room = PerDirection { tx: self.room_of_each(Direction::Tx), rx: self.room_of_each(Direction::Rx) };
        let mut is_new = false;
        let mut rows = report.rows.iter().peekable();
        for leaf in 0..self.allocator.leaves().len() {
            let service = self.allocator.leaves()[leaf];
            if service < report.first || service > report.last {
                continue;
            }
            let row = rows.next_if(|row| row.service == service);
            let instance = self.allocator.instance(leaf, index);
            if self.stamps[instance] >= stamp {
                continue;
            }
            is_new = true;
            self.stamps[instance] = stamp;
            for direction in Direction::ALL {
                let demand = row.map_or(Bandwidth::ZERO, |row| row.demand(direction).bandwidth());
                let before = std::mem::replace(&mut self.demands[direction][instance], demand);
                let limited = !self.own.limits[direction][leaf].is_unlimited();
                let least = if limited { 0 } else { room[direction].bps() };
                self.changed |= demand.bps().abs_diff(before.bps()) > least.max(before.bps() / 10);
            }
        }
        if is_new {
            self.counters.accepted += 1;
            self.last_reports[index] = Some(self.now);
            self.accepted_report(index, stamp);
        } else {
            self.counters.replayed += 1;
            self.notify_peer(index, stamp);
        }
    }

    /// The index of another machine of the rack.
    pub(super) fn peer(&self, machine: weir_units::MachineId) -> Option<usize> {
        let index = self.allocator.machines().iter().position(|id| *id == machine)?;
        (index != self.index).then_some(index)
    }

    /// Whether a machine reported within the timeout.
    pub(super) fn is_alive(&self, index: usize) -> bool {
        self.last_reports[index].is_some_and(|received| self.now.saturating_since(received) < self.config.timeout)
    }

    pub(super) fn choose_mode(&mut self) {
        let any_alive = self.is_alone() || (0..self.last_reports.len()).any(|index| self.is_alive(index));
        let mode = if any_alive { Mode::Runtime } else { Mode::Static };
        if self.mode == Mode::Runtime && mode == Mode::Static {
            self.counters.fallbacks += 1;
        }
        self.mode = mode;
    }

    pub(super) fn forget_stale(&mut self) {
        if self.config.stale == Stale::Keep {
            return;
        }
        for index in (0..self.last_reports.len()).filter(|index| *index != self.index) {
            if self.is_alive(index) {
                continue;
            }
            for leaf in 0..self.allocator.leaves().len() {
                let instance = self.allocator.instance(leaf, index);
                self.demands.tx[instance] = Bandwidth::ZERO;
                self.demands.rx[instance] = Bandwidth::ZERO;
            }
        }
    }
}
