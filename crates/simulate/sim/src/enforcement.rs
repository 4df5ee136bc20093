//! The enforcement of a scenario's policy: none, machine shapers, EyeQ's, or shapers with brokers;
//! and its events.
//!
//! | enforcement | machine shapers | brokers |
//! |---|---|---|
//! | `none` | none | none |
//! | `shaper` | Parley's | none: each machine enforces the policy's limits for machines |
//! | `eyeq` | EyeQ's, with its interface meter above the root limiters | none |
//! | `parley` | Parley's | on every machine |
//! | `levels` | none | none: the policy's latency levels alone |
//! | `qshare` | Parley's | none: tenants are bound to queues of the switches |
//! | `static`, `elasticswitch`, … ([`PairSystem`]) | none | none: hosts limit pairs of machines of tenants |
//!
//! Latency levels are in force under `shaper`, `parley` and `qshare`, too: regulators at hosts, and strict priorities
//! at ports.
//!
//! With shapers or limits of pairs, switches mark: queues whose scenario gives no threshold mark above 80 kB (Parley,
//! Table 1). These marks are their only signal of congestion in the network.
//!
//! Worked example: under `shaper` a service with `machine: { rx: { max: 9Gb/s } }` receives 9 Gb/s
//! at each machine, from any set of senders.

use crate::brokers::{Brokers, Exchange, ServiceIndices};
use crate::ids::HostId;
use crate::levels::{LevelBounds, LevelParts};
use crate::observer::Observer;
use crate::pairs::{self, PairClock};
use crate::tenants::{self, TenantControl};
use crate::world::{Delivery, World};
use rand::rngs::StdRng;
use std::borrow::Cow;
use std::sync::Arc;
use weir_binding::binder::BinderCounters;
use weir_latency::calculus::Routes;
use weir_latency::levels::{Bounds, LevelBound, LevelNetwork, Sizes};
use weir_network::Graph;
use weir_network::graph::Discipline;
use weir_pair_rates::PairSystem;
use weir_policy::Policy;
use weir_scenario::{ControlChange, ControlEvent, Enforcement, Governed, MARK};
use weir_shaping::{MachinePlan, ShaperConfig, shared_queue_system};
use weir_units::{Duration, MachineId, SimTime};

/// The network with the marks and the priorities that an enforcement needs.
pub(crate) fn marked<'a>(graph: &'a Graph, governed: Option<&Governed>) -> Cow<'a, Graph> {
    let Some(governed) = governed else { return Cow::Borrowed(graph) };
    let pairs = governed.enforcement.pairs();
    let marks = governed.enforcement.marks();
    let levels = has_levels(governed) && governed.levels.priorities;
    let priorities = levels || pairs.is_some_and(PairSystem::has_priorities);
    if !marks && !priorities {
        return Cow::Borrowed(graph);
    }
    let mut graph = graph.clone();
    let downs = graph.hosts.iter_mut().map(|host| &mut host.down);
    let cables = graph.cables.iter_mut().flat_map(|cable| [&mut cable.a_to_b, &mut cable.b_to_a]);
    for link in downs.chain(cables) {
        if marks {
            link.queue.mark = link.queue.mark.or(Some(MARK));
        }
        if priorities && link.queue.discipline == Discipline::Fifo {
            link.queue.discipline = Discipline::StrictPriority;
        }
    }
    Cow::Owned(graph)
}

/// A policy with its tenants in their places.
fn placed(governed: &Governed, policy: &Arc<Policy>) -> Arc<Policy> {
    match &governed.tenants {
        Some(tenancy) => Arc::new(policy.with_places(|tenant| tenancy.machines(tenant))),
        None => Arc::clone(policy),
    }
}

/// The system that limits pairs of tenants: under `qshare` that of tenants in the shared queue, if they are elastic.
fn pair_system(governed: &Governed) -> Option<PairSystem> {
    match governed.enforcement {
        Enforcement::QShare => shared_queue_system(&governed.policy),
        enforcement => enforcement.pairs(),
    }
}

/// Whether the policy's latency levels are in force.
pub(crate) fn has_levels(governed: &Governed) -> bool {
    let enforced = matches!(
        governed.enforcement,
        Enforcement::Levels | Enforcement::Shaper | Enforcement::Parley | Enforcement::QShare
    );
    enforced && governed.policy.levels().is_some()
}

/// Puts the latency levels of a scenario's policy in force, with their bounds on its network. Hosts hold a frame for up
/// to `jitter`.
pub(crate) fn set_levels<O: Observer>(governed: &Governed, graph: &Arc<Graph>, jitter: SimTime, world: &mut World<O>) {
    if !has_levels(governed) {
        return;
    }
    let policy = &governed.policy;
    let graph = Arc::new(Graph { jitter: jitter.duration() + Duration::from_nanos(1), ..(**graph).clone() });
    let network = LevelNetwork::on(policy, graph);
    let bounds = match (network.routes(), Bounds::of(policy, &network, Sizes::Frames)) {
        (Ok(routes), Ok(bounds)) => level_bounds(routes, &bounds, world),
        _ => LevelBounds::default(),
    };
    let plan = |machine: u32| Arc::new(MachinePlan::new(policy, MachineId(machine)));
    let plans: Vec<Arc<MachinePlan>> = (0..world.host_count() as u32).map(plan).collect();
    let switches = &governed.levels;
    let parts = LevelParts { regulators: switches.regulators, priorities: switches.priorities };
    let without: Vec<HostId> = switches.disobedient.iter().map(|machine| HostId(machine.0)).collect();
    world.set_levels(&plans, parts, &without, bounds);
}

/// The bounds of all ports, from those of their classes.
fn level_bounds<O: Observer>(routes: &Routes, bounds: &Bounds, world: &World<O>) -> LevelBounds {
    let count = bounds.levels.len();
    let path = |level: &LevelBound| level.path.map_or(SimTime::NEVER, SimTime::from);
    let mut backlogs = vec![u64::MAX; world.ports().len() * count];
    let mut class_of = vec![None; world.ports().len()];
    for (link, class) in &routes.class_of {
        let port = world.port_of(*link);
        class_of[port.index()] = Some(*class);
        for (level, bound) in bounds.network.ports[*class].iter().enumerate() {
            let bytes = bound.map_or(u64::MAX, |bound| bound.backlog.get());
            backlogs[port.index() * count + level] = bytes;
        }
    }
    let classes = routes.ports.iter().map(|class| class.example).collect();
    LevelBounds { paths: bounds.levels.iter().map(path).collect(), backlogs, class_of, classes }
}

/// The enforcement of a run's policy.
#[derive(Debug)]
pub(crate) struct Enforcer<'a> {
    governed: &'a Governed,
    /// The policy in force.
    policy: Arc<Policy>,
    /// The interval that an event gave all receive meters.
    interval: Option<Duration>,
    brokers: Option<Brokers>,
    tenants: Option<TenantControl>,
    pairs: Option<PairClock>,
    /// The pending events, next first.
    events: std::slice::Iter<'a, ControlEvent>,
}

impl<'a> Enforcer<'a> {
    /// Puts the enforcement of a scenario in force.
    pub(crate) fn new<O: Observer>(
        governed: &'a Governed,
        graph: &Graph,
        rng: &mut StdRng,
        world: &mut World<O>,
    ) -> Self {
        let policy = placed(governed, &governed.policy);
        let events = governed.events.iter();
        let mut enforcer = Self { governed, policy, interval: None, brokers: None, tenants: None, pairs: None, events };
        enforcer.set_shapers(world);
        if let Some(tenancy) = &governed.tenants {
            let indices = ServiceIndices::new(&governed.policy);
            let services = tenants::services(&governed.policy, |service| indices.of(service));
            let system = pair_system(governed);
            if let Some(system) = system {
                world.set_pairs(system, &pairs::hoses(tenancy, &services));
                enforcer.pairs = Some(PairClock::new(system));
            }
            if governed.enforcement == Enforcement::QShare {
                let control = TenantControl::new(&governed.policy, tenancy, graph, services, world);
                enforcer.tenants = Some(control);
            } else {
                tenants::confine(tenancy, &services, world);
            }
        }
        if governed.enforcement == Enforcement::Parley {
            enforcer.brokers = Some(Brokers::new(&governed.policy, &governed.brokers, rng, world));
        }
        enforcer
    }

    /// Applies the policy in force to the machines.
    fn set_shapers<O: Observer>(&self, world: &mut World<O>) {
        let settings = &self.governed.shaper;
        let mut config = match self.governed.enforcement {
            Enforcement::None | Enforcement::Levels | Enforcement::Pairs(_) => return,
            Enforcement::EyeQ => ShaperConfig::eyeq(&self.policy, settings.interval, settings.burst),
            Enforcement::Shaper | Enforcement::Parley => {
                ShaperConfig::parley(&self.policy, settings.interval, settings.burst)
            }
            Enforcement::QShare => ShaperConfig::qshare(&self.policy, settings.interval, settings.burst),
        };
        if let Some(interval) = self.interval {
            config.services.iter_mut().for_each(|service| service.interval = interval);
        }
        let limits = (self.governed.enforcement == Enforcement::Shaper).then(|| config.machines.clone());
        world.set_shapers(config);
        let indices = ServiceIndices::new(&self.policy);
        for (host, plan) in (0..).map(HostId).zip(limits.iter().flatten()) {
            for ((_, index), leaf) in indices.iter().zip(&plan.leaves) {
                world.set_limit(host, index, leaf.shares.tx.share.max);
            }
        }
    }

    /// The time of the next action.
    pub(crate) fn next(&self) -> Option<SimTime> {
        let event = self.events.as_slice().first().map(|event| SimTime::from(event.at));
        let broker = self.brokers.as_ref().and_then(Brokers::next_timeout);
        let tenants = self.tenants.as_ref().map(TenantControl::next);
        let pairs = self.pairs.as_ref().map(PairClock::next);
        [event, broker, tenants, pairs].into_iter().flatten().min()
    }

    /// Performs the due actions: first the events of the policy and of brokers, then the brokers'
    /// own.
    pub(crate) fn on_time<O: Observer>(&mut self, world: &mut World<O>) {
        while let Some(event) = self.events.as_slice().first()
            && SimTime::from(event.at) <= world.now()
        {
            self.events.next();
            self.change(&event.change, world);
        }
        if let Some(brokers) = &mut self.brokers {
            brokers.on_time(world);
        }
        if let Some(tenants) = &mut self.tenants {
            tenants.on_time(world);
        }
        if let Some(pairs) = &mut self.pairs {
            pairs.on_time(world);
        }
    }

    fn change<O: Observer>(&mut self, change: &ControlChange, world: &mut World<O>) {
        match change {
            ControlChange::ShaperInterval(interval) => {
                self.interval = Some(*interval);
                world.set_meter_interval(*interval);
            }
            ControlChange::Policy(change) => {
                self.policy = placed(self.governed, &change.policy);
                self.set_shapers(world);
                if let Some(brokers) = &mut self.brokers {
                    brokers.set_policy(&self.policy, world);
                }
            }
            ControlChange::Crash(set) => {
                if let Some(brokers) = &mut self.brokers {
                    brokers.crash(set);
                }
            }
            ControlChange::Restart(set) => {
                if let Some(brokers) = &mut self.brokers {
                    brokers.restart(set, world.now().instant());
                }
            }
        }
    }

    /// Hands over a control datagram that has arrived.
    pub(crate) fn on_delivery<O: Observer>(&mut self, delivery: &Delivery, world: &mut World<O>) {
        if let Some(brokers) = &mut self.brokers {
            brokers.on_delivery(delivery, world);
        }
    }

    /// Counts of the datagrams that the brokers exchanged.
    pub(crate) fn exchange(&self) -> Exchange {
        self.brokers.as_ref().map(Brokers::exchange).unwrap_or_default()
    }

    /// Counters of the tenants' controller; `None` without tenants in queues.
    pub(crate) fn binding(&self) -> Option<BinderCounters> {
        self.tenants.as_ref().map(TenantControl::counters)
    }
}
