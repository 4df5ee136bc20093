//! Slow start and additive increase, which several transports share.
//!
//! - Slow start: the window grows by the acknowledged bytes, at most two segments per
//!   acknowledgement (RFC 3465 with L = 2, so that delayed acknowledgements do not slow it down; L
//!   = 1 for data repeated by a timeout, since one acknowledgement then covers much data that had
//!   arrived long before).
//! - Congestion avoidance: one segment for each window acknowledged, counted in bytes (RFC 5681
//!   §3.1).
//! - Loss: ssthresh = max(flight / 2, 2 segments), and the window is that (RFC 6675 §5 step 4.2).
//! - Timeout: ssthresh as above, window one segment (RFC 5681 §3.1).
//!
//! Example, in segments: window 10 in slow start, an acknowledgement of two gives 12. At ssthresh 8
//! with window 8, acknowledgements of eight in all give 9. Loss with 16 in flight: ssthresh and
//! window 8.

/// The congestion window of Reno, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reno {
    pub(crate) mss: u64,
    pub(crate) window: u64,
    pub(crate) ssthresh: u64,
    /// Bytes acknowledged in congestion avoidance since the window last grew.
    acked: u64,
}

impl Reno {
    /// The window of a new connection.
    pub(crate) fn new(mss: u32, initial_segments: u32) -> Self {
        let mss = u64::from(mss);
        Self { mss, window: mss * u64::from(initial_segments), ssthresh: u64::MAX, acked: 0 }
    }

    /// Whether the window is below the slow-start threshold.
    #[inline]
    pub(crate) fn in_slow_start(&self) -> bool {
        self.window < self.ssthresh
    }

    /// Slow start after an acknowledgement of `acked` bytes; `repeated` if they were sent before
    /// the last timeout.
    #[inline]
    pub(crate) fn slow_start(&mut self, acked: u64, repeated: bool) {
        self.window += acked.min(if repeated { self.mss } else { 2 * self.mss });
    }

    /// New data was acknowledged outside recovery, of a sender that the window limited.
    #[inline]
    pub(crate) fn on_ack(&mut self, acked: u64, repeated: bool) {
        if self.in_slow_start() {
            self.slow_start(acked, repeated);
        } else {
            self.acked += acked;
            if self.acked >= self.window {
                self.acked -= self.window;
                self.window += self.mss;
            }
        }
    }

    /// Window and threshold become `window`, at least two segments.
    pub(crate) fn reduce(&mut self, window: u64) {
        self.ssthresh = window.max(2 * self.mss);
        self.window = self.ssthresh;
        self.acked = 0;
    }

    /// A loss with `flight` bytes in flight.
    pub(crate) fn on_loss(&mut self, flight: u64) {
        self.reduce(flight / 2);
    }

    /// The retransmission timer expired; `first` unless it expired for the same data before (RFC
    /// 5681 §3.1).
    pub(crate) fn on_timeout(&mut self, flight: u64, first: bool) {
        if first {
            self.reduce(flight / 2);
        }
        self.restart();
    }

    /// The connection sends again after `timeouts` retransmission timeouts without anything to
    /// send. The old window is not lost: slow start goes to three quarters of it (RFC 2861 §3,
    /// Linux's `tcp_cwnd_restart`).
    pub(crate) fn on_resume(&mut self, timeouts: u32, restart_window: u64) {
        if timeouts == 0 {
            return;
        }
        self.ssthresh = self.ssthresh.max(self.window / 4 * 3);
        let least = self.window.min(restart_window);
        self.window = (self.window >> timeouts.min(63)).max(least);
        self.acked = 0;
    }

    /// The window is one segment, as after a timeout.
    pub(crate) fn restart(&mut self) {
        self.window = self.mss;
        self.acked = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example() {
        let mut reno = Reno::new(1000, 10);
        reno.on_ack(2000, false);
        assert_eq!(reno.window, 12_000);
        reno.on_ack(5000, false);
        assert_eq!(reno.window, 14_000);
        reno.on_loss(16_000);
        assert_eq!((reno.ssthresh, reno.window), (8_000, 8_000));
        for _ in 0..8 {
            assert_eq!(reno.window, 8_000);
            reno.on_ack(1000, false);
        }
        assert_eq!(reno.window, 9_000);
        reno.on_loss(1_000);
        assert_eq!(reno.window, 2_000);
    }

    /// 40 segments, restarted from 10: 20 after one timeout, 10 after two or more; never more than
    /// before.
    #[test]
    fn an_idle_window_halves_with_every_timeout() {
        let after = |timeouts, window| {
            let mut reno = Reno::new(1000, 10);
            reno.reduce(window);
            reno.on_resume(timeouts, 10_000);
            (reno.window, reno.ssthresh)
        };
        assert_eq!(after(0, 40_000), (40_000, 40_000));
        assert_eq!(after(1, 40_000), (20_000, 40_000));
        assert_eq!(after(2, 40_000), (10_000, 40_000));
        assert_eq!(after(500, 40_000), (10_000, 40_000));
        assert_eq!(after(3, 6_000), (6_000, 6_000));
        // Above the threshold, three quarters of the window are the new one.
        let mut reno = Reno::new(1000, 40);
        reno.ssthresh = 8_000;
        reno.on_resume(1, 10_000);
        assert_eq!((reno.window, reno.ssthresh), (20_000, 30_000));
    }

    #[test]
    fn a_timeout_starts_from_one_segment_and_halves_once() {
        let mut reno = Reno::new(1000, 10);
        reno.on_timeout(10_000, true);
        assert_eq!((reno.ssthresh, reno.window), (5_000, 1_000));
        reno.on_ack(5_000, true);
        assert_eq!(reno.window, 2_000);
        reno.on_timeout(1_000, false);
        assert_eq!((reno.ssthresh, reno.window), (5_000, 1_000));
        reno.on_timeout(1_000, true);
        assert_eq!(reno.ssthresh, 2_000);
    }
}
