//! A port that marks, observed by real sockets on both sides of it.

mod datagrams;

use datagrams::{bound, receive, set, set_tos};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use weir_lab::ports::{Neighbour, PortPlan, configure};
use weir_linux::netns::{Prefix, connect};
use weir_linux::port::QueueCounts;
use weir_linux::requirements::{Purpose, check};
use weir_units::{Bandwidth, Bytes};

/// Whether this host cannot run the test; prints the reason.
fn skipped() -> bool {
    let missing: Vec<String> = check(Purpose::Lab).iter().map(ToString::to_string).collect();
    if missing.is_empty() {
        return false;
    }
    // Not by println!, which a passing test swallows.
    assert!(std::env::var_os("WEIR_NO_SKIP").is_none(), "WEIR_NO_SKIP is set, and there is no {}", missing.join(" | "));
    let line = format!("skipped: needs root and Linux's network parts ({})\n", missing.join(" | "));
    io::Write::write_all(&mut io::stderr(), line.as_bytes()).expect("standard error takes a line");
    true
}

const PORT: u16 = 9_000;
const RATE: Bandwidth = Bandwidth::from_bps(2_000_000);
const BUFFER: Bytes = Bytes::new(200_000);
const MARK: Bytes = Bytes::new(20_000);
/// Packets of each kind, 1,000 bytes each: all kinds together fit the buffer.
const PACKETS: usize = 40;
/// DSCP 46 and Not-ECT, ECT(1), ECT(0), CE.
const KINDS: [u8; 4] = [46 << 2, 46 << 2 | 1, 46 << 2 | 2, 46 << 2 | 3];

/// Two hosts with a port of 2 Mb/s that marks above 20 kB between them: returns the packets that
/// arrive of a burst of all kinds.
fn burst(test: &str, from: IpAddr, to: IpAddr) -> (Vec<(u8, u8)>, QueueCounts) {
    let prefix = Prefix::new(test).expect("a prefix");
    prefix.cleanup().expect("clean up after an earlier run");
    let (a, b) = (prefix.create("a").expect("a"), prefix.create("b").expect("b"));
    connect((&a, "eth", Some("10.77.0.1/24")), (&b, "eth", Some("10.77.0.2/24"))).expect("a cable");
    for (netns, address) in [(&a, "fd77::1/64"), (&b, "fd77::2/64")] {
        netns.ip(["addr", "add", address, "dev", "eth", "nodad"]).expect("an IPv6 address");
    }
    let port = |mark| {
        let plan = PortPlan::plain(Neighbour::Switch, RATE, BUFFER, mark).expect("valid");
        let mut ports = configure(&a, &BTreeMap::from([("eth".to_owned(), plan)])).expect("configured");
        ports.pop().expect("one port").1
    };
    assert!(!port(None).marks());
    let receiver = bound(&b, SocketAddr::new(to, PORT));
    let sender = bound(&a, SocketAddr::new(from, 0));
    set(&sender, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, 4_000_000);
    set(&receiver, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 4_000_000);
    // Resolves the neighbour before packets are counted.
    sender.send_to(&[9], (to, PORT)).expect("sent");
    receive(&receiver).expect("the first datagram");

    let port = port(Some(MARK));
    let mut data = [0; 1_000];
    for _ in 0..PACKETS {
        for (kind, tos) in (0u8..).zip(KINDS) {
            set_tos(&sender, tos);
            data[0] = kind;
            sender.send_to(&data, (to, PORT)).expect("sent");
        }
    }
    let arrived = std::iter::from_fn(|| receive(&receiver)).take(PACKETS * KINDS.len()).collect();
    (arrived, port.counts().expect("counts"))
}

fn assert_marks(test: &str, from: &str, to: &str) {
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
    // Packets that arrive as CE behind a long queue count as marked too.
    assert!(counts.marked >= marked && counts.marked <= marked + PACKETS as u64, "{marked} seen: {counts:?}");
}

#[test]
fn ipv4_is_marked_above_the_threshold_and_not_ect_never() {
    if !skipped() {
        assert_marks("wlmarka", "10.77.0.1", "10.77.0.2");
    }
}

#[test]
fn ipv6_is_marked_above_the_threshold_and_not_ect_never() {
    if !skipped() {
        assert_marks("wlmarkb", "fd77::1", "fd77::2");
    }
}
