//! The sending half of TCP: what to send next, and what a loss is.
//!
//! Call [`Sender::on_ack`] for each acknowledgement and [`Sender::on_timeout`] when [`Sender::deadline`] has
//! passed; after either (and at the start) call [`Sender::poll`] until it gives nothing or the host takes no more.
//!
//! Loss recovery:
//! - the first two duplicate acknowledgements let a new segment out each (limited transmit, RFC 3042);
//! - the third retransmits the first missing segment and enters fast recovery, which lasts until everything that was
//!   sent before it is acknowledged; each partial acknowledgement retransmits the next missing segment (RFC 6582 §3.2);
//! - only the first partial acknowledgement restarts the timer ("impatient", RFC 6582 §4.1): with many losses in
//!   a window one slow start after a timeout is quicker than one segment per round trip;
//! - a timeout goes back to the first unacknowledged byte; duplicate acknowledgements for what was sent before it
//!   do not start fast recovery, since they may answer its repetitions.
//!
//! The window grows only when it is what held the sender back (RFC 7661; Linux's `tcp_is_cwnd_limited`): a
//! sender that its own host holds back would otherwise save up a window for a burst.
//!
//! **Backpressure.** A sender stops handing frames to its host while [`Sender::host_limit`] bytes of its own
//! have not left it, as Linux does since 3.6 (TCP small queues, `tcp_small_queue_check` in `net/ipv4/tcp_output.c`):
//! at most two segments or what its pacing rate (twice window / SRTT in early slow start, else 1.2 times)
//! sends in about 1 ms. This is what makes a host's own limiters lossless for TCP: nothing is dropped, the sender waits.
//!
//! Example: 10 segments leave at once. Segment 0 is lost: nine duplicate acknowledgements come back. Two let segments 10 and 11
//! out, the third retransmits 0 with ssthresh 6 and window 9.

use super::TcpConfig;
use super::newreno::NewReno;
use super::rto::Rto;
use weir_units::SimTime;

/// Duplicate acknowledgements that mean a loss (RFC 5681 §3.2).
const DUPLICATES: u32 = 3;
/// The part of a second whose traffic a sender may have in its host: Linux shifts the rate by 10 (`sk_pacing_shift`).
const HOST_LIMIT: SimTime = SimTime::from_picos(1_000_000_000_000 >> 10);

/// A segment to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Offset of the first byte.
    pub sequence: u64,
    /// Number of bytes.
    pub length: u32,
    /// Whether any of it was sent before.
    pub again: bool,
}

/// The sending half of a connection. See the module's documentation for the order of calls.
#[derive(Debug, Clone)]
pub struct Sender {
    mss: u32,
    receive_window: u64,
    /// How many bytes the application has to send; `u64::MAX` for a flow without end.
    total: u64,
    acked: u64,
    next: u64,
    highest: u64,
    window: NewReno,
    rto: Rto,
    duplicates: u32,
    /// In fast recovery: everything below was sent before it began.
    recovery: Option<u64>,
    /// Whether this recovery has had a partial acknowledgement.
    partial: bool,
    /// Everything below was sent before the last timeout.
    timed_out: Option<u64>,
    /// The first unacknowledged segment is to be sent again.
    retransmit: bool,
    deadline: SimTime,
}

impl Sender {
    /// A sender of `total` bytes (`u64::MAX`: without end).
    pub fn new(config: &TcpConfig, total: u64) -> Self {
        Self {
            mss: config.mss,
            receive_window: config.receive_window,
            total,
            acked: 0,
            next: 0,
            highest: 0,
            window: NewReno::new(config.mss, config.initial_window),
            rto: Rto::new(config.min_rto),
            duplicates: 0,
            recovery: None,
            partial: false,
            timed_out: None,
            retransmit: false,
            deadline: SimTime::NEVER,
        }
    }

    /// Bytes that have been acknowledged.
    #[inline]
    pub fn acked(&self) -> u64 {
        self.acked
    }
    /// The end of what has been sent.
    #[inline]
    pub fn highest(&self) -> u64 {
        self.highest
    }
    /// Bytes that have been sent and not acknowledged.
    #[inline]
    pub fn flight(&self) -> u64 {
        self.next - self.acked
    }
    /// The congestion window.
    pub fn window(&self) -> &NewReno {
        &self.window
    }
    /// The round-trip estimator.
    pub fn rto(&self) -> &Rto {
        &self.rto
    }
    /// When to call [`Sender::on_timeout`]; [`SimTime::NEVER`] when nothing is unacknowledged.
    #[inline]
    pub fn deadline(&self) -> SimTime {
        self.deadline
    }
    /// Whether all that the application had to send is acknowledged.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.acked >= self.total
    }

    /// The application has nothing more to send than what has been sent.
    pub fn close(&mut self) {
        self.total = self.total.min(self.highest);
    }

    /// The most bytes of this flow that the host may hold; see the module's documentation.
    #[inline]
    pub fn host_limit(&self, frame: u32) -> u64 {
        let segments = 2 * u64::from(frame);
        let Some(srtt) = self.rto.srtt() else {
            // Linux paces by a round trip of 1 ms until it has measured one, so all of the initial window may go.
            return segments.max(2 * self.window.window());
        };
        let window = self.window.window();
        // Linux: 200 % while the window is below half of ssthresh, else 120 % (tcp_pacing_ss_ratio, tcp_pacing_ca_ratio).
        let percent = if window < self.window.ssthresh() / 2 { 200 } else { 120 };
        let paced = u128::from(window) * percent * u128::from(HOST_LIMIT.picos());
        let paced = paced / (100 * u128::from(srtt.picos().max(1)));
        segments.max(u64::try_from(paced).unwrap_or(u64::MAX))
    }

    /// Everything before `next` was received; `stamp` is the echoed time stamp.
    pub fn on_ack(&mut self, now: SimTime, next: u64, stamp: SimTime) {
        if next > self.acked {
            self.on_progress(now, next, stamp);
        } else if next == self.acked && self.highest > self.acked {
            self.on_duplicate(now);
        }
    }

    fn on_progress(&mut self, now: SimTime, next: u64, stamp: SimTime) {
        let flight = self.flight();
        let newly = next - self.acked;
        self.acked = next;
        // After a timeout, acknowledgements of the first transmissions can overtake the repetitions.
        self.next = self.next.max(next);
        self.rto.sample(now - stamp);
        self.rto.restore();
        self.duplicates = 0;
        let mut restart = true;
        match self.recovery {
            Some(end) if next >= end => {
                self.recovery = None;
                self.window.leave_recovery(self.next - next);
            }
            Some(_) => {
                self.window.deflate(newly);
                self.retransmit = true;
                restart = !self.partial;
                self.partial = true;
            }
            None => {
                let window = self.window.window();
                let held_back =
                    flight + u64::from(self.mss) > window || (self.window.in_slow_start() && window < 2 * flight);
                if held_back {
                    let repeated = self.timed_out.is_some_and(|end| next <= end);
                    self.window.on_ack(newly, repeated);
                }
            }
        }
        if self.highest == self.acked {
            self.deadline = SimTime::NEVER;
            self.retransmit = false;
        } else if restart {
            self.deadline = now + self.rto.timeout();
        }
    }

    fn on_duplicate(&mut self, now: SimTime) {
        if self.recovery.is_some() {
            self.window.inflate();
            return;
        }
        self.duplicates += 1;
        if self.duplicates != DUPLICATES || self.timed_out.is_some_and(|end| self.acked <= end) {
            return;
        }
        self.window.enter_recovery(self.flight());
        self.recovery = Some(self.highest);
        self.partial = false;
        self.retransmit = true;
        self.deadline = now + self.rto.timeout();
    }

    /// The retransmission timer expired.
    pub fn on_timeout(&mut self, now: SimTime) {
        if self.highest == self.acked {
            self.deadline = SimTime::NEVER;
            return;
        }
        self.window.on_timeout(self.flight(), !self.rto.is_backed_off());
        self.rto.back_off();
        self.timed_out = Some(self.highest);
        self.recovery = None;
        self.duplicates = 0;
        self.retransmit = false;
        self.next = self.acked;
        self.deadline = now + self.rto.timeout();
    }

    /// The timer expired while the segment that it waits for has not left the host: wait once more (Linux's `skb_still_in_host_queue`).
    pub fn postpone(&mut self, now: SimTime) {
        self.deadline = now + self.rto.timeout();
    }

    /// The next segment to send, if the windows allow one.
    #[inline]
    pub fn poll(&mut self, now: SimTime) -> Option<Segment> {
        let mss = u64::from(self.mss);
        if self.retransmit {
            self.retransmit = false;
            let length = (self.highest - self.acked).min(mss) as u32;
            return Some(Segment { sequence: self.acked, length, again: true });
        }
        let limited_transmit = if self.recovery.is_none() && self.timed_out.is_none_or(|end| self.acked > end) {
            u64::from(self.duplicates.min(DUPLICATES - 1)) * mss
        } else {
            0
        };
        let window = (self.window.window() + limited_transmit).min(self.receive_window);
        let length = (self.total - self.next).min(mss);
        if length == 0 || self.flight() + length > window {
            return None;
        }
        let sequence = self.next;
        let again = sequence < self.highest;
        self.next += length;
        self.highest = self.highest.max(self.next);
        if self.deadline == SimTime::NEVER {
            self.deadline = now + self.rto.timeout();
        }
        Some(Segment { sequence, length: length as u32, again })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: SimTime = SimTime::from_millis(1);

    fn config() -> TcpConfig {
        TcpConfig { mss: 1000, ..TcpConfig::default() }
    }
    fn send_all(sender: &mut Sender, now: SimTime) -> Vec<u64> {
        std::iter::from_fn(|| sender.poll(now)).map(|segment| segment.sequence / 1000).collect()
    }

    #[test]
    fn the_worked_example() {
        let mut sender = Sender::new(&config(), u64::MAX);
        assert_eq!(send_all(&mut sender, SimTime::ZERO), (0..10).collect::<Vec<_>>());
        let mut sent = Vec::new();
        for _ in 0..3 {
            sender.on_ack(MS, 0, SimTime::ZERO);
            sent.extend(send_all(&mut sender, MS));
        }
        assert_eq!(sent, [10, 11, 0]);
        assert_eq!((sender.window().ssthresh(), sender.window().window()), (6_000, 9_000));
        // Six more duplicates inflate the window to 15: 12, 13, 14 may go.
        for _ in 0..6 {
            sender.on_ack(MS, 0, SimTime::ZERO);
        }
        assert_eq!(send_all(&mut sender, MS), [12, 13, 14]);
        // Segment 5 was lost as well: a partial acknowledgement.
        sender.on_ack(MS + MS, 5_000, MS);
        assert_eq!(send_all(&mut sender, MS + MS), [5, 15]);
        // The end: 12 to 15 are in flight, and the window is one segment above that, not yet ssthresh.
        sender.on_ack(MS + MS, 12_000, MS);
        assert_eq!(sender.window().window(), 5_000);
    }

    #[test]
    fn a_timeout_goes_back_and_ignores_old_duplicates() {
        let mut sender = Sender::new(&config(), u64::MAX);
        send_all(&mut sender, SimTime::ZERO);
        let due = sender.deadline();
        assert_eq!(due, SimTime::from_secs(1));
        sender.on_timeout(due);
        assert_eq!(send_all(&mut sender, due), [0]);
        assert_eq!(sender.deadline(), due + SimTime::from_secs(2));
        for _ in 0..5 {
            sender.on_ack(due, 0, due);
        }
        assert_eq!(send_all(&mut sender, due), [0u64; 0]);
        sender.on_ack(due + MS, 10_000, due);
        assert_eq!(send_all(&mut sender, due + MS), [10, 11]);
    }

    #[test]
    fn a_finite_flow_ends() {
        let mut sender = Sender::new(&config(), 2_500);
        let segments: Vec<_> = std::iter::from_fn(|| sender.poll(SimTime::ZERO)).collect();
        assert_eq!(segments.last(), Some(&Segment { sequence: 2_000, length: 500, again: false }));
        sender.on_ack(MS, 2_500, SimTime::ZERO);
        assert!(sender.is_done());
        assert_eq!(sender.deadline(), SimTime::NEVER);
    }

    #[test]
    fn an_idle_window_does_not_grow() {
        let mut sender = Sender::new(&config(), u64::MAX);
        for round in 0..20u64 {
            sender.poll(SimTime::ZERO);
            sender.on_ack(MS, (round + 1) * 1000, SimTime::ZERO);
        }
        assert_eq!(sender.window().window(), 10_000);
    }

    #[test]
    fn the_host_holds_a_millisecond_or_two_segments() {
        let mut sender = Sender::new(&config(), u64::MAX);
        send_all(&mut sender, SimTime::ZERO);
        sender.on_ack(SimTime::from_millis(100), 1_000, SimTime::ZERO);
        assert_eq!(sender.host_limit(1_066), 2_132);
        let mut near = Sender::new(&config(), u64::MAX);
        send_all(&mut near, SimTime::ZERO);
        near.on_ack(SimTime::from_micros(100), 1_000, SimTime::ZERO);
        // Window 11,000 B in 100 µs, twice that in slow start, for 976.5625 µs.
        assert_eq!(near.host_limit(1_066), 214_843);
    }
}
