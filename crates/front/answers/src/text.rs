//! Rates, sizes, times and lists in sentences and tables.

use weir_units::Bandwidth;

pub use weir_report::whole;
pub use weir_runs::text::{count, list};

/// A rate with at most three decimals. Exact values are in JSON.
pub fn rate(bandwidth: Bandwidth) -> String {
    if bandwidth.is_unlimited() {
        return "unlimited".to_owned();
    }
    weir_report::Unit::Bandwidth.format(bandwidth.bps() as f64)
}

/// An amount of data with at most three decimals.
pub fn size(bytes: u64) -> String {
    weir_report::Unit::Size.format(bytes as f64)
}

/// Bit/s for programs; `null` when unlimited.
pub fn bps(bandwidth: Bandwidth) -> Option<u64> {
    (!bandwidth.is_unlimited()).then(|| bandwidth.bps())
}

/// A time in four digits.
pub fn time(seconds: f64) -> String {
    weir_report::Unit::Time.format_short(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_short() {
        assert_eq!(rate(Bandwidth::from_bps(1_333_333_333)), "1.333 Gb/s");
        assert_eq!(rate(Bandwidth::from_bps(999_999_999)), "1 Gb/s");
        assert_eq!(rate(Bandwidth::from_gbps(10)), "10 Gb/s");
        assert_eq!(rate(Bandwidth::ZERO), "0 b/s");
        assert_eq!(rate(Bandwidth::UNLIMITED), "unlimited");
    }

    #[test]
    fn numbers_and_times() {
        assert_eq!([7, 999, 1_234_567].map(whole), ["7", "999", "1,234,567"]);
        assert_eq!(time(0.001_234_56), "1.235 ms");
    }
}
