//! Inputs, outputs, configuration and counters of a rack broker.

use crate::epoch::EpochNotice;
use crate::fabric_message::{LimitsRelay, RackLimits, RackReport, ShutOutNotice};
use crate::report::UsageReport;
use weir_units::{Bandwidth, Bytes, Direction, Duration, PerDirection, ServiceId};

/// The intervals of a period, unless configured. A change is in force everywhere after three: it is
/// measured in one, the others compute in the next, and the machine that gains waits for them.
pub const INTERVALS: u64 = 10;

/// Timing and rules of the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RackBrokerConfig {
    /// T_rack, the longest interval of broadcast and allocation (Parley Table 1: 1 s). Demands are
    /// estimated over it.
    pub period: Duration,
    /// The interval of measurement, and the shortest of broadcast and allocation: both follow at once
    /// on a change that matters. At most the period, and equal to it in the paper.
    pub interval: Duration,
    /// The instances that have limits.
    pub rule: LimitRule,
    /// The time without a report from any machine after which the static policy returns (Table 1: 5
    /// s).
    pub timeout: Duration,
    /// The treatment of a silent machine's demands.
    pub stale: Stale,
    /// T_fabric, the interval of the leader's reports to the fabric broker (Table 1: 10 s).
    pub fabric_period: Duration,
    /// The time without limits from the fabric broker after which its last ones expire (Table 1: 50
    /// s).
    pub fabric_timeout: Duration,
}

impl RackBrokerConfig {
    /// The timing and the limits of the paper (Parley §3.2.2, Table 1).
    pub fn published() -> Self {
        let config = Self::default();
        Self { interval: config.period, rule: LimitRule::Backlogged, ..config }
    }
}

impl Default for RackBrokerConfig {
    fn default() -> Self {
        let period = Duration::from_secs(1);
        Self {
            period,
            interval: Duration::from_nanos(period.nanos() / INTERVALS),
            rule: LimitRule::default(),
            timeout: Duration::from_secs(5),
            stale: Stale::Keep,
            fabric_period: Duration::from_secs(10),
            fabric_timeout: Duration::from_secs(50),
        }
    }
}

/// The instances that have limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LimitRule {
    /// Under a maximum, or while the uplink is contended: all instances, each at its
    /// [ceiling](weir_alloc::rack::ceilings). The static policy has ceilings too.
    #[default]
    Ceilings,
    /// Those whose demand exceeds their share (Parley §3.2.2).
    Backlogged,
}

/// The treatment of the last demands of a silent machine (at a rack broker) or rack (at the fabric
/// broker).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stale {
    /// They are kept (Parley §5.2). The default.
    #[default]
    Keep,
    /// They are cleared after the timeout.
    Forget,
}

/// An event for the broker.
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// The time of `poll_timeout` has come.
    Timeout,
    /// The readings for [`Output::ReadMeters`]: one for each leaf service that has a meter.
    Meters(&'a [MeterReading]),
    /// A report from another machine, with a verified tag.
    Report(&'a UsageReport),
    /// The fabric broker's limits on this rack, relayed by another machine, with a verified tag.
    Relay(&'a LimitsRelay),
    /// The fabric broker's limits on this rack, received from it directly, with a verified tag.
    Fabric(&'a RackLimits),
    /// Limits that the fabric broker proposes, with a verified tag. The round is the number of the
    /// exchange.
    Proposal(&'a RackLimits),
    /// A change in whether this machine can reach the fabric broker. Without one it can.
    Reach(Reach),
    /// The same of another machine, with a verified tag.
    ShutOut(&'a ShutOutNotice),
    /// The newest stamp that a machine of the rack or the fabric broker has received of this machine, with a verified
    /// tag.
    EpochNotice(&'a EpochNotice),
    /// The newest stamp that another machine of the rack has received of the fabric broker, with a verified tag.
    FabricEpoch(&'a EpochNotice),
}

/// Whether a machine can reach the fabric broker, as its session shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// A stream is up, or none has been needed yet.
    #[default]
    Able,
    /// The session tries to open a stream, or has failed to open the last one. This counts only while the machine
    /// leads, since others need no stream.
    Trying,
    /// There is no session.
    Never,
}

/// A service's counters on this machine since its meter started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeterReading {
    /// A leaf service.
    pub service: ServiceId,
    /// Bytes transmitted and received.
    pub bytes: PerDirection<Bytes>,
    /// Whether packets of the service wait in the host.
    pub waits: bool,
    /// Congestion counters of its receive meter; the default where there is none.
    pub network: NetworkReading,
}

/// Congestion between a service's senders and this machine, as its receive meter measures it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NetworkReading {
    /// Packets since the meter started that switches could mark (ECN-capable).
    pub packets: u64,
    /// The marked ones that count: marks of very many senders at this machine's own full interface
    /// do not (`datapath/interface_meter.h`).
    pub marked: u64,
    /// R, the rate that each sender may use now; `None` without a receive meter, or where R limits
    /// no sender.
    pub rate: Option<Bandwidth>,
    /// C, the capacity that the law keeps the received traffic to; [`Bandwidth::UNLIMITED`] without
    /// one. The default is zero: no R is below it.
    pub capacity: Bandwidth,
}

/// An action for the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Read all meters now and pass them in as [`Input::Meters`].
    ReadMeters,
    /// Send this report to every other machine of the rack.
    Broadcast(UsageReport),
    /// Send these limits of the fabric broker to every other machine of the rack.
    Relay(LimitsRelay),
    /// Send this report to the fabric broker. Only the rack's leader does, and only where the
    /// policy has a fabric section.
    ReportRack(RackReport),
    /// Send this reply to the fabric broker. Its epoch and round are those of the proposal.
    ReplyRack(RackReport),
    /// Send this notice to every other machine of the rack.
    ShutOut(ShutOutNotice),
    /// Send this notice to the machine of the rack that it names, or to the fabric broker.
    NotifyEpoch(EpochNotice),
    /// Send this notice about the fabric broker to every other machine of the rack.
    FabricEpoch(EpochNotice),
    /// Store this epoch, which is in force from now on: the next start must have a higher one.
    StoreEpoch(u64),
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
    /// The limit; [`Bandwidth::UNLIMITED`] when the static policy alone applies.
    pub limit: Bandwidth,
}

/// The policy in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The machine's own: no report arrived within the timeout, or ever.
    Static,
    /// The one computed from the rack's usage.
    Runtime,
}

/// Counters since the start of the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RackBrokerCounters {
    /// Reports with new information.
    pub accepted: u64,
    /// Reports not newer than the known ones, of the same epoch: replayed, duplicated or reordered.
    pub replayed: u64,
    /// Reports of an older epoch than the known one of their machine: replayed, or the epoch went down.
    pub older_epoch: u64,
    /// Reports and notices in the name of this machine or of a machine of no or another rack, and notices of epochs to
    /// another machine.
    pub unknown_machine: u64,
    /// Reports made under another policy.
    pub other_policy: u64,
    /// Reports whose rows contradict the policy or each other.
    pub malformed: u64,
    /// Outputs that the driver did not fetch within a period; they were dropped.
    pub dropped_outputs: u64,
    /// Returns to the static policy.
    pub fallbacks: u64,
    /// Reports sent to the fabric broker, counted in parts.
    pub rack_reports: u64,
    /// Replies to proposed limits, counted in parts.
    pub replies: u64,
    /// Limits of the fabric with new information, direct or relayed.
    pub limits_accepted: u64,
    /// Limits that were known already: relays are repeated to cover losses.
    pub limits_known: u64,
    /// Limits older than the known ones: replayed or reordered.
    pub limits_replayed: u64,
    /// Limits of an older epoch than the known one of the fabric broker, received from it directly: its epoch went
    /// down.
    pub limits_older_epoch: u64,
    /// Limits older than the fabric's timeout.
    pub limits_expired: u64,
    /// Limits for another rack.
    pub limits_other_rack: u64,
    /// Limits made under another policy.
    pub limits_other_policy: u64,
    /// Limits whose rows contradict the policy or each other.
    pub limits_malformed: u64,
    /// Times that the fabric's limits expired because no new ones arrived.
    pub fabric_fallbacks: u64,
    /// Notices of whether this machine is shut out of the fabric broker.
    pub notices: u64,
    /// Notices of other machines that were not newer than known ones: replayed or reordered.
    pub notices_replayed: u64,
    /// Notices to machines of the rack and to the fabric broker that a newer stamp of theirs is known.
    pub epoch_notices: u64,
    /// Times that this machine continued above an epoch of its own that others had.
    pub epochs_raised: u64,
}
