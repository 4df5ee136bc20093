//! Loads, times and limits of a plan in sentences and tables.

use crate::text;
use weir_latency::plan::{Bound, Point};
use weir_units::{Duration, Load};

/// A load in per cent, at most two decimals; a full point has 100 %.
pub fn load(load: Option<Load>) -> String {
    percent(load.map_or(1.0, Load::as_f64))
}

/// A part in per cent, at most two decimals. Neither a part above zero is shown as none, nor one below 1 as all.
pub fn percent(part: f64) -> String {
    let digits = format!("{:.2}", part * 100.0);
    match digits.as_str() {
        "0.00" if part > 0.0 => "< 0.01 %".to_owned(),
        "100.00" if part < 1.0 => "> 99.99 %".to_owned(),
        _ => format!("{} %", digits.trim_end_matches('0').trim_end_matches('.')),
    }
}

/// A time in four digits.
pub fn time(time: Duration) -> String {
    text::time(time.as_secs_f64())
}

/// The limit of a point's load, as a text.
pub fn limited_by(point: &Point) -> String {
    let name = point.point;
    match point.bound {
        Bound::Cap => format!("caps.{name}"),
        Bound::Below => "the capacities below it".to_owned(),
        Bound::Evenly => "the uplink's load, spread evenly over the rack".to_owned(),
        Bound::Nothing => format!("nothing limits it: there is no caps.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn a_part_is_never_shown_as_none_or_all() {
        assert_eq!([0.0, 0.5, 1.0, 1.25].map(percent), ["0 %", "50 %", "100 %", "125 %"]);
        assert_eq!([1e-10, 0.000_049, 0.000_051].map(percent), ["< 0.01 %", "< 0.01 %", "0.01 %"]);
        assert_eq!([0.999_94, 0.999_96, 0.999_999_999].map(percent), ["99.99 %", "> 99.99 %", "> 99.99 %"]);
    }
}
