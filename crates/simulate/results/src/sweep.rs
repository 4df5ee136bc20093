//! Points of a sweep: one run each, with its parameters, seed and statistics, or the reason of its
//! failure.
//!
//! Problem: a sweep over loads, transports and seeds is hundreds of runs, and its result is curves:
//! a statistic by one parameter, one line for each choice of the others, the mean over seeds with
//! its confidence. Approach: constant parameters are listed once; of the others, the one with the
//! most different numbers is the horizontal axis, and the rest name the lines, except for numbers
//! that only vary with the axis. A number may have a unit (`60 %`, `10 Gb/s`, `200us`, `80 kB`),
//! the same one everywhere.
//!
//! A statistic at a point is known only if it is known for every seed: otherwise the mean would be
//! over the lucky seeds. Runs that failed are listed, and the others count.
//!
//! Worked example: `load` in 20 %, 50 %, 80 %; `transport` in dctcp, pfabric; five seeds each: 30
//! runs become two lines of three points with error bars.

use crate::bins::SizeBins;
use crate::record::Results;
use crate::statistics::Statistics;
use crate::student::{Interval, confidence};
use crate::text;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use weir_report::Unit;
use weir_units::{Bandwidth, Bytes, Duration};

/// How sure the intervals over seeds are: 95 %, as is usual.
pub const LEVEL: f64 = 0.95;

/// One run of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PointSummary {
    /// The changes of the scenario: path to value, as they were written.
    pub parameters: BTreeMap<String, String>,
    /// The run's seed.
    pub seed: u64,
    /// Its outcome.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The path of its own page, relative to the sweep's page. The code that writes the pages fills
    /// it in; it is not a part of the point's file.
    #[serde(skip)]
    pub page: Option<String>,
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It reached its end.
    Statistics(Box<Statistics>),
    /// It did not, with the reason.
    Failure(String),
}

impl PointSummary {
    /// The point of a run. An interrupted run failed: its statistics are of another length.
    pub fn new(results: &Results, bins: &SizeBins) -> Self {
        let outcome = if results.complete {
            Outcome::Statistics(Box::new(Statistics::new(results, bins)))
        } else {
            Outcome::Failure(format!("interrupted after {}", text::time(results.simulated)))
        };
        Self { parameters: results.parameters.clone(), seed: results.seed, outcome, page: None }
    }

    /// The statistics, if it reached its end.
    pub fn statistics(&self) -> Option<&Statistics> {
        match &self.outcome {
            Outcome::Statistics(statistics) => Some(statistics),
            Outcome::Failure(_) => None,
        }
    }

    /// The point as JSON on one line, so that a file of lines is a sweep.
    pub fn to_json(&self) -> String {
        // Strings, numbers and maps with text keys: JSON can express all of it.
        serde_json::to_string(self).unwrap_or_else(|error| unreachable!("a point is plain data: {error}"))
    }

    /// Reads the output of [`PointSummary::to_json`].
    ///
    /// # Errors
    /// A mistake in the text, with its position.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

/// The points of a sweep in the shape of curves.
#[derive(Debug)]
pub(crate) struct Curves<'a> {
    /// Constant parameters, with their value.
    pub(crate) same: Vec<(&'a str, &'a str)>,
    /// The parameter of the horizontal axis, with its unit.
    pub(crate) x: Option<(&'a str, Unit)>,
    /// The parameters that name lines.
    pub(crate) others: Vec<&'a str>,
    /// The lines by name, each a list of positions ascending in x.
    pub(crate) lines: Vec<(String, Vec<Place<'a>>)>,
}

/// One position of one curve: the same parameters with different seeds.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    /// The number on the horizontal axis; zero where there is none.
    pub(crate) x: f64,
    /// The same as it was written.
    pub(crate) written: &'a str,
    /// The runs that reached their end.
    pub(crate) runs: Vec<&'a Statistics>,
    /// The number of failed runs.
    pub(crate) failed: usize,
}

impl Place<'_> {
    /// The mean over seeds; `None` if it is not known for a seed, or there is none.
    pub(crate) fn mean(&self, value: impl Fn(&Statistics) -> Option<f64>) -> Option<Interval> {
        let values: Option<Vec<f64>> = self.runs.iter().map(|run| value(run)).collect();
        confidence(&values?, LEVEL)
    }
}

impl<'a> Curves<'a> {
    pub(crate) fn new(points: &'a [PointSummary]) -> Self {
        let mut values: BTreeMap<&str, BTreeSet<Option<&str>>> = BTreeMap::new();
        for path in points.iter().flat_map(|point| point.parameters.keys()) {
            let of = |point: &'a PointSummary| point.parameters.get(path).map(String::as_str);
            values.entry(path).or_insert_with(|| points.iter().map(of).collect());
        }
        let one = |(path, values): (&&'a str, &BTreeSet<Option<&'a str>>)| match values.first() {
            Some(Some(value)) if values.len() == 1 => Some((*path, *value)),
            _ => None,
        };
        let same: Vec<(&str, &str)> = values.iter().filter_map(one).collect();
        let varied: Vec<(&str, &BTreeSet<Option<&str>>)> =
            values.iter().filter(|(_, values)| values.len() > 1).map(|(path, values)| (*path, values)).collect();
        // The most values; of equals the first by name.
        let numeric = varied.iter().filter_map(|(path, values)| Some((*path, values.len(), unit_of(values)?)));
        let x = numeric.max_by_key(|(path, count, _)| (*count, std::cmp::Reverse(*path)));
        let x = x.map(|(path, _, unit)| (path, unit));
        // A number that varies with the axis, value by value, does not distinguish lines.
        let goes_with = |x: &str, path: &str| {
            let of = |point: &'a PointSummary, path: &str| point.parameters.get(path).map(String::as_str);
            let pairs: BTreeSet<_> = points.iter().map(|point| (of(point, x), of(point, path))).collect();
            pairs.len() == values[x].len() && pairs.len() == values[path].len() && unit_of(&values[path]).is_some()
        };
        let is_other = |path: &&str| x.as_ref().is_none_or(|(x, _)| x != path && !goes_with(x, path));
        let others: Vec<&str> = varied.iter().map(|(path, _)| *path).filter(is_other).collect();

        // In the order of the points, so that a sweep's first choice has the first colour.
        let mut lines: Vec<(String, Vec<Place<'a>>)> = Vec::new();
        for point in points {
            let value = |path: &str| point.parameters.get(path).map_or("as in the file", String::as_str);
            let name: Vec<&str> = others.iter().map(|path| value(path)).collect();
            let (name, written) = (name.join(", "), x.as_ref().map_or("", |(path, _)| value(path)));
            let at = number(written).map_or(0.0, |(at, _)| at);
            let line = place(&mut lines, |line| line.0 == name, || (name.clone(), Vec::new()));
            let empty = || Place { x: at, written, runs: Vec::new(), failed: 0 };
            let place = place(&mut line.1, |place| place.x == at, empty);
            match &point.outcome {
                Outcome::Statistics(statistics) => place.runs.push(statistics),
                Outcome::Failure(_) => place.failed += 1,
            }
        }
        for (_, places) in &mut lines {
            places.sort_by(|a, b| a.x.total_cmp(&b.x));
        }
        Self { same, x, others, lines }
    }
}

/// The first that `is`, or a new one at the end.
fn place<T>(all: &mut Vec<T>, is: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> &mut T {
    let at = all.iter().position(is).unwrap_or_else(|| {
        all.push(new());
        all.len() - 1
    });
    &mut all[at]
}

/// The dimension of all `values`, if they are numbers of one kind and every run has one.
fn unit_of(values: &BTreeSet<Option<&str>>) -> Option<Unit> {
    let units: Option<Vec<Unit>> = values.iter().map(|value| number((*value)?).map(|(_, unit)| unit)).collect();
    let units = units?;
    let first = units.first()?;
    units.iter().all(|unit| unit == first).then(|| first.clone())
}

/// A value as a number in the base unit, and its dimension.
pub(crate) fn number(text: &str) -> Option<(f64, Unit)> {
    let text = text.trim();
    let plain = |text: &str| text.trim_end().parse::<f64>().ok().filter(|number| number.is_finite());
    if let Some(value) = plain(text) {
        return Some((value, Unit::Plain(String::new())));
    }
    if let Some(percent) = text.strip_suffix('%') {
        return plain(percent).map(|value| (value, Unit::Plain("%".to_owned())));
    }
    if let Ok(rate) = text.parse::<Bandwidth>() {
        return (!rate.is_unlimited()).then(|| (rate.bps() as f64, Unit::Bandwidth));
    }
    if let Ok(time) = text.parse::<Duration>() {
        return Some((time.nanos() as f64 / 1e9, Unit::Time));
    }
    text.parse::<Bytes>().ok().map(|bytes| (bytes.get() as f64, Unit::Size))
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
pub(crate) mod tests;
