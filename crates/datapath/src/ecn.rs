//! Letting switches mark packets that do not speak ECN, and undoing it at the receiver.
//!
//! The rules and their sources are in `datapath/ecn.h`; these are its functions over the first bytes of IP headers, for
//! tests and for whoever has headers at hand. The kernel's programs do the same to packets.
//!
//! Worked example: [`leave_ipv4`] makes a Not-ECT header with identification 0x1234 and the don't-fragment bit ECT(0)
//! with 0xaa34; [`arrive_ipv4`] finds it CE on the other side, says so, and makes it Not-ECT again.

use crate::layout::native;

/// What a packet that arrived says of its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrived {
    /// Switches could mark it.
    pub capable: bool,
    /// One did.
    pub marked: bool,
    /// Its sender asks for feedback.
    pub asks: bool,
    /// It was Not-ECT when its tenant sent it, and is again.
    pub ours: bool,
}

impl Arrived {
    fn from_bits(bits: u32) -> Self {
        let bit = |place: u32| bits & (1 << place) != 0;
        Self { capable: bit(0), marked: bit(1), asks: bit(2), ours: bit(3) }
    }
}

/// Before `segments` packets (at least 1) leave with copies of this header, towards a destination that undoes it. Whether the header
/// changed.
pub fn leave_ipv4(header: &mut [u8; 12], segments: u32, asks: bool) -> bool {
    native::weir_native_ecn_leave_ipv4(header, segments, i32::from(asks)) != 0
}

/// The same of the first word of an IPv6 header.
pub fn leave_ipv6(header: &mut [u8; 4], asks: bool) -> bool {
    native::weir_native_ecn_leave_ipv6(header, i32::from(asks)) != 0
}

/// Reads a header that arrived and makes it what its tenant sent.
pub fn arrive_ipv4(header: &mut [u8; 12]) -> Arrived {
    Arrived::from_bits(native::weir_native_ecn_arrive_ipv4(header))
}

/// The same of the first word of an IPv6 header.
pub fn arrive_ipv6(header: &mut [u8; 4]) -> Arrived {
    Arrived::from_bits(native::weir_native_ecn_arrive_ipv6(header))
}
