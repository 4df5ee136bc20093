//! Latency levels on a real interface: DSCP values, and what leaves at once.

mod common;

use common::frames::{address, ethernet, tcp};
use common::{Cable, interface, pause, services, skipped, within};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_datapath::Classifier;
use weir_datapath::abi::{CREDIT_DATA_DSCP, CREDIT_MESSAGE_DSCP};
use weir_linux::class::Sending;
use weir_linux::edt_shaper::{EdtShaper, Egress};
use weir_linux::htb::HtbTree;
use weir_linux::htb_shaper::HtbShaper;
use weir_linux::levels::{HostLevels, ServiceLevels};
use weir_linux::loader::InterfaceDatapath;
use weir_linux::netns::{Netns, Prefix, connect};
use weir_linux::settings::{Classes, cookie};
use weir_linux::shaper::{Backend, ServiceRate, Shaper, obstacle_to_levels, probe};
use weir_linux::tags::HostTags;
use weir_network::switches::{CREDIT_DATA, CREDIT_MESSAGES};
use weir_policy::{Level, Match, Policy, Protocol, Sharing};
use weir_shaping::{LevelLimits, ShaperConfig};
use weir_units::{Bandwidth, Bytes, Direction, MachineId, ServiceId, Weight};

/// The port of credit messages.
const PORT: u16 = 30568;
const NIC: Bandwidth = Bandwidth::from_gbps(1);
/// A frame of 1,514 B with its framing.
const PACKET: u64 = 1_538;
/// A frame in 100 ms: much longer than a processor is ever taken from this machine.
const RATE: Bandwidth = Bandwidth::from_bps(PACKET * 8 * 10);
/// The payload of a UDP datagram of 1,514 B.
const PAYLOAD: usize = 1_472;

fn limits(factor: u64, dscp: u8) -> LevelLimits {
    LevelLimits {
        rate: RATE,
        burst: Bytes::new(factor * PACKET),
        epoch: None,
        packet: Bytes::new(PACKET),
        framing: Bytes::new(24),
        dscp,
    }
}

/// Services 0 and 1 are on levels 1 and 2, with bursts of one and of four frames; service 2 has no level. They are TCP
/// and UDP ports from 7000.
fn levels() -> HostLevels {
    let level = |index: usize| Some(Level::from_index(index));
    HostLevels {
        levels: vec![(46, Some(limits(1, 46))), (34, Some(limits(4, 34)))],
        of_service: [level(0), level(1), None]
            .into_iter()
            .zip(0..)
            .map(|(sent, id)| (ServiceId(id), ServiceLevels { sent, received: sent.is_some() }))
            .collect(),
        segments: Some(8),
    }
}

/// True, with a line that names the reason, where this kernel has no qdiscs for levels with a backend.
fn skipped_with(backend: Backend) -> bool {
    if skipped() {
        return true;
    }
    let mut possible = probe().into_iter().filter(|possible| possible.backend == backend);
    let Some(obstacle) = possible.find_map(|possible| possible.obstacle.or_else(|| obstacle_to_levels(backend))) else {
        return false;
    };
    let line = format!("skipped: {backend}: {obstacle}\n");
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).expect("standard error takes a line");
    true
}

/// A test for each backend, of a function that has a name for its namespaces.
macro_rules! by_backend {
    ($test:ident, $name:literal) => {
        mod $test {
            use weir_linux::shaper::Backend;

            #[test]
            fn by_htb() {
                if !super::skipped_with(Backend::Htb) {
                    super::$test(Backend::Htb, concat!($name, "h"));
                }
            }

            #[test]
            fn by_edt() {
                if !super::skipped_with(Backend::Edt) {
                    super::$test(Backend::Edt, concat!($name, "e"));
                }
            }
        }
    };
}

by_backend!(burst_leaves_at_once_and_no_more, "l2");
by_backend!(super_packets_leave_frame_by_frame, "l3");
by_backend!(levels_and_others_share_the_interface, "l6");
by_backend!(levels_come_and_go, "l7");
by_backend!(changed_classes_of_levels_are_missing, "l8");

fn attach(backend: Backend, levels: &HostLevels, nic: Bandwidth) -> (InterfaceDatapath, Box<dyn Shaper>) {
    let (mut datapath, classes) = match backend {
        Backend::Htb => (InterfaceDatapath::attach_without_edt(&interface(), None).expect("attach"), Classes::Htb),
        Backend::Edt => (InterfaceDatapath::attach(&interface(), None).expect("attach"), Classes::Edt),
    };
    let filter = |(i, protocol): (u16, Protocol)| {
        let ports = Some((7000 + i, 7000 + i));
        (ServiceId(i.into()), Match { protocol: Some(protocol), ports, ..Match::default() })
    };
    let filters: Vec<_> = (0..3).flat_map(|i| [(i, Protocol::TCP), (i, Protocol::UDP)]).map(filter).collect();
    let classifier = Classifier::new(filters.iter().map(|(s, f)| (*s, f)), Some("eth")).expect("supported");
    datapath.set_slots(services(3)).expect("slots");
    datapath.set_levels(levels, classes).expect("levels");
    let shaper = shaper_over(backend, &datapath, levels, nic);
    datapath.set_rules(&classifier, classes).expect("rules");
    datapath.start_timer().expect("the timer");
    (datapath, shaper)
}

fn shaper_over(backend: Backend, datapath: &InterfaceDatapath, levels: &HostLevels, nic: Bandwidth) -> Box<dyn Shaper> {
    let rate = |id: u32| ServiceRate {
        service: ServiceId(id),
        slot: id,
        min: Bandwidth::ZERO,
        max: nic,
        machine_max: nic,
        static_limit: nic,
        weight: Weight::ONE,
    };
    let rates: Vec<ServiceRate> = (0..3).map(rate).collect();
    let sending = Sending::over(&interface()).expect("offloads");
    let (interface, limits) = (interface(), levels.limits());
    match backend {
        Backend::Htb => {
            Box::new(HtbShaper::install(&interface, nic, &rates, &[], &limits, sending, false).expect("htb"))
        }
        Backend::Edt => {
            let shared = nic.saturating_sub(limits.iter().flatten().map(|limits| limits.rate).sum());
            let egress = Egress { nic, shared, sharing: Sharing::Fill, levels: &limits, levelled: &[0, 1] };
            Box::new(EdtShaper::install(&interface, datapath, &egress, &rates, sending, false).expect("edt"))
        }
    }
}

fn dscp(frame: &[u8]) -> u8 {
    if frame[14] >> 4 == 6 { (frame[14] & 0x0f) << 2 | frame[15] >> 6 } else { frame[15] >> 2 }
}

/// The frame with a DSCP value.
fn with_dscp(mut frame: Vec<u8>, dscp: u8) -> Vec<u8> {
    if frame[14] >> 4 == 6 {
        frame[14] = 0x60 | dscp >> 2;
        frame[15] = frame[15] & 0x3f | dscp << 6;
    } else {
        frame[15] = frame[15] & 3 | dscp << 2;
    }
    with_checksum(frame)
}

/// With the header checksum of IPv4 (RFC 791).
fn with_checksum(mut frame: Vec<u8>) -> Vec<u8> {
    if frame[14] >> 4 == 4 {
        frame[24..26].fill(0);
        let sum: u32 = frame[14..34].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
        frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    }
    frame
}

#[test]
fn levels_alone_have_their_dscp_values() {
    if skipped() {
        return;
    }
    let cable = Cable::new("l1");
    let work = || {
        let (mut datapath, _shaper) = attach(Backend::Htb, &levels(), NIC);
        let mut leave = |frame: &[u8]| datapath.passed(Direction::Tx, frame).expect("a test run").expect("it passes");
        for ipv6 in [false, true] {
            for ecn in 0..4 {
                let frame = |port, dscp| {
                    with_dscp(tcp(ethernet(ipv6, false), address(1, ipv6), address(2, ipv6), port, 100, ecn), dscp)
                };
                for (port, before, after) in [
                    (7000, 0, 46),
                    (7000, 46, 46),
                    (7000, 34, 46),
                    (7001, 0, 34),
                    (7002, 0, 0),
                    (7002, 10, 10),
                    (7002, 46, 0),
                    (9999, 34, 0),
                    (9999, 26, 26),
                ] {
                    let (sent, expected) = (frame(port, before), frame(port, after));
                    let left = leave(&sent);
                    assert_eq!(left, expected, "port {port}, DSCP {before} to {}, IPv6 {ipv6}", dscp(&left));
                }
            }
            // Cut in its TCP header: the parser refuses it, and a switch reads its DSCP.
            let whole = tcp(ethernet(ipv6, false), address(1, ipv6), address(2, ipv6), 7002, 0, 2);
            let cut = |dscp| with_dscp(whole[..whole.len() - 8].to_vec(), dscp);
            assert_eq!(leave(&cut(46)), cut(0));
            // Behind three VLAN tags, of which the parser reads two.
            let tagged = |frame: Vec<u8>| [&frame[..12], &[0x81, 0, 0, 5].repeat(3), &frame[12..]].concat();
            assert_eq!(leave(&tagged(with_dscp(whole.clone(), 34))), tagged(with_dscp(whole.clone(), 0)));
        }
        // Too short for the checksum, and with a DSCP that a switch reads: dropped.
        for bytes in [2, 11] {
            let short = with_dscp(tcp(ethernet(false, false), address(1, false), address(2, false), 7002, 0, 2), 46);
            let tagged = [&short[..12], &[0x81, 0, 0, 5], &short[12..14 + bytes]].concat();
            assert_eq!(datapath.passed(Direction::Tx, &tagged).expect("a test run"), None, "{bytes} B");
        }
        let readings = datapath.level_readings().expect("readings");
        // By family: four ECN codepoints, and the frames by hand.
        assert_eq!(readings.iter().map(|level| level.remarked).collect::<Vec<_>>(), [2 * 5 + 2, 2 * 5]);
        assert_eq!(readings.iter().map(|level| level.packets).collect::<Vec<_>>(), [2 * 4 * 3, 2 * 4]);
    };
    cable.a.run(work).expect("enter");
}

/// A tenant's packets leave with its value whatever they carried, those of others without it, levels as before.
#[test]
fn tenants_are_tagged_and_no_other_packet_has_their_values() {
    if skipped_with(Backend::Htb) {
        return;
    }
    let cable = Cable::new("l9");
    let work = || {
        let (mut datapath, _shaper) = attach(Backend::Htb, &levels(), NIC);
        // Service 2 is a tenant; the values 10 to 12 are the tenants'.
        let values = 0b111 << 10;
        for (tag, cases) in [
            (12, [(7002, 0, 12), (7002, 12, 12), (7002, 46, 12), (7000, 12, 46), (9999, 12, 0), (9999, 26, 26)]),
            (0, [(7002, 0, 0), (7002, 26, 0), (7002, 10, 0), (7001, 0, 34), (9999, 11, 0), (9999, 46, 0)]),
        ] {
            datapath.set_tags(&HostTags { tenants: vec![(ServiceId(2), tag)], values }).expect("tags");
            for ipv6 in [false, true] {
                let frame = |port, dscp| {
                    with_dscp(tcp(ethernet(ipv6, false), address(1, ipv6), address(2, ipv6), port, 100, 2), dscp)
                };
                for (port, before, after) in cases {
                    let left = datapath.passed(Direction::Tx, &frame(port, before)).expect("a test run");
                    assert_eq!(left, Some(frame(port, after)), "tag {tag}, port {port}, DSCP {before}");
                }
            }
        }
        // By family: 12 of port 9999, 10 of the tenant itself, and 11 of port 9999.
        assert_eq!(datapath.counts().expect("counts").tags_claimed, 2 * 3);
        datapath.set_tags(&HostTags::default()).expect("no tags");
        let frame = with_dscp(tcp(ethernet(false, false), address(1, false), address(2, false), 7002, 100, 2), 12);
        assert_eq!(datapath.passed(Direction::Tx, &frame).expect("a test run"), Some(frame));
    };
    cable.a.run(work).expect("enter");
}

/// Data with credits and their messages leave with their values whatever they carried, other packets without these.
#[test]
fn data_and_messages_of_credits_have_values_of_their_own() {
    if skipped_with(Backend::Htb) {
        return;
    }
    assert_eq!([CREDIT_DATA_DSCP, CREDIT_MESSAGE_DSCP], [CREDIT_DATA, CREDIT_MESSAGES].map(u32::from));
    let cable = Cable::new("l10");
    let work = || {
        let (mut datapath, _shaper) = attach(Backend::Htb, &HostLevels::default(), NIC);
        let frame = |ipv6, port, dscp| {
            with_dscp(tcp(ethernet(ipv6, false), address(1, ipv6), address(2, ipv6), port, 10, 2), dscp)
        };
        let leave = |datapath: &mut InterfaceDatapath, cases: [(u16, u8, u8); 6]| {
            for (ipv6, (port, before, after)) in [false, true].into_iter().flat_map(|v6| cases.map(|case| (v6, case))) {
                let left = datapath.passed(Direction::Tx, &frame(ipv6, port, before)).expect("a test run");
                assert_eq!(left, Some(frame(ipv6, port, after)), "port {port}, DSCP {before}, IPv6 {ipv6}");
            }
        };
        let as_sent = |port, dscp| (port, dscp, dscp);
        leave(
            &mut datapath,
            [(7002, 10), (7001, 10), (9999, 40), (7002, 46), (9999, 0), (7001, 26)].map(|(p, d)| as_sent(p, d)),
        );
        datapath.set_credits(&[ServiceId(2)], PORT, 0).expect("credits");
        let first = [(7002, 0, 10), (7002, 46, 10), (7002, 40, 10), (7001, 10, 0), (9999, 40, 0), (9999, 26, 26)];
        leave(&mut datapath, first);
        // By family: the service itself and two others.
        assert_eq!(datapath.counts().expect("counts").tags_claimed, 2 * 3);
        // Another service has them, as after a change of the policy.
        let message = UdpSocket::bind((Ipv4Addr::new(10, 77, 0, 1), PORT)).expect("a socket");
        let cookie = cookie(&message).expect("a cookie");
        datapath.set_credits(&[ServiceId(1)], PORT, cookie).expect("credits");
        leave(&mut datapath, [(7002, 0, 0), (7002, 10, 0), (7001, 0, 10), (7001, 10, 10), (9999, 10, 0), (9999, 0, 0)]);
        // Messages are those of an agent, which enforces a policy.
        let text = "weir: 1\nnetwork: { nic: 1Gb/s, racks: { r: { uplink: 1Gb/s, machines: [m1, m2] } } }\n\
                    services: { a: { match: [ { port: 7000 } ] }, b: { match: [ { port: 7001 } ] }, \
                    c: { match: [ { port: 7002 } ] } }\n";
        let (policy, _) = Policy::parse("policy.yaml", text).expect("sound");
        let shaper = ShaperConfig::parley(&policy, None, None);
        let sending = Sending::over(&interface()).expect("offloads");
        datapath.set_shaper(&policy, MachineId(0), &shaper, sending).expect("the shaper");
        set_option(&message, libc::SOL_SOCKET, libc::SO_PRIORITY, 7);
        let other = UdpSocket::bind("10.77.0.1:0").expect("a socket");
        set_option(&other, libc::IPPROTO_IP, libc::IP_TOS, 40 << 2);
        for socket in [&message, &other] {
            socket.send_to(&[0; 72], "10.77.0.2:9998").expect("sent");
        }
        datapath.set_credits(&[], PORT, 0).expect("no credits");
        leave(
            &mut datapath,
            [(7001, 0), (7001, 10), (7002, 40), (9999, 10), (9999, 40), (9999, 0)].map(|(p, d)| as_sent(p, d)),
        );
    };
    let receiver = cable.b.run(|| UdpSocket::bind("10.77.0.2:9998").expect("a socket")).expect("enter");
    set_option(&receiver, libc::IPPROTO_IP, libc::IP_RECVTOS, 1);
    receiver.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    cable.a.run(work).expect("enter");
    assert_eq!([service_type(&receiver), service_type(&receiver)], [40 << 2, 0]);
}

/// The next agent goes on with the marks of services with credits; the next service in a slot has no credits.
#[test]
fn marks_of_credits_stay_with_their_service() {
    if skipped_with(Backend::Htb) {
        return;
    }
    let work = || {
        let data = |port, dscp| {
            with_dscp(tcp(ethernet(false, false), address(1, false), address(2, false), port, 10, 2), dscp)
        };
        let credits = |datapath: &mut InterfaceDatapath| {
            [7000, 7001, 7002].map(|port| {
                let left = datapath.passed(Direction::Tx, &data(port, 0)).expect("a test run");
                left == Some(data(port, CREDIT_DATA))
            })
        };
        let (mut datapath, shaper) = attach(Backend::Htb, &HostLevels::default(), NIC);
        datapath.set_credits(&[ServiceId(1), ServiceId(2)], PORT, 0).expect("credits");
        assert_eq!(credits(&mut datapath), [false, true, true]);
        datapath.leave();
        shaper.leave();
        let (mut datapath, _shaper) = attach(Backend::Htb, &HostLevels::default(), NIC);
        assert_eq!(credits(&mut datapath), [false, true, true]);
        let renamed = [(0, "a"), (1, "b"), (2, "other")].map(|(service, path)| (ServiceId(service), path));
        datapath.set_slots(renamed.into_iter()).expect("slots");
        datapath.set_levels(&HostLevels::default(), Classes::Htb).expect("no levels");
        assert_eq!(credits(&mut datapath), [false, true, false]);
    };
    Cable::new("l11").a.run(work).expect("enter");
}

/// The type of service of the next datagram.
fn service_type(socket: &UdpSocket) -> u8 {
    let (mut buffer, mut control) = ([0u8; 72], [0u64; 8]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: zeros are valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control));
    // SAFETY: the message has a buffer and room for the control message, both alive; the kernel sets their lengths.
    unsafe {
        assert!(libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) > 0, "a datagram");
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        assert!(!header.is_null() && (*header).cmsg_type == libc::IP_TOS, "a type of service");
        *libc::CMSG_DATA(header)
    }
}

fn set_option(socket: &UdpSocket, level: libc::c_int, option: libc::c_int, value: libc::c_int) {
    let (pointer, length) = ((&raw const value).cast(), size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: the kernel reads an int.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, pointer, length) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Sends `datagrams` of [`PAYLOAD`] bytes at once, as one super-packet each of `segments`; the kernel cuts them.
fn send(socket: &UdpSocket, to: SocketAddr, datagrams: usize, segments: usize) {
    /// udp.h
    const UDP_SEGMENT: libc::c_int = 103;
    set_option(socket, libc::SOL_UDP, UDP_SEGMENT, PAYLOAD as libc::c_int);
    for _ in 0..datagrams / segments {
        socket.send_to(&vec![0; PAYLOAD * segments], to).expect("sent");
    }
}

/// Receives so many datagrams; the times of arrival by the kernel, whatever delays this thread.
fn arrivals(socket: &UdpSocket, count: usize) -> Vec<Duration> {
    (0..count).map(|_| arrival(socket)).collect()
}

fn arrival(socket: &UdpSocket) -> Duration {
    let (mut buffer, mut control) = ([0u8; PAYLOAD], [0u64; 8]);
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: all zeros is a valid msghdr.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control));
    // SAFETY: the kernel writes to the buffers above, which outlive the call.
    let read = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    assert_eq!(read, PAYLOAD as isize, "a datagram within its time: {}", std::io::Error::last_os_error());
    // SAFETY: the kernel has written one control message, the timespec of SO_TIMESTAMPNS.
    let time = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        assert!(!header.is_null() && (*header).cmsg_type == libc::SO_TIMESTAMPNS, "a time of arrival");
        libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned()
    };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The frames that arrive at once when eight are sent at once, from `sender` to `b` on each level.
fn at_once(sender: &Netns, receiver: &Netns, level: u16, segments: usize) -> usize {
    let to = SocketAddr::from((Ipv4Addr::new(10, 77, 0, 2), 7000 + level));
    let open = || {
        let socket = UdpSocket::bind(to).expect("bound");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        set_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1);
        socket
    };
    let receives = receiver.run(open).expect("enter");
    let socket = sender.run(|| UdpSocket::bind("0.0.0.0:0").expect("bound")).expect("enter");
    std::thread::scope(|scope| {
        let times = scope.spawn(|| arrivals(&receives, 8));
        send(&socket, to, 8, segments);
        let times = times.join().expect("no panic");
        times.iter().filter(|time| **time - times[0] < Duration::from_millis(50)).count()
    })
}

/// HTB sends while its tokens are not negative, so that a bucket of σ would let σ and one frame more leave at once.
fn burst_leaves_at_once_and_no_more(backend: Backend, name: &str) {
    let cable = Cable::new(name);
    let (datapath, _shaper) = cable.a.run(|| attach(backend, &levels(), NIC)).expect("enter");
    // HTB's bucket is rounded down: the last frame of a burst may be 64 ns late.
    assert_eq!([0, 1].map(|level| at_once(&cable.a, &cable.b, level, 1)), [1, 4]);
    let readings = datapath.level_readings().expect("readings");
    for level in readings {
        println!("{level:?}");
        assert_eq!((level.packets, level.bytes.get(), level.oversize, level.dropped), (8, 8 * PACKET, 0, 0));
        assert!(level.longest_wait.nanos() > 300_000_000, "at least four frames waited: {level:?}");
    }
}

fn super_packets_leave_frame_by_frame(backend: Backend, name: &str) {
    let cable = Cable::new(name);
    cable.set_offloads(true);
    // c sends through a.
    let prefix = Prefix::new(&format!("wt{name}c")).expect("a prefix");
    prefix.cleanup().expect("clean up after an earlier run");
    let c = prefix.create("c").expect("namespace c");
    connect((&c, "eth", Some("10.78.0.1/24")), (&cable.a, "down", Some("10.78.0.2/24"))).expect("a cable");
    cable.a.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")).expect("enter").expect("forwarding");
    c.ip(["route", "add", "10.77.0.0/24", "via", "10.78.0.2"]).expect("a route");
    cable.b.ip(["route", "add", "10.78.0.0/24", "via", "10.77.0.1"]).expect("a route");
    let (datapath, _shaper) = cable.a.run(|| attach(backend, &levels(), NIC)).expect("enter");
    for (sender, what) in [(&cable.a, "local"), (&c, "forwarded")] {
        assert_eq!([0, 1].map(|level| at_once(sender, &cable.b, level, 8)), [1, 4], "{what}");
    }
    for level in datapath.level_readings().expect("readings") {
        assert_eq!((level.packets, level.bytes.get(), level.oversize), (16, 16 * PACKET, 0), "{level:?}");
    }
}

/// What levels send counts at the interface: others have the rest, and all of it while levels are idle.
#[expect(clippy::disallowed_methods, reason = "a measurement of real time")]
fn levels_and_others_share_the_interface(backend: Backend, name: &str) {
    let cable = Cable::new(name);
    // Emulation reaches these rates.
    let nic = Bandwidth::from_mbps(2);
    let fast = |limits: LevelLimits| LevelLimits { rate: Bandwidth::from_bps(800_000), ..limits };
    let levels = HostLevels { levels: vec![(46, Some(fast(limits(4, 46)))), (34, None)], ..levels() };
    let (datapath, _shaper) = cable.a.run(|| attach(backend, &levels, nic)).expect("enter");
    let open = || UdpSocket::bind("0.0.0.0:0").expect("bound");
    let stop = AtomicBool::new(false);
    /// Ends the floods, also after a failed assertion.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        let flood = |service: u16| {
            let socket = cable.a.run(open).expect("enter");
            let stop = &stop;
            move || {
                let to = SocketAddr::from((Ipv4Addr::new(10, 77, 0, 2), 7000 + service));
                while !stop.load(Ordering::Relaxed) {
                    // A sender above the rate: its queue drops.
                    let _ = socket.send_to(&[0; PAYLOAD], to);
                    pause(Duration::from_millis(2));
                }
            }
        };
        let received = || {
            let before = received_bytes(&cable);
            let start = Instant::now();
            pause(Duration::from_secs(2));
            (received_bytes(&cable) - before) as f64 * 8e-6 / start.elapsed().as_secs_f64()
        };
        scope.spawn(flood(2));
        pause(Duration::from_millis(500));
        within(received(), 2.0, 8.0);
        scope.spawn(flood(0));
        // With edt 128 frames of the other service wait, whose departures are set.
        pause(Duration::from_millis(1500));
        // Frames of a level are charged with their framing.
        within(received(), 2.0, 8.0);
        let level = || datapath.level_readings().expect("readings")[0];
        let sent = || (level().bytes - level().backlog).get() as f64;
        let (before, start) = (sent(), Instant::now());
        pause(Duration::from_secs(2));
        within((sent() - before) * 8e-6 / start.elapsed().as_secs_f64(), 0.8, 8.0);
    });
}

/// The bytes that the interface of `b` has received.
fn received_bytes(cable: &Cable) -> u64 {
    let read = || std::fs::read_to_string("/proc/thread-self/net/dev").expect("counters");
    let text = cable.b.run(read).expect("enter");
    let line = text.lines().find_map(|line| line.trim().strip_prefix("eth:")).expect("the interface");
    line.split_whitespace().next().and_then(|bytes| bytes.parse().ok()).expect("a number")
}

/// A later policy's levels take the place of the former ones, and without levels the interface is as before them.
fn levels_come_and_go(backend: Backend, name: &str) {
    let cable = Cable::new(name);
    let work = || {
        let none = HostLevels::default();
        let one = HostLevels { levels: vec![(46, Some(limits(1, 46)))], ..none.clone() };
        let attached: Vec<bool> = [none.clone(), one, levels(), none]
            .iter()
            .map(|levels| {
                // As an agent that was killed, or that has a new policy.
                let (datapath, mut shaper) = attach(backend, levels, NIC);
                let attached = shaper.is_installed().expect("listed");
                datapath.leave();
                shaper.leave();
                attached
            })
            .collect();
        assert_eq!(attached, [true; 4]);
        assert!(InterfaceDatapath::remove_leftover(&interface()).expect("programs"));
        assert!(HtbTree::remove_leftover(&interface()).expect("qdiscs"));
        assert!(!HtbTree::remove_leftover(&interface()).expect("qdiscs"));
    };
    cable.a.run(work).expect("enter");
}

/// A level whose class or TBF another program changed is no longer limited; the next shaper makes it anew.
fn changed_classes_of_levels_are_missing(backend: Backend, name: &str) {
    let cable = Cable::new(name);
    let (parent, class) = match backend {
        Backend::Htb => ("7765:1", "7765:4"),
        Backend::Edt => ("7766:", "7766:4"),
    };
    let work = || {
        let (datapath, mut shaper) = attach(backend, &levels(), NIC);
        assert!(shaper.is_installed().expect("listed"));
        for damage in [
            format!("class change dev eth parent {parent} classid {class} htb rate 1gbit ceil 1gbit"),
            format!("class change dev eth parent {parent} classid {class} htb rate 123kbit ceil 123kbit burst 100k"),
            format!("qdisc del dev eth parent {class}"),
        ] {
            let tc = std::process::Command::new("tc").args(damage.split(' ')).status();
            assert!(tc.expect("tc").success(), "{damage}");
            assert!(!shaper.is_installed().expect("listed"), "{damage}");
            shaper.leave();
            shaper = shaper_over(backend, &datapath, &levels(), NIC);
            assert!(shaper.is_installed().expect("listed"), "{damage}");
        }
    };
    cable.a.run(work).expect("enter");
}

#[test]
fn limit_of_segments_is_restored() {
    if skipped() {
        return;
    }
    let cable = Cable::new("l4");
    cable.set_offloads(true);
    let work = || {
        let segments = || interface().gso_segments().expect("read");
        let found = segments();
        let (mut datapath, shaper) = attach(Backend::Htb, &levels(), NIC);
        datapath.limit_segments(Some(8)).expect("limited");
        assert_eq!(segments(), 8);
        datapath.limit_segments(Some(4)).expect("limited");
        assert_eq!(segments(), 4);
        datapath.limit_segments(None).expect("lifted");
        assert_eq!(segments(), found);
        // An agent that was killed.
        datapath.limit_segments(Some(2)).expect("limited");
        datapath.leave();
        assert_eq!(segments(), 2);
        assert!(InterfaceDatapath::remove_leftover(&interface()).expect("removed"));
        assert_eq!(segments(), found);
        shaper.remove().expect("removed");
    };
    cable.a.run(work).expect("enter");
}

/// Of the host's own sockets; a guest's packets have a priority by their type of service.
#[test]
fn sockets_choose_their_service_by_priority() {
    if skipped() {
        return;
    }
    let cable = Cable::new("l5");
    let prefix = Prefix::new("wtl5c").expect("a prefix");
    prefix.cleanup().expect("clean up after an earlier run");
    let c = prefix.create("c").expect("namespace c");
    connect((&c, "eth", Some("10.78.0.1/24")), (&cable.a, "down", Some("10.78.0.2/24"))).expect("a cable");
    cable.a.run(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")).expect("enter").expect("forwarding");
    c.ip(["route", "add", "10.77.0.0/24", "via", "10.78.0.2"]).expect("a route");
    let install = || {
        let mut datapath = InterfaceDatapath::attach_without_edt(&interface(), None).expect("attach");
        let by_priority = |priority| Match { priority: Some(priority), ..Match::default() };
        let filters = [(ServiceId(0), by_priority(5)), (ServiceId(1), by_priority(6))];
        let classifier = Classifier::new(filters.iter().map(|(s, f)| (*s, f)), Some("eth")).expect("supported");
        datapath.set_slots(services(2)).expect("slots");
        datapath.set_rules(&classifier, Classes::None).expect("rules");
        datapath
    };
    let datapath = cable.a.run(install).expect("enter");
    let socket = |from: &Netns| from.run(|| UdpSocket::bind("0.0.0.0:0").expect("bound")).expect("enter");
    let (own, guest) = (socket(&cable.a), socket(&c));
    let packets = |service| datapath.totals(Some(ServiceId(service))).expect("totals").tx.packets();
    let to = (Ipv4Addr::new(10, 77, 0, 2), 7000);
    for (priority, expected) in [(5, [1, 0]), (6, [1, 1]), (0, [1, 1])] {
        set_option(&own, libc::SOL_SOCKET, libc::SO_PRIORITY, priority);
        own.send_to(b"x", to).expect("sent");
        assert_eq!([packets(0), packets(1)], expected, "priority {priority}");
    }
    // Low delay: the router that forwards it gives it priority 6.
    set_option(&guest, libc::IPPROTO_IP, libc::IP_TOS, 0x10);
    let before = datapath.totals(None).expect("totals").tx.packets();
    guest.send_to(b"x", to).expect("sent");
    let forwarded = || datapath.totals(None).expect("totals").tx.packets() > before;
    assert!((0..100).any(|_| common::later(forwarded())), "the guest's packet passed");
    assert_eq!([packets(0), packets(1)], [1, 1]);
}
