//! [`CreditBound`]: the invariant of a port of forwarders, A + Q ≤ 2 · R · (the largest p while a live grant was made).
//!
//! Grants raise A only up to 2 · C_0, and data moves bytes from A to the queue, so the sum stays below the largest
//! 2 · C_0 of the longest lifetime of a grant (`docs/design/credits.md`). Frames that need no credits wait in the same
//! queue. The queue drains in two periods at most, so those that entered within the last two are allowed for.
//!
//! Worked example: 2 · C_0 is 50,000 B until 1 ms and 25,000 B from then on, and grants live for 0.8 ms: the bound is
//! 50,000 B until 1.8 ms.

use std::collections::VecDeque;
use weir_units::{Duration, Instant};

/// The bound of one port, and how often it was exceeded.
#[derive(Debug)]
pub(super) struct CreditBound {
    /// The longest lifetime of a grant.
    lifetime: Duration,
    /// Budgets with the times from which they held: each is less than the one before.
    budgets: VecDeque<(Instant, u64)>,
    /// Bytes of frames without credits since `since`, and in as long a time before.
    exempt: [u64; 2],
    since: Instant,
    window: Duration,
    exceeded: u64,
}

impl CreditBound {
    pub(super) fn new(lifetime: Duration) -> Self {
        let (since, window) = (Instant::ZERO, Duration::ZERO);
        Self { lifetime, budgets: VecDeque::new(), exempt: [0; 2], since, window, exceeded: 0 }
    }

    /// The budget 2 · C_0 from `now` on; `drain` is the time in which the port sends it.
    pub(super) fn set_budget(&mut self, now: Instant, budget: u64, drain: Duration) {
        while self.budgets.back().is_some_and(|&(_, before)| before <= budget) {
            self.budgets.pop_back();
        }
        self.budgets.push_back((now, budget));
        self.window = drain;
    }

    /// A frame without credits enters the port.
    pub(super) fn on_exempt(&mut self, now: Instant, size: u32) {
        self.turn(now);
        self.exempt[0] += u64::from(size);
    }

    fn turn(&mut self, now: Instant) {
        let elapsed = now.saturating_since(self.since);
        if elapsed >= self.window {
            let before = if elapsed >= self.window * 2 { 0 } else { self.exempt[0] };
            (self.exempt, self.since) = ([0, before], now);
        }
    }

    /// Compares A and the queue, in bytes, with the bound.
    pub(super) fn check(&mut self, now: Instant, used: u64) {
        while self.budgets.get(1).is_some_and(|&(from, _)| from + self.lifetime < now) {
            self.budgets.pop_front();
        }
        self.turn(now);
        let largest = self.budgets.front().map_or(0, |&(_, budget)| budget);
        self.exceeded += u64::from(used > largest + self.exempt[0] + self.exempt[1]);
    }

    /// How often the bound was exceeded.
    pub(super) fn exceeded(&self) -> u64 {
        self.exceeded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_counts_for_a_lifetime_longer() {
        let micros = |at: u64| Instant::from_nanos(at * 1_000);
        let mut bound = CreditBound::new(Duration::from_micros(800));
        bound.set_budget(micros(0), 50_000, Duration::from_micros(400));
        bound.set_budget(micros(1_000), 25_000, Duration::from_micros(200));
        bound.check(micros(1_800), 50_000);
        assert_eq!(bound.exceeded(), 0);
        bound.check(micros(1_801), 25_001);
        assert_eq!(bound.exceeded(), 1);
        bound.on_exempt(micros(1_900), 66);
        bound.check(micros(2_000), 25_066);
        bound.check(micros(2_100), 25_066);
        assert_eq!(bound.exceeded(), 1);
        bound.check(micros(2_500), 25_066);
        assert_eq!(bound.exceeded(), 2);
    }
}
