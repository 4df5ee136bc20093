//! The fabric's tree over very many racks.
//!
//! Problem: the fabric broker shares each service among 10,000 racks, for 1,000 services and both
//! directions: 20 million demands in less than a second. A node for each of them
//! ([`ShareTree::of_services_split`]) would take gigabytes. Approach: all racks have the same share
//! of a service (its guarantee and weight at the rack), so only the services are nodes; demands
//! stay in the caller's memory and are read once, service by service. A service whose whole demand
//! is met, the usual case, is settled by its sum alone; only the racks of a service that the fabric
//! limits are filled.
//!
//! Since its racks differ only in their demands, both rules come to one level: a rack gets its
//! demand, at most the level. Guess the level as if all racks stood at it; those with smaller
//! demands keep their demand, the others share the rest, which raises the level; a few scans settle
//! it. Demands that would take too many scans are a case for [`Filling`].
//!
//! The result is the one of the split tree, bit for bit (a property test compares them).
//!
//! Worked example: `a` at most 10 over three racks that could send 8, 8 and 1: the sum 17 is above
//! 10, so the racks are filled: 4.5, 4.5 and 1; the third is not limited. `b` without a maximum
//! demands less than the fabric has: its racks are not read.

use crate::fill::{Child, Decision, Filling};
use crate::tree::{Scratch, ShareTree, TreeShares};
use std::sync::Arc;
use weir_policy::{Policy, Share, Sharing};
use weir_units::{Bandwidth, ContentionPoint, Direction, PerDirection, ServiceId};

/// Shares the fabric among (rack, service). Make one per policy and keep it.
#[derive(Debug)]
pub struct FabricAllocator {
    policy: Arc<Policy>,
    racks: usize,
    leaves: Vec<ServiceId>,
    trees: PerDirection<ShareTree>,
    sums: Vec<Bandwidth>,
    shares: TreeShares,
    scratch: Scratch,
    /// One service's demands in bit/s, and limits, by rack.
    demands: Vec<u64>,
    limits: Vec<Bandwidth>,
}

/// Scans after which [`Filling`] computes the level; random demands need fewer than 10.
const SCANS: u32 = 64;

/// The limits of one service's racks.
#[derive(Debug, Clone, Copy)]
pub enum RackRows<'a> {
    /// All demands are met: no rack is limited.
    Demands,
    /// By rack; [`Bandwidth::UNLIMITED`] where the demand is below the share.
    Limits(&'a [Bandwidth]),
}

impl FabricAllocator {
    /// An allocator for a policy's racks and leaf services.
    pub fn new(policy: &Arc<Policy>) -> Self {
        let tree = |direction| ShareTree::of_services(policy, ContentionPoint::Fabric, direction);
        Self {
            policy: Arc::clone(policy),
            racks: policy.network().racks().len(),
            leaves: policy.services().leaves().map(|(id, _)| id).collect(),
            trees: PerDirection { tx: tree(Direction::Tx), rx: tree(Direction::Rx) },
            sums: Vec::new(),
            shares: TreeShares::default(),
            scratch: Scratch::default(),
            demands: Vec::new(),
            limits: Vec::new(),
        }
    }

    /// The policy of the allocator.
    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }
    /// The number of racks.
    pub fn racks(&self) -> usize {
        self.racks
    }
    /// The leaf services, ascending.
    pub fn leaves(&self) -> &[ServiceId] {
        &self.leaves
    }

    /// Shares the fabric in one direction. `demands` holds the racks' demands of the first leaf
    /// service, then of the second and so on, in any form that `demand` reads. `take` receives each
    /// leaf's shares by rack, in order.
    ///
    /// # Panics
    /// If there is not one demand for each leaf service and rack.
    pub fn allocate<D>(
        &mut self,
        direction: Direction,
        demands: &[D],
        demand: impl Fn(&D) -> Bandwidth,
        mut take: impl FnMut(usize, RackRows<'_>),
    ) {
        assert_eq!(demands.len(), self.leaves.len() * self.racks, "one demand for each service and rack");
        self.sums.clear();
        self.sums.extend(demands.chunks_exact(self.racks).map(|racks| racks.iter().map(&demand).sum::<Bandwidth>()));
        let (tree, capacity) = (&self.trees[direction], self.policy.fabric_capacity(direction));
        tree.share(capacity, &self.sums, |_| Bandwidth::UNLIMITED, &mut self.shares, &mut self.scratch);
        for (leaf, racks) in demands.chunks_exact(self.racks).enumerate() {
            let has = self.shares.leaf(tree, leaf);
            if has >= self.sums[leaf] {
                take(leaf, RackRows::Demands);
                continue;
            }
            let service = self.policy.services().get(self.leaves[leaf]);
            // The rack's maximum already holds in the rack.
            let share = Share { max: Bandwidth::UNLIMITED, ..service.share(ContentionPoint::Rack, direction) };
            self.demands.clear();
            self.demands.extend(racks.iter().map(|rack| demand(rack).bps()));
            self.limits.clear();
            match level(has.bps(), &self.demands) {
                Some(level) => level.limit(&self.demands, &mut self.limits),
                None => fill(service.sharing(), share, has, &self.demands, &mut self.limits),
            }
            take(leaf, RackRows::Limits(&self.limits));
        }
    }
}

/// Each rack's limit: `whole` bit/s, and one more each for the first `left` racks that demand it.
struct Level {
    whole: u64,
    left: u64,
}

/// The level at which equal racks with these demands take `has`, which is less than their demands.
/// Racks of equal guarantees and weights have one level, whether their guarantees leave anything to
/// share or not. `None` if `has` is zero, or after too many scans.
fn level(has: u64, demands: &[u64]) -> Option<Level> {
    if has == 0 {
        return None;
    }
    let (mut below, mut below_count) = (0u64, 0u64);
    for _ in 0..SCANS {
        let (rest, above) = (has - below, demands.len() as u64 - below_count);
        let whole = rest / above;
        // A rack at or below the guess stays there: the level only rises. Their sum is at most
        // `has`.
        let (mut sum, mut count) = (0, 0);
        for demand in demands {
            let full = u64::from(*demand <= whole);
            // Without a branch: small demands occur at random.
            sum += demand & full.wrapping_neg();
            count += full;
        }
        if count == below_count {
            return Some(Level { whole, left: rest - whole * above });
        }
        (below, below_count) = (sum, count);
    }
    None
}

impl Level {
    /// A rack whose demand is the level, or more, is limited to it.
    fn limit(&self, demands: &[u64], limits: &mut Vec<Bandwidth>) {
        let mut left = self.left;
        let whole = Bandwidth::from_bps(self.whole);
        // A demand that the level just reaches is limited as well, but not one below a fraction
        // above it.
        let least = if self.left == 0 { self.whole } else { self.whole + 1 };
        limits.extend(demands.iter().map(|demand| if *demand >= least { whole } else { Bandwidth::UNLIMITED }));
        for limit in limits.iter_mut().filter(|limit| !limit.is_unlimited()) {
            if left == 0 {
                break;
            }
            *limit += Bandwidth::from_bps(1);
            left -= 1;
        }
    }
}

/// The general rule, for the cases that a level cannot express.
fn fill(sharing: Sharing, share: Share, has: Bandwidth, demands: &[u64], limits: &mut Vec<Bandwidth>) {
    let children: Vec<Child> = demands.iter().map(|demand| Child::new(share, Bandwidth::from_bps(*demand))).collect();
    let mut filling = Filling::default();
    filling.fill(sharing, has, &children);
    let limited = |(share, decision): (&Bandwidth, &Decision)| match decision {
        Decision::Demand => Bandwidth::UNLIMITED,
        _ => *share,
    };
    limits.extend(filling.shares.iter().zip(&filling.decisions).map(limited));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_units::Weight;

    fn limits(has: u64, demands: &[u64]) -> Vec<u64> {
        let mut limits = Vec::new();
        level(has, demands).expect("there is something to share").limit(demands, &mut limits);
        limits.iter().map(|limit| limit.bps()).collect()
    }

    #[test]
    fn worked_example() {
        let free = u64::MAX;
        assert_eq!(limits(100, &[80, 80, 10]), [45, 45, free]);
        // One bit remains: it goes to the first rack that demands it.
        assert_eq!(limits(101, &[10, 80, 80]), [free, 46, 45]);
        // A demand that the level just reaches is limited too, one below a fraction is not.
        assert_eq!(limits(135, &[45, 80, 80]), [45, 45, 45]);
        assert_eq!(limits(136, &[45, 80, 80]), [free, 46, 45]);
    }

    proptest! {
        #[test]
        fn a_level_equals_the_result_of_filling(
            demands in proptest::collection::vec(prop_oneof![0u64..50, 0u64..1_000, 0u64..10_000_000_000], 1..200),
            part in 0u64..1_000,
            min in prop_oneof![2 => Just(0u64), 1 => 1u64..800],
            clip: bool,
        ) {
            let has = (demands.iter().sum::<u64>() * part / 1_000).max(1);
            prop_assume!(has < demands.iter().sum());
            let sharing = if clip { Sharing::Fill } else { Sharing::Add };
            let min_rate = Bandwidth::from_bps(min);
            let weight = Weight::from_thousandths(1_500).expect("in range");
            let share = Share { min: min_rate, weight, ..Share::default() };
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            let Some(level) = level(has, &demands) else { return Ok(()) };
            level.limit(&demands, &mut found);
            fill(sharing, share, Bandwidth::from_bps(has), &demands, &mut expected);
            prop_assert_eq!(found, expected);
        }
    }
}
