//! The ports of a network that differ, and the traffic that reaches each of them.
//!
//! Problem: a fat-tree of ten thousand hosts has fifty thousand ports, each reached by thousands of senders, and a
//! planner computes the bounds of a hundred choices. Approach: most ports are alike. A port's bound depends on its link
//! and on the traffic that reaches it, which depends on the ports before. So all ports begin alike if their links are,
//! and are distinguished by what reaches them until nothing changes (the refinement of a partition); bounds are
//! computed for one port of each class. In a symmetric leaf-spine there are four classes, in a fat-tree six.
//!
//! A host's traffic may use every shortest path, since equal paths are chosen by a hash or at random: the host counts
//! in full at each port on one of them. Traffic may go to every host but its sender.
//!
//! Classes have 64-bit hashes of all that distinguishes them. The number of ports is below 2^24, so two
//! classes collide with a probability below 2^-17 in a network without any symmetry, and below 2^-40 in one that has
//! some.
//!
//! Worked example: 9 racks of 16 hosts and 4 spines: interfaces; leaf to spine, 16 hosts; spine to leaf, 128 hosts;
//! leaf to host, 143 hosts.
//!
//! Source: ours; the paths are those of `crates/simulate/sim/src/routes`.

use std::collections::HashMap;
use weir_network::Graph;
use weir_network::graph::{LinkRef, LinkSpec};
use weir_units::{Bandwidth, Bytes, Duration, MachineId};

/// Sets of senders: bit `i` is set for a host of set `i`.
pub type SenderMask = u64;

/// The sender by a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortKind {
    /// A host, into the network.
    Interface,
    /// A switch, to another one.
    Fabric,
    /// A switch, to a host.
    Host,
}

/// Ports with equal links that equal traffic reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortClass {
    /// One of them.
    pub example: LinkRef,
    /// Their number.
    pub count: u64,
    /// The sender by them.
    pub kind: PortKind,
    /// The rate of their links.
    pub rate: Bandwidth,
    /// The propagation delay.
    pub delay: Duration,
    /// The port's buffer; `None` for hosts, which lose nothing.
    pub buffer: Option<Bytes>,
    /// The traffic that reaches one of them: an index into [`Routes::arrivals`], and the number of its hosts.
    pub inputs: Vec<(usize, u64)>,
}

/// The traffic of a host when it arrives at a port: equal for hosts with equal paths to equal ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The sets that the host is in.
    pub senders: SenderMask,
    /// The ports by which it may have come, and its arrivals there, as indices; empty at the host.
    pub via: Vec<(usize, usize)>,
}

/// The classes of ports of a network, in an order in which traffic passes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routes {
    /// The classes.
    pub ports: Vec<PortClass>,
    /// The traffic that reaches them.
    pub arrivals: Vec<Arrival>,
    /// Every port that traffic reaches, with the index of its class.
    pub class_of: Vec<(LinkRef, usize)>,
}

/// Traffic from a port may return to it by way of others: no bound is known then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cycle {
    /// A port of the cycle.
    pub at: LinkRef,
}

impl Routes {
    /// The ports that the traffic of hosts can reach; `senders` is by host the sets of senders that it is in, 0 for a
    /// host that only receives.
    ///
    /// # Errors
    /// [`Cycle`] if ports depend on each other, as in a ring of switches.
    ///
    /// # Panics
    /// If `senders` has not one value for each host.
    pub fn new(graph: &Graph, senders: &[SenderMask]) -> Result<Self, Cycle> {
        assert_eq!(senders.len(), graph.hosts.len(), "a mask for each host");
        let ports = Ports::new(graph, senders);
        let mut colours = Colours::new(&ports);
        let mut classes = colours.count();
        loop {
            colours.refine(&ports);
            let refined = colours.count();
            if refined == classes {
                return Extraction::new(&ports, &colours).finish();
            }
            classes = refined;
        }
    }
}

/// Hosts of a switch with equal links and sets.
struct Group {
    switch: usize,
    first: MachineId,
    hosts: u64,
    senders: SenderMask,
}

/// A network as lists of links by switch.
struct Ports<'a> {
    graph: &'a Graph,
    /// By switch: links to other switches, `2 · cable` from `a` to `b` and one more from `b` to `a`, and their ends.
    out: Vec<Vec<(usize, usize)>>,
    groups: Vec<Group>,
    /// By host.
    group_of: Vec<usize>,
    /// By switch.
    groups_at: Vec<Vec<usize>>,
    /// Switches with hosts that send, with the groups of these hosts and the paths from there.
    sources: Vec<(usize, Vec<usize>, Paths)>,
}

/// The shortest paths from a switch to the switches of hosts.
struct Paths {
    /// The switches on them, nearest first.
    order: Vec<u32>,
    /// By switch, modulo 256, which distinguishes neighbours; [`OFF`] for a switch on none of them.
    distance: Vec<u16>,
}

/// No distance: such a switch is on no path.
const OFF: u16 = u16::MAX;

impl<'a> Ports<'a> {
    fn new(graph: &'a Graph, senders: &[SenderMask]) -> Self {
        let mut out = vec![Vec::new(); graph.switches.len()];
        for (index, cable) in graph.cables.iter().enumerate() {
            out[cable.a].push((2 * index, cable.b));
            out[cable.b].push((2 * index + 1, cable.a));
        }
        let mut groups: Vec<Group> = Vec::new();
        let mut groups_at = vec![Vec::new(); graph.switches.len()];
        let mut group_of = Vec::with_capacity(graph.hosts.len());
        for ((host, &senders), id) in graph.hosts.iter().zip(senders).zip((0..).map(MachineId)) {
            let at: &mut Vec<usize> = &mut groups_at[host.switch];
            let same = |&group: &usize| {
                let of = &graph.hosts[groups[group].first.index()];
                (&of.up, &of.down, groups[group].senders) == (&host.up, &host.down, senders)
            };
            match at.iter().copied().find(same) {
                Some(group) => {
                    group_of.push(group);
                    groups[group].hosts += 1;
                }
                None => {
                    group_of.push(groups.len());
                    at.push(groups.len());
                    groups.push(Group { switch: host.switch, first: id, hosts: 1, senders });
                }
            }
        }
        let mut ports = Self { graph, out, groups, group_of, groups_at, sources: Vec::new() };
        let senders = |at: &Vec<usize>| -> Vec<usize> {
            at.iter().copied().filter(|group| ports.groups[*group].senders != 0).collect()
        };
        let sources = ports.groups_at.iter().map(senders).enumerate().filter(|(_, senders)| !senders.is_empty());
        ports.sources = sources.map(|(switch, senders)| (switch, senders, ports.paths(switch))).collect();
        ports
    }

    fn link(index: usize) -> LinkRef {
        if index.is_multiple_of(2) { LinkRef::Forward(index / 2) } else { LinkRef::Backward(index / 2) }
    }

    fn paths(&self, from: usize) -> Paths {
        let mut distance = vec![u32::MAX; self.out.len()];
        let mut order = vec![from];
        distance[from] = 0;
        let mut next = 0;
        while let Some(&at) = order.get(next) {
            next += 1;
            for &(_, to) in &self.out[at] {
                if distance[to] == u32::MAX {
                    distance[to] = distance[at] + 1;
                    order.push(to);
                }
            }
        }
        let mut used = vec![false; self.out.len()];
        for &at in order.iter().rev() {
            let leads = |&(_, to): &(usize, usize)| used[to] && distance[to] == distance[at] + 1;
            used[at] = at == from || !self.groups_at[at].is_empty() || self.out[at].iter().any(leads);
        }
        order.retain(|at| used[*at]);
        let short = |(distance, used): (u32, bool)| if used { (distance % 256) as u16 } else { OFF };
        Paths {
            order: order.into_iter().map(|at| at as u32).collect(),
            distance: distance.into_iter().zip(used).map(short).collect(),
        }
    }

    /// The links of a switch on shortest paths to hosts, with their far ends.
    fn onward<'b>(&'b self, paths: &'b Paths, at: usize) -> impl Iterator<Item = (usize, usize)> + 'b {
        self.out[at].iter().copied().filter(move |(_, to)| paths.leads(at, *to))
    }

    /// The same back: the reverse of the links that lead to a switch, with their near ends.
    fn inward<'b>(&'b self, paths: &'b Paths, at: usize) -> impl Iterator<Item = (usize, usize)> + 'b {
        self.out[at].iter().copied().filter(move |(_, from)| paths.leads(*from, at))
    }
}

impl Paths {
    /// Whether the paths lead from one neighbour to the other.
    fn leads(&self, from: usize, to: usize) -> bool {
        let (from, to) = (self.distance[from], self.distance[to]);
        from != OFF && to == (from + 1) % 256
    }
}

/// Joins two hashes; the order matters. The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn mix(a: u64, b: u64) -> u64 {
    let mut bits = (a ^ b.rotate_left(32).wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// A hash for each port: equal for ports that are not distinguished yet.
struct Colours {
    /// By link between switches.
    fabric: Vec<u64>,
    /// By group.
    up: Vec<u64>,
    down: Vec<u64>,
}

impl Colours {
    /// Ports by their links.
    fn new(ports: &Ports<'_>) -> Self {
        let of = |kind: u64, link: &LinkSpec| {
            let parts = [link.rate.bps(), link.delay.nanos(), link.queue.buffer.get()];
            parts.into_iter().fold(kind, mix)
        };
        let links = (0..2 * ports.graph.cables.len()).map(|index| of(1, ports.graph.link(Ports::link(index))));
        let host = |group: &Group| &ports.graph.hosts[group.first.index()];
        Self {
            fabric: links.collect(),
            up: ports.groups.iter().map(|group| mix(of(2, &host(group).up), group.senders)).collect(),
            down: ports.groups.iter().map(|group| of(3, &host(group).down)).collect(),
        }
    }

    fn count(&self) -> usize {
        let mut all: Vec<u64> = self.fabric.iter().chain(&self.up).chain(&self.down).copied().collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    }

    /// Visits the switches on a group's paths, nearest first, with a hash of its traffic when it arrives there; after
    /// each the links that it leaves by.
    fn visit(
        &self,
        ports: &Ports<'_>,
        (paths, group): (&Paths, usize),
        arrivals: &mut Vec<u64>,
        mut visit: impl FnMut(usize, u64, Option<usize>),
    ) {
        arrivals.clear();
        arrivals.resize(ports.out.len(), 0);
        let from = ports.groups[group].switch;
        arrivals[from] = mix(self.up[group], 4);
        for at in paths.order.iter().map(|at| *at as usize) {
            // The sum over the links that led here is complete: they come from nearer switches.
            let here = if at == from { arrivals[at] } else { mix(arrivals[at], 5) };
            visit(at, here, None);
            for (link, to) in ports.onward(paths, at) {
                visit(at, here, Some(link));
                arrivals[to] = arrivals[to].wrapping_add(mix(here, self.fabric[link]));
            }
        }
    }

    /// Distinguishes ports by the traffic that reaches them.
    fn refine(&mut self, ports: &Ports<'_>) {
        let mut fabric = vec![0u64; self.fabric.len()];
        let mut down = vec![0u64; self.down.len()];
        let mut arrivals = Vec::new();
        for (_, senders, paths) in &ports.sources {
            for &group in senders {
                let hosts = ports.groups[group].hosts;
                self.visit(ports, (paths, group), &mut arrivals, |at, here, link| {
                    if let Some(link) = link {
                        fabric[link] = fabric[link].wrapping_add(mix(here, 6).wrapping_mul(hosts));
                        return;
                    }
                    for &to in &ports.groups_at[at] {
                        let senders = hosts - u64::from(to == group);
                        down[to] = down[to].wrapping_add(mix(here, 7).wrapping_mul(senders));
                    }
                });
            }
        }
        for (colour, reached) in self.fabric.iter_mut().zip(fabric).chain(self.down.iter_mut().zip(down)) {
            *colour = mix(*colour, reached);
        }
    }
}

/// One port of each class, with what reaches it.
struct Extraction<'a, 'b> {
    ports: &'b Ports<'a>,
    colours: &'b Colours,
    classes: Vec<PortClass>,
    class_of: HashMap<u64, usize>,
    arrivals: Vec<Arrival>,
    arrival_of: HashMap<u64, usize>,
}

impl<'a, 'b> Extraction<'a, 'b> {
    fn new(ports: &'b Ports<'a>, colours: &'b Colours) -> Self {
        let mut extraction = Self {
            ports,
            colours,
            classes: Vec::new(),
            class_of: HashMap::new(),
            arrivals: Vec::new(),
            arrival_of: HashMap::new(),
        };
        extraction.find_classes();
        extraction.find_inputs();
        extraction
    }

    fn find_classes(&mut self) {
        for (group, of) in self.ports.groups.iter().enumerate() {
            self.class(self.colours.up[group], LinkRef::Up(of.first), PortKind::Interface, of.hosts);
            self.class(self.colours.down[group], LinkRef::Down(of.first), PortKind::Host, of.hosts);
        }
        for (index, colour) in self.colours.fabric.iter().enumerate() {
            self.class(*colour, Ports::link(index), PortKind::Fabric, 1);
        }
    }

    fn class(&mut self, colour: u64, example: LinkRef, kind: PortKind, count: u64) {
        let index = *self.class_of.entry(colour).or_insert_with(|| {
            let link = self.ports.graph.link(example);
            let shared = self.ports.graph.shared_buffer.map(|shared| shared.of_one_port());
            self.classes.push(PortClass {
                example,
                count: 0,
                kind,
                rate: link.rate,
                delay: link.delay,
                buffer: (kind != PortKind::Interface).then(|| shared.unwrap_or(link.queue.buffer)),
                inputs: Vec::new(),
            });
            self.classes.len() - 1
        });
        self.classes[index].count += count;
    }

    /// The links of switches, by switch: those that are the example of their class.
    fn examples(&self) -> Vec<Vec<(usize, usize, usize)>> {
        let mut examples = vec![Vec::new(); self.ports.out.len()];
        for (at, links) in self.ports.out.iter().enumerate() {
            let own = links.iter().map(|&(link, to)| (link, to, self.class_of[&self.colours.fabric[link]]));
            examples[at].extend(own.filter(|(link, _, class)| self.classes[*class].example == Ports::link(*link)));
        }
        examples
    }

    fn find_inputs(&mut self) {
        let examples = self.examples();
        let mut inputs: Vec<HashMap<usize, u64>> = vec![HashMap::new(); self.classes.len()];
        let (mut scratch, mut arrived) = (Vec::new(), vec![0; self.ports.out.len()]);
        let (ports, colours) = (self.ports, self.colours);
        for (switch, senders, paths) in &ports.sources {
            for &group in senders {
                let Group { hosts, senders: sets, .. } = ports.groups[group];
                let source = self.arrival(mix(sets, 8), sets, Vec::new);
                let up = self.class_of[&colours.up[group]];
                inputs[up].insert(source, 1);
                colours.visit(ports, (paths, group), &mut scratch, |at, hash, link| {
                    if link.is_some() {
                        return;
                    }
                    let fabric = |link: usize| self.class_of[&colours.fabric[link]];
                    // The reverse of a link has the other number of its pair.
                    let before = |(link, from): (usize, usize)| (fabric(link ^ 1), arrived[from]);
                    let arrival = match self.arrival_of.get(&hash) {
                        Some(&arrival) => arrival,
                        None => {
                            let via = match at == *switch {
                                true => vec![(up, source)],
                                false => distinct(ports.inward(paths, at).map(before).collect()),
                            };
                            self.arrival(hash, sets, || via)
                        }
                    };
                    arrived[at] = arrival;
                    for &(_, to, class) in &examples[at] {
                        if paths.leads(at, to) {
                            *inputs[class].entry(arrival).or_default() += hosts;
                        }
                    }
                    for &to in &ports.groups_at[at] {
                        let class = self.class_of[&colours.down[to]];
                        let senders = hosts - u64::from(to == group);
                        if senders > 0 && self.classes[class].example == LinkRef::Down(ports.groups[to].first) {
                            *inputs[class].entry(arrival).or_default() += senders;
                        }
                    }
                });
            }
        }
        for (class, inputs) in self.classes.iter_mut().zip(inputs) {
            class.inputs = inputs.into_iter().collect();
            class.inputs.sort_unstable();
        }
    }

    /// The arrival of this hash; a new one has `via`.
    fn arrival(&mut self, hash: u64, senders: SenderMask, via: impl FnOnce() -> Vec<(usize, usize)>) -> usize {
        *self.arrival_of.entry(hash).or_insert_with(|| {
            self.arrivals.push(Arrival { senders, via: via() });
            self.arrivals.len() - 1
        })
    }

    /// Puts the classes that traffic reaches in order.
    fn finish(self) -> Result<Routes, Cycle> {
        let (classes, arrivals) = (&self.classes, &self.arrivals);
        let reached = |class: &PortClass| !class.inputs.is_empty();
        let mut before: Vec<Vec<usize>> = Vec::with_capacity(classes.len());
        for class in classes {
            let ports = class.inputs.iter().flat_map(|(arrival, _)| &arrivals[*arrival].via).map(|(port, _)| *port);
            let mut ports: Vec<usize> = ports.collect();
            ports.sort_unstable();
            ports.dedup();
            before.push(ports);
        }
        let mut place = vec![usize::MAX; classes.len()];
        let mut order = Vec::new();
        let mut left: Vec<usize> = (0..classes.len()).filter(|class| reached(&classes[*class])).collect();
        while !left.is_empty() {
            let (ready, rest): (Vec<usize>, Vec<usize>) =
                left.iter().partition(|class| before[**class].iter().all(|port| place[*port] != usize::MAX));
            let Some(&stuck) = rest.first().filter(|_| ready.is_empty()) else {
                for class in ready {
                    place[class] = order.len();
                    order.push(class);
                }
                left = rest;
                continue;
            };
            return Err(Cycle { at: classes[stuck].example });
        }
        let class_of = self.class_of(&place);
        let Self { classes, mut arrivals, .. } = self;
        arrivals.iter_mut().flat_map(|arrival| &mut arrival.via).for_each(|(port, _)| *port = place[*port]);
        let mut classes: Vec<Option<PortClass>> = classes.into_iter().map(Some).collect();
        let ports = order.into_iter().filter_map(|class| classes[class].take()).collect();
        Ok(Routes { ports, arrivals, class_of })
    }

    /// Every port with the index of its class in `place`.
    fn class_of(&self, place: &[usize]) -> Vec<(LinkRef, usize)> {
        let fabric = (0..self.colours.fabric.len()).map(|link| (Ports::link(link), self.colours.fabric[link]));
        let hosts = (0..).map(MachineId).zip(&self.ports.group_of).flat_map(|(host, &group)| {
            [(LinkRef::Up(host), self.colours.up[group]), (LinkRef::Down(host), self.colours.down[group])]
        });
        let class = |(link, colour): (LinkRef, u64)| (link, place[self.class_of[&colour]]);
        hosts.chain(fabric).map(class).filter(|(_, class)| *class != usize::MAX).collect()
    }
}

/// Each pair once, ascending.
fn distinct(mut pairs: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_network::graph::{Packets, QueueSpec, Routing};
    use weir_network::topology::{Common, Explicit, ExplicitCable, ExplicitHost, FatTree, LeafSpine, Star};

    const COMMON: Common = Common {
        routing: Routing::Ecmp,
        packets: Packets { payload: 1448, headers: 66 },
        shared_buffer: None,
        jitter: Duration::ZERO,
    };

    fn link(gbps: u64) -> LinkSpec {
        LinkSpec { rate: Bandwidth::from_gbps(gbps), delay: Duration::from_micros(1), queue: QueueSpec::default() }
    }

    /// By class: its name, how many ports it has, how many hosts reach one of them.
    fn shape(graph: &Graph, senders: &[SenderMask]) -> Vec<(String, u64, u64)> {
        let routes = Routes::new(graph, senders).expect("no cycle");
        let hosts = |class: &PortClass| class.inputs.iter().map(|(_, hosts)| hosts).sum();
        routes.ports.iter().map(|class| (graph.link_name(class.example), class.count, hosts(class))).collect()
    }

    fn expected(all: &[(&str, u64, u64)]) -> Vec<(String, u64, u64)> {
        all.iter().map(|(name, count, hosts)| ((*name).to_owned(), *count, *hosts)).collect()
    }

    #[test]
    fn a_leaf_spine_has_four_classes() {
        let topology = LeafSpine { racks: 9, hosts: 16, spines: 4, host_link: link(10), fabric_link: link(40) };
        let shape = shape(&topology.build(COMMON), &[1; 144]);
        let all =
            [("h0->leaf0", 144, 1), ("leaf0->spine0", 36, 16), ("spine0->leaf0", 36, 128), ("leaf0->h0", 144, 143)];
        assert_eq!(shape, expected(&all));
    }

    #[test]
    fn a_fat_tree_has_six_classes() {
        let graph =
            FatTree { k: 4, cores: 4, aggregations: 2, host_link: link(10), fabric_link: link(10) }.build(COMMON);
        // An edge has 2 hosts, a pod 4, the tree 16.
        let all = [
            ("h0->edge0", 16, 1),
            ("edge0->agg0", 16, 2),
            ("agg0->core0", 16, 4),
            ("core0->agg0", 16, 12),
            ("agg0->edge0", 16, 14),
            ("edge0->h0", 16, 15),
        ];
        assert_eq!(shape(&graph, &[1; 16]), expected(&all));
    }

    #[test]
    fn senders_and_other_hosts_differ() {
        let graph = Star { hosts: 5, host_link: link(10) }.build(COMMON);
        let all = [("h0->switch", 2, 1), ("switch->h0", 2, 1), ("switch->h2", 3, 2)];
        assert_eq!(shape(&graph, &[1, 1, 0, 0, 0]), expected(&all));
    }

    #[test]
    fn a_ring_has_no_order() {
        let host = |index: usize| ExplicitHost { name: format!("h{index}"), switch: index, up: link(1), down: link(1) };
        let cable = |a, b| ExplicitCable { a, b, a_to_b: link(1), b_to_a: link(1) };
        let ring = |switches: usize| Explicit {
            hosts: (0..switches).map(host).collect(),
            switches: (0..switches).map(|index| format!("s{index}")).collect(),
            cables: (0..switches).map(|index| cable(index, (index + 1) % switches)).collect(),
            groups: Vec::new(),
        };
        assert!(Routes::new(&ring(5).build(COMMON), &[1; 5]).is_err());
        // In a triangle every path has one link.
        assert!(Routes::new(&ring(3).build(COMMON), &[1; 3]).is_ok());
    }
}
