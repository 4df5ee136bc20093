//! The rack broker: every machine of a rack computes all shares and applies its own.
//!
//! Problem: a rack's uplink is shared by machines that know only their own traffic. Approach (Parley
//! §3.2.2, §5.2): each period every machine broadcasts what its services used, keeps the last word of
//! every other machine, runs the same allocation over all of it, and applies the rows that are its own. There
//! is no leader to lose. Machines that heard the same compute the same, bit for bit; a lost report means an
//! older value for one period.
//!
//! - A service below its share is not limited at all.
//! - No word from anyone for the timeout (5 s): the machine is on its own and goes back to the static policy,
//!   which is what its own interface enforces without any runtime limit. A machine that has no peers to hear
//!   keeps its rack's policy by itself.
//! - A machine that fell silent keeps its last word ([`Stale::Keep`], the paper's way: its traffic may go on
//!   without its broker, and forgetting it under-estimates the uplink, which is how one of the paper's runs got
//!   84.62 ms) or is forgotten after the timeout ([`Stale::Forget`]: a dead host's share is used at once).
//! - Reports older than what is known are replays and are counted.
//!
//! Order of calls: on `Input::Timeout` the broker asks for [`Output::ReadMeters`]; the driver answers with
//! [`Input::Meters`], upon which reports and limits come out. [`Input::Report`] may come at any time.
//!
//! Worked example: capacity 60, service A (max 30) on machine 1 reports 80 used; B (min 30) on machine 2
//! reports nothing. Both machines compute A 30, B nothing. Machine 1 limits A to 30. In the next period A
//! uses 29.5 of 30: backlogged. B starts and uses 50: A 30 and B 30 (rule `fill`); machine 2 limits B to 30.

use crate::demand::estimate;
use crate::report::{Demand, UsageReport, UsageRow};
use std::collections::VecDeque;
use std::sync::Arc;
use weir_alloc::{RackAllocator, RackShares};
use weir_policy::Policy;
use weir_units::{Bandwidth, Bytes, Direction, Duration, Instant, MachineId, PerDirection, ServiceId};

/// Rows in one report. A row takes at most 24 bytes, so with headers a report fits in 1280 bytes, which
/// every IPv6 path carries whole.
pub const ROWS_PER_REPORT: usize = 48;

/// The lowest limit that is ever set. A share of nothing would stop a transport for good, which could then
/// never show that it wants more; at this rate a full-sized packet leaves about every second.
pub const LOWEST_LIMIT: Bandwidth = Bandwidth::from_bps(10_000);

/// How the broker is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RackBrokerConfig {
    /// T_rack, how often usage is measured, told and allocated (Parley Table 1: 1 s).
    pub period: Duration,
    /// How long without a word from anyone before the static policy returns (Table 1: 5 s).
    pub timeout: Duration,
    /// What becomes of a silent machine's last word.
    pub stale: Stale,
}

impl Default for RackBrokerConfig {
    fn default() -> Self {
        Self { period: Duration::from_secs(1), timeout: Duration::from_secs(5), stale: Stale::Keep }
    }
}

/// What becomes of the last word of a machine that fell silent.
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
}

/// A service's counters on this machine since the meter was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeterReading {
    /// A leaf service.
    pub service: ServiceId,
    /// Bytes transmitted and received.
    pub bytes: PerDirection<Bytes>,
}

/// What the broker tells its driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Read all meters now and answer with [`Input::Meters`].
    ReadMeters,
    /// Send this to every other machine of the rack.
    Broadcast(UsageReport),
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
}

/// The state machine. See the module's doc for its order of calls.
#[derive(Debug)]
pub struct RackBroker {
    config: RackBrokerConfig,
    allocator: RackAllocator,
    machine: MachineId,
    /// This machine's place in the rack.
    place: usize,
    epoch: u64,
    round: u64,
    now: Instant,
    next_period: Instant,
    awaiting_meters: bool,
    /// Last counters by leaf, and when they were read.
    meters: Vec<PerDirection<Bytes>>,
    meters_read: Option<Instant>,
    /// By place: when it was last heard.
    heard: Vec<Option<Instant>>,
    /// By instance: which (epoch, round) its demand is from.
    stamps: Vec<(u64, u64)>,
    demands: PerDirection<Vec<Bandwidth>>,
    shares: PerDirection<RackShares>,
    /// By leaf: the runtime limits in force on this machine.
    limits: PerDirection<Vec<Bandwidth>>,
    mode: Mode,
    outputs: VecDeque<Output>,
    counters: RackBrokerCounters,
}

impl RackBroker {
    /// A broker for `machine`. `epoch` must be higher than at any earlier start of this machine's broker
    /// (the clock, or a stored number where the clock cannot be trusted). The first period ends at once.
    pub fn new(policy: &Arc<Policy>, machine: MachineId, epoch: u64, config: RackBrokerConfig, now: Instant) -> Self {
        let allocator = RackAllocator::new(policy, policy.network().machine(machine).rack());
        let machines = allocator.machines();
        let place = machines.iter().position(|id| *id == machine).expect("a machine is in its rack");
        let (leaves, instances, machines) = (allocator.leaves().len(), allocator.instance_count(), machines.len());
        Self {
            config,
            allocator,
            machine,
            place,
            epoch,
            round: 0,
            now,
            next_period: now,
            awaiting_meters: false,
            meters: vec![PerDirection::default(); leaves],
            meters_read: None,
            heard: vec![None; machines],
            stamps: vec![(0, 0); instances],
            demands: PerDirection::both(vec![Bandwidth::ZERO; instances]),
            shares: PerDirection::default(),
            limits: PerDirection::both(vec![Bandwidth::UNLIMITED; leaves]),
            mode: if machines == 1 { Mode::Runtime } else { Mode::Static },
            outputs: VecDeque::new(),
            counters: RackBrokerCounters::default(),
        }
    }

    /// Tells the broker what happened at `now`. Time that goes back is taken as standing still.
    pub fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        self.now = self.now.max(now);
        match input {
            Input::Timeout => self.start_period(),
            Input::Meters(readings) => self.end_period(readings),
            Input::Report(report) => self.take_report(report),
        }
    }

    /// What to do next, oldest first.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When the next period ends.
    pub fn poll_timeout(&self) -> Option<Instant> {
        Some(self.next_period)
    }

    /// Which policy is in force.
    pub fn mode(&self) -> Mode {
        self.mode
    }
    /// What was counted.
    pub fn counters(&self) -> &RackBrokerCounters {
        &self.counters
    }
    /// How many other machines spoke within the timeout.
    pub fn peers_heard(&self) -> usize {
        (0..self.heard.len()).filter(|place| self.is_heard(*place)).count()
    }
    /// The allocator, for the order of instances.
    pub fn allocator(&self) -> &RackAllocator {
        &self.allocator
    }
    /// The demands of all instances as this machine knows them.
    pub fn demands(&self, direction: Direction) -> &[Bandwidth] {
        &self.demands[direction]
    }
    /// The last shares of all instances that this machine computed; empty before the first period.
    pub fn shares(&self, direction: Direction) -> &RackShares {
        &self.shares[direction]
    }
    /// The runtime limit in force on this machine for the `leaf`-th leaf service.
    pub fn limit(&self, direction: Direction, leaf: usize) -> Bandwidth {
        self.limits[direction][leaf]
    }
    /// The round of an instance's last word: (epoch, round).
    pub fn stamp(&self, instance: usize) -> (u64, u64) {
        self.stamps[instance]
    }

    fn start_period(&mut self) {
        if self.now < self.next_period {
            return;
        }
        // A driver that was late (a suspended host) goes on from now; it does not catch up missed periods.
        self.next_period = self.now + self.config.period;
        self.counters.dropped_outputs += self.outputs.len() as u64;
        self.outputs.clear();
        self.awaiting_meters = true;
        self.outputs.push_back(Output::ReadMeters);
    }

    fn end_period(&mut self, readings: &[MeterReading]) {
        if !std::mem::take(&mut self.awaiting_meters) {
            return;
        }
        self.round += 1;
        let rows = self.measure(readings);
        self.tell(rows);
        self.choose_mode();
        self.forget_stale();
        for direction in Direction::ALL {
            self.allocator.allocate(direction, &self.demands[direction], &[], &mut self.shares[direction]);
        }
        self.limit_own();
    }

    /// Own usage into own demands; the rows to tell.
    fn measure(&mut self, readings: &[MeterReading]) -> Vec<UsageRow> {
        let time = self.meters_read.map_or(Duration::ZERO, |read| self.now.saturating_since(read));
        self.meters_read = Some(self.now);
        let mut rows = Vec::new();
        for reading in readings {
            let Ok(leaf) = self.allocator.leaves().binary_search(&reading.service) else {
                debug_assert!(false, "a meter of a service that is no leaf");
                continue;
            };
            let demand = |direction: Direction| {
                let ceiling = self.allocator.policy().machine_ceiling(reading.service, direction);
                let limit = self.limits[direction][leaf].min(ceiling);
                estimate(self.meters[leaf][direction], reading.bytes[direction], time, limit)
            };
            let row = UsageRow { service: reading.service, tx: demand(Direction::Tx), rx: demand(Direction::Rx) };
            self.meters[leaf] = reading.bytes;
            let instance = self.allocator.instance(leaf, self.place);
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

    /// Splits the rows into reports that together cover all services. A machine without usage reports too:
    /// that it lives.
    fn tell(&mut self, rows: Vec<UsageRow>) {
        if self.heard.len() == 1 {
            return;
        }
        let parts = rows.len().div_ceil(ROWS_PER_REPORT).max(1);
        let mut first = ServiceId(0);
        for part in 0..parts {
            let end = rows.len().min((part + 1) * ROWS_PER_REPORT);
            let rows = rows[part * ROWS_PER_REPORT..end].to_vec();
            let last = match rows.last() {
                Some(row) if part + 1 < parts => row.service,
                _ => ServiceId(u32::MAX),
            };
            let report = UsageReport {
                machine: self.machine,
                policy: self.allocator.policy().digest(),
                epoch: self.epoch,
                round: self.round,
                first,
                last,
                rows,
            };
            self.outputs.push_back(Output::Broadcast(report));
            first = ServiceId(last.0.saturating_add(1));
        }
    }

    fn take_report(&mut self, report: &UsageReport) {
        if report.policy != self.allocator.policy().digest() {
            self.counters.other_policy += 1;
            return;
        }
        let place = self.allocator.machines().iter().position(|id| *id == report.machine);
        let Some(place) = place.filter(|place| *place != self.place) else {
            self.counters.unknown_machine += 1;
            return;
        };
        let in_range = |row: &UsageRow| report.first <= row.service && row.service <= report.last;
        let ascending = report.rows.windows(2).all(|pair| pair[0].service < pair[1].service);
        let leaves = |row: &UsageRow| self.allocator.leaves().binary_search(&row.service).is_ok();
        if !ascending || !report.rows.iter().all(|row| in_range(row) && leaves(row)) {
            self.counters.malformed += 1;
            return;
        }
        let stamp = (report.epoch, report.round);
        let mut news = false;
        let mut rows = report.rows.iter().peekable();
        for leaf in 0..self.allocator.leaves().len() {
            let service = self.allocator.leaves()[leaf];
            if service < report.first || service > report.last {
                continue;
            }
            let row = rows.next_if(|row| row.service == service);
            let instance = self.allocator.instance(leaf, place);
            if self.stamps[instance] >= stamp {
                continue;
            }
            news = true;
            self.stamps[instance] = stamp;
            self.demands.tx[instance] = row.map_or(Bandwidth::ZERO, |row| row.tx.bandwidth());
            self.demands.rx[instance] = row.map_or(Bandwidth::ZERO, |row| row.rx.bandwidth());
        }
        if news {
            self.counters.accepted += 1;
            self.heard[place] = Some(self.now);
        } else {
            self.counters.replayed += 1;
        }
    }

    /// Whether a machine spoke within the timeout.
    fn is_heard(&self, place: usize) -> bool {
        self.heard[place].is_some_and(|heard| self.now.saturating_since(heard) < self.config.timeout)
    }

    fn choose_mode(&mut self) {
        let alone = self.heard.len() == 1;
        let mode =
            if alone || (0..self.heard.len()).any(|place| self.is_heard(place)) { Mode::Runtime } else { Mode::Static };
        if self.mode == Mode::Runtime && mode == Mode::Static {
            self.counters.fallbacks += 1;
        }
        self.mode = mode;
    }

    fn forget_stale(&mut self) {
        if self.config.stale == Stale::Keep {
            return;
        }
        for place in (0..self.heard.len()).filter(|place| *place != self.place) {
            if self.is_heard(place) {
                continue;
            }
            for leaf in 0..self.allocator.leaves().len() {
                let instance = self.allocator.instance(leaf, place);
                self.demands.tx[instance] = Bandwidth::ZERO;
                self.demands.rx[instance] = Bandwidth::ZERO;
            }
        }
    }

    fn limit_own(&mut self) {
        let mut limits = Vec::with_capacity(2 * self.allocator.leaves().len());
        for leaf in 0..self.allocator.leaves().len() {
            for direction in Direction::ALL {
                let own = self.shares[direction].instances[self.allocator.instance(leaf, self.place)];
                let limit = match self.mode {
                    Mode::Runtime if own.decided_by.is_limit() => own.share.max(LOWEST_LIMIT),
                    _ => Bandwidth::UNLIMITED,
                };
                self.limits[direction][leaf] = limit;
                limits.push(RuntimeLimit { service: self.allocator.leaves()[leaf], direction, limit });
            }
        }
        self.outputs.push_back(Output::SetLimits(limits));
    }
}

#[cfg(test)]
mod tests;
