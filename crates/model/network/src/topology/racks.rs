//! The graph of a network that is given by its racks: a leaf-spine with these racks, machines and speeds.
//!
//! Every rack is a leaf switch with its machines below it and a cable to every spine. A machine's
//! links run at its interface's speeds; a rack's uplink speed is divided evenly over the spines,
//! the remainder in bit/s going to the first ones, so that the sum is exact. Host i is machine i of
//! the network.
//!
//! Spines are `spine0`, `spine1`, …; if a rack or a machine has such a name, they are `spine-0`, `spine-1`, …, with as
//! many dashes as their names need to be their own.
//!
//! Example: 2 racks with 10 machines of 10 Gb/s and uplinks of 80 Gb/s, 2 spines: 4 switches, 20
//! hosts, 4 cables of 40 Gb/s (Parley Fig 11 has nine such racks).
//!
//! Source: Parley §6 (Fig 11).

use super::{Builder, Common, Size, part};
use crate::graph::{Graph, LinkSpec, Packets, QueueSpec, Routing};
use crate::network::Network;
use std::collections::HashSet;
use weir_units::{Bytes, Direction, Duration};

/// Ethernet's header: two addresses and a type (IEEE 802.3). The mtu is the payload behind it.
const ETHERNET_HEADER: u64 = 14;
/// IPv4 (20 bytes, RFC 791) and TCP with time stamps (32 bytes, RFC 9293 and 7323), inside the mtu.
const INSIDE_MTU: u64 = 52;

/// Properties of links and ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Links {
    /// One-way propagation delay of each link.
    pub delay: Duration,
    /// The queue of each switch port; its buffer holds at least one packet.
    pub queue: QueueSpec,
    /// The largest IP packet, headers included.
    pub mtu: Bytes,
    /// Spine switches; a rack's uplink speed is divided evenly over them.
    pub spines: u32,
}

impl Default for Links {
    /// 10 µs, drop-tail with 256 kB, 1500 B, one spine.
    fn default() -> Self {
        Self { delay: Duration::from_micros(10), queue: QueueSpec::default(), mtu: Bytes::new(1500), spines: 1 }
    }
}

/// The first of `spine`, `spine-`, `spine--`, … of which no rack and no machine has the name with a number below
/// `count`: two switches of one name would have links of one name.
fn spine_prefix(network: &Network, count: u32) -> String {
    let racks = network.racks().iter().map(|rack| rack.name());
    let names = racks.chain(network.machines().iter().map(|machine| machine.name()));
    let taken: HashSet<&str> = names.filter(|name| name.starts_with("spine")).collect();
    let mut prefix = "spine".to_owned();
    while (0..count).any(|i| taken.contains(&*format!("{prefix}{i}"))) {
        prefix.push('-');
    }
    prefix
}

/// How large the graph of a network given by its racks will be.
pub fn racks_size(network: &Network, links: &Links) -> Size {
    let (racks, spines) = (network.racks().len() as u64, u64::from(links.spines));
    Size::new(network.machines().len() as u64, racks + spines, racks, racks * spines)
}

/// The graph of a network given by its racks.
pub fn from_racks(network: &Network, links: &Links, routing: Routing) -> Graph {
    let mut builder = Builder::default();
    // A buffer that just holds the largest IP packet holds its frame.
    let buffer = Bytes::new(links.queue.buffer.get().max(links.mtu.get() + ETHERNET_HEADER));
    let queue = QueueSpec { buffer, ..links.queue };
    let link = |rate| LinkSpec { rate, delay: links.delay, queue };
    for rack in network.racks() {
        builder.switch(rack.name());
    }
    let spines = builder.switches(&spine_prefix(network, links.spines), links.spines);
    for machine in network.machines() {
        let (nic, rack) = (machine.nic(), machine.rack());
        let host = builder.host_with(machine.name().to_owned(), rack.index(), link(nic.tx), link(nic.rx));
        builder.join(network.rack(rack).name(), host);
    }
    for (leaf, rack) in network.racks().iter().enumerate() {
        for index in 0..links.spines {
            let rate = |direction| part(rack.uplink()[direction], links.spines, index);
            let (up, down) = (link(rate(Direction::Tx)), link(rate(Direction::Rx)));
            builder.cable_with(leaf, spines + index as usize, up, down);
        }
    }
    let packets = Packets {
        payload: links.mtu.get().saturating_sub(INSIDE_MTU) as u32,
        headers: (ETHERNET_HEADER + INSIDE_MTU) as u32,
    };
    // Under a policy the backend chooses the noise, as for the lab.
    builder.finish(Common { routing, packets, shared_buffer: None, jitter: Duration::ZERO })
}
