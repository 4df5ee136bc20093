//! The retransmission timer's part of a completion time.
//!
//! Problem: a queue without room for a burst loses packets. A transport with data behind the lost
//! packet repairs the loss within a round trip; after the last packets of a message nothing follows,
//! and only the retransmission timer repairs it. Approach: the timer is at least its minimum, and
//! doubles each time when the retransmission is lost as well, so `n` timeouts take at least
//!
//! ```text
//! RTO · (2ⁿ − 1)
//! ```
//!
//! The number of timeouts has no bound here: it depends on how long the queue stays full. So a time
//! with timeouts is an example of what a loss costs, not a bound.
//!
//! Worked example: a bound of 12.64 ms and a minimum of 200 ms. With one timeout the message takes
//! 212.64 ms, with two 612.64 ms.
//!
//! Source: RFC 6298, rules 2.4 (the minimum) and 5.5 (the doubling). 200 ms is Linux's
//! `TCP_RTO_MIN`.

use weir_units::Duration;

/// The shortest retransmission timeout of Linux, `TCP_RTO_MIN`, unless a route sets `rto_min`.
pub const LINUX_MIN_RTO: Duration = Duration::from_millis(200);

/// The time that `timeouts` timeouts in a row add, from the shortest one; saturates at the longest
/// [`Duration`].
pub fn wait(shortest: Duration, timeouts: u32) -> Duration {
    let intervals = 1u64.checked_shl(timeouts).map_or(u64::MAX, |power| power - 1);
    Duration::from_nanos(shortest.nanos().saturating_mul(intervals))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RTO, RTO + 2 RTO, RTO + 2 RTO + 4 RTO.
    #[test]
    fn timeouts_double() {
        let waits = [0, 1, 2, 3].map(|timeouts| wait(LINUX_MIN_RTO, timeouts));
        assert_eq!(waits, [0, 200, 600, 1_400].map(Duration::from_millis));
        for timeouts in [63, 64, 1_000] {
            assert_eq!(wait(LINUX_MIN_RTO, timeouts), Duration::from_nanos(u64::MAX));
        }
    }
}
