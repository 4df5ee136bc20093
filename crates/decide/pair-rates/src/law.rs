//! [`Law`]: the rates of one pair.

use weir_units::{Bandwidth, Bytes, Duration, Instant};

/// A pair at its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// Its part of the guarantee, or of the weight, of the sending machine.
    pub guarantee: Bandwidth,
    /// The rate of the sending machine's interface.
    pub line: Bandwidth,
}

/// The limits of what a pair sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rates {
    /// One token bucket.
    One(Bandwidth),
    /// Two token buckets. Packets with committed tokens precede those with excess tokens in the network.
    Two {
        /// The rate of packets of the high priority.
        committed: Bandwidth,
        /// The rate of packets of the low priority.
        excess: Bandwidth,
    },
}

/// The rule by which an end's bandwidth is divided among its pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Division {
    /// Max-min fair by demand, at both ends: guarantees.
    Demand,
    /// In equal parts, at the sender alone: weights.
    Equal,
}

/// A system: the state of one of its pairs, and its constants. Time never goes back between calls.
pub trait Law: Sized {
    /// The division of a machine's bandwidth among its pairs.
    const DIVISION: Division = Division::Demand;
    /// Whether a machine sends no more than its guarantee, all pairs together.
    const LIMITS_HOSE: bool = false;
    /// Whether the network has two priorities, for committed and excess packets. Only marks of the latter count then.
    const PRIORITIES: bool = false;
    /// With priorities: bytes at the beginning of a flow that go first and use committed tokens alone; zero for none.
    const SMALL_FLOW: Bytes = Bytes::new(0);
    /// The burst of each token bucket after a pause.
    const BURST: Bytes = Bytes::new(32 * 1024);

    /// The time between two divisions of a machine's bandwidth among its pairs.
    fn partition_interval() -> Duration;
    /// The time between two reports of a receiver about a pair.
    fn report_interval() -> Duration;
    /// A pair that begins at `now`.
    fn new(now: Instant, pair: &Pair) -> Self;
    /// The pair's part of the guarantee from `now` on.
    fn set_guarantee(&mut self, now: Instant, guarantee: Bandwidth);
    /// A report of the receiver: the percentage of bytes marked or lost since the report before, at
    /// most 100.
    fn report(&mut self, now: Instant, marked_percent: u8);
    /// The rates in force.
    fn rates(&self) -> Rates;
}

/// `rate` × `numerator` / `denominator`, rounded down; the last must not be zero.
pub(crate) fn scaled(rate: Bandwidth, numerator: u64, denominator: u64) -> Bandwidth {
    let product = u128::from(rate.bps()) * u128::from(numerator) / u128::from(denominator);
    Bandwidth::from_bps(u64::try_from(product).unwrap_or(u64::MAX)).min(Bandwidth::UNLIMITED)
}
