//! The valid scenario.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_policy::Policy;
use weir_units::{Bytes, Direction, Duration, MachineId, RackId, ServiceId};

/// A scenario that can be run: every name is resolved and every number is in range.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub(crate) name: String,
    pub(crate) policy: Arc<Policy>,
    pub(crate) policy_path: PathBuf,
    pub(crate) seed: u64,
    pub(crate) duration: Duration,
    pub(crate) enforcement: Enforcement,
    pub(crate) links: Links,
    pub(crate) traffic: Vec<Traffic>,
    pub(crate) measure: Measure,
}

impl Scenario {
    /// The name in the file, used for result files and namespaces: letters, digits and dashes.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The policy, already valid.
    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }
    /// The file that the policy came from (agents of the lab read it again).
    pub fn policy_path(&self) -> &Path {
        &self.policy_path
    }
    /// The seed where none is given on the command line.
    pub fn seed(&self) -> u64 {
        self.seed
    }
    /// How long traffic runs; more than zero.
    pub fn duration(&self) -> Duration {
        self.duration
    }
    /// What enforces the policy.
    pub fn enforcement(&self) -> Enforcement {
        self.enforcement
    }
    /// The links that the policy does not speak about.
    pub fn links(&self) -> Links {
        self.links
    }
    /// What is sent, in file order.
    pub fn traffic(&self) -> &[Traffic] {
        &self.traffic
    }
    /// What is measured.
    pub fn measure(&self) -> Measure {
        self.measure
    }
}

/// What enforces the policy during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Enforcement {
    /// Rack brokers on every machine set the root limiters (the default).
    #[default]
    RackBroker,
    /// Nothing: the transport shares the links as it would without Weir.
    None,
}

/// Properties of links and ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Links {
    /// One-way propagation delay of each link.
    pub delay: Duration,
    /// Buffer of each switch port (drop-tail), at least one packet.
    pub buffer: Bytes,
    /// The largest IP packet, headers included.
    pub mtu: Bytes,
    /// Spine switches; a rack's uplink speed is divided evenly over them.
    pub spines: u32,
}

impl Default for Links {
    /// 10 µs, 256 kB, 1500 B, one spine.
    fn default() -> Self {
        Self { delay: Duration::from_micros(10), buffer: Bytes::new(256_000), mtu: Bytes::new(1500), spines: 1 }
    }
}

/// Long-lived TCP transfers of one service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traffic {
    /// The leaf service that the packets belong to.
    pub service: ServiceId,
    /// The sending machines, ascending, at least one.
    pub from: Vec<MachineId>,
    /// The receiving machines, ascending, at least one.
    pub to: Vec<MachineId>,
    /// Who sends to whom.
    pub pattern: Pattern,
    /// TCP connections for each pair of machines, at least 1.
    pub flows: u32,
    /// When they start.
    pub start: Duration,
    /// When they stop; after `start`, at most the scenario's duration.
    pub stop: Duration,
}

impl Traffic {
    /// The pairs (sender, receiver), never a machine to itself.
    pub fn pairs(&self) -> Vec<(MachineId, MachineId)> {
        match self.pattern {
            Pattern::FullMesh => self
                .from
                .iter()
                .flat_map(|&from| self.to.iter().map(move |&to| (from, to)))
                .filter(|(from, to)| from != to)
                .collect(),
            Pattern::Pairs => self.from.iter().copied().zip(self.to.iter().copied()).collect(),
        }
    }
}

/// Who sends to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pattern {
    /// Every sender to every receiver (the default).
    #[default]
    FullMesh,
    /// The i-th sender to the i-th receiver; the lists have the same length and no machine sends to itself.
    Pairs,
}

/// Where and how often bandwidth is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// The rack whose uplink is watched.
    pub rack: RackId,
    /// The direction, seen from the rack.
    pub direction: Direction,
    /// Length of one sample; more than zero, at most the duration.
    pub every: Duration,
}
