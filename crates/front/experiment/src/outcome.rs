//! Published beside measured: how far apart, and whether that counts as reproduced.
//!
//! Worked example: 29.4 Gb/s measured where 30 is published and 3 % are allowed: −2.0 %, as
//! expected. 12.1 s of queueing for messages that the run left unfinished, where at least ten times
//! another value of 0.9 s is expected: a lower bound is enough.

use crate::measure::Reading;
use crate::model::{Expected, Experiment, Published, Value, Which};

/// Whether a measured value meets its expectation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// There is no expectation.
    Shown,
    /// It does.
    Agrees,
    /// It does not.
    Differs,
    /// There is no measured value, or the lower bound does not decide.
    Unknown,
}

/// One value with its measured counterpart.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The measured value; `None` without one.
    pub measured: Option<Reading>,
    /// Its distance from the published value, as a fraction of it; `None` without either.
    pub difference: Option<f64>,
    /// The expectation as text; empty without one.
    pub expected: String,
    /// Whether it is so.
    pub verdict: Verdict,
}

/// The outcome of each value of an experiment, given the measured value of each.
pub fn outcomes(experiment: &Experiment, measured: &[Option<Reading>]) -> Vec<Outcome> {
    let outcome = |(value, reading): (&Value, &Option<Reading>)| {
        let published = value.published.filter(|published| published.value > 0.0);
        let difference = reading.zip(published).map(|(reading, published)| reading.value / published.value - 1.0);
        Outcome {
            measured: *reading,
            difference,
            expected: in_words(experiment, value),
            verdict: verdict(value, *reading, measured),
        }
    };
    experiment.values.iter().zip(measured).map(outcome).collect()
}

fn verdict(value: &Value, reading: Option<Reading>, measured: &[Option<Reading>]) -> Verdict {
    let Some(expected) = value.expected else { return Verdict::Shown };
    let Some(reading) = reading else { return Verdict::Unknown };
    let published = || value.published.map_or(f64::NAN, |published| published.value);
    match expected {
        Expected::AsPrinted => match value.published {
            Some(printed) => near(reading, |x| rounds_to(value, x, printed)),
            None => Verdict::Unknown,
        },
        Expected::Within(part) => near(reading, |x| (x - published()).abs() <= part * published() + TINY),
        Expected::Near(part, of) => near(reading, |x| (x - of).abs() <= part * of + TINY),
        Expected::AtMost(most) => at_most(reading, Reading::exact(most)),
        Expected::AtLeast(least) => at_most(Reading::exact(least), reading),
        Expected::Beside(which, other) => {
            let Some(other) = measured.get(other).copied().flatten() else { return Verdict::Unknown };
            let times = |factor: f64| Reading { value: other.value * factor, ..other };
            match which {
                Which::Within(_) if other.is_lower_bound => Verdict::Unknown,
                Which::Within(part) => near(reading, |x| (x - other.value).abs() <= part * other.value + TINY),
                Which::AtMost(factor, plus) => {
                    at_most(reading, Reading { value: other.value * factor + plus, ..other })
                }
                Which::AtLeast(factor) => at_most(times(factor), reading),
            }
        }
    }
}

/// The error of floats in a sum of exact numbers, relative to values of one.
const TINY: f64 = 1e-12;

/// A value that has to be near another: a lower bound does not decide.
fn near(reading: Reading, agrees: impl Fn(f64) -> bool) -> Verdict {
    match (agrees(reading.value), reading.is_lower_bound) {
        (true, false) => Verdict::Agrees,
        (false, false) => Verdict::Differs,
        (_, true) => Verdict::Unknown,
    }
}

/// Whether `a` is at most `b`, as far as their lower bounds decide.
fn at_most(a: Reading, b: Reading) -> Verdict {
    let is = a.value <= b.value * (1.0 + TINY);
    match (is, a.is_lower_bound, b.is_lower_bound) {
        // More than this is still more.
        (true, false, _) => Verdict::Agrees,
        (false, _, false) => Verdict::Differs,
        _ => Verdict::Unknown,
    }
}

/// Whether a number in the value's unit, rounded as the published one is, is the published one.
/// Authors may round by way of one more digit: 9.7647 is printed as 9.76, or as 9.77 by way of
/// 9.765.
fn rounds_to(value: &Value, measured: f64, printed: Published) -> bool {
    let digit = 10f64.powi(-(printed.decimals as i32)) * value.unit.factor;
    // In last digits printed, and the error of floats.
    let off = (measured - printed.value) / digit;
    (-0.55 - 1e-9..=0.5 + 1e-9).contains(&off)
}

fn in_words(experiment: &Experiment, value: &Value) -> String {
    let percent = |part: f64| format!("{} %", trimmed(part * 100.0));
    match value.expected {
        None => String::new(),
        Some(Expected::AsPrinted) => "as printed".to_owned(),
        Some(Expected::Within(part)) => format!("within {}", percent(part)),
        Some(Expected::Near(part, of)) => format!("within {} of {}", percent(part), value.unit.text(of)),
        Some(Expected::AtMost(most)) => format!("at most {}", value.unit.text(most)),
        Some(Expected::AtLeast(least)) => format!("at least {}", value.unit.text(least)),
        Some(Expected::Beside(which, other)) => {
            let other = &experiment.values[other].metric;
            match which {
                Which::Within(part) => format!("within {} of “{other}”", percent(part)),
                Which::AtMost(factor, 0.0) => format!("at most {} × “{other}”", trimmed(factor)),
                Which::AtMost(factor, plus) => {
                    format!("at most {} × “{other}” + {}", trimmed(factor), value.unit.text(plus))
                }
                Which::AtLeast(factor) => format!("at least {} × “{other}”", trimmed(factor)),
            }
        }
    }
}

fn trimmed(number: f64) -> String {
    let text = format!("{number:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
