//! The time of day. Certificates have dates, and a status has the time of its creation; no limit is decided by it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "a daemon is a driver: it gives the time to what checks dates")]
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Seconds since 1970, as certificates count.
pub(crate) fn now_s() -> i64 {
    i64::try_from(now_ms() / 1_000).unwrap_or(i64::MAX)
}
