//! Packets of tunnels: their networks, and the bytes on the wire of each that was merged on arrival.

use weir_datapath::abi::HAS_VNI;
use weir_datapath::{Classifier, header_bytes, parse, segments, wire_bytes};
use weir_policy::{Match, Policy, Protocol, Tunnels};
use weir_units::{Bytes, ServiceId};

fn ethernet(kind: u16) -> Vec<u8> {
    [[0; 12].as_slice(), &kind.to_be_bytes()].concat()
}

fn ipv4(protocol: u8, options: usize) -> Vec<u8> {
    let mut header = vec![0; 20 + options];
    header[0] = 0x45 + (options / 4) as u8;
    header[9] = protocol;
    header
}

fn ipv6(next: u8) -> Vec<u8> {
    let mut header = vec![0; 40];
    (header[0], header[6]) = (0x60, next);
    header
}

fn udp(port: u16) -> Vec<u8> {
    [&[0xc0, 0], port.to_be_bytes().as_slice(), &[0; 4]].concat()
}

/// With a flag or an offset of fragments.
fn fragment(mut header: Vec<u8>, flags_and_offset: u16) -> Vec<u8> {
    header[6..8].copy_from_slice(&flags_and_offset.to_be_bytes());
    header
}

/// With the options of timestamps.
fn tcp() -> Vec<u8> {
    let mut header = vec![0; 32];
    header[12] = 0x80;
    header
}

/// Of the network 42.
fn vxlan() -> Vec<u8> {
    vec![8, 0, 0, 0, 0, 0, 42, 0xff]
}

/// Of the network 42, with these words of options.
fn geneve(kind: u16, words: u8) -> Vec<u8> {
    [&[words, 0], kind.to_be_bytes().as_slice(), &[0, 0, 42, 0], &vec![0; usize::from(words) * 4]].concat()
}

/// With these of the checksum (0x80), key (0x20) and sequence (0x10).
fn gre(kind: u16, flags: u8) -> Vec<u8> {
    [&[flags, 0], kind.to_be_bytes().as_slice(), &vec![0; flags.count_ones() as usize * 4]].concat()
}

/// The default ports, and 5555 for VXLAN and 5556 for Geneve.
fn more_ports() -> Tunnels {
    Tunnels::new(vec![4789, 8472, 5555], vec![6081, 5556]).expect("different ports")
}

#[test]
fn vnis_of_tunnels() {
    let defaults = Tunnels::default();
    let outer = [
        ("IPv4", [ethernet(0x0800), ipv4(17, 0)].concat()),
        ("IPv4 with options", [ethernet(0x0800), ipv4(17, 8)].concat()),
        ("IPv6", [ethernet(0x86dd), ipv6(17)].concat()),
        ("IPv6 with options", [ethernet(0x86dd), ipv6(60), vec![17, 0, 0, 0, 0, 0, 0, 0]].concat()),
        ("the first fragment", [ethernet(0x0800), fragment(ipv4(17, 0), 0x2000)].concat()),
    ];
    let inner = [ethernet(0x0800), ipv4(6, 0), tcp()].concat();
    let group_policy = vec![0x88, 0, 0, 7, 0, 0, 42, 0];
    // A port, a tunnel's header, and whether the packet is of network 42: by the default ports, by more ports.
    let rows = [
        (4789, vxlan(), (true, true)),
        (8472, vxlan(), (true, true)),
        (8472, group_policy, (true, true)),
        (5555, vxlan(), (false, true)),
        (80, vxlan(), (false, false)),
        (0, vxlan(), (false, false)),
        (8472, vec![0xf7, 0, 0, 0, 0, 0, 42, 0], (false, false)),
        (8472, vec![8, 0, 0, 0, 0, 42, 0, 0], (false, false)),
        (6081, geneve(0x6558, 0), (true, true)),
        (6081, geneve(0x6558, 3), (true, true)),
        (6081, geneve(0x6558, 63), (true, true)),
        (5556, geneve(0x0800, 0), (false, true)),
        // Version 1, and the port of the other kind.
        (6081, [&[0x40], &geneve(0x6558, 0)[1..]].concat(), (false, false)),
        (8472, geneve(0x6558, 0), (false, false)),
    ];
    let network = Match { vni: Some(42), ..Match::default() };
    // In the index of ports, not of VNIs.
    let port = |port| Match { ports: Some((port, port)), protocol: Some(Protocol::UDP), ..network.clone() };
    for (name, outer) in outer {
        for (to, header, expected) in &rows {
            let frame = [outer.clone(), udp(*to), header.clone(), inner.clone()].concat();
            for filter in [network.clone(), port(*to)] {
                let by_defaults = Classifier::new([(ServiceId(3), &filter)], None).expect("a classifier");
                let by_more = by_defaults.clone().with_tunnels(&more_ports());
                let is_of = |classifier: &Classifier| classifier.classify(&frame) == Some(ServiceId(3));
                assert_eq!((is_of(&by_defaults), is_of(&by_more)), *expected, "{name}, {to}, {header:02x?}");
            }
        }
        for (to, header) in [(8472, vxlan()), (6081, geneve(0x6558, 0))] {
            let frame = [outer.clone(), udp(to), header].concat();
            let classifier = Classifier::new([(ServiceId(3), &network)], None).expect("a classifier");
            for cut in 0..8 {
                assert_eq!(classifier.classify(&frame[..frame.len() - 8 + cut]), None, "{name}, {to}, {cut} bytes");
            }
            assert_eq!(classifier.classify(&frame), Some(ServiceId(3)), "{name}, {to}");
        }
    }
    let later = [ethernet(0x0800), fragment(ipv4(17, 0), 1), udp(8472), vxlan(), inner].concat();
    let classifier = Classifier::new([(ServiceId(3), &network)], None).expect("a classifier");
    assert_eq!(classifier.classify(&later), None, "a later fragment");
    assert_eq!(classifier, classifier.clone().with_tunnels(&defaults));
}

/// The key `tunnels` of a policy decides which packets have a VNI.
#[test]
fn a_policy_names_the_ports_of_tunnels() {
    let classifier = |tunnels: &str| {
        let text = format!(
            "weir: 1\nnetwork: {{ nic: 1Gb/s, racks: {{ r: {{ uplink: 1Gb/s, machines: [m] }} }} }}\n{tunnels}\n\
             services: {{ a: {{ match: [ {{ vni: 42 }} ] }} }}\n"
        );
        let (policy, _) = Policy::parse("policy.yaml", &text).expect("valid");
        Classifier::of(&policy, Some("eth0")).expect("a classifier")
    };
    let to = |port| [ethernet(0x0800), ipv4(17, 0), udp(port), vxlan()].concat();
    for (tunnels, expected) in [("", [true, true, false]), ("tunnels: { vxlan: [4789, 5555] }", [true, false, true])] {
        let classifier = classifier(tunnels);
        let found = [4789, 8472, 5555].map(|port| classifier.classify(&to(port)).is_some());
        assert_eq!(found, expected, "{tunnels}");
    }
}

/// Policies without a VNI do not pay for it.
#[test]
fn vnis_are_read_where_a_filter_specifies_one() {
    let frame = [ethernet(0x0800), ipv4(17, 0), udp(8472), vxlan()].concat();
    assert_eq!(parse(&frame).map(|packet| packet.has & HAS_VNI), Some(0));
    for (vni, expected) in [(None, 0), (Some(7), HAS_VNI)] {
        let filters = [Match { protocol: Some(Protocol::UDP), ..Match::default() }, Match { vni, ..Match::default() }];
        let classifier = Classifier::new((0..).map(ServiceId).zip(&filters), None).expect("a classifier");
        assert_eq!(classifier.packet(&frame).map(|packet| packet.has & HAS_VNI), Some(expected));
    }
}

#[test]
fn every_packet_of_a_tunnel_has_all_headers() {
    let tagged = [ethernet(0x8100), vec![0, 7, 0x08, 0x00]].concat();
    let tunnels: [(&str, Vec<Vec<u8>>); 13] = [
        ("none", vec![ethernet(0x0800), ipv4(6, 0), tcp()]),
        ("VXLAN", vec![ethernet(0x0800), ipv4(17, 0), udp(4789), vxlan(), ethernet(0x0800), ipv4(6, 0), tcp()]),
        ("VXLAN to 8472", vec![ethernet(0x0800), ipv4(17, 0), udp(8472), vxlan(), ethernet(0x0800), ipv4(6, 0), tcp()]),
        ("VXLAN, tagged", vec![ethernet(0x0800), ipv4(17, 0), udp(4789), vxlan(), tagged, ipv4(6, 8), tcp()]),
        ("VXLAN over IPv6", vec![ethernet(0x86dd), ipv6(17), udp(4789), vxlan(), ethernet(0x86dd), ipv6(6), tcp()]),
        (
            "Geneve",
            vec![ethernet(0x0800), ipv4(17, 0), udp(6081), geneve(0x6558, 3), ethernet(0x0800), ipv4(6, 0), tcp()],
        ),
        (
            "Geneve to 5556",
            vec![ethernet(0x0800), ipv4(17, 0), udp(5556), geneve(0x6558, 3), ethernet(0x0800), ipv4(6, 0), tcp()],
        ),
        ("Geneve of IP", vec![ethernet(0x0800), ipv4(17, 0), udp(6081), geneve(0x86dd, 0), ipv6(6), tcp()]),
        ("GRE", vec![ethernet(0x0800), ipv4(47, 0), gre(0x0800, 0), ipv4(6, 0), tcp()]),
        (
            "GRE of Ethernet",
            vec![ethernet(0x0800), ipv4(47, 0), gre(0x6558, 0xb0), ethernet(0x0800), ipv4(6, 0), tcp()],
        ),
        ("IP in IP", vec![ethernet(0x0800), ipv4(4, 0), ipv4(6, 0), tcp()]),
        ("IPv6 in IPv4", vec![ethernet(0x0800), ipv4(41, 0), ipv6(6), tcp()]),
        ("IPv4 in IPv6, UDP", vec![ethernet(0x86dd), ipv6(4), ipv4(17, 0), udp(80)]),
    ];
    for (name, headers) in tunnels {
        let headers = headers.concat();
        let (size, count) = (1398, 10);
        let merged = [headers.as_slice(), &vec![0; count * size]].concat();
        let (bytes, own) = (merged.len() as u32, header_bytes(&merged, &more_ports()).expect("a frame"));
        assert_eq!(own as usize, headers.len(), "{name}");
        // The number that the kernel reports for a merged packet, or no number.
        for reported in [count as u32, 0] {
            let segments = segments(bytes, own, size as u32, reported);
            let on_the_wire = Bytes::new((count * (headers.len() + size)) as u64);
            assert_eq!((segments, wire_bytes(bytes, own, segments)), (count as u32, on_the_wire), "{name}");
        }
    }
}

#[test]
fn packet_without_a_tunnel_has_its_own_headers() {
    let defaults = Tunnels::default();
    let outer = [ethernet(0x0800), ipv4(17, 0), udp(4789)].concat();
    let whole = [outer.clone(), vxlan(), ethernet(0x0800), ipv4(6, 0), tcp()].concat();
    for cut in outer.len()..whole.len() - 18 {
        assert_eq!(header_bytes(&whole[..cut], &defaults), Some(outer.len() as u32), "{cut} bytes");
    }
    for port in [80, 5555, 0] {
        let outer = [ethernet(0x0800), ipv4(17, 0), udp(port)].concat();
        let whole = [outer.clone(), vxlan(), ethernet(0x0800), ipv4(6, 0), tcp()].concat();
        assert_eq!(header_bytes(&whole, &defaults), Some(outer.len() as u32), "port {port}");
    }
    for other in [
        [outer.clone(), vxlan(), ethernet(0x0806), vec![0; 60]],
        [outer.clone(), vec![0xff; 8], vec![], vec![0xff; 60]],
    ] {
        assert_eq!(header_bytes(&other.concat(), &defaults), Some(outer.len() as u32));
    }
    assert_eq!(header_bytes(&[0; 13], &defaults), None, "no frame");
}
