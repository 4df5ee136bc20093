//! Frames made by hand, for programs that are run on them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_datapath::abi::{self, FEEDBACK_ECN_ACK, HAS_IP, HAS_PORTS};
use weir_datapath::feedback::{headers_ipv4, headers_ipv6};
use weir_datapath::{Address, Feedback, SipKey};

/// What control traffic is signed by, as the key 7.
pub(crate) const KEY: [u8; 16] = *b"sixteen bytes ok";

/// Addresses of the hosts: `a` is the rate-limited sender, `b` the receiver, `c` sends no feedback.
pub(crate) fn address(last: u8, ipv6: bool) -> IpAddr {
    match ipv6 {
        false => Ipv4Addr::new(10, 77, 0, last).into(),
        true => Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, last.into()).into(),
    }
}

pub(crate) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// As `struct weir_packet` has it.
pub(crate) fn words(address: IpAddr) -> Address {
    let octets = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    [0, 8].map(|from| u64::from_ne_bytes(octets[from..from + 8].try_into().expect("eight bytes")))
}

pub(crate) fn ethernet(ipv6: bool, group: bool) -> Vec<u8> {
    let kind = if ipv6 { [0x86, 0xdd] } else { [8, 0] };
    // Packets to group addresses trigger no feedback.
    [[2 + u8::from(group), 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2].as_slice(), &kind].concat()
}

/// A TCP segment between the addresses to a port, `payload` bytes long, with these ECN bits.
pub(crate) fn tcp(ethernet: Vec<u8>, from: IpAddr, to: IpAddr, port: u16, payload: usize, ecn: u8) -> Vec<u8> {
    let ports = [0x9c40u16.to_be_bytes(), port.to_be_bytes()].concat();
    let tcp = [&ports[..], &[0; 8], &[0x50, 0x10, 0, 0, 0, 0, 0, 0]].concat();
    let length = (20 + payload) as u16;
    let ip = if from.is_ipv6() {
        let start = [0x60, ecn << 4, 0, 0, length.to_be_bytes()[0], length.to_be_bytes()[1], 6, 64];
        [&start[..], &octets(from), &octets(to)].concat()
    } else {
        let [high, low] = (length + 20).to_be_bytes();
        [&[0x45, ecn, high, low, 0, 0, 0x40, 0, 64, 6, 0, 0][..], &octets(from), &octets(to)].concat()
    };
    [ethernet, ip, tcp, vec![0; payload]].concat()
}

/// An empty UDP datagram of IPv4 between two ports.
pub(crate) fn udp(ethernet: Vec<u8>, from: IpAddr, to: IpAddr, (source, destination): (u16, u16)) -> Vec<u8> {
    let ip = [&[0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0][..], &octets(from), &octets(to)].concat();
    let ports = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    [ethernet, ip, ports, vec![0, 8, 0, 0]].concat()
}

/// The ECN bits of a frame.
pub(crate) fn ecn(frame: &[u8]) -> u8 {
    if frame[14] >> 4 == 6 { frame[15] >> 4 & 3 } else { frame[15] & 3 }
}

/// The five bits that hold the ECN encapsulation marker (`datapath/ecn.h`).
pub(crate) fn ecn_marker_bits(frame: &[u8]) -> u8 {
    if frame[14] >> 4 == 6 { (frame[15] & 0x0f) << 1 | frame[16] >> 7 } else { frame[18] >> 3 }
}

/// The frame with the ECN encapsulation marker, which a tenant's frame may have by chance, too.
pub(crate) fn with_marker(mut frame: Vec<u8>) -> Vec<u8> {
    if frame[14] >> 4 == 6 {
        frame[15] = frame[15] & 0xf0 | 0b1010;
        frame[16] |= 0x80;
    } else {
        frame[18] = 0b10101 << 3 | frame[18] & 7;
    }
    frame
}

/// A control message from `b` to `a`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    /// Feedback without acknowledgement of `a`'s ECN capability message.
    Feedback,
    /// Feedback that acknowledges `a`'s ECN capability message.
    FeedbackAck,
    /// `b`'s ECN capability message.
    EcnCapability,
}

/// A control message from `b` to `a` about a packet between them to a port, with 1 Gb/s.
pub(crate) fn control(message: Message, ipv6: bool, port: u16, sequence: u64) -> Vec<u8> {
    control_at(1_000_000_000, message, ipv6, port, sequence)
}

/// The content of a control message about TCP packets to `port`; `has` are further `HAS_*` and `FEEDBACK_*`.
pub(crate) fn content(rate: u64, port: u16, sequence: u64, has: u8) -> Feedback {
    Feedback(abi::Feedback {
        rate,
        epoch: 1,
        sequence,
        service: 0,
        vni: 0,
        key: 7,
        source_port: 0x9c40,
        destination_port: port,
        protocol: 6,
        dscp: 0,
        has: HAS_IP | HAS_PORTS | has,
        reserved: [0; 7],
    })
}

/// Like [`control`], with another rate.
pub(crate) fn control_at(rate: u64, message: Message, ipv6: bool, port: u16, sequence: u64) -> Vec<u8> {
    let ack = if message == Message::FeedbackAck { FEEDBACK_ECN_ACK } else { 0 };
    let feedback = content(rate, port, sequence, ack);
    let (from, to, key) = (words(address(2, ipv6)), words(address(1, ipv6)), SipKey::new(KEY));
    let body = match message {
        Message::EcnCapability => feedback.ecn_capability(&from, &to, &key),
        Message::Feedback | Message::FeedbackAck => feedback.body(&from, &to, &key),
    };
    let headers = if ipv6 { headers_ipv6(&from, &to, &body).to_vec() } else { headers_ipv4(&from, &to).to_vec() };
    [ethernet(ipv6, false), headers, body.to_vec()].concat()
}
