//! The sending half of every TCP: sequence space, timer, and loss detection. A variant supplies its
//! congestion window.
//!
//! | file | concern | source |
//! |---|---|---|
//! | this one | sequence space, timer, host's limit | RFC 5681, 6298, 7323 |
//! | `scoreboard` | selective acknowledgements, loss recovery | RFC 2018, 6675, 3042 |
//! | `congestion` | the interface of a variant | |
//! | `reno` | slow start and additive increase | RFC 5681, 3465 |
//! | `parameters` | common parameters | |
//!
//! The connection is taken as established: the first segment leaves at the flow's start. With `handshake`, a backend
//! exchanges a packet of headers first ([`crate::Parameters::handshake`]), whose round trip is the first sample.
//!
//! Loss recovery:
//! - an acknowledgement is a duplicate if it reports new selective data (RFC 6675 §2); the first
//!   two release a new segment each (limited transmit, RFC 3042);
//! - the third (`dup-thresh`), or more than two segments' worth of data above a gap, starts loss
//!   recovery, which lasts until all data sent before it is acknowledged (RFC 6675 §5);
//! - a timeout returns to the first unacknowledged byte and skips selectively acknowledged data;
//!   until all data sent before it is acknowledged, loss recovery does not start, since the
//!   acknowledgements may belong to repetitions (RFC 6675 §5.1).
//!
//! The window grows only when it was the sender's limit (RFC 7661; Linux's `tcp_is_cwnd_limited`):
//! a sender that is throttled by its own host would otherwise save up a window for a burst.
//!
//! **Connections that stay open.** The application may add data at any time
//! ([`crate::Sender::write`]): the bytes follow earlier ones as one stream, in full segments if
//! they wait for the window, with a short segment at the end (`TCP_NODELAY`, as programs that send
//! messages set it). Window, round-trip time and threshold stay. A connection that sent nothing for
//! longer than its retransmission timeout may not burst an outdated window: the window halves with
//! every idle timeout, down to the initial one (RFC 5681 §4.1 would reset it at once; RFC 2861 §3
//! and Linux halve).
//!
//! **Backpressure.** A backend stops taking packets of a sender while [`crate::Sender::host_limit`]
//! bytes of its own have not left the host, as Linux does since 3.6 (TCP small queues,
//! `tcp_small_queue_check` in `net/ipv4/tcp_output.c`): at most two segments or the bytes that its
//! pacing rate (twice window / SRTT in early slow start, else 1.2 times) sends in about 1 ms. This
//! makes a host's own limiters lossless for TCP: no packet is dropped, the sender waits.
//!
//! Example, in segments: ten leave at once, and 0 is lost. The first two acknowledgements for 1 and
//! 2 release 10 and 11; the third halves the window to 5 and sends 0 again.

mod congestion;
mod parameters;
pub(crate) mod reno;
mod scoreboard;
#[cfg(test)]
mod tests;

pub(crate) use congestion::{Common, Congestion, DUP_THRESH, NO_FAST_RETRANSMIT, Progress, UNLIMITED};
pub use parameters::Parameters;
pub(crate) use parameters::{
    ACK_DELAY, DELAYED_ACK, DUP_THRESH_KEY, HANDSHAKE, IDLE_RESTART, INITIAL_RTO, INITIAL_WINDOW, MAX_RTO, MIN_RTO,
    RECEIVE_WINDOW,
};

use crate::api::{Ack, Connection, Segment, Timeout};
use crate::registry::Machine;
use crate::rto::Rto;
use scoreboard::Scoreboard;
use weir_units::SimTime;

/// The part of a second whose traffic a sender may have in its host: Linux shifts the rate by 10
/// (`sk_pacing_shift`).
const HOST_LIMIT: SimTime = SimTime::from_picos(1_000_000_000_000 >> 10);

/// The sending half of a connection. See [`crate::Sender`] for the order of calls.
#[derive(Debug, Clone)]
pub(crate) struct Sender<C> {
    mss: u32,
    duplicates: u32,
    dup_thresh: u32,
    /// The window in segments that it restarts from after it was idle; 0 to keep its window.
    restart_segments: u32,
    /// The bytes that the application has added; `u64::MAX` for a flow without end.
    total: u64,
    /// Everything before is acknowledged.
    acked: u64,
    /// The next byte to send in order; before `highest` only after a timeout.
    next: u64,
    /// The end of what has been sent.
    highest: u64,
    /// Everything before was sent before the last timeout.
    timed_out: u64,
    receive_window: u64,
    deadline: SimTime,
    /// When the last segment was sent, while everything is acknowledged.
    idle_since: SimTime,
    rto: Rto,
    congestion: C,
    /// The selectively acknowledged data, and loss recovery; only while there is either.
    board: Option<Box<Scoreboard>>,
}

impl<C: Congestion> Sender<C> {
    /// Bytes that the application has to send and that are not acknowledged, not even selectively.
    pub(crate) fn remaining(&self) -> u64 {
        self.total - self.acked - self.board.as_ref().map_or(0, |board| board.sacked.bytes())
    }

    /// Bytes that the application has to send and that were not sent, or are not acknowledged where some were lost.
    pub(crate) fn unsent(&self) -> u64 {
        if self.board.is_some() { self.remaining() } else { self.total - self.next }
    }

    /// The next segment, of at most `most` bytes.
    pub(crate) fn poll_within(&mut self, now: SimTime, most: u32) -> Option<Segment> {
        let mss = self.mss;
        self.mss = mss.min(most);
        let segment = self.poll(now);
        self.mss = mss;
        segment
    }

    /// Whether loss recovery is under way.
    pub(crate) fn is_recovering(&self) -> bool {
        self.board.as_ref().is_some_and(|board| board.is_recovering())
    }

    /// Whether the window limited the sender when `flight` bytes were in flight.
    #[inline]
    fn is_throttled(&self, flight: u64) -> bool {
        let window = self.congestion.window();
        flight + u64::from(self.mss) > window || (window < self.congestion.ssthresh() && window < 2 * flight)
    }

    /// Everything before `next` is acknowledged, more than before. Returns the difference.
    #[inline]
    fn advance(&mut self, now: SimTime, next: u64, rtt: SimTime) -> u64 {
        let newly = next - self.acked;
        self.acked = next;
        // After a timeout, acknowledgements of the first transmissions can overtake the
        // repetitions.
        self.next = self.next.max(next);
        self.rto.sample(rtt);
        self.rto.restore();
        self.duplicates = 0;
        if self.highest == next {
            (self.deadline, self.idle_since) = (SimTime::NEVER, now - rtt);
        } else {
            self.deadline = now + self.rto.timeout();
        }
        newly
    }

    /// An acknowledgement with selective data, now or before.
    #[cold]
    fn on_selective_ack(&mut self, now: SimTime, ack: &Ack<'_>) {
        let mut board = self.board.take().unwrap_or_default();
        let flight = self.next - self.acked - board.sacked.bytes_below(self.next);
        let throttled = self.is_throttled(flight);
        let was_recovering = board.is_recovering();
        let (mut newly, mut delivered, mut rtt) = (0, 0, SimTime::ZERO);
        let next = ack.content.next;
        if next > self.acked {
            rtt = now - ack.content.stamp;
            newly = self.advance(now, next, rtt);
            delivered = newly - board.sacked.drop_below(next);
        }
        let fresh = board.take(ack.sack, self.acked, self.highest);
        delivered += fresh;
        if board.is_recovering() {
            board.on_ack(self.acked, self.highest, self.mss, self.dup_thresh);
        }
        let mut lost = false;
        if !was_recovering && fresh > 0 && self.acked >= self.timed_out {
            self.duplicates += 1;
            lost = self.duplicates >= self.dup_thresh || board.lost_below(self.mss, self.dup_thresh) > self.acked;
        }
        self.congestion.on_ack(&Progress {
            now,
            newly,
            delivered,
            acked: self.acked,
            sent: self.highest,
            rtt,
            srtt: self.rto.srtt().unwrap_or(SimTime::ZERO),
            echo: ack.content.echo,
            may_grow: newly > 0 && throttled && !was_recovering && !lost,
            repeated: next <= self.timed_out,
        });
        if lost {
            // Segments of limited transmit do not count (RFC 5681 §3.2): the window was full
            // without them.
            let flight = (self.highest - self.acked).min(self.congestion.window());
            self.congestion.on_loss(now, flight, self.highest);
            board.start(self.acked, self.highest, self.mss, self.dup_thresh);
            self.deadline = now + self.rto.timeout();
        }
        self.board = (!board.is_empty()).then_some(board);
    }

    /// The next segment with selective data present.
    #[cold]
    fn poll_selectively(&mut self) -> Option<Segment> {
        let board = self.board.as_mut()?;
        let mss = u64::from(self.mss);
        let window = self.congestion.window();
        if board.is_recovering() {
            // New data may go within the receive window; `next` is `highest` here.
            let fresh =
                (self.total - self.next).min(mss).min((self.acked + self.receive_window).saturating_sub(self.next));
            let (sequence, length) = board.next_segment(self.acked, self.highest, fresh, window, mss)?;
            self.next = self.next.max(sequence + length);
            return Some(self.segment(sequence, length));
        }
        let (sequence, end) = board.sacked.gap(self.next);
        let length = (self.total - sequence).min(mss).min(end - sequence);
        let flight = sequence - self.acked - board.sacked.bytes_below(sequence);
        if length == 0 || flight + length > window || sequence + length - self.acked > self.receive_window {
            return None;
        }
        self.next = sequence + length;
        Some(self.segment(sequence, length))
    }

    /// Records the departure of a segment.
    #[inline]
    fn segment(&mut self, sequence: u64, length: u64) -> Segment {
        let again = sequence < self.highest;
        self.highest = self.highest.max(sequence + length);
        Segment { sequence, length: length as u32, again, capable: C::CAPABLE, rank: 0, control: false }
    }
}

impl<C: Congestion> Machine for Sender<C> {
    type Parameters = C::Parameters;
    const STREAM: bool = true;

    fn shortest_timeout(parameters: &C::Parameters) -> Option<SimTime> {
        Some(C::common(parameters).rto.shortest())
    }
    fn receive_window(parameters: &C::Parameters) -> Option<u64> {
        Some(C::common(parameters).receive_window)
    }
    fn handshake(parameters: &C::Parameters) -> Option<[SimTime; 2]> {
        C::common(parameters).handshake
    }

    fn on_open(&mut self, now: SimTime, round_trip: SimTime) {
        self.rto.sample(round_trip);
        self.idle_since = now;
    }

    fn new(parameters: &C::Parameters, connection: &Connection) -> Self {
        let common = C::common(parameters);
        Self {
            mss: connection.payload,
            duplicates: 0,
            dup_thresh: common.dup_thresh,
            restart_segments: common.restart_segments,
            total: connection.bytes,
            acked: 0,
            next: 0,
            highest: 0,
            timed_out: 0,
            receive_window: common.receive_window,
            deadline: SimTime::NEVER,
            idle_since: connection.start,
            rto: common.rto.after_handshake(connection.round_trip),
            congestion: C::new(parameters, connection.payload),
            board: None,
        }
    }

    #[inline]
    fn poll(&mut self, now: SimTime) -> Option<Segment> {
        let segment = if self.board.is_some() {
            self.poll_selectively()?
        } else {
            let length = (self.total - self.next).min(u64::from(self.mss));
            let end = self.next + length;
            if length == 0 || end - self.acked > self.congestion.window().min(self.receive_window) {
                return None;
            }
            let sequence = std::mem::replace(&mut self.next, end);
            self.segment(sequence, length)
        };
        if self.deadline == SimTime::NEVER {
            self.deadline = now + self.rto.timeout();
        }
        Some(segment)
    }

    #[inline]
    fn on_ack(&mut self, now: SimTime, ack: &Ack<'_>) {
        let next = ack.content.next;
        debug_assert!(next <= self.highest, "{next} is acknowledged, but only {} was sent", self.highest);
        if self.board.is_some() || !ack.sack.is_empty() {
            return self.on_selective_ack(now, ack);
        }
        if next <= self.acked {
            return;
        }
        let throttled = self.is_throttled(self.next - self.acked);
        let rtt = now - ack.content.stamp;
        let newly = self.advance(now, next, rtt);
        self.congestion.on_ack(&Progress {
            now,
            newly,
            delivered: newly,
            acked: next,
            sent: self.highest,
            rtt,
            srtt: self.rto.srtt().unwrap_or(SimTime::ZERO),
            echo: ack.content.echo,
            may_grow: throttled,
            repeated: next <= self.timed_out,
        });
    }

    #[inline]
    fn timer(&self) -> SimTime {
        self.deadline
    }

    fn on_timer(&mut self, now: SimTime, all_in_host: bool) -> Timeout {
        if now < self.deadline {
            return Timeout::Nothing;
        }
        if all_in_host {
            self.deadline = now + self.rto.timeout();
            return Timeout::Nothing;
        }
        let flight = self.flight().min(self.congestion.window());
        self.congestion.on_timeout(now, flight, !self.rto.is_backed_off());
        self.rto.back_off();
        self.timed_out = self.highest;
        self.duplicates = 0;
        self.next = self.acked;
        if let Some(mut board) = self.board.take() {
            board.stop();
            self.board = (!board.is_empty()).then_some(board);
        }
        self.deadline = now + self.rto.timeout();
        Timeout::Loss
    }

    fn write(&mut self, now: SimTime, bytes: u64) {
        if self.acked == self.total {
            let idle = (now - self.idle_since).picos();
            // Linux: the first halving when more than one timeout has passed, and one with each
            // that follows.
            let timeouts = match self.restart_segments {
                0 => 0,
                _ => idle.saturating_sub(1) / self.rto.timeout().picos().max(1),
            };
            let restart_window = u64::from(self.restart_segments) * u64::from(self.mss);
            self.congestion.on_resume(now, u32::try_from(timeouts).unwrap_or(u32::MAX), restart_window);
        }
        self.total = self.total.saturating_add(bytes);
    }

    fn close(&mut self) {
        self.total = self.total.min(self.highest);
    }
    #[inline]
    fn is_done(&self) -> bool {
        self.acked >= self.total
    }
    #[inline]
    fn acked(&self) -> u64 {
        self.acked
    }
    #[inline]
    fn highest(&self) -> u64 {
        self.highest
    }
    #[inline]
    fn flight(&self) -> u64 {
        let sacked = self.board.as_ref().map_or(0, |board| board.sacked.bytes_below(self.next));
        self.next - self.acked - sacked
    }

    #[inline]
    fn host_limit(&self, frame: u32) -> u64 {
        let segments = 2 * u64::from(frame);
        let window = self.congestion.window();
        let Some(srtt) = self.rto.srtt() else {
            // Linux paces by a round trip of 1 ms until it has measured one, so all of the initial
            // window may go.
            return segments.max(2 * window);
        };
        // Linux: 200 % while the window is below half of ssthresh, else 120 % (tcp_pacing_ss_ratio,
        // tcp_pacing_ca_ratio).
        let percent = if window < self.congestion.ssthresh() / 2 { 200 } else { 120 };
        // 64 bits are enough for any window of TCP, and divide faster than 128.
        let paced = (window * percent / 100).saturating_mul(HOST_LIMIT.picos()) / srtt.picos().max(1);
        segments.max(paced)
    }
    #[inline]
    fn window(&self) -> u64 {
        self.congestion.window()
    }
}
