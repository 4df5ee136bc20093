//! [`MaxMinTree`]: weighted max-min shares of many flows; a change and a query take one descent of a tree each.
//!
//! Problem: n flows with demands d and weights w share a capacity C. Flows that demand less than their share get their
//! demand, and what these leave is shared by weight among the others (max-min fairness). Progressive filling takes
//! O(n²) for each change, and a port has a change with each allocation.
//!
//! Approach: the flows are in the order of d/w; D_i and W_i are the sums of demands and weights of the first i of n
//! flows. The i-th flow is *satisfied*, and so are all before it, if the flows after it could have as much per weight:
//!
//! ```text
//! D_i + (d_i / w_i) · (W_n − W_i) ≤ C
//! ```
//!
//! The left side does not fall with i, so a descent of a B-tree that has (count, Σd, Σw) of each subtree finds the
//! last satisfied flow. Let it be i. If flows remain, they share what it and the flows before it leave: a_w = (C −
//! D_i) / (W_n − W_i) per weight, and r = 0. If none remain: a_w = d_n / w_n, and r = C − D_n, which any flow may
//! demand beside its share. A flow's share is min(d, w · a_w).
//!
//! Comparisons are products in 128 bits: the level is an exact fraction. Nodes are in arenas and named by index.
//!
//! Order of calls: [`MaxMinTree::set`] and [`MaxMinTree::remove`] as flows change, [`MaxMinTree::level`] at any time.
//!
//! Worked example: C = 8 and (d, w) = (1, 4), (9, 1), (9, 1), (9, 2). The first flow is satisfied: 1 + (1/4) · 4 = 2 ≤
//! 8; the second is not: 10 + 9 · 3 > 8. The level is (8 − 1) / (8 − 4) = 7/4, and the shares are 1, 1.75, 1.75, 3.5.
//!
//! Source: PACE §III.E.1 and figure 4, whose level pointers give the same shares round by round. Deviates from the
//! paper in: the condition above, which needs no rounds; a_w if all flows are satisfied (docs/design/credits.md).

mod keys;
mod node;

use keys::Keys;
use node::{Arena, Below, CHILDREN, Child, Entry, FLOWS, Sum};
use weir_units::Bytes;

/// The state of the flows of a [`MaxMinTree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// a_w, in units of the capacity for a unit of weight, is `numerator / denominator`.
    pub numerator: u64,
    /// The denominator of a_w; more than zero.
    pub denominator: u64,
    /// r: the capacity that no flow demands; 0 unless all flows are satisfied.
    pub rest: u64,
    /// Whether every flow gets its demand.
    pub satisfied: bool,
    /// The number of flows that get their demands.
    pub satisfied_flows: u32,
}

impl Level {
    /// a_w in 2⁻⁴⁸ of a capacity of [`WHOLE`](crate::WHOLE), rounded up; at most 2⁴⁸, which is all of it.
    pub fn per_weight_48(&self) -> u64 {
        let scaled = (u128::from(self.numerator) << 16).div_ceil(u128::from(self.denominator));
        u64::try_from(scaled).unwrap_or(u64::MAX).min(1 << 48)
    }
}

/// Flows with demands and weights, in the order of demand per weight. See the module's documentation.
#[derive(Debug, Clone)]
pub struct MaxMinTree {
    capacity: u64,
    leaves: Arena<(), FLOWS>,
    branches: Arena<Below, CHILDREN>,
    /// The node at the top, a leaf if the height is 0, and the sums of all flows.
    root: Child,
    height: u32,
    /// Demand and weight of each flow: its key in the tree.
    keys: Keys,
}

impl MaxMinTree {
    /// A tree without flows. `capacity` is C, in the unit of demands.
    pub fn new(capacity: u64) -> Self {
        let mut leaves = Arena::default();
        let below = Below { node: leaves.add(), ..Below::default() };
        let root = Child { below, ..Child::default() };
        Self { capacity, leaves, branches: Arena::default(), root, height: 0, keys: Keys::default() }
    }

    /// Adds a flow, or replaces its weight, at least 1, and its demand.
    ///
    /// # Panics
    /// If the weight is 0: no share belongs to it.
    pub fn set(&mut self, flow: u32, weight: u32, demand: u64) {
        assert!(weight > 0, "a weight is above zero");
        let old = self.keys.insert(flow, demand, weight);
        if old == Some((demand, weight)) {
            return;
        }
        if let Some((demand, weight)) = old {
            self.take_out(&Entry { demand, weight, flow });
        }
        let mut root = self.root;
        let new = self.insert_below(self.height, &mut root, Entry { demand, weight, flow });
        if let Some(new) = new {
            let node = self.branches.add();
            self.branches[node].insert(0, root.last, root.below);
            self.branches[node].insert(1, new.last, new.below);
            self.height += 1;
            root = self.child(self.height, node);
        }
        self.root = root;
    }

    /// Removes a flow; returns whether the tree had it.
    pub fn remove(&mut self, flow: u32) -> bool {
        let Some((demand, weight)) = self.keys.remove(flow) else { return false };
        self.take_out(&Entry { demand, weight, flow });
        true
    }

    /// The number of flows.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no flow is in it.
    pub fn is_empty(&self) -> bool {
        self.keys.len() == 0
    }

    /// W_n: the sum of weights.
    pub fn weight(&self) -> u64 {
        self.root.below.sum.weight
    }

    /// D_n: the sum of demands, in the unit of the capacity.
    pub fn demand(&self) -> u128 {
        self.root.below.sum.demand
    }

    /// The present level, by one descent. An empty tree limits nothing: all of the capacity for a unit of weight.
    pub fn level(&self) -> Level {
        let all = self.root.below.sum;
        if all.count == 0 {
            let (numerator, rest) = (self.capacity, self.capacity);
            return Level { numerator, denominator: 1, rest, satisfied: true, satisfied_flows: 0 };
        }
        let last = self.root.last;
        if self.is_satisfied(&last, &all) {
            // Demands are at most the capacity then, so the difference fits.
            let rest = u64::try_from(u128::from(self.capacity) - all.demand).unwrap_or(0);
            let (numerator, denominator) = (last.demand, last.weight.into());
            return Level { numerator, denominator, rest, satisfied: true, satisfied_flows: all.count };
        }
        let before = self.satisfied_sum();
        Level {
            numerator: u64::try_from(u128::from(self.capacity) - before.demand).unwrap_or(0),
            denominator: all.weight - before.weight,
            rest: 0,
            satisfied: false,
            satisfied_flows: before.count,
        }
    }

    /// The share of a flow, min(d, w · a_w), as numerator and denominator.
    pub fn share(&self, flow: u32) -> Option<(u128, u64)> {
        let (demand, weight) = self.keys.get(flow)?;
        let level = self.level();
        let demand = u128::from(demand).saturating_mul(level.denominator.into());
        Some((demand.min(u128::from(weight) * u128::from(level.numerator)), level.denominator))
    }

    /// The memory that the flows take, free nodes included.
    pub fn memory(&self) -> Bytes {
        Bytes::new((self.leaves.memory() + self.branches.memory() + self.keys.memory()) as u64)
    }

    /// The sum of the satisfied flows, of which the last flow is not one.
    fn satisfied_sum(&self) -> Sum {
        let (mut before, mut node) = (Sum::default(), self.root.below.node);
        for _ in 0..self.height {
            let branch = &self.branches[node];
            for (index, last) in branch.keys().iter().enumerate() {
                let below = branch.value(index);
                let through = before + below.sum;
                if !self.is_satisfied(last, &through) {
                    node = below.node;
                    break;
                }
                before = through;
            }
        }
        for entry in self.leaves[node].keys() {
            let through = before + Sum::of(entry);
            if !self.is_satisfied(entry, &through) {
                break;
            }
            before = through;
        }
        before
    }

    /// D_i + (d_i / w_i) · (W_n − W_i) ≤ C, for a flow and the sums up to it and with it.
    fn is_satisfied(&self, entry: &Entry, through: &Sum) -> bool {
        let (capacity, weight) = (u128::from(self.capacity), u128::from(entry.weight));
        if through.demand > capacity {
            return false;
        }
        let after = u128::from(self.root.below.sum.weight - through.weight);
        // No sum below 2⁹⁶ overflows 128 bits, and the capacity times a weight is one.
        (u128::from(entry.demand) * after)
            .checked_add(through.demand * weight)
            .is_some_and(|needed| needed <= capacity * weight)
    }

    fn take_out(&mut self, entry: &Entry) {
        let mut root = self.root;
        self.remove_below(self.height, &mut root, entry);
        while self.height > 0 && self.branches[root.below.node].len() == 1 {
            let branch = &self.branches[root.below.node];
            let only = Child { last: branch.keys()[0], below: branch.value(0) };
            self.branches.release(root.below.node);
            (root, self.height) = (only, self.height - 1);
        }
        self.root = root;
    }

    /// Inserts into a node; returns the node that it was split off, which follows it.
    fn insert_below(&mut self, height: u32, at: &mut Child, entry: Entry) -> Option<Child> {
        let node = at.below.node;
        let new = if height == 0 {
            let leaf = &mut self.leaves[node];
            leaf.insert(leaf.search(&entry), entry, ());
            self.leaves.split(node)
        } else {
            let branch = &self.branches[node];
            let index = branch.search(&entry).min(branch.len() - 1);
            let mut child = Child { last: branch.keys()[index], below: branch.value(index) };
            let new = self.insert_below(height - 1, &mut child, entry);
            let branch = &mut self.branches[node];
            branch.set(index, child.last, child.below);
            if let Some(new) = new {
                branch.insert(index + 1, new.last, new.below);
            }
            self.branches.split(node)
        };
        if let Some(new) = new {
            *at = self.child(height, node);
            return Some(self.child(height, new));
        }
        if at.below.sum.count == 0 || at.last.is_before(&entry) {
            at.last = entry;
        }
        at.below.sum = at.below.sum + Sum::of(&entry);
        None
    }

    /// Removes from a node, which has the entry.
    fn remove_below(&mut self, height: u32, at: &mut Child, entry: &Entry) {
        let node = at.below.node;
        if height == 0 {
            let leaf = &mut self.leaves[node];
            leaf.remove(leaf.search(entry));
        } else {
            let branch = &self.branches[node];
            let index = branch.search(entry);
            let mut child = Child { last: branch.keys()[index], below: branch.value(index) };
            self.remove_below(height - 1, &mut child, entry);
            self.branches[node].set(index, child.last, child.below);
            self.refill(height, node, index);
        }
        at.below.sum = at.below.sum - Sum::of(entry);
        if !entry.is_before(&at.last) {
            at.last = self.child(height, node).last;
        }
    }

    /// Merges the child at `index` of a branch with a neighbour, or evens them out, if it has few keys.
    fn refill(&mut self, height: u32, branch: u32, index: usize) {
        let parent = &self.branches[branch];
        let node = parent.value(index).node;
        let is_small = if height == 1 { self.leaves[node].is_small() } else { self.branches[node].is_small() };
        if !is_small || parent.len() == 1 {
            return;
        }
        let left = index.saturating_sub(1);
        let (first, second) = (parent.value(left).node, parent.value(left + 1).node);
        let merged =
            if height == 1 { self.leaves.balance(first, second) } else { self.branches.balance(first, second) };
        let child = self.child(height - 1, first);
        self.branches[branch].set(left, child.last, child.below);
        if merged {
            self.branches[branch].remove(left + 1);
        } else {
            let child = self.child(height - 1, second);
            self.branches[branch].set(left + 1, child.last, child.below);
        }
    }

    /// A node with the sums of its flows.
    fn child(&self, height: u32, node: u32) -> Child {
        if height == 0 { self.leaves[node].summary(node) } else { self.branches[node].summary(node) }
    }
}
