//! Which packets trigger feedback: `datapath/feedback_sampler.h`.
//!
//! The rule and a worked example are in the header. Each CPU has one sampler per service, and
//! calls [`FeedbackSampler::is_not_due`] before it reads a clock.

use crate::abi;
use crate::feedback::Address;
use weir_shaping::ShaperParameters;
use weir_units::{Bandwidth, Bytes, Duration, Instant, ServiceId};

/// Decides when the next feedback is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedbackSampler(pub abi::FeedbackSampler);

impl FeedbackSampler {
    /// A sampler before any packet, with these means ([`ShaperParameters::feedback_bytes`]). Those with different
    /// seeds select different packets.
    pub fn new(now: Instant, parameters: &ShaperParameters, seed: u32) -> Self {
        let mut raw = abi::FeedbackSampler::default();
        let bytes = u32::try_from(parameters.feedback_bytes.get()).unwrap_or(u32::MAX);
        abi::feedback_sampler_init(&mut raw, now.nanos(), bytes, parameters.feedback_interval.nanos(), seed);
        Self(raw)
    }

    /// Counts a packet received at `last` or before if no feedback is due by then; returns false,
    /// without counting it, otherwise.
    pub fn is_not_due(&mut self, last: Instant, bytes: Bytes) -> bool {
        abi::feedback_not_due(&mut self.0, last.nanos(), bytes.get()) == 1
    }
    /// Counts a packet and returns whether it triggers feedback.
    pub fn is_due(&mut self, now: Instant, bytes: Bytes) -> bool {
        abi::feedback_due(&mut self.0, now.nanos(), bytes.get()) == 1
    }
}

/// The rates most recently advertised to senders, in a direct-mapped table of `N` slots (a power of two).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advertised<const N: usize> {
    slots: [abi::Advertised; N],
    hold: Duration,
}

impl<const N: usize> Advertised<N> {
    /// An empty table; an unchanged rate is not advertised again within `hold`.
    pub fn new(hold: Duration) -> Self {
        const { assert!(N.is_power_of_two()) };
        Self { slots: [abi::Advertised::default(); N], hold }
    }
    /// Returns whether this rate (not 0) was advertised to the sender of packets from `source` to
    /// `destination` recently enough, and records it otherwise.
    pub fn repeats(
        &mut self,
        (source, destination): (&Address, &Address),
        service: ServiceId,
        rate: Bandwidth,
        now: Instant,
    ) -> bool {
        let slot = abi::advertised_slot(source, destination, service.0, N as u32);
        let (advertised, hold) = (&mut self.slots[slot as usize], self.hold.nanos());
        abi::feedback_repeats(advertised, source, destination, service.0, rate.bps(), now.nanos(), hold) == 1
    }
}
