//! [`Aggregate`]: the identity of a flow, what a driver reads of it, and what it carries out.

use crate::message::Message;
use crate::period::Period;
use weir_units::{Bytes, ServiceId};

/// The data of one service from one host to another. `A` is a host's address: on Linux an IP address, in the simulator
/// an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Aggregate<A> {
    /// A leaf of the policy.
    pub service: ServiceId,
    /// The host that sends the data, to which allocations go.
    pub source: A,
    /// The host that receives it, to which all other messages go.
    pub destination: A,
}

/// Counters of a flow that the host sends, which a driver reads. Headers count, frames that need no credits do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// Bytes that have left through the gate since some time before the flow began; never falls.
    pub sent: u64,
    /// Bytes that wait before the gate.
    pub waiting: Bytes,
}

/// The bytes of a flow that may leave. A gate replaces the one before, with what that had left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    /// Bytes that may leave, evenly in the period: after b bytes the next frame leaves at b · p / a at the earliest.
    pub bytes: Bytes,
    /// p.
    pub period: Period,
}

impl Gate {
    /// Nothing leaves.
    pub const CLOSED: Self = Self { bytes: Bytes::ZERO, period: Period::from_micros(0) };
}

/// An action of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output<A> {
    /// Send a message: an allocation to the flow's source, others to its destination.
    Send {
        /// The flow.
        flow: Aggregate<A>,
        /// The message.
        message: Message,
    },
    /// Open or close the gate of a flow.
    Gate {
        /// The flow.
        flow: Aggregate<A>,
        /// The new gate.
        gate: Gate,
    },
    /// The flow has ended: nothing waits, and its gate is closed until a reading begins another.
    End {
        /// The flow.
        flow: Aggregate<A>,
    },
    /// The flow has ended without allocations although data waits, which the driver drops before the next reading.
    Abandon {
        /// The flow.
        flow: Aggregate<A>,
    },
}
