//! The classifier in C against a plain Rust model that reads the same frames and the same filters.
//!
//! The model works on slices and on the policy's own [`Match`], shares no code with the headers and is
//! written for clarity: a packet is a set of optional fields.

use crate::frames::{Random, filters, frame};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_datapath::abi::HAS_VNI;
use weir_datapath::{Classifier, Fields, parse};
use weir_policy::{Match, Policy, Protocol};
use weir_units::ServiceId;

#[derive(Debug, Default, PartialEq)]
struct Model {
    addresses: Option<(IpAddr, IpAddr)>,
    protocol: Option<u8>,
    dscp: Option<u8>,
    ports: Option<(u16, u16)>,
    vni: Option<u32>,
    headers: usize,
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// None when the frame is malformed.
#[expect(clippy::too_many_lines, reason = "an independent parser of all headers in one piece")]
fn model(frame: &[u8]) -> Option<Model> {
    let mut packet = Model::default();
    let mut kind = be16(frame, 12)?;
    let mut rest = &frame[14..];
    for _ in 0..2 {
        if [0x8100, 0x88a8].contains(&kind) {
            kind = be16(rest, 2)?;
            rest = &rest[4..];
        }
    }
    let transport = match kind {
        0x0800 => {
            let header = rest.get(..20)?;
            let size = usize::from(header[0] & 15) * 4;
            if header[0] >> 4 != 4 || size < 20 {
                return None;
            }
            let address =
                |at: usize| IpAddr::V4(Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]));
            packet.addresses = Some((address(12), address(16)));
            packet.protocol = Some(header[9]);
            packet.dscp = Some(header[1] / 4);
            let first = be16(header, 6)? % 0x2000 == 0;
            packet.headers = frame.len() - rest.len() + size;
            if !first {
                return Some(packet);
            }
            rest.get(size..)
        }
        0x86dd => {
            let header = rest.get(..40)?;
            if header[0] >> 4 != 6 {
                return None;
            }
            let address = |at: usize| {
                let octets: [u8; 16] = header[at..at + 16].try_into().expect("16 bytes");
                IpAddr::V6(Ipv6Addr::from(octets))
            };
            packet.addresses = Some((address(8), address(24)));
            packet.dscp = Some((header[0] & 15) << 2 | header[1] >> 6);
            let mut next = header[6];
            let mut at = 40;
            let mut seen = 0;
            while [0, 43, 60, 135, 44, 51].contains(&next) && seen < 6 {
                let (following, length) = (*rest.get(at)?, usize::from(*rest.get(at + 1)?));
                let word = be16(rest, at + 2)?;
                let (size, later) = match next {
                    44 => (8, word >> 3 != 0),
                    51 => ((length + 2) * 4, false),
                    _ => ((length + 1) * 8, false),
                };
                next = following;
                at += size;
                seen += 1;
                if later {
                    packet.protocol = Some(next);
                    packet.headers = frame.len() - rest.len() + at;
                    return Some(packet);
                }
            }
            packet.protocol = Some(next);
            packet.headers = frame.len() - rest.len() + at;
            rest.get(at..)
        }
        _ => {
            packet.headers = frame.len() - rest.len();
            return Some(packet);
        }
    };
    let needed = match packet.protocol {
        Some(6) => 14,
        Some(17) => 8,
        Some(132) => 12,
        _ => return Some(packet),
    };
    let transport = transport.filter(|bytes| bytes.len() >= needed)?;
    packet.ports = Some((be16(transport, 0)?, be16(transport, 2)?));
    packet.headers += match packet.protocol {
        Some(6) if transport[12] >> 4 < 5 => return None,
        Some(6) => usize::from(transport[12] >> 4) * 4,
        Some(17) => 8,
        _ => 12,
    };
    if packet.protocol == Some(17)
        && let Some(tunnel) = transport.get(8..16)
        && match be16(transport, 2) {
            Some(4789 | 8472) => tunnel[0] & 8 != 0,
            Some(6081) => tunnel[0] < 0x40,
            _ => false,
        }
    {
        packet.vni = Some(u32::from_be_bytes([0, tunnel[4], tunnel[5], tunnel[6]]));
    }
    Some(packet)
}

fn matches(filter: &Match, packet: &Model) -> bool {
    filter.protocol.is_none_or(|Protocol(number)| packet.protocol == Some(number))
        && filter.ports.is_none_or(|(first, last)| {
            packet.ports.is_some_and(|(a, b)| (first..=last).contains(&a) || (first..=last).contains(&b))
        })
        && filter
            .address
            .is_none_or(|prefix| packet.addresses.is_some_and(|(a, b)| prefix.contains(&a) || prefix.contains(&b)))
        && filter.dscp.is_none_or(|dscp| packet.dscp == Some(dscp))
        && filter.vni.is_none_or(|vni| packet.vni == Some(vni))
}

fn classifier(filters: &[(ServiceId, Match)]) -> Classifier {
    Classifier::new(filters.iter().map(|(service, filter)| (*service, filter)), None).expect("supported filters")
}

#[test]
fn c_and_model_verdicts_agree() {
    let seed = 0x5eed_0001;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    let (mut classified, mut malformed, mut in_tunnels, mut total) = (0, 0, 0, 0);
    for count in [1, 2, 5, 20, 100, 256].repeat(10) {
        let filters = filters(&mut random, count);
        let classifier = classifier(&filters);
        for _ in 0..2000 {
            let frame = frame(&mut random);
            let packet = model(&frame);
            let expected = packet
                .as_ref()
                .and_then(|packet| filters.iter().find(|(_, filter)| matches(filter, packet)))
                .map(|(service, _)| *service);
            assert_eq!(classifier.classify(&frame), expected, "{frame:02x?}\n{packet:?}\n{filters:?}");
            assert_eq!(
                parse(&frame).map(|p| p.header_bytes as usize),
                packet.as_ref().map(|p| p.headers),
                "{frame:02x?}"
            );
            // The same verdict from the fields alone, where there are any.
            if let Some(Model {
                addresses: Some((source, destination)),
                protocol: Some(protocol),
                dscp: Some(dscp),
                ports,
                vni,
                ..
            }) = packet
            {
                let fields = Fields { source, destination, protocol: Protocol(protocol), ports, dscp, vni };
                assert_eq!(classifier.classify_fields(&fields), expected);
            }
            classified += u32::from(expected.is_some());
            in_tunnels += u32::from(classifier.packet(&frame).is_some_and(|packet| packet.has & HAS_VNI != 0));
            malformed += u32::from(parse(&frame).is_none());
            total += 1;
        }
    }
    println!("{total} frames, {classified} classified, {malformed} malformed, {in_tunnels} with a VNI");
    assert!(classified > total / 4 && malformed > total / 50 && in_tunnels > total / 100, "the generator reaches all");
}

#[test]
fn ranges_of_ports_overlap_in_any_order() {
    let mut random = Random(0x5eed_0003);
    let mut classified = 0;
    for round in 0..400 {
        let count = random.pick(&[1, 2, 20, 256]);
        // One in eight rounds has a rule without ports; one range in eight is wide.
        let filters: Vec<_> = (0..count as u32)
            .map(|service| {
                let first = random.next() as u16;
                let width = if random.one_in(8) { random.below(600) } else { random.below(3) } as u16;
                let ports = (round % 8 != 0 || service != 5).then_some((first, first.saturating_add(width)));
                let protocol = (ports.is_none() || random.one_in(4)).then_some(Protocol::UDP);
                (ServiceId(service), Match { protocol, ports, ..Match::default() })
            })
            .collect();
        let classifier = classifier(&filters);
        for _ in 0..300 {
            let mut port = || match random.below(3) {
                0 => random.next() as u16,
                _ => {
                    let place = random.below(count) as usize;
                    let (first, last) = filters[place].1.ports.unwrap_or((1, 2));
                    random.pick(&[first.wrapping_sub(1), first, last, last.wrapping_add(1)])
                }
            };
            let ports = (port(), port());
            let protocol = if random.one_in(2) { Protocol::UDP } else { Protocol::TCP };
            let ports = (!random.one_in(20)).then_some(ports);
            let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
            let fields = Fields { source, destination, protocol, ports, dscp: 0, vni: None };
            let matches = |filter: &Match| {
                filter.protocol.is_none_or(|of| of == protocol)
                    && filter.ports.is_none_or(|(first, last)| {
                        ports.is_some_and(|(a, b)| (first..=last).contains(&a) || (first..=last).contains(&b))
                    })
            };
            let expected = filters.iter().find(|(_, filter)| matches(filter)).map(|(service, _)| *service);
            assert_eq!(classifier.classify_fields(&fields), expected, "{fields:?} {filters:?}");
            classified += u32::from(expected.is_some());
        }
    }
    println!("{classified} classified");
    assert!(classified > 50_000);
}

#[test]
fn the_worked_example_of_the_header() {
    let dfs = Match { protocol: Some(Protocol::TCP), ports: Some((7000, 7099)), ..Match::default() };
    let net = Match { address: "10.1.0.0/16".parse().ok(), ..Match::default() };
    let classifier = classifier(&[(ServiceId(1), dfs), (ServiceId(2), net)]);
    let fields = |source: [u8; 4], ports| Fields {
        source: source.into(),
        destination: [10, 2, 0, 1].into(),
        protocol: Protocol::TCP,
        ports: Some(ports),
        dscp: 0,
        vni: None,
    };
    assert_eq!(classifier.classify_fields(&fields([10, 1, 0, 5], (40_000, 7001))), Some(ServiceId(1)));
    assert_eq!(classifier.classify_fields(&fields([10, 1, 0, 5], (7001, 40_000))), Some(ServiceId(1)));
    assert_eq!(classifier.classify_fields(&fields([10, 1, 0, 5], (40_000, 80))), Some(ServiceId(2)));
    assert_eq!(classifier.classify_fields(&fields([10, 3, 0, 5], (40_000, 80))), None);
}

#[test]
fn filter_without_fields_matches_every_well_formed_packet() {
    let everything = classifier(&[(ServiceId(3), Match::default())]);
    let arp: Vec<u8> = [vec![0; 12], vec![0x08, 0x06], vec![0; 28]].concat();
    assert_eq!(everything.classify(&arp), Some(ServiceId(3)));
    assert_eq!(everything.classify(&arp[..13]), None);
    assert_eq!(classifier(&[]).classify(&arp), None);
}

/// A prefix of IPv4 addresses in the notation of IPv6 matches packets of IPv4, and none of IPv6.
#[test]
fn ipv4_mapped_prefixes_match_frames_of_ipv4() {
    let text = "weir: 1\nnetwork: { nic: 10Gb/s, racks: { r1: { uplink: 10Gb/s, machines: [m1] } } }\n\
                services: { a: { match: [ { address: \"::ffff:10.0.0.0/104\" } ] } }\n";
    let (policy, _) = Policy::parse("policy.yaml", text).expect("a policy");
    let classifier = Classifier::of(&policy, None).expect("a classifier");
    let of_frame = |source: [u8; 4]| {
        let ethernet = [&[0; 12][..], &[0x08, 0x00]].concat();
        let ip = [&[0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0][..], &source, &[192, 0, 2, 1]].concat();
        classifier.classify(&[&ethernet[..], &ip, &[0, 80, 0, 80, 0, 8, 0, 0]].concat())
    };
    assert_eq!([of_frame([10, 1, 2, 3]), of_frame([11, 1, 2, 3])], [Some(ServiceId(0)), None]);
    let of_fields = |source: &str, destination: &str| {
        let [source, destination] = [source, destination].map(|address| address.parse().expect("an address"));
        let protocol = Protocol::TCP;
        classifier.classify_fields(&Fields { source, destination, protocol, ports: None, dscp: 0, vni: None })
    };
    assert_eq!(of_fields("192.0.2.1", "10.255.255.255"), Some(ServiceId(0)));
    assert_eq!(of_fields("2001:db8::a00:1", "2001:db8::2"), None);
}
