//! A scenario from start to result.
//!
//! [`simulate`] builds the scenario's network, its traffic and, if configured, the brokers; runs
//! them for the scenario's duration, or, in a network of its own, until all traffic has ended if
//! all of it ends by itself; and samples links and flows. The same scenario and seed give the same
//! result to the byte.
//!
//! The random inputs, each with a seed of its own made from the run's, are: the phases of the
//! brokers, each flow group's workload, each flow's hash (and thereby its path), spraying, and
//! under a policy also
//! - starts: a long-lived transfer starts up to 10 ms later than in the scenario, since connections
//!   of one service do not begin at one picosecond, and 10 ms are little against the brokers'
//!   period and the samples;
//! - the noise of the hosts: they take up to one full frame's time at the slowest link longer for a
//!   packet that finds the interface idle, which prevents synchronised flows (Floyd and Jacobson
//!   1992, see [`crate::World::set_jitter`]).
//!
//! In a network of the scenario's own, hosts have the scenario's noise, by default none, so that
//! formulas are exact, and take two frames of a flow at a time
//! ([`crate::World::set_short_host_queues`]); under a policy they hold as much as Linux does, as in
//! the lab. A scenario's `hosts:` changes both.
//!
//! Worked example: Parley Fig 14 at 1/100 of its speeds (`scenarios/parley-fig14.scenario.yaml`)
//! gives service a 300 Mb/s alone, 300 and 300 Mb/s together, and service b 600 Mb/s alone.

use crate::brokers::{Exchange, ServiceIndices};
use crate::checkers::{self, Checkers};
use crate::credit_queues::set_credit_queues;
use crate::enforcement::{self, Enforcer};
use crate::engine::Stop;
use crate::headers::{Headers, Unclassified};
use crate::ids::{PortId, ServiceIndex, SwitchId};
use crate::levels::{LevelQueueReading, LevelReading};
use crate::observer::{Observer, Silent};
use crate::samples::{LinkSampler, MeterSampler, UplinkSampler, link_records};
use crate::serial_clock::SerialClock;
use crate::sources::{SizeClass, Source, Sources};
use crate::world::{Counters, World};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use weir_binding::binder::BinderCounters;
use weir_datapath::{ClassifierError, Hosts, Unenforceable};
use weir_network::Graph;
use weir_network::graph::LinkRef;
use weir_policy::Policy;
use weir_results::{FlowRecord, Group, GroupSample, Results};
use weir_scenario::{Change, NetworkEvent, RunResult, Scenario, Traffic};
use weir_units::{Bytes, Duration, ServiceId, SimTime};
use weir_workload::Spec;

/// How far apart the long-lived transfers of a service start.
const START_SPREAD: SimTime = SimTime::from_millis(10);

/// The options of a run besides the scenario and the seed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Run with all checkers, which panic when an invariant of the simulator does not hold. A third
    /// to a half slower.
    pub check: bool,
}

/// The progress of a run; reported when the network is built, and after each sample.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Simulated time that has passed.
    pub at: Duration,
    /// The longest possible duration of the run.
    pub of: Duration,
    /// Flows that have started, and flows that are over.
    pub started: u64,
    /// Flows that are over.
    pub over: u64,
    /// The number of all flows, if it is known.
    pub expected: Option<u64>,
    /// The counters so far.
    pub counters: Counters,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
    /// Flows, links and samples.
    pub results: Results,
    /// The services' bandwidth at the measured rack's uplink; empty without a policy.
    pub uplink: RunResult,
    /// Datagrams between brokers.
    pub brokers: Exchange,
    /// Whether the progress callback stopped the run.
    pub interrupted: bool,
}

/// The reason why a scenario cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Real programs are part of it.
    #[error("{0}")]
    LabOnly(String),
    /// The policy's filters cannot become a classifier.
    #[error(transparent)]
    Classifier(#[from] ClassifierError),
    /// No packet of a flow's protocol between two machines belongs to a service.
    #[error(transparent)]
    Unclassified(#[from] Unclassified),
    /// A host has no room for the policy's services, as on Linux.
    #[error(transparent)]
    Unenforceable(#[from] Unenforceable),
}

/// Runs a scenario. `progress` is called when the network is built and after every sample, and may
/// stop the run.
///
/// # Errors
/// If the policy's filters do not fit the traffic, it has too many services, or real programs are part of it.
pub fn simulate(
    scenario: &Scenario,
    seed: u64,
    options: &Options,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<RunOutcome, RunError> {
    if let Some(reason) = scenario.lab_only() {
        return Err(RunError::LabOnly(reason.cause().to_owned()));
    }
    if options.check {
        let run = Run::new(scenario, seed, Checkers::default())?;
        run.finish(progress, checkers::check)
    } else {
        Run::new(scenario, seed, Silent)?.finish(progress, |_| ())
    }
}

/// A run under way.
struct Run<'a, O> {
    scenario: &'a Scenario,
    seed: u64,
    world: World<O>,
    sources: Sources,
    enforcer: Option<Enforcer<'a>>,
    /// The pending events of links, next first.
    events: std::slice::Iter<'a, NetworkEvent>,
    links: LinkSampler,
    uplink: Option<UplinkSampler>,
    /// The indices of the services and the samples of their shapers, with shapers.
    meters: Option<(ServiceIndices, MeterSampler)>,
    flows: Vec<FlowRecord>,
    groups: Vec<GroupSample>,
}

impl<'a, O: Observer> Run<'a, O> {
    fn new(scenario: &'a Scenario, seed: u64, observer: O) -> Result<Self, RunError> {
        let mut rng = StdRng::seed_from_u64(seed);
        let governed = scenario.governed();
        let indices = governed.map(|governed| ServiceIndices::new(&governed.policy));
        let services = indices.as_ref().map_or(0, ServiceIndices::count);
        if services > Hosts::SERVICES_MAX {
            return Err(Unenforceable::TooManyServices { count: services }.into());
        }
        let graph = scenario.graph();
        let marked = enforcement::marked(graph, governed);
        let mut world = World::from_graph(&marked, services, rng.random(), observer);
        let (mut enforcer, mut uplink, mut headers) = (None, None, None);
        if let (Some(governed), Some(indices)) = (governed, &indices) {
            uplink = Some(UplinkSampler::new(scenario, governed.measure, indices, &mut world));
            enforcer = Some(Enforcer::new(governed, graph, &mut rng, &mut world));
            headers = Some(Headers::new(&governed.policy)?);
            let frame = graph.packets.payload + graph.packets.headers;
            // Noise of a frame keeps flows from falling into step, as it is in the lab.
            let jitter = frame_time(&world, frame).max(graph.jitter.into());
            world.set_jitter(jitter, rng.random());
            enforcement::set_levels(governed, graph, jitter, &mut world);
            set_credit_queues(scenario, governed, &mut world);
        } else {
            world.set_short_host_queues();
            world.set_jitter(graph.jitter.into(), rng.random());
        }
        world.set_host_queues(scenario.hosts());
        // Not drawn from `rng`: all other draws are those of a network without agents.
        world.set_agent_seed(seed);
        let without: Vec<SwitchId> =
            scenario.without_forwarder().iter().map(|&switch| SwitchId(switch as u32)).collect();
        world.set_switches_without_forwarders(&without);
        if let Some(aggregates) = scenario.aggregates() {
            match aggregates.weights.as_ref().zip(indices.as_ref()) {
                Some((weights, indices)) => {
                    let weights = weights.iter().filter_map(|(&service, &weight)| Some((indices.of(service)?, weight)));
                    world.set_aggregates_of(&aggregates.parameters, weights);
                }
                None => world.set_aggregates(&aggregates.parameters),
            }
        }
        let source = |traffic: &Traffic| source(traffic, indices.as_ref());
        let shaped = scenario.enforcement().shapes();
        let sources = Sources::new(scenario.flow_groups().iter().map(source).collect(), rng.random(), headers);
        let links = LinkSampler::new(scenario, &world);
        let events = scenario.events().iter();
        Ok(Self {
            scenario,
            seed,
            world,
            sources,
            enforcer,
            events,
            links,
            uplink,
            meters: indices.filter(|_| shaped).map(|indices| (indices, MeterSampler::default())),
            flows: Vec::new(),
            groups: Vec::new(),
        })
    }

    /// Runs to the end and returns the outcome.
    fn finish(
        mut self,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
        check: impl Fn(&World<O>),
    ) -> Result<RunOutcome, RunError> {
        let end = SimTime::from(self.scenario.duration());
        let every = SimTime::from(self.scenario.measurement().every);
        let mut sample = every;
        let mut interrupted = progress(self.progress()).is_break();
        while !interrupted {
            self.advance(sample.min(end))?;
            let over = self.world.now() >= end || self.is_idle();
            // At a rack's uplink only whole samples count; elsewhere the last one may be shorter.
            let last = sample.saturating_sub(every);
            if self.world.now() == sample || (over && self.uplink.is_none() && self.world.now() > last) {
                self.sample();
                sample = self.world.now() + every;
                interrupted = !over && progress(self.progress()).is_break();
            }
            if over {
                break;
            }
        }
        check(&self.world);
        Ok(self.outcome(interrupted))
    }

    /// Runs the network, the traffic and the enforcement to `target`, or until all traffic has
    /// ended.
    fn advance(&mut self, target: SimTime) -> Result<(), RunError> {
        loop {
            let change = self.events.as_slice().first().map(|event| SimTime::from(event.at));
            let enforcer = self.enforcer.as_ref().and_then(Enforcer::next);
            let due = [self.sources.next(), change, enforcer].into_iter().flatten().min().unwrap_or(SimTime::NEVER);
            match self.world.run_until(due.min(target)) {
                Stop::Over => {
                    while let Some(id) = self.world.next_over() {
                        self.flows.extend(self.sources.on_over(id, &mut self.world));
                    }
                    if self.is_idle() {
                        return Ok(());
                    }
                }
                Stop::Delivery => {
                    while let Some(delivery) = self.world.next_delivery() {
                        if let Some(enforcer) = &mut self.enforcer {
                            enforcer.on_delivery(&delivery, &mut self.world);
                        }
                    }
                }
                Stop::Limit if due <= self.world.now() => {
                    self.change_links();
                    self.sources.start_due(&mut self.world)?;
                    if let Some(enforcer) = &mut self.enforcer {
                        enforcer.on_time(&mut self.world);
                    }
                }
                Stop::Limit => return Ok(()),
            }
        }
    }

    /// Whether nothing more will happen. Under a policy the run continues: its phases are part of
    /// the measurement.
    fn is_idle(&self) -> bool {
        self.scenario.governed().is_none() && self.sources.is_done()
    }

    /// Applies the due events of links; routes are computed once for all events of one time.
    fn change_links(&mut self) {
        let mut rerouted = false;
        while let Some(event) = self.events.as_slice().first()
            && SimTime::from(event.at) <= self.world.now()
        {
            self.events.next();
            let ports: Vec<PortId> = event.links.iter().map(|&link| self.world.port_of(link)).collect();
            for port in ports {
                match event.change {
                    Change::Down => self.world.take_down(port),
                    Change::Up => self.world.bring_up(port),
                    Change::Rate(rate) => self.world.set_rate(port, rate),
                    Change::Weights(weights) => {
                        let weighted = self.world.set_weights(port, weights);
                        debug_assert!(weighted, "the scenario gives weights to a queue without classes");
                    }
                }
            }
            rerouted |= matches!(event.change, Change::Down | Change::Up);
        }
        if rerouted {
            self.world.compute_routes();
        }
    }

    fn sample(&mut self) {
        let at = self.world.now();
        self.links.take(&mut self.world);
        self.groups.extend(self.sources.sample(at, &self.world));
        if let Some(uplink) = &mut self.uplink {
            uplink.take(&self.world);
        }
        if let Some((indices, meters)) = &mut self.meters {
            meters.take(indices, &self.world);
        }
    }

    fn progress(&self) -> Progress {
        let (started, over) = self.sources.progress();
        Progress {
            at: self.world.now().duration(),
            of: self.scenario.duration(),
            started,
            over,
            expected: self.sources.expected(),
            counters: self.world.counters(),
        }
    }

    fn outcome(mut self, interrupted: bool) -> RunOutcome {
        let brokers = self.enforcer.as_ref().map(Enforcer::exchange).unwrap_or_default();
        let binding = self.enforcer.as_ref().and_then(Enforcer::binding);
        let mut flows = self.flows;
        flows.extend(self.sources.under_way(&self.world));
        flows.sort_by_key(|flow| flow.id);
        let group = |traffic: &Traffic| Group {
            name: traffic.name.clone(),
            transport: traffic.transport.protocol().to_owned(),
        };
        let graph = self.scenario.graph();
        let path = |policy: &Policy, service| policy.services().get(service).path().to_owned();
        let (mut services, mut meter_samples) = (Vec::new(), Vec::new());
        if let (Some((indices, meters)), Some(governed)) = (self.meters, self.scenario.governed()) {
            services.extend(indices.iter().map(|(service, _)| path(&governed.policy, service)));
            meter_samples = meters.samples;
        }
        let results = Results {
            scenario: self.scenario.name().to_owned(),
            seed: self.seed,
            complete: !interrupted,
            simulated: self.world.now(),
            counters: counters(&self.world, self.scenario, brokers, binding),
            hosts: graph.hosts.iter().map(|host| host.name.clone()).collect(),
            groups: self.scenario.flow_groups().iter().map(group).collect(),
            flows,
            links: link_records(graph, &mut self.world, &self.links),
            sample_interval: Some(self.scenario.measurement().every.into()),
            link_samples: self.links.samples,
            group_samples: self.groups,
            services,
            meter_samples,
            ..Results::default()
        };
        let uplink = self.uplink.map(|uplink| RunResult { samples: uplink.samples }).unwrap_or_default();
        RunOutcome { results, uplink, brokers, interrupted }
    }
}

/// The source of a flow group.
fn source(traffic: &Traffic, indices: Option<&ServiceIndices>) -> Source {
    let index_of = |service: Option<ServiceId>| {
        service.zip(indices).and_then(|(service, indices)| indices.of(service)).unwrap_or(ServiceIndex(0))
    };
    let spread = match (&traffic.spec, traffic.service) {
        (Spec::Transfers(_), Some(_)) => START_SPREAD,
        _ => SimTime::ZERO,
    };
    let size_class = |&(largest, service): &(Bytes, ServiceId)| SizeClass {
        largest: largest.get(),
        index: index_of(Some(service)),
        service: Some(service),
    };
    Source {
        workload: traffic.spec.clone(),
        transport: traffic.transport.clone(),
        index: index_of(traffic.service),
        priority: traffic.priority,
        spread,
        service: traffic.service,
        connections: traffic.connections,
        by_size: traffic.by_size.iter().map(size_class).collect(),
        quotas: traffic.quotas.clone(),
    }
}

/// The time of a frame at the slowest link.
fn frame_time<O: Observer>(world: &World<O>, frame: u32) -> SimTime {
    let slowest = (0..world.ports().len()).map(|port| world.rate(PortId(port as u32))).min();
    slowest.map_or(SimTime::ZERO, |rate| SerialClock::new(rate).advance(frame))
}

fn counters<O: Observer>(
    world: &World<O>,
    scenario: &Scenario,
    brokers: Exchange,
    binding: Option<BinderCounters>,
) -> std::collections::BTreeMap<String, u64> {
    let (counters, graph) = (world.counters(), scenario.graph());
    let mut named = vec![
        ("events", counters.events),
        ("packet_hops", counters.packet_hops),
        ("packets_sent", counters.sent),
        ("packets_delivered", counters.delivered),
        ("packets_dropped", counters.dropped),
        ("packets_marked", counters.marked),
        ("packets_unroutable", counters.unroutable),
        ("packets_overtaken", counters.overtaken),
        ("retransmissions", counters.retransmissions),
        ("timeouts", counters.timeouts),
        ("peak_packets", world.peak_packets() as u64),
        ("peak_flows", world.peak_flows() as u64),
    ];
    let rare = [
        ("feedback_packets", counters.feedback),
        ("agent_messages", counters.originated),
        ("packets_consumed", counters.consumed),
    ];
    named.extend(rare.into_iter().filter(|(_, count)| *count > 0));
    let aggregates = scenario.aggregates().map(|_| world.aggregate_counters());
    let aggregates = aggregates.into_iter().flat_map(|counters| {
        let named = [
            ("allocations", counters.allocations),
            ("stale", counters.stale),
            ("unwanted", counters.unwanted),
            ("astray", counters.astray),
            ("overspent", counters.overspent),
        ];
        named.map(|(name, value)| (format!("credits_host_{name}"), value))
    });
    let credits = world.credit_counters().into_iter().chain(credit_readings(world, scenario)).chain(aggregates);
    let levels: Vec<(String, u64)> = (1..).zip(world.level_readings()).flat_map(level_counters).collect();
    let queues = world.level_queues().into_iter().flat_map(|reading| level_queue_counters(graph, &reading));
    if brokers != Exchange::default() {
        named.extend([
            ("broker_datagrams_sent", brokers.sent),
            ("broker_bytes_sent", brokers.bytes),
            ("broker_datagrams_received", brokers.received),
            ("broker_datagrams_refused", brokers.refused),
            ("broker_datagrams_unreceived", brokers.unreceived),
        ]);
    }
    if let Some(binding) = binding {
        named.extend([
            ("tenant_queue_intervals", binding.intervals),
            ("tenant_queue_moves_begun", binding.moves),
            ("tenant_queue_moves_ended", binding.moved),
            ("tenants_without_dscp", binding.without_value),
        ]);
    }
    named.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(levels).chain(queues).chain(credits).collect()
}

/// The readings of forwarders at the links that the scenario names, and the ports without forwarders.
fn credit_readings<O: Observer>(world: &World<O>, scenario: &Scenario) -> Vec<(String, u64)> {
    let (graph, measurement) = (scenario.graph(), scenario.measurement());
    let watched = measurement.links.iter().filter(|_| measurement.are_named);
    let at = |&link: &LinkRef| {
        let name = graph.link_name(link);
        let readings = world.credit_readings(world.port_of(link));
        readings.into_iter().map(move |(of, value)| (format!("credits_{of}_at_{name}"), value))
    };
    let without: BTreeSet<PortId> = world.ports_without_forwarder().collect();
    let without = graph.links().filter(|&link| without.contains(&world.port_of(link)));
    let without = without.map(|link| (format!("credits_no_forwarder_at_{}", graph.link_name(link)), 1));
    watched.flat_map(at).chain(without.filter(|_| !world.credit_counters().is_empty())).collect()
}

/// The largest queue of a level at ports of a class, which its first link names, and its bound.
fn level_queue_counters(graph: &Graph, reading: &LevelQueueReading) -> [(String, u64); 2] {
    let (number, link) = (reading.level + 1, graph.link_name(reading.link));
    [("backlog", reading.backlog), ("backlog_bound", reading.bound)]
        .map(|(name, bytes)| (format!("level_{number}_{name}_bytes_at_{link}"), bytes))
}

/// The measured worst case of a level, and its bounds.
fn level_counters((number, reading): (usize, LevelReading)) -> Vec<(String, u64)> {
    let nanos = |time: SimTime| time.picos().div_ceil(1_000);
    let named = [
        ("frames", reading.frames),
        ("median_ns", nanos(reading.median)),
        ("p99_ns", nanos(reading.p99)),
        ("worst_ns", nanos(reading.worst)),
        ("late", reading.late),
        ("backlog_bytes", reading.backlog),
        ("overfull", reading.overfull),
        ("longest_wait_ns", nanos(reading.longest_wait)),
        ("dropped", reading.dropped),
        ("oversize", reading.oversize),
    ];
    let bound = (reading.bound != SimTime::NEVER).then(|| ("bound_ns", nanos(reading.bound)));
    named.into_iter().chain(bound).map(|(name, value)| (format!("level_{number}_{name}"), value)).collect()
}
