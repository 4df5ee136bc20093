//! The valid scenario.
//!
//! A scenario is a network, a [`Graph`], with [`Traffic`], [`NetworkEvent`]s and a [`Measurement`] on
//! it; optionally a policy and its enforcement ([`Governed`]), over the policy's network or over one of
//! the scenario's own. A scenario that the lab can run is a [`LabScenario`].

use crate::governed::{Enforcement, Governed};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use weir_document::Diagnostic;
use weir_network::graph::{Graph, LinkRef, PRIORITIES};
use weir_network::topology::Links;
use weir_policy::Policy;
use weir_transport::{Parameters, pace};
use weir_units::{Bandwidth, Bytes, Direction, Duration, MachineId, RackId, ServiceId, Weight};
use weir_workload::Spec;

/// A scenario that can be run: every name is resolved and every number is in range.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub(crate) name: String,
    pub(crate) seed: u64,
    pub(crate) duration: Duration,
    pub(crate) graph: Arc<Graph>,
    pub(crate) hosts: HostQueues,
    pub(crate) flow_groups: Vec<Traffic>,
    pub(crate) events: Vec<NetworkEvent>,
    pub(crate) measurement: Measurement,
    pub(crate) without_forwarder: Vec<usize>,
    pub(crate) aggregates: Option<Aggregates>,
    pub(crate) governed: Option<Governed>,
    /// The reason why the lab cannot run it.
    pub(crate) simulator_only: Option<String>,
    /// The reason why the simulator cannot run it, and its position.
    pub(crate) lab_only: Option<Diagnostic>,
}

/// The interfaces of hosts: their order, and how much of a flow waits there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostQueues {
    /// The order of departures.
    pub order: HostOrder,
    /// The most bytes of a flow in its host. `None`: no limit in a FIFO; in fair interfaces two packets, or under a
    /// policy as much as Linux allows.
    pub flow_limit: Option<Bytes>,
}

/// Credits of aggregates: the data of a service from one host to another is one flow with credits, whatever its
/// transports.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregates {
    /// The settings of ports and hosts. `share` is R as a part of each link.
    pub parameters: pace::Parameters,
    /// The weights of a policy's services with credits; other services send without. `None` without a policy: all data
    /// has credits, of the weight of the parameters.
    pub weights: Option<BTreeMap<ServiceId, Weight>>,
}

/// The order of departures from a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostOrder {
    /// Services in turn. A queue discipline of the network's own, such as pFabric, applies instead.
    #[default]
    Fair,
    /// First in, first out.
    Fifo {
        /// The most bytes in the interface; `None` for unlimited.
        buffer: Option<Bytes>,
        /// The interface marks packets that can be marked while it holds more than this.
        mark: Option<Bytes>,
    },
}

impl Scenario {
    /// The name in the file, used for result files and namespaces: letters, digits and dashes.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The seed if the command line gives none.
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
    /// The interfaces of its hosts.
    pub fn hosts(&self) -> &HostQueues {
        &self.hosts
    }
    /// The flow groups: the items of `traffic`, in file order, at least one.
    pub fn flow_groups(&self) -> &[Traffic] {
        &self.flow_groups
    }
    /// The events of links, by time; in file order where times are equal.
    pub fn events(&self) -> &[NetworkEvent] {
        &self.events
    }
    /// The watched links, and the interval of samples.
    pub fn measurement(&self) -> &Measurement {
        &self.measurement
    }
    /// The switches whose ports have no forwarder of credits, ascending: indices of the graph's switches.
    pub fn without_forwarder(&self) -> &[usize] {
        &self.without_forwarder
    }
    /// The credits of aggregates, if data waits for those of its aggregate; `None` where flows send as they do.
    pub fn aggregates(&self) -> Option<&Aggregates> {
        self.aggregates.as_ref()
    }
    /// The part that depends on a policy; `None` for a network of its own.
    pub fn governed(&self) -> Option<&Governed> {
        self.governed.as_ref()
    }
    /// The reason why only the simulator can run it, in one clause; `None` if the lab can, too.
    pub fn simulator_only(&self) -> Option<&str> {
        self.simulator_only.as_deref()
    }
    /// The scenario as the lab runs it.
    ///
    /// # Errors
    /// The reason why only the simulator can run it.
    pub fn for_lab(&self) -> Result<LabScenario<'_>, &str> {
        match (&self.simulator_only, &self.governed) {
            (Some(reason), _) => Err(reason),
            (None, Some(governed)) => match governed.links {
                Some(links) => Ok(LabScenario { scenario: self, governed, links }),
                None => Err("its network is not given by racks"),
            },
            (None, None) => Err("it has no policy"),
        }
    }

    /// The part that only the lab can run, with its position; `None` if the simulator can, too.
    pub fn lab_only(&self) -> Option<&Diagnostic> {
        self.lab_only.as_ref()
    }
    /// The leaf services that send, in id order.
    pub fn sending(&self) -> Vec<ServiceId> {
        let sending = self.flow_groups.iter().flat_map(Traffic::services);
        let mut all: Vec<_> = sending.chain(self.applications().iter().map(|own| own.service)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
    /// The names of all traffic: of flow groups and of applications.
    pub fn names(&self) -> Vec<&str> {
        let applications = self.applications().iter().map(|own| own.name.as_str());
        self.flow_groups.iter().map(|group| group.name.as_str()).chain(applications).collect()
    }

    /// The enforcement of the policy; none without a policy.
    pub fn enforcement(&self) -> Enforcement {
        self.governed.as_ref().map_or(Enforcement::None, |governed| governed.enforcement)
    }
    /// The services' long-lived transfers, in file order: all traffic unless
    /// [`Scenario::simulator_only`] names more; none without a policy.
    pub fn transfers(&self) -> &[ServiceTransfers] {
        self.governed.as_ref().map_or(&[], |governed| &governed.transfers)
    }
    /// Messages that are sent in rounds, in file order: the traffic of the lab beside transfers.
    pub fn messages(&self) -> impl Iterator<Item = &Traffic> {
        self.flow_groups.iter().filter(|group| matches!(group.spec, Spec::Rounds(_)))
    }
    /// Real servers and clients, in file order; none without a policy.
    pub fn applications(&self) -> &[Application] {
        self.governed.as_ref().map_or(&[], |governed| &governed.applications)
    }
}

/// A scenario that the lab can run: a policy over racks.
#[derive(Debug, Clone, Copy)]
pub struct LabScenario<'a> {
    scenario: &'a Scenario,
    governed: &'a Governed,
    links: Links,
}

impl<'a> LabScenario<'a> {
    /// The part that depends on the policy.
    pub fn governed(&self) -> &'a Governed {
        self.governed
    }
    /// The policy, already valid.
    pub fn policy(&self) -> &'a Arc<Policy> {
        &self.governed.policy
    }
    /// The policy's file (agents of the lab read it again).
    pub fn policy_path(&self) -> &'a Path {
        &self.governed.policy_path
    }
    /// The properties of the links between racks.
    pub fn links(&self) -> Links {
        self.links
    }
    /// The marking threshold of switches' ports: Parley's if the scenario gives none and hosts are
    /// shaped.
    pub fn marks_above(&self) -> Option<Bytes> {
        let shaped = self.scenario.enforcement() != Enforcement::None;
        self.links.queue.mark.or(shaped.then_some(crate::governed::MARK))
    }
    /// Whether a machine has an agent.
    pub fn has_agent(&self, machine: MachineId) -> bool {
        self.scenario.enforcement() != Enforcement::None && !self.governed.levels.disobedient.contains(&machine)
    }
    /// The measurement.
    pub fn measure(&self) -> Measure {
        self.governed.measure
    }
}

impl std::ops::Deref for LabScenario<'_> {
    type Target = Scenario;

    fn deref(&self) -> &Scenario {
        self.scenario
    }
}

/// A flow group: an item of `traffic`.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// Its name in results, unique in the scenario.
    pub name: String,
    /// The leaf service of the packets; always present under a policy, never without.
    pub service: Option<ServiceId>,
    /// The transport of its flows.
    pub transport: Parameters,
    /// The priority class of its packets, below [`PRIORITIES`]; 0 is the most urgent.
    pub priority: u8,
    /// The workload: starts, pairs and sizes of flows.
    pub spec: Spec,
    /// The number of connections between two hosts that carry its flows, as messages that wait for
    /// each other; `None` for a connection of its own for each flow. Only for transports that are
    /// streams, and flows that have a size.
    pub connections: Option<u32>,
    /// The services of small flows, by the largest size, ascending: the first that holds a flow's size has it.
    pub by_size: Vec<(Bytes, ServiceId)>,
    /// The quotas of flows; not with `connections`.
    pub quotas: Option<FlowQuotas>,
}

impl Traffic {
    /// The leaf service of a flow of this size; `None` without a policy.
    pub fn service_of(&self, size: Bytes) -> Option<ServiceId> {
        let small = self.by_size.iter().find(|(largest, _)| size <= *largest);
        small.map(|(_, service)| *service).or(self.service)
    }

    /// Every leaf service that its flows belong to.
    pub fn services(&self) -> impl Iterator<Item = ServiceId> {
        self.service.into_iter().chain(self.by_size.iter().map(|(_, service)| *service))
    }

    /// The shortest retransmission timeout of its flows; `None` for a transport that repairs
    /// nothing.
    pub fn shortest_timeout(&self) -> Option<Duration> {
        self.transport.shortest_timeout().map(|time| time.duration())
    }
}

/// The limiter of QJump's published simulation (`qjump.tcl` and `adc/qjump.cc` of github.com/camsas/qjump-ns2): a flow
/// may send so many bytes of frames in each epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowQuotas {
    /// The time after which a flow has its whole quota again, counted from its start; more than zero.
    pub epoch: Duration,
    /// Bytes of frames in an epoch, ascending; at least one, at most [`PRIORITIES`].
    pub sizes: Vec<Bytes>,
}

impl FlowQuotas {
    /// The index of the smallest quota that holds `frames`, the bytes of all frames of a flow; of the largest quota if
    /// none does.
    pub fn class_of(&self, frames: Bytes) -> usize {
        self.sizes.iter().position(|quota| frames <= *quota).unwrap_or(self.sizes.len() - 1)
    }
}

/// An event of links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkEvent {
    /// The time since the start; not after the end.
    pub at: Duration,
    /// The links, at least one, each once.
    pub links: Vec<LinkRef>,
    /// The change of each of them.
    pub change: Change,
}

/// A change of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It loses the packets on it and accepts none.
    Down,
    /// It carries packets again.
    Up,
    /// It has this rate from then on; more than zero.
    Rate(Bandwidth),
    /// Its queue, a deficit round robin, has these weights from then on; each at least 1.
    Weights([u32; PRIORITIES]),
}

/// The watched links, and the interval of samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measurement {
    /// Length of one sample; more than zero, at most the duration.
    pub every: Duration,
    /// The links, each once.
    pub links: Vec<LinkRef>,
    /// The scenario names them; they are not those of a default.
    pub are_named: bool,
}

/// The shortest period of credits in the lab: one host runs all threads of agents, forwarders and senders, so a thread
/// may be late by milliseconds, and a round trip takes as long.
pub const LAB_CREDIT_PERIOD: Duration = Duration::from_millis(20);

/// Long-lived transfers of one service, as the lab runs them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceTransfers {
    /// The leaf service that the packets belong to.
    pub service: ServiceId,
    /// The sending machines, ascending, at least one.
    pub from: Vec<MachineId>,
    /// The receiving machines, ascending, at least one.
    pub to: Vec<MachineId>,
    /// The pattern of pairs.
    pub pattern: Pattern,
    /// Connections for each pair of machines, at least 1.
    pub flows: u32,
    /// The rate of each flow for UDP, headers included: that of the sender's interface if none is
    /// given. TCP otherwise.
    pub udp: Option<Option<Bandwidth>>,
    /// The start.
    pub start: Duration,
    /// The stop; after `start`, at most the scenario's duration.
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

/// A real server with clients, as the lab runs them.
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
    /// The programs.
    pub program: Program,
    /// The time of the first measurement.
    pub start: Duration,
    /// The end of measurements; after `start`, at most the scenario's duration.
    pub stop: Duration,
}

/// The programs of an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// A server of values, and clients that request one value; each request is measured.
    Values(Values),
    /// A clock master, and slaves that do not adjust their clock; each offset that a slave reports is measured.
    Ptp,
}

/// Requests of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Values {
    /// The server.
    pub server: ValueServer,
    /// Connections of each client, at least 1.
    pub connections: u32,
    /// Bytes of the requested value, at least 1.
    pub value: Bytes,
    /// The mean time between two requests of a connection (exponential); more than zero.
    pub gap: Duration,
}

/// A server of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueServer {
    /// Debian's redis-server.
    Redis,
    /// Debian's memcached.
    Memcached,
}

/// The pairs of senders and receivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pattern {
    /// Every sender to every receiver (the default).
    #[default]
    FullMesh,
    /// The i-th sender to the i-th receiver; the lists have the same length and no machine sends to
    /// itself.
    Pairs,
}

/// The point and interval of bandwidth measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure {
    /// The rack whose uplink is watched.
    pub rack: RackId,
    /// The direction, seen from the rack.
    pub direction: Direction,
    /// Length of one sample; more than zero, at most the duration.
    pub every: Duration,
}
