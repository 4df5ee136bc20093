//! ECN encapsulation of packets that are Not-ECT, and its removal at the receiver.
//!
//! The rules and their sources are in `datapath/ecn.h`; these functions apply them to the first
//! bytes of IP headers, for tests and tools. The kernel's programs apply them to packets.
//!
//! Worked example: [`leave_ipv4`] turns a Not-ECT header with identification 0x1234 and the
//! don't-fragment bit into ECT(0) with 0xaa34; when it arrives as CE, [`arrive_ipv4`] reports the
//! mark and restores Not-ECT.

use crate::abi;

/// The meaning of the ECN bits of a received packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrived {
    /// Switches could mark the packet.
    pub capable: bool,
    /// A switch marked it.
    pub marked: bool,
    /// The sender requests feedback.
    pub requests_feedback: bool,
    /// The tenant sent it as Not-ECT; the header is Not-ECT again.
    pub encapsulated: bool,
}

impl From<abi::Ecn> for Arrived {
    fn from(ecn: abi::Ecn) -> Self {
        Self {
            capable: ecn.capable != 0,
            marked: ecn.marked != 0,
            requests_feedback: ecn.requests_feedback != 0,
            encapsulated: ecn.encapsulated != 0,
        }
    }
}

/// Encapsulates the IPv4 header of `segments` (at least 1) departing packets whose receiver
/// decapsulates. Returns whether the header changed.
pub fn leave_ipv4(header: &mut [u8; 12], segments: u32, requests_feedback: bool) -> bool {
    abi::ecn_leave_ipv4(header, segments, requests_feedback.into()) != 0
}

/// Like [`leave_ipv4`], for the first word of an IPv6 header.
pub fn leave_ipv6(header: &mut [u8; 4], requests_feedback: bool) -> bool {
    abi::ecn_leave_ipv6(header, requests_feedback.into()) != 0
}

/// Decapsulates the IPv4 header of a received packet.
pub fn arrive_ipv4(header: &mut [u8; 12]) -> Arrived {
    abi::ecn_arrive_ipv4(header).into()
}

/// Like [`arrive_ipv4`], for the first word of an IPv6 header.
pub fn arrive_ipv6(header: &mut [u8; 4]) -> Arrived {
    abi::ecn_arrive_ipv6(header).into()
}
