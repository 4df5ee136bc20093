//! [`Spread`]: the links of tenants on a network whose switches spread packets over equal paths.
//!
//! Problem: switches that hash flows may put all of a tenant's traffic on one of several equal uplinks, and no tree
//! confines it. Approach: every set of machines below switches (a rack, a pod) has one bundle, all cables that lead up
//! from the switches above exactly these machines, and a tenant reserves in full on every cable of a bundle.
//!
//! Claim: the reservation covers every division of packets over shortest paths. Where every cable joins switches of
//! consecutive distances to machines and the sets are nested or disjoint ([`weir_network::layers::is_layered`]), all
//! shortest paths go up and then down, and a packet crosses a cable upward only if its source is below and its
//! destination is not. So the cable carries traffic between the virtual machines of that set and all others, at most
//! the smaller of the two sums (the hose model).
//!
//! Example: racks with four uplinks. A tenant with 600 Mb/s below one rack and more elsewhere reserves 600 Mb/s on each
//! of the four, four times as much as in a tree.
//!
//! Deviates from the paper in: QShare confines each tenant to one tree (§IV-A).

use crate::fabric::{CableId, Down, Node, SwitchId};
use weir_units::MachineId;

/// The sets of machines as a tree, with their bundles.
#[derive(Debug, Clone)]
pub(crate) struct Spread {
    /// By set: the sets directly below it, ascending.
    children: Vec<Vec<u32>>,
    /// By set: the cables that lead up from its switches, ascending.
    bundles: Vec<Vec<CableId>>,
    /// By set: the machines of its own switches, with their cables.
    machines: Vec<Vec<(MachineId, CableId)>>,
}

impl Spread {
    /// `set_of` has the set of every switch, `sets_of_machine` the sets of every machine, and `sizes` the machines of
    /// every set.
    pub(crate) fn new(down: &[Vec<Down>], set_of: &[usize], sets_of_machine: &[Vec<u32>], sizes: &[usize]) -> Self {
        let mut spread = Self {
            children: vec![Vec::new(); sizes.len()],
            bundles: vec![Vec::new(); sizes.len()],
            machines: vec![Vec::new(); sizes.len()],
        };
        for (switch, links) in down.iter().enumerate() {
            for link in links {
                match link.to {
                    Node::Machine(machine) => spread.machines[set_of[switch]].push((machine, link.cable)),
                    Node::Switch(SwitchId(below)) => spread.bundles[set_of[below as usize]].push(link.cable),
                }
            }
        }
        spread.bundles.iter_mut().for_each(|bundle| bundle.sort_unstable());
        for sets in sets_of_machine {
            // Sets are nested: the next larger one is the parent.
            let mut sets = sets.clone();
            sets.sort_by_key(|set| (sizes[*set as usize], *set));
            for pair in sets.windows(2) {
                let children = &mut spread.children[pair[1] as usize];
                if !children.contains(&pair[0]) {
                    children.push(pair[0]);
                }
            }
        }
        spread.children.iter_mut().for_each(|children| children.sort_unstable());
        spread
    }

    /// The sets directly below a set.
    pub(crate) fn children(&self, set: u32) -> &[u32] {
        &self.children[set as usize]
    }
    /// The cables that lead up from a set.
    pub(crate) fn bundle(&self, set: u32) -> &[CableId] {
        &self.bundles[set as usize]
    }
    /// The machines of a set's own switches.
    pub(crate) fn machines(&self, set: u32) -> &[(MachineId, CableId)] {
        &self.machines[set as usize]
    }
}
