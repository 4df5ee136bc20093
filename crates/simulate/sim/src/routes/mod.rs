//! Routes: which port of a switch leads to a host.
//!
//! A packet names its host and the host's leaf (the switch that the host is attached to). A leaf
//! sends packets for its own hosts to their ports; all other packets go by leaf: a switch has, for
//! each leaf, the ports on shortest paths to it. Of several it takes one by the packet's hash, so
//! all packets of a flow go one way and stay in order (ECMP, RFC 2992). The hash is mixed with the
//! switch's own number first: otherwise flows that one tier has sent left would all be sent left by
//! the next. With spraying each packet has a number of its own instead. With symmetric routing both
//! directions of a flow choose alike ([`symmetric`]).
//!
//! Problem: a table of hosts at every switch of a fat-tree of 10,000 hosts is 150 MB, and every hop
//! would miss the cache. Approach: leaves instead of hosts; ports numbered within their switch, so
//! that switches of a kind have the same tables; and each table once, for any number of switches. A
//! table has a word for each leaf: the port, or the index of a set of ports. That is 100 kB for the
//! same network.
//!
//! [`build`] makes the tables.
//!
//! Example: in a fat-tree with k = 4 an edge switch has one set for the other 7 edge switches: its
//! 2 ports up. All edge switches have the same table (its row for the switch itself is never used).

mod build;
mod symmetric;

pub(crate) use symmetric::Layers;

use crate::ids::{HostId, PortId, SwitchId};

/// The leaf number of a switch without hosts.
pub(crate) const NOT_A_LEAF: u32 = u32::MAX;

/// A multiplier that spreads low bits over high ones: 2^32 divided by the golden ratio, odd (Knuth,
/// TAOCP 3, §6.4).
const SPREAD: u32 = 0x9E37_79B1;

/// Mixes all bits of a number into all bits.
#[inline]
pub(crate) fn mix(number: u32) -> u32 {
    let number = (number ^ (number >> 16)).wrapping_mul(SPREAD);
    let number = (number ^ (number >> 15)).wrapping_mul(SPREAD);
    number ^ (number >> 16)
}

/// The route from a switch to a leaf, in one word: the number of a port, the index of a [`Set`], or
/// that of a symmetric choice. Ports are numbered within their switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Way(u32);

impl Way {
    const NONE: Self = Self(u32::MAX);
    /// Marks the word as a set, unless it has the other bit of [`Self::SYMMETRIC`] too.
    const SET: u32 = 1 << 31;
    /// Marks the word as a symmetric choice, or as no route ([`Self::NONE`]).
    const SYMMETRIC: u32 = 0b11 << 30;
}

/// Ports of which a packet takes one: their first index in the table of all sets' ports, and their
/// number.
#[derive(Debug, Clone, Copy)]
struct Set {
    first: u32,
    count: u32,
}

/// The forwarding state of a switch.
#[derive(Debug, Clone, Copy)]
struct Forwarding {
    /// Distinguishes it from other switches.
    salt: u32,
    /// Its number among the leaves, or [`NOT_A_LEAF`].
    leaf: u32,
    /// The first index of its table, and of its ports.
    table: u32,
    ports: u32,
}

/// The ports of a switch that lead to others, and those others.
pub(crate) type Neighbours = Vec<(PortId, SwitchId)>;

/// The routes of all switches.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    switches: Vec<Forwarding>,
    /// All tables, one after the other, each with a route for each leaf.
    tables: Vec<Way>,
    sets: Vec<Set>,
    /// Choices among `bundles`, which are choices among the ports to one switch.
    symmetric: Vec<symmetric::Choice>,
    bundles: Vec<symmetric::Choice>,
    /// The ports of all sets and bundles, by their numbers within their switch.
    choices: Vec<u32>,
    /// The ports of all switches, by switch and by their number in it.
    ports: Vec<PortId>,
    /// For each host, the port that leads down to it.
    pub(crate) down: Vec<PortId>,
}

impl Routes {
    /// The port of `switch` for a packet to `host` below `leaf`; `None` without a route (links are
    /// down).
    #[inline]
    pub(crate) fn route(&self, switch: SwitchId, leaf: u32, host: HostId, hash: u32) -> Option<PortId> {
        let forwarding = &self.switches[switch.index()];
        if forwarding.leaf == leaf {
            return Some(self.down[host.index()]);
        }
        let way = self.tables[forwarding.table as usize + leaf as usize];
        let number = if way.0 & Way::SET == 0 {
            way.0
        } else if way.0 >= Way::SYMMETRIC {
            return self.symmetric_port(forwarding.ports, way, hash);
        } else {
            let set = self.sets[(way.0 & !Way::SET) as usize];
            let chosen = (u64::from(mix(hash ^ forwarding.salt)) * u64::from(set.count)) >> 32;
            self.choices[set.first as usize + chosen as usize]
        };
        Some(self.ports[forwarding.ports as usize + number as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Switches 0 and 1 have ports to switch 2, the leaf.
    fn routes(count: u32) -> Routes {
        let ports = |first: u32| (first..first + count).map(|port| (PortId(port), SwitchId(2))).collect();
        Routes::build(&[SwitchId(2)], vec![PortId(99)], &[ports(0), ports(count), Vec::new()], None)
    }

    fn chosen(routes: &Routes, switch: u32, hash: u32) -> PortId {
        routes.route(SwitchId(switch), 0, HostId(0), hash).expect("a way")
    }

    #[test]
    fn flows_spread_over_equal_ports_and_stay_on_theirs() {
        let routes = routes(4);
        let mut counts = [0; 4];
        for hash in 0..4000 {
            let port = chosen(&routes, 0, hash);
            assert_eq!(port, chosen(&routes, 0, hash));
            counts[port.index()] += 1;
        }
        // 1000 each; four standard deviations of a binomial distribution are 110.
        assert!(counts.iter().all(|&count| (890..1110).contains(&count)), "{counts:?}");
    }

    #[test]
    fn tiers_choose_independently() {
        let routes = routes(2);
        // The ports of switch 1 come after the two of switch 0.
        let same = |hash: &u32| chosen(&routes, 0, *hash).0 + 2 == chosen(&routes, 1, *hash).0;
        let same = (0..1000).filter(same).count();
        assert!((400..600).contains(&same), "{same}");
    }

    #[test]
    fn a_leaf_reaches_its_own_hosts_and_a_missing_route_is_no_port() {
        let routes = routes(0);
        assert_eq!(routes.route(SwitchId(0), 0, HostId(0), 7), None);
        assert_eq!(routes.route(SwitchId(2), 0, HostId(0), 7), Some(PortId(99)));
    }
}
