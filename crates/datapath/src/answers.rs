//! Which packets are answered with feedback: `datapath/answers.h`.
//!
//! Problem, approach and worked example are in the header. [`ReceiveMeter`](crate::ReceiveMeter) has one of these inside; on Linux
//! each CPU has one per service, and asks [`Answers::waits`] before it reads a clock.

use crate::layout::{RawAnswers, native};
use weir_units::{Bytes, Instant};

/// When the next answer is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answers(pub RawAnswers);

impl Answers {
    /// Counts a packet that comes at `last` or before, if by then no answer is due; false: nothing is counted.
    pub fn waits(&mut self, last: Instant, bytes: Bytes) -> bool {
        native::weir_native_answer_waits(&mut self.0, last.nanos(), bytes.get()) == 1
    }
    /// Counts a packet; whether it is to be answered.
    pub fn is_due(&mut self, now: Instant, bytes: Bytes) -> bool {
        native::weir_native_answer_due(&mut self.0, now.nanos(), bytes.get()) == 1
    }
}
