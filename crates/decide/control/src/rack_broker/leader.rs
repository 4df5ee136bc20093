//! The rack's leader: the machine that reports the rack's demands to the fabric broker.
//!
//! **Election.** The leader is the live machine with the lowest id: it receives reports of other
//! machines, and none with a lower id reported within the timeout. A machine that cannot reach the
//! fabric broker broadcasts this, and then the next ones lead beside it (`shut_out.rs`). A machine leads
//! only after it has received reports for the timeout. Two leaders at a time are harmless: a leader
//! decides nothing, and the fabric broker takes the larger of their demands.
//!
//! **Demand.** A service's demand at the fabric is its share in the rack without limits of the
//! fabric. The fabric broker may propose limits, and the leader replies with the shares under them
//! (`proposals.rs`).
//!
//! **Timing.** A report follows the fabric broker's limits by [`FIRST`] to [`LAST`] of a fabric
//! period, by rack, and is repeated every [`RETRY`] of a period until limits arrive. It precedes that
//! time where a demand has changed by more than a tenth of the fabric's limit on it or, without one, of
//! the uplink, [`AT_ONCE`] of a period after the last report at the earliest. Hence **within
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
//! Source: Parley §5.3; the election is a fill. Deviates from the paper in: shares in place of the
//! consumption, the report's timing. Reasons: `docs/design/rack-broker.md`.

use super::proposals::Proposal;
use super::{LimitRule, Mode, Output, RackBroker};
use crate::fabric_message::{RackReport, RateRow};
use crate::parts::{Part, split};
use crate::rate::rounded;
use weir_alloc::{RackShares, has_fabric_limits};
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
/// Changed demands are reported this part of a fabric period after the last report at the earliest.
const AT_ONCE: (u64, u64) = (1, 10);

/// A part of a period.
pub(super) fn part(period: Duration, (of, whole): (u64, u64)) -> Duration {
    Duration::from_nanos((u128::from(period.nanos()) * u128::from(of) / u128::from(whole)) as u64)
}

/// The state of the reports. Every machine keeps their times, so that a new leader reports when the
/// one before would have.
#[derive(Debug)]
pub(super) struct LeaderState {
    /// Whether the policy has a fabric section.
    pub(super) uses_fabric: bool,
    pub(super) was_leader: bool,
    next_report: Instant,
    /// Whether the time of the next report follows limits.
    follows_limits: bool,
    /// The last report, of this machine or of another leader.
    last_report: Instant,
    /// By leaf: the demands of this machine's last report.
    reported: PerDirection<Vec<Bandwidth>>,
    /// By instance: the largest demand of any period since then, for a rule without ceilings: a rack
    /// whose service pauses would return unlimited.
    peaks: PerDirection<Vec<Bandwidth>>,
    /// By instance: the demands from which the report was computed; replies to proposals use them too.
    pub(super) basis: PerDirection<Vec<Bandwidth>>,
    /// Shares without limits of the fabric, or under proposed ones.
    pub(super) shares: RackShares,
    pub(super) proposal: Proposal,
}

impl LeaderState {
    pub(super) fn new(policy: &Policy, leaves: usize, instances: usize, now: Instant, period: Duration) -> Self {
        Self {
            uses_fabric: has_fabric_limits(policy),
            was_leader: false,
            next_report: now + period,
            follows_limits: false,
            last_report: now,
            reported: PerDirection::both(vec![Bandwidth::ZERO; leaves]),
            peaks: PerDirection::both(vec![Bandwidth::ZERO; instances]),
            basis: PerDirection::both(vec![Bandwidth::ZERO; instances]),
            shares: RackShares::default(),
            proposal: Proposal::default(),
        }
    }
}

impl RackBroker {
    /// Whether this machine leads its rack.
    pub fn leads(&self) -> bool {
        let listened = self.now.saturating_since(self.started) >= self.config.timeout;
        listened && self.mode == Mode::Runtime && self.is_next()
    }

    /// Reports if this machine leads and a report is due, or the demands changed; `allocated` if the
    /// rack was shared in this interval.
    pub(super) fn run_leader(&mut self, ends_period: bool, allocated: bool) {
        if !self.leader.uses_fabric {
            return;
        }
        if self.config.rule == LimitRule::Backlogged {
            for direction in Direction::ALL {
                let demands = self.demands[direction].iter();
                self.leader.peaks[direction].iter_mut().zip(demands).for_each(|(peak, now)| *peak = (*peak).max(*now));
            }
        }
        let leads = self.leads();
        self.state_shut_out(leads, ends_period);
        let led = std::mem::replace(&mut self.leader.was_leader, leads);
        let due = self.now >= self.leader.next_report;
        if leads {
            let may_be_early = self.config.interval < self.config.period
                && allocated
                && self.now >= self.leader.last_report + part(self.config.fabric_period, AT_ONCE);
            if due || !led || may_be_early {
                let demands = self.rack_demands();
                if due || !led || self.demands_changed(&demands) {
                    self.report_rack(demands);
                }
            }
            if ends_period {
                self.repeat_limits();
            }
        }
        if due {
            Direction::ALL.iter().for_each(|direction| self.leader.peaks[*direction].fill(Bandwidth::ZERO));
            self.leader.last_report = self.now;
            self.leader.follows_limits = false;
            self.leader.next_report = self.now + part(self.config.fabric_period, RETRY);
        }
    }

    /// By leaf: the rack's shares without limits of the fabric.
    fn rack_demands(&mut self) -> PerDirection<Vec<Bandwidth>> {
        let mut of = |direction: Direction| {
            let demands = match self.config.rule {
                LimitRule::Ceilings => &self.demands[direction],
                LimitRule::Backlogged => &self.leader.peaks[direction],
            };
            let shares = &mut self.leader.shares;
            self.allocator.allocate(direction, demands, &[], shares);
            (0..self.allocator.leaves().len()).map(|leaf| shares.of_service(&self.allocator, leaf)).collect()
        };
        PerDirection { tx: of(Direction::Tx), rx: of(Direction::Rx) }
    }

    fn demands_changed(&mut self, demands: &PerDirection<Vec<Bandwidth>>) -> bool {
        self.differs_much(demands, &self.leader.reported)
            || (self.config.rule == LimitRule::Ceilings && self.offers_changed())
    }

    /// Whether a rate differs by more than a tenth of the fabric's limit on it or, without one, of the
    /// uplink.
    pub(super) fn differs_much(&self, now: &PerDirection<Vec<Bandwidth>>, then: &PerDirection<Vec<Bandwidth>>) -> bool {
        let policy = self.allocator.policy();
        Direction::ALL.into_iter().any(|direction| {
            let capacity = policy.rack_capacity(self.allocator.rack(), direction);
            now[direction].iter().zip(&then[direction]).enumerate().any(|(leaf, (now, then))| {
                let limit = self.fabric.limit(direction, leaf).min(capacity);
                now.bps().abs_diff(then.bps()) > limit.bps() / 10
            })
        })
    }

    /// Handles limits of a new fabric round, computed `age` ago: the next report is scheduled from
    /// them.
    pub(super) fn fabric_round_received(&mut self, age: Duration) {
        let period = self.config.fabric_period;
        let racks = self.allocator.policy().network().racks().len() as u64;
        let position = (self.allocator.rack().index() as u64, racks);
        let (first, last) = (part(period, FIRST), part(period, LAST));
        let after = first + part(last.saturating_sub(first), position);
        let at = self.now + after.saturating_sub(age);
        // Limits that follow changed demands must not postpone a report.
        let postpones = self.leader.follows_limits && at > self.leader.next_report;
        if !postpones {
            self.leader.next_report = at;
        }
        self.leader.follows_limits = true;
    }

    fn report_rack(&mut self, demands: PerDirection<Vec<Bandwidth>>) {
        for report in self.rack_reports(&demands, (self.epoch, self.round)) {
            self.counters.rack_reports += 1;
            self.outputs.push_back(Output::ReportRack(report));
        }
        let LeaderState { peaks, basis, .. } = &mut self.leader;
        basis.clone_from(if self.config.rule == LimitRule::Ceilings { &self.demands } else { peaks });
        self.leader.last_report = self.now;
        self.leader.reported = demands;
        self.renew_reply();
    }

    /// Sends the last report again, with the present epoch.
    pub(super) fn repeat_rack_report(&mut self) {
        for report in self.rack_reports(&self.leader.reported, (self.epoch, self.round)) {
            self.counters.rack_reports += 1;
            self.outputs.push_back(Output::ReportRack(report));
        }
    }

    /// The parts of a report, or of a reply, with this epoch and round.
    pub(super) fn rack_reports(
        &self,
        demands: &PerDirection<Vec<Bandwidth>>,
        (epoch, round): (u64, u64),
    ) -> Vec<RackReport> {
        let row = |leaf: usize| RateRow {
            service: self.allocator.leaves()[leaf],
            rates: PerDirection { tx: rounded(demands.tx[leaf]), rx: rounded(demands.rx[leaf]) },
        };
        let rows: Vec<RateRow> = (0..self.allocator.leaves().len())
            .map(row)
            .filter(|row| row.rates != PerDirection::both(Bandwidth::ZERO))
            .collect();
        let report = |part: Part<RateRow>| RackReport {
            machine: self.machine,
            policy: self.allocator.policy().digest(),
            epoch,
            round,
            first: part.first,
            last: part.last,
            rows: part.rows,
        };
        split(&rows).into_iter().map(report).collect()
    }
}
