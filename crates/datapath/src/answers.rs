//! Which packets are answered with feedback: `datapath/answers.h`.
//!
//! Problem, approach and worked example are in the header. [`ReceiveMeter`](crate::ReceiveMeter) has one of these inside; on Linux
//! each CPU has one per service, and asks [`Answers::waits`] before it reads a clock.

use crate::feedback::Address;
use crate::layout::{RawAnswers, RawTold, native};
use weir_units::{Bandwidth, Bytes, Instant, ServiceId};

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

/// What senders were told in a round of the meter, so that none is told twice; as many places as `N`, a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told<const N: usize>([RawTold; N]);

impl<const N: usize> Default for Told<N> {
    fn default() -> Self {
        const { assert!(N.is_power_of_two()) };
        Self([RawTold::default(); N])
    }
}

impl<const N: usize> Told<N> {
    /// Whether the sender of packets from `source` to `destination` knows this rate from this round, other than 0; if not, it does now.
    pub fn repeats(
        &mut self,
        (source, destination): (&Address, &Address),
        service: ServiceId,
        rate: Bandwidth,
        round: u64,
    ) -> bool {
        let place = native::weir_native_told_place(source, destination, service.0, N as u32);
        let told = &mut self.0[place as usize];
        native::weir_native_answer_repeats(told, source, destination, service.0, rate.bps(), round) == 1
    }
}
