//! [`SizeDistribution`]: the sizes of flows.
//!
//! Problem: published flow sizes are a handful of points of a cumulative distribution, and the
//! values between them are undefined. The rule matters: web search has a mean of 1141 packets when
//! sizes between two points are equally likely, and of 1623 when the upper point is always taken; a
//! load that is computed with one rule and drawn with the other is 40 % off. Approach: one rule, in
//! one type, which computes samples, means and wire bytes.
//!
//! **The rule.** Rows (s₀, c₀), (s₁, c₁), … mean that a size is at most sᵢ with probability cᵢ.
//! Between two rows every whole size from sᵢ + 1 to sᵢ₊₁ is equally likely, so that the
//! distribution is the straight line through the rows at every whole number of bytes. The first
//! row's c₀, and a step between two rows of the same size, is the probability of exactly that size.
//!
//! Probabilities are 64-bit fractions: a sample takes 64 uniform bits and integer arithmetic, hence
//! is the same on every platform, and sums over it are finite sums of integers, hence exact
//! ([`SizeDistribution::mean_wire_bytes`]).
//!
//! Worked example: rows `(1000, 0.5)` and `(3000, 1)`: half of the flows have 1000 bytes, the
//! others 1001 to 3000, with a mean of 2000.5; all together 1500.25.
//!
//! Source: pFabric (SIGCOMM 2013) §5 draws from such points; its simulation interpolates linearly.

mod builtin;
mod read;
mod wire;

pub use builtin::Builtin;
pub use wire::{Framing, wire_bytes};

use crate::Rng;
use crate::error::{SpecError, SpecResult, finite_size};
use std::sync::Arc;

/// One, as a fraction of 64 bits.
pub(crate) const ONE: u128 = 1 << 64;

/// A part of the distribution: the fractions below `until` and not below the step before are sizes
/// from `above` + 1 to `to`, equally likely; or exactly `to` if `above` is `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    until: u128,
    above: u64,
    to: u64,
}

/// A row of a cumulative distribution: `fraction` of all sizes, in 2^−64, are at most `size`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) size: u64,
    pub(crate) fraction: u128,
}

/// A distribution of sizes in bytes; every size is at least 1. Cheap to clone.
///
/// Rows (sᵢ, cᵢ) mean that a size is at most sᵢ with probability cᵢ. Between two rows every whole
/// size from sᵢ + 1 to sᵢ₊₁ is equally likely; the first row's share, and a step at one size, is
/// the probability of exactly that size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeDistribution {
    /// Rising `until`, the last of which is [`ONE`]; no step is empty.
    steps: Arc<[Step]>,
}

impl SizeDistribution {
    /// Always `bytes`.
    ///
    /// # Errors
    /// 0 bytes, or 2^64 − 1.
    pub fn fixed(bytes: u64) -> SpecResult<Self> {
        let size = finite_size(bytes, "a flow")?;
        Ok(Self { steps: [Step { until: ONE, above: size, to: size }].into() })
    }

    /// Every whole size from `least` to `most` bytes, equally likely.
    ///
    /// # Errors
    /// 0 bytes, 2^64 − 1, or `most` below `least`.
    pub fn uniform(least: u64, most: u64) -> SpecResult<Self> {
        finite_size(least, "the smallest flow")?;
        finite_size(most, "the largest flow")?;
        if most < least {
            let cause = format!("the largest flow, {most} bytes, is below the smallest, {least} bytes");
            return Err(SpecError::new(cause, "write the smaller size first"));
        }
        Ok(Self { steps: [Step { until: ONE, above: least - 1, to: most }].into() })
    }

    /// From rows that are checked: sizes and fractions do not fall, the last fraction is [`ONE`],
    /// and the first size is above 0 if its fraction is.
    pub(crate) fn from_rows(rows: &[Row]) -> Self {
        let mut steps = Vec::with_capacity(rows.len());
        let mut before = Row { size: rows.first().map_or(0, |row| row.size), fraction: 0 };
        for &row in rows {
            if row.fraction > before.fraction {
                steps.push(Step { until: row.fraction, above: before.size, to: row.size });
            }
            before = row;
        }
        debug_assert_eq!(steps.last().map(|step| step.until), Some(ONE), "the last row is 1");
        Self { steps: steps.into() }
    }

    /// Draws a size.
    pub fn sample(&self, rng: &mut Rng) -> u64 {
        self.quantile(rng.bits())
    }

    /// The size below which `fraction`·2^−64 of all sizes are.
    pub fn quantile(&self, fraction: u64) -> u64 {
        let fraction = u128::from(fraction);
        let index = self.steps.partition_point(|step| step.until <= fraction);
        let step = self.steps[index];
        if step.above == step.to {
            return step.to;
        }
        let from = self.start(index);
        // Below 2^64 · 2^64; the quotient is below the number of sizes.
        let offset = (fraction - from) * u128::from(step.to - step.above) / (step.until - from);
        step.above + 1 + offset as u64
    }

    /// The mean size in bytes, exact but for the rounding of floats.
    pub fn mean(&self) -> f64 {
        self.parts().map(|(share, step)| share * step.middle()).sum()
    }

    /// The share of sizes that are at most `bytes`.
    pub fn share_up_to(&self, bytes: u64) -> f64 {
        self.parts().map(|(share, step)| share * step.cut(bytes).0).sum()
    }

    /// The share of all bytes that are in flows larger than `bytes`.
    pub fn share_of_bytes_above(&self, bytes: u64) -> f64 {
        let below = |(share, step): (f64, Step)| {
            let (part, lower) = step.cut(bytes);
            share * part * lower.middle()
        };
        1.0 - self.parts().map(below).sum::<f64>() / self.mean()
    }

    /// The mean of the squares of sizes, for confidence bounds.
    pub fn mean_square(&self) -> f64 {
        // Of n sizes in a row the variance is (n² − 1)/12.
        let square = |step: Step| {
            let n = step.count();
            step.middle() * step.middle() + (n * n - 1.0) / 12.0
        };
        self.parts().map(|(share, step)| share * square(step)).sum()
    }

    /// The largest size.
    pub fn largest(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.to)
    }

    /// The fraction at which a step begins.
    fn start(&self, index: usize) -> u128 {
        if index == 0 { 0 } else { self.steps[index - 1].until }
    }

    /// The steps with their probabilities.
    fn parts(&self) -> impl Iterator<Item = (f64, Step)> + '_ {
        self.steps.iter().enumerate().map(|(index, &step)| ((step.until - self.start(index)) as f64 / ONE as f64, step))
    }
}

impl Step {
    /// The number of its sizes.
    fn count(self) -> f64 {
        ((self.to - self.above) as f64).max(1.0)
    }
    /// The mean of its sizes.
    fn middle(self) -> f64 {
        if self.above == self.to { self.to as f64 } else { (self.above as f64 + 1.0 + self.to as f64) / 2.0 }
    }
    /// The share of its sizes that are at most `bytes`, and the step of just those.
    fn cut(self, bytes: u64) -> (f64, Self) {
        if bytes >= self.to {
            return (1.0, self);
        }
        if bytes <= self.above {
            return (0.0, self);
        }
        let part = Self { to: bytes, ..self };
        (part.count() / self.count(), part)
    }
}

#[cfg(test)]
mod tests;
