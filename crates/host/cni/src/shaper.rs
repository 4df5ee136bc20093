//! A limit at one end of a veth pair: a token bucket with fair queueing inside.
//!
//! Problem: a limit in one FIFO lets a pod's bulk traffic delay its own small messages by the whole queue, and a burst
//! of a super-packet takes 52 ms at 10 Mb/s. Approach: a TBF at the root, whose queue is fq_codel:
//!
//! - **rate** is the limit;
//! - **burst** is [`BURST_TIME`] at the rate, at least [`BURST_FRAMES`] frames. TBF cuts larger super-packets into
//!   frames, so that below 280 Mb/s a small message waits for one frame of bulk traffic and not for 64 KiB;
//! - **fq_codel** gives each flow a queue, new flows go first, and packets whose delay stays above the target are
//!   marked (ECN) or dropped. The target is 5 ms, at least one and a half frames' time at the rate;
//! - **memory** is limited to [`MEMORY_TIME`] at the rate, so that a UDP flood does not take 32 MB of each pod.
//!
//! A kernel without fq_codel gets a bfifo of [`QUEUE_TIME`] at the rate, and ADD reports that on standard error: a
//! pod's small messages then wait behind its bulk data. At the pod's end TCP keeps that short by itself.
//!
//! Where the sender's socket is in the same namespace, as at the pod's end, TCP small queues stop a sender before the
//! queue drops its packets: each connection has at most two GSO packets in the queue. There a GSO packet has at most
//! the segments of [`SEGMENTS_TIME`] at the rate (`gso_max_segs`); with 64 KiB, eight connections would fill a second.
//!
//! Worked example: 10 Mb/s over an MTU of 1,500: 1,250,000 B/s, burst 15,140 B (ten frames), target 5 ms, interval
//! 100 ms, 1 MiB.
//!
//! Source: net/sched/sch_tbf.c (tbf_segment), net/sched/sch_fq_codel.c; linux/pkt_sched.h; RFC 8290 §5.2; RFC 8289
//! §4.3.

use crate::error::{CniError, Code};
use crate::link::{IFLA_GSO_MAX_SEGS, Link, kernel};
use std::fmt;
use weir_linux::netlink::{Message, Socket, attribute, read_u32, read_u64};
use weir_linux::tc::{self, Qdisc, TC_H_ROOT, TCA_KIND, TCA_OPTIONS, TCMSG, tcmsg};
use weir_units::{Bandwidth, Duration};

/// The handle of the root: `wp` in ASCII, unlikely to be chosen by accident, and another than the agent's.
pub const HANDLE: u32 = 0x7770 << 16;
/// The handle of the queue inside.
const QUEUE: u32 = 0x7771 << 16;
/// The class of a TBF.
const CLASS: u32 = HANDLE | 1;

/// The time that a burst bridges: a timer on a virtual machine under load is that late.
const BURST_TIME: Duration = Duration::from_millis(2);
/// The fewest frames of a burst, TCP's first window (RFC 6928).
const BURST_FRAMES: u64 = 10;
/// The time of a GSO packet at the rate, as of TCP's pacing.
const SEGMENTS_TIME: Duration = Duration::from_millis(1);
/// How much traffic waits at most.
const MEMORY_TIME: Duration = Duration::from_millis(400);
/// The bounds of the memory. A frame of 1,514 B takes 2,304 B, and 64 connections may each have some; the upper bound
/// is the kernel's default.
const MEMORY: (u64, u64) = (1 << 20, 32 << 20);
/// How long a full bfifo takes to drain: several round trips of a datacenter, and the queue of the plugin `bandwidth`
/// takes 25 ms.
const QUEUE_TIME: Duration = Duration::from_millis(20);
/// fq_codel's defaults.
const TARGET_US: u64 = 5_000;
const INTERVAL_US: u64 = 100_000;
/// The interval is twenty times the target (RFC 8289 §4.3).
const TARGETS: u64 = 20;

const ETHERNET_HEADER: u64 = 14;
/// linux/pkt_sched.h
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const TCA_FQ_CODEL_TARGET: u16 = 1;
const TCA_FQ_CODEL_INTERVAL: u16 = 3;
const TCA_FQ_CODEL_ECN: u16 = 4;
const TCA_FQ_CODEL_QUANTUM: u16 = 6;
const TCA_FQ_CODEL_MEMORY_LIMIT: u16 = 9;
/// The kernel's default of `gso_max_segs` (linux/netdevice.h, GSO_MAX_SEGS).
const SEGMENTS: u32 = 65_535;
/// The MTUs that a veth can have (drivers/net/veth.c).
const MTU: (u32, u32) = (68, 65_535);
/// tc_ratespec.linklayer: sizes are taken as they are, so that no table has to be sent along.
const TC_LINKLAYER_ETHERNET: u8 = 1;

/// The end of a veth pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// In the pod: packets of its own sockets.
    Pod,
    /// On the host: packets of others.
    Host,
}

impl End {
    /// The fewest frames of a bfifo. In the pod two of each of 64 connections, which TCP keeps there at least: a
    /// connection whose probes for room all find the queue full is given up (see crates/host/linux/src/class.rs). On
    /// the host those of a super-packet of 64 KiB, of which the rest would be lost.
    fn frames(self) -> u64 {
        match self {
            Self::Pod => 128,
            Self::Host => 48,
        }
    }
}

/// The queue inside a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// Fair among flows.
    FqCodel,
    /// The queue of a kernel without fq_codel.
    Bfifo,
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FqCodel => "fq_codel",
            Self::Bfifo => "bfifo",
        })
    }
}

/// The numbers of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shaper {
    /// Bytes per second.
    pub rate: u64,
    /// Bytes.
    pub burst: u32,
    /// The largest frame.
    pub frame: u32,
    /// Microseconds.
    pub target: u32,
    /// Microseconds.
    pub interval: u32,
    /// Bytes.
    pub memory: u32,
    /// The limit of a bfifo in bytes.
    pub fifo: u32,
    /// The most segments of a GSO packet.
    pub segments: u32,
    end: End,
}

impl Shaper {
    /// The numbers for a limit at this end of a pair with this MTU.
    pub fn new(limit: Bandwidth, mtu: u32, end: End) -> Self {
        let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let rate = (limit.bps() / 8).max(1);
        let frame = frame_of(mtu);
        let target = TARGET_US.max(frame * 1_500_000 / rate);
        Self {
            rate,
            burst: narrow(limit.bytes_in(BURST_TIME).get().max(BURST_FRAMES * frame)),
            frame: narrow(frame),
            target: narrow(target),
            interval: narrow(INTERVAL_US.max(target * TARGETS)),
            memory: narrow(limit.bytes_in(MEMORY_TIME).get().clamp(MEMORY.0, MEMORY.1)),
            fifo: narrow(limit.bytes_in(QUEUE_TIME).get().max(end.frames() * frame)),
            segments: segments_of(rate, mtu),
            end,
        }
    }

    /// Limits a link of the socket's namespace, and returns the queue that the kernel has. A limit that an earlier ADD
    /// has set is replaced.
    ///
    /// # Errors
    /// Another program has put a qdisc there, or the kernel refuses.
    pub fn install(&self, socket: &mut Socket, link: &Link) -> Result<Queue, CniError> {
        let qdiscs = tc::qdiscs(socket, link.index).map_err(kernel)?;
        if let Some(found) = qdiscs.iter().find(|qdisc| qdisc.is_root() && qdisc.handle != 0) {
            if !is_ours(found) {
                let text = format!("{} has the qdisc {found}, which weir-cni has not put there", link.name);
                let hint = "remove the other plugin that limits pods, such as bandwidth, from the chain";
                return Err(CniError::new(Code::InvalidConfiguration, text, hint));
            }
            remove(socket, link, self.end)?;
        }
        let mut request = |message| socket.request("limit the rate", vec![message]);
        // The class inside exists once the root does.
        let installed = request(self.root(link.index)).and_then(|()| match request(self.fq_codel(link.index)) {
            // No qdisc of this kind.
            Err(error) if error.errno() == Some(libc::ENOENT) => request(self.bfifo(link.index)).map(|()| Queue::Bfifo),
            result => result.map(|()| Queue::FqCodel),
        });
        let installed = installed.and_then(|queue| match self.end {
            End::Pod => request(segments(link.index, self.segments)).map(|()| queue),
            End::Host => Ok(queue),
        });
        installed.map_err(|error| {
            // The first error is reported.
            let _ = remove(socket, link, self.end);
            kernel(error)
        })
    }

    /// Compares a link's qdiscs with these numbers. At the pod's end `gso_max_segs` has to be one that ADD sets at this
    /// rate for some MTU: a plugin behind this one, such as tuning, may have changed the MTU since.
    ///
    /// # Errors
    /// They differ, or the kernel refuses.
    pub fn check(&self, socket: &mut Socket, link: &Link) -> Result<(), CniError> {
        let differs = |what: String| Err(CniError::new(Code::NotAsAdded, what, "DEL and ADD set the limit again"));
        let request = Message::new(libc::RTM_GETQDISC, 0, &tcmsg(link.index, 0, 0));
        let replies = socket.dump("list qdiscs", request).map_err(kernel)?;
        let own = |handle| {
            let of = |payload: &&[u8]| {
                payload.len() >= TCMSG && read_u32(payload, 4) == link.index && read_u32(payload, 8) == handle
            };
            replies.iter().map(|reply| reply.payload.as_slice()).find(of)
        };
        let options = |payload: &[u8]| attribute(&payload[TCMSG..], TCA_OPTIONS).unwrap_or_default().to_vec();
        let kind = |payload: &[u8]| attribute(&payload[TCMSG..], TCA_KIND).map(weir_linux::netlink::text);
        let Some(root) = own(HANDLE).filter(|root| read_u32(root, 12) == TC_H_ROOT) else {
            return differs(format!("{} has no limit", link.name));
        };
        let found = rate_of(&options(root));
        if kind(root).as_deref() != Some("tbf") || found != self.rate {
            let (found, wanted) = (Bandwidth::from_bps(found.saturating_mul(8)), Bandwidth::from_bps(self.rate * 8));
            return differs(format!("{} is limited to {found} instead of {wanted}", link.name));
        }
        if !matches!(own(QUEUE).and_then(kind).as_deref(), Some("fq_codel" | "bfifo")) {
            return differs(format!("{} has no queue of weir-cni below its limit", link.name));
        }
        let (least, most) = (segments_of(self.rate, MTU.1), segments_of(self.rate, MTU.0));
        if self.end == End::Pod && !link.segments.is_some_and(|found| (least..=most).contains(&found)) {
            let found = link.segments.map_or_else(|| "unknown".to_owned(), |found| found.to_string());
            return differs(format!("gso_max_segs of {} is {found} instead of {}", link.name, self.segments));
        }
        Ok(())
    }

    fn root(&self, interface: u32) -> Message {
        // struct tc_tbf_qopt: rate, no peak rate; limit (of no queue: fq_codel has its own), burst (TCA_TBF_BURST has
        // it), the peak rate's mtu.
        let saturated = u32::try_from(self.rate).unwrap_or(u32::MAX);
        let [a, b, c, d] = saturated.to_ne_bytes();
        // cell_log, linklayer, overhead, cell_align, mpu, rate
        let mut parameters = vec![0, TC_LINKLAYER_ETHERNET, 0, 0, 0, 0, 0, 0, a, b, c, d];
        parameters.extend([0; 12 + 3 * 4]);
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        Message::new(libc::RTM_NEWQDISC, flags, &tcmsg(interface, HANDLE, TC_H_ROOT)).text(TCA_KIND, "tbf").nest(
            TCA_OPTIONS,
            |m| {
                m.attribute(TCA_TBF_PARMS, &parameters)
                    .attribute(TCA_TBF_RATE64, &self.rate.to_ne_bytes())
                    .attribute(TCA_TBF_BURST, &self.burst.to_ne_bytes())
            },
        )
    }

    fn bfifo(&self, interface: u32) -> Message {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        Message::new(libc::RTM_NEWQDISC, flags, &tcmsg(interface, QUEUE, CLASS))
            .text(TCA_KIND, "bfifo")
            .attribute(TCA_OPTIONS, &self.fifo.to_ne_bytes())
    }

    fn fq_codel(&self, interface: u32) -> Message {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        Message::new(libc::RTM_NEWQDISC, flags, &tcmsg(interface, QUEUE, CLASS)).text(TCA_KIND, "fq_codel").nest(
            TCA_OPTIONS,
            |m| {
                m.attribute(TCA_FQ_CODEL_TARGET, &self.target.to_ne_bytes())
                    .attribute(TCA_FQ_CODEL_INTERVAL, &self.interval.to_ne_bytes())
                    .attribute(TCA_FQ_CODEL_ECN, &1_u32.to_ne_bytes())
                    .attribute(TCA_FQ_CODEL_QUANTUM, &self.frame.to_ne_bytes())
                    .attribute(TCA_FQ_CODEL_MEMORY_LIMIT, &self.memory.to_ne_bytes())
            },
        )
    }
}

/// Bytes per second in the options of a TBF.
fn rate_of(options: &[u8]) -> u64 {
    // tc_ratespec.rate; the kernel adds the 64-bit attribute where 32 bits do not suffice.
    let parameters = attribute(options, TCA_TBF_PARMS).unwrap_or_default();
    attribute(options, TCA_TBF_RATE64).map_or(u64::from(read_u32(parameters, 8)), |value| read_u64(value, 0))
}

/// The bytes of a frame of an MTU.
fn frame_of(mtu: u32) -> u64 {
    u64::from(mtu) + ETHERNET_HEADER
}

/// The segments of a GSO packet at a rate in bytes per second, over an MTU.
fn segments_of(rate: u64, mtu: u32) -> u32 {
    let bytes = Bandwidth::from_bps(rate.saturating_mul(8)).bytes_in(SEGMENTS_TIME).get();
    u32::try_from((bytes / frame_of(mtu)).clamp(1, SEGMENTS.into())).unwrap_or(SEGMENTS)
}

/// The request that limits the segments of GSO packets.
fn segments(interface: u32, most: u32) -> Message {
    // ifinfomsg: family and type, index, flags, change.
    let fixed = [[0; 4], interface.to_ne_bytes(), [0; 4], [0; 4]].concat();
    Message::new(libc::RTM_NEWLINK, 0, &fixed).attribute(IFLA_GSO_MAX_SEGS, &most.to_ne_bytes())
}

fn is_ours(qdisc: &Qdisc) -> bool {
    qdisc.is_root() && qdisc.handle == HANDLE && qdisc.kind == "tbf"
}

/// Refuses a limit that ADD has not set.
///
/// # Errors
/// There is one, or the kernel refuses.
pub fn check_absent(socket: &mut Socket, link: &Link) -> Result<(), CniError> {
    if !tc::qdiscs(socket, link.index).map_err(kernel)?.iter().any(is_ours) {
        return Ok(());
    }
    let text = format!("{} has a limit, and the pod has none in this direction", link.name);
    Err(CniError::new(Code::NotAsAdded, text, "DEL and ADD remove it"))
}

/// Removes the limit of a link; the kernel's default qdisc follows. A link without a limit is no error.
///
/// # Errors
/// The kernel refuses.
pub fn remove(socket: &mut Socket, link: &Link, end: End) -> Result<(), CniError> {
    if !tc::qdiscs(socket, link.index).map_err(kernel)?.iter().any(is_ours) {
        return Ok(());
    }
    if end == End::Pod {
        socket.request("restore the segments", vec![segments(link.index, SEGMENTS)]).map_err(kernel)?;
    }
    tc::delete_root(socket, link.index, HANDLE).map_err(kernel)
}

/// Tries a limit in a namespace of its own. Returns the queue that the kernel has.
///
/// # Errors
/// The kernel has no TBF, or the process may not use it.
pub fn probe() -> Result<Queue, CniError> {
    let tried = weir_linux::netns::scratch(|| {
        let mut socket = crate::link::socket()?;
        let absent = || CniError::new(Code::Kernel, "a new network namespace has no lo", "the probe limits it");
        let loopback = crate::link::named(&mut socket, "lo")?.ok_or_else(absent)?;
        Shaper::new(Bandwidth::from_mbps(1), loopback.mtu, End::Host).install(&mut socket, &loopback)
    });
    tried.map_err(|error| CniError::new(Code::Kernel, "a network namespace cannot be made", error.to_string()))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let expected = Shaper {
            rate: 1_250_000,
            burst: 15_140,
            frame: 1_514,
            target: 5_000,
            interval: 100_000,
            memory: 1 << 20,
            fifo: 48 * 1_514,
            segments: 1,
            end: End::Host,
        };
        assert_eq!(Shaper::new(Bandwidth::from_mbps(10), 1_500, End::Host), expected);
        assert_eq!(Shaper::new(Bandwidth::from_mbps(10), 1_500, End::Pod).fifo, 128 * 1_514);
    }

    #[test]
    fn numbers_follow_the_rate_within_bounds() {
        let fast = Shaper::new(Bandwidth::from_gbps(10), 1_500, End::Host);
        assert_eq!(
            (fast.burst, fast.target, fast.memory, fast.fifo, fast.segments),
            (2_500_000, 5_000, 32 << 20, 25_000_000, 825)
        );
        // One and a half frames take 18 ms.
        let slow = Shaper::new(Bandwidth::from_mbps(1), 1_500, End::Host);
        assert_eq!((slow.burst, slow.target, slow.interval), (15_140, 18_168, 363_360));
        let least = Shaper::new(crate::quantity::LEAST, 9_000, End::Host);
        assert_eq!((least.rate, least.burst), (125, 90_140));
        let most = Shaper::new(crate::quantity::MOST, 1_500, End::Host);
        assert_eq!((most.rate, most.burst, most.segments), (125_000_000_000_000, u32::MAX, SEGMENTS));
    }
}
