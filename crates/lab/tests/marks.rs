//! A port that marks, seen by real sockets on both sides of it.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use weir_lab::marks::MarkingPort;
use weir_linux::netns::{Netns, Prefix, connect};
use weir_linux::requirements::{Purpose, check};
use weir_units::{Bandwidth, Bytes};

/// Says that a test is skipped, and why, where this host cannot run it.
fn skipped() -> bool {
    let missing: Vec<String> = check(Purpose::Lab).iter().map(ToString::to_string).collect();
    if missing.is_empty() {
        return false;
    }
    // Not by println!, which a passing test swallows.
    let line = format!("skipped: needs root and Linux's network parts ({})\n", missing.join(" | "));
    io::Write::write_all(&mut io::stderr(), line.as_bytes()).expect("standard error takes a line");
    true
}

const PORT: u16 = 9_000;
const RATE: Bandwidth = Bandwidth::from_bps(2_000_000);
const BUFFER: Bytes = Bytes::new(200_000);
const MARK: Bytes = Bytes::new(20_000);
/// Of each kind, 1,000 bytes each: all kinds together fit the buffer.
const PACKETS: usize = 40;
/// DSCP 46 and Not-ECT, ECT(1), ECT(0), CE.
const KINDS: [u8; 4] = [46 << 2, 46 << 2 | 1, 46 << 2 | 2, 46 << 2 | 3];

fn set(socket: &UdpSocket, level: i32, option: i32, value: i32) {
    let size = size_of::<i32>() as libc::socklen_t;
    // SAFETY: `value` is an int of that size and outlives the call.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), size) };
    assert_eq!(set, 0, "option {option}: {}", io::Error::last_os_error());
}

/// The first byte of the next datagram, and the TOS or traffic class that it came with; none if nothing comes.
fn receive(socket: &UdpSocket) -> Option<(u8, u8)> {
    let (mut data, mut control) = ([0u8; 2_000], [0u64; 16]);
    let mut part = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
    // SAFETY: all bytes zero is a message header without anything.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: the header names buffers that outlive the call.
    if unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) } < 0 {
        return None;
    }
    // SAFETY: the kernel wrote the headers that are walked through.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            match ((*header).cmsg_level, (*header).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    return Some((data[0], *libc::CMSG_DATA(header)));
                }
                _ => header = libc::CMSG_NXTHDR(&raw const message, header),
            }
        }
    }
    panic!("a datagram without its TOS");
}

fn bound(netns: &Netns, address: SocketAddr) -> UdpSocket {
    let socket = netns.run(|| UdpSocket::bind(address)).expect("enter").expect("a socket");
    set(&socket, libc::IPPROTO_IP, libc::IP_RECVTOS, 1);
    if address.is_ipv6() {
        set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1);
    }
    socket.set_read_timeout(Some(std::time::Duration::from_millis(1_500))).expect("a time limit");
    socket
}

/// Two hosts with a port of 2 Mb/s that marks above 20 kB between them: what arrives of a burst of all kinds of packets.
fn burst(test: &str, from: IpAddr, to: IpAddr) -> (Vec<(u8, u8)>, weir_lab::marks::PortCounts) {
    let prefix = Prefix::new(test).expect("a prefix");
    prefix.cleanup().expect("clean up after an earlier run");
    let (a, b) = (prefix.create("a").expect("a"), prefix.create("b").expect("b"));
    connect((&a, "eth", Some("10.77.0.1/24")), (&b, "eth", Some("10.77.0.2/24"))).expect("a cable");
    for (netns, address) in [(&a, "fd77::1/64"), (&b, "fd77::2/64")] {
        netns.ip(["addr", "add", address, "dev", "eth", "nodad"]).expect("an IPv6 address");
    }
    let limit = format!("{}b", BUFFER.get());
    let tbf = ["qdisc", "add", "dev", "eth", "root", "tbf", "rate", "2mbit", "burst", "3000b", "limit", &limit];
    assert!(a.command("tc").expect("tc").args(tbf).status().expect("tc runs").success());
    let receiver = bound(&b, SocketAddr::new(to, PORT));
    let sender = bound(&a, SocketAddr::new(from, 0));
    set(&sender, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 4_000_000);
    set(&receiver, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 4_000_000);
    // Finds the neighbour before anything is counted.
    sender.send_to(&[9], (to, PORT)).expect("sent");
    receive(&receiver).expect("the first datagram");

    let port = MarkingPort::attach(&a, "eth", RATE, BUFFER, MARK).expect("a port that marks");
    let mut data = [0; 1_000];
    for _ in 0..PACKETS {
        for (kind, tos) in (0u8..).zip(KINDS) {
            set(&sender, libc::IPPROTO_IP, libc::IP_TOS, tos.into());
            if to.is_ipv6() {
                set(&sender, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, tos.into());
            }
            data[0] = kind;
            sender.send_to(&data, (to, PORT)).expect("sent");
        }
    }
    let arrived = std::iter::from_fn(|| receive(&receiver)).take(PACKETS * KINDS.len()).collect();
    (arrived, port.counts().expect("counts"))
}

fn is_as_it_should(test: &str, from: &str, to: &str) {
    let (arrived, counts) = burst(test, from.parse().expect("an address"), to.parse().expect("an address"));
    assert_eq!(arrived.len(), PACKETS * KINDS.len(), "all fit the buffer: {counts:?}");
    let of = |kind: u8| -> Vec<u8> { arrived.iter().filter(|(of, _)| *of == kind).map(|(_, tos)| *tos).collect() };
    assert!(of(0).iter().all(|tos| *tos == KINDS[0]), "Not-ECT is never touched: {:?}", of(0));
    assert!(of(3).iter().all(|tos| *tos == KINDS[3]), "CE stays, and the DSCP too: {:?}", of(3));
    let mut marked = 0;
    for kind in [1, 2] {
        let (own, of) = (KINDS[usize::from(kind)], of(kind));
        assert!(of.iter().all(|tos| *tos == own || *tos == KINDS[3]), "{of:?}");
        // 20 kB are five packets of each kind; the burst is over long before the port has sent them.
        assert!(of[..3].iter().all(|tos| *tos == own), "the first ones find a short queue: {of:?}");
        assert!(of[PACKETS - 10..].iter().all(|tos| *tos == KINDS[3]), "the last ones find a long one: {of:?}");
        marked += of.iter().filter(|tos| **tos == KINDS[3]).count() as u64;
    }
    assert!(counts.above > 0 && counts.above <= counts.packets, "{counts:?}");
    // What came as CE and found a long queue counts as marked too.
    assert!(counts.marked >= marked && counts.marked <= marked + PACKETS as u64, "{marked} seen: {counts:?}");
}

#[test]
fn ipv4_is_marked_above_the_threshold_and_not_ect_never() {
    if !skipped() {
        is_as_it_should("wlmarka", "10.77.0.1", "10.77.0.2");
    }
}

#[test]
fn ipv6_is_marked_above_the_threshold_and_not_ect_never() {
    if !skipped() {
        is_as_it_should("wlmarkb", "fd77::1", "fd77::2");
    }
}
