//! [`MachinePlan`]: what a machine enforces of a policy.
//!
//! Problem: the agent, its status and the simulator need a leaf service's guarantee, maximum and weight at one machine,
//! and each of them derived these from the policy. Approach: one derivation. A leaf has its own guarantee where it
//! runs, the least maximum of itself and the services that it is nested in, and the product of the weights along its
//! path, each relative to its siblings.
//!
//! Worked example: `vm` of weight 1 and `dfs` of weight 2 with two children of weight 1: 1, 1 and 1.

use weir_policy::{Place, Policy, Share};
use weir_units::{Bandwidth, ContentionPoint, Direction, MachineId, PerDirection, ServiceId, Weight};

/// A leaf service at a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeafPlan {
    /// The service.
    pub service: ServiceId,
    /// Its share of the machine's interface, of each direction.
    pub shares: PerDirection<Share>,
    /// Its guarantee at the rack's uplink.
    pub rack_guarantee: PerDirection<Bandwidth>,
}

/// The services of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachinePlan {
    /// The machine.
    pub machine: MachineId,
    /// Its leaf services, in the policy's order.
    pub leaves: Vec<LeafPlan>,
}

impl MachinePlan {
    /// The plan of a machine.
    ///
    /// # Panics
    /// If the policy has no such machine.
    pub fn new(policy: &Policy, machine: MachineId) -> Self {
        let rack = Place::Rack(policy.network().machine(machine).rack());
        let leaf = |service: ServiceId| {
            let share = |direction| {
                let min = policy.share_at(service, Place::Machine(machine), direction).min;
                Share { min, ..leaf_share(policy, service, direction) }
            };
            let guarantee = |direction| policy.share_at(service, rack, direction).min;
            LeafPlan {
                service,
                shares: PerDirection { tx: share(Direction::Tx), rx: share(Direction::Rx) },
                rack_guarantee: PerDirection { tx: guarantee(Direction::Tx), rx: guarantee(Direction::Rx) },
            }
        };
        Self { machine, leaves: policy.services().leaves().map(|(id, _)| leaf(id)).collect() }
    }
}

/// The share of a leaf at a machine on which it runs.
pub(crate) fn leaf_share(policy: &Policy, leaf: ServiceId, direction: Direction) -> Share {
    Share {
        min: policy.services().get(leaf).share(ContentionPoint::Machine, direction).min,
        max: policy.machine_ceiling(leaf, direction),
        weight: weight(policy, leaf, direction),
    }
}

/// A leaf's weight among all leaves at a machine.
fn weight(policy: &Policy, leaf: ServiceId, direction: Direction) -> Weight {
    let services = policy.services();
    let own =
        |id: ServiceId| u128::from(services.get(id).share(ContentionPoint::Machine, direction).weight.thousandths());
    // Numerator and denominator of the product; cut to 64 bits at each level, of which no tree has many.
    let (mut part, mut whole) = (own(leaf), 1u128);
    let mut at = leaf;
    while let Some(parent) = services.get(at).parent() {
        let siblings: u128 = services.get(parent).children().iter().map(|&id| own(id)).sum();
        (part, whole) = (part.saturating_mul(own(parent)), whole.saturating_mul(siblings));
        while part.max(whole) > u128::from(u64::MAX) {
            (part, whole) = (part >> 1, (whole >> 1).max(1));
        }
        at = parent;
    }
    let thousandths = u32::try_from((part / whole).max(1)).unwrap_or(u32::MAX);
    Weight::from_thousandths(thousandths).unwrap_or(Weight::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_without_a_service_give_it_no_guarantee() {
        let text = "weir: 1\nnetwork: { nic: 10Gb/s, racks: { r: { uplink: 40Gb/s, machines: [m1, m2] }, \
            q: { uplink: 40Gb/s, machines: [m3] } } }\nservices: { a: { match: [ { port: 1 } ], machines: [m1], \
            machine: { min: 1Gb/s, max: 2Gb/s }, rack: { min: 3Gb/s } } }\n";
        let (policy, _) = Policy::parse("policy.yaml", text).expect("sound");
        let of = |name: &str| {
            let machine = policy.network().machine_named(name).expect("a machine");
            let leaf = MachinePlan::new(&policy, machine).leaves[0];
            [leaf.shares.tx.min, leaf.shares.tx.max, leaf.rack_guarantee.rx].map(|rate| rate.bps() / 1_000_000_000)
        };
        assert_eq!([of("m1"), of("m2"), of("m3")], [[1, 2, 3], [0, 2, 3], [0, 2, 0]]);
    }
}
