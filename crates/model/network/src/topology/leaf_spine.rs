//! Leaf-spine: every rack's leaf switch has a cable to every spine switch.
//!
//! Oversubscription is the sending rate of a leaf's hosts, divided by the rate of its uplinks: 16
//! hosts of 10 Gb/s behind 4 uplinks of 40 Gb/s are not oversubscribed (1), behind 4 of 10 Gb/s
//! four times.
//!
//! Example: 9 racks of 16 hosts and 4 spines: `h0` to `h15` at `leaf0`, 36 cables such as
//! `leaf0<->spine3`.
//!
//! Source: Alizadeh and Edsall, "On the data path performance of leaf-spine datacenter fabrics"
//! (HotI 2013).

use super::{Builder, Common, Size};
use crate::graph::{Graph, LinkSpec};

/// Two layers of switches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafSpine {
    /// Racks, at least 1.
    pub racks: u32,
    /// Hosts of each rack, at least 1.
    pub hosts: u32,
    /// Spine switches, at least 1.
    pub spines: u32,
    /// The hosts' links.
    pub host_link: LinkSpec,
    /// The links between leaves and spines.
    pub fabric_link: LinkSpec,
}

impl LeafSpine {
    /// How large the graph will be.
    pub fn size(&self) -> Size {
        let (racks, spines) = (u64::from(self.racks), u64::from(self.spines));
        Size::new(racks * u64::from(self.hosts), racks + spines, racks, racks * spines)
    }
    /// The graph: hosts, switches and cables numbered rack by rack.
    pub fn build(&self, common: Common) -> Graph {
        let mut builder = Builder::default();
        let leaves = builder.switches("leaf", self.racks);
        let spines = builder.switches("spine", self.spines);
        let mut number = 0;
        for rack in 0..self.racks {
            let leaf = leaves + rack as usize;
            for _ in 0..self.hosts {
                let host = builder.host(format!("h{number}"), leaf, self.host_link);
                builder.join(&format!("leaf{rack}"), host);
                builder.join(&format!("rack{rack}"), host);
                number += 1;
            }
            for spine in 0..self.spines as usize {
                builder.cable(leaf, spines + spine, self.fabric_link);
            }
        }
        builder.finish(common)
    }
}
