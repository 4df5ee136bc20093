//! A request to stop that several threads share.
//!
//! Problem: a run, a sweep and an experiment end early on a signal, on a failure of another thread or on a caller's
//! decision, and a library must not handle signals. Approach: a flag that the caller sets, from a signal handler too:
//! setting it is one atomic store. Runs poll the flag between two samples, and pools before each point.
//!
//! Worked example: the command line stores a clone in its handler of SIGINT and passes the original to
//! [`simulation::run`](crate::simulation::run); after Ctrl-C the run returns its results so far.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the work is to end early. Clones share the request.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// No request yet.
    pub fn new() -> Self {
        Self::default()
    }
    /// Requests the end; safe in a signal handler.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
    /// Whether the end was requested.
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
