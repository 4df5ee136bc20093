//! Sums over the services that run at each instance of a contention point.
//!
//! Problem: with services on some machines only, every machine may have another sum of minima, and looking at every
//! service on every machine takes too long for large policies. Approach: the ranges of a service's machines begin and
//! end at few ids; between two of these ids the sum is the same.
//!
//! Worked example: `a` with 3 Gb/s on machines 0 to 3, `b` with 2 Gb/s on 2 to 5, of 8 machines: 0..2 has 3 Gb/s, 2..4
//! 5 Gb/s, 4..6 2 Gb/s, 6..8 nothing.

use crate::machine_set::MachineSet;
use std::collections::BTreeMap;
use std::ops::Range;
use weir_network::Network;
use weir_units::ContentionPoint;

/// The sum at each instance, as ranges of ids of machines or racks, ascending and without a gap; the fabric is one
/// instance. `minima` has the machines of each service (`None`: all) and its minimum in bit/s.
pub(crate) fn sums<'a>(
    network: &Network,
    point: ContentionPoint,
    minima: impl Iterator<Item = (Option<&'a MachineSet>, u128)>,
) -> Vec<(Range<u32>, u128)> {
    let count = match point {
        ContentionPoint::Machine => network.machines().len() as u32,
        ContentionPoint::Rack => network.racks().len() as u32,
        ContentionPoint::Fabric => 1,
    };
    // What begins and what ends at an id.
    let mut changes: BTreeMap<u32, (u128, u128)> = BTreeMap::from([(0, (0, 0)), (count, (0, 0))]);
    for (machines, minimum) in minima.filter(|(_, minimum)| *minimum > 0) {
        let ranges = match (machines, point) {
            (Some(machines), ContentionPoint::Machine) => machines.ranges().to_vec(),
            (Some(machines), ContentionPoint::Rack) => machines.racks(network),
            _ => std::iter::once(0..count).collect(),
        };
        for range in ranges {
            changes.entry(range.start).or_default().0 += minimum;
            changes.entry(range.end).or_default().1 += minimum;
        }
    }
    let mut sum = 0;
    let ends = changes.keys().skip(1).copied().collect::<Vec<_>>();
    let of = |((start, (begins, stops)), end): ((&u32, &(u128, u128)), u32)| {
        sum = sum + begins - stops;
        (*start..end, sum)
    };
    changes.iter().zip(ends).map(of).filter(|(range, _)| !range.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_network::{Machine, PortBuffers, Rack};
    use weir_units::{Bandwidth, MachineId, PerDirection, RackId};

    #[test]
    fn worked_example() {
        let rate = PerDirection::both(Bandwidth::from_gbps(10));
        let machines = (0..8).map(|id| Machine::new(format!("m{id}"), RackId(id / 4), rate, None)).collect();
        let rack = |name: &str, ids: Range<u32>| Rack::new(name.to_owned(), rate, ids.map(MachineId).collect());
        let network = Network::new(vec![rack("r0", 0..4), rack("r1", 4..8)], machines, PortBuffers::default());
        let set = |ids: Range<u32>| MachineSet::new(ids.map(MachineId).collect());
        let (a, b) = (set(0..4), set(2..6));
        let minima = || [(Some(&a), 3), (Some(&b), 2)].into_iter();
        assert_eq!(sums(&network, ContentionPoint::Machine, minima()), [(0..2, 3), (2..4, 5), (4..6, 2), (6..8, 0)]);
        assert_eq!(sums(&network, ContentionPoint::Rack, minima()), [(0..1, 5), (1..2, 2)]);
        assert_eq!(sums(&network, ContentionPoint::Fabric, minima()), [(0..1, 5)]);
    }
}
