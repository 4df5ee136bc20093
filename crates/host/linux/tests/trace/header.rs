//! Changes of IP headers as the programs in `bpf/` make them, with the checksum of IPv4 (RFC 1624).

use weir_datapath::ecn::{self, Arrived};

/// Where the IP header begins: frames of a trace have no tags.
pub(crate) const NETWORK: usize = 14;

/// Of a header with this first byte.
fn is_ipv6(frame: &[u8]) -> bool {
    frame[NETWORK] >> 4 == 6
}

/// Changes bits of the DSCP and ECN byte.
fn set(frame: &mut [u8], mask: u8, value: u8) {
    let header = &mut frame[NETWORK..];
    if header[0] >> 4 == 6 {
        let class = header[0] << 4 | header[1] >> 4;
        let class = class & !mask | value;
        header[0] = 0x60 | class >> 4;
        header[1] = header[1] & 0x0f | class << 4;
        return;
    }
    let word = |header: &[u8], at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let (before, checksum) = (word(header, 0), word(header, 10));
    header[1] = header[1] & !mask | value;
    let sum = u32::from(!checksum) + u32::from(!before) + u32::from(word(header, 0));
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

pub(crate) fn set_dscp(frame: &mut [u8], dscp: u8) {
    set(frame, 0xfc, dscp << 2);
}

pub(crate) fn set_ce(frame: &mut [u8]) {
    set(frame, 3, 3);
}

/// Before `segments` packets leave with the header of a frame.
pub(crate) fn leave_ecn(frame: &mut [u8], segments: u32, requests_feedback: bool) {
    if is_ipv6(frame) {
        let header = frame[NETWORK..].first_chunk_mut().expect("four bytes");
        ecn::leave_ipv6(header, requests_feedback);
    } else {
        let header = frame[NETWORK..].first_chunk_mut().expect("twelve bytes");
        ecn::leave_ipv4(header, segments, requests_feedback);
    }
}

/// Restores the header of a frame that arrived, if it is encapsulated.
pub(crate) fn arrive_ecn(frame: &mut [u8]) -> Arrived {
    match is_ipv6(frame) {
        true => ecn::arrive_ipv6(frame[NETWORK..].first_chunk_mut().expect("four bytes")),
        false => ecn::arrive_ipv4(frame[NETWORK..].first_chunk_mut().expect("twelve bytes")),
    }
}
