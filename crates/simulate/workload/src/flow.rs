//! [`FlowStart`]: the output of a workload.

use weir_units::{MachineId, SimTime};

/// The size of a flow that has no end of its own: it sends until [`FlowStart::stop`].
pub const UNTIL_STOPPED: u64 = u64::MAX;

/// A flow that starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowStart {
    /// Its start: not later than the time of the poll.
    pub at: SimTime,
    /// The sender.
    pub from: MachineId,
    /// The receiver, never the sender.
    pub to: MachineId,
    /// Bytes of the application, at least 1; [`UNTIL_STOPPED`] for a flow that continues until
    /// `stop`.
    pub bytes: u64,
    /// The stop of the sender, regardless of the bytes sent; [`SimTime::NEVER`] for flows that end
    /// with their last byte.
    pub stop: SimTime,
    /// The workload's own number of the flow, to be passed back at its end. Unique within the
    /// workload.
    pub tag: u64,
    /// The deadline of the last byte.
    pub deadline: Option<SimTime>,
}

impl FlowStart {
    /// A flow that ends with its last byte and has no deadline.
    pub(crate) const fn new(at: SimTime, from: MachineId, to: MachineId, bytes: u64, tag: u64) -> Self {
        Self { at, from, to, bytes, stop: SimTime::NEVER, tag, deadline: None }
    }
}
