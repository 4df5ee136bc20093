//! [`Fq`]: the qdisc that enforces departure times, at the root of an interface or below bands for latency levels
//! (`priority_bands.rs`).
//!
//! Problem: only fq delays a packet until the time stamped on it (etf requires hardware support).
//! Its defaults are for a host's own sockets: at most 100 packets of a flow wait, which is 1.2 ms
//! for a guest's flow at 1 Gb/s, and a packet that is dropped after its time was set counts as
//! sent. Approach: fq at the root with room for all packets that the programs let wait; the
//! programs bound these by time (`datapath/departure.h`). All other parameters are fq's defaults.
//!
//! Life and "as found": as [`crate::htb::HtbTree`], whose handle the root has. A policy with levels after one without,
//! or the other way round, replaces the root, and with it the packets that wait.
//!
//! Worked example: `qdisc fq 7765: root limit 1000000p flow_limit 1000000p ... horizon 2000s`.
//!
//! Source: net/sched/sch_fq.c; linux/pkt_sched.h.

use crate::class::{self, Sending};
use crate::htb::HANDLE;
use crate::interface::Interface;
use crate::netlink::{Message, NetlinkError, Socket, attribute, read_u32};
use crate::priority_bands;
use crate::tc::{self, ForeignQdisc, Found, Qdisc, TC_H_ROOT, TCA_KIND, TCA_OPTIONS, TCMSG, tcmsg};
use weir_shaping::LevelLimits;

/// Packets that may wait, of all and of one flow: more than there are. At 400 Gb/s and 20 ms
/// 660,000 frames of 1,514 B wait.
const ROOM: u32 = 1_000_000;
/// How far ahead a departure may lie, in µs: fq drops what is beyond. The shortest queue of frames
/// of 9,014 B takes 3,692 s at the least rate that a service is given ([`crate::class::RATE_MIN`]).
const HORIZON: u32 = 4_000_000_000;

const TCA_FQ_PLIMIT: u16 = 1;
const TCA_FQ_FLOW_PLIMIT: u16 = 2;
const TCA_FQ_HORIZON: u16 = 14;

/// Why fq is not at an interface's root.
#[derive(Debug, thiserror::Error)]
pub enum FqError {
    /// The interface has a foreign qdisc.
    #[error(transparent)]
    Foreign(#[from] ForeignQdisc),
    /// The kernel refused.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// The kernel took the request and has something else.
    #[error("the kernel took the qdiscs of departure times and has not put them at the root")]
    NotThere,
}

/// fq on one interface; removed when dropped, unless it is kept.
#[derive(Debug)]
pub struct Fq {
    socket: Socket,
    interface: u32,
    /// The limits of latency levels; empty: fq is the root.
    levels: Vec<Option<LevelLimits>>,
    sending: Sending,
    found: Found,
    installed: bool,
    /// Stays when this is dropped.
    kept: bool,
}

impl Fq {
    /// Puts fq on `interface` (of the calling thread's namespace), with a band before it for each latency level. What a
    /// killed agent left is taken over, or replaced if it was of another backend. A foreign qdisc is an error; with
    /// `force` it is replaced and not restored.
    pub fn install(
        interface: &Interface,
        levels: &[Option<LevelLimits>],
        sending: Sending,
        force: bool,
    ) -> Result<Self, FqError> {
        let mut socket = Socket::open()?;
        let mut qdiscs = tc::qdiscs(&mut socket, interface.index())?;
        let root = if levels.is_empty() { "fq" } else { "prio" };
        let found = tc::found(&qdiscs, HANDLE, root);
        tc::may_replace(interface, &found, force)?;
        let levels = levels.to_vec();
        let mut fq =
            Self { socket, interface: interface.index(), levels, sending, found, installed: false, kept: false };
        fq.kept = fq.found == Found::Leftover;
        if fq.found == Found::OtherBackend {
            tc::delete_root(&mut fq.socket, fq.interface, HANDLE)?;
        }
        if fq.found != Found::Leftover {
            // What is there goes with the root.
            qdiscs.clear();
        }
        let messages = match fq.levels.is_empty() {
            true => vec![with_room(root_message(fq.interface))],
            false => priority_bands::messages(fq.interface, &qdiscs, &fq.levels, sending),
        };
        // From here on a failure removes what is there, unless an earlier agent left it.
        fq.installed = true;
        fq.socket.request("install the qdiscs of departure times", messages)?;
        if !fq.is_installed()? {
            return Err(FqError::NotThere);
        }
        fq.kept = false;
        Ok(fq)
    }

    /// Whether it is still at the interface's root, and before it the bands of levels as they were made.
    pub fn is_installed(&mut self) -> Result<bool, NetlinkError> {
        let qdiscs = tc::qdiscs(&mut self.socket, self.interface)?;
        let is_fq = |qdisc: &Qdisc| qdisc.is_root() && qdisc.kind == "fq" && qdisc.handle == HANDLE;
        Ok(match self.levels.is_empty() {
            true => qdiscs.iter().any(is_fq),
            false => {
                let classes = class::listed(&mut self.socket, self.interface)?;
                priority_bands::are_complete(&qdiscs, &classes, &self.levels, self.sending)
            }
        })
    }

    /// The previous root qdisc.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// Packets that fq itself has dropped: those beyond its room.
    pub fn drops(&mut self) -> Result<u64, NetlinkError> {
        let request = Message::new(libc::RTM_GETQDISC, 0, &tcmsg(self.interface, 0, 0));
        let replies = self.socket.dump("list qdiscs", request)?;
        let handle = if self.levels.is_empty() { HANDLE } else { priority_bands::FQ_HANDLE };
        let own = |payload: &[u8]| read_u32(payload, 4) == self.interface && read_u32(payload, 8) == handle;
        let reply = replies.iter().find(|reply| reply.payload.len() >= TCMSG && own(&reply.payload));
        Ok(reply.map_or(0, |reply| {
            let stats = attribute(&reply.payload[TCMSG..], tc::TCA_STATS2).unwrap_or_default();
            // gnet_stats_queue: packets, bytes, drops.
            u64::from(read_u32(attribute(stats, tc::TCA_STATS_QUEUE).unwrap_or_default(), 8))
        }))
    }

    /// Deletes it; the kernel puts its default back.
    pub fn remove(mut self) -> Result<(), NetlinkError> {
        self.delete()
    }

    /// Whether it goes without deleting when it is dropped: the kernel keeps the last rates and the
    /// next `install` takes over.
    pub fn set_kept(&mut self, kept: bool) {
        self.kept = kept;
    }

    /// [Kept](Self::set_kept), and gone.
    pub fn leave(mut self) {
        self.kept = true;
    }

    fn delete(&mut self) -> Result<(), NetlinkError> {
        if !std::mem::take(&mut self.installed) {
            return Ok(());
        }
        tc::delete_root(&mut self.socket, self.interface, HANDLE)
    }
}

impl Drop for Fq {
    fn drop(&mut self) {
        if !self.kept {
            // Drop cannot return an error; the next install takes over a remaining qdisc.
            let _ = self.delete();
        }
    }
}

fn root_message(interface: u32) -> Message {
    let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
    Message::new(libc::RTM_NEWQDISC, flags, &tcmsg(interface, HANDLE, TC_H_ROOT)).text(TCA_KIND, "fq")
}

/// Appends the options of an fq in which packets wait for their departure.
pub(crate) fn with_room(message: Message) -> Message {
    message.nest(TCA_OPTIONS, |m| {
        m.attribute(TCA_FQ_PLIMIT, &ROOM.to_ne_bytes())
            .attribute(TCA_FQ_FLOW_PLIMIT, &ROOM.to_ne_bytes())
            .attribute(TCA_FQ_HORIZON, &HORIZON.to_ne_bytes())
    })
}
