//! Random networks and tenants.

use rand::Rng;
use rand::rngs::StdRng;
use weir_binding::{Port, PortId, Site, Sites, SwitchId};
use weir_units::{Bandwidth, MachineId};

/// A unit of reservations: a small part of a link, so that weights can be exact.
const UNIT: u64 = 1_000_000;
/// Units of a link.
const LINK: u64 = 60;

/// A few switches with a few ports each, and tenants that reserve most of them.
pub(crate) fn sites(random: &mut StdRng) -> Sites {
    let (switches, per_switch) = (random.random_range(1..4u32), random.random_range(1..4u32));
    let queues = random.random_range(1..4u8);
    let port = |at| Port {
        switch: SwitchId(at / per_switch),
        rate: Bandwidth::from_bps(LINK * UNIT),
        queues,
        others: Bandwidth::ZERO,
    };
    let ports: Vec<Port> = (0..switches * per_switch).map(port).collect();
    let mut free = vec![LINK; ports.len()];
    let mut tenants = Vec::new();
    for number in 0..random.random_range(2..8u32) {
        // Most tenants pass several ports; the last ones may reserve all bandwidth that remains.
        let mut passed = Vec::new();
        for (at, free) in free.iter_mut().enumerate() {
            let most = (*free).min(LINK / 2);
            if most > 0 && random.random_bool(0.6) {
                let units = if random.random_bool(0.3) { most } else { random.random_range(1..=most) };
                *free -= units;
                passed.push((PortId(at as u32), Bandwidth::from_bps(units * UNIT)));
            }
        }
        let machines = (0..random.random_range(1..4u32)).map(|at| MachineId(number % 2 + 2 * at));
        let machines = machines.map(|machine| (machine, Bandwidth::from_bps(UNIT))).collect();
        let payment = Bandwidth::from_bps(UNIT * random.random_range(1..20));
        tenants.push(Site { payment, ports: passed, machines });
    }
    Sites { ports, tenants }
}
