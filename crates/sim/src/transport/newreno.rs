//! NewReno's congestion window.
//!
//! - Slow start: the window grows by what is acknowledged, at most two segments per acknowledgement (RFC 3465
//!   with L = 2, so that delayed acknowledgements do not slow it down; L = 1 for what a timeout repeats, since one
//!   acknowledgement then covers much that had arrived long before).
//! - Congestion avoidance: one segment for each window acknowledged, counted in bytes (RFC 5681 §3.1).
//! - Fast retransmit: ssthresh = max(flight / 2, 2 segments); the window is ssthresh + 3 segments, grows by one for
//!   each further duplicate acknowledgement (a packet has left the network), shrinks by what a partial
//!   acknowledgement covers, less one segment, and is ssthresh again at the end (RFC 6582 §3.2).
//! - Timeout: ssthresh as above, window one segment (RFC 5681 §3.1).
//!
//! Example, in segments: window 10 in slow start, an acknowledgement of two gives 12. At ssthresh 8 with
//! window 8, acknowledgements of eight in all give 9. Loss with 16 in flight: ssthresh 8, window 11.

/// The congestion window, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct NewReno {
    mss: u64,
    window: u64,
    ssthresh: u64,
    /// Bytes acknowledged in congestion avoidance since the window last grew.
    acked: u64,
}

impl NewReno {
    /// The window of a new connection.
    pub fn new(mss: u32, initial_segments: u32) -> Self {
        let mss = u64::from(mss);
        Self { mss, window: mss * u64::from(initial_segments), ssthresh: u64::MAX, acked: 0 }
    }

    /// The congestion window in bytes.
    #[inline]
    pub fn window(&self) -> u64 {
        self.window
    }

    /// The slow-start threshold in bytes.
    pub fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    /// Whether the window is below the slow-start threshold.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.window < self.ssthresh
    }

    /// New data was acknowledged outside recovery, by a sender that the window held back; `repeated` if it was
    /// sent before the last timeout.
    #[inline]
    pub fn on_ack(&mut self, acked: u64, repeated: bool) {
        if self.in_slow_start() {
            self.window += acked.min(if repeated { self.mss } else { 2 * self.mss });
        } else {
            self.acked += acked;
            if self.acked >= self.window {
                self.acked -= self.window;
                self.window += self.mss;
            }
        }
    }

    /// The third duplicate acknowledgement: fast recovery begins.
    pub fn enter_recovery(&mut self, flight: u64) {
        self.ssthresh = (flight / 2).max(2 * self.mss);
        self.window = self.ssthresh + 3 * self.mss;
        self.acked = 0;
    }

    /// A further duplicate acknowledgement in fast recovery.
    #[inline]
    pub fn inflate(&mut self) {
        self.window += self.mss;
    }

    /// A partial acknowledgement in fast recovery.
    pub fn deflate(&mut self, acked: u64) {
        self.window = self.window.saturating_sub(acked).max(self.mss);
        if acked >= self.mss {
            self.window += self.mss;
        }
    }

    /// The acknowledgement that ends fast recovery; `flight` is what is still unacknowledged after it.
    pub fn leave_recovery(&mut self, flight: u64) {
        // RFC 6582 §3.2 step 3, option 1: not more than one segment above what is in flight, so no burst.
        self.window = self.ssthresh.min(flight.max(self.mss) + self.mss);
    }

    /// The retransmission timer expired; `first` unless it expired for the same data before.
    pub fn on_timeout(&mut self, flight: u64, first: bool) {
        if first {
            self.ssthresh = (flight / 2).max(2 * self.mss);
        }
        self.window = self.mss;
        self.acked = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let mut reno = NewReno::new(1000, 10);
        reno.on_ack(2000, false);
        assert_eq!(reno.window(), 12_000);
        reno.on_ack(5000, false);
        assert_eq!(reno.window(), 14_000);

        reno.enter_recovery(16_000);
        assert_eq!((reno.ssthresh(), reno.window()), (8_000, 11_000));
        reno.inflate();
        assert_eq!(reno.window(), 12_000);
        reno.deflate(3_000);
        assert_eq!(reno.window(), 10_000);
        reno.leave_recovery(20_000);
        assert_eq!(reno.window(), 8_000);

        for _ in 0..8 {
            assert_eq!(reno.window(), 8_000);
            reno.on_ack(1000, false);
        }
        assert_eq!(reno.window(), 9_000);
    }

    #[test]
    fn a_timeout_starts_from_one_segment_and_halves_once() {
        let mut reno = NewReno::new(1000, 10);
        reno.on_timeout(10_000, true);
        assert_eq!((reno.ssthresh(), reno.window()), (5_000, 1_000));
        reno.on_timeout(1_000, false);
        assert_eq!((reno.ssthresh(), reno.window()), (5_000, 1_000));
        reno.on_timeout(1_000, true);
        assert_eq!(reno.ssthresh(), 2_000);
    }
}
