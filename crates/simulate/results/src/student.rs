//! Confidence intervals over seeds.
//!
//! Problem: a sweep runs every point with a few seeds, and their mean is itself uncertain.
//! Approach: the seeds' values are independent draws; their mean ± t·s/√n contains the true mean in
//! the given share of cases, with s the sample's standard deviation and t the quantile of Student's
//! distribution with n − 1 degrees of freedom. The distribution is exact for whole degrees of
//! freedom (a finite sum); its quantile is found by bisection.
//!
//! Worked example: 1, 2 and 3 have the mean 2 and s = 1; t for 95 % and two degrees is 4.303, so
//! the mean is 2 ± 2.484.
//!
//! Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// A mean and its distance from the true one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The mean of the values.
    pub mean: f64,
    /// Half of the interval's length; `None` for one value, which gives no interval.
    pub half: Option<f64>,
    /// How many values.
    pub count: usize,
}

/// The interval that holds the true mean with probability `level` (above 0, below 1); `None`
/// without values.
pub fn confidence(values: &[f64], level: f64) -> Option<Interval> {
    let count = values.len();
    if count == 0 {
        return None;
    }
    let n = count as f64;
    let mean = values.iter().sum::<f64>() / n;
    let half = (count > 1).then(|| {
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        quantile(count as u32 - 1, level) * (variance / n).sqrt()
    });
    Some(Interval { mean, half, count })
}

/// The t that |T| stays below with probability `level`, T having Student's distribution with
/// `degrees` (at least 1) degrees of freedom.
pub fn quantile(degrees: u32, level: f64) -> f64 {
    let degrees = degrees.max(1);
    // In the angle θ = atan(t/√ν) the range is bounded.
    let (mut low, mut high) = (0.0, FRAC_PI_2);
    // 60 halvings reach the last bit of θ.
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if within(degrees, middle) < level {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::from(degrees).sqrt() * low.tan()
}

/// The probability that |T| ≤ √ν tan θ.
fn within(degrees: u32, theta: f64) -> f64 {
    let (sin, cos) = theta.sin_cos();
    let square = cos * cos;
    let odd = degrees % 2 == 1;
    // Each term is the one before times cos²θ · (2k−1)/(2k) for even ν, (2k)/(2k+1) for odd ν.
    let (mut term, mut sum) = (if odd { cos } else { 1.0 }, 0.0);
    let terms = if odd { (degrees - 1) / 2 } else { degrees / 2 };
    for k in 1..=terms {
        sum += term;
        let k = f64::from(k);
        term *= square * if odd { 2.0 * k / (2.0 * k + 1.0) } else { (2.0 * k - 1.0) / (2.0 * k) };
    }
    if odd { FRAC_2_PI * (theta + sin * sum) } else { sin * sum }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Abramowitz and Stegun, table 26.10.
    #[test]
    fn quantiles_as_tabulated() {
        let table = [
            (1, 0.95, 12.706),
            (2, 0.95, 4.303),
            (3, 0.95, 3.182),
            (4, 0.95, 2.776),
            (9, 0.95, 2.262),
            (29, 0.95, 2.045),
            (30, 0.95, 2.042),
            (120, 0.95, 1.980),
            (1, 0.99, 63.657),
            (5, 0.99, 4.032),
            (10, 0.90, 1.812),
            (100_000, 0.95, 1.960),
        ];
        for (degrees, level, t) in table {
            let got = quantile(degrees, level);
            assert!((got - t).abs() < 6e-4, "{degrees} degrees, {level}: {got} is not {t}");
        }
    }

    #[test]
    fn an_interval_by_hand() {
        let interval = confidence(&[1.0, 2.0, 3.0], 0.95).unwrap();
        assert!(interval.mean == 2.0 && (interval.half.unwrap() - 2.484).abs() < 1e-3, "{interval:?}");
        assert_eq!(confidence(&[7.0], 0.95), Some(Interval { mean: 7.0, half: None, count: 1 }));
        assert_eq!(confidence(&[], 0.95), None);
        assert_eq!(confidence(&[4.0; 5], 0.95).unwrap().half, Some(0.0));
    }

    proptest! {
        #[test]
        fn more_certainty_is_wider_and_more_seeds_narrower(degrees in 1u32..300, level in 0.05f64..0.98) {
            prop_assert!(quantile(degrees, level) < quantile(degrees, level + 0.01));
            prop_assert!(quantile(degrees, level) > quantile(degrees + 1, level));
            // The quantile's definition, seen from the other side.
            let theta = (quantile(degrees, level) / f64::from(degrees).sqrt()).atan();
            prop_assert!((within(degrees, theta) - level).abs() < 1e-9);
        }
    }
}
