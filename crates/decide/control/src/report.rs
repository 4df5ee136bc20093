//! Usage reports between the machines of a rack.
//!
//! Every T_rack each machine broadcasts the usage of each of its services and whether the service
//! is backlogged, in [parts](crate::parts) that are independent of each other. `(epoch, round)`
//! orders a machine's reports: the epoch is higher at each start of its broker than at any earlier
//! one, the round counts periods.
//!
//! Source: Parley §5.2. Deviates from the paper in: the backlogged bit, epochs and rounds.

use crate::parts::Row;
use weir_units::{Bandwidth, Direction, MachineId, ServiceId};

/// One datagram's worth of a machine's usage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageReport {
    /// The reporting machine.
    pub machine: MachineId,
    /// The fingerprint of its policy: ids are comparable only under equal policies.
    pub policy: u64,
    /// The epoch of the machine's broker: the number of its start.
    pub epoch: u64,
    /// The period within that epoch.
    pub round: u64,
    /// The first service of the range that the part covers.
    pub first: ServiceId,
    /// The last service of the range, inclusive.
    pub last: ServiceId,
    /// Services with a usage, ascending, within the range.
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

impl UsageRow {
    /// The demand in a direction.
    pub fn demand(&self, direction: Direction) -> Demand {
        match direction {
            Direction::Tx => self.tx,
            Direction::Rx => self.rx,
        }
    }
}

impl Row for UsageRow {
    fn service(&self) -> ServiceId {
        self.service
    }
}

/// A measured usage and the demand that follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Demand {
    /// The mean rate of the last period, [rounded](crate::rate::rounded).
    pub usage: Bandwidth,
    /// Whether a limit constrained the service, so that its demand probably exceeds its usage.
    pub backlogged: bool,
}

impl Demand {
    /// The demand to allocate for: unlimited when backlogged, the usage otherwise.
    pub fn bandwidth(self) -> Bandwidth {
        if self.backlogged { Bandwidth::UNLIMITED } else { self.usage }
    }
}
