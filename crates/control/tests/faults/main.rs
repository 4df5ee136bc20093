//! Ten rack brokers in a world where everything goes wrong.
//!
//! Problem: brokers must stay right when datagrams are lost, doubled, late, out of order, altered or
//! replayed, when machines crash and come back, when the rack is partitioned and clocks run differently;
//! and once all that ends they must agree again. Nobody can list the cases by hand.
//!
//! Approach: [`world`] runs ten real brokers, with real datagrams, in simulated time, and draws faults from a
//! seed. [`checkers`] watch from outside and after every step compare what a broker holds with what the
//! world knows to be true. A failing run prints its seed and what was drawn.
//!
//! - `cargo test -p weir-control --test faults`: the usual number of seeds.
//! - `cargo test -p weir-control --test faults -- --seed 17`: that run again, with a log of its events.
//! - `cargo test -p weir-control --test faults -- --seeds 100000`: more.

mod checkers;
mod draw;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds that a plain run tries.
const SEEDS: u64 = 3_000;

fn main() {
    let mut args = std::env::args().skip(1);
    let (mut seeds, mut one) = (SEEDS, None);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|n| n.parse().ok());
        match arg.as_str() {
            "--seed" => one = Some(number().unwrap_or_else(|| usage())),
            "--seeds" => seeds = number().unwrap_or_else(|| usage()),
            // What a test runner hands to all tests alike.
            "--quiet" | "-q" | "--nocapture" | "--show-output" | "--include-ignored" => {}
            "--test-threads" | "--format" | "--color" => drop(args.next()),
            _ if arg.starts_with("--test-threads=") || arg.starts_with("--format=") => {}
            // A filter that names another test: nothing of it is here.
            _ if !arg.starts_with('-') => return,
            _ => usage(),
        }
    }
    if let Some(seed) = one {
        println!("{}", draw::Drawn::new(seed));
        if let Err(failure) = world::run(seed, true) {
            println!("seed {seed}: {failure}");
            std::process::exit(1);
        }
        println!("seed {seed}: passed");
        return;
    }
    println!("running {seeds} seeds of ten rack brokers under faults");
    let (next, without_limits) = (AtomicU64::new(0), AtomicU64::new(0));
    let failures = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        break;
                    }
                    let failure = match std::panic::catch_unwind(|| world::run(seed, false)) {
                        Ok(Ok(limited)) => {
                            without_limits.fetch_add(u64::from(!limited), Ordering::Relaxed);
                            continue;
                        }
                        Ok(Err(failure)) => failure,
                        Err(_) => "panicked, see above".to_owned(),
                    };
                    failures.lock().expect("no thread panics while it holds the lock").push((seed, failure));
                }
            });
        }
    });
    let mut failures = failures.into_inner().expect("no thread panics while it holds the lock");
    failures.sort();
    for (seed, failure) in failures.iter().take(10) {
        println!("\nseed {seed} FAILED: {failure}\n{}", draw::Drawn::new(*seed));
        println!("again: cargo test -p weir-control --test faults -- --seed {seed}");
    }
    // Loads are small and losses large in some worlds; if that were the rule, the checkers would watch nothing.
    let without_limits = without_limits.into_inner();
    if without_limits > 1 + seeds / 20 {
        failures.push((seeds, format!("in {without_limits} worlds nobody was ever limited")));
        println!("in {without_limits} of {seeds} worlds nobody was ever limited");
    }
    let (passed, failed) = (seeds.saturating_sub(failures.len() as u64), failures.len());
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out");
    if failed > 0 {
        std::process::exit(1);
    }
}

fn usage() -> ! {
    println!("usage: faults [--seed N | --seeds N]");
    std::process::exit(2);
}
