//! Packets of tunnels that were merged on arrival: what each was on the wire.

use weir_datapath::{header_bytes, segments, wire_bytes};
use weir_units::Bytes;

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

/// With the options of timestamps.
fn tcp() -> Vec<u8> {
    let mut header = vec![0; 32];
    header[12] = 0x80;
    header
}

fn vxlan() -> Vec<u8> {
    vec![8, 0, 0, 0, 0, 0, 42, 0]
}

fn geneve(kind: u16, words: u8) -> Vec<u8> {
    [&[words, 0], kind.to_be_bytes().as_slice(), &[0; 4], &vec![0; usize::from(words) * 4]].concat()
}

/// With these of the checksum (0x80), key (0x20) and sequence (0x10).
fn gre(kind: u16, flags: u8) -> Vec<u8> {
    [&[flags, 0], kind.to_be_bytes().as_slice(), &vec![0; flags.count_ones() as usize * 4]].concat()
}

#[test]
fn every_packet_of_a_tunnel_has_all_headers() {
    let tagged = [ethernet(0x8100), vec![0, 7, 0x08, 0x00]].concat();
    let tunnels: [(&str, Vec<Vec<u8>>); 11] = [
        ("none", vec![ethernet(0x0800), ipv4(6, 0), tcp()]),
        ("VXLAN", vec![ethernet(0x0800), ipv4(17, 0), udp(4789), vxlan(), ethernet(0x0800), ipv4(6, 0), tcp()]),
        ("VXLAN, tagged", vec![ethernet(0x0800), ipv4(17, 0), udp(4789), vxlan(), tagged, ipv4(6, 8), tcp()]),
        ("VXLAN over IPv6", vec![ethernet(0x86dd), ipv6(17), udp(4789), vxlan(), ethernet(0x86dd), ipv6(6), tcp()]),
        (
            "GENEVE",
            vec![ethernet(0x0800), ipv4(17, 0), udp(6081), geneve(0x6558, 3), ethernet(0x0800), ipv4(6, 0), tcp()],
        ),
        ("GENEVE of IP", vec![ethernet(0x0800), ipv4(17, 0), udp(6081), geneve(0x86dd, 0), ipv6(6), tcp()]),
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
        let (bytes, own) = (merged.len() as u32, header_bytes(&merged).expect("a frame"));
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
    let outer = [ethernet(0x0800), ipv4(17, 0), udp(4789)].concat();
    let whole = [outer.clone(), vxlan(), ethernet(0x0800), ipv4(6, 0), tcp()].concat();
    for cut in outer.len()..whole.len() - 18 {
        assert_eq!(header_bytes(&whole[..cut]), Some(outer.len() as u32), "{cut} bytes");
    }
    for other in [
        [outer.clone(), vxlan(), ethernet(0x0806), vec![0; 60]],
        [outer.clone(), vec![0xff; 8], vec![], vec![0xff; 60]],
    ] {
        assert_eq!(header_bytes(&other.concat()), Some(outer.len() as u32));
    }
    assert_eq!(header_bytes(&[0; 13]), None, "no frame");
}
