//! What goes into a fabric broker and what comes out.

use crate::fabric_message::{RackLimits, RackReport};
use crate::rack_broker::Stale;
use weir_units::{Duration, MachineId};

/// How the broker is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FabricBrokerConfig {
    /// T_fabric, how often limits are computed (Parley Table 1: 10 s).
    pub period: Duration,
    /// How long a rack may be silent before it counts as such (Table 1: 50 s).
    pub timeout: Duration,
    /// What becomes of a silent rack's last word.
    pub stale: Stale,
}

impl Default for FabricBrokerConfig {
    fn default() -> Self {
        Self { period: Duration::from_secs(10), timeout: Duration::from_secs(50), stale: Stale::Keep }
    }
}

/// What a driver tells the broker.
#[derive(Debug, Clone, Copy)]
pub enum FabricInput<'a> {
    /// `poll_timeout` is due.
    Timeout,
    /// A report from a rack's leader, its tag already checked.
    Report(&'a RackReport),
}

/// What the broker tells its driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FabricOutput {
    /// Send these limits to a machine that leads its rack.
    SendLimits {
        /// The machine.
        to: MachineId,
        /// Its rack's limits.
        limits: RackLimits,
    },
}

/// What the broker counted since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FabricBrokerCounters {
    /// Reports that told something new.
    pub accepted: u64,
    /// Reports not newer than what was known: replayed, doubled or overtaken.
    pub replayed: u64,
    /// Reports in the name of a machine that the policy does not have.
    pub unknown_machine: u64,
    /// Reports made under another policy.
    pub other_policy: u64,
    /// Reports whose rows contradict the policy or themselves.
    pub malformed: u64,
    /// LimitsQueue that the driver did not fetch within a period, counted in racks.
    pub dropped_outputs: u64,
    /// Times that a silent rack's last word was forgotten.
    pub forgotten: u64,
}
