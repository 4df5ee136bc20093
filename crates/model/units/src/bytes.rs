//! [`Bytes`]: an amount of data.

use crate::decimal::{self, QuantityError, Unit, unit};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

/// An amount of data in bytes. Sums saturate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

const UNITS: &[Unit] = &[
    unit("B", 1),
    unit("kB", 1_000),
    unit("MB", 1_000_000),
    unit("GB", 1_000_000_000),
    unit("TB", 1_000_000_000_000),
    unit("KiB", 1 << 10),
    unit("MiB", 1 << 20),
    unit("GiB", 1 << 30),
];
/// Number of units for printing: the first of [`UNITS`], powers of ten.
const PRINTED: usize = 5;

impl Bytes {
    /// No bytes.
    pub const ZERO: Self = Self(0);
    /// `bytes` bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }
    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
    /// `self − other`, at least zero.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}
impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
impl Sub for Bytes {
    type Output = Self;
    /// Panics with debug assertions if the result is negative; see [`Bytes::saturating_sub`].
    fn sub(self, other: Self) -> Self {
        debug_assert!(self >= other, "{self} - {other} is negative");
        self.saturating_sub(other)
    }
}
impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl FromStr for Bytes {
    type Err = QuantityError;
    /// Parses `1500B`, `80 kB`, `1.5MB` (powers of 1000) or `64KiB` (powers of 1024).
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        decimal::parse(text, UNITS, "size", "80kB").map(Self)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        decimal::write(f, self.0, &UNITS[..PRINTED])
    }
}

impl serde::Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_and_printed() {
        assert_eq!("80kB".parse(), Ok(Bytes::new(80_000)));
        assert_eq!("64KiB".parse(), Ok(Bytes::new(65_536)));
        assert_eq!("1.5 MB".parse(), Ok(Bytes::new(1_500_000)));
        assert_eq!(Bytes::new(65_536).to_string(), "65.536 kB");
        assert_eq!(Bytes::new(1_500).to_string(), "1.5 kB");
        assert_eq!("1MB/s".parse::<Bytes>().expect_err("a rate").cause, "`MB/s` is not a unit of a size");
    }
}
