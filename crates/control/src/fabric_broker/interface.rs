//! Inputs, outputs, configuration and counters of a fabric broker.

use crate::fabric_message::{RackLimits, RackReport};
use crate::rack_broker::Stale;
use weir_units::{Duration, MachineId};

/// Timing of the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FabricBrokerConfig {
    /// T_fabric, the interval between allocations (Parley Table 1: 10 s).
    pub period: Duration,
    /// The time without a report after which a rack counts as silent (Table 1: 50 s).
    pub timeout: Duration,
    /// The treatment of a silent rack's demands.
    pub stale: Stale,
}

impl Default for FabricBrokerConfig {
    fn default() -> Self {
        Self { period: Duration::from_secs(10), timeout: Duration::from_secs(50), stale: Stale::Keep }
    }
}

/// An event for the broker.
#[derive(Debug, Clone, Copy)]
pub enum FabricInput<'a> {
    /// The time of `poll_timeout` has come.
    Timeout,
    /// A report from a rack's leader, with a verified tag.
    Report(&'a RackReport),
}

/// An action for the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FabricOutput {
    /// Send these limits to a machine that leads its rack.
    SendLimits {
        /// The recipient.
        to: MachineId,
        /// The limits of its rack.
        limits: RackLimits,
    },
}

/// Counters since the start of the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FabricBrokerCounters {
    /// Reports with new information.
    pub accepted: u64,
    /// Reports not newer than the known ones: replayed, duplicated or reordered.
    pub replayed: u64,
    /// Reports in the name of a machine that the policy does not have.
    pub unknown_machine: u64,
    /// Reports made under another policy.
    pub other_policy: u64,
    /// Reports whose rows contradict the policy or each other.
    pub malformed: u64,
    /// Racks whose limits the driver did not fetch within a period.
    pub dropped_outputs: u64,
    /// Times that the demands of a silent rack were cleared.
    pub forgotten: u64,
}
