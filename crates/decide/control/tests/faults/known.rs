//! Worlds that are known to agree late, each with the reason.
//!
//! Among the seeds of a plain run every late world is listed here, and every listed world is late: a rule that makes
//! another world late, or one of these later, fails the run, and so does an entry that no longer holds. The failure
//! prints the seed and the time. A replay of the seed shows why it is late; an entry needs such a reason. Of further
//! seeds a few in a thousand may be late ([`crate::late_in`]).

/// A world that agrees late.
pub(crate) struct KnownLate {
    pub(crate) seed: u64,
    /// The latest time at which all machines agree, in milliseconds.
    pub(crate) by_ms: u64,
    /// Why it is late.
    pub(crate) why: &'static str,
}

const fn late(seed: u64, by_ms: u64, why: &'static str) -> KnownLate {
    KnownLate { seed, by_ms, why }
}

/// By the published rule: interfaces that are full beside a limited service ([`crate::steps`]).
const SERIES: &str = "its steps are a geometric series";

/// Of ten rack brokers, by seed.
pub(crate) const RACKS: &[KnownLate] = &[late(2_082, 44_696, SERIES)];
