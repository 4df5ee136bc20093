//! Oktopus's allocation of a virtual cluster: the first subtree that can have the tenant, filled child by child.
//!
//! Approach. From the leaves up, every subtree has the most virtual machines that it can take: the slots of a machine
//! or the sum of its children, and no more than the link above it can carry for. The first root whose children take
//! all of them has the tenant; each child, in order, gets as many as it can take.
//!
//! Virtual machines of different bandwidths are not defined there, and refused.
//!
//! Source: Ballani et al., "Towards predictable datacenter networks" (SIGCOMM 2011), §4.1. Its text was not at hand;
//! this follows its published outline, with subtrees of QShare's trees.

use crate::Shortage;
use crate::fabric::{Fabric, Root};
use crate::fill::{Fill, Fit, Part, Stuck};
use crate::hose::Hose;
use crate::ledger::Ledger;
use crate::search::first;
use crate::tree::Walk;

/// The place of a tenant.
///
/// # Errors
/// The resource that it lacks.
pub(crate) fn place(fill: &mut Fill, fabric: &Fabric, ledger: &Ledger, hose: &Hose) -> Result<Fit, Shortage> {
    let [group] = hose.groups() else { return Err(Shortage::Groups) };
    let per_machine = fill.walk.per_machine;
    first(fabric, ledger, hose, per_machine, |root| {
        fill.walk.start(fabric, Some(ledger), root);
        match Subtrees::new(&fill.walk, hose.vms(), group.bandwidth.bps()).give() {
            Some(given) => Ok(settle(fill, fabric, &given, (root, hose))),
            // The other fill finds the link that is too narrow; it may place them where this one does not.
            None => match fill.in_order(fabric, ledger, root, hose) {
                Err(stuck) => Err(stuck),
                Ok(_) => Err(Stuck { left: hose.vms(), cable: None }),
            },
        }
    })
}

/// The fit of a tree whose machines have been given all virtual machines.
fn settle(fill: &mut Fill, fabric: &Fabric, given: &[(usize, u32)], (root, hose): (Root, &Hose)) -> Fit {
    let bps = hose.groups()[0].bandwidth.bps();
    let mut parts = Vec::new();
    for (leaf, vms) in given {
        fill.walk.put(*leaf, *vms, u64::from(*vms) * bps);
        parts.push(Part { machine: fill.walk.leaves[*leaf].machine, vms: vec![*vms] });
    }
    fill.fit(fabric, root, parts, hose)
}

/// The subtrees of a tree, by the link above them.
struct Subtrees<'a> {
    walk: &'a Walk,
    vms: u32,
    bps: u64,
    /// By link: links below it, and the leaf at its end.
    children: Vec<Vec<usize>>,
    leaf: Vec<Option<usize>>,
    /// By link: the most virtual machines below.
    most: Vec<u32>,
    top: Vec<usize>,
    given: Vec<(usize, u32)>,
}

impl<'a> Subtrees<'a> {
    fn new(walk: &'a Walk, vms: u32, bps: u64) -> Self {
        let links = walk.links.len();
        let (mut children, mut leaf, mut top) = (vec![Vec::new(); links], vec![None; links], Vec::new());
        for link in 0..links {
            match walk.above(link) {
                Some(above) => children[above].push(link),
                None => top.push(link),
            }
        }
        for at in 0..walk.leaves.len() {
            leaf[walk.path(at).next().expect("a leaf has a link")] = Some(at);
        }
        let mut subtrees = Self { walk, vms, bps, children, leaf, most: vec![0; links], top, given: Vec::new() };
        // A link is walked before those below it.
        for link in (0..links).rev() {
            let below: u64 = subtrees.children[link].iter().map(|child| u64::from(subtrees.most[*child])).sum();
            let slots = subtrees.leaf[link].map_or(below, |leaf| walk.leaves[leaf].free.into());
            subtrees.most[link] = subtrees.carried(link, u32::try_from(slots).unwrap_or(u32::MAX).min(vms));
        }
        subtrees
    }

    /// The most of up to `vms` virtual machines below a link that it can carry for.
    fn carried(&self, link: usize, vms: u32) -> u32 {
        let available = self.walk.available(link);
        let fits = |below: u32| u64::from(below.min(self.vms - below)) * self.bps <= available;
        if fits(vms) {
            return vms;
        }
        let few = available.checked_div(self.bps).map_or(vms, |count| u32::try_from(count).unwrap_or(u32::MAX));
        few.min(vms)
    }

    /// Gives the tree's machines all virtual machines: leaves and how many each has, or `None` if they cannot have all.
    fn give(mut self) -> Option<Vec<(usize, u32)>> {
        let sum: u64 = self.top.iter().map(|link| u64::from(self.most[*link])).sum();
        let top = std::mem::take(&mut self.top);
        (sum >= u64::from(self.vms) && self.give_each(&top, self.vms)).then_some(self.given)
    }

    fn give_each(&mut self, links: &[usize], vms: u32) -> bool {
        let mut left = vms;
        for &link in links {
            let part = self.carried(link, self.most[link].min(left));
            if part == 0 {
                continue;
            }
            match self.leaf[link] {
                Some(leaf) => self.given.push((leaf, part)),
                None => {
                    let children = self.children[link].clone();
                    if !self.give_each(&children, part) {
                        return false;
                    }
                }
            }
            left -= part;
        }
        left == 0
    }
}
