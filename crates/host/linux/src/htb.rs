//! [`HtbTree`]: the shaper of an interface, one HTB class for each service.
//!
//! Problem: limit every service, limit every destination to the rate that its receiver advertises,
//! guarantee each service its rate, change all that every few hundred microseconds, and leave the
//! host in its original state. Approach: a root class at the interface's rate; in it one class per
//! service, which has leaves: one for each destination with a rate below the service's, one for all
//! others. Beside them a leaf per service with the static policy's rates, for when no agent is
//! alive, one for unclassified traffic (guaranteed [`DEFAULT_SHARE`], limited by nothing), and one
//! for control traffic, which precedes all others: behind a tenant's flood, feedback would arrive
//! late or never, and the receiver could not limit its senders. The BPF program chooses the
//! leaf; this module only sets numbers, in one netlink batch per change. Only classes whose numbers
//! differ are sent.
//!
//! Life: [`HtbTree::install`], then [`HtbTree::set`] as often as wanted, then [`HtbTree::remove`]
//! (or drop), or [`HtbTree::keep`] and drop. A killed agent leaves the tree behind with its last
//! rates; the next `install` adopts it without a gap.
//!
//! ```text
//! 7765: htb root, default 2
//!   7765:1     rate = ceil = the interface
//!     7765:2       unclassified: rate 1 % of the interface, ceil the interface
//!     7765:3       control traffic: the same, before all others but levels
//!     7765:4       latency level 1, before all; 7765:5 level 2 ...; each leaf with a tbf
//!     7765:10      the service of slot 0; 7765:11 of slot 1 ...
//!       7765:1000    its packets to all destinations that have no class of their own
//!       7765:3005    its packets to the destination of slot 5
//!     7765:2000    its packets while no agent is alive          all other leaves with a bfifo
//! ```
//!
//! On a NIC with several transmit queues the tree replaces `mq`: one lock for all queues.
//!
//! Source: net/sched/sch_htb.c; Parley §3.2 (root rate limiters per service).

use crate::class::{self, Class, ClassSpec, RATE_MIN, Sending, queue_message};
use crate::credits::is_gate;
use crate::interface::{Interface, InterfaceError};
use crate::netlink::{Message, NetlinkError, Reply, Socket, attribute, read_u32, read_u64};
use crate::tc::{self, ForeignQdisc, Found, Qdisc, TC_H_ROOT, TCA_KIND, TCA_OPTIONS, TCA_STATS2, TCMSG, tcmsg};
use std::collections::BTreeMap;
use weir_datapath::abi::LEVELS_MAX;
use weir_shaping::LevelLimits;
use weir_units::{Bandwidth, Bytes, Weight};

/// The major number of our qdisc: `we` in ASCII, unlikely to be chosen by accident.
pub const MAJOR: u16 = 0x7765;
/// The minor number of the class that all others share.
pub(crate) const ROOT_MINOR: u16 = 1;
/// The minor number of the class of unclassified traffic.
pub const DEFAULT_MINOR: u16 = 2;
/// The minor number of the class of control traffic: feedback and rack datagrams.
pub const CONTROL_MINOR: u16 = 3;
/// The minor number of the class of latency level 1; the other levels follow.
pub const LEVEL_FIRST: u16 = 4;
const _: () = assert!(LEVEL_FIRST as u32 + LEVELS_MAX <= FIRST_MINOR as u32);
/// The guarantee of unclassified and of control traffic: the interface's rate divided by this, at
/// least [`RATE_MIN`].
///
/// ARP and ssh are unclassified. Services' guarantees may add up to the whole interface, and HTB
/// serves guarantees first. Without a guarantee of its own, an operator's ssh session would wait
/// behind the services, and control traffic would wait behind the services that it limits.
/// Feedback is 98 bytes for about each 10 kB received, 1 % of the received traffic; the rack datagrams of
/// a rack of 40 are tens of kb/s at each machine. Services' guarantees add up to the whole while all
/// are backlogged, so the sum is 2 % above it: the interface's own queue shares that out, or a
/// machine's cap below the interface is exceeded by as much as unclassified and control traffic
/// need. Absent traffic takes no capacity.
pub const DEFAULT_SHARE: u64 = 100;
/// The minor number of the class of the service in slot 0.
pub const FIRST_MINOR: u16 = 0x10;
/// The minor number of its leaf for destinations that have no class of their own.
pub const OTHERS_FIRST: u16 = 0x1000;
/// The minor number of its leaf while no agent is alive.
pub const STATIC_FIRST: u16 = 0x2000;
/// The minor number of the leaf of the destination in slot 0.
pub const DESTINATION_FIRST: u16 = 0x3000;
/// Above this, leaf queues' majors would meet the ones that the kernel hands out (0x8000) and our own.
const MINOR_MAX: u16 = 0x6fff;

pub(crate) const HANDLE: u32 = (MAJOR as u32) << 16;
const TCA_HTB_INIT: u16 = 2;
/// Inside TCA_STATS2: bytes and packets.
const TCA_STATS_BASIC: u16 = 1;

/// The guarantee of unclassified and of control traffic; see [`DEFAULT_SHARE`].
fn default_min(nic: Bandwidth) -> Bandwidth {
    Bandwidth::from_bps(nic.bps() / DEFAULT_SHARE).max(RATE_MIN)
}

/// Why a tree cannot be installed, changed or removed.
#[derive(Debug, thiserror::Error)]
pub enum HtbError {
    /// The interface has a foreign qdisc.
    #[error(transparent)]
    Foreign(#[from] ForeignQdisc),
    /// A class number that is not for services.
    #[error("{minor:#x} is not the number of a service's class ({FIRST_MINOR:#x} to {MINOR_MAX:#x})")]
    Minor {
        /// The number.
        minor: u16,
    },
    /// The kernel refused.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// The interface cannot be read.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
}

/// Counters of a class: bytes sent and queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassStatus {
    /// The class.
    pub minor: u16,
    /// Bytes sent.
    pub bytes: Bytes,
    /// Buffers sent (with offload, one stands for several packets).
    pub packets: u32,
    /// Bytes waiting.
    pub backlog: Bytes,
    /// Buffers waiting.
    pub waiting: u32,
    /// Buffers dropped since the queue was full.
    pub drops: u32,
}

/// An HTB tree on one interface; removed when dropped, unless it is kept.
#[derive(Debug)]
pub struct HtbTree {
    socket: Socket,
    interface: u32,
    nic: Bandwidth,
    sending: Sending,
    found: Found,
    specs: BTreeMap<u16, ClassSpec>,
    /// The limits of latency levels, the most urgent first; `None` for one on which this host sends nothing.
    levels: Vec<Option<LevelLimits>>,
    /// The classes in the kernel; they differ from `specs` only inside [`HtbTree::set`].
    in_force: BTreeMap<u16, Class>,
    installed: bool,
    /// Stays when this is dropped.
    kept: bool,
}

impl HtbTree {
    /// Puts the tree on `interface` (of the calling thread's namespace), with a class for each spec and each latency
    /// level, of which there are at most [`LEVELS_MAX`].
    ///
    /// A tree that a killed agent left is taken over as it is and brought to `specs`. A foreign
    /// qdisc is an error; with `force` it is replaced and not restored.
    pub fn install(
        interface: &Interface,
        nic: Bandwidth,
        specs: &[ClassSpec],
        levels: &[Option<LevelLimits>],
        sending: Sending,
        force: bool,
    ) -> Result<Self, HtbError> {
        let mut socket = Socket::open()?;
        let qdiscs = tc::qdiscs(&mut socket, interface.index())?;
        let found = tc::found(&qdiscs, HANDLE, "htb");
        tc::may_replace(interface, &found, force)?;
        let mut tree = Self {
            socket,
            interface: interface.index(),
            nic,
            sending,
            found,
            specs: BTreeMap::new(),
            levels: levels.to_vec(),
            in_force: BTreeMap::new(),
            installed: false,
            kept: false,
        };
        tree.kept = tree.found == Found::Leftover;
        for spec in specs {
            if !(FIRST_MINOR..=MINOR_MAX).contains(&spec.minor) {
                return Err(HtbError::Minor { minor: spec.minor });
            }
        }
        let mut orphans = Vec::new();
        if tree.found == Found::Leftover {
            // The programs send to classes of levels until their rules change; without a level they stay empty. Data
            // that waits in gates has pairs that lead there.
            let kept = |minor| minor < FIRST_MINOR || is_gate(minor) || specs.iter().any(|spec| spec.minor == minor);
            orphans = tree.minors()?;
            orphans.retain(|minor| !kept(*minor));
            // Those that are nested have higher numbers, and go first.
            orphans.sort_unstable_by_key(|minor| std::cmp::Reverse(*minor));
        } else {
            if tree.found == Found::OtherBackend {
                tc::delete_root(&mut tree.socket, tree.interface, HANDLE)?;
            }
            tree.socket.request("install htb", vec![tree.root_message()])?;
        }
        // From here on a failure removes what is there, unless an earlier agent left it.
        tree.installed = true;
        let (leaf, parent, parts, weight) = (false, None, 1, Weight::ONE);
        let all = ClassSpec { minor: ROOT_MINOR, parent, leaf, parts, min: nic, max: nic, weight };
        let root = Class::new(&all, nic, sending, Weight::ONE, levels.len());
        let mut batch = vec![root.message(libc::NLM_F_CREATE, tree.interface, tree.handle(ROOT_MINOR), HANDLE)];
        batch.extend(
            orphans
                .into_iter()
                .map(|minor| Message::new(libc::RTM_DELTCLASS, 0, &tcmsg(tree.interface, tree.handle(minor), 0))),
        );
        tree.socket.request("create the root class", batch)?;
        let (min, max) = (default_min(nic), Bandwidth::UNLIMITED);
        let own = [DEFAULT_MINOR, CONTROL_MINOR].map(|minor| ClassSpec { minor, leaf: true, min, max, ..all });
        tree.apply(specs.iter().copied().chain(own))?;
        tree.kept = false;
        Ok(tree)
    }

    /// Gives classes new numbers, in one batch; classes that are not there yet are created.
    pub fn set(&mut self, specs: &[ClassSpec]) -> Result<(), HtbError> {
        if let Some(spec) = specs.iter().find(|spec| !(FIRST_MINOR..=MINOR_MAX).contains(&spec.minor)) {
            return Err(HtbError::Minor { minor: spec.minor });
        }
        self.apply(specs.iter().copied())
    }

    /// Deletes classes, and the packets in them; those that are not there are no error.
    pub fn delete_classes(&mut self, minors: &[u16]) -> Result<(), HtbError> {
        let mut minors: Vec<u16> = minors.iter().copied().filter(|minor| self.specs.contains_key(minor)).collect();
        minors.sort_unstable_by_key(|minor| std::cmp::Reverse(*minor));
        let delete = |minor: &u16| Message::new(libc::RTM_DELTCLASS, 0, &tcmsg(self.interface, self.handle(*minor), 0));
        let batch = minors.iter().map(delete).collect();
        self.socket.request("delete classes", batch)?;
        for minor in minors {
            self.specs.remove(&minor);
            self.in_force.remove(&minor);
        }
        Ok(())
    }

    /// Whether the tree is still at the interface's root, and the classes of levels are as they were made: bounds of
    /// latency depend on their numbers. Other classes get theirs anew with each change of a rate.
    pub fn is_installed(&mut self) -> Result<bool, HtbError> {
        let qdiscs = tc::qdiscs(&mut self.socket, self.interface)?;
        let is_tree = |qdisc: &Qdisc| qdisc.is_root() && qdisc.handle == HANDLE && qdisc.kind == "htb";
        let mut levels = self.in_force.range(LEVEL_FIRST..FIRST_MINOR).peekable();
        if !qdiscs.iter().any(is_tree) || levels.peek().is_none() {
            return Ok(qdiscs.iter().any(is_tree));
        }
        let classes = class::listed(&mut self.socket, self.interface)?;
        let there = |(minor, wanted): (&u16, &Class)| {
            class::is_level_there((&classes, &qdiscs), HANDLE | u32::from(*minor), wanted)
        };
        Ok(levels.all(there))
    }

    /// The previous root qdisc.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// All our classes but the root's.
    fn minors(&mut self) -> Result<Vec<u16>, HtbError> {
        Ok(self.all_classes()?.into_iter().map(|class| class.minor).collect())
    }

    /// Counters of every leaf class, by minor number.
    pub fn status(&mut self) -> Result<Vec<ClassStatus>, HtbError> {
        let mut classes = self.all_classes()?;
        classes.retain(|class| self.specs.get(&class.minor).is_none_or(|spec| spec.leaf));
        Ok(classes)
    }

    fn all_classes(&mut self) -> Result<Vec<ClassStatus>, HtbError> {
        Ok(classes(&mut self.socket, self.interface)?)
    }

    /// Deletes the tree; the kernel puts its default back.
    pub fn remove(mut self) -> Result<(), HtbError> {
        self.delete()
    }

    /// Whether dropping leaves the tree in place: the kernel keeps the last rates, and the next
    /// `install` adopts the tree.
    pub fn set_kept(&mut self, kept: bool) {
        self.kept = kept;
    }

    /// Ends with the tree [kept](Self::set_kept).
    pub fn leave(mut self) {
        self.kept = true;
    }

    /// Deletes the qdisc that a killed agent left at an interface's root, of any backend; whether
    /// there was one. Never changes a foreign qdisc.
    pub fn remove_leftover(interface: &Interface) -> Result<bool, HtbError> {
        let mut socket = Socket::open()?;
        let found = tc::found(&tc::qdiscs(&mut socket, interface.index())?, HANDLE, "htb");
        if !matches!(found, Found::Leftover | Found::OtherBackend) {
            return Ok(false);
        }
        tc::delete_root(&mut socket, interface.index(), HANDLE)?;
        Ok(true)
    }

    fn delete(&mut self) -> Result<(), HtbError> {
        if !std::mem::take(&mut self.installed) {
            return Ok(());
        }
        Ok(tc::delete_root(&mut self.socket, self.interface, HANDLE)?)
    }

    /// Merges `changed` into what is wanted and sends the classes whose numbers differ.
    fn apply(&mut self, changed: impl Iterator<Item = ClassSpec>) -> Result<(), HtbError> {
        for spec in changed {
            self.specs.insert(spec.minor, spec);
        }
        let leaves = self.specs.values().filter(|spec| spec.leaf);
        let lightest = leaves.map(|spec| spec.weight).min().unwrap_or(Weight::ONE);
        let (nic, sending, levels) = (self.nic, self.sending, self.levels.len());
        let of_levels = self.levels.iter().enumerate().filter_map(|(index, limits)| {
            let class = Class::of_level(limits.as_ref()?, index, sending);
            Some((LEVEL_FIRST + index as u16, ROOT_MINOR, true, class))
        });
        // By number, so that what is nested comes after what it is nested in.
        let of_specs = self.specs.iter().map(|(minor, spec)| {
            let class = Class::new(spec, nic, sending, lightest, levels);
            (*minor, spec.parent.unwrap_or(ROOT_MINOR), spec.leaf, class)
        });
        let mut batch = Vec::new();
        let mut sent = Vec::new();
        for (minor, parent, leaf, mut class) in of_levels.chain(of_specs) {
            let handle = self.handle(minor);
            let old = self.in_force.get(&minor);
            // A queue within a factor of two of its limit stays: resizing it with every change of rate would
            // double the cost of a change.
            let other = |old: &Class| class.queue > old.queue.saturating_mul(2) || class.queue < old.queue / 2;
            let resize = leaf && old.is_none_or(|old| other(old) || old.cut_above != class.cut_above);
            if let (Some(old), false) = (old, resize) {
                class.queue = old.queue;
            }
            if old == Some(&class) {
                continue;
            }
            batch.push(class.message(libc::NLM_F_CREATE, self.interface, handle, self.handle(parent)));
            if resize {
                let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
                batch.push(queue_message(flags, self.interface, handle, class.queue, class.cut_above));
            }
            sent.push((minor, class));
        }
        self.socket.request("set classes", batch)?;
        self.in_force.extend(sent);
        Ok(())
    }

    fn handle(&self, minor: u16) -> u32 {
        HANDLE | u32::from(minor)
    }

    fn root_message(&self) -> Message {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        let root = Message::new(libc::RTM_NEWQDISC, flags, &tcmsg(self.interface, HANDLE, TC_H_ROOT));
        with_default(root.text(TCA_KIND, "htb"), DEFAULT_MINOR)
    }
}

/// Counters of every class of a tree but the root's, by minor number; none where the interface has
/// no tree.
pub(crate) fn classes(socket: &mut Socket, interface: u32) -> Result<Vec<ClassStatus>, NetlinkError> {
    let mut classes = statuses(socket, interface, HANDLE)?;
    classes.retain(|class| class.minor != ROOT_MINOR);
    Ok(classes)
}

/// Counters of every class of the qdisc with this handle, by minor number.
pub(crate) fn statuses(socket: &mut Socket, interface: u32, of: u32) -> Result<Vec<ClassStatus>, NetlinkError> {
    let request = Message::new(libc::RTM_GETTCLASS, 0, &tcmsg(interface, 0, 0));
    let replies = socket.dump("list classes", request)?;
    let mut classes: Vec<ClassStatus> = replies.iter().filter_map(|reply| status(reply, of)).collect();
    classes.sort_by_key(|class| class.minor);
    Ok(classes)
}

/// Counters of those of these classes that exist.
pub(crate) fn statuses_of(
    socket: &mut Socket,
    interface: u32,
    classes: impl Iterator<Item = u32>,
) -> Result<Vec<ClassStatus>, NetlinkError> {
    // Without the flag kernels before 6.8 reply to listeners of changes alone.
    let get = |class| Message::new(libc::RTM_GETTCLASS, libc::NLM_F_ECHO, &tcmsg(interface, class, 0));
    let mut batch: Vec<Message> = classes.map(get).collect();
    Ok(socket.get("read classes", &mut batch)?.iter().filter_map(|reply| status(reply, HANDLE)).collect())
}

/// The counters of a class of the qdisc with this handle.
fn status(reply: &Reply, of: u32) -> Option<ClassStatus> {
    if reply.kind != libc::RTM_NEWTCLASS || reply.payload.len() < TCMSG {
        return None;
    }
    let handle = read_u32(&reply.payload, 8);
    if handle & 0xffff_0000 != of {
        return None;
    }
    let stats = attribute(&reply.payload[TCMSG..], TCA_STATS2).unwrap_or_default();
    let basic = attribute(stats, TCA_STATS_BASIC).unwrap_or_default();
    let queue = attribute(stats, tc::TCA_STATS_QUEUE).unwrap_or_default();
    Some(ClassStatus {
        minor: handle as u16,
        bytes: Bytes::new(read_u64(basic, 0)),
        packets: read_u32(basic, 8),
        backlog: Bytes::new(u64::from(read_u32(queue, 4))),
        waiting: read_u32(queue, 0),
        drops: read_u32(queue, 8),
    })
}

/// Appends the options of an HTB qdisc, whose packets without a class are in `default`, to the request that makes it.
pub(crate) fn with_default(message: Message, default: u16) -> Message {
    let mut options = Vec::new();
    // tc_htb_glob: version, rate2quantum (unused: every quantum is set), default class, debug, direct packets.
    for word in [3, 10, u32::from(default), 0, 0] {
        options.extend(u32::to_ne_bytes(word));
    }
    message.nest(TCA_OPTIONS, |m| m.attribute(TCA_HTB_INIT, &options))
}

impl Drop for HtbTree {
    fn drop(&mut self) {
        if !self.kept {
            // Drop cannot return an error; the next install takes over a remaining tree.
            let _ = self.delete();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unclassified_traffic_is_guaranteed_a_hundredth() {
        assert_eq!(default_min(Bandwidth::from_gbps(10)), Bandwidth::from_mbps(100));
        assert_eq!(default_min(Bandwidth::from_bps(10_000)), RATE_MIN);
    }
}
