//! Test: under random nested policies both backends and the receive meters give every service its share in
//! `weir allocate` while all services of a machine are backlogged and fill its interface.
//!
//! Where a parent's maximum leaves a part of the interface free, brokers hold it: shapers have one level.

use crate::class::{Class, Sending};
use crate::htb_shaper::classes;
use crate::shaper::{Backend, ServiceRate};
use weir_alloc::fill::{Child, Filling};
use weir_datapath::{InterfaceMeter, PacingConfig};
use weir_policy::{Share, Sharing};
use weir_random_policies::{RandomPolicy, draw_for_machines};
use weir_shaping::{LeafPlan, LeafShare, MachinePlan, ShaperConfig};
use weir_units::{Bandwidth, Bytes, Direction, Duration, Instant, MachineId, PerDirection, Weight};

const POLICIES: u64 = 300;

/// The shares of a machine in `weir allocate` while its services alone are backlogged, by leaf; `None` if maxima or its
/// rack's uplink leave a part of the interface free.
fn allocated(drawn: &RandomPolicy, machine: MachineId) -> Option<Vec<Bandwidth>> {
    let (policy, direction) = (&drawn.policy, drawn.direction);
    let rack = policy.network().machine(machine).rack();
    if policy.rack_capacity(rack, direction) < policy.machine_capacity(machine, direction) {
        return None;
    }
    let demand = |m, _, d| if (m, d) == (machine, direction) { Bandwidth::UNLIMITED } else { Bandwidth::ZERO };
    let shares = weir_alloc::allocate(policy, demand);
    let of = |leaf| shares.allocations.iter().find(|a| a.service == leaf).expect("a demand").allocation;
    let due: Vec<Bandwidth> = policy.services().leaves().map(|(leaf, _)| of(leaf)).collect();
    (due.iter().copied().sum::<Bandwidth>() == policy.machine_capacity(machine, direction)).then_some(due)
}

/// How HTB divides an interface among backlogged classes with the numbers that the kernel is given.
fn by_classes(capacity: Bandwidth, leaves: &[LeafPlan]) -> Vec<Bandwidth> {
    let lightest = leaves.iter().map(|leaf| leaf.shares.tx.share.weight).min().expect("services");
    let sending = Sending { frame: Bytes::new(1514), segment: Bytes::new(1514) };
    let class = |leaf: &LeafPlan| {
        let LeafShare { share, .. } = leaf.shares.tx;
        let rate = ServiceRate {
            service: leaf.service,
            slot: 0,
            min: Backend::Htb.guarantee(&leaf.shares.tx).min(share.max),
            max: share.max.min(capacity),
            machine_max: share.max.min(capacity),
            static_limit: share.max.min(capacity),
            weight: share.weight,
        };
        let class = Class::new(&classes(&rate, &[])[0], capacity, sending, lightest, 0);
        Child {
            min: Bandwidth::from_bps(class.rate() * 8),
            max: Bandwidth::from_bps(class.ceil() * 8),
            demand: Bandwidth::UNLIMITED,
            weight: Weight::from_thousandths(class.quantum()).expect("a quantum"),
        }
    };
    let children: Vec<Child> = leaves.iter().map(class).collect();
    let mut filling = Filling::default();
    filling.fill(Sharing::Add, capacity, &children);
    filling.shares
}

/// How a meter divides an interface among backlogged services.
fn by_meter(meter: &InterfaceMeter, sharing: Sharing, shares: &[Share]) -> Vec<Bandwidth> {
    shares.iter().map(|share| meter.saturated_share(share, sharing)).collect()
}

/// Departure times share a part of the interface, by guarantees for that part.
fn edt_shares_its_part(drawn: &RandomPolicy, whole: &MachinePlan, machine: MachineId) {
    let (rate, sharing) = (whole.capacities.tx, drawn.policy.sharing());
    let capacities = PerDirection { tx: Backend::Edt.shared(rate), ..whole.capacities };
    let plan = MachinePlan::within(&drawn.policy, machine, capacities);
    let shares: Vec<Share> = plan
        .leaves
        .iter()
        .map(|leaf| Share { min: Backend::Edt.guarantee(&leaf.shares.tx), ..leaf.shares.tx.share })
        .collect();
    let (horizon, bytes) = (Duration::from_millis(20), Bytes::new(200_000));
    let pacing = PacingConfig { rate, sharing, horizon, queue: bytes, burst: bytes, cpus: 2 };
    let rates = by_meter(&pacing.interface_meter(&shares, Bytes::new(1514)), sharing, &shares);
    for (leaf, rate) in plan.leaves.iter().zip(rates) {
        let due = leaf.shares.tx.committed;
        let seed = drawn.seed;
        assert!(rate.bps().abs_diff(due.bps()) <= due.bps() / 1000 + 10_000, "seed {seed}, edt: {rate} of {due}");
    }
}

#[test]
fn backlogged_services_get_their_shares_in_allocate_from_both_backends_and_receive_meters() {
    let mut compared = PerDirection::both(0);
    for drawn in (0..POLICIES).map(draw_for_machines) {
        let (policy, sharing) = (&drawn.policy, drawn.policy.sharing());
        let machines = (0..policy.network().machines().len() as u32).map(MachineId);
        let own = machines.filter(|machine| !drawn.is_far(*machine)).find_map(|m| Some((m, allocated(&drawn, m)?)));
        let Some((machine, due)) = own else { continue };
        let near = |of: &str, rates: &[Bandwidth]| {
            for (index, (rate, due)) in rates.iter().zip(&due).enumerate() {
                // HTB has whole bytes a second and at least 2,500 b/s; weights have thousandths.
                let tolerance = due.bps() / 1000 + 10_000;
                let seed = drawn.seed;
                assert!(
                    rate.bps().abs_diff(due.bps()) <= tolerance,
                    "seed {seed}, {of}, leaf {index}: {rate} of {due}"
                );
            }
        };
        let plan = MachinePlan::new(policy, machine);
        let committed: Vec<Bandwidth> = plan.leaves.iter().map(|l| l.shares[drawn.direction].committed).collect();
        assert_eq!(committed, due, "seed {}", drawn.seed);
        let enforced: Vec<Share> = plan.leaves.iter().map(|leaf| leaf.shares[drawn.direction].enforced()).collect();
        let config = ShaperConfig::parley(policy, None, None);
        match drawn.direction {
            Direction::Tx => {
                near("htb", &by_classes(plan.capacities.tx, &plan.leaves));
                edt_shares_its_part(&drawn, &plan, machine);
            }
            Direction::Rx => {
                let meter = InterfaceMeter::of_machine(&config, machine, Direction::Rx, Instant::ZERO);
                near("receive meters", &by_meter(&meter.expect("a meter"), sharing, &enforced));
            }
        }
        compared[drawn.direction] += 1;
    }
    assert!(Direction::ALL.iter().all(|&of| compared[of] > 50), "{compared:?} machines compared");
}
