//! [`Shuffle`]: every host sends to every other, once.
//!
//! Problem: between map and reduce every host has data for every other; it sends to a few at a
//! time. Approach: each sender has an order of its own over the others and a number of flows that
//! may be under way; when one ends the next one starts. An order is either staggered (the i-th host
//! begins with the one after it, so that each host receives from one at a time while all are
//! equally fast) or drawn from the seed.
//!
//! Worked example: 100 hosts with 5 flows at once are 9900 flows, of which 500 start together.
//!
//! Memory: 4 bytes per flow for random orders, nothing for staggered ones.
//!
//! Source: VL2 (SIGCOMM 2009) §5.1, an all-to-all shuffle of 500 MB per pair.

use crate::error::{SpecError, SpecResult, at_least_one, finite_size};
use crate::{FlowStart, Hosts, Rng};
use std::collections::VecDeque;
use weir_units::SimTime;

/// The order in which a sender goes through the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// A random one for each sender.
    Random,
    /// The hosts after it in the list, round to the one before it.
    Staggered,
}

/// Every host sends to every other, once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shuffle {
    hosts: Hosts,
    bytes: u64,
    parallel: u64,
    order: Order,
    start: SimTime,
}

impl Shuffle {
    pub(crate) fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    pub(crate) const fn size(&self) -> u64 {
        self.bytes
    }

    /// The most flows that a host sends at once.
    pub(crate) fn together(&self) -> u64 {
        self.parallel.min(self.hosts.len() as u64 - 1)
    }

    /// Each host sends `bytes` to each other, with `parallel` flows at once per sender, from
    /// `start` on.
    ///
    /// # Errors
    /// Fewer than two hosts or more than 65,536, 0 bytes, nothing in parallel.
    pub fn new(hosts: Hosts, bytes: u64, parallel: u64, order: Order, start: SimTime) -> SpecResult<Self> {
        /// Their pairs' numbers are 32 bits.
        const MOST: usize = 1 << 16;
        let hosts = hosts.at_least(2, "a shuffle")?;
        if hosts.len() > MOST {
            let cause = format!("a shuffle of {} hosts has more than 4294967295 flows", hosts.len());
            return Err(SpecError::new(cause, "name at most 65536 hosts"));
        }
        let bytes = finite_size(bytes, "a flow of a shuffle")?;
        let parallel = at_least_one(parallel, "flows at once")?;
        Ok(Self { hosts, bytes, parallel, order, start })
    }
}

/// A [`Shuffle`] under way.
#[derive(Debug)]
pub(crate) struct ShuffleState {
    spec: Shuffle,
    /// The flows that every sender has started, and the flows that it has started or may start now.
    started: Vec<u32>,
    claimed: Vec<u32>,
    /// The order of every sender, one after the other; empty when staggered.
    orders: Vec<u32>,
    /// Senders that may start one more flow, and the time since when.
    ready: VecDeque<(SimTime, u32)>,
}

impl ShuffleState {
    pub(crate) fn new(spec: Shuffle, seed: u64) -> Self {
        let hosts = spec.hosts.len();
        let others = hosts - 1;
        let mut orders = Vec::new();
        if spec.order == Order::Random {
            let mut rng = Rng::stream(seed, 0);
            orders.reserve(hosts * others);
            for sender in 0..hosts {
                orders.extend(0..others as u32);
                rng.shuffle(&mut orders[sender * others..]);
            }
        }
        // Round by round, so that no sender's first flows all precede another's.
        let at_once = spec.parallel.min(others as u64) as u32;
        let ready = (0..at_once).flat_map(|_| (0..hosts as u32).map(|sender| (spec.start, sender))).collect();
        Self { started: vec![0; hosts], claimed: vec![at_once; hosts], orders, ready, spec }
    }

    fn others(&self) -> u32 {
        self.spec.hosts.len() as u32 - 1
    }

    pub(crate) fn next(&self) -> Option<SimTime> {
        self.ready.front().map(|&(at, _)| at)
    }

    pub(crate) fn poll(&mut self, now: SimTime) -> Option<FlowStart> {
        let (at, sender) = self.ready.pop_front_if(|&mut (at, _)| at <= now)?;
        let (hosts, others) = (&self.spec.hosts, self.others());
        let index = self.started[sender as usize];
        let shift = match self.spec.order {
            Order::Staggered => index,
            Order::Random => self.orders[(sender * others + index) as usize],
        };
        let to = (sender as usize + 1 + shift as usize) % hosts.len();
        let tag = u64::from(sender) * u64::from(others) + u64::from(index);
        self.started[sender as usize] += 1;
        Some(FlowStart::new(at, hosts.at(sender as usize), hosts.at(to), self.spec.bytes, tag))
    }

    pub(crate) fn on_finished(&mut self, now: SimTime, tag: u64) {
        let others = self.others();
        let sender = (tag / u64::from(others)) as u32;
        let claimed = &mut self.claimed[sender as usize];
        if *claimed < others {
            *claimed += 1;
            self.ready.push_back((now, sender));
        }
    }

    pub(crate) fn expected(&self) -> u64 {
        self.spec.hosts.len() as u64 * u64::from(self.others())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{drive, hosts};
    use crate::{Spec, Workload};
    use proptest::prelude::*;

    #[test]
    fn staggered_senders_never_meet_while_they_are_equally_fast() {
        let spec = Shuffle::new(hosts(0..4), 9, 1, Order::Staggered, SimTime::from_micros(1)).expect("a shuffle");
        let mut workload = Workload::new(&Spec::Shuffle(spec), 1);
        let lives = drive(&mut workload, usize::MAX, |_| SimTime::from_micros(1));
        let pairs: Vec<_> = lives.iter().map(|life| (life.start.from.0, life.start.to.0)).collect();
        let expected = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (1, 3), (2, 0), (3, 1), (0, 3), (1, 0), (2, 1), (3, 2)];
        assert_eq!(pairs, expected);
        assert!(lives.iter().enumerate().all(|(i, life)| life.start.at == SimTime::from_micros(1 + i as u64 / 4)));
    }

    #[test]
    fn first_receivers_of_random_orders_are_uniform() {
        // 200 hosts: the number of senders that have a host first is binomial, mean 1; chi-square
        // with 199 degrees of freedom, above 267.5 in one of a thousand.
        let spec = Shuffle::new(hosts(0..200), 9, 1, Order::Random, SimTime::ZERO).expect("a shuffle");
        let mut chi = 0.0;
        let seeds = 50;
        let mut seen = [0_u32; 200];
        for seed in 0..seeds {
            let mut workload = Workload::new(&Spec::Shuffle(spec.clone()), seed);
            while let Some(flow) = workload.poll(SimTime::ZERO) {
                seen[flow.to.index()] += 1;
            }
        }
        for count in seen {
            chi += (f64::from(count) - seeds as f64).powi(2) / seeds as f64;
        }
        assert!(chi < 267.5, "{chi}");
    }

    #[test]
    fn invalid_workloads_are_refused() {
        let new = |n, bytes, parallel| Shuffle::new(hosts(0..n), bytes, parallel, Order::Random, SimTime::ZERO);
        assert!(new(1, 1, 1).is_err() && new(2, 0, 1).is_err() && new(2, 1, 0).is_err() && new(70_000, 1, 1).is_err());
        assert!(new(2, 1, 1).is_ok());
    }

    proptest! {
        #[test]
        fn every_pair_once_and_never_too_many_at_once(
            n in 2_u32..12,
            parallel in 1_u64..14,
            order in prop::sample::select(vec![Order::Random, Order::Staggered]),
            seed in 0_u64..,
        ) {
            let spec = Shuffle::new(hosts(0..n), 9, parallel, order, SimTime::ZERO).expect("a shuffle");
            let mut workload = Workload::new(&Spec::Shuffle(spec), seed);
            let mut rng = crate::Rng::stream(seed, 99);
            let lives = drive(&mut workload, usize::MAX, |_| SimTime::from_nanos(1 + rng.below(100)));
            prop_assert_eq!(Some(lives.len() as u64), workload.expected());
            let mut pairs: Vec<_> = lives.iter().map(|life| (life.start.from, life.start.to)).collect();
            let mut tags: Vec<_> = lives.iter().map(|life| life.start.tag).collect();
            pairs.sort_unstable();
            pairs.dedup();
            tags.sort_unstable();
            prop_assert_eq!(pairs.len(), lives.len());
            prop_assert!(tags.into_iter().eq(0..lives.len() as u64));
            for life in &lives {
                let under_way = lives.iter().filter(|other| {
                    other.start.from == life.start.from && other.start.at <= life.start.at && other.end > life.start.at
                });
                prop_assert!(under_way.count() as u64 <= parallel);
            }
        }
    }
}
