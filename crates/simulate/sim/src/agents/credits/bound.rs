//! [`CreditBound`]: the invariant of a port of forwarders, and how near to it the port has come.
//!
//! A port grants only up to 2 · C_0 = A + Q, and afterwards nothing but another grant increases the sum
//! (`docs/design/credits.md`, "The buffer"). So A + Q never exceeds the budget 2 · C_0 that the port had when it last
//! granted anything. That implies the bound of the design, 2 · R · the longest p of the lifetime of a grant, and holds
//! from one event to the next, however short the run.
//!
//! Data without a grant may enter where the port makes no claim: beyond grants of a port that drops nothing, after a
//! restart, and on changed routes. It is allowed for while it is in the queue ([`Held`]), and no longer: a queue that
//! never becomes empty is compared like any other.
//!
//! Worked example: 2 · C_0 is 50,000 B at a grant of 12,500 B: the bound is 50,000 B. The budget falls to 25,000 B
//! while A + Q is 40,000 B: nothing is granted, and the bound stays. At the next grant it is 25,000 B.

use super::queue::Held;

/// The bound of one port, its highest values, and how often it was exceeded.
#[derive(Debug, Default)]
pub(super) struct CreditBound {
    /// The budget at the last grant.
    limit: u64,
    reading: BoundReading,
}

/// The highest values of a port since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct BoundReading {
    /// A + Q, in bytes.
    pub(crate) peak: u64,
    /// Q, in bytes.
    pub(crate) queue: u64,
    /// 2 · C_0 at a grant, in bytes.
    pub(crate) budget: u64,
    /// A + Q as a part of its bound, in millionths; above 1,000,000 the invariant does not hold.
    pub(crate) fullest: u64,
    /// Events at which A + Q was above its bound.
    pub(crate) exceeded: u64,
}

impl CreditBound {
    /// The port grants something while its budget is 2 · C_0 = `budget` bytes.
    pub(super) fn on_grant(&mut self, budget: u64) {
        self.limit = budget;
        self.reading.budget = self.reading.budget.max(budget);
    }

    /// Compares A (`outstanding`) and Q (`held`) after an event, in bytes, with the bound.
    pub(super) fn check(&mut self, outstanding: u64, held: Held) {
        let Held { bytes: queued, ungranted } = held;
        let used = outstanding + queued;
        let claimed = used - ungranted;
        let reading = &mut self.reading;
        reading.peak = reading.peak.max(used);
        reading.queue = reading.queue.max(queued);
        reading.exceeded += u64::from(claimed > self.limit);
        // A division for each packet takes longer than the rest: none while the part is below the highest one.
        let limit = self.limit.max(1);
        if claimed * 1_000_000 >= reading.fullest.saturating_add(1).saturating_mul(limit) {
            reading.fullest = claimed * 1_000_000 / limit;
        }
    }

    /// The highest values so far.
    pub(super) fn reading(&self) -> BoundReading {
        self.reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Q, all of it with grants.
    fn granted(bytes: u64) -> Held {
        Held { bytes, ungranted: 0 }
    }

    #[test]
    fn the_budget_of_the_last_grant_is_the_bound() {
        let mut bound = CreditBound::default();
        bound.on_grant(50_000);
        bound.check(12_500, granted(37_500));
        assert_eq!((bound.reading().fullest, bound.reading().exceeded), (1_000_000, 0));
        // The budget has fallen, and nothing is granted.
        bound.check(10_000, granted(30_000));
        bound.on_grant(25_000);
        bound.check(1_000, granted(24_000));
        assert_eq!(bound.reading().exceeded, 0);
        let highest = BoundReading { peak: 50_000, queue: 37_500, budget: 50_000, fullest: 1_000_000, exceeded: 0 };
        assert_eq!(bound.reading(), highest);
    }

    #[test]
    fn a_byte_above_the_budget_is_counted() {
        let mut bound = CreditBound::default();
        bound.check(0, granted(1));
        assert_eq!(bound.reading().exceeded, 1);
        bound.on_grant(25_000);
        bound.check(1, granted(25_000));
        assert_eq!((bound.reading().exceeded, bound.reading().fullest), (2, 1_000_040));
    }

    #[test]
    fn data_without_grants_is_allowed_for_while_it_is_queued() {
        let mut bound = CreditBound::default();
        bound.on_grant(25_000);
        bound.check(20_000, Held { bytes: 6_514, ungranted: 1_514 });
        assert_eq!((bound.reading().exceeded, bound.reading().peak), (0, 26_514));
        // It has left, and the queue has never been empty.
        bound.check(20_000, granted(5_001));
        assert_eq!(bound.reading().exceeded, 1);
    }
}
