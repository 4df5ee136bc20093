//! Output ports: a queue discipline in front of a link.
//!
//! A switch's port takes a frame if its discipline admits it and hands it to the transmitter at once. A
//! host's port keeps what waits by class and is woken when the transmitter is free; see [`crate::queue`] for why.
//! The engine owns the tables and drives both: this file is only the data.

use crate::ids::{HostId, MeterId, Node};
use crate::link::Link;
use crate::queue::Queue;

/// An output port. Its id is also its link's.
#[derive(Debug)]
pub struct Port {
    pub(crate) link: Link,
    pub(crate) queue: Queue,
    /// What the link leads to.
    pub(crate) to: Node,
    /// The host that it is the interface of, if any.
    pub(crate) owner: Option<HostId>,
    /// Counts what arrives over the link.
    pub(crate) meter: Option<MeterId>,
    /// A [`crate::events::Event::Free`] is pending.
    pub(crate) waking: bool,
    /// Frames dropped.
    pub(crate) dropped: u64,
}

impl Port {
    /// The link behind the port.
    pub fn link(&self) -> &Link {
        &self.link
    }
    /// The size of the buffer; `None` where nothing is dropped.
    pub fn buffer(&self) -> Option<u64> {
        match &self.queue {
            Queue::DropTail(queue) => Some(queue.buffer()),
            Queue::RoundRobin(_) => None,
        }
    }
    /// How many frames it dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}
