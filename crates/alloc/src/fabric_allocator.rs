//! The fabric's tree over very many racks.
//!
//! Problem: the fabric broker shares each service among 10,000 racks, for 1,000 services and both directions: 20
//! million demands in less than a second. A node for each of them ([`ShareTree::of_services_split`]) would take
//! gigabytes. Approach: all racks have the same share of a service (its guarantee and weight at the rack), so only
//! the services are nodes; demands stay where the caller keeps them and are read once, service by service. A
//! service that has all it asks for, which most have, is settled by its sum alone; only the racks of one that the
//! fabric holds back are filled.
//!
//! The result is the one of the split tree, bit for bit (a property test compares them).
//!
//! Worked example: `a` at most 10 over three racks that could send 8, 8 and 1: the sum 17 is above 10, so the racks
//! are filled: 4.5, 4.5 and 1; the third is not limited. `b` without a maximum asks for less than the fabric has:
//! no rack is looked at.

use crate::fill::{Child, Decision, Filling};
use crate::tree::{Scratch, ShareTree, TreeShares};
use std::sync::Arc;
use weir_policy::{Policy, Share};
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
    children: Vec<Child>,
    filling: Filling,
}

/// What the racks of one service got.
#[derive(Debug, Clone, Copy)]
pub enum RackRows<'a> {
    /// All that they asked for: no rack is limited.
    Demands,
    /// By rack: what it got and what decided it.
    Shares(&'a [Bandwidth], &'a [Decision]),
}

impl RackRows<'_> {
    /// The limit of a rack; [`Bandwidth::UNLIMITED`] where its demand is below its share.
    pub fn limit(&self, rack: usize) -> Bandwidth {
        match self {
            Self::Shares(shares, decisions) if decisions[rack] != Decision::Demand => shares[rack],
            _ => Bandwidth::UNLIMITED,
        }
    }
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
            children: Vec::new(),
            filling: Filling::default(),
        }
    }

    /// The policy that it works for.
    pub fn policy(&self) -> &Arc<Policy> {
        &self.policy
    }
    /// How many racks there are.
    pub fn racks(&self) -> usize {
        self.racks
    }
    /// The leaf services, ascending.
    pub fn leaves(&self) -> &[ServiceId] {
        &self.leaves
    }

    /// Shares the fabric in one direction. `demands` holds the racks' demands of the first leaf service, then of
    /// the second and so on, in whatever form `demand` reads. `take` is told what each leaf's racks got, in order.
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
            self.children.clear();
            self.children.extend(racks.iter().map(|rack| Child::new(share, demand(rack))));
            self.filling.fill(service.sharing(), has, &self.children);
            take(leaf, RackRows::Shares(&self.filling.shares, &self.filling.decisions));
        }
    }
}
