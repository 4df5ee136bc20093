//! Datagrams that do not reach the broker.

use weir_control::wire::DecodeError;

/// Datagrams that did not reach the broker, by reason.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct DatagramCounters {
    /// Cut off.
    pub truncated: u64,
    /// Not of this protocol.
    pub foreign: u64,
    /// Of another version.
    pub version: u64,
    /// With a tag that does not verify.
    pub forged: u64,
    /// With a good tag around nonsense.
    pub malformed: u64,
    /// Genuine, but for a fabric broker, or in its name.
    pub misdirected: u64,
    /// That could not be sent.
    pub unsent: u64,
}

impl DatagramCounters {
    pub(super) fn count(&mut self, error: DecodeError) {
        *match error {
            DecodeError::Truncated => &mut self.truncated,
            DecodeError::Foreign => &mut self.foreign,
            DecodeError::Version(_) => &mut self.version,
            DecodeError::Forged => &mut self.forged,
            DecodeError::Malformed(_) => &mut self.malformed,
        } += 1;
    }
}
