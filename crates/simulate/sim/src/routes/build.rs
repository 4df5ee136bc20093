//! The tables of routes, computed from the switches' neighbours.
//!
//! Problem: a search of the whole network for each leaf takes minutes with ten thousand leaves, and
//! the tables of all switches together are gigabytes.
//!
//! Approach. Leaves attached to the same switches are a group: all leaves of a leaf-spine, those of
//! a pod. Let N be those switches. Every shortest path to a leaf of the group ends with a switch of
//! N, and before that it meets no leaf of the group: every switch with a link to one of them is in
//! N, one link from all of them. So one search from the whole group gives
//! - for a switch elsewhere, the ports that lead nearer to the group, the same for all its leaves;
//! - for one of N, the ports that lead to the leaf itself;
//! - for another leaf of the group, the ports that lead to the nearest of its neighbours.
//!
//! Two switches stay alike as long as they reach every group by ports of the same numbers. So
//! tables of all switches need not exist at the same time: an [`Alike`] is the state that switches
//! share so far, and a link to their previous state. After all groups, the table of each kind of
//! switch is written once.
//!
//! Example: two spines above four leaves are one group and one search. Both spines are of one kind,
//! which reaches the leaves by ports 0, 1, 2 and 3, and the leaves are of another, which reaches
//! every leaf by the set of its ports 0 and 1.

use super::symmetric::{Layers, Split};
use super::{Forwarding, NOT_A_LEAF, Neighbours, Routes, Set, Way, mix};
use crate::ids::{PortId, SwitchId};
use std::collections::{BTreeMap, VecDeque};

/// How a switch reaches the leaves of a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// All alike.
    Same(Way),
    /// Each in its own way, in the order of the group.
    Each(Vec<Way>),
}

/// Switches that have reached all groups so far alike, the last of them by `step`.
#[derive(Debug)]
struct Alike {
    step: Step,
    /// Their state before that group.
    before: u32,
}

/// Nothing reached yet.
const START: u32 = u32::MAX;
/// The distance without a route.
const FAR: u32 = u32::MAX;

/// The choices among several ports so far, for each what is written in tables.
struct Known<'a> {
    /// For symmetric routing.
    layers: Option<&'a Layers>,
    sets: BTreeMap<Vec<u32>, Way>,
    splits: BTreeMap<Split, Way>,
}

impl Routes {
    /// Builds the routes of all switches with these `neighbours`. `leaves` are the switches with
    /// hosts, in the order of their numbers, and `down` is each host's port there. With `layers`
    /// routes are symmetric.
    pub(crate) fn build(
        leaves: &[SwitchId],
        down: Vec<PortId>,
        neighbours: &[Neighbours],
        layers: Option<&Layers>,
    ) -> Self {
        let mut routes = Self { down, ..Self::default() };
        let backwards = backwards(neighbours);
        let mut groups: BTreeMap<&[SwitchId], Vec<u32>> = BTreeMap::new();
        for (leaf, switch) in (0..).zip(leaves) {
            groups.entry(&backwards[switch.index()]).or_default().push(leaf);
        }
        let mut choices = Known { layers, sets: BTreeMap::new(), splits: BTreeMap::new() };
        let mut kind = vec![START; neighbours.len()];
        let mut alike: Vec<Alike> = Vec::new();
        for (above, group) in &groups {
            let members: Vec<SwitchId> = group.iter().map(|&leaf| leaves[leaf as usize]).collect();
            let hops = distances(&members, &backwards);
            let mut known: BTreeMap<(u32, Step), u32> = BTreeMap::new();
            for (switch, neighbours) in (0..).map(SwitchId).zip(neighbours) {
                let step = if above.binary_search(&switch).is_ok() {
                    let way = |member| routes.way(&mut choices, switch, neighbours, |to| to == member);
                    Step::Each(members.iter().copied().map(way).collect())
                } else {
                    let nearest = neighbours.iter().map(|(_, to)| hops[to.index()]).min().unwrap_or(FAR);
                    // A leaf of the group is at distance 0 from itself, so its neighbours are no
                    // nearer.
                    let leads = hops[switch.index()] != FAR && nearest != FAR;
                    let nearer = |to: SwitchId| leads && hops[to.index()] == nearest;
                    Step::Same(routes.way(&mut choices, switch, neighbours, nearer))
                };
                let before = kind[switch.index()];
                kind[switch.index()] = *known.entry((before, step)).or_insert_with_key(|(before, step)| {
                    alike.push(Alike { step: step.clone(), before: *before });
                    (alike.len() - 1) as u32
                });
            }
        }
        // Memory is exhausted before one of these overflows.
        let most = (Way::SYMMETRIC - Way::SET) as usize;
        assert!(routes.sets.len() < most && routes.symmetric.len() < most, "too many sets of ports");
        assert!(u32::try_from(routes.choices.len()).is_ok(), "too many ports in sets");
        let groups: Vec<&[u32]> = groups.values().map(Vec::as_slice).collect();
        routes.lay_out(leaves, neighbours, &groups, &kind, &alike);
        routes
    }

    /// The ports of a switch to the neighbours that `wanted` accepts.
    fn way(
        &mut self,
        known: &mut Known<'_>,
        switch: SwitchId,
        neighbours: &Neighbours,
        wanted: impl Fn(SwitchId) -> bool,
    ) -> Way {
        let mut ports = (0..).zip(neighbours).filter(|(_, (_, to))| wanted(*to)).map(|(port, _)| port);
        let Some(first) = ports.next() else { return Way::NONE };
        let Some(second) = ports.next() else { return Way(first) };
        let ports: Vec<u32> = [first, second].into_iter().chain(ports).collect();
        if let Some(layers) = known.layers {
            return self.symmetric_way(&mut known.splits, layers.split(switch, neighbours, &ports));
        }
        *known.sets.entry(ports).or_insert_with_key(|ports| {
            let set = Set { first: self.choices.len() as u32, count: ports.len() as u32 };
            self.choices.extend_from_slice(ports);
            self.sets.push(set);
            Way(Way::SET | (self.sets.len() - 1) as u32)
        })
    }

    /// Writes the tables of all kinds of switches, and the table of each switch. The last of
    /// `groups` is the one that `alike` ends with.
    fn lay_out(
        &mut self,
        leaves: &[SwitchId],
        neighbours: &[Neighbours],
        groups: &[&[u32]],
        kind: &[u32],
        alike: &[Alike],
    ) {
        let mut tables: BTreeMap<u32, u32> = BTreeMap::new();
        for (number, neighbours) in (0..).zip(neighbours) {
            let kind = kind[number as usize];
            let table = *tables.entry(kind).or_insert_with(|| {
                let first = self.tables.len();
                self.tables.resize(first + leaves.len(), Way::NONE);
                let table = &mut self.tables[first..];
                let (mut at, mut groups) = (kind, groups.iter().rev());
                while let (Some(Alike { step, before }), Some(group)) = (alike.get(at as usize), groups.next()) {
                    for (index, &leaf) in group.iter().enumerate() {
                        table[leaf as usize] = match step {
                            Step::Same(way) => *way,
                            Step::Each(ways) => ways[index],
                        };
                    }
                    at = *before;
                }
                first as u32
            });
            let salt = mix(number + 1);
            self.switches.push(Forwarding { salt, leaf: NOT_A_LEAF, table, ports: self.ports.len() as u32 });
            self.ports.extend(neighbours.iter().map(|&(port, _)| port));
        }
        for (leaf, switch) in (0..).zip(leaves) {
            self.switches[switch.index()].leaf = leaf;
        }
    }
}

/// For each switch, the switches with a link to it, ascending.
pub(super) fn backwards(neighbours: &[Neighbours]) -> Vec<Vec<SwitchId>> {
    let mut backwards = vec![Vec::new(); neighbours.len()];
    for (number, neighbours) in (0..).map(SwitchId).zip(neighbours) {
        for (_, to) in neighbours {
            backwards[to.index()].push(number);
        }
    }
    for before in &mut backwards {
        before.sort_unstable();
        before.dedup();
    }
    backwards
}

/// For each switch, the links to the nearest of `group`; [`FAR`] without a route.
pub(super) fn distances(group: &[SwitchId], backwards: &[Vec<SwitchId>]) -> Vec<u32> {
    let mut hops = vec![FAR; backwards.len()];
    for switch in group {
        hops[switch.index()] = 0;
    }
    let mut reached: VecDeque<SwitchId> = group.iter().copied().collect();
    while let Some(at) = reached.pop_front() {
        for before in &backwards[at.index()] {
            if hops[before.index()] == FAR {
                hops[before.index()] = hops[at.index()] + 1;
                reached.push_back(*before);
            }
        }
    }
    hops
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::HostId;
    use proptest::prelude::*;

    /// The neighbours in a network of links from a switch to another; port `i` is the `i`th link.
    fn network(switches: u32, links: &[(u32, u32)]) -> Vec<Neighbours> {
        let of = |switch| {
            let ports = (0..).zip(links).filter(move |(_, (from, _))| *from == switch);
            ports.map(|(port, &(_, to))| (PortId(port), SwitchId(to))).collect()
        };
        (0..switches).map(of).collect()
    }

    #[test]
    fn switches_that_are_alike_have_one_table() {
        // Two spines (0, 1) above four leaves (2 to 5).
        let up = (2..6).flat_map(|leaf| [(leaf, 0), (leaf, 1)]);
        let links: Vec<(u32, u32)> = up.chain((0..2).flat_map(|spine| (2..6).map(move |leaf| (spine, leaf)))).collect();
        let leaves = [2, 3, 4, 5].map(SwitchId);
        let routes = Routes::build(&leaves, vec![PortId(99)], &network(6, &links), None);
        // One for the spines and one for the leaves, which have one set.
        assert_eq!((routes.tables.len(), routes.sets.len(), routes.choices.len()), (2 * 4, 1, 2));
        for (number, leaf) in (0..).zip(leaves) {
            let port = routes.route(SwitchId(1), number, HostId(0), 5).expect("a way");
            assert_eq!(links[port.index()], (1, leaf.0));
        }
    }

    proptest! {
        /// In any network the ports of a route are those whose far end is one link nearer to the
        /// leaf.
        #[test]
        fn routes_are_all_shortest_paths(
            switches in 1..9_u32,
            links in proptest::collection::vec((0..9_u32, 0..9_u32), 0..40),
            leaf in proptest::collection::vec(any::<bool>(), 9),
            symmetric in any::<bool>(),
        ) {
            let exists = |(a, b): &(u32, u32)| a != b && *a < switches && *b < switches;
            let links: Vec<(u32, u32)> = links.into_iter().filter(exists).collect();
            let leaves: Vec<SwitchId> = (0..switches).filter(|&number| leaf[number as usize]).map(SwitchId).collect();
            let neighbours = network(switches, &links);
            let mut backwards = vec![Vec::new(); switches as usize];
            for &(from, to) in &links {
                backwards[to as usize].push(SwitchId(from));
            }
            let layers = symmetric.then(|| Layers::new(&leaves, &neighbours));
            let routes = Routes::build(&leaves, vec![PortId(99)], &neighbours, layers.as_ref());
            for (number, leaf) in (0..).zip(&leaves) {
                let hops = distances(&[*leaf], &backwards);
                for from in (0..switches).map(SwitchId).filter(|from| from != leaf) {
                    let nearer = |(_, to): &&(PortId, SwitchId)| hops[to.index()] < hops[from.index()];
                    let expected = neighbours[from.index()].iter().filter(nearer).map(|(port, _)| *port);
                    let expected: Vec<PortId> = expected.collect();
                    // So many hashes that each of up to forty ports is chosen, but for one network
                    // in thousands of millions.
                    let mut got: Vec<PortId> =
                        (0..2000).filter_map(|hash| routes.route(from, number, HostId(0), hash)).collect();
                    got.sort_unstable();
                    got.dedup();
                    prop_assert_eq!(got, expected);
                }
            }
        }
    }
}
