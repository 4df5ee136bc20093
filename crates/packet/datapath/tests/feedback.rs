//! Feedback on the wire: its tag, its verification, and its headers.

#![allow(deprecated, reason = "the standard library's SipHash-2-4 is the model")]

use proptest::prelude::*;
use std::hash::{Hasher, SipHasher};
use weir_datapath::abi::{self, HAS_IP, HAS_PORTS, HAS_VNI, Packet};
use weir_datapath::feedback::{FEEDBACK_BYTES, headers_ipv4, headers_ipv6};
use weir_datapath::{Address, CONTROL_PORT, Feedback, SipKey, parse};

const KEY: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

fn mapped(ipv4: [u8; 4]) -> Address {
    let mut bytes = [0u8; 16];
    bytes[10..12].fill(0xff);
    bytes[12..].copy_from_slice(&ipv4);
    address(bytes)
}

fn address(bytes: [u8; 16]) -> Address {
    [0, 8].map(|from| u64::from_ne_bytes(bytes[from..from + 8].try_into().expect("eight bytes")))
}

fn feedback() -> Feedback {
    Feedback(abi::Feedback {
        rate: 800_000_000_001,
        epoch: 1 << 60,
        sequence: 5,
        service: 0xdead_beef,
        vni: 0x0012_3456,
        key: 0x4242,
        source_port: 40_000,
        destination_port: 7000,
        protocol: 6,
        dscp: 46,
        has: HAS_IP | HAS_PORTS | HAS_VNI,
        reserved: [0; 7],
    })
}

#[test]
fn ecn_capability_is_not_feedback() {
    let (source, destination, key) = (mapped([10, 0, 0, 2]), mapped([10, 0, 0, 1]), SipKey::new(KEY));
    let capability = feedback().ecn_capability(&source, &destination, &key);
    assert_eq!(capability[5], 6, "its kind");
    assert_eq!(Feedback::read(&capability, &source, &destination, &key), None);
    let body = feedback().body(&source, &destination, &key);
    assert_eq!(
        (capability[..5] == body[..5], capability[6..48] == body[6..48]),
        (true, true),
        "and otherwise the same"
    );
    assert_ne!(capability[48..], body[48..], "under a tag of its own");
}

#[test]
fn the_tag_is_siphash_2_4() {
    // Aumasson and Bernstein's vectors: key 00 .. 0f, messages 00 .. 07, 00 .. 0f.
    let key = SipKey::new(KEY);
    let word = |from: u8| u64::from_ne_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| i + from));
    assert_eq!(key.tag(&[]), 0x726f_db47_dd0e_0e31);
    assert_eq!(key.tag(&[word(0)]), 0x93f5_f579_9a93_2462);
    assert_eq!(key.tag(&[word(0), word(8)]), 0x3f2a_cc7f_57c2_9bdb);
    assert_eq!(format!("{key:?}"), "SipKey(secret)");
}

proptest! {
    #[test]
    fn tags_agree_with_the_model(key in any::<[u8; 16]>(), words in prop::collection::vec(any::<u64>(), 0..=16)) {
        let half = |from: usize| u64::from_le_bytes(key[from..from + 8].try_into().expect("eight bytes"));
        let mut model = SipHasher::new_with_keys(half(0), half(8));
        words.iter().for_each(|word| model.write(&word.to_ne_bytes()));
        prop_assert_eq!(SipKey::new(key).tag(&words), model.finish());
    }

    /// A change of any bit or address invalidates the feedback.
    #[test]
    fn altered_feedback_is_rejected(bit in 0..FEEDBACK_BYTES * 8, from in any::<[u8; 4]>()) {
        let (source, destination, key) = (mapped([10, 0, 0, 2]), mapped([10, 0, 0, 1]), SipKey::new(KEY));
        let mut body = feedback().body(&source, &destination, &key);
        body[bit / 8] ^= 1 << (bit % 8);
        let read = Feedback::read(&body, &source, &destination, &key);
        if (64..80).contains(&bit) {
            prop_assert_eq!(read, Some(feedback()), "hardware may write there");
        } else {
            prop_assert_eq!(read, None);
        }
        body[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(Feedback::read(&body, &source, &destination, &key), Some(feedback()));
        let other = mapped(from);
        prop_assume!(other != source && other != destination);
        prop_assert_eq!(Feedback::read(&body, &other, &destination, &key), None);
        prop_assert_eq!(Feedback::read(&body, &source, &other, &key), None);
        prop_assert_eq!(Feedback::read(&body, &destination, &source, &key), None, "reflected");
    }
}

#[test]
fn body_has_the_documented_format() {
    let (source, destination, key) = (mapped([10, 0, 0, 2]), mapped([10, 0, 0, 1]), SipKey::new(KEY));
    let body = feedback().body(&source, &destination, &key);
    assert_eq!(&body[..8], b"WEIR\x02\x05\x42\x42");
    assert_eq!(&body[8..16], &[0, 0, HAS_IP | HAS_PORTS | HAS_VNI, 6, 0x9c, 0x40, 0x1b, 0x58]);
    assert_eq!(&body[16..24], &[0xde, 0xad, 0xbe, 0xef, 46, 0x12, 0x34, 0x56]);
    assert_eq!(&body[24..32], &800_000_000_001u64.to_be_bytes());
    assert_eq!(&body[32..40], &(1u64 << 60).to_be_bytes());
    assert_eq!(&body[40..48], &5u64.to_be_bytes());
    for (offset, value) in [(0, b'w'), (4, 1), (5, 1)] {
        let mut other = body;
        other[offset] = value;
        assert_eq!(Feedback::read(&other, &source, &destination, &key), None);
    }
    assert_eq!(Feedback::read(&body[..55], &source, &destination, &key), None);
}

#[test]
fn feedback_is_ordered_by_epoch_then_sequence() {
    let newer = |epoch, sequence, last| Feedback(abi::Feedback { epoch, sequence, ..feedback().0 }).is_newer(last);
    assert!(newer(5, 8, (5, 7)) && newer(6, 0, (5, 7)));
    assert!(!newer(5, 7, (5, 7)) && !newer(5, 6, (5, 7)) && !newer(4, 9, (5, 7)));
}

/// The sum over an even number of bytes, 0xffff where a checksum is right.
fn sum(bytes: &[u8], mut sum: u32) -> u32 {
    sum += bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

/// The parsed packet of feedback's headers and body.
fn parsed(ethertype: [u8; 2], headers: &[u8], body: &[u8]) -> Packet {
    let frame = [&[2u8; 12][..], &ethertype, headers, body].concat();
    parse(&frame).expect("well-formed")
}

#[test]
fn feedback_is_addressed_to_the_source_of_its_packet() {
    let (receiver, sender, key) = (mapped([10, 0, 0, 2]), mapped([10, 0, 0, 1]), SipKey::new(KEY));
    let body = feedback().body(&receiver, &sender, &key);
    let headers = headers_ipv4(&receiver, &sender);
    assert_eq!(sum(&headers[..20], 0), 0xffff, "the header checksum");
    let carrier = parsed([0x08, 0x00], &headers, &body);
    assert_eq!((carrier.source, carrier.destination, carrier.protocol), (receiver, sender, 17));
    assert_eq!((carrier.source_port, carrier.destination_port), (CONTROL_PORT, CONTROL_PORT));
    assert_eq!(carrier.header_bytes, 42);
    let subject = feedback().subject(&carrier);
    assert_eq!((subject.source, subject.destination, subject.family), (sender, receiver, 4));
    assert_eq!((subject.protocol, subject.source_port, subject.destination_port), (6, 40_000, 7000));
    assert_eq!((subject.dscp, subject.vni, subject.has), (46, 0x0012_3456, HAS_IP | HAS_PORTS | HAS_VNI));
}

#[test]
fn feedback_over_ipv6_has_a_checksum() {
    let (receiver, sender, key) = (address([0x20; 16]), address([0xfe; 16]), SipKey::new(KEY));
    for sequence in 0..1000 {
        let feedback = Feedback(abi::Feedback { sequence, ..feedback().0 });
        let body = feedback.body(&receiver, &sender, &key);
        let headers = headers_ipv6(&receiver, &sender, &body);
        // Pseudo header: addresses, length, protocol.
        let pseudo = sum(&headers[8..40], 64 + 17);
        assert_eq!(sum(&body, sum(&headers[40..], pseudo)), 0xffff, "the UDP checksum of {sequence}");
        let carrier = parsed([0x86, 0xdd], &headers, &body);
        assert_eq!((carrier.source, carrier.destination, carrier.family), (receiver, sender, 6));
        assert_eq!(feedback.subject(&carrier).family, 6);
    }
}
