//! [`Neighbour`]: an entry of a bridge's forwarding database.
//!
//! Entries of other databases (of a VXLAN interface, of an interface's own list of addresses) and the addresses of a
//! bridge's own ports are left out: no packet is forwarded to a guest by them.
//!
//! Worked example: `52:54:00:00:00:03 dev tap3 vlan 10 master br0` in `bridge fdb show`.
//!
//! Source: linux/neighbour.h; net/bridge/br_fdb.c fdb_fill_info().

use crate::netlink::{Message, NetlinkError, Reply, Socket, attribute, read_u16, read_u32};

/// struct ndmsg
const NDMSG: usize = 12;
const NDA_LLADDR: u16 = 2;
const NDA_VLAN: u16 = 5;
const NDA_MASTER: u16 = 9;
/// The state of addresses of the host itself.
const NUD_PERMANENT: u16 = 0x80;

/// A hardware address behind a bridge's port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Neighbour {
    pub(super) bridge: u32,
    /// 0 on a bridge that does not distinguish VLANs.
    pub(super) vlan: u16,
    pub(super) hardware: [u8; 6],
}

/// An entry, or its end, with the index of its port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) neighbour: Neighbour,
    pub(super) port: u32,
    pub(super) is_gone: bool,
}

impl Change {
    /// From a message about a neighbour of any family.
    pub(super) fn read(reply: &Reply) -> Option<Self> {
        let is_gone = match reply.kind {
            libc::RTM_NEWNEIGH => false,
            libc::RTM_DELNEIGH => true,
            _ => return None,
        };
        let (fixed, attributes) = reply.payload.split_at_checked(NDMSG)?;
        if i32::from(fixed[0]) != libc::AF_BRIDGE || read_u16(fixed, 8) & NUD_PERMANENT != 0 {
            return None;
        }
        let neighbour = Neighbour {
            bridge: read_u32(attribute(attributes, NDA_MASTER)?, 0),
            vlan: attribute(attributes, NDA_VLAN).map_or(0, |vlan| read_u16(vlan, 0)),
            hardware: attribute(attributes, NDA_LLADDR)?.try_into().ok()?,
        };
        Some(Self { neighbour, port: read_u32(fixed, 4), is_gone })
    }
}

/// All entries of all bridges of the socket's namespace.
pub(super) fn neighbours(socket: &mut Socket) -> Result<Vec<Change>, NetlinkError> {
    let mut fixed = [0; NDMSG];
    fixed[0] = libc::AF_BRIDGE as u8;
    let replies = socket.dump("list forwarding databases", Message::new(libc::RTM_GETNEIGH, 0, &fixed))?;
    Ok(replies.iter().filter_map(Change::read).collect())
}
