//! Measurement of this machine's demands from its meters.

use super::usage_window::{Conditions, UsageWindow};
use super::{LimitRule, MeterReading, NetworkReading, RackBroker};
use crate::demand::{Marks, is_rate_lowered, throttled_demand};
use crate::parts::split;
use crate::report::{Demand, UsageReport, UsageRow};
use weir_units::{Bandwidth, Direction, Duration, Instant, PerDirection};

/// The last readings of the meters.
#[derive(Debug)]
pub(super) struct Meters {
    /// By leaf.
    windows: Vec<PerDirection<UsageWindow>>,
    /// By leaf.
    network: Vec<NetworkReading>,
    /// By leaf: the capacity under which the rate law passes the usage of the last interval beside its marks.
    pub(super) passing: Vec<Bandwidth>,
    /// By leaf: whether the network throttled the service.
    throttled: Vec<bool>,
    read: Option<Instant>,
}

impl Meters {
    pub(super) fn new(leaves: usize) -> Self {
        Self {
            windows: vec![PerDirection::default(); leaves],
            network: vec![NetworkReading::default(); leaves],
            passing: vec![Bandwidth::ZERO; leaves],
            throttled: vec![false; leaves],
            read: None,
        }
    }
}

impl RackBroker {
    /// Converts readings into the rows of this machine's report.
    pub(super) fn measure(&mut self, readings: &[MeterReading]) -> Vec<UsageRow> {
        let time = self.meters.read.map_or(Duration::ZERO, |read| self.now.saturating_since(read));
        self.meters.read = Some(self.now);
        let mut rows = Vec::new();
        for reading in readings {
            let Ok(leaf) = self.allocator.leaves().binary_search(&reading.service) else {
                debug_assert!(false, "a meter of a service that is no leaf");
                continue;
            };
            let row = self.measure_service(leaf, reading, time);
            if row.tx != Demand::default() || row.rx != Demand::default() {
                rows.push(row);
            }
        }
        rows.sort_unstable_by_key(|row| row.service);
        rows
    }

    /// The demands of one service for a reading `time` after the last one.
    fn measure_service(&mut self, leaf: usize, reading: &MeterReading, time: Duration) -> UsageRow {
        let before = std::mem::replace(&mut self.meters.network[leaf], reading.network);
        let (period, interval) = (self.config.period, self.config.interval);
        // The first interval of a successor is longer than the others (`graceful_restart.rs`).
        let single = interval >= period || time.nanos() >= 2 * interval.nanos();
        let full = PerDirection { tx: self.may_be_full(Direction::Tx), rx: self.may_be_full(Direction::Rx) };
        let mut demand = |direction: Direction| {
            let ceiling = self.allocator.policy().machine_ceiling(reading.service, direction);
            let limit = self.own.limits[direction][leaf];
            let bytes = reading.bytes[direction];
            let window = &mut self.meters.windows[leaf][direction];
            let arrived = bytes != window.counter();
            let by_law = direction == Direction::Rx && self.config.rule == LimitRule::Ceilings && arrived;
            let waits = direction == Direction::Tx && reading.waits;
            let throttled = by_law && is_rate_lowered(&reading.network, limit);
            // The interface's share, where that is lower.
            let capacity = reading.network.capacity;
            let capacity = if by_law && capacity > Bandwidth::ZERO { capacity } else { Bandwidth::UNLIMITED };
            let rises = self.config.rule == LimitRule::Ceilings && limit.is_unlimited();
            let recent = direction == Direction::Tx || rises;
            let limit = limit.min(ceiling).min(capacity);
            let (lowered, contended) =
                (self.own.lowered[direction][leaf], self.own.contended[direction] && full[direction]);
            window.read(bytes, Conditions { time, limit, lowered, throttled, waits, single, recent, contended }, period)
        };
        let mut row = UsageRow { service: reading.service, tx: demand(Direction::Tx), rx: demand(Direction::Rx) };
        let marks = Marks::between(&before, &reading.network);
        let throttled = marks.throttle(reading.network.rate, row.rx.usage, self.meters.throttled[leaf]);
        // The first reading has the marks of an earlier broker's time.
        let applies = self.config.rule == LimitRule::Ceilings && !time.is_zero();
        self.meters.passing[leaf] = if applies { marks.capacity_for(row.rx.usage) } else { Bandwidth::ZERO };
        self.meters.throttled[leaf] = throttled;
        if throttled {
            row.rx = throttled_demand(row.rx, self.own.limits[Direction::Rx][leaf]);
        }
        row
    }

    /// Whether a contended uplink may be full, so that it drops the packets of a service that grows:
    /// below a cap there is room, and receivers throttle senders before that.
    fn may_be_full(&self, direction: Direction) -> bool {
        let (policy, rack) = (self.allocator.policy(), self.allocator.rack());
        direction == Direction::Tx
            && policy.rack_capacity(rack, direction) >= policy.network().rack(rack).uplink()[direction]
    }

    /// Whether a demand differs from the last report's by more than a tenth of the limit on it, or,
    /// without a limit, so much that the uplink would be contended if it changed on all machines
    /// alike.
    pub(super) fn changed_since_report(&self, rows: &[UsageRow]) -> bool {
        Direction::ALL.into_iter().any(|direction| {
            let without_limit = self.room_of_each(direction);
            let mut rows = rows.iter().peekable();
            (0..self.allocator.leaves().len()).any(|leaf| {
                let row = rows.next_if(|row| row.service == self.allocator.leaves()[leaf]);
                let now = row.map_or(Bandwidth::ZERO, |row| row.demand(direction).bandwidth());
                let reported = self.demands[direction][self.allocator.instance(leaf, self.index)];
                let limit = self.own.limits[direction][leaf];
                let least = if limit.is_unlimited() { without_limit } else { Bandwidth::from_bps(limit.bps() / 10) };
                now.bps().abs_diff(reported.bps()) > least.bps()
            })
        })
    }

    /// Each machine's part of the bandwidth that the uplink has until it is contended.
    pub(super) fn room_of_each(&self, direction: Direction) -> Bandwidth {
        let room = self.allocator.room(direction, &self.shares[direction]);
        Bandwidth::from_bps(room.bps() / self.allocator.machines().len() as u64)
    }

    /// Computes with this machine's usage from now on, and broadcasts it. A machine without usage
    /// sends an empty report as a heartbeat.
    pub(super) fn report_usage(&mut self, rows: &[UsageRow]) {
        let mut own = rows.iter().peekable();
        for leaf in 0..self.allocator.leaves().len() {
            let row = own.next_if(|row| row.service == self.allocator.leaves()[leaf]);
            let instance = self.allocator.instance(leaf, self.index);
            self.stamps[instance] = (self.epoch, self.round);
            for direction in Direction::ALL {
                let demand = row.map_or(Bandwidth::ZERO, |row| row.demand(direction).bandwidth());
                self.demands[direction][instance] = demand;
            }
        }
        // The first reading shows no usage yet, and the other machines still have the reports of
        // the broker before this one.
        if self.is_alone() || (self.resuming && self.round == 1) {
            return;
        }
        self.epochs.reported = Some(rows.to_vec());
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
