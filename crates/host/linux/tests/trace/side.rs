//! The sides of a trace, their outcomes of an event, and their state.

use crate::event::Event;
use weir_datapath::Address;
use weir_datapath::abi::{
    self, Active, Advertised, Counting, Counts, CpuBatch, DestinationEntry, InterfaceEgress, LevelState, Meter,
    RateMailbox, Receiver, ServiceEgress, State,
};

/// A host: the kernel's programs, or the native ones.
pub(crate) trait Side {
    fn apply(&mut self, event: &Event) -> Outcome;
    fn state(&self) -> Snapshot;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Verdict {
    /// The next program decides. Also of events without a packet.
    #[default]
    Next,
    Drop,
}

/// What an event led to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    /// ns; 0: none. Of a packet that leaves, like the priority.
    pub(crate) departure: u64,
    pub(crate) priority: u32,
    /// The first bytes from the IP header on, of a packet that is not dropped.
    pub(crate) network: Vec<u8>,
    pub(crate) sent: Option<Sent>,
    /// ns until the timer is due again, after its expiry.
    pub(crate) next: u32,
}

/// A control message that the host sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) is_ecn_capability: bool,
    pub(crate) to: Address,
    /// With the advertised rate.
    pub(crate) content: abi::Feedback,
}

/// Bytes of [`Outcome::network`] at most: an IPv6 header.
pub(crate) const NETWORK_BYTES: usize = 40;

/// The state of a host, of the slots that a trace uses (`setup::SLOTS`, the first `setup::DESTINATIONS`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) state: State,
    pub(crate) receivers: Vec<Receiver>,
    pub(crate) counting: Vec<Counting>,
    pub(crate) service_egresses: Vec<ServiceEgress>,
    pub(crate) interface_egress: InterfaceEgress,
    pub(crate) batches: Vec<CpuBatch>,
    pub(crate) destinations: Vec<DestinationEntry>,
    pub(crate) mailboxes: Vec<RateMailbox>,
    pub(crate) level: LevelState,
    pub(crate) counts: Counts,
    pub(crate) active: Active,
    pub(crate) advertised: Vec<Advertised>,
    pub(crate) drops: Vec<Meter>,
    /// Sent and received, of each slot.
    pub(crate) meters: Vec<Meter>,
}
