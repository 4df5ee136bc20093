//! Ctrl-C during long work.
//!
//! Problem: Python's handler of a signal runs only when the interpreter does, and the interpreter waits for the work.
//! Approach: the work polls [`Signals`] now and then, which takes the GIL at most ten times a second and runs the
//! handlers. An exception of a handler ends the work and is kept for the caller.

use pyo3::prelude::*;
use std::ops::ControlFlow;
use weir_answers::plan::Monitor;
use weir_latency::trace::Watch;
use weir_runs::Stopwatch;

/// Seconds between two checks: short for a person, and the GIL is rarely taken.
const PERIOD: f64 = 0.1;

/// The signals that arrive during one piece of work.
pub(crate) struct Signals {
    checked: Stopwatch,
    raised: Option<PyErr>,
}

impl Signals {
    /// No signal yet.
    pub(crate) fn new() -> Self {
        Self { checked: Stopwatch::start(), raised: None }
    }

    /// Runs the handlers of signals that have arrived; `Break` if one of them raised an exception.
    pub(crate) fn poll(&mut self) -> ControlFlow<()> {
        if self.raised.is_none() && self.checked.seconds() >= PERIOD {
            self.checked = Stopwatch::start();
            self.raised = Python::attach(|py| py.check_signals()).err();
        }
        if self.raised.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Returns the result of the work.
    ///
    /// # Errors
    /// The exception of a handler.
    pub(crate) fn finish<T>(self, done: T) -> PyResult<T> {
        self.raised.map_or(Ok(done), Err)
    }
}

impl Watch for Signals {
    fn rows(&mut self, _: u64, _: u64) -> ControlFlow<()> {
        self.poll()
    }
}

impl Monitor for Signals {
    fn begin(&mut self, _: String) {}
    fn finish(&mut self) {}
}
