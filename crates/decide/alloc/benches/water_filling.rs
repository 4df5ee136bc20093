//! How long one level takes to share among N services, beside Parley's Table 2.
//!
//! Demands are random and the load is close to the capacity, as §6.2 describes; every run starts
//! from scratch: the same call that the brokers make. `cargo bench -p weir-alloc` prints the table.

use rand::{Rng, SeedableRng, rngs::SmallRng};
use std::hint::black_box;
use weir_alloc::fill::{Child, Filling};
use weir_policy::{Share, Sharing};
use weir_units::{Bandwidth, Weight};

/// N, Parley's value for it in Table 2 in µs, and the number of repetitions.
const ROWS: [(usize, Option<f64>, usize); 5] = [
    (100, Some(2.0), 20_000),
    (1_000, Some(12.0), 5_000),
    (10_000, Some(320.0), 1_000),
    (100_000, Some(1_600.0), 200),
    (1_000_000, None, 40),
];

struct Case {
    name: &'static str,
    sharing: Sharing,
    /// Capacity in percent of the sum of demands.
    load: u64,
    child: fn(&mut SmallRng) -> Child,
}

fn plain(rng: &mut SmallRng) -> Child {
    Child::new(Share::default(), Bandwidth::from_bps(rng.random_range(0..2_000_000)))
}

fn mixed(rng: &mut SmallRng) -> Child {
    let max =
        if rng.random_bool(0.3) { Bandwidth::from_bps(rng.random_range(1..4_000_000)) } else { Bandwidth::UNLIMITED };
    let min = Bandwidth::from_bps(rng.random_range(0..500_000)).min(max);
    let weight = Weight::from_thousandths(rng.random_range(1..=8) * 500).expect("a weight in range");
    Child::new(Share { min, max, weight }, Bandwidth::from_bps(rng.random_range(0..2_000_000)))
}

fn main() {
    // `cargo test --benches` runs benchmarks once with --test: take the small sizes only.
    let quick = std::env::args().any(|arg| arg == "--test");
    let cases = [
        Case { name: "weights equal, load 99 %", sharing: Sharing::Add, load: 99, child: plain },
        Case { name: "weights equal, load 200 %", sharing: Sharing::Add, load: 50, child: plain },
        Case { name: "min, max, weights; add, load 110 %", sharing: Sharing::Add, load: 90, child: mixed },
        Case { name: "min, max, weights; fill, load 110 %", sharing: Sharing::Fill, load: 90, child: mixed },
    ];
    println!("water-filling one level from scratch, one core (Parley Table 2 beside it)");
    for case in &cases {
        println!("\n{}", case.name);
        println!("{:>9}  {:>12}  {:>12}  {:>12}  {:>8}", "services", "published", "best", "median", "ns each");
        for (n, published, repeat) in ROWS {
            let repeat = if quick { 1 } else { repeat };
            let mut rng = SmallRng::seed_from_u64(1);
            let children: Vec<Child> = (0..n).map(|_| (case.child)(&mut rng)).collect();
            let wants: Bandwidth = children.iter().map(Child::usable).sum();
            let capacity = Bandwidth::from_bps(wants.bps() / 100 * case.load);
            let mut times: Vec<f64> = (0..repeat).map(|_| time(case.sharing, capacity, &children)).collect();
            times.sort_by(f64::total_cmp);
            let median = times[times.len() / 2];
            let published = published.map_or("-".to_owned(), micros);
            let best = times[0];
            println!(
                "{n:>9}  {published:>12}  {:>12}  {:>12}  {:>8.1}",
                micros(best),
                micros(median),
                median * 1e3 / n as f64
            );
        }
    }
}

/// One run in µs. The result's memory is fresh each time: from scratch means allocation included.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn time(sharing: Sharing, capacity: Bandwidth, children: &[Child]) -> f64 {
    let start = std::time::Instant::now();
    let mut filling = Filling::default();
    filling.fill(sharing, black_box(capacity), black_box(children));
    black_box(&filling.shares);
    start.elapsed().as_secs_f64() * 1e6
}

fn micros(us: f64) -> String {
    if us < 10.0 {
        format!("{us:.2} µs")
    } else if us < 10_000.0 {
        format!("{us:.0} µs")
    } else {
        format!("{:.1} ms", us / 1e3)
    }
}
