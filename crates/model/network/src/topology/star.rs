//! Star: hosts around one switch.
//!
//! The smallest network in which several senders meet at one receiver's link: incast, priorities,
//! fair queueing. Example: 3 hosts `h0`, `h1`, `h2`; traffic to `h0` crosses `switch->h0`.

use super::{Builder, Common, Size};
use crate::graph::{Graph, LinkSpec};

/// One switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Star {
    /// Hosts, at least 2.
    pub hosts: u32,
    /// Their links.
    pub host_link: LinkSpec,
}

impl Star {
    /// How large the graph will be.
    pub fn size(&self) -> Size {
        Size::new(u64::from(self.hosts), 1, 1, 0)
    }
    /// The graph.
    pub fn build(&self, common: Common) -> Graph {
        let mut builder = Builder::default();
        let switch = builder.switch("switch");
        for i in 0..self.hosts {
            builder.host(format!("h{i}"), switch, self.host_link);
        }
        builder.finish(common)
    }
}
