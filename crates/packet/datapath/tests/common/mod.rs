//! The interface in the tests of both meters: 95 % of a link, in numbers of bit/s.

use weir_units::{Bandwidth, Bytes};

pub(crate) const CAPACITY: f64 = 9.5e9;
/// One interval of the interface meter, ns.
pub(crate) const T: u64 = 1_000_000;

pub(crate) fn rate(bps: f64) -> Bandwidth {
    Bandwidth::from_bps(bps as u64)
}

/// The bytes that arrive in one interval of the interface meter.
pub(crate) fn bytes(bps: f64) -> Bytes {
    Bytes::new((bps * T as f64 * 1e-9 / 8.0) as u64)
}
