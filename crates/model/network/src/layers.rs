//! Whether a network is layered: whether all its shortest paths go up and then down.
//!
//! Problem: reservations on all equal paths are sound only where these paths are known from the places of machines
//! alone. Approach: a switch's height is its distance to the nearest machine. A network is layered where every cable
//! joins switches of consecutive heights, and the sets of machines below switches are nested or disjoint.
//!
//! Then a downward step lowers the height by one, so all downward paths from a switch to a machine are equally long. A
//! path that goes down to a switch v and up again passes two switches above v; their sets both contain that of v, so
//! one contains the other, and from the higher of the two a shorter path goes down to either end. So no shortest path
//! has a valley. A switch without a cable up must reach all that any switch above its machines reaches: on a leaf-spine
//! with a cable missing, a spine would be a second root, and the set of its machines would have no links to a larger
//! one.
//!
//! Example: leaf-spines and fat-trees are layered; three leaves, each two of them below a spine of their own, are not.

use crate::graph::Graph;
use std::collections::{BTreeSet, VecDeque};

/// Whether there is one path between any two switches: no cable closes a circle.
pub fn has_one_path(graph: &Graph) -> bool {
    let mut root: Vec<usize> = (0..graph.switches.len()).collect();
    fn find(root: &mut [usize], mut at: usize) -> usize {
        while root[at] != at {
            root[at] = root[root[at]];
            at = root[at];
        }
        at
    }
    graph.cables.iter().all(|cable| {
        let (a, b) = (find(&mut root, cable.a), find(&mut root, cable.b));
        root[a] = b;
        a != b
    })
}

/// Whether all shortest paths between machines go up and then down.
pub fn is_layered(graph: &Graph) -> bool {
    let heights = heights(graph);
    if graph.cables.iter().any(|cable| heights[cable.a].abs_diff(heights[cable.b]) != 1) {
        return false;
    }
    let mut order: Vec<usize> = (0..graph.switches.len()).collect();
    order.sort_by_key(|at| heights[*at]);
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); graph.switches.len()];
    for cable in &graph.cables {
        let (up, down) = if heights[cable.a] > heights[cable.b] { (cable.a, cable.b) } else { (cable.b, cable.a) };
        below[up].push(down);
    }
    let mut sets: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); graph.switches.len()];
    for (host, at) in (0..).zip(&graph.hosts) {
        sets[at.switch].insert(host);
    }
    for at in order {
        for down in &below[at] {
            let more = sets[*down].clone();
            sets[at].extend(more);
        }
    }
    // A switch without a cable up is the root of all that it reaches: no other one may reach more.
    let has_up = |at: usize| {
        graph.cables.iter().any(|cable| {
            let other = if cable.a == at { cable.b } else { cable.a };
            (cable.a == at || cable.b == at) && heights[other] > heights[at]
        })
    };
    let is_root = |at: usize| !sets[at].is_empty() && !has_up(at);
    let is_below = |at: usize| sets.iter().any(|set| set.len() > sets[at].len() && sets[at].is_subset(set));
    if (0..sets.len()).filter(|at| is_root(*at)).any(is_below) {
        return false;
    }
    let mut distinct: Vec<BTreeSet<u32>> = sets.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    distinct.sort_by_key(BTreeSet::len);
    // By host, the largest set so far: the next one that has the host must contain it.
    let mut largest: Vec<Option<usize>> = vec![None; graph.hosts.len()];
    distinct.iter().enumerate().all(|(at, set)| {
        let before: BTreeSet<usize> = set.iter().filter_map(|host| largest[*host as usize].replace(at)).collect();
        before.into_iter().all(|before| distinct[before].is_subset(set))
    })
}

/// By switch, the links to its nearest machine; `u32::MAX` where no machine is reached.
fn heights(graph: &Graph) -> Vec<u32> {
    let mut around = vec![Vec::new(); graph.switches.len()];
    for cable in &graph.cables {
        around[cable.a].push(cable.b);
        around[cable.b].push(cable.a);
    }
    let mut heights = vec![u32::MAX; graph.switches.len()];
    graph.hosts.iter().for_each(|host| heights[host.switch] = 1);
    let mut open: VecDeque<usize> = (0..heights.len()).filter(|at| heights[*at] == 1).collect();
    while let Some(at) = open.pop_front() {
        for next in &around[at] {
            if heights[*next] == u32::MAX {
                heights[*next] = heights[at] + 1;
                open.push_back(*next);
            }
        }
    }
    heights
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Cable, Host, LinkSpec, Packets, QueueSpec, Routing};
    use std::collections::BTreeMap;
    use weir_units::{Bandwidth, Duration};

    /// Switches with one host each where `hosts` has them, and cables between them.
    fn graph(switches: usize, hosts: &[usize], cables: &[(usize, usize)]) -> Graph {
        let link = LinkSpec { rate: Bandwidth::from_gbps(1), delay: Duration::ZERO, queue: QueueSpec::default() };
        let host = |switch: &usize| Host {
            name: format!("h{switch}"),
            switch: *switch,
            up: link,
            down: link,
            is_namesake: false,
        };
        Graph {
            hosts: hosts.iter().map(host).collect(),
            switches: (0..switches).map(|at| format!("s{at}")).collect(),
            cables: cables.iter().map(|(a, b)| Cable { a: *a, b: *b, a_to_b: link, b_to_a: link, number: 0 }).collect(),
            groups: BTreeMap::new(),
            routing: Routing::Ecmp,
            packets: Packets::default(),
            shared_buffer: None,
            jitter: Duration::ZERO,
        }
    }

    #[test]
    fn leaves_below_common_spines_are_layered() {
        let spines = graph(4, &[0, 1], &[(0, 2), (0, 3), (1, 2), (1, 3)]);
        assert_eq!((is_layered(&spines), has_one_path(&spines)), (true, false));
        let one = graph(3, &[0, 1], &[(0, 2), (1, 2)]);
        assert_eq!((is_layered(&one), has_one_path(&one)), (true, true));
        let parallel = graph(3, &[0, 1], &[(0, 2), (0, 2), (1, 2)]);
        assert_eq!((is_layered(&parallel), has_one_path(&parallel)), (true, false));
    }

    #[test]
    fn spines_that_reach_fewer_leaves_than_others_are_not_layered() {
        let missing = graph(5, &[0, 1, 2], &[(0, 3), (1, 3), (0, 4), (1, 4), (2, 4)]);
        assert!(!is_layered(&missing));
    }

    #[test]
    fn valleys_and_cables_between_equals_are_not_layered() {
        // Each two of three leaves have a spine of their own.
        let valleys = graph(6, &[0, 1, 2], &[(0, 3), (1, 3), (1, 4), (2, 4), (2, 5), (0, 5)]);
        assert!(!is_layered(&valleys));
        let ring = graph(3, &[0, 1, 2], &[(0, 1), (1, 2), (2, 0)]);
        assert_eq!((is_layered(&ring), has_one_path(&ring)), (false, false));
        let chain = graph(3, &[0, 1, 2], &[(0, 1), (1, 2)]);
        assert_eq!((is_layered(&chain), has_one_path(&chain)), (false, true));
    }
}
