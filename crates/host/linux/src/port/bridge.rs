//! [`bridge_ports`]: the ports of a Linux bridge.
//!
//! Source: linux/if_link.h, RTM_GETLINK; IFLA_MASTER is the index of the bridge, IFLA_IFALIAS what `ip link set swp1
//! alias …` wrote.

use super::PortError;
use crate::interface::Interface;
use crate::netlink::{Message, Socket, attribute, read_u32, text};

const IFINFOMSG: usize = 16;
const IFLA_IFNAME: u16 = 3;
const IFLA_MASTER: u16 = 10;
const IFLA_IFALIAS: u16 = 20;

/// A port of a bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BridgePort {
    /// The interface's name.
    pub interface: String,
    /// Its alias, a free text that operators set.
    pub alias: Option<String>,
}

/// The ports of a bridge of the calling thread's namespace, by name.
pub fn bridge_ports(bridge: &str) -> Result<Vec<BridgePort>, PortError> {
    let bridge = Interface::named(bridge)?;
    let replies = Socket::open()?.dump("list links", Message::new(libc::RTM_GETLINK, 0, &[0; IFINFOMSG]))?;
    let mut ports: Vec<BridgePort> = replies
        .iter()
        .filter_map(|reply| {
            let attributes = reply.payload.get(IFINFOMSG..)?;
            let master = attribute(attributes, IFLA_MASTER).map(|value| read_u32(value, 0));
            let interface = attribute(attributes, IFLA_IFNAME).map(text).filter(|_| master == Some(bridge.index()))?;
            Some(BridgePort { interface, alias: attribute(attributes, IFLA_IFALIAS).map(text) })
        })
        .collect();
    ports.sort_by(|a, b| a.interface.cmp(&b.interface));
    Ok(ports)
}
