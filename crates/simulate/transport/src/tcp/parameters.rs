//! The common parameters of TCP: initial window, timeouts, delayed acknowledgements.

use super::congestion::{Common, DUP_THRESH};
use crate::language::{PACKETS, Reader, SIZE, SWITCH, TIME};
use crate::receiver::Policy;
use crate::rto::Rto;
use weir_document::scalar::Scalar;
use weir_document::shape::{Key, Shape};
use weir_units::SimTime;

/// Common parameters of TCP. The defaults are Linux's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// The initial window in packets: 10 (RFC 6928 §2).
    pub initial_window: u32,
    /// The shortest retransmission timeout: 200 ms (Linux's `TCP_RTO_MIN`; RFC 6298 §2.4 recommends
    /// 1 s).
    pub min_rto: SimTime,
    /// The longest retransmission timeout before a data packet's round-trip time is known: 1 s (RFC
    /// 6298 §2.1), or the longest of all if that is less. A handshake's round trip R makes it 3·R:
    /// SRTT = R, RTTVAR = R / 2 (§2.2).
    pub initial_rto: SimTime,
    /// The longest retransmission timeout: 120 s (Linux's `TCP_RTO_MAX`; RFC 6298 §2.5 requires at
    /// least 60 s).
    pub max_rto: SimTime,
    /// The most unacknowledged bytes of the receiver: 4 MB, the part of Linux's default `tcp_rmem`
    /// of 6 MB for the window after its overhead, rounded down.
    pub receive_window: u64,
    /// How many segments above a gap mean that it is lost: 3 (RFC 5681 §3.2, RFC 6675 §2).
    pub dup_thresh: u32,
    /// How many segments in order one acknowledgement covers: 2 (RFC 1122 §4.2.3.2).
    pub delayed_ack: u32,
    /// How long an acknowledgement waits for them: 40 ms (Linux's `TCP_DELACK_MIN`; RFC 1122 allows
    /// 500 ms).
    pub ack_delay: SimTime,
    /// Whether a connection that was idle for a retransmission timeout returns towards its initial
    /// window: yes (RFC 5681 §4.1; Linux's `tcp_slow_start_after_idle`).
    pub idle_restart: bool,
    /// Whether a handshake precedes the first segment: no, the connection is taken as established.
    pub handshake: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            initial_window: 10,
            min_rto: SimTime::from_millis(200),
            initial_rto: SimTime::from_secs(1),
            max_rto: SimTime::from_secs(120),
            receive_window: 4_000_000,
            dup_thresh: DUP_THRESH,
            delayed_ack: 2,
            ack_delay: SimTime::from_millis(40),
            idle_restart: true,
            handshake: false,
        }
    }
}

/// The largest window of TCP: 1 GiB (RFC 7323 §2.3).
const LARGEST_WINDOW: u64 = 1 << 30;

pub(crate) const INITIAL_WINDOW: Key = Key::optional(
    "initial-window",
    PACKETS,
    "The number of packets that a flow sends before the first acknowledgement; 10 (RFC 6928).",
    "initial-window: 10",
);
pub(crate) const MIN_RTO: Key = Key::optional(
    "min-rto",
    TIME,
    "The shortest retransmission timeout; 200ms (Linux). Data-center studies often use 200us to 10ms.",
    "min-rto: 200ms",
);
pub(crate) const INITIAL_RTO: Key = Key::optional(
    "initial-rto",
    TIME,
    "The longest retransmission timeout before a data packet's round-trip time is known; 1s (RFC 6298). After a \
     handshake it is three of the handshake's round trips, at least the min-rto.",
    "initial-rto: 1s",
);
pub(crate) const MAX_RTO: Key =
    Key::optional("max-rto", TIME, "The longest retransmission timeout; 120s (Linux).", "max-rto: 120s");
pub(crate) const RECEIVE_WINDOW: Key = Key::optional(
    "receive-window",
    SIZE,
    "The most unacknowledged bytes that the receiver takes; 4MB (about Linux's default).",
    "receive-window: 4MB",
);
pub(crate) const DUP_THRESH_KEY: Key = Key::optional(
    "dup-thresh",
    PACKETS,
    "The number of packets above a gap by which it counts as lost; 3 (RFC 5681). Raise it where packets take several \
     paths; a million leaves every loss to the timer.",
    "dup-thresh: 3",
);
pub(crate) const DELAYED_ACK: Key = Key::optional(
    "delayed-ack",
    // RFC 5681 §4.2 allows 2; more are seen where acknowledgements are coalesced.
    Shape::Scalar(&Scalar::Integer { what: "a number of packets", min: 1, max: 64 }),
    "The number of packets in order that one acknowledgement covers; 2 (RFC 1122). 1 acknowledges each.",
    "delayed-ack: 2",
);
pub(crate) const ACK_DELAY: Key = Key::optional(
    "ack-delay",
    TIME,
    "The time for which an acknowledgement waits for the packets that it covers; 40ms (Linux).",
    "ack-delay: 40ms",
);
pub(crate) const IDLE_RESTART: Key = Key::optional(
    "idle-restart",
    SWITCH,
    "Whether the window of a connection without anything to send halves with every retransmission timeout, down to the \
     initial window; on (RFC 5681, Linux). For `connections`.",
    "idle-restart: on",
);

pub(crate) const HANDSHAKE: Key = Key::optional(
    "handshake",
    SWITCH,
    "Whether a flow begins with TCP's handshake: a packet of headers to the receiver and one back before the first \
     data, sent again after initial-rto and then ever later, up to max-rto; off. Connections in the lab always have \
     one.",
    "handshake: off",
);

impl Parameters {
    /// Reads the keys above.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Self {
        let mut read = Self::default();
        reader.number("initial-window", &mut read.initial_window);
        reader.time("min-rto", &mut read.min_rto);
        reader.time("initial-rto", &mut read.initial_rto);
        reader.time("max-rto", &mut read.max_rto);
        if !reader.has("initial-rto") {
            read.initial_rto = read.initial_rto.min(read.max_rto);
        }
        reader.size("receive-window", LARGEST_WINDOW, &mut read.receive_window);
        reader.number("dup-thresh", &mut read.dup_thresh);
        reader.number("delayed-ack", &mut read.delayed_ack);
        reader.time("ack-delay", &mut read.ack_delay);
        reader.switch("idle-restart", &mut read.idle_restart);
        reader.switch("handshake", &mut read.handshake);
        for (key, value) in [("min-rto", read.min_rto), ("initial-rto", read.initial_rto)] {
            if value > read.max_rto {
                let span = reader.span(if reader.has(key) { key } else { "max-rto" });
                reader.error(
                    span,
                    format!("the {key} {} is longer than the max-rto {}", value.duration(), read.max_rto.duration()),
                    "make the max-rto the longest of the three",
                );
            }
        }
        if read.delayed_ack > 1 && read.ack_delay >= read.min_rto {
            let span = reader.span(if reader.has("min-rto") { "min-rto" } else { "ack-delay" });
            reader.note(
                span,
                format!(
                    "the ack-delay {} is not shorter than the min-rto {}: a packet that waits for its acknowledgement \
                     may be sent again",
                    read.ack_delay.duration(),
                    read.min_rto.duration()
                ),
                "make the ack-delay shorter, or write `delayed-ack: 1`",
            );
        }
        read
    }

    /// The parameters that do not depend on the window.
    pub(crate) fn common(&self) -> Common {
        Common {
            rto: Rto::new(self.min_rto, self.initial_rto, self.max_rto),
            dup_thresh: self.dup_thresh,
            receive_window: self.receive_window,
            restart_segments: if self.idle_restart { self.initial_window } else { 0 },
            handshake: self.handshake.then_some([self.initial_rto, self.max_rto]),
        }
    }

    /// The receiver's acknowledgement policy; `marks` if it reports marks.
    pub(crate) fn policy(&self, marks: bool) -> Policy {
        Policy::Delayed { every: self.delayed_ack, delay: self.ack_delay, marks }
    }
}
