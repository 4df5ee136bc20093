//! The rack broker: every machine of a rack computes all shares and applies its own.
//!
//! A rack's uplink is shared by machines that measure only their own traffic. Each period every
//! machine broadcasts the usage of its services, keeps the latest report of every other machine,
//! runs the same allocation over all demands, and applies its own rows. No machine is a single
//! point of failure. Machines with the same reports compute the same shares, bit for bit; after a
//! lost report a machine uses the previous value for one period.
//!
//! - A machine reads its meters every [`RackBrokerConfig::interval`], a tenth of a period. It reports
//!   and computes at the end of an interval where demands changed by much (`measurement.rs`).
//! - A service below its share has a ceiling under a maximum and at a contended uplink
//!   (`own_limits.rs`).
//! - Without a report from any machine for the timeout (5 s), a machine returns to the static
//!   policy, its part of each maximum. A machine without peers enforces its rack's policy
//!   by itself.
//! - The demands of a silent machine are kept ([`Stale::Keep`], as in the paper: its traffic may
//!   continue without its broker) or cleared after the timeout ([`Stale::Forget`]: the share of a
//!   dead host is free at once).
//! - Reports older than the known ones are replays and are counted. A machine that reports in an older epoch than the
//!   known one receives a notice, and continues above it (`epochs.rs`).
//! - A restarted broker keeps its predecessor's limits until it has current reports
//!   (`graceful_restart.rs`).
//! - Where the policy has a fabric section, one machine leads the rack towards the fabric broker
//!   (`leader.rs`): the first that can reach it (`shut_out.rs`). The fabric's limits enter the
//!   allocation: the most constrained point decides. After its timeout (50 s) without limits the
//!   rack's policy alone holds, with the rack's part of maxima at the fabric.
//!
//! Order of calls: on `Input::Timeout` the broker outputs [`Output::ReadMeters`]; the driver passes
//! in [`Input::Meters`], and all other outputs follow. The other inputs may arrive at any time.
//!
//! Worked example: capacity 60. Service A (max 30) on machine 1 reports a usage of 80, B (min 30)
//! on machine 2 none. Both machines compute 30 for A and 0 for B, and machine 1 limits A to 30. In
//! the next period A uses 29.5 of 30 and is backlogged; B starts and uses 50. The shares are A 30
//! and B 30 (rule `fill`), and machine 2 limits B to 30.
//!
//! Source: Parley §3.2.2, §5.2, Table 1. Deviates from the paper in: demand estimates
//! (`demand.rs`), graceful restart, the option to forget silent machines. See
//! `docs/design/rack-broker.md`.

mod epochs;
mod fabric_limits;
mod graceful_restart;
mod interface;
mod leader;
mod margin;
mod measurement;
mod own_limits;
mod peers;
mod proposals;
mod shut_out;
mod usage_window;

pub use interface::{
    INTERVALS, Input, LimitRule, MeterReading, Mode, NetworkReading, Output, RackBrokerConfig, RackBrokerCounters,
    Reach, RuntimeLimit, Stale,
};
pub use own_limits::static_limits;

use crate::policy_update::{self, IncompatiblePolicy};
use epochs::Epochs;
use fabric_limits::FabricLimits;
use leader::LeaderState;
use measurement::Meters;
use own_limits::OwnLimits;
use shut_out::ShutOut;
use std::collections::VecDeque;
use std::sync::Arc;
use weir_alloc::{RackAllocator, RackShares, has_fabric_limits};
use weir_policy::Policy;
use weir_units::{Bandwidth, Direction, Duration, Instant, MachineId, PerDirection};

/// The lowest limit that is ever set. A limit of zero would stop a transport, whose demand would
/// then never show; at this rate a full-sized packet leaves every 12 s.
pub const LOWEST_LIMIT: Bandwidth = Bandwidth::from_bps(1_000);

/// The state machine. The module documentation gives its order of calls.
#[derive(Debug)]
pub struct RackBroker {
    config: RackBrokerConfig,
    allocator: RackAllocator,
    machine: MachineId,
    /// This machine's index in the rack.
    index: usize,
    epoch: u64,
    /// The number of the interval, from 1.
    round: u64,
    started: Instant,
    now: Instant,
    next_interval: Instant,
    /// The end of the period: the next report and allocation without a change.
    next_period: Instant,
    awaiting_meters: bool,
    /// Whether demands changed since the last allocation so much that it must be repeated.
    changed: bool,
    meters: Meters,
    /// By index in the rack: the time of the last accepted report.
    last_reports: Vec<Option<Instant>>,
    /// By instance: the (epoch, round) of its demand.
    stamps: Vec<(u64, u64)>,
    demands: PerDirection<Vec<Bandwidth>>,
    shares: PerDirection<RackShares>,
    own: OwnLimits,
    fabric: FabricLimits,
    /// By leaf: the rack's part of maxima at the fabric while the fabric broker sends no limits.
    static_fabric: PerDirection<Vec<Bandwidth>>,
    leader: LeaderState,
    shut_out: ShutOut,
    epochs: Epochs,
    mode: Mode,
    /// Whether the limits are inherited from an earlier broker.
    resuming: bool,
    outputs: VecDeque<Output>,
    counters: RackBrokerCounters,
}

impl RackBroker {
    /// A broker for `machine`. `epoch` must be higher than at any earlier start of this machine's
    /// broker (the clock, or a stored number where the clock may go back). The first period ends at
    /// once.
    pub fn new(policy: &Arc<Policy>, machine: MachineId, epoch: u64, config: RackBrokerConfig, now: Instant) -> Self {
        let allocator = RackAllocator::new(policy, policy.network().machine(machine).rack());
        let machines = allocator.machines();
        let index = machines.iter().position(|id| *id == machine).expect("a machine is in its rack");
        let (leaves, instances, machines) = (allocator.leaves().len(), allocator.instance_count(), machines.len());
        Self {
            config,
            machine,
            index,
            epoch,
            round: 0,
            started: now,
            now,
            next_interval: now,
            next_period: now,
            awaiting_meters: false,
            changed: false,
            meters: Meters::new(leaves),
            last_reports: vec![None; machines],
            stamps: vec![(0, 0); instances],
            demands: PerDirection::both(vec![Bandwidth::ZERO; instances]),
            shares: PerDirection::default(),
            own: OwnLimits::new(&allocator, index, config.rule),
            fabric: FabricLimits::new(leaves),
            static_fabric: static_fabric(&allocator, config.rule),
            leader: LeaderState::new(policy, leaves, instances, now, config.fabric_period),
            shut_out: ShutOut::new(machines),
            epochs: Epochs::new(machines),
            mode: if machines == 1 { Mode::Runtime } else { Mode::Static },
            resuming: false,
            outputs: VecDeque::new(),
            counters: RackBrokerCounters::default(),
            allocator,
        }
    }

    /// Replaces the policy by another one for the same racks, machines and services, from the next
    /// period on. Received reports are kept. Machines with different policies reject each other's
    /// reports meanwhile.
    pub fn set_policy(&mut self, policy: &Arc<Policy>) -> Result<(), IncompatiblePolicy> {
        policy_update::check_compatible(self.allocator.policy(), policy)?;
        self.allocator = RackAllocator::new(policy, self.allocator.rack());
        self.static_fabric = static_fabric(&self.allocator, self.config.rule);
        self.changed = true;
        self.leader.uses_fabric = has_fabric_limits(policy);
        if !self.leader.uses_fabric {
            self.fabric.clear();
            self.leader.was_leader = false;
            self.shut_out.forget_leadership();
        }
        Ok(())
    }

    /// Handles an input at `now`. Time that goes back counts as standing still.
    pub fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        self.now = self.now.max(now);
        match input {
            Input::Timeout => self.start_interval(),
            Input::Meters(readings) => self.end_interval(readings),
            Input::Report(report) => self.take_report(report),
            Input::Relay(relay) => self.take_relay(relay),
            Input::Fabric(limits) => self.take_limits(limits),
            Input::Proposal(limits) => self.take_proposal(limits),
            Input::Reach(reach) => self.take_reach(reach),
            Input::ShutOut(notice) => self.take_notice(notice),
            Input::EpochNotice(notice) => self.take_epoch_notice(notice),
            Input::FabricEpoch(notice) => self.take_fabric_epoch(notice),
        }
    }

    /// The next action, oldest first.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When the next interval ends.
    pub fn poll_timeout(&self) -> Option<Instant> {
        Some(self.next_interval)
    }

    /// The policy in force.
    pub fn mode(&self) -> Mode {
        self.mode
    }
    /// The counters since the start.
    pub fn counters(&self) -> &RackBrokerCounters {
        &self.counters
    }
    /// The number of other machines that reported within the timeout.
    pub fn peers_alive(&self) -> usize {
        (0..self.last_reports.len()).filter(|index| self.is_alive(*index)).count()
    }
    /// The allocator, for the order of instances.
    pub fn allocator(&self) -> &RackAllocator {
        &self.allocator
    }
    /// The demands of all instances as this machine received them.
    pub fn demands(&self, direction: Direction) -> &[Bandwidth] {
        &self.demands[direction]
    }
    /// The shares of all instances in this machine's last allocation; empty before the first
    /// period.
    pub fn shares(&self, direction: Direction) -> &RackShares {
        &self.shares[direction]
    }
    /// The runtime limit in force on this machine for the `leaf`-th leaf service.
    pub fn limit(&self, direction: Direction, leaf: usize) -> Bandwidth {
        self.own.limits[direction][leaf]
    }
    /// The (epoch, round) of an instance's last report.
    pub fn stamp(&self, instance: usize) -> (u64, u64) {
        self.stamps[instance]
    }
    /// The fabric's limit on the rack's total of the `leaf`-th leaf service, as of the last period.
    pub fn fabric_limit(&self, direction: Direction, leaf: usize) -> Bandwidth {
        self.fabric.limit(direction, leaf)
    }
    /// The (epoch, round) of the fabric broker's last limits for the `leaf`-th leaf service; `None`
    /// when there are none or they expired.
    pub fn fabric_stamp(&self, leaf: usize) -> Option<(u64, u64)> {
        self.fabric.stamp(leaf, self.now)
    }

    fn is_alone(&self) -> bool {
        self.last_reports.len() == 1
    }

    fn start_interval(&mut self) {
        if self.now < self.next_interval {
            return;
        }
        // A late driver (a suspended host) continues from now; missed intervals are not repeated.
        self.next_interval = self.now + self.interval_length();
        self.counters.dropped_outputs += self.outputs.len() as u64;
        self.outputs.clear();
        self.awaiting_meters = true;
        self.outputs.push_back(Output::ReadMeters);
    }

    fn end_interval(&mut self, readings: &[MeterReading]) {
        if !std::mem::take(&mut self.awaiting_meters) {
            return;
        }
        self.round += 1;
        let rows = self.measure(readings);
        // A reduction concerns one interval.
        Direction::ALL.iter().for_each(|direction| self.own.lowered[*direction].fill(false));
        let ends_period = self.ends_period();
        if ends_period || self.changed_since_report(&rows) {
            self.report_usage(&rows);
            self.changed = true;
        }
        let before = self.mode;
        self.choose_mode();
        let allocates = self.changed || self.mode != before || self.own.rises();
        if allocates {
            self.forget_stale();
            self.counters.fabric_fallbacks += u64::from(self.fabric.renew(self.now, &self.static_fabric));
            for direction in Direction::ALL {
                let fabric = self.fabric.in_force(direction);
                self.allocator.allocate(direction, &self.demands[direction], fabric, &mut self.shares[direction]);
            }
            self.changed = false;
            self.set_own_limits();
        }
        self.run_leader(ends_period, allocates);
    }

    /// Whether a period ends with this interval; if so, the next one starts.
    fn ends_period(&mut self) -> bool {
        // A timer that is early by a part of an interval does not delay the period's end by one.
        let ends = self.now + Duration::from_nanos(self.config.interval.nanos() / 2) >= self.next_period;
        if ends {
            self.next_period = self.now + self.config.period;
        }
        ends
    }
}

/// By leaf: the rack's part of maxima at the fabric without limits from the fabric broker.
fn static_fabric(allocator: &RackAllocator, rule: LimitRule) -> PerDirection<Vec<Bandwidth>> {
    let limit = |direction, leaf| match rule {
        LimitRule::Ceilings => allocator.static_fabric_limit(direction, leaf),
        LimitRule::Backlogged => Bandwidth::UNLIMITED,
    };
    let of = |direction| (0..allocator.leaves().len()).map(|leaf| limit(direction, leaf)).collect();
    PerDirection { tx: of(Direction::Tx), rx: of(Direction::Rx) }
}

#[cfg(test)]
mod ceilings_tests;
#[cfg(test)]
mod epochs_tests;
#[cfg(test)]
mod fabric_tests;
#[cfg(test)]
mod graceful_restart_tests;
#[cfg(test)]
mod proposals_tests;
#[cfg(test)]
mod shut_out_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod throttled_tests;
