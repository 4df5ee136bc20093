//! What machines of a rack tell each other.
//!
//! Every T_rack each machine says what each of its services used and whether that was all it wanted
//! (Parley §5.2), in [parts](crate::parts) that each stand alone. `(epoch, round)` orders a machine's reports: the
//! epoch is new at each start of its broker and higher than any before, the round counts periods.

use crate::parts::Row;
use weir_units::{Bandwidth, MachineId, ServiceId};

/// One datagram's worth of a machine's usage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageReport {
    /// The machine that speaks.
    pub machine: MachineId,
    /// The fingerprint of its policy; ids mean the same only where it is the same.
    pub policy: u64,
    /// Which start of its broker this is.
    pub epoch: u64,
    /// Which period of that start this is.
    pub round: u64,
    /// The first service that it speaks about.
    pub first: ServiceId,
    /// The last service that it speaks about, inclusive.
    pub last: ServiceId,
    /// Services that used anything, ascending, within the range.
    pub rows: Vec<UsageRow>,
}

/// One service's demands on a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageRow {
    /// A leaf service.
    pub service: ServiceId,
    /// In the transmit direction.
    pub tx: Demand,
    /// In the receive direction.
    pub rx: Demand,
}

impl Row for UsageRow {
    fn service(&self) -> ServiceId {
        self.service
    }
}

/// A measured usage and what it says about the demand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Demand {
    /// The mean rate of the last period, [rounded](crate::rate::rounded).
    pub usage: Bandwidth,
    /// Whether the service was held by a limit and probably wants more.
    pub backlogged: bool,
}

impl Demand {
    /// The demand to allocate for: unlimited when backlogged, the usage otherwise.
    pub fn bandwidth(self) -> Bandwidth {
        if self.backlogged { Bandwidth::UNLIMITED } else { self.usage }
    }
}
