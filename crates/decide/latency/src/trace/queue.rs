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
//! with nothing rounded but `kC` itself ([`Drain`]): to a 2^-40 of a bit per second, since a trace of decades may offer
//! a bit per second.
//!
//! More work done per nanosecond leaves less of it after every arrival. So the searches are
//! monotone: they bisect, and end at a value that keeps the target beside one that was tried and
//! does not.
//!
//! Three capacities keep a target, each with something else held:
//!
//! | method | held | search |
//! |---|---|---|
//! | [`TraceQueue::smallest_capacity`] | the arrivals as they are | over `C`, with `k = 1` |
//! | [`TraceQueue::smallest_capacity_for`] | the traffic, in bit/s | over `C`, with `k` = offered rate / traffic |
//! | [`TraceQueue::smallest_capacity_at`] | the load, a part of `C` | none: `kC` is offered rate / load for every `C` |
//!
//! Worked example: two messages of 1000 bytes 5 µs apart offer 1.6 Gb/s. At a load of 80 % the queue does `kC` = 2
//! Gb/s in the trace's time, so the second message finds 8000 − 10000 < 0 bits, and 8000 bits within 4 µs take 2 Gb/s.
//! A traffic of 3.2 Gb/s halves the gap. At 2 Gb/s the second message finds 8000 − 5000 bits and needs 5.5 µs; 16000
//! bits within 2.5 + 4 µs take 2.462 Gb/s.
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
        self.quantile_of(Drain::exactly(bps), bps, watch)
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
        self.quantile_of(self.drain_at(load)?, bps, watch)
    }

    /// The lowest capacity, in bit/s, at which the quantile of the messages finishes within
    /// `target`, with all gaps between arrivals made longer or shorter so that the load on that
    /// capacity is `load`.
    ///
    /// # Errors
    /// [`TraceError::Never`] if even [`Bandwidth::MAX`] is too slow, [`TraceError::OutOfRange`] and
    /// [`TraceError::Stopped`].
    pub fn smallest_capacity_at(
        &self,
        load: Load,
        target: Duration,
        watch: &mut impl Watch,
    ) -> Result<Bandwidth, TraceError> {
        let drain = self.drain_at(load)?;
        // The work does not depend on the capacity: it takes at most the target where C ≥ work / target.
        if !target.is_zero() {
            match self.quantile_of(drain, target.nanos(), watch) {
                Ok(bps) if bps.nanos() <= Bandwidth::MAX.bps() => return Ok(Bandwidth::from_bps(bps.nanos())),
                Ok(_) | Err(TraceError::OutOfRange) => {}
                Err(error) => return Err(error),
            }
        }
        Err(TraceError::Never { least: self.quantile_of(drain, Bandwidth::MAX.bps(), watch)? })
    }

    /// The lowest capacity, in bit/s, at which the quantile of the messages finishes within
    /// `target`, with all gaps between arrivals made longer or shorter so that they offer `traffic`.
    ///
    /// # Errors
    /// [`TraceError::OutOfRange`] if the traffic is above [`Bandwidth::MAX`], [`TraceError::Never`] if
    /// even that capacity is too slow, and [`TraceError::Stopped`].
    pub fn smallest_capacity_for(
        &self,
        traffic: Bandwidth,
        target: Duration,
        watch: &mut impl Watch,
    ) -> Result<Bandwidth, TraceError> {
        if traffic > Bandwidth::MAX {
            return Err(TraceError::OutOfRange);
        }
        let bits = self.trace.bits.checked_mul(WORK_IN_BIT).ok_or(TraceError::OutOfRange)?;
        let room = u128::from(self.trace.span().nanos()) * u128::from(traffic.bps());
        let drain = |bps: u64| Drain::of(bits, bps, room);
        let mut keeps = |bps: u64| self.keeps(drain(bps), u128::from(target.nanos()) * u128::from(bps), watch);
        match least(traffic.bps().max(1), Bandwidth::MAX.bps(), &mut keeps)? {
            Some(bps) => Ok(Bandwidth::from_bps(bps)),
            None => {
                let most = Bandwidth::MAX.bps();
                Err(TraceError::Never { least: self.quantile_of(drain(most), most, watch)? })
            }
        }
    }

    /// The lowest capacity, in bit/s, at which the quantile of the messages finishes within
    /// `target` under the arrivals as they are.
    ///
    /// # Errors
    /// [`TraceError::Never`] if even [`Bandwidth::MAX`] is too slow, and [`TraceError::Stopped`].
    pub fn smallest_capacity(&self, target: Duration, watch: &mut impl Watch) -> Result<Bandwidth, TraceError> {
        let mut keeps = |bps: u64| self.keeps(Drain::exactly(bps), u128::from(target.nanos()) * u128::from(bps), watch);
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
    /// [`TraceError::Never`] if they are too slow without any other load, [`TraceError::Faint`] if
    /// that load is below a billionth, and those of [`TraceQueue::completion_time`].
    pub fn largest_load(
        &self,
        capacity: Bandwidth,
        target: Duration,
        watch: &mut impl Watch,
    ) -> Result<Option<Load>, TraceError> {
        let bps = finite(capacity)?;
        let most = u128::from(target.nanos()) * u128::from(bps);
        let mut keeps = |billionths: u32| match Load::from_billionths(billionths) {
            Ok(load) => self.keeps(self.drain_at(load)?, most, watch),
            Err(_) => Ok(false),
        };
        // `low` was tried and keeps; `high` was tried and does not.
        let (mut low, mut high) = (1, BILLION - 1);
        if keeps(high)? {
            return Ok(None);
        }
        if !keeps(low)? {
            return Err(match self.quantile_of(Drain::exactly(u64::MAX), bps, watch)? {
                least if least > target => TraceError::Never { least },
                _ => TraceError::Faint,
            });
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if keeps(middle)? { low = middle } else { high = middle }
        }
        Ok(Load::from_billionths(low).ok())
    }

    /// The work done in a nanosecond of the trace's time at a load, at any capacity.
    fn drain_at(&self, load: Load) -> Result<Drain, TraceError> {
        let room = u128::from(self.trace.span().nanos()) * u128::from(load.billionths());
        let bits = self.trace.bits.checked_mul(WORK_IN_BIT).ok_or(TraceError::OutOfRange)?;
        Ok(Drain::of(bits, BILLION.into(), room))
    }

    /// Whether enough of the messages leave at most `most` work, with `drain` done in a nanosecond.
    fn keeps(&self, drain: Drain, most: u128, watch: &mut impl Watch) -> Result<bool, TraceError> {
        let mut left = self.counted - self.rank();
        let most = most.saturating_mul(1 << drain.shift);
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

    /// The quantile of `work / bps`, in nanoseconds if the divisor is a rate in bit/s.
    fn quantile_of(&self, drain: Drain, bps: u64, watch: &mut impl Watch) -> Result<Duration, TraceError> {
        let mut times = Vec::with_capacity(self.counted as usize);
        let bps = u128::from(bps) << drain.shift;
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

    /// Passes `visit` the work after each arrival, shifted as the drain is, and whether the message is
    /// selected, until `visit` ends the pass. Returns whether the pass was complete.
    fn pass(
        &self,
        drain: Drain,
        watch: &mut impl Watch,
        mut visit: impl FnMut(u128, bool) -> bool,
    ) -> Result<bool, TraceError> {
        let arrivals = &self.trace.arrivals;
        let (drain, in_byte) = (u128::from(drain.shifted), (8 * WORK_IN_BIT) << drain.shift);
        let (mut work, mut last) = (0u128, 0u64);
        for (part, block) in arrivals.chunks(LOOK).enumerate() {
            if watch.rows((part * LOOK) as u64, arrivals.len() as u64).is_break() {
                return Err(TraceError::Stopped);
            }
            for (index, arrival) in block.iter().enumerate() {
                // Both factors are below 2^64. Saturating: bytes of 2^64 each stop growing at
                // 2^128.
                work = work.saturating_sub(drain * u128::from(arrival.at - last));
                work = work.saturating_add(u128::from(arrival.bytes).saturating_mul(in_byte));
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

/// The work done in a nanosecond of a trace's time, in bit/s times two to the `shift`.
#[derive(Debug, Clone, Copy)]
struct Drain {
    shifted: u64,
    shift: u32,
}

impl Drain {
    /// The most bits behind the point: with them, the work of 2^55 bytes still fits 128 bits.
    const MAX_SHIFT: u32 = 40;

    const fn exactly(bps: u64) -> Self {
        Self { shifted: bps, shift: 0 }
    }

    /// `bits · bps / room`, rounded down so that a load is never below the given one, at most the largest `u64` and
    /// that for a room of zero. `bps` is below 2^64 and `room` below 2^127.
    fn of(bits: u128, bps: u64, room: u128) -> Self {
        let whole = quotient(bits, bps.into(), room);
        let shift = whole.leading_zeros().saturating_sub(u64::BITS).min(Self::MAX_SHIFT);
        let shifted = quotient(bits, u128::from(bps) << shift, room);
        Self { shifted: u64::try_from(shifted).unwrap_or(u64::MAX), shift }
    }
}

/// `a · b / c`, rounded down, at most the largest `u128` and that for a `c` of zero. Exact where the product is larger
/// than 128 bits: the remainder is multiplied bit by bit. `c` is below 2^127.
pub(super) fn quotient(a: u128, b: u128, c: u128) -> u128 {
    if c == 0 {
        return u128::MAX;
    }
    let (whole, rest) = (a / c, a % c);
    let (mut quotient, mut left) = (0u128, 0u128);
    for bit in (0..u128::BITS).rev() {
        (quotient, left) = (quotient * 2, left * 2);
        if left >= c {
            (quotient, left) = (quotient + 1, left - c);
        }
        if b >> bit & 1 == 1 {
            left += rest;
            if left >= c {
                (quotient, left) = (quotient + 1, left - c);
            }
        }
    }
    whole.saturating_mul(b).saturating_add(quotient)
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
