//! The demand that a service at a full uplink may have beyond its usage.
//!
//! Problem: the others' shares are what a service's demand leaves them. If its demand is its usage,
//! they fill the uplink, and a service whose traffic the full uplink throttled cannot
//! grow. Approach: its demand exceeds its usage by a margin, which is the whole usage at first and
//! whenever the usage grew by a tenth since the margin was last set. Without growth the margin
//! halves each period, so that a service with a steady usage soon costs the others nothing more.
//!
//! Worked example: a service uses 4 of the 8 Mb/s that it is due of a full uplink. It demands 8, the
//! others leave it room, and it uses 8 within the period. Had it stayed at 4, it would demand 6
//! after a period, then 5, 4.5 and 4.25, and then 4.
//!
//! Source: fill; Parley §5.2 leaves the estimate open.

use weir_units::Bandwidth;

/// The whole usage.
const WHOLE: u64 = 64;
/// A margin below this is none: a sixteenth, less than usage varies by.
const LEAST: u64 = WHOLE / 16;

/// The margin of a service in one direction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Margin {
    /// In parts of [`WHOLE`].
    parts: u64,
    /// The usage when it was last set.
    usage: u64,
    /// The intervals since then, or since it last halved.
    age: usize,
    applied: bool,
}

impl Margin {
    /// The demand of a service with this usage; `applies` where it is not backlogged and its uplink
    /// is contended. `period` is in intervals.
    pub(super) fn add_to(&mut self, usage: Bandwidth, applies: bool, period: usize) -> Bandwidth {
        let applied = std::mem::replace(&mut self.applied, applies);
        if !applies {
            return usage;
        }
        let bps = usage.bps();
        self.age += 1;
        if !applied || u128::from(bps) * 10 > u128::from(self.usage) * 11 {
            *self = Self { parts: WHOLE, usage: bps, age: 0, applied: true };
        } else if self.age >= period {
            self.age = 0;
            self.parts /= 2;
            // A usage that fell may grow from there.
            self.usage = self.usage.min(bps);
        }
        if self.parts < LEAST { usage } else { usage + Bandwidth::from_bps(bps / WHOLE * self.parts) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demands(usage: &[u64]) -> Vec<u64> {
        let mut margin = Margin::default();
        usage.iter().map(|mbps| margin.add_to(Bandwidth::from_mbps(*mbps), true, 1).bps() / 10_000).collect()
    }

    #[test]
    fn worked_example() {
        assert_eq!(demands(&[4, 4, 4, 4, 4, 4]), [800, 600, 500, 450, 425, 400]);
        assert_eq!(demands(&[4, 8, 8]), [800, 1600, 1200]);
    }

    #[test]
    fn growth_by_less_than_a_tenth_does_not_renew_it() {
        assert_eq!(demands(&[10, 11, 11, 11, 11, 11, 12])[4..], [1168, 1100, 2400]);
    }

    #[test]
    fn it_begins_again_with_contention() {
        let mut margin = Margin::default();
        let usage = Bandwidth::from_mbps(4);
        for _ in 0..9 {
            margin.add_to(usage, true, 1);
        }
        assert_eq!((margin.add_to(usage, true, 1), margin.add_to(usage, false, 1)), (usage, usage));
        assert_eq!(margin.add_to(usage, true, 1), Bandwidth::from_mbps(8));
    }
}
