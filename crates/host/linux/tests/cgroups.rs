//! Services by control group on a real interface, with real sockets.

mod common;

use common::groups::Groups;
use common::{Cable, interface, later, services};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use weir_datapath::Classifier;
use weir_linux::loader::{InterfaceDatapath, LoaderError};
use weir_linux::netns::{Netns, Prefix, connect};
use weir_linux::settings::Classes;
use weir_policy::{CgroupGlob, Match};
use weir_units::{Direction, ServiceId};

/// Bytes of payload in each direction of a connection.
const PAYLOAD: u64 = 100_000;
/// More than the headers of so many bytes, and segments that are sent again on a busy machine.
const OVERHEAD: u64 = 100_000;

fn skipped() -> bool {
    common::skipped() || common::groups::skipped()
}

/// Services 0, 1, ... by these globs.
fn classifier(globs: &[String]) -> Classifier {
    let filter = |glob: &String| Match { cgroup: Some(CgroupGlob::new(glob).expect("a glob")), ..Match::default() };
    let filters: Vec<Match> = globs.iter().map(filter).collect();
    let order = (0..).map(ServiceId).zip(&filters);
    Classifier::new(order, Some("eth")).expect("supported")
}

/// Puts services 0, 1, ... by these globs in force.
fn set(datapath: &mut InterfaceDatapath, globs: &[String]) -> Result<(), LoaderError> {
    datapath.set_slots(services(globs.len() as u32)).expect("slots");
    datapath.set_rules(&classifier(globs), Classes::None)
}

fn attach(globs: &[String]) -> InterfaceDatapath {
    let mut datapath = InterfaceDatapath::attach_without_edt(&interface(), None).expect("attach");
    set(&mut datapath, globs).expect("rules");
    datapath
}

/// By service and then of unclassified packets: bytes sent and received.
fn totals(datapath: &InterfaceDatapath) -> Vec<[u64; 2]> {
    let of = |service| {
        // A policy may have one service, or none.
        let totals = datapath.totals(service).unwrap_or_default();
        [totals.tx.bytes().get(), totals.rx.bytes().get()]
    };
    [Some(ServiceId(0)), Some(ServiceId(1)), None].map(of).to_vec()
}

/// Waits for what is on its way, and returns the bytes since an earlier reading.
fn since(datapath: &InterfaceDatapath, before: &[[u64; 2]]) -> Vec<[u64; 2]> {
    common::pause(Duration::from_millis(50));
    let pairs = totals(datapath).into_iter().zip(before);
    pairs.map(|(now, before)| [now[0] - before[0], now[1] - before[1]]).collect()
}

/// Asserts that service `index` has sent and received the payload, and no other one anything. ARP, neighbour discovery
/// and the last segment of a connection in TIME_WAIT have no socket of a service.
fn belong_to(index: usize, bytes: &[[u64; 2]], what: &str) {
    for (service, found) in bytes.iter().enumerate() {
        let expected = match service {
            own if own == index => PAYLOAD..=PAYLOAD + OVERHEAD,
            2 => 0..=500,
            _ => 0..=0,
        };
        assert!(found.iter().all(|bytes| expected.contains(bytes)), "{what}: service {service} of {bytes:?}");
    }
}

/// A cable with IPv6.
fn cable(test: &str) -> Cable {
    let cable = Cable::new(test);
    for (netns, address) in [(&cable.a, "fd77::1/64"), (&cable.b, "fd77::2/64")] {
        let on = || std::fs::write("/proc/sys/net/ipv6/conf/eth/disable_ipv6", "0");
        netns.run(on).expect("enter").expect("IPv6 on");
        netns.ip(["addr", "add", address, "dev", "eth", "nodad"]).expect("an IPv6 address");
    }
    cable
}

fn address(host: u8, ipv6: bool, port: u16) -> SocketAddr {
    match ipv6 {
        true => format!("[fd77::{host}]:{port}"),
        false => format!("10.77.0.{host}:{port}"),
    }
    .parse()
    .expect("an address")
}

/// The address of any interface.
fn anywhere(ipv6: bool, port: u16) -> SocketAddr {
    format!("{}:{port}", if ipv6 { "[::]" } else { "0.0.0.0" }).parse().expect("an address")
}

fn run<T: Send>(netns: &Netns, work: impl FnOnce() -> T + Send) -> T {
    netns.run(work).expect("enter")
}

/// The payload in both directions of a connection, which is closed by the second.
fn exchange(mut first: TcpStream, mut second: TcpStream) {
    let data = vec![7u8; PAYLOAD as usize];
    let (mut out, mut back) = (first.try_clone().expect("a clone"), second.try_clone().expect("a clone"));
    std::thread::scope(|scope| {
        scope.spawn(|| out.write_all(&data).expect("sent"));
        scope.spawn(|| back.write_all(&data).expect("sent"));
        for stream in [&mut first, &mut second] {
            stream.read_exact(&mut vec![0; PAYLOAD as usize]).expect("received");
        }
    });
    let _ = second.shutdown(Shutdown::Both);
}

/// Datagrams from one socket to another's address, one by one.
fn datagrams(from: &UdpSocket, to: &UdpSocket, at: SocketAddr) {
    let (size, mut buffer) = (1_000, [0; 2_000]);
    to.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    for _ in 0..PAYLOAD / size {
        from.send_to(&vec![7; size as usize], at).expect("sent");
        to.recv_from(&mut buffer).expect("received");
    }
}

/// Of each of two groups: as client and as server, TCP and UDP, both families, both directions.
#[test]
fn packets_belong_to_the_group_of_their_socket_in_both_directions() {
    if skipped() {
        return;
    }
    let (cable, groups) = (cable("g1"), Groups::new("g1"));
    for name in ["web-1", "db/worker"] {
        groups.make(name);
    }
    let datapath = run(&cable.a, || attach(&[groups.path("web-*"), groups.path("db")]));
    for (index, name) in ["web-1", "db/worker"].into_iter().enumerate() {
        for ipv6 in [false, true] {
            let check = |what: &str, work: &mut dyn FnMut()| {
                let before = totals(&datapath);
                work();
                belong_to(index, &since(&datapath, &before), &format!("{what}, {name}, IPv6 {ipv6}"));
            };
            check("a TCP client", &mut || {
                let server = run(&cable.b, || TcpListener::bind(address(2, ipv6, 7000))).expect("bound");
                let connect = || groups.within(name, || TcpStream::connect(address(2, ipv6, 7000)));
                let client = run(&cable.a, connect).expect("connected");
                exchange(client, server.accept().expect("accepted").0);
            });
            for at in [address(1, ipv6, 7001), anywhere(ipv6, 7001)] {
                check("a TCP server", &mut || {
                    let listen = || groups.within(name, || TcpListener::bind(at));
                    let server = run(&cable.a, listen).expect("bound");
                    let client = run(&cable.b, || TcpStream::connect(address(1, ipv6, 7001))).expect("connected");
                    exchange(client, server.accept().expect("accepted").0);
                });
            }
            for connected in [false, true] {
                check("UDP", &mut || {
                    let bind = || groups.within(name, || UdpSocket::bind(anywhere(ipv6, 7002)));
                    let own = run(&cable.a, bind).expect("bound");
                    let other = run(&cable.b, || UdpSocket::bind(anywhere(ipv6, 7003))).expect("bound");
                    if connected {
                        own.connect(address(2, ipv6, 7003)).expect("connected");
                    }
                    // Received by a socket that has not sent yet.
                    datagrams(&other, &own, address(1, ipv6, 7002));
                    datagrams(&own, &other, address(2, ipv6, 7003));
                });
            }
        }
    }
    let reading = datapath.cgroup_reading().expect("it runs");
    assert_eq!(reading.map(|reading| reading.groups), Some(2), "web-1 and db");
}

/// The service of datagrams of a socket to a sink.
fn service_of(datapath: &InterfaceDatapath, socket: &UdpSocket, sink: &UdpSocket) -> usize {
    let before = totals(datapath);
    datagrams(socket, sink, "10.77.0.2:7000".parse().expect("an address"));
    let bytes = since(datapath, &before);
    let service = bytes.iter().position(|bytes| bytes[0] >= PAYLOAD).expect("sent");
    assert!(bytes[..2].iter().enumerate().all(|(other, bytes)| other == service || bytes[0] == 0), "{bytes:?}");
    service
}

/// A group that appears while the agent runs, and ones below, which belong to its service from their first packet on.
#[test]
fn later_group_is_matched_at_once_and_a_deleted_one_leaves() {
    if skipped() {
        return;
    }
    let (cable, groups) = (Cable::new("g2"), Groups::new("g2"));
    let datapath = run(&cable.a, || attach(&[groups.path("web-*"), groups.path("*/db")]));
    let reading = || datapath.cgroup_reading().expect("it runs").expect("there are globs");
    let count = || reading().groups;
    assert_eq!(count(), 0);
    let sink = run(&cable.b, || UdpSocket::bind("10.77.0.2:7000")).expect("bound");
    let mut slowest = Duration::ZERO;
    for (number, name) in ["web-1", "x/db"].into_iter().enumerate() {
        let begin = now();
        groups.make(name);
        assert!((0..2000).any(|_| sooner(count() > number)), "{name} is matched");
        slowest = slowest.max(now() - begin);
        for below in ["", "/below", "/a/b/c"] {
            let name = format!("{name}{below}");
            groups.make(&name);
            let own = groups.within(&name, || run(&cable.a, || UdpSocket::bind("0.0.0.0:0"))).expect("bound");
            assert_eq!(service_of(&datapath, &own, &sink), number, "{name}");
        }
        assert_eq!(count(), number + 1, "groups below are not written");
    }
    println!("the slowest group was matched {slowest:?} after its directory was made");
    assert!(slowest < Duration::from_millis(if common::quick() { 1_000 } else { 100 }), "{slowest:?}");
    for name in ["x/db/below", "x/db/a/b/c", "x/db/a/b", "x/db/a", "x/db"] {
        groups.delete(name);
    }
    assert!((0..500).any(|_| later(count() == 1)));
    assert_eq!(reading().missed, None);
}

/// The group of a socket, and the groups above up to that of the service, may be deleted: the service stays.
#[test]
fn sockets_of_deleted_groups_keep_their_service() {
    if skipped() {
        return;
    }
    let (cable, groups) = (cable("g8"), Groups::new("g8"));
    let datapath = run(&cable.a, || attach(&[groups.path("tenant/db"), groups.path("tenant")]));
    let sink = run(&cable.b, || UdpSocket::bind("10.77.0.2:7000")).expect("bound");
    for (service, name, above) in [
        (1, "tenant/a/b/c", &["tenant/a/b", "tenant/a"][..]),
        (0, "tenant/db/a", &[]),
        (0, "tenant/db/b", &["tenant/db", "tenant"]),
    ] {
        groups.make(name);
        let matched = if service == 0 { 2 } else { 1 };
        let count = || datapath.cgroup_reading().expect("it runs").map(|reading| reading.groups);
        assert!((0..500).any(|_| later(count() == Some(matched))));
        let within = |at: &str| groups.within(name, || run(&cable.a, || UdpSocket::bind(at))).expect("bound");
        let (own, bound) = (within("0.0.0.0:0"), within("10.77.0.1:7001"));
        let listen = || groups.within(name, || TcpListener::bind(address(1, true, 7002)));
        let server = run(&cable.a, listen).expect("bound");
        for name in [&[name], above].concat() {
            groups.delete(name);
        }
        if above.contains(&"tenant") {
            assert!((0..500).any(|_| later(count() == Some(0))));
        }
        assert_eq!(service_of(&datapath, &own, &sink), service, "{name}");
        let before = totals(&datapath);
        datagrams(&sink, &bound, "10.77.0.1:7001".parse().expect("an address"));
        let client = run(&cable.b, || TcpStream::connect(address(1, true, 7002))).expect("connected");
        exchange(client, server.accept().expect("accepted").0);
        let bytes = since(&datapath, &before);
        assert!(bytes[service][0] >= PAYLOAD && bytes[service][1] >= 2 * PAYLOAD, "{name}: {bytes:?}");
        assert_eq!(bytes[1 - service], [0, 0], "{name}");
    }
}

/// The file system of control groups does not remove the watch of a deleted directory.
#[test]
fn deleted_groups_leave_no_watches() {
    if skipped() {
        return;
    }
    let (cable, groups) = (Cable::new("g9"), Groups::new("g9"));
    let datapath = run(&cable.a, || attach(&[groups.path("*/x")]));
    let count = || datapath.cgroup_reading().expect("it runs").map(|reading| reading.groups);
    // Those of other tests are few.
    let watches = || {
        let files = std::fs::read_dir("/proc/self/fdinfo").expect("files").flatten();
        let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
        texts.map(|text| text.lines().filter(|line| line.starts_with("inotify wd:")).count()).sum::<usize>()
    };
    let names: Vec<String> = (0..100).map(|number| format!("{number}")).collect();
    for name in &names {
        groups.make(&format!("{name}/x"));
    }
    assert!((0..500).any(|_| later(count() == Some(100))));
    assert!(watches() >= 100, "{}", watches());
    for name in &names {
        groups.delete(&format!("{name}/x"));
        groups.delete(name);
    }
    assert!((0..500).any(|_| later(watches() < 50)), "{}", watches());
}

/// The groups of the next policy are resolved before it is put in force; until then, and if that does not come, the
/// groups of the policy in force are followed.
#[test]
fn policy_in_force_is_followed_while_the_next_is_prepared() {
    if skipped() {
        return;
    }
    let (cable, groups) = (Cable::new("g10"), Groups::new("g10"));
    groups.make("web-1");
    let (old, new) = ([groups.path("web-*")], [groups.path("db"), groups.path("w*")]);
    let mut datapath = run(&cable.a, || attach(&old));
    datapath.prepare_cgroups(&classifier(&new)).expect("resolved");
    groups.make("web-2");
    let count =
        |datapath: &InterfaceDatapath| datapath.cgroup_reading().expect("it runs").map(|reading| reading.groups);
    assert!((0..500).any(|_| later(count(&datapath) == Some(2))));
    let sink = run(&cable.b, || UdpSocket::bind("10.77.0.2:7000")).expect("bound");
    let sockets = ["web-1", "web-2"]
        .map(|name| groups.within(name, || run(&cable.a, || UdpSocket::bind("0.0.0.0:0"))).expect("bound"));
    assert_eq!(sockets.each_ref().map(|socket| service_of(&datapath, socket, &sink)), [0, 0]);
    set(&mut datapath, &new).expect("rules");
    assert_eq!(sockets.each_ref().map(|socket| service_of(&datapath, socket, &sink)), [1, 1]);
}

/// A policy is replaced: groups keep their services, other ones are unclassified, and without globs nothing is known.
#[test]
fn groups_follow_the_policy() {
    if skipped() {
        return;
    }
    let (cable, groups) = (Cable::new("g3"), Groups::new("g3"));
    groups.make("web");
    groups.make("db");
    let mut datapath = run(&cable.a, || attach(&[groups.path("web"), groups.path("db")]));
    let sink = run(&cable.b, || UdpSocket::bind("10.77.0.2:7000")).expect("bound");
    let own = groups.within("web", || run(&cable.a, || UdpSocket::bind("0.0.0.0:0"))).expect("bound");
    let service = |datapath: &InterfaceDatapath| {
        let before = totals(datapath);
        datagrams(&own, &sink, "10.77.0.2:7000".parse().expect("an address"));
        since(datapath, &before).iter().position(|bytes| bytes[0] >= PAYLOAD)
    };
    assert_eq!(service(&datapath), Some(0));
    set(&mut datapath, &[groups.path("d?"), groups.path("w*")]).expect("rules");
    assert_eq!(service(&datapath), Some(1));
    set(&mut datapath, &[groups.path("db")]).expect("rules");
    assert_eq!(service(&datapath), Some(2), "unclassified");
    set(&mut datapath, &[]).expect("rules");
    assert_eq!(service(&datapath), Some(2), "unclassified");
    assert_eq!(datapath.cgroup_reading().expect("no thread"), None);
}

/// A process cannot change the service of its sockets by moving to another group; a connection belongs to the group in
/// which its listener was created, also if a process of another group accepts it.
#[test]
fn sockets_keep_the_group_of_their_creation() {
    if skipped() {
        return;
    }
    let (cable, groups) = (Cable::new("g4"), Groups::new("g4"));
    groups.make("web");
    groups.make("db");
    let datapath = run(&cable.a, || attach(&[groups.path("web"), groups.path("db")]));
    let before = totals(&datapath);
    let listener = groups.within("db", || run(&cable.a, || TcpListener::bind("10.77.0.1:7001"))).expect("bound");
    groups.within("web", || {
        let client = run(&cable.b, || TcpStream::connect("10.77.0.1:7001")).expect("connected");
        exchange(client, listener.accept().expect("accepted").0);
    });
    belong_to(1, &since(&datapath, &before), "accepted in another group");
    let own = groups.within("db", || run(&cable.a, || UdpSocket::bind("0.0.0.0:0"))).expect("bound");
    let sink = run(&cable.b, || UdpSocket::bind("10.77.0.2:7000")).expect("bound");
    let before = totals(&datapath);
    groups.within("web", || datagrams(&own, &sink, "10.77.0.2:7000".parse().expect("an address")));
    let bytes = since(&datapath, &before);
    assert!(bytes[1][0] >= PAYLOAD && bytes[0][0] == 0, "sent in another group: {bytes:?}");
}

/// Packets that this host forwards belong to no group, even if a server of this host listens on their port.
#[test]
fn forwarded_packets_belong_to_no_group() {
    if skipped() {
        return;
    }
    let (cable, groups) = (cable("g5"), Groups::new("g5"));
    groups.make("web");
    let prefix = Prefix::new("wtg5c").expect("a prefix");
    prefix.cleanup().expect("clean up after an earlier run");
    let c = prefix.create("c").expect("namespace c");
    connect((&c, "eth", Some("10.78.0.1/24")), (&cable.a, "down", Some("10.78.0.2/24"))).expect("a cable");
    let forward = || {
        std::fs::write("/proc/sys/net/ipv6/conf/down/disable_ipv6", "0")?;
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
        std::fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1")
    };
    run(&cable.a, forward).expect("forwarding");
    run(&c, || std::fs::write("/proc/sys/net/ipv6/conf/eth/disable_ipv6", "0")).expect("IPv6 on");
    cable.a.ip(["addr", "add", "fd78::2/64", "dev", "down", "nodad"]).expect("an address");
    c.ip(["addr", "add", "fd78::1/64", "dev", "eth", "nodad"]).expect("an address");
    for (netns, to, by) in [
        (&c, "10.77.0.0/24", "10.78.0.2"),
        (&c, "fd77::/64", "fd78::2"),
        (&cable.b, "10.78.0.0/24", "10.77.0.1"),
        (&cable.b, "fd78::/64", "fd77::1"),
    ] {
        netns.ip(["route", "add", to, "via", by]).expect("a route");
    }
    let datapath = run(&cable.a, || attach(&[groups.path("web"), groups.path("db")]));
    for ipv6 in [false, true] {
        let _server = groups.within("web", || run(&cable.a, || UdpSocket::bind(anywhere(ipv6, 7000)))).expect("bound");
        let there: SocketAddr = if ipv6 { "[fd78::1]:7000" } else { "10.78.0.1:7000" }.parse().expect("an address");
        let guest = groups.within("web", || run(&c, || UdpSocket::bind(there))).expect("bound");
        let other = run(&cable.b, || UdpSocket::bind(address(2, ipv6, 7003))).expect("bound");
        let (before, unknown) = (totals(&datapath), datapath.counts().expect("counts").cgroups_unknown);
        datagrams(&other, &guest, there);
        datagrams(&guest, &other, address(2, ipv6, 7003));
        let bytes = since(&datapath, &before);
        assert_eq!(bytes[..2], [[0, 0], [0, 0]], "IPv6 {ipv6}");
        assert!(bytes[2].iter().all(|bytes| *bytes >= PAYLOAD), "IPv6 {ipv6}: {bytes:?}");
        let unknown = datapath.counts().expect("counts").cgroups_unknown - unknown;
        assert!(unknown >= 2 * PAYLOAD / 1_000, "IPv6 {ipv6}: {unknown}");
    }
}

/// Packets that this host bridges from and to a guest belong to no group: they have lost their socket, and the guest's
/// sockets are in another network namespace.
#[test]
fn bridged_packets_belong_to_no_group() {
    if skipped() {
        return;
    }
    let (cable, groups) = (Cable::new("g7"), Groups::new("g7"));
    groups.make("web");
    let prefix = Prefix::new("wtg7c").expect("a prefix");
    prefix.cleanup().expect("clean up after an earlier run");
    let c = prefix.create("c").expect("namespace c");
    connect((&c, "eth", Some("10.77.0.3/24")), (&cable.a, "down", None)).expect("a cable");
    cable.a.ip(["link", "add", "br0", "type", "bridge"]).expect("a bridge");
    for port in ["eth", "down"] {
        cable.a.ip(["link", "set", "dev", port, "master", "br0"]).expect("a port");
    }
    cable.a.ip(["link", "set", "br0", "up"]).expect("up");
    let datapath = run(&cable.a, || attach(&[groups.path("web"), groups.path("db")]));
    let guest = groups.within("web", || run(&c, || UdpSocket::bind("10.77.0.3:7000"))).expect("bound");
    let other = run(&cable.b, || UdpSocket::bind("10.77.0.2:7003")).expect("bound");
    // The bridge forwards nothing until its ports have a carrier.
    guest.set_read_timeout(Some(Duration::from_millis(10))).expect("set");
    let is_through = || other.send_to(b"x", "10.77.0.3:7000").is_ok() && guest.recv(&mut [0; 8]).is_ok();
    assert!((0..500).any(|_| later(is_through())), "the bridge forwards");
    common::pause(Duration::from_millis(100));
    let (before, unknown) = (totals(&datapath), datapath.counts().expect("counts").cgroups_unknown);
    datagrams(&guest, &other, "10.77.0.2:7003".parse().expect("an address"));
    datagrams(&other, &guest, "10.77.0.3:7000".parse().expect("an address"));
    let bytes = since(&datapath, &before);
    assert!(bytes[..2] == [[0, 0]; 2] && bytes[2].iter().all(|bytes| *bytes >= PAYLOAD), "{bytes:?}");
    let unknown = datapath.counts().expect("counts").cgroups_unknown - unknown;
    assert!(unknown >= 2 * PAYLOAD / 1_000, "{unknown}");
}

/// The next agent takes over the groups; without one they stay as they are.
#[test]
fn groups_stay_without_an_agent_and_the_next_one_takes_over() {
    if skipped() {
        return;
    }
    let (cable, groups) = (Cable::new("g6"), Groups::new("g6"));
    groups.make("web");
    let globs = [groups.path("web"), groups.path("db")];
    run(&cable.a, || attach(&globs)).leave();
    let sink = run(&cable.b, || UdpSocket::bind("10.77.0.2:7000")).expect("bound");
    let own = groups.within("web", || run(&cable.a, || UdpSocket::bind("0.0.0.0:0"))).expect("bound");
    let send = || datagrams(&own, &sink, "10.77.0.2:7000".parse().expect("an address"));
    send();
    groups.make("db");
    let next = run(&cable.a, || InterfaceDatapath::attach_without_edt(&interface(), None)).expect("attach");
    assert!(next.is_adopted());
    let mut next = next;
    set(&mut next, &globs).expect("rules");
    assert!(totals(&next)[0][0] >= PAYLOAD, "counted without an agent");
    assert_eq!(next.cgroup_reading().expect("it runs").map(|reading| reading.groups), Some(2));
    let before = totals(&next);
    send();
    assert!(since(&next, &before)[0][0] >= PAYLOAD);
    // A test run has a socket of this process.
    let frame = common::frames::tcp(
        common::frames::ethernet(false, false),
        common::frames::address(1, false),
        common::frames::address(2, false),
        7000,
        100,
        0,
    );
    for (name, service) in [("web", Some(ServiceId(0))), ("db", Some(ServiceId(1))), ("", None)] {
        let packets = |next: &InterfaceDatapath| next.totals(service).expect("totals").tx.packets();
        let before = packets(&next);
        groups.within(name, || next.passed(Direction::Tx, &frame)).expect("a test run").expect("it passes");
        assert_eq!(packets(&next) - before, 1, "{name}");
    }
}

#[expect(clippy::disallowed_methods, reason = "tests on real interfaces wait for real things")]
fn now() -> Instant {
    Instant::now()
}

/// Returns the argument, after a pause of 100 µs if it is false.
fn sooner(is_so: bool) -> bool {
    if !is_so {
        common::pause(Duration::from_micros(100));
    }
    is_so
}
