//! What racks and the fabric broker tell each other.
//!
//! A rack's leader says what each service would take of the uplink ([`RackReport`]); the fabric broker answers with
//! what each may take ([`RackLimits`]); whoever gets that tells it in the rack ([`LimitsRelay`]). All three come in
//! [parts](crate::parts) that each stand alone, ordered by the `(epoch, round)` of who computed them: a relay has the
//! fabric broker's, so that it does not matter who relays or how often.
//!
//! Rates are [rounded](crate::rate::rounded) when a message is made.

use crate::parts::Row;
use weir_units::{Bandwidth, Duration, MachineId, PerDirection, RackId, ServiceId};

/// One datagram's worth of a rack's demands at the fabric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RackReport {
    /// The machine that leads its rack.
    pub machine: MachineId,
    /// The fingerprint of its policy.
    pub policy: u64,
    /// Which start of its broker this is.
    pub epoch: u64,
    /// Which rack period of that start this is.
    pub round: u64,
    /// The first service that it speaks about.
    pub first: ServiceId,
    /// The last service that it speaks about, inclusive.
    pub last: ServiceId,
    /// Services with a demand, ascending, within the range; never unlimited: a rack takes at most its uplink.
    pub rows: Vec<RateRow>,
}

/// One datagram's worth of a rack's limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RackLimits {
    /// The rack that they hold.
    pub rack: RackId,
    /// The fingerprint of the fabric broker's policy.
    pub policy: u64,
    /// Which start of the fabric broker this is.
    pub epoch: u64,
    /// Which fabric period of that start this is.
    pub round: u64,
    /// The first service that they speak about.
    pub first: ServiceId,
    /// The last service that they speak about, inclusive.
    pub last: ServiceId,
    /// Services that are limited in either direction, ascending, within the range.
    pub rows: Vec<RateRow>,
}

/// The same, told by a machine to the others of its rack. It does not say by which: the word is the fabric broker's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitsRelay {
    /// How long ago the fabric broker's word reached the rack, so that it is forgotten everywhere at the same time.
    pub age: Duration,
    /// What the fabric broker said.
    pub limits: RackLimits,
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
