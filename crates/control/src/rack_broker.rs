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
//! - A broker that starts where an earlier one ended goes on with its limits until it knows as much (`graceful_restart.rs`).
//! - Where the policy speaks of the fabric, one machine leads the rack towards the fabric broker (`leader.rs`), and
//!   the fabric broker's limits on the rack's services are part of the allocation: the most constrained point wins.
//!   No word from it for its timeout (50 s): the rack's policy alone holds. While a service is limited by the fabric,
//!   all its instances are, so that one which pauses does not come back unlimited (`weir-alloc`, `rack/room.rs`).
//!
//! Order of calls: on `Input::Timeout` the broker asks for [`Output::ReadMeters`]; the driver answers with
//! [`Input::Meters`], upon which everything else comes out. [`Input::Report`], [`Input::Relay`] and
//! [`Input::Fabric`] may come at any time.
//!
//! Worked example: capacity 60, service A (max 30) on machine 1 reports 80 used; B (min 30) on machine 2
//! reports nothing. Both machines compute A 30, B nothing. Machine 1 limits A to 30. In the next period A
//! uses 29.5 of 30: backlogged. B starts and uses 50: A 30 and B 30 (rule `fill`); machine 2 limits B to 30.

mod demand_extrapolation;
mod fabric_limits;
mod graceful_restart;
mod interface;
mod leader;
mod measurement;
mod peers;

pub use interface::{
    Input, MeterReading, Mode, NetworkReading, Output, RackBrokerConfig, RackBrokerCounters, RuntimeLimit, Stale,
};

use crate::demand::is_lowered;
use crate::policy_update::{self, IncompatiblePolicy};
use demand_extrapolation::Extrapolation;
use fabric_limits::FabricLimits;
use leader::LeaderState;
use measurement::Meters;
use std::collections::VecDeque;
use std::sync::Arc;
use weir_alloc::{RackAllocator, RackShares, speaks_of_fabric};
use weir_policy::Policy;
use weir_units::{Bandwidth, Direction, Instant, MachineId, PerDirection};

/// The lowest limit that is ever set. A share of nothing would stop a transport for good, which could then
/// never show that it wants more; at this rate a full-sized packet leaves about every second.
pub const LOWEST_LIMIT: Bandwidth = Bandwidth::from_bps(10_000);

/// The state machine. See the module's doc for its order of calls.
#[derive(Debug)]
pub struct RackBroker {
    config: RackBrokerConfig,
    allocator: RackAllocator,
    machine: MachineId,
    /// This machine's index in the rack.
    index: usize,
    epoch: u64,
    round: u64,
    started: Instant,
    now: Instant,
    next_period: Instant,
    awaiting_meters: bool,
    meters: Meters,
    /// By index: when it was last heard.
    last_reports: Vec<Option<Instant>>,
    /// By instance: which (epoch, round) its demand is from.
    stamps: Vec<(u64, u64)>,
    demands: PerDirection<Vec<Bandwidth>>,
    shares: PerDirection<RackShares>,
    /// By leaf: the runtime limits in force on this machine.
    limits: PerDirection<Vec<Bandwidth>>,
    /// By leaf: whether the last period's end lowered the limit much.
    lowered: PerDirection<Vec<bool>>,
    fabric: FabricLimits,
    leader: LeaderState,
    extrapolation: Extrapolation,
    mode: Mode,
    /// Whether [`Self::limits`] are an earlier broker's.
    resuming: bool,
    outputs: VecDeque<Output>,
    counters: RackBrokerCounters,
}

impl RackBroker {
    /// A broker for `machine`. `epoch` must be higher than at any earlier start of this machine's broker
    /// (the clock, or a stored number where the clock cannot be trusted). The first period ends at once.
    pub fn new(policy: &Arc<Policy>, machine: MachineId, epoch: u64, config: RackBrokerConfig, now: Instant) -> Self {
        let allocator = RackAllocator::new(policy, policy.network().machine(machine).rack());
        let machines = allocator.machines();
        let index = machines.iter().position(|id| *id == machine).expect("a machine is in its rack");
        let (leaves, instances, machines) = (allocator.leaves().len(), allocator.instance_count(), machines.len());
        Self {
            config,
            allocator,
            machine,
            index,
            epoch,
            round: 0,
            started: now,
            now,
            next_period: now,
            awaiting_meters: false,
            meters: Meters::new(leaves),
            last_reports: vec![None; machines],
            stamps: vec![(0, 0); instances],
            demands: PerDirection::both(vec![Bandwidth::ZERO; instances]),
            shares: PerDirection::default(),
            limits: PerDirection::both(vec![Bandwidth::UNLIMITED; leaves]),
            lowered: PerDirection::both(vec![false; leaves]),
            fabric: FabricLimits::new(leaves),
            leader: LeaderState::new(policy, leaves, now, config.fabric_period),
            extrapolation: Extrapolation::new(leaves),
            mode: if machines == 1 { Mode::Runtime } else { Mode::Static },
            resuming: false,
            outputs: VecDeque::new(),
            counters: RackBrokerCounters::default(),
        }
    }

    /// Puts another policy for the same racks, machines and services in index, from the next period on. What was
    /// heard stays known. Machines with different policies do not listen to each other meanwhile.
    pub fn set_policy(&mut self, policy: &Arc<Policy>) -> Result<(), IncompatiblePolicy> {
        policy_update::check_compatible(self.allocator.policy(), policy)?;
        self.allocator = RackAllocator::new(policy, self.allocator.rack());
        self.leader.uses_fabric = speaks_of_fabric(policy);
        if !self.leader.uses_fabric {
            self.fabric.clear();
        }
        // What grew did so under another policy.
        self.extrapolation = Extrapolation::new(policy.services().leaves().count());
        Ok(())
    }

    /// Tells the broker what happened at `now`. Time that goes back is taken as standing still.
    pub fn handle_input(&mut self, now: Instant, input: Input<'_>) {
        self.now = self.now.max(now);
        match input {
            Input::Timeout => self.start_period(),
            Input::Meters(readings) => self.end_period(readings),
            Input::Report(report) => self.take_report(report),
            Input::Relay(relay) => self.take_relay(relay),
            Input::Fabric(limits) => self.take_limits(limits),
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
    pub fn peers_alive(&self) -> usize {
        (0..self.last_reports.len()).filter(|index| self.is_alive(*index)).count()
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
    /// The fabric's limit on the rack's sum of the `leaf`-th leaf service, as of the last period.
    pub fn fabric_limit(&self, direction: Direction, leaf: usize) -> Bandwidth {
        self.fabric.limit(direction, leaf)
    }
    /// The (epoch, round) of the fabric broker's last word about the `leaf`-th leaf service; `None` when there is none
    /// or it is forgotten.
    pub fn fabric_stamp(&self, leaf: usize) -> Option<(u64, u64)> {
        self.fabric.stamp(leaf, self.now)
    }

    fn is_alone(&self) -> bool {
        self.last_reports.len() == 1
    }

    fn start_period(&mut self) {
        if self.now < self.next_period {
            return;
        }
        // A driver that was late (a suspended host) goes on from now; it does not catch up missed periods.
        self.next_period = self.now + self.period_length();
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
        // Of the first reading no usage is known, and the others know the last of the broker that this one took over from.
        if !(self.resuming && self.round == 1) {
            self.broadcast_usage(&rows);
        }
        self.choose_mode();
        self.forget_stale();
        self.counters.fabric_fallbacks += u64::from(self.fabric.renew(self.now));
        for direction in Direction::ALL {
            let fabric = self.fabric.in_force(direction);
            self.allocator.allocate(direction, &self.demands[direction], fabric, &mut self.shares[direction]);
        }
        self.set_own_limits();
        self.run_leader();
    }

    fn set_own_limits(&mut self) {
        let stay = self.keeps_inherited_limits();
        let mut limits = Vec::with_capacity(2 * self.allocator.leaves().len());
        for leaf in 0..self.allocator.leaves().len() {
            for direction in Direction::ALL {
                let shares = &self.shares[direction];
                let own = shares.instances[self.allocator.instance(leaf, self.index)];
                let fabric = self.fabric.limit(direction, leaf);
                let limit = match self.mode {
                    _ if stay => self.limits[direction][leaf],
                    Mode::Static => Bandwidth::UNLIMITED,
                    Mode::Runtime if own.decided_by.is_limit() => own.share.max(LOWEST_LIMIT),
                    Mode::Runtime if fabric.is_unlimited() => Bandwidth::UNLIMITED,
                    Mode::Runtime => self.allocator.room(direction, leaf, self.index, fabric, shares).max(LOWEST_LIMIT),
                };
                // A demand that the fabric shares must not be more than there is: its limits last ten periods.
                self.lowered[direction][leaf] =
                    fabric.is_unlimited() && is_lowered(self.limits[direction][leaf], limit);
                self.limits[direction][leaf] = limit;
                limits.push(RuntimeLimit { service: self.allocator.leaves()[leaf], direction, limit });
            }
        }
        self.outputs.push_back(Output::SetLimits(limits));
    }
}

#[cfg(test)]
mod demand_extrapolation_tests;
#[cfg(test)]
mod fabric_tests;
#[cfg(test)]
mod graceful_restart_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod throttled_tests;
