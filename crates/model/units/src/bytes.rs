//! [`Bytes`]: an amount of data.

use crate::aliases;
use crate::decimal::{Quantity, QuantityError, unit};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

/// An amount of data in bytes. Sums saturate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(u64);

/// Sizes in bytes; powers of ten are printed.
const SIZE: Quantity = Quantity {
    what: "size",
    example: "80kB",
    units: &[
        unit("B", 1),
        unit("kB", 1_000),
        unit("MB", 1_000_000),
        unit("GB", 1_000_000_000),
        unit("TB", 1_000_000_000_000),
        unit("KiB", 1 << 10),
        unit("MiB", 1 << 20),
        unit("GiB", 1 << 30),
    ],
    printed: 5,
    most: u64::MAX,
    aliases: aliases::size,
};

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
        SIZE.parse(text).map(Self)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SIZE.write(f, self.0)
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

    #[test]
    fn a_suggested_size_is_the_written_one() {
        for (text, instead) in [
            ("80KB", "`80kB`"),
            ("80 kilo", ""),
            ("80k", "`80kB`"),
            ("1.5 Mbytes", "`1.5MB`"),
            ("64KIB", "`64KiB`"),
            ("1TiB", "`1.099511627776TB`"),
            ("80kb", "`10kB` (from bits) or `80kB` (from bytes)"),
            ("9b", "`9B` (from bytes)"),
            ("80kbit", "`10kB`"),
            ("1MB/s", ""),
            ("08kB", "`8kB`"),
        ] {
            let hint = text.parse::<Bytes>().expect_err(text).hint;
            match instead {
                "" => assert!(hint.starts_with("known units are B, "), "{text}: {hint}"),
                _ => assert!(hint.starts_with(&format!("did you mean {instead}? ")), "{text}: {hint}"),
            }
        }
    }
}
