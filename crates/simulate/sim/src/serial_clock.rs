//! [`SerialClock`]: how long frames take at a rate, exactly.
//!
//! Where a byte takes a whole number of picoseconds the time is a product. Elsewhere (300 Mb/s) the
//! fraction is carried from frame to frame inside a busy period, so that n frames end at exactly ⌈n
//! · 8 · size / rate⌉ ps after its start: never faster than the rate, and never a picosecond too
//! slow.
//!
//! Example: 1514 B at 10 Gb/s take 1,211,200 ps; at 300 Mb/s one byte takes 26,667 ps and three
//! take 80,000.

use weir_units::{Bandwidth, SimTime};

/// Picoseconds in a second times bits in a byte: a byte takes this over the rate in bit/s.
const BYTE_PICOS: u64 = 8 * 1_000_000_000_000;

/// How long frames take at a rate, exactly: see the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SerialClock {
    bps: u64,
    /// Whole picoseconds of a byte.
    whole: u64,
    /// The rest of a byte's time, in 1/bps ps.
    rest: u64,
    /// The sum of roundings up so far, in 1/bps ps; below `bps`.
    credit: u64,
}

impl SerialClock {
    /// A clock for `rate`.
    ///
    /// # Panics
    /// If the rate is zero or above 8 Tb/s, where a byte takes less than a picosecond.
    pub fn new(rate: Bandwidth) -> Self {
        let bps = rate.bps();
        assert!(bps > 0 && bps <= BYTE_PICOS, "a link of {rate} cannot be simulated: 1 b/s to 8 Tb/s");
        Self { bps, whole: BYTE_PICOS / bps, rest: BYTE_PICOS % bps, credit: 0 }
    }

    /// The rate.
    pub fn rate(&self) -> Bandwidth {
        Bandwidth::from_bps(self.bps)
    }

    /// The time of the next frame of a busy period.
    #[inline]
    pub fn advance(&mut self, bytes: u32) -> SimTime {
        let bytes = u64::from(bytes);
        let mut picos = bytes * self.whole;
        if self.rest > 0 {
            let parts = bytes * self.rest;
            if parts <= self.credit {
                self.credit -= parts;
            } else {
                let owed = parts - self.credit;
                let extra = owed.div_ceil(self.bps);
                self.credit = extra * self.bps - owed;
                picos += extra;
            }
        }
        SimTime::from_picos(picos)
    }

    /// Whether a byte takes a whole number of picoseconds: then times are products.
    #[inline]
    pub fn is_exact(&self) -> bool {
        self.rest == 0
    }

    /// Picoseconds of a byte, rounded down.
    #[inline]
    pub fn byte(&self) -> u64 {
        self.whole
    }

    /// The number of bytes that take `time`; a byte that has begun counts in full.
    #[inline]
    pub fn bytes_in(&self, time: SimTime) -> u64 {
        if self.rest == 0 {
            return time.picos().div_ceil(self.whole);
        }
        let bytes = (u128::from(time.picos()) * u128::from(self.bps)).div_ceil(u128::from(BYTE_PICOS));
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Begins a new busy period.
    #[inline]
    pub fn reset(&mut self) {
        self.credit = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_frame_at_10_gbps_is_exact() {
        let mut clock = SerialClock::new(Bandwidth::from_gbps(10));
        assert_eq!(clock.advance(1514), SimTime::from_picos(1_211_200));
    }

    #[test]
    fn thirds_of_a_picosecond_do_not_add_up() {
        // At 300 Mb/s a byte takes 26,666 2/3 ps. One byte rounds up; three take exactly 80,000.
        let mut clock = SerialClock::new(Bandwidth::from_mbps(300));
        assert_eq!(clock.advance(1).picos(), 26_667);
        assert_eq!(clock.advance(1).picos(), 26_667);
        assert_eq!(clock.advance(1).picos(), 26_666);
    }

    #[test]
    fn bytes_that_have_begun_count() {
        // 1000 B at 8 Mb/s take 1 ms.
        let clock = SerialClock::new(Bandwidth::from_mbps(8));
        assert_eq!(clock.bytes_in(SimTime::from_millis(2)), 2000);
        assert_eq!(clock.bytes_in(SimTime::from_picos(1_499_999_999)), 1500);
        assert_eq!(clock.bytes_in(SimTime::from_picos(1_500_000_001)), 1501);
        let clock = SerialClock::new(Bandwidth::from_mbps(300));
        assert_eq!(clock.bytes_in(SimTime::from_picos(80_000)), 3);
        assert_eq!(clock.bytes_in(SimTime::from_picos(80_001)), 4);
    }

    proptest! {
        #[test]
        fn a_busy_period_is_exact(
            bps in 1_000u64..400_000_000_000, sizes in proptest::collection::vec(1u32..9014, 1..100),
        ) {
            let mut clock = SerialClock::new(Bandwidth::from_bps(bps));
            let mut bytes: u128 = 0;
            let mut picos: u128 = 0;
            for size in sizes {
                bytes += u128::from(size);
                picos += u128::from(clock.advance(size).picos());
                prop_assert_eq!(picos, (bytes * u128::from(BYTE_PICOS)).div_ceil(u128::from(bps)));
            }
        }
    }
}
