//! Guarantees against capacities, at every contention point.

use std::collections::BTreeMap;
use weir_policy::Policy;
use weir_units::{Bandwidth, ContentionPoint, Direction};

/// Guarantees against the capacity, for equal points.
pub struct Guarantees<'a> {
    /// The kind of contention point.
    pub point: ContentionPoint,
    /// The names of the equal ones.
    pub places: Vec<&'a str>,
    /// The direction.
    pub direction: Direction,
    /// The capacity that bounded levels and credits leave.
    pub capacity: Bandwidth,
    /// The sum of all guarantees there.
    pub guaranteed: Bandwidth,
}

impl Guarantees<'_> {
    /// The capacity that no guarantee takes.
    pub fn left(&self) -> Bandwidth {
        self.capacity.saturating_sub(self.guaranteed)
    }

    /// Whether the other row differs in the direction only.
    pub fn same_but_direction(&self, other: &Self) -> bool {
        (self.point, &self.places, self.capacity, self.guaranteed)
            == (other.point, &other.places, other.capacity, other.guaranteed)
    }
}

/// By contention point, then points with equal capacities, then direction.
pub fn guarantees(policy: &Policy) -> Vec<Guarantees<'_>> {
    let mut rows = Vec::new();
    for point in ContentionPoint::ALL {
        // In the order of the policy's first point of each kind.
        let mut groups: Vec<([Bandwidth; 2], Vec<&str>)> = Vec::new();
        let mut known: BTreeMap<[Bandwidth; 2], usize> = BTreeMap::new();
        for (name, capacities) in places(policy, point) {
            let capacities = capacities.map(|capacity| policy.beside_levels_and_credits(capacity));
            let group = *known.entry(capacities).or_insert_with(|| {
                groups.push((capacities, Vec::new()));
                groups.len() - 1
            });
            groups[group].1.push(name);
        }
        for (capacities, places) in groups {
            for (direction, capacity) in Direction::ALL.into_iter().zip(capacities) {
                let guaranteed = policy.guaranteed(point, direction);
                rows.push(Guarantees { point, places: places.clone(), direction, capacity, guaranteed });
            }
        }
    }
    rows
}

fn places(policy: &Policy, point: ContentionPoint) -> Vec<(&str, [Bandwidth; 2])> {
    let network = policy.network();
    let both = |capacity: &dyn Fn(Direction) -> Bandwidth| Direction::ALL.map(capacity);
    match point {
        ContentionPoint::Machine => network
            .racks()
            .iter()
            .flat_map(|rack| rack.machines())
            .map(|id| (network.machine(*id).name(), both(&|direction| policy.machine_capacity(*id, direction))))
            .collect(),
        ContentionPoint::Rack => network
            .racks()
            .iter()
            .filter_map(|rack| Some((rack.name(), network.rack_named(rack.name())?)))
            .map(|(name, id)| (name, both(&|direction| policy.rack_capacity(id, direction))))
            .collect(),
        ContentionPoint::Fabric => vec![("fabric", both(&|direction| policy.fabric_capacity(direction)))],
    }
}
