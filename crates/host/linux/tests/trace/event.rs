//! What happens to a host in a trace: packets, ticks, and writes of the agent, with their times.

use crate::common::frames::words;
use std::net::IpAddr;
use weir_datapath::Address;
use weir_datapath::abi::{self, DestinationKey, Interface, LevelRules, Sending, Service};

/// One event.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) number: u64,
    /// ns of the monotonic clock.
    pub(crate) at: u64,
    pub(crate) kind: Kind,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// A packet at weir_egress.
    Leaves(Frame),
    /// A packet at weir_ingress.
    Arrives(Frame),
    /// What an expiry of the timer runs.
    Tick,
    /// A write of the agent.
    Control(Box<Control>),
}

/// What a packet is, by which the trace counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Content {
    /// Of the service with this slot, or of none ([`crate::setup::SERVICES`]).
    Data(u32),
    /// Feedback in order.
    Feedback,
    /// The same sequence number again.
    Replayed,
    /// With a wrong tag.
    Forged,
    EcnCapability,
    /// At the control port, of no known kind; or a tenant's in the form of control traffic.
    Foreign,
    /// Without an IP header.
    NotIp,
}

/// A packet with the fields of its socket buffer.
#[derive(Clone)]
pub(crate) struct Frame {
    pub(crate) content: Content,
    pub(crate) bytes: Vec<u8>,
    /// Bytes on the wire, with the headers of all segments; only where it leaves.
    pub(crate) wire_len: u32,
    pub(crate) gso_size: u32,
    pub(crate) gso_segs: u32,
    /// The content of a control message, which can be forged.
    pub(crate) message: Option<abi::Feedback>,
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { content, bytes, wire_len, gso_size, gso_segs, message } = self;
        if let Some(message) = message {
            write!(f, "{message:?} ")?;
        }
        write!(f, "{content:?}, wire_len {wire_len}, gso {gso_size} x {gso_segs}, {} bytes ", bytes.len())?;
        bytes.iter().take(80).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Frame {
    /// The addresses of its source and its destination, without a VLAN tag; `None` if it is not IP.
    pub(crate) fn ends(&self) -> Option<(Address, Address)> {
        let (first, length) = match self.bytes.get(12..14)? {
            [0x08, 0x00] => (26, 4),
            [0x86, 0xdd] => (22, 16),
            _ => return None,
        };
        let address = |from: usize| {
            let octets = &self.bytes[from..from + length];
            let address = match <[u8; 4]>::try_from(octets) {
                Ok(octets) => octets.into(),
                Err(_) => IpAddr::from(<[u8; 16]>::try_from(octets).expect("sixteen octets")),
            };
            words(address)
        };
        Some((address(first), address(first + length)))
    }
}

/// A write of the agent.
#[derive(Debug, Clone)]
pub(crate) enum Control {
    /// The heartbeat, with the event's time.
    Heartbeat,
    /// A service's configuration.
    Service { slot: u32, service: Service },
    /// A service's limits where it sends.
    Sending { slot: u32, sending: Sending },
    /// A side of the interface.
    Interface { side: u32, interface: Interface },
    /// The rules of the only level.
    Level(LevelRules),
    /// Removes a destination, if it is known, and frees its slot.
    Free(DestinationKey),
    /// Sets the HTB class of a destination, if it is known; 0: its service's.
    Class { destination: DestinationKey, class: u32 },
    /// Marks a pair of hosts with credits as idle, if it is known.
    Idle { source: Address, destination: Address, service: u32 },
}
