//! The part of a scenario that depends on a policy: enforcement, timing, and events.

use crate::model::{Application, Measure, ServiceTransfers};
use crate::tenancy::Tenancy;
use std::path::PathBuf;
use std::sync::Arc;
use weir_network::graph::{Discipline, Graph, LinkRef};
use weir_network::topology::Links;
use weir_pair_rates::PairSystem;
use weir_policy::Policy;
use weir_units::{Bytes, Duration, MachineId, ServiceId};

/// The part of a scenario that depends on a policy.
#[derive(Debug, Clone)]
pub struct Governed {
    /// The policy, already valid.
    pub policy: Arc<Policy>,
    /// The policy's file.
    pub policy_path: PathBuf,
    /// The enforcement of the policy.
    pub enforcement: Enforcement,
    /// The parts of the enforcement of latency levels.
    pub levels: LevelSwitches,
    /// The tenants and their places, under an enforcement that places them.
    pub tenants: Option<Tenancy>,
    /// The parameters of machine shapers whose policy gives none.
    pub shaper: ShaperSettings,
    /// The timing of brokers.
    pub brokers: BrokerSettings,
    /// The events of the policy and of its enforcement, by time; in file order where times are
    /// equal.
    pub events: Vec<ControlEvent>,
    /// The links between the policy's racks; `None` over a topology, which has links of its own.
    pub links: Option<Links>,
    /// The services' long-lived transfers, in file order.
    pub transfers: Vec<ServiceTransfers>,
    /// Real servers and clients, in file order; only the lab runs them.
    pub applications: Vec<Application>,
    /// The measured rack.
    pub measure: Measure,
}

impl Governed {
    /// The path of a service, such as `dfs/hbase`.
    pub fn service_path(&self, service: ServiceId) -> &str {
        self.policy.services().get(service).path()
    }
}

/// The queues of simulated ports for credits beside other traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreditQueues {
    /// None: the policy's switches have none, or nothing enforces the policy.
    Unneeded,
    /// None, although the policy's switches have some: ports keep other queues.
    Kept(KeptQueues),
    /// Those of the policy's switches, at all ports of switches.
    OfPolicy,
}

/// The queues that simulated ports keep in place of those for credits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptQueues {
    /// A port of a switch has a discipline other than first in, first out. All ports then keep theirs: packets have
    /// either the DSCP values of credits or the classes of such a discipline.
    Disciplines,
    /// Switches serve guaranteed traffic of pairs first.
    PairPriorities(PairSystem),
}

impl Governed {
    /// The queues of the ports of `graph` for credits.
    pub fn credit_queues(&self, graph: &Graph) -> CreditQueues {
        let has_queue = self.policy.network().forwarders() && self.policy.credit_queue().is_some();
        let is_other = |link| graph.link(link).queue.discipline != Discipline::Fifo;
        if !has_queue || self.enforcement == Enforcement::None {
            return CreditQueues::Unneeded;
        }
        match self.enforcement {
            // Tenants' queues replace all others.
            Enforcement::QShare => CreditQueues::OfPolicy,
            Enforcement::Pairs(system) if system.has_priorities() => {
                CreditQueues::Kept(KeptQueues::PairPriorities(system))
            }
            _ if graph.links().any(|link| !matches!(link, LinkRef::Up(_)) && is_other(link)) => {
                CreditQueues::Kept(KeptQueues::Disciplines)
            }
            _ => CreditQueues::OfPolicy,
        }
    }
}

/// The marking threshold of switches' queues where a scenario gives none and machine shapers use
/// marks (Parley, Table 1).
pub const MARK: Bytes = Bytes::new(80_000);

/// The enforcement of the policy during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Enforcement {
    /// Nothing: the transport shares the links as it would without Weir.
    None,
    /// Machine shapers alone: the policy's limits for machines.
    Shaper,
    /// Machine shapers with EyeQ's constants; no brokers.
    EyeQ,
    /// The policy's latency levels alone.
    Levels,
    /// Machine shapers, and tenants bound to queues of the switches.
    QShare,
    /// Hosts limit pairs of machines of tenants under one of the systems that QShare is compared with.
    Pairs(PairSystem),
    /// Machine shapers with rack brokers, and with the fabric broker if the policy limits the
    /// fabric (the default).
    #[default]
    Parley,
}

impl Enforcement {
    /// Its keyword in scenarios and results.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Shaper => "shaper",
            Self::EyeQ => "eyeq",
            Self::Levels => "levels",
            Self::QShare => "qshare",
            Self::Pairs(system) => system.word(),
            Self::Parley => "parley",
        }
    }
}

impl Enforcement {
    /// Whether hosts have machine shapers.
    pub fn shapes(self) -> bool {
        !matches!(self, Self::None | Self::Levels | Self::Pairs(_))
    }
    /// Whether switches mark packets above [`MARK`] where a scenario gives no threshold.
    pub fn marks(self) -> bool {
        self.shapes() || self.pairs().is_some()
    }
    /// Whether it depends on the places of tenants.
    pub fn places_tenants(self) -> bool {
        matches!(self, Self::QShare | Self::Pairs(_))
    }
    /// Whether the policy's tenants, if it has any, are placed, so that this enforcement is compared with one that
    /// depends on their places.
    pub fn may_place_tenants(self) -> bool {
        self.places_tenants() || matches!(self, Self::None | Self::EyeQ)
    }
    /// The system that limits pairs of machines.
    pub fn pairs(self) -> Option<PairSystem> {
        match self {
            Self::Pairs(system) => Some(system),
            _ => None,
        }
    }
}

/// The parts of the enforcement of latency levels: all of them, unless a scenario takes one away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelSwitches {
    /// Hosts limit levels.
    pub regulators: bool,
    /// Ports serve levels first.
    pub priorities: bool,
    /// Hosts without an agent: nothing limits their traffic, and its class is that of the flow.
    pub disobedient: Vec<MachineId>,
}

impl Default for LevelSwitches {
    fn default() -> Self {
        Self { regulators: true, priorities: true, disobedient: Vec::new() }
    }
}

/// The parameters of machine shapers for services whose own `shaper` in the policy gives none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShaperSettings {
    /// The interval over which receive meters measure, more than zero; `None` for that of the
    /// enforcement.
    pub interval: Option<Duration>,
    /// The burst of a destination limiter after a pause; `None` for that of the enforcement.
    pub burst: Option<Bytes>,
}

/// The timing of brokers, and the machine of the fabric broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokerSettings {
    /// T_rack: how often usage is measured, reported and allocated in a rack; at least a
    /// millisecond.
    pub period: Duration,
    /// The time without any message after which a machine returns to the static policy; not shorter
    /// than the period.
    pub timeout: Duration,
    /// The period of messages between racks and the fabric broker; not shorter than the period.
    pub fabric_period: Duration,
    /// The time without a message from the fabric broker after which a rack drops its limits; not
    /// shorter than the fabric's period.
    pub fabric_timeout: Duration,
    /// The treatment of the last report of a silent machine.
    pub stale: Stale,
    /// The rule by which instances have limits.
    pub rule: BrokerRule,
    /// The machine of the fabric broker.
    pub fabric: MachineId,
}

impl Default for BrokerSettings {
    /// Parley, Table 1 and section 5.2: 1 s and 5 s in a rack, 10 s and 50 s for the fabric. On the
    /// first machine.
    fn default() -> Self {
        Self {
            period: Duration::from_secs(1),
            timeout: Duration::from_secs(5),
            fabric_period: Duration::from_secs(10),
            fabric_timeout: Duration::from_secs(50),
            stale: Stale::Keep,
            rule: BrokerRule::Ceilings,
            fabric: MachineId(0),
        }
    }
}

/// The treatment of the last report of a silent machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stale {
    /// It stays valid (the default).
    #[default]
    Keep,
    /// It is dropped after the timeout.
    Forget,
}

/// The rule by which brokers limit instances, and its timing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BrokerRule {
    /// Ceilings for all instances under a maximum and at a contended uplink; changes are reported at
    /// once (the default).
    #[default]
    Ceilings,
    /// Limits for backlogged instances, computed once a period (Parley §3.2.2).
    Published,
}

/// An event of the policy or of its enforcement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlEvent {
    /// The time since the start; not after the end.
    pub at: Duration,
    /// The action.
    pub change: ControlChange,
}

/// The action of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControlChange {
    /// All receive meters measure over this interval from then on; more than zero.
    ShaperInterval(Duration),
    /// This is the policy from then on: the same network and services as before, and valid.
    Policy(PolicyChange),
    /// These brokers crash and lose their state.
    Crash(BrokerSet),
    /// These brokers start anew with the limits in force, if those have not ended, whether they had
    /// crashed or not.
    Restart(BrokerSet),
}

/// A policy that replaces the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyChange {
    /// The change: a path in the policy's file, `=` and a value.
    pub setting: String,
    /// The policy with all changes until then.
    pub policy: Arc<Policy>,
}

/// The brokers of an event, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerSet {
    /// The machines of the rack brokers, ascending.
    pub machines: Vec<MachineId>,
    /// Whether the fabric broker is included.
    pub fabric: bool,
}
