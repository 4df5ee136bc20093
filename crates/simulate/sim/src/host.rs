//! Hosts: the limiters of a host's services, in front of the network interface.
//!
//! ```text
//! flows ─► service: root limit │ share of the machine │ machine limiter ─► departure ─┐
//! flows ─► service: root limit │ share of the machine │ machine limiter ─► departure ─┼─► interface ─► link
//! control datagrams ──────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Each service has an index; the last index is control traffic, which is never limited (Parley's
//! broadcasts must leave a machine that its own limits throttle). A host without limits costs
//! nothing: its packets go straight to the interface. In any other host the code of the kernel's programs
//! ([`weir_datapath::Hosts`]) decides about each packet when it enters, as Linux does with departure times: it leaves
//! at once, waits for its departure in one event, or is dropped because its departure is beyond the horizon. A
//! departure is computed once: a new limit holds from the next packet on, and a higher one from the next departure
//! (`docs/design/departure.md`, order).
//!
//! The interface takes services in turn, or orders by the discipline of the network's queues
//! (strict priority, pFabric), or is first in, first out with a buffer and marks
//! ([`crate::World::set_host_queues`]).
//!
//! Unless it has a buffer, an interface drops nothing: the transports' backpressure
//! ([`weir_transport::Sender::host_limit`]) bounds its queues, as on Linux ("on the transmit side,
//! the host network stack is back-pressured, so we do not see any drops", Parley §2).
//!
//! Example: a service at 12.112 Mb/s that offers four 1514 B frames at once: two leave (the burst
//! and the frame that opens it), the others 1 and 2 ms later.
//!
//! Source: Parley Fig 10 (root limiters), §5.1; departure times: Carousel (SIGCOMM 2017), `datapath/departure.h`.

use crate::ids::PortId;
use weir_units::{Bandwidth, SimTime};

/// A host: the fields that every packet of the host touches. Its services are in a separate table
/// ([`ServiceLimit`]), so that ten thousand hosts stay in a near cache.
#[derive(Debug)]
pub struct Host {
    pub(crate) interface: PortId,
    /// The interface's queue, an index into the world's table.
    pub(crate) queue: u32,
    /// The number of its switch among the leaves.
    pub(crate) leaf: u32,
    /// Not 0 if its packets do not go straight to the interface: the times that a service got a limit, and the
    /// mechanisms of the world.
    pub(crate) limited: u32,
}

impl Host {
    pub(crate) fn new(interface: PortId, queue: u32) -> Self {
        Self { interface, queue, leaf: 0, limited: 0 }
    }
}

/// A service's root limit at a host, and its packets that wait for their departure times.
#[derive(Debug)]
pub(crate) struct ServiceLimit {
    pub(crate) limit: Bandwidth,
    /// The number of packets with a departure in the future.
    pub(crate) waiting: u32,
}

impl Default for ServiceLimit {
    fn default() -> Self {
        Self { limit: Bandwidth::UNLIMITED, waiting: 0 }
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
