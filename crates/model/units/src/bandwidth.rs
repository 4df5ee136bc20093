//! [`Bandwidth`]: a rate in bit/s.

use crate::decimal::{Quantity, QuantityError, unit};
use crate::{Bytes, Duration, aliases};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;

/// A rate in whole bit/s.
///
/// Finite rates range from 0 to [`Bandwidth::MAX`] (1 Eb/s). [`Bandwidth::UNLIMITED`] is greater
/// than all of them, so `min` with a limit is correct. Sums saturate at `UNLIMITED`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bandwidth(u64);

/// Rates in bit/s; those in bits are printed.
const RATE: Quantity = Quantity {
    what: "rate",
    example: "10Gb/s",
    units: &[
        unit("b/s", 1),
        unit("kb/s", 1_000),
        unit("Mb/s", 1_000_000),
        unit("Gb/s", 1_000_000_000),
        unit("Tb/s", 1_000_000_000_000),
        unit("B/s", 8),
        unit("kB/s", 8_000),
        unit("MB/s", 8_000_000),
        unit("GB/s", 8_000_000_000),
        unit("TB/s", 8_000_000_000_000),
    ],
    printed: 5,
    most: Bandwidth::MAX.0,
    aliases: aliases::rate,
};

impl Bandwidth {
    /// No bandwidth.
    pub const ZERO: Self = Self(0);
    /// The largest finite rate, 1 Eb/s. It keeps every product in the allocator within 128 bits.
    pub const MAX: Self = Self(1_000_000_000_000_000_000);
    /// No limit, or an unlimited demand. Greater than every finite rate.
    pub const UNLIMITED: Self = Self(u64::MAX);

    /// A rate from bit/s. A value above [`Bandwidth::MAX`] becomes `UNLIMITED`.
    pub const fn from_bps(bps: u64) -> Self {
        if bps > Self::MAX.0 { Self::UNLIMITED } else { Self(bps) }
    }
    /// A rate from Mb/s (10^6 bit/s).
    pub const fn from_mbps(mbps: u64) -> Self {
        Self::from_bps(mbps.saturating_mul(1_000_000))
    }
    /// A rate from Gb/s (10^9 bit/s).
    pub const fn from_gbps(gbps: u64) -> Self {
        Self::from_bps(gbps.saturating_mul(1_000_000_000))
    }
    /// The rate in bit/s; `u64::MAX` when unlimited.
    pub const fn bps(self) -> u64 {
        self.0
    }
    /// Whether this is [`Bandwidth::UNLIMITED`].
    pub const fn is_unlimited(self) -> bool {
        self.0 == u64::MAX
    }
    /// `self − other`, at least zero; `UNLIMITED` stays unlimited.
    pub const fn saturating_sub(self, other: Self) -> Self {
        if self.is_unlimited() { self } else { Self(self.0.saturating_sub(other.0)) }
    }
    /// The average rate of `bytes` over `time`, rounded down; zero if `time` is zero.
    pub fn from_transfer(bytes: Bytes, time: Duration) -> Self {
        if time.is_zero() {
            return Self::ZERO;
        }
        let bits = u128::from(bytes.get()) * 8 * 1_000_000_000 / u128::from(time.nanos());
        Self::from_bps(u64::try_from(bits).unwrap_or(u64::MAX))
    }
    /// The whole bytes that this rate carries in `time` (saturating).
    pub fn bytes_in(self, time: Duration) -> Bytes {
        let bytes = u128::from(self.0) * u128::from(time.nanos()) / 8_000_000_000;
        Bytes::new(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

impl Add for Bandwidth {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::from_bps(self.0.saturating_add(other.0))
    }
}
impl AddAssign for Bandwidth {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
impl Sub for Bandwidth {
    type Output = Self;
    /// Panics with debug assertions if the result is negative; see [`Bandwidth::saturating_sub`].
    fn sub(self, other: Self) -> Self {
        debug_assert!(self >= other, "{self} - {other} is negative");
        self.saturating_sub(other)
    }
}
impl SubAssign for Bandwidth {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}
impl Sum for Bandwidth {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl FromStr for Bandwidth {
    type Err = QuantityError;
    /// Parses `10Gb/s`, `1.5 Gb/s` or `12.5GB/s`. The text `unlimited` is not a rate: a caller that
    /// allows it must check for it first.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        RATE.parse(text).map(Self)
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_unlimited() {
            return f.pad("unlimited");
        }
        RATE.write(f, self.0)
    }
}

impl serde::Serialize for Bandwidth {
    /// Bit/s as a number; `null` when unlimited.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_unlimited() { serializer.serialize_none() } else { serializer.serialize_u64(self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_are_parsed() {
        for (text, bps) in [
            ("10Gb/s", 10_000_000_000),
            ("1.5Gb/s", 1_500_000_000),
            ("12.5GB/s", 100_000_000_000),
            (" 80 kb/s ", 80_000),
            ("0b/s", 0),
            ("0.001kb/s", 1),
        ] {
            assert_eq!(text.parse::<Bandwidth>().map(Bandwidth::bps), Ok(bps), "{text}");
        }
    }

    #[test]
    fn invalid_rates_are_rejected_with_cause_and_hint() {
        for (text, cause) in [
            ("10", "`10` has no unit"),
            ("10Gbs", "`Gbs` is not a unit of a rate"),
            ("10gb/s", "`gb/s` is not a unit of a rate"),
            ("-1Gb/s", "`-1Gb/s` is negative"),
            ("1.5b/s", "`1.5b/s` is finer than the smallest unit, b/s"),
            ("1.Gb/s", "`1.Gb/s` is not a rate"),
            ("1e9b/s", "`e9b/s` is not a unit of a rate"),
            ("", "`` is not a rate"),
            ("99999999Tb/s", "`99999999Tb/s` is too large for a rate"),
            ("2000000Tb/s", "`2000000Tb/s` is above the largest rate, 1000000 Tb/s"),
        ] {
            let error = text.parse::<Bandwidth>().expect_err(text);
            assert_eq!(error.cause, cause);
            assert!(!error.hint.is_empty());
        }
    }

    #[test]
    fn a_suggested_rate_is_the_written_one() {
        for (text, instead) in [
            ("10KB/s", "`10kB/s`"),
            ("10gB/s", "`10GB/s`"),
            ("10gb/s", "`10Gb/s`"),
            ("10mb/s", "`10Mb/s`"),
            ("10Mbps", "`10Mb/s`"),
            ("10Mbit", "`10Mb/s`"),
            ("10Gbps", "`10Gb/s`"),
            ("10 Gbit/s", "`10Gb/s`"),
            ("10GBit/s", "`10Gb/s`"),
            ("1.5Gbits/s", "`1.5Gb/s`"),
            ("10Gb", "`10Gb/s`"),
            ("10Gbs", "`10Gb/s`"),
            ("10GBps", "`10GB/s`"),
            ("10MBytes/s", "`10MB/s`"),
            ("010Gbps", "`10Gb/s`"),
            ("10KiB/s", "`81.92kb/s`"),
            ("10Gib/s", "`10.73741824Gb/s`"),
            ("10mbps", "`10Mb/s` (bits) or `10MB/s` (bytes, as in tc)"),
            ("10 G", "`10Gb/s` (bits) or `10GB/s` (bytes)"),
            ("1,5Gb/s", "`1.5Gb/s`"),
            ("1,500Mb/s", "`1.500Mb/s` or `1500Mb/s`"),
            ("07Gb/s", "`7Gb/s`"),
            ("00.5Gb/s", "`0.5Gb/s`"),
        ] {
            let error = text.parse::<Bandwidth>().expect_err(text);
            assert!(error.hint.starts_with(&format!("did you mean {instead}? ")), "{text}: {}", error.hint);
        }
        assert_eq!("07Gb/s".parse::<Bandwidth>().unwrap_err().cause, "`07Gb/s` has a leading zero");
        // Nothing is of that amount, or nothing is known of the unit.
        for text in ["2000000Tbps", "10/s", "10ps", "10xb/s", "0.0001Kib/s", "10s", "10kx", "10m/s"] {
            let error = text.parse::<Bandwidth>().expect_err(text);
            assert!(
                error.hint.starts_with("known units are b/s, ") && error.instead.is_empty(),
                "{text}: {}",
                error.hint
            );
        }
    }

    #[test]
    fn rates_are_printed_with_the_largest_unit() {
        assert_eq!(Bandwidth::from_gbps(6).to_string(), "6 Gb/s");
        assert_eq!(Bandwidth::from_mbps(109_670).to_string(), "109.67 Gb/s");
        assert_eq!(Bandwidth::from_bps(1_000_001).to_string(), "1.000001 Mb/s");
        assert_eq!(Bandwidth::ZERO.to_string(), "0 b/s");
        assert_eq!(Bandwidth::UNLIMITED.to_string(), "unlimited");
    }

    #[test]
    fn rates_convert_to_and_from_bytes() {
        let rate = Bandwidth::from_transfer(Bytes::new(125_000_000), Duration::from_secs(1));
        assert_eq!(rate, Bandwidth::from_gbps(1));
        assert_eq!(rate.bytes_in(Duration::from_millis(1)), Bytes::new(125_000));
        assert_eq!(Bandwidth::from_transfer(Bytes::new(1), Duration::ZERO), Bandwidth::ZERO);
    }

    proptest! {
        #[test]
        fn printed_rate_parses_to_the_same_rate(bps in 0..=Bandwidth::MAX.bps()) {
            let rate = Bandwidth::from_bps(bps);
            prop_assert_eq!(rate.to_string().parse::<Bandwidth>(), Ok(rate));
        }
        #[test]
        fn any_text_is_parsed_or_rejected(text in ".{0,40}|[0-9.,]{1,8} ?[kKmMgGtT]?i?[bB](it|yte)?s?(/s|ps)?") {
            if let Err(error) = text.parse::<Bandwidth>() {
                for instead in &error.instead {
                    prop_assert!(instead.parse::<Bandwidth>().is_ok(), "{text:?} -> {instead}");
                }
            }
        }
        /// The exact amount of each spelling, from a table that is not the parser's.
        #[test]
        fn a_suggested_value_is_the_written_amount(
            number in 1u64..1000, scale in 0usize..4, bytes: bool, binary: bool, upper: bool, word in 0usize..4,
        ) {
            let letter = ["k", "m", "g", "t"][scale];
            let letter = if upper { letter.to_uppercase() } else { letter.to_owned() };
            let per = [("b/s", "B/s"), ("bps", "Bps"), ("bit/s", "byte/s"), ("bit", "Byte")][word];
            let (binary_prefix, per) = (if binary { "i" } else { "" }, if bytes { per.1 } else { per.0 });
            let text = format!("{number}{letter}{binary_prefix}{per}");
            let base = if binary { 1024u64 } else { 1000 };
            let bps = number * base.pow(scale as u32 + 1) * if bytes { 8 } else { 1 };
            match text.parse::<Bandwidth>() {
                Ok(rate) => prop_assert_eq!(rate.bps(), bps),
                Err(error) => {
                    let first = error.instead.first().map(|text| text.parse::<Bandwidth>().map(Bandwidth::bps));
                    prop_assert_eq!(first, Some(Ok(bps)), "{} {:?}", text, error);
                }
            }
        }
    }
}
