//! The water level: one number that says what everybody gets.
//!
//! Problem: vessels stand side by side, each with a width (its weight), a floor that is already filled (its
//! lower bound) and a rim (its upper bound). Pour in an amount; to what level does the water rise? This is
//! max-min fairness: nobody can have more unless somebody with less (per weight) gives it up.
//!
//! Approach: guess that no bound is active, which puts the level at amount / width. If the vessels then
//! hold more than there is, the true level is lower, so every vessel whose floor stands above the guess
//! keeps its floor; if they hold less, every vessel whose rim lies below the guess is full. Either way at
//! least one vessel is settled and leaves; guess again with the rest. Real demands settle a large part of
//! the vessels at each guess, so the whole costs a few linear scans. An adversary can make it one vessel at
//! a guess, so after [`GUESSES`] the rest is solved by halving the sorted bounds: n log n whatever the input.
//!
//! Levels are exact fractions (bit/s over thousandths of weight); comparisons are products in 128 bits.
//!
//! Worked example: amount 9, demands (rims) 1, 3 and unbounded, weights 1. The first guess is 3 each; the
//! vessels hold 1 + 3 + 3 = 7 < 9, so the rims 1 and 3 at or below the guess are full. The rest, 5, goes to
//! the third: 1, 3, 5.
//!
//! Source: Bertsekas and Gallager, Data Networks, §6.5.2, cited by Parley §3.2.2; the settle-and-repeat
//! order is the one of Parley ("each iteration satiates the demand for one service"), many at a time.

/// A bounded taker: receives `level × weight`, but at least `lower` and at most `upper`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vessel {
    /// The least it holds, bit/s; at most `upper`.
    pub lower: u64,
    /// The most it holds, bit/s; at most 2^60.
    pub upper: u64,
    /// Its width in thousandths of weight; more than zero, at most 2^30.
    pub weight: u32,
}

/// Bit/s per thousandth of weight, as an exact fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// Bit/s that the vessels between their bounds share.
    pub numerator: u64,
    /// Their weight in thousandths; more than zero.
    pub denominator: u64,
}

/// What a vessel holds at a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// Its lower bound: the level is at or below its floor.
    Lower,
    /// Its upper bound: the level is at or above its rim.
    Upper,
    /// Level × weight, strictly between its bounds.
    Level,
}

impl Level {
    /// Which bound of the vessel, if any, holds at this level.
    pub fn held(self, vessel: &Vessel) -> Held {
        let at = u128::from(self.numerator) * u128::from(vessel.weight);
        let width = u128::from(self.denominator);
        if u128::from(vessel.upper) * width <= at {
            Held::Upper
        } else if u128::from(vessel.lower) * width >= at {
            Held::Lower
        } else {
            Held::Level
        }
    }
}

/// How many guesses are made before the rest is solved by halving. Random demands need 4 to 8.
const GUESSES: u32 = 24;

/// What the vessels hold at a level, by which bound holds.
#[derive(Default)]
struct Poured {
    lower: u128,
    lower_weight: u64,
    upper: u128,
    upper_weight: u64,
    level_weight: u64,
}

impl Poured {
    fn measure(vessels: &[Vessel], level: Level) -> Self {
        let mut poured = Self::default();
        for vessel in vessels {
            match level.held(vessel) {
                Held::Lower => {
                    poured.lower += u128::from(vessel.lower);
                    poured.lower_weight += u64::from(vessel.weight);
                }
                Held::Upper => {
                    poured.upper += u128::from(vessel.upper);
                    poured.upper_weight += u64::from(vessel.weight);
                }
                Held::Level => poured.level_weight += u64::from(vessel.weight),
            }
        }
        poured
    }

    /// Whether the vessels hold more (`Greater`), less or exactly `amount` at the level they were measured at.
    fn against(&self, amount: u64, level: Level) -> std::cmp::Ordering {
        let bounds = self.lower + self.upper;
        let Some(rest) = u128::from(amount).checked_sub(bounds) else {
            return std::cmp::Ordering::Greater;
        };
        let between = u128::from(level.numerator) * u128::from(self.level_weight);
        between.cmp(&(rest * u128::from(level.denominator)))
    }
}

/// The level at which `vessels` hold exactly `amount`. The vector is used as scratch space and left in no
/// particular state.
///
/// # Panics
/// In tests, if `amount` is not between the sum of the lower bounds and the sum of the upper bounds.
pub fn level(vessels: &mut Vec<Vessel>, amount: u64) -> Level {
    debug_assert!(vessels.iter().map(|v| u128::from(v.lower)).sum::<u128>() <= u128::from(amount));
    debug_assert!(vessels.iter().map(|v| u128::from(v.upper)).sum::<u128>() >= u128::from(amount));
    let mut amount = amount;
    let mut weight: u64 = vessels.iter().map(|v| u64::from(v.weight)).sum();
    let mut last = Level { numerator: 0, denominator: 1 };
    for _ in 0..GUESSES {
        if weight == 0 {
            return last;
        }
        let guess = Level { numerator: amount, denominator: weight };
        let poured = Poured::measure(vessels, guess);
        match poured.against(amount, guess) {
            std::cmp::Ordering::Equal => return guess,
            std::cmp::Ordering::Greater => {
                amount -= poured.lower as u64;
                weight -= poured.lower_weight;
                vessels.retain(|v| guess.held(v) != Held::Lower);
            }
            std::cmp::Ordering::Less => {
                amount -= poured.upper as u64;
                weight -= poured.upper_weight;
                vessels.retain(|v| guess.held(v) != Held::Upper);
            }
        }
        last = guess;
    }
    halve(vessels, amount, last)
}

/// The level by bisection over the bounds themselves: at the last bound that is still too low (or right),
/// every vessel's state is known and the rest is one division.
fn halve(vessels: &[Vessel], amount: u64, last: Level) -> Level {
    let mut bounds: Vec<Level> = vessels
        .iter()
        .flat_map(|v| [v.lower, v.upper].map(|bound| Level { numerator: bound, denominator: u64::from(v.weight) }))
        .collect();
    bounds.sort_unstable_by_key(|bound| Fraction(*bound));
    // The first bound at which the vessels hold more than the amount.
    let over = bounds.partition_point(|bound| Poured::measure(vessels, *bound).against(amount, *bound).is_le());
    let Some(below) = over.checked_sub(1).map(|i| bounds[i]) else { return last };
    let poured = Poured::measure(vessels, below);
    if poured.against(amount, below).is_eq() {
        return below;
    }
    // Between this bound and the next one, vessels at `Lower` stay there unless their floor is this very
    // bound; those start to rise with the level.
    let rising = vessels.iter().filter(|v| {
        let floor = Fraction(Level { numerator: v.lower, denominator: u64::from(v.weight) });
        let rim = Fraction(Level { numerator: v.upper, denominator: u64::from(v.weight) });
        floor <= Fraction(below) && Fraction(below) < rim
    });
    let (mut settled, mut width) = (0u128, 0u64);
    let all: u128 = poured.lower + poured.upper;
    for vessel in rising {
        width += u64::from(vessel.weight);
        if below.held(vessel) == Held::Lower {
            settled += u128::from(vessel.lower);
        }
    }
    match width {
        0 => below,
        _ => Level { numerator: (u128::from(amount) - (all - settled)) as u64, denominator: width },
    }
}

/// Orders levels as the fractions that they are.
#[derive(Clone, Copy)]
struct Fraction(Level);

impl PartialEq for Fraction {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Fraction {}
impl PartialOrd for Fraction {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Fraction {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let left = u128::from(self.0.numerator) * u128::from(other.0.denominator);
        let right = u128::from(other.0.numerator) * u128::from(self.0.denominator);
        left.cmp(&right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn vessel(lower: u64, upper: u64, weight: u32) -> Vessel {
        Vessel { lower, upper, weight }
    }

    #[test]
    fn worked_example() {
        // 9 into rims 1, 3, 9: guess 3 holds 7; rims 1 and 3 settle; 9 − 4 = 5 over weight 1.
        let mut vessels = vec![vessel(0, 1, 1), vessel(0, 3, 1), vessel(0, 9, 1)];
        assert_eq!(level(&mut vessels, 9), Level { numerator: 5, denominator: 1 });
    }

    #[test]
    fn floors_push_the_level_down() {
        // 10 into floor 6 and none: guess 5 holds 6 + 5 = 11; the floor settles; 4 is left for the other.
        let mut vessels = vec![vessel(6, 10, 1), vessel(0, 10, 1)];
        assert_eq!(level(&mut vessels, 10), Level { numerator: 4, denominator: 1 });
    }

    fn vessels() -> impl Strategy<Value = Vec<Vessel>> {
        let one = (0u64..60, 0u64..60, 1u32..5).prop_map(|(a, b, w)| vessel(a.min(b), a.max(b), w));
        proptest::collection::vec(one, 1..12)
    }

    proptest! {
        /// Both ways to the level describe the same filling, and it holds exactly the amount.
        #[test]
        fn halving_and_guessing_agree(vessels in vessels(), part in 0u64..=100) {
            let low: u64 = vessels.iter().map(|v| v.lower).sum();
            let high: u64 = vessels.iter().map(|v| v.upper).sum();
            let amount = low + (high - low) * part / 100;
            let guessed = level(&mut vessels.clone(), amount);
            let halved = halve(&vessels, amount, Level { numerator: 0, denominator: 1 });
            for found in [guessed, halved] {
                let poured = Poured::measure(&vessels, found);
                prop_assert!(poured.against(amount, found).is_eq(), "{found:?} does not hold {amount}");
            }
        }
    }

    #[test]
    fn one_settles_at_each_guess_and_the_rest_is_halved() {
        // Rims in geometric progression against weights that keep the guess just above the next rim.
        let mut vessels: Vec<Vessel> = (0..59).map(|i| vessel(0, 1 << i, 1)).collect();
        vessels.push(vessel(0, 1 << 59, 1));
        let amount = (1u64 << 59) - 1 + 5;
        let found = level(&mut vessels.clone(), amount);
        assert!(Poured::measure(&vessels, found).against(amount, found).is_eq());
    }
}
