//! Parking lot: switches in a chain, each with hosts.
//!
//! A flow along the whole chain meets new traffic at every switch, so this topology shows fairness
//! over several bottlenecks. Example: 3 switches with 2 hosts each: `h0`, `h1` at `sw0`, … `h4`,
//! `h5` at `sw2`; the bottlenecks are `sw0->sw1` and `sw1->sw2`.

use super::{Builder, Common, Size};
use crate::graph::{Graph, LinkSpec};

/// A chain of switches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParkingLot {
    /// Switches, at least 2.
    pub switches: u32,
    /// Hosts of each switch, at least 1.
    pub hosts: u32,
    /// The hosts' links.
    pub host_link: LinkSpec,
    /// The links between neighbours.
    pub fabric_link: LinkSpec,
}

impl ParkingLot {
    /// How large the graph will be.
    pub fn size(&self) -> Size {
        let switches = u64::from(self.switches);
        Size::new(switches * u64::from(self.hosts), switches, switches, switches.saturating_sub(1)).unlike()
    }
    /// The graph.
    pub fn build(&self, common: Common) -> Graph {
        let mut builder = Builder::default();
        let first = builder.switches("sw", self.switches);
        let mut number = 0;
        for switch in 0..self.switches {
            for _ in 0..self.hosts {
                let host = builder.host(format!("h{number}"), first + switch as usize, self.host_link);
                builder.join(&format!("sw{switch}"), host);
                number += 1;
            }
        }
        for switch in 1..self.switches as usize {
            builder.cable(first + switch - 1, first + switch, self.fabric_link);
        }
        builder.finish(common)
    }
}
