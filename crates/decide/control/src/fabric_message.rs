//! Messages between racks and the fabric broker.
//!
//! A rack's leader reports the rack's demand for each service ([`RackReport`]). The fabric broker
//! sends the rack's limits ([`RackLimits`]). The machine that receives limits relays them to its
//! rack ([`LimitsRelay`]). All three are split into [parts](crate::parts) that are independent of
//! each other, ordered by the `(epoch, round)` of the computation: a relay carries the fabric
//! broker's, so relays may be repeated and may come from any machine.
//!
//! Rates are [rounded](crate::rate::rounded) when a message is made.
//!
//! Source: Parley §5.3. The relay is a fill: the paper leaves the distribution within a rack open.

use crate::parts::Row;
use weir_units::{Bandwidth, Duration, MachineId, PerDirection, RackId, ServiceId};

/// One datagram's worth of a rack's demands at the fabric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RackReport {
    /// The machine that leads the rack.
    pub machine: MachineId,
    /// The fingerprint of its policy.
    pub policy: u64,
    /// The epoch of the machine's broker: the number of its start.
    pub epoch: u64,
    /// The rack period within that epoch.
    pub round: u64,
    /// The first service of the range that the part covers.
    pub first: ServiceId,
    /// The last service of the range, inclusive.
    pub last: ServiceId,
    /// Services with a demand, ascending, within the range; never unlimited, since a rack's uplink
    /// bounds its demand.
    pub rows: Vec<RateRow>,
}

/// One datagram's worth of a rack's limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RackLimits {
    /// The limited rack.
    pub rack: RackId,
    /// The fingerprint of the fabric broker's policy.
    pub policy: u64,
    /// The epoch of the fabric broker.
    pub epoch: u64,
    /// The fabric period within that epoch.
    pub round: u64,
    /// The first service of the range that the part covers.
    pub first: ServiceId,
    /// The last service of the range, inclusive.
    pub last: ServiceId,
    /// Services that are limited in either direction, ascending, within the range.
    pub rows: Vec<RateRow>,
}

/// The same limits as one machine relays them to the others of its rack. The relaying machine is
/// not named: the limits are the fabric broker's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitsRelay {
    /// The time since the limits reached the rack, so that they expire on all machines at the same
    /// time.
    pub age: Duration,
    /// The limits as the fabric broker sent them.
    pub limits: RackLimits,
}

/// Whether a machine is shut out of the fabric broker, for the others of its rack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShutOutNotice {
    /// The machine of which the notice is.
    pub machine: MachineId,
    /// The fingerprint of its policy.
    pub policy: u64,
    /// The epoch of the machine's broker: the number of its start.
    pub epoch: u64,
    /// The rack interval within that epoch.
    pub round: u64,
    /// Whether it cannot reach the fabric broker.
    pub shut_out: bool,
}

/// A service's rates in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateRow {
    /// A leaf service.
    pub service: ServiceId,
    /// Demands, or limits with [`Bandwidth::UNLIMITED`] for none.
    pub rates: PerDirection<Bandwidth>,
}

impl Row for RateRow {
    fn service(&self) -> ServiceId {
        self.service
    }
}
