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
//! The limits are the shares of the split tree, bit for bit (a property test compares them). With
//! [`FabricAllocator::ceilings`], racks whose demand is met have a limit as well where a maximum of
//! the fabric applies, or where its capacity is contended; reasons as in a rack ([`crate::rack`]). A
//! rack's share if it alone demanded everything, x, is approached from below: with one more rack
//! that demands everything, the level is y; without the rack's own demand d, the amount min(d, y) is
//! free, which raises the level by at least its part among the racks above y and this one.
//!
//! Worked example: `a` at most 10 over three racks that could send 8, 8 and 1: the sum 17 is above
//! 10, so the racks are filled: 4.5, 4.5 and 1; the third is not limited. `b` without a maximum
//! demands less than the fabric has: its racks are not read.

use crate::fill::{Child, Decision, Filling};
use crate::rack::ceilings::{Extremes, is_contended};
use crate::tree::{Ceilings, IDLE_PART, Scratch, ShareTree, TreeShares, VARIATION_PART};
use std::sync::Arc;
use weir_policy::{Place, Policy, Share, Sharing};
use weir_units::{Bandwidth, ContentionPoint, Direction, PerDirection, ServiceId};

/// Shares the fabric among (rack, service). Make one per policy and keep it.
#[derive(Debug)]
pub struct FabricAllocator {
    policy: Arc<Policy>,
    racks: usize,
    leaves: Vec<ServiceId>,
    trees: PerDirection<ShareTree>,
    extremes: PerDirection<Extremes>,
    /// By rack: its part of all machines, in 2^32nds.
    parts: Vec<u64>,
    /// Whether the capacity of the fabric is contended.
    contended: PerDirection<bool>,
    ceilings: Ceilings,
    sums: Vec<Bandwidth>,
    shares: TreeShares,
    scratch: Scratch,
    /// One service's demands in bit/s, and limits, by rack.
    demands: Vec<u64>,
    limits: Vec<Bandwidth>,
    bounds: Vec<Bandwidth>,
}

/// Scans after which [`Filling`] computes the level; random demands need fewer than 10.
const SCANS: u32 = 64;

/// The limits of one service's racks.
#[derive(Debug, Clone, Copy)]
pub enum RackRows<'a> {
    /// All demands are met and no maximum of the fabric applies: no rack is limited.
    Demands,
    /// By rack; above the demand where that is below the share.
    Limits(&'a [Bandwidth]),
}

impl FabricAllocator {
    /// An allocator for a policy's racks and leaf services.
    pub fn new(policy: &Arc<Policy>) -> Self {
        let tree = |direction| ShareTree::of_services(policy, Place::Fabric, direction);
        let trees = PerDirection { tx: tree(Direction::Tx), rx: tree(Direction::Rx) };
        let extremes = |direction| Extremes::new(&trees[direction], policy.fabric_capacity(direction), &|_| true);
        let network = policy.network();
        let machines = network.machines().len().max(1) as u64;
        Self {
            policy: Arc::clone(policy),
            extremes: PerDirection { tx: extremes(Direction::Tx), rx: extremes(Direction::Rx) },
            parts: network.racks().iter().map(|rack| ((rack.machines().len() as u64) << 32) / machines).collect(),
            contended: PerDirection::default(),
            ceilings: Ceilings::default(),
            racks: policy.network().racks().len(),
            leaves: policy.services().leaves().map(|(id, _)| id).collect(),
            trees,
            sums: Vec::new(),
            shares: TreeShares::default(),
            scratch: Scratch::default(),
            demands: Vec::new(),
            limits: Vec::new(),
            bounds: Vec::new(),
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
    /// leaf's limits by rack, in order: those of racks that have less than their demand.
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
        self.share_services(direction, demands, &demand);
        for (leaf, racks) in demands.chunks_exact(self.racks).enumerate() {
            let has = self.shares.leaf(&self.trees[direction], leaf);
            if has >= self.sums[leaf] {
                take(leaf, RackRows::Demands);
                continue;
            }
            self.limit_racks(direction, leaf, racks, &demand);
            take(leaf, RackRows::Limits(&self.limits));
        }
    }

    /// The same with ceilings for the racks whose demand is met.
    ///
    /// # Panics
    /// If there is not one demand for each leaf service and rack.
    pub fn ceilings<D>(
        &mut self,
        direction: Direction,
        demands: &[D],
        demand: impl Fn(&D) -> Bandwidth,
        mut take: impl FnMut(usize, RackRows<'_>),
    ) {
        self.share_services(direction, demands, &demand);
        let (tree, capacity) = (&self.trees[direction], self.policy.fabric_capacity(direction));
        let contended = is_contended(self.shares.used(), capacity, self.contended[direction]);
        self.contended[direction] = contended;
        if contended {
            tree.ceilings(capacity, &self.shares, &mut self.scratch, &mut self.ceilings);
        }
        for (leaf, racks) in demands.chunks_exact(self.racks).enumerate() {
            let tree = &self.trees[direction];
            let has = self.shares.leaf(tree, leaf);
            let of_maxima = self.shares.bound(tree, leaf, &self.extremes[direction].if_all, false);
            let of_capacity = if contended { self.ceilings.leaf(tree, leaf) } else { Bandwidth::UNLIMITED };
            if has >= self.sums[leaf] && of_maxima.is_unlimited() && !contended {
                take(leaf, RackRows::Demands);
                continue;
            }
            self.limit_racks(direction, leaf, racks, &demand);
            self.bounds.clear();
            self.bounds.resize(self.racks, Bandwidth::UNLIMITED);
            if !of_maxima.is_unlimited() {
                let idle = Bandwidth::from_bps(has.bps() / IDLE_PART);
                let rest = of_maxima.saturating_sub(has).max(idle);
                bound_others(rest, has, &self.demands, &self.parts, &mut self.bounds);
            }
            if contended {
                bound_if_alone(of_capacity, &self.demands, &mut self.bounds);
            }
            for (limit, bound) in self.limits.iter_mut().zip(&self.bounds) {
                if limit.is_unlimited() {
                    *limit = *bound;
                }
            }
            take(leaf, RackRows::Limits(&self.limits));
        }
    }

    /// Shares the fabric among services as a whole.
    fn share_services<D>(&mut self, direction: Direction, demands: &[D], demand: impl Fn(&D) -> Bandwidth) {
        assert_eq!(demands.len(), self.leaves.len() * self.racks, "one demand for each service and rack");
        self.sums.clear();
        self.sums.extend(demands.chunks_exact(self.racks).map(|racks| racks.iter().map(&demand).sum::<Bandwidth>()));
        let (tree, capacity) = (&self.trees[direction], self.policy.fabric_capacity(direction));
        tree.share(capacity, &self.sums, |_| Bandwidth::UNLIMITED, &mut self.shares, &mut self.scratch);
    }

    /// Puts the limits of racks that have less than their demand into `self.limits`.
    fn limit_racks<D>(&mut self, direction: Direction, leaf: usize, racks: &[D], demand: impl Fn(&D) -> Bandwidth) {
        let has = self.shares.leaf(&self.trees[direction], leaf);
        self.demands.clear();
        self.demands.extend(racks.iter().map(|rack| demand(rack).bps()));
        self.limits.clear();
        if has >= self.sums[leaf] {
            self.limits.resize(self.racks, Bandwidth::UNLIMITED);
            return;
        }
        let service = self.policy.services().get(self.leaves[leaf]);
        // The rack's maximum already holds in the rack.
        let share = Share { max: Bandwidth::UNLIMITED, ..service.share(ContentionPoint::Rack, direction) };
        match level(has.bps(), &self.demands, 0) {
            Some(level) => level.limit(&self.demands, &mut self.limits),
            None => fill(service.sharing(), share, has, &self.demands, &mut self.limits),
        }
    }
}

/// Lowers the bounds of racks under a maximum: together they may take `rest` more than their demands.
/// One half is theirs in proportion to the demands, so that they can grow, the other by their
/// machines, so that an idle rack can begin.
fn bound_others(rest: Bandwidth, has: Bandwidth, demands: &[u64], parts: &[u64], bounds: &mut [Bandwidth]) {
    let to_grow = if has == Bandwidth::ZERO { 0 } else { rest.bps() / 2 };
    let to_begin = rest.bps() - to_grow;
    for ((bound, demand), part) in bounds.iter_mut().zip(demands).zip(parts) {
        let grow = (u128::from(to_grow) * u128::from(*demand)).checked_div(has.bps().into()).unwrap_or(0);
        let grow = grow.max(u128::from(demand / VARIATION_PART));
        let begin = (u128::from(to_begin) * u128::from(*part)) >> 32;
        *bound = (*bound).min(Bandwidth::from_bps(demand + (grow + begin) as u64));
    }
}

/// Lowers the bounds of racks to their shares if each alone demanded everything, while the service
/// then has `all`; see the module's documentation.
fn bound_if_alone(all: Bandwidth, demands: &[u64], bounds: &mut [Bandwidth]) {
    // Equal parts are below the level.
    let equal = all.bps() / (demands.len() as u64 + 1);
    let whole = level(all.bps(), demands, 1).map_or(equal, |level| level.whole);
    let above = demands.iter().filter(|demand| **demand > whole).count() as u64;
    for (bound, demand) in bounds.iter_mut().zip(demands) {
        let others = above - u64::from(*demand > whole);
        let alone = whole + (*demand).min(whole) / (others + 1);
        *bound = (*bound).min(Bandwidth::from_bps(alone.max(*demand)));
    }
}

/// Each rack's limit: `whole` bit/s, and one more each for the first `left` racks that demand it.
struct Level {
    whole: u64,
    left: u64,
}

/// The level at which equal racks with these demands, and `unlimited` more that demand everything,
/// take `has`, which is less than their demands.
/// Racks of equal guarantees and weights have one level, whether their guarantees leave anything to
/// share or not. `None` if `has` is zero, or after too many scans.
fn level(has: u64, demands: &[u64], unlimited: u64) -> Option<Level> {
    if has == 0 {
        return None;
    }
    let (mut below, mut below_count) = (0u64, 0u64);
    for _ in 0..SCANS {
        let (rest, above) = (has - below, demands.len() as u64 + unlimited - below_count);
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
        level(has, demands, 0).expect("there is something to share").limit(demands, &mut limits);
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
            let Some(level) = level(has, &demands, 0) else { return Ok(()) };
            level.limit(&demands, &mut found);
            fill(sharing, share, Bandwidth::from_bps(has), &demands, &mut expected);
            prop_assert_eq!(found, expected);
        }
    }
}
