//! Functions of all tests on real network namespaces.
#![allow(dead_code, reason = "each test file uses a part of this")]

use std::io::Write as _;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The program under test.
pub(crate) const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// Prints `skipped:` with the reasons if this host cannot run the test; if WEIR_NO_SKIP is set, as
/// in CI, that is a failure.
pub(crate) fn skipped(test: &str) -> bool {
    let missing = weir_linux::requirements::check(weir_linux::requirements::Purpose::Lab);
    if missing.is_empty() {
        return false;
    }
    let reasons: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let may = std::env::var_os("WEIR_NO_SKIP").is_none();
    assert!(may, "WEIR_NO_SKIP is set, and {test} cannot run: {}", reasons.join("; "));
    // Not by println!, which a passing test swallows.
    let line = format!("skipped: {test} needs root and Linux's network parts ({})\n", reasons.join("; "));
    std::io::stderr().write_all(line.as_bytes()).expect("standard error takes a line");
    true
}

/// Whether the test shares its processors with others, as in `make test`: shorter, and without
/// assertions that need a quiet machine. Otherwise (`make soak`, or `cargo test`) it runs in full.
pub(crate) fn quick() -> bool {
    std::env::var_os("WEIR_QUICK").is_some()
}

/// The part of its rate that a sender has at least on shared processors. `make test` starts tests
/// that use 1.5 processors together, and other programs may leave them one of two: two thirds of
/// the time that a sender needs, less a tenth of it for the granularity of the scheduler.
pub(crate) const SHARED_LEAST: f64 = 0.6;

/// The most of a rate that a window of 250 ms or more shows on shared processors: packets that
/// waited up to 100 ms for a processor count in the next window.
pub(crate) const SHARED_MOST: f64 = 1.4;

/// The least mean of a rate: `full` in full, [`SHARED_LEAST`] of it on shared processors.
pub(crate) fn at_least(full: f64) -> f64 {
    if quick() { SHARED_LEAST * full } else { full }
}

/// The longest time for work that takes `full` seconds at most: on shared processors it has
/// [`SHARED_LEAST`] of the processor time that it needs.
pub(crate) fn at_most(full: f64) -> f64 {
    if quick() { full / SHARED_LEAST } else { full }
}

/// Whether rates measured one after the other are all within `part` of the expected one; on shared
/// processors, whether their mean is at least [`SHARED_LEAST`] and each at most [`SHARED_MOST`] of it.
pub(crate) fn hold(rates: &[f64], expected: f64, part: f64) -> bool {
    if !quick() {
        return rates.iter().all(|rate| (rate / expected - 1.0).abs() < part);
    }
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    mean > SHARED_LEAST * expected && rates.iter().all(|rate| *rate < SHARED_MOST * expected)
}

/// Tests of one process on namespaces share two processors and the lab's one lock, so they run one after the other.
pub(crate) fn one_at_a_time() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Polls until the condition holds; panics after `seconds` with the name of the condition.
#[expect(clippy::disallowed_methods, reason = "tests of real processes wait in real time")]
pub(crate) fn wait_for(what: &str, seconds: u64, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(seconds);
    while !condition() {
        assert!(Instant::now() < end, "waited {seconds} s for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Sends a signal to a child.
pub(crate) fn signal(child: &Child, signal: i32) {
    // SAFETY: plain system call on a child that has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

/// The lab's namespaces that exist now.
pub(crate) fn lab_namespaces() -> Vec<String> {
    weir_linux::netns::Prefix::new(weir_lab::PREFIX)
        .and_then(|prefix| prefix.existing())
        .expect("namespaces are listed")
}

/// The program with arguments.
pub(crate) fn weir(arguments: &[&str]) -> Command {
    let mut command = Command::new(WEIR);
    command.args(arguments).env("NO_COLOR", "1");
    command
}
