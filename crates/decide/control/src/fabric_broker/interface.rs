//! Inputs, outputs, configuration and counters of a fabric broker.

use crate::epoch::EpochNotice;
use crate::fabric_message::{RackLimits, RackReport};
use crate::rack_broker::{INTERVALS, LimitRule, Stale};
use weir_units::{Duration, MachineId};

/// Timing of the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FabricBrokerConfig {
    /// T_fabric, the longest interval between allocations (Parley Table 1: 10 s).
    pub period: Duration,
    /// The shortest: an allocation follows at once on reports that changed by more than a tenth. At
    /// most the period, and equal to it in the paper.
    pub interval: Duration,
    /// The time without a report after which a rack counts as silent (Table 1: 50 s).
    pub timeout: Duration,
    /// The treatment of a silent rack's demands.
    pub stale: Stale,
    /// The racks that have limits.
    pub rule: LimitRule,
}

impl FabricBrokerConfig {
    /// Ceilings, and allocations at once after a tenth of a period.
    pub fn new(period: Duration, timeout: Duration, stale: Stale) -> Self {
        Self {
            period,
            interval: Duration::from_nanos(period.nanos() / INTERVALS),
            timeout,
            stale,
            rule: LimitRule::default(),
        }
    }

    /// The same periods with the limits and the timing of the paper (Parley §3.2.3, Table 1).
    pub fn published(self) -> Self {
        Self { interval: self.period, rule: LimitRule::Backlogged, ..self }
    }
}

impl Default for FabricBrokerConfig {
    fn default() -> Self {
        Self::new(Duration::from_secs(10), Duration::from_secs(50), Stale::Keep)
    }
}

/// An event for the broker.
#[derive(Debug, Clone, Copy)]
pub enum FabricInput<'a> {
    /// The time of `poll_timeout` has come.
    Timeout,
    /// A report from a rack's leader, with a verified tag.
    Report(&'a RackReport),
    /// A rack's offers under proposed limits, with a verified tag. Its epoch and round are those of the
    /// proposal.
    Reply(&'a RackReport),
    /// The newest stamp that a machine has received of this broker, with a verified tag.
    EpochNotice(&'a EpochNotice),
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
    /// Send these limits to a machine that leads its rack, to be replied to and not put in force. The
    /// round is the number of the exchange.
    Propose {
        /// The recipient.
        to: MachineId,
        /// The proposed limits of its rack.
        limits: RackLimits,
    },
    /// Send this notice to the machine that it names.
    NotifyEpoch(EpochNotice),
    /// Store this epoch, which is in force from now on: the next start must have a higher one.
    StoreEpoch(u64),
}

/// Counters since the start of the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FabricBrokerCounters {
    /// Reports with new information.
    pub accepted: u64,
    /// Reports of the same epoch that are not newer than the known ones, and replies to no current proposal: replayed,
    /// duplicated or late.
    pub replayed: u64,
    /// Reports of an older epoch than the known one of their machine: its epoch went down.
    pub older_epoch: u64,
    /// Reports and notices in the name of a machine that the policy does not have.
    pub unknown_machine: u64,
    /// Reports made under another policy.
    pub other_policy: u64,
    /// Reports whose rows contradict the policy or each other.
    pub malformed: u64,
    /// Racks whose limits the driver did not fetch within a period.
    pub dropped_outputs: u64,
    /// Replies to proposals, counted in parts.
    pub replies: u64,
    /// Replies that did not arrive in time.
    pub replies_missed: u64,
    /// Times that the demands of a silent rack were cleared.
    pub forgotten: u64,
    /// Notices to machines that a newer stamp of theirs is known.
    pub epoch_notices: u64,
    /// Times that this broker continued above an epoch of its own that machines had.
    pub epochs_raised: u64,
}
