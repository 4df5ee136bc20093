//! [`World`]: hosts, switches, links and flows.
//!
//! Build order: [`World::new`], hosts and switches, links, [`World::compute_routes`] (or
//! [`World::from_graph`] for all of these), then flows; then [`World::run_until`] as often as
//! wanted, with flows added, limits set, links changed and datagrams sent in between. The world
//! reads no clock and draws no random numbers but those of [`World::set_jitter`] and
//! [`World::set_spraying`]: the same calls give the same run, event for event.
//!
//! Example: two hosts on a switch.
//! ```
//! use weir_network::graph::{Discipline, LinkSpec, Packets, QueueSpec};
//! use weir_sim::{FlowSpec, ServiceIndex, Silent, SimTime, World};
//! use weir_units::{Bandwidth, Bytes, Duration};
//!
//! let mut world = World::new(1, Packets { payload: 1448, headers: 66 }, Silent);
//! let switch = world.add_switch();
//! let queue = QueueSpec { discipline: Discipline::Fifo, buffer: Bytes::new(100_000), mark: None };
//! let link = LinkSpec { rate: Bandwidth::from_gbps(1), delay: Duration::from_micros(10), queue };
//! let a = world.add_host(switch, link, link);
//! let b = world.add_host(switch, link, link);
//! world.compute_routes();
//! let spec = FlowSpec {
//!     from: a, to: b, service: ServiceIndex(0), priority: 0, start: SimTime::ZERO, stop: SimTime::NEVER,
//!     size: Some(1_000_000), deadline: None, hash: 1,
//! };
//! let flow = world.add_flow(spec, &weir_transport::Parameters::default());
//! world.run_until(SimTime::from_secs(1));
//! assert_eq!(world.flow(flow).delivered().get(), 1_000_000);
//! ```

use crate::agents::Agents;
use crate::aggregates::{self, Aggregates};
use crate::build::Switch;
use crate::events::{Event, EventQueue};
use crate::flow::{Flow, FlowSpec, Life};
use crate::host::{Host, Jitter, ServiceLimit};
use crate::ids::{FlowId, HostId, MeterId, PortId, ServiceIndex, SwitchId};
use crate::levels::Levels;
use crate::observer::Observer;
use crate::packet::{Arena, Extensions};
use crate::pages;
use crate::pairs::Pairs;
use crate::port::{Port, PortCounts, PortRecord, Profile};
use crate::queue::{Queue, SharedBuffer};
use crate::quotas::Quotas;
use crate::routes::Routes;
use crate::shaper::Shaping;
use crate::tenants::Tags;
use std::collections::VecDeque;
use std::sync::Arc;
use weir_network::graph::{LinkRef, Packets};
use weir_transport::{Connection, Parameters};
use weir_units::{Bandwidth, Bytes, MachineId, PerDirection, SimTime};

/// Counters of a world so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Events handled.
    pub events: u64,
    /// Packets carried over a link, counted at each link.
    pub packet_hops: u64,
    /// Packets sent by hosts and port agents.
    pub sent: u64,
    /// Packets that reached their host.
    pub delivered: u64,
    /// Packets dropped by ports, or lost on links that went down.
    pub dropped: u64,
    /// Packets marked by ports.
    pub marked: u64,
    /// Packets dropped by switches without a route.
    pub unroutable: u64,
    /// Segments that reached their host after one of their flow that left its sender later (RFC 4737 §3).
    pub overtaken: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Feedback packets sent by receivers.
    pub feedback: u64,
    /// Messages sent by port agents.
    pub originated: u64,
    /// Packets taken out by port agents.
    pub consumed: u64,
}

/// A control datagram that has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The time of arrival.
    pub at: SimTime,
    /// The host that it arrived at.
    pub to: HostId,
    /// Its bytes.
    pub bytes: Arc<[u8]>,
}

/// A simulated network. See the module's documentation.
#[derive(Debug)]
pub struct World<O> {
    pub(crate) now: SimTime,
    pub(crate) events: EventQueue,
    pub(crate) packets: Arena,
    pub(crate) extensions: Extensions,
    pub(crate) ports: Vec<Port>,
    /// By port: the fields that few packets touch.
    pub(crate) records: Vec<PortRecord>,
    /// The common properties of equal links.
    pub(crate) profiles: Vec<Profile>,
    /// The queues of scheduled ports.
    pub(crate) queues: Vec<Queue>,
    pub(crate) shared: Vec<SharedBuffer>,
    pub(crate) agents: Agents,
    pub(crate) routes: Routes,
    pub(crate) hosts: Vec<Host>,
    /// By host and service.
    pub(crate) services: Vec<ServiceLimit>,
    /// The code that runs in the hosts' kernels.
    pub(crate) datapath: weir_datapath::Hosts,
    /// By host and service: bytes that left by the interface and that arrived.
    pub(crate) host_bytes: Vec<PerDirection<u64>>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) free_flows: Vec<FlowId>,
    pub(crate) shaping: Shaping,
    pub(crate) levels: Levels,
    pub(crate) tags: Tags,
    /// Ports have queues for credits.
    pub(crate) has_credit_queues: bool,
    pub(crate) pairs: Pairs,
    pub(crate) quotas: Quotas,
    pub(crate) aggregates: Aggregates,
    /// Flows that are over and have not been reported.
    pub(crate) over: VecDeque<FlowId>,
    /// Bytes per service.
    pub(crate) meters: Vec<Vec<u64>>,
    /// Some ports are inspected ([`Port::inspected`]).
    pub(crate) inspects: bool,
    /// And packets without a control field, too.
    pub(crate) inspects_all: bool,
    pub(crate) inbox: VecDeque<Delivery>,
    pub(crate) counters: Counters,
    pub(crate) observer: O,
    pub(crate) jitter: Jitter,
    /// Random numbers for packets under spraying.
    pub(crate) spray: Option<Jitter>,
    /// Both directions of a flow take the same links.
    pub(crate) symmetric: bool,
    pub(crate) sizes: Packets,
    /// The most bytes of a flow in its host; `None` for the transport's limit.
    pub(crate) flow_limit: Option<u64>,
    /// Number of service indices at the hosts, control traffic's included.
    pub(crate) service_count: usize,
    pub(crate) switches: Vec<Switch>,
    /// For each host, the switch that it is attached to.
    pub(crate) host_switch: Vec<SwitchId>,
    /// The ports of a graph's links: up and down by host, then forward and backward by cable.
    pub(crate) graph_hosts: Vec<(PortId, PortId)>,
    pub(crate) graph_cables: Vec<(PortId, PortId)>,
    /// Ports with a [`Event::Free`] in the current bucket, while that is prefetched.
    pub(crate) freeing: Vec<PortId>,
    pub(crate) started: bool,
}

impl<O: Observer> World<O> {
    /// The port of a link of the graph that the world was built from.
    pub fn port_of(&self, link: LinkRef) -> PortId {
        match link {
            LinkRef::Up(MachineId(host)) => self.graph_hosts[host as usize].0,
            LinkRef::Down(MachineId(host)) => self.graph_hosts[host as usize].1,
            LinkRef::Forward(cable) => self.graph_cables[cable].0,
            LinkRef::Backward(cable) => self.graph_cables[cable].1,
        }
    }

    /// The index of control traffic.
    pub fn control_service(&self) -> ServiceIndex {
        ServiceIndex((self.service_count - 1) as u16)
    }

    /// Adds a flow. It starts at its start time, or now if that is past.
    ///
    /// # Panics
    /// If the flow is invalid: of an index that is not a service's, or from a host to itself.
    pub fn add_flow(&mut self, spec: FlowSpec, parameters: &Parameters) -> FlowId {
        assert!(spec.service.index() < (self.service_count - 1).max(1), "service {} is not a service", spec.service.0);
        assert!(spec.from != spec.to, "host {} sends to itself", spec.from.0);
        let mut spec = spec;
        if self.aggregates.has(spec.service) {
            spec.hash = aggregates::path(spec.from, spec.to, spec.service);
        }
        let connection = Connection {
            bytes: spec.size.unwrap_or(u64::MAX),
            payload: self.sizes.payload,
            headers: self.sizes.headers,
            start: spec.start.max(self.now),
            deadline: spec.deadline,
            line_rate: self.rate(self.interface(spec.from)),
            round_trip: if parameters.handshake().is_some() { None } else { self.round_trip(&spec) },
            sprayed: self.spray.is_some(),
        };
        if parameters.has_agents() {
            self.install_agents(parameters);
        }
        let flow = Flow::new(spec, parameters, &connection);
        let id = match self.free_flows.pop() {
            Some(id) => {
                self.flows[id.index()] = flow;
                id
            }
            None => {
                pages::push(&mut self.flows, flow);
                FlowId((self.flows.len() - 1) as u32)
            }
        };
        self.quotas.forget(id);
        self.note_key(id);
        self.observer.began(id);
        self.start();
        self.events.push(connection.start, Event::Start(id));
        id
    }

    /// The round trip of a handshake on an idle network: headers both ways. `None` without a route.
    fn round_trip(&self, spec: &FlowSpec) -> Option<SimTime> {
        let there = self.ideal(spec.from, spec.to, spec.hash, 0);
        let back = self.ideal(spec.to, spec.from, spec.hash.rotate_left(16), 0);
        (there > SimTime::ZERO && back > SimTime::ZERO).then(|| there + back)
    }

    /// Returns the next flow that is over: everything was delivered, or (datagrams) nothing more
    /// will be.
    pub fn next_over(&mut self) -> Option<FlowId> {
        self.over.pop_front()
    }

    /// Releases a flow: its slot may be used for another one. The flow must be over.
    pub fn release(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.index()];
        debug_assert_eq!(flow.life, Life::Over, "only a flow that is over can be released");
        flow.life = Life::Released;
        self.recycle(id);
    }

    /// Frees the slot of a released flow when its last packet is gone.
    #[inline]
    pub(crate) fn recycle(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.index()];
        if flow.is_gone() {
            flow.life = Life::Gone;
            let control = flow.receiving.control;
            self.extensions.remove(control);
            self.free_flows.push(id);
        }
    }

    /// Makes `ports` count the bytes that arrive over their links, per service.
    pub fn add_meter(&mut self, ports: &[PortId]) -> MeterId {
        let id = MeterId(self.meters.len() as u32);
        self.meters.push(vec![0; self.service_count]);
        (self.inspects, self.inspects_all) = (true, true);
        for port in ports {
            self.ports[port.index()].inspected = true;
            self.records[port.index()].meter = id;
        }
        id
    }

    /// Bytes of a service that a meter has counted.
    pub fn metered(&self, meter: MeterId, service: ServiceIndex) -> Bytes {
        Bytes::new(self.meters[meter.index()][service.index()])
    }

    /// The time: of the last event, or the limit of the last run.
    pub fn now(&self) -> SimTime {
        self.now
    }
    /// A flow; after [`World::release`] its id may denote another.
    pub fn flow(&self, id: FlowId) -> &Flow {
        &self.flows[id.index()]
    }
    /// All flows that have a slot and have not been released, in the order of their slots.
    pub fn flows(&self) -> impl Iterator<Item = (FlowId, &Flow)> {
        let known = |flow: &Flow| matches!(flow.life, Life::Running | Life::Over);
        (0..).map(FlowId).zip(&self.flows).filter(move |(_, flow)| known(flow))
    }
    /// The limit of a service at a host; [`Bandwidth::UNLIMITED`] without one.
    pub fn limit(&self, host: HostId, service: ServiceIndex) -> Bandwidth {
        self.services[host.index() * self.service_count + service.index()].limit
    }
    /// The number of packets of a service that wait for their departure times at a host.
    pub fn waiting(&self, host: HostId, service: ServiceIndex) -> usize {
        self.services[host.index() * self.service_count + service.index()].waiting as usize
    }
    /// The number of hosts.
    pub fn host_count(&self) -> usize {
        self.hosts.len()
    }
    /// A port.
    pub fn port(&self, id: PortId) -> &Port {
        &self.ports[id.index()]
    }
    /// All ports.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }
    /// The rate of a port's link.
    pub fn rate(&self, id: PortId) -> Bandwidth {
        self.profile(id).rate()
    }
    /// Bytes that a port could have sent until now, at the rates that it has had while its link was
    /// up.
    pub fn capacity(&self, id: PortId) -> u64 {
        let record = &self.records[id.index()];
        if !self.ports[id.index()].is_up() {
            return record.capacity;
        }
        let elapsed = self.now.saturating_sub(record.rated_at).picos();
        let bytes = u128::from(elapsed) * u128::from(self.rate(id).bps()) / 8_000_000_000_000;
        record.capacity.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
    /// The rate of a port's link, or the mean of the rates that it has had, zero while it was down.
    pub fn mean_rate(&self, id: PortId) -> Bandwidth {
        if self.records[id.index()].rated_at == SimTime::ZERO && self.ports[id.index()].is_up() {
            return self.rate(id);
        }
        weir_results::record::rate(self.capacity(id), self.now)
    }
    /// The propagation delay of a port's link.
    pub fn delay(&self, id: PortId) -> SimTime {
        self.profile(id).delay()
    }
    /// The size of a port's own buffer in bytes, with that of a queue of data with credits; `None` for an unlimited or
    /// a shared buffer.
    pub fn buffer(&self, id: PortId) -> Option<u64> {
        let buffer = self.profile(id).buffer;
        let of_credits = self.queues.get(self.ports[id.index()].queue as usize).map_or(0, Queue::credit_buffer);
        (buffer != u64::MAX).then(|| buffer.saturating_add(of_credits))
    }
    fn profile(&self, id: PortId) -> &Profile {
        &self.profiles[self.ports[id.index()].profile as usize]
    }
    /// The counts of a port.
    pub fn counts(&self, id: PortId) -> PortCounts {
        let record = &self.records[id.index()];
        let mut taken = record.taken;
        taken[0] = self.ports[id.index()].taken;
        PortCounts { taken, dropped: record.dropped, marked: record.marked }
    }
    /// Bytes of a service since the start at a host: the reading of its meter.
    pub fn host_bytes(&self, host: HostId, service: ServiceIndex) -> PerDirection<Bytes> {
        let bytes = self.host_bytes[host.index() * self.service_count + service.index()];
        PerDirection { tx: Bytes::new(bytes.tx), rx: Bytes::new(bytes.rx) }
    }
    /// The port that leads down to a host.
    pub fn down_port(&self, host: HostId) -> PortId {
        self.routes.down[host.index()]
    }
    /// Bytes that a port holds: waiting frames and the unsent part of the frame on the wire.
    pub fn held(&self, id: PortId) -> u64 {
        let port = &self.ports[id.index()];
        let profile = self.profile(id);
        profile.bytes_in(port.backlog(self.now, profile, &self.records[id.index()]))
            + self.queues.get(port.queue as usize).map_or(0, Queue::bytes)
    }
    /// The interface of a host.
    pub fn interface(&self, host: HostId) -> PortId {
        self.hosts[host.index()].interface
    }
    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }
    /// The number of existing packets.
    pub fn packets(&self) -> usize {
        self.packets.len()
    }
    /// The most packets that existed at once.
    pub fn peak_packets(&self) -> usize {
        self.packets.peak()
    }
    /// The most flows that existed at once.
    pub fn peak_flows(&self) -> usize {
        self.flows.len()
    }
    /// The observer.
    pub fn observer(&self) -> &O {
        &self.observer
    }
    /// Takes the next control datagram that has arrived.
    pub fn next_delivery(&mut self) -> Option<Delivery> {
        self.inbox.pop_front()
    }
}
