//! Which packets are answered with feedback: `datapath/feedback_sampler.h`.
//!
//! Problem, approach and worked example are in the header. [`ReceiveMeter`](crate::ReceiveMeter) has one of these inside; on Linux
//! each CPU has one per service, and asks [`Answers::waits`] before it reads a clock.

use crate::feedback::Address;
use crate::layout::{RawAnswers, RawTold, native};
use weir_units::{Bandwidth, Bytes, Duration, Instant, ServiceId};

/// When the next answer is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answers(pub RawAnswers);

impl Answers {
    /// Counts a packet that comes at `last` or before, if by then no answer is due; false: nothing is counted.
    pub fn waits(&mut self, last: Instant, bytes: Bytes) -> bool {
        native::weir_native_feedback_waits(&mut self.0, last.nanos(), bytes.get()) == 1
    }
    /// Counts a packet; whether it is to be answered.
    pub fn is_due(&mut self, now: Instant, bytes: Bytes) -> bool {
        native::weir_native_feedback_due(&mut self.0, now.nanos(), bytes.get()) == 1
    }
}

/// What senders were told lately, so that none is told twice; as many places as `N`, a power of two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told<const N: usize> {
    places: [RawTold; N],
    keep: Duration,
}

impl<const N: usize> Told<N> {
    /// Nobody was told anything; for `keep` the same rate is not told again.
    pub fn new(keep: Duration) -> Self {
        const { assert!(N.is_power_of_two()) };
        Self { places: [RawTold::default(); N], keep }
    }
    /// Whether the sender of packets from `source` to `destination` was told this rate, which is not 0; if not, it is now.
    pub fn repeats(
        &mut self,
        (source, destination): (&Address, &Address),
        service: ServiceId,
        rate: Bandwidth,
        now: Instant,
    ) -> bool {
        let place = native::weir_native_advertised_slot(source, destination, service.0, N as u32);
        let (told, keep) = (&mut self.places[place as usize], self.keep.nanos());
        native::weir_native_feedback_repeats(told, source, destination, service.0, rate.bps(), now.nanos(), keep) == 1
    }
}
