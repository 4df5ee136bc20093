//! Dumbbell: senders on the left, receivers on the right, and one cable between the two switches.
//!
//! Every flow from a sender to a receiver crosses the same bottleneck, so this topology shows
//! congestion control: fairness, queue, sawtooth. Example: 2 pairs make hosts `s0`, `s1`, `r0`,
//! `r1` and the bottleneck `left->right`.

use super::{Builder, Common, Size};
use crate::graph::{Graph, LinkSpec};

/// Pairs of hosts around one cable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dumbbell {
    /// Hosts on each side, at least 1.
    pub pairs: u32,
    /// The hosts' links.
    pub host_link: LinkSpec,
    /// The link between the switches.
    pub fabric_link: LinkSpec,
}

impl Dumbbell {
    /// How large the graph will be.
    pub fn size(&self) -> Size {
        Size::new(2 * u64::from(self.pairs), 2, 2, 1)
    }
    /// The graph: senders first.
    pub fn build(&self, common: Common) -> Graph {
        let mut builder = Builder::default();
        let (left, right) = (builder.switch("left"), builder.switch("right"));
        for (name, group, switch) in [("s", "senders", left), ("r", "receivers", right)] {
            for i in 0..self.pairs {
                let host = builder.host(format!("{name}{i}"), switch, self.host_link);
                builder.join(group, host);
            }
        }
        builder.cable(left, right, self.fabric_link);
        builder.finish(common)
    }
}
