//! The credits that pass a port.
//!
//! A credit releases a frame that leaves by the opposite port, so a port passes a credit at most every (credit + frame)
//! bytes of its link: credits and frames of both directions then fit. A credit that comes sooner waits, behind at most
//! seven others; one that finds eight is dropped.
//!
//! Example, 1 Gb/s: credits at 0, 1 and 20 µs leave at 0, 12.976 and 25.952 µs.
//!
//! **Variation.** A port that is never idle would pass its credits at exact intervals to the next port, which
//! releases credits at the same intervals. If the former come just after the latter, they always find room, and the
//! credits of others never do (Floyd and Jacobson, "On traffic phase effects in packet-switched gateways", 1992). So
//! intervals vary at random by up to `jitter`; their mean stays. The paper varies the sizes of credits instead, by 8
//! B: at 1 Gb/s that moves the phase by its whole range only within seconds.

use super::{Credit, Parameters, varied};
use crate::agents::FlowKey;
use std::collections::VecDeque;
use weir_units::{Bandwidth, SimTime};

/// A limiter's decision about a credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// It passes now.
    Pass,
    /// It waits for [`Limiter::release`].
    Wait,
    /// It is dropped.
    Drop,
}

/// The limiter of a port's credits. Call [`Limiter::offer`] for each credit, and [`Limiter::release`] at the time of
/// [`Limiter::due`] until it returns nothing.
#[derive(Debug, Clone)]
pub(super) struct Limiter {
    /// The time between credits; [`SimTime::NEVER`] on a link without a rate.
    interval: SimTime,
    /// No credit leaves before.
    next: SimTime,
    waiting: VecDeque<(FlowKey, Credit)>,
    /// The port's number and the number of its intervals, for their variation.
    port: u32,
    intervals: u32,
}

impl Limiter {
    pub(super) fn new(port: u32, rate: Bandwidth, parameters: &Parameters) -> Self {
        let (interval, next) = (SimTime::NEVER, SimTime::ZERO);
        let mut limiter = Self { interval, next, waiting: VecDeque::new(), port, intervals: 0 };
        limiter.set_rate(rate, parameters);
        limiter
    }

    /// The link's rate has changed; the next credit still leaves when the old rate allows it.
    pub(super) fn set_rate(&mut self, rate: Bandwidth, parameters: &Parameters) {
        let bits = (u128::from(parameters.credit) + u128::from(parameters.frame)) * 8;
        let picos = (bits * 1_000_000_000_000).checked_div(u128::from(rate.bps()));
        self.interval = picos.map_or(SimTime::NEVER, |picos| SimTime::from_picos(picos as u64));
    }

    /// A credit arrives.
    pub(super) fn offer(&mut self, now: SimTime, flow: FlowKey, credit: Credit, parameters: &Parameters) -> Decision {
        if self.waiting.is_empty() && self.next <= now && self.interval != SimTime::NEVER {
            self.leave(now, parameters);
            return Decision::Pass;
        }
        if self.waiting.len() >= parameters.queue as usize {
            return Decision::Drop;
        }
        self.waiting.push_back((flow, credit));
        Decision::Wait
    }

    /// When the next waiting credit may leave; [`SimTime::NEVER`] if none waits.
    pub(super) fn due(&self) -> SimTime {
        if self.waiting.is_empty() || self.interval == SimTime::NEVER { SimTime::NEVER } else { self.next }
    }

    /// The next waiting credit, if it may leave now.
    pub(super) fn release(&mut self, now: SimTime, parameters: &Parameters) -> Option<(FlowKey, Credit)> {
        if self.due() > now {
            return None;
        }
        self.leave(now, parameters);
        self.waiting.pop_front()
    }

    /// A credit leaves.
    fn leave(&mut self, now: SimTime, parameters: &Parameters) {
        self.intervals = self.intervals.wrapping_add(1);
        self.next = now + varied(self.interval.picos() as f64, parameters, self.port.into(), self.intervals);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: FlowKey = FlowKey { slot: 0, from: 1, to: 2, hash: 3 };
    const GIGABIT: Bandwidth = Bandwidth::from_gbps(1);

    fn credit(number: u32) -> Credit {
        Credit { number, sent: SimTime::ZERO, released: Credit::NO_PORT }
    }

    /// Parameters without variation.
    fn exact() -> Parameters {
        Parameters { jitter: 0.0, ..Parameters::default() }
    }

    /// The times in nanoseconds at which the credits leave that arrive at the given ones, and the dropped ones.
    fn run(limiter: &mut Limiter, parameters: &Parameters, arrivals: &[u64]) -> (Vec<(u32, u64)>, Vec<u32>) {
        let (mut left, mut dropped) = (Vec::new(), Vec::new());
        let mut next = 0;
        while next < arrivals.len() || limiter.due() != SimTime::NEVER {
            let arrival = arrivals.get(next).map_or(SimTime::NEVER, |nanos| SimTime::from_nanos(*nanos));
            let due = limiter.due();
            if due <= arrival {
                let (_, credit) = limiter.release(due, parameters).expect("one is due");
                left.push((credit.number, due.picos() / 1000));
                continue;
            }
            let number = next as u32;
            match limiter.offer(arrival, FLOW, credit(number), parameters) {
                Decision::Pass => left.push((number, arrival.picos() / 1000)),
                Decision::Wait => {}
                Decision::Drop => dropped.push(number),
            }
            next += 1;
        }
        (left, dropped)
    }

    #[test]
    fn the_worked_example() {
        let mut limiter = Limiter::new(1, GIGABIT, &exact());
        let (left, dropped) = run(&mut limiter, &exact(), &[0, 1_000, 20_000]);
        assert_eq!((left, dropped), (vec![(0, 0), (1, 12_976), (2, 25_952)], vec![]));
    }

    #[test]
    fn eight_credits_wait_and_others_are_dropped() {
        let mut limiter = Limiter::new(1, GIGABIT, &exact());
        let (left, dropped) = run(&mut limiter, &exact(), &[0; 12]);
        assert_eq!(dropped, [9, 10, 11]);
        assert_eq!(left, (0..9).map(|number| (number, 12_976 * u64::from(number))).collect::<Vec<_>>());
    }

    /// Whatever arrives, 77,065 credits leave in a second, 84 / (84 + 1538) of the link.
    #[test]
    fn credits_take_five_percent_of_the_link() {
        let mut limiter = Limiter::new(1, GIGABIT, &exact());
        let arrivals: Vec<u64> = (0..200_000).map(|number| number * 5_000).collect();
        let (left, dropped) = run(&mut limiter, &exact(), &arrivals);
        let within = left.iter().filter(|(_, nanos)| *nanos < 1_000_000_000).count();
        assert_eq!(within, 77_066);
        assert_eq!(left.len() + dropped.len(), 200_000);
    }

    /// Two ports of the same rate in a row, the first always busy. A second flow's credits meet it at the second
    /// port, at a tenth of its rate: most of them get through.
    #[test]
    fn varied_intervals_share_a_port_behind_another() {
        let passed = |parameters: &Parameters| {
            let arrivals: Vec<u64> = (0..100_000).map(|number| number * 6_000).collect();
            let (first, _) = run(&mut Limiter::new(1, GIGABIT, parameters), parameters, &arrivals);
            let second = (1..4_000).map(|number| (1, number * 129_760 + 5_000));
            let mut both: Vec<(u32, u64)> = first.iter().map(|(_, nanos)| (0, *nanos)).chain(second).collect();
            both.sort_by_key(|(_, nanos)| *nanos);
            let arrivals: Vec<u64> = both.iter().map(|(_, nanos)| *nanos).collect();
            let (left, _) = run(&mut Limiter::new(2, GIGABIT, parameters), parameters, &arrivals);
            [0, 1].map(|flow| left.iter().filter(|(number, _)| both[*number as usize].0 == flow).count())
        };
        let [first, second] = passed(&Parameters::default());
        assert!((2_000..4_000).contains(&second), "{first} {second}");
        // Without variation the first port's credits find all of the room.
        let [first, second] = passed(&exact());
        assert!(second < 20, "{first} {second}");
    }

    #[test]
    fn a_link_without_a_rate_passes_nothing() {
        let parameters = exact();
        let mut limiter = Limiter::new(1, Bandwidth::ZERO, &parameters);
        assert_eq!(limiter.offer(SimTime::ZERO, FLOW, credit(0), &parameters), Decision::Wait);
        assert_eq!((limiter.due(), limiter.release(SimTime::from_secs(1), &parameters)), (SimTime::NEVER, None));
        limiter.set_rate(GIGABIT, &parameters);
        assert_eq!(limiter.due(), SimTime::ZERO);
        assert_eq!(limiter.release(SimTime::from_secs(1), &parameters), Some((FLOW, credit(0))));
    }
}
