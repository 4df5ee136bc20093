//! The receiving half of every transport: reassembly, acknowledgements, and their content.
//!
//! Call [`Receiver::on_segment`] for each data packet; when an acknowledgement is sent, now or
//! later, [`Receiver::acknowledge`] gives its content, and [`Receiver::sack`] its selective part.
//!
//! Transports differ in the time of acknowledgements ([`Policy`]):
//!
//! - **Delayed** (TCP): every n-th segment in order at once, fewer after a delay (RFC 1122
//!   §4.2.3.2). A segment that is out of order, fills a gap or repeats old data is acknowledged at
//!   once (RFC 5681 §4.2), so that the sender can recover.
//! - **Delayed with marks** (DCTCP): as above, and each acknowledgement reports whether the packets
//!   that it covers were marked. Where the mark changes, the packets before are acknowledged first
//!   with the old state, and the packet that changed it at once with the new one (RFC 8257 §3.2;
//!   Linux's `dctcp_ece_ack_update`).
//! - **Each** (pFabric, D3): every packet at once.
//! - **Never** (UDP).
//!
//! The time stamp that an acknowledgement echoes is the one of the segment that last moved the left
//! edge, of the first of them if the acknowledgement was delayed, so that the sender's round-trip
//! times include the delay (RFC 7323 §4.3). Data in order goes to the application at once, so the
//! window never closes.
//!
//! Example: segments 0, 1, 3, 4, 2 cause: – (delayed), ack 2, ack 2 with block 3, ack 2 with block
//! 3–4, ack 5.

use crate::api::{AckContent, Acknowledge, Arrival, Reaction, SackBlock, SackBlocks};
use crate::ranges::Ranges;
use weir_units::SimTime;

/// When a receiver acknowledges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Every `every`-th segment, or after `delay`.
    Delayed {
        /// How many segments one acknowledgement covers.
        every: u32,
        /// How long one waits for them.
        delay: SimTime,
        /// Whether it reports marks.
        marks: bool,
    },
    /// Every packet.
    Each,
    /// No packet.
    Never,
}

/// The receiving half of a flow. See the module's documentation for the order of calls.
#[derive(Debug, Clone)]
pub struct Receiver {
    next: u64,
    /// The time stamp to echo.
    stamp: SimTime,
    /// The due time of the pending acknowledgement.
    due: SimTime,
    delay: SimTime,
    /// Segments in order that have not been acknowledged.
    pending: u32,
    /// Segments that one acknowledgement covers; 0 for none ever.
    every: u32,
    marks: bool,
    /// The last packet was marked.
    marked: bool,
    /// The data above the gap; only while there is some.
    early: Option<Box<Early>>,
}

/// The data above the gap.
#[derive(Debug, Clone, Default)]
struct Early {
    ranges: Ranges,
    /// A byte of each of the ranges that changed last, the latest first; their number is `count`.
    recent: [u64; 3],
    count: usize,
}

impl Receiver {
    pub(crate) fn with_policy(policy: Policy) -> Self {
        let (every, delay, marks) = match policy {
            Policy::Delayed { every, delay, marks } => (every, delay, marks),
            Policy::Each => (1, SimTime::ZERO, false),
            Policy::Never => (0, SimTime::ZERO, false),
        };
        let (next, stamp, due) = (0, SimTime::ZERO, SimTime::NEVER);
        Self { next, stamp, due, delay, pending: 0, every, marks, marked: false, early: None }
    }

    /// The first missing byte: the content of an acknowledgement, and the bytes delivered to the
    /// application. Without acknowledgements nothing is repeated, and it is the number of bytes
    /// that arrived.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether something in order has not been acknowledged.
    #[inline]
    pub fn owes_ack(&self) -> bool {
        self.pending > 0
    }

    /// A data packet arrived.
    #[inline]
    pub fn on_segment(&mut self, now: SimTime, arrival: &Arrival) -> Reaction {
        if self.every == 0 {
            self.next += u64::from(arrival.length);
            return Reaction { before: None, acknowledge: Acknowledge::Never };
        }
        let mut before = None;
        let mut at_once = false;
        if arrival.marked != self.marked && self.marks {
            if self.pending > 0 {
                before = Some(self.acknowledge());
            }
            self.marked = arrival.marked;
            at_once = true;
        }
        at_once |= !self.take(arrival);
        let acknowledge = if at_once || self.pending >= self.every {
            Acknowledge::Now
        } else {
            if self.pending == 1 {
                self.due = now + self.delay;
            }
            Acknowledge::Later(self.due)
        };
        Reaction { before, acknowledge }
    }

    /// Takes the bytes of a packet. Returns whether they were the next ones and no range waited
    /// behind them.
    #[inline]
    fn take(&mut self, arrival: &Arrival) -> bool {
        let end = arrival.sequence + u64::from(arrival.length);
        if arrival.sequence > self.next {
            if arrival.length > 0 {
                self.early.get_or_insert_default().keep(arrival.sequence, end);
            }
            return false;
        }
        if end <= self.next {
            return false;
        }
        if self.pending == 0 {
            self.stamp = arrival.stamp;
        }
        self.next = end;
        self.pending += 1;
        let Some(early) = &mut self.early else { return true };
        (self.next, _) = early.ranges.gap(self.next);
        early.ranges.drop_below(self.next);
        if early.ranges.is_empty() {
            self.early = None;
        }
        false
    }

    /// The content of the acknowledgement that is sent now; none is pending after it.
    #[inline]
    pub fn acknowledge(&mut self) -> AckContent {
        self.pending = 0;
        AckContent { next: self.next, stamp: self.stamp, echo: self.marked }
    }

    /// The ranges above the gap, of which an acknowledgement carries up to three.
    #[inline]
    pub fn sack(&self) -> SackBlocks {
        match &self.early {
            None => SackBlocks::default(),
            Some(early) => early.blocks(),
        }
    }
}

impl Early {
    /// Keeps a range above the gap.
    fn keep(&mut self, from: u64, to: u64) {
        self.ranges.insert(from, to);
        let around = self.ranges.containing(from).unwrap_or((from, to));
        // The others move one back; those within the new range are removed.
        let mut recent = [from; 3];
        let mut count = 1;
        for &byte in &self.recent[..self.count] {
            if (byte < around.0 || byte >= around.1) && count < recent.len() {
                recent[count] = byte;
                count += 1;
            }
        }
        (self.recent, self.count) = (recent, count);
    }

    /// RFC 2018 §4: the block with the newest segment first, then those that were reported last.
    fn blocks(&self) -> SackBlocks {
        let mut sack = SackBlocks::default();
        let known = self.recent[..self.count].iter().filter_map(|byte| self.ranges.containing(*byte));
        // When the newest have been delivered, older ones that were displaced are reported again.
        for (from, to) in known.chain(self.ranges.iter()) {
            let reported = &sack.blocks[..usize::from(sack.count)];
            if reported.iter().any(|block| block.from == from) {
                continue;
            }
            sack.blocks[usize::from(sack.count)] = SackBlock { from, to };
            sack.count += 1;
            if usize::from(sack.count) == sack.blocks.len() {
                break;
            }
        }
        sack
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DELAYED: Policy = Policy::Delayed { every: 2, delay: SimTime::from_millis(40), marks: false };
    const MARKS: Policy = Policy::Delayed { every: 2, delay: SimTime::from_millis(40), marks: true };

    fn packet(segment: u64, marked: bool) -> Arrival {
        Arrival { sequence: segment * 100, length: 100, stamp: SimTime::from_nanos(segment), marked }
    }
    fn reported(receiver: &Receiver) -> Vec<(u64, u64)> {
        let sack = receiver.sack();
        sack.blocks[..usize::from(sack.count)].iter().map(|block| (block.from / 100, block.to / 100)).collect()
    }

    #[test]
    fn the_worked_example() {
        let mut receiver = Receiver::with_policy(DELAYED);
        let mut acks = Vec::new();
        for segment in [0, 1, 3, 4, 2] {
            let reaction = receiver.on_segment(SimTime::ZERO, &packet(segment, false));
            if reaction.acknowledge == Acknowledge::Now {
                acks.push((receiver.acknowledge().next / 100, reported(&receiver)));
            } else {
                assert_eq!(reaction.acknowledge, Acknowledge::Later(SimTime::from_millis(40)));
            }
        }
        assert_eq!(acks, [(2, vec![]), (2, vec![(3, 4)]), (2, vec![(3, 5)]), (5, vec![])]);
        assert_eq!(receiver.acknowledge().stamp, SimTime::from_nanos(2));
        assert!(receiver.early.is_none());
    }

    #[test]
    fn a_delayed_acknowledgement_echoes_the_first_stamp() {
        let mut receiver = Receiver::with_policy(DELAYED);
        receiver.on_segment(SimTime::ZERO, &packet(0, false));
        assert!(receiver.owes_ack());
        receiver.on_segment(SimTime::ZERO, &packet(1, false));
        assert_eq!(receiver.acknowledge().stamp, SimTime::ZERO);
        assert!(!receiver.owes_ack());
    }

    #[test]
    fn a_later_packet_does_not_move_the_delay() {
        let policy = Policy::Delayed { every: 3, delay: SimTime::from_millis(40), marks: false };
        let mut receiver = Receiver::with_policy(policy);
        let at = |millis, segment, receiver: &mut Receiver| {
            receiver.on_segment(SimTime::from_millis(millis), &packet(segment, false)).acknowledge
        };
        assert_eq!(at(10, 0, &mut receiver), Acknowledge::Later(SimTime::from_millis(50)));
        assert_eq!(at(20, 1, &mut receiver), Acknowledge::Later(SimTime::from_millis(50)));
        assert_eq!(at(30, 2, &mut receiver), Acknowledge::Now);
    }

    /// RFC 2018 §4: the newest block first, then those that were reported before, three at most.
    #[test]
    fn the_newest_blocks_are_reported() {
        let mut receiver = Receiver::with_policy(DELAYED);
        for segment in [2, 4, 6, 8, 3] {
            receiver.on_segment(SimTime::ZERO, &packet(segment, false));
        }
        assert_eq!(reported(&receiver), [(2, 5), (8, 9), (6, 7)]);
        receiver.on_segment(SimTime::ZERO, &packet(0, false));
        receiver.on_segment(SimTime::ZERO, &packet(1, false));
        assert_eq!(reported(&receiver), [(8, 9), (6, 7)]);
    }

    /// RFC 8257 §3.2: the packets before a change are acknowledged with the old state, then the
    /// change itself.
    #[test]
    fn marks_are_reported_for_exactly_the_marked_packets() {
        let mut receiver = Receiver::with_policy(MARKS);
        let mut acks = Vec::new();
        for (segment, marked) in [(0, false), (1, true), (2, true), (3, true), (4, true), (5, false), (6, false)] {
            let reaction = receiver.on_segment(SimTime::ZERO, &packet(segment, marked));
            acks.extend(reaction.before.map(|content| (content.next / 100, content.echo)));
            if reaction.acknowledge == Acknowledge::Now {
                let content = receiver.acknowledge();
                acks.push((content.next / 100, content.echo));
            }
        }
        // Packet 6 waits for another one.
        assert_eq!(acks, [(1, false), (2, true), (4, true), (5, true), (6, false)]);
        assert!(receiver.owes_ack());
    }

    #[test]
    fn marks_are_ignored_by_other_policies() {
        let mut receiver = Receiver::with_policy(DELAYED);
        receiver.on_segment(SimTime::ZERO, &packet(0, true));
        assert_eq!(receiver.acknowledge(), AckContent { next: 100, stamp: SimTime::ZERO, echo: false });
    }

    #[test]
    fn each_and_never() {
        let mut each = Receiver::with_policy(Policy::Each);
        assert_eq!(each.on_segment(SimTime::ZERO, &packet(0, false)).acknowledge, Acknowledge::Now);
        let probe = Arrival { length: 0, ..packet(5, false) };
        assert_eq!(each.on_segment(SimTime::ZERO, &probe).acknowledge, Acknowledge::Now);
        assert!(each.early.is_none());
        let mut never = Receiver::with_policy(Policy::Never);
        for segment in [0, 5, 7] {
            assert_eq!(never.on_segment(SimTime::ZERO, &packet(segment, true)).acknowledge, Acknowledge::Never);
        }
        assert_eq!(never.next(), 300);
        assert!(!never.owes_ack());
    }

    proptest! {
        /// For every order and repetition, the receiver has the first missing byte, reports only
        /// received data, and reports the newest first.
        #[test]
        fn reassembles_any_order(order in proptest::collection::vec((0u64..40, 1u32..4), 0..120)) {
            let mut receiver = Receiver::with_policy(DELAYED);
            let mut seen = [false; 64];
            for (sequence, length) in order {
                let end = sequence + u64::from(length);
                receiver.on_segment(SimTime::ZERO, &Arrival { sequence, length, stamp: SimTime::ZERO, marked: false });
                seen[sequence as usize..end as usize].fill(true);
                let missing = seen.iter().position(|&byte| !byte).unwrap_or(seen.len()) as u64;
                prop_assert_eq!(receiver.next(), missing);
                let sack = receiver.sack();
                let blocks = &sack.blocks[..usize::from(sack.count)];
                for block in blocks {
                    prop_assert!(block.from > missing && block.from < block.to);
                    prop_assert!(seen[block.from as usize..block.to as usize].iter().all(|&byte| byte));
                }
                if sequence > missing {
                    prop_assert!(blocks[0].from <= sequence && blocks[0].to >= end);
                }
                prop_assert_eq!(blocks.is_empty(), !seen[missing as usize..].contains(&true));
            }
        }
    }
}
