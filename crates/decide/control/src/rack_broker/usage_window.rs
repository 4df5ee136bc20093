//! A service's usage in one direction over the last period, and whether a limit constrains it.
//!
//! Problem: the mean over a period shows late that a service began, and a reading of a tenth of it
//! may show a burst. Approach, with a reading every interval:
//!
//! - The usage is the mean over the last period, or that of the last interval less one [`BURST`]
//!   where that is more, so that it rises within an interval and falls over a period. Under a limit,
//!   the usage of receiving is the mean.
//! - A service becomes backlogged when it fills its limit: when it uses nine tenths of it in the last
//!   interval, or in the last period. It remains backlogged until it has not filled its limit for a
//!   period, or has used less than nine tenths of its limits since it became backlogged, at most in
//!   the last period, even with a [`BURST`] added, which the meter may count later.
//! - Where its limits admit less than ten packets in a period, tenths show nothing, and waiting
//!   packets make a sending service backlogged.
//! - At a full uplink a service that is not backlogged demands more than it uses, so that the
//!   others leave it room to grow: twice as much where that begins or its usage grew by a tenth;
//!   the excess halves with each period without growth (`margin.rs`).
//! - In an interval that follows a reduction of the limit, half of the limit counts as nine tenths.
//!
//! Where an interval is a whole period, the service is backlogged in those periods in which it uses
//! nine tenths of its limit with that burst.
//!
//! Worked example: a limit of 10 Gb/s, intervals of 100 ms. A burst of 100 ms fills the limit: the
//! service is backlogged. 100 ms later it has used half of the limit in the time since then, so its
//! usage is its demand: 1 Gb/s over the period.
//!
//! Source: fill; Parley §5.2 leaves the estimate open. See `docs/design/demand.md`.

use super::margin::Margin;
use crate::demand::{BURST, fills, fills_with_burst};
use crate::rate::rounded;
use crate::report::Demand;
use std::collections::VecDeque;
use weir_units::{Bandwidth, Bytes, Duration};

/// The least that a limit admits in a period so that its tenths show whether a service fills it: ten packets. Below
/// that, waiting packets do.
const TENTHS_SHOW: Bytes = Bytes::new(15_140);

/// The conditions of an interval.
#[derive(Debug, Clone, Copy)]
pub(super) struct Conditions {
    /// The time between the readings.
    pub(super) time: Duration,
    /// The limit in force.
    pub(super) limit: Bandwidth,
    /// Whether it [was lowered](crate::demand::is_lowered) at the start of the interval.
    pub(super) lowered: bool,
    /// Whether the rate law of receiving throttled the senders.
    pub(super) throttled: bool,
    /// Whether packets wait in the sending host.
    pub(super) waits: bool,
    /// Whether no later interval of the same period shows a burst that this one missed.
    pub(super) single: bool,
    /// Whether the last interval alone may show the usage. A receiving service's interval contains
    /// bursts of many senders, which no limit should follow.
    pub(super) recent: bool,
    /// Whether the uplink is full: others leave only as much as is demanded.
    pub(super) contended: bool,
}

#[derive(Debug, Clone, Copy)]
struct Interval {
    bytes: Bytes,
    time: Duration,
    /// The bytes that the limit admitted; half of nine tenths where it was lowered.
    admitted: Bytes,
}

/// The readings of the last period.
#[derive(Debug, Clone, Default)]
pub(super) struct UsageWindow {
    /// The counter at the last reading.
    counter: Bytes,
    intervals: VecDeque<Interval>,
    /// The intervals since the service became backlogged, at most those of the period; zero where it
    /// is not.
    backlogged_for: usize,
    /// The intervals since it last filled its limit.
    unfilled_for: usize,
    margin: Margin,
}

impl UsageWindow {
    /// The counter at the last reading.
    pub(super) fn counter(&self) -> Bytes {
        self.counter
    }

    /// Adds a reading of the counter and returns the demand. `period` is the length of the window.
    pub(super) fn read(&mut self, counter: Bytes, of: Conditions, period: Duration) -> Demand {
        let before = std::mem::replace(&mut self.counter, counter);
        // A counter that decreased was restarted: its whole value is new.
        let bytes = if counter >= before { counter - before } else { counter };
        if of.time.is_zero() {
            return Demand::default();
        }
        self.add(bytes, of, period);
        self.judge(of, of.throttled || (of.waits && of.limit.bytes_in(period) < TENTHS_SHOW));
        let all = self.sum(self.intervals.len());
        let recent = Bandwidth::from_transfer(bytes.saturating_sub(BURST), of.time);
        let mean = Bandwidth::from_transfer(all.bytes, all.time);
        let usage = if of.recent { mean.max(recent) } else { mean };
        let backlogged = self.backlogged_for > 0;
        let demand = self.margin.add_to(usage, of.contended && !backlogged, self.intervals.len());
        Demand { usage: rounded(demand), backlogged }
    }

    fn add(&mut self, bytes: Bytes, of: Conditions, period: Duration) {
        let admitted = of.limit.bytes_in(of.time).get();
        let admitted = if of.lowered { admitted / 9 * 5 } else { admitted };
        self.intervals.push_back(Interval { bytes, time: of.time, admitted: Bytes::new(admitted) });
        // Readings are late or early by a part of an interval.
        let least = period.saturating_sub(Duration::from_nanos(of.time.nanos() / 2));
        let mut time = self.sum(self.intervals.len()).time;
        while self.intervals.len() > 1
            && let Some(oldest) = self.intervals.front()
            && time.saturating_sub(oldest.time) >= least
        {
            time = time.saturating_sub(oldest.time);
            self.intervals.pop_front();
        }
    }

    /// `hidden`: the service is backlogged, whatever its usage is.
    fn judge(&mut self, of: Conditions, hidden: bool) {
        let period = self.intervals.len();
        let (last, all) = (self.sum(1), self.sum(period));
        // A single reading may miss a burst; of several in a period the next one shows it.
        let fills_period = if of.single { fills_with_burst } else { fills };
        let filled = hidden || fills(last.bytes, last.admitted) || fills_period(all.bytes, all.admitted);
        self.unfilled_for = if filled { 0 } else { (self.unfilled_for + 1).min(period) };
        self.backlogged_for = match self.backlogged_for {
            _ if of.limit.is_unlimited() => 0,
            0 => usize::from(filled),
            since => {
                let since = (since + 1).min(period);
                let sum = self.sum(since);
                let stays = self.unfilled_for < period && fills_with_burst(sum.bytes, sum.admitted);
                if stays || hidden { since } else { 0 }
            }
        };
    }

    /// The sum of the last intervals.
    fn sum(&self, intervals: usize) -> Interval {
        let mut sum = Interval { bytes: Bytes::ZERO, time: Duration::ZERO, admitted: Bytes::ZERO };
        for interval in self.intervals.iter().rev().take(intervals) {
            sum.bytes += interval.bytes;
            sum.time += interval.time;
            // An unlimited interval in the period: nothing fills the period.
            sum.admitted = Bytes::new(sum.admitted.get().saturating_add(interval.admitted.get()));
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demand::is_lowered;

    const TENTH: Duration = Duration::from_millis(100);
    const PERIOD: Duration = Duration::from_secs(1);

    /// The demands of a service whose traffic in each tenth of a second is that of `kilobytes`.
    fn demands(limit: Bandwidth, kilobytes: &[u64]) -> Vec<Demand> {
        let mut window = UsageWindow::default();
        let mut counter = Bytes::ZERO;
        let of = Conditions {
            time: TENTH,
            limit,
            lowered: false,
            throttled: false,
            waits: false,
            single: false,
            recent: true,
            contended: false,
        };
        let read = |kilobytes: &u64| {
            counter += Bytes::new(kilobytes * 1_000);
            window.read(counter, of, PERIOD)
        };
        kilobytes.iter().map(read).collect()
    }

    fn backlogged(limit: Bandwidth, kilobytes: &[u64]) -> Vec<bool> {
        demands(limit, kilobytes).iter().map(|demand| demand.backlogged).collect()
    }

    #[test]
    fn worked_example() {
        let limit = Bandwidth::from_gbps(10);
        assert_eq!(backlogged(limit, &[0, 125_000, 0, 0]), [false, true, false, false]);
        let last = demands(limit, &[0, 0, 0, 0, 0, 0, 0, 0, 125_000, 0])[9];
        assert_eq!(last.usage, rounded(Bandwidth::from_gbps(1)));
    }

    #[test]
    fn backlog_lasts_while_the_limit_is_filled_on_average() {
        // 1.25 MB per interval; a burst of 65 kB is a twentieth of it.
        let limit = Bandwidth::from_mbps(100);
        assert_eq!(backlogged(limit, &[1_000, 1_130, 1_100, 1_100, 1_000]), [false, true, true, true, false]);
        assert_eq!(backlogged(limit, &[1_130, 1_060, 900]), [true, true, false]);
    }

    #[test]
    fn steady_usage_below_the_limit_is_no_backlog() {
        assert!(!backlogged(Bandwidth::from_mbps(10), &[107; 30]).contains(&true));
        // Backlogged in the first interval, and until it has not filled the limit for a period.
        let mut falling = vec![113];
        falling.extend([107; 12]);
        let falling = backlogged(Bandwidth::from_mbps(10), &falling);
        assert!(falling[..10].iter().all(|backlogged| *backlogged) && !falling[10..].contains(&true), "{falling:?}");
    }

    #[test]
    fn usage_rises_within_an_interval_and_falls_over_a_period() {
        let usage: Vec<u64> = demands(Bandwidth::UNLIMITED, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 1_250, 0, 0])
            .iter()
            .map(|demand| demand.usage.bps() / 100_000)
            .collect();
        assert_eq!(usage[8..], [0, 947, 100, 100]);
    }

    #[test]
    fn an_interval_longer_than_a_period_is_the_window() {
        let mut window = UsageWindow::default();
        let of = |time| Conditions {
            time,
            limit: Bandwidth::from_mbps(10),
            lowered: false,
            throttled: false,
            waits: false,
            single: false,
            recent: true,
            contended: false,
        };
        window.read(Bytes::new(1_000), of(TENTH), PERIOD);
        // A pause of three seconds without traffic, and one with 5 Mb/s.
        assert_eq!(window.read(Bytes::new(1_000), of(PERIOD * 3), PERIOD), Demand::default());
        let demand = window.read(Bytes::new(1_876_000), of(PERIOD * 3), PERIOD);
        assert_eq!(demand, Demand { usage: rounded(Bandwidth::from_mbps(5)), backlogged: false });
    }

    #[test]
    fn waiting_packets_show_the_backlog_under_a_limit_of_few_packets() {
        let of = |kbps: u64, waits| Conditions {
            time: TENTH,
            limit: Bandwidth::from_bps(kbps * 1_000),
            lowered: false,
            throttled: false,
            waits,
            single: false,
            recent: true,
            contended: false,
        };
        // 19 kb/s: a packet every 0.64 s; 121 kb/s: ten packets in a period.
        for (kbps, waits, backlogged) in [(19, true, true), (19, false, false), (120, true, true), (122, true, false)] {
            let mut window = UsageWindow::default();
            let demands: Vec<Demand> = (0..20).map(|_| window.read(Bytes::ZERO, of(kbps, waits), PERIOD)).collect();
            for at in [0, 19] {
                assert_eq!(demands[at].backlogged, backlogged, "{kbps} kb/s, reading {at}");
            }
        }
    }

    #[test]
    fn service_without_a_limit_is_not_backlogged() {
        let mut window = UsageWindow::default();
        let of = |limit| Conditions {
            time: TENTH,
            limit,
            lowered: false,
            throttled: false,
            waits: false,
            single: false,
            recent: true,
            contended: false,
        };
        assert!(window.read(Bytes::new(125_000), of(Bandwidth::from_mbps(10)), PERIOD).backlogged);
        assert!(!window.read(Bytes::new(250_000), of(Bandwidth::UNLIMITED), PERIOD).backlogged);
    }

    /// The demand of a step of the counter in one interval of a whole period.
    fn estimate(before: Bytes, after: Bytes, time: Duration, limit: Bandwidth, lowered: bool) -> Demand {
        let mut window = UsageWindow { counter: before, ..UsageWindow::default() };
        window.read(
            after,
            Conditions {
                time,
                limit,
                lowered,
                throttled: false,
                waits: false,
                single: true,
                recent: true,
                contended: false,
            },
            time,
        )
    }

    fn used(megabits: u64, limit: Bandwidth) -> Demand {
        estimate(Bytes::new(1_000), Bytes::new(1_000 + megabits * 125_000), PERIOD, limit, false)
    }

    #[test]
    fn usage_below_nine_tenths_of_the_limit_is_the_demand() {
        let limit = Bandwidth::from_mbps(100);
        let reported = |mbps| rounded(Bandwidth::from_mbps(mbps));
        // With a burst: 89.5 Mb/s.
        assert_eq!(used(89, limit), Demand { usage: reported(89), backlogged: false });
        assert_eq!(used(90, limit), Demand { usage: reported(90), backlogged: true });
        assert_eq!(used(90, limit).bandwidth(), Bandwidth::UNLIMITED);
        assert_eq!(used(5_000, Bandwidth::UNLIMITED).bandwidth(), reported(5_000));
    }

    #[test]
    fn uncounted_burst_does_not_hide_a_backlog() {
        let limit = Bandwidth::from_mbps(8);
        let quarter = |bytes| estimate(Bytes::ZERO, Bytes::new(bytes), Duration::from_millis(250), limit, false);
        // The worked example as measured, and the bound: nine tenths of 250,000 bytes less a burst.
        assert!(quarter(202_000).backlogged && !quarter(225_000 - 65_536 - 1).backlogged);
        assert!(quarter(225_000 - 65_536).backlogged);
        // A limit of 66 kB or more a second needs half, a lower one nine tenths.
        let low = |kbps: u64, bytes| {
            estimate(Bytes::ZERO, Bytes::new(bytes), PERIOD, Bandwidth::from_bps(kbps * 1_000), false)
        };
        assert!(low(528, 33_000).backlogged && !low(528, 32_999).backlogged && !low(528, 0).backlogged);
        assert!(low(520, 58_500).backlogged && !low(520, 58_499).backlogged);
    }

    #[test]
    fn half_of_a_just_lowered_limit_counts_as_backlogged() {
        let (gigabit, megabits) = (Bandwidth::from_gbps(1), Bandwidth::from_mbps);
        assert!(is_lowered(Bandwidth::UNLIMITED, gigabit) && is_lowered(gigabit, megabits(899)));
        assert!(!is_lowered(gigabit, megabits(900)) && !is_lowered(megabits(900), gigabit));
        assert!(!is_lowered(Bandwidth::UNLIMITED, Bandwidth::UNLIMITED));
        let used = |megabits: u64| {
            estimate(Bytes::ZERO, Bytes::new(megabits * 125_000), PERIOD, Bandwidth::from_mbps(100), true)
        };
        assert!(used(50).backlogged && !used(49).backlogged);
    }

    #[test]
    fn restarted_counter_counts_from_zero() {
        let demand = estimate(Bytes::new(1_000_000_000), Bytes::new(125_000), PERIOD, Bandwidth::UNLIMITED, false);
        assert_eq!(demand.usage, rounded(Bandwidth::from_mbps(1)));
    }

    #[test]
    fn zero_time_gives_zero_demand() {
        let demand = estimate(Bytes::ZERO, Bytes::new(125_000), Duration::ZERO, Bandwidth::from_mbps(1), false);
        assert_eq!(demand, Demand::default());
    }
}
