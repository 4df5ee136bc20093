//! Ctrl-C: once keeps the finished work, twice ends at once.
//!
//! One Ctrl-C may arrive twice: `timeout` passes it on to a process and to the group of that
//! process. The same signal counts again only after the shortest time in which a person can repeat
//! it.

use crate::error::CommandError;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use weir_runs::Stop;

/// Milliseconds after which the same signal counts again: people press no key twice within less.
const ANOTHER: u64 = 100;

/// The user's request to stop.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt(Stop);

impl Interrupt {
    /// From now on the first SIGINT or SIGTERM is only noted; a second one ends the process with 130.
    pub(crate) fn listen() -> Result<Self, CommandError> {
        Self::registered().map_err(|error| CommandError::failed(format!("cannot listen for Ctrl-C: {error}")))
    }

    fn registered() -> io::Result<Self> {
        let noted = Stop::new();
        // The time of the first signal in milliseconds, and below that its number; 0 before it.
        let first = Arc::new(AtomicU64::new(0));
        let start = now();
        for signal in [SIGINT, SIGTERM] {
            let (noted, first) = (noted.clone(), Arc::clone(&first));
            let on_signal = move || {
                let at = (now() - start).as_millis() as u64;
                let this = at << BITS | signal as u64;
                match first.compare_exchange(0, this, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => noted.request(),
                    Err(first) if is_again(first, this) => {}
                    Err(_) => low_level::exit(130),
                }
            };
            // SAFETY: a handler may read the clock (clock_gettime), use atomics and _exit, and this does nothing else.
            unsafe { low_level::register(signal, on_signal) }?;
        }
        Ok(Self(noted))
    }
    /// Whether a signal has arrived.
    pub(crate) fn is_requested(&self) -> bool {
        self.0.is_requested()
    }
    /// The same for runs, which poll it.
    pub(crate) fn stop(&self) -> &Stop {
        &self.0
    }
}

/// Bits of a number that hold a signal.
const BITS: u32 = 8;

/// Whether `this` is the `first` signal repeated.
const fn is_again(first: u64, this: u64) -> bool {
    let same = (first ^ this).trailing_zeros() >= BITS;
    same && (this >> BITS).saturating_sub(first >> BITS) < ANOTHER
}

#[expect(clippy::disallowed_methods, reason = "the time between two signals of a person; no run depends on it")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_signal_within_a_moment_counts_once() {
        let signal = |at: u64, signal: i32| at << BITS | signal as u64;
        let first = signal(7, SIGINT);
        assert!(is_again(first, first));
        assert!(is_again(first, signal(106, SIGINT)));
        // Two threads handle one signal each, and the second reads the clock first.
        assert!(is_again(signal(106, SIGINT), first));
        assert!(!is_again(first, signal(107, SIGINT)));
        assert!(!is_again(first, signal(7, SIGTERM)));
    }
}
