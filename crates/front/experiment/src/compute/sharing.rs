//! How long it takes to share one level among many services: Parley's Table 2.
//!
//! Demands are random and their sum is a little more than the capacity, as section 6.2 describes;
//! each time the sharing starts from nothing, memory included, as the first one of a broker does.
//! The quartile of many times is steady while their mean is not: other programs run now and then,
//! and their time does not belong to the computation.

use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::hint::black_box;
use weir_alloc::fill::{Child, Filling};
use weir_policy::{Share, Sharing};
use weir_units::Bandwidth;

/// Seconds of measuring, or at least so many times: enough for a quartile within a few per cent.
const SECONDS: f64 = 0.3;
const TIMES: usize = 25;
/// The capacity in per cent of the demands.
const CAPACITY: u64 = 99;
/// Demands reach up to this, with Parley's precision of 1 Mb/s and more.
const HIGHEST_DEMAND: u64 = 2_000_000;

/// The time that a quarter of all do not exceed, in seconds.
pub(super) fn time(services: u32, clock: &dyn Fn() -> f64) -> f64 {
    let mut rng = SmallRng::seed_from_u64(1);
    let demand = |_| Child::new(Share::default(), Bandwidth::from_bps(rng.random_range(0..HIGHEST_DEMAND)));
    let children: Vec<Child> = (0..services).map(demand).collect();
    let wants: Bandwidth = children.iter().map(Child::usable).sum();
    let capacity = Bandwidth::from_bps((wants.bps() / 100 * CAPACITY).max(1));
    let (begun, mut times) = (clock(), Vec::new());
    while times.len() < TIMES || (clock() - begun < SECONDS && times.len() < 1_000 * TIMES) {
        let start = clock();
        let mut filling = Filling::default();
        filling.fill(Sharing::Add, black_box(capacity), black_box(&children));
        black_box(&filling.shares);
        times.push(clock() - start);
    }
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 4]
}
