//! Observer of raised demands: services that the network throttles, and no others.
//!
//! After each report: a service with a quarter of its packets marked reports half more than it
//! received, one with fewer than a sixteenth marked reports its usage (`demand.rs`). In between the
//! result depends on the period before.
//!
//! With intervals shorter than the period, marks are those of the last interval, and the usage is a mean over a period:
//! a value between the lowest and the highest one of its intervals.

use std::collections::VecDeque;
use std::ops::Range;
use weir_control::{Demand, NetworkReading};
use weir_units::Bandwidth;

const SECOND: u64 = 1_000_000_000;
/// A report affects other machines' limits from the end of their next period to the end of the one
/// after it: two periods, by clocks that run up to 2 % slow, and a delivery. A whole second more
/// makes the check little weaker.
const IN_FORCE: u64 = 3 * SECOND;
/// A demand is reported as it is or raised by half: one above this percentage of the usage is not a
/// clock error.
const MORE: u128 = 125;
/// The highest reported percentage of the usage, with clocks that run 2 % slow.
const MOST: u128 = 154;
/// The error of a meter in b/s: it counts whole bytes.
const MEASURED: u128 = 2_000;
/// Bits × 10^9 of the packets by which two readings may differ, since meters count whole packets.
const PACKETS: u128 = 2 * 1_500 * 8 * SECOND as u128;

/// A reading of a meter.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: u64,
    /// Bits × 10^9, in all and in marked packets.
    received: u128,
    marked: u128,
}

/// A period up to a reading.
#[derive(Debug, Clone, Copy)]
struct Period {
    /// The lowest and the highest usage of an interval, in b/s.
    lowest: u128,
    highest: u128,
    /// Bits × 10^9 of the last interval.
    received: u128,
    marked: u128,
    /// R at its end.
    rate: Option<Bandwidth>,
}

/// Raised demands by instance, in any order that the caller chooses.
#[derive(Debug)]
pub(crate) struct Throttled {
    /// How long an interval is a part of a usage that is reported.
    window: u64,
    readings: Vec<Option<Reading>>,
    /// The ends of intervals, and their usage in b/s.
    intervals: Vec<VecDeque<(u64, u128)>>,
    periods: Vec<Option<Period>>,
    /// The time of its last demand that may be raised.
    over_reported: Vec<Option<u64>>,
    /// The last time at which any instance started to raise its demand.
    began: Option<u64>,
}

impl Throttled {
    /// Usages are means over the last reading's interval and those that ended less than `window` before.
    pub(crate) fn new(instances: usize, window: u64) -> Self {
        Self {
            window,
            readings: vec![None; instances],
            intervals: vec![VecDeque::new(); instances],
            periods: vec![None; instances],
            over_reported: vec![None; instances],
            began: None,
        }
    }

    /// The broker of these instances was restarted: its first reading ends no period.
    pub(crate) fn restarted(&mut self, instances: Range<usize>) {
        self.readings[instances.clone()].fill(None);
        self.intervals[instances.clone()].iter_mut().for_each(VecDeque::clear);
        self.periods[instances].fill(None);
    }

    /// A broker reads a meter with this total of bits × 10^9 and of those in marked packets.
    pub(crate) fn read(&mut self, instance: usize, at: u64, received: u128, marked: u128, network: &NetworkReading) {
        let before = self.readings[instance].replace(Reading { at, received, marked });
        let Some(before) = before.filter(|before| before.at < at) else {
            self.periods[instance] = None;
            return;
        };
        let intervals = &mut self.intervals[instance];
        intervals.retain(|(end, _)| *end + self.window > at);
        intervals.push_back((at, (received - before.received) / u128::from(at - before.at)));
        let usages = || intervals.iter().map(|(_, usage)| *usage);
        self.periods[instance] = Some(Period {
            lowest: usages().min().unwrap_or_default(),
            highest: usages().max().unwrap_or_default(),
            received: received - before.received,
            marked: marked - before.marked,
            rate: network.rate,
        });
    }

    /// The broker reports this demand for the last period.
    pub(crate) fn reported(&mut self, instance: usize, now: u64, demand: Demand) -> Result<(), String> {
        let Some(period) = self.periods[instance] else { return Ok(()) };
        let reported = u128::from(demand.usage.bps());
        // Raised for certain, and perhaps.
        let above = |usage: u128| reported * 100 > usage * MORE + 100 * MEASURED;
        let (is_more, may_be_more) = (above(period.highest), above(period.lowest));
        if reported * 100 > period.highest * MOST + 100 * MEASURED {
            return Err(format!("{demand:?} was reported for {period:?}"));
        }
        if is_more && period.marked * 16 + 16 * PACKETS < period.received {
            return Err(format!("{demand:?} was reported for {period:?} without throttling"));
        }
        // R is compared with a usage that may be measured 2 % too low.
        let shared = period.rate.is_some_and(|rate| u128::from(rate.bps()) * 100 < period.lowest * 97);
        if !may_be_more && shared && period.marked * 4 > period.received + 4 * PACKETS {
            return Err(format!("only {demand:?} was reported for {period:?}, which is throttled"));
        }
        let before = self.over_reported[instance];
        if may_be_more {
            self.over_reported[instance] = Some(now);
        }
        if is_more && before.is_none_or(|before| now - before > IN_FORCE) {
            self.began = Some(now);
        }
        Ok(())
    }

    /// Whether limits may be in force that follow from an instance's raised demand.
    pub(crate) fn affects_limits(&self, instance: usize, now: u64) -> bool {
        self.over_reported[instance].is_some_and(|reported| now - reported <= IN_FORCE)
    }

    /// The last time at which any instance started to raise its demand; `None` where no service was
    /// throttled.
    pub(crate) fn began(&self) -> Option<u64> {
        self.began
    }
}
