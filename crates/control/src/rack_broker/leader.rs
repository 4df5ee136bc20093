//! Who speaks for the rack at the fabric, and what it says.
//!
//! The leader is the live machine with the lowest id: one that hears others, and none with a lower id for the
//! timeout. It has listened for the timeout before it leads, since a machine that just started has heard nobody.
//!
//! Two may believe that they lead, while the rack is partitioned or a report is on its way. That is harmless: a leader
//! decides nothing. It reports what every machine of the rack knows; the fabric broker orders reports of one machine
//! by their stamps and takes the larger of what two machines say in one period; and limits are the rack's, whoever
//! hands them on. With no leader the fabric broker keeps the last report.
//!
//! What it says of a service: what the rack's own sharing gives it without limits of the fabric, or with them if that
//! is more (others that the fabric holds leave room); over the interval since the last report the largest of all
//! periods. The largest, because a service that happens to be silent when the report is made would otherwise count as
//! idle and be let go, all racks' services of that kind in turn. A service that is held by a limit counts as backlogged
//! and is offered its part of the uplink, so the fabric sees what it would take, not what it was left.
//!
//! Every machine keeps that interval, so that whoever leads next can speak for the past.

use super::{Mode, Output, RackBroker};
use crate::fabric_message::{RackReport, RateRow};
use crate::parts::split;
use crate::rate::rounded;
use weir_alloc::{RackShares, speaks_of_fabric};
use weir_policy::Policy;
use weir_units::{Bandwidth, Direction, Duration, Instant, PerDirection};

/// The interval that the next report covers.
#[derive(Debug)]
pub(super) struct Lead {
    /// Whether the policy speaks of the fabric at all.
    pub(super) concerned: bool,
    leads: bool,
    next_report: Instant,
    /// By leaf: the largest demand at the fabric of any period since the last report.
    offered: PerDirection<Vec<Bandwidth>>,
    /// The rack's shares without limits of the fabric, where there are such.
    without: RackShares,
}

impl Lead {
    pub(super) fn new(policy: &Policy, leaves: usize, now: Instant, period: Duration) -> Self {
        Self {
            concerned: speaks_of_fabric(policy),
            leads: false,
            next_report: now + period,
            offered: PerDirection::both(vec![Bandwidth::ZERO; leaves]),
            without: RackShares::default(),
        }
    }
}

impl RackBroker {
    /// Whether this machine speaks for its rack at the fabric.
    pub fn leads(&self) -> bool {
        let listened = self.now.saturating_since(self.started) >= self.config.timeout;
        listened && self.mode == Mode::Runtime && !(0..self.place).any(|place| self.is_heard(place))
    }

    /// The leader's part of a period.
    pub(super) fn lead(&mut self) {
        if !self.lead.concerned {
            return;
        }
        self.offer();
        let leads = self.leads();
        let begins = leads && !std::mem::replace(&mut self.lead.leads, leads);
        let due = self.now >= self.lead.next_report;
        if leads && (due || begins) {
            self.report_rack();
        }
        if due {
            self.lead.next_report = self.now + self.config.fabric_period;
            Direction::ALL.iter().for_each(|direction| self.lead.offered[*direction].fill(Bandwidth::ZERO));
        }
        if leads {
            self.repeat_limits();
        }
    }

    /// Adds this period to the interval.
    fn offer(&mut self) {
        let allocator = &self.allocator;
        for direction in Direction::ALL {
            let held = !self.fabric.in_force(direction).is_empty();
            if held {
                allocator.allocate(direction, &self.demands[direction], &[], &mut self.lead.without);
            }
            for (leaf, offered) in self.lead.offered[direction].iter_mut().enumerate() {
                let without = if held { self.lead.without.of_service(allocator, leaf) } else { Bandwidth::ZERO };
                let with = self.shares[direction].of_service(allocator, leaf);
                *offered = (*offered).max(with).max(without);
            }
        }
    }

    fn report_rack(&mut self) {
        let offered = &self.lead.offered;
        let row = |leaf: usize| RateRow {
            service: self.allocator.leaves()[leaf],
            rates: PerDirection { tx: rounded(offered.tx[leaf]), rx: rounded(offered.rx[leaf]) },
        };
        let rows: Vec<RateRow> = (0..self.allocator.leaves().len())
            .map(row)
            .filter(|row| row.rates != PerDirection::both(Bandwidth::ZERO))
            .collect();
        for part in split(&rows) {
            let report = RackReport {
                machine: self.machine,
                policy: self.allocator.policy().digest(),
                epoch: self.epoch,
                round: self.round,
                first: part.first,
                last: part.last,
                rows: part.rows,
            };
            self.counters.rack_reports += 1;
            self.outputs.push_back(Output::ReportRack(report));
        }
    }
}
