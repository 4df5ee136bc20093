//! ECN bits from tenant to tenant, through a sender's host, switches that mark, and a receiver's host.

use proptest::prelude::*;
use weir_datapath::ecn::{arrive_ipv4, arrive_ipv6, leave_ipv4, leave_ipv6};

const NOT_ECT: u8 = 0;
const ECT1: u8 = 1;
const ECT0: u8 = 2;
const CE: u8 = 3;
const DONT_FRAGMENT: u16 = 0x4000;

/// The first twelve bytes of an IPv4 header whose last eight, the addresses, are zero, with a right checksum.
fn ipv4(tos: u8, identification: u16, flags: u16) -> [u8; 12] {
    let mut header = [0x45, tos, 0x05, 0xdc, 0, 0, 0, 0, 64, 6, 0, 0];
    header[4..6].copy_from_slice(&identification.to_be_bytes());
    header[6..8].copy_from_slice(&flags.to_be_bytes());
    let checksum = !sum(&header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    header
}

/// The ones' complement sum: 0xffff over a header whose checksum is right.
fn sum(header: &[u8]) -> u16 {
    let mut sum: u32 = header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn identification(header: &[u8; 12]) -> u16 {
    u16::from_be_bytes([header[4], header[5]])
}

/// What segmentation makes the header of the `n`-th packet.
fn segment(header: &[u8; 12], n: u16) -> [u8; 12] {
    let flags = u16::from_be_bytes([header[6], header[7]]);
    ipv4(header[1], identification(header).wrapping_add(n), flags)
}

/// A switch with a long queue.
fn mark(header: &[u8; 12]) -> [u8; 12] {
    let flags = u16::from_be_bytes([header[6], header[7]]);
    let tos = if header[1] & 3 == NOT_ECT { header[1] } else { header[1] | CE };
    ipv4(tos, identification(header), flags)
}

#[test]
fn the_worked_example() {
    let mut header = ipv4(0, 0x1234, DONT_FRAGMENT);
    assert!(leave_ipv4(&mut header, 1, false));
    assert_eq!((header[1], identification(&header)), (ECT0, 0xaa34));
    let mut marked = mark(&header);
    let arrived = arrive_ipv4(&mut marked);
    assert!(arrived.capable && arrived.marked && arrived.encapsulated && !arrived.requests_feedback);
    assert_eq!((marked[1], identification(&marked)), (NOT_ECT, 0xaa34));
}

#[test]
fn feedback_request_is_visible_unless_marked() {
    let mut header = ipv4(0, 7, DONT_FRAGMENT);
    leave_ipv4(&mut header, 1, true);
    assert_eq!(header[1], ECT1);
    let mut marked = mark(&header);
    assert!(arrive_ipv4(&mut header).requests_feedback);
    let arrived = arrive_ipv4(&mut marked);
    assert!(arrived.marked && !arrived.requests_feedback, "a mark hides the request");
    let mut header = [0x60, 0, 0, 0];
    leave_ipv6(&mut header, true);
    let mut arrived = header;
    assert!(arrive_ipv6(&mut arrived).requests_feedback);
    assert_eq!(arrived, [0x60, 0x0a, 0x80, 0]);
}

#[test]
fn fragmentable_packet_is_unchanged() {
    for flags in [0, 0x2000, 0x6000, 0x4001, 0xc000] {
        let mut header = ipv4(0, 0x1234, flags);
        assert!(!leave_ipv4(&mut header, 1, false), "flags {flags:#x}");
        // Also where a tenant's own ECN and the marker's bits coincide: the identification of fragments must stay.
        let mut header = ipv4(ECT0, 0xa800, flags);
        assert!(!leave_ipv4(&mut header, 1, false), "flags {flags:#x}");
        assert!(!arrive_ipv4(&mut header).encapsulated, "flags {flags:#x}");
    }
    let mut header = ipv4(0, 0, DONT_FRAGMENT);
    assert!(!leave_ipv4(&mut header, 2049, false), "more segments than the identification can count");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    /// A tenant's packet arrives as it was sent, except for marks on ECN-capable packets; the
    /// receiver's host counts all marks.
    #[test]
    fn ipv4_header_is_restored_on_arrival(
        tos in any::<u8>(), id in any::<u16>(), flags in prop_oneof![Just(DONT_FRAGMENT), any::<u16>()],
        segments in prop_oneof![1..=64u16, 1..=2048u16], at in any::<prop::sample::Index>(),
        requests in any::<bool>(), long in any::<bool>(),
    ) {
        let sent = ipv4(tos, id, flags);
        let mut leaving = sent;
        leave_ipv4(&mut leaving, u32::from(segments), requests);
        prop_assert_eq!(sum(&leaving), 0xffff, "the checksum of what leaves");
        let packet = segment(&leaving, at.index(segments.into()) as u16);
        let mut arriving = if long { mark(&packet) } else { packet };
        let arrived = arrive_ipv4(&mut arriving);
        prop_assert_eq!(sum(&arriving), 0xffff, "the checksum of what arrives");
        let expected = if long && tos & 3 != NOT_ECT { tos | CE } else { tos };
        prop_assert_eq!(arriving[1], expected, "DSCP and ECN");
        let capable = tos & 3 != NOT_ECT || flags == DONT_FRAGMENT;
        prop_assert_eq!(arrived.capable, capable);
        prop_assert_eq!(arrived.marked, capable && (long || tos & 3 == CE));
        prop_assert_eq!(arrived.encapsulated, tos & 3 == NOT_ECT && capable);
        // Whatever means something besides: version, length, flags, lifetime, protocol.
        prop_assert_eq!(&arriving[2..4], &sent[2..4]);
        prop_assert_eq!(&arriving[6..10], &sent[6..10]);
        if flags != DONT_FRAGMENT {
            prop_assert_eq!(leaving, sent, "not atomic: nothing is changed");
        }
    }

    #[test]
    fn ipv6_header_is_restored_on_arrival(
        class in any::<u8>(), label in 0..1u32 << 20, requests in any::<bool>(), long in any::<bool>(),
    ) {
        let word = 6 << 28 | u32::from(class) << 20 | label;
        let mut packet = word.to_be_bytes();
        leave_ipv6(&mut packet, requests);
        let ecn = packet[1] >> 4 & 3;
        prop_assert_ne!(ecn, NOT_ECT, "every packet can be marked");
        if long {
            packet[1] |= CE << 4;
        }
        let arrived = arrive_ipv6(&mut packet);
        let back = u32::from_be_bytes(packet);
        let expected = if long && class & 3 != NOT_ECT { class | CE } else { class };
        prop_assert_eq!((back >> 20) as u8, expected, "the traffic class");
        prop_assert_eq!(back >> 28, 6);
        prop_assert_eq!(back & 0x7fff, label & 0x7fff, "what chooses ways");
        prop_assert_eq!(arrived.marked, long || class & 3 == CE);
        prop_assert_eq!(arrived.requests_feedback, requests && !long && class & 3 == NOT_ECT);
    }
}
