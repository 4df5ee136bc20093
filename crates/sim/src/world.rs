//! [`World`]: hosts, switches, links and flows, and how to build one.
//!
//! Build order: [`World::new`], hosts and switches, links, [`World::compute_routes`], flows; then
//! [`World::run_until`] as often as wanted, with limits set and datagrams sent in between. The world reads no
//! clock and draws no random numbers but those of [`World::set_jitter`]: the same calls give the same run,
//! event for event.
//!
//! Example: two hosts on a switch.
//! ```
//! use weir_sim::{Class, FlowSpec, LinkSpec, Silent, SimTime, TcpConfig, World};
//! use weir_units::Bandwidth;
//!
//! let mut world = World::new(1, Silent);
//! let switch = world.add_switch();
//! let link = LinkSpec { rate: Bandwidth::from_gbps(1), delay: SimTime::from_micros(10), buffer: 100_000 };
//! let a = world.add_host(switch, link, link);
//! let b = world.add_host(switch, link, link);
//! world.compute_routes();
//! let flow = world.add_flow(FlowSpec {
//!     from: a, to: b, class: Class(0), start: SimTime::ZERO, stop: SimTime::NEVER,
//!     size: Some(1_000_000), hash: 1, tcp: TcpConfig::default(),
//! });
//! world.run_until(SimTime::from_secs(1));
//! assert_eq!(world.flow(flow).delivered().get(), 1_000_000);
//! ```

use crate::events::{Event, EventQueue};
use crate::flow::{Flow, FlowSpec};
use crate::host::{Host, Jitter};
use crate::ids::{Class, FlowId, HostId, MeterId, Node, PortId, SwitchId};
use crate::link::Link;
use crate::observer::Observer;
use crate::packet::Arena;
use crate::port::Port;
use crate::queue::{DropTail, Queue, RoundRobin};
use crate::switch::Switch;
use std::collections::VecDeque;
use std::sync::Arc;
use weir_units::SimTime;
use weir_units::{Bandwidth, Bytes};

/// A one-way link and the buffer in front of it.
#[derive(Debug, Clone, Copy)]
pub struct LinkSpec {
    /// The rate.
    pub rate: Bandwidth,
    /// The propagation delay.
    pub delay: SimTime,
    /// The drop-tail buffer in bytes. A host's interface has none: hosts push back instead of dropping.
    pub buffer: u64,
}

/// What happened in a world so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Events handled.
    pub events: u64,
    /// Packets carried over a link, counted at each link.
    pub packet_hops: u64,
    /// Packets sent by hosts.
    pub sent: u64,
    /// Packets that reached their host.
    pub delivered: u64,
    /// Packets dropped by ports.
    pub dropped: u64,
    /// Segments sent again.
    pub retransmissions: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
}

/// A control datagram that has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// When.
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
    pub(crate) ports: Vec<Port>,
    pub(crate) switches: Vec<Switch>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) flows: Vec<Flow>,
    /// Bytes per class.
    pub(crate) meters: Vec<Vec<u64>>,
    pub(crate) datagrams: Vec<Option<Arc<[u8]>>>,
    pub(crate) free_datagrams: Vec<u32>,
    pub(crate) inbox: VecDeque<Delivery>,
    pub(crate) counters: Counters,
    pub(crate) observer: O,
    pub(crate) jitter: Jitter,
    classes: usize,
    /// The ports of each switch and, for each host, the switch that it hangs on.
    switch_ports: Vec<Vec<PortId>>,
    host_switch: Vec<SwitchId>,
}

impl<O: Observer> World<O> {
    /// An empty world with `services` traffic classes and one more for control traffic.
    pub fn new(services: usize, observer: O) -> Self {
        assert!(services < usize::from(u16::MAX), "too many services: {services}");
        Self {
            now: SimTime::ZERO,
            events: EventQueue::new(),
            packets: Arena::default(),
            ports: Vec::new(),
            switches: Vec::new(),
            hosts: Vec::new(),
            flows: Vec::new(),
            meters: Vec::new(),
            datagrams: Vec::new(),
            free_datagrams: Vec::new(),
            inbox: VecDeque::new(),
            counters: Counters::default(),
            observer,
            jitter: Jitter::default(),
            classes: services + 1,
            switch_ports: Vec::new(),
            host_switch: Vec::new(),
        }
    }

    /// Makes hosts take up to `most` longer, at random, to hand a packet to an idle interface. Without any noise
    /// flows through a drop-tail queue fall into step, and one gets several times the other's bandwidth (Floyd
    /// and Jacobson 1992); the transmission time of a packet at the bottleneck is enough.
    pub fn set_jitter(&mut self, most: SimTime, seed: u64) {
        self.jitter = Jitter::new(most, seed);
    }

    /// The class of control traffic.
    pub fn control_class(&self) -> Class {
        Class((self.classes - 1) as u16)
    }

    /// Adds a switch.
    pub fn add_switch(&mut self) -> SwitchId {
        let id = SwitchId(self.switches.len() as u32);
        self.switches.push(Switch::new(id.0));
        self.switch_ports.push(Vec::new());
        id
    }

    /// Adds a host below `switch`; `up` is the link from the host (its buffer is ignored), `down` the one to it.
    pub fn add_host(&mut self, switch: SwitchId, up: LinkSpec, down: LinkSpec) -> HostId {
        let host = HostId(self.hosts.len() as u32);
        let queue = Queue::RoundRobin(RoundRobin::new(self.classes));
        let interface = self.add_port(up, queue, Node::Switch(switch), Some(host));
        self.hosts.push(Host::new(interface, self.classes));
        self.host_switch.push(switch);
        self.add_link(switch, Node::Host(host), down);
        host
    }

    /// Adds links between two switches: one each way.
    pub fn connect(&mut self, a: SwitchId, b: SwitchId, a_to_b: LinkSpec, b_to_a: LinkSpec) -> (PortId, PortId) {
        (self.add_link(a, Node::Switch(b), a_to_b), self.add_link(b, Node::Switch(a), b_to_a))
    }

    fn add_link(&mut self, from: SwitchId, to: Node, link: LinkSpec) -> PortId {
        let port = self.add_port(link, Queue::DropTail(DropTail::new(link.buffer)), to, None);
        self.switch_ports[from.index()].push(port);
        port
    }

    fn add_port(&mut self, link: LinkSpec, queue: Queue, to: Node, owner: Option<HostId>) -> PortId {
        let id = PortId(self.ports.len() as u32);
        let link = Link::new(link.rate, link.delay);
        self.ports.push(Port { link, queue, to, owner, meter: None, waking: false, dropped: 0 });
        id
    }

    /// Gives every switch all shortest paths to every host. Call it when all links are there.
    pub fn compute_routes(&mut self) {
        let switches = self.switches.len();
        // neighbours[s]: the ports of s that lead to switches, and where.
        let neighbours: Vec<Vec<(PortId, usize)>> = self
            .switch_ports
            .iter()
            .map(|ports| {
                ports
                    .iter()
                    .filter_map(|&port| match self.ports[port.index()].to {
                        Node::Switch(to) => Some((port, to.index())),
                        Node::Host(_) => None,
                    })
                    .collect()
            })
            .collect();
        // hops[d][s]: links between switches s and d. Links go both ways, so hops from d are hops to d.
        let hops: Vec<Vec<usize>> = (0..switches)
            .map(|destination| {
                let mut hops = vec![usize::MAX; switches];
                hops[destination] = 0;
                let mut reached = VecDeque::from([destination]);
                while let Some(at) = reached.pop_front() {
                    for &(_, next) in &neighbours[at] {
                        if hops[next] == usize::MAX {
                            hops[next] = hops[at] + 1;
                            reached.push_back(next);
                        }
                    }
                }
                hops
            })
            .collect();
        for (at, switch) in self.switches.iter_mut().enumerate() {
            // towards[d]: the ports on shortest paths to switch d.
            let nearer = |hops: &Vec<usize>| -> Vec<PortId> {
                neighbours[at].iter().filter(|&&(_, next)| hops[next] < hops[at]).map(|&(port, _)| port).collect()
            };
            let towards: Vec<Vec<PortId>> = hops.iter().map(nearer).collect();
            let mut direct: Vec<Option<PortId>> = vec![None; self.hosts.len()];
            for &port in &self.switch_ports[at] {
                if let Node::Host(host) = self.ports[port.index()].to {
                    direct[host.index()] = Some(port);
                }
            }
            let routes = direct.iter().zip(&self.host_switch).map(|(direct, via)| match direct {
                Some(port) => std::slice::from_ref(port),
                None => &towards[via.index()][..],
            });
            switch.set_routes(routes);
        }
    }

    /// Adds a flow. It starts at its start time, or now if that is past.
    pub fn add_flow(&mut self, spec: FlowSpec) -> FlowId {
        assert!(spec.class.index() + 1 < self.classes, "class {} is not a service", spec.class.0);
        assert!(spec.from != spec.to, "host {} sends to itself", spec.from.0);
        let id = FlowId(self.flows.len() as u32);
        self.flows.push(Flow::new(spec));
        self.events.push(spec.start.max(self.now), Event::Start(id));
        id
    }

    /// Makes `ports` count the bytes that arrive over their links, per class.
    pub fn add_meter(&mut self, ports: &[PortId]) -> MeterId {
        let id = MeterId(self.meters.len() as u32);
        self.meters.push(vec![0; self.classes]);
        for port in ports {
            self.ports[port.index()].meter = Some(id);
        }
        id
    }

    /// Bytes of a class that a meter has counted.
    pub fn metered(&self, meter: MeterId, class: Class) -> Bytes {
        Bytes::new(self.meters[meter.index()][class.index()])
    }

    /// The time: of the last event, or the limit of the last run.
    pub fn now(&self) -> SimTime {
        self.now
    }
    /// A flow.
    pub fn flow(&self, id: FlowId) -> &Flow {
        &self.flows[id.index()]
    }
    /// All flows, in the order in which they were added.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }
    /// A host.
    pub fn host(&self, id: HostId) -> &Host {
        &self.hosts[id.index()]
    }
    /// A port.
    pub fn port(&self, id: PortId) -> &Port {
        &self.ports[id.index()]
    }
    /// All ports.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }
    /// The interface of a host.
    pub fn interface(&self, host: HostId) -> PortId {
        self.hosts[host.index()].interface
    }
    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }
    /// How many packets exist.
    pub fn packets(&self) -> usize {
        self.packets.len()
    }
    /// The most packets that existed at once.
    pub fn peak_packets(&self) -> usize {
        self.packets.peak()
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
