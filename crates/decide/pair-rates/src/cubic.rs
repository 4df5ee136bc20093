//! [`Cubic`]: a rate that grows by a cubic function of the time since congestion.
//!
//! Problem: a rate that congestion has lowered must come back fast, stay near the rate at which congestion began, and
//! then look for more; pairs must share by weight. Approach: CUBIC's window function on a rate, its constant
//! proportional to the weight: t seconds after congestion the rate is κ · w · (t − K)³ + r_max, with K such that it is
//! the lowered rate at t = 0. Where two pairs of weights w and w' see congestion together, every T, and lose the same
//! fraction β, each has β · r_max = κ · w · T³ in the steady state: rates are proportional to weights.
//!
//! A weight that changes from w to w' leaves the network as it was, so the rate and r_max, the rate at which congestion
//! began, stay. Of κ · w · (t − K)³ the weight alone changes then, hence the time to the plateau becomes
//! (t − K)' = (t − K) · (w / w')^⅓, on both sides of it. A function that begins anew agrees below the plateau; above it
//! it would begin with a plateau of its own, without growth, and one that begins anew at each partition stays there.
//!
//! All integers: times in microseconds, rates in bit/s, products in 128 bits, and the cube root by halving, so that a
//! run gives the same result on every machine.
//!
//! Worked example: w = 100 Mb/s, lowered from 100 to 50 Mb/s: K³ = 50 / (64 · 100) s³, K = 198 ms. After 99 ms the rate
//! is 93.75 Mb/s, after 198 ms 100 Mb/s, after 396 ms 150 Mb/s. With w = 800 Mb/s from 297 ms on, the time since the
//! plateau is 49.6 instead of 99.2 ms: the rate, 106.25 Mb/s, is the same and grows twice as fast.
//!
//! Source: CUBIC (RFC 9438 §4.2). Seawall (NSDI 2011) and ElasticSwitch's rate allocation, which is derived from it,
//! use a CUBIC-like law scaled by weight; neither text was at hand, nor what they do when a weight changes.

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
    /// The time of the congestion or of the last change of the weight, and from then on the microseconds to the
    /// plateau, K; negative once it has passed.
    since: Instant,
    k: i64,
    /// r_max.
    plateau: Bandwidth,
    weight: Bandwidth,
}

impl Cubic {
    /// A function that is `rate` at `now` and has its plateau at `plateau`, or at `rate` if that is more.
    pub fn new(now: Instant, rate: Bandwidth, plateau: Bandwidth, weight: Bandwidth) -> Self {
        let weight = weight.max(Bandwidth::from_bps(1));
        let below = u128::from(plateau.saturating_sub(rate).bps());
        let k = cube_root(below * CUBED / (KAPPA * u128::from(weight.bps()))) as i64;
        Self { since: now, k, plateau: plateau.max(rate), weight }
    }

    /// The function after congestion that lowered the rate from `before` to `rate`. A rate that did not come back to
    /// its plateau gives up half of what it lost (fast convergence, RFC 9438 §4.7).
    pub fn congested(&self, now: Instant, rate: Bandwidth, before: Bandwidth, weight: Bandwidth) -> Self {
        let released = before < self.plateau;
        let plateau = if released { Bandwidth::from_bps(before.bps().midpoint(rate.bps())) } else { before };
        Self::new(now, rate, plateau, weight)
    }

    /// Changes the weight. The rate is the same at `now`, and the plateau but for rounding.
    pub fn set_weight(&mut self, now: Instant, weight: Bandwidth) {
        let weight = weight.max(Bandwidth::from_bps(1));
        if weight == self.weight {
            return;
        }
        // A function that begins later, after a hold, has its first rate until then.
        let (rate, distance) = (self.rate(now), self.distance(now));
        let cube = u128::from(distance.unsigned_abs()).pow(3) * u128::from(self.weight.bps());
        let scaled = cube_root(cube / u128::from(weight.bps())) as i64;
        self.since = self.since.max(now);
        (self.k, self.weight) = (if distance < 0 { scaled } else { -scaled }, weight);
        // A time above the longest, and parts of microseconds, are taken from the plateau.
        let change = self.change(scaled.unsigned_abs().min(LONGEST));
        self.plateau = if distance < 0 { rate + change } else { rate.saturating_sub(change) };
    }

    /// The rate at a time; before the congestion, that of the congestion.
    pub fn rate(&self, now: Instant) -> Bandwidth {
        let distance = self.distance(now);
        let change = self.change(distance.unsigned_abs());
        if distance < 0 { self.plateau.saturating_sub(change) } else { self.plateau + change }
    }

    /// Microseconds since the plateau, at most [`LONGEST`]; negative before it.
    fn distance(&self, now: Instant) -> i64 {
        let longest = LONGEST as i64;
        let elapsed = (now.saturating_since(self.since).nanos() / 1000).min(LONGEST) as i64;
        (elapsed - self.k).min(longest)
    }

    /// The difference to the plateau, so many microseconds before or after it.
    fn change(&self, distance: u64) -> Bandwidth {
        let change = KAPPA * u128::from(self.weight.bps()) * u128::from(distance).pow(3) / CUBED;
        Bandwidth::from_bps(u64::try_from(change).unwrap_or(u64::MAX)).min(Bandwidth::UNLIMITED)
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

    #[test]
    fn worked_example_of_a_change_of_the_weight() {
        let mut cubic = Cubic::new(Instant::ZERO, mbps(50), mbps(100), mbps(100));
        let at = |micros: u64| Instant::from_nanos(micros * 1_000);
        cubic.set_weight(at(297_638), mbps(800));
        assert_eq!(cubic.k / 100, -496);
        // 64 · 800 Mb/s · (49.6 ms + 49.6 ms)³ above the plateau.
        let rates = [297_638, 297_638 + 49_606].map(|micros| cubic.rate(at(micros)).bps() / 10_000);
        assert_eq!(rates, [10_625, 14_999]);
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
        /// Before, at and after the plateau, and while a hold lasts.
        #[test]
        fn rate_and_plateau_stay_at_a_change_of_the_weight(
            (rate, more, weight) in (1u64..10_000, 0u64..10_000, 1u64..10_000),
            hold in 0u64..500,
            changes in prop::collection::vec((1u64..500, 1u64..10_000), 1..30),
        ) {
            let begin = Instant::from_nanos(hold * 1_000_000);
            let mut cubic = Cubic::new(begin, mbps(rate), mbps(rate + more), mbps(weight));
            let (mut at, first) = (Instant::ZERO, cubic.plateau());
            for (step, weight) in changes {
                at = at + weir_units::Duration::from_millis(step);
                let (rate, plateau) = (cubic.rate(at), cubic.plateau());
                // A rate at the line is where laws stop.
                if rate >= Bandwidth::from_gbps(1_000) {
                    return Ok(());
                }
                cubic.set_weight(at, mbps(weight));
                prop_assert_eq!(cubic.rate(at), rate);
                let rounding = rate.bps().abs_diff(plateau.bps()) / 1_000 + 10_000;
                let after = cubic.plateau();
                prop_assert!(after.bps().abs_diff(plateau.bps()) <= rounding, "{after} of {plateau}");
                // Never slower than a function that begins anew, but for the time in which two bits per second, the
                // rounding of rate and plateau, are gained at the plateau, and for a microsecond of each root.
                let later = at + weir_units::Duration::from_millis(20);
                let anew = Cubic::new(at.max(begin), rate, cubic.plateau(), mbps(weight));
                let gained = cube_root(2 * CUBED / (KAPPA * u128::from(mbps(weight).bps()))) + 2;
                let compared = later + weir_units::Duration::from_micros(gained);
                prop_assert!(cubic.rate(compared).bps() + rounding >= anew.rate(later).bps());
            }
            prop_assert!(cubic.plateau().bps().abs_diff(first.bps()) <= first.bps() / 10 + 1_000_000);
        }

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
