//! What goes into a rack broker and what comes out.

use crate::fabric_message::{LimitsRelay, RackLimits, RackReport};
use crate::report::UsageReport;
use weir_units::{Bandwidth, Bytes, Direction, Duration, PerDirection, ServiceId};

/// How the broker is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RackBrokerConfig {
    /// T_rack, how often usage is measured, told and allocated (Parley Table 1: 1 s).
    pub period: Duration,
    /// How long without a word from anyone before the static policy returns (Table 1: 5 s).
    pub timeout: Duration,
    /// What becomes of a silent machine's last word.
    pub stale: Stale,
    /// T_fabric, how often the leader reports to the fabric broker (Table 1: 10 s).
    pub fabric_period: Duration,
    /// How long without a word from the fabric broker before its limits end (Table 1: 50 s).
    pub fabric_timeout: Duration,
}

impl Default for RackBrokerConfig {
    fn default() -> Self {
        Self {
            period: Duration::from_secs(1),
            timeout: Duration::from_secs(5),
            stale: Stale::Keep,
            fabric_period: Duration::from_secs(10),
            fabric_timeout: Duration::from_secs(50),
        }
    }
}

/// What becomes of the last word of a machine (at a rack broker) or a rack (at the fabric broker) that fell silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stale {
    /// It stays (Parley §5.2). The default.
    #[default]
    Keep,
    /// It is forgotten after the timeout.
    Forget,
}

/// What a driver tells the broker.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// `poll_timeout` is due.
    Timeout,
    /// The answer to [`Output::ReadMeters`]: one reading for each leaf service that has a meter.
    Meters(&'a [MeterReading]),
    /// A report from another machine, its tag already checked.
    Report(&'a UsageReport),
    /// The fabric broker's limits on this rack, as another machine tells them, its tag already checked.
    Relay(&'a LimitsRelay),
    /// The fabric broker's limits on this rack from itself, its tag already checked.
    Fabric(&'a RackLimits),
}

/// A service's counters on this machine since the meter was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeterReading {
    /// A leaf service.
    pub service: ServiceId,
    /// Bytes transmitted and received.
    pub bytes: PerDirection<Bytes>,
    /// What its receive meter knows of the network; the default where there is none.
    pub network: NetworkReading,
}

/// What a service's receive meter knows of the network between its senders and this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NetworkReading {
    /// Packets since the meter was started that switches could mark.
    pub packets: u64,
    /// Of them, those that were marked and count: a crowd's at its own full interface do not (`datapath/interface_meter.h`).
    pub marked: u64,
    /// R, what each sender may send now; `None` without a receive meter, or where it holds nobody.
    pub rate: Option<Bandwidth>,
}

/// What the broker tells its driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Read all meters now and answer with [`Input::Meters`].
    ReadMeters,
    /// Send this to every other machine of the rack.
    Broadcast(UsageReport),
    /// Send this to every other machine of the rack too: what the fabric broker said.
    Relay(LimitsRelay),
    /// Send this to the fabric broker. Only the rack's leader does so, and only where the policy speaks of the fabric.
    ReportRack(RackReport),
    /// Put these limits in force: one for each leaf service and direction.
    SetLimits(Vec<RuntimeLimit>),
}

/// The runtime policy of one service on this machine in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuntimeLimit {
    /// A leaf service.
    pub service: ServiceId,
    /// Transmit (the root limiter) or receive (the root meter).
    pub direction: Direction,
    /// The limit; [`Bandwidth::UNLIMITED`] when the static policy alone holds it.
    pub limit: Bandwidth,
}

/// Which policy is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The machine's own: nobody was heard for the timeout, or ever.
    Static,
    /// The one computed from the rack's usage.
    Runtime,
}

/// What the broker counted since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RackBrokerCounters {
    /// Reports that told something new.
    pub accepted: u64,
    /// Reports not newer than what was known: replayed, doubled or overtaken.
    pub replayed: u64,
    /// Reports in the name of a machine that is not of this rack, or of this machine.
    pub unknown_machine: u64,
    /// Reports made under another policy.
    pub other_policy: u64,
    /// Reports whose rows contradict the policy or themselves.
    pub malformed: u64,
    /// Outputs that the driver did not fetch within a period; they were dropped.
    pub dropped_outputs: u64,
    /// Times that the broker went back to the static policy.
    pub fallbacks: u64,
    /// Reports sent to the fabric broker, counted in parts.
    pub rack_reports: u64,
    /// Limits of the fabric that told something new, from the fabric broker or relayed.
    pub limits_accepted: u64,
    /// Limits that were known already: a relay repeats them so that nobody misses them.
    pub limits_known: u64,
    /// Limits older than what was known: replayed or overtaken.
    pub limits_replayed: u64,
    /// Limits older than the fabric's timeout.
    pub limits_expired: u64,
    /// Limits of another rack.
    pub limits_other_rack: u64,
    /// Limits made under another policy.
    pub limits_other_policy: u64,
    /// Limits whose rows contradict the policy or themselves.
    pub limits_malformed: u64,
    /// Times that the fabric's limits ended because nothing was heard of it.
    pub fabric_fallbacks: u64,
}
