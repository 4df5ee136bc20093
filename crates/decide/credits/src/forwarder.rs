//! [`Forwarder`]: the offline part of a port: its flows' demands and periods, and the shares that it publishes.
//!
//! With each allocation that passes, [`Forwarder::record`] notes the flow's weight and its demand as a part of what the
//! port can send in the flow's period, so that demands of flows with different periods compare (PACE §III.E.1).
//! [`Forwarder::publish`] gives the values that the online part (`datapath/credit.h`) needs:
//!
//! - `per_weight` (a_w) and `rest` (r). If all demands fit, a_w is the largest demand per weight and r what they leave, so
//!   that each flow may raise its demand by r; else a_w divides what satisfied flows leave, and r = 0.
//! - `period`: the port's own p ([`PeriodRule`]); `longest`: the longest p of it and of its flows. C_0 = R · `longest`;
//!   with the port's own p alone a flow of a longer period is throttled.
//!
//! A flow whose allocations stop without a termination is dropped after [`ForwarderSettings::memory`] of its periods.
//!
//! Flows have numbers that the driver assigns; a number may be used again after [`Forwarder::remove`].
//!
//! Worked example, 1 Gb/s: flows of weights 1 and 2 demand 25,000 B in 200 µs, the whole of the port each. a_w is a third
//! of the port for a weight of 1, r = 0.

use crate::WHOLE;
use crate::message::Allocation;
use crate::period::{Period, PeriodRule};
use crate::tree::MaxMinTree;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use weir_units::{Bandwidth, Bytes, Instant};

/// The constants of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForwarderSettings {
    /// R and the bounds of the port's own period.
    pub rule: PeriodRule,
    /// How many periods without an allocation end a flow; 4 let three allocations in a row be lost.
    pub memory: u64,
}

/// The values that the online part of a port uses. See the module's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// a_w: the part of the port for a thousandth of a weight, in 2⁻⁴⁸; rounded up.
    pub per_weight: u64,
    /// r: the part of the port that no flow demands, in 2⁻³², at most 2³² − 1.
    pub rest: u32,
    /// The port's own p.
    pub period: Period,
    /// The longest p of the port and of its flows.
    pub longest: Period,
}

/// One of the port's flows.
#[derive(Debug, Clone, Copy)]
struct Flow {
    weight: u32,
    period: Period,
    seen: Instant,
}

/// The offline part of one port.
#[derive(Debug, Clone)]
pub struct Forwarder {
    settings: ForwarderSettings,
    tree: MaxMinTree,
    flows: BTreeMap<u32, Flow>,
    /// How many flows have each weight, in thousandths, and each period.
    weights: BTreeMap<u32, u32>,
    periods: BTreeMap<Period, u32>,
    /// When each flow is looked at next, whether it still sends allocations; one entry for each.
    checks: BinaryHeap<Reverse<(Instant, u32)>>,
    period: Period,
    since: Instant,
    dropped: u64,
}

impl Forwarder {
    /// A port without flows.
    pub fn new(now: Instant, settings: ForwarderSettings) -> Self {
        Self {
            settings,
            tree: MaxMinTree::new(WHOLE),
            flows: BTreeMap::new(),
            weights: BTreeMap::new(),
            periods: BTreeMap::new(),
            checks: BinaryHeap::new(),
            period: settings.rule.least,
            since: now,
            dropped: 0,
        }
    }

    /// An allocation of a flow arrives at the port, with the fields that it arrives with.
    pub fn record(&mut self, now: Instant, flow: u32, allocation: &Allocation) {
        let capacity = allocation.period.capacity(self.settings.rule.rate).get().max(1);
        let demand = (u128::from(allocation.demand.get()) * u128::from(WHOLE)).div_ceil(u128::from(capacity));
        let demand = u64::try_from(demand).unwrap_or(u64::MAX).min(WHOLE);
        let weight = allocation.weight.thousandths();
        self.tree.set(flow, weight, demand);
        let new = Flow { weight, period: allocation.period, seen: now };
        match self.flows.insert(flow, new) {
            Some(old) => self.forget(&old),
            None => self.checks.push(Reverse((now + self.lifetime(&new), flow))),
        }
        *self.weights.entry(weight).or_default() += 1;
        *self.periods.entry(new.period).or_default() += 1;
    }

    /// A flow is over; returns whether the port had it.
    pub fn remove(&mut self, flow: u32) -> bool {
        let Some(old) = self.flows.remove(&flow) else { return false };
        self.forget(&old);
        self.tree.remove(flow);
        true
    }

    fn forget(&mut self, old: &Flow) {
        decrement(&mut self.weights, &old.weight);
        decrement(&mut self.periods, &old.period);
    }

    fn lifetime(&self, flow: &Flow) -> weir_units::Duration {
        flow.period.max(self.period).duration() * self.settings.memory
    }

    /// Drops the flows whose allocations have stopped, and returns their numbers.
    pub fn expire(&mut self, now: Instant) -> Vec<u32> {
        let mut over = Vec::new();
        while let Some(&Reverse((at, number))) = self.checks.peek()
            && at <= now
        {
            self.checks.pop();
            let Some(&flow) = self.flows.get(&number) else { continue };
            let until = flow.seen + self.lifetime(&flow);
            if until > now {
                self.checks.push(Reverse((until, number)));
            } else if self.remove(number) {
                self.dropped += 1;
                over.push(number);
            }
        }
        over
    }

    /// The values for allocations from `now` on.
    pub fn publish(&mut self, now: Instant) -> Published {
        let least_weight = self.weights.first_key_value().map_or(1, |(&least, _)| least.into());
        let wanted = self.settings.rule.wanted(self.tree.weight(), least_weight);
        let period = self.settings.rule.next(now, self.period, self.since, wanted);
        if period != self.period {
            (self.period, self.since) = (period, now);
        }
        let longest = self.periods.last_key_value().map_or(self.period, |(&longest, _)| longest.max(self.period));
        let level = self.tree.level();
        Published {
            per_weight: level.per_weight_48(),
            rest: u32::try_from(level.rest).unwrap_or(u32::MAX),
            period: self.period,
            longest,
        }
    }

    /// R has changed.
    pub fn set_rate(&mut self, rate: Bandwidth) {
        self.settings.rule.rate = rate;
    }

    /// R.
    pub fn rate(&self) -> Bandwidth {
        self.settings.rule.rate
    }

    /// 2 · C_0 for these values: the most credits and queued bytes that the port grants up to.
    pub fn budget(&self, published: &Published) -> Bytes {
        Bytes::new(2 * published.longest.capacity(self.rate()).get())
    }

    /// The number of its flows.
    pub fn flows(&self) -> usize {
        self.flows.len()
    }

    /// Flows that ended without a termination.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

fn decrement<K: Ord>(counts: &mut BTreeMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
