//! The water level: one number that determines all shares.
//!
//! Problem: vessels are side by side, each with a width (its weight), a floor that is already
//! filled (its lower bound) and a rim (its upper bound). Pour in an amount; to what level does the
//! water rise? This is max-min fairness: no vessel can hold more unless one with less (per weight)
//! gives it up.
//!
//! Approach: guess that no bound is active, which puts the level at amount / width. If the vessels
//! then hold more than the amount, the true level is lower, so every vessel whose floor is above
//! the guess keeps its floor; if they hold less, every vessel whose rim lies below the guess is
//! full. Either way at least one vessel is settled and leaves; guess again with the rest. Real
//! demands settle a large part of the vessels at each guess, so the whole costs a few linear scans.
//! An adversary can make it one vessel at a guess, so after [`GUESSES`] the rest is solved by
//! halving the sorted bounds: n log n for any input.
//!
//! With many vessels even a few scans cost, so [`level`] first looks at a sample of [`SAMPLE`] of
//! them. The sample's level, a little lower and a little higher, is a bracket: one scan settles
//! every vessel that the whole bracket leaves full, on its floor or free, and only the few in doubt
//! are kept. If the answer falls outside the bracket (a sample can mislead), the vessels are solved
//! again without it.
//!
//! Levels are exact fractions (bit/s over thousandths of weight); comparisons are products in 128
//! bits.
//!
//! Worked example: amount 9, demands (rims) 1, 3 and unbounded, weights 1. The first guess is 3
//! each; the vessels hold 1 + 3 + 3 = 7 < 9, so the rims 1 and 3 at or below the guess are full.
//! The rest, 5, goes to the third: 1, 3, 5.
//!
//! Source: Bertsekas and Gallager, Data Networks, §6.5.2, cited by Parley §3.2.2; the
//! settle-and-repeat order is the one of Parley ("each iteration satiates the demand for one
//! service"), many at a time.

mod profile;

pub use profile::{Profile, WideVessel};

use std::cmp::Ordering;

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

/// Whether a bound clips the content of a vessel at a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clipped {
    /// Its lower bound: the level is at or below its floor.
    Lower,
    /// Its upper bound: the level is at or above its rim.
    Upper,
    /// Level × weight, strictly between its bounds.
    Level,
}

impl Level {
    /// Orders levels as the fractions that they are.
    fn cmp(&self, other: &Self) -> Ordering {
        let left = u128::from(self.numerator) * u128::from(other.denominator);
        let right = u128::from(other.numerator) * u128::from(self.denominator);
        left.cmp(&right)
    }
    /// Which bound of the vessel, if any, holds at this level.
    pub fn clip(self, vessel: &Vessel) -> Clipped {
        let at = u128::from(self.numerator) * u128::from(vessel.weight);
        let width = u128::from(self.denominator);
        if u128::from(vessel.upper) * width <= at {
            Clipped::Upper
        } else if u128::from(vessel.lower) * width >= at {
            Clipped::Lower
        } else {
            Clipped::Level
        }
    }
}

/// The fewest vessels of a sample for the level of many; of more than 64 times as many, one in 64.
pub const SAMPLE: usize = 1024;
/// The most vessels of a sample: enough for a bracket of two hundredths where it is widest.
const LARGEST_SAMPLE: usize = 8 * SAMPLE;
/// Half the bracket's width in standard deviations of a sample's level: narrow, since a miss costs
/// only time.
const BRACKET_DEVIATIONS: f64 = 2.5;
/// The bracket is worth its scan from this many vessels on.
const MANY: usize = 4 * SAMPLE;
/// Bounds of the bracket are whole bit/s per thousandth below this, so that a bound × weight fits
/// 64 bits.
const BRACKET_TOP: u64 = 1 << 33;

/// The guesses before the rest is solved by halving. Random demands need 4 to 8.
const GUESSES: u32 = 24;

/// The content of the vessels at a level, by the bound that holds.
#[derive(Default)]
struct Poured {
    lower: u128,
    lower_weight: u64,
    upper: u128,
    upper_weight: u64,
    level_weight: u64,
}

impl Poured {
    fn measure(vessels: &[Vessel], free: u64, level: Level) -> Self {
        let mut poured = Self { level_weight: free, ..Self::default() };
        for vessel in vessels {
            match level.clip(vessel) {
                Clipped::Lower => {
                    poured.lower += u128::from(vessel.lower);
                    poured.lower_weight += u64::from(vessel.weight);
                }
                Clipped::Upper => {
                    poured.upper += u128::from(vessel.upper);
                    poured.upper_weight += u64::from(vessel.weight);
                }
                Clipped::Level => poured.level_weight += u64::from(vessel.weight),
            }
        }
        poured
    }

    /// Whether the vessels hold more (`Greater`), less or exactly `amount` at the level of the
    /// measurement.
    fn against(&self, amount: u64, level: Level) -> Ordering {
        let bounds = self.lower + self.upper;
        let Some(rest) = u128::from(amount).checked_sub(bounds) else {
            return Ordering::Greater;
        };
        let between = u128::from(level.numerator) * u128::from(self.level_weight);
        between.cmp(&(rest * u128::from(level.denominator)))
    }
}

/// The level at which the vessels, seen through `vessel`, hold exactly `amount`. `lowers` and
/// `uppers` are the sums of their bounds, which every caller already has. `scratch` is left in no
/// particular state.
///
/// # Panics
/// In tests, if `amount` is not between `lowers` and `uppers`.
pub fn level<T>(
    takers: &[T],
    vessel: impl Fn(&T) -> Vessel,
    (lowers, uppers): (u128, u128),
    amount: u64,
    scratch: &mut Vec<Vessel>,
) -> Level {
    debug_assert!(lowers <= u128::from(amount) && u128::from(amount) <= uppers, "{lowers} ≤ {amount} ≤ {uppers}");
    if takers.len() >= MANY {
        let part = (u128::from(amount) - lowers) as f64 / (uppers - lowers).max(1) as f64;
        if let Some((low, high)) = bracket(takers, &vessel, part, scratch)
            && let Some(level) = level_within(takers, &vessel, amount, (low, high), scratch)
        {
            return level;
        }
    }
    scratch.clear();
    scratch.extend(takers.iter().map(vessel));
    solve(scratch, amount, 0)
}

/// Whole levels below and above the sample's level at `part` of the way between its empty and its
/// full.
fn bracket<T>(takers: &[T], vessel: impl Fn(&T) -> Vessel, part: f64, scratch: &mut Vec<Vessel>) -> Option<(u64, u64)> {
    let stride = takers.len() / (takers.len() / 64).clamp(SAMPLE, LARGEST_SAMPLE);
    let sample: Vec<Vessel> = takers.iter().step_by(stride).map(vessel).collect();
    let (lower, upper) =
        sample.iter().fold((0u128, 0u128), |(l, u), v| (l + u128::from(v.lower), u + u128::from(v.upper)));
    // A sample of m misjudges a proportion by about this much; vessels are no coins, but the
    // bracket is checked.
    let m = sample.len() as f64;
    let width = BRACKET_DEVIATIONS * (part * (1.0 - part) / m).sqrt() + 1.0 / m;
    let mut at = |part: f64| {
        let amount = lower + ((upper - lower) as f64 * part) as u128;
        scratch.clear();
        scratch.extend_from_slice(&sample);
        // A sample's bounds may add up to more than any one amount; such demands are left to
        // `solve`.
        Some(solve(scratch, u64::try_from(amount.clamp(lower, upper)).ok()?, 0))
    };
    let low = if part > width { at(part - width)? } else { Level { numerator: 0, denominator: 1 } };
    let low = low.numerator / low.denominator;
    let high = if part + width < 1.0 {
        let high = at(part + width)?;
        high.numerator / high.denominator + 1
    } else {
        BRACKET_TOP
    };
    (low < high && high <= BRACKET_TOP).then_some((low, high))
}

/// The level if it lies within the bracket: one scan, then the vessels in doubt.
fn level_within<T>(
    takers: &[T],
    vessel: impl Fn(&T) -> Vessel,
    amount: u64,
    (low, high): (u64, u64),
    doubtful: &mut Vec<Vessel>,
) -> Option<Level> {
    doubtful.clear();
    let (mut settled, mut free) = (0u128, 0u64);
    for taker in takers {
        let v = vessel(taker);
        let (low, high) = (low * u64::from(v.weight), high * u64::from(v.weight));
        // The bound that holds is random: sums of products mispredict nothing.
        let full = v.upper <= low;
        let floored = !full & (v.lower >= high);
        let clear = !full & (v.lower <= low) & (v.upper >= high);
        settled += u128::from(v.upper * u64::from(full) + v.lower * u64::from(floored));
        free += u64::from(v.weight) * u64::from(clear);
        if !(full | floored | clear) {
            doubtful.push(v);
        }
    }
    let rest = u64::try_from(u128::from(amount).checked_sub(settled)?).ok()?;
    let least: u128 = doubtful.iter().map(|v| u128::from(v.lower)).sum();
    let most: u128 = doubtful.iter().map(|v| u128::from(v.upper)).sum();
    if least > u128::from(rest) || (free == 0 && most < u128::from(rest)) {
        return None;
    }
    let level = solve(doubtful, rest, free);
    let inside = u128::from(low) * u128::from(level.denominator) <= u128::from(level.numerator)
        && u128::from(level.numerator) <= u128::from(high) * u128::from(level.denominator);
    inside.then_some(level)
}

/// The level of `vessels` beside `free` weight without bounds, by settling and guessing again.
fn solve(vessels: &mut Vec<Vessel>, amount: u64, free: u64) -> Level {
    let mut amount = amount;
    let mut weight: u64 = free + vessels.iter().map(|v| u64::from(v.weight)).sum::<u64>();
    let mut last = Level { numerator: 0, denominator: 1 };
    for _ in 0..GUESSES {
        if weight == 0 {
            return last;
        }
        let guess = Level { numerator: amount, denominator: weight };
        let poured = Poured::measure(vessels, free, guess);
        match poured.against(amount, guess) {
            Ordering::Equal => return guess,
            Ordering::Greater => {
                amount -= poured.lower as u64;
                weight -= poured.lower_weight;
                vessels.retain(|v| guess.clip(v) != Clipped::Lower);
            }
            Ordering::Less => {
                amount -= poured.upper as u64;
                weight -= poured.upper_weight;
                vessels.retain(|v| guess.clip(v) != Clipped::Upper);
            }
        }
        last = guess;
    }
    halve(vessels, amount, free, last)
}

/// The level by bisection over the bounds themselves: at the last bound that is still too low (or
/// right), every vessel's state is known and the rest is one division.
fn halve(vessels: &[Vessel], amount: u64, free: u64, last: Level) -> Level {
    let bound = |bound: u64, v: &Vessel| Level { numerator: bound, denominator: u64::from(v.weight) };
    let mut bounds: Vec<Level> = vessels.iter().flat_map(|v| [bound(v.lower, v), bound(v.upper, v)]).collect();
    // With free weight the level may lie below every bound.
    bounds.push(Level { numerator: 0, denominator: 1 });
    bounds.sort_unstable_by(Level::cmp);
    let over = bounds.partition_point(|b| Poured::measure(vessels, free, *b).against(amount, *b).is_le());
    let Some(below) = over.checked_sub(1).map(|i| bounds[i]) else { return last };
    // Just above this bound a vessel rises if its floor is not higher and its rim is.
    let (mut fixed, mut width) = (0u128, free);
    for v in vessels {
        let floor_reached = bound(v.lower, v).cmp(&below).is_le();
        if below.clip(v) == Clipped::Upper {
            fixed += u128::from(v.upper);
        } else if floor_reached {
            width += u64::from(v.weight);
        } else {
            fixed += u128::from(v.lower);
        }
    }
    match width {
        0 => below,
        _ => Level { numerator: (u128::from(amount) - fixed) as u64, denominator: width },
    }
}

#[cfg(test)]
mod tests;
