//! The facts from a policy and a broker.
//!
//! Order of calls for an agent: [`AgentStatus::outline`] once per policy, then each period
//! [`measured`](AgentStatus::measured) and [`decided`](AgentStatus::decided), or
//! [`counted`](AgentStatus::counted) alone while the broker decides nothing. The agent sets its own
//! facts itself. While limits of another agent are in force, [`left`](AgentStatus::left) comes
//! after `decided`.

use crate::counters::{AgentCounters, FabricCounters};
use crate::model::{
    AgentStatus, DirectionStatus, FabricLimit, FabricStatus, Latency, LevelStatus, Mode, ServiceStatus, VERSION,
    agent_period, fabric_period,
};
use weir_alloc::Constraint;
use weir_control::{FabricBroker, MeterReading, NetworkReading, RackBroker};
use weir_latency::levels::{Bounds, LevelNetwork, Sizes};
use weir_policy::{LevelRates, Place, Policy};
use weir_shaping::{LeafPlan, LevelLimits, MachinePlan};
use weir_units::{Bandwidth, ContentionPoint, Direction, MachineId, PerDirection, RackId, ServiceId};

/// A policy's fingerprint, as a status has it.
pub fn fingerprint(policy: &Policy) -> String {
    format!("{:016x}", policy.digest())
}

/// All constraints that may decide a share under a policy, as a status has them: an agent under
/// this policy reports no other text.
pub fn constraints(policy: &Policy) -> impl Iterator<Item = String> + '_ {
    let network = policy.network();
    let machines = (0..network.machines().len()).map(|machine| Constraint::Machine(MachineId(machine as u32)));
    let racks = (0..network.racks().len()).map(|rack| Constraint::Rack(RackId(rack as u32)));
    let maxima = policy
        .services()
        .iter()
        .flat_map(|(service, _)| ContentionPoint::ALL.into_iter().map(move |point| Constraint::Max(service, point)));
    let all = [Constraint::Demand, Constraint::Fabric].into_iter().chain(machines).chain(racks).chain(maxima);
    all.map(|constraint| constraint.display(policy).to_string())
}

/// The latency levels of a machine; none while the planner has not chosen them. Their bounds are unknown where the
/// routes allow none.
fn levels(policy: &Policy, plan: &MachinePlan) -> Vec<LevelStatus> {
    let Some(levels) = policy.levels().filter(|levels| !levels.all().is_empty()) else { return Vec::new() };
    let sizes = Sizes::of_linux(levels.settings());
    let bounds = Bounds::of(policy, &LevelNetwork::new(policy), sizes).ok();
    let one = |(index, (rates, limits)): (usize, (&LevelRates, &Option<LevelLimits>))| LevelStatus {
        level: index as u32 + 1,
        dscp: rates.dscp,
        rate: limits.map_or(Bandwidth::ZERO, |limits| limits.rate),
        burst_bytes: limits.map_or(0, |limits| limits.burst.get()),
        bound_ns: bounds.as_ref().and_then(|bounds| bounds.levels[index].path).map(|path| path.nanos()),
        counters: None,
    };
    levels.all().iter().zip(&plan.levels).enumerate().map(one).collect()
}

impl AgentStatus {
    /// The facts of a machine that the policy alone gives: services, guarantees and maxima.
    pub fn outline(policy: &Policy, machine: MachineId) -> Self {
        let here = policy.network().machine(machine);
        let rack = policy.network().rack(here.rack());
        let bounds = weir_latency::plan::latency_bounds(policy);
        let latency = |leaf: ServiceId| {
            // A target above a service holds for it too, and a tighter one further down comes
            // first.
            let mut within = std::iter::successors(Some(leaf), |&at| policy.services().get(at).parent());
            let bound = within.find_map(|id| bounds.iter().find(|bound| bound.service == id))?;
            Some(Latency {
                message_bytes: bound.target.message.get(),
                target_ns: bound.target.p99.nanos(),
                bound_ns: bound.bound.map(|bound| bound.nanos()),
                unproven: !bound.gaps.is_empty(),
            })
        };
        let plan = MachinePlan::new(policy, machine);
        let one = |leaf: &LeafPlan, direction: Direction| DirectionStatus {
            guarantee: leaf.shares[direction].share.min,
            rack_guarantee: policy.share_at(leaf.service, Place::Rack(here.rack()), direction).min,
            maximum: leaf.shares[direction].share.max,
            ..DirectionStatus::default()
        };
        let service = |leaf: &LeafPlan| ServiceStatus {
            service: policy.services().get(leaf.service).path().to_owned(),
            latency: latency(leaf.service),
            tx: one(leaf, Direction::Tx),
            rx: one(leaf, Direction::Rx),
        };
        Self {
            version: VERSION,
            written_ms: 0,
            period_ms: agent_period(),
            uptime_ms: 0,
            machine: here.name().to_owned(),
            rack: rack.name().to_owned(),
            interface: String::new(),
            attachment: None,
            policy_refused: None,
            interface_absent: false,
            not_enforced: None,
            keeps: false,
            level_obstacles: Vec::new(),
            cgroups: None,
            cgroups_missed: None,
            guests: None,
            guests_missed: None,
            filters_unmatched: Vec::new(),
            backend: String::new(),
            backend_obstacles: Vec::new(),
            mode: None,
            policy: fingerprint(policy),
            epoch: 0,
            peers: rack.machines().len() as u64 - 1,
            peers_alive: 0,
            unheard: Vec::new(),
            capacity_tx_bps: policy.machine_capacity(machine, Direction::Tx),
            capacity_rx_bps: policy.machine_capacity(machine, Direction::Rx),
            fabric: None,
            drops_unattributed: None,
            services: plan.leaves.iter().map(service).collect(),
            levels: levels(policy, &plan),
            credits: None,
            counters: AgentCounters::default(),
            kernel: None,
        }
    }

    /// Meter readings, and the usage since the readings before; both by leaf. The usage is empty if
    /// there were none.
    pub fn measured(&mut self, readings: &[MeterReading], usage: &[PerDirection<Bandwidth>]) {
        for (index, service) in self.services.iter_mut().enumerate() {
            for direction in Direction::ALL {
                let status = service.direction_mut(direction);
                status.usage = usage.get(index).map(|usage| usage[direction]);
                status.bytes = readings.get(index).map(|reading| reading.bytes[direction].get());
            }
            // A host without receive meters has the default here.
            let network =
                readings.get(index).map(|reading| reading.network).filter(|of| *of != NetworkReading::default());
            service.rx.packets_markable = network.map(|network| network.packets);
            service.rx.packets_marked = network.map(|network| network.marked);
            service.rx.sender_rate = network.and_then(|network| network.rate);
        }
    }

    /// The broker's decisions and counters. The broker is that of the outline's policy and machine.
    pub fn decided(&mut self, broker: &RackBroker) {
        let allocator = broker.allocator();
        let policy = allocator.policy();
        let name = |id: &MachineId| policy.network().machine(*id).name() == self.machine;
        let index = allocator.machines().iter().position(name).unwrap_or_default();
        self.mode = Some(match broker.mode() {
            weir_control::Mode::Static => Mode::Static,
            weir_control::Mode::Runtime => Mode::Runtime,
        });
        self.peers_alive = broker.peers_alive() as u64;
        self.unheard = broker.unheard().map(|id| policy.network().machine(id).name().to_owned()).collect();
        // The broker shares the rack in any mode; under the static policy no share is in force.
        let in_force = broker.mode() == weir_control::Mode::Runtime;
        for (leaf, service) in self.services.iter_mut().enumerate() {
            let instance = allocator.instance(leaf, index);
            for direction in Direction::ALL {
                let status = service.direction_mut(direction);
                let given = broker.shares(direction).instances.get(instance).filter(|_| in_force);
                status.demand = Some(broker.demands(direction)[instance]);
                status.share = given.map(|given| given.share);
                status.decided_by = given.map(|given| given.decided_by.display(policy).to_string());
                status.limit = broker.limit(direction, leaf);
            }
        }
        self.counted(broker);
    }

    /// Limits of an earlier agent or broker, by leaf, which are in force instead of the broker's.
    pub fn left(&mut self, limits: &[PerDirection<Bandwidth>]) {
        self.mode = None;
        for (service, limits) in self.services.iter_mut().zip(limits) {
            for direction in Direction::ALL {
                let status = service.direction_mut(direction);
                (status.share, status.decided_by, status.limit) = (None, None, limits[direction]);
            }
        }
    }

    /// The broker's counters.
    pub fn counted(&mut self, broker: &RackBroker) {
        let (to, from) = (&mut self.counters, broker.counters());
        to.reports_accepted = from.accepted;
        to.reports_replayed = from.replayed;
        to.reports_older_epoch = from.older_epoch;
        to.reports_unknown_machine = from.unknown_machine;
        to.reports_other_policy = from.other_policy;
        to.reports_malformed = from.malformed;
        to.fallbacks = from.fallbacks;
        to.rack_reports = from.rack_reports;
        to.rack_replies = from.replies;
        to.limits_accepted = from.limits_accepted;
        to.limits_known = from.limits_known;
        to.limits_replayed = from.limits_replayed;
        to.limits_older_epoch = from.limits_older_epoch;
        to.limits_expired = from.limits_expired;
        to.limits_other_rack = from.limits_other_rack;
        to.limits_other_policy = from.limits_other_policy;
        to.limits_malformed = from.limits_malformed;
        to.fabric_fallbacks = from.fabric_fallbacks;
        to.shut_out_notices = from.notices;
        to.shut_out_notices_replayed = from.notices_replayed;
        to.epoch_notices_sent = from.epoch_notices;
        to.epochs_raised = from.epochs_raised;
    }
}

impl FabricStatus {
    /// The facts that the policy alone gives, for a broker of this name.
    pub fn outline(policy: &Policy, name: &str, epoch: u64) -> Self {
        Self {
            version: VERSION,
            written_ms: 0,
            period_ms: fabric_period(),
            uptime_ms: 0,
            name: name.to_owned(),
            leads: false,
            leader: None,
            policy: fingerprint(policy),
            epoch,
            round: 0,
            policy_refused: None,
            certificate_refused: None,
            certificate_ends: None,
            streams: 0,
            tenant_queues: None,
            racks: policy.network().racks().len() as u64,
            racks_reporting: 0,
            capacity_tx_bps: policy.fabric_capacity(Direction::Tx),
            capacity_rx_bps: policy.fabric_capacity(Direction::Rx),
            limits: Vec::new(),
            limits_left_out: 0,
            counters: FabricCounters::default(),
        }
    }

    /// The broker's decisions and counters under this policy.
    pub fn decided(&mut self, policy: &Policy, broker: &FabricBroker) {
        self.round = broker.round();
        self.racks_reporting = broker.racks_reporting() as u64;
        self.limits.clear();
        self.limits_left_out = 0;
        for (leaf, id) in broker.allocator().leaves().iter().enumerate() {
            for (rack, named) in policy.network().racks().iter().enumerate() {
                let rack = RackId(rack as u32);
                for direction in Direction::ALL {
                    let limit = broker.limit(rack, leaf, direction);
                    if limit.is_unlimited() {
                        continue;
                    }
                    if self.limits.len() == Self::MOST_LIMITS {
                        self.limits_left_out += 1;
                        continue;
                    }
                    self.limits.push(FabricLimit {
                        rack: named.name().to_owned(),
                        service: policy.services().get(*id).path().to_owned(),
                        direction: direction.name().to_owned(),
                        demand: broker.demand(rack, leaf, direction),
                        limit,
                    });
                }
            }
        }
        let (to, from) = (&mut self.counters, broker.counters());
        to.rack_reports_accepted = from.accepted;
        to.rack_reports_replayed = from.replayed;
        to.rack_reports_older_epoch = from.older_epoch;
        to.rack_reports_unknown_machine = from.unknown_machine;
        to.rack_reports_other_policy = from.other_policy;
        to.rack_reports_malformed = from.malformed;
        to.limits_dropped = from.dropped_outputs;
        to.racks_forgotten = from.forgotten;
        to.replies = from.replies;
        to.replies_missed = from.replies_missed;
        to.epoch_notices_sent = from.epoch_notices;
        to.epochs_raised = from.epochs_raised;
    }
}
