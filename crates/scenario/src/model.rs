//! The valid scenario.
//!
//! A scenario has a [`Graph`] whether it runs over the network of a policy ([`Governed`]) or over one of its own, and
//! [`Traffic`], [`NetworkEvent`]s and a [`Measurement`] on that graph. What only policies have (services' long-lived
//! transfers as the lab runs them, enforcement, the measured rack) stands in [`Governed`].

use crate::governed::{Enforcement, Governed};
use crate::graph::{Graph, LinkRef, PRIORITIES, QueueSpec};
use std::path::Path;
use std::sync::Arc;
use weir_document::Diagnostic;
use weir_policy::Policy;
use weir_transport::Parameters;
use weir_units::{Bandwidth, Bytes, Direction, Duration, MachineId, RackId, ServiceId};
use weir_workload::Spec;

/// A scenario that can be run: every name is resolved and every number is in range.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub(crate) name: String,
    pub(crate) seed: u64,
    pub(crate) duration: Duration,
    pub(crate) graph: Arc<Graph>,
    pub(crate) entries: Vec<Traffic>,
    pub(crate) events: Vec<NetworkEvent>,
    pub(crate) measurement: Measurement,
    pub(crate) governed: Option<Governed>,
    /// Why the lab cannot run it.
    pub(crate) simulator_only: Option<String>,
    /// Why the simulator cannot run it, and where that is written.
    pub(crate) lab_only: Option<Diagnostic>,
}

impl Scenario {
    /// The name in the file, used for result files and namespaces: letters, digits and dashes.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The seed where none is given on the command line.
    pub fn seed(&self) -> u64 {
        self.seed
    }
    /// How long traffic runs at most; more than zero.
    pub fn duration(&self) -> Duration {
        self.duration
    }
    /// The network: the policy's, or the scenario's own.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }
    /// What is sent: the entries of `traffic`, in file order, at least one.
    pub fn entries(&self) -> &[Traffic] {
        &self.entries
    }
    /// What happens to links, by time; in file order where times are equal.
    pub fn events(&self) -> &[NetworkEvent] {
        &self.events
    }
    /// Which links are watched, and how often.
    pub fn measurement(&self) -> &Measurement {
        &self.measurement
    }
    /// What it has because it runs under a policy; `None` where the network is its own.
    pub fn governed(&self) -> Option<&Governed> {
        self.governed.as_ref()
    }
    /// Why only the simulator can run it, in one clause; `None` where the lab can, too.
    pub fn simulator_only(&self) -> Option<&str> {
        self.simulator_only.as_deref()
    }

    /// What only the lab can run, with its place; `None` where the simulator can, too.
    pub fn lab_only(&self) -> Option<&Diagnostic> {
        self.lab_only.as_ref()
    }
    /// The leaf services that send, in id order.
    pub fn sending(&self) -> Vec<ServiceId> {
        let entries = self.entries.iter().filter_map(|entry| entry.service);
        let mut all: Vec<_> = entries.chain(self.applications().iter().map(|own| own.service)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
    /// The names of all that is sent: of entries and of applications.
    pub fn names(&self) -> Vec<&str> {
        let applications = self.applications().iter().map(|own| own.name.as_str());
        self.entries.iter().map(|entry| entry.name.as_str()).chain(applications).collect()
    }

    /// What a policy has, for those who take only such scenarios.
    fn under_policy(&self) -> &Governed {
        match &self.governed {
            Some(governed) => governed,
            None => panic!("scenario {} has no policy", self.name),
        }
    }
    /// The policy, already valid.
    ///
    /// # Panics
    /// If the scenario has none; see [`Scenario::governed`].
    pub fn policy(&self) -> &Arc<Policy> {
        &self.under_policy().policy
    }
    /// The file that the policy came from (agents of the lab read it again).
    ///
    /// # Panics
    /// If the scenario has no policy; see [`Scenario::governed`].
    pub fn policy_path(&self) -> &Path {
        &self.under_policy().policy_path
    }
    /// What enforces the policy; nothing where there is none.
    pub fn enforcement(&self) -> Enforcement {
        self.governed.as_ref().map_or(Enforcement::None, |governed| governed.enforcement)
    }
    /// The links that the policy does not speak about.
    ///
    /// # Panics
    /// If the scenario has no policy; see [`Scenario::governed`].
    pub fn links(&self) -> Links {
        self.under_policy().links
    }
    /// From when on switches' ports mark: where the scenario does not say and hosts are shaped, Parley's threshold.
    ///
    /// # Panics
    /// If the scenario has no policy; see [`Scenario::governed`].
    pub fn marks_above(&self) -> Option<Bytes> {
        let written = self.links().queue.mark;
        let shaped = self.enforcement() != Enforcement::None;
        written.or(shaped.then_some(crate::governed::MARK))
    }
    /// The services' long-lived transfers, in file order: all traffic unless [`Scenario::simulator_only`] says more; none
    /// where there is no policy.
    pub fn transfers(&self) -> &[ServiceTransfers] {
        self.governed.as_ref().map_or(&[], |governed| &governed.transfers)
    }
    /// Messages that are sent in rounds, in file order: what the lab sends beside transfers.
    pub fn messages(&self) -> impl Iterator<Item = &Traffic> {
        self.entries.iter().filter(|entry| matches!(entry.spec, Spec::Rounds(_)))
    }
    /// Real servers and clients, in file order; none where there is no policy.
    pub fn applications(&self) -> &[Application] {
        self.governed.as_ref().map_or(&[], |governed| &governed.applications)
    }
    /// What is measured.
    ///
    /// # Panics
    /// If the scenario has no policy; see [`Scenario::measurement`].
    pub fn measure(&self) -> Measure {
        self.under_policy().measure
    }
}

/// An entry of `traffic`.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// Its name in results, unique in the scenario.
    pub name: String,
    /// The leaf service that the packets belong to; always there under a policy, never without.
    pub service: Option<ServiceId>,
    /// How its flows are sent.
    pub transport: Parameters,
    /// The class of its packets in queues that have classes, below [`PRIORITIES`]; 0 is the most urgent.
    pub priority: u8,
    /// Which flows start when, between whom, of what size.
    pub spec: Spec,
    /// How many connections between two hosts carry its flows, as messages that wait for each other; `None` for a connection
    /// of its own for each flow. Only for transports that are streams, and flows that have a size.
    pub connections: Option<u32>,
}

/// Something that happens to links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkEvent {
    /// When, since the start; not after the end.
    pub at: Duration,
    /// The links, at least one, each once.
    pub links: Vec<LinkRef>,
    /// What happens to each of them.
    pub change: Change,
}

/// What happens to a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It loses what is on it and takes nothing more.
    Down,
    /// It carries packets again.
    Up,
    /// It has this rate from then on; more than zero.
    Rate(Bandwidth),
    /// Its queue, a deficit round robin, has these weights from then on; each at least 1.
    Weights([u32; PRIORITIES]),
}

/// Which links are watched, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measurement {
    /// Length of one sample; more than zero, at most the duration.
    pub every: Duration,
    /// The links, each once.
    pub links: Vec<LinkRef>,
}

/// Properties of links and ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Links {
    /// One-way propagation delay of each link.
    pub delay: Duration,
    /// The queue of each switch port; its buffer holds at least one packet.
    pub queue: QueueSpec,
    /// The largest IP packet, headers included.
    pub mtu: Bytes,
    /// Spine switches; a rack's uplink speed is divided evenly over them.
    pub spines: u32,
}

impl Default for Links {
    /// 10 µs, drop-tail with 256 kB, 1500 B, one spine.
    fn default() -> Self {
        Self { delay: Duration::from_micros(10), queue: QueueSpec::default(), mtu: Bytes::new(1500), spines: 1 }
    }
}

/// Long-lived transfers of one service, as the lab runs them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceTransfers {
    /// The leaf service that the packets belong to.
    pub service: ServiceId,
    /// The sending machines, ascending, at least one.
    pub from: Vec<MachineId>,
    /// The receiving machines, ascending, at least one.
    pub to: Vec<MachineId>,
    /// Who sends to whom.
    pub pattern: Pattern,
    /// Connections for each pair of machines, at least 1.
    pub flows: u32,
    /// The rate of each flow where they are UDP, headers included: that of the sender's interface where it says none. TCP
    /// otherwise.
    pub udp: Option<Option<Bandwidth>>,
    /// When they start.
    pub start: Duration,
    /// When they stop; after `start`, at most the scenario's duration.
    pub stop: Duration,
}

impl ServiceTransfers {
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

/// A real server with clients that ask it, as the lab runs them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    /// Its name in results, unique in the scenario.
    pub name: String,
    /// The leaf service that the packets belong to.
    pub service: ServiceId,
    /// The clients' machines, ascending, at least one; not the server's.
    pub from: Vec<MachineId>,
    /// The server's machine.
    pub to: MachineId,
    /// Connections of each client, at least 1.
    pub connections: u32,
    /// Bytes of the value that a request asks for, at least 1.
    pub value: Bytes,
    /// The mean time between two requests of a connection (exponential); more than zero.
    pub gap: Duration,
    /// When the first request comes.
    pub start: Duration,
    /// No request comes from then on; after `start`, at most the scenario's duration.
    pub stop: Duration,
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
