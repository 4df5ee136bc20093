//! Shares over a tree, in two passes.
//!
//! Problem: services nest (`dfs/hbase`), and at a rack each service is split further over machines.
//! A share must respect every node on the way to the root.
//!
//! Approach (Parley §3.2.2): one pass from the leaves up sums each node's bound, `min(demand, max)`
//! of its children; one pass from the root down shares each node's bandwidth among its children
//! with [`fill`](crate::fill). A node's own maximum is applied where its parent shares, so the
//! demand that Fig 6 prints for `Rest` is 11 although its maximum is 10.
//!
//! A leaf is limited when its own demand reaches its share; the deciding constraint is found by
//! walking up to the first node that its own maximum limits, or to the root's capacity.
//!
//! [`TreeShares::headroom`] is advice for operators: the bandwidth that an unlimited node could
//! take at once. It is its guarantee if that is more than its demand, divided among its children as
//! if they demanded all of it (Fig 6 shows DFS with 30, split 15 and 15, against a demand of 5).
//!
//! Worked example, Fig 6: capacity 50, DFS (min 30: demands 2, 3) and Rest (max 10) of VM (4, 5)
//! and MR (2). Up: DFS 5, VM 9, MR 2, Rest 11. Down: all fits in 50, Rest is limited to 10; in it
//! VM 8, MR 2; in VM 4 and 4.

use crate::fill::{Child, Decision, Filling};
use weir_policy::{Place, Policy, Share, Sharing};
use weir_units::{Bandwidth, Direction, ServiceId};

/// One part of a maximum in this many is kept for leaves that do not use their part: so much each
/// may send before the others make room.
pub(crate) const IDLE_PART: u64 = 10;
/// A leaf below its share may send one part of it in this many more, so that a steady demand stays
/// below nine tenths of its bound, from which on it counts as limited.
pub const VARIATION_PART: u64 = 8;

/// A tree of takers at one contention point in one direction. Node 0 is the root: the capacity
/// itself.
#[derive(Debug, Clone)]
pub struct ShareTree {
    /// Breadth first, so that children stand together and after their parent.
    nodes: Vec<Node>,
    /// The node of each leaf, by the caller's leaf number.
    leaves: Vec<u32>,
}

#[derive(Debug, Clone)]
struct Node {
    share: Share,
    sharing: Sharing,
    parent: u32,
    /// First child and number of children.
    children: (u32, u32),
    /// The service that the node stands for; none for the root. A leaf's split has its leaf's
    /// service.
    service: Option<ServiceId>,
}

/// The demand and the share of each node of a tree.
#[derive(Debug, Default, Clone)]
pub struct TreeShares {
    demands: Vec<Bandwidth>,
    /// The policy's maxima, lowered where a point above is tighter.
    maxima: Vec<Bandwidth>,
    shares: Vec<Bandwidth>,
    decisions: Vec<Decision>,
}

/// The share of each node of a tree if its own demand were unlimited.
#[derive(Debug, Default, Clone)]
pub struct Ceilings {
    nodes: Vec<Bandwidth>,
}

impl Ceilings {
    /// The ceiling of a leaf.
    pub fn leaf(&self, tree: &ShareTree, leaf: usize) -> Bandwidth {
        self.nodes[tree.leaves[leaf] as usize]
    }
}

/// The limit of a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// None: its demand is met.
    None,
    /// The maximum of a service on the way to the root; none for the maximum of the leaf's own
    /// split.
    Max(Option<ServiceId>),
    /// The root's capacity.
    Capacity,
}

impl ShareTree {
    /// The tree of a policy's services at an instance of a contention point. Leaf numbers count the
    /// leaf services in id order; those that do not run there have no guarantee.
    pub fn of_services(policy: &Policy, place: Place, direction: Direction) -> Self {
        Self::of_services_split(policy, place, direction, 1, |_, _| None)
    }

    /// The same with each leaf service split into `parts` equal parts (machines of a rack, racks
    /// of the fabric); `share` gives the share of a part, or `None` to leave the leaf whole. The
    /// leaf number of part `p` of the l-th leaf service is `l × parts + p`.
    pub fn of_services_split(
        policy: &Policy,
        place: Place,
        direction: Direction,
        parts: usize,
        share: impl Fn(ServiceId, usize) -> Option<Share>,
    ) -> Self {
        let services = policy.services();
        let mut tree = Self { nodes: vec![Node::root(policy.sharing())], leaves: Vec::new() };
        let mut node_of = vec![0u32; services.all().len()];
        tree.add_children(0, policy, services.roots(), (place, direction), &mut node_of);
        let mut next = 1;
        while next < tree.nodes.len() {
            if let Some(service) = tree.nodes[next].service {
                let children = services.get(service).children();
                tree.add_children(next, policy, children, (place, direction), &mut node_of);
            }
            next += 1;
        }
        for (id, service) in services.leaves() {
            let parent = node_of[id.index()];
            let first = tree.nodes.len() as u32;
            for part in 0..parts {
                match share(id, part) {
                    Some(share) => {
                        let node =
                            Node { share, sharing: service.sharing(), parent, children: (0, 0), service: Some(id) };
                        tree.leaves.push(tree.nodes.len() as u32);
                        tree.nodes.push(node);
                    }
                    None => tree.leaves.push(parent),
                }
            }
            if tree.nodes.len() as u32 > first {
                tree.nodes[parent as usize].children = (first, tree.nodes.len() as u32 - first);
            }
        }
        tree
    }

    /// Gives a leaf another share.
    ///
    /// # Panics
    /// If the tree has no such leaf.
    pub fn set_leaf(&mut self, leaf: usize, share: Share) {
        self.nodes[self.leaves[leaf] as usize].share = share;
    }

    fn add_children(
        &mut self,
        parent: usize,
        policy: &Policy,
        children: &[ServiceId],
        (place, direction): (Place, Direction),
        node_of: &mut [u32],
    ) {
        self.nodes[parent].children = (self.nodes.len() as u32, children.len() as u32);
        for &id in children {
            let service = policy.services().get(id);
            node_of[id.index()] = self.nodes.len() as u32;
            self.nodes.push(Node {
                share: policy.share_at(id, place, direction),
                sharing: service.sharing(),
                parent: parent as u32,
                children: (0, 0),
                service: Some(id),
            });
        }
    }

    /// The number of leaves: the length of the demands.
    pub fn leaf_count(&self) -> usize {
        self.leaves.len()
    }

    /// Shares `capacity` among the leaves. `tighter` may lower the maximum of a service's node (a
    /// limit from a point above); it is called once for each node that stands for a whole service.
    ///
    /// # Panics
    /// If there is not one demand for each leaf.
    pub fn share(
        &self,
        capacity: Bandwidth,
        demands: &[Bandwidth],
        tighter: impl Fn(ServiceId) -> Bandwidth,
        shares: &mut TreeShares,
        filling: &mut Scratch,
    ) {
        assert_eq!(demands.len(), self.leaves.len(), "one demand for each leaf");
        let n = self.nodes.len();
        shares.demands.clear();
        shares.demands.resize(n, Bandwidth::ZERO);
        shares.shares.clear();
        shares.shares.resize(n, Bandwidth::ZERO);
        shares.decisions.clear();
        shares.decisions.resize(n, Decision::Demand);
        shares.maxima.clear();
        shares.maxima.extend(self.nodes.iter().enumerate().map(|(i, node)| match node.service {
            Some(service) if !self.is_part(i) => node.share.max.min(tighter(service)),
            _ => node.share.max,
        }));
        for (node, demand) in self.leaves.iter().zip(demands) {
            shares.demands[*node as usize] = *demand;
        }
        for i in (1..n).rev() {
            let usable = shares.demands[i].min(shares.maxima[i]);
            shares.demands[self.nodes[i].parent as usize] += usable;
        }
        shares.shares[0] = shares.demands[0].min(capacity);
        for (i, node) in self.nodes.iter().enumerate() {
            let (first, count) = (node.children.0 as usize, node.children.1 as usize);
            if count == 0 {
                continue;
            }
            let has = if i == 0 { capacity } else { shares.shares[i] };
            filling.children.clear();
            filling.children.extend((first..first + count).map(|c| {
                let share = Share { max: shares.maxima[c], ..self.nodes[c].share };
                Child::new(share, shares.demands[c])
            }));
            filling.filling.fill(node.sharing, has, &filling.children);
            shares.shares[first..first + count].copy_from_slice(&filling.filling.shares);
            shares.decisions[first..first + count].copy_from_slice(&filling.filling.decisions);
        }
    }

    /// Each node's share of `capacity` if its own demand were unlimited, beside the demands of the
    /// others that [`Self::share`] shared: at least its share.
    pub fn ceilings(&self, capacity: Bandwidth, shares: &TreeShares, scratch: &mut Scratch, ceilings: &mut Ceilings) {
        // A node whose child demands more demands more itself: it may take its own ceiling.
        let nodes = &mut ceilings.nodes;
        nodes.clear();
        nodes.resize(self.nodes.len(), capacity);
        for (i, node) in self.nodes.iter().enumerate() {
            let (first, count) = (node.children.0 as usize, node.children.1 as usize);
            if count == 0 {
                continue;
            }
            scratch.children.clear();
            scratch.children.extend((first..first + count).map(|c| {
                // The others' usage is within their maxima in force.
                let demand = shares.demands[c].min(shares.maxima[c]);
                Child::new(Share { max: shares.maxima[c], ..self.nodes[c].share }, demand)
            }));
            scratch.filling.ceilings(node.sharing, nodes[i], &scratch.children, &mut scratch.ceilings);
            for (c, ceiling) in (first..).zip(&scratch.ceilings) {
                nodes[c] = (*ceiling).max(shares.shares[c]);
            }
        }
    }

    /// Whether a node is a part of a split leaf: its parent stands for the same service.
    fn is_part(&self, node: usize) -> bool {
        node != 0 && self.nodes[node].service == self.nodes[self.nodes[node].parent as usize].service
    }

    /// The way from the root to a leaf, the root left out: (service, is it a part, node).
    pub(crate) fn path(&self, leaf: usize) -> Vec<PathNode> {
        let mut path = Vec::new();
        let mut at = self.leaves[leaf] as usize;
        while at != 0 {
            let node = &self.nodes[at];
            path.push(PathNode {
                node: at,
                service: node.service,
                part: self.is_part(at),
                sharing: self.nodes[node.parent as usize].sharing,
            });
            at = node.parent as usize;
        }
        path.reverse();
        path
    }

    /// The number of equal parts of a node above `node` of which it is one.
    fn peers(&self, node: usize, above: usize) -> u64 {
        let (mut parts, mut at) = (1u64, node);
        while at != above && at != 0 {
            at = self.nodes[at].parent as usize;
            parts = parts.saturating_mul(u64::from(self.nodes[at].children.1));
        }
        parts.max(1)
    }

    /// A node and all that share with it.
    pub(crate) fn siblings(&self, node: usize) -> std::ops::Range<usize> {
        let (first, count) = self.nodes[self.nodes[node].parent as usize].children;
        first as usize..(first + count) as usize
    }
    pub(crate) fn service_of(&self, node: usize) -> Option<ServiceId> {
        self.nodes[node].service
    }
}

/// One node on the way from the root to a leaf.
pub(crate) struct PathNode {
    pub(crate) node: usize,
    pub(crate) service: Option<ServiceId>,
    pub(crate) part: bool,
    /// The sharing rule of its parent.
    pub(crate) sharing: Sharing,
}

impl Node {
    fn root(sharing: Sharing) -> Self {
        Self { share: Share::default(), sharing, parent: 0, children: (0, 0), service: None }
    }
}

/// Scratch space for sharing; reuse it to avoid allocation.
#[derive(Debug, Default)]
pub struct Scratch {
    filling: Filling,
    children: Vec<Child>,
    ceilings: Vec<Bandwidth>,
}

impl TreeShares {
    /// The share of a leaf.
    pub fn leaf(&self, tree: &ShareTree, leaf: usize) -> Bandwidth {
        self.shares[tree.leaves[leaf] as usize]
    }

    /// Whether a leaf must be limited to its share, and by which limit.
    pub fn holder(&self, tree: &ShareTree, leaf: usize) -> Holder {
        let mut at = tree.leaves[leaf] as usize;
        if self.decisions[at] == Decision::Demand {
            return Holder::None;
        }
        loop {
            match self.decisions[at] {
                Decision::Max if tree.is_part(at) => return Holder::Max(None),
                Decision::Max => return Holder::Max(tree.nodes[at].service),
                // A satisfied node limits no child; its children then compete for the capacity.
                Decision::Level | Decision::Demand if tree.nodes[at].parent == 0 => return Holder::Capacity,
                Decision::Level | Decision::Demand => at = tree.nodes[at].parent as usize,
            }
        }
    }

    /// The most that a leaf may take at once without the sum of its peers' exceeding a maximum by
    /// more than a tenth; [`Bandwidth::UNLIMITED`] if no node on its way to the root has one. See
    /// [`crate::rack`]; `if_all` are the shares while all leaves demand everything.
    ///
    /// A limited leaf has its share. Any other has more of what each maximum above it leaves unused:
    /// of one half in proportion to its share, so that it can grow, and where it `varies` at least an
    /// eighth of its share, so that it does not fill its bound; of the other half, or of a tenth of
    /// the maximum where that is more, its part of `if_all`, so that it can begin.
    pub(crate) fn bound(&self, tree: &ShareTree, leaf: usize, if_all: &Self, varies: bool) -> Bandwidth {
        let own = tree.leaves[leaf] as usize;
        let is_limited = self.holder(tree, leaf) != Holder::None;
        let (mut bound, mut at) = (Bandwidth::UNLIMITED, own);
        while at != 0 {
            let max = self.maxima[at];
            if !max.is_unlimited() {
                let part = |rate: u64, shares: &Self| {
                    let (own, whole) = (u128::from(shares.shares[own].bps()), u128::from(shares.shares[at].bps()));
                    Bandwidth::from_bps((u128::from(rate) * own).checked_div(whole).unwrap_or(0) as u64)
                };
                let rest = max.saturating_sub(self.shares[at]).bps();
                let to_grow = if self.shares[at] == Bandwidth::ZERO { 0 } else { rest / 2 };
                let to_begin = (rest - to_grow).max(max.bps() / IDLE_PART);
                let to_vary = if varies { self.shares[own].bps() / VARIATION_PART } else { 0 };
                let grow = part(to_grow, self).max(Bandwidth::from_bps(to_vary));
                let begin = match if_all.shares[own] {
                    // Others' guarantees take everything if all demand it: an equal part.
                    Bandwidth::ZERO => Bandwidth::from_bps(to_begin / tree.peers(own, at)),
                    _ => part(to_begin, if_all),
                };
                let more = if is_limited { Bandwidth::ZERO } else { grow + begin };
                bound = bound.min((self.shares[own] + more).min(max));
            }
            at = tree.nodes[at].parent as usize;
        }
        bound
    }

    /// The lowest maximum on the way from a leaf to the root; [`Bandwidth::UNLIMITED`] where there is none.
    pub(crate) fn lowest_maximum(&self, tree: &ShareTree, leaf: usize) -> Bandwidth {
        let (mut lowest, mut at) = (Bandwidth::UNLIMITED, tree.leaves[leaf] as usize);
        while at != 0 {
            lowest = lowest.min(self.maxima[at]);
            at = tree.nodes[at].parent as usize;
        }
        lowest
    }

    /// Whether `tenths` of a maximum on the way from a leaf to the root are used.
    pub(crate) fn has_maximum_used(&self, tree: &ShareTree, leaf: usize, tenths: u128) -> bool {
        let mut at = tree.leaves[leaf] as usize;
        while at != 0 {
            let (max, share) = (self.maxima[at], self.shares[at]);
            if !max.is_unlimited() && u128::from(share.bps()) * 10 >= u128::from(max.bps()) * tenths {
                return true;
            }
            at = tree.nodes[at].parent as usize;
        }
        false
    }

    /// The sum of all shares.
    pub fn used(&self) -> Bandwidth {
        self.shares.first().copied().unwrap_or_default()
    }

    /// The share of a service as a whole (the first node that stands for it).
    pub fn service(&self, tree: &ShareTree, service: ServiceId) -> Option<Bandwidth> {
        tree.nodes.iter().position(|node| node.service == Some(service)).map(|i| self.shares[i])
    }

    /// A node's share as it was applied.
    pub(crate) fn share_of(&self, tree: &ShareTree, node: usize) -> Share {
        Share { max: self.maxima[node], ..tree.nodes[node].share }
    }

    pub(crate) fn node(&self, node: usize) -> (Bandwidth, Bandwidth, Decision) {
        (self.demands[node], self.shares[node], self.decisions[node])
    }

    /// The bandwidth that each leaf could take at once, for display: see the module's doc.
    pub fn headroom(&self, tree: &ShareTree, scratch: &mut Scratch) -> Vec<Bandwidth> {
        let mut headroom = self.shares.clone();
        for (i, node) in tree.nodes.iter().enumerate() {
            let (first, count) = (node.children.0 as usize, node.children.1 as usize);
            // The node's bandwidth beyond its children's usage is divided as if they demanded all
            // of it.
            if i != 0 && count > 0 && self.decisions[i] == Decision::Demand && headroom[i] > self.shares[i] {
                scratch.children.clear();
                let unlimited = tree.nodes[first..first + count].iter();
                scratch.children.extend(unlimited.map(|child| Child::new(child.share, Bandwidth::UNLIMITED)));
                scratch.filling.fill(node.sharing, headroom[i], &scratch.children);
                for (c, share) in (first..).zip(&scratch.filling.shares) {
                    headroom[c] = self.shares[c].max(*share);
                }
            } else {
                for (c, child) in headroom.iter_mut().enumerate().skip(first).take(count) {
                    if self.decisions[c] == Decision::Demand {
                        *child = self.shares[c].max(tree.nodes[c].share.min);
                    }
                }
            }
        }
        tree.leaves.iter().map(|leaf| headroom[*leaf as usize]).collect()
    }
}
