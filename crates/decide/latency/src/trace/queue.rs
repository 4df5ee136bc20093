//! [`TraceQueue`]: a FIFO queue under a trace, exact in integers.
//!
//! Problem: completion times of millions of messages at many capacities, the same on every host.
//! Approach: keep the remaining work, in bits times 10⁹, so that a nanosecond at `C` bit/s does
//! exactly `C` of it:
//!
//! ```text
//! work ← max(0, work − C · (nanoseconds since the last arrival)) + bits · 10⁹
//! completion time of the message that arrived = work / C, rounded up to a nanosecond
//! ```
//!
//! Whether a percentile keeps a target needs no division: count the messages whose work is above
//! `target · C` and stop when they are too many.
//!
//! A trace at another load. The same sizes, with all gaps between arrivals `k` times as long, put
//! `1/k` of the load on a queue of capacity `C`. In the trace's own time that queue does `kC` of
//! work per nanosecond, while a work of `w` still takes `w / C`. So one pass computes any load,
//! with nothing rounded but `kC` itself.
//!
//! More work done per nanosecond leaves less of it after every arrival. So both searches are
//! monotone: they bisect, and end at a value that keeps the target beside one that was tried and
//! does not.
//!
//! Worked example: see [`super`].
//!
//! Source: the work process of a single-server queue (Lindley's recursion); Parley §2.1.

use super::{LOOK, Tag, Trace, TraceError, Watch};
use weir_units::{BILLION, Load, Quantile};
use weir_units::{Bandwidth, Duration};

/// Units of work in a bit, so that a nanosecond at 1 bit/s does one.
const WORK_IN_BIT: u128 = 1_000_000_000;

/// A trace through a FIFO queue, with a quantile of the completion times of its messages or of some
/// of them.
#[derive(Debug, Clone, Copy)]
pub struct TraceQueue<'a> {
    trace: &'a Trace,
    quantile: Quantile,
    /// The selected messages; all if empty.
    tags: &'a [Tag],
    /// The number of selected messages, at least one.
    counted: u64,
}

impl<'a> TraceQueue<'a> {
    /// A queue that all messages pass, with the quantile over those with one of `tags`, or over all
    /// if there is none. In a trace without tags all messages have every tag.
    ///
    /// # Errors
    /// [`TraceError::NoneSuch`] if no message has any of the tags.
    pub fn new(trace: &'a Trace, quantile: Quantile, tags: &'a [Tag]) -> Result<Self, TraceError> {
        let tags = if trace.tags.is_empty() { &[] } else { tags };
        let counted = match tags {
            [] => trace.len(),
            tags => trace.tags.iter().filter(|tag| has_one(**tag, tags)).count(),
        };
        match counted {
            0 => Err(TraceError::NoneSuch),
            counted => Ok(Self { trace, quantile, tags, counted: counted as u64 }),
        }
    }

    /// The number of messages of the quantile.
    pub fn counted(&self) -> u64 {
        self.counted
    }

    /// The time within which the quantile of the messages finishes at `capacity`, rounded up to a
    /// nanosecond. Of `n` messages it is the time of the ⌈pn⌉-th fastest. The queue is empty at
    /// first.
    ///
    /// # Errors
    /// [`TraceError::Capacity`], [`TraceError::OutOfRange`], [`TraceError::Stopped`].
    pub fn completion_time(&self, capacity: Bandwidth, watch: &mut impl Watch) -> Result<Duration, TraceError> {
        let bps = finite(capacity)?;
        self.quantile_of(bps, bps, watch)
    }

    /// The same with all gaps between arrivals made longer or shorter so that the load on
    /// `capacity` is `load`.
    ///
    /// # Errors
    /// Those of [`TraceQueue::completion_time`].
    pub fn completion_time_at(
        &self,
        capacity: Bandwidth,
        load: Load,
        watch: &mut impl Watch,
    ) -> Result<Duration, TraceError> {
        let bps = finite(capacity)?;
        let room = u128::from(self.trace.span().nanos()) * u128::from(load.billionths());
        // Rounded down: never below the given load.
        let drain = self.trace.bits.checked_mul(1_000_000_000_000_000_000).ok_or(TraceError::OutOfRange)? / room;
        let drain = u64::try_from(drain).map_err(|_| TraceError::OutOfRange)?.max(1);
        self.quantile_of(drain, bps, watch)
    }

    /// The lowest capacity, in bit/s, at which the quantile of the messages finishes within
    /// `target`.
    ///
    /// # Errors
    /// [`TraceError::Never`] if even [`Bandwidth::MAX`] is too slow, and [`TraceError::Stopped`].
    pub fn smallest_capacity(&self, target: Duration, watch: &mut impl Watch) -> Result<Bandwidth, TraceError> {
        let mut keeps = |bps: u64| self.keeps(bps, u128::from(target.nanos()) * u128::from(bps), watch);
        let start = self.trace.offered().bps().max(1);
        match least(start, Bandwidth::MAX.bps(), &mut keeps)? {
            Some(bps) => Ok(Bandwidth::from_bps(bps)),
            None => Err(TraceError::Never { least: self.completion_time(Bandwidth::MAX, watch)? }),
        }
    }

    /// The highest load on `capacity` at which the quantile of the messages finishes within
    /// `target`, if the gaps between arrivals are made shorter or longer until it just does. `None`
    /// if they keep it at any load below 100 %, as short traces may.
    ///
    /// # Errors
    /// [`TraceError::Never`] if they are too slow without any other load, and those of
    /// [`TraceQueue::completion_time`].
    pub fn largest_load(
        &self,
        capacity: Bandwidth,
        target: Duration,
        watch: &mut impl Watch,
    ) -> Result<Option<Load>, TraceError> {
        let bps = finite(capacity)?;
        let most = u128::from(target.nanos()) * u128::from(bps);
        let mut keeps = |drain: u64| self.keeps(drain, most, watch);
        match least(bps, u64::MAX, &mut keeps)? {
            Some(drain) => Ok(self.trace.load_of_drain(drain)),
            None => Err(TraceError::Never { least: self.quantile_of(u64::MAX, bps, watch)? }),
        }
    }

    /// Whether enough of the messages leave at most `most` work, with `drain` done in a nanosecond.
    fn keeps(&self, drain: u64, most: u128, watch: &mut impl Watch) -> Result<bool, TraceError> {
        let mut left = self.counted - self.rank();
        self.pass(drain, watch, |work, counted| {
            let late = counted && work > most;
            if late && left == 0 {
                return false;
            }
            left -= u64::from(late);
            true
        })
    }

    /// The number of messages that have to be fast: ⌈pn⌉.
    fn rank(&self) -> u64 {
        let rank = (u128::from(self.counted) * u128::from(self.quantile.billionths())).div_ceil(BILLION.into());
        // Not above `counted`, since the quantile is below 1.
        rank as u64
    }

    /// The quantile of `work / bps` in nanoseconds.
    fn quantile_of(&self, drain: u64, bps: u64, watch: &mut impl Watch) -> Result<Duration, TraceError> {
        let mut times = Vec::with_capacity(self.counted as usize);
        let bps = u128::from(bps);
        self.pass(drain, watch, |work, counted| {
            if counted {
                // A time too long for a number of nanoseconds is longer than all others.
                times.push(u64::try_from(work.div_ceil(bps)).unwrap_or(u64::MAX));
            }
            true
        })?;
        let (_, time, _) = times.select_nth_unstable(self.rank() as usize - 1);
        match *time {
            u64::MAX => Err(TraceError::OutOfRange),
            nanos => Ok(Duration::from_nanos(nanos)),
        }
    }

    /// Passes `visit` the work after each arrival and whether the message is selected, until
    /// `visit` ends the pass. Returns whether the pass was complete.
    fn pass(
        &self,
        drain: u64,
        watch: &mut impl Watch,
        mut visit: impl FnMut(u128, bool) -> bool,
    ) -> Result<bool, TraceError> {
        let arrivals = &self.trace.arrivals;
        let drain = u128::from(drain);
        let (mut work, mut last) = (0u128, 0u64);
        for (part, block) in arrivals.chunks(LOOK).enumerate() {
            if watch.rows((part * LOOK) as u64, arrivals.len() as u64).is_break() {
                return Err(TraceError::Stopped);
            }
            for (index, arrival) in block.iter().enumerate() {
                // Both factors are below 2^64. Saturating: bytes of 2^64 each stop growing at
                // 2^128.
                work = work.saturating_sub(drain * u128::from(arrival.at - last));
                work = work.saturating_add(u128::from(arrival.bytes) * (8 * WORK_IN_BIT));
                last = arrival.at;
                let counted = self.tags.is_empty() || has_one(self.trace.tags[part * LOOK + index], self.tags);
                if !visit(work, counted) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// The least of `1..=most` that keeps the target, if all above one that keeps it do; searched
/// around `start`.
fn least(
    start: u64,
    most: u64,
    keeps: &mut impl FnMut(u64) -> Result<bool, TraceError>,
) -> Result<Option<u64>, TraceError> {
    // `high` was tried and keeps; `low` was tried and does not, or is 0.
    let (mut low, mut high) = (0, start.clamp(1, most));
    while !keeps(high)? {
        if high == most {
            return Ok(None);
        }
        (low, high) = (high, high.saturating_mul(2).min(most));
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if keeps(middle)? { high = middle } else { low = middle }
    }
    Ok(Some(high))
}

fn has_one(tag: Option<Tag>, tags: &[Tag]) -> bool {
    tag.is_some_and(|tag| tags.contains(&tag))
}

fn finite(capacity: Bandwidth) -> Result<u64, TraceError> {
    match capacity {
        Bandwidth::ZERO => Err(TraceError::Capacity(capacity)),
        unlimited if unlimited.is_unlimited() => Err(TraceError::Capacity(capacity)),
        finite => Ok(finite.bps()),
    }
}
