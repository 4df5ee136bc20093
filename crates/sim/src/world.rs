//! [`World`]: hosts, switches, links and flows, and how to build one.
//!
//! Build order: [`World::new`], hosts and switches, links, [`World::compute_routes`] (or [`World::from_graph`] for
//! all of these), then flows; then [`World::run_until`] as often as wanted, with flows added, limits set, links changed and
//! datagrams sent in between. The world reads no
//! clock and draws no random numbers but those of [`World::set_jitter`] and [`World::set_spraying`]: the same calls give the
//! same run, event for event.
//!
//! Example: two hosts on a switch.
//! ```
//! use weir_scenario::graph::{Discipline, LinkSpec, Packets, QueueSpec};
//! use weir_sim::{Class, FlowSpec, Silent, SimTime, World};
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
//!     from: a, to: b, class: Class(0), priority: 0, start: SimTime::ZERO, stop: SimTime::NEVER,
//!     size: Some(1_000_000), deadline: None, hash: 1,
//! };
//! let flow = world.add_flow(spec, &weir_transport::Parameters::default());
//! world.run_until(SimTime::from_secs(1));
//! assert_eq!(world.flow(flow).delivered().get(), 1_000_000);
//! ```

use crate::events::{Event, EventQueue};
use crate::flow::{Flow, FlowSpec, Life};
use crate::host::{Host, Jitter, ServiceQueue};
use crate::ids::{Class, FlowId, HostId, MeterId, Node, PortId, SwitchId};
use crate::observer::Observer;
use crate::packet::{Arena, Extensions};
use crate::pages;
use crate::port::{Port, PortCounts, PortRecord, Profile, Service};
use crate::queue::{Order, Queue, RoundRobin, SharedBuffer};
use crate::routes::{NOT_A_LEAF, Neighbours, Routes};
use std::collections::VecDeque;
use std::sync::Arc;
use weir_scenario::Graph;
use weir_scenario::graph::{Discipline, LinkRef, LinkSpec, Packets, Routing};
use weir_transport::d3::Router;
use weir_transport::{Connection, Parameters};
use weir_units::{Bandwidth, Bytes, MachineId, PerDirection, SimTime};

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
    /// Packets dropped by ports, or lost on links that went down.
    pub dropped: u64,
    /// Packets marked by ports.
    pub marked: u64,
    /// Packets dropped by switches that knew no way.
    pub unroutable: u64,
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

/// A switch, as it is built.
#[derive(Debug, Default)]
struct Switch {
    ports: Vec<PortId>,
    /// Its shared buffer, a place in the world's table.
    shared: Option<u32>,
}

/// A simulated network. See the module's documentation.
#[derive(Debug)]
pub struct World<O> {
    pub(crate) now: SimTime,
    pub(crate) events: EventQueue,
    pub(crate) packets: Arena,
    pub(crate) extensions: Extensions,
    pub(crate) ports: Vec<Port>,
    /// By port: what few packets touch.
    pub(crate) records: Vec<PortRecord>,
    /// What equal links have in common.
    pub(crate) profiles: Vec<Profile>,
    /// The queues of scheduled ports.
    pub(crate) queues: Vec<Queue>,
    pub(crate) shared: Vec<SharedBuffer>,
    /// By port, from the first flow on that uses D3.
    pub(crate) routers: Vec<Router>,
    pub(crate) routes: Routes,
    pub(crate) hosts: Vec<Host>,
    /// By host and class: what waits for a limiter.
    pub(crate) services: Vec<ServiceQueue>,
    /// By host and class: bytes that left by the interface and that arrived.
    pub(crate) host_bytes: Vec<PerDirection<u64>>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) free_flows: Vec<FlowId>,
    /// Flows that are over and have not been told of.
    pub(crate) over: VecDeque<FlowId>,
    /// Bytes per class.
    pub(crate) meters: Vec<Vec<u64>>,
    pub(crate) inbox: VecDeque<Delivery>,
    pub(crate) counters: Counters,
    pub(crate) observer: O,
    pub(crate) jitter: Jitter,
    /// Random numbers for packets that go their own ways.
    pub(crate) spray: Option<Jitter>,
    pub(crate) sizes: Packets,
    /// Hosts take two frames of a flow at most.
    pub(crate) short_host_queues: bool,
    /// Classes at the hosts, control traffic's included.
    pub(crate) classes: usize,
    switches: Vec<Switch>,
    /// For each host, the switch that it hangs on.
    host_switch: Vec<SwitchId>,
    /// The ports of a graph's links: up and down by host, then forward and backward by cable.
    graph_hosts: Vec<(PortId, PortId)>,
    graph_cables: Vec<(PortId, PortId)>,
    /// Ports with a [`Event::Free`] in the bucket at hand, while that is fetched.
    pub(crate) freeing: Vec<PortId>,
    started: bool,
}

impl<O: Observer> World<O> {
    /// An empty world with `services` traffic classes and one more for control traffic; without services there is one class,
    /// and hosts' interfaces are first in, first out.
    pub fn new(services: usize, sizes: Packets, observer: O) -> Self {
        assert!(services < usize::from(u16::MAX), "too many services: {services}");
        assert!(sizes.payload > 0, "packets carry nothing");
        Self {
            now: SimTime::ZERO,
            events: EventQueue::new(),
            packets: Arena::default(),
            extensions: Extensions::default(),
            ports: Vec::new(),
            records: Vec::new(),
            profiles: Vec::new(),
            queues: Vec::new(),
            shared: Vec::new(),
            routers: Vec::new(),
            routes: Routes::default(),
            hosts: Vec::new(),
            services: Vec::new(),
            host_bytes: Vec::new(),
            flows: Vec::new(),
            free_flows: Vec::new(),
            over: VecDeque::new(),
            meters: Vec::new(),
            inbox: VecDeque::new(),
            counters: Counters::default(),
            observer,
            jitter: Jitter::default(),
            spray: None,
            sizes,
            short_host_queues: false,
            classes: services + 1,
            switches: Vec::new(),
            host_switch: Vec::new(),
            graph_hosts: Vec::new(),
            graph_cables: Vec::new(),
            freeing: Vec::new(),
            started: false,
        }
    }

    /// The network of a graph, with routes; host `i` is machine `i`. `seed` is for spraying.
    pub fn from_graph(graph: &Graph, services: usize, seed: u64, observer: O) -> Self {
        let mut world = Self::new(services, graph.packets, observer);
        for _ in &graph.switches {
            let switch = world.add_switch();
            if let Some(shared) = graph.shared_buffer {
                world.share_buffer(switch, shared.bytes, shared.alpha_thousandths);
            }
        }
        for host in &graph.hosts {
            let id = world.add_host(SwitchId(host.switch as u32), host.up, host.down);
            let down = PortId(world.ports.len() as u32 - 1);
            world.graph_hosts.push((world.interface(id), down));
        }
        for cable in &graph.cables {
            let ends = (SwitchId(cable.a as u32), SwitchId(cable.b as u32));
            let ports = world.connect(ends.0, ends.1, cable.a_to_b, cable.b_to_a);
            world.graph_cables.push(ports);
        }
        world.compute_routes();
        if graph.routing == Routing::Spray {
            world.set_spraying(seed);
        }
        world
    }

    /// The port of a link of the graph that the world was built from.
    pub fn port_of(&self, link: LinkRef) -> PortId {
        match link {
            LinkRef::Up(MachineId(host)) => self.graph_hosts[host as usize].0,
            LinkRef::Down(MachineId(host)) => self.graph_hosts[host as usize].1,
            LinkRef::Forward(cable) => self.graph_cables[cable].0,
            LinkRef::Backward(cable) => self.graph_cables[cable].1,
        }
    }

    /// Makes hosts take up to `most` longer, at random, to hand a packet to an idle interface. Without any noise
    /// flows through a drop-tail queue fall into step, and one gets several times the other's bandwidth (Floyd
    /// and Jacobson 1992); the transmission time of a packet at the bottleneck is enough.
    pub fn set_jitter(&mut self, most: SimTime, seed: u64) {
        self.jitter = Jitter::new(most, seed);
    }

    /// Makes hosts take at most two frames of a flow: one that is being sent and the one behind it. What waits at a busy interface is then
    /// short and shared evenly by its flows. Without it a flow may have as much in its host as Linux lets it, about a
    /// millisecond's worth, and a short flow waits behind all of that.
    pub fn set_short_host_queues(&mut self) {
        self.short_host_queues = true;
    }

    /// Makes switches choose among shortest paths for every packet anew, at random.
    pub fn set_spraying(&mut self, seed: u64) {
        self.events.forget_hints();
        self.spray = Some(Jitter::new(SimTime::NEVER, seed));
    }

    /// The class of control traffic.
    pub fn control_class(&self) -> Class {
        Class((self.classes - 1) as u16)
    }

    /// Adds a switch.
    pub fn add_switch(&mut self) -> SwitchId {
        let id = SwitchId(self.switches.len() as u32);
        self.switches.push(Switch::default());
        id
    }

    /// Makes the ports that a switch gets from now on share one buffer; each may hold `alpha_thousandths`
    /// thousandths of what is free.
    pub fn share_buffer(&mut self, switch: SwitchId, size: Bytes, alpha_thousandths: u32) {
        self.switches[switch.index()].shared = Some(self.shared.len() as u32);
        self.shared.push(SharedBuffer::new(size.get(), alpha_thousandths));
    }

    /// Adds a host below `switch`; `up` is the link from the host (its buffer is ignored), `down` the one to it.
    pub fn add_host(&mut self, switch: SwitchId, up: LinkSpec, down: LinkSpec) -> HostId {
        let host = HostId(self.hosts.len() as u32);
        let queue = match up.queue.discipline {
            Discipline::Fifo if self.classes > 1 => {
                Queue::new(Order::RoundRobin(Box::new(RoundRobin::new(self.classes))))
            }
            discipline => Queue::of(discipline),
        };
        let interface = self.add_port(up, u64::MAX, Node::Switch(switch), Some(host));
        let queue = self.schedule(interface, queue);
        self.host_bytes.extend(std::iter::repeat_n(PerDirection::default(), self.classes));
        self.services.extend((0..self.classes).map(|_| ServiceQueue::default()));
        self.hosts.push(Host::new(interface, queue));
        self.host_switch.push(switch);
        self.add_link(switch, Node::Host(host), down);
        host
    }

    /// Adds links between two switches: one each way.
    pub fn connect(&mut self, a: SwitchId, b: SwitchId, a_to_b: LinkSpec, b_to_a: LinkSpec) -> (PortId, PortId) {
        (self.add_link(a, Node::Switch(b), a_to_b), self.add_link(b, Node::Switch(a), b_to_a))
    }

    fn add_link(&mut self, from: SwitchId, to: Node, link: LinkSpec) -> PortId {
        let shared = self.switches[from.index()].shared;
        let buffer = if shared.is_some() { u64::MAX } else { link.queue.buffer.get() };
        let port = self.add_port(link, buffer, to, None);
        if shared.is_some() || link.queue.discipline != Discipline::Fifo {
            let mut queue = Queue::of(link.queue.discipline);
            queue.shared = shared;
            self.schedule(port, queue);
        }
        if let Some(place) = shared {
            let (size, alpha_thousandths) = self.shared[place as usize].limits();
            self.observer.shares(port, place, size, alpha_thousandths);
        }
        self.switches[from.index()].ports.push(port);
        port
    }

    fn add_port(&mut self, link: LinkSpec, buffer: u64, to: Node, owner: Option<HostId>) -> PortId {
        let id = PortId(self.ports.len() as u32);
        // A host holds its senders back instead of marking.
        let mark = if owner.is_some() { u64::MAX } else { link.queue.mark.map_or(u64::MAX, Bytes::get) };
        let profile = Profile::new(link.rate, SimTime::from(link.delay), buffer, mark);
        self.records.push(PortRecord::new(profile.clock().clone()));
        let profile = known_profile(&mut self.profiles, profile);
        pages::push(&mut self.ports, Port::new(profile, to, owner));
        id
    }

    /// Gives a port a queue, whose place in the table it says.
    fn schedule(&mut self, port: PortId, queue: Queue) -> u32 {
        let out = &mut self.ports[port.index()];
        out.service = Service::Scheduled;
        self.records[port.index()].usual = Service::Scheduled;
        let place = self.queues.len() as u32;
        out.queue = place;
        pages::push(&mut self.queues, queue);
        place
    }

    /// Gives every switch all shortest paths over links that are up to every host. Call it when all links are there, and
    /// after links went down or came up.
    pub fn compute_routes(&mut self) {
        let mut leaves = self.host_switch.clone();
        leaves.sort_unstable();
        leaves.dedup();
        let mut number = vec![NOT_A_LEAF; self.switches.len()];
        for (leaf, switch) in (0..).zip(&leaves) {
            number[switch.index()] = leaf;
        }
        for (host, switch) in self.hosts.iter_mut().zip(&self.host_switch) {
            host.leaf = number[switch.index()];
        }
        let mut down = vec![PortId(u32::MAX); self.hosts.len()];
        // neighbours[s]: the ports of s that lead to switches, and where. Links that are down lead nowhere.
        let mut neighbours: Vec<Neighbours> = vec![Neighbours::new(); self.switches.len()];
        for (at, switch) in self.switches.iter().enumerate() {
            for &port in &switch.ports {
                match self.ports[port.index()].to() {
                    Node::Host(host) => down[host.index()] = port,
                    Node::Switch(to) if self.ports[port.index()].is_up() => {
                        neighbours[at].push((port, to));
                    }
                    Node::Switch(_) => {}
                }
            }
        }
        self.events.forget_hints();
        self.routes = Routes::build(&leaves, down, &neighbours);
    }

    /// Adds a flow. It starts at its start time, or now if that is past.
    ///
    /// # Panics
    /// If it is one that cannot be: of a class that is not a service, or from a host to itself.
    pub fn add_flow(&mut self, spec: FlowSpec, parameters: &Parameters) -> FlowId {
        assert!(spec.class.index() < (self.classes - 1).max(1), "class {} is not a service", spec.class.0);
        assert!(spec.from != spec.to, "host {} sends to itself", spec.from.0);
        let connection = Connection {
            bytes: spec.size.unwrap_or(u64::MAX),
            payload: self.sizes.payload,
            headers: self.sizes.headers,
            start: spec.start.max(self.now),
            deadline: spec.deadline,
            line_rate: self.rate(self.interface(spec.from)),
            round_trip: self.round_trip(&spec),
            sprayed: self.spray.is_some(),
        };
        if let Parameters::D3(d3) = parameters
            && self.routers.is_empty()
        {
            let rate = |port: &Port| self.profiles[port.profile as usize].rate();
            let ports = (0..).zip(&self.ports);
            self.routers = ports.map(|(id, port)| Router::with_parameters(id, rate(port), d3)).collect();
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
        self.observer.began(id);
        self.start();
        self.events.push(connection.start, Event::Start(id));
        id
    }

    /// What a handshake measures on an idle network: headers there and back. `None` if there is no way.
    fn round_trip(&self, spec: &FlowSpec) -> Option<SimTime> {
        let there = self.ideal(spec.from, spec.to, spec.hash, 0);
        let back = self.ideal(spec.to, spec.from, spec.hash.rotate_left(16), 0);
        (there > SimTime::ZERO && back > SimTime::ZERO).then(|| there + back)
    }

    /// Sizes the event queue for the network, once.
    pub(crate) fn start(&mut self) {
        if self.started || self.ports.is_empty() {
            return;
        }
        self.started = true;
        let frame = u64::from(self.sizes.payload + self.sizes.headers);
        let profile = |port: &Port| &self.profiles[port.profile as usize];
        let time = |port: &Port| frame.saturating_mul(8_000_000_000_000) / profile(port).rate().bps().max(1);
        let reach = self.ports.iter().map(|port| profile(port).delay() + SimTime::from_picos(time(port))).max();
        // Were every link busy with full frames, so many events would come in a second.
        let mean = self.ports.iter().map(|port| u128::from(time(port))).sum::<u128>() / self.ports.len() as u128;
        let events = if self.is_large() { EVENTS_PER_LARGE_BUCKET } else { EVENTS_PER_BUCKET };
        let width = mean * events / self.ports.len() as u128;
        let width = SimTime::from_picos(u64::try_from(width).unwrap_or(u64::MAX));
        debug_assert!(self.events.is_empty());
        self.events = EventQueue::with_width(width, reach.unwrap_or_default() + reach.unwrap_or_default());
    }

    /// Whether the network's state is larger than a near cache.
    pub(crate) fn is_large(&self) -> bool {
        self.ports.len() > crate::fetch::LARGE
    }

    /// Tells of the next flow that is over: everything was delivered, or (datagrams) nothing more will be.
    pub fn next_over(&mut self) -> Option<FlowId> {
        self.over.pop_front()
    }

    /// Nobody will ask for this flow again: its place may be used for another one. It must be over.
    pub fn release(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.index()];
        debug_assert_eq!(flow.life, Life::Over, "only a flow that is over can be released");
        flow.life = Life::Released;
        self.recycle(id);
    }

    /// Frees the place of a released flow when nothing of it is left.
    #[inline]
    pub(crate) fn recycle(&mut self, id: FlowId) {
        let flow = &mut self.flows[id.index()];
        if flow.is_gone() {
            flow.life = Life::Gone;
            self.free_flows.push(id);
        }
    }

    /// Makes `ports` count the bytes that arrive over their links, per class.
    pub fn add_meter(&mut self, ports: &[PortId]) -> MeterId {
        let id = MeterId(self.meters.len() as u32);
        self.meters.push(vec![0; self.classes]);
        for port in ports {
            self.ports[port.index()].metered = true;
            self.records[port.index()].meter = id;
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
    /// A flow; after [`World::release`] its id may mean another.
    pub fn flow(&self, id: FlowId) -> &Flow {
        &self.flows[id.index()]
    }
    /// All flows that have a place and have not been released, in the order of their places.
    pub fn flows(&self) -> impl Iterator<Item = (FlowId, &Flow)> {
        let known = |flow: &Flow| matches!(flow.life, Life::Running | Life::Over);
        (0..).map(FlowId).zip(&self.flows).filter(move |(_, flow)| known(flow))
    }
    /// The limit of a class at a host; [`Bandwidth::UNLIMITED`] when it has none.
    pub fn limit(&self, host: HostId, class: Class) -> Bandwidth {
        self.services[host.index() * self.classes + class.index()].limit
    }
    /// How many packets of a class wait for its limiter at a host.
    pub fn waiting(&self, host: HostId, class: Class) -> usize {
        self.services[host.index() * self.classes + class.index()].count
    }
    /// How many hosts there are.
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
    /// Bytes that a port could have sent until now, at the rates that it has had while its link was up.
    pub fn capacity(&self, id: PortId) -> u64 {
        let record = &self.records[id.index()];
        if !self.ports[id.index()].is_up() {
            return record.capacity;
        }
        let elapsed = self.now.saturating_sub(record.rated_at).picos();
        let bytes = u128::from(elapsed) * u128::from(self.rate(id).bps()) / 8_000_000_000_000;
        record.capacity.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
    /// The rate of a port's link, or the mean of those that it has had, nothing while it was down.
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
    /// The size of a port's own buffer in bytes; `None` where nothing is dropped, or where the switch shares its buffer.
    pub fn buffer(&self, id: PortId) -> Option<u64> {
        let buffer = self.profile(id).buffer;
        (buffer != u64::MAX).then_some(buffer)
    }
    fn profile(&self, id: PortId) -> &Profile {
        &self.profiles[self.ports[id.index()].profile as usize]
    }
    /// What a port counted.
    pub fn counts(&self, id: PortId) -> PortCounts {
        let record = &self.records[id.index()];
        let mut taken = record.taken;
        taken[0] = self.ports[id.index()].taken;
        PortCounts { taken, dropped: record.dropped, marked: record.marked }
    }
    /// Bytes of a class since the start at a host: what its meter reads.
    pub fn host_bytes(&self, host: HostId, class: Class) -> PerDirection<Bytes> {
        let bytes = self.host_bytes[host.index() * self.classes + class.index()];
        PerDirection { tx: Bytes::new(bytes.tx), rx: Bytes::new(bytes.rx) }
    }
    /// The port that leads down to a host.
    pub fn down_port(&self, host: HostId) -> PortId {
        self.routes.down[host.index()]
    }
    /// Bytes that a port holds: what waits and what is not yet sent of the frame on the wire.
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

/// The place of a profile in the table, where it is put if it is new.
pub(crate) fn known_profile(profiles: &mut Vec<Profile>, profile: Profile) -> u32 {
    let place = profiles.iter().position(|known| *known == profile).unwrap_or_else(|| {
        profiles.push(profile);
        profiles.len() - 1
    });
    place as u32
}

/// How many events a bucket of the event queue is to have when every link is busy: enough that few buckets are
/// empty, few enough that sorting them is cheap (`benches/engine.rs`).
const EVENTS_PER_BUCKET: u128 = 16;
/// The same where a bucket's memory is fetched ahead: enough fetches that they overlap.
const EVENTS_PER_LARGE_BUCKET: u128 = 256;
