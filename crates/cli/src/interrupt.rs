//! Ctrl-C: once keeps what is done, twice ends at once.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether somebody asked to stop.
#[derive(Debug, Clone)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on the first SIGINT or SIGTERM is only noted; a second one ends the process with 130.
    pub(crate) fn listen() -> io::Result<Self> {
        let noted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // Handlers run in the order of registration: the second signal finds the first one's note.
            flag::register_conditional_shutdown(signal, 130, Arc::clone(&noted))?;
            flag::register(signal, Arc::clone(&noted))?;
        }
        Ok(Self(noted))
    }
    /// Whether a signal came.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
