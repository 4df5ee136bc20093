//! Frames and filters to compare the datapath's bodies with: valid, unusual, cut short and corrupted.
//!
//! Addresses, ports and code points come from small pools that frames and filters share, so that most
//! filters match some frames and most frames match some filter.
#![allow(dead_code, reason = "each user needs a part")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_policy::{Match, Protocol};
use weir_units::ServiceId;

/// SplitMix64 (Steele, Lea, Flood 2014): a seed gives the same frames everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

const PORTS: [u16; 10] = [0, 80, 443, 4789, 6081, 7000, 7050, 7099, 8472, 65_535];
const PROTOCOLS: [u8; 6] = [6, 17, 132, 1, 58, 47];

fn port(random: &mut Random) -> u16 {
    if random.one_in(4) { random.next() as u16 } else { random.pick(&PORTS) }
}

fn ipv4(random: &mut Random) -> Ipv4Addr {
    Ipv4Addr::new(10, random.below(3) as u8, random.pick(&[0, 1, 128]), random.next() as u8)
}

fn ipv6(random: &mut Random) -> Ipv6Addr {
    if random.one_in(8) {
        // Not valid on a wire, and therefore tried: an IPv6 packet that pretends to be from IPv4.
        return ipv4(random).to_ipv6_mapped();
    }
    let net = random.pick(&[0x2001_0db8u128, 0x2001_0db9]) << 96;
    Ipv6Addr::from(net | u128::from(random.below(3)) << 64 | u128::from(random.next()))
}

/// One frame, any kind.
pub(crate) fn frame(random: &mut Random) -> Vec<u8> {
    let mut frame: Vec<u8> = (0..12).map(|_| random.next() as u8).collect();
    if random.one_in(4) {
        for _ in 0..=random.below(3) {
            frame.extend(random.pick(&[0x8100u16, 0x88a8]).to_be_bytes());
            frame.extend((random.next() as u16).to_be_bytes());
        }
    }
    match random.below(10) {
        0 => {
            frame.extend(random.pick(&[0x0806u16, 0x88cc, 0x0600]).to_be_bytes());
            frame.extend((0..46).map(|_| random.next() as u8));
        }
        1..=5 => push_ipv4(&mut frame, random),
        _ => push_ipv6(&mut frame, random),
    }
    if random.one_in(8) {
        frame.truncate(random.below(frame.len() as u64 + 1) as usize);
    }
    if random.one_in(8) && !frame.is_empty() {
        let at = random.below(frame.len() as u64) as usize;
        frame[at] = random.next() as u8;
    }
    frame
}

fn push_ipv4(frame: &mut Vec<u8>, random: &mut Random) {
    let protocol = random.pick(&PROTOCOLS);
    let options = if random.one_in(6) { random.below(11) as u8 } else { 0 };
    let fragment = if random.one_in(8) { random.pick(&[0x2000u16, 0x0001, 0x2010, 0x1fff]) } else { 0x4000 };
    frame.extend(0x0800u16.to_be_bytes());
    frame.extend([0x40 | (5 + options), random.next() as u8, 0, 0, 0, 0]);
    frame.extend(fragment.to_be_bytes());
    frame.extend([64, protocol, 0, 0]);
    frame.extend(ipv4(random).octets());
    frame.extend(ipv4(random).octets());
    frame.extend((0..options * 4).map(|_| 1));
    push_transport(frame, protocol, random);
}

fn push_ipv6(frame: &mut Vec<u8>, random: &mut Random) {
    let protocol = random.pick(&PROTOCOLS);
    let count = if random.one_in(3) { random.below(9) as usize } else { 0 };
    let mut chain: Vec<u8> = (0..count).map(|_| random.pick(&[0, 43, 60, 135, 44, 51])).collect();
    chain.push(protocol);
    frame.extend(0x86ddu16.to_be_bytes());
    frame.extend((0x6000_0000u32 | (random.next() as u32 & 0x0ff0_0000)).to_be_bytes());
    frame.extend([0, 0, chain[0], 64]);
    frame.extend(ipv6(random).octets());
    frame.extend(ipv6(random).octets());
    for pair in chain.windows(2) {
        let words = random.below(3) as u8;
        let (length, size) = match pair[0] {
            44 => (0, 8),
            51 => (words, (usize::from(words) + 2) * 4),
            _ => (words, (usize::from(words) + 1) * 8),
        };
        let offset: u16 = if pair[0] == 44 && random.one_in(3) { 0x0008 } else { 0x0001 };
        let mut header = vec![pair[1], length];
        header.extend(offset.to_be_bytes());
        header.resize(size, 0);
        frame.extend(header);
    }
    push_transport(frame, protocol, random);
}

fn push_transport(frame: &mut Vec<u8>, protocol: u8, random: &mut Random) {
    frame.extend(port(random).to_be_bytes());
    frame.extend(port(random).to_be_bytes());
    match protocol {
        6 => {
            let words = if random.one_in(8) { random.below(16) as u8 } else { 5 };
            frame.extend([0; 8]);
            frame.extend([words << 4, 0, 0, 0, 0, 0, 0, 0]);
        }
        17 => {
            frame.extend([0; 4]);
            frame.extend([random.pick(&[0x08, 0x00, 0xff]), 0, 0, 0, 0, 0, random.below(4) as u8, 0]);
        }
        _ => frame.extend([0; 8]),
    }
    frame.extend((0..random.below(64)).map(|_| random.next() as u8));
}

/// Up to `count` filters, each for a service of its own or shared with its neighbour.
pub(crate) fn filters(random: &mut Random, count: u64) -> Vec<(ServiceId, Match)> {
    (0..count).map(|i| (ServiceId((i / 2) as u32), filter(random))).collect()
}

fn filter(random: &mut Random) -> Match {
    let mut filter = Match::default();
    // Each field in one of four filters, and at least one, so that no filter hides all that follow.
    let wanted = (random.next() & random.next()) | 1 << random.below(5);
    if wanted & 1 != 0 {
        filter.protocol = Some(Protocol(random.pick(&[6, 17, 132, 1, 58, 0])));
    }
    if wanted & 2 != 0 {
        let (a, b) = (port(random), port(random));
        filter.ports = Some((a.min(b), a.max(b)));
    }
    if wanted & 4 != 0 {
        let (address, bits): (IpAddr, u64) =
            if random.one_in(2) { (ipv4(random).into(), 32) } else { (ipv6(random).into(), 128) };
        let length = if random.one_in(8) { random.below(bits + 1) } else { bits - random.below(bits / 2) };
        // A policy has a prefix of IPv4-mapped addresses as one of IPv4.
        let is_mapped = matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some());
        let length = if is_mapped { length.min(95) } else { length };
        filter.address = ipnet::IpNet::new(address, length as u8).ok();
    }
    if wanted & 8 != 0 {
        filter.dscp = Some(random.below(64) as u8);
    }
    if wanted & 16 != 0 && random.one_in(4) {
        filter.vni = Some(random.below(4) as u32);
    }
    if filter == Match::default() {
        filter.protocol = Some(Protocol::TCP);
    }
    filter
}

/// A set of filters: that of each number below 4,096.
type Set = fn(u32) -> Match;

/// Large sets of filters as hosts with many guests have them, by name.
pub(crate) const SETS: [(&str, Set); 5] =
    [("addresses", by_address), ("IPv6 prefixes", by_prefix), ("VNIs", by_vni), ("ports", by_port), ("mixed", mixed)];

/// The address of a guest, in a network of a thousand.
fn guest(i: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0a4d_0000 + i / 1000 * 0x1_0000 + i % 1000)
}

fn by_address(i: u32) -> Match {
    Match { address: Some(IpAddr::from(guest(i)).into()), ..Match::default() }
}

/// Networks of 2^64 addresses, and those of 64 of them behind them.
fn by_prefix(i: u32) -> Match {
    let (network, length) = if i < 4032 { (i, 64) } else { ((i - 4032) * 64, 58) };
    let address = IpAddr::from(Ipv6Addr::from(0x2001_0db8_u128 << 96 | u128::from(network) << 64));
    Match { address: ipnet::IpNet::new(address, length).ok(), ..Match::default() }
}

fn by_vni(i: u32) -> Match {
    Match { vni: Some(0x0a_0000 + i), ..Match::default() }
}

fn by_port(i: u32) -> Match {
    let port = 1024 + i as u16 * 8;
    Match { protocol: Some(Protocol::TCP), ports: Some((port, port + 7)), ..Match::default() }
}

/// Four ports of each guest, a network for each four guests, VNIs, and ports of any host.
fn mixed(i: u32) -> Match {
    let of = i / 4;
    match i % 4 {
        0 => Match { ports: Some((8000 + of as u16 % 4, 8000 + of as u16 % 4)), ..by_address(of / 4) },
        1 => by_vni(of),
        2 => by_port(of),
        _ => Match { address: ipnet::IpNet::new(guest(of * 4).into(), 30).ok(), ..Match::default() },
    }
}

/// A frame of 64 B or more that has the fields of a filter at its destination, over UDP if the filter allows it. The
/// source is in no filter of [`SETS`].
pub(crate) fn frame_of(filter: &Match) -> Vec<u8> {
    let tcp = filter.protocol == Some(Protocol::TCP);
    let port = if filter.vni.is_some() { 4789 } else { filter.ports.map_or(80, |(_, last)| last) };
    let mut frame = vec![0; 12];
    match filter.address.map_or(IpAddr::from([192, 168, 0, 2]), |prefix| prefix.addr()) {
        IpAddr::V4(to) => {
            frame.extend([8, 0, 0x45, 0, 0, 50, 0, 0, 0x40, 0, 64, if tcp { 6 } else { 17 }, 0, 0, 192, 168, 0, 1]);
            frame.extend(to.octets());
        }
        IpAddr::V6(to) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 30, if tcp { 6 } else { 17 }, 64]);
            frame.extend(Ipv6Addr::from(0xfd00_u128 << 112 | 1).octets());
            frame.extend(to.octets());
        }
    }
    frame.extend(0xff00_u16.to_be_bytes());
    frame.extend(port.to_be_bytes());
    if tcp {
        frame.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0]);
    } else {
        frame.extend([0, 22, 0, 0, 8, 0, 0, 0]);
        frame.extend((filter.vni.unwrap_or(0) << 8).to_be_bytes());
    }
    frame.resize(frame.len().max(64) + 16, 0);
    frame
}
