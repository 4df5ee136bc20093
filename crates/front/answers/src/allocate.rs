//! `allocate`: the shares of the whole network, once.
//!
//! Worked example: two services with unlimited demands and weights 2 and 1 on a machine of 9 Gb/s have allocations of
//! 6 and 3 Gb/s; both are limited, by the machine.

use crate::text;
use serde_json::{Value, json};
use std::sync::Arc;
use weir_alloc::{Allocation, NetworkShares};
use weir_policy::{Demands, Policy};
use weir_units::{Bandwidth, Direction, RackId};

/// The share of every service with a demand on every machine.
pub struct Allocated<'a> {
    policy: &'a Policy,
    shares: NetworkShares,
}

/// The sum of a rack's machines in one direction, beside the capacity of its uplink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RackTotal {
    /// The rack.
    pub rack: RackId,
    /// The direction.
    pub direction: Direction,
    /// The sum of its machines' allocations.
    pub allocated: Bandwidth,
    /// The capacity of the uplink under the policy's caps.
    pub capacity: Bandwidth,
}

impl RackTotal {
    /// The capacity that no allocation takes.
    pub fn left(&self) -> Bandwidth {
        self.capacity.saturating_sub(self.allocated)
    }
}

/// Shares a network among its services' demands.
pub fn allocate<'a>(policy: &'a Arc<Policy>, demands: &Demands) -> Allocated<'a> {
    let of = |machine, service, direction| demands.get(machine, service, direction);
    Allocated { policy, shares: weir_alloc::allocate(policy, of) }
}

impl Allocated<'_> {
    /// The shares, by machine, service and direction. A service without a demand has none.
    pub fn allocations(&self) -> &[Allocation] {
        &self.shares.allocations
    }

    /// The shares with the splits that led to them.
    pub fn shares(&self) -> &NetworkShares {
        &self.shares
    }

    /// The sums of racks; a rack without demands in a direction is left out.
    pub fn totals(&self) -> Vec<RackTotal> {
        let network = self.policy.network();
        let mut sums = vec![[None::<Bandwidth>; 2]; network.racks().len()];
        for allocation in self.allocations() {
            let rack = network.machine(allocation.machine).rack();
            let sum = &mut sums[rack.index()][usize::from(allocation.direction == Direction::Rx)];
            *sum = Some(sum.unwrap_or_default() + allocation.allocation);
        }
        let mut totals = Vec::new();
        for (rack, sums) in (0..).map(RackId).zip(sums) {
            for (direction, sum) in Direction::ALL.into_iter().zip(sums) {
                let Some(allocated) = sum else { continue };
                let capacity = self.policy.rack_capacity(rack, direction);
                totals.push(RackTotal { rack, direction, allocated, capacity });
            }
        }
        totals
    }

    /// For programs; the keys are those of `weir allocate --help`.
    pub fn to_json(&self) -> Value {
        let policy = self.policy;
        let row = |allocation: &Allocation| {
            json!({
                "machine": policy.network().machine(allocation.machine).name(),
                "service": policy.services().get(allocation.service).path(),
                "direction": allocation.direction.name(),
                "demand_bps": text::bps(allocation.demand),
                "allocation_bps": text::bps(allocation.allocation),
                "limited": allocation.decided_by.is_limit(),
                "decided_by": allocation.decided_by.display(policy).to_string(),
            })
        };
        json!({ "allocations": self.allocations().iter().map(row).collect::<Value>() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_whole_and_racks_have_sums() {
        let text = "weir: 1\nnetwork: { nic: 9Gb/s, racks: { r1: { uplink: 10Gb/s, machines: [m1] }, \
                    r2: { uplink: 10Gb/s, machines: [m2] } } }\n\
                    services:\n  a: { match: [ { port: 1 } ], machine: { weight: 2 } }\n  \
                    b: { match: [ { port: 2 } ] }\n";
        let policy = Arc::new(Policy::parse("policy.yaml", text).expect("sound").0);
        let demands = Demands::parse(&policy, "demands.csv", "m1,a,tx,unlimited\nm1,b,tx,unlimited\n").expect("sound");
        let allocated = allocate(&policy, &demands);
        let json = allocated.to_json();
        let rates = |index: usize| json["allocations"][index]["allocation_bps"].as_u64();
        assert_eq!([rates(0), rates(1)], [Some(6_000_000_000), Some(3_000_000_000)]);
        assert_eq!(
            (&json["allocations"][0]["demand_bps"], &json["allocations"][0]["limited"]),
            (&Value::Null, &true.into())
        );
        let (rack, direction) = (RackId(0), Direction::Tx);
        let [allocated_, capacity] = [9, 10].map(Bandwidth::from_gbps);
        assert_eq!(allocated.totals(), [RackTotal { rack, direction, allocated: allocated_, capacity }]);
    }
}
