//! Properties of placement: capacities hold, reservations are exact after any arrivals and departures, names do not
//! matter, growth moves nothing, and on one switch no placement is cheaper.

mod graphs;

use graphs::{MBPS, built, link, placer, strategies};
use proptest::prelude::*;
use proptest::strategy::Strategy as Values;
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_network::graph::Graph;
use weir_network::topology::{Dumbbell, FatTree, LeafSpine, ParkingLot, Star, Topology};
use weir_placement::{CableId, Fabric, Group, Hose, Ledger, Part, Placer, Strategy, TenantPlace, arrivals};
use weir_units::{Bandwidth, MachineId};

fn topologies() -> impl Values<Value = Topology> {
    let mbps = 100u64..2000;
    prop_oneof![
        (1u32..6, mbps.clone()).prop_map(|(hosts, rate)| Topology::Star(Star { hosts, host_link: link(rate) })),
        (1u32..4, 1u32..4, 1u32..4, mbps.clone(), mbps.clone()).prop_map(|(racks, hosts, spines, host, fabric)| {
            Topology::LeafSpine(LeafSpine { racks, hosts, spines, host_link: link(host), fabric_link: link(fabric) })
        }),
        (mbps.clone(), mbps.clone()).prop_map(|(host, fabric)| {
            Topology::FatTree(FatTree {
                k: 4,
                cores: 4,
                aggregations: 2,
                host_link: link(host),
                fabric_link: link(fabric),
            })
        }),
        (1u32..4, mbps.clone(), mbps.clone()).prop_map(|(pairs, host, fabric)| {
            Topology::Dumbbell(Dumbbell { pairs, host_link: link(host), fabric_link: link(fabric) })
        }),
        (2u32..5, 1u32..3, mbps.clone(), mbps).prop_map(|(switches, hosts, host, fabric)| {
            Topology::ParkingLot(ParkingLot { switches, hosts, host_link: link(host), fabric_link: link(fabric) })
        }),
    ]
}

fn hoses() -> impl Values<Value = Hose> {
    prop::collection::vec((1u32..6, 0u64..400), 1..3).prop_map(|groups| {
        Hose::new(groups.into_iter().map(|(vms, mbps)| Group { vms, bandwidth: MBPS(mbps) }).collect())
    })
}

/// The sum of the bandwidths of a tenant's virtual machines on each machine.
fn sums(placed: &TenantPlace) -> BTreeMap<MachineId, u64> {
    let groups = placed.hose.groups();
    let sum = |vms: &[u32]| vms.iter().zip(groups).map(|(vms, group)| u64::from(*vms) * group.bandwidth.bps()).sum();
    placed.fit.parts.iter().map(|part| (part.machine, sum(&part.vms))).collect()
}

/// Removing a cable on which a tenant has a reservation divides its tree in two. The reservation is the smaller side,
/// and the reservations connect all of its machines that have bandwidth.
fn reservations_are_exact(graph: &Graph, fabric: &Fabric, placed: &TenantPlace) {
    let sums = sums(placed);
    let used: BTreeMap<CableId, Bandwidth> = placed.fit.reservations.iter().copied().collect();
    let hosts = graph.hosts.len();
    let ends = |cable: CableId| match cable.index().checked_sub(hosts) {
        None => (cable.index(), hosts + graph.hosts[cable.index()].switch),
        Some(at) => (hosts + graph.cables[at].a, hosts + graph.cables[at].b),
    };
    let side = |removed: CableId| {
        let mut seen = vec![false; hosts + graph.switches.len()];
        let mut open = vec![ends(removed).0];
        let mut sum = 0;
        while let Some(at) = open.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            sum += sums.get(&MachineId(at as u32)).copied().filter(|_| at < hosts).unwrap_or(0);
            for (cable, (a, b)) in used.keys().filter(|cable| **cable != removed).map(|cable| (cable, ends(*cable))) {
                assert!(cable.index() < fabric.cables());
                open.extend([(a == at).then_some(b), (b == at).then_some(a)].into_iter().flatten());
            }
        }
        assert!(!seen[ends(removed).1], "a tenant's links form a circle");
        sum
    };
    for (cable, bandwidth) in &used {
        let side = Bandwidth::from_bps(side(*cable));
        assert_eq!(*bandwidth, placed.hose.reservation(side));
    }
    let with_bandwidth = sums.iter().filter(|(_, sum)| **sum > 0).count();
    if with_bandwidth > 1 {
        assert!(sums.iter().filter(|(_, sum)| **sum > 0).all(|(machine, _)| used.contains_key(&CableId(machine.0))));
    }
}

proptest! {
    #[test]
    fn reservations_are_those_of_the_tenants_after_any_arrivals_and_departures(
        topology in topologies(),
        strategy in strategies(),
        slots in 1u32..8,
        events in prop::collection::vec((0u8..6, hoses()), 1..30),
    ) {
        let graph = built(topology);
        let mut placer = placer(&graph, Fabric::new(&graph), slots, strategy);
        for (name, hose) in events {
            let name = name.to_string();
            if placer.depart(&name).is_none() {
                let before = format!("{:?}", placer.ledger());
                if placer.arrive(&name, hose).is_err() {
                    prop_assert_eq!(before, format!("{:?}", placer.ledger()));
                }
            }
            let mut free = vec![slots; graph.hosts.len()];
            let mut cables: BTreeMap<CableId, (Bandwidth, u32)> = BTreeMap::new();
            for placed in placer.placed().values() {
                prop_assert_eq!(placed.fit.parts.iter().flat_map(|part| &part.vms).sum::<u32>(), placed.hose.vms());
                for part in &placed.fit.parts {
                    free[part.machine.index()] -= part.vms.iter().sum::<u32>();
                }
                for (cable, bandwidth) in &placed.fit.reservations {
                    let (sum, tenants) = cables.entry(*cable).or_default();
                    *sum = Bandwidth::from_bps(sum.bps() + bandwidth.bps());
                    *tenants += 1;
                }
                reservations_are_exact(&graph, placer.fabric(), placed);
            }
            for cable in (0..placer.fabric().cables() as u32).map(CableId) {
                let (reserved, tenants) = cables.get(&cable).copied().unwrap_or_default();
                prop_assert_eq!((placer.ledger().reserved(cable), placer.ledger().tenants(cable)), (reserved, tenants));
                prop_assert!(reserved <= placer.ledger().capacity(cable));
            }
            for machine in (0..graph.hosts.len() as u32).map(MachineId) {
                prop_assert_eq!(placer.ledger().free(machine), free[machine.index()]);
            }
        }
    }

    /// A tenant that is spread has no more than its bound on any machine, and reserves what its places need.
    #[test]
    fn no_machine_has_more_of_a_spread_tenant_than_its_bound(
        topology in topologies(),
        strategy in strategies(),
        tenants in prop::collection::vec((hoses(), 1u32..6), 1..15),
    ) {
        let graph = built(topology);
        let mut placer = placer(&graph, Fabric::new(&graph), 4, strategy);
        for (at, (hose, per_machine)) in tenants.into_iter().enumerate() {
            let before = format!("{:?}", placer.ledger());
            match placer.arrive_spread(&at.to_string(), hose, per_machine).cloned() {
                Ok(placed) => {
                    let parts = placed.fit.parts.iter().map(|part| part.vms.iter().sum::<u32>());
                    prop_assert!(parts.into_iter().all(|vms| vms <= per_machine));
                    prop_assert_eq!(placed.fit.parts.iter().flat_map(|part| &part.vms).sum::<u32>(), placed.hose.vms());
                    reservations_are_exact(&graph, placer.fabric(), &placed);
                }
                Err(_) => prop_assert_eq!(before, format!("{:?}", placer.ledger())),
            }
        }
    }

    /// A survey's cheapest tree is the one that the search chooses.
    #[test]
    fn a_survey_begins_with_the_chosen_tree(
        topology in topologies(),
        hoses in prop::collection::vec(hoses(), 1..10),
    ) {
        let graph = built(topology);
        let mut placer = placer(&graph, Fabric::new(&graph), 3, Strategy::default());
        for (at, hose) in hoses.into_iter().enumerate() {
            let survey = placer.survey(&hose);
            let first = survey.last().and_then(|layer| layer.feasible.first()).cloned();
            let on_one = (0..graph.hosts.len()).any(|at| placer.ledger().free(MachineId(at as u32)) >= hose.vms());
            let chosen = placer.arrive(&at.to_string(), hose).ok().map(|placed| placed.fit.clone());
            if !on_one {
                prop_assert_eq!(chosen, first);
            }
        }
    }

    /// A tenant that grows keeps its virtual machines where they are, as all others do.
    #[test]
    fn growth_moves_nothing(
        topology in topologies(),
        strategy in strategies(),
        before in prop::collection::vec(hoses(), 1..8),
        more in prop::collection::vec(0u32..5, 2),
        at in 0usize..8,
    ) {
        let graph = built(topology);
        let mut placer = placer(&graph, Fabric::new(&graph), 4, strategy);
        for (at, hose) in before.iter().enumerate() {
            let _ = placer.arrive(&at.to_string(), hose.clone());
        }
        let name = (at % before.len()).to_string();
        let Some(old) = placer.placed().get(&name).cloned() else { return Ok(()) };
        let groups = old.hose.groups().iter().zip(more);
        let hose = Hose::new(groups.map(|(group, more)| Group { vms: group.vms + more, ..*group }).collect());
        let mut others = placer.placed().clone();
        others.remove(&name);
        let ledger = format!("{:?}", placer.ledger());
        let grown = placer.grow(&name, hose.clone()).cloned();
        match grown {
            Ok(grown) => {
                let on = |placed: &TenantPlace, machine| {
                    let part = placed.fit.parts.iter().find(|part| part.machine == machine).cloned();
                    part.map_or(vec![0; hose.groups().len()], |part| part.vms)
                };
                for part in &old.fit.parts {
                    let now = on(&grown, part.machine);
                    prop_assert!(part.vms.iter().zip(&now).all(|(before, now)| before <= now));
                }
                prop_assert_eq!(grown.fit.parts.iter().flat_map(|part| &part.vms).sum::<u32>(), hose.vms());
                reservations_are_exact(&graph, placer.fabric(), &grown);
            }
            Err(_) => {
                let now = (format!("{:?}", placer.ledger()), placer.placed().get(&name));
                prop_assert_eq!(now, (ledger, Some(&old)));
            }
        }
        let mut now = placer.placed().clone();
        now.remove(&name);
        prop_assert_eq!(now, others);
    }

    /// A tenant of one bandwidth is ruled out if and only if none of all possible places has room, and no search places
    /// a tenant of several that is ruled out.
    #[test]
    fn ruled_out_tenants_have_no_place(
        topology in topologies(),
        slots in 1u32..4,
        beside in hoses(),
        hose in hoses(),
        vms in 1u32..8,
        mbps in 0u64..1500,
        strategy in strategies(),
    ) {
        let graph = built(topology);
        let mut placer = placer(&graph, Fabric::new(&graph), slots, strategy);
        let _ = placer.arrive("beside", beside);
        if placer.rules_out(&hose) {
            prop_assert!(placer.arrive("several", hose).is_err());
        }
        if graph.hosts.len() <= 6 {
            let alike = Hose::uniform(vms, MBPS(mbps));
            let ruled_out = placer.rules_out(&alike);
            prop_assert_eq!(ruled_out, !any_place(&mut placer, 0, &mut Vec::new(), &alike));
        }
    }

    /// The names of tenants have no part in a placement: under other names, and so in another order, the same requests
    /// have the same places.
    #[test]
    fn names_do_not_matter(
        topology in topologies(),
        strategy in strategies(),
        (hoses, renamed) in prop::collection::vec(hoses(), 1..10)
            .prop_flat_map(|hoses| (Just(hoses.clone()), Just(hoses).prop_shuffle())),
    ) {
        let graph = built(topology);
        let placed = |hoses: &[Hose]| {
            let mut placer = placer(&graph, Fabric::new(&graph), 4, strategy);
            let mut outcomes: Vec<String> = arrivals(hoses)
                .into_iter()
                .map(|at| {
                    let outcome = placer.arrive(&at.to_string(), hoses[at].clone()).map(|placed| placed.fit.clone());
                    format!("{:?} {outcome:?}", hoses[at])
                })
                .collect();
            outcomes.sort_unstable();
            outcomes
        };
        prop_assert_eq!(placed(&hoses), placed(&renamed));
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// On one switch, QShare's placement costs as much bandwidth as the best of all placements, and finds one whenever
    /// there is one.
    #[test]
    fn on_one_switch_no_placement_is_cheaper(
        machines in prop::collection::vec((0u32..6, 0u64..1200), 1..5),
        vms in 1u32..10,
        mbps in 1u64..400,
    ) {
        let graph = built(Topology::Star(Star { hosts: machines.len() as u32, host_link: link(1000) }));
        let fabric = Arc::new(Fabric::new(&graph));
        let rates: Vec<Bandwidth> = machines.iter().map(|(_, rate)| MBPS(*rate)).collect();
        let ledger = Ledger::new(&fabric, &rates, machines.iter().map(|(slots, _)| *slots).collect());
        let mut placer = Placer::new(fabric, ledger, Strategy::default(), 8);
        let placed = placer.arrive("t", Hose::uniform(vms, MBPS(mbps))).ok().map(|placed| placed.fit.bandwidth());
        let least = cheapest(&machines, vms, vms, mbps).map(|sum| u128::from(sum) * 1_000_000);
        prop_assert_eq!(placed, least);
    }
}

/// Whether any of all ways to put a tenant on machines has the slots and the bandwidth.
fn any_place(placer: &mut Placer, machine: u32, parts: &mut Vec<Part>, hose: &Hose) -> bool {
    let left = hose.vms() - parts.iter().flat_map(|part| &part.vms).sum::<u32>();
    if left == 0 {
        let found = placer.arrive_at("any", hose.clone(), parts).is_ok();
        placer.depart("any");
        return found;
    }
    if machine as usize == placer.fabric().machines() {
        return false;
    }
    let machine = MachineId(machine);
    (0..=left.min(placer.ledger().free(machine))).any(|here| {
        parts.extend((here > 0).then(|| Part { machine, vms: vec![here] }));
        let found = any_place(placer, machine.0 + 1, parts, hose);
        parts.truncate(parts.len() - usize::from(here > 0));
        found
    })
}

/// The least sum of reservations, Mb/s, of all ways to put `left` of `vms` virtual machines on machines with these
/// slots and links.
fn cheapest(machines: &[(u32, u64)], left: u32, vms: u32, mbps: u64) -> Option<u64> {
    let Some(((slots, rate), rest)) = machines.split_first() else { return (left == 0).then_some(0) };
    let costs = (0..=left.min(*slots)).filter_map(|here| {
        let need = u64::from(here.min(vms - here)) * mbps;
        (need <= *rate).then(|| Some(cheapest(rest, left - here, vms, mbps)? + need)).flatten()
    });
    costs.min()
}
