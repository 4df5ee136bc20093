//! A control interval of the largest network: 10,000 tenants on 3,072 ports.
//!
//! `cargo bench -p weir-binding --bench interval`. Tenants pass 1 to 20 random ports; in each interval half of them use
//! their guarantees, anew. The times of scores, queues and the weights of all ports; the goal for all together is 100
//! ms.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::time::Instant;
use weir_binding::{Map, Port, PortId, Queues, Score, Site, Sites, SwitchId, score, weights};
use weir_units::{Bandwidth, MachineId, PerDirection};

const PORTS: u32 = 3_072;
const TENANTS: u32 = 10_000;
const INTERVALS: u32 = 20;

fn main() {
    let mut random = StdRng::seed_from_u64(1);
    let port =
        |at| Port { switch: SwitchId(at / 16), rate: Bandwidth::from_gbps(40), queues: 7, others: Bandwidth::ZERO };
    let site = |_| {
        let mbps = Bandwidth::from_mbps([10, 50, 100, 200, 300][random.random_range(0..5)]);
        let mut ports: Vec<u32> = (0..random.random_range(1..=20)).map(|_| random.random_range(0..PORTS)).collect();
        ports.sort_unstable();
        ports.dedup();
        let machines = ports.iter().map(|port| (MachineId(*port), mbps)).collect();
        Site { payment: mbps, ports: ports.into_iter().map(|port| (PortId(port), mbps)).collect(), machines }
    };
    let tenants: Vec<Site> = (0..TENANTS).map(site).collect();
    let sites = Sites { ports: (0..PORTS).map(port).collect(), tenants };
    for map in [Map::PerPort, Map::PerSwitch] {
        let mut queues = Queues::new(&sites, map);
        let mut times = [0.0f64; 3];
        for _ in 0..INTERVALS {
            let began = Instant::now();
            let full = PerDirection::both(Bandwidth::UNLIMITED);
            let active: Vec<bool> = (0..TENANTS).map(|_| random.random()).collect();
            let none = PerDirection::both(Bandwidth::ZERO);
            let scores: Vec<Score> = sites
                .all()
                .map(|(tenant, site)| score(site, |_| if active[tenant.index()] { full } else { none }))
                .collect();
            let scored = Instant::now();
            queues.allocate(&sites, &scores);
            let bound = Instant::now();
            weigh(&sites, &queues);
            let parts = [scored - began, bound - scored, bound.elapsed()];
            times.iter_mut().zip(parts).for_each(|(most, part)| *most = most.max(part.as_secs_f64() * 1e3));
        }
        println!(
            "{map:?}: {} of {TENANTS} tenants with queues; slowest of {INTERVALS} intervals: scores {:.1} ms, queues \
             {:.1} ms, weights {:.1} ms",
            queues.dedicated().count(),
            times[0],
            times[1],
            times[2]
        );
    }
}

fn weigh(sites: &Sites, queues: &Queues) {
    let all = sites.tenants_of_ports();
    for (port, tenants) in all.iter().enumerate() {
        let id = PortId(port as u32);
        let mut reserved = vec![Bandwidth::ZERO; usize::from(sites.ports[port].queues) + 1];
        for tenant in tenants {
            let owned = queues.owners(id).iter().position(|owner| *owner == Some(*tenant));
            let (_, part) = sites.site(*tenant).ports.iter().find(|(at, _)| *at == id).expect("a port of the tenant");
            let queue = owned.map_or(0, |queue| queue + 1);
            reserved[queue] += *part;
        }
        std::hint::black_box(weights(&reserved, 100));
    }
}
