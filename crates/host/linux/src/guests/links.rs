//! [`Link`]: an interface of the host as rtnetlink lists it, and the VLANs of bridges' ports.
//!
//! Worked example: `ip tuntap add tap3 mode tap; ip link set tap3 master br0` is a link of kind [`Kind::Guest`] with
//! the index of `br0` as its master.
//!
//! Source: linux/if_link.h, linux/if_bridge.h, linux/rtnetlink.h.

use crate::netlink::{Message, NetlinkError, Reply, Socket, attribute, attributes, read_u16, read_u32, text};
use std::collections::BTreeMap;

/// if_link.h
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_AF_SPEC: u16 = 26;
const IFLA_EXT_MASK: u16 = 29;
/// Inside IFLA_LINKINFO.
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
/// Inside IFLA_INFO_DATA of a VLAN and of a bridge.
const IFLA_VLAN_ID: u16 = 1;
const IFLA_BR_VLAN_FILTERING: u16 = 7;
/// Inside IFLA_AF_SPEC of a bridge's port: flags and the VLAN.
const IFLA_BRIDGE_VLAN_INFO: u16 = 2;
const BRIDGE_VLAN_INFO_PVID: u16 = 2;
/// rtnetlink.h: VLANs of ports; no statistics.
const RTEXT_FILTER_BRVLAN: u32 = 1 << 1;
const RTEXT_FILTER_SKIP_STATS: u32 = 1 << 3;
/// struct ifinfomsg
const IFINFOMSG: usize = 16;
/// if_arp.h
const ARPHRD_ETHER: u16 = 1;

/// The kinds of interfaces that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The host's end of a guest: tap, or veth.
    Guest,
    /// A bridge, and whether it distinguishes VLANs.
    Bridge {
        vlans: bool,
    },
    /// A VLAN of another interface.
    Vlan {
        id: u16,
        of: u32,
    },
    /// Several interfaces as one (bond, team).
    Bond,
    /// A tunnel of Ethernet frames (VXLAN, Geneve, GRE).
    Tunnel,
    Other,
}

/// An interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) index: u32,
    pub(super) name: String,
    pub(super) kind: Kind,
    /// The index of its bridge or bond.
    pub(super) master: Option<u32>,
    /// Of Ethernet.
    pub(super) hardware: Option<[u8; 6]>,
}

impl Link {
    /// From a message that describes an interface.
    pub(super) fn read(reply: &Reply) -> Option<Self> {
        if reply.kind != libc::RTM_NEWLINK {
            return None;
        }
        let attributes = reply.payload.get(IFINFOMSG..)?;
        let number = |kind| attribute(attributes, kind).map(|value| read_u32(value, 0));
        let is_ethernet = read_u16(&reply.payload, 2) == ARPHRD_ETHER;
        let hardware = attribute(attributes, IFLA_ADDRESS).and_then(|bytes| bytes.try_into().ok());
        Some(Self {
            index: read_u32(&reply.payload, 4),
            name: attribute(attributes, IFLA_IFNAME).map(text)?,
            kind: kind(attribute(attributes, IFLA_LINKINFO).unwrap_or_default(), is_ethernet, number(IFLA_LINK)),
            master: number(IFLA_MASTER),
            hardware: hardware.filter(|_| is_ethernet),
        })
    }
}

/// The index of an interface that has left the namespace, if the message is about that.
pub(super) fn departed(reply: &Reply) -> Option<u32> {
    // Bridges send the same message, with their family, about a port that leaves them.
    let is_interface = reply.kind == libc::RTM_DELLINK && reply.payload.len() >= IFINFOMSG && reply.payload[0] == 0;
    is_interface.then(|| read_u32(&reply.payload, 4))
}

fn kind(information: &[u8], is_ethernet: bool, lower: Option<u32>) -> Kind {
    let data = attribute(information, IFLA_INFO_DATA).unwrap_or_default();
    match attribute(information, IFLA_INFO_KIND).map(text).as_deref() {
        // A tun interface in the mode of IP packets is none of Ethernet.
        Some("tun" | "veth") if is_ethernet => Kind::Guest,
        Some("bridge") => {
            let vlans =
                attribute(data, IFLA_BR_VLAN_FILTERING).and_then(|value| value.first()).is_some_and(|on| *on != 0);
            Kind::Bridge { vlans }
        }
        Some("vlan") => match (attribute(data, IFLA_VLAN_ID), lower) {
            (Some(id), Some(of)) => Kind::Vlan { id: read_u16(id, 0), of },
            _ => Kind::Other,
        },
        Some("bond" | "team") => Kind::Bond,
        Some("vxlan" | "geneve" | "gretap" | "ip6gretap" | "erspan" | "ip6erspan") => Kind::Tunnel,
        _ => Kind::Other,
    }
}

/// All interfaces of the socket's namespace.
pub(super) fn links(socket: &mut Socket) -> Result<Vec<Link>, NetlinkError> {
    let request = Message::new(libc::RTM_GETLINK, 0, &[0; IFINFOMSG]);
    let request = request.attribute(IFLA_EXT_MASK, &RTEXT_FILTER_SKIP_STATS.to_ne_bytes());
    Ok(socket.dump("list links", request)?.iter().filter_map(Link::read).collect())
}

/// By the index of a bridge or of a bridge's port: the VLAN of its frames without a tag.
pub(super) fn untagged_vlans(socket: &mut Socket) -> Result<BTreeMap<u32, u16>, NetlinkError> {
    let mut fixed = [0; IFINFOMSG];
    fixed[0] = libc::AF_BRIDGE as u8;
    let request = Message::new(libc::RTM_GETLINK, 0, &fixed);
    let request = request.attribute(IFLA_EXT_MASK, &RTEXT_FILTER_BRVLAN.to_ne_bytes());
    let replies = socket.dump("list VLANs of bridges", request)?;
    let untagged = |reply: &Reply| {
        let specific = attribute(reply.payload.get(IFINFOMSG..)?, IFLA_AF_SPEC)?;
        let mut vlans = attributes(specific).filter(|(kind, _)| *kind == IFLA_BRIDGE_VLAN_INFO);
        let (_, info) = vlans.find(|(_, info)| read_u16(info, 0) & BRIDGE_VLAN_INFO_PVID != 0)?;
        Some((read_u32(&reply.payload, 4), read_u16(info, 2)))
    };
    Ok(replies.iter().filter_map(untagged).collect())
}
