//! [`PortShares`]: the offline part of a forwarder whose online part runs in a kernel.
//!
//! Problem: the kernel notes each flow's last allocation, and a daemon reads them a period later, all at once.
//! Approach: each round takes the flows as read, records allocations that are new since the last round, and drops flows
//! that are over or silent from the shares ([`Forwarder`]). It names those whose state the kernel may forget: a flow's
//! clocks must outlive its grants, so it is kept for a lifetime after its last message.
//!
//! A flow here is a service's data between two hosts. The weight of a service at a port is divided by the number of its
//! pairs of hosts that have data there, so that a service does not gain by more pairs. Divided weights are in
//! [`WEIGHT_SCALE`] times finer units, in the shares and in the kernel alike.
//!
//! Worked example: a service of weight 1 with 16 senders and one of weight 2 with one at the same port: their flows
//! have the weights 1/16 and 2, the services a third and two thirds of the port.

use crate::forwarder::{Forwarder, ForwarderSettings, Published};
use crate::message::Allocation;
use std::collections::{BTreeMap, BTreeSet};
use weir_units::{Duration, Instant, Weight};

/// Divided weights are thousandths of a thousandth.
pub const WEIGHT_SCALE: u64 = 1_000;

/// A flow as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowState<K> {
    /// The flow.
    pub key: K,
    /// Its service.
    pub service: u32,
    /// When its last packet or message left by the port.
    pub left_at: Instant,
    /// Its last allocation as it arrived, and when; `None` before the first.
    pub arrived: Option<(Instant, Allocation)>,
    /// Whether it is over.
    pub ended: bool,
}

/// The result of a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round<K> {
    /// The values to publish.
    pub published: Published,
    /// The services that have flows, with the number of their pairs.
    pub pairs: BTreeMap<u32, u32>,
    /// Flows whose state may be deleted.
    pub forget: Vec<K>,
}

/// A flow that was read before.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// Its number in the shares; `None` while it is in none.
    number: Option<u32>,
    /// The time of the allocation that was last recorded.
    recorded: Option<Instant>,
}

/// The shares of a port. See the module's documentation.
#[derive(Debug, Clone)]
pub struct PortShares<K> {
    forwarder: Forwarder,
    /// The longest lifetime of a grant.
    keep: Duration,
    known: BTreeMap<K, Known>,
    numbered: BTreeMap<u32, K>,
    /// Numbers below the largest one that no flow has.
    free: Vec<u32>,
}

impl<K: Ord + Copy> PortShares<K> {
    /// A port without flows. `keep`: the longest lifetime of a grant there.
    pub fn new(now: Instant, settings: ForwarderSettings, keep: Duration) -> Self {
        let forwarder = Forwarder::new(now, settings);
        Self { forwarder, keep, known: BTreeMap::new(), numbered: BTreeMap::new(), free: Vec::new() }
    }

    /// The constants have changed ([`Forwarder::renew`]), but for the lifetime of a grant. Flows are kept.
    pub fn renew(&mut self, now: Instant, settings: ForwarderSettings) {
        self.forwarder.renew(now, settings);
    }

    /// Takes all flows of the port as they are at `now`, which never falls.
    pub fn round(&mut self, now: Instant, flows: &[FlowState<K>]) -> Round<K> {
        let present: BTreeSet<K> = flows.iter().map(|flow| flow.key).collect();
        let gone: Vec<K> = self.known.keys().filter(|key| !present.contains(key)).copied().collect();
        gone.iter().for_each(|key| self.forget(key));
        flows.iter().filter(|flow| flow.ended).for_each(|flow| self.leave_shares(&flow.key));
        for number in self.forwarder.expire(now) {
            if let Some(key) = self.release(number)
                && let Some(known) = self.known.get_mut(&key)
            {
                known.number = None;
            }
        }
        let fresh: Vec<&FlowState<K>> = flows.iter().filter(|flow| self.is_fresh(flow)).collect();
        let new: BTreeSet<K> = fresh.iter().map(|flow| flow.key).collect();
        let active = |flow: &&FlowState<K>| {
            let in_shares = self.known.get(&flow.key).is_some_and(|known| known.number.is_some());
            in_shares || new.contains(&flow.key)
        };
        let mut pairs = BTreeMap::new();
        flows.iter().filter(active).for_each(|flow| *pairs.entry(flow.service).or_insert(0) += 1);
        for flow in fresh {
            self.record(now, flow, pairs.get(&flow.service).copied().unwrap_or(1));
        }
        let old = |flow: &&FlowState<K>| {
            let last = flow.arrived.map_or(flow.left_at, |(at, _)| at.max(flow.left_at));
            let is_in = self.known.get(&flow.key).is_some_and(|known| known.number.is_some());
            !is_in && now.saturating_since(last) > self.keep
        };
        let forget: Vec<K> = flows.iter().filter(old).map(|flow| flow.key).collect();
        forget.iter().for_each(|key| self.forget(key));
        Round { published: self.forwarder.publish(now), pairs, forget }
    }

    /// Whether a flow has an allocation that is not recorded.
    fn is_fresh(&self, flow: &FlowState<K>) -> bool {
        let recorded = self.known.get(&flow.key).and_then(|known| known.recorded);
        !flow.ended && flow.arrived.is_some_and(|(at, _)| recorded.is_none_or(|recorded| at > recorded))
    }

    fn record(&mut self, now: Instant, flow: &FlowState<K>, pairs: u32) {
        let Some((at, arrived)) = flow.arrived else { return };
        let number = match self.known.get(&flow.key).and_then(|known| known.number) {
            Some(number) => number,
            None => {
                let number = self.free.pop().unwrap_or(self.numbered.len() as u32);
                self.numbered.insert(number, flow.key);
                number
            }
        };
        self.known.insert(flow.key, Known { number: Some(number), recorded: Some(at) });
        self.forwarder.record(now, number, &Allocation { weight: divided(arrived.weight, pairs), ..arrived });
    }

    /// Another flow may have the number from now on.
    fn release(&mut self, number: u32) -> Option<K> {
        let key = self.numbered.remove(&number)?;
        self.free.push(number);
        Some(key)
    }

    fn leave_shares(&mut self, key: &K) {
        if let Some(known) = self.known.get_mut(key)
            && let Some(number) = known.number.take()
        {
            self.forwarder.remove(number);
            self.release(number);
        }
    }

    fn forget(&mut self, key: &K) {
        self.leave_shares(key);
        self.known.remove(key);
    }

    /// The values in force are those of this state machine.
    pub fn forwarder(&self) -> &Forwarder {
        &self.forwarder
    }
}

/// A weight in the units of divided ones, of a service with so many pairs. The kernel's program computes the same
/// (`bpf/forwarder.bpf.c`). Messages have weights up to 1,000 ([`crate::wire::MAX_WEIGHT`]), above which divided ones
/// would be clamped.
pub fn divided(weight: Weight, pairs: u32) -> Weight {
    let fine = u64::from(weight.thousandths()) * WEIGHT_SCALE / u64::from(pairs.max(1));
    let most = u64::from(Weight::MAX.thousandths());
    Weight::from_thousandths(fine.clamp(1, most) as u32).expect("in range")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::MAX_WEIGHT;
    use crate::{Period, PeriodRule};
    use weir_units::{Bandwidth, Bytes};

    const PERIOD: Period = Period::from_micros(1_000);
    const KEEP: Duration = Duration::from_millis(20);

    fn port() -> PortShares<u32> {
        let rule = PeriodRule {
            rate: Bandwidth::from_mbps(100),
            least: PERIOD,
            most: Period::from_micros(20_000),
            frame: Bytes::new(1_514),
        };
        PortShares::new(Instant::ZERO, ForwarderSettings { rule, memory: 4 }, KEEP)
    }

    fn micros(at: u64) -> Instant {
        Instant::from_nanos(at * 1_000)
    }

    /// A flow with an unlimited demand and this weight, of the service `key / 10`, whose allocation arrived at a time.
    fn flow(key: u32, weight: u32, at: u64) -> FlowState<u32> {
        let bytes = PERIOD.capacity(Bandwidth::from_mbps(100));
        let allocation = Allocation {
            clock: 1,
            period: PERIOD,
            longest: PERIOD,
            potential: bytes,
            demand: bytes,
            allocation: bytes,
            weight: Weight::from_thousandths(weight * 1_000).expect("in range"),
            queueing: Duration::ZERO,
        };
        FlowState { key, service: key / 10, left_at: micros(at), arrived: Some((micros(at), allocation)), ended: false }
    }

    #[test]
    fn pairs_divide_the_weight_of_a_service() {
        let mut port = port();
        let mut flows: Vec<_> = (0..8).map(|key| flow(key, 1, 10)).collect();
        flows.push(flow(20, 2, 10));
        let round = port.round(micros(20), &flows);
        assert_eq!(round.pairs, BTreeMap::from([(0, 8), (2, 1)]));
        // Weights of 125,000 eight times and 2,000,000 in the finer unit.
        assert_eq!(round.published.per_weight, (1u64 << 48).div_ceil(3_000_000));
        assert_eq!(round.forget, []);
        // Two frames for the least weight: 8 · 1,514 · 2 · 3 B at 100 Mb/s, rounded up to 20 µs.
        assert_eq!(round.published.period.micros(), 5_820);
    }

    #[test]
    fn silent_flows_leave_the_shares_and_are_kept_for_a_lifetime() {
        let mut port = port();
        let first = flow(1, 1, 10);
        assert_eq!(port.round(micros(20), &[first]).pairs.len(), 1);
        assert_eq!(port.forwarder().flows(), 1);
        // Four periods of 1 ms after the record.
        assert_eq!(port.round(micros(4_019), &[first]).pairs.len(), 1);
        let silent = port.round(micros(4_020), &[first]);
        assert_eq!((silent.pairs.len(), silent.forget.len(), port.forwarder().flows()), (0, 0, 0));
        assert_eq!(silent.published.rest, u32::MAX, "an empty port");
        assert_eq!(port.round(micros(20_010), &[first]).forget, []);
        assert_eq!(port.round(micros(20_011), &[first]).forget, [1]);
        // The kernel has deleted it.
        assert_eq!(port.round(micros(20_100), &[]).forget, []);
        assert!(port.known.is_empty() && port.numbered.is_empty());
    }

    #[test]
    fn an_ended_flow_has_no_share_before_its_next_allocation() {
        let mut port = port();
        let (first, second) = (flow(1, 1, 10), flow(2, 1, 10));
        port.round(micros(20), &[first, second]);
        let ended = FlowState { ended: true, ..first };
        assert_eq!(port.round(micros(30), &[ended, second]).pairs, BTreeMap::from([(0, 1)]));
        assert_eq!(port.forwarder().flows(), 1);
        // A request: the old allocation counts no more.
        assert_eq!(port.round(micros(40), &[first, second]).pairs, BTreeMap::from([(0, 1)]));
        let renewed = flow(1, 1, 50);
        assert_eq!(port.round(micros(60), &[renewed, second]).pairs, BTreeMap::from([(0, 2)]));
        assert_eq!(port.forwarder().flows(), 2);
    }

    #[test]
    fn numbers_of_flows_that_are_gone_are_used_again() {
        let mut port = port();
        for round in 0..100u32 {
            let flows: Vec<_> = (round..round + 3).map(|key| flow(key, 1, round.into())).collect();
            port.round(micros(round.into()), &flows);
        }
        assert_eq!(port.numbered.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
        port.round(micros(101), &[]);
        assert_eq!((port.numbered.len(), port.free.len()), (0, 3));
        // The last one first: none is searched for.
        let (last, new) = (*port.free.last().expect("three"), flow(200, 1, 102));
        port.round(micros(103), &[new]);
        assert_eq!(port.numbered.keys().copied().collect::<Vec<_>>(), [last]);
        assert_eq!(last, 2);
    }

    #[test]
    fn divided_weights_are_in_range() {
        let of = |thousandths, pairs| divided(Weight::from_thousandths(thousandths).expect("ok"), pairs).thousandths();
        assert_eq!([of(1_000, 1), of(1_000, 16), of(1_000, 0)], [1_000_000, 62_500, 1_000_000]);
        assert_eq!([of(1_000_000_000, 1), of(1, 5_000)], [1_000_000_000, 1]);
        // None of a message is clamped.
        assert_eq!([of(MAX_WEIGHT, 1), of(MAX_WEIGHT - 1, 1)], [1_000_000_000, 999_999_000]);
    }
}
