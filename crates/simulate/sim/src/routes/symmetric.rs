//! Symmetric routing: the packets of a flow and those back to its sender pass the same links.
//!
//! Problem: credits are granted on the way back of a message, for data that will pass the same links the other way.
//! Under ECMP each switch mixes its own number into the hash, so the two directions of a flow rarely agree.
//!
//! Approach: a switch decides as the switch at the other end of a shortest path does.
//! - The hash is the same in both directions. Packets back have the flow's hash rotated by half of its bits, and the
//!   sum of the mixed hash and the mixed rotated hash does not change by that rotation.
//! - The choice among next switches is salted by their height, the number of links to the nearest leaf. So a flow's
//!   position among the switches of a height is the same on the way up and on the way down, and the heights choose
//!   independently. A salt by the choosing switch's own height would differ between the two where the way down branches
//!   too.
//! - Equal switches have one order: by the first switch above them, then by number. So the planes of a fat-tree are in
//!   the same order in all pods. The order and the heights include links that are down.
//! - Of several links to the chosen switch one is taken by a second choice, salted by the heights of both ends. Links
//!   of a pair have the order of their creation at both ends.
//!
//! Where it holds: networks with one path between hosts (star, dumbbell, parking lot); leaf-spines and fat-trees, also
//! after failures of whole links, between leaves that still have a path of the old length; layers in which every switch
//! of a pod has links to all of the next layer. Where it does not: where the set of a later choice depends on an
//! earlier one, as in such full layers after a failure between the upper two; in rings; where only one direction of a
//! link is down.
//!
//! Example: in a fat-tree with k = 8 the position of the aggregation switch is a value of 0 to 3 by the salt of height
//! 1, and that of the core switch above it one of 0 to 3 by the salt of height 2. The edge switch at the other end
//! chooses the same two values, which name the same core switch.
//!
//! Source: ours; RFC 2992 for the choice by hash.

use super::{Neighbours, PortId, Routes, Way, build, mix};
use crate::ids::SwitchId;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A choice by hash among `count` items of a table from `first` on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    first: u32,
    count: u32,
    salt: u32,
}

impl Choice {
    #[inline]
    fn index(self, hash: u32) -> usize {
        let chosen = (u64::from(mix(hash ^ self.salt)) * u64::from(self.count)) >> 32;
        self.first as usize + chosen as usize
    }
}

/// Ports of a switch on shortest paths to a leaf: the salt of the choice among the next switches, and for each of these
/// the salt of the choice among its links, and their ports.
pub(super) type Split = (u32, Vec<(u32, Vec<u32>)>);

/// The positions of switches in the layers of a network.
#[derive(Debug)]
pub(crate) struct Layers {
    /// By switch, the number of links to the nearest leaf.
    height: Vec<u32>,
    /// By switch, its position in the order of all: that of the choices.
    order: Vec<u32>,
}

impl Layers {
    /// The layers above `leaves`. `links` are the neighbours of all switches, also over links that are down.
    pub(crate) fn new(leaves: &[SwitchId], links: &[Neighbours]) -> Self {
        let height = build::distances(leaves, &build::backwards(links));
        let mut switches: Vec<usize> = (0..links.len()).collect();
        switches.sort_unstable_by_key(|&switch| (Reverse(height[switch]), switch));
        let mut order = vec![u32::MAX; links.len()];
        let mut position = 0;
        for layer in switches.chunk_by_mut(|&a, &b| height[a] == height[b]) {
            layer.sort_by_cached_key(|&switch| {
                let above = links[switch].iter().filter(|(_, to)| height[to.index()] > height[switch]);
                (above.map(|(_, to)| order[to.index()]).min(), switch)
            });
            for &mut switch in layer {
                order[switch] = position;
                position += 1;
            }
        }
        Self { height, order }
    }

    /// How `switch` chooses among some of its ports, all of which lead to leaves.
    pub(super) fn split(&self, switch: SwitchId, neighbours: &Neighbours, ports: &[u32]) -> Split {
        let height = |switch: SwitchId| self.height[switch.index()];
        let mut bundles: BTreeMap<u32, (SwitchId, Vec<u32>)> = BTreeMap::new();
        for &port in ports {
            let (_, to) = neighbours[port as usize];
            bundles.entry(self.order[to.index()]).or_insert((to, Vec::new())).1.push(port);
        }
        // Odd numbers are salts among switches, even ones among links.
        let lowest = bundles.values().map(|&(to, _)| height(to)).min().unwrap_or(0);
        let bundles = bundles.into_values().map(|(to, ports)| (mix(2 * (height(switch) + height(to)) + 2), ports));
        (mix(2 * lowest + 1), bundles.collect())
    }
}

impl Routes {
    /// The route by a choice in two steps; equal ones are kept once.
    pub(super) fn symmetric_way(&mut self, known: &mut BTreeMap<Split, Way>, split: Split) -> Way {
        *known.entry(split).or_insert_with_key(|(salt, bundles)| {
            let first = self.bundles.len() as u32;
            for (salt, ports) in bundles {
                let (first, count) = (self.choices.len() as u32, ports.len() as u32);
                self.bundles.push(Choice { first, count, salt: *salt });
                self.choices.extend_from_slice(ports);
            }
            self.symmetric.push(Choice { first, count: bundles.len() as u32, salt: *salt });
            Way(Way::SYMMETRIC | (self.symmetric.len() - 1) as u32)
        })
    }

    /// The port for a symmetric choice; `None` without a route. `ports` is the first index of the switch's ports.
    // Not inlined: ECMP's code does not become longer by it.
    #[inline(never)]
    pub(super) fn symmetric_port(&self, ports: u32, way: Way, hash: u32) -> Option<PortId> {
        if way == Way::NONE {
            return None;
        }
        let hash = mix(hash).wrapping_add(mix(hash.rotate_left(16)));
        let next = self.symmetric[(way.0 & !Way::SYMMETRIC) as usize].index(hash);
        let number = self.choices[self.bundles[next].index(hash)];
        Some(self.ports[ports as usize + number as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::HostId;

    /// Both ways of links between switches; port `i` is the `i`th direction.
    fn network(switches: u32, links: &[(u32, u32)]) -> Vec<Neighbours> {
        let directions: Vec<(u32, u32)> = links.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
        let of = |switch| {
            let ports = (0..).zip(&directions).filter(|(_, (from, _))| *from == switch);
            ports.map(|(port, &(_, to))| (PortId(port), SwitchId(to))).collect()
        };
        (0..switches).map(of).collect()
    }

    #[test]
    fn planes_have_one_order_in_all_pods() {
        // Two pods, each a leaf (0, 1) below two switches, below two cores (6, 7). The second pod's switches are
        // numbered against the first one's: 2 and 5 are below 6, 3 and 4 below 7.
        let links = [(0, 2), (0, 3), (1, 4), (1, 5), (2, 6), (3, 7), (4, 7), (5, 6)];
        let layers = Layers::new(&[SwitchId(0), SwitchId(1)], &network(8, &links));
        assert_eq!(layers.height, [0, 0, 1, 1, 1, 1, 2, 2]);
        // Cores first, then the plane of 6, then that of 7.
        assert_eq!(layers.order, [6, 7, 2, 4, 5, 3, 0, 1]);
    }

    #[test]
    fn a_hash_and_its_reverse_choose_alike_and_heights_independently() {
        // A leaf (0) below two switches (1, 2), both below two others (3, 4), above the other leaf (7) in the same way.
        let links = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 3), (2, 4), (5, 3), (5, 4), (6, 3), (6, 4), (7, 5), (7, 6)];
        let neighbours = network(8, &links);
        let leaves = [SwitchId(0), SwitchId(7)];
        let layers = Layers::new(&leaves, &neighbours);
        let routes = Routes::build(&leaves, vec![PortId(99)], &neighbours, Some(&layers));
        let directions: Vec<u32> = links.iter().flat_map(|&(a, b)| [b, a]).collect();
        let next = |switch, leaf, hash| {
            directions[routes.route(SwitchId(switch), leaf, HostId(0), hash).expect("a way").index()]
        };
        let mut counts = [[0; 2]; 2];
        for hash in (0..4000_u32).map(|hash| hash.wrapping_mul(0x0123_4567)) {
            let up = next(0, 1, hash);
            let top = next(up, 1, hash);
            assert_eq!((up, top), (next(0, 1, hash.rotate_left(16)), next(up, 1, hash.rotate_left(16))));
            let down = next(top, 1, hash);
            assert_eq!(down - 5, up - 1, "the same position on the way down");
            assert_eq!((next(7, 0, hash), next(down, 0, hash), next(top, 0, hash)), (down, top, up));
            counts[up as usize - 1][top as usize - 3] += 1;
        }
        // 1000 each; four standard deviations of a binomial distribution are 110.
        assert!(counts.as_flattened().iter().all(|count| (890..1110).contains(count)), "{counts:?}");
    }

    #[test]
    fn parallel_links_are_chosen_alike_at_both_ends() {
        // Two leaves (0, 1) with two and three links to a spine (2).
        let links = [(0, 2), (2, 1), (0, 2), (1, 2), (2, 1)];
        let neighbours = network(3, &links);
        let leaves = [SwitchId(0), SwitchId(1)];
        let layers = Layers::new(&leaves, &neighbours);
        let routes = Routes::build(&leaves, vec![PortId(99)], &neighbours, Some(&layers));
        // The links of a way; each direction of a link is a port.
        let way = |from, leaf, hash: u32| {
            [from, 2].map(|switch| routes.route(SwitchId(switch), leaf, HostId(0), hash).expect("a way").index() / 2)
        };
        let mut used = [0_u32; 5];
        for hash in 0..3000_u32 {
            let [first, second] = way(0, 1, hash);
            assert_eq!(way(1, 0, hash.rotate_left(16)), [second, first]);
            used[first] += 1;
            used[second] += 1;
        }
        // Four standard deviations: 110 of 1500, 104 of 1000.
        let even = |link: &usize, mean: u32| used[*link].abs_diff(mean) < 110;
        assert!(
            [0, 2].iter().all(|link| even(link, 1500)) && [1, 3, 4].iter().all(|link| even(link, 1000)),
            "{used:?}"
        );
    }
}
