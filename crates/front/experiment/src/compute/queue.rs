//! A simulated M/M/1 queue: Poisson arrivals, exponential sizes, one server, first in, first out.
//!
//! Problem: the formula for the percentile of a completion time needs an independent check.
//! Approach: Lindley's recursion. A message waits for the remaining wait and service of the one
//! before at its arrival, and takes that plus its own service. Times are in mean service times
//! until the end.
//!
//! Worked example: a message that arrives 1 after one that waited 2 and took 1.5 waits 2.5; with a
//! service of 1 it takes 3.5.
//!
//! Source: Lindley, "The theory of queues with a single server", 1952; Parley section 2.1.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use weir_results::Percentile;
use weir_results::summary::percentile_of;

/// The percentile of `messages` completion times, in seconds, after a tenth as many that fill the
/// queue.
pub(super) fn percentile(mean_service: f64, load: f64, messages: u64, percentile: Percentile) -> f64 {
    let mut rng = StdRng::seed_from_u64(1);
    let mut waiting = 0.0f64;
    let mut times = Vec::with_capacity(usize::try_from(messages).unwrap_or_default());
    for message in 0..messages + messages / 10 {
        let service = exponential(&mut rng);
        if message >= messages / 10 {
            times.push(waiting + service);
        }
        let gap = exponential(&mut rng) / load;
        waiting = (waiting + service - gap).max(0.0);
    }
    times.sort_unstable_by(f64::total_cmp);
    percentile_of(&times, 0, percentile).unwrap_or_default() * mean_service
}

/// An exponential time of mean 1.
fn exponential(rng: &mut StdRng) -> f64 {
    // From (0, 1]: the logarithm of 0 has no value.
    -(1.0 - rng.random::<f64>()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The completion time is exponential with mean 1/(1 − ρ): 0.8 ms / 0.2 · ln 100 = 18.42 ms.
    #[test]
    fn comes_to_the_formula() {
        let simulated = percentile(0.8e-3, 0.8, 2_000_000, Percentile::P99);
        assert!((simulated / 18.42e-3 - 1.0).abs() < 0.02, "{simulated}");
        let median = percentile(1.0, 0.5, 1_000_000, Percentile::P50);
        assert!((median / (2.0f64.ln() * 2.0) - 1.0).abs() < 0.01, "{median}");
    }
}
