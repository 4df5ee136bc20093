//! [`CreditQueue`]: Q of a port, the bytes of data with credits in it.
//!
//! Frames of other traffic wait in other queues, or between, and are not counted: a port whose other classes are full
//! still has its whole budget for credits.
//!
//! - A first-in first-out port decides about a frame when it arrives: the frame is gone after all that the port holds.
//! - A port that chooses among frames reports each departure. A frame that it gives up is reported too.
//!
//! Of the frame on the wire only the unsent part counts, as in the buffer.
//!
//! Bytes that entered without a grant are counted apart until they leave. A first-in first-out port has them frame by
//! frame, the granted part of a frame first. A port that chooses among frames reports sizes alone: there they count as
//! the last to leave, so that no fewer are counted than the port holds.
//!
//! Worked example, 1 Gb/s: a frame of 1,500 B enters behind 1,500 B of another class in one queue. 18 µs later, when it
//! has been on the wire for 6 µs, Q is 750 B. If 1,000 B of it have no grant, those 750 B are among them.

use crate::fetch::fetch_line;
use std::collections::VecDeque;
use weir_units::{Bandwidth, SimTime};

/// The data with credits in one port.
#[derive(Debug)]
pub(super) struct CreditQueue {
    /// Bytes of the link in a picosecond.
    rate: f64,
    /// The port chooses among frames.
    scheduled: bool,
    /// Frames whose ends of transmission are known, and their bytes.
    sending: VecDeque<Sending>,
    sent: Held,
    /// Bytes of frames that wait for a decision.
    waiting: Held,
}

/// Bytes of data with credits in a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// Q: all of them.
    pub(super) bytes: u64,
    /// Those of them that entered without a grant.
    pub(super) ungranted: u64,
}

/// A frame, the end of its transmission, and its bytes without a grant.
#[derive(Debug, Clone, Copy)]
struct Sending {
    end: SimTime,
    size: u32,
    ungranted: u32,
}

impl CreditQueue {
    /// The empty queue of a link of this rate.
    pub(super) fn new(rate: Bandwidth, scheduled: bool) -> Self {
        Self { rate: of(rate), scheduled, sending: VecDeque::new(), sent: Held::default(), waiting: Held::default() }
    }

    /// A frame enters the port, which holds `held` bytes of all traffic; `ungranted` of its bytes have no grant.
    pub(super) fn enter(&mut self, now: SimTime, size: u32, ungranted: u32, held: u64) {
        if self.scheduled {
            self.waiting.bytes += u64::from(size);
            self.waiting.ungranted += u64::from(ungranted);
        } else {
            self.send(now, size, ungranted, held + u64::from(size));
        }
    }

    /// The transmission of a frame begins at a port that chooses.
    pub(super) fn leave(&mut self, now: SimTime, size: u32) {
        let ungranted = self.take(size);
        self.send(now, size, ungranted, size.into());
    }

    fn send(&mut self, now: SimTime, size: u32, ungranted: u32, behind: u64) {
        let picos = behind as f64 / self.rate;
        self.sending.push_back(Sending { end: now + SimTime::from_picos(picos as u64), size, ungranted });
        self.sent.bytes += u64::from(size);
        self.sent.ungranted += u64::from(ungranted);
    }

    /// A frame that waited is dropped.
    pub(super) fn give_up(&mut self, size: u32) {
        self.take(size);
    }

    /// A frame does not wait any more. Returns those of its bytes that are certain to have no grant.
    fn take(&mut self, size: u32) -> u32 {
        let Held { bytes, ungranted } = &mut self.waiting;
        *bytes = bytes.saturating_sub(size.into());
        let certain = ungranted.saturating_sub(*bytes).min(size.into());
        *ungranted -= certain;
        certain as u32
    }

    /// All that the transmitter had is lost: the link is down.
    pub(super) fn cut(&mut self) {
        self.sending.clear();
        self.sent = Held::default();
    }

    /// The link has another rate from now on.
    pub(super) fn set_rate(&mut self, now: SimTime, rate: Bandwidth) {
        let before = std::mem::replace(&mut self.rate, of(rate));
        for Sending { end, .. } in &mut self.sending {
            let left = end.saturating_sub(now).picos() as f64 * before / self.rate;
            *end = now.max(now + SimTime::from_picos(left as u64));
        }
    }

    /// Prefetches the first frame.
    #[inline]
    pub(super) fn fetch(&self) {
        if let Some(first) = self.sending.front() {
            fetch_line(std::ptr::from_ref(first).cast());
        }
    }

    /// The bytes in the port at `now`, which never decreases.
    pub(super) fn held(&mut self, now: SimTime) -> Held {
        while let Some(&Sending { end, size, ungranted }) = self.sending.front()
            && end <= now
        {
            self.sent.bytes -= u64::from(size);
            self.sent.ungranted -= u64::from(ungranted);
            self.sending.pop_front();
        }
        let Some(&Sending { end, size, ungranted }) = self.sending.front() else { return self.waiting };
        let unsent = rounded_up((end - now).picos() as f64 * self.rate);
        let gone = |bytes: u32| u64::from(bytes).saturating_sub(unsent);
        Held {
            bytes: self.sent.bytes - gone(size) + self.waiting.bytes,
            ungranted: self.sent.ungranted - gone(ungranted) + self.waiting.ungranted,
        }
    }
}

/// The least whole number that is not below `bytes`, which is not negative: without SSE 4.1 `ceil` is a call.
#[inline]
fn rounded_up(bytes: f64) -> u64 {
    let whole = bytes as u64;
    whole + u64::from((whole as f64) < bytes)
}

/// Bytes in a picosecond.
fn of(rate: Bandwidth) -> f64 {
    rate.bps().max(1) as f64 / 8e12
}

#[cfg(test)]
mod tests {
    use super::*;

    const GBPS: Bandwidth = Bandwidth::from_gbps(1);

    fn micros(at: u64) -> SimTime {
        SimTime::from_micros(at)
    }

    /// Q at some times, in microseconds.
    fn held<const N: usize>(queue: &mut CreditQueue, at: [u64; N]) -> [u64; N] {
        at.map(|at| queue.held(micros(at)).bytes)
    }

    fn ungranted<const N: usize>(queue: &mut CreditQueue, at: [u64; N]) -> [u64; N] {
        at.map(|at| queue.held(micros(at)).ungranted)
    }

    #[test]
    fn frames_leave_after_all_that_the_port_holds() {
        let mut queue = CreditQueue::new(GBPS, false);
        queue.enter(micros(0), 1_500, 0, 1_500);
        queue.enter(micros(0), 1_000, 0, 3_000);
        assert_eq!(held(&mut queue, [0, 12, 18, 24, 28, 32]), [2_500, 2_500, 1_750, 1_000, 500, 0]);
    }

    #[test]
    fn a_port_that_chooses_reports_departures() {
        let mut queue = CreditQueue::new(GBPS, true);
        queue.enter(micros(0), 1_500, 0, 90_000);
        queue.enter(micros(0), 1_500, 0, 91_500);
        assert_eq!(held(&mut queue, [500]), [3_000]);
        queue.leave(micros(500), 1_500);
        assert_eq!(held(&mut queue, [500, 506, 512]), [3_000, 2_250, 1_500]);
        queue.give_up(1_500);
        assert_eq!(held(&mut queue, [512]), [0]);
    }

    #[test]
    fn a_slower_link_sends_the_rest_slower_and_a_cut_one_nothing() {
        let mut queue = CreditQueue::new(GBPS, false);
        queue.enter(micros(0), 1_500, 0, 0);
        queue.set_rate(micros(6), Bandwidth::from_mbps(100));
        assert_eq!(held(&mut queue, [6, 36, 66]), [750, 375, 0]);
        queue.enter(micros(66), 1_500, 1_500, 0);
        queue.cut();
        assert_eq!(queue.held(micros(66)), Held::default());
    }

    /// The queue never becomes empty meanwhile.
    #[test]
    fn bytes_without_a_grant_leave_with_their_frame() {
        let mut queue = CreditQueue::new(GBPS, false);
        queue.enter(micros(0), 1_500, 500, 0);
        queue.enter(micros(0), 1_500, 0, 1_500);
        queue.enter(micros(0), 1_500, 1_500, 3_000);
        assert_eq!(ungranted(&mut queue, [0, 8, 10, 12, 24]), [2_000, 2_000, 1_750, 1_500, 1_500]);
        queue.enter(micros(24), 1_500, 0, 1_500);
        assert_eq!(ungranted(&mut queue, [30, 36]), [750, 0]);
        assert_eq!(held(&mut queue, [36]), [1_500]);
    }

    /// Which frame leaves is unknown, so the last ones to leave count as those without grants.
    #[test]
    fn bytes_without_a_grant_leave_last_where_a_port_chooses() {
        let mut queue = CreditQueue::new(GBPS, true);
        queue.enter(micros(0), 1_500, 1_500, 0);
        queue.enter(micros(0), 1_500, 0, 1_500);
        queue.leave(micros(0), 1_500);
        assert_eq!(ungranted(&mut queue, [0, 12]), [1_500, 1_500]);
        queue.leave(micros(12), 1_500);
        assert_eq!(ungranted(&mut queue, [12, 18, 24]), [1_500, 750, 0]);
        queue.enter(micros(24), 1_500, 1_500, 0);
        queue.give_up(1_500);
        assert_eq!(ungranted(&mut queue, [24]), [0]);
    }
}
