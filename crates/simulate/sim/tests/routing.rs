//! Symmetric routing: in which networks both directions of a flow take the same links, and where they do not.

use crate::support::{SIZES, flow, link, run};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use weir_network::graph::{Graph, LinkRef, LinkSpec, Routing};
use weir_network::topology::{
    Common, Dumbbell, Explicit, ExplicitCable, ExplicitHost, FatTree, LeafSpine, ParkingLot, Star, Topology,
};
use weir_sim::checkers::Checkers;
use weir_sim::{HostId, Observer, PortId, Silent, SimTime, World};
use weir_transport::Parameters;
use weir_transport::agents::FlowKey;
use weir_units::{Bandwidth, Duration};

fn spec() -> LinkSpec {
    link(Bandwidth::from_gbps(10), Duration::from_micros(1), 300_000)
}

fn build(topology: &Topology, routing: Routing) -> Graph {
    topology.build(Common { routing, packets: SIZES, shared_buffer: None, jitter: Duration::ZERO })
}

fn fat_tree(k: u32) -> Topology {
    let (cores, aggregations) = (FatTree::all_cores(k), k / 2);
    Topology::FatTree(FatTree { k, cores, aggregations, host_link: spec(), fabric_link: spec() })
}

fn leaf_spine(racks: u32, spines: u32) -> Topology {
    Topology::LeafSpine(LeafSpine { racks, hosts: 2, spines, host_link: spec(), fabric_link: spec() })
}

/// Links between switches, and a host at each of `leaves`.
fn explicit(switches: usize, leaves: &[usize], links: &[(usize, usize)]) -> Topology {
    let hosts = leaves.iter().enumerate();
    Topology::Explicit(Explicit {
        hosts: hosts
            .map(|(number, &switch)| ExplicitHost { name: format!("h{number}"), switch, up: spec(), down: spec() })
            .collect(),
        switches: (0..switches).map(|number| format!("s{number}")).collect(),
        cables: links.iter().map(|&(a, b)| ExplicitCable { a, b, a_to_b: spec(), b_to_a: spec() }).collect(),
        groups: Vec::new(),
    })
}

/// Numbers that look random (splitmix64; Steele, Lea and Flood, OOPSLA 2014).
struct Draws(u64);

impl Draws {
    fn hash(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) as u32
    }
    /// From `least` to `most`.
    fn number(&mut self, least: usize, most: usize) -> usize {
        least + self.hash() as usize % (most - least + 1)
    }
    /// Two hosts and a flow's hash.
    fn flow(&mut self, hosts: usize) -> (HostId, HostId, u32) {
        let from = self.number(0, hosts - 1);
        let to = (from + self.number(1, hosts - 1)) % hosts;
        (HostId(from as u32), HostId(to as u32), self.hash())
    }
    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.number(0, last));
        }
    }
}

/// A network, and for each port that of the link's opposite direction.
struct Network<O> {
    world: World<O>,
    opposite: BTreeMap<PortId, PortId>,
    cables: Vec<(PortId, PortId)>,
}

impl<O: Observer> Network<O> {
    fn new(topology: &Topology, routing: Routing, observer: O) -> Self {
        let graph = build(topology, routing);
        let world = World::from_graph(&graph, 0, 1, observer);
        let both = |link| match link {
            LinkRef::Up(host) => (world.port_of(link), world.port_of(LinkRef::Down(host))),
            LinkRef::Down(host) => (world.port_of(link), world.port_of(LinkRef::Up(host))),
            LinkRef::Forward(cable) => (world.port_of(link), world.port_of(LinkRef::Backward(cable))),
            LinkRef::Backward(cable) => (world.port_of(link), world.port_of(LinkRef::Forward(cable))),
        };
        let opposite = graph.links().map(both).collect();
        let cables = (0..graph.cables.len()).map(|cable| both(LinkRef::Forward(cable))).collect();
        Self { world, opposite, cables }
    }

    /// Whether packets back, whose hash is that of the flow rotated by half, take the links of the flow's packets.
    /// `None` without a way.
    fn is_symmetric(&self, (from, to, hash): (HostId, HostId, u32)) -> Option<bool> {
        let there = self.world.way(from, to, hash)?;
        let back = self.world.way(to, from, hash.rotate_left(16))?;
        Some(there.into_iter().eq(back.iter().rev().map(|port| self.opposite[port])))
    }

    /// How many of `count` random flows take other links back.
    fn asymmetric(&self, draws: &mut Draws, count: usize) -> usize {
        let other = |_: &usize| self.is_symmetric(draws.flow(self.world.host_count())) == Some(false);
        (0..count).filter(other).count()
    }

    /// Takes both directions of a link between switches down.
    fn fail(&mut self, cable: usize) {
        let (there, back) = self.cables[cable];
        self.world.take_down(there);
        self.world.take_down(back);
    }
}

fn symmetric(topology: &Topology) -> Network<Silent> {
    Network::new(topology, Routing::Symmetric, Silent)
}

#[test]
fn both_directions_take_the_same_links() {
    let partial = FatTree { k: 8, cores: 6, aggregations: 4, host_link: spec(), fabric_link: spec() };
    let topologies = [
        Topology::Star(Star { hosts: 5, host_link: spec() }),
        Topology::Dumbbell(Dumbbell { pairs: 3, host_link: spec(), fabric_link: spec() }),
        Topology::ParkingLot(ParkingLot { switches: 5, hosts: 2, host_link: spec(), fabric_link: spec() }),
        leaf_spine(9, 4),
        leaf_spine(4, 7),
        fat_tree(4),
        fat_tree(8),
        Topology::FatTree(partial),
    ];
    for topology in &topologies {
        let network = symmetric(topology);
        assert_eq!(network.asymmetric(&mut Draws(1), 5_000), 0, "{topology:?}");
    }
    // With a salt for each switch, of the flows between pods of a fat-tree with k = 4 one in four agrees by chance.
    let ecmp = Network::new(&fat_tree(4), Routing::Ecmp, Silent);
    assert!(ecmp.asymmetric(&mut Draws(1), 5_000) > 2_500);
}

#[test]
fn flows_use_all_core_switches_and_links_of_a_fat_tree_evenly() {
    let topology = fat_tree(8);
    let network = symmetric(&topology);
    let (mut draws, mut used) = (Draws(2), BTreeMap::<PortId, u32>::new());
    for _ in 0..128_000 {
        let (from, to, hash) = draws.flow(128);
        for port in network.world.way(from, to, hash).expect("a way") {
            *used.entry(port).or_default() += 1;
        }
    }
    // 112 of 127 destinations are in other pods. The 128 links up to core switches have 882 flows each, the 128 from
    // edge switches 124/127 · 1000 = 976; five standard deviations are 156.
    let graph = build(&topology, Routing::Symmetric);
    for (number, cable) in graph.cables.iter().enumerate() {
        let mean: u32 = if graph.switches[cable.b].starts_with("core") { 882 } else { 976 };
        let (there, back) = network.cables[number];
        let counts = [there, back].map(|port| used.get(&port).copied().unwrap_or(0));
        assert!(counts.iter().all(|count| count.abs_diff(mean) < 156), "{}: {counts:?}", graph.switches[cable.b]);
    }
}

/// Pods of leaves below other switches, and tops above those: by planes, of which a pod may lack some, or each top with
/// links to all. Up to three parallel links, switches numbered and links written in any order.
fn layered(draws: &mut Draws) -> Topology {
    let (pods, planes, by_plane) = (draws.number(2, 4), draws.number(1, 3), draws.number(0, 1) == 1);
    let per_plane = draws.number(1, 3);
    let tops = planes * per_plane;
    let (mut count, mut leaves, mut pairs) = (tops, Vec::new(), Vec::new());
    for _ in 0..pods {
        let below = count..count + draws.number(1, 3);
        count = below.end;
        leaves.extend(below.clone());
        let switches = if by_plane { planes } else { draws.number(1, 3) };
        for plane in 0..switches {
            if by_plane && plane > 0 && draws.number(0, 3) == 0 {
                continue;
            }
            let above = if by_plane { plane * per_plane..(plane + 1) * per_plane } else { 0..tops };
            pairs.extend(below.clone().chain(above).map(|other| (count, other)));
            count += 1;
        }
    }
    let mut number: Vec<usize> = (0..count).collect();
    draws.shuffle(&mut number);
    let mut links = Vec::new();
    for (a, b) in pairs {
        for _ in 0..draws.number(1, 3) {
            links.push(if draws.number(0, 1) == 0 { (number[a], number[b]) } else { (number[b], number[a]) });
        }
    }
    draws.shuffle(&mut links);
    let leaves: Vec<usize> = leaves.into_iter().map(|leaf| number[leaf]).collect();
    explicit(count, &leaves, &links)
}

proptest! {
    #[test]
    fn layers_of_links_are_symmetric(seed in any::<u64>()) {
        let mut draws = Draws(seed);
        let network = symmetric(&layered(&mut draws));
        for _ in 0..300 {
            let flow = draws.flow(network.world.host_count());
            prop_assert_eq!(network.is_symmetric(flow), Some(true), "{:?}", flow);
        }
    }

    /// After failures of whole links, flows whose ways are as long as before take the same links both ways.
    #[test]
    fn leaf_spines_and_fat_trees_stay_symmetric_after_failures(seed in any::<u64>(), spines in any::<bool>()) {
        let mut draws = Draws(seed);
        let topology = if spines { leaf_spine(5, 4) } else { fat_tree(4) };
        let (whole, mut network) = (symmetric(&topology), symmetric(&topology));
        for _ in 0..draws.number(1, 6) {
            let cable = draws.number(0, network.cables.len() - 1);
            network.fail(cable);
        }
        network.world.compute_routes();
        for _ in 0..300 {
            let flow @ (from, to, hash) = draws.flow(network.world.host_count());
            let length = |network: &Network<Silent>| network.world.way(from, to, hash).map(|way| way.len());
            if length(&network) == length(&whole) {
                prop_assert_eq!(network.is_symmetric(flow), Some(true), "{:?}", flow);
            }
        }
    }
}

/// Two pods of a leaf (0, 1) below three switches (2 to 4, 5 to 7) below three tops (8 to 10). Without one of the links
/// to tops, the switch below it divides its flows by two tops while the other pod divides by three: of its third of the
/// flows 1/6 + 1/3 take another top back.
#[test]
fn a_failure_between_full_layers_makes_some_flows_asymmetric() {
    let mut links: Vec<(usize, usize)> = (2..5).map(|switch| (0, switch)).collect();
    links.extend((5..8).map(|switch| (1, switch)));
    links.extend((2..8).flat_map(|switch| (8..11).map(move |top| (switch, top))));
    let mut network = symmetric(&explicit(11, &[0, 1], &links));
    assert_eq!(network.asymmetric(&mut Draws(3), 6_000), 0);
    network.fail(links.iter().position(|link| *link == (3, 10)).expect("a link"));
    network.world.compute_routes();
    // 1/6 of 6000; four standard deviations are 115.
    let asymmetric = network.asymmetric(&mut Draws(3), 6_000);
    assert!(asymmetric.abs_diff(1_000) < 115, "{asymmetric}");
}

/// Without one direction of a link, one leaf divides its flows by three spines and the other one by four. By the hash
/// as a fraction they differ from 1/4 to 1/3, from 1/3 to 1/2 and from 2/3 to 3/4, together for a third.
#[test]
fn a_link_that_is_down_in_one_direction_makes_flows_asymmetric() {
    let mut network = symmetric(&leaf_spine(2, 4));
    network.world.take_down(network.cables[1].0);
    network.world.compute_routes();
    let (mut draws, mut asymmetric) = (Draws(4), 0);
    for _ in 0..6_000 {
        asymmetric += usize::from(network.is_symmetric((HostId(0), HostId(2), draws.hash())) == Some(false));
    }
    // Four standard deviations are 146.
    assert!(asymmetric.abs_diff(2_000) < 146, "{asymmetric}");
}

#[test]
fn opposite_switches_of_a_ring_are_not_symmetric() {
    let links: Vec<(usize, usize)> = (0..6).map(|switch| (switch, (switch + 1) % 6)).collect();
    let network = symmetric(&explicit(6, &[0, 1, 2, 3, 4, 5], &links));
    // The switch of the lower number is the first: from 1 it is 0, round by 5, and from 4 it is 3, round by 2.
    assert!((0..100).all(|hash| network.is_symmetric((HostId(1), HostId(4), hash)) == Some(false)));
    assert!((0..100).all(|hash| network.is_symmetric((HostId(1), HostId(3), hash)) == Some(true)));
}

/// The ports that a flow's packets and acknowledgements pass, and those of its way and of the opposite directions.
fn passed(routing: Routing, seed: u64) -> (BTreeSet<PortId>, BTreeSet<PortId>) {
    let mut network = Network::new(&fat_tree(4), routing, Checkers::default());
    let (from, to, hash) = Draws(seed).flow(16);
    let spec = weir_sim::FlowSpec { hash, ..flow(from, to, Some(100_000)) };
    let id = network.world.add_flow(spec, &Parameters::default());
    run(&mut network.world, SimTime::from_millis(100));
    assert!(network.world.flow(id).finished().is_some());
    let taken = |port: &PortId| network.world.counts(*port).taken.iter().any(|count| count.packets > 0);
    let way = network.world.way(from, to, hash).expect("a way");
    let expected = way.iter().flat_map(|port| [*port, network.opposite[port]]).collect();
    (network.opposite.keys().copied().filter(taken).collect(), expected)
}

#[test]
fn acknowledgements_return_over_the_links_of_their_data() {
    for seed in 0..40 {
        let (passed, expected) = passed(Routing::Symmetric, seed);
        assert_eq!(passed, expected, "seed {seed}");
    }
    let differs = |seed: &u64| {
        let (passed, expected) = passed(Routing::Ecmp, *seed);
        passed != expected
    };
    assert!((0..40).filter(differs).count() > 20);
}

#[test]
fn data_ports_are_those_of_the_flow_s_way() {
    let mut network = symmetric(&fat_tree(4));
    let mut draws = Draws(5);
    for _ in 0..500 {
        let (from, to, hash) = draws.flow(16);
        let key = FlowKey { slot: 0, from: from.0, to: to.0, hash };
        let way = network.world.way(from, to, hash).expect("a way");
        assert_eq!(network.world.data_port(weir_sim::ids::Node::Host(from), key), Some(way[0]));
        assert_eq!(network.world.data_port(weir_sim::ids::Node::Host(to), key), None);
        for pair in way.windows(2) {
            assert_eq!(network.world.data_port(network.world.port(pair[0]).to(), key), Some(pair[1]));
        }
    }
    let key = FlowKey { slot: 0, from: 0, to: 15, hash: 9 };
    let edge = network.world.port(network.world.interface(HostId(0))).to();
    let before = network.world.data_port(edge, key).expect("a port");
    network.world.take_down(before);
    network.world.compute_routes();
    let after = network.world.data_port(edge, key).expect("the other port");
    assert_ne!(after, before);
    network.world.set_spraying(1);
    assert_eq!(network.world.data_port(edge, key), None);
}
