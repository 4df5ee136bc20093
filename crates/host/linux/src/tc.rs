//! Qdiscs as the kernel lists them, and the "host as found" rule.
//!
//! Problem: shaping replaces the root qdisc of an interface; what an operator (or another program) has put
//! there must not be lost. Approach: qdiscs that the kernel makes by itself have handle `0:` and come back
//! when ours is deleted; everything else was put there on purpose and is refused unless forced.
//!
//! Worked example: `mq 0: root` with `pfifo_fast 0:` below is the kernel's; `fq 8001: root` is
//! foreign.
//!
//! Source: linux/pkt_sched.h; net/sched/sch_generic.c attach_default_qdiscs().

use crate::interface::Interface;
use crate::netlink::{Message, NetlinkError, Socket, attribute, read_u32, text};
use std::fmt;

/// The size of tcmsg: family and padding, interface, handle, parent, info.
pub const TCMSG: usize = 20;
/// The parent of a root qdisc.
pub const TC_H_ROOT: u32 = u32::MAX;
pub(crate) const TC_H_CLSACT: u32 = 0xffff_fff1;
/// Where filters of clsact are attached: to arriving packets, and to departing ones.
pub(crate) const TC_H_INGRESS: u32 = 0xffff_fff2;
pub(crate) const TC_H_EGRESS: u32 = 0xffff_fff3;
/// The handle of ingress and clsact, each of which is attached beside the root.
const CLSACT_HANDLE: u32 = 0xffff_0000;
/// The attribute that names the kind of a qdisc, class or filter.
pub const TCA_KIND: u16 = 1;
/// The attribute that holds the options of its kind.
pub const TCA_OPTIONS: u16 = 2;
pub(crate) const TCA_STATS2: u16 = 7;
/// Inside TCA_OPTIONS of a BPF filter.
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_ID: u16 = 11;
/// Inside TCA_STATS2: the queue's counters.
pub(crate) const TCA_STATS_QUEUE: u16 = 3;

/// The fixed part of a request about qdiscs and classes.
pub fn tcmsg(interface: u32, handle: u32, parent: u32) -> Vec<u8> {
    tcmsg_with(interface, handle, parent, 0)
}

/// For filters `info` is the priority in the upper half and the protocol below.
fn tcmsg_with(interface: u32, handle: u32, parent: u32, info: u32) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    for word in [interface, handle, parent, info] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes
}

/// A qdisc of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qdisc {
    /// `htb`, `pfifo_fast`, ...
    pub kind: String,
    /// Major number in the upper half; 0 when the kernel made it by itself.
    pub handle: u32,
    /// The class that it is attached to, `u32::MAX` for the root.
    pub parent: u32,
}

impl Qdisc {
    /// Whether it is the root qdisc.
    pub fn is_root(&self) -> bool {
        self.parent == TC_H_ROOT
    }
}

impl fmt::Display for Qdisc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:x}:", self.kind, self.handle >> 16)
    }
}

/// All qdiscs of an interface.
pub fn qdiscs(socket: &mut Socket, interface: u32) -> Result<Vec<Qdisc>, NetlinkError> {
    let request = Message::new(libc::RTM_GETQDISC, 0, &tcmsg(interface, 0, 0));
    let replies = socket.dump("list qdiscs", request)?;
    Ok(replies
        .iter()
        .filter(|reply| reply.kind == libc::RTM_NEWQDISC && reply.payload.len() >= TCMSG)
        // Kernels list the qdiscs of all interfaces, whatever interface the request names.
        .filter(|reply| read_u32(&reply.payload, 4) == interface)
        .map(|reply| Qdisc {
            kind: attribute(&reply.payload[TCMSG..], TCA_KIND).map(text).unwrap_or_default(),
            handle: read_u32(&reply.payload, 8),
            parent: read_u32(&reply.payload, 12),
        })
        .collect())
}

/// The kinds of qdiscs that Weir puts at a root: of the two backends, and of departure times beside latency levels.
const OURS: [&str; 3] = ["htb", "fq", "prio"];

/// An interface has a qdisc that neither the kernel nor Weir made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{interface} has the qdisc {found}, which the kernel did not put there; \
     delete it (tc qdisc del dev {interface} root) or force its replacement"
)]
pub struct ForeignQdisc {
    /// The interface.
    pub interface: String,
    /// The qdisc that was found.
    pub found: Qdisc,
}

/// The root qdisc before Weir.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// The kernel's default, which the kernel restores.
    Default(String),
    /// Our own, from an agent that was killed.
    Leftover,
    /// Our own, from an agent that was killed and had another backend, or levels where there are none or the other way
    /// round.
    OtherBackend,
    /// A qdisc that neither the kernel nor Weir made.
    Foreign(Qdisc),
}

/// Judges the qdiscs of an interface; `ours` is the handle that Weir uses, `kind` that of the backend at hand.
pub fn found(qdiscs: &[Qdisc], ours: u32, kind: &str) -> Found {
    let root = qdiscs.iter().find(|qdisc| qdisc.is_root());
    match root {
        Some(root) if root.handle == ours && root.kind == kind => Found::Leftover,
        Some(root) if root.handle == ours && OURS.contains(&root.kind.as_str()) => Found::OtherBackend,
        Some(root) if root.handle != 0 => Found::Foreign(root.clone()),
        // mq's children can be replaced while mq itself stays the kernel's.
        _ => match qdiscs.iter().find(|q| !q.is_root() && q.handle != 0 && q.handle != CLSACT_HANDLE) {
            Some(child) => Found::Foreign(child.clone()),
            None => Found::Default(root.map(|root| root.kind.clone()).unwrap_or_default()),
        },
    }
}

/// An error if a foreign qdisc would be replaced and `force` is not set.
pub(crate) fn may_replace(interface: &Interface, found: &Found, force: bool) -> Result<(), ForeignQdisc> {
    match found {
        Found::Foreign(found) if !force => {
            Err(ForeignQdisc { interface: interface.name().into(), found: found.clone() })
        }
        _ => Ok(()),
    }
}

/// Whether the qdisc at an interface's root is of this handle and kind. The function lists all
/// qdiscs: the kernel multicasts the reply to a request for a single qdisc to every listener of the
/// host, instead of sending it to the requesting socket.
pub(crate) fn is_at_root(socket: &mut Socket, interface: u32, handle: u32, kind: &str) -> Result<bool, NetlinkError> {
    let ours = |qdisc: &Qdisc| qdisc.is_root() && qdisc.handle == handle && qdisc.kind == kind;
    Ok(qdiscs(socket, interface)?.iter().any(ours))
}

/// Deletes our qdisc at an interface's root; the kernel puts its default back.
pub fn delete_root(socket: &mut Socket, interface: u32, handle: u32) -> Result<(), NetlinkError> {
    let request = Message::new(libc::RTM_DELQDISC, 0, &tcmsg(interface, handle, TC_H_ROOT));
    match socket.request("remove the qdisc at the root", vec![request]) {
        // Nothing is left of ours.
        Err(error) if is_gone(&error) => Ok(()),
        result => result,
    }
}

/// Adds clsact; false when it (or ingress) is there already.
pub(crate) fn add_clsact(socket: &mut Socket, interface: u32) -> Result<bool, NetlinkError> {
    let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let request =
        Message::new(libc::RTM_NEWQDISC, flags, &tcmsg(interface, CLSACT_HANDLE, TC_H_CLSACT)).text(TCA_KIND, "clsact");
    match socket.request("add clsact", vec![request]) {
        Ok(()) => Ok(true),
        Err(error) if error.errno() == Some(libc::EEXIST) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the qdisc `ingress` is attached beside the root: it takes no programs for departing packets.
pub(crate) fn has_ingress(socket: &mut Socket, interface: u32) -> Result<bool, NetlinkError> {
    let is_it = |qdisc: &Qdisc| qdisc.handle == CLSACT_HANDLE && qdisc.kind == "ingress";
    Ok(qdiscs(socket, interface)?.iter().any(is_it))
}

/// The filters that are attached to `parent`, each with its tcmsg and attributes. None where there is no
/// such interface or qdisc.
fn filters(socket: &mut Socket, interface: u32, parent: u32) -> Result<Vec<Vec<u8>>, NetlinkError> {
    let request = Message::new(libc::RTM_GETTFILTER, 0, &tcmsg(interface, 0, parent));
    let replies = socket.dump("list filters", request)?.into_iter();
    let filters = replies.filter(|reply| reply.kind == libc::RTM_NEWTFILTER && reply.payload.len() >= TCMSG);
    Ok(filters.map(|reply| reply.payload).collect())
}

/// A filter's position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) handle: u32,
    /// The priority in the upper half and the protocol below.
    info: u32,
}

impl Filter {
    /// Filters of lower numbers process a packet first.
    pub(crate) fn priority(self) -> u16 {
        (self.info >> 16) as u16
    }
}

/// The BPF filters `name` at `parent`.
pub(crate) fn filters_named(
    socket: &mut Socket,
    interface: u32,
    parent: u32,
    name: &str,
) -> Result<Vec<Filter>, NetlinkError> {
    let named = |attributes: &[u8]| {
        let options = attribute(attributes, TCA_OPTIONS).unwrap_or_default();
        attribute(attributes, TCA_KIND).map(text).as_deref() == Some("bpf")
            && attribute(options, TCA_BPF_NAME).map(text).as_deref() == Some(name)
    };
    let all = filters(socket, interface, parent)?.into_iter().filter(|filter| named(&filter[TCMSG..]));
    Ok(all.map(|filter| Filter { handle: read_u32(&filter, 8), info: read_u32(&filter, 16) }).collect())
}

/// The id of the program of a BPF filter `name` at `parent`, if there is one with this handle.
pub(crate) fn program_of_filter(
    socket: &mut Socket,
    interface: u32,
    parent: u32,
    (name, handle): (&str, u32),
) -> Result<Option<u32>, NetlinkError> {
    let all = filters(socket, interface, parent)?;
    Ok(all.iter().find_map(|filter| {
        let options = attribute(&filter[TCMSG..], TCA_OPTIONS)?;
        let is_it =
            attribute(options, TCA_BPF_NAME).map(text).as_deref() == Some(name) && read_u32(filter, 8) == handle;
        attribute(options, TCA_BPF_ID).filter(|_| is_it).map(|id| read_u32(id, 0))
    }))
}

/// Deletes a BPF filter at `parent`; whether it was there.
pub(crate) fn delete_filter(
    socket: &mut Socket,
    interface: u32,
    parent: u32,
    filter: Filter,
) -> Result<bool, NetlinkError> {
    let place = tcmsg_with(interface, filter.handle, parent, filter.info);
    let request = Message::new(libc::RTM_DELTFILTER, 0, &place).text(TCA_KIND, "bpf");
    match socket.request("delete a filter", vec![request]) {
        Ok(()) => Ok(true),
        Err(error) if is_gone(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The interface, or what hung there with it, is gone.
fn is_gone(error: &NetlinkError) -> bool {
    matches!(error.errno(), Some(libc::ENODEV | libc::ENOENT))
}

/// Deletes clsact, unless foreign filters are attached to it, which would be deleted with it. The
/// caller deletes our own filters first. The kernel has no request to delete clsact only if it is
/// empty: a filter that is added at the same moment is deleted, too.
pub(crate) fn delete_clsact(socket: &mut Socket, interface: u32) -> Result<(), NetlinkError> {
    for parent in [TC_H_INGRESS, TC_H_EGRESS] {
        if !filters(socket, interface, parent)?.is_empty() {
            return Ok(());
        }
    }
    let request = Message::new(libc::RTM_DELQDISC, 0, &tcmsg(interface, CLSACT_HANDLE, TC_H_CLSACT));
    match socket.request("delete clsact", vec![request]) {
        // Nothing is left of ours.
        Err(error) if is_gone(&error) => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qdisc(kind: &str, major: u32, parent: u32) -> Qdisc {
        Qdisc { kind: kind.into(), handle: major << 16, parent }
    }

    #[test]
    fn owner_of_a_root_qdisc_is_identified() {
        let ours = 0x7765 << 16;
        let judge = |qdiscs: &[Qdisc]| found(qdiscs, ours, "htb");
        assert_eq!(judge(&[]), Found::Default(String::new()));
        assert_eq!(judge(&[qdisc("noqueue", 0, TC_H_ROOT)]), Found::Default("noqueue".into()));
        let clsact = qdisc("clsact", 0xffff, TC_H_CLSACT);
        let mq = [qdisc("mq", 0, TC_H_ROOT), qdisc("fq_codel", 0, 1), qdisc("fq_codel", 0, 2), clsact];
        assert_eq!(judge(&mq), Found::Default("mq".into()));
        let fq = qdisc("fq", 0x8001, 1);
        assert_eq!(judge(&[qdisc("mq", 0, TC_H_ROOT), fq.clone()]), Found::Foreign(fq));
        assert_eq!(judge(&[qdisc("htb", 0x7765, TC_H_ROOT), qdisc("bfifo", 0x10, 0x7765_0010)]), Found::Leftover);
        assert_eq!(judge(&[qdisc("fq", 0x7765, TC_H_ROOT)]), Found::OtherBackend);
        let other = qdisc("htb", 1, TC_H_ROOT);
        assert_eq!(judge(std::slice::from_ref(&other)), Found::Foreign(other.clone()));
        assert_eq!(other.to_string(), "htb 1:");
    }
}
