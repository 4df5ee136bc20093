//! Numbers and names as people read them.

use crate::bins::Bin;
use crate::series::seconds;
use weir_report::Unit;
use weir_units::{Bandwidth, SimTime};

pub(crate) use weir_report::whole;

/// The sign for an unknown value.
pub(crate) const UNKNOWN: &str = "–";

pub(crate) fn time(time: SimTime) -> String {
    Unit::Time.format_short(seconds(time))
}

pub(crate) fn size(bytes: u64) -> String {
    Unit::Size.format_short(bytes as f64)
}

pub(crate) fn rate(rate: Bandwidth) -> String {
    if rate.is_unlimited() { "unlimited".to_owned() } else { Unit::Bandwidth.format_short(rate.bps() as f64) }
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A slowdown: two decimals are enough.
pub(crate) fn factor(value: f64) -> String {
    format!("{value:.2}")
}

pub(crate) fn known<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or(UNKNOWN.to_owned(), text)
}

/// `1 flow`, `2,000 flows`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", whole(number), if number == 1 { "" } else { "s" })
}

/// `≤ 10 kB`, `10 kB to 1 MB`, `> 1 MB`; `all sizes` for the bin without bounds.
pub(crate) fn bin(bin: Bin) -> String {
    match (bin.over, bin.up_to) {
        (0, None) => "all sizes".to_owned(),
        (over, None) => format!("> {}", size(over)),
        (0, Some(up_to)) => format!("≤ {}", size(up_to)),
        (over, Some(up_to)) => format!("{} to {}", size(over), size(up_to)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        let names: Vec<String> = crate::SizeBins::qjump().iter().map(bin).collect();
        assert_eq!(names, ["≤ 10 kB", "10 kB to 10 MB", "> 10 MB"]);
        assert_eq!(bin(Bin { over: 0, up_to: None }), "all sizes");
        assert_eq!([0, 1, 2_000].map(|number| count(number, "flow")), ["0 flows", "1 flow", "2,000 flows"]);
        assert_eq!([999, 1_234_567].map(whole), ["999", "1,234,567"]);
        assert_eq!((percent(0.12345), factor(1.0), known(None, factor)), ("12.3 %".into(), "1.00".into(), "–".into()));
        assert_eq!(
            (time(SimTime::from_picos(1_211_200)), rate(Bandwidth::UNLIMITED)),
            ("1.211 µs".into(), "unlimited".into())
        );
    }
}
