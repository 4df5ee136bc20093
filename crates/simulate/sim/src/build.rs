//! Building a world: hosts, switches, links and routes, before the first event.
//!
//! [`World::new`], hosts and switches, links, [`World::compute_routes`]; or [`World::from_graph`]
//! for all of these. Equal links share one profile. The event queue is sized at the first flow or
//! datagram ([`World::start`]).
//!
//! Example: two hosts at 1 Gb/s on a switch are four ports and two profiles: hosts' interfaces drop
//! nothing.

use crate::agents::Agents;
use crate::aggregates::Aggregates;
use crate::events::EventQueue;
use crate::host::{Host, Jitter, ServiceLimit};
use crate::ids::{HostId, Node, PortId, SwitchId};
use crate::levels::Levels;
use crate::observer::Observer;
use crate::packet::{Arena, Extensions};
use crate::pages;
use crate::pairs::Pairs;
use crate::port::{Port, PortRecord, Profile, Service};
use crate::queue::{Order, Queue, RoundRobin, SharedBuffer};
use crate::quotas::Quotas;
use crate::routes::{Layers, NOT_A_LEAF, Neighbours, Routes};
use crate::shaper::Shaping;
use crate::tenants::Tags;
use crate::world::{Counters, World};
use std::collections::VecDeque;
use weir_network::Graph;
use weir_network::graph::{Discipline, LinkSpec, Packets, Routing};
use weir_scenario::{HostOrder, HostQueues};
use weir_units::{Bytes, PerDirection, SimTime};

/// A switch under construction.
#[derive(Debug, Default)]
pub(crate) struct Switch {
    ports: Vec<PortId>,
    /// Its shared buffer, an index into the world's table.
    shared: Option<u32>,
}

impl<O: Observer> World<O> {
    /// An empty world with `services` services and one index more for control traffic. Without
    /// services there is one index, and hosts' interfaces are first in, first out.
    pub fn new(services: usize, sizes: Packets, observer: O) -> Self {
        assert!(services < usize::from(u16::MAX), "too many services: {services}");
        assert!(sizes.payload > 0, "packets carry nothing");
        let frame = Bytes::new(u64::from(sizes.payload + sizes.headers));
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
            agents: Agents::default(),
            routes: Routes::default(),
            hosts: Vec::new(),
            services: Vec::new(),
            datapath: weir_datapath::Hosts::new(services + 1, frame),
            host_bytes: Vec::new(),
            flows: Vec::new(),
            free_flows: Vec::new(),
            shaping: Shaping::default(),
            levels: Levels::default(),
            tags: Tags::default(),
            has_credit_queues: false,
            pairs: Pairs::default(),
            quotas: Quotas::default(),
            aggregates: Aggregates::default(),
            over: VecDeque::new(),
            meters: Vec::new(),
            inspects: false,
            inspects_all: false,
            inbox: VecDeque::new(),
            counters: Counters::default(),
            observer,
            jitter: Jitter::default(),
            spray: None,
            symmetric: false,
            sizes,
            flow_limit: None,
            service_count: services + 1,
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
        match graph.routing {
            Routing::Ecmp => {}
            Routing::Spray => world.set_spraying(seed),
            Routing::Symmetric => world.set_symmetric_routing(),
        }
        world.compute_routes();
        world
    }

    /// Makes hosts take up to `most` longer, at random, to pass a packet to an idle interface.
    /// Without noise, flows through a drop-tail queue synchronise, and one gets several times the
    /// bandwidth of the other (Floyd and Jacobson 1992); the transmission time of a packet at the
    /// bottleneck is enough.
    pub fn set_jitter(&mut self, most: SimTime, seed: u64) {
        self.jitter = Jitter::new(most, seed);
    }

    /// Makes hosts take at most two frames of a flow: the frame in transmission and the next one.
    /// The queue of a busy interface is then short and shared evenly by its flows. Otherwise a flow
    /// may have as much in its host as Linux allows, about a millisecond's worth, and a short flow
    /// waits behind all of it.
    pub fn set_short_host_queues(&mut self) {
        self.flow_limit = Some(0);
    }

    /// Chooses the order in the hosts' interfaces and how much of a flow waits there. Call it before the first event.
    pub fn set_host_queues(&mut self, queues: &HostQueues) {
        assert!(!self.started, "hosts are configured before the run");
        if let HostOrder::Fifo { buffer, mark } = queues.order {
            self.flow_limit = Some(u64::MAX);
            for host in 0..self.hosts.len() {
                let Host { interface, queue, .. } = self.hosts[host];
                self.queues[queue as usize] = Queue::of(Discipline::Fifo);
                let port = &mut self.ports[interface.index()];
                let bytes = |size: Option<Bytes>| size.map_or(u64::MAX, Bytes::get);
                let profile = self.profiles[port.profile as usize].with_queue(bytes(buffer), bytes(mark));
                port.profile = known_profile(&mut self.profiles, profile);
            }
        }
        if let Some(limit) = queues.flow_limit {
            self.flow_limit = Some(limit.get());
        }
    }

    /// Makes switches choose among shortest paths at random for every packet.
    pub fn set_spraying(&mut self, seed: u64) {
        self.events.forget_hints();
        self.spray = Some(Jitter::new(SimTime::NEVER, seed));
    }

    /// Makes both directions of a flow take the same links, in networks whose layers allow it
    /// (`docs/reference/simulator-model.md` lists them). Call it before [`World::compute_routes`].
    pub fn set_symmetric_routing(&mut self) {
        self.symmetric = true;
    }

    /// Adds a switch.
    pub fn add_switch(&mut self) -> SwitchId {
        let id = SwitchId(self.switches.len() as u32);
        self.switches.push(Switch::default());
        id
    }

    /// Makes the ports that are added to a switch from now on share one buffer; each may hold
    /// `alpha_thousandths` thousandths of the free space.
    pub fn share_buffer(&mut self, switch: SwitchId, size: Bytes, alpha_thousandths: u32) {
        self.switches[switch.index()].shared = Some(self.shared.len() as u32);
        self.shared.push(SharedBuffer::new(size.get(), alpha_thousandths));
    }

    /// Adds a host below `switch`; `up` is the link from the host (its buffer is ignored), `down`
    /// the one to it.
    pub fn add_host(&mut self, switch: SwitchId, up: LinkSpec, down: LinkSpec) -> HostId {
        let host = HostId(self.hosts.len() as u32);
        let queue = match up.queue.discipline {
            Discipline::Fifo if self.service_count > 1 => {
                Queue::new(Order::RoundRobin(Box::new(RoundRobin::new(self.service_count))))
            }
            discipline => Queue::of(discipline),
        };
        let interface = self.add_port(up, u64::MAX, Node::Host(host), Node::Switch(switch));
        let queue = self.schedule(interface, queue);
        self.host_bytes.extend(std::iter::repeat_n(PerDirection::default(), self.service_count));
        self.services.extend((0..self.service_count).map(|_| ServiceLimit::default()));
        self.hosts.push(Host::new(interface, queue));
        self.host_switch.push(switch);
        let down = self.add_link(switch, Node::Host(host), down);
        self.pair(interface, down);
        host
    }

    /// Adds links between two switches: one each way.
    pub fn connect(&mut self, a: SwitchId, b: SwitchId, a_to_b: LinkSpec, b_to_a: LinkSpec) -> (PortId, PortId) {
        let ports = (self.add_link(a, Node::Switch(b), a_to_b), self.add_link(b, Node::Switch(a), b_to_a));
        self.pair(ports.0, ports.1);
        ports
    }

    /// Makes two ports the directions of one link.
    fn pair(&mut self, a: PortId, b: PortId) {
        (self.records[a.index()].opposite, self.records[b.index()].opposite) = (b, a);
    }

    fn add_link(&mut self, from: SwitchId, to: Node, link: LinkSpec) -> PortId {
        let shared = self.switches[from.index()].shared;
        let buffer = if shared.is_some() { u64::MAX } else { link.queue.buffer.get() };
        let port = self.add_port(link, buffer, Node::Switch(from), to);
        if shared.is_some() || link.queue.discipline != Discipline::Fifo {
            let mut queue = Queue::of(link.queue.discipline);
            queue.shared = shared;
            self.schedule(port, queue);
        }
        if let Some(index) = shared {
            let (size, alpha_thousandths) = self.shared[index as usize].limits();
            self.observer.shares(port, index, size, alpha_thousandths);
        }
        self.switches[from.index()].ports.push(port);
        port
    }

    fn add_port(&mut self, link: LinkSpec, buffer: u64, at: Node, to: Node) -> PortId {
        let owner = if let Node::Host(host) = at { Some(host) } else { None };
        let id = PortId(self.ports.len() as u32);
        // A host applies backpressure to its senders instead of marking.
        let mark = if owner.is_some() { u64::MAX } else { link.queue.mark.map_or(u64::MAX, Bytes::get) };
        let profile = Profile::new(link.rate, SimTime::from(link.delay), buffer, mark);
        self.records.push(PortRecord::new(profile.clock().clone(), at));
        let profile = known_profile(&mut self.profiles, profile);
        pages::push(&mut self.ports, Port::new(profile, to, owner));
        id
    }

    /// Gives a port a queue and returns the queue's index in the table.
    pub(crate) fn schedule(&mut self, port: PortId, queue: Queue) -> u32 {
        let out = &mut self.ports[port.index()];
        out.service = Service::Scheduled;
        self.records[port.index()].usual = Service::Scheduled;
        let index = self.queues.len() as u32;
        out.queue = index;
        pages::push(&mut self.queues, queue);
        index
    }

    /// The switches with hosts, each with its number among them.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut all: Vec<(u32, u32)> =
            self.hosts.iter().zip(&self.host_switch).map(|(host, switch)| (switch.0, host.leaf)).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter()
    }

    /// Gives every switch all shortest paths to every host over links that are up. Call it when all
    /// links exist, and after links changed state.
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
        let ports = |of: &Switch| -> Vec<(PortId, Node)> {
            of.ports.iter().map(|&port| (port, self.ports[port.index()].to())).collect()
        };
        for (port, to) in self.switches.iter().flat_map(ports) {
            if let Node::Host(host) = to {
                down[host.index()] = port;
            }
        }
        // By switch, its ports that lead to switches, and those switches. Links that are down lead nowhere.
        let neighbours = |also_down: bool| -> Vec<Neighbours> {
            let counts = |port: PortId| also_down || self.ports[port.index()].is_up();
            let neighbour = |(port, to): (PortId, Node)| to.switch().filter(|_| counts(port)).map(|to| (port, to));
            self.switches.iter().map(|switch| ports(switch).into_iter().filter_map(neighbour).collect()).collect()
        };
        let layers = self.symmetric.then(|| Layers::new(&leaves, &neighbours(true)));
        let neighbours = neighbours(false);
        self.events.forget_hints();
        self.routes = Routes::build(&leaves, down, &neighbours, layers.as_ref());
        self.reroute_agents();
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
        // The events of a second if every link were busy with full frames.
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
}

/// The index of a profile in the table; a new profile is added.
pub(crate) fn known_profile(profiles: &mut Vec<Profile>, profile: Profile) -> u32 {
    let index = profiles.iter().position(|known| *known == profile).unwrap_or_else(|| {
        profiles.push(profile);
        profiles.len() - 1
    });
    index as u32
}

/// The number of events in a bucket of the event queue when every link is busy; at usual loads it is some tens. Large
/// enough that few buckets are empty, small enough that sorting is cheap. With 16 the testbed with shapers takes 6 to
/// 10 % longer, a dumbbell 20 to 26 %; from 128 on most take longer (`benches/engine.rs`, `benches/common_work.rs`).
const EVENTS_PER_BUCKET: u128 = 64;
/// The same where a bucket's memory is prefetched: enough fetches to overlap.
const EVENTS_PER_LARGE_BUCKET: u128 = 256;
