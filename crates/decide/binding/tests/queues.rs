//! Queues bound to tenants: the paper's rules hold in any network of ports, after any scores.

use proptest::prelude::*;
use weir_binding::{Map, Port, PortId, Queues, Score, Site, Sites, SwitchId, Values};
use weir_network::switches::pool;
use weir_units::{Bandwidth, TenantId};

/// Tenants over these ports; ports of a switch are adjacent, two by two.
fn sites(queues: u8, tenants: &[Vec<u32>]) -> Sites {
    let ports = tenants.iter().flatten().max().map_or(0, |most| most + 1);
    let port = |at| Port { switch: SwitchId(at / 2), rate: Bandwidth::from_gbps(10), queues, others: Bandwidth::ZERO };
    let site = |ports: &Vec<u32>| Site {
        ports: ports.iter().map(|port| (PortId(*port), Bandwidth::from_mbps(1))).collect(),
        ..Site::default()
    };
    Sites { ports: (0..ports).map(port).collect(), tenants: tenants.iter().map(site).collect() }
}

fn scores(list: &[u64]) -> Vec<Score> {
    list.iter().map(|score| Score(*score)).collect()
}

fn dedicated(queues: &Queues) -> Vec<u32> {
    queues.dedicated().map(|(tenant, _)| tenant.0).collect()
}

#[test]
fn the_worked_example() {
    let sites = sites(2, &[vec![0], vec![0], vec![0]]);
    let mut queues = Queues::new(&sites, Map::PerPort);
    queues.allocate(&sites, &scores(&[3, 2, 1]));
    assert_eq!(dedicated(&queues), [0, 1]);
    queues.allocate(&sites, &scores(&[3, 2, 2]));
    assert_eq!(dedicated(&queues), [0, 1]);
    queues.allocate(&sites, &scores(&[3, 2, 4]));
    assert_eq!(dedicated(&queues), [0, 2]);
}

#[test]
fn a_tenant_that_loses_one_queue_loses_all_and_others_take_them() {
    // Tenant 0 passes both ports, tenant 1 the first, tenant 2 the second.
    let sites = sites(1, &[vec![0, 2], vec![0], vec![2]]);
    let mut queues = Queues::new(&sites, Map::PerPort);
    queues.allocate(&sites, &scores(&[5, 0, 0]));
    assert_eq!(dedicated(&queues), [0]);
    queues.allocate(&sites, &scores(&[5, 6, 1]));
    assert_eq!(dedicated(&queues), [1, 2]);
}

#[test]
fn a_tenant_has_one_queue_of_a_switch_that_maps_packets_on_arrival() {
    // Tenants 0 and 1 have queue 0 of ports 0 and 1 of a switch. Tenant 2 passes both.
    let sites = sites(2, &[vec![0], vec![1], vec![0, 1], vec![0], vec![1]]);
    let mut queues = Queues::new(&sites, Map::PerSwitch);
    queues.allocate(&sites, &scores(&[9, 9, 8, 7, 7]));
    assert_eq!(queues.of(TenantId(2)), Some(&[1, 1][..]));
    assert_eq!(dedicated(&queues), [0, 1, 2]);
    // A tenant that takes queue 0 there takes it from both of its tenants.
    queues.allocate(&sites, &scores(&[1, 2, 8, 7, 0]));
    assert_eq!(dedicated(&queues), [1, 2, 3]);
}

/// Whether a tenant had queues before and has none: others took them, and it came too early for what was freed later.
fn displaced(before: &Queues, now: &Queues, tenant: TenantId) -> bool {
    before.of(tenant).is_some() && now.of(tenant).is_none()
}

proptest! {
    #[test]
    fn queues_are_bound_by_the_rules(
        count in 1u8..4,
        tenants in prop::collection::vec(prop::collection::btree_set(0u32..8, 0..5), 1..12),
        intervals in prop::collection::vec(prop::collection::vec(0u64..6, 12), 1..6),
        map in prop_oneof![Just(Map::PerPort), Just(Map::PerSwitch)],
    ) {
        let tenants: Vec<Vec<u32>> = tenants.into_iter().map(|ports| ports.into_iter().collect()).collect();
        let sites = sites(count, &tenants);
        let mut queues = Queues::new(&sites, map);
        for list in intervals {
            let before = queues.clone();
            let scores = scores(&list[..sites.tenants.len()]);
            queues.allocate(&sites, &scores);
            let mut owned = vec![vec![None; usize::from(count)]; sites.ports.len()];
            for (tenant, indices) in queues.dedicated() {
                let ports = &sites.site(tenant).ports;
                // Queues of all ports, each of one tenant.
                prop_assert_eq!(ports.len(), indices.len());
                for ((port, _), queue) in ports.iter().zip(indices) {
                    prop_assert!(owned[port.index()][usize::from(*queue)].replace(tenant).is_none());
                }
                if map == Map::PerSwitch {
                    for ((one, _), first) in ports.iter().zip(indices) {
                        for ((other, _), second) in ports.iter().zip(indices) {
                            let same = sites.ports[one.index()].switch == sites.ports[other.index()].switch;
                            prop_assert!(!same || first == second);
                        }
                    }
                }
            }
            for (port, owners) in owned.iter().enumerate() {
                prop_assert_eq!(queues.owners(PortId(port as u32)), owners.as_slice());
            }
            // A tenant loses its queues only if one of a higher score has queues that it did not have.
            let is_new = |tenant: TenantId| queues.of(tenant).is_some() && before.of(tenant).is_none();
            for (tenant, _) in before.dedicated().filter(|(tenant, _)| queues.of(*tenant).is_none()) {
                let score = scores[tenant.index()];
                prop_assert!(sites.all().any(|(other, _)| is_new(other) && scores[other.index()] > score));
            }
            // No tenant has queues that are due to another: one in the shared queue finds no queue at some port that is
            // free or has a tenant of a lower score, if each port maps packets by itself.
            for (tenant, site) in sites.all().filter(|(tenant, _)| queues.of(*tenant).is_none()) {
                let barred = |port: PortId| {
                    queues.owners(port).iter().all(|owner| {
                        owner.is_some_and(|owner| scores[owner.index()] >= scores[tenant.index()])
                    })
                };
                let due = map == Map::PerPort && !site.ports.iter().any(|(port, _)| barred(*port));
                prop_assert!(!due || site.ports.is_empty() || displaced(&before, &queues, tenant));
            }
        }
    }

    #[test]
    fn tenants_with_a_common_port_have_different_values(
        tenants in prop::collection::vec(prop::collection::btree_set(0u32..8, 1..5), 1..20),
        taken in prop::sample::subsequence((0u8..64).collect::<Vec<_>>(), 55..60),
        departures in prop::collection::vec(0usize..20, 0..10),
    ) {
        let tenants: Vec<Vec<u32>> = tenants.into_iter().map(|ports| ports.into_iter().collect()).collect();
        let sites = sites(1, &tenants);
        let pool = pool(&taken.into_iter().collect());
        let mut values = Values::default();
        let all: Vec<TenantId> = sites.all().map(|(tenant, _)| tenant).collect();
        let rounds = departures.iter().map(|at| Some(all[at % all.len()])).chain([None]);
        for departs in rounds {
            for tenant in &all {
                let value = values.take(&sites, *tenant, &pool);
                prop_assert!(value.is_none_or(|value| pool.contains(&value)));
                let ports = &sites.site(*tenant).ports;
                let shares = |other: &TenantId| {
                    other != tenant && sites.site(*other).ports.iter().any(|port| ports.contains(port))
                };
                let others = all.iter().filter(|other| shares(other));
                let others: Vec<u8> = others.filter_map(|other| values.get(*other)).collect();
                match value {
                    Some(value) => prop_assert!(!others.contains(&value)),
                    None => prop_assert!(pool.iter().all(|value| others.contains(value))),
                }
            }
            if let Some(tenant) = departs {
                values.give_back(&sites, tenant);
            }
        }
    }
}

/// Two switches with two ports each.
#[test]
fn tenants_of_a_switch_with_one_map_have_different_values() {
    let sites = sites(3, &[vec![0, 2], vec![1, 3], vec![1], vec![2]]);
    let pool: Vec<u8> = (1..10).collect();
    let mut values = Values::new(Map::PerSwitch);
    let taken: Vec<_> = (0..4).map(|tenant| values.take(&sites, TenantId(tenant), &pool)).collect();
    assert_eq!(taken, [Some(1), Some(2), Some(3), Some(3)], "the last two have no switch in common");
    values.give_back(&sites, TenantId(0));
    assert_eq!(values.take(&sites, TenantId(0), &pool), Some(1), "free at both switches");
    let mut ports = Values::new(Map::PerPort);
    let taken: Vec<_> = (0..4).map(|tenant| ports.take(&sites, TenantId(tenant), &pool)).collect();
    assert_eq!(taken, [Some(1), Some(1), Some(2), Some(2)]);
}

#[test]
#[should_panic(expected = "six bits")]
fn adoption_of_a_value_above_63_panics() {
    Values::default().adopt(&sites(1, &[vec![0]]), TenantId(0), 64);
}
