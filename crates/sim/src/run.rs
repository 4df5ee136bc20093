//! A scenario from start to result.
//!
//! [`simulate`] builds the scenario's network, its flows and, where it asks for them, the brokers; runs
//! them for the scenario's duration; and samples the measured uplink. The seed decides, in this order, the
//! phases of the brokers, then for each flow its start and its source port (and thereby its path), and the
//! noise of the hosts. The same scenario and seed give the same result to the byte.
//!
//! What is random, and how much:
//! - a flow starts up to 10 ms after the scenario says: connections of one service do not begin at one
//!   picosecond, and 10 ms are little against the brokers' period and the samples;
//! - source ports are those of Linux's ephemeral range;
//! - hosts take up to one full frame's time at the slowest link longer for a packet that finds the interface
//!   idle, which keeps flows out of step (Floyd and Jacobson 1992, see [`crate::World::set_jitter`]).
//!
//! Flows are classified once, by the classifier that the kernel runs, with the headers of their packets:
//! these do not change. The answers of a flow belong to the same service, since filters match either end.
//! A service whose filter names interfaces has its flows by the scenario's word: they are those of endpoints
//! that the scenario puts on the machine.
//!
//! Worked example: Parley Fig 14 at 1/100 of its speeds (`scenarios/parley-fig14.scenario.yaml`) gives service a
//! 300 Mb/s alone, 300 and 300 Mb/s together, and service b 600 Mb/s alone.

use crate::brokers::{Brokers, Classes, Exchange};
use crate::checkers::{self, Checkers};
use crate::engine::Stop;
use crate::flow::FlowSpec;
use crate::ids::{Class, FlowId, HostId, MeterId};
use crate::observer::{Observer, Silent};
use crate::packet::ETHERNET_HEADER;
use crate::serial_clock::SerialClock;
use crate::switch::mix;
use crate::topology::LeafSpine;
use crate::world::{Counters, World};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::ControlFlow;
use weir_control::RackBrokerConfig;
use weir_datapath::{Classifier, ClassifierError, Fields};
use weir_policy::{Match, Policy, Protocol};
use weir_scenario::graph::Packets;
use weir_scenario::{Enforcement, RunResult, Sample, Scenario};
use weir_transport::Parameters;
use weir_units::SimTime;
use weir_units::{Bandwidth, Bytes, Duration, MachineId, ServiceId};

/// How far apart the flows of a scenario start.
const START_SPREAD: Duration = Duration::from_millis(10);
/// Linux's default range of ephemeral ports (`net.ipv4.ip_local_port_range`).
const EPHEMERAL_PORTS: std::ops::RangeInclusive<u16> = 32_768..=60_999;
/// The server's port where a service's filters leave it open: iperf's.
const DEFAULT_PORT: u16 = 5201;

/// What a run may vary besides the scenario and the seed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Run with all checkers, which panic when an invariant of the simulator does not hold. About half as fast.
    pub check: bool,
    /// How the rack brokers are timed.
    pub brokers: RackBrokerConfig,
}

/// How far a run has come; handed out after each sample.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Simulated time that has passed.
    pub at: Duration,
    /// The scenario's duration.
    pub of: Duration,
    /// The sample just taken.
    pub sample: &'a Sample,
    /// What happened so far.
    pub counters: Counters,
}

/// What a run gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutcome {
    /// The measured time series; only its beginning when interrupted.
    pub result: RunResult,
    /// What happened besides.
    pub statistics: Statistics,
    /// Whether the progress callback broke off the run.
    pub interrupted: bool,
}

/// What happened in a run besides what was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statistics {
    /// Sums over the network.
    pub counters: Counters,
    /// Each flow, in the order of the scenario's traffic and its pairs.
    pub flows: Vec<FlowStatistics>,
    /// Datagrams between brokers.
    pub brokers: Exchange,
    /// The most packets that existed at once.
    pub peak_packets: usize,
}

/// What became of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowStatistics {
    /// The service.
    pub service: ServiceId,
    /// The sending machine.
    pub from: MachineId,
    /// The receiving machine.
    pub to: MachineId,
    /// Bytes that the receiving application got.
    pub delivered: Bytes,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
}

/// Why a scenario cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The policy's filters cannot become a classifier.
    #[error(transparent)]
    Classifier(#[from] ClassifierError),
    /// No TCP packet between the machines belongs to the service.
    #[error("no TCP packet from `{from}` to `{to}` belongs to service `{service}`")]
    Unclassified {
        /// The service's path.
        service: String,
        /// The sending machine's name.
        from: String,
        /// The receiving machine's name.
        to: String,
    },
}

/// Runs a scenario. `progress` is called after every sample and may break off the run.
pub fn simulate(
    scenario: &Scenario,
    seed: u64,
    options: &Options,
    progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<RunOutcome, RunError> {
    if options.check {
        run(scenario, seed, options, Checkers::default(), progress, checkers::check)
    } else {
        run(scenario, seed, options, Silent, progress, |_| ())
    }
}

fn run<O: Observer>(
    scenario: &Scenario,
    seed: u64,
    options: &Options,
    observer: O,
    progress: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    check: impl Fn(&World<O>),
) -> Result<RunOutcome, RunError> {
    let mut rng = StdRng::seed_from_u64(seed);
    let policy = scenario.policy();
    let classes = Classes::new(policy);
    let mtu = scenario.links().mtu.get() as u32;
    // Ethernet 14, IPv4 20, TCP with time stamps 32.
    let sizes = Packets { payload: mtu - 52, headers: 66 };
    let mut world = World::new(classes.count(), sizes, observer);
    let network = LeafSpine::build(&mut world, policy.network(), &scenario.links());
    let measure = scenario.measure();
    let meter = world.add_meter(&network.racks[measure.rack.index()].uplink[measure.direction]);
    let mut brokers = match scenario.enforcement() {
        Enforcement::RackBroker => Some(Brokers::new(policy, options.brokers, &mut rng, &mut world)),
        Enforcement::None => None,
    };
    let flows = add_flows(scenario, &classes, &mut rng, &mut world)?;
    world.set_jitter(jitter(&world, scenario.links().mtu), rng.random());

    let mut sampler = Sampler::new(scenario, &classes, meter);
    let mut interrupted = false;
    let end = SimTime::from(scenario.duration());
    for index in 1.. {
        let at = SimTime::from(measure.every * index);
        if at > end {
            break;
        }
        advance(&mut world, brokers.as_mut(), at);
        let sample = sampler.take(&world, at.duration());
        let report = Progress { at: sample.at, of: scenario.duration(), sample, counters: world.counters() };
        if progress(report).is_break() {
            interrupted = true;
            break;
        }
    }
    if !interrupted {
        advance(&mut world, brokers.as_mut(), end);
    }
    check(&world);
    let statistics = Statistics {
        counters: world.counters(),
        flows: flows.into_iter().map(|(id, service)| flow_statistics(&world, id, service)).collect(),
        brokers: brokers.map(|brokers| brokers.exchange()).unwrap_or_default(),
        peak_packets: world.peak_packets(),
    };
    Ok(RunOutcome { result: RunResult { samples: sampler.samples }, statistics, interrupted })
}

/// Runs the network and the brokers to `target`.
fn advance<O: Observer>(world: &mut World<O>, mut brokers: Option<&mut Brokers>, target: SimTime) {
    loop {
        let due = brokers.as_ref().and_then(|brokers| brokers.next_timeout()).unwrap_or(SimTime::NEVER);
        let stop = world.run_until(due.min(target));
        while let Some(delivery) = world.next_delivery() {
            if let Some(brokers) = &mut brokers {
                brokers.on_delivery(&delivery, world);
            }
        }
        while world.next_over().is_some() {}
        if stop != Stop::Limit {
            continue;
        }
        if let Some(brokers) = &mut brokers
            && due <= world.now()
        {
            brokers.on_time(world);
        } else {
            return;
        }
    }
}

/// The noise of the hosts: one full frame at the slowest link.
fn jitter<O: Observer>(world: &World<O>, mtu: Bytes) -> SimTime {
    let frame = mtu.get() as u32 + ETHERNET_HEADER;
    let slowest = world.ports().iter().map(|port| port.rate()).min();
    slowest.map_or(SimTime::ZERO, |rate| SerialClock::new(rate).advance(frame))
}

fn flow_statistics<O: Observer>(world: &World<O>, id: FlowId, service: ServiceId) -> FlowStatistics {
    let flow = world.flow(id);
    FlowStatistics {
        service,
        from: MachineId(flow.spec().from.0),
        to: MachineId(flow.spec().to.0),
        delivered: flow.delivered(),
        retransmissions: flow.retransmissions().into(),
        timeouts: flow.timeouts().into(),
    }
}

/// Takes samples of a meter.
struct Sampler {
    meter: MeterId,
    every: Duration,
    /// The services that the scenario sends, in id order, and what the meter last said.
    services: Vec<(ServiceId, Class, Bytes)>,
    samples: Vec<Sample>,
}

impl Sampler {
    fn new(scenario: &Scenario, classes: &Classes, meter: MeterId) -> Self {
        let sends = |service| scenario.traffic().iter().any(|traffic| traffic.service == service);
        let services =
            classes.iter().filter(|&(id, _)| sends(id)).map(|(id, class)| (id, class, Bytes::ZERO)).collect();
        Self { meter, every: scenario.measure().every, services, samples: Vec::new() }
    }

    fn take<O: Observer>(&mut self, world: &World<O>, at: Duration) -> &Sample {
        let (meter, every) = (self.meter, self.every);
        let bandwidth = self
            .services
            .iter_mut()
            .map(|(service, class, before)| {
                let total = world.metered(meter, *class);
                let bytes = total - *before;
                *before = total;
                (*service, Bandwidth::from_transfer(bytes, every))
            })
            .collect();
        self.samples.push(Sample { at, bandwidth });
        &self.samples[self.samples.len() - 1]
    }
}

/// Adds the scenario's flows and says which service each belongs to.
fn add_flows<O: Observer>(
    scenario: &Scenario,
    classes: &Classes,
    rng: &mut StdRng,
    world: &mut World<O>,
) -> Result<Vec<(FlowId, ServiceId)>, RunError> {
    let policy = scenario.policy();
    let classifier = Classifier::new(policy.services().classification_order(), None)?;
    let mut flows = Vec::new();
    for traffic in scenario.traffic() {
        let service = traffic.service;
        for (from, to) in traffic.pairs() {
            for _ in 0..traffic.flows {
                let jitter = Duration::from_nanos(rng.random_range(0..START_SPREAD.nanos()));
                let headers = headers(policy, &classifier, service, (from, to), rng.random_range(EPHEMERAL_PORTS));
                let (Some(headers), Some(class)) = (headers, classes.of(service)) else {
                    return Err(RunError::Unclassified {
                        service: policy.services().get(service).path().to_owned(),
                        from: policy.network().machine(from).name().to_owned(),
                        to: policy.network().machine(to).name().to_owned(),
                    });
                };
                let spec = FlowSpec {
                    from: HostId(from.0),
                    to: HostId(to.0),
                    class,
                    start: SimTime::from(traffic.start + jitter),
                    stop: SimTime::from(traffic.stop),
                    size: None,
                    hash: flow_hash(&headers),
                    priority: 0,
                    deadline: None,
                };
                flows.push((world.add_flow(spec, &Parameters::default()), service));
            }
        }
    }
    Ok(flows)
}

/// The headers of a flow of `service`, as the classifier sees them; `None` if no filter takes such packets.
fn headers(
    policy: &Policy,
    classifier: &Classifier,
    service: ServiceId,
    (from, to): (MachineId, MachineId),
    source_port: u16,
) -> Option<Fields> {
    let with = |filter: &Match| {
        let mut fields = Fields {
            source: address(policy, from),
            destination: address(policy, to),
            protocol: Protocol::TCP,
            ports: Some((source_port, filter.ports.map_or(DEFAULT_PORT, |(first, _)| first))),
            dscp: filter.dscp.unwrap_or(0),
            vni: filter.vni,
        };
        if let Some(prefix) = filter.address
            && !prefix.contains(&fields.source)
            && !prefix.contains(&fields.destination)
        {
            // The service's address, at the machine that serves.
            fields.destination = prefix.addr();
            if fields.source.is_ipv4() != fields.destination.is_ipv4() {
                fields.source = IpAddr::V6(std::net::Ipv6Addr::from(0xfd00_u128 << 112 | u128::from(from.0)));
            }
        }
        fields
    };
    policy.services().get(service).matches().iter().find_map(|filter| {
        let fields = with(filter);
        (filter.interface.is_some() || classifier.classify_fields(&fields) == Some(service)).then_some(fields)
    })
}

/// A machine's address: its policy's, or one of 10.0.0.0/8 by number.
fn address(policy: &Policy, machine: MachineId) -> IpAddr {
    let fallback = IpAddr::V4(Ipv4Addr::from(0x0a00_0001 + machine.0));
    policy.network().machine(machine).address().unwrap_or(fallback)
}

/// A hash of the five things that ECMP distinguishes flows by.
fn flow_hash(fields: &Fields) -> u32 {
    let fold = |address: IpAddr| match address {
        IpAddr::V4(address) => u32::from(address),
        IpAddr::V6(address) => address
            .octets()
            .chunks_exact(4)
            .fold(0, |hash, word| mix(hash ^ word.iter().fold(0, |word, &byte| word << 8 | u32::from(byte)))),
    };
    let (source, destination) = fields.ports.unwrap_or_default();
    let ports = u32::from(source) << 16 | u32::from(destination);
    [fold(fields.source), fold(fields.destination), u32::from(fields.protocol.0), ports]
        .into_iter()
        .fold(0, |hash, part| mix(hash ^ part))
}
