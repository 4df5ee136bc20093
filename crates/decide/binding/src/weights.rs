//! Weights of queues: integers that divide a link as the reservations in its queues do.
//!
//! Problem: a queue's part of a link is its weight over the sum of all weights, and switches have weights of few
//! values (1 to 100, whole percents). Approach. With weights w of sum W and reservations r of sum R, queue i falls
//! short of its part by 1 − (wᵢ / W) / (rᵢ / R). The weights with the least largest shortfall s are sought. A link of
//! rate C covers all reservations if R ≤ (1 − s) · C, so no other weights cover them if these do not. For each sum W,
//! from the number of queues to the largest that the range allows, every queue has the weight that it needs, ⌈rᵢ · W
//! / R⌉; where their sum exceeds W, those that miss a unit the least have one less. Weights of no more than half of
//! the range can be doubled, so half of the sums need not be tried.
//!
//! A queue without a reservation has weight 1: a switch has no weight 0, and nothing else bounds the time for which it
//! would starve.
//!
//! Example: reservations of 2, 4 and 6 Gb/s have the weights 1, 2, 3. Reservations of 1 and 150 Gb/s with weights to
//! 100 have 1 and 100: the second falls short by 0.3 %, which a link of at least 151.5 Gb/s covers.
//!
//! Source: QShare §V-C (the weight of a queue is the bandwidth reserved in it over that reserved on the link).

use weir_units::Bandwidth;

/// The weights of a link's queues and the largest relative shortfall, in billionths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weights {
    /// By queue, 1 to the largest of the range.
    pub weights: Vec<u32>,
    /// The largest shortfall of a queue, in billionths, rounded up.
    pub shortfall: u64,
}

impl Weights {
    /// Whether a link of this rate covers reservations of this sum.
    pub fn cover(&self, reserved: Bandwidth, rate: Bandwidth) -> bool {
        let rest = BILLION.saturating_sub(self.shortfall.into());
        u128::from(reserved.bps()) * BILLION <= u128::from(rate.bps()) * rest
    }
}

const BILLION: u128 = 1_000_000_000;

/// The weights, 1 to `most`, of queues with these reservations on a link. Equal reservations give equal weights
/// everywhere.
///
/// # Panics
/// If there are no queues, `most` is 0, or the reservations sum to more than [`Bandwidth::MAX`].
pub fn weights(reserved: &[Bandwidth], most: u32) -> Weights {
    assert!(!reserved.is_empty() && most > 0, "queues with weights");
    let divisor = reserved.iter().fold(0, |divisor, bandwidth| gcd(divisor, bandwidth.bps())).max(1);
    let parts: Vec<u128> = reserved.iter().map(|bandwidth| u128::from(bandwidth.bps() / divisor)).collect();
    let all = parts.iter().sum::<u128>().max(1);
    assert!(all * u128::from(divisor) <= u128::from(Bandwidth::MAX.bps()), "reservations beyond any link");
    let largest = parts.iter().copied().max().unwrap_or(0).max(1);
    let (count, most_wide) = (parts.len() as u32, u128::from(most));
    let mut best = Best { weights: vec![1; parts.len()], lack: (1, 1), divisor: Divisor::new(all) };
    // No queue has more than `most`, so with a shortfall below the best one, W < most · R / ((1 − s) · r).
    let high = |(lack, whole): (u128, u128)| match whole - lack {
        0 => u128::from(most) * u128::from(count),
        rest => (most_wide * all * whole).div_ceil(rest * largest).min(most_wide * u128::from(count)),
    };
    let first = high((0, 1)).max(count.into()) as u32;
    best.improve(&parts, all, first, most);
    let mut sum = high(best.lack) as u32;
    // Weights of at most half of the range can be doubled: some of the best ones have a weight above it, so
    // W > most / 2 / (s + (1 − s) · r / R).
    while sum >= count && best.lack.0 > 0 {
        let (lack, whole) = best.lack;
        if 2 * u128::from(sum) * (lack * all + (whole - lack) * largest) <= most_wide * whole * all {
            break;
        }
        best.improve(&parts, all, sum, most);
        sum -= 1;
    }
    let (lack, whole) = best.lack;
    let common = best.weights.iter().fold(0, |common, weight| gcd(common, (*weight).into())).max(1) as u32;
    let weights = best.weights.into_iter().map(|weight| weight / common).collect();
    Weights { weights, shortfall: (lack * BILLION).div_ceil(whole) as u64 }
}

/// The best weights so far, and their largest shortfall as a fraction.
struct Best {
    weights: Vec<u32>,
    lack: (u128, u128),
    /// The sum of all parts, times the denominator of the shortfall.
    divisor: Divisor,
}

impl Best {
    /// Takes the best weights of this sum, if they are better.
    fn improve(&mut self, parts: &[u128], all: u128, sum: u32, most: u32) {
        let (lack, whole) = self.lack;
        // The least weights with a smaller shortfall: more than (1 − s) · r · W / R.
        let (factor, by) = (u128::from(sum) * (whole - lack), &self.divisor);
        let needs = parts.iter().map(|part| by.divide(part * factor) + 1);
        let total = needs.clone().try_fold(0, |total, need| (need <= most.into()).then_some(total + need));
        if total.is_none_or(|total| total > sum.into()) {
            return;
        }
        let Some(weights) = of_sum(parts, all, sum, most) else { return };
        let lacks = weights.iter().zip(parts).map(|(weight, part)| {
            let (has, needs) = (u128::from(*weight) * all, part * u128::from(sum));
            (needs.saturating_sub(has), needs.max(1))
        });
        let largest = lacks.reduce(|one, other| if other.0 * one.1 > one.0 * other.1 { other } else { one });
        let (lack, whole) = largest.unwrap_or((0, 1));
        if lack * self.lack.1 < self.lack.0 * whole {
            *self = Self { weights, lack: (lack, whole), divisor: Divisor::new(all * whole) };
        }
    }
}

/// A divisor of many numbers, most of which fit into 64 bits: there a multiplication by its inverse replaces the
/// division, which takes several times as long.
struct Divisor {
    by: u128,
    /// ⌊(2^64 − 1) / by⌋; 0 where `by` does not fit.
    inverse: u64,
}

impl Divisor {
    fn new(by: u128) -> Self {
        Self { by, inverse: u64::try_from(by).map_or(0, |by| u64::MAX / by) }
    }

    /// A quotient, rounded down.
    fn divide(&self, number: u128) -> u128 {
        let (Ok(small), true) = (u64::try_from(number), self.inverse > 0) else { return number / self.by };
        // The inverse is too small by less than 1 + 1/by in 2^64, so the quotient by at most 1.
        let quotient = (u128::from(small) * u128::from(self.inverse)) >> 64;
        if number - quotient * self.by >= self.by { quotient + 1 } else { quotient }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Weights with this sum; `None` if the range has none.
fn of_sum(bps: &[u128], all: u128, sum: u32, most: u32) -> Option<Vec<u32>> {
    let need = |bps: u128| (bps * u128::from(sum)).div_ceil(all).clamp(1, most.into()) as u32;
    let mut weights: Vec<u32> = bps.iter().map(|bps| need(*bps)).collect();
    let mut total: u32 = weights.iter().sum();
    // Where the rounded needs exceed the sum, the queue that misses the least by one unit less gives it.
    while total > sum {
        let loss = |at: usize| {
            let weight = u128::from(weights[at] - 1);
            (weights[at] > 1).then(|| lack(weight, u128::from(sum), bps[at], all))
        };
        let (at, _) =
            (0..weights.len()).filter_map(|at| Some((at, loss(at)?))).min_by_key(|(at, loss)| (*loss, *at))?;
        weights[at] -= 1;
        total -= 1;
    }
    // Where they leave some, the excess is divided as the reservations are: by the largest need per weight.
    while total < sum {
        let room = (0..weights.len()).filter(|at| weights[*at] < most);
        let at = room.max_by_key(|at| (bps[*at] * BILLION / u128::from(weights[*at]), std::cmp::Reverse(*at)))?;
        weights[at] += 1;
        total += 1;
    }
    Some(weights)
}

/// The part of a reservation that a weight does not cover, in billionths, rounded up.
fn lack(weight: u128, sum: u128, bps: u128, all: u128) -> u128 {
    let (has, needs) = (weight * all, bps * sum);
    if has >= needs { 0 } else { ((needs - has) * BILLION).div_ceil(needs) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shortfall(weights: &[u32], bps: &[u128], all: u128) -> u64 {
        let sum = weights.iter().map(|weight| u128::from(*weight)).sum();
        let lacks = weights.iter().zip(bps).map(|(weight, bps)| lack(u128::from(*weight), sum, *bps, all));
        lacks.max().unwrap_or(0) as u64
    }

    const GBPS: fn(u64) -> Bandwidth = Bandwidth::from_gbps;

    #[test]
    fn the_worked_example() {
        assert_eq!(weights(&[2, 4, 6].map(GBPS), 100), Weights { weights: vec![1, 2, 3], shortfall: 0 });
        let found = weights(&[1, 150].map(GBPS), 100);
        assert_eq!((found.weights.as_slice(), found.shortfall), (&[1, 100][..], 3_300_331));
        assert!(!found.cover(GBPS(151), GBPS(151)) && found.cover(GBPS(151), Bandwidth::from_mbps(151_501)));
    }

    #[test]
    fn a_queue_without_a_reservation_has_the_least_weight() {
        let found = weights(&[GBPS(0), GBPS(5), GBPS(5)], 100);
        assert_eq!((found.weights[0], found.weights[1], found.weights[2]), (1, 100, 100));
        assert!(found.shortfall > 0 && found.shortfall < 5_000_000);
    }

    proptest! {
        #[test]
        fn an_inverse_divides_exactly(number: u64, by in 1u64..) {
            for (number, by) in [(number, by), (number, by >> (by % 64)), (number / by * by, by), (u64::MAX, by)] {
                let by = by.max(1);
                prop_assert_eq!(Divisor::new(by.into()).divide(number.into()), u128::from(number / by));
            }
        }

        /// No weights of small ranges, by brute force, have a smaller largest shortfall.
        #[test]
        fn no_other_weights_have_a_smaller_shortfall(
            reserved in prop::collection::vec(0u64..1000, 1..4),
            most in 1u32..9,
        ) {
            let reserved: Vec<Bandwidth> = reserved.into_iter().map(Bandwidth::from_mbps).collect();
            let bps: Vec<u128> = reserved.iter().map(|bandwidth| u128::from(bandwidth.bps())).collect();
            let all = bps.iter().sum::<u128>().max(1);
            let found = weights(&reserved, most);
            prop_assert!(found.weights.iter().all(|weight| (1..=most).contains(weight)));
            let mut least = u64::MAX;
            for number in 0..most.pow(reserved.len() as u32) {
                let digits = (0..reserved.len() as u32).map(|digit| number / most.pow(digit) % most + 1);
                least = least.min(shortfall(&digits.collect::<Vec<_>>(), &bps, all));
            }
            prop_assert_eq!(found.shortfall, least);
        }
    }
}
