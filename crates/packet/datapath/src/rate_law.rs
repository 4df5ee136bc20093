//! [`RateLaw`]: the next rate from the usage of an interval.
//!
//! The arithmetic, its bounds and its source are in `datapath/rate_law.h`. Meters run it themselves; this is
//! the law alone, for tests and for planning.
//!
//! Worked example: R = 5, C = 9, y = 12 Gb/s, α = 1/2: the next rate is 4.1667 Gb/s.

use crate::abi;
use weir_shaping::{Alpha, Marks};
use weir_units::{Bandwidth, Duration};

/// The law at one capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLaw {
    /// Target of the usage, 10 kb/s to 8 Tb/s.
    pub capacity: Bandwidth,
    /// Gain.
    pub alpha: Alpha,
    /// Effect of marks.
    pub marks: Marks,
}

impl RateLaw {
    /// The least rate: 10 Mb/s, or a thousandth of the capacity where that is less; under 100 Mb/s
    /// 100 kb/s, or a fiftieth.
    pub fn floor(&self) -> Bandwidth {
        Bandwidth::from_bps(abi::law_floor(self.capacity()))
    }

    /// The rate after an interval of `elapsed` with `usage`, in which `marked` of `packets` packets were marked.
    pub fn step(&self, rate: Bandwidth, usage: Bandwidth, elapsed: Duration, marked: u32, packets: u32) -> Bandwidth {
        let capacity = self.capacity();
        // Any usage is accepted; above 2^62 the addition of marks could wrap.
        let usage = usage.bps().min(1 << 62);
        let part = u64::from(marked.min(packets)) * u64::from(abi::LAW_ONE) / u64::from(packets.max(1));
        let part = part as u32;
        let (usage, part) = match self.marks {
            Marks::Ignored => (usage, 0),
            Marks::Fraction => (usage, part),
            Marks::Usage(bytes) => {
                let bytes = u32::try_from(bytes.get()).unwrap_or(u32::MAX).min(100_000_000);
                let elapsed = elapsed.nanos().max(1);
                (abi::law_marked_usage(usage, capacity, elapsed, bytes, part), 0)
            }
        };
        let rate = rate.bps().min(abi::LAW_RATE_MAX);
        let floor = abi::law_floor(capacity);
        let next = abi::rate_law(rate, capacity, usage, self.alpha.raw(), part, floor);
        Bandwidth::from_bps(next)
    }

    fn capacity(&self) -> u64 {
        self.capacity.bps().clamp(abi::LAW_RATE_MIN.into(), abi::LAW_RATE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::Bytes;

    const T: Duration = Duration::from_micros(200);

    fn law(capacity: u64, marks: Marks) -> RateLaw {
        RateLaw { capacity: Bandwidth::from_mbps(capacity), alpha: Alpha::HALF, marks }
    }

    /// The rate in Mb/s after one step, to the kb/s.
    fn step(law: RateLaw, rate: u64, usage: u64, marked: u32) -> f64 {
        let next = law.step(Bandwidth::from_mbps(rate), Bandwidth::from_mbps(usage), T, marked, 10);
        ((next.bps() + 500) / 1000) as f64 / 1000.0
    }

    #[test]
    fn one_step_of_parley() {
        // 5 * (1 - 0.5 * 3/9) = 4.1667; with 0.4 marked 5 * (1 - 0.1667 - 0.2) = 3.1667 Gb/s
        let law = law(9000, Marks::Fraction);
        assert!((step(law, 5000, 12_000, 0) - 4166.667).abs() < 0.005);
        assert!((step(law, 5000, 12_000, 4) - 3166.667).abs() < 0.01);
        assert!((step(RateLaw { marks: Marks::Ignored, ..law }, 5000, 12_000, 4) - 4166.667).abs() < 0.005);
    }

    #[test]
    fn one_step_of_eyeq() {
        // fb * (3 * rate - rx) / (2 * rate): 5000 * 27,000/18,000 = 7500; 5000 * 18,000/18,000 = 5000
        let law = law(9000, Marks::Usage(Bytes::new(45_000)));
        assert!((step(law, 5000, 0, 0) - 7500.0).abs() < 0.005);
        assert!((step(law, 5000, 9000, 0) - 5000.0).abs() < 0.005);
        // All marked: rx = 4500 + 45,000 * 8 * 2 / 200 us = 8100: 5000 * 18,900/18,000 = 5250
        assert!((step(law, 5000, 4500, 10) - 5250.0).abs() < 0.005);
        // Half marked: rx = 4500 + 45,000 * 8 * 1.5 / 200 us = 7200: 5000 * 19,800/18,000 = 5500
        assert!((step(law, 5000, 4500, 5) - 5500.0).abs() < 0.005);
    }

    #[test]
    fn rate_stays_within_floor_and_capacity() {
        let law = law(90_000, Marks::Fraction);
        assert_eq!(law.floor(), Bandwidth::from_mbps(10));
        assert_eq!(step(law, 80_000, 0, 0), 90_000.0);
        assert_eq!(step(law, 50_000, 270_000, 0), 10.0, "three capacities lower the rate to its floor");
        assert_eq!(step(law, 50_000, 900_000_000, 10), 10.0);
        let small = RateLaw { capacity: Bandwidth::from_mbps(100), ..law };
        assert_eq!(small.floor(), Bandwidth::from_bps(100_000));
        assert_eq!(RateLaw { capacity: Bandwidth::from_bps(10_000), ..law }.floor(), Bandwidth::from_bps(200));
        assert_eq!(RateLaw { capacity: Bandwidth::from_mbps(20), ..law }.floor(), Bandwidth::from_bps(100_000));
    }
}
