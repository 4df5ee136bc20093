//! Brokers in worlds where everything goes wrong.
//!
//! Problem: brokers must stay right when datagrams are lost, doubled, late, out of order, altered or
//! replayed, when machines crash and come back, when the network is partitioned and clocks run differently;
//! and once all that ends they must agree again. Nobody can list the cases by hand.
//!
//! Approach: [`world`] runs the ten rack brokers of one rack, [`fabric`] three racks and a fabric broker, with real
//! datagrams, in simulated time, and draws faults from a seed. In three of four worlds queues mark packets ([`network`]), before
//! racks or elsewhere, so that what the network holds back is told as more. Checkers watch from outside and after every step
//! compare what a broker holds with what the world knows to be true. A failing run prints its seed and what was drawn.
//!
//! - `cargo test -p weir-control --test faults`: the usual number of seeds of both.
//! - `cargo test -p weir-control --test faults -- --seed 17`: that rack again, with a log of its events.
//! - `cargo test -p weir-control --test faults -- --fabric-seed 17`: that fabric again.
//! - `cargo test -p weir-control --test faults -- --seeds 100000`: more of both.

mod checkers;
mod draw;
mod fabric;
mod network;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};

/// A kind of world.
struct Kind {
    name: &'static str,
    /// The argument that replays one of its seeds.
    argument: &'static str,
    /// Seeds that a plain run tries.
    seeds: u64,
    drawn: fn(u64) -> String,
    /// Whether anybody was ever limited, or what was wrong.
    run: fn(u64, bool) -> Result<bool, String>,
}

const KINDS: [Kind; 2] = [
    Kind {
        name: "ten rack brokers",
        argument: "--seed",
        // Half of the worlds have no marks, and are held to the narrower bounds.
        seeds: 4_000,
        drawn: |seed| draw::Drawn::new(seed).to_string(),
        run: world::run,
    },
    Kind {
        name: "three racks and a fabric broker",
        argument: "--fabric-seed",
        seeds: 2_000,
        drawn: |seed| fabric::Drawn::new(seed).to_string(),
        run: fabric::run,
    },
];

fn main() {
    let mut args = std::env::args().skip(1);
    let mut seeds = None;
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|n| n.parse().ok());
        match arg.as_str() {
            "--seeds" => seeds = Some(number().unwrap_or_else(|| usage())),
            // What a test runner hands to all tests alike.
            "--quiet" | "-q" | "--nocapture" | "--show-output" | "--include-ignored" => {}
            "--test-threads" | "--format" | "--color" => drop(args.next()),
            _ if arg.starts_with("--test-threads=") || arg.starts_with("--format=") => {}
            // A filter that names another test: nothing of it is here.
            _ if !arg.starts_with('-') => return,
            _ => match KINDS.iter().find(|kind| kind.argument == arg) {
                Some(kind) => return replay(kind, number().unwrap_or_else(|| usage())),
                None => usage(),
            },
        }
    }
    let (mut passed, mut failed) = (0, 0);
    for kind in &KINDS {
        let seeds = seeds.unwrap_or(kind.seeds);
        let failures = search(kind, seeds);
        passed += seeds.saturating_sub(failures);
        failed += failures;
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {word}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out");
    if failed > 0 {
        std::process::exit(1);
    }
}

fn replay(kind: &Kind, seed: u64) {
    println!("{}", (kind.drawn)(seed));
    if let Err(failure) = (kind.run)(seed, true) {
        println!("seed {seed}: {failure}");
        std::process::exit(1);
    }
    println!("seed {seed}: passed");
}

/// Runs seeds on all processors: how many failed.
fn search(kind: &Kind, seeds: u64) -> u64 {
    println!("running {seeds} seeds of {} under faults", kind.name);
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
                    let failure = match std::panic::catch_unwind(|| (kind.run)(seed, false)) {
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
        println!("\n{} seed {seed} FAILED: {failure}\n{}", kind.name, (kind.drawn)(*seed));
        println!("again: cargo test -p weir-control --test faults -- {} {seed}", kind.argument);
    }
    // Loads are small and losses large in some worlds; if that were the rule, the checkers would watch nothing.
    let without_limits = without_limits.into_inner();
    if without_limits > 1 + seeds / 20 {
        failures.push((seeds, format!("in {without_limits} worlds nobody was ever limited")));
        println!("in {without_limits} of {seeds} worlds of {} nobody was ever limited", kind.name);
    }
    failures.len() as u64
}

fn usage() -> ! {
    println!("usage: faults [--seed N | --fabric-seed N | --seeds N]");
    std::process::exit(2);
}
