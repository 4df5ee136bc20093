//! D3: deadline-aware rates granted by switches.

use weir_units::Bandwidth;

/// The most hops that a request can collect grants from.
pub const MAX_HOPS: usize = 8;

/// What a request asks for and collects on its way, and what its acknowledgement brings back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateHeader {
    /// The rate that is asked for.
    pub desired: Bandwidth,
    /// The rate that the request before asked for.
    pub previous_desired: Bandwidth,
    /// What each hop granted the request before.
    pub previous: [Bandwidth; MAX_HOPS],
    /// What each hop grants.
    pub granted: [Bandwidth; MAX_HOPS],
    /// How many hops have answered.
    pub hops: u8,
    /// The first request of the flow.
    pub first: bool,
    /// The flow's last word: everything is returned.
    pub last: bool,
}
