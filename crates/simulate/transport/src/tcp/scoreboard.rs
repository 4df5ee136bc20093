//! The scoreboard: the selectively acknowledged data, and loss recovery by it.
//!
//! Two values are computed from the ranges that the receiver has reported, all in bytes:
//!
//! - **Loss.** A byte is lost if `DupThresh` ranges are above it (three, or the scenario's value),
//!   or more bytes than one segment less than that has (`IsLost`, RFC 6675 §4). The set above a
//!   byte only shrinks upward, so everything missing below one edge is lost, and the edge is found
//!   from the last few ranges.
//! - **Bytes in the network.** `pipe`: sent, less received, less lost, plus sent again (`SetPipe`,
//!   §4). It is computed anew by each acknowledgement and counts up with each segment.
//!
//! While a segment fits between `pipe` and the window, the next one is (`NextSeg`, §4): the first
//! lost one that has not been sent again; else new data; else a missing one that is not known to be
//! lost; else, once in a recovery, the last missing one (the rescue).
//!
//! Example, in segments: 0 to 9 are sent with a window of 10; 0, 3 and 4 are lost. 1, 2, 5 are
//! reported, each releases a segment: 10 and 11 leave, then recovery starts with window 5 and sends
//! 0. Once 6 and 7 are reported, three segments are above 3 and 4, which are lost then. pipe is 8,
//! 9, 10, 11 and 0: at 5, nothing leaves; each further reported segment releases one: 3, 4, then
//! new data.

use crate::api::SackBlock;
use crate::ranges::Ranges;

/// The selectively acknowledged data, and loss recovery. All positions are above the data
/// acknowledged in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scoreboard {
    /// The selectively acknowledged data.
    pub(crate) sacked: Ranges,
    recovery: Option<Recovery>,
}

/// The state of loss recovery.
#[derive(Debug, Clone)]
struct Recovery {
    /// It ends when everything before is acknowledged (`RecoveryPoint`).
    end: u64,
    /// The end of the data sent again (`HighRxt`).
    high_again: u64,
    /// Bytes in the network (`pipe`).
    pipe: u64,
    /// Everything that is missing below is lost.
    lost_below: u64,
    /// Bytes of a full segment.
    mss: u32,
    /// The first missing segment has not been sent again.
    first: bool,
    /// The rescue has been sent (`RescueRxt`).
    rescued: bool,
}

impl Scoreboard {
    /// Whether it is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.sacked.is_empty() && self.recovery.is_none()
    }

    /// Whether loss recovery is under way.
    pub(crate) fn is_recovering(&self) -> bool {
        self.recovery.is_some()
    }

    /// Takes the ranges of an acknowledgement. Returns how many bytes of them are new.
    pub(crate) fn take(&mut self, blocks: &[SackBlock], acked: u64, highest: u64) -> u64 {
        blocks.iter().map(|block| self.sacked.insert(block.from.max(acked), block.to.min(highest))).sum()
    }

    /// Everything that is missing below this is lost.
    pub(crate) fn lost_below(&self, mss: u32, dup_thresh: u32) -> u64 {
        let (mut count, mut bytes) = (0, 0);
        for (from, to) in self.sacked.iter().rev() {
            count += 1;
            bytes += to - from;
            if count >= dup_thresh || bytes > u64::from(dup_thresh - 1) * u64::from(mss) {
                return from;
            }
        }
        0
    }

    /// Loss recovery starts.
    pub(crate) fn start(&mut self, acked: u64, highest: u64, mss: u32, dup_thresh: u32) {
        self.recovery = Some(Recovery {
            end: highest,
            high_again: acked,
            pipe: 0,
            mss,
            lost_below: 0,
            first: true,
            rescued: false,
        });
        self.on_ack(acked, highest, mss, dup_thresh);
    }

    /// Loss recovery ends: the timer has expired.
    pub(crate) fn stop(&mut self) {
        self.recovery = None;
    }

    /// An acknowledgement in loss recovery: it may end, and `pipe` is new.
    pub(crate) fn on_ack(&mut self, acked: u64, highest: u64, mss: u32, dup_thresh: u32) {
        let lost_below = self.lost_below(mss, dup_thresh);
        let missing_below = |edge: u64| match edge.checked_sub(acked) {
            Some(all) => all - self.sacked.bytes_below(edge),
            None => 0,
        };
        if let Some(recovery) = &self.recovery
            && acked >= recovery.end
        {
            self.recovery = None;
            return;
        }
        let Some(high_again) = self.recovery.as_ref().map(|recovery| recovery.high_again) else { return };
        let pipe = missing_below(highest) - missing_below(lost_below) + missing_below(high_again);
        if let Some(recovery) = &mut self.recovery {
            recovery.pipe = pipe;
            recovery.lost_below = lost_below;
        }
    }

    /// The next segment of loss recovery as its first byte and length; `fresh` is the amount of new
    /// data that could leave, `most` the longest segment.
    pub(crate) fn next_segment(
        &mut self,
        acked: u64,
        highest: u64,
        fresh: u64,
        window: u64,
        most: u64,
    ) -> Option<(u64, u64)> {
        let recovery = self.recovery.as_mut()?;
        let mss = u64::from(recovery.mss);
        // The first goes whatever the window (§5 step 4.3); the others need room for a full segment
        // (step C).
        if !recovery.first && recovery.pipe + mss > window {
            return None;
        }
        let mss = mss.min(most);
        let (hole, end) = self.sacked.gap(recovery.high_again.max(acked));
        let length = end.min(highest).saturating_sub(hole).min(mss);
        let (sequence, length) = if length > 0 && (recovery.first || hole < recovery.lost_below) {
            recovery.high_again = hole + length;
            (hole, length)
        } else if fresh > 0 {
            (highest, fresh)
        } else if length > 0 && hole < self.sacked.end() {
            recovery.high_again = hole + length;
            (hole, length)
        } else if !recovery.rescued {
            recovery.rescued = true;
            // The last missing bytes.
            let mut to = highest;
            for (from, _) in self.sacked.iter().rev().take_while(|range| range.1 == highest) {
                to = from;
            }
            let from = self.sacked.iter().rev().find(|range| range.1 <= to).map_or(acked, |range| range.1);
            let from = from.max(to.saturating_sub(mss));
            if from >= to {
                return None;
            }
            (from, to - from)
        } else {
            return None;
        };
        recovery.first = false;
        recovery.pipe += length;
        Some((sequence, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `IsLost` and `SetPipe` of RFC 6675 §4, byte by byte as they are written there.
    fn by_the_book(
        sacked: &[bool],
        acked: usize,
        high_again: usize,
        mss: usize,
        dup_thresh: usize,
    ) -> (Vec<bool>, u64) {
        let is_lost = |byte: usize| {
            let above = &sacked[byte + 1..];
            let runs = above.split(|there| !there).filter(|run| !run.is_empty()).count();
            runs >= dup_thresh || above.iter().filter(|there| **there).count() > (dup_thresh - 1) * mss
        };
        let lost: Vec<_> = (acked..sacked.len()).map(|byte| !sacked[byte] && is_lost(byte)).collect();
        let mut pipe = 0;
        for byte in (acked..sacked.len()).filter(|byte| !sacked[*byte]) {
            pipe += u64::from(!lost[byte - acked]) + u64::from(byte < high_again);
        }
        (lost, pipe)
    }

    proptest! {
        /// The edge below which all missing data is lost, and `pipe`, are those of the standard.
        #[test]
        fn agrees_with_the_standard(
            there in proptest::collection::vec(any::<bool>(), 1..60),
            acked in 0usize..20,
            again in 0usize..40,
            mss in 1usize..6,
            dup_thresh in 1usize..6,
        ) {
            let mut sacked = vec![false; acked + 1];
            sacked.extend(there);
            let highest = sacked.len();
            let mut board = Scoreboard::default();
            for byte in (0..highest).filter(|byte| sacked[*byte]) {
                board.sacked.insert(byte as u64, byte as u64 + 1);
            }
            let high_again = (acked + again).min(highest);
            let (lost, pipe) = by_the_book(&sacked, acked, high_again, mss, dup_thresh);
            let edge = board.lost_below(mss as u32, dup_thresh as u32);
            for byte in acked..highest {
                prop_assert_eq!(!sacked[byte] && (byte as u64) < edge, lost[byte - acked], "byte {}", byte);
            }
            board.start(acked as u64, highest as u64, mss as u32, dup_thresh as u32);
            if let Some(recovery) = &mut board.recovery {
                recovery.high_again = high_again as u64;
            }
            board.on_ack(acked as u64, highest as u64, mss as u32, dup_thresh as u32);
            prop_assert_eq!(board.recovery.as_ref().map(|recovery| recovery.pipe), Some(pipe));
        }
    }
}
