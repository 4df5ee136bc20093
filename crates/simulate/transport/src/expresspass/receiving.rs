//! The flows that a host receives: when the next credit of each is due.
//!
//! A flow exists from its request to its stop. A sender without credits repeats its request, so a flow without any
//! packet for three of these times is gone.
//!
//! Intervals between credits vary by a hash of the flow and the credit's number: the same run has the same credits.

use super::feedback::Feedback;
use super::{Credit, Parameters, varied};
use crate::agents::FlowKey;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use weir_units::{Bandwidth, SimTime};

/// Repetitions of a request that a receiver waits for before it drops a flow.
const PATIENCE: u64 = 3;

/// A flow.
#[derive(Debug, Clone)]
struct Flow {
    feedback: Feedback,
    /// The number of the next credit.
    number: u32,
    /// When a packet of its sender last arrived.
    seen: SimTime,
    /// The entry in the order of credits that is its own; others are of earlier flows.
    entry: u64,
}

/// The flows of a receiving host. Call [`Receiving::next`] at the time of [`Receiving::due`] until it returns nothing.
#[derive(Debug, Clone)]
pub(super) struct Receiving {
    /// The most at which the host's link passes credits, in bit/s.
    most: f64,
    flows: BTreeMap<FlowKey, Flow>,
    /// The times of the next credits, each with the number of the entry.
    order: BinaryHeap<Reverse<(SimTime, u64, FlowKey)>>,
    entries: u64,
}

impl Receiving {
    pub(super) fn new(rate: Bandwidth, parameters: &Parameters) -> Self {
        let mut receiving = Self { most: 0.0, flows: BTreeMap::new(), order: BinaryHeap::new(), entries: 0 };
        receiving.set_rate(rate, parameters);
        receiving
    }

    pub(super) fn set_rate(&mut self, rate: Bandwidth, parameters: &Parameters) {
        let part = f64::from(parameters.credit) / (f64::from(parameters.credit) + f64::from(parameters.frame));
        // A link without a rate passes nothing; its flows wait for it at a rate above zero.
        self.most = (rate.bps() as f64 * part).max(1.0);
    }

    /// A request arrives: the flow's first credit is due now, unless it exists.
    pub(super) fn on_request(&mut self, now: SimTime, key: FlowKey, parameters: &Parameters) {
        if let Some(flow) = self.flows.get_mut(&key) {
            flow.seen = now;
            return;
        }
        let entry = self.schedule(now, key);
        let feedback = Feedback::new(now, parameters, self.most);
        self.flows.insert(key, Flow { feedback, number: 0, seen: now, entry });
    }

    /// A segment arrives that a credit released.
    pub(super) fn on_data(&mut self, now: SimTime, key: FlowKey, credit: &Credit) {
        if let Some(flow) = self.flows.get_mut(&key) {
            flow.seen = now;
            flow.feedback.on_return(now, credit);
        }
    }

    /// A stop arrives.
    pub(super) fn on_stop(&mut self, key: FlowKey) {
        self.flows.remove(&key);
    }

    /// When the next credit is due, or earlier; [`SimTime::NEVER`] without flows.
    pub(super) fn due(&self) -> SimTime {
        self.order.peek().map_or(SimTime::NEVER, |Reverse((due, ..))| *due)
    }

    /// The next credit that is due now.
    pub(super) fn next(&mut self, now: SimTime, parameters: &Parameters) -> Option<(FlowKey, Credit)> {
        while self.due() <= now {
            let Some(Reverse((_, entry, key))) = self.order.pop() else { break };
            let Some(flow) = self.flows.get_mut(&key).filter(|flow| flow.entry == entry) else { continue };
            if now.saturating_sub(flow.seen).picos() > parameters.min_rto.picos().saturating_mul(PATIENCE) {
                self.flows.remove(&key);
                continue;
            }
            flow.feedback.update(now, parameters, self.most);
            let credit = Credit { number: flow.number, sent: now, released: Credit::NO_PORT };
            flow.number = flow.number.wrapping_add(1);
            // Flows of a host have different slots, and those with the same slot at different times other hashes.
            let stream = u64::from(key.hash) << 32 | u64::from(key.slot);
            let interval = varied(flow.feedback.interval(parameters), parameters, stream, credit.number);
            let entry = self.schedule(now + interval, key);
            if let Some(flow) = self.flows.get_mut(&key) {
                flow.entry = entry;
            }
            return Some((key, credit));
        }
        None
    }

    fn schedule(&mut self, due: SimTime, key: FlowKey) -> u64 {
        self.entries += 1;
        self.order.push(Reverse((due, self.entries, key)));
        self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(slot: u32) -> FlowKey {
        FlowKey { slot, from: slot, to: 9, hash: slot.wrapping_mul(0x9E37_79B9) }
    }
    fn receiving() -> Receiving {
        Receiving::new(Bandwidth::from_gbps(1), &Parameters::default())
    }
    /// The credits that are due until `end`, with their times in nanoseconds.
    fn run(receiving: &mut Receiving, end: SimTime) -> Vec<(u64, u32, u32)> {
        let mut credits = Vec::new();
        while receiving.due() <= end {
            let now = receiving.due();
            while let Some((key, credit)) = receiving.next(now, &Parameters::default()) {
                assert_eq!(credit.sent, now);
                credits.push((now.picos() / 1000, key.slot, credit.number));
            }
        }
        credits
    }

    /// A sixteenth of 77,065 credits/s: one every 207.6 µs, varied by a tenth.
    #[test]
    fn credits_have_varied_intervals() {
        let mut receiving = receiving();
        receiving.on_request(SimTime::ZERO, key(1), &Parameters::default());
        let credits = run(&mut receiving, SimTime::from_millis(25));
        assert_eq!(credits[0], (0, 1, 0));
        let gaps: Vec<u64> = credits.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        assert!(gaps.iter().all(|gap| (186_854..=228_378).contains(gap)), "{gaps:?}");
        let mean = gaps.iter().sum::<u64>() / gaps.len() as u64;
        assert!((200_000..215_000).contains(&mean), "{mean}");
        assert!(gaps.iter().max() > gaps.iter().min());
        assert_eq!(run(&mut self::receiving_with_request(), SimTime::from_millis(25)), credits);
    }

    fn receiving_with_request() -> Receiving {
        let mut receiving = receiving();
        receiving.on_request(SimTime::ZERO, key(1), &Parameters::default());
        receiving
    }

    #[test]
    fn a_stop_ends_credits_and_a_request_starts_them_anew() {
        let mut receiving = receiving_with_request();
        run(&mut receiving, SimTime::from_millis(1));
        receiving.on_stop(key(1));
        assert_eq!(run(&mut receiving, SimTime::from_millis(2)), []);
        receiving.on_request(SimTime::from_millis(2), key(1), &Parameters::default());
        assert_eq!(run(&mut receiving, SimTime::from_millis(2)), [(2_000_000, 1, 0)]);
        assert_eq!(receiving.order.len(), 1);
    }

    #[test]
    fn a_repeated_request_changes_nothing() {
        let mut receiving = receiving_with_request();
        run(&mut receiving, SimTime::from_micros(100));
        receiving.on_request(SimTime::from_micros(100), key(1), &Parameters::default());
        assert_eq!(run(&mut receiving, SimTime::from_micros(150)), []);
    }

    #[test]
    fn a_silent_flow_is_dropped() {
        let mut receiving = receiving_with_request();
        let last = run(&mut receiving, SimTime::from_secs(1)).last().expect("credits").0;
        assert!((29_000_000..=30_000_000).contains(&last), "{last}");
        assert_eq!((receiving.due(), receiving.flows.len()), (SimTime::NEVER, 0));
        // Data keeps it.
        let mut receiving = receiving_with_request();
        run(&mut receiving, SimTime::from_millis(20));
        let credit = Credit { number: 0, sent: SimTime::ZERO, released: Credit::NO_PORT };
        receiving.on_data(SimTime::from_millis(20), key(1), &credit);
        assert!(!run(&mut receiving, SimTime::from_millis(49)).is_empty());
        assert_eq!(receiving.flows.len(), 1);
    }

    #[test]
    fn flows_have_credits_in_turn() {
        let mut receiving = receiving();
        for slot in 0..3 {
            receiving.on_request(SimTime::ZERO, key(slot), &Parameters::default());
        }
        let credits = run(&mut receiving, SimTime::from_millis(10));
        let counts = [0, 1, 2].map(|slot| credits.iter().filter(|credit| credit.1 == slot).count());
        assert!(counts.iter().all(|count| (46..=51).contains(count)), "{counts:?}");
    }
}
