//! Reported demands by rack, and the machines that reported them.

use super::FabricBroker;
use crate::fabric_message::{RackReport, RateRow};
use crate::parts::well_formed;
use crate::rate::QuantisedRate;
use weir_units::{Direction, Duration, Instant, MachineId, PerDirection, RackId};

/// The state of one rack.
#[derive(Debug, Clone)]
pub(super) struct Rack {
    /// Machines that ever reported for the rack. Their stamps outlast their leadership: otherwise
    /// an old report could be replayed.
    reporters: Vec<Reporter>,
    /// Leaves that were reported in this period.
    reported: LeafSet,
    /// Whether any reports since the start of the broker have covered all leaves.
    complete: bool,
    forgotten: bool,
}

/// A machine that reported for its rack.
#[derive(Debug, Clone)]
pub(super) struct Reporter {
    machine: MachineId,
    last_report: Instant,
    /// Whether it reported in this period.
    this_period: bool,
    /// Whether the last limits were sent to it.
    received_limits: bool,
    pub(super) stamp: (u64, u64),
    /// The time of the last notice that its reports are of an older epoch.
    pub(super) noticed: Option<Instant>,
    /// Leaves that it reported under its current stamp.
    reported: LeafSet,
    /// Whether it replied to a proposal of the last allocation, so that it reports changed offers.
    replied: bool,
}

/// A set of leaves.
#[derive(Debug, Clone)]
pub(super) struct LeafSet(Vec<u64>);

impl LeafSet {
    pub(super) fn new(leaves: usize) -> Self {
        Self(vec![0; leaves.div_ceil(64)])
    }
    fn clear(&mut self) {
        self.0.fill(0);
    }
    /// Adds a leaf and returns whether it was absent.
    pub(super) fn add(&mut self, leaf: usize) -> bool {
        let (bits, bit) = (&mut self.0[leaf / 64], 1 << (leaf % 64));
        let new = *bits & bit == 0;
        *bits |= bit;
        new
    }
    /// The number of leaves in the set.
    pub(super) fn count(&self) -> usize {
        self.0.iter().map(|bits| bits.count_ones() as usize).sum()
    }
}

impl Rack {
    pub(super) fn new(leaves: usize) -> Self {
        Self { reporters: Vec::new(), reported: LeafSet::new(leaves), complete: false, forgotten: false }
    }

    pub(super) fn is_alive(&self, now: Instant, timeout: Duration) -> bool {
        self.reporters.iter().any(|reporter| now.saturating_since(reporter.last_report) < timeout)
    }

    /// The machines that receive the rack's limits: those that reported in the period that ended.
    /// Without any, the machine that reported last receives them until the timeout.
    pub(super) fn recipients(&self, now: Instant, timeout: Duration) -> Vec<MachineId> {
        let current = self.reporters.iter().filter(|reporter| reporter.this_period);
        let current: Vec<MachineId> = current.map(|reporter| reporter.machine).collect();
        if !current.is_empty() {
            return current;
        }
        let last = self.reporters.iter().max_by_key(|reporter| reporter.last_report);
        let alive = last.filter(|reporter| now.saturating_since(reporter.last_report) < timeout);
        alive.map(|reporter| reporter.machine).into_iter().collect()
    }

    /// Starts a period: from now on reports replace the demands of the one before.
    pub(super) fn next_period(&mut self) {
        self.reported.clear();
        self.reporters.iter_mut().for_each(|reporter| reporter.this_period = false);
    }

    /// The machines that receive the limits which end the period.
    pub(super) fn send_to(&mut self, machines: &[MachineId]) {
        for reporter in &mut self.reporters {
            reporter.received_limits = machines.contains(&reporter.machine);
        }
    }

    /// The limits of the last period had no effect: the machines that received them receive the next ones.
    pub(super) fn repeat_period(&mut self) {
        self.reporters.iter_mut().for_each(|reporter| reporter.this_period |= reporter.received_limits);
    }

    pub(super) fn start_exchange(&mut self) {
        self.reporters.iter_mut().for_each(|reporter| reporter.replied = false);
    }

    /// The state of a machine that ever reported.
    pub(super) fn reporter(&mut self, machine: MachineId) -> Option<&mut Reporter> {
        self.reporters.iter_mut().find(|reporter| reporter.machine == machine)
    }

    /// A machine replied to the proposed limits.
    pub(super) fn replied(&mut self, machine: MachineId) {
        let reporters = self.reporters.iter_mut().filter(|reporter| reporter.machine == machine);
        reporters.for_each(|reporter| reporter.replied = true);
    }
}

/// Whether a rate changed by more than a tenth, so that the fabric is shared again at once.
pub(super) fn is_changed(now: QuantisedRate, then: QuantisedRate) -> bool {
    let (now, then) = (now.bandwidth().bps(), then.bandwidth().bps());
    now.abs_diff(then) > then / 10
}

impl FabricBroker {
    /// The rack of a report that fits the policy; `None` if it does not, which is counted.
    pub(super) fn check(&mut self, report: &RackReport) -> Option<usize> {
        let policy = self.allocator.policy();
        if report.policy != policy.digest() {
            self.counters.other_policy += 1;
            return None;
        }
        let Some(machine) = policy.network().machines().get(report.machine.index()) else {
            self.counters.unknown_machine += 1;
            return None;
        };
        let leaves = self.allocator.leaves();
        let fits = |row: &RateRow| {
            let finite = Direction::ALL.iter().all(|direction| !row.rates[*direction].is_unlimited());
            finite && leaves.binary_search(&row.service).is_ok()
        };
        if !well_formed(report.first, report.last, &report.rows) || !report.rows.iter().all(fits) {
            self.counters.malformed += 1;
            return None;
        }
        Some(machine.rack().index())
    }

    pub(super) fn take_report(&mut self, report: &RackReport) {
        let Some(index) = self.check(report) else { return };
        let leaves = self.allocator.leaves();
        let racks = self.racks.len();
        let rack = &mut self.racks[index];
        let stamp = (report.epoch, report.round);
        let reporter = match rack.reporters.iter().position(|reporter| reporter.machine == report.machine) {
            Some(known) => &mut rack.reporters[known],
            None => {
                let reported = LeafSet::new(leaves.len());
                let machine = report.machine;
                rack.reporters.push(Reporter {
                    machine,
                    last_report: self.now,
                    this_period: false,
                    received_limits: false,
                    stamp: (0, 0),
                    noticed: None,
                    reported,
                    replied: false,
                });
                rack.reporters.last_mut().expect("one was just added")
            }
        };
        if stamp.0 < reporter.stamp.0 {
            self.counters.older_epoch += 1;
            self.notify(index, report.machine, stamp);
            return;
        }
        if stamp > reporter.stamp {
            // A machine that restarted has lost the proposal.
            reporter.replied &= stamp.0 == reporter.stamp.0;
            reporter.stamp = stamp;
            reporter.reported.clear();
        }
        let from = leaves.partition_point(|leaf| *leaf < report.first);
        let to = leaves.partition_point(|leaf| *leaf <= report.last);
        let mut is_new = false;
        let mut rows = report.rows.iter().peekable();
        for (leaf, service) in leaves.iter().enumerate().take(to).skip(from) {
            let row = rows.next_if(|row| row.service == *service);
            if stamp < reporter.stamp || !reporter.reported.add(leaf) {
                continue;
            }
            is_new = true;
            let rates = row.map_or(PerDirection::default(), |row| PerDirection {
                tx: QuantisedRate::of(row.rates.tx),
                rx: QuantisedRate::of(row.rates.rx),
            });
            let replaces = rack.reported.add(leaf);
            for direction in Direction::ALL {
                let demand = &mut self.demands[direction][leaf * racks + index];
                let before = *demand;
                *demand = if replaces { rates[direction] } else { rates[direction].max(*demand) };
                self.changed |= is_changed(*demand, before);
            }
        }
        if is_new {
            self.counters.accepted += 1;
            (reporter.last_report, reporter.this_period) = (self.now, true);
            // Another leader than the one that replied may have other offers.
            self.outdated |= !reporter.replied && self.exchange.has_proposed(index);
            rack.forgotten = false;
            if !rack.complete && rack.reported.count() == leaves.len() {
                rack.complete = true;
                self.incomplete_racks -= 1;
            }
        } else {
            self.counters.replayed += 1;
            self.notify(index, report.machine, stamp);
        }
    }

    pub(super) fn forget_stale(&mut self) {
        for (index, rack) in self.racks.iter_mut().enumerate() {
            if rack.forgotten || rack.reporters.is_empty() || rack.is_alive(self.now, self.config.timeout) {
                continue;
            }
            rack.forgotten = true;
            self.counters.forgotten += 1;
            for direction in Direction::ALL {
                let racks = self.allocator.racks();
                self.demands[direction].iter_mut().skip(index).step_by(racks).for_each(|d| *d = QuantisedRate::ZERO);
            }
        }
    }

    /// The number of racks whose demands were cleared and not reported again.
    pub fn racks_forgotten(&self) -> usize {
        self.racks.iter().filter(|rack| rack.forgotten).count()
    }

    /// The machine that reported last for a rack.
    pub fn leader(&self, rack: RackId) -> Option<MachineId> {
        let reporters = &self.racks[rack.index()].reporters;
        reporters.iter().max_by_key(|reporter| reporter.last_report).map(|reporter| reporter.machine)
    }
}
