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
//! What it says of a service: what the rack's sharing gives it, or, where a limit of the fabric holds it, the most that
//! it could take there without that limit. Without the second the fabric would see what it left the service, find that
//! all racks together just fit, let them go, and hold them again a period later. What the service could take is not
//! computed exactly (that would be a sharing for each service that is held, with all limits but its own): it is what
//! its machines ask for, at most its maximum and the uplink. Too large a demand does no harm: if the rack has less for
//! it than the fabric then allows, the rack holds it, and it is reported as what it gets. What grows as the fabric holds
//! others is told with what it will have (`demand_extrapolation.rs`).
//!
//! When it says it: a part of a fabric period after the fabric broker's last word, so that the next word is made from
//! what is a few seconds old, whatever the two clocks say; and without an answer again, sooner than a period later.
//! Hence **within two fabric periods of the last loss, crash or partition all machines of all racks hold limits that
//! were computed from what all leaders said after it**:
//!
//! | at most | with table 1's times | passes until |
//! |---|---|---|
//! | [`RETRY`] of a period, and a rack's period | 7.7 s | the leader's next report: its last one was just lost |
//! | a period | 10 s | the fabric broker's next word: it computed just before, without the rack |
//! | a rack's period | 1 s | the machines' next period, in which the limits are put in force |
//!
//! together 18.7 s of 20, which leaves room for clocks that run 2 % apart. A word that comes before the report puts it
//! off, but then the next word, a period later, is made from it. A leader that has to be elected speaks within 6 s. Were
//! reports made once a period whatever the fabric broker says, all this would take up to 22 s.
//!
//! Racks report at different times ([`FIRST`] to [`LAST`] of a period after the word), so that those of ten thousand do
//! not all come in one second. Each says as much as if it reported once a period, as long as it is answered.
//!
//! Over the interval since the last report the largest of all periods counts. A service that happens to be silent when
//! the report is made would otherwise count as idle and be let go, all racks' services of that kind in turn.
//!
//! Worked example: an uplink of 9 in each of three racks, `a` and `b` backlogged, 14 and 10 in the whole fabric. First
//! 4.5 and 4.5: `b` is held to 3.3, so `a` gets 5.7, three times which is above 14: held to 4.7. From then on both say
//! 9, and the limits stay.
//!
//! Every machine keeps that interval, so that whoever leads next can speak for the past.

use super::{Mode, Output, RackBroker};
use crate::fabric_message::{RackReport, RateRow};
use crate::parts::split;
use crate::rate::rounded;
use weir_alloc::speaks_of_fabric;
use weir_policy::Policy;
use weir_units::{Bandwidth, Direction, Duration, Instant, PerDirection};

/// When the first rack reports after a word of the fabric broker, in parts of a fabric period: late enough that the
/// limits show in what is used, early enough that a later [`RETRY`] comes after the next word, clocks being 10 % apart.
const FIRST: (u64, u64) = (1, 2);
/// When the last rack does: with one more period of its own, in good time for the next word.
const LAST: (u64, u64) = (3, 4);
/// When a report that is not answered is repeated: the two fabric periods leave no more. It covers at least a burst of
/// the length of the rack's timeout.
const RETRY: (u64, u64) = (2, 3);
/// The longest interval: a fabric broker whose period is shorter than what its racks believe must not put reports off
/// for ever. More than a period, so that where both agree it never counts.
const LONGEST: (u64, u64) = (5, 4);

/// A part of a period.
pub(super) fn part(period: Duration, (of, whole): (u64, u64)) -> Duration {
    Duration::from_nanos((u128::from(period.nanos()) * u128::from(of) / u128::from(whole)) as u64)
}

/// The interval that the next report covers.
#[derive(Debug)]
pub(super) struct LeaderState {
    /// Whether the policy speaks of the fabric at all.
    pub(super) uses_fabric: bool,
    was_leader: bool,
    next_report: Instant,
    /// Whether the fabric broker spoke in the interval.
    limits_received: bool,
    /// When the interval began: the last report, whether it was this machine's or another's to make.
    interval_start: Instant,
    /// By leaf: the largest demand at the fabric of any period since the last report.
    pub(super) peak_demands: PerDirection<Vec<Bandwidth>>,
}

impl LeaderState {
    pub(super) fn new(policy: &Policy, leaves: usize, now: Instant, period: Duration) -> Self {
        Self {
            uses_fabric: speaks_of_fabric(policy),
            was_leader: false,
            next_report: now + period,
            limits_received: false,
            interval_start: now,
            peak_demands: PerDirection::both(vec![Bandwidth::ZERO; leaves]),
        }
    }
}

impl RackBroker {
    /// Whether this machine speaks for its rack at the fabric.
    pub fn leads(&self) -> bool {
        let listened = self.now.saturating_since(self.started) >= self.config.timeout;
        listened && self.mode == Mode::Runtime && !(0..self.index).any(|index| self.is_alive(index))
    }

    /// The leader's part of a period.
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

    /// The fabric broker computed `age` ago, as a new word of it shows. What is told next is for the next time.
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
