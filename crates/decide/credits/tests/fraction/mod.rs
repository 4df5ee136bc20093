//! Exact fractions of 128 bits, reduced. An overflow panics.

use std::cmp::Ordering;
use std::ops::{Add, Div, Mul, Sub};

/// A fraction in lowest terms with a denominator above zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fraction {
    numerator: i128,
    denominator: i128,
}

fn greatest_divisor(a: i128, b: i128) -> i128 {
    if b == 0 { a.abs() } else { greatest_divisor(b, a % b) }
}

impl Fraction {
    pub(crate) fn new(numerator: i128, denominator: i128) -> Self {
        assert!(denominator > 0);
        let by = greatest_divisor(numerator, denominator);
        Self { numerator: numerator / by, denominator: denominator / by }
    }

    /// Numerator and denominator of a fraction that is not negative.
    pub(crate) fn parts(self) -> (u128, u128) {
        (self.numerator as u128, self.denominator as u128)
    }
}

impl Add for Fraction {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        // Over the smallest common denominator, so that sums of many fractions fit.
        let by = greatest_divisor(self.denominator, other.denominator);
        let numerator = self.numerator * (other.denominator / by) + other.numerator * (self.denominator / by);
        Self::new(numerator, self.denominator / by * other.denominator)
    }
}

impl Sub for Fraction {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + Self { numerator: -other.numerator, ..other }
    }
}

impl Mul for Fraction {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let first = Self::new(self.numerator, other.denominator);
        let second = Self::new(other.numerator, self.denominator);
        Self::new(first.numerator * second.numerator, first.denominator * second.denominator)
    }
}

impl Div for Fraction {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        assert!(other.numerator > 0);
        self * Self { numerator: other.denominator, denominator: other.numerator }
    }
}

impl Ord for Fraction {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.numerator * other.denominator).cmp(&(other.numerator * self.denominator))
    }
}

impl PartialOrd for Fraction {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
