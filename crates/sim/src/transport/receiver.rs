//! The receiving half: reassembly and acknowledgements.
//!
//! Every second segment in order is acknowledged at once, a single one after the delay. A segment that is
//! out of order, fills a gap or repeats old data is acknowledged at once (RFC 5681 §4.2), so that the sender
//! sees duplicates and can recover. Received ranges above the gap are kept; data in order goes to the
//! application at once, so the window never closes.
//!
//! The time stamp that an acknowledgement echoes is the one of the segment that last moved the left edge, of
//! the first of them if the acknowledgement was delayed, so that the sender's round-trip times include the delay (RFC 7323 §4.3).
//!
//! Example: segments 0, 1, 3, 4, 2 are answered: – (delayed), ack 2, ack 2, ack 2, ack 5.

use weir_units::SimTime;

/// What to do after a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledge {
    /// Acknowledge now.
    Now,
    /// Acknowledge after the delay unless something else does.
    Later,
}

/// The receiving half of a connection.
#[derive(Debug, Clone, Default)]
pub struct Receiver {
    next: u64,
    /// Ranges `[start, end)` above `next`, ascending, apart from each other.
    ranges: Vec<(u64, u64)>,
    /// Segments in order that have not been acknowledged.
    pending: u32,
    stamp: SimTime,
}

impl Receiver {
    /// The first byte that is missing: what an acknowledgement says, and the bytes delivered to the application.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The time stamp that an acknowledgement echoes.
    #[inline]
    pub fn stamp(&self) -> SimTime {
        self.stamp
    }

    /// A segment `[sequence, sequence + length)` arrived.
    #[inline]
    pub fn on_segment(&mut self, sequence: u64, length: u32, stamp: SimTime) -> Acknowledge {
        let end = sequence + u64::from(length);
        if sequence > self.next {
            self.keep(sequence, end);
            return Acknowledge::Now;
        }
        if end <= self.next {
            return Acknowledge::Now;
        }
        if self.pending == 0 {
            self.stamp = stamp;
        }
        self.next = end;
        self.pending += 1;
        if self.ranges.is_empty() {
            // RFC 1122 §4.2.3.2: at least every second segment.
            return if self.pending >= 2 { Acknowledge::Now } else { Acknowledge::Later };
        }
        let covered = self.ranges.iter().take_while(|range| range.0 <= self.next).count();
        if let Some(last) = covered.checked_sub(1) {
            self.next = self.next.max(self.ranges[last].1);
            self.ranges.drain(..covered);
        }
        Acknowledge::Now
    }

    /// An acknowledgement was sent.
    #[inline]
    pub fn acknowledged(&mut self) {
        self.pending = 0;
    }

    /// Whether something in order has not been acknowledged.
    #[inline]
    pub fn owes_ack(&self) -> bool {
        self.pending > 0
    }

    /// Keeps a range above the gap.
    fn keep(&mut self, mut start: u64, mut end: u64) {
        let first = self.ranges.partition_point(|range| range.1 < start);
        let mut last = first;
        while let Some(&(from, to)) = self.ranges.get(last)
            && from <= end
        {
            start = start.min(from);
            end = end.max(to);
            last += 1;
        }
        self.ranges.splice(first..last, [(start, end)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_worked_example() {
        let mut receiver = Receiver::default();
        let mut answers = Vec::new();
        for segment in [0, 1, 3, 4, 2] {
            let answer = receiver.on_segment(segment * 100, 100, SimTime::from_nanos(segment));
            if answer == Acknowledge::Now {
                receiver.acknowledged();
                answers.push(receiver.next() / 100);
            }
        }
        assert_eq!(answers, [2, 2, 2, 5]);
        assert_eq!(receiver.stamp(), SimTime::from_nanos(2));
    }

    #[test]
    fn a_delayed_acknowledgement_echoes_the_first_stamp() {
        let mut receiver = Receiver::default();
        receiver.on_segment(0, 100, SimTime::from_nanos(1));
        receiver.on_segment(100, 100, SimTime::from_nanos(2));
        assert_eq!(receiver.stamp(), SimTime::from_nanos(1));
    }

    proptest! {
        /// Whatever the order and the repetitions, the receiver knows the first missing byte.
        #[test]
        fn reassembles_any_order(order in proptest::collection::vec((0u64..40, 1u32..4), 0..120)) {
            let mut receiver = Receiver::default();
            let mut seen = [false; 64];
            for (segment, length) in order {
                receiver.on_segment(segment, length, SimTime::ZERO);
                for byte in segment..segment + u64::from(length) {
                    seen[byte as usize] = true;
                }
                let missing = seen.iter().position(|&byte| !byte).unwrap_or(seen.len());
                prop_assert_eq!(receiver.next(), missing as u64);
                prop_assert!(receiver.ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
            }
        }
    }
}
