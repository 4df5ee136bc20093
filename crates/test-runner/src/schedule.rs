//! Which real-time test starts next.
//!
//! Problem: tests of different lengths and loads, and processors that must not be overbooked, or timed tests fail. Approach: the longest
//! test first (Graham's LPT rule), as long as the sum of the loads of the running tests stays within the budget; a test that does not
//! fit lets shorter ones pass. A test whose load exceeds the budget starts when no other one runs. Tests that run alone come last.
//!
//! Worked example: budget 100; A 60 s at 50, B 50 s at 70, C 10 s at 40. A starts, B does not fit, C does (90). When A has ended, B
//! does not fit beside C (110) and waits for its end.
//!
//! Source: R. L. Graham, Bounds on Multiprocessing Timing Anomalies, 1969.

use crate::loads::{Expected, Load};
use std::cmp::Reverse;

/// A test by its number in the caller's list.
pub(crate) type Number = usize;

/// The tests that wait and that run.
#[derive(Debug)]
pub(crate) struct Schedule {
    budget: u32,
    waiting: Vec<(Number, Expected)>,
    running: Vec<(Number, Load)>,
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

    /// The test that is to start now, if any. `others` says whether anything but real-time tests runs or is about to.
    pub(crate) fn start(&mut self, others: bool) -> Option<Number> {
        if self.running.iter().any(|(_, load)| *load == Load::Alone) {
            return None;
        }
        let used: u32 = self.running.iter().map(|(_, load)| part(*load)).sum();
        let idle = self.running.is_empty();
        let only_alone = self.waiting.iter().all(|(_, expected)| expected.load == Load::Alone);
        let fits = |load: Load| match load {
            Load::Part(percent) => idle || used + percent <= self.budget,
            Load::Alone => idle && only_alone && !others,
        };
        let index = self.waiting.iter().position(|(_, expected)| fits(expected.load))?;
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

    /// Whether a test runs that nothing else may run beside.
    pub(crate) fn runs_alone(&self) -> bool {
        self.running.iter().any(|(_, load)| *load == Load::Alone)
    }

    /// Drops all that has not started.
    pub(crate) fn stop(&mut self) {
        self.waiting.clear();
    }
}

fn part(load: Load) -> u32 {
    match load {
        Load::Part(percent) => percent,
        Load::Alone => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(tests: &[(u32, Load)]) -> Schedule {
        let mut schedule = Schedule::new(100);
        for (number, (seconds, load)) in tests.iter().enumerate() {
            schedule.add(number, Expected { load: *load, seconds: *seconds });
        }
        schedule
    }

    fn all(schedule: &mut Schedule, others: bool) -> Vec<Number> {
        std::iter::from_fn(|| schedule.start(others)).collect()
    }

    #[test]
    fn the_worked_example() {
        let mut schedule = schedule(&[(60, Load::Part(50)), (50, Load::Part(70)), (10, Load::Part(40))]);
        assert_eq!(all(&mut schedule, false), [0, 2]);
        schedule.ended(0);
        assert_eq!(all(&mut schedule, false), []);
        schedule.ended(2);
        assert_eq!(all(&mut schedule, false), [1]);
        schedule.ended(1);
        assert!(schedule.is_done());
    }

    #[test]
    fn a_test_above_the_budget_runs_when_nothing_else_does() {
        let mut schedule = schedule(&[(9, Load::Part(150)), (10, Load::Part(10))]);
        assert_eq!(all(&mut schedule, false), [1]);
        schedule.ended(1);
        assert_eq!(all(&mut schedule, true), [0]);
    }

    #[test]
    fn tests_that_run_alone_come_last_and_wait_for_all_else() {
        let mut schedule = schedule(&[(99, Load::Alone), (98, Load::Alone), (1, Load::Part(10))]);
        assert_eq!(all(&mut schedule, false), [2]);
        schedule.ended(2);
        assert_eq!(all(&mut schedule, true), []);
        assert_eq!(all(&mut schedule, false), [0]);
        assert!(schedule.runs_alone());
        schedule.ended(0);
        assert_eq!(all(&mut schedule, false), [1]);
    }
}
