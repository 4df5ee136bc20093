//! Switches and routes: which port leads to a host.
//!
//! A packet names its host and the host's leaf (the switch that the host hangs on). A leaf sends what is for one of its own
//! hosts to that host's port; everything else goes by leaf: a switch knows for each leaf the ports on
//! shortest paths to it. Of several it takes one by the packet's hash, so all packets of a flow go one way and stay
//! in order (ECMP, RFC 2992). The hash is mixed with the switch's own number first: otherwise flows that one tier
//! has sent left would all be sent left by the next. With spraying each packet has a number of its own instead.
//!
//! Problem: a table of hosts at every switch of a fat-tree of 10,000 hosts is 150 MB, and every hop would miss the
//! cache. Approach: leaves instead of hosts, and one word for each: the port, or where most leaves are reached by the same ports
//! (all that lead up), the place of that set. That is 4 MB for the same network, and one cache line for a look.
//!
//! Example: in a fat-tree with k = 4 an edge switch has one set for the other 7 edge switches: its 2 ports up.

use crate::ids::{HostId, PortId};
use std::collections::BTreeMap;

/// A switch.
#[derive(Debug, Clone, Copy)]
pub struct Switch {
    salt: u32,
    /// Its number among the leaves, or [`NOT_A_LEAF`].
    pub(crate) leaf: u32,
    /// Its shared buffer, a place in the world's table.
    pub(crate) shared: Option<u32>,
}

/// The leaf number of a switch without hosts.
pub(crate) const NOT_A_LEAF: u32 = u32::MAX;

/// A multiplier that spreads low bits over high ones: 2^32 divided by the golden ratio, odd (Knuth, TAOCP 3, §6.4).
const SPREAD: u32 = 0x9E37_79B1;

/// Mixes all bits of a number into all bits.
#[inline]
pub(crate) fn mix(number: u32) -> u32 {
    let number = (number ^ (number >> 16)).wrapping_mul(SPREAD);
    let number = (number ^ (number >> 15)).wrapping_mul(SPREAD);
    number ^ (number >> 16)
}

impl Switch {
    /// A switch without hosts; `number` tells it from the others.
    pub(crate) fn new(number: u32) -> Self {
        Self { salt: mix(number.wrapping_add(1)), leaf: NOT_A_LEAF, shared: None }
    }
}

/// The tables of all switches.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    leaves: usize,
    /// For each switch and leaf, how it is reached.
    table: Vec<Way>,
    /// The ports of all sets, one set behind the other.
    ports: Vec<PortId>,
    /// For each host, the port that leads down to it.
    pub(crate) down: Vec<PortId>,
}

/// How a switch reaches a leaf, in one word: a port, or a set of ports (its first place in the table of ports and how many it has).
#[derive(Debug, Clone, Copy)]
struct Way(u32);

impl Way {
    const NONE: Self = Self(u32::MAX);
    /// Set in the word of a set; the 10 bits below are how many ports it has.
    const SET: u32 = 1 << 31;
    const COUNT_SHIFT: u32 = 21;
    /// The most ports that a set may have; packets use no more than the first of them.
    const MOST: usize = 1022;

    fn new(first: usize, ports: &[PortId]) -> Self {
        match ports {
            [] => Self::NONE,
            [port] => Self(port.0),
            _ => Self(Self::SET | (ports.len() as u32) << Self::COUNT_SHIFT | first as u32),
        }
    }
}

impl Routes {
    /// Builds the tables for `switches` switches. For each leaf, `hops(leaf)` gives every switch's distance to it
    /// (`u32::MAX` where there is no way); `neighbours` has the ports of each switch that lead to others, and where.
    pub(crate) fn build(
        leaves: usize,
        down: Vec<PortId>,
        neighbours: &[Vec<(PortId, usize)>],
        mut hops: impl FnMut(usize) -> Vec<u32>,
    ) -> Self {
        let mut routes = Self { leaves, down, ..Self::default() };
        routes.table = vec![Way::NONE; neighbours.len() * leaves];
        // The sets that each switch has, and the one that it had last: leaves beside each other are mostly reached alike.
        let mut known: Vec<BTreeMap<Vec<PortId>, Way>> = vec![BTreeMap::new(); neighbours.len()];
        let mut last: Vec<(Vec<PortId>, Way)> = vec![(Vec::new(), Way::NONE); neighbours.len()];
        let mut ports = Vec::new();
        for leaf in 0..leaves {
            let hops = hops(leaf);
            for (number, neighbours) in neighbours.iter().enumerate() {
                ports.clear();
                let nearer = neighbours.iter().filter(|&&(_, next)| hops[next] < hops[number]);
                ports.extend(nearer.map(|&(port, _)| port).take(Way::MOST));
                let last = &mut last[number];
                if last.0 != ports {
                    let way = known[number].get(&ports).copied().unwrap_or_else(|| {
                        let way = Way::new(routes.ports.len(), &ports);
                        if ports.len() > 1 {
                            routes.ports.extend_from_slice(&ports);
                        }
                        known[number].insert(ports.clone(), way);
                        way
                    });
                    last.0.clone_from(&ports);
                    last.1 = way;
                }
                routes.table[number * leaves + leaf] = last.1;
            }
        }
        assert!(routes.ports.len() < 1 << Way::COUNT_SHIFT, "too many sets of ports for the table of routes");
        routes
    }

    /// Asks for the cache line that says how `switch` reaches `leaf`.
    #[inline]
    pub(crate) fn fetch(&self, number: usize, leaf: u32) {
        crate::fetch::fetch_first(&self.table, number * self.leaves + leaf as usize);
    }

    /// The port of `switch` for a packet to `host` below `leaf`; `None` if there is no way (links are down).
    #[inline]
    pub(crate) fn route(&self, number: usize, switch: &Switch, leaf: u32, host: HostId, hash: u32) -> Option<PortId> {
        if switch.leaf == leaf {
            return Some(self.down[host.index()]);
        }
        let way = self.table[number * self.leaves + leaf as usize];
        if way.0 & Way::SET == 0 {
            return Some(PortId(way.0));
        }
        if way.0 == Way::NONE.0 {
            return None;
        }
        let (first, count) = (way.0 & ((1 << Way::COUNT_SHIFT) - 1), way.0 << 1 >> (Way::COUNT_SHIFT + 1));
        let chosen = (u64::from(mix(hash ^ switch.salt)) * u64::from(count)) >> 32;
        Some(self.ports[first as usize + chosen as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(count: u32) -> (Routes, Vec<Switch>) {
        // Switches 0 and 1 have the same ports to switch 2, the leaf.
        let switches = vec![Switch::new(0), Switch::new(1), Switch::new(2)];
        let ports: Vec<(PortId, usize)> = (0..count).map(|port| (PortId(port), 2)).collect();
        let neighbours = [ports.clone(), ports, Vec::new()];
        (Routes::build(1, vec![PortId(99)], &neighbours, |_| vec![1, 1, 0]), switches)
    }

    fn chosen(routes: &Routes, switches: &[Switch], number: usize, hash: u32) -> PortId {
        routes.route(number, &switches[number], 0, HostId(0), hash).expect("a way")
    }

    #[test]
    fn flows_spread_over_equal_ports_and_stay_on_theirs() {
        let (routes, switches) = routes(4);
        let mut counts = [0; 4];
        for hash in 0..4000 {
            let port = chosen(&routes, &switches, 0, hash);
            assert_eq!(port, chosen(&routes, &switches, 0, hash));
            counts[port.index()] += 1;
        }
        // 1000 each; four standard deviations of a binomial distribution are 110.
        assert!(counts.iter().all(|&count| (890..1110).contains(&count)), "{counts:?}");
    }

    #[test]
    fn tiers_choose_independently() {
        let (routes, switches) = routes(2);
        let same = |hash: &u32| chosen(&routes, &switches, 0, *hash) == chosen(&routes, &switches, 1, *hash);
        let same = (0..1000).filter(same).count();
        assert!((400..600).contains(&same), "{same}");
    }

    #[test]
    fn a_leaf_knows_its_own_hosts_and_no_way_is_no_port() {
        let (routes, mut switches) = routes(0);
        assert_eq!(routes.route(0, &switches[0], 0, HostId(0), 7), None);
        switches[0].leaf = 0;
        assert_eq!(routes.route(0, &switches[0], 0, HostId(0), 7), Some(PortId(99)));
    }
}
