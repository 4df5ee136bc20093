//! [`Cubic`]: a rate that grows by a cubic function of the time since congestion.
//!
//! Problem: a rate that congestion has lowered must come back fast, stay near the rate at which congestion began, and
//! then look for more; pairs must share by weight. Approach: CUBIC's window function on a rate, its constant
//! proportional to the weight: t seconds after congestion the rate is κ · w · (t − K)³ + r_max, with K such that it is
//! the lowered rate at t = 0. Where two pairs of weights w and w' see congestion together, every T, and lose the same
//! fraction β, each has β · r_max = κ · w · T³ in the steady state: rates are proportional to weights.
//!
//! All integers: times in microseconds, rates in bit/s, products in 128 bits, and the cube root by halving, so that a
//! run gives the same result on every machine.
//!
//! Worked example: w = 100 Mb/s, lowered from 100 to 50 Mb/s: K³ = 50 / (64 · 100) s³, K = 198 ms. After 99 ms the rate
//! is 93.75 Mb/s, after 198 ms 100 Mb/s, after 396 ms 150 Mb/s.
//!
//! Source: CUBIC (RFC 9438 §4.2). Seawall (NSDI 2011) uses a CUBIC-like law; its constants were not at hand.

use weir_units::{Bandwidth, Instant};

/// κ, per cubic second: half of a rate equal to its weight comes back in 0.2 s, some ten reports. Ours.
const KAPPA: u128 = 64;
/// Microseconds of a second, cubed.
const CUBED: u128 = 1_000_000_000_000_000_000;
/// The longest time that counts, in microseconds: 100 s. Products stay within 2^127.
const LONGEST: u64 = 100_000_000;

/// The function since the last congestion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cubic {
    /// The time of the congestion, and K in microseconds.
    since: Instant,
    k: u64,
    /// r_max.
    plateau: Bandwidth,
    weight: Bandwidth,
}

impl Cubic {
    /// A function that is `rate` at `now` and has its plateau at `plateau`, or at `rate` if that is more.
    pub fn new(now: Instant, rate: Bandwidth, plateau: Bandwidth, weight: Bandwidth) -> Self {
        let weight = weight.max(Bandwidth::from_bps(1));
        let below = u128::from(plateau.saturating_sub(rate).bps());
        let k = cube_root(below * CUBED / (KAPPA * u128::from(weight.bps())));
        Self { since: now, k, plateau: plateau.max(rate), weight }
    }

    /// The function after congestion that lowered the rate from `before` to `rate`. A rate that did not come back to
    /// its plateau gives up half of what it lost (fast convergence, RFC 9438 §4.7).
    pub fn congested(&self, now: Instant, rate: Bandwidth, before: Bandwidth, weight: Bandwidth) -> Self {
        let released = before < self.plateau;
        let plateau = if released { Bandwidth::from_bps(before.bps().midpoint(rate.bps())) } else { before };
        Self::new(now, rate, plateau, weight)
    }

    /// The rate at a time; before the congestion, that of the congestion.
    pub fn rate(&self, now: Instant) -> Bandwidth {
        let elapsed = (now.saturating_since(self.since).nanos() / 1000).min(LONGEST);
        let distance = u128::from(elapsed.abs_diff(self.k));
        let change = KAPPA * u128::from(self.weight.bps()) * distance.pow(3) / CUBED;
        let change = Bandwidth::from_bps(u64::try_from(change).unwrap_or(u64::MAX));
        if elapsed < self.k { self.plateau.saturating_sub(change) } else { self.plateau + change }
    }

    /// r_max.
    pub fn plateau(&self) -> Bandwidth {
        self.plateau
    }
}

/// The largest integer whose cube is at most `cube`, and at most [`LONGEST`].
fn cube_root(cube: u128) -> u64 {
    let (mut low, mut high) = (0, LONGEST);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if u128::from(middle).pow(3) <= cube { low = middle } else { high = middle - 1 }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mbps(rate: u64) -> Bandwidth {
        Bandwidth::from_mbps(rate)
    }

    #[test]
    fn worked_example() {
        let cubic = Cubic::new(Instant::ZERO, mbps(50), mbps(100), mbps(100));
        assert_eq!(cubic.k / 1000, 198);
        let at = |millis: u64| cubic.rate(Instant::from_nanos(millis * 1_000_000)).bps() / 100_000;
        // 99.2 ms, 198.4 ms and 396.9 ms are K / 2, K and 2 K.
        assert_eq!([at(0), at(99), at(199), at(396)], [500, 937, 1000, 1493]);
    }

    /// Two pairs that lose half of their rates together, whenever their sum reaches a capacity, share it by weight.
    #[test]
    fn rates_converge_to_weights() {
        let (weights, capacity, mut sums) = ([mbps(10), mbps(30)], 100_000_000, [0, 0]);
        let mut rates = [mbps(50), mbps(1)];
        let mut cubics = [0, 1].map(|at| Cubic::new(Instant::ZERO, rates[at], rates[at], weights[at]));
        for tick in 0..20_000 {
            let now = Instant::from_nanos(tick * 5_000_000);
            rates = [0, 1].map(|at: usize| cubics[at].rate(now));
            if rates[0].bps() + rates[1].bps() >= capacity {
                for at in [0, 1] {
                    let lowered = Bandwidth::from_bps(rates[at].bps() / 2);
                    cubics[at] = cubics[at].congested(now, lowered, rates[at], weights[at]);
                }
            }
            if tick >= 2_000 {
                sums.iter_mut().zip(rates).for_each(|(sum, rate)| *sum += rate.bps());
            }
        }
        let ratio = sums[1] * 100 / sums[0];
        assert!((270..=330).contains(&ratio), "{ratio} of 300");
    }

    proptest! {
        #[test]
        fn rate_starts_at_the_lowered_one_and_never_falls(
            (rate, more, weight) in (1u64..10_000, 0u64..10_000, 1u64..10_000),
            steps in prop::collection::vec(1u64..500, 1..30),
        ) {
            let (low, high) = (mbps(rate), mbps(rate + more));
            let cubic = Cubic::new(Instant::ZERO, low, high, mbps(weight));
            let (mut at, mut before) = (Instant::ZERO, cubic.rate(Instant::ZERO));
            // K is rounded down to a microsecond.
            prop_assert!(before >= low && before.bps() - low.bps() <= high.bps() / 1000, "{before} of {low}");
            for step in steps {
                at = at + weir_units::Duration::from_millis(step);
                let next = cubic.rate(at);
                prop_assert!(next >= before);
                before = next;
            }
        }
    }
}
