//! The rack's leader: the machine that reports the rack's demands to the fabric broker.
//!
//! **Election.** The leader is the live machine with the lowest id: it receives reports of other
//! machines, and none with a lower id reported within the timeout. It leads only after it has
//! received reports for the timeout. Two leaders at a time (a partition) are harmless: a leader
//! decides nothing, and the fabric broker takes the larger of their demands.
//!
//! **Demand.** A service's demand at the fabric is its share in the rack. Where a fabric limit
//! holds, it is the most that the service could take without that limit: the demands of its
//! machines, bounded by its maximum and the uplink. Each report covers the largest demand of all
//! periods since the last one. Demands that grow while the fabric limits other services are
//! extrapolated (`demand_extrapolation.rs`).
//!
//! **Timing.** A report follows the fabric broker's limits by [`FIRST`] to [`LAST`] of a fabric
//! period, by rack, and is repeated every [`RETRY`] of a period until limits arrive. Hence **within
//! two fabric periods of the last loss, crash or partition all machines of all racks hold limits
//! that were computed from reports that all leaders sent after it**:
//!
//! | at most | with Table 1's times | until |
//! |---|---|---|
//! | [`RETRY`] of a period, and a rack's period | 7.7 s | the leader's next report: its last one was just lost |
//! | a period | 10 s | the fabric broker's next round: its last one was just before the report |
//! | a rack's period | 1 s | the machines' next period, which puts the limits in force |
//!
//! 18.7 s of 20 together, which leaves room for clocks that run 2 % apart.
//!
//! Worked example: an uplink of 9 in each of three racks, `a` and `b` backlogged, limited to 14 and
//! 10 in the whole fabric. At first the shares are 4.5 and 4.5. `b` is limited to 3.3, so `a` gets
//! 5.7; three times that exceeds 14, so `a` is limited to 4.7. From then on both demands are 9, and
//! the limits stay.
//!
//! Source: Parley §5.3; the election is a fill. Deviates from the paper in: the peak demand in place
//! of the consumption, the report's timing. Reasons: `docs/design/rack-broker.md`.

use super::{Mode, Output, RackBroker};
use crate::fabric_message::{RackReport, RateRow};
use crate::parts::split;
use crate::rate::rounded;
use weir_alloc::has_fabric_limits;
use weir_policy::Policy;
use weir_units::{Bandwidth, Direction, Duration, Instant, PerDirection};

/// The first rack reports this part of a fabric period after the limits: late enough that usage
/// shows the limits, early enough that a [`RETRY`] later is after the next limits, with clocks 10 %
/// apart.
const FIRST: (u64, u64) = (1, 2);
/// The last rack reports this part of a fabric period after the limits, and with one more rack
/// period is still before the next round.
const LAST: (u64, u64) = (3, 4);
/// Without limits a report is repeated after this part of a fabric period: the bound of two fabric
/// periods leaves no more. It covers at least a burst of the length of the rack's timeout.
const RETRY: (u64, u64) = (2, 3);
/// The longest interval between reports: a fabric broker with a shorter period than its racks are
/// configured for must not delay reports without bound. It exceeds a period, so it has no effect
/// where the configurations agree.
const LONGEST: (u64, u64) = (5, 4);

/// A part of a period.
pub(super) fn part(period: Duration, (of, whole): (u64, u64)) -> Duration {
    Duration::from_nanos((u128::from(period.nanos()) * u128::from(of) / u128::from(whole)) as u64)
}

/// The interval that the next report covers. Every machine keeps it, so that a new leader can
/// report the past.
#[derive(Debug)]
pub(super) struct LeaderState {
    /// Whether the policy has a fabric section.
    pub(super) uses_fabric: bool,
    was_leader: bool,
    next_report: Instant,
    /// Whether limits of the fabric broker arrived in the interval.
    limits_received: bool,
    /// The start of the interval: the last report, of this machine or of another leader.
    interval_start: Instant,
    /// By leaf: the largest demand at the fabric of any period in the interval.
    pub(super) peak_demands: PerDirection<Vec<Bandwidth>>,
}

impl LeaderState {
    pub(super) fn new(policy: &Policy, leaves: usize, now: Instant, period: Duration) -> Self {
        Self {
            uses_fabric: has_fabric_limits(policy),
            was_leader: false,
            next_report: now + period,
            limits_received: false,
            interval_start: now,
            peak_demands: PerDirection::both(vec![Bandwidth::ZERO; leaves]),
        }
    }
}

impl RackBroker {
    /// Whether this machine leads its rack.
    pub fn leads(&self) -> bool {
        let listened = self.now.saturating_since(self.started) >= self.config.timeout;
        listened && self.mode == Mode::Runtime && !(0..self.index).any(|index| self.is_alive(index))
    }

    /// Ends a period: updates the interval and reports if this machine leads and a report is due.
    pub(super) fn run_leader(&mut self) {
        if !self.leader.uses_fabric {
            return;
        }
        self.update_peak_demands();
        let leads = self.leads();
        let led = std::mem::replace(&mut self.leader.was_leader, leads);
        let begins = leads && !led;
        let due = self.now >= self.leader.next_report;
        let interval = (begins && !due).then(|| self.leader.peak_demands.clone());
        if due && self.leader.limits_received {
            self.extrapolate_demands();
        } else if due || begins {
            self.repeat_reported_demands();
        }
        if leads && (due || begins) {
            self.report_rack();
        }
        if let Some(interval) = interval {
            self.leader.peak_demands = interval;
        }
        if due {
            self.leader.interval_start = self.now;
            self.leader.limits_received = false;
            self.leader.next_report = self.now + part(self.config.fabric_period, RETRY);
            Direction::ALL.iter().for_each(|direction| self.leader.peak_demands[*direction].fill(Bandwidth::ZERO));
        }
        if leads {
            self.repeat_limits();
        }
    }

    /// Handles limits of a new fabric round, computed `age` ago: the next report is scheduled from
    /// them.
    pub(super) fn fabric_round_received(&mut self, age: Duration) {
        self.leader.limits_received = true;
        let period = self.config.fabric_period;
        let racks = self.allocator.policy().network().racks().len() as u64;
        let position = (self.allocator.rack().index() as u64, racks);
        let (first, last) = (part(period, FIRST), part(period, LAST));
        let after = first + part(last.saturating_sub(first), position);
        let longest = self.leader.interval_start + part(period, LONGEST);
        self.leader.next_report = (self.now + after.saturating_sub(age)).min(longest);
    }

    /// Adds this period to the interval.
    fn update_peak_demands(&mut self) {
        for direction in Direction::ALL {
            let shares = &self.shares[direction];
            for (leaf, peak) in self.leader.peak_demands[direction].iter_mut().enumerate() {
                let now = if shares.is_limited_by_fabric(&self.allocator, leaf) {
                    self.allocator.most(direction, leaf, &self.demands[direction])
                } else {
                    shares.of_service(&self.allocator, leaf)
                };
                *peak = now.max(*peak);
            }
        }
    }

    fn report_rack(&mut self) {
        let peak_demands = &self.leader.peak_demands;
        let row = |leaf: usize| RateRow {
            service: self.allocator.leaves()[leaf],
            rates: PerDirection { tx: rounded(peak_demands.tx[leaf]), rx: rounded(peak_demands.rx[leaf]) },
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
