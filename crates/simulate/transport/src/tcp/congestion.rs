//! The decision of a TCP variant: the congestion window.

use crate::rto::Rto;
use weir_units::SimTime;

/// An acknowledgement as input of congestion control.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    /// When it arrived.
    pub(crate) now: SimTime,
    /// Bytes that it acknowledges in order.
    pub(crate) newly: u64,
    /// Bytes that it acknowledges in order or selectively, for the first time.
    pub(crate) delivered: u64,
    /// Everything before is acknowledged.
    pub(crate) acked: u64,
    /// The end of what has been sent.
    pub(crate) sent: u64,
    /// The round-trip time that it measured; zero if it measured none.
    pub(crate) rtt: SimTime,
    /// The smoothed round-trip time; zero before the first is measured.
    pub(crate) srtt: SimTime,
    /// Whether it echoes a mark.
    pub(crate) echo: bool,
    /// Whether the window may grow: it acknowledges new data outside loss recovery, and the window
    /// was the sender's limit.
    pub(crate) may_grow: bool,
    /// Whether the acknowledged data was sent before the last timeout.
    pub(crate) repeated: bool,
}

/// `DupThresh` of RFC 5681 §3.2.
pub(crate) const DUP_THRESH: u32 = 3;
/// More packets above a gap than there ever are.
pub(crate) const NO_FAST_RETRANSMIT: u32 = u32::MAX;
/// More bytes than any flow has, and few enough that sums of them do not overflow.
pub(crate) const UNLIMITED: u64 = u64::MAX / 4;

/// The parameters of a variant that the code below the window needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Common {
    /// The retransmission timeouts.
    pub(crate) rto: Rto,
    /// How many packets above a gap mean that it is lost; [`NO_FAST_RETRANSMIT`] to leave it to the
    /// timer.
    pub(crate) dup_thresh: u32,
    /// The most unacknowledged bytes of the receiver; [`UNLIMITED`] for a receiver without a bound.
    pub(crate) receive_window: u64,
    /// The window in segments that a connection restarts from after it was idle; 0 to keep its
    /// window.
    pub(crate) restart_segments: u32,
    /// The time after which an unanswered handshake is repeated, and the longest such time; `None` for a connection
    /// that is taken as established.
    pub(crate) handshake: Option<[SimTime; 2]>,
}

/// The congestion window of a TCP. All sizes are bytes.
pub(crate) trait Congestion {
    /// The parameters in a scenario.
    type Parameters;
    /// Whether queues may mark its packets.
    const CAPABLE: bool;

    /// The window of a new connection.
    fn new(parameters: &Self::Parameters, mss: u32) -> Self;
    /// The parameters that do not depend on the window.
    fn common(parameters: &Self::Parameters) -> Common;
    /// The window.
    fn window(&self) -> u64;
    /// Below it the window grows by slow start.
    fn ssthresh(&self) -> u64;
    /// An acknowledgement arrived.
    fn on_ack(&mut self, progress: &Progress);
    /// A loss was found with `flight` bytes in flight (not more than the window) and everything
    /// before `sent` sent: loss recovery begins.
    fn on_loss(&mut self, now: SimTime, flight: u64, sent: u64);
    /// The retransmission timer expired; `first` unless it expired for the same data before.
    fn on_timeout(&mut self, now: SimTime, flight: u64, first: bool);
    /// The connection had nothing to send and sends again. `timeouts` retransmission timeouts have
    /// passed meanwhile, after each of which the window is half of what it was, down to
    /// `restart_window` bytes. Only for streams ([`crate::Parameters::is_stream`]).
    fn on_resume(&mut self, _now: SimTime, _timeouts: u32, _restart_window: u64) {
        unreachable!("flows of this transport do not stay open")
    }
}
