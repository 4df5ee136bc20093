//! [`FlowStart`]: what a workload gives.

use weir_units::{MachineId, SimTime};

/// The size of a flow that has no end of its own: it sends until [`FlowStart::stop`].
pub const UNTIL_STOPPED: u64 = u64::MAX;

/// A flow that starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowStart {
    /// When it starts: not later than the time at which the workload was asked.
    pub at: SimTime,
    /// Who sends.
    pub from: MachineId,
    /// Who receives, never the sender.
    pub to: MachineId,
    /// Bytes of the application, at least 1; [`UNTIL_STOPPED`] for a flow that goes on until `stop`.
    pub bytes: u64,
    /// When the sender stops, whatever it has sent; [`SimTime::NEVER`] for flows that end with their last byte.
    pub stop: SimTime,
    /// The workload's own number of the flow, to be handed back when it is finished. Unique within the workload.
    pub tag: u64,
    /// The point in time at which the last byte should be there.
    pub deadline: Option<SimTime>,
}

impl FlowStart {
    /// A flow that ends with its last byte and has no deadline.
    pub(crate) const fn new(at: SimTime, from: MachineId, to: MachineId, bytes: u64, tag: u64) -> Self {
        Self { at, from, to, bytes, stop: SimTime::NEVER, tag, deadline: None }
    }
}
