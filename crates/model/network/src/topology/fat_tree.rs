//! Fat-tree: three layers of equal switches with k ports each.
//!
//! k pods of k/2 edge and k/2 aggregation switches; every edge switch has k/2 hosts and a cable to
//! every aggregation switch of its pod; the i-th aggregation switch of every pod has a cable to the
//! core switches i·k/2 … (i+1)·k/2 − 1. With equal links everywhere it carries any traffic that the
//! hosts can send (rearrangeably non-blocking).
//!
//! With fewer core switches than (k/2)² a pod has as many links upward as there are core switches. They are spread over
//! its aggregation switches in turn, so that no two aggregation switches differ by more than one of them. A pod may
//! have fewer than k/2 aggregation switches; its edge switches then have fewer links upward.
//!
//! Example: k = 4: 16 hosts, 8 edge, 8 aggregation and 4 core switches, 32 cables; k = 160 has
//! 1,024,000 hosts.
//!
//! Source: Al-Fares, Loukissas and Vahdat, "A scalable, commodity data center network architecture"
//! (SIGCOMM 2008), §3.

use super::{Builder, Common, Size};
use crate::graph::{Graph, LinkSpec};

/// Three layers of switches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FatTree {
    /// Ports of a switch: even, at least 2.
    pub k: u32,
    /// Core switches: 1 to (k/2)².
    pub cores: u32,
    /// Aggregation switches of a pod: 1 to k/2.
    pub aggregations: u32,
    /// The hosts' links.
    pub host_link: LinkSpec,
    /// The links between switches.
    pub fabric_link: LinkSpec,
}

impl FatTree {
    /// The core switches of a complete fat-tree with k-port switches.
    pub const fn all_cores(k: u32) -> u32 {
        (k / 2) * (k / 2)
    }
    /// How large the graph will be.
    pub fn size(&self) -> Size {
        let (k, half) = (u64::from(self.k), u64::from(self.k / 2));
        let (hosts, cores, aggregations) = (k * half * half, u64::from(self.cores), u64::from(self.aggregations));
        // A cable from every edge switch to every aggregation switch of its pod, and one of each pod for each core.
        let cables = k * half * aggregations + k * cores;
        let size = Size::new(hosts, k * half + k * aggregations + cores, k * half, cables);
        if cores % aggregations == 0 { size } else { size.unlike() }
    }
    /// The graph: hosts and switches numbered pod by pod.
    pub fn build(&self, common: Common) -> Graph {
        let half = self.k / 2;
        let mut builder = Builder::default();
        let edges = builder.switches("edge", self.k * half);
        let aggregations = builder.switches("agg", self.k * self.aggregations);
        let cores = builder.switches("core", self.cores);
        let mut number = 0;
        for pod in 0..self.k {
            for e in 0..half {
                let edge = pod * half + e;
                for _ in 0..half {
                    let host = builder.host(format!("h{number}"), edges + edge as usize, self.host_link);
                    builder.join(&format!("edge{edge}"), host);
                    builder.join(&format!("pod{pod}"), host);
                    number += 1;
                }
                for a in 0..self.aggregations {
                    let aggregation = aggregations + (pod * self.aggregations + a) as usize;
                    builder.cable(edges + edge as usize, aggregation, self.fabric_link);
                }
            }
            let mut core = cores;
            for a in 0..self.aggregations {
                for _ in 0..self.cores / self.aggregations + u32::from(a < self.cores % self.aggregations) {
                    builder.cable(aggregations + (pod * self.aggregations + a) as usize, core, self.fabric_link);
                    core += 1;
                }
            }
        }
        builder.finish(common)
    }
}
