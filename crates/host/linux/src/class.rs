//! The parameters of an HTB class, computed from a service's guarantee, limit and weight.
//!
//! Problem: HTB takes rates in bytes per second with 64-bit attributes above 34 Gb/s, bursts as times in
//! ticks, a quantum in bytes and a queue of its own; each has a value that breaks fairness or latency.
//! Approach, per class:
//!
//! - **rate** is the guarantee, **ceil** the limit in force, neither below [`RATE_MIN`] (HTB has no zero);
//! - **burst** is 1 ms at the rate, at least ten frames or 100 ms, whichever is less: HTB's timers are
//!   high-resolution, so a burst bridges the lateness of a timer and not a tick of the scheduler, and small
//!   rates in scaled-down labs stay smooth. HTB lets a frame leave whenever a class is not in debt, so a burst
//!   may be less than a frame;
//! - **quantum** is eight of the largest segments times the weight over the smallest weight,
//!   divided by the number of classes that share the weight: excess bandwidth is divided by weight
//!   only when every quantum holds a segment (sch_htb serves a class its quantum in turn, and
//!   goes to the next parent when all children had theirs);
//! - **priority** is that of all others, but for the class of control traffic, which precedes them, and those of
//!   latency levels, which precede both;
//! - **queue** is a bfifo of [`QUEUE_TIME`] at the limit, at least 128 frames and two segments: a
//!   queue drops a buffer larger than itself, and the sender then stops. TCP keeps two buffers of
//!   each connection in its host, however slow that is, so 64 connections find room where a buffer
//!   is a frame; where they do not, the kernel gives up a connection whose probes for room, 16 at
//!   half a second each, all found the queue full (measured: thirty connections at 24 Mb/s in 32
//!   frames lost one of them within 12 s in a tenth of the runs). The kernel's default, 1,000
//!   packets, is 4 s at 3 Mb/s.
//!
//! TCP hands over segments of up to 64 KiB whatever the interface offloads (the kernel cuts them behind the
//! qdisc), so a class at a few Mb/s delays its neighbours' frames for long, and its queue is long. Where
//! that matters (scaled-down labs), limit the segments: `Interface::set_offloads(false)`.
//!
//! A latency level's class sends what its regulator allows, σ at once and ρ from then on: rate and ceil are ρ, and the
//! bursts are σ less the largest frame, since a frame may leave whenever the class is not in debt. Numbers are rounded
//! down. A frame counts with its framing. The class holds a TBF that cuts super-packets into frames, each of which HTB
//! charges and delays by itself.
//!
//! Worked example: min 3 Gb/s, max 10 Gb/s, weight 2 of 1, one frame of 1,514 B per buffer: rate 375,000,000 B/s,
//! ceil 1,250,000,000 B/s, burst 375,000 B in 1 ms = 15,625 ticks, quantum 24,224 B, queue 25,000,000 B.
//!
//! Source: net/sched/sch_htb.c; linux/pkt_sched.h; iproute2 tc/q_htb.c; net/ipv4/tcp_output.c
//! (tcp_small_queue_check, tcp_send_probe0); net/ipv4/tcp_timer.c (tcp_probe_timer).

use crate::htb::CONTROL_MINOR;
use crate::interface::{Interface, InterfaceError, SEGMENT_MAX};
use crate::netlink::{Message, NetlinkError, Socket, attribute, read_u32, read_u64};
use crate::tc::{Qdisc, TCA_KIND, TCA_OPTIONS, TCMSG, tcmsg};
use std::collections::BTreeMap;
use weir_datapath::{LEVEL_QUEUE, abi};
use weir_shaping::{LevelLimits, SMALLEST_FRAME, htb_rate};
use weir_units::{Bandwidth, Bytes, Duration, Weight};

/// The smallest rate that a service is given: a maximum of 100 kb/s over 40 machines. HTB's 60 s memory of
/// debts then holds 18.75 kB, more than TCP's first window of ten frames, and a full queue of 128 frames of
/// 9,014 B takes 3,692 s, less than fq's longest horizon (4,294 s).
pub const RATE_MIN: Bandwidth = Bandwidth::from_bps(2_500);
/// How long a full queue takes to drain at the limit: several round trips of a datacenter, and enough for TCP
/// across the scaled-down rates of the lab.
pub const QUEUE_TIME: Duration = Duration::from_millis(20);
/// The fewest frames that a queue holds: two of each of 64 connections, which TCP keeps in its host at least
/// (tcp_small_queue_check); see the module's head.
const QUEUE_FRAMES: u64 = 128;
/// The delay that a burst covers; see the module's head.
const BURST_TIME: Duration = Duration::from_millis(1);
const _: () =
    assert!(abi::NANOBITS_PER_BYTE / BURST_TIME.nanos() == abi::BURST_PART as u64, "as in datapath/departure.h");
/// The fewest frames in a burst, TCP's first window: a timer that is late by less than ten frames' time (4 ms at
/// 30 Mb/s; a virtual machine under load is that late) costs no throughput.
const BURST_FRAMES: u64 = 10;
/// The longest burst of a slow class: instances that were idle send their bursts together, and all instances
/// under a maximum then exceed it in a second by a tenth at most.
const BURST_TIME_MAX: Duration = Duration::from_millis(100);
/// Weights further apart than this would make one round of the scheduler longer than a queue.
const QUANTUM_RATIO_MAX: u64 = 1024;
/// psched ticks are 64 ns (PSCHED_SHIFT 6).
const TICK_NS: u128 = 64;

const TCA_HTB_PARMS: u16 = 1;
const TCA_HTB_RATE64: u16 = 6;
const TCA_HTB_CEIL64: u16 = 7;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
/// The rate of a TBF that cuts and does not limit, in bytes per second: the kernel rounds the time of a frame of up to
/// 17 kB down to 0 ns, so that its bucket is never empty.
const TBF_RATE: u64 = 1 << 44;
/// Two VLAN tags (IEEE 802.1Q), by which a frame may exceed the interface's largest.
pub(crate) const VLAN_TAGS: u32 = 8;
/// tc_ratespec.linklayer: sizes are taken as they are, so that no table has to be sent along.
const TC_LINKLAYER_ETHERNET: u8 = 1;

/// Segments in a round of the lightest class: so many classes may share a weight before each needs a whole segment.
const ROUND: u64 = 8;

/// The settings of a class on this interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassSpec {
    /// The class's minor number.
    pub minor: u16,
    /// The class that it is nested in; `None` for the root class.
    pub parent: Option<u16>,
    /// Whether packets wait in it; else other classes are nested in it.
    pub leaf: bool,
    /// How many leaves share its weight, itself among them.
    pub parts: u32,
    /// The guarantee; zero for none.
    pub min: Bandwidth,
    /// The limit in force; the interface's rate where it is higher.
    pub max: Bandwidth,
    /// The part taken of what is left over.
    pub weight: Weight,
}

/// How the interface sends: what queues and bursts are measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sending {
    /// The largest frame on the wire.
    pub frame: Bytes,
    /// The largest buffer that enters a queue at once, in bytes on the wire. A host that forwards for guests
    /// takes [`crate::interface::SEGMENT_MAX`] whatever the interface allows local sockets.
    pub segment: Bytes,
}

impl Sending {
    /// As `interface` sends now.
    pub fn over(interface: &Interface) -> Result<Self, InterfaceError> {
        Ok(Self { frame: interface.frame_max(), segment: interface.largest_segment()? })
    }
}

/// A class in the kernel's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Class {
    rate: u64,
    ceil: u64,
    burst: u32,
    cburst: u32,
    quantum: u32,
    pub(crate) queue: u32,
    /// Classes of a lower number go first.
    priority: u32,
    /// Bytes of each buffer beside those that it has.
    overhead: u16,
    /// Bytes with which a shorter packet counts, overhead included.
    smallest: u16,
    /// If it is that of a level: the largest frame that its queue lets pass uncut.
    pub(crate) cut_above: Option<u32>,
}

/// The numbers of a class of a switch's port: those that its tree chooses, not a policy's shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PortClass {
    /// The guarantee.
    pub(crate) rate: Bandwidth,
    /// The most.
    pub(crate) ceil: Bandwidth,
    /// Bytes that may leave at once at `rate`, and at `ceil`.
    pub(crate) bursts: [Bytes; 2],
    pub(crate) quantum: Bytes,
    /// The limit of the class's queue; 0 for a class that holds other classes.
    pub(crate) queue: Bytes,
    pub(crate) priority: u32,
}

impl From<PortClass> for Class {
    fn from(own: PortClass) -> Self {
        let narrow = |bytes: Bytes| u32::try_from(bytes.get()).unwrap_or(u32::MAX);
        Self {
            rate: own.rate.bps() / 8,
            ceil: own.ceil.bps() / 8,
            burst: ticks(own.bursts[0], own.rate),
            cburst: ticks(own.bursts[1], own.ceil),
            quantum: narrow(own.quantum),
            queue: narrow(own.queue),
            priority: own.priority,
            overhead: 0,
            smallest: 0,
            cut_above: None,
        }
    }
}

impl Class {
    /// A class from the options that the kernel lists; `None` if they are not whole. Its queue is a qdisc of its own.
    pub(crate) fn from_options(options: &[u8]) -> Option<Self> {
        let parameters = attribute(options, TCA_HTB_PARMS).filter(|value| value.len() >= 44)?;
        // tc_htb_opt: two rates of twelve bytes, two bursts, the quantum, the level, the priority.
        let word = |offset| read_u32(parameters, offset);
        // The kernel adds the 64-bit attributes only where 32 bits do not suffice.
        let rate = |kind, offset| attribute(options, kind).map_or(u64::from(word(offset)), |value| read_u64(value, 0));
        Some(Self {
            rate: rate(TCA_HTB_RATE64, 8),
            ceil: rate(TCA_HTB_CEIL64, 20),
            burst: word(24),
            cburst: word(28),
            quantum: word(32),
            queue: 0,
            priority: word(40),
            overhead: parameters.get(2..4).map_or(0, |bytes| u16::from_ne_bytes([bytes[0], bytes[1]])),
            smallest: parameters.get(6..8).map_or(0, |bytes| u16::from_ne_bytes([bytes[0], bytes[1]])),
            cut_above: None,
        })
    }

    /// The guarantee, in bytes per second.
    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }
    /// The most, in bytes per second.
    pub(crate) fn ceil(&self) -> u64 {
        self.ceil
    }
    /// The bytes that it is served in turn.
    pub(crate) fn quantum(&self) -> u32 {
        self.quantum
    }
    /// Classes of a lower number go first.
    pub(crate) fn priority(&self) -> u32 {
        self.priority
    }

    /// Whether both send alike. Kernels before 5.17 do not list `smallest`, and queues are listed by themselves.
    pub(crate) fn sends_as(&self, other: &Self) -> bool {
        let numbers =
            |class: &Self| (class.rate, class.ceil, class.burst, class.cburst, class.priority, class.overhead);
        numbers(self) == numbers(other)
    }

    /// The class of a latency level with this index, the most urgent first.
    pub(crate) fn of_level(limits: &LevelLimits, index: usize, sending: Sending) -> Self {
        let narrow = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        let rounded = htb_rate(limits.rate, limits.framing);
        let rate = rounded.bps() / 8;
        let burst = ticks(limits.burst.saturating_sub(limits.packet), rounded);
        Self {
            rate,
            ceil: rate,
            burst,
            cburst: burst,
            quantum: narrow(sending.segment.get()),
            // The regulator limits the backlog; a forwarded buffer may be of any size.
            queue: narrow(LEVEL_QUEUE.get() + SEGMENT_MAX.get()),
            priority: index as u32,
            overhead: u16::try_from(limits.framing.get()).unwrap_or(u16::MAX),
            smallest: u16::try_from((SMALLEST_FRAME + limits.framing).get()).unwrap_or(u16::MAX),
            cut_above: Some(narrow(sending.frame.get()).saturating_add(VLAN_TAGS)),
        }
    }

    /// `lightest` is the smallest weight among the classes that share, `levels` the number of latency levels.
    pub(crate) fn new(spec: &ClassSpec, nic: Bandwidth, sending: Sending, lightest: Weight, levels: usize) -> Self {
        let ceil = spec.max.min(nic).max(RATE_MIN);
        let rate = spec.min.min(ceil).max(RATE_MIN);
        let share = u64::from(spec.weight.thousandths()).div_ceil(u64::from(lightest.thousandths()).max(1));
        let round = sending.segment.get() * ROUND;
        let round = if share <= QUANTUM_RATIO_MAX {
            round * u64::from(spec.weight.thousandths()) / u64::from(lightest.thousandths()).max(1)
        } else {
            round * QUANTUM_RATIO_MAX
        };
        let quantum = (round / u64::from(spec.parts.max(1))).max(sending.segment.get());
        let queue = ceil.bytes_in(QUEUE_TIME).max(queue_bytes(sending)).get();
        Self {
            rate: rate.bps() / 8,
            ceil: ceil.bps() / 8,
            burst: burst_ticks(rate, sending),
            cburst: burst_ticks(ceil, sending),
            quantum: u32::try_from(quantum).unwrap_or(u32::MAX),
            queue: u32::try_from(queue).unwrap_or(u32::MAX),
            priority: levels as u32 + u32::from(spec.minor != CONTROL_MINOR),
            overhead: 0,
            smallest: 0,
            cut_above: None,
        }
    }

    /// The request that creates or changes this class.
    pub(crate) fn message(&self, flags: i32, interface: u32, handle: u32, parent: u32) -> Message {
        Message::new(libc::RTM_NEWTCLASS, flags, &tcmsg(interface, handle, parent)).text(TCA_KIND, "htb").nest(
            TCA_OPTIONS,
            |m| {
                m.attribute(TCA_HTB_PARMS, &self.parameters())
                    .attribute(TCA_HTB_RATE64, &self.rate.to_ne_bytes())
                    .attribute(TCA_HTB_CEIL64, &self.ceil.to_ne_bytes())
            },
        )
    }

    /// struct tc_htb_opt. The 32-bit rates saturate; the kernel takes the 64-bit attributes where they are larger.
    fn parameters(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(44);
        for rate in [self.rate, self.ceil] {
            bytes.extend(rate_spec(rate, self.overhead, self.smallest));
        }
        for word in [self.burst, self.cburst, self.quantum, 0, self.priority] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes
    }
}

/// The HTB classes of an interface, by handle.
pub(crate) fn listed(socket: &mut Socket, interface: u32) -> Result<BTreeMap<u32, Class>, NetlinkError> {
    let request = Message::new(libc::RTM_GETTCLASS, 0, &tcmsg(interface, 0, 0));
    let replies = socket.dump("list classes", request)?.into_iter();
    let classes = replies.filter(|reply| reply.kind == libc::RTM_NEWTCLASS && reply.payload.len() >= TCMSG);
    let one = |payload: Vec<u8>| {
        let options = attribute(&payload[TCMSG..], TCA_OPTIONS)?;
        Some((read_u32(&payload, 8), Class::from_options(options)?))
    };
    Ok(classes.filter_map(|reply| one(reply.payload)).collect())
}

/// Whether the class of a level is there as it was made, with its TBF.
pub(crate) fn is_level_there(
    (classes, qdiscs): (&BTreeMap<u32, Class>, &[Qdisc]),
    handle: u32,
    wanted: &Class,
) -> bool {
    let is_tbf = |qdisc: &Qdisc| qdisc.kind == "tbf" && qdisc.handle == queue_handle(handle) && qdisc.parent == handle;
    classes.get(&handle).is_some_and(|class| class.sends_as(wanted)) && qdiscs.iter().any(is_tbf)
}

/// struct tc_ratespec of a rate in bytes per second.
/// A packet counts with `overhead`, and with at least `smallest` bytes.
pub(crate) fn rate_spec(rate: u64, overhead: u16, smallest: u16) -> [u8; 12] {
    let [low, high] = overhead.to_ne_bytes();
    let [least_low, least_high] = smallest.to_ne_bytes();
    let [a, b, c, d] = u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes();
    // cell_log, linklayer, overhead, cell_align, mpu, rate
    [0, TC_LINKLAYER_ETHERNET, low, high, 0, 0, least_low, least_high, a, b, c, d]
}

/// The least queue of a slow class, however long that takes to drain.
pub(crate) fn queue_bytes(sending: Sending) -> Bytes {
    Bytes::new((sending.frame.get() * QUEUE_FRAMES).max(2 * sending.segment.get()))
}

/// The least burst of a class that is not so slow that it takes [`BURST_TIME_MAX`].
pub(crate) fn burst_bytes(sending: Sending) -> Bytes {
    Bytes::new(BURST_FRAMES * sending.frame.get())
}

/// The burst as the time that it takes at the rate.
fn burst_ticks(rate: Bandwidth, sending: Sending) -> u32 {
    let slow = burst_bytes(sending).min(rate.bytes_in(BURST_TIME_MAX));
    ticks(rate.bytes_in(BURST_TIME).max(slow), rate)
}

/// The time in psched ticks that bytes take at a rate, at least one.
fn ticks(bytes: Bytes, rate: Bandwidth) -> u32 {
    let ns = u128::from(bytes.get()) * u128::from(abi::NANOBITS_PER_BYTE) / u128::from(rate.bps().max(1));
    u32::try_from(ns / TICK_NS).unwrap_or(u32::MAX).max(1)
}

/// The handle of the queue below a class. Its major is the class's minor: unique, since all classes are ours.
pub(crate) fn queue_handle(class: u32) -> u32 {
    (class & 0xffff) << 16
}

/// The request that creates or changes the queue below a class: a bfifo of `limit` bytes; with `cut_above` a TBF, which
/// cuts super-packets above that size into frames.
pub(crate) fn queue_message(flags: i32, interface: u32, class: u32, limit: u32, cut_above: Option<u32>) -> Message {
    let message = Message::new(libc::RTM_NEWQDISC, flags, &tcmsg(interface, queue_handle(class), class));
    let Some(frame) = cut_above else {
        return message.text(TCA_KIND, "bfifo").attribute(TCA_OPTIONS, &limit.to_ne_bytes());
    };
    // struct tc_tbf_qopt: rate, no peak rate; queue, burst (TCA_TBF_BURST has it), the peak rate's mtu.
    let mut parameters = [rate_spec(TBF_RATE, 0, 0), [0; 12]].concat();
    for word in [limit, 0, 0] {
        parameters.extend(word.to_ne_bytes());
    }
    message.text(TCA_KIND, "tbf").nest(TCA_OPTIONS, |m| {
        m.attribute(TCA_TBF_PARMS, &parameters)
            .attribute(TCA_TBF_RATE64, &TBF_RATE.to_ne_bytes())
            .attribute(TCA_TBF_BURST, &frame.to_ne_bytes())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tc::TCMSG;

    const PLAIN: Sending = Sending { frame: Bytes::new(1514), segment: Bytes::new(1514) };
    const OFFLOAD: Sending = Sending { segment: Bytes::new(65_550), ..PLAIN };
    const NIC: Bandwidth = Bandwidth::from_gbps(10);

    fn weight(thousandths: u32) -> Weight {
        Weight::from_thousandths(thousandths).expect("a weight")
    }

    fn spec(min: Bandwidth, max: Bandwidth, thousandths: u32) -> ClassSpec {
        ClassSpec { minor: 0x10, parent: None, leaf: true, parts: 1, min, max, weight: weight(thousandths) }
    }

    #[test]
    fn the_worked_example() {
        let class = Class::new(&spec(Bandwidth::from_gbps(3), Bandwidth::UNLIMITED, 2000), NIC, PLAIN, Weight::ONE, 0);
        assert_eq!((class.rate, class.ceil), (375_000_000, 1_250_000_000));
        assert_eq!((class.burst, class.cburst), (15_625, 15_625));
        assert_eq!((class.quantum, class.queue), (24_224, 25_000_000));
    }

    #[test]
    fn small_rates_have_small_bursts_and_queues_for_64_connections() {
        // 3 Mb/s: ten frames are 40 ms, and 128 half a second.
        let class = Class::new(&spec(Bandwidth::ZERO, Bandwidth::from_mbps(3), 1000), NIC, PLAIN, Weight::ONE, 0);
        assert_eq!(class.rate, 312);
        assert_eq!(class.ceil, 375_000);
        assert_eq!(class.cburst, 15_140 * 8 * 1000 / 3 / 64);
        // 300 kb/s: 100 ms, where ten frames are 404.
        let class = Class::new(&spec(Bandwidth::ZERO, Bandwidth::from_bps(300_000), 1000), NIC, PLAIN, Weight::ONE, 0);
        assert_eq!(class.cburst, 100_000_000 / 64);
        assert_eq!(class.queue, 128 * 1514);
    }

    #[test]
    fn queue_and_quantum_fit_a_segment() {
        let class = Class::new(&spec(Bandwidth::ZERO, Bandwidth::from_mbps(3), 500), NIC, OFFLOAD, weight(500), 0);
        assert_eq!((class.quantum, class.queue), (8 * 65_550, 128 * 1514));
        let heavy = Class::new(&spec(Bandwidth::ZERO, NIC, 1_000_000_000), NIC, OFFLOAD, weight(1), 0);
        assert_eq!(u64::from(heavy.quantum), 8 * 65_550 * 1024);
    }

    #[test]
    fn classes_sharing_a_weight_share_its_quantum() {
        let of = |parts| {
            let spec = ClassSpec { parts, ..spec(Bandwidth::ZERO, NIC, 1000) };
            Class::new(&spec, NIC, PLAIN, Weight::ONE, 0).quantum
        };
        assert_eq!([1, 2, 4, 8, 100].map(of), [8 * 1514, 4 * 1514, 2 * 1514, 1514, 1514]);
    }

    #[test]
    fn a_limit_below_the_guarantee_wins() {
        let class =
            Class::new(&spec(Bandwidth::from_gbps(3), Bandwidth::from_gbps(1), 1000), NIC, PLAIN, Weight::ONE, 0);
        assert_eq!((class.rate, class.ceil), (125_000_000, 125_000_000));
    }

    #[test]
    fn classes_are_read_as_they_are_written() {
        for bps in [3_000_000, 10_000_000_000, 400_000_000_000] {
            let rate = Bandwidth::from_bps(bps);
            let class = Class::new(&spec(rate, rate, 2000), rate, PLAIN, Weight::ONE, 0);
            let message = class.message(0, 1, 0, 0);
            let options = attribute(message.attributes(TCMSG), TCA_OPTIONS).expect("options");
            let read = Class::from_options(options);
            assert_eq!(read, Some(Class { queue: 0, ..class }));
            assert!(read.is_some_and(|read| read.sends_as(&class) && !read.sends_as(&Class { ceil: 1, ..class })));
        }
        assert_eq!(Class::from_options(&[]), None);
    }

    #[test]
    fn rates_above_32_bits_saturate_there() {
        let nic = Bandwidth::from_gbps(100);
        let class = Class::new(&spec(nic, nic, 1000), nic, PLAIN, Weight::ONE, 0);
        assert_eq!(class.parameters()[8..12], u32::MAX.to_ne_bytes());
        assert_eq!(class.rate, 12_500_000_000);
        assert_eq!(class.parameters().len(), 44);
    }
}
