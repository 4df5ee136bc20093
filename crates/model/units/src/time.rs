//! [`Duration`] and [`Instant`] in nanoseconds.
//!
//! The core never reads a clock. Its driver passes an [`Instant`], counted from an origin that the
//! driver has chosen (the start of a simulation, the boot of a host). The simulator's links use
//! picoseconds ([`SimTime`](crate::SimTime)) and pass whole nanoseconds.

use crate::aliases;
use crate::decimal::{Quantity, QuantityError, unit};
use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};
use std::str::FromStr;

/// A length of time in nanoseconds, up to 584 years. Sums saturate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(u64);

/// A point in time: nanoseconds since the driver's origin. It never decreases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

/// Times in nanoseconds; nanoseconds to seconds are printed.
const TIME: Quantity = Quantity {
    what: "time",
    example: "200us",
    units: &[
        unit("ns", 1),
        unit("µs", 1_000),
        unit("ms", 1_000_000),
        unit("s", 1_000_000_000),
        unit("us", 1_000),
        unit("min", 60_000_000_000),
        unit("h", 3_600_000_000_000),
        unit("d", 86_400_000_000_000),
    ],
    printed: 4,
    most: u64::MAX,
    aliases: aliases::time,
};

impl Duration {
    /// Zero.
    pub const ZERO: Self = Self(0);
    /// `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }
    /// `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }
    /// `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }
    /// `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }
    /// The length in nanoseconds.
    pub const fn nanos(self) -> u64 {
        self.0
    }
    /// The length in seconds, for display and statistics only.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// Whether the length is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
    /// `self − other`, at least zero.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Instant {
    /// The driver's origin.
    pub const ZERO: Self = Self(0);
    /// The instant `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }
    /// Nanoseconds since the origin.
    pub const fn nanos(self) -> u64 {
        self.0
    }
    /// Time from `earlier` to `self`, zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}
impl AddAssign for Duration {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
impl Mul<u64> for Duration {
    type Output = Self;
    fn mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}
impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, length: Duration) -> Self {
        Self(self.0.saturating_add(length.0))
    }
}
impl Sub for Instant {
    type Output = Duration;
    /// Panics with debug assertions if `earlier` is later; see [`Instant::saturating_since`].
    fn sub(self, earlier: Self) -> Duration {
        debug_assert!(self >= earlier, "time went back");
        self.saturating_since(earlier)
    }
}

impl FromStr for Duration {
    type Err = QuantityError;
    /// Parses `200µs` (or `200us`), `1.5 ms`, `10s`, `2min`, `36h`, `7d`.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        TIME.parse(text).map(Self)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        TIME.write(f, self.0)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Duration(self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_and_printed() {
        assert_eq!("200us".parse(), Ok(Duration::from_micros(200)));
        assert_eq!("200µs".parse(), Ok(Duration::from_micros(200)));
        assert_eq!("1.5 ms".parse(), Ok(Duration::from_micros(1_500)));
        assert_eq!("200\u{b5}s".parse(), Ok(Duration::from_micros(200)));
        assert_eq!("200\u{3bc}s".parse(), Ok(Duration::from_micros(200)), "the Greek letter");
        assert_eq!("2min".parse(), Ok(Duration::from_secs(120)));
        assert_eq!("36h".parse(), Ok(Duration::from_secs(129_600)));
        assert_eq!("1.5d".parse(), Ok(Duration::from_secs(129_600)));
        assert_eq!(Duration::from_micros(1_500).to_string(), "1.5 ms");
        assert_eq!(Duration::from_micros(200).to_string(), "200 µs");
        assert_eq!("200".parse::<Duration>().expect_err("bare").cause, "`200` has no unit");
    }

    #[test]
    fn a_suggested_time_is_the_written_one() {
        for (text, instead) in [
            ("10usec", "`10us`"),
            ("10\u{3bc}sec", "`10µs`"),
            ("10US", "`10us`"),
            ("1.5 msec", "`1.5ms`"),
            ("10sec", "`10s`"),
            ("2 minutes", "`2min`"),
            ("10S", "`10s`"),
            ("2hours", "`2h`"),
            ("1week", "`604800s`"),
            ("5000ps", "`5ns`"),
            ("5m", "`5min` or `5ms`"),
            ("5ps", ""),
            ("5x", ""),
            ("05ms", "`5ms`"),
        ] {
            let hint = text.parse::<Duration>().expect_err(text).hint;
            match instead {
                "" => assert!(hint.starts_with("known units are ns, "), "{text}: {hint}"),
                _ => assert!(hint.starts_with(&format!("did you mean {instead}? ")), "{text}: {hint}"),
            }
        }
    }

    #[test]
    fn difference_of_instants_is_a_duration() {
        let t = Instant::ZERO + Duration::from_secs(3);
        assert_eq!(t - Instant::from_nanos(1_000_000_000), Duration::from_secs(2));
        assert_eq!(Instant::ZERO.saturating_since(t), Duration::ZERO);
    }
}
