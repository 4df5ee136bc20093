//! Mean, percentiles and maximum of a set of values, of which some may not be known.
//!
//! Problem: unfinished flows have no completion time, and they are the slow ones: omitting them
//! makes a bad run look good. Approach: all values are over all flows. An unfinished flow is slower
//! than every finished one; a percentile that falls on one of them is not known, and neither are the
//! maximum and the mean, which every flow changes. The mean of the finished flows has a name of its
//! own, for programs.
//!
//! Percentiles are nearest-rank: the p-th percentile of n values is the one at rank ⌈p·n/100⌉ in
//! ascending order, counted from 1. It is always a value that occurred, and nothing is
//! interpolated. Ranks are computed in whole numbers, so no rounding of p·n moves them.
//!
//! Worked example: of the values 15, 20, 35, 40 and 50 the 30th percentile is at rank ⌈1.5⌉ = 2,
//! which is 20, and the mean is 32. With one more unfinished flow, the 99th is at rank 6 of 6, not
//! known, as is the mean; that of the finished flows is 32.

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use weir_units::SimTime;

/// A percentile, in hundredths of a percent, 0 to 10,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percentile(pub u32);

impl Percentile {
    /// The median.
    pub const P50: Self = Self(5_000);
    /// 95 of 100.
    pub const P95: Self = Self(9_500);
    /// 99 of 100.
    pub const P99: Self = Self(9_900);
    /// 999 of 1,000.
    pub const P999: Self = Self(9_990);

    /// The index into `count` ascending values, from 0; `None` when there are none.
    pub fn index(self, count: usize) -> Option<usize> {
        let last = count.checked_sub(1)?;
        let rank = (count as u128 * u128::from(self.0)).div_ceil(10_000);
        Some((rank.saturating_sub(1) as usize).min(last))
    }
}

/// A value that can be summarised.
pub trait Value: Copy {
    /// The order of two values.
    fn order(&self, other: &Self) -> Ordering;
    /// The mean of at least one value.
    fn mean(values: &[Self]) -> Self;
}

impl Value for SimTime {
    fn order(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
    /// Whole picoseconds, rounded down.
    fn mean(values: &[Self]) -> Self {
        let sum: u128 = values.iter().map(|value| u128::from(value.picos())).sum();
        Self::from_picos((sum / values.len().max(1) as u128) as u64)
    }
}

impl Value for f64 {
    fn order(&self, other: &Self) -> Ordering {
        self.total_cmp(other)
    }
    fn mean(values: &[Self]) -> Self {
        values.iter().sum::<Self>() / values.len() as Self
    }
}

/// Mean, percentiles and maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored<T>", bound(deserialize = "T: Deserialize<'de> + Copy"))]
pub struct Summary<T> {
    /// Their number, known or not.
    pub count: u64,
    /// The number of unknown ones: larger than all others.
    pub unknown: u64,
    /// The mean; `None` if a value is not known.
    pub mean: Option<T>,
    /// The mean of the known ones.
    pub finished_mean: Option<T>,
    /// The median.
    pub p50: Option<T>,
    /// The 95th percentile.
    pub p95: Option<T>,
    /// The 99th percentile.
    pub p99: Option<T>,
    /// The 99.9th percentile.
    pub p999: Option<T>,
    /// The largest.
    pub max: Option<T>,
}

/// A summary in a file. Earlier versions had no `finished_mean`, and their `mean` was it.
#[derive(Deserialize)]
struct Stored<T> {
    count: u64,
    unknown: u64,
    mean: Option<T>,
    finished_mean: Option<T>,
    p50: Option<T>,
    p95: Option<T>,
    p99: Option<T>,
    p999: Option<T>,
    max: Option<T>,
}

impl<T: Copy> From<Stored<T>> for Summary<T> {
    fn from(stored: Stored<T>) -> Self {
        let Stored { count, unknown, mean, finished_mean, p50, p95, p99, p999, max } = stored;
        let (mean, finished_mean) = match finished_mean {
            None => (mean.filter(|_| unknown == 0), mean),
            known => (mean, known),
        };
        Self { count, unknown, mean, finished_mean, p50, p95, p99, p999, max }
    }
}

impl<T: Value> Summary<T> {
    /// The summary of `values` and of `unknown` more that are larger.
    pub fn new(mut values: Vec<T>, unknown: u64) -> Self {
        values.sort_unstable_by(T::order);
        let at = |percentile| percentile_of(&values, unknown, percentile);
        let finished_mean = (!values.is_empty()).then(|| T::mean(&values));
        Self {
            count: values.len() as u64 + unknown,
            unknown,
            mean: finished_mean.filter(|_| unknown == 0),
            finished_mean,
            p50: at(Percentile::P50),
            p95: at(Percentile::P95),
            p99: at(Percentile::P99),
            p999: at(Percentile::P999),
            max: at(Percentile(10_000)),
        }
    }
}

impl<T> Summary<T> {
    /// The same with every value changed by `to`.
    pub fn map<U>(self, to: impl Fn(T) -> U) -> Summary<U> {
        Summary {
            count: self.count,
            unknown: self.unknown,
            mean: self.mean.map(&to),
            finished_mean: self.finished_mean.map(&to),
            p50: self.p50.map(&to),
            p95: self.p95.map(&to),
            p99: self.p99.map(&to),
            p999: self.p999.map(&to),
            max: self.max.map(&to),
        }
    }
}

/// A percentile of ascending values and of `unknown` more that are larger; `None` when it falls on
/// one of them.
pub fn percentile_of<T: Copy>(ascending: &[T], unknown: u64, percentile: Percentile) -> Option<T> {
    let count = ascending.len().saturating_add(usize::try_from(unknown).unwrap_or(usize::MAX));
    ascending.get(percentile.index(count)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nearest_rank_by_hand() {
        let values = [15.0, 20.0, 35.0, 40.0, 50.0];
        let at = |percent: u32| percentile_of(&values, 0, Percentile(percent * 100));
        assert_eq!([5, 30, 40, 50, 100].map(at), [15.0, 20.0, 20.0, 35.0, 50.0].map(Some));
        assert_eq!(at(0), Some(15.0));
        assert_eq!(percentile_of::<f64>(&[], 0, Percentile::P50), None);
    }

    #[test]
    fn a_thousand_values() {
        // 99.9 % of 1,000 is index 999 exactly: in floating point 0.999 × 1000 could round above
        // it.
        let summary = Summary::new((1..=1_000).rev().map(SimTime::from_nanos).collect(), 0);
        let nanos = |time: Option<SimTime>| time.unwrap().picos() / 1_000;
        assert_eq!(
            [summary.p50, summary.p95, summary.p99, summary.p999, summary.max].map(nanos),
            [500, 950, 990, 999, 1_000]
        );
        assert_eq!((summary.mean, summary.finished_mean), (Some(SimTime::from_picos(500_500)), summary.mean));
    }

    #[test]
    fn means_of_earlier_files_are_of_finished_flows() {
        let text = |unknown: u64| {
            format!(
                r#"{{"count": 4, "unknown": {unknown}, "mean": 9.5, "p50": null, "p95": null, "p99": null,
                "p999": null, "max": null}}"#
            )
        };
        let read = |unknown| serde_json::from_str::<Summary<f64>>(&text(unknown)).expect("a summary");
        assert_eq!((read(2).mean, read(2).finished_mean), (None, Some(9.5)));
        assert_eq!((read(0).mean, read(0).finished_mean), (Some(9.5), Some(9.5)));
        let new = Summary::new(vec![1.0, 2.0], 1);
        let written = serde_json::to_string(&new).expect("JSON");
        assert_eq!(serde_json::from_str::<Summary<f64>>(&written).expect("a summary"), new);
    }

    #[test]
    fn unknown_values_are_largest() {
        let summary = Summary::new((1..=98).map(f64::from).collect(), 2);
        assert_eq!((summary.count, summary.unknown), (100, 2));
        // The two may be of any size, and so may the mean.
        assert_eq!((summary.mean, summary.finished_mean), (None, Some(49.5)));
        assert_eq!((summary.p50, summary.p95, summary.p99, summary.max), (Some(50.0), Some(95.0), None, None));
        let nothing = Summary::<f64>::new(Vec::new(), 3);
        assert_eq!((nothing.count, nothing.mean, nothing.p50), (3, None, None));
    }

    proptest! {
        /// The definition: the smallest value that at least p of all values do not exceed.
        #[test]
        fn as_defined(values in prop::collection::vec(0u64..100, 1..200), unknown in 0u64..20, p in 1u32..=10_000) {
            let mut ascending = values.clone();
            ascending.sort_unstable();
            let all = values.len() as u64 + unknown;
            let enough = |bound: u64| {
                let within = values.iter().filter(|value| **value <= bound).count() as u64;
                within * 10_000 >= all * u64::from(p)
            };
            let expected = ascending.iter().copied().find(|bound| enough(*bound));
            prop_assert_eq!(percentile_of(&ascending, unknown, Percentile(p)), expected);
        }
    }
}
