//! What the tests on real network namespaces share.
#![allow(dead_code, reason = "each test file uses a part of this")]

use std::io::Write as _;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The program under test.
pub(crate) const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// Says that a test is skipped, and why, where this host cannot run it; where WEIR_NO_SKIP is set,
/// as in CI, that is a failure.
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

/// Whether rates measured one after the other are all within `part` of the expected one. On shared
/// processors a short one may lack what others used of its time: there the mean is at least six
/// tenths of the expected one, and none exceeds it by more than four tenths.
pub(crate) fn hold(rates: &[f64], expected: f64, part: f64) -> bool {
    if !quick() {
        return rates.iter().all(|rate| (rate / expected - 1.0).abs() < part);
    }
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    mean > 0.6 * expected && rates.iter().all(|rate| *rate < 1.4 * expected)
}

/// Tests of one process on namespaces share two processors and the lab's one lock, so they run one after the other.
pub(crate) fn one_at_a_time() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks until yes; panics after `seconds` with what was waited for.
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
