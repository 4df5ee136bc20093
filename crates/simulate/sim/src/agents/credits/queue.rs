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
//! Worked example, 1 Gb/s: a frame of 1,500 B enters behind 1,500 B of another class in one queue. 18 µs later, when it
//! has been on the wire for 6 µs, Q is 750 B.

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
    /// Frames with the ends of their transmissions, and their bytes.
    sending: VecDeque<(SimTime, u32)>,
    bytes: u64,
    /// Bytes of frames that wait for a decision.
    waiting: u64,
}

impl CreditQueue {
    /// The empty queue of a link of this rate.
    pub(super) fn new(rate: Bandwidth, scheduled: bool) -> Self {
        Self { rate: of(rate), scheduled, sending: VecDeque::new(), bytes: 0, waiting: 0 }
    }

    /// A frame enters the port, which holds `held` bytes of all traffic.
    pub(super) fn enter(&mut self, now: SimTime, size: u32, held: u64) {
        if self.scheduled {
            self.waiting += u64::from(size);
        } else {
            self.send(now, size, held + u64::from(size));
        }
    }

    /// The transmission of a frame begins at a port that chooses.
    pub(super) fn leave(&mut self, now: SimTime, size: u32) {
        self.give_up(size);
        self.send(now, size, size.into());
    }

    fn send(&mut self, now: SimTime, size: u32, behind: u64) {
        let picos = behind as f64 / self.rate;
        self.sending.push_back((now + SimTime::from_picos(picos as u64), size));
        self.bytes += u64::from(size);
    }

    /// A frame that waited is dropped.
    pub(super) fn give_up(&mut self, size: u32) {
        self.waiting = self.waiting.saturating_sub(size.into());
    }

    /// All that the transmitter had is lost: the link is down.
    pub(super) fn cut(&mut self) {
        self.sending.clear();
        self.bytes = 0;
    }

    /// The link has another rate from now on.
    pub(super) fn set_rate(&mut self, now: SimTime, rate: Bandwidth) {
        let before = std::mem::replace(&mut self.rate, of(rate));
        for (end, _) in &mut self.sending {
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

    /// Q, in bytes.
    pub(super) fn held(&mut self, now: SimTime) -> u64 {
        while let Some(&(end, size)) = self.sending.front()
            && end <= now
        {
            self.bytes -= u64::from(size);
            self.sending.pop_front();
        }
        let Some(&(end, size)) = self.sending.front() else { return self.waiting };
        let unsent = ((end - now).picos() as f64 * self.rate).ceil() as u64;
        self.bytes - u64::from(size).saturating_sub(unsent) + self.waiting
    }
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

    #[test]
    fn frames_leave_after_all_that_the_port_holds() {
        let mut queue = CreditQueue::new(GBPS, false);
        queue.enter(micros(0), 1_500, 1_500);
        queue.enter(micros(0), 1_000, 3_000);
        assert_eq!([0, 12, 18, 24, 28, 32].map(|at| queue.held(micros(at))), [2_500, 2_500, 1_750, 1_000, 500, 0]);
    }

    #[test]
    fn a_port_that_chooses_reports_departures() {
        let mut queue = CreditQueue::new(GBPS, true);
        queue.enter(micros(0), 1_500, 90_000);
        queue.enter(micros(0), 1_500, 91_500);
        assert_eq!(queue.held(micros(500)), 3_000);
        queue.leave(micros(500), 1_500);
        assert_eq!([500, 506, 512].map(|at| queue.held(micros(at))), [3_000, 2_250, 1_500]);
        queue.give_up(1_500);
        assert_eq!(queue.held(micros(512)), 0);
    }

    #[test]
    fn a_slower_link_sends_the_rest_slower_and_a_cut_one_nothing() {
        let mut queue = CreditQueue::new(GBPS, false);
        queue.enter(micros(0), 1_500, 0);
        queue.set_rate(micros(6), Bandwidth::from_mbps(100));
        assert_eq!([6, 36, 66].map(|at| queue.held(micros(at))), [750, 375, 0]);
        queue.enter(micros(66), 1_500, 0);
        queue.cut();
        assert_eq!(queue.held(micros(66)), 0);
    }
}
