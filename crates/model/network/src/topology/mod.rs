//! Topologies: from a few parameters to a [`Graph`].
//!
//! Problem: networks of papers have names (dumbbell, leaf-spine, fat-tree) and a handful of
//! parameters, and the simulator needs hosts, switches and cables. Approach: one type per topology,
//! which computes its [`Size`] before anything is built and then builds; all of them use the same
//! small builder, so that names, numbering and the ends of links follow one rule.
//!
//! | topology | switches | hosts | groups beside `all` |
//! |---|---|---|---|
//! | [`Dumbbell`] | `left`, `right` | `s0`… on the left, `r0`… on the right | `senders`, `receivers` |
//! | [`ParkingLot`] | `sw0`… in a chain | `h0`…, numbered along the chain | `sw0`… |
//! | [`Star`] | `switch` | `h0`… | – |
//! | [`LeafSpine`] | `leaf0`…, `spine0`… | `h0`…, numbered through the racks | `leaf0`… and `rack0`… |
//! | [`FatTree`] | `edge0`…, `agg0`…, `core0`… | `h0`…, numbered through the pods | `edge0`…, `pod0`… |
//! | [`Explicit`] | as written | as written | as written |
//! | [`from_racks`] | the racks, `spine0`… or, if that is taken, `spine-0`… | the machines | the racks |
//!
//! A link's [`LinkSpec`] holds for both of its directions. The queue of a host's link is that of
//! the switch's port towards the host; the host's own interface orders by the same discipline and
//! marks nothing, as it applies backpressure to the sender instead.
//!
//! Worked example: a leaf-spine of 9 racks of 16 hosts and 4 spines has 144 hosts, 13 switches, 36
//! cables.

mod dumbbell;
mod explicit;
mod fat_tree;
mod leaf_spine;
mod parking_lot;
mod racks;
mod star;

pub use dumbbell::Dumbbell;
pub use explicit::{Explicit, ExplicitCable, ExplicitHost};
pub use fat_tree::FatTree;
pub use leaf_spine::LeafSpine;
pub use parking_lot::ParkingLot;
pub use racks::{Links, from_racks, racks_size};
pub use star::Star;

use crate::graph::{Cable, Discipline, Graph, Host, LinkSpec, Packets, QueueSpec, Routing, SharedBuffer};
use std::collections::BTreeMap;
use weir_units::{Bandwidth, Bytes, Duration, MachineId};

/// A topology with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    /// Two switches and one cable between them.
    Dumbbell(Dumbbell),
    /// Switches in a chain.
    ParkingLot(ParkingLot),
    /// One switch.
    Star(Star),
    /// Two layers of switches.
    LeafSpine(LeafSpine),
    /// Three layers of equal switches.
    FatTree(FatTree),
    /// As written.
    Explicit(Explicit),
}

impl Topology {
    /// How large the graph will be.
    pub fn size(&self) -> Size {
        match self {
            Self::Dumbbell(topology) => topology.size(),
            Self::ParkingLot(topology) => topology.size(),
            Self::Star(topology) => topology.size(),
            Self::LeafSpine(topology) => topology.size(),
            Self::FatTree(topology) => topology.size(),
            Self::Explicit(topology) => topology.size(),
        }
    }
    /// The graph.
    pub fn build(&self, common: Common) -> Graph {
        match self {
            Self::Dumbbell(topology) => topology.build(common),
            Self::ParkingLot(topology) => topology.build(common),
            Self::Star(topology) => topology.build(common),
            Self::LeafSpine(topology) => topology.build(common),
            Self::FatTree(topology) => topology.build(common),
            Self::Explicit(topology) => topology.build(common),
        }
    }
}

/// The properties of the whole network, for every topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Common {
    /// The choice of switches among shortest paths.
    pub routing: Routing,
    /// Sizes of packets.
    pub packets: Packets,
    /// The buffer that a switch's ports share; `None` if each port has its own.
    pub shared_buffer: Option<SharedBuffer>,
    /// The noise of hosts; see [`Graph::jitter`].
    pub jitter: Duration,
}

impl Default for Packets {
    /// TCP over IPv4 over Ethernet with an MTU of 1500 bytes: 1448 bytes of payload behind 14 bytes
    /// of Ethernet, 20 of IPv4 (RFC 791) and 32 of TCP with time stamps (RFC 9293, RFC 7323).
    fn default() -> Self {
        Self { payload: 1448, headers: 66 }
    }
}

impl Default for QueueSpec {
    /// First in, first out, 256 kB, no marking: some 170 full packets, a few times the
    /// bandwidth-delay product of 10 Gb/s and 50 µs.
    fn default() -> Self {
        Self { discipline: Discipline::Fifo, buffer: Bytes::new(256_000), mark: None }
    }
}

impl Packets {
    /// Bytes of a full packet on the wire.
    pub fn frame(&self) -> u64 {
        u64::from(self.payload) + u64::from(self.headers)
    }
}

/// How large a network is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Hosts.
    pub hosts: u64,
    /// Switches.
    pub switches: u64,
    /// Switches that have hosts.
    pub edges: u64,
    /// One-way links.
    pub links: u64,
    /// Whether the switches of a layer reach all others alike, so that the simulator keeps their
    /// routes once.
    pub alike: bool,
}

impl Size {
    /// A size from hosts, switches, switches that have hosts, and cables between switches.
    pub(crate) fn new(hosts: u64, switches: u64, edges: u64, cables: u64) -> Self {
        Self { hosts, switches, edges, links: hosts.saturating_add(cables).saturating_mul(2), alike: true }
    }
    /// The same size of a network in which no two switches need be alike.
    pub(crate) fn unlike(self) -> Self {
        Self { alike: false, ..self }
    }
    /// The size of a graph that is built already; no two of its switches need be alike.
    pub fn of(graph: &Graph) -> Self {
        let count = |n: usize| n as u64;
        let edges = graph.rack_switches().len();
        Self::new(count(graph.hosts.len()), count(graph.switches.len()), count(edges), count(graph.cables.len()))
            .unlike()
    }
    /// The bytes of a run before any packet moves: graph, ports, routes and the records of links.
    ///
    /// An estimate from above: 8 MB for the program; a link with its port, queue, counters and
    /// record, 1 kB; a host with its names, 512 B; a switch, 256 B; a route from every switch to
    /// every switch that has hosts, 4 B, and 40 B where switches are not alike, most of it while
    /// routes are built. Measured as the peak resident set (`VmHWM`) of a run with one flow of 1
    /// kB, on fat-trees of 16, 36, 64 and 100 ports, in MB: 15, 83, 417 and 1573, of 16, 91, 488
    /// and 1926 estimated; on a leaf-spine of 1000 racks of 40 hosts and 40 spines 179 of 197; on
    /// 1000, 2000 and 6000 switches with a host each and 2 random links each 51, 166 and 1348 of
    /// 55, 182 and 1489; on a parking lot of 3000 switches 199 of 383. To measure again, in KiB of
    /// 1024 B:
    ///
    /// ```text
    /// /usr/bin/time -f '%M kB' weir sim scenarios/fat-tree-shuffle.scenario.yaml --set network.k=64 \
    ///     --set 'traffic=[{ from: h0, to: h1, size: 1kB }]'
    /// ```
    pub fn memory(&self) -> Bytes {
        let parts = [
            8_000_000,
            self.hosts.saturating_mul(512),
            self.links.saturating_mul(1_024),
            self.switches.saturating_mul(256),
            self.switches.saturating_mul(self.edges).saturating_mul(if self.alike { 4 } else { 40 }),
        ];
        Bytes::new(parts.into_iter().fold(0, u64::saturating_add))
    }
}

/// The rate of cable `index` when `rate` is divided over `count` cables: the remainder in bit/s
/// goes to the first ones, so that the sum is exact.
fn part(rate: Bandwidth, count: u32, index: u32) -> Bandwidth {
    let (rate, count, index) = (rate.bps(), u64::from(count), u64::from(index));
    Bandwidth::from_bps(rate / count + u64::from(index < rate % count))
}

/// Numbers the cables between the same two switches, from 1 in their order; a lone cable has 0.
fn number_parallel(cables: &mut [Cable]) {
    let ends = |cable: &Cable| (cable.a.min(cable.b), cable.a.max(cable.b));
    let mut order: Vec<_> = cables.iter().enumerate().map(|(at, cable)| (ends(cable), at)).collect();
    order.sort_unstable();
    for parallel in order.chunk_by(|x, y| x.0 == y.0).filter(|parallel| parallel.len() > 1) {
        for ((_, at), number) in parallel.iter().zip(1..) {
            cables[*at].number = number;
        }
    }
}

/// Puts a graph together.
#[derive(Debug, Default)]
struct Builder {
    hosts: Vec<Host>,
    switches: Vec<String>,
    cables: Vec<Cable>,
    groups: BTreeMap<String, Vec<MachineId>>,
}

impl Builder {
    /// `count` switches named `name0`, `name1`, …; returns the index of the first.
    fn switches(&mut self, name: &str, count: u32) -> usize {
        let first = self.switches.len();
        self.switches.extend((0..count).map(|i| format!("{name}{i}")));
        first
    }
    fn switch(&mut self, name: &str) -> usize {
        self.switches.push(name.to_owned());
        self.switches.len() - 1
    }
    /// A host at `switch`; `link` is the same both ways.
    fn host(&mut self, name: String, switch: usize, link: LinkSpec) -> MachineId {
        self.host_with(name, switch, link, link)
    }
    fn host_with(&mut self, name: String, switch: usize, up: LinkSpec, down: LinkSpec) -> MachineId {
        let id = MachineId(self.hosts.len() as u32);
        // A host's own interface marks nothing.
        let up = LinkSpec { queue: QueueSpec { mark: None, ..up.queue }, ..up };
        self.hosts.push(Host { name, switch, up, down, is_namesake: false });
        id
    }
    fn cable(&mut self, a: usize, b: usize, link: LinkSpec) {
        self.cable_with(a, b, link, link);
    }
    fn cable_with(&mut self, a: usize, b: usize, a_to_b: LinkSpec, b_to_a: LinkSpec) {
        // The numbers of parallel cables are set by `finish`, when all cables are there.
        self.cables.push(Cable { a, b, a_to_b, b_to_a, number: 0 });
    }
    fn join(&mut self, group: &str, host: MachineId) {
        match self.groups.get_mut(group) {
            Some(members) => members.push(host),
            None => {
                self.groups.insert(group.to_owned(), vec![host]);
            }
        }
    }
    fn finish(self, common: Common) -> Graph {
        let Self { hosts, switches, mut cables, mut groups } = self;
        number_parallel(&mut cables);
        // A policy may have a machine of this name, and then means it.
        if !hosts.iter().any(|host| host.name == "all") {
            groups.entry("all".to_owned()).or_insert_with(|| (0..hosts.len() as u32).map(MachineId).collect());
        }
        let Common { routing, packets, shared_buffer, jitter } = common;
        let mut graph = Graph { hosts, switches, cables, groups, routing, packets, shared_buffer, jitter };
        graph.mark_namesakes();
        graph
    }
}

#[cfg(test)]
mod tests;
