//! Counters of a fabric broker for events that do not reach the broker itself.

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

/// Counters by reason.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Connections without a certificate of the CA, or without TLS at all.
    pub(crate) handshakes_failed: Counter,
    /// Connections that newer ones replaced before their handshake was complete.
    pub(crate) handshakes_replaced: Counter,
    /// Streams in the name of a machine that the client's certificate does not name.
    pub(crate) other_machine: Counter,
    /// Streams in the name of a machine that the policy does not have.
    pub(crate) unknown_machine: Counter,
    /// Streams that were redirected to the leading fabric broker.
    pub(crate) redirected: Counter,
    /// Messages that no rack leader makes.
    pub(crate) malformed: Counter,
    /// Limits for machines that had no stream.
    pub(crate) unsent: Counter,
    /// Limits for machines that did not take earlier ones.
    pub(crate) not_taken: Counter,
}
