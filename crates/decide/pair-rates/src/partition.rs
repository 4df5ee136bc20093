//! [`Partition`]: the guarantee of one end divided among its active peers.
//!
//! Problem: a hose guarantees what a machine sends or receives in all, and limits are of pairs; the demands of pairs
//! are not known. Approach: each end measures its pairs for an interval. A pair that used nine tenths of its part, or
//! began in the interval, has an unlimited demand; another one has its usage and a tenth. Parts are max-min fair by
//! demand; what all demands leave is divided evenly, so that a pair can grow. A pair that used nothing is removed. The
//! guarantee of a pair is the smaller of the parts at both ends; the part that the other end reported bounds the
//! demand here, so others get what this pair cannot use.
//!
//! Weights are divided evenly among active peers ([`Division::Equal`]).
//!
//! Worked example: 100 Mb/s for three peers of which one uses 10 Mb/s and two are backlogged: the parts are 11, 44.5
//! and 44.5 Mb/s.
//!
//! Source: ElasticSwitch (SIGCOMM 2013) §3.1, guarantee partitioning: by demand, max-min, the smaller of both ends. The
//! estimate of demands is ours: the text of that section was not at hand.

use crate::law::{Division, scaled};
use std::collections::BTreeMap;
use weir_units::{Bandwidth, Bytes, Duration, MachineId};

/// A pair that uses this percentage of its part is backlogged, as a service that uses so much of its limit
/// (`crates/decide/control/src/demand.rs`).
pub const BACKLOGGED_PERCENT: u64 = 90;
/// The demand of another pair, in percent of its usage: room to grow until the next interval.
pub const SLACK_PERCENT: u64 = 110;

/// A peer of an end.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Peer {
    used: Bytes,
    part: Bandwidth,
    /// The part at the other end; unlimited until reported.
    bound: Bandwidth,
    /// It began in this interval: its usage is no measure of its demand.
    fresh: bool,
    demand: Bandwidth,
}

/// One direction of a tenant at a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    hose: Bandwidth,
    division: Division,
    peers: BTreeMap<MachineId, Peer>,
}

impl Partition {
    /// An end with this guarantee, or weight in bit/s, and no peers.
    pub fn new(hose: Bandwidth, division: Division) -> Self {
        Self { hose, division, peers: BTreeMap::new() }
    }

    /// The guarantee of the end.
    pub fn hose(&self) -> Bandwidth {
        self.hose
    }

    /// Adds a peer with an unlimited demand, and divides anew. Returns whether it was not there.
    pub fn add(&mut self, peer: MachineId) -> bool {
        if self.peers.contains_key(&peer) {
            return false;
        }
        let demand = Bandwidth::UNLIMITED;
        let new = Peer { used: Bytes::ZERO, part: Bandwidth::ZERO, bound: demand, fresh: true, demand };
        self.peers.insert(peer, new);
        self.divide();
        true
    }

    /// Counts bytes of a peer, which must have been added.
    #[inline]
    pub fn count(&mut self, peer: MachineId, bytes: Bytes) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.used += bytes;
        }
    }

    /// Sets the part of a pair at its other end.
    pub fn set_bound(&mut self, peer: MachineId, bound: Bandwidth) {
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.bound = bound;
        }
    }

    /// The guarantee of a pair: the smaller of both parts; zero for an unknown peer.
    pub fn guarantee(&self, peer: MachineId) -> Bandwidth {
        let bound = match self.division {
            Division::Demand => |peer: &Peer| peer.bound,
            Division::Equal => |_: &Peer| Bandwidth::UNLIMITED,
        };
        self.peers.get(&peer).map_or(Bandwidth::ZERO, |peer| peer.part.min(bound(peer)))
    }

    /// The part of a pair at this end; zero for an unknown peer.
    pub fn part(&self, peer: MachineId) -> Bandwidth {
        self.peers.get(&peer).map_or(Bandwidth::ZERO, |peer| peer.part)
    }

    /// The active peers, ascending.
    pub fn peers(&self) -> impl Iterator<Item = MachineId> + '_ {
        self.peers.keys().copied()
    }

    /// Removes all peers, and returns them, ascending.
    pub fn clear(&mut self) -> Vec<MachineId> {
        std::mem::take(&mut self.peers).into_keys().collect()
    }

    /// Ends an interval of this length: takes demands from usage, removes the peers that used nothing, and divides
    /// anew. Returns the removed peers, ascending.
    pub fn close(&mut self, elapsed: Duration) -> Vec<MachineId> {
        let mut removed = Vec::new();
        self.peers.retain(|id, peer| {
            let used = Bandwidth::from_transfer(std::mem::take(&mut peer.used), elapsed);
            let fresh = std::mem::take(&mut peer.fresh);
            if used == Bandwidth::ZERO && !fresh {
                removed.push(*id);
                return false;
            }
            let backlogged = fresh || used >= scaled(peer.part.min(peer.bound), BACKLOGGED_PERCENT, 100);
            peer.demand = if backlogged { Bandwidth::UNLIMITED } else { scaled(used, SLACK_PERCENT, 100) };
            true
        });
        self.divide();
        removed
    }

    fn divide(&mut self) {
        let count = self.peers.len() as u64;
        if count == 0 {
            return;
        }
        if self.division == Division::Equal {
            let part = Bandwidth::from_bps(self.hose.bps() / count);
            return self.peers.values_mut().for_each(|peer| peer.part = part);
        }
        let mut by_demand: Vec<&mut Peer> = self.peers.values_mut().collect();
        by_demand.sort_by_key(|peer| peer.demand.min(peer.bound));
        let (mut left, mut open) = (self.hose.bps(), count);
        for peer in &mut by_demand {
            let part = peer.demand.min(peer.bound).bps().min(left / open);
            peer.part = Bandwidth::from_bps(part);
            left -= part;
            open -= 1;
        }
        // Only where all demands fit more than the rest of a division is left.
        by_demand.iter_mut().for_each(|peer| peer.part += Bandwidth::from_bps(left / count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = Duration::from_secs(1);
    const A: MachineId = MachineId(1);
    const B: MachineId = MachineId(2);
    const C: MachineId = MachineId(3);

    fn mbps(rate: u64) -> Bandwidth {
        Bandwidth::from_mbps(rate)
    }

    /// The bytes of a second at this many kb/s.
    fn bytes(kbps: u64) -> Bytes {
        Bytes::new(kbps * 125)
    }

    fn settled(peers: &[(MachineId, u64)]) -> Partition {
        let mut end = Partition::new(mbps(100), Division::Demand);
        peers.iter().for_each(|(peer, _)| assert!(end.add(*peer)));
        end.close(SECOND);
        peers.iter().for_each(|(peer, kbps)| end.count(*peer, bytes(*kbps)));
        end.close(SECOND);
        end
    }

    #[test]
    fn backlogged_pairs_share_the_rest() {
        let end = settled(&[(A, 10_000), (B, 33_000), (C, 31_000)]);
        assert_eq!([A, B, C].map(|peer| end.part(peer).bps() / 1000), [11_000, 44_500, 44_500]);
    }

    #[test]
    fn new_pair_takes_an_equal_part_at_once() {
        let mut end = settled(&[(A, 100_000)]);
        assert_eq!(end.part(A), mbps(100));
        assert!(end.add(B) && !end.add(B));
        assert_eq!([A, B].map(|peer| end.part(peer)), [mbps(50); 2]);
    }

    #[test]
    fn bound_of_the_other_end_frees_bandwidth() {
        let mut end = settled(&[(A, 50_000), (B, 50_000)]);
        end.set_bound(A, mbps(20));
        [A, B].into_iter().for_each(|peer| end.count(peer, bytes(50_000)));
        end.close(SECOND);
        assert_eq!([A, B].map(|peer| end.guarantee(peer)), [mbps(20), mbps(80)]);
        end.set_bound(A, mbps(5));
        assert_eq!(end.guarantee(A), mbps(5));
    }

    #[test]
    fn silent_pair_is_removed_after_a_whole_interval() {
        let mut end = Partition::new(mbps(100), Division::Demand);
        end.add(A);
        end.add(B);
        assert_eq!(end.close(SECOND), []);
        end.count(B, bytes(1));
        assert_eq!(end.close(SECOND), [A]);
        assert_eq!(end.part(A), Bandwidth::ZERO);
        // What its small demand leaves is its as well.
        assert_eq!(end.part(B), mbps(100));
    }

    #[test]
    fn weights_are_divided_evenly_whatever_the_usage() {
        let mut end = Partition::new(mbps(90), Division::Equal);
        [A, B, C].into_iter().for_each(|peer| assert!(end.add(peer)));
        end.set_bound(A, mbps(1));
        [(A, 1), (B, 80_000), (C, 5)].into_iter().for_each(|(peer, kbps)| end.count(peer, bytes(kbps)));
        end.close(SECOND);
        assert_eq!([A, B, C].map(|peer| end.guarantee(peer)), [mbps(30); 3]);
    }

    proptest! {
        /// Parts sum to the hose but for rests of divisions, and are max-min fair: a pair with less than its demand has
        /// no less than any other, but for what all demands leave.
        #[test]
        fn parts_are_max_min_and_conserve(usage in prop::collection::vec((0u64..200_000, 1u64..200), 1..20)) {
            let mut end = Partition::new(mbps(100), Division::Demand);
            let peers = || (0..).map(MachineId).zip(&usage);
            peers().for_each(|(peer, (_, bound))| { end.add(peer); end.set_bound(peer, mbps(*bound)); });
            end.close(SECOND);
            peers().for_each(|(peer, (kbps, _))| end.count(peer, bytes(*kbps)));
            end.close(SECOND);
            if end.peers.is_empty() {
                return Ok(());
            }
            let sum: u64 = end.peers.values().map(|peer| peer.part.bps()).sum();
            prop_assert!(sum <= 100_000_000 && sum + end.peers.len() as u64 >= 100_000_000, "{sum}");
            let most = end.peers.values().map(|peer| peer.part.bps()).max().unwrap_or(0);
            for peer in end.peers.values().filter(|peer| peer.part < peer.demand.min(peer.bound)) {
                prop_assert!(peer.part.bps() + 20 >= most, "{:?} beside {most}", peer);
            }
        }
    }
}
