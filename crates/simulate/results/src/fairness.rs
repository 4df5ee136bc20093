//! Jain's fairness index.
//!
//! J = (Σx)² / (n Σx²): 1 when all are equal, 1/n when one has everything, k/n when k of n share
//! equally and the others have nothing. It is independent of the unit.
//!
//! Worked example: 10, 20 and 30 Mb/s give 60² / (3 × 1400) = 0.857.
//!
//! Source: Jain, Chiu and Hawe, "A quantitative measure of fairness and discrimination for resource
//! allocation in shared computer systems", DEC-TR-301, 1984, §2.

/// Jain's index of `values`, which are not negative; `None` when there are none, or nothing but
/// zeros.
pub fn jain(values: &[f64]) -> Option<f64> {
    let largest = values.iter().copied().fold(0.0, f64::max);
    if largest <= 0.0 {
        return None;
    }
    // Scaled by the largest, so that squares neither overflow nor vanish.
    let (sum, squares) = values.iter().map(|value| value / largest).fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    Some(sum * sum / (values.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_answers() {
        assert_eq!(jain(&[]), None);
        assert_eq!(jain(&[0.0, 0.0]), None);
        assert_eq!(jain(&[5e9; 7]), Some(1.0));
        // k of n share equally: k/n.
        assert_eq!(jain(&[1.0, 1.0, 1.0, 0.0]), Some(0.75));
        assert!((jain(&[10e6, 20e6, 30e6]).unwrap() - 3_600.0 / 4_200.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn between_one_nth_and_one_for_any_unit(
            values in prop::collection::vec(0u32..1_000_000, 1..50), unit in 1e-9f64..1e15
        ) {
            let scaled: Vec<f64> = values.iter().map(|value| f64::from(*value) * unit).collect();
            let (sum, squares) = values.iter().map(|v| u128::from(*v)).fold((0, 0), |(s, q), x| (s + x, q + x * x));
            match jain(&scaled) {
                None => prop_assert_eq!(sum, 0),
                Some(index) => {
                    let n = values.len() as f64;
                    prop_assert!(index >= 1.0 / n - 1e-9 && index <= 1.0 + 1e-9);
                    let exact = (sum * sum) as f64 / (n * squares as f64);
                    prop_assert!((index - exact).abs() < 1e-9, "{} is not {}", index, exact);
                }
            }
        }
    }
}
