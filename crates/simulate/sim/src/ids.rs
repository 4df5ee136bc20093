//! Ids of the objects of a simulated world: small integers, indices into its tables.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index into its table.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// A host.
    HostId
);
id!(
    /// A switch.
    SwitchId
);
id!(
    /// An output port and the link behind it.
    PortId
);
id!(
    /// A transport connection.
    FlowId
);
id!(
    /// A packet in the arena; valid until the packet is delivered or dropped.
    PacketId
);
id!(
    /// A limiter of a host's service towards one destination.
    SlotId
);
id!(
    /// Per-service byte counters that one or more ports add to.
    MeterId
);

id!(
    /// An agent at a port.
    AgentId
);

impl PacketId {
    /// No packet: the end of a list.
    pub const NONE: Self = Self(u32::MAX);
}

/// The index of a service at the hosts, or the one more of control traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceIndex(pub u16);

impl ServiceIndex {
    /// The index as a number.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The node at the far end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// A host.
    Host(HostId),
    /// A switch.
    Switch(SwitchId),
}

impl Node {
    /// The switch; `None` for a host.
    pub fn switch(self) -> Option<SwitchId> {
        match self {
            Self::Switch(switch) => Some(switch),
            Self::Host(_) => None,
        }
    }
}

/// A [`Node`] in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End(u32);

/// Marks the word as a host.
const HOST: u32 = 1 << 31;

impl End {
    /// Of a packet that is on no link yet.
    pub(crate) const NOWHERE: Self = Self(u32::MAX);

    #[inline]
    pub(crate) fn node(self) -> Node {
        if self.0 & HOST == 0 { Node::Switch(SwitchId(self.0)) } else { Node::Host(HostId(self.0 & !HOST)) }
    }
}

impl From<Node> for End {
    fn from(node: Node) -> Self {
        match node {
            Node::Host(HostId(host)) => Self(HOST | host),
            Node::Switch(SwitchId(switch)) => Self(switch),
        }
    }
}
