//! [`Bounds`]: the worst case of each level at each port, and of each service.

use super::traffic::{LevelNetwork, Levelled, Sizes, waiting};
use crate::calculus::{Cycle, LevelTraffic, NetworkBound, PortClass, PortKind, SenderMask};
use weir_policy::{Level, LevelRates, LevelSettings, Policy, WorstLatency};
use weir_units::{Bandwidth, Bytes, Duration, ServiceId};

/// A level on a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelBound {
    /// From the release of a frame by its regulator to the arrival of its last bit; `None` for an unbounded level.
    pub path: Option<Duration>,
    /// The first port at which it has no bound, and its load there: an index into the network's classes of ports.
    pub unbounded_at: Option<usize>,
    /// The largest backlog of its traffic at a port of a switch, and that port.
    pub backlog: Option<(Bytes, usize)>,
    /// The first port whose buffer is smaller than its backlog there.
    pub overflows: Option<usize>,
}

/// A premise of a service's bound that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Premise {
    /// The network has no bound on its level.
    Unbounded,
    /// A frame of the level cannot carry payload.
    Frame,
    /// Another service on its level states no messages, so the time that these wait is not known.
    Unknown(ServiceId),
    /// The messages of its level at a host need more than the level's rate.
    Rate {
        /// On the wire, of all services of the level at a host.
        needed: Bandwidth,
        /// The rate of the level at that host: that of the level, or the sum of its services' maxima.
        most: Bandwidth,
    },
}

/// The worst case of a service's messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceBound {
    /// The service.
    pub service: ServiceId,
    /// Its level.
    pub level: Level,
    /// Its target, if it has one.
    pub target: Option<WorstLatency>,
    /// The rate on the wire of all messages of its level at a host that has it, at most.
    pub needed: Bandwidth,
    /// The longest wait of a message in its host.
    pub wait: Duration,
    /// The time of a message, or of a message and its answer; or the premise that does not hold. `None` without a
    /// target.
    pub worst: Option<Result<Duration, Premise>>,
}

impl ServiceBound {
    /// Whether its target is kept; `true` without one.
    pub fn is_kept(&self) -> bool {
        match (&self.target, &self.worst) {
            (Some(target), Some(worst)) => worst.is_ok_and(|worst| worst <= target.worst),
            _ => true,
        }
    }
}

/// The bounds of a policy's levels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// By level, the most urgent first.
    pub levels: Vec<LevelBound>,
    /// Services on levels, in id order.
    pub services: Vec<ServiceBound>,
    /// The bounds at each class of ports.
    pub network: NetworkBound,
}

impl Bounds {
    /// The bounds of a policy's levels, which are numbered.
    ///
    /// # Errors
    /// [`Cycle`] if ports depend on each other.
    ///
    /// # Panics
    /// If a service's level is still `auto`, or the policy has no levels.
    pub fn of(policy: &Policy, network: &LevelNetwork, sizes: Sizes) -> Result<Self, Cycle> {
        let levels = policy.levels().expect("a policy with levels");
        let level_of = |service: &Levelled| policy.level_of(service.id).expect("a numbered level");
        let traffic = |(index, level): (usize, &LevelRates)| LevelTraffic {
            senders: senders_of(network.services.iter().filter(|service| level_of(service).index() == index)),
            burst: level.burst,
            rate: level.rate,
        };
        let traffic: Vec<LevelTraffic> = levels.all().iter().enumerate().map(traffic).collect();
        Self::new(network, levels.settings(), sizes, &traffic, level_of)
    }

    /// The bounds of levels, with the services on them.
    pub(super) fn new(
        network: &LevelNetwork,
        settings: &LevelSettings,
        sizes: Sizes,
        traffic: &[LevelTraffic],
        level_of: impl Fn(&Levelled) -> Level,
    ) -> Result<Self, Cycle> {
        let found = network.bounds(settings, sizes, traffic)?;
        let ports = &network.routes()?.ports;
        let bounds: Vec<LevelBound> = (0..traffic.len()).map(|level| level_bound(level, ports, &found)).collect();
        let service = |service: &Levelled| {
            let level = level_of(service);
            let path = bounds[level.index()].path;
            let others = || network.services.iter().filter(|other| level_of(other) == level);
            of_service(network, (settings, sizes), (service, level), &traffic[level.index()], path, others)
        };
        let services = network.services.iter().map(service).collect();
        Ok(Self { levels: bounds, services, network: found })
    }

    /// Whether every target is kept and every backlog fits its buffer.
    pub fn is_kept(&self) -> bool {
        self.services.iter().all(ServiceBound::is_kept) && self.levels.iter().all(|level| level.overflows.is_none())
    }
}

fn level_bound(level: usize, ports: &[PortClass], found: &NetworkBound) -> LevelBound {
    let mut backlog: Option<(Bytes, usize)> = None;
    let mut overflows = None;
    for (index, (port, bounds)) in ports.iter().zip(&found.ports).enumerate() {
        let Some(bound) = bounds[level].filter(|_| port.kind != PortKind::Interface) else { continue };
        if backlog.is_none_or(|(most, _)| bound.backlog > most) {
            backlog = Some((bound.backlog, index));
        }
        if port.buffer.is_some_and(|buffer| bound.backlog > buffer) {
            overflows = overflows.or(Some(index));
        }
    }
    LevelBound { path: found.paths[level], unbounded_at: found.unbounded_at[level], backlog, overflows }
}

/// The worst case of one service beside the `others` on its level, itself included.
fn of_service<'a, I: Iterator<Item = &'a Levelled>>(
    network: &LevelNetwork,
    (settings, sizes): (&LevelSettings, Sizes),
    (service, level): (&Levelled, Level),
    rates: &LevelTraffic,
    path: Option<Duration>,
    others: impl Fn() -> I,
) -> ServiceBound {
    let (mut wait, mut needed) = (Duration::ZERO, 0u64);
    let mut premise = None;
    let mut excess = None;
    let message = service.target.map_or(Bytes::ZERO, |target| target.message);
    // Of the hosts of the service, the one where messages wait longest decides.
    let hosts = network.hosts.iter().filter(|(host, _)| host & service.senders != 0);
    for &(host, _) in hosts {
        let (mut here, mut rate) = (0u64, 0u64);
        let mut maxima = Bandwidth::ZERO;
        for other in others().filter(|other: &&Levelled| other.senders & host != 0) {
            // A maximum of a service that may not run here would shorten waits.
            if !other.is_merged() || other.id == service.id {
                maxima += other.max;
            }
            let Some(target) = other.target else {
                premise = premise.or(Some(Premise::Unknown(other.id)));
                continue;
            };
            match (network.wire_bytes(settings, target.message), network.wire_rate(settings, &target)) {
                (Some(bytes), Some(bps)) => (here, rate) = (here.saturating_add(bytes), rate.saturating_add(bps.bps())),
                _ => premise = Some(Premise::Frame),
            }
        }
        let (at_once, most) = network.release((settings, sizes), (rates.burst, rates.rate.min(maxima)), message);
        if rate > most.bps() {
            excess = excess.or(Some(Premise::Rate { needed: Bandwidth::from_bps(rate), most }));
        }
        needed = needed.max(rate);
        wait = wait.max(waiting(here, at_once, most).unwrap_or(Duration::ZERO));
    }
    let premise = excess.or(premise);
    let worst = service.target.map(|target| {
        let path = path.ok_or(Premise::Unbounded)?;
        let one_way = wait + path;
        let worst = if target.round_trip { one_way * 2 } else { one_way };
        premise.map_or(Ok(worst), Err)
    });
    ServiceBound {
        service: service.id,
        level,
        target: service.target,
        needed: Bandwidth::from_bps(needed),
        wait,
        worst,
    }
}

/// The sets of services.
pub(super) fn senders_of<'a>(services: impl IntoIterator<Item = &'a Levelled>) -> SenderMask {
    services.into_iter().fold(0, |mask, service| mask | service.senders)
}
