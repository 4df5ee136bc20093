//! The virtual machines of one tenant onto the machines of one tree.
//!
//! Approach (QShare §IV-B): take the machine with the most usable slots, put as many virtual machines there as it
//! takes, and repeat until all are placed or no machine takes another. Only machines below the same child of the root
//! share links, so a step computes the usable slots of that branch again and keeps those of the others.
//!
//! Source: QShare Algorithm 1, `get_optimal_allocation`; usable slots are not defined there, see [`Walk::usable`].

use crate::fabric::{CableId, Fabric, Root};
use crate::hose::{Hose, Remaining};
use crate::ledger::Ledger;
use crate::placer::Shortage;
use crate::tree::Walk;
use std::collections::HashMap;
use weir_units::{Bandwidth, MachineId};

/// A part of a tenant on one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The machine.
    pub machine: MachineId,
    /// How many virtual machines of each group of [`Hose::groups`].
    pub vms: Vec<u32>,
}

impl Part {
    /// The sum of the bandwidths of these virtual machines of a tenant, bit/s.
    fn bandwidth(&self, hose: &Hose) -> u64 {
        self.vms.iter().zip(hose.groups()).map(|(vms, group)| u64::from(*vms) * group.bandwidth.bps()).sum()
    }
}

/// A tenant in a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fit {
    /// The tree.
    pub root: Root,
    /// The machines with the tenant's virtual machines, ascending.
    pub parts: Vec<Part>,
    /// The cables with virtual machines on both sides, ascending, and what each needs in both directions.
    pub reservations: Vec<(CableId, Bandwidth)>,
}

impl Fit {
    /// The sum of the reservations (QShare's c_b), bit/s.
    pub fn bandwidth(&self) -> u128 {
        self.reservations.iter().map(|(_, bandwidth)| u128::from(bandwidth.bps())).sum()
    }
    /// Its machines, ascending, with the reservation at each one's interface; zero where all of it is on one machine.
    pub fn machines(&self) -> Vec<(MachineId, Bandwidth)> {
        // A machine's own cable has the machine's number.
        let of = |machine: MachineId| {
            let own = self.reservations.iter().find(|(cable, _)| cable.0 == machine.0);
            (machine, own.map_or(Bandwidth::ZERO, |(_, reserved)| *reserved))
        };
        self.parts.iter().map(|part| of(part.machine)).collect()
    }
    /// The most tenants of any of its cables, with this one (QShare's c_q).
    pub fn tenants(&self, ledger: &Ledger) -> u32 {
        self.reservations.iter().map(|(cable, _)| ledger.tenants(*cable) + 1).max().unwrap_or(0)
    }
}

impl Fit {
    /// A tenant whose virtual machines are on these machines, ascending, in a tree; `None` if the tree does not have
    /// them all.
    pub fn in_place(fabric: &Fabric, root: Root, parts: Vec<Part>, hose: &Hose) -> Option<Self> {
        if let Root::Machine(machine) = root {
            let alone = matches!(parts.as_slice(), [part] if part.machine == machine);
            return alone.then_some(Self { root, parts, reservations: Vec::new() });
        }
        let mut fill = Fill::default();
        fill.walk.start(fabric, None, root);
        let leaves: HashMap<MachineId, usize> =
            fill.walk.leaves.iter().enumerate().map(|(at, leaf)| (leaf.machine, at)).collect();
        for part in &parts {
            let leaf = *leaves.get(&part.machine)?;
            fill.walk.put(leaf, part.vms.iter().sum(), part.bandwidth(hose));
        }
        Some(fill.fit(fabric, root, parts, hose))
    }
}

/// The reason that a tree cannot have a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stuck {
    /// Virtual machines that found no place.
    pub(crate) left: u32,
    /// The cable that lacks the least for one more, and what it lacks; `None` where slots are lacking.
    pub(crate) cable: Option<(CableId, Bandwidth)>,
}

/// The machine of a branch with the most usable slots.
#[derive(Debug, Clone, Copy)]
struct Best {
    leaf: usize,
    usable: u32,
}

/// Places tenants in trees; keeps its memory.
#[derive(Debug, Default)]
pub(crate) struct Fill {
    pub(crate) walk: Walk,
    best: Vec<Best>,
}

impl Fill {
    /// The tenant in a tree below a switch.
    pub(crate) fn in_tree(&mut self, fabric: &Fabric, ledger: &Ledger, root: Root, hose: &Hose) -> Result<Fit, Stuck> {
        let remaining = self.begin(fabric, ledger, root, hose);
        self.by_usable_slots(fabric, root, hose, remaining, Vec::new())
    }

    /// The same for a tenant that has some of its virtual machines in these places, which they keep; `None` if the
    /// tree does not have all of their machines. The ledger is that without the tenant.
    pub(crate) fn in_tree_beside(
        &mut self,
        fabric: &Fabric,
        ledger: &Ledger,
        root: Root,
        hose: &Hose,
        kept: &[Part],
    ) -> Option<Result<Fit, Stuck>> {
        let mut remaining = self.begin(fabric, ledger, root, hose);
        for part in kept {
            let leaf = self.walk.leaves.iter().position(|leaf| leaf.machine == part.machine)?;
            self.walk.put(leaf, part.vms.iter().sum(), part.bandwidth(hose));
            remaining.leave_out(&part.vms);
        }
        let added = remaining.vms();
        let filled = self.by_usable_slots(fabric, root, hose, remaining, kept.to_vec());
        // More virtual machines elsewhere need more of the links of those that stay.
        Some(filled.and_then(|fit| match ledger.fits(&fit) {
            Err(Shortage::Bandwidth { cable, missing, .. }) => {
                Err(Stuck { left: added, cable: Some((cable, missing)) })
            }
            Err(_) => Err(Stuck { left: added, cable: None }),
            Ok(()) => Ok(fit),
        }))
    }

    /// Puts the remaining virtual machines on the machine with the most usable slots, then on the next.
    fn by_usable_slots(
        &mut self,
        fabric: &Fabric,
        root: Root,
        hose: &Hose,
        mut remaining: Remaining,
        mut parts: Vec<Part>,
    ) -> Result<Fit, Stuck> {
        self.best.clear();
        for branch in 0..self.walk.branches() {
            let best = self.best_of(branch, &remaining, hose);
            self.best.push(best);
        }
        while remaining.vms() > 0 {
            let Some(best) = self.next(&remaining, hose) else { return Err(self.stuck(&remaining, hose)) };
            self.put(best.leaf, best.usable, &mut remaining, &mut parts);
            let branch = self.walk.branch_of(best.leaf);
            self.best[branch] = self.best_of(branch, &remaining, hose);
        }
        Ok(self.fit(fabric, root, parts, hose))
    }

    /// The tenant in a tree below a switch, machines filled in order.
    pub(crate) fn in_order(&mut self, fabric: &Fabric, ledger: &Ledger, root: Root, hose: &Hose) -> Result<Fit, Stuck> {
        let mut remaining = self.begin(fabric, ledger, root, hose);
        let mut parts = Vec::new();
        for leaf in 0..self.walk.leaves.len() {
            let usable = self.walk.usable(leaf, &remaining, hose.bandwidth());
            if usable > 0 {
                self.put(leaf, usable, &mut remaining, &mut parts);
            }
        }
        if remaining.vms() > 0 { Err(self.stuck(&remaining, hose)) } else { Ok(self.fit(fabric, root, parts, hose)) }
    }

    fn begin<'a>(&mut self, fabric: &Fabric, ledger: &Ledger, root: Root, hose: &'a Hose) -> Remaining<'a> {
        self.walk.start(fabric, Some(ledger), root);
        Remaining::new(hose)
    }

    fn put(&mut self, leaf: usize, count: u32, remaining: &mut Remaining, parts: &mut Vec<Part>) {
        let added = remaining.sum(count);
        self.walk.put(leaf, count, added);
        let (machine, vms) = (self.walk.leaves[leaf].machine, remaining.take(count));
        match parts.iter_mut().find(|part| part.machine == machine) {
            Some(part) => part.vms.iter_mut().zip(vms).for_each(|(sum, more)| *sum += more),
            None => parts.push(Part { machine, vms }),
        }
    }

    /// The virtual machines that are in the tree now.
    pub(crate) fn fit(&self, fabric: &Fabric, root: Root, mut parts: Vec<Part>, hose: &Hose) -> Fit {
        parts.sort_by_key(|part| part.machine);
        Fit { root, parts, reservations: self.reservations(fabric, hose) }
    }

    /// The machine with the most usable slots, the first of equals.
    fn next(&mut self, remaining: &Remaining, hose: &Hose) -> Option<Best> {
        for branch in 0..self.best.len() {
            // A link takes few of a tenant or nearly all, so slots that are usable for more virtual machines than
            // remain may not be usable for those.
            if self.best[branch].usable > remaining.vms() {
                self.best[branch] = self.best_of(branch, remaining, hose);
            }
        }
        let best =
            self.best.iter().copied().reduce(|one, other| if other.usable > one.usable { other } else { one })?;
        (best.usable > 0).then_some(best)
    }

    fn best_of(&self, branch: usize, remaining: &Remaining, hose: &Hose) -> Best {
        let mut best = Best { leaf: 0, usable: 0 };
        for leaf in self.walk.leaves_of(branch) {
            if self.walk.leaves[leaf].free.min(remaining.vms()) > best.usable {
                let usable = self.walk.usable(leaf, remaining, hose.bandwidth());
                if usable > best.usable {
                    best = Best { leaf, usable };
                }
            }
        }
        best
    }

    fn reservations(&self, fabric: &Fabric, hose: &Hose) -> Vec<(CableId, Bandwidth)> {
        let mut needs = Vec::new();
        for link in &self.walk.links {
            let need = hose.reservation(Bandwidth::from_bps(link.below));
            if need > Bandwidth::ZERO {
                needs.extend(self.walk.cables(fabric, link).iter().map(|cable| (*cable, need)));
            }
        }
        needs.sort_unstable();
        needs
    }

    fn stuck(&self, remaining: &Remaining, hose: &Hose) -> Stuck {
        let (left, added) = (remaining.vms(), remaining.sum(1));
        let with_slots = (0..self.walk.leaves.len()).filter(|leaf| self.walk.leaves[*leaf].free > 0);
        let shortages = with_slots.filter_map(|leaf| self.walk.shortage(leaf, added, hose.bandwidth()));
        Stuck { left, cable: shortages.min_by_key(|(cable, missing)| (*missing, *cable)) }
    }
}
