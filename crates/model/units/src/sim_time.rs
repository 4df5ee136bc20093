//! [`SimTime`]: the simulator's clock in picoseconds.
//!
//! Problem: a 64-byte frame at 100 Gb/s takes 5.12 ns. With a resolution of nanoseconds, links
//! would round each frame and run a few percent too fast or too slow. Approach: the simulator
//! counts picoseconds in a `u64` (213 days). At every common link rate a byte takes a whole number
//! of them (80 ps at 100 Gb/s, 800 ps at 10 Gb/s); at other rates links carry the remainder. The
//! layers above the links (brokers, limiters, results) use [`Instant`] and [`Duration`] in
//! nanoseconds.
//!
//! Worked example: 1514 bytes at 10 Gb/s take 1,211,200 ps.
//!
//! Source: htsim (`sim/config.h`) counts picoseconds for the same reason.

use crate::{Duration, Instant};
use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// Picoseconds since the start of the simulation, or between two times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SimTime(u64);

/// Picoseconds in a nanosecond.
const PS_PER_NS: u64 = 1_000;

impl SimTime {
    /// The start of the simulation.
    pub const ZERO: Self = Self(0);
    /// Later than all other times: an inactive timer.
    pub const NEVER: Self = Self(u64::MAX);

    /// `picos` picoseconds.
    pub const fn from_picos(picos: u64) -> Self {
        Self(picos)
    }
    /// `nanos` nanoseconds (saturating).
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos.saturating_mul(PS_PER_NS))
    }
    /// `micros` microseconds (saturating).
    pub const fn from_micros(micros: u64) -> Self {
        Self::from_nanos(micros.saturating_mul(1_000))
    }
    /// `millis` milliseconds (saturating).
    pub const fn from_millis(millis: u64) -> Self {
        Self::from_nanos(millis.saturating_mul(1_000_000))
    }
    /// `secs` seconds (saturating).
    pub const fn from_secs(secs: u64) -> Self {
        Self::from_nanos(secs.saturating_mul(1_000_000_000))
    }
    /// The number of picoseconds.
    pub const fn picos(self) -> u64 {
        self.0
    }
    /// The time in whole nanoseconds, rounded down.
    pub const fn instant(self) -> Instant {
        Instant::from_nanos(self.0 / PS_PER_NS)
    }
    /// The length in whole nanoseconds, rounded down.
    pub const fn duration(self) -> Duration {
        Duration::from_nanos(self.0 / PS_PER_NS)
    }
    /// `self − other`, at least zero.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl From<Instant> for SimTime {
    fn from(instant: Instant) -> Self {
        Self::from_nanos(instant.nanos())
    }
}
impl From<Duration> for SimTime {
    fn from(length: Duration) -> Self {
        Self::from_nanos(length.nanos())
    }
}

impl Add for SimTime {
    type Output = Self;
    #[inline]
    fn add(self, length: Self) -> Self {
        Self(self.0 + length.0)
    }
}
impl AddAssign for SimTime {
    fn add_assign(&mut self, length: Self) {
        *self = *self + length;
    }
}
impl Sub for SimTime {
    type Output = Self;
    #[inline]
    fn sub(self, earlier: Self) -> Self {
        debug_assert!(self >= earlier, "time went back");
        Self(self.0 - earlier.0)
    }
}

impl fmt::Display for SimTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:012} s", self.0 / 1_000_000_000_000, self.0 % 1_000_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversion_rounds_down_to_nanoseconds() {
        assert_eq!(SimTime::from_picos(1_999).instant(), Instant::from_nanos(1));
        assert_eq!(SimTime::from(Duration::from_micros(10)), SimTime::from_picos(10_000_000));
        assert_eq!(SimTime::from_millis(1_500).to_string(), "1.500000000000 s");
    }
}
