//! One node's bandwidth among its children.
//!
//! Problem: children have a guarantee (`min`), a limit (`max`), a weight and a demand; share a
//! capacity among them in whole bit/s.
//!
//! Two rules exist because Parley's text and its Fig 14 differ (the text gives 15/45 there, the
//! paper reports 30/30):
//!
//! - [`Sharing::Add`], §3.1: each child first gets its guarantee `g = min(min, max, demand)`; the
//!   excess is water-filled by weight up to `min(max, demand)`.
//! - [`Sharing::Fill`]: one water level by weight; each gets its part of it, clipped between `g`
//!   and `min(max, demand)`.
//!
//! Both are the same picture, vessels filled to one level: `Add` pours the excess into vessels
//! without floors that stand on top of the guarantees, `Fill` pours everything into vessels whose
//! floors are the guarantees. If the guarantees alone exceed the capacity (admission control
//! prevents it at the top, a tighter limit above can cause it below), the guarantees are the rims
//! and the configured minima the weights: one level again, below 1.
//!
//! Every case is consistent: a child whose demand is lowered to its share changes no share. The
//! repeated passes of [`rack`](crate::rack) and [`fabric`](crate::fabric) rely on it. It is the
//! reason for the weights of shrunken guarantees: proportions of the *current* guarantees would
//! shrink again with each pass for a child whose demand an earlier pass lowered.
//!
//! Fractional parts are rounded by largest remainder, ties to the first, so that the sum is exact.
//! A consequence of that rule, known from apportionment: one more bit of capacity can cost a child
//! one bit.
//!
//! A child is limited only when its demand reaches its share: at its `max`, or at the water level.
//! Below that a limit would only delay it (Parley §3.2.2, §7).
//!
//! Worked example: capacity 10, (min 2, weight 1), (max 4, weight 3), (demand 1, min 1), the first
//! two backlogged. Guarantees 2, 0, 1 leave 7. The third demands nothing more. The level 7/4 would
//! give the second 5.25, above its 4, so it settles at 4 and the first takes 3 more: 5, 4, 1.
//!
//! Source: Parley §3.1, §3.2.2, Figs 6 and 14.

use crate::water::{Level, Profile, Vessel, WideVessel, level};
use weir_policy::{Share, Sharing};
use weir_units::{Bandwidth, Weight};

/// A taker of bandwidth with its demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Child {
    /// The guarantee, bit/s.
    pub min: Bandwidth,
    /// The limit; [`Bandwidth::UNLIMITED`] when none.
    pub max: Bandwidth,
    /// The demand; [`Bandwidth::UNLIMITED`] when backlogged.
    pub demand: Bandwidth,
    /// Its weight in the excess.
    pub weight: Weight,
}

impl Child {
    /// A child with the share that a policy gives it and a demand.
    pub fn new(share: Share, demand: Bandwidth) -> Self {
        Self { min: share.min, max: share.max, demand, weight: share.weight }
    }
    /// The most it can use.
    pub fn usable(&self) -> Bandwidth {
        self.demand.min(self.max)
    }
    /// Its current guarantee: idle guarantees are clipped by the demand.
    pub fn guaranteed(&self) -> Bandwidth {
        self.min.min(self.usable())
    }
}

/// The constraint that decided a child's share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Decision {
    /// Its own demand, which is below its share: it needs no limit.
    #[default]
    Demand,
    /// Its own maximum, which its demand reaches.
    Max,
    /// The water level: its parent's bandwidth, shared with its siblings.
    Level,
}

/// Scratch space and results of filling one node; reuse it to avoid allocation.
#[derive(Debug, Default)]
pub struct Filling {
    /// Each child's bandwidth, in the order given.
    pub shares: Vec<Bandwidth>,
    /// The constraint that decided each.
    pub decisions: Vec<Decision>,
    vessels: Vec<Vessel>,
    remainders: Vec<(u64, u32)>,
    profile: Profile,
    guarantees: Profile,
}

impl Filling {
    /// Shares `capacity` among `children`. The shares add up to the lesser of the capacity and the
    /// children's bounds; both may be unlimited.
    pub fn fill(&mut self, sharing: Sharing, capacity: Bandwidth, children: &[Child]) {
        self.shares.clear();
        self.decisions.clear();
        let (mut usable, mut guaranteed) = (0u128, 0u128);
        for child in children {
            usable += u128::from(child.usable().bps());
            guaranteed += u128::from(child.guaranteed().bps());
        }
        if usable <= u128::from(capacity.bps()) || capacity.is_unlimited() {
            self.shares.extend(children.iter().map(Child::usable));
            self.decisions.extend(children.iter().map(uncontended));
        } else if guaranteed >= u128::from(capacity.bps()) {
            self.shrink_guarantees(capacity.bps(), children);
        } else {
            self.pour(sharing, capacity.bps(), (guaranteed, usable), children);
        }
    }

    /// Each child's share if its own demand were unlimited, beside the demands of the others. Where
    /// a child's demand is limited, this is its share.
    ///
    /// A share may be one bit less for each child than [`Self::fill`] computes for it.
    pub fn ceilings(
        &mut self,
        sharing: Sharing,
        capacity: Bandwidth,
        children: &[Child],
        ceilings: &mut Vec<Bandwidth>,
    ) {
        ceilings.clear();
        if capacity.is_unlimited() {
            ceilings.extend(children.iter().map(|child| child.max));
            return;
        }
        let capacity = capacity.bps();
        let guaranteed: u128 = children.iter().map(|child| u128::from(child.guaranteed().bps())).sum();
        let excess = |child: &Child| {
            let (floor, rim) =
                (child.guaranteed().bps(), child.usable().bps().min(capacity).max(child.guaranteed().bps()));
            let weight = child.weight.thousandths().into();
            match sharing {
                Sharing::Add => WideVessel { lower: 0, upper: rim - floor, weight },
                Sharing::Fill => WideVessel { lower: floor, upper: rim, weight },
            }
        };
        let shrunken = |child: &Child| {
            // A child without a guarantee has none of it, whatever its weight.
            WideVessel { lower: 0, upper: child.guaranteed().bps(), weight: child.min.bps().max(1) }
        };
        self.profile.set(children.iter().map(excess));
        self.guarantees.set(children.iter().map(shrunken));
        ceilings.extend(children.iter().map(|child| {
            let min = child.min.min(child.max).bps();
            let others = guaranteed - u128::from(child.guaranteed().bps());
            let share = match u128::from(capacity).checked_sub(others + u128::from(min)) {
                None if min == 0 => 0,
                None => self.guarantees.share_without_rim(&shrunken(child), child.min.bps(), capacity).min(min),
                Some(excess_rate) => {
                    let amount = if sharing == Sharing::Add { excess_rate as u64 } else { capacity };
                    let poured =
                        self.profile.share_without_rim(&excess(child), child.weight.thousandths().into(), amount);
                    if sharing == Sharing::Add { min + poured } else { poured.max(min) }
                }
            };
            Bandwidth::from_bps(share).min(child.max)
        }));
    }

    /// Guarantees beyond the capacity: a level λ below 1, and each child has λ times its configured
    /// minimum, at most its current guarantee.
    fn shrink_guarantees(&mut self, capacity: u64, children: &[Child]) {
        // Products of a rate (below 2^60) and a sum of minima must fit 128 bits: a sum of 2^67 or
        // more loses its last bits.
        let sum: u128 = children.iter().map(|child| u128::from(child.min.bps())).sum();
        let shift = (u128::BITS - sum.leading_zeros()).saturating_sub(67);
        let weight = |child: &Child| u128::from(child.min.bps()) >> shift;
        let rim = |child: &Child| u128::from(child.guaranteed().bps());
        self.remainders.clear();
        let has_minimum = |i: &u32| weight(&children[*i as usize]) > 0;
        self.remainders.extend((0..children.len() as u32).filter(has_minimum).map(|i| (0, i)));
        self.remainders.sort_unstable_by(|(_, a), (_, b)| {
            let (a, b) = (&children[*a as usize], &children[*b as usize]);
            (rim(a) * weight(b)).cmp(&(rim(b) * weight(a)))
        });
        // The lowest rims are full first; the level rises with each of them.
        let (mut rest, mut width) = (u128::from(capacity), children.iter().map(weight).sum::<u128>());
        let mut full = 0;
        for (_, i) in &self.remainders {
            let child = &children[*i as usize];
            // A demand that the level just reaches is limited by it, unless it is zero.
            if rim(child) > 0 && rim(child) * width >= rest * weight(child) {
                break;
            }
            rest -= rim(child);
            width -= weight(child);
            full += 1;
        }
        // Children without a minimum get nothing.
        let without_share =
            |child: &Child| if child.usable() == Bandwidth::ZERO { Decision::Demand } else { Decision::Level };
        self.shares.resize(children.len(), Bandwidth::ZERO);
        self.decisions.extend(children.iter().map(without_share));
        for (_, i) in self.remainders.drain(..full) {
            let child = &children[i as usize];
            self.shares[i as usize] = child.guaranteed();
            // A child at its guarantee may still demand more.
            let satisfied = child.guaranteed() == child.usable();
            self.decisions[i as usize] = if satisfied { uncontended(child) } else { Decision::Level };
        }
        let mut left = rest as u64;
        let narrow = (u128::BITS - width.leading_zeros()).saturating_sub(u64::BITS);
        for (remainder, i) in &mut self.remainders {
            let child = &children[*i as usize];
            let scaled = rest * weight(child);
            let share = Bandwidth::from_bps((scaled / width) as u64);
            *remainder = ((scaled % width) >> narrow) as u64;
            left -= share.bps();
            self.shares[*i as usize] = share;
            let at_maximum = child.max <= child.demand && child.max == share;
            self.decisions[*i as usize] = if at_maximum { Decision::Max } else { Decision::Level };
        }
        self.hand_out(left);
    }

    fn pour(&mut self, sharing: Sharing, capacity: u64, (guaranteed, usable): (u128, u128), children: &[Child]) {
        // An unlimited rim would overflow; no child can hold more than the capacity.
        let vessel = |child: &Child| {
            let (floor, rim) = (child.guaranteed().bps(), child.usable().bps().min(capacity));
            match sharing {
                Sharing::Add => Vessel { lower: 0, upper: rim - floor, weight: child.weight.thousandths() },
                Sharing::Fill => Vessel { lower: floor, upper: rim, weight: child.weight.thousandths() },
            }
        };
        let (amount, bounds) = match sharing {
            Sharing::Add => (capacity - guaranteed as u64, (0, usable - guaranteed)),
            Sharing::Fill => (capacity, (guaranteed, usable)),
        };
        let level = level(children, vessel, bounds, amount, &mut self.vessels);

        let mut part = PartOf::new(level);
        let mut left = amount;
        // The smallest and the largest remainder, to see whether they differ at all.
        let (mut least, mut most) = (u64::MAX, 0);
        self.shares.resize(children.len(), Bandwidth::ZERO);
        self.decisions.resize(children.len(), Decision::Level);
        let results = self.shares.iter_mut().zip(&mut self.decisions);
        for (child, (share, decision)) in children.iter().zip(results) {
            let Vessel { lower, upper, weight } = vessel(child);
            let (whole, remainder) = part.of(weight);
            // Whole numbers compare with level × weight as
            // with its whole part. Bounds fall at random, so this is written without branches to
            // mispredict.
            let poured = whole.clamp(lower, upper);
            let full = upper <= whole;
            let rises = !full & ((lower < whole) | ((lower == whole) & (remainder > 0)));
            left -= poured;
            let base = if sharing == Sharing::Add { child.guaranteed().bps() } else { 0 };
            *share = Bandwidth::from_bps(base + poured);
            least = if rises { least.min(remainder) } else { least };
            most = if rises { most.max(remainder) } else { most };
            // A demand that the level just reaches is limited as well.
            let reached = (upper == whole) & (remainder == 0) & (child.demand < child.max);
            let reached_maximum = full & !reached & (child.usable().bps() <= capacity);
            let own = uncontended(child);
            *decision = if reached_maximum { own } else { Decision::Level };
        }
        if left == 0 {
            return;
        }
        // Only a child strictly between its bounds has a remainder.
        let rises = |child: &Child, whole: u64, remainder: u64| {
            let v = vessel(child);
            v.upper > whole && (v.lower < whole || (v.lower == whole && remainder > 0))
        };
        if least == most {
            for (share, child) in self.shares.iter_mut().zip(children) {
                let (whole, remainder) = part.of(child.weight.thousandths());
                if left > 0 && rises(child, whole, remainder) {
                    *share += Bandwidth::from_bps(1);
                    left -= 1;
                }
                if left == 0 {
                    break;
                }
            }
            return;
        }
        self.remainders.clear();
        for (i, child) in children.iter().enumerate() {
            let (whole, remainder) = part.of(child.weight.thousandths());
            if rises(child, whole, remainder) {
                self.remainders.push((remainder, i as u32));
            }
        }
        self.hand_out(left);
    }

    /// Largest remainder: the `left` bits go to the largest remainders, one each, ties to the
    /// first.
    fn hand_out(&mut self, left: u64) {
        let left = left as usize;
        debug_assert!(left <= self.remainders.len(), "more bits left than children to take them");
        if left == 0 {
            return;
        }
        let ranked = |(remainder, i): &(u64, u32)| (std::cmp::Reverse(*remainder), *i);
        if left < self.remainders.len() {
            self.remainders.select_nth_unstable_by_key(left, ranked);
        }
        for (_, i) in self.remainders.iter().take(left) {
            self.shares[*i as usize] += Bandwidth::from_bps(1);
        }
    }
}

/// Without competition a child is limited only by its own maximum.
fn uncontended(child: &Child) -> Decision {
    if (child.demand >= child.max) & !child.max.is_unlimited() { Decision::Max } else { Decision::Demand }
}

/// `level × weight` as whole and remainder, cached by weight: most children share a few.
struct PartOf {
    level: Level,
    /// Whole and remainder of the level itself, so that most parts need no division in 128 bits.
    unit: (u64, u64),
    known: [(u32, u64, u64); PartOf::SLOTS],
}

impl PartOf {
    const SLOTS: usize = 64;

    fn new(level: Level) -> Self {
        let unit = (level.numerator / level.denominator, level.numerator % level.denominator);
        Self { level, unit, known: [(0, 0, 0); Self::SLOTS] }
    }

    #[inline]
    fn of(&mut self, weight: u32) -> (u64, u64) {
        // Fibonacci hashing: weights are often multiples of the same number.
        let slot = (weight.wrapping_mul(0x9E37_79B9) >> 26) as usize;
        let (known, whole, remainder) = self.known[slot];
        if known == weight {
            return (whole, remainder);
        }
        let (whole, remainder) = self.divide(weight);
        self.known[slot] = (weight, whole, remainder);
        (whole, remainder)
    }

    fn divide(&self, weight: u32) -> (u64, u64) {
        let denominator = self.level.denominator;
        match self.unit.1.checked_mul(u64::from(weight)) {
            Some(rest) => (self.unit.0 * u64::from(weight) + rest / denominator, rest % denominator),
            None => {
                let product = u128::from(self.level.numerator) * u128::from(weight);
                ((product / u128::from(denominator)) as u64, (product % u128::from(denominator)) as u64)
            }
        }
    }
}

#[cfg(test)]
mod tests;
