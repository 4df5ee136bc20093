//! Hosts: a queue with a root limiter for each service, in front of the network interface.
//!
//! ```text
//! flows ─► service queue ─► root limiter ─┐
//! flows ─► service queue ─► root limiter ─┼─► interface ─► link
//! control datagrams ──────────────────────┘
//! ```
//!
//! Each service has an index; the last index is control traffic, which is never limited (Parley's
//! broadcasts must leave a machine that its own limits throttle). A service without a limit costs
//! nothing: its packets go straight to the interface. A limited one keeps its packets in a FIFO;
//! the limiter (the C function that runs in the kernel) decides about the packet at the head and is
//! charged when it leaves, so a new rate holds from the next packet on.
//!
//! The interface takes services in turn, or orders by the discipline of the network's queues
//! (strict priority, pFabric), or is first in, first out with a buffer and marks
//! ([`crate::World::set_host_queues`]).
//!
//! Unless it has a buffer, a host drops nothing: the transports' backpressure
//! ([`weir_transport::Sender::host_limit`]) bounds its queues, as on Linux ("on the transmit side,
//! the host network stack is back-pressured, so we do not see any drops", Parley §2).
//!
//! Example: a service at 12.112 Mb/s that offers four 1514 B frames at once: two leave (the burst
//! and the frame that opens it), the others 1 and 2 ms later.
//!
//! Source: Parley Fig 10 (root limiters), §5.1.

use crate::ids::PortId;
use crate::packet::List;
use crate::timer::Timer;
use weir_datapath::Limiter;
use weir_units::{Bandwidth, Bytes, Instant, SimTime};

/// A host: the fields that every packet of the host touches. Its services are in a separate table
/// ([`ServiceQueue`]), so that ten thousand hosts stay in a near cache.
#[derive(Debug)]
pub struct Host {
    pub(crate) interface: PortId,
    /// The interface's queue, an index into the world's table.
    pub(crate) queue: u32,
    /// The number of its switch among the leaves.
    pub(crate) leaf: u32,
    /// The number of its services with a limiter.
    pub(crate) limited: u32,
}

impl Host {
    pub(crate) fn new(interface: PortId, queue: u32) -> Self {
        Self { interface, queue, leaf: 0, limited: 0 }
    }
}

/// The least burst of a limiter after a pause: one full Ethernet frame, the least that Linux's HTB
/// works with. It also keeps the limiter exact: while packets wait, the debt never falls to zero,
/// where the rest of the nanosecond in which a packet leaves would be lost.
pub(crate) const BURST: Bytes = Bytes::new(1514);

/// A service's packets at a host and the limiter that they wait for.
#[derive(Debug)]
pub(crate) struct ServiceQueue {
    pub(crate) limit: Bandwidth,
    /// The limiter's burst; at least [`BURST`].
    pub(crate) burst: Bytes,
    /// `None` while the service is not limited.
    pub(crate) limiter: Option<Limiter>,
    /// Packets in order; `release` is set to the first one's departure.
    pub(crate) waiting: List,
    /// The number of those packets.
    pub(crate) count: usize,
    pub(crate) release: Timer,
}

impl Default for ServiceQueue {
    fn default() -> Self {
        let waiting = List::default();
        Self { limit: Bandwidth::UNLIMITED, burst: BURST, limiter: None, waiting, count: 0, release: Timer::default() }
    }
}

/// Whether the head of a service's queue may leave.
pub(crate) enum Head {
    /// It may, and the limiter is charged for it.
    Leaves,
    /// Not before this time.
    Waits(Instant),
}

impl ServiceQueue {
    /// The limiter's decision about a packet of `size` bytes that is at the head now.
    #[inline]
    pub(crate) fn head(&mut self, now: Instant, size: u32) -> Head {
        let Some(limiter) = &mut self.limiter else { return Head::Leaves };
        let departure = limiter.earliest(now);
        if departure > now {
            return Head::Waits(departure);
        }
        limiter.departure(now, Bytes::new(u64::from(size)));
        Head::Leaves
    }
}

/// The time that a host's software takes for a packet, at random.
///
/// Problem: in a network without noise, flows through a drop-tail queue synchronise. One flow's
/// packets always arrive just after a slot has become free and the other's just before, and one
/// gets several times the other's bandwidth: an artefact of exact clocks (Floyd and Jacobson, "On
/// traffic phase effects in packet-switched gateways", 1992). Approach, theirs: a random time in
/// every host, up to the transmission time of a packet at the bottleneck. It is added when a packet
/// finds the interface idle; behind other packets the order and the rate are the interface's.
#[derive(Debug, Clone, Default)]
pub(crate) struct Jitter {
    most: SimTime,
    state: u64,
}

impl Jitter {
    pub(crate) fn new(most: SimTime, seed: u64) -> Self {
        Self { most, state: seed }
    }

    /// The next time: evenly from zero to the most.
    #[inline]
    pub(crate) fn next(&mut self) -> SimTime {
        if self.most == SimTime::ZERO {
            return SimTime::ZERO;
        }
        // SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): one multiplication chain a packet.
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        SimTime::from_picos(((u128::from(bits) * u128::from(self.most.picos())) >> 64) as u64)
    }
}
