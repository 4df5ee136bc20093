//! [`Forwarder`]: the offline part of a port: its flows' demands and periods, and the shares that it publishes.
//!
//! With each allocation that passes, [`Forwarder::record`] notes the flow's weight and its demand as a part of what the
//! port can send in the flow's period, so that demands of flows with different periods compare (PACE §III.E.1).
//! [`Forwarder::publish`] gives the values that the online part (`datapath/credit.h`) needs:
//!
//! - `per_weight` (a_w) and `rest` (r). If all demands fit, a_w is the largest demand per weight and r what they
//!   leave, so that each flow may raise its demand by r; else a_w divides what satisfied flows leave, and r = 0.
//! - `period`: the port's own p ([`PeriodRule`]); `longest`: the longest p of it and of its flows. C_0 = R · `longest`;
//!   with the port's own p alone a flow of a longer period is throttled.
//!
//! A flow whose allocations stop without a termination is dropped after [`ForwarderSettings::memory`] of its periods.
//!
//! Flows have numbers that the driver assigns; a number may be used again after [`Forwarder::remove`].
//!
//! Worked example, 1 Gb/s: flows of weights 1 and 2 demand 25,000 B in 200 µs, the whole of the port each. a_w is a
//! third of the port for a weight of 1, r = 0.

use crate::WHOLE;
use crate::message::Allocation;
use crate::period::{Period, PeriodRule};
use crate::tree::MaxMinTree;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use weir_units::{Bandwidth, Bytes, Duration, Instant};

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
    /// The time of its entry in [`Forwarder::checks`]. An earlier flow of the same number may have left others.
    check: Instant,
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
    /// The times at which a flow's last allocation is examined; an entry of another time than the flow's is void.
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
        let period = allocation.period;
        let old = self.flows.get(&flow).copied();
        let check = old.map_or_else(|| now + self.lifetime(period), |old| old.check);
        match old {
            Some(old) => self.forget(&old),
            None => self.checks.push(Reverse((check, flow))),
        }
        self.flows.insert(flow, Flow { weight, period, seen: now, check });
        *self.weights.entry(weight).or_default() += 1;
        *self.periods.entry(period).or_default() += 1;
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

    /// The silence that ends a flow of this period.
    fn lifetime(&self, period: Period) -> Duration {
        period.max(self.period).duration() * self.settings.memory
    }

    /// Drops the flows whose allocations have stopped, and returns their numbers.
    pub fn expire(&mut self, now: Instant) -> Vec<u32> {
        let mut over = Vec::new();
        while let Some(&Reverse((at, number))) = self.checks.peek()
            && at <= now
        {
            self.checks.pop();
            let Some(flow) = self.flows.get(&number).filter(|flow| flow.check == at).copied() else { continue };
            let until = flow.seen + self.lifetime(flow.period);
            if until > now {
                self.checks.push(Reverse((until, number)));
                self.flows.insert(number, Flow { check: until, ..flow });
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

    /// The constants have changed: R, or the bounds of the period, within which the present one is from now on.
    /// Recorded demands keep their part of the port until the next allocation of their flow.
    pub fn renew(&mut self, now: Instant, settings: ForwarderSettings) {
        let (least, most) = (settings.rule.least, settings.rule.most);
        let period = self.period.clamp(least, most.max(least));
        if period != self.period {
            (self.period, self.since) = (period, now);
        }
        self.settings = settings;
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

    /// Whether a flow is one of the port's.
    pub fn has(&self, flow: u32) -> bool {
        self.flows.contains_key(&flow)
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

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::Weight;

    const SETTINGS: ForwarderSettings = ForwarderSettings {
        rule: PeriodRule {
            rate: Bandwidth::from_gbps(1),
            least: Period::from_micros(200),
            most: Period::from_micros(5_100),
            frame: Bytes::new(1_500),
        },
        memory: 4,
    };

    fn micros(at: u64) -> Instant {
        Instant::from_nanos(at * 1_000)
    }

    fn port() -> Forwarder {
        Forwarder::new(Instant::ZERO, SETTINGS)
    }

    /// An allocation with a weight in thousandths, a demand in bytes and a period in microseconds.
    fn allocation(weight: u32, demand: u64, period: u32) -> Allocation {
        let (demand, period) = (Bytes::new(demand), Period::from_micros(period));
        Allocation {
            clock: 1,
            period,
            longest: period,
            potential: Bytes::new(25_000),
            demand,
            allocation: demand,
            weight: Weight::from_thousandths(weight).expect("in range"),
            queueing: Duration::ZERO,
        }
    }

    #[test]
    fn shares_of_two_weights() {
        let mut port = port();
        port.record(micros(0), 1, &allocation(1_000, 25_000, 200));
        port.record(micros(0), 2, &allocation(2_000, 25_000, 200));
        let published = port.publish(micros(0));
        assert_eq!((published.per_weight, published.rest), ((1u64 << 48).div_ceil(3_000), 0));
        assert_eq!((published.period.micros(), published.longest.micros()), (200, 200));
        assert_eq!((port.budget(&published), port.flows()), (Bytes::new(50_000), 2));
    }

    #[test]
    fn renewed_constants_keep_flows_and_bound_the_period() {
        let mut port = port();
        port.record(micros(0), 1, &allocation(1_000, 12_500, 200));
        port.record(micros(0), 2, &allocation(20_000, 25_000, 200));
        // Two frames for 1 of 21: 504 us, rounded up.
        assert_eq!(port.publish(micros(0)).period.micros(), 520);
        let rule = PeriodRule { rate: Bandwidth::from_gbps(2), most: Period::from_micros(400), ..SETTINGS.rule };
        port.renew(micros(10), ForwarderSettings { rule, memory: 2 });
        let published = port.publish(micros(10));
        assert_eq!((published.period.micros(), published.longest.micros(), port.flows()), (400, 400, 2));
        assert_eq!(port.budget(&published), Bytes::new(200_000));
        // A demand of 12,500 B is a quarter of C(p) now.
        port.record(micros(20), 1, &allocation(1_000, 12_500, 200));
        assert_eq!(port.expire(micros(819)), [2], "two periods of the port after its record");
        assert_eq!(port.publish(micros(819)).rest, 3 << 30);
    }

    #[test]
    fn an_empty_port_limits_nothing() {
        let mut port = port();
        let period = Period::from_micros(200);
        let empty = Published { per_weight: 1 << 48, rest: u32::MAX, period, longest: period };
        assert_eq!(port.publish(micros(0)), empty);
        port.record(micros(0), 7, &allocation(1_000, 5_000, 400));
        assert_ne!(port.publish(micros(0)), empty);
        assert!(port.remove(7) && !port.remove(7));
        assert_eq!((port.publish(micros(0)), port.flows()), (empty, 0));
    }

    #[test]
    fn satisfied_flows_leave_a_rest() {
        // A tenth and a fifth of the port: the largest demand per weight is a fifth for 1,000 thousandths.
        let mut port = port();
        port.record(micros(0), 1, &allocation(1_000, 5_000, 200));
        port.record(micros(0), 2, &allocation(1_000, 2_500, 200));
        let Published { per_weight, rest, .. } = port.publish(micros(0));
        assert_eq!(per_weight, (WHOLE.div_ceil(5) << 16).div_ceil(1_000));
        assert_eq!(u64::from(rest), WHOLE - WHOLE.div_ceil(5) - WHOLE.div_ceil(10));
    }

    #[test]
    fn demands_count_as_parts_of_their_periods() {
        // 25,000 B are all of the port in 200 µs, and a half in 400 µs. A demand above the port's rate counts as all.
        let level = |demand, period| {
            let mut port = port();
            port.record(micros(0), 1, &allocation(1_000, demand, period));
            let Published { per_weight, rest, .. } = port.publish(micros(0));
            (per_weight, rest)
        };
        let whole = (1u64 << 48).div_ceil(1_000);
        assert_eq!([level(25_000, 200), level(99_000, 200)], [(whole, 0); 2]);
        assert_eq!(level(25_000, 400), ((1u64 << 47).div_ceil(1_000), 1 << 31));
    }

    #[test]
    fn the_longest_period_is_that_of_a_flow_or_of_the_port() {
        let mut port = port();
        port.record(micros(0), 1, &allocation(1_000, 25_000, 200));
        port.record(micros(0), 2, &allocation(1_000, 125_000, 1_000));
        let published = port.publish(micros(0));
        assert_eq!((published.period.micros(), published.longest.micros()), (200, 1_000));
        assert_eq!(port.budget(&published), Bytes::new(250_000));
        // The flow shortens its period, or is over.
        port.record(micros(0), 2, &allocation(1_000, 125_000, 600));
        assert_eq!(port.publish(micros(0)).longest.micros(), 600);
        port.remove(2);
        assert_eq!(port.publish(micros(0)).longest.micros(), 200);
    }

    #[test]
    fn periods_rise_with_flows_and_fall_once_a_period() {
        let mut port = port();
        let period = |port: &mut Forwarder, at| port.publish(micros(at)).period.micros();
        for flow in 0..64 {
            port.record(micros(10), flow, &allocation(1_000, 25_000, 200));
        }
        assert_eq!(period(&mut port, 10), 1_540);
        // 40 flows need 960 µs, not below half.
        (40..64).for_each(|flow| assert!(port.remove(flow)));
        assert_eq!(period(&mut port, 9_000), 1_540);
        // 14 need 340 µs; another fall is possible one period of 340 µs later.
        (14..40).for_each(|flow| assert!(port.remove(flow)));
        assert_eq!(period(&mut port, 9_010), 340);
        (1..14).for_each(|flow| assert!(port.remove(flow)));
        assert_eq!([9_349, 9_350].map(|at| period(&mut port, at)), [340, 340]);
        // A flow of weight 0.1 beside two of weight 1 needs 21 times the period of one flow, 24 µs.
        port.record(micros(9_400), 1, &allocation(100, 25_000, 200));
        port.record(micros(9_400), 2, &allocation(1_000, 25_000, 200));
        assert_eq!(period(&mut port, 9_400), 520);
        (0..2).for_each(|flow| assert!(port.remove(flow)));
        assert_eq!([9_919, 9_920].map(|at| period(&mut port, at)), [520, 200]);
    }

    #[test]
    fn silent_flows_expire_after_four_periods() {
        let mut port = port();
        port.record(micros(0), 1, &allocation(1_000, 5_000, 200));
        port.record(micros(0), 2, &allocation(1_000, 5_000, 200));
        port.record(micros(0), 3, &allocation(1_000, 5_000, 1_000));
        port.record(micros(500), 2, &allocation(1_000, 5_000, 200));
        assert_eq!((port.expire(micros(799)), port.expire(micros(800))), (vec![], vec![1]));
        assert_eq!((port.expire(micros(1_299)), port.expire(micros(1_300))), (vec![], vec![2]));
        assert_eq!((port.expire(micros(3_999)), port.expire(micros(4_000))), (vec![], vec![3]));
        assert_eq!((port.flows(), port.dropped()), (0, 3));
        assert_eq!(port.publish(micros(4_000)).per_weight, 1 << 48);
    }

    #[test]
    fn a_number_that_is_used_again_is_examined_once() {
        let mut port = port();
        for at in 0..1_000 {
            port.record(micros(at), 1, &allocation(1_000, 5_000, 200));
            assert!(port.remove(1));
        }
        port.record(micros(1_000), 1, &allocation(1_000, 5_000, 200));
        assert_eq!((port.expire(micros(1_799)), port.checks.len()), (vec![], 1));
        assert_eq!(port.expire(micros(1_800)), vec![1]);
    }

    #[test]
    fn a_new_rate_changes_parts_and_periods() {
        let mut port = port();
        port.set_rate(Bandwidth::from_mbps(100));
        port.record(micros(0), 1, &allocation(1_000, 2_500, 200));
        let published = port.publish(micros(0));
        assert_eq!((published.rest, published.period.micros()), (0, 240));
        assert_eq!((port.rate(), port.budget(&published)), (Bandwidth::from_mbps(100), Bytes::new(6_000)));
    }
}
