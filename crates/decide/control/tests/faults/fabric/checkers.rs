//! Invariants of racks under one fabric, observed from outside.
//!
//! Always:
//! - the fabric limits of a machine are those that the fabric broker computed for its rack, and
//!   never go back to older ones while the machine's broker lives;
//! - **no fabric limit is older than the fabric's timeout** (50 s, and the time of datagrams in
//!   flight): the bound on how long stale demands at the fabric can break a guarantee, however long
//!   the fabric broker is away;
//! - a machine without live peers has no limits at all (5 s): the same bound for stale demands in
//!   its rack;
//! - a rack's limits leave each service its guarantee there, or its fabric limit if that is lower,
//!   as far as the machines' demands reach; and the fabric's allocation leaves each service its
//!   guarantee over all racks and keeps its maximum and the cap.
//!
//! Two fabric periods after the last fault, and the time that elections take where the first machines of a rack cannot
//! reach the fabric broker, all machines of a rack have the same limits of the
//! fabric broker, computed from reports that all racks sent after the last fault; the limits are in
//! force; and in each rack the first machine leads that can reach the fabric broker, and none after
//! it. After `COMPLY_WITHIN_SECONDS` traffic complies with every maximum and the caps of the fabric
//! and of racks; after `COMPLY_MARKED_WITHIN_SECONDS` at the latest also traffic that is received
//! through queues that mark. The checks apply to sent traffic: traffic received through a full
//! queue would stay below any cap above the queue's rate.

use super::draw::{MACHINES, PER_RACK, RACKS};
use super::node::SECOND;
use super::world::{FABRIC, World, name};
use crate::Observed;
use crate::throttled::Throttled;
use std::collections::{HashMap, HashSet};
use weir_control::rack_broker::LOWEST_LIMIT;
use weir_control::{
    Demand, FabricBroker, LimitRule, Mode, NetworkReading, RackBroker, RackLimits, RuntimeLimit, UsageReport,
};
use weir_units::{Bandwidth, ContentionPoint, Direction, PerDirection, RackId};

/// Limits that the fabric broker sent to a rack, and the time of sending.
struct SentLimits {
    /// The start of the fabric broker.
    start: u64,
    at: u64,
    limits: Vec<PerDirection<Bandwidth>>,
}

pub(crate) struct Checkers {
    pub(super) leaves: Vec<weir_units::ServiceId>,
    /// By (rack, epoch, round).
    sent_limits: HashMap<(u32, u64, u64), SentLimits>,
    /// The starts of the fabric broker.
    starts: u64,
    /// Limits of two starts whose epochs were both lost, and that continued above the same one.
    ambiguous: HashSet<(u32, u64, u64)>,
    /// By machine and leaf: the newest stamp seen in its broker.
    stamps: Vec<Vec<(u64, u64)>>,
    /// Racks whose reports reached the fabric broker after the last fault.
    reported: [bool; RACKS],
    /// The (epoch, round) of the first allocation from reports of all racks.
    agreed: Option<(u64, u64)>,
    throttled: Throttled,
    fabric_limits: u64,
    guarantees: u64,
    /// Whether no epoch goes down.
    epochs_kept: bool,
    /// Whether the policy has no guarantee.
    unguaranteed: bool,
    rounds: u64,
}

impl Checkers {
    pub(crate) fn new(world: &World) -> Self {
        Self {
            leaves: world.leaves.clone(),
            sent_limits: HashMap::new(),
            starts: 0,
            ambiguous: HashSet::new(),
            stamps: vec![vec![(0, 0); world.leaves.len()]; MACHINES],
            reported: [false; RACKS],
            agreed: None,
            throttled: Throttled::new(MACHINES * world.leaves.len(), 0),
            fabric_limits: 0,
            guarantees: 0,
            epochs_kept: world.drawn.state_lost == 0.0,
            unguaranteed: world.policy.services().iter().all(|(_, service)| {
                ContentionPoint::ALL.iter().all(|point| service.share(*point, Direction::Tx).min == Bandwidth::ZERO)
            }),
            rounds: 0,
        }
    }

    pub(crate) fn restarted(&mut self, node: usize) {
        self.starts += u64::from(node == FABRIC);
        if let Some(stamps) = self.stamps.get_mut(node) {
            stamps.fill((0, 0));
            self.throttled.restarted(self.instance(node, 0)..self.instance(node + 1, 0));
        }
    }

    fn instance(&self, machine: usize, leaf: usize) -> usize {
        machine * self.leaves.len() + leaf
    }

    /// A broker reads the receive meter of a service: the total of bits × 10^9 and of those in
    /// marked packets.
    pub(crate) fn read(
        &mut self,
        machine: usize,
        leaf: usize,
        now: u64,
        (received, marked): (u128, u128),
        network: &NetworkReading,
    ) {
        self.throttled.read(self.instance(machine, leaf), now, received, marked, network);
    }

    /// The broker reports the usage to its rack.
    pub(crate) fn reported(&mut self, now: u64, machine: usize, report: &UsageReport) -> Result<(), String> {
        for leaf in 0..self.leaves.len() {
            let row = report.rows.iter().find(|row| row.service == self.leaves[leaf]);
            let demand = row.map_or(Demand::default(), |row| row.rx);
            self.throttled
                .reported(self.instance(machine, leaf), now, demand)
                .map_err(|failure| format!("{}: {failure}", name(machine)))?;
        }
        Ok(())
    }

    /// The last time at which a queue started to throttle a service.
    pub(crate) fn throttled_since(&self) -> Option<u64> {
        self.throttled.began()
    }

    /// A machine's report reached the fabric broker after the last fault.
    pub(crate) fn report_delivered(&mut self, machine: usize) {
        self.reported[machine / PER_RACK] = true;
    }

    pub(crate) fn limits_sent(&mut self, now: u64, limits: &RackLimits) {
        let unlimited = PerDirection::both(Bandwidth::UNLIMITED);
        let (key, start) = ((limits.rack.0, limits.epoch, limits.round), self.starts);
        let begin = || SentLimits { start, at: now, limits: vec![unlimited; self.leaves.len()] };
        let sent = self.sent_limits.entry(key).or_insert_with(begin);
        if sent.start != start {
            self.ambiguous.insert(key);
        }
        for row in &limits.rows {
            if let Some(leaf) = self.leaves.iter().position(|id| *id == row.service) {
                sent.limits[leaf] = row.rates;
            }
        }
    }

    /// After every input of a machine's broker.
    pub(crate) fn step(&mut self, machine: usize, broker: &RackBroker) -> Result<(), String> {
        let counters = broker.counters();
        if counters.malformed + counters.other_policy + counters.limits_malformed + counters.limits_other_policy > 0 {
            return Err(format!("{} counted a genuine message as wrong: {counters:?}", name(machine)));
        }
        if self.epochs_kept && counters.epochs_raised > 0 {
            return Err(format!("{} raised its epoch, which never went down", name(machine)));
        }
        for leaf in 0..self.leaves.len() {
            let Some(stamp) = broker.fabric_stamp(leaf) else { continue };
            if stamp < self.stamps[machine][leaf] {
                return Err(format!("{} went back to older limits of the fabric", name(machine)));
            }
            self.stamps[machine][leaf] = stamp;
            if !self.sent_limits.contains_key(&((machine / PER_RACK) as u32, stamp.0, stamp.1)) {
                return Err(format!("{} has limits {stamp:?} that were never sent", name(machine)));
            }
        }
        Ok(())
    }

    /// At the end of a machine's period.
    pub(crate) fn limited(
        &mut self,
        world: &World,
        machine: usize,
        broker: &RackBroker,
        limits: &[RuntimeLimit],
    ) -> Result<(), String> {
        let rack = RackId((machine / PER_RACK) as u32);
        if broker.is_resuming() {
            let node = &world.nodes[machine];
            let leaf = |limit: &RuntimeLimit| self.leaves.iter().position(|id| *id == limit.service);
            if limits
                .iter()
                .any(|limit| leaf(limit).map(|leaf| node.inherited[limit.direction][leaf]) != Some(limit.limit))
            {
                return Err(format!(
                    "{} inherited {:?} and set {limits:?} while it keeps inherited limits",
                    name(machine),
                    node.inherited
                ));
            }
            // The timeout, and while only fabric limits are missing five quarters of the fabric's
            // period; clocks differ by 2 %.
            let config = weir_control::RackBrokerConfig::published();
            let most = match broker.mode() {
                Mode::Static => config.timeout.nanos(),
                Mode::Runtime => config.timeout.nanos() + config.fabric_period.nanos() / 4 * 5,
            };
            if world.now - node.started >= most / 50 * 51 {
                return Err(format!("{} still keeps the limits inherited at its start", name(machine)));
            }
        }
        for limit in limits.iter().filter(|limit| !limit.limit.is_unlimited() && !broker.is_resuming()) {
            if broker.mode() == Mode::Static {
                return Err(format!("{} has no live peer and still sets {limit:?}", name(machine)));
            }
            let leaf = self.leaves.iter().position(|id| *id == limit.service).ok_or("a limit of no leaf")?;
            let fabric = broker.fabric_limit(limit.direction, leaf);
            if limit.limit > fabric.max(LOWEST_LIMIT) {
                return Err(format!("{} has {limit:?}, more than the rack's {fabric}", name(machine)));
            }
            let demand = broker.demands(limit.direction)[broker.allocator().instance(leaf, machine % PER_RACK)];
            if fabric.is_unlimited() && demand < limit.limit && limit.limit > LOWEST_LIMIT {
                return Err(format!("{} is limited although its demand of {demand} is less: {limit:?}", name(machine)));
            }
        }
        for direction in Direction::ALL {
            for leaf in 0..self.leaves.len() {
                let fabric = broker.fabric_limit(direction, leaf);
                if !fabric.is_unlimited() {
                    self.fabric_limits += 1;
                    self.check_fabric_limit(world, machine, broker, direction, leaf)?;
                }
                self.rack_guarantee(world, rack, broker, direction, leaf)?;
            }
        }
        Ok(())
    }

    /// Checks that a fabric limit is the one sent to this rack, and is not too old.
    fn check_fabric_limit(
        &self,
        world: &World,
        machine: usize,
        broker: &RackBroker,
        direction: Direction,
        leaf: usize,
    ) -> Result<(), String> {
        let stamp = broker.fabric_stamp(leaf).ok_or("a limit that expired")?;
        let key = ((machine / PER_RACK) as u32, stamp.0, stamp.1);
        if self.ambiguous.contains(&key) {
            return Ok(());
        }
        let sent = &self.sent_limits[&key];
        let fabric = broker.fabric_limit(direction, leaf);
        if sent.limits[leaf][direction] != fabric {
            let sent_limit = sent.limits[leaf][direction];
            return Err(format!("{} has the limit {fabric}, but the fabric broker sent {sent_limit}", name(machine)));
        }
        let timeout = world.config.fabric_timeout.nanos();
        // Limits that a machine missed can be replayed to it and then count as new
        // (`fabric_limits.rs`).
        if world.drawn.replay > 0.0 {
            return Ok(());
        }
        // The delivery to the rack and every relay.
        let on_the_way = 4 * world.drawn.delay_ms * 1_000_000;
        let bound = timeout + timeout / 1_000 * world.drawn.skew_per_mille * 2 + on_the_way + SECOND;
        let age = world.now - sent.at;
        if age > bound {
            return Err(format!("{} has limits of the fabric that are {:.1} s old", name(machine), age as f64 / 1e9));
        }
        Ok(())
    }

    /// Checks that a rack's shares leave a service its guarantee at the rack, as far as its
    /// machines can use it and the fabric allows it.
    fn rack_guarantee(
        &mut self,
        world: &World,
        rack: RackId,
        broker: &RackBroker,
        direction: Direction,
        leaf: usize,
    ) -> Result<(), String> {
        let (policy, allocator) = (&world.policy, broker.allocator());
        let service = policy.services().get(self.leaves[leaf]);
        let demand = |index: usize, leaf: usize| broker.demands(direction)[allocator.instance(leaf, index)];
        let nic = policy.machine_capacity(allocator.machines()[0], direction);
        let least: Bandwidth = (0..PER_RACK)
            .map(|index| {
                let others = (0..self.leaves.len()).filter(|other| *other != leaf).map(|other| demand(index, other));
                demand(index, leaf).min(nic.saturating_sub(others.sum()))
            })
            .sum();
        let guaranteed = service.share(ContentionPoint::Rack, direction).min.min(least);
        let guaranteed = guaranteed.min(broker.fabric_limit(direction, leaf));
        self.guarantees += u64::from(guaranteed > Bandwidth::ZERO);
        let has = broker.shares(direction).of_service(allocator, leaf);
        if has < guaranteed {
            return Err(format!("{} has {has} in rack {}, guaranteed {guaranteed}", service.path(), rack.0 + 1));
        }
        Ok(())
    }

    /// At the end of a period of the fabric broker.
    pub(crate) fn allocated(&mut self, world: &World, fabric: &FabricBroker) -> Result<(), String> {
        self.rounds += 1;
        if fabric.round() > 0 && self.reported.iter().all(|reported| *reported) {
            // Limits of an epoch that the broker has left do not count: machines may have ignored them.
            if self.agreed.is_none_or(|agreed| agreed.0 != fabric.epoch()) {
                self.agreed = Some((fabric.epoch(), fabric.round()));
            }
        }
        // Each rack's limit is rounded down.
        let almost =
            |rate: Bandwidth| Bandwidth::from_bps(rate.bps() - (rate.bps() >> 16)).saturating_sub(LOWEST_LIMIT);
        for direction in Direction::ALL {
            if fabric.round() == 0 {
                continue;
            }
            let mut all = Bandwidth::ZERO;
            for (leaf, service) in self.leaves.iter().enumerate() {
                let racks = (0..RACKS as u32).map(RackId);
                let demand: Bandwidth = racks.clone().map(|rack| fabric.offer(rack, leaf, direction)).sum();
                let has: Bandwidth = racks
                    .map(|rack| fabric.offer(rack, leaf, direction).min(fabric.limit(rack, leaf, direction)))
                    .sum();
                let share = world.policy.services().get(*service).share(ContentionPoint::Fabric, direction);
                self.guarantees += u64::from(share.min.min(demand) > Bandwidth::ZERO);
                if has > share.max || has < almost(share.min.min(demand)) {
                    return Err(format!("service {leaf} has {has} of {demand} over all racks: {share:?}"));
                }
                all += has;
            }
            let capacity = world.policy.fabric_capacity(direction);
            if all > capacity {
                return Err(format!("{all} was shared out of the fabric's {capacity}"));
            }
        }
        Ok(())
    }

    pub(crate) fn fabric_step(&self, fabric: &FabricBroker) -> Result<(), String> {
        let counters = fabric.counters();
        if self.epochs_kept && counters.epochs_raised > 0 {
            return Err("the fabric broker raised its epoch, which never went down".to_owned());
        }
        if counters.malformed + counters.other_policy + counters.unknown_machine > 0 {
            return Err(format!("the fabric broker counted a genuine report as wrong: {counters:?}"));
        }
        Ok(())
    }

    /// Two fabric periods after the last fault.
    pub(crate) fn propagation(&self, world: &World) -> Result<(), String> {
        let agreed = self.agreed.ok_or("the fabric broker has not computed limits from all racks' reports")?;
        for rack in 0..RACKS {
            let mut stamps = Vec::new();
            for machine in rack * PER_RACK..(rack + 1) * PER_RACK {
                let broker = world.nodes[machine].rack().ok_or("a machine has no broker")?;
                // A machine that cannot reach the fabric broker goes on trying.
                let leads = world.drawn.shut_out[rack * PER_RACK..machine].iter().all(|shut_out| *shut_out);
                if !broker.has_fabric_limits() || broker.leads() != leads {
                    let (has_limits, leads) = (broker.has_fabric_limits(), broker.leads());
                    return Err(format!("{}: has fabric limits {has_limits}, leads {leads}", name(machine)));
                }
                stamps.extend((0..self.leaves.len()).map(|leaf| broker.fabric_stamp(leaf)));
            }
            let (oldest, newest) = (stamps.iter().min(), stamps.iter().max());
            let (Some(Some(oldest)), Some(Some(newest))) = (oldest, newest) else {
                return Err(format!("rack {} has no limits of the fabric", rack + 1));
            };
            if *oldest < agreed {
                return Err(format!("rack {} has {oldest:?}, older than {agreed:?}, the first from all", rack + 1));
            }
            self.in_force(world, rack, agreed, *newest)?;
            // New limits may be in flight within the rack.
            if oldest.0 != newest.0 || newest.1 - oldest.1 > 1 {
                return Err(format!("rack {} has limits from {oldest:?} to {newest:?}", rack + 1));
            }
        }
        Ok(())
    }

    /// Checks that all machines of a rack have limits that the fabric broker sent between two of
    /// its rounds.
    fn in_force(&self, world: &World, rack: usize, from: (u64, u64), to: (u64, u64)) -> Result<(), String> {
        let candidates: Vec<&SentLimits> =
            (from.1..=to.1).filter_map(|round| self.sent_limits.get(&(rack as u32, from.0, round))).collect();
        for machine in rack * PER_RACK..(rack + 1) * PER_RACK {
            let broker = world.nodes[machine].rack().ok_or("a machine has no broker")?;
            for (leaf, direction) in (0..self.leaves.len()).flat_map(|leaf| Direction::ALL.map(|way| (leaf, way))) {
                let limit = broker.fabric_limit(direction, leaf);
                if !candidates.iter().any(|sent| sent.limits[leaf][direction] == limit) {
                    return Err(format!("{} still limits service {leaf} to {limit} ({direction})", name(machine)));
                }
            }
        }
        Ok(())
    }

    /// Checks that the run exercised the checkers, since a run without reports would pass them all.
    pub(crate) fn check_coverage(&self, world: &World) -> Result<Observed, String> {
        if self.rounds < 3 || self.sent_limits.is_empty() {
            return Err(format!("the fabric broker computed only {} times", self.rounds));
        }
        let limited = self.fabric_limits > 0 && self.guarantees + u64::from(self.unguaranteed) > 0;
        let throttled = self.throttled.began().is_some();
        Ok(Observed {
            limited,
            guaranteed: true,
            marks: world.drawn.marks,
            rule: LimitRule::Backlogged,
            throttled,
            late: None,
            cycles: None,
        })
    }
}
