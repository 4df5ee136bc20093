//! What a fabric broker counts before a report reaches the broker itself.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that several tasks add to.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// By reason.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Connections without a certificate of the CA, or without TLS at all.
    pub(crate) handshakes_failed: Counter,
    /// Calls in the name of a machine that the caller's certificate does not name.
    pub(crate) other_machine: Counter,
    /// Calls in the name of a machine that the policy does not have.
    pub(crate) unknown_machine: Counter,
    /// Calls that were told where the fabric broker is that answers.
    pub(crate) sent_elsewhere: Counter,
    /// Messages that no leader makes.
    pub(crate) malformed: Counter,
    /// Answers for machines that had no call.
    pub(crate) unsent: Counter,
    /// Answers for machines that did not take earlier ones.
    pub(crate) not_taken: Counter,
}
