//! Networks with several paths: routes confine tenants to their reservations, and reservations on all equal paths cover
//! every division of packets over them.

mod graphs;

use graphs::{MBPS, built, link, placer, strategies};
use proptest::prelude::*;
use proptest::strategy::Strategy as Values;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use weir_network::graph::{Cable, Graph, LinkRef};
use weir_network::topology::{Dumbbell, FatTree, LeafSpine, Topology};
use weir_placement::{Fabric, Hose, Placer, Routes, Strategy, TenantPlace};
use weir_units::MachineId;

fn leaf_spine(racks: u32, hosts: u32, spines: u32, mbps: u64) -> Graph {
    built(Topology::LeafSpine(LeafSpine { racks, hosts, spines, host_link: link(mbps), fabric_link: link(mbps) }))
}

fn layered() -> impl Values<Value = Graph> {
    prop_oneof![
        (2u32..5, 1u32..4, 1u32..4, 500u64..2000)
            .prop_map(|(racks, hosts, spines, mbps)| { leaf_spine(racks, hosts, spines, mbps) }),
        (500u64..2000, 1u32..3).prop_map(|(mbps, cores)| {
            built(Topology::FatTree(FatTree {
                k: 4,
                cores: 2 * cores,
                aggregations: 2,
                host_link: link(mbps),
                fabric_link: link(mbps),
            }))
        }),
    ]
}

fn filled(graph: &Graph, fabric: Fabric, strategy: Strategy, tenants: &[(u32, u64)]) -> Placer {
    let mut placer = placer(graph, fabric, 3, strategy);
    for (at, (vms, mbps)) in tenants.iter().enumerate() {
        let _ = placer.arrive(&at.to_string(), Hose::uniform(*vms, MBPS(*mbps)));
    }
    placer
}

/// By switch: its links to other switches, and those.
fn around(graph: &Graph) -> Vec<Vec<(LinkRef, usize)>> {
    let mut around = vec![Vec::new(); graph.switches.len()];
    for (at, cable) in graph.cables.iter().enumerate() {
        around[cable.a].push((LinkRef::Forward(at), cable.b));
        around[cable.b].push((LinkRef::Backward(at), cable.a));
    }
    around
}

fn distances(graph: &Graph, from: usize) -> Vec<u32> {
    let around = around(graph);
    let mut distance = vec![u32::MAX; graph.switches.len()];
    distance[from] = 0;
    let mut open = VecDeque::from([from]);
    while let Some(at) = open.pop_front() {
        for (_, next) in &around[at] {
            if distance[*next] == u32::MAX {
                distance[*next] = distance[at] + 1;
                open.push_back(*next);
            }
        }
    }
    distance
}

/// By leaf: the sum of the bandwidths of a tenant's virtual machines below it.
fn leaves(graph: &Graph, placed: &TenantPlace) -> BTreeMap<usize, u64> {
    let mut leaves = BTreeMap::new();
    for part in &placed.fit.parts {
        let sums = part.vms.iter().zip(placed.hose.groups());
        let sum: u64 = sums.map(|(vms, group)| u64::from(*vms) * group.bandwidth.bps()).sum();
        *leaves.entry(graph.hosts[part.machine.index()].switch).or_default() += sum;
    }
    leaves
}

/// The most that a link may carry, over all shortest paths: the smaller sum of the leaves that send over it and of
/// those that receive.
fn most(graph: &Graph, leaves: &BTreeMap<usize, u64>, (from, to): (usize, usize)) -> u64 {
    let distance: BTreeMap<usize, Vec<u32>> = leaves.keys().map(|leaf| (*leaf, distances(graph, *leaf))).collect();
    let pairs = leaves.keys().flat_map(|one| leaves.keys().map(move |other| (*one, *other)));
    let over = pairs
        .filter(|(one, other)| one != other && distance[one][from] + 1 + distance[other][to] == distance[one][*other]);
    let (senders, receivers): (BTreeSet<usize>, BTreeSet<usize>) = over.unzip();
    let sum = |of: BTreeSet<usize>| of.iter().map(|leaf| leaves[leaf]).sum::<u64>();
    sum(senders).min(sum(receivers))
}

proptest! {
    #[test]
    fn reservations_cover_every_division_over_equal_paths(
        graph in layered(),
        strategy in strategies(),
        tenants in prop::collection::vec((1u32..9, 1u64..300), 1..12),
    ) {
        let placer = filled(&graph, Fabric::spread(&graph), strategy, &tenants);
        let mut sums: BTreeMap<_, u64> = BTreeMap::new();
        for placed in placer.placed().values() {
            let reserved: BTreeMap<_, _> = placed.fit.reservations.iter().copied().collect();
            let leaves = leaves(&graph, placed);
            for (at, cable) in graph.cables.iter().enumerate() {
                let own = reserved.get(&placer.fabric().cable(LinkRef::Forward(at))).map_or(0, |own| own.bps());
                let needed = most(&graph, &leaves, (cable.a, cable.b)).max(most(&graph, &leaves, (cable.b, cable.a)));
                prop_assert_eq!(own, needed, "{} {:?}", graph.link_name(LinkRef::Forward(at)), placed);
            }
            for (cable, own) in reserved {
                *sums.entry(cable).or_default() += own.bps();
            }
        }
        for (cable, sum) in sums {
            prop_assert_eq!(placer.ledger().reserved(cable).bps(), sum);
            prop_assert!(sum <= placer.ledger().capacity(cable).bps());
        }
    }

    /// Packets that follow the routes, and elsewhere the only shortest path, stay on links with a reservation.
    #[test]
    fn routes_confine_tenants_to_their_reservations(
        graph in layered(),
        strategy in strategies(),
        tenants in prop::collection::vec((1u32..9, 1u64..300), 1..12),
    ) {
        let placer = filled(&graph, Fabric::new(&graph), strategy, &tenants);
        let around = around(&graph);
        let mut routes = Routes::new(&graph, placer.fabric());
        for placed in placer.placed().values() {
            let found = routes.of(&placed.fit);
            let reserved: BTreeSet<_> = placed.fit.reservations.iter().map(|(cable, _)| *cable).collect();
            for from in &placed.fit.parts {
                for to in &placed.fit.parts {
                    let target = graph.hosts[to.machine.index()].switch;
                    let distance = distances(&graph, target);
                    let mut at = graph.hosts[from.machine.index()].switch;
                    while at != target {
                        let own = found.iter().find(|route| {
                            route.switch.index() == at && route.towards.contains(&to.machine)
                        });
                        let mut shortest = around[at].iter().filter(|(_, next)| distance[*next] < distance[at]);
                        let link = match own {
                            Some(route) => route.link,
                            None => {
                                let only = shortest.next().expect("connected").0;
                                prop_assert!(shortest.next().is_none(), "a choice without a route");
                                only
                            }
                        };
                        prop_assert!(reserved.contains(&placer.fabric().cable(link)));
                        at = around[at].iter().find(|(own, _)| *own == link).expect("a link of the switch").1;
                    }
                }
            }
        }
    }
}

#[test]
fn a_tenant_in_two_racks_needs_a_route_at_each() {
    let graph = leaf_spine(2, 1, 3, 1000);
    let placer = filled(&graph, Fabric::new(&graph), Strategy::default(), &[(5, 100)]);
    let placed = &placer.placed()["0"];
    let found = Routes::new(&graph, placer.fabric()).of(&placed.fit);
    let names: Vec<String> = found
        .iter()
        .map(|route| {
            let towards: Vec<&str> =
                route.towards.iter().map(|machine| graph.hosts[machine.index()].name.as_str()).collect();
            let others: Vec<String> = route.instead_of.iter().map(|link| graph.link_name(*link)).collect();
            format!("{} {} not {}", towards.join(" "), graph.link_name(route.link), others.join(" "))
        })
        .collect();
    assert_eq!(
        names,
        [
            "h1 leaf0->spine0 not leaf0->spine0 leaf0->spine1 leaf0->spine2",
            "h0 leaf1->spine0 not leaf1->spine0 leaf1->spine1 leaf1->spine2"
        ]
    );
    assert_eq!(placed.fit.bandwidth(), 4 * 200_000_000);
    // Spread over three spines: 200 Mb/s at two machines and on six cables between switches.
    let placer = filled(&graph, Fabric::spread(&graph), Strategy::default(), &[(5, 100)]);
    let placed = &placer.placed()["0"];
    assert_eq!(placed.fit.bandwidth(), 8 * 200_000_000);
    assert!(Routes::new(&graph, placer.fabric()).of(&placed.fit).is_empty());
    assert_eq!(placer.fabric().roots(placed.fit.root).len(), 3);
}

/// In a ring the tree's path may be longer than the shortest one, which is the only one.
#[test]
fn a_path_that_is_not_the_shortest_needs_a_route() {
    let mut graph = built(Topology::Dumbbell(Dumbbell { pairs: 1, host_link: link(1000), fabric_link: link(1000) }));
    graph.switches.push("third".to_owned());
    let cable = Cable { a: 0, b: 2, a_to_b: link(1000), b_to_a: link(1000), number: 0 };
    graph.cables.push(cable.clone());
    graph.cables.push(Cable { a: 1, ..cable });
    let mut host = graph.hosts[0].clone();
    (host.name, host.switch) = ("third-host".to_owned(), 2);
    graph.hosts.push(host);
    let placer = filled(&graph, Fabric::new(&graph), Strategy::default(), &[(9, 10)]);
    let placed = &placer.placed()["0"];
    assert_eq!(placed.fit.parts.iter().map(|part| part.machine).collect::<Vec<_>>(), [0, 1, 2].map(MachineId));
    let found = Routes::new(&graph, placer.fabric()).of(&placed.fit);
    // Between the two switches that are not the root.
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|route| route.instead_of.len() == 1 && route.instead_of[0] != route.link));
}
