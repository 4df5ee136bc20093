//! A network as a list of links, for networks without a topology of their own.
//!
//! Example: hosts `a`, `b`, switches `x`, `y`, and the links `a`–`x`, `x`–`y`, `y`–`b`: one path
//! with two store-and-forward hops in the middle.

use super::{Builder, Common, Size};
use crate::graph::{Graph, LinkSpec};
use weir_units::MachineId;

/// Hosts, switches and cables as written; names are unique and every index is in range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explicit {
    /// The hosts, each on its cable.
    pub hosts: Vec<ExplicitHost>,
    /// The names of the switches.
    pub switches: Vec<String>,
    /// Cables between switches.
    pub cables: Vec<ExplicitCable>,
    /// Groups of hosts by name; indices into `hosts`, ascending.
    pub groups: Vec<(String, Vec<u32>)>,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplicitHost {
    /// Its name.
    pub name: String,
    /// Its switch, an index into [`Explicit::switches`].
    pub switch: usize,
    /// From the host.
    pub up: LinkSpec,
    /// To the host.
    pub down: LinkSpec,
}

/// A cable between two switches, indices into [`Explicit::switches`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplicitCable {
    /// One end.
    pub a: usize,
    /// The other end.
    pub b: usize,
    /// From `a` to `b`.
    pub a_to_b: LinkSpec,
    /// From `b` to `a`.
    pub b_to_a: LinkSpec,
}

impl Explicit {
    /// How large the graph will be.
    pub fn size(&self) -> Size {
        let mut edges: Vec<usize> = self.hosts.iter().map(|host| host.switch).collect();
        edges.sort_unstable();
        edges.dedup();
        let (hosts, switches) = (self.hosts.len() as u64, self.switches.len() as u64);
        Size::new(hosts, switches, edges.len() as u64, self.cables.len() as u64).unlike()
    }
    /// The graph.
    pub fn build(&self, common: Common) -> Graph {
        let mut builder = Builder { switches: self.switches.clone(), ..Builder::default() };
        for host in &self.hosts {
            builder.host_with(host.name.clone(), host.switch, host.up, host.down);
        }
        for &ExplicitCable { a, b, a_to_b, b_to_a } in &self.cables {
            builder.cable_with(a, b, a_to_b, b_to_a);
        }
        for (name, members) in &self.groups {
            builder.groups.insert(name.clone(), members.iter().copied().map(MachineId).collect());
        }
        builder.finish(common)
    }
}
