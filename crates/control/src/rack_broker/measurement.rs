//! Measurement of this machine's demands from its meters.

use super::{MeterReading, NetworkReading, RackBroker};
use crate::demand::{estimate, is_throttled, throttled_demand};
use crate::parts::split;
use crate::report::{Demand, UsageReport, UsageRow};
use weir_units::{Bytes, Direction, Duration, Instant, PerDirection};

/// The last readings of the meters.
#[derive(Debug)]
pub(super) struct Meters {
    /// By leaf.
    bytes: Vec<PerDirection<Bytes>>,
    /// By leaf.
    network: Vec<NetworkReading>,
    /// By leaf: whether the network throttled the service.
    throttled: Vec<bool>,
    read: Option<Instant>,
}

impl Meters {
    pub(super) fn new(leaves: usize) -> Self {
        Self {
            bytes: vec![PerDirection::default(); leaves],
            network: vec![NetworkReading::default(); leaves],
            throttled: vec![false; leaves],
            read: None,
        }
    }
}

impl RackBroker {
    /// Converts readings into this machine's demands and returns the rows of its report.
    pub(super) fn measure(&mut self, readings: &[MeterReading]) -> Vec<UsageRow> {
        let time = self.meters.read.map_or(Duration::ZERO, |read| self.now.saturating_since(read));
        self.meters.read = Some(self.now);
        let mut rows = Vec::new();
        for reading in readings {
            let Ok(leaf) = self.allocator.leaves().binary_search(&reading.service) else {
                debug_assert!(false, "a meter of a service that is no leaf");
                continue;
            };
            let before = self.meters.bytes[leaf];
            let demand = |direction: Direction| {
                let ceiling = self.allocator.policy().machine_ceiling(reading.service, direction);
                let limit = self.limits[direction][leaf].min(ceiling);
                estimate(before[direction], reading.bytes[direction], time, limit, self.lowered[direction][leaf])
            };
            let mut row = UsageRow { service: reading.service, tx: demand(Direction::Tx), rx: demand(Direction::Rx) };
            let throttled =
                is_throttled(&self.meters.network[leaf], &reading.network, row.rx.usage, self.meters.throttled[leaf]);
            self.meters.throttled[leaf] = throttled;
            if throttled {
                row.rx = throttled_demand(row.rx, self.limits[Direction::Rx][leaf]);
            }
            self.meters.bytes[leaf] = reading.bytes;
            self.meters.network[leaf] = reading.network;
            let instance = self.allocator.instance(leaf, self.index);
            self.stamps[instance] = (self.epoch, self.round);
            self.demands.tx[instance] = row.tx.bandwidth();
            self.demands.rx[instance] = row.rx.bandwidth();
            if row.tx != Demand::default() || row.rx != Demand::default() {
                rows.push(row);
            }
        }
        rows.sort_unstable_by_key(|row| row.service);
        rows
    }

    /// Broadcasts this machine's usage. A machine without usage sends an empty report as a
    /// heartbeat.
    pub(super) fn broadcast_usage(&mut self, rows: &[UsageRow]) {
        if self.is_alone() {
            return;
        }
        for part in split(rows) {
            let report = UsageReport {
                machine: self.machine,
                policy: self.allocator.policy().digest(),
                epoch: self.epoch,
                round: self.round,
                first: part.first,
                last: part.last,
                rows: part.rows,
            };
            self.outputs.push_back(super::Output::Broadcast(report));
        }
    }
}
