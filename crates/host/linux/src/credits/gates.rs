//! [`CreditGates`]: what may leave of each pair, in HTB's tree.
//!
//! Problem: a sender with credits may send `a` bytes in a period, evenly, whole frames, and not one more; then nothing
//! until the next allocation. An HTB class alone cannot close: it lets a frame leave whenever it is not in debt,
//! and at a rate near zero the debt of that frame lasts for seconds. Approach: each pair has a class with a TBF as its
//! queue. The kernel fills a TBF's bucket whenever it is changed, so one netlink message per allocation is the gate:
//!
//! - open: the bucket has the allocation's bytes and refills with 1 B/s; the peak rate is a / p, with a bucket of a
//!   frame. The first frame leaves at once, each later one when the peak rate allows it, none beyond the bytes.
//! - closed: each packet counts as at least 65,535 B, and the bucket is smaller. Also for an allocation below a frame,
//!   which the sender carries over.
//!
//! A change wakes no queue. The agent sends the return of each allocation after it, and the kernel then serves the
//! whole tree; after that the TBF's own timer does.
//!
//! The class has the rate of all credits as its guarantee and its limit: what the gate lets through has credits. HTB
//! looks into each gate in which packets wait whenever it serves the tree, and the kernel logs once for each gate that
//! it "is non-work-conserving".
//!
//! Worked example: 5,000 B in 20 ms: bucket 5,000 B, peak rate 250,000 B/s; frames of 1,514 B leave after 0, 6.06 and
//! 12.11 ms, and 458 B are left.
//!
//! Source: net/sched/sch_tbf.c (tbf_change, tbf_dequeue); net/sched/sch_htb.c (htb_dequeue_tree).

use crate::class::{Class, PortClass, Sending, VLAN_TAGS, queue_bytes, queue_handle, rate_spec};
use crate::htb::{ClassStatus, HANDLE, ROOT_MINOR, statuses, statuses_of};
use crate::interface::Interface;
use crate::netlink::{Message, NetlinkError, Socket};
use crate::tc::{TCA_KIND, TCA_OPTIONS, tcmsg};
use std::collections::BTreeSet;
use weir_credits::host::Gate;
use weir_datapath::abi::CREDIT_GATES_MAX;
use weir_units::{Bandwidth, Bytes};

/// The minor number of the class of the first gate: above those of destinations, and below the handles that the kernel
/// and the tree have.
pub(crate) const CREDIT_FIRST: u16 = 0x7000;
const _: () = assert!(CREDIT_FIRST as u32 + CREDIT_GATES_MAX < crate::htb::MAJOR as u32);
/// Bytes in a second by which an open bucket refills: the kernel has no zero.
const TRICKLE: u64 = 1;
/// The rate of a closed bucket, in bytes per second, and the bytes that each packet counts as.
const CLOSED_RATE: u64 = 1_000_000;
const CLOSED_PACKET: u16 = u16::MAX;
/// psched ticks are 64 ns (PSCHED_SHIFT 6).
const TICK_NS: u64 = 64;

const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_PRATE64: u16 = 5;
const TCA_TBF_BURST: u16 = 6;
const TCA_TBF_PBURST: u16 = 7;

/// The counters of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateReading {
    /// The gate.
    pub gate: u32,
    /// Bytes that have left.
    pub sent: u64,
    /// Bytes that wait.
    pub waiting: Bytes,
    /// Packets that wait; with offload, one stands for several.
    pub packets: u32,
    /// Packets dropped since the queue was full.
    pub drops: u32,
}

/// The gates of an interface with an HTB tree, which must exist and keeps them: they go with it.
#[derive(Debug)]
pub struct CreditGates {
    socket: Socket,
    interface: u32,
    rate: Bandwidth,
    /// The largest frame, with VLAN tags.
    frame: u32,
    limit: u32,
    quantum: Bytes,
    priority: u32,
}

impl CreditGates {
    /// No gates; `rate` is that of all credits together, and `levels` the number of latency levels, whose classes
    /// precede.
    pub fn new(interface: &Interface, rate: Bandwidth, sending: Sending, levels: usize) -> Result<Self, NetlinkError> {
        let frame = u32::try_from(sending.frame.get()).unwrap_or(u32::MAX).saturating_add(VLAN_TAGS);
        Ok(Self {
            socket: Socket::open()?,
            interface: interface.index(),
            rate,
            frame,
            limit: u32::try_from(queue_bytes(sending).get()).unwrap_or(u32::MAX),
            quantum: sending.frame,
            // That of services (crate::class).
            priority: levels as u32 + 1,
        })
    }

    /// Adds closed gates. Those that exist are closed and keep the packets in them; their classes get the numbers of
    /// now.
    pub fn add(&mut self, gates: &[u32]) -> Result<(), NetlinkError> {
        let bursts = [self.rate.bytes_in(weir_units::Duration::from_millis(1)).max(self.quantum); 2];
        let (rate, quantum, priority) = (self.rate, self.quantum, self.priority);
        let class = Class::from(PortClass { rate, ceil: rate, bursts, quantum, queue: Bytes::ZERO, priority });
        let mut batch = Vec::with_capacity(2 * gates.len());
        for gate in gates {
            batch.push(class.message(
                libc::NLM_F_CREATE,
                self.interface,
                handle(*gate),
                HANDLE | u32::from(ROOT_MINOR),
            ));
            batch.push(self.message(libc::NLM_F_CREATE | libc::NLM_F_REPLACE, *gate, Gate::CLOSED));
        }
        self.socket.request("add gates of credits", batch)
    }

    /// Opens or closes gates, in one batch.
    pub fn set(&mut self, gates: &[(u32, Gate)]) -> Result<(), NetlinkError> {
        let batch = gates.iter().map(|(gate, open)| self.message(0, *gate, *open)).collect();
        self.socket.request("set gates of credits", batch)
    }

    /// Deletes gates with the packets that wait in them.
    pub fn remove(&mut self, gates: &[u32]) -> Result<(), NetlinkError> {
        let delete = |gate: &u32| Message::new(libc::RTM_DELTCLASS, 0, &tcmsg(self.interface, handle(*gate), 0));
        self.socket.request("remove gates of credits", gates.iter().map(delete).collect())
    }

    /// Deletes all gates of an interface, without which no service has credits.
    pub fn remove_all(interface: &Interface) -> Result<(), NetlinkError> {
        let gates = on(interface)?;
        let delete = |gate: &u32| Message::new(libc::RTM_DELTCLASS, 0, &tcmsg(interface.index(), handle(*gate), 0));
        Socket::open()?.request("remove gates of credits", gates.iter().map(delete).collect())
    }

    /// The counters of all gates. Lists all classes of the interface.
    pub fn read(&mut self) -> Result<Vec<GateReading>, NetlinkError> {
        readings(&mut self.socket, self.interface)
    }

    /// The counters of those of these gates that exist.
    pub fn read_some(&mut self, gates: &[u32]) -> Result<Vec<GateReading>, NetlinkError> {
        let classes = statuses_of(&mut self.socket, self.interface, gates.iter().map(|gate| handle(*gate)))?;
        Ok(classes.into_iter().map(reading).collect())
    }

    /// The request that makes or changes the TBF of a gate.
    fn message(&self, flags: i32, gate: u32, open: Gate) -> Message {
        let class = handle(gate);
        let message = Message::new(libc::RTM_NEWQDISC, flags, &tcmsg(self.interface, queue_handle(class), class));
        let message = message.text(TCA_KIND, "tbf");
        let bytes = u32::try_from(open.bytes.get()).unwrap_or(u32::MAX);
        let micros = u64::from(open.period.micros());
        if bytes < self.frame || micros == 0 {
            let parameters = [rate_spec(CLOSED_RATE, 0, CLOSED_PACKET), [0; 12]].concat();
            let nanos = u64::from(self.frame) * 1_000_000_000 / CLOSED_RATE;
            // One more, so that the kernel does not round the size of the largest packet down.
            let bucket = u32::try_from(nanos / TICK_NS).unwrap_or(u32::MAX) + 1;
            return message.nest(TCA_OPTIONS, |m| {
                m.attribute(TCA_TBF_PARMS, &words(parameters, [self.limit, bucket, 0]))
                    .attribute(TCA_TBF_RATE64, &CLOSED_RATE.to_ne_bytes())
            });
        }
        let pace = (u64::from(bytes) * 1_000_000 / micros).max(TRICKLE + 1);
        let parameters = [rate_spec(TRICKLE, 0, 0), rate_spec(pace, 0, 0)].concat();
        message.nest(TCA_OPTIONS, |m| {
            m.attribute(TCA_TBF_PARMS, &words(parameters, [self.limit, 0, 0]))
                .attribute(TCA_TBF_RATE64, &TRICKLE.to_ne_bytes())
                .attribute(TCA_TBF_PRATE64, &pace.to_ne_bytes())
                .attribute(TCA_TBF_BURST, &bytes.to_ne_bytes())
                .attribute(TCA_TBF_PBURST, &self.frame.to_ne_bytes())
        })
    }
}

/// Whether a class of the tree is a gate.
pub(crate) fn is_gate(minor: u16) -> bool {
    (u32::from(CREDIT_FIRST)..u32::from(CREDIT_FIRST) + CREDIT_GATES_MAX).contains(&minor.into())
}

/// The gates of an interface; none without Weir's tree.
pub(super) fn on(interface: &Interface) -> Result<BTreeSet<u32>, NetlinkError> {
    let readings = readings(&mut Socket::open()?, interface.index())?;
    Ok(readings.iter().map(|reading| reading.gate).collect())
}

fn readings(socket: &mut Socket, interface: u32) -> Result<Vec<GateReading>, NetlinkError> {
    let classes = statuses(socket, interface, HANDLE)?.into_iter().filter(|class| is_gate(class.minor));
    Ok(classes.map(reading).collect())
}

fn reading(class: ClassStatus) -> GateReading {
    let gate = u32::from(class.minor - CREDIT_FIRST);
    GateReading { gate, sent: class.bytes.get(), waiting: class.backlog, packets: class.waiting, drops: class.drops }
}

fn handle(gate: u32) -> u32 {
    HANDLE | (u32::from(CREDIT_FIRST) + gate)
}

/// struct tc_tbf_qopt: two rates, then the limit, the bucket and the peak rate's bucket in ticks.
fn words(mut parameters: Vec<u8>, words: [u32; 3]) -> Vec<u8> {
    words.iter().for_each(|word| parameters.extend(word.to_ne_bytes()));
    parameters
}
