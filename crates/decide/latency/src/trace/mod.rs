//! Traces: recorded messages, sent through a simulated queue.
//!
//! Problem: real arrivals are neither Poisson nor as bad as a burst bound allows, and an operator
//! has measured them. Approach: simulate the one queue that they share, first in, first out, at any
//! capacity. The queue is so simple that it is exact in integers: its state is the unfinished work
//! after each arrival, and the message finishes when that much work is done.
//!
//! | module | content |
//! |---|---|
//! | [`read`](Trace::read) | a table of times and sizes, read as a stream |
//! | [`queue`](TraceQueue) | percentiles, the smallest capacities, the largest load |
//!
//! Worked example: three messages of 1000 bytes at 0, 0 and 5 µs at 1 Gb/s (8 µs each) finish after
//! 8, 16 and 24 − 5 = 19 µs.
//!
//! ```
//! use weir_latency::{Trace, TraceQueue};
//! use weir_units::{Bandwidth, Duration, Quantile};
//!
//! let text = "time,size\n0,1000\n0,1000\n0.000005,1000\n";
//! let trace = Trace::read(text.as_bytes(), |_| None, &mut ())?;
//! let queue = TraceQueue::new(&trace, Quantile::P50, &[])?;
//! let median = queue.completion_time(Bandwidth::from_gbps(1), &mut ())?;
//! assert_eq!(median, Duration::from_micros(16));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Source: Parley §2.1 (an offline simulation from measured sizes and arrivals) and §4.

mod queue;
mod read;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::ControlFlow;
use weir_units::{Bandwidth, Duration};

pub use queue::TraceQueue;
pub use read::ReadError;

/// A message of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Arrival {
    /// Nanoseconds since the first message.
    at: u64,
    bytes: u64,
}

/// The group of a message, as numbered by the reader of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tag(pub u32);

/// Messages in order of their arrival, at least two, not all at once.
#[derive(Clone, PartialEq, Eq)]
pub struct Trace {
    arrivals: Vec<Arrival>,
    /// Of each message; empty where none has any.
    tags: Vec<Option<Tag>>,
    /// All bits but those of the last message, which arrive within the span.
    bits: u128,
}

impl fmt::Debug for Trace {
    /// Without the messages, of which there may be millions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("messages", &self.len()).field("span", &self.span()).finish()
    }
}

/// The reason why a trace gives no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// Fewer than two messages, or all at one time: such a trace has no load.
    #[error("a trace needs messages at two times or more")]
    TooShort,
    /// No message has a selected tag.
    #[error("the trace has no message of this kind")]
    NoneSuch,
    /// A capacity of zero, or without limit.
    #[error("a capacity is a finite rate above zero, not {0}")]
    Capacity(Bandwidth),
    /// No capacity, or no load on this capacity, keeps the target.
    #[error("nothing keeps the target: even without waiting the time is {least}")]
    Never {
        /// The time without other messages, or at the largest capacity.
        least: Duration,
    },
    /// The target is kept only at loads below a billionth, which no [`weir_units::Load`] has.
    #[error("the target is kept only at loads below a billionth")]
    Faint,
    /// The observer requested a stop.
    #[error("stopped")]
    Stopped,
    /// A completion time is longer than the longest [`Duration`].
    #[error("a completion time is beyond what can be computed")]
    OutOfRange,
}

/// Observes long computations.
pub trait Watch {
    /// `rows` of `of` messages of a pass are done (`of` is 0 while the trace is being read); called
    /// now and then.
    fn rows(&mut self, rows: u64, of: u64) -> ControlFlow<()>;
}

/// No observer.
impl Watch for () {
    fn rows(&mut self, _: u64, _: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Messages between two calls of the observer: some tens of microseconds.
const LOOK: usize = 1 << 14;

impl Trace {
    /// A trace of (arrival in nanoseconds, bytes, tag), in any order; messages that arrive together
    /// stay in it.
    ///
    /// # Errors
    /// [`TraceError::TooShort`].
    pub fn new(messages: impl IntoIterator<Item = (u64, u64, Option<Tag>)>) -> Result<Self, TraceError> {
        let (mut arrivals, mut tags) = (Vec::new(), Vec::new());
        for (at, bytes, tag) in messages {
            add(&mut arrivals, &mut tags, Arrival { at, bytes }, tag);
        }
        Self::sorted(arrivals, tags)
    }

    fn sorted(mut arrivals: Vec<Arrival>, mut tags: Vec<Option<Tag>>) -> Result<Self, TraceError> {
        // Nearly every trace is in order.
        if !arrivals.is_sorted_by_key(|arrival| arrival.at) {
            if tags.is_empty() {
                arrivals.sort_by_key(|arrival| arrival.at);
            } else {
                let mut order: Vec<usize> = (0..arrivals.len()).collect();
                order.sort_by_key(|index| arrivals[*index].at);
                tags = order.iter().map(|index| tags[*index]).collect();
                arrivals = order.iter().map(|index| arrivals[*index]).collect();
            }
        }
        let (Some(first), Some(last)) = (arrivals.first().copied(), arrivals.last().copied()) else {
            return Err(TraceError::TooShort);
        };
        if first.at == last.at {
            return Err(TraceError::TooShort);
        }
        arrivals.iter_mut().for_each(|arrival| arrival.at -= first.at);
        let all: u128 = arrivals.iter().map(|arrival| u128::from(arrival.bytes)).sum();
        Ok(Self { arrivals, tags, bits: (all - u128::from(last.bytes)) * 8 })
    }

    /// The number of messages, at least two.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.arrivals.len()
    }

    /// From the first arrival to the last, above zero.
    pub fn span(&self) -> Duration {
        Duration::from_nanos(self.arrivals.last().map_or(0, |last| last.at))
    }

    /// The mean rate of arrivals over the span: all messages but the last. Rounded down to bit/s.
    pub fn offered(&self) -> Bandwidth {
        let bps = self.bits * 1_000_000_000 / u128::from(self.span().nanos());
        Bandwidth::from_bps(u64::try_from(bps).unwrap_or(u64::MAX).min(Bandwidth::MAX.bps()))
    }

    /// The bytes of all messages, the last one included.
    pub fn bytes(&self) -> u128 {
        self.arrivals.iter().map(|arrival| u128::from(arrival.bytes)).sum()
    }

    /// The longest time between an arrival and the next one.
    pub fn longest_gap(&self) -> Duration {
        let gaps = self.arrivals.windows(2).map(|pair| pair[1].at - pair[0].at);
        Duration::from_nanos(gaps.max().unwrap_or_default())
    }

    /// The mean rate of arrivals over the span as a part of a capacity: above zero, and above 1 where more arrives
    /// than the capacity. Infinite for a capacity of zero. For display and statistics only.
    pub fn load(&self, capacity: Bandwidth) -> f64 {
        self.bits as f64 * 1e9 / self.span().nanos() as f64 / capacity.bps() as f64
    }
}

/// Adds a message; tags are kept only once there is one.
fn add(arrivals: &mut Vec<Arrival>, tags: &mut Vec<Option<Tag>>, arrival: Arrival, tag: Option<Tag>) {
    if tags.is_empty() && tag.is_some() {
        tags.resize(arrivals.len(), None);
    }
    if tag.is_some() || !tags.is_empty() {
        tags.push(tag);
    }
    arrivals.push(arrival);
}
