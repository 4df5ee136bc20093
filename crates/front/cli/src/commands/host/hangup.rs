//! SIGHUP: files are read again.

use crate::error::CommandError;
use signal_hook::consts::SIGHUP;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The request to read files again.
#[derive(Debug)]
pub(super) struct Hangup(Arc<AtomicBool>);

impl Hangup {
    /// From now on SIGHUP is noted.
    pub(super) fn listen() -> Result<Self, CommandError> {
        let noted = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGHUP, Arc::clone(&noted))
            .map_err(|error| CommandError::failed(format!("cannot listen for SIGHUP: {error}")))?;
        Ok(Self(noted))
    }
    /// Whether a signal has arrived since the last call.
    pub(super) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}
