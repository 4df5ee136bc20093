//! Which real-time test starts next.
//!
//! Problem: tests of different lengths and loads, and processors that must not be overbooked, or
//! timed tests fail. Approach: the longest test first (Graham's LPT rule), as long as the sum of
//! the loads of the running tests stays within the budget; a test that does not fit lets shorter
//! ones pass. A test whose load exceeds the budget starts when no other one runs; with a budget of
//! 0 all run one by one.
//!
//! Worked example: budget 100; A 60 s at 50, B 50 s at 70, C 10 s at 40. A starts, B does not fit,
//! C does (90). When A has ended, B does not fit beside C (110) and waits for its end.
//!
//! Source: R. L. Graham, Bounds on Multiprocessing Timing Anomalies, 1969.

use crate::loads::Expected;
use std::cmp::Reverse;

/// A test by its number in the caller's list.
pub(crate) type Number = usize;

/// The tests that wait and that run.
#[derive(Debug)]
pub(crate) struct Schedule {
    budget: u32,
    waiting: Vec<(Number, Expected)>,
    running: Vec<(Number, u32)>,
}

impl Schedule {
    pub(crate) fn new(budget: u32) -> Self {
        Self { budget, waiting: Vec::new(), running: Vec::new() }
    }

    /// Adds a test that may start at any time from now on.
    pub(crate) fn add(&mut self, number: Number, expected: Expected) {
        self.waiting.push((number, expected));
        self.waiting.sort_by_key(|(number, expected)| (Reverse(expected.seconds), *number));
    }

    /// The test that is to start now, if any.
    pub(crate) fn start(&mut self) -> Option<Number> {
        let used: u32 = self.running.iter().map(|(_, load)| load).sum();
        let idle = self.running.is_empty();
        let index = self.waiting.iter().position(|(_, expected)| idle || used + expected.load <= self.budget)?;
        let (number, expected) = self.waiting.remove(index);
        self.running.push((number, expected.load));
        Some(number)
    }

    pub(crate) fn ended(&mut self, number: Number) {
        self.running.retain(|(running, _)| *running != number);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// Drops all that has not started.
    pub(crate) fn stop(&mut self) {
        self.waiting.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(tests: &[(u32, u32)]) -> Schedule {
        let mut schedule = Schedule::new(100);
        for (number, (seconds, load)) in tests.iter().enumerate() {
            schedule.add(number, Expected { load: *load, seconds: *seconds });
        }
        schedule
    }

    fn all(schedule: &mut Schedule) -> Vec<Number> {
        std::iter::from_fn(|| schedule.start()).collect()
    }

    #[test]
    fn the_worked_example() {
        let mut schedule = schedule(&[(60, 50), (50, 70), (10, 40)]);
        assert_eq!(all(&mut schedule), [0, 2]);
        schedule.ended(0);
        assert!(all(&mut schedule).is_empty());
        schedule.ended(2);
        assert_eq!(all(&mut schedule), [1]);
        schedule.ended(1);
        assert!(schedule.is_done());
    }

    #[test]
    fn a_test_above_the_budget_runs_when_nothing_else_does() {
        let mut schedule = schedule(&[(9, 150), (10, 10)]);
        assert_eq!(all(&mut schedule), [1]);
        schedule.ended(1);
        assert_eq!(all(&mut schedule), [0]);
    }

    #[test]
    fn without_a_budget_tests_run_one_by_one() {
        let mut schedule = Schedule { budget: 0, ..schedule(&[(2, 10), (3, 10)]) };
        assert_eq!(all(&mut schedule), [1]);
        schedule.ended(1);
        assert_eq!(all(&mut schedule), [0]);
    }
}
