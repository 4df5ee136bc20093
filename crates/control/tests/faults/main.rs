//! Brokers in worlds where everything goes wrong.
//!
//! Problem: brokers must stay right when datagrams are lost, doubled, late, out of order, altered or
//! replayed, when machines crash and come back, when the network is partitioned and clocks run differently;
//! and once all that ends they must agree again. Nobody can list the cases by hand.
//!
//! Approach: [`world`] runs the ten rack brokers of one rack, [`fabric`] three racks and a fabric broker, with real
//! datagrams, in simulated time, and draws faults from a seed. In four of seven worlds queues mark packets ([`network`]), before
//! racks or elsewhere, so that what the network holds back is told as more; over all worlds of a kind, a fair part must have been. Checkers watch from outside and after every step
//! compare what a broker holds with what the world knows to be true. A failing run prints its seed and what was drawn.
//!
//! - `cargo test -p weir-control --test faults`: the usual number of seeds of both.
//! - `cargo test -p weir-control --test faults -- --seed 17`: that rack again, with a log of its events.
//! - `cargo test -p weir-control --test faults -- --fabric-seed 17`: that fabric again.
//! - `cargo test -p weir-control --test faults -- --seeds 100000`: more of both.

mod checkers;
mod draw;
mod fabric;
mod held_back;
mod network;
mod obedience;
mod world;

use network::Marks;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a run saw that not every run must see.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Whether anybody was ever limited.
    limited: bool,
    marks: Marks,
    /// Whether anybody ever told more than it used, because the network held it back.
    held_back: bool,
}

/// A kind of world.
struct Kind {
    name: &'static str,
    /// The argument that replays one of its seeds.
    argument: &'static str,
    /// Seeds that a plain run tries; a quarter of them where WEIR_QUICK is set.
    seeds: u64,
    drawn: fn(u64) -> String,
    /// What was seen, or what was wrong.
    run: fn(u64, bool) -> Result<Seen, String>,
}

const KINDS: [Kind; 2] = [
    Kind {
        name: "ten rack brokers",
        argument: "--seed",
        // Three of seven worlds have no marks.
        seeds: 4_900,
        drawn: |seed| draw::Drawn::new(seed).to_string(),
        run: world::run,
    },
    Kind {
        name: "three racks and a fabric broker",
        argument: "--fabric-seed",
        seeds: 2_400,
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
        // Beside other tests a quarter: a multiple of seven, too.
        let quick = std::env::var_os("WEIR_QUICK").is_some();
        let seeds = seeds.unwrap_or(if quick { kind.seeds / 4 } else { kind.seeds });
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
    let next = AtomicU64::new(0);
    let (failures, seen) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        break;
                    }
                    let failure = match std::panic::catch_unwind(|| (kind.run)(seed, false)) {
                        Ok(Ok(saw)) => {
                            seen.lock().expect("no thread panics while it holds the lock").push(saw);
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
    let seen = seen.into_inner().expect("no thread panics while it holds the lock");
    let idle = idle(&seen);
    idle.iter().for_each(|failure| println!("{}: {failure}", kind.name));
    (failures.len() + idle.len()) as u64
}

/// What too few of the worlds saw, since checkers that watch nothing pass everything.
fn idle(seen: &[Seen]) -> Vec<String> {
    let mut failures = Vec::new();
    // Loads are small and losses large in some worlds.
    let without_limits = seen.iter().filter(|saw| !saw.limited).count();
    if without_limits > 1 + seen.len() / 20 {
        failures.push(format!("in {without_limits} of {} worlds nobody was ever limited", seen.len()));
    }
    for marks in Marks::ALL {
        let worlds = seen.iter().filter(|saw| saw.marks == marks);
        let (held_back, worlds) = (worlds.clone().filter(|saw| saw.held_back).count(), worlds.count());
        println!("{marks}: somebody was held back in {held_back} of {worlds} worlds");
        // Loads are too small to fill a queue in some.
        if marks.holds_back() && worlds >= 20 && held_back * 2 < worlds {
            failures.push(format!("only in {held_back} of {worlds} worlds with {marks} was anybody held back"));
        }
    }
    failures
}

fn usage() -> ! {
    println!("usage: faults [--seed N | --fabric-seed N | --seeds N]");
    std::process::exit(2);
}
