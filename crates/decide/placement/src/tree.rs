//! [`Walk`]: the links and machines of one tree, with the room that they have for one tenant.

use crate::fabric::{CableId, Down, Fabric, Node, Root, SwitchId};
use crate::hose::Remaining;
use crate::ledger::Ledger;
use crate::spread::Spread;
use weir_units::{Bandwidth, MachineId};

/// No entry: the parent of a root's children.
const NONE: u32 = u32::MAX;

/// A link of the tree, away from the root.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    /// The cable, or of a bundle the one with the least free bandwidth.
    pub(crate) cable: CableId,
    /// The set whose bundle this is, or [`NONE`].
    bundle: u32,
    /// The link nearer to the root, or [`NONE`].
    up: u32,
    available: u64,
    /// The sum of the bandwidths of the tenant's virtual machines below, bit/s.
    pub(crate) below: u64,
}

/// A machine of the tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leaf {
    pub(crate) machine: MachineId,
    pub(crate) free: u32,
    /// Its own link.
    link: u32,
    /// The child of the root that it is below.
    branch: u32,
}

/// A tree as one tenant finds it.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    pub(crate) links: Vec<Link>,
    pub(crate) leaves: Vec<Leaf>,
    /// By child of the root, the range of `leaves` below it.
    branches: Vec<(u32, u32)>,
    /// By switch, the walk that last visited it.
    seen: Vec<u32>,
    stamp: u32,
    open: Vec<(SwitchId, u32, u32)>,
    /// The same of sets.
    open_sets: Vec<(u32, u32, u32)>,
    /// The most virtual machines of the tenant on one machine; `None` for as many as it has slots.
    pub(crate) per_machine: Option<u32>,
}

impl Walk {
    /// Walks a tree, nearest links first. With a ledger, machines and switches without free slots are left out.
    pub(crate) fn start(&mut self, fabric: &Fabric, ledger: Option<&Ledger>, root: Root) {
        self.links.clear();
        self.leaves.clear();
        self.branches.clear();
        self.open.clear();
        self.seen.resize(fabric.switches(), 0);
        self.stamp += 1;
        let (Root::Switch(top) | Root::Spanning(top)) = root else { return };
        if let Some(spread) = fabric.bundles() {
            self.start_spread(fabric, spread, ledger, top);
            return;
        }
        self.seen[top.index()] = self.stamp;
        self.open.push((top, NONE, NONE));
        let mut next = 0;
        while let Some((switch, up, branch)) = self.open.get(next).copied() {
            next += 1;
            for down in fabric.below(root, switch) {
                self.visit(fabric, ledger, *down, (up, branch), matches!(root, Root::Spanning(_)));
            }
        }
        self.leaves.sort_by_key(|leaf| leaf.branch);
        self.find_branches();
    }

    /// Walks the sets below a switch: a bundle is one link.
    fn start_spread(&mut self, fabric: &Fabric, spread: &Spread, ledger: Option<&Ledger>, top: SwitchId) {
        self.open_sets.clear();
        self.open_sets.push((fabric.set_of(top) as u32, NONE, NONE));
        let mut next = 0;
        while let Some((set, up, branch)) = self.open_sets.get(next).copied() {
            next += 1;
            for (machine, cable) in spread.machines(set) {
                let down = Down { cable: *cable, to: Node::Machine(*machine) };
                self.visit(fabric, ledger, down, (up, branch), false);
            }
            for &child in spread.children(set) {
                if ledger.is_some_and(|ledger| ledger.free_in(Some(child as usize)) == 0) {
                    continue;
                }
                let link = self.links.len() as u32;
                let free = |cable: &CableId| ledger.map_or(0, |ledger| ledger.available(*cable));
                let bundle = spread.bundle(child).iter().map(|cable| (free(cable), *cable));
                let (available, cable) = bundle.min().expect("a set below another one has cables");
                self.links.push(Link { cable, bundle: child, up, available, below: 0 });
                self.open_sets.push((child, link, if up == NONE { link } else { branch }));
            }
        }
        self.leaves.sort_by_key(|leaf| leaf.branch);
        self.find_branches();
    }

    /// The cables of a link.
    pub(crate) fn cables<'a>(&'a self, fabric: &'a Fabric, link: &'a Link) -> &'a [CableId] {
        match fabric.bundles() {
            Some(spread) if link.bundle != NONE => spread.bundle(link.bundle),
            _ => std::slice::from_ref(&link.cable),
        }
    }

    fn visit(
        &mut self,
        fabric: &Fabric,
        ledger: Option<&Ledger>,
        down: Down,
        (up, branch): (u32, u32),
        spanning: bool,
    ) {
        let link = self.links.len() as u32;
        // A child of the root begins a branch of its own.
        let branch = if up == NONE { link } else { branch };
        match down.to {
            Node::Machine(machine) => {
                let free = ledger.map_or(u32::MAX, |ledger| ledger.free(machine));
                let free = self.per_machine.map_or(free, |most| most.min(free));
                if free == 0 {
                    return;
                }
                self.leaves.push(Leaf { machine, free, link, branch });
            }
            Node::Switch(switch) => {
                // Only downward trees: on a path that spans all, what is behind a switch is not below it.
                if !spanning && ledger.is_some_and(|ledger| ledger.free_in(Some(fabric.set_of(switch))) == 0) {
                    return;
                }
                if std::mem::replace(&mut self.seen[switch.index()], self.stamp) == self.stamp {
                    return;
                }
                self.open.push((switch, link, branch));
            }
        }
        self.links.push(Link {
            cable: down.cable,
            bundle: NONE,
            up,
            available: ledger.map_or(0, |ledger| ledger.available(down.cable)),
            below: 0,
        });
    }

    fn find_branches(&mut self) {
        let mut first = 0;
        for chunk in self.leaves.chunk_by_mut(|one, other| one.branch == other.branch) {
            let next = first + chunk.len() as u32;
            let number = self.branches.len() as u32;
            chunk.iter_mut().for_each(|leaf| leaf.branch = number);
            self.branches.push((first, next));
            first = next;
        }
    }

    /// The children of the root that have machines.
    pub(crate) fn branches(&self) -> usize {
        self.branches.len()
    }
    /// The machines below a child of the root.
    pub(crate) fn leaves_of(&self, branch: usize) -> std::ops::Range<usize> {
        let (first, next) = self.branches[branch];
        first as usize..next as usize
    }
    /// The link nearer to the root; `None` for a child of the root.
    pub(crate) fn above(&self, link: usize) -> Option<usize> {
        let up = self.links[link].up;
        (up != NONE).then_some(up as usize)
    }
    /// The free bandwidth of a link, bit/s.
    pub(crate) fn available(&self, link: usize) -> u64 {
        self.links[link].available
    }
    /// The child of the root that a machine is below.
    pub(crate) fn branch_of(&self, leaf: usize) -> usize {
        self.leaves[leaf].branch as usize
    }
    /// The links from a machine to the root.
    pub(crate) fn path(&self, leaf: usize) -> impl Iterator<Item = usize> + '_ {
        let mut at = self.leaves[leaf].link;
        std::iter::from_fn(move || {
            let link = self.links.get(at as usize)?;
            let found = at as usize;
            at = link.up;
            Some(found)
        })
    }

    /// The most of the remaining virtual machines that a machine can take now: the largest k that its slots have and
    /// for which the smaller side of every link to the root fits. A link takes few or nearly all of a tenant, so this
    /// is not the first k that fails.
    pub(crate) fn usable(&self, leaf: usize, remaining: &Remaining, total: Bandwidth) -> u32 {
        let mut count = self.leaves[leaf].free.min(remaining.vms());
        'smaller: while count > 0 {
            let added = remaining.sum(count);
            for at in self.path(leaf) {
                let link = &self.links[at];
                let below = link.below + added;
                if below.min(total.bps() - below) > link.available {
                    count = link.available.checked_sub(link.below).map_or(0, |room| remaining.within(room));
                    continue 'smaller;
                }
            }
            return count;
        }
        0
    }

    /// Puts the next `count` virtual machines on a machine.
    pub(crate) fn put(&mut self, leaf: usize, count: u32, added: u64) {
        self.leaves[leaf].free -= count;
        let mut at = self.leaves[leaf].link;
        while let Some(link) = self.links.get_mut(at as usize) {
            link.below += added;
            at = link.up;
        }
    }

    /// The link that keeps a machine from one more virtual machine of `added` bit/s, and what it lacks.
    pub(crate) fn shortage(&self, leaf: usize, added: u64, total: Bandwidth) -> Option<(CableId, Bandwidth)> {
        self.path(leaf).find_map(|at| {
            let link = &self.links[at];
            let below = link.below + added;
            let missing = below.min(total.bps() - below).checked_sub(link.available)?;
            (missing > 0).then_some((link.cable, Bandwidth::from_bps(missing)))
        })
    }
}
