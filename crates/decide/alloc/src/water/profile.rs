//! The content of vessels as a function of the level, for the same question about each of them.
//!
//! Problem: the share of a vessel if it had no rim, beside the others as they are; for each vessel
//! in turn. Solving each from the beginning costs a scan of all. Approach: the content is piecewise
//! linear, and bends where a vessel begins or ceases to rise. The bends are sorted once; each
//! question is then a binary search in which the vessel's own content is replaced.
//!
//! Worked example: rims 1, 3 and 9 of weight 1, amount 9. Without a rim the first vessel has 3: at
//! level 3 the vessels hold 3 + 3 + 3. The third has 5 with and without its rim.

use std::cmp::Ordering;

/// A bounded taker as [`Vessel`](super::Vessel), whose weight may be a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WideVessel {
    /// The least it holds, bit/s; at most `upper`.
    pub lower: u64,
    /// The most it holds, bit/s; at most 2^60.
    pub upper: u64,
    /// Its width; more than zero, at most 2^60.
    pub weight: u64,
}

/// A level at which a vessel begins or ceases to rise.
#[derive(Debug, Clone, Copy)]
struct Bend {
    /// The level is `bound / weight`.
    bound: u64,
    weight: u64,
    /// Up to the next bend: the content of the vessels that do not rise.
    settled: u128,
    /// Up to the next bend: the weight of those that rise.
    rising: u128,
    /// Whether the vessel begins to rise.
    begins: bool,
}

impl Bend {
    fn new(bound: u64, weight: u64, begins: bool) -> Self {
        Self { bound, weight, settled: 0, rising: 0, begins }
    }

    fn cmp(&self, other: &Self) -> Ordering {
        let left = u128::from(self.bound) * u128::from(other.weight);
        left.cmp(&(u128::from(other.bound) * u128::from(self.weight)))
    }

    /// A vessel up to the next bend: its content if it does not rise, and its weight if it does.
    fn content(&self, vessel: &WideVessel) -> (u128, u128) {
        let is_reached = |bound: u64| Self::new(bound, vessel.weight, true).cmp(self).is_le();
        if is_reached(vessel.upper) {
            (vessel.upper.into(), 0)
        } else if is_reached(vessel.lower) {
            (0, vessel.weight.into())
        } else {
            (vessel.lower.into(), 0)
        }
    }
}

/// The content of vessels at every level.
#[derive(Debug, Default)]
pub struct Profile {
    /// Ascending; the first is level zero.
    bends: Vec<Bend>,
}

impl Profile {
    /// Replaces the vessels.
    pub fn set(&mut self, vessels: impl Iterator<Item = WideVessel>) {
        self.bends.clear();
        self.bends.push(Bend::new(0, 1, true));
        let mut settled = 0u128;
        for vessel in vessels {
            settled += u128::from(vessel.lower);
            self.bends.push(Bend::new(vessel.lower, vessel.weight, true));
            self.bends.push(Bend::new(vessel.upper, vessel.weight, false));
        }
        // Level zero stays first, and a vessel begins before it ceases.
        self.bends.sort_by(Bend::cmp);
        let mut rising = 0u128;
        for (i, bend) in self.bends.iter_mut().enumerate() {
            match bend.begins {
                _ if i == 0 => {}
                true => {
                    settled -= u128::from(bend.bound);
                    rising += u128::from(bend.weight);
                }
                false => {
                    settled += u128::from(bend.bound);
                    rising -= u128::from(bend.weight);
                }
            }
            (bend.settled, bend.rising) = (settled, rising);
        }
        // At one level all of its bends have taken place.
        for i in (1..self.bends.len()).rev() {
            if self.bends[i - 1].cmp(&self.bends[i]).is_eq() {
                (self.bends[i - 1].settled, self.bends[i - 1].rising) = (self.bends[i].settled, self.bends[i].rising);
            }
        }
    }

    /// The share of a vessel of `weight`, without floor and rim, in the place of `own`, of `amount`
    /// beside all others; zero where their floors leave nothing.
    pub fn share_without_rim(&self, own: &WideVessel, weight: u64, amount: u64) -> u64 {
        let others = |bend: &Bend| {
            let (settled, rising) = bend.content(own);
            (bend.settled - settled, bend.rising - rising + u128::from(weight))
        };
        let holds = |bend: &Bend| {
            let (settled, rising) = others(bend);
            let Some(rest) = u128::from(amount).checked_sub(settled) else { return false };
            // More than 128 bits is more than any amount.
            rising.checked_mul(bend.bound.into()).is_some_and(|at| at <= rest * u128::from(bend.weight))
        };
        let Some(below) = self.bends.partition_point(holds).checked_sub(1) else { return 0 };
        let (settled, rising) = others(&self.bends[below]);
        let rest = u128::from(amount) - settled;
        (rest * u128::from(weight) / rising) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(vessels: &[WideVessel]) -> Profile {
        let mut profile = Profile::default();
        profile.set(vessels.iter().copied());
        profile
    }

    #[test]
    fn worked_example() {
        let vessels = [1, 3, 9].map(|upper| WideVessel { lower: 0, upper, weight: 1 });
        let profile = profile(&vessels);
        let shares = vessels.map(|vessel| profile.share_without_rim(&vessel, 1, 9));
        assert_eq!(shares, [3, 4, 5]);
    }

    #[test]
    fn floors_of_others_come_first() {
        let vessels = [(6, 6, 1), (0, 2, 3)].map(|(lower, upper, weight)| WideVessel { lower, upper, weight });
        let profile = profile(&vessels);
        // 10 less the floor of 6; 10 shared 1 to 3 would be 7.5.
        assert_eq!(profile.share_without_rim(&vessels[1], 3, 10), 4);
        assert_eq!(profile.share_without_rim(&vessels[1], 3, 5), 0);
    }
}
