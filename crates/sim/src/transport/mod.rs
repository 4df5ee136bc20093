//! Transports: what the two ends of a flow do.
//!
//! A transport is two machines without clock, queue or network of their own: a sending half that says which
//! segment to send next and when its timer is due, and a receiving half that says when to acknowledge. The
//! engine carries their segments. TCP is split by concern, so that a variant replaces only what it changes:
//!
//! | file | concern | source |
//! |---|---|---|
//! | [`sender`] | sequence space, loss recovery, timer | RFC 5681, 6582, 3042 |
//! | [`newreno`] | the congestion window | RFC 5681, 6582, 3465 |
//! | [`rto`] | round-trip times and the retransmission timeout | RFC 6298, 7323 |
//! | [`receiver`] | reassembly, delayed acknowledgements | RFC 1122, 5681, 7323 |
//!
//! The connection is taken as established: a data-center flow that lives for seconds is not changed by its
//! handshake, and the first segment leaves at the flow's start.

pub mod newreno;
pub mod receiver;
pub mod rto;
pub mod sender;

use crate::packet::ETHERNET_HEADER;
use weir_units::SimTime;

/// Bytes of an IPv4 header without options (RFC 791).
pub const IPV4_HEADER: u32 = 20;
/// Bytes of a TCP header with the time-stamp option and its padding, which Linux sends by default (RFC 9293, 7323).
pub const TCP_HEADER: u32 = 20 + 12;
/// Bytes of a UDP header (RFC 768).
pub const UDP_HEADER: u32 = 8;
/// A segment's frame without its payload: also an acknowledgement's frame, 66 bytes.
pub const TCP_OVERHEAD: u32 = ETHERNET_HEADER + IPV4_HEADER + TCP_HEADER;

/// Parameters of TCP. [`TcpConfig::for_mtu`] gives Linux's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpConfig {
    /// Bytes of payload in a full segment.
    pub mss: u32,
    /// The initial window in segments: 10 (RFC 6928).
    pub initial_window: u32,
    /// The most unacknowledged bytes that the receiver takes. 4 MB is what Linux's default `tcp_rmem`
    /// maximum of 6 MB leaves for the window after its own overhead, rounded down.
    pub receive_window: u64,
    /// The lowest retransmission timeout: Linux's 200 ms (RFC 6298 §2.4 asks for 1 s).
    pub min_rto: SimTime,
    /// How long an acknowledgement waits for a second segment: Linux's 40 ms (RFC 1122 allows 500 ms).
    pub delayed_ack: SimTime,
}

impl TcpConfig {
    /// Linux's defaults for IP packets of at most `mtu` bytes.
    ///
    /// # Panics
    /// If an IP packet of `mtu` bytes holds no payload.
    pub fn for_mtu(mtu: u32) -> Self {
        assert!(mtu > IPV4_HEADER + TCP_HEADER, "an MTU of {mtu} B leaves no room for data");
        Self {
            mss: mtu - IPV4_HEADER - TCP_HEADER,
            initial_window: 10,
            receive_window: 4_000_000,
            min_rto: SimTime::from_millis(200),
            delayed_ack: SimTime::from_millis(40),
        }
    }
}

impl Default for TcpConfig {
    /// Linux's defaults for an MTU of 1500 B: segments of 1448 B.
    fn default() -> Self {
        Self::for_mtu(1500)
    }
}
