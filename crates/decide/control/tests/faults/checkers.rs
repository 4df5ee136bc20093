//! Observers: invariants after every step, and invariants once the faults are over.

use crate::Observed;
use crate::draw::MACHINES;
use crate::steps::Steps;
use crate::throttled::Throttled;
use crate::world::World;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use weir_control::rack_broker::LOWEST_LIMIT;
use weir_control::wire::DecodeError;
use weir_control::{Demand, LimitRule, Mode, NetworkReading, RackBroker, RuntimeLimit, Stale, UsageReport};
use weir_units::{Bandwidth, ContentionPoint, Direction, Instant, MachineId, PerDirection, RackId};

/// The true demands in one machine's report of a round.
type ReportedDemands = Vec<PerDirection<Demand>>;

pub(crate) struct Checkers {
    stale: Stale,
    pub(crate) leaves: Vec<weir_units::ServiceId>,
    /// By (machine, epoch, round): the start of the machine, and the reported demands.
    reported: HashMap<(usize, u64, u64), (u64, ReportedDemands)>,
    /// By machine and instance: the newest stamp seen in its broker.
    stamps: Vec<Vec<(u64, u64)>>,
    /// By machine: the time when its broker last accepted a report, on its own clock.
    last_report: Vec<Option<Instant>>,
    accepted: Vec<u64>,
    /// By machine: whether its last limits were those of the runtime policy.
    runtime: Vec<bool>,
    /// By machine: the (epoch, round) of its last period before the faults ended.
    before: Vec<(u64, u64)>,
    pub(crate) throttled: Throttled,
    pub(crate) steps: Steps,
    /// Whether epochs may go down.
    lower_epochs: bool,
    /// (machine, epoch, round) of reports of two starts whose epochs were both lost, and that continued above the same
    /// one.
    ambiguous: HashSet<(usize, u64, u64)>,
    /// By machine: the number of its starts.
    starts: Vec<u64>,
    sent: u64,
    limits_set: u64,
    /// The number of checks in which a guarantee was above zero.
    guarantees_seen: Cell<u64>,
}

impl Checkers {
    pub(crate) fn new(world: &World) -> Self {
        let instances = world.leaves.len() * MACHINES;
        let (period, interval) = (world.config.period.nanos(), world.config.interval.nanos());
        // A window may be longer than a period by half an interval, and clocks run up to 2 % slow.
        let window = if interval < period { (period + interval) / 50 * 51 } else { 0 };
        Self {
            stale: world.config.stale,
            leaves: world.leaves.clone(),
            reported: HashMap::new(),
            stamps: vec![vec![(0, 0); instances]; MACHINES],
            last_report: vec![None; MACHINES],
            accepted: vec![0; MACHINES],
            runtime: vec![false; MACHINES],
            before: Vec::new(),
            throttled: Throttled::new(instances, window),
            steps: Steps::new(),
            lower_epochs: world.has_lower_epochs(),
            ambiguous: HashSet::new(),
            starts: vec![0; MACHINES],
            sent: 0,
            limits_set: 0,
            guarantees_seen: Cell::new(0),
        }
    }

    pub(crate) fn restarted(&mut self, machine: usize) {
        self.stamps[machine].fill((0, 0));
        self.starts[machine] += 1;
        self.last_report[machine] = None;
        self.accepted[machine] = 0;
        self.runtime[machine] = false;
        self.steps.restarted(machine);
        self.throttled.restarted(self.instance(machine, 0)..self.instance(machine + 1, 0));
    }

    pub(crate) fn instance(&self, machine: usize, leaf: usize) -> usize {
        machine * self.leaves.len() + leaf
    }

    /// A broker reads the receive meter of a service: the total of bits × 10^9 and of those in
    /// marked packets.
    pub(crate) fn read(
        &mut self,
        machine: usize,
        leaf: usize,
        now: u64,
        received: u128,
        marked: u128,
        network: &NetworkReading,
    ) {
        self.throttled.read(self.instance(machine, leaf), now, received, marked, network);
    }

    /// The decoder rejected a datagram: it must be an altered one.
    pub(crate) fn rejected(&mut self, datagram: &[u8], error: DecodeError) -> Result<(), String> {
        match error {
            DecodeError::Forged | DecodeError::Foreign | DecodeError::Version(_) => Ok(()),
            other => Err(format!("a datagram of {} bytes was rejected as {other:?}", datagram.len())),
        }
    }

    /// A broker reports its usage, or repeats its last report after a notice.
    pub(crate) fn sent(&mut self, now: u64, machine: usize, report: &UsageReport, repeats: bool) -> Result<(), String> {
        self.sent += 1;
        if report.machine != MachineId(machine as u32) {
            return Err(format!("m{} reports in another machine's name", machine + 1));
        }
        let nothing = PerDirection::both(Demand::default());
        let (stamp, start) = ((machine, report.epoch, report.round), self.starts[machine]);
        let reported = self.reported.entry(stamp).or_insert_with(|| (start, vec![nothing; self.leaves.len()]));
        if reported.0 != start {
            self.ambiguous.insert(stamp);
            *reported = (start, vec![nothing; self.leaves.len()]);
        }
        let reported = &mut reported.1;
        for row in &report.rows {
            let leaf = self.leaves.iter().position(|id| *id == row.service).ok_or("a row of no leaf")?;
            reported[leaf] = PerDirection { tx: row.tx, rx: row.rx };
        }
        if repeats {
            return Ok(());
        }
        let reported = reported.clone();
        let mut rows = reported.iter().enumerate();
        rows.try_for_each(|(leaf, reported)| self.throttled.reported(self.instance(machine, leaf), now, reported.rx))
    }

    /// After every input: the broker's demands are truly reported ones, and never go back.
    pub(crate) fn step(
        &mut self,
        machine: usize,
        broker: &RackBroker,
        local: Instant,
        report: Option<&UsageReport>,
    ) -> Result<(), String> {
        let allocator = broker.allocator();
        let peer = report.map(|report| report.machine.index()).unwrap_or(machine);
        for leaf in 0..self.leaves.len() {
            let instance = allocator.instance(leaf, peer);
            let stamp = broker.stamp(instance);
            if stamp < self.stamps[machine][instance] {
                return Err(format!("m{} went back to an older report of m{}", machine + 1, peer + 1));
            }
            self.stamps[machine][instance] = stamp;
            if peer == machine || stamp == (0, 0) {
                continue;
            }
            let Some((_, reported)) = self.reported.get(&(peer, stamp.0, stamp.1)) else {
                return Err(format!("m{} has a report that m{} never sent", machine + 1, peer + 1));
            };
            for direction in Direction::ALL {
                let known = broker.demands(direction)[instance];
                let forgotten = known == Bandwidth::ZERO && self.stale == Stale::Forget;
                let forgotten = forgotten || self.ambiguous.contains(&(peer, stamp.0, stamp.1));
                if known != reported[leaf][direction].bandwidth() && !forgotten {
                    return Err(format!(
                        "m{} has {known} of m{}, which reported {:?}",
                        machine + 1,
                        peer + 1,
                        reported[leaf]
                    ));
                }
            }
        }
        if broker.counters().accepted > self.accepted[machine] {
            self.accepted[machine] = broker.counters().accepted;
            self.last_report[machine] = Some(local);
        }
        if !self.lower_epochs && broker.counters().epochs_raised > 0 {
            return Err(format!("m{} raised its epoch, which never went down", machine + 1));
        }
        if broker.counters().malformed + broker.counters().other_policy > 0 {
            return Err(format!("m{} counted a genuine report as malformed or of another policy", machine + 1));
        }
        Ok(())
    }

    /// At the end of a period: capacity and maxima hold, guarantees are kept, no service below its
    /// share is limited, and a machine without live peers has no limits.
    pub(crate) fn limited(
        &mut self,
        world: &World,
        machine: usize,
        broker: &RackBroker,
        local: Instant,
        limits: &[RuntimeLimit],
    ) -> Result<(), String> {
        let name = || format!("m{}", machine + 1);
        let is_alive =
            self.last_report[machine].is_some_and(|last| local.saturating_since(last) < world.config.timeout);
        let expected = if is_alive { Mode::Runtime } else { Mode::Static };
        if broker.mode() != expected {
            return Err(format!(
                "{} is in mode {:?}, its last report arrived at {:?}",
                name(),
                broker.mode(),
                self.last_report[machine]
            ));
        }
        if limits.len() != 2 * self.leaves.len() {
            return Err(format!("{} set {} limits", name(), limits.len()));
        }
        if broker.is_resuming() {
            let (inherited, begun) = &world.machines[machine].inherited;
            let leaf = |limit: &RuntimeLimit| self.leaves.iter().position(|id| *id == limit.service);
            if limits.iter().any(|limit| leaf(limit).map(|leaf| inherited[limit.direction][leaf]) != Some(limit.limit))
            {
                return Err(format!(
                    "{} inherited {inherited:?} and set {limits:?} while it keeps inherited limits",
                    name()
                ));
            }
            if local.saturating_since(*begun) >= world.config.timeout {
                return Err(format!("{} still keeps limits inherited at {begun:?}", name()));
            }
        }
        if !broker.is_resuming() {
            limits.iter().try_for_each(|limit| self.limit(world, machine, broker, limit))?;
        }
        self.runtime[machine] = broker.mode() == Mode::Runtime && !broker.is_resuming();
        self.steps.allocated(world.now, machine, broker)?;
        for direction in Direction::ALL {
            self.shares(world, broker, direction).map_err(|failure| format!("{} {direction}: {failure}", name()))?;
        }
        Ok(())
    }

    /// A limit that is not inherited: the static policy's without live peers; otherwise not below the share, which with
    /// intervals a limit reaches one allocation later; and by the published rule only on demands that exceed it.
    fn limit(
        &mut self,
        world: &World,
        machine: usize,
        broker: &RackBroker,
        limit: &RuntimeLimit,
    ) -> Result<(), String> {
        let name = || format!("m{}", machine + 1);
        self.limits_set += u64::from(!limit.limit.is_unlimited());
        let leaf = self.leaves.iter().position(|id| *id == limit.service).ok_or("a limit of no leaf")?;
        let is_published = world.config.rule == LimitRule::Backlogged;
        if broker.mode() == Mode::Static {
            let most = world.fallback[machine][limit.direction][leaf];
            if limit.limit > most || (is_published && limit.limit != most) {
                return Err(format!("{} has no live peer and sets {limit:?}, not {most}", name()));
            }
            return Ok(());
        }
        let instance = broker.allocator().instance(leaf, machine);
        let demand = broker.demands(limit.direction)[instance];
        let is_raised = !limit.limit.is_unlimited() && limit.limit > LOWEST_LIMIT && demand < limit.limit;
        if is_published && is_raised {
            return Err(format!("{} is limited although its demand of {demand} is less: {limit:?}", name()));
        }
        let share = broker.shares(limit.direction).instances[instance].share;
        let before = self.steps.share(machine, limit.direction, instance).filter(|_| self.runtime[machine]);
        if before.is_some_and(|before| limit.limit < share.min(before)) {
            return Err(format!("{} has shares of {before:?} and {share}, and is limited: {limit:?}", name()));
        }
        Ok(())
    }

    fn shares(&self, world: &World, broker: &RackBroker, direction: Direction) -> Result<(), String> {
        let (policy, allocator) = (&world.policy, broker.allocator());
        let shares = &broker.shares(direction).instances;
        let all: Bandwidth = shares.iter().map(|instance| instance.share).sum();
        let capacity = policy.rack_capacity(RackId(0), direction);
        if all > capacity {
            return Err(format!("{all} was shared out of {capacity}"));
        }
        for (i, instance) in shares.iter().enumerate() {
            let demand = broker.demands(direction)[i];
            if instance.share > demand || (!instance.decided_by.is_limit() && instance.share != demand) {
                return Err(format!("instance {i} has {instance:?} of {demand}"));
            }
        }
        for (leaf, service) in self.leaves.iter().enumerate() {
            let service = policy.services().get(*service);
            if service.parent().is_some() {
                continue;
            }
            let demand = |m: usize, leaf: usize| broker.demands(direction)[allocator.instance(leaf, m)];
            let least: Bandwidth = (0..MACHINES).map(|m| self.least_load(world, direction, m, leaf, &demand)).sum();
            let has: Bandwidth = (0..MACHINES).map(|m| shares[allocator.instance(leaf, m)].share).sum();
            let guaranteed = service.share(ContentionPoint::Rack, direction).min.min(least);
            self.guarantees_seen.set(self.guarantees_seen.get() + u64::from(guaranteed > Bandwidth::ZERO));
            if has < guaranteed {
                return Err(format!("{} has {has}, less than its guarantee of {guaranteed}", service.path()));
            }
            if has > service.share(ContentionPoint::Rack, direction).max {
                return Err(format!("{} has {has}, more than its maximum", service.path()));
            }
        }
        Ok(())
    }

    /// The least load that a machine offers of a service at the uplink: its guarantee at the
    /// machine, or the rest of the interface when the other services there use all they can.
    pub(crate) fn least_load(
        &self,
        world: &World,
        direction: Direction,
        machine: usize,
        leaf: usize,
        demand: &dyn Fn(usize, usize) -> Bandwidth,
    ) -> Bandwidth {
        let share =
            |leaf: usize| world.policy.services().get(self.leaves[leaf]).share(ContentionPoint::Machine, direction);
        let usable = |leaf: usize| demand(machine, leaf).min(share(leaf).max);
        let others: Bandwidth = (0..self.leaves.len()).filter(|other| *other != leaf).map(usable).sum();
        let nic = world.policy.machine_capacity(MachineId(machine as u32), direction);
        usable(leaf).min(share(leaf).min.max(nic.saturating_sub(others)))
    }

    pub(crate) fn faults_end(&mut self, world: &World) {
        let brokers = world.machines.iter().filter_map(|machine| machine.broker.as_ref()).enumerate();
        self.before = brokers.map(|(m, broker)| broker.stamp(broker.allocator().instance(0, m))).collect();
    }

    /// Two periods after the last fault every machine has the reports that all others sent after
    /// it.
    pub(crate) fn propagation(&self, world: &World) -> Result<(), String> {
        for (m, machine) in world.machines.iter().enumerate() {
            let broker = machine.broker.as_ref().ok_or("a machine has no broker")?;
            if broker.mode() != Mode::Runtime {
                return Err(format!("m{} is still in static mode", m + 1));
            }
            for (other, leaf) in (0..MACHINES).flat_map(|other| (0..self.leaves.len()).map(move |leaf| (other, leaf))) {
                let known = broker.stamp(broker.allocator().instance(leaf, other));
                let before = self.before[other];
                let epoch = world.machines[other].broker.as_ref().map(RackBroker::epoch);
                if known <= before || Some(known.0) != epoch {
                    let (m, other) = (m + 1, other + 1);
                    return Err(format!("m{m} has {known:?} of m{other} in {epoch:?}, not newer than {before:?}"));
                }
            }
        }
        Ok(())
    }

    /// Checks that the run exercised the checkers, since a run without reports would pass them all.
    pub(crate) fn check_coverage(&self, world: &World) -> Result<Observed, String> {
        if self.sent < (MACHINES as u64) * 20 {
            return Err(format!("only {} reports were sent", self.sent));
        }
        // With ceilings most demands are unlimited, so the least load of a service may be zero at all machines.
        let guaranteed = self.guarantees_seen.get() > 0;
        if !guaranteed && world.config.rule == LimitRule::Backlogged {
            return Err("no guarantee was above zero".to_owned());
        }
        let throttled = self.throttled.began().is_some();
        let (limited, marks, rule) = (self.limits_set > 0, world.marks(), world.config.rule);
        Ok(Observed { limited, guaranteed, marks, rule, throttled, late: None, cycles: None })
    }
}
