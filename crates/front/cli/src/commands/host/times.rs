//! Options that are times in a range.

use crate::values;
use std::ops::RangeInclusive;
use weir_units::Duration;

/// A time in a range.
pub(super) fn time_in(text: &str, range: RangeInclusive<Duration>) -> Result<Duration, String> {
    let time = values::time(text)?;
    match range.contains(&time) {
        true => Ok(time),
        false => Err(format!("write a time between {} and {}", range.start(), range.end())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_hints() {
        let range = Duration::from_millis(100)..=Duration::from_secs(3_600);
        assert_eq!(time_in("10s", range.clone()), Ok(Duration::from_secs(10)));
        for (text, hint) in [("010s", "`10s`"), ("1000msec", "`1000ms`"), ("10ms", "between 100 ms and")] {
            let refused = time_in(text, range.clone()).expect_err(text);
            assert!(refused.contains(hint), "{refused}");
        }
    }
}
