//! Who tells more than it uses, watched from outside: what the network holds back, and nobody else.
//!
//! After each report: a service of whose packets a quarter was marked told half more than it received, one of whose packets
//! fewer than a sixteenth were marked told what it received (`demand.rs`). What is between depends on the period before.

use std::ops::Range;
use weir_control::{Demand, NetworkReading};
use weir_units::Bandwidth;

const SECOND: u64 = 1_000_000_000;
/// What was told shows in others' limits at the end of their next period, and they hold until that of the one after it: two
/// periods, by clocks that run up to 2 % slow, and a delivery. A whole second more costs a check little.
const IN_FORCE: u64 = 3 * SECOND;
/// A demand is told in whole and a half: what is above this many hundredths of the usage is not a clock that is off.
const MORE: u128 = 125;
/// The most that is told, in hundredths of the usage, with clocks that run 2 % slow.
const MOST: u128 = 154;
/// What a meter may be off by, in b/s: it counts whole bytes.
const MEASURED: u128 = 2_000;
/// Bits × 10^9 of the packets that two readings may differ by, since meters count whole ones.
const PACKETS: u128 = 2 * 1_500 * 8 * SECOND as u128;

/// A meter as it was read.
#[derive(Debug, Clone, Copy)]
struct Reading {
    at: u64,
    /// Bits × 10^9, and of them those in marked packets.
    received: u128,
    marked: u128,
}

/// What a meter showed of a period.
#[derive(Debug, Clone, Copy)]
struct Period {
    /// In b/s.
    usage: u128,
    /// Bits × 10^9.
    received: u128,
    marked: u128,
    /// R at its end.
    rate: Option<Bandwidth>,
}

/// By instance, in any order of the caller's: who told more.
#[derive(Debug)]
pub(crate) struct Throttled {
    readings: Vec<Option<Reading>>,
    periods: Vec<Option<Period>>,
    /// When it last told more.
    over_reported: Vec<Option<u64>>,
    /// When anybody last began to.
    began: Option<u64>,
}

impl Throttled {
    pub(crate) fn new(instances: usize) -> Self {
        let none = vec![None; instances];
        Self { readings: vec![None; instances], periods: vec![None; instances], over_reported: none, began: None }
    }

    /// The broker of these was started anew: its first reading shows no period.
    pub(crate) fn restarted(&mut self, instances: Range<usize>) {
        self.readings[instances.clone()].fill(None);
        self.periods[instances].fill(None);
    }

    /// A broker reads a meter that received so many bits × 10^9 so far, and so many of them in marked packets.
    pub(crate) fn read(&mut self, instance: usize, at: u64, received: u128, marked: u128, network: &NetworkReading) {
        let before = self.readings[instance].replace(Reading { at, received, marked });
        self.periods[instance] = before.filter(|before| before.at < at).map(|before| Period {
            usage: (received - before.received) / u128::from(at - before.at),
            received: received - before.received,
            marked: marked - before.marked,
            rate: network.rate,
        });
    }

    /// And tells this of it.
    pub(crate) fn reported(&mut self, instance: usize, now: u64, demand: Demand) -> Result<(), String> {
        let Some(period) = self.periods[instance] else { return Ok(()) };
        let reported = u128::from(demand.usage.bps());
        let more = reported * 100 > period.usage * MORE + 100 * MEASURED;
        if reported * 100 > period.usage * MOST + 100 * MEASURED {
            return Err(format!("{demand:?} was reported for {period:?}"));
        }
        if more && period.marked * 16 + 16 * PACKETS < period.received {
            return Err(format!("{demand:?} was reported for {period:?} without throttling"));
        }
        // R is compared with a usage that may be measured 2 % too low.
        let shared = period.rate.is_some_and(|rate| u128::from(rate.bps()) * 100 < period.usage * 97);
        if !more && shared && period.marked * 4 > period.received + 4 * PACKETS {
            return Err(format!("only {demand:?} was reported for {period:?}, which is throttled"));
        }
        if more {
            let before = self.over_reported[instance].replace(now);
            if before.is_none_or(|before| now - before > IN_FORCE) {
                self.began = Some(now);
            }
        }
        Ok(())
    }

    /// Whether limits may be in force that come of what an instance told more than it used.
    pub(crate) fn affects_limits(&self, instance: usize, now: u64) -> bool {
        self.over_reported[instance].is_some_and(|reported| now - reported <= IN_FORCE)
    }

    /// When anybody began last to tell more than it used; never where nothing was held back.
    pub(crate) fn began(&self) -> Option<u64> {
        self.began
    }
}
