//! Filled datacenters: hand-computed shares, gains and counts, and properties of any tenants on any links.

use proptest::prelude::*;
use weir_binding::{Map, Port, PortId, Queues, Site, Sites, SwitchId};
use weir_placement::{CableId, Fit, Hose, Root, Strategy as Search, TenantPlace, Weighing};
use weir_policy::Policy;
use weir_tenancy::gain::Interval;
use weir_tenancy::{Activity, Condition, Datacenter, Dividing, DrawnPer, Filled, Filling, Quantity, Requests};
use weir_units::Bandwidth;

/// All tenants are active.
const ALL: Condition = Condition { map: Map::PerPort, inactive: 0.0, inactive_use: 0.0 };
const MBPS: fn(u64) -> Bandwidth = Bandwidth::from_mbps;

/// Links of these capacities, each with a port of a switch of its own, and tenants with reservations of them, Mb/s.
fn filled(capacity: &[u64], queues: u8, tenants: &[Vec<(u32, u64)>]) -> Filled {
    let port = |at: usize| Port {
        switch: SwitchId(at as u32 / 2),
        rate: MBPS(capacity[at]),
        queues: queues.saturating_sub(1),
        others: Bandwidth::ZERO,
    };
    let placed = |links: &Vec<(u32, u64)>| TenantPlace {
        hose: Hose::uniform(2, MBPS(links.iter().map(|(_, mbps)| *mbps).max().unwrap_or(1))),
        fit: Fit {
            root: Root::Switch(SwitchId(0)),
            parts: Vec::new(),
            reservations: links.iter().map(|(cable, mbps)| (CableId(*cable), MBPS(*mbps))).collect(),
        },
    };
    let site = |links: &Vec<(u32, u64)>| Site {
        payment: MBPS(links.iter().map(|(_, mbps)| mbps).sum()),
        ports: links.iter().map(|(cable, mbps)| (PortId(*cable), MBPS(*mbps))).collect(),
        machines: Vec::new(),
    };
    Filled {
        tenants: tenants.iter().map(placed).collect(),
        sites: Sites { ports: (0..capacity.len()).map(port).collect(), tenants: tenants.iter().map(site).collect() },
        capacity: capacity.iter().map(|mbps| MBPS(*mbps).bps() as f64).collect(),
        queues,
        arrivals: tenants.len() as u32,
        slots: (0, 0),
        seed: 1,
    }
}

fn near(found: &[Option<f64>], expected: &[Option<f64>]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        match (found, expected) {
            (Some(found), Some(expected)) => assert!((found - expected).abs() < 1e-9, "{found} for {expected}"),
            _ => assert_eq!(found, expected),
        }
    }
}

fn some(numbers: Vec<f64>) -> Vec<Option<f64>> {
    numbers.into_iter().map(Some).collect()
}

#[test]
fn gains_of_the_worked_example() {
    let filled = filled(&[10_000, 10_000], 8, &[vec![(0, 1000), (1, 1000)], vec![(0, 4000)], vec![(1, 1000)]]);
    let mut interval = filled.interval(ALL);
    near(&filled.gains(&interval, Dividing::Static), &[Some(1.0); 3]);
    near(&filled.gains(&interval, Dividing::Queues), &[Some(2.0), Some(2.0), Some(5.0)]);
    near(&filled.gains(&interval, Dividing::MaxMin), &[Some(2.0), Some(2.0), Some(8.0)]);
    near(&some(filled.utilisation(&interval, Dividing::Static)), &[Some(0.5), Some(0.2)]);
    near(&some(filled.utilisation(&interval, Dividing::Queues)), &[Some(1.0), Some(0.7)]);
    near(&some(filled.utilisation(&interval, Dividing::MaxMin)), &[Some(1.0), Some(1.0)]);
    // Tenant 2 is idle: the others have what their slowest links leave.
    interval.activity.active[1] = false;
    near(&filled.gains(&interval, Dividing::Queues), &[Some(5.0), None, Some(5.0)]);
    // It uses half of its 4 Gb/s: the first link leaves tenant 1 eight times its reservation, the second five times.
    interval.inactive_use = 0.5;
    near(&filled.gains(&interval, Dividing::Queues), &[Some(5.0), None, Some(5.0)]);
    near(&some(filled.utilisation(&interval, Dividing::Queues)), &[Some(0.7), Some(1.0)]);
    near(&filled.gains(&interval, Dividing::MaxMin), &[Some(5.0), None, Some(5.0)]);
    interval.inactive_use = 0.0;
    // Tenant 3 is in the shared queue, held to 1 Gb/s: the first link leaves tenant 1 twice, the second nine times.
    interval.activity.active[1] = true;
    interval.dedicated[2] = false;
    near(&filled.gains(&interval, Dividing::Queues), &[Some(2.0), Some(2.0), Some(1.0)]);
    near(&filled.gains(&interval, Dividing::MaxMin), &[Some(2.0), Some(2.0), Some(1.0)]);
    let links = Quantity::Links { when: ALL, dividing: Dividing::Queues, above: None, reserved_only: false };
    assert_eq!(links.of(&filled), Some(0.5));
}

#[test]
fn nine_tenants_at_a_port_of_eight_queues() {
    // The ninth passes a second port with a tenth; an eleventh uses no links.
    let mut tenants = vec![vec![(0, 100)]; 8];
    tenants.extend([vec![(0, 100), (2, 100)], vec![(2, 100)], Vec::new()]);
    let filled = filled(&[10_000, 10_000, 10_000], 8, &tenants);
    assert_eq!((filled.ports_with(9, Some(12)), filled.ports_with(0, Some(8))), (1.0 / 3.0, 2.0 / 3.0));
    assert_eq!((filled.ports_with(10, None), filled.most_tenants_of_a_port()), (0.0, 9));
    let uncontended = filled.uncontended(Map::PerPort);
    assert_eq!(uncontended.iter().filter(|holds| **holds).count(), 2);
    assert!(uncontended[9] && uncontended[10]);
    // Seven of the nine have queues, two share one; the ninth pays more than the others and has one.
    let mut queues = Queues::new(&filled.sites, Map::PerPort);
    filled.bind(&mut queues, &Activity::all(&filled));
    let alone = filled.alone(&queues);
    assert_eq!(alone.iter().filter(|alone| **alone).count(), 9);
    assert!(alone[8] && alone[9] && alone[10]);
    let share = Quantity::Alone { map: Map::PerPort, inactive: 0.0, intervals: 3 };
    assert_eq!(share.of(&filled), Some(9.0 / 11.0));
    // Seven at the first port have different values, the tenth tenant one of them; 0 is the shared queue's.
    assert_eq!(filled.dscp_values(Map::PerPort), (8, 0));
}

#[test]
fn a_switch_that_maps_on_arrival_counts_the_tenants_of_all_its_ports() {
    // Ports 0 and 1 are of one switch. Five tenants pass each, and one passes both.
    let mut tenants = vec![vec![(0, 100)]; 4];
    tenants.extend(vec![vec![(1, 100)]; 4]);
    tenants.push(vec![(0, 100), (1, 100)]);
    let filled = filled(&[10_000, 10_000], 8, &tenants);
    assert!(filled.uncontended(Map::PerPort).into_iter().all(|holds| holds));
    let uncontended = filled.uncontended(Map::PerSwitch);
    // The last one meets nine with itself, the others five.
    assert_eq!(uncontended.iter().filter(|holds| !**holds).count(), 1);
    assert!(!uncontended[8]);
}

const POLICY: &str = "weir: 1
network: { topology: star, hosts: 4, host-link: { rate: 10Gb/s }, slots: 100 }
services: { other: { match: [ { protocol: tcp } ] } }
";

fn filling() -> Filling {
    Filling {
        requests: Requests {
            mean_vms: 30,
            least_vms: 2,
            bandwidths: vec![MBPS(10), MBPS(100)],
            drawn_per: DrawnPer::Tenant,
        },
        strategy: Search::QShare(Weighing::Queues),
        per_machine: None,
        machines: 1,
        refusals: 5,
    }
}

#[test]
fn tenants_arrive_until_so_many_are_refused_and_seeds_repeat() {
    let (policy, _) = Policy::parse("star.policy.yaml", POLICY).expect("a policy");
    let datacenter = Datacenter::new(&policy, None);
    assert_eq!((datacenter.slots(), Datacenter::new(&policy, Some(7)).slots()), (400, 28));
    let (one, again) = (datacenter.fill(&filling(), 1), datacenter.fill(&filling(), 1));
    assert_eq!(one.tenants, again.tenants);
    assert_ne!(one.tenants, datacenter.fill(&filling(), 2).tenants);
    assert!(one.arrivals as usize >= one.tenants.len() + 5);
    assert!(one.slots.0 > 300 && one.slots.1 == 400, "{:?}", one.slots);
    let taken: u32 = one.tenants.iter().map(|tenant| tenant.hose.vms()).sum();
    assert_eq!(u64::from(taken), one.slots.0);
}

#[test]
fn tenants_are_spread_over_machines_where_that_is_required() {
    let (policy, _) = Policy::parse("star.policy.yaml", POLICY).expect("a policy");
    let datacenter = Datacenter::new(&policy, None);
    let spread = Filling { machines: 2, ..filling() };
    for filled in (1..6).map(|seed| datacenter.fill(&spread, seed)) {
        assert!(filled.tenants.iter().all(|tenant| tenant.fit.parts.len() >= 2));
        assert_eq!(Quantity::OnOneMachine.of(&filled), Some(0.0));
    }
    let few = Filling { per_machine: Some(10), ..filling() };
    for filled in (1..6).map(|seed| datacenter.fill(&few, seed)) {
        let parts = filled.tenants.iter().flat_map(|tenant| &tenant.fit.parts);
        assert!(parts.map(|part| part.vms.iter().sum::<u32>()).all(|vms| vms <= 10));
    }
    let alone = datacenter.fill(&filling(), 1);
    assert!(Quantity::OnOneMachine.of(&alone) > Some(0.5));
}

#[test]
fn a_part_of_the_tenants_with_links_is_inactive() {
    let filled = filled(&[10_000], 8, &[vec![(0, 100)], vec![(0, 100)], vec![(0, 100)], vec![(0, 100)], Vec::new()]);
    for interval in 0..20 {
        let activity = Activity::draw(&filled, 0.5, interval);
        assert_eq!(activity.active.iter().filter(|active| !**active).count(), 2);
        assert!(activity.active[4], "a tenant without links has no part in this");
    }
    assert_eq!(Activity::draw(&filled, 0.0, 0), Activity::all(&filled));
}

/// Links of 1 to 10 Gb/s and tenants whose reservations fit them.
fn any_filled() -> impl Strategy<Value = Filled> {
    let links = prop::collection::vec(1000u64..10_000, 1..6);
    let tenants = prop::collection::vec(prop::collection::btree_map(0u32..6, 1u64..2000, 0..4), 1..12);
    (links, tenants).prop_map(|(capacity, tenants)| {
        let mut left = capacity.clone();
        let fits = |(cable, mbps): (u32, u64)| {
            let left = left.get_mut(cable as usize).filter(|left| **left >= mbps)?;
            *left -= mbps;
            Some((cable, mbps))
        };
        let mut fits = fits;
        let tenants: Vec<Vec<(u32, u64)>> =
            tenants.into_iter().map(|links| links.into_iter().filter_map(&mut fits).collect()).collect();
        filled(&capacity, 8, &tenants)
    })
}

proptest! {
    #[test]
    fn links_are_never_exceeded_and_no_active_tenant_has_less_than_it_reserves(
        filled in any_filled(),
        flags in prop::collection::vec((any::<bool>(), any::<bool>()), 12),
        inactive_use in prop_oneof![Just(0.0), 0.0f64..1.0],
    ) {
        let of = |flag: fn(&(bool, bool)) -> bool| -> Vec<bool> {
            flags.iter().take(filled.tenants.len()).map(flag).collect()
        };
        let activity = Activity { active: of(|flags| flags.0) };
        let interval = Interval { activity, dedicated: of(|flags| flags.1), inactive_use };
        let by = |dividing| (filled.gains(&interval, dividing), filled.utilisation(&interval, dividing));
        let [none, queues, max_min] = [Dividing::Static, Dividing::Queues, Dividing::MaxMin].map(by);
        for (gains, used) in [&none, &queues, &max_min] {
            prop_assert!(used.iter().all(|used| *used <= 1.0 + 1e-9), "{used:?}");
            for (tenant, gain) in gains.iter().enumerate() {
                prop_assert_eq!(gain.is_some(), interval.activity.active[tenant] && filled.crosses_links(tenant));
                prop_assert!(gain.is_none_or(|gain| gain >= 1.0 - 1e-9), "{gain:?}");
                prop_assert!(interval.dedicated[tenant] || gain.is_none_or(|gain| gain == 1.0));
            }
        }
        // Each division leaves no tenant less than the one before.
        for (less, more) in [(&none, &queues), (&queues, &max_min)] {
            for (less, more) in less.0.iter().zip(&more.0) {
                prop_assert!(less.zip(*more).is_none_or(|(less, more)| less <= more * (1.0 + 1e-9)));
            }
        }
        // Max-min: every active tenant with a queue has a full link at which no tenant has a larger gain.
        for (tenant, placed) in filled.tenants.iter().enumerate() {
            let Some(gain) = max_min.0[tenant].filter(|_| interval.dedicated[tenant]) else { continue };
            let is_bound = |cable: CableId| {
                let others = filled.tenants.iter().zip(&max_min.0).filter(|(other, _)| {
                    other.fit.reservations.iter().any(|(of, _)| *of == cable)
                });
                let largest = others.filter_map(|(_, gain)| *gain).fold(0.0, f64::max);
                max_min.1[cable.index()] >= 1.0 - 1e-9 && largest <= gain * (1.0 + 1e-9)
            };
            prop_assert!(placed.fit.reservations.iter().any(|(cable, _)| is_bound(*cable)), "tenant {tenant}");
        }
    }

    /// A tenant that meets no more tenants than a port has queues beside the shared one has queues in every interval.
    #[test]
    fn tenants_of_quiet_ports_always_have_queues(filled in any_filled(), inactive in 0.0f64..1.0) {
        let mut few = filled;
        few.queues = 3;
        few.sites.ports.iter_mut().for_each(|port| port.queues = 2);
        let mut queues = Queues::new(&few.sites, Map::PerPort);
        let of_ports = few.sites.tenants_of_ports();
        for interval in 0..3 {
            few.bind(&mut queues, &Activity::draw(&few, inactive, interval));
            let (alone, uncontended) = (few.alone(&queues), few.uncontended(Map::PerPort));
            for (tenant, site) in few.sites.all() {
                if site.ports.iter().all(|(port, _)| of_ports[port.index()].len() <= 2) {
                    prop_assert!(alone[tenant.index()] && uncontended[tenant.index()]);
                    prop_assert!(queues.of(tenant).is_some() || site.ports.is_empty());
                }
            }
        }
    }
}
