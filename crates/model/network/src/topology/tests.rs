//! Topologies by their formulas.

use super::*;
use crate::graph::{Discipline, LinkRef};
use crate::{Machine, Network, PortBuffers, Rack};
use proptest::prelude::*;
use std::collections::BTreeSet;
use weir_units::{Direction, Duration, PerDirection, RackId};

const COMMON: Common = Common {
    routing: Routing::Ecmp,
    packets: Packets { payload: 1448, headers: 66 },
    shared_buffer: None,
    jitter: Duration::ZERO,
};

fn link(gbps: u64) -> LinkSpec {
    let queue = QueueSpec { discipline: Discipline::Fifo, buffer: Bytes::new(256_000), mark: Some(Bytes::new(97_500)) };
    LinkSpec { rate: Bandwidth::from_gbps(gbps), delay: Duration::from_micros(1), queue }
}

/// Invariants of every topology: its size is the estimated one, names are unique, and every host
/// reaches every other.
fn check(topology: &Topology) -> Graph {
    let graph = topology.build(COMMON);
    let size = topology.size();
    let edges: BTreeSet<usize> = graph.hosts.iter().map(|host| host.switch).collect();
    assert_eq!(
        (size.hosts, size.switches, size.edges, size.links),
        (graph.hosts.len() as u64, graph.switches.len() as u64, edges.len() as u64, graph.links().count() as u64),
        "{topology:?}"
    );
    let names: BTreeSet<&str> =
        graph.hosts.iter().map(|host| &*host.name).chain(graph.switches.iter().map(|s| &**s)).collect();
    assert_eq!(names.len(), graph.hosts.len() + graph.switches.len(), "a name twice");
    assert_link_names_are_unique(&graph);
    assert_eq!(graph.groups["all"].len(), graph.hosts.len());
    let mut reached = vec![false; graph.switches.len()];
    let mut next = vec![0];
    while let Some(switch) = next.pop() {
        if std::mem::replace(&mut reached[switch], true) {
            continue;
        }
        next.extend(graph.cables.iter().filter(|cable| cable.a == switch).map(|cable| cable.b));
        next.extend(graph.cables.iter().filter(|cable| cable.b == switch).map(|cable| cable.a));
    }
    assert!(reached.iter().all(|reached| *reached), "in pieces");
    for host in &graph.hosts {
        assert_eq!((host.up.queue.mark, host.down.queue.mark), (None, Some(Bytes::new(97_500))));
    }
    graph
}

fn assert_link_names_are_unique(graph: &Graph) {
    let mut names = BTreeSet::new();
    for link in graph.links() {
        let name = graph.link_name(link);
        assert!(names.insert(name.clone()), "two links are called {name}");
    }
}

/// Racks with a machine each, or more, by name.
fn network_of(racks: &[(&str, &[&str])]) -> Network {
    let both = PerDirection::both(Bandwidth::from_gbps(10));
    let (mut found, mut machines) = (Vec::new(), Vec::new());
    for (id, (name, members)) in (0..).map(RackId).zip(racks) {
        let first = machines.len() as u32;
        machines.extend(members.iter().map(|name| Machine::new((*name).to_owned(), id, both, None)));
        found.push(Rack::new((*name).to_owned(), both, (first..machines.len() as u32).map(MachineId).collect()));
    }
    Network::new(found, machines, PortBuffers::default())
}

#[test]
fn parallel_cables_have_numbers() {
    let host = |name: &str, switch| ExplicitHost { name: name.to_owned(), switch, up: link(1), down: link(1) };
    let cable = |a, b| ExplicitCable { a, b, a_to_b: link(1), b_to_a: link(1) };
    let graph = check(&Topology::Explicit(Explicit {
        hosts: vec![host("h1", 0), host("h2", 2)],
        switches: ["a", "b", "c"].map(str::to_owned).to_vec(),
        // The second cable between `a` and `b` is written from its other end.
        cables: vec![cable(0, 1), cable(1, 2), cable(1, 0), cable(0, 2)],
        groups: Vec::new(),
    }));
    let names = graph.links().skip(4).map(|link| graph.link_name(link)).collect::<Vec<_>>();
    assert_eq!(names, ["a->b#1", "b->a#1", "b->c", "c->b", "b->a#2", "a->b#2", "a->c", "c->a"]);
}

#[test]
fn spines_avoid_names_of_the_policy() {
    let spines = |racks: &[(&str, &[&str])], spines| {
        let links = Links { spines, ..Links::default() };
        let graph = from_racks(&network_of(racks), &links, Routing::Ecmp);
        assert_link_names_are_unique(&graph);
        graph.switches[racks.len()..].join(" ")
    };
    assert_eq!(spines(&[("r1", &["m1"]), ("r2", &["m2"])], 2), "spine0 spine1");
    assert_eq!(spines(&[("r1", &["spine0"]), ("r2", &["m2"])], 1), "spine-0");
    assert_eq!(spines(&[("spine0", &["m1"]), ("r2", &["spine-1"])], 2), "spine--0 spine--1");
    assert_eq!(spines(&[("spine", &["spine2"])], 2), "spine0 spine1");
}

#[test]
fn a_dumbbell_has_one_bottleneck() {
    let graph = check(&Topology::Dumbbell(Dumbbell { pairs: 3, host_link: link(10), fabric_link: link(1) }));
    assert_eq!(graph.groups["senders"], [0, 1, 2].map(MachineId));
    assert_eq!(graph.groups["receivers"], [3, 4, 5].map(MachineId));
    assert_eq!(graph.hosts[4].name, "r1");
    assert_eq!(graph.link_name(LinkRef::Forward(0)), "left->right");
    assert_eq!(graph.link(LinkRef::Backward(0)).rate, Bandwidth::from_gbps(1));
}

#[test]
fn a_parking_lot_is_a_chain() {
    let lot = ParkingLot { switches: 3, hosts: 2, host_link: link(10), fabric_link: link(1) };
    let graph = check(&Topology::ParkingLot(lot));
    assert_eq!(graph.groups["sw2"], [4, 5].map(MachineId));
    let names: Vec<String> = (0..2).map(|cable| graph.link_name(LinkRef::Forward(cable))).collect();
    assert_eq!(names, ["sw0->sw1", "sw1->sw2"]);
}

#[test]
fn a_star_has_no_cables_between_switches() {
    let graph = check(&Topology::Star(Star { hosts: 5, host_link: link(10) }));
    assert_eq!(graph.link_name(LinkRef::Down(MachineId(4))), "switch->h4");
}

#[test]
fn the_leaf_spine_of_144_hosts() {
    let fabric = LeafSpine { racks: 9, hosts: 16, spines: 4, host_link: link(10), fabric_link: link(40) };
    let graph = check(&Topology::LeafSpine(fabric));
    assert_eq!((graph.hosts.len(), graph.switches.len(), graph.cables.len()), (144, 13, 36));
    for (number, host) in graph.hosts.iter().enumerate() {
        assert_eq!(graph.switches[host.switch], format!("leaf{}", number / 16));
    }
    assert_eq!(graph.groups["leaf3"], (48..64).map(MachineId).collect::<Vec<_>>());
    assert_eq!(graph.groups["leaf3"], graph.groups["rack3"]);
    assert_eq!(graph.link_name(LinkRef::Backward(7)), "spine3->leaf1");
}

#[test]
fn fat_trees_by_the_formula() {
    for (k, hosts, switches) in [(2, 2, 5), (4, 16, 20), (8, 128, 80), (16, 1024, 320)] {
        let graph = check(&Topology::FatTree(FatTree {
            k,
            cores: FatTree::all_cores(k),
            aggregations: k / 2,
            host_link: link(10),
            fabric_link: link(10),
        }));
        assert_eq!((graph.hosts.len(), graph.switches.len()), (hosts, switches), "k = {k}");
        assert_eq!(graph.groups["pod0"].len(), hosts / k as usize);
        // Every switch has k ports.
        let mut ports = vec![0; switches];
        graph.hosts.iter().for_each(|host| ports[host.switch] += 1);
        graph.cables.iter().for_each(|cable| {
            ports[cable.a] += 1;
            ports[cable.b] += 1;
        });
        assert!(ports.iter().all(|ports| *ports == k), "k = {k}");
    }
    // Six core switches over aggregation switches of four a pod: two, two, one and one.
    let graph = check(&Topology::FatTree(FatTree {
        k: 8,
        cores: 6,
        aggregations: 4,
        host_link: link(10),
        fabric_link: link(10),
    }));
    let upward = |name: &str| {
        let switch = graph.switches.iter().position(|known| known == name);
        graph.cables.iter().filter(|cable| Some(cable.a) == switch).count()
    };
    assert_eq!(["agg4", "agg5", "agg6", "agg7"].map(upward), [2, 2, 1, 1]);
    // One aggregation switch in each of eight pods, with two core switches: the others are not there.
    let few = FatTree { k: 8, cores: 2, aggregations: 1, host_link: link(10), fabric_link: link(10) };
    let graph = check(&Topology::FatTree(few));
    assert_eq!((graph.hosts.len(), graph.switches.len(), graph.cables.len()), (128, 32 + 8 + 2, 32 + 16));
    let million = FatTree { k: 160, cores: 6400, aggregations: 80, host_link: link(10), fabric_link: link(10) }.size();
    assert_eq!((million.hosts, million.switches, million.links), (1_024_000, 32_000, 6_144_000));
    assert!(million.memory() > Bytes::new(5_000_000_000));
}

/// The peak memory of `weir sim`, in kB, on networks with one flow: the estimate is above it and
/// not twice as much.
#[test]
fn the_estimate_of_memory_is_near_the_measurement() {
    let fat_tree = |k| {
        FatTree { k, cores: FatTree::all_cores(k), aggregations: k / 2, host_link: link(10), fabric_link: link(10) }
            .size()
    };
    let leaf_spine = LeafSpine { racks: 1000, hosts: 40, spines: 40, host_link: link(10), fabric_link: link(40) };
    let random = |switches| Size::new(switches, switches, switches, 2 * switches - 1).unlike();
    for (size, measured) in [
        (fat_tree(16), 14_316),
        (fat_tree(36), 81_000),
        (fat_tree(64), 407_244),
        (fat_tree(100), 1_535_916),
        (leaf_spine.size(), 174_808),
        (random(1000), 50_028),
        (random(2000), 162_512),
        (random(6000), 1_315_972),
    ] {
        let estimate = size.memory().get() / 1_024;
        assert!(estimate > measured && estimate < 2 * measured, "{estimate} kB for {measured} kB");
    }
}

#[test]
fn an_uplink_is_divided_without_loss() {
    let rate = Bandwidth::from_bps(10_000_000_001);
    let parts: Vec<u64> = (0..3).map(|i| part(rate, 3, i).bps()).collect();
    assert_eq!(parts, [3_333_333_334, 3_333_333_334, 3_333_333_333]);
    assert_eq!(parts.iter().sum::<u64>(), rate.bps());
}

#[test]
fn racks_become_a_leaf_spine() {
    let gbps = |tx, rx| PerDirection { tx: Bandwidth::from_gbps(tx), rx: Bandwidth::from_gbps(rx) };
    let rack = |name: &str, uplink, machines: &[u32]| {
        Rack::new(name.to_owned(), uplink, machines.iter().copied().map(MachineId).collect())
    };
    let slow = PerDirection { tx: Bandwidth::from_bps(7), ..gbps(10, 10) };
    let racks = vec![rack("a", gbps(10, 10), &[0]), rack("b", slow, &[1, 2])];
    let machine = |(name, rack): (&str, u32)| Machine::new(name.to_owned(), RackId(rack), gbps(1, 2), None);
    let machines = [("m1", 0), ("m2", 1), ("m3", 1)].map(machine).to_vec();
    let network = Network::new(racks, machines, PortBuffers::default());
    let links = Links { spines: 2, mtu: Bytes::new(9000), ..Links::default() };
    let graph = from_racks(&network, &links, Routing::Ecmp);
    assert_eq!(graph.switches, ["a", "b", "spine0", "spine1"]);
    assert_eq!(graph.groups["b"], [1, 2].map(MachineId));
    assert_eq!((graph.hosts[2].up.rate, graph.hosts[2].down.rate), (Bandwidth::from_gbps(1), Bandwidth::from_gbps(2)));
    assert_eq!(graph.packets, Packets { payload: 8948, headers: 66 });
    let uplink = graph.rack_uplinks(RackId(1), Direction::Tx);
    assert_eq!(uplink.iter().map(|link| graph.link_name(*link)).collect::<Vec<_>>(), ["b->spine0", "b->spine1"]);
    assert_eq!(uplink.iter().map(|link| graph.link(*link).rate.bps()).collect::<Vec<_>>(), [4, 3]);
    let size = racks_size(&network, &links);
    assert_eq!((size.hosts, size.switches, size.links), (3, 4, 14));
}

proptest! {
    #[test]
    fn leaf_spines_and_lots_of_any_size(racks in 1u32..12, hosts in 1u32..12, spines in 1u32..12) {
        let leaf_spine = LeafSpine { racks, hosts, spines, host_link: link(10), fabric_link: link(40) };
        check(&Topology::LeafSpine(leaf_spine));
        check(&Topology::ParkingLot(ParkingLot { switches: racks, hosts, host_link: link(10), fabric_link: link(40) }));
    }

    #[test]
    fn names_of_links_are_unique_for_any_names_of_racks_and_machines(
        racks in proptest::collection::btree_set("spine-{0,2}[0-3]|[a-c]", 1..6),
        machines in proptest::collection::btree_set("spine-{0,2}[0-3]|[a-c]", 1..12), spines in 1u32..5,
    ) {
        // Machines in turn over the racks, some of them with the name of a rack, their own or another one.
        let mut members = vec![Vec::new(); racks.len()];
        for (at, machine) in machines.iter().enumerate() {
            members[at % racks.len()].push(&**machine);
        }
        let racks: Vec<(&str, &[&str])> = racks.iter().map(|rack| &**rack).zip(members.iter().map(|m| &**m)).collect();
        let links = Links { spines, ..Links::default() };
        assert_link_names_are_unique(&from_racks(&network_of(&racks), &links, Routing::Ecmp));
    }

    #[test]
    fn names_of_links_are_unique_for_any_cables(pairs in proptest::collection::vec((0usize..4, 0usize..4), 1..20)) {
        let cables = pairs.into_iter().filter(|(a, b)| a != b);
        let graph = Explicit {
            hosts: Vec::new(),
            switches: ["a", "b", "c", "d"].map(str::to_owned).to_vec(),
            cables: cables.map(|(a, b)| ExplicitCable { a, b, a_to_b: link(1), b_to_a: link(1) }).collect(),
            groups: Vec::new(),
        };
        assert_link_names_are_unique(&graph.build(COMMON));
    }
}
