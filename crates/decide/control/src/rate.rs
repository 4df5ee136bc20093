//! Quantised rates: the resolution of rates in messages, 23 bits each.
//!
//! All machines of a rack must compute from the same numbers, and each machine sends its numbers to
//! every other machine once a second. A rate is rounded down once, where it is measured, to the
//! resolution of the wire; its source computes with the rounded value too. The format is a small
//! float: 6 bits of exponent and 17 of mantissa with an implicit leading one. In a usage, a 24th
//! bit marks it as backlogged. Rounding is down, so that allocations never exceed a capacity.
//!
//! | exponent | value |
//! |---|---|
//! | 0 | the mantissa: every rate below 131,072 b/s exactly |
//! | e ≥ 1 | (2^17 + mantissa) · 2^(e − 1): exact to 262,143 b/s, at most 1/2^17 (0.0008 %) too low above |
//!
//! The largest code stands for unlimited. Codes sort as their rates do.
//!
//! Worked example: 10 Gb/s = 152,587.89… · 2^16 becomes 152,587 · 2^16 = 9.999941632 Gb/s, 0.0006 %
//! less.
//!
//! Source: Parley §5.2 (an id and a rate for each service). Deviates from the paper in: 3 bytes for
//! a rate in place of a 4-byte float.

use weir_units::Bandwidth;

/// Bits of the mantissa.
const MANTISSA: u32 = 17;
/// The code of an unlimited rate: all 23 bits set.
const UNLIMITED: u32 = (1 << 23) - 1;

/// A rate in 23 bits. Codes are ordered as their rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct QuantisedRate(u32);

impl QuantisedRate {
    /// Zero bandwidth.
    pub const ZERO: Self = Self(0);
    /// No limit.
    pub const UNLIMITED: Self = Self(UNLIMITED);

    /// The largest code whose rate is not above `rate`.
    pub const fn of(rate: Bandwidth) -> Self {
        if rate.is_unlimited() {
            return Self::UNLIMITED;
        }
        let bps = rate.bps();
        let bits = u64::BITS - bps.leading_zeros();
        if bits <= MANTISSA {
            return Self(bps as u32);
        }
        let shift = bits - MANTISSA - 1;
        Self((shift + 1) << MANTISSA | ((bps >> shift) as u32 - (1 << MANTISSA)))
    }

    /// The rate of the code.
    pub const fn bandwidth(self) -> Bandwidth {
        if self.0 == UNLIMITED {
            return Bandwidth::UNLIMITED;
        }
        let (exponent, mantissa) = (self.0 >> MANTISSA, (self.0 & ((1 << MANTISSA) - 1)) as u64);
        match exponent {
            0 => Bandwidth::from_bps(mantissa),
            _ => Bandwidth::from_bps(((1 << MANTISSA) + mantissa) << (exponent - 1)),
        }
    }

    /// The 23 bits, for the wire.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The rate of 23 bits; `None` for an invalid code, whose rate would be above
    /// [`Bandwidth::MAX`].
    pub const fn from_bits(bits: u32) -> Option<Self> {
        let known = bits <= Self::of(Bandwidth::MAX).0 || bits == UNLIMITED;
        if known { Some(Self(bits)) } else { None }
    }
}

/// `rate` at the resolution of messages: rounded down by at most 1/2^17 of itself.
pub const fn rounded(rate: Bandwidth) -> Bandwidth {
    QuantisedRate::of(rate).bandwidth()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn worked_example() {
        assert_eq!(rounded(Bandwidth::from_gbps(10)), Bandwidth::from_bps(152_587 << 16));
        assert_eq!(rounded(Bandwidth::from_gbps(10)), Bandwidth::from_bps(9_999_941_632));
    }

    #[test]
    fn small_rates_and_the_bounds_are_exact() {
        for bps in [0, 1, 131_071, 131_072, 262_143] {
            assert_eq!(rounded(Bandwidth::from_bps(bps)).bps(), bps);
        }
        assert_eq!(rounded(Bandwidth::UNLIMITED), Bandwidth::UNLIMITED);
        assert!(!rounded(Bandwidth::MAX).is_unlimited());
        assert_eq!(QuantisedRate::from_bits(QuantisedRate::of(Bandwidth::MAX).bits() + 1), None);
        assert_eq!(QuantisedRate::from_bits(UNLIMITED + 1), None);
    }

    proptest! {
        #[test]
        fn rounding_error_is_at_most_one_part_in_131072(bits in 0u32..60, low: u64) {
            let rate = Bandwidth::from_bps((1 << bits | low & ((1 << bits) - 1)).min(Bandwidth::MAX.bps()));
            let reported = rounded(rate);
            prop_assert!(reported <= rate);
            prop_assert!((rate - reported).bps() <= rate.bps() >> 17);
            prop_assert_eq!(rounded(reported), reported);
        }
        #[test]
        fn codes_sort_as_their_rates(
            a in 0..=QuantisedRate::of(Bandwidth::MAX).bits(),
            b in 0..=QuantisedRate::of(Bandwidth::MAX).bits(),
        ) {
            let (a, b) = (QuantisedRate::from_bits(a).expect("a code"), QuantisedRate::from_bits(b).expect("a code"));
            prop_assert_eq!(QuantisedRate::of(a.bandwidth()), a);
            prop_assert_eq!(a.cmp(&b), a.bandwidth().cmp(&b.bandwidth()));
            prop_assert!(a < QuantisedRate::UNLIMITED);
        }
    }
}
