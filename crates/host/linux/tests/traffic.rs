//! Real packets through real classes: meters, limits, and changes of limits.

mod common;

use common::{Cable, interface, later, pause, quick, received, services, skipped, within};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weir_datapath::Classifier;
use weir_linux::class::Sending;
use weir_linux::htb_shaper::HtbShaper;
use weir_linux::loader::InterfaceDatapath;
use weir_linux::readings::Totals;
use weir_linux::settings::Classes;
use weir_linux::shaper::{ServiceRate, Shaper};
use weir_policy::{Match, Protocol};
use weir_units::{Bandwidth, Bytes, Direction, ServiceId, Weight};

const NIC: Bandwidth = Bandwidth::from_gbps(2);

/// Measurements share the CPUs: one at a time, and at rates that a machine reaches which compiles meanwhile (one
/// frame per buffer, each a wakeup of the receiver).
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Service `i` is TCP on port 7000 + i.
fn filters() -> Vec<(ServiceId, Match)> {
    let filter = |i: u16| {
        let ports = Some((7000 + i, 7000 + i));
        (ServiceId(i.into()), Match { protocol: Some(Protocol::TCP), ports, ..Match::default() })
    };
    (0..3).map(filter).collect()
}

fn rate(service: u32, min: u64, max: Bandwidth) -> ServiceRate {
    let min = Bandwidth::from_mbps(min);
    ServiceRate {
        service: ServiceId(service),
        slot: service,
        min,
        max,
        machine_max: max,
        static_limit: max,
        weight: Weight::ONE,
    }
}

fn attach(classes: Classes) -> InterfaceDatapath {
    attach_for(&filters(), classes)
}

fn attach_for(filters: &[(ServiceId, Match)], classes: Classes) -> InterfaceDatapath {
    let mut datapath = InterfaceDatapath::attach(&interface(), None).expect("attach");
    let classifier = Classifier::new(filters.iter().map(|(s, f)| (*s, f)), Some("eth")).expect("supported");
    datapath.set_slots(services(3)).expect("slots");
    datapath.set_rules(&classifier, classes).expect("rules");
    datapath
}

fn shape(rates: &[ServiceRate]) -> Box<HtbShaper> {
    let interface = interface();
    let sending = Sending::over(&interface).expect("offloads");
    Box::new(HtbShaper::install(&interface, NIC, rates, &[], &[], sending, false).expect("install"))
}

/// TCP payload in a full frame: 1448 of 1514 B.
fn goodput(rate: Bandwidth) -> f64 {
    rate.bps() as f64 / 1e6 * 1448.0 / 1514.0
}

/// The interface's counters in `ip -s link`: bytes and packets.
fn counters(cable: &Cable, direction: &str) -> (u64, u64) {
    let mut command = cable.a.command("ip").expect("ip");
    let output = command.args(["-s", "-j", "link", "show", "dev", "eth"]).output().expect("ip");
    let links: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let read = |what: &str| links[0]["stats64"][direction][what].as_u64().expect("a counter");
    (read("bytes"), read("packets"))
}

#[test]
fn meters_agree_with_interface_counters() {
    if skipped() {
        return;
    }
    let _alone = alone();
    let cable = Cable::new("t1");
    let before = [counters(&cable, "tx"), counters(&cable, "rx")];
    let datapath = cable.a.run(|| attach(Classes::None)).expect("enter");
    let _server = cable.server(7001);
    cable.goodput(7001);
    // The last segments of a connection pass while its end is read: until nothing does, two
    // counters are of two moments.
    let all = || [counters(&cable, "tx"), counters(&cable, "rx")];
    let mut after = all();
    let (service, rest) = loop {
        let read = |service| datapath.totals(service).expect("meters");
        let (service, rest) = (read(Some(ServiceId(1))), read(None));
        let now = all();
        if now == after {
            break (service, rest);
        }
        after = now;
    };
    for (i, direction) in Direction::ALL.into_iter().enumerate() {
        let bytes = service[direction].bytes().get() + rest[direction].bytes().get();
        let packets = service[direction].packets() + rest[direction].packets();
        println!(
            "{direction}: service {} B, other {} B",
            service[direction].bytes().get(),
            rest[direction].bytes().get()
        );
        assert_eq!((bytes, packets), (after[i].0 - before[i].0, after[i].1 - before[i].1), "{direction}");
    }
    assert!(service.tx.bytes() > Bytes::new(10_000_000));
    assert_eq!(datapath.totals(Some(ServiceId(0))).expect("meters"), Totals::default());
}

/// With offload on, one buffer is many packets: the meters count what would be on a wire.
#[test]
fn meters_count_segments_of_offloaded_buffers() {
    if skipped() {
        return;
    }
    let _alone = alone();
    let cable = Cable::new("t2");
    cable.set_offloads(true);
    let sender = cable.a.run(|| attach(Classes::None)).expect("enter");
    let receiver = cable.b.run(|| attach(Classes::None)).expect("enter");
    let _server = cable.server(7001);
    cable.goodput(7001);
    // As above: until nothing passes any more.
    let all = || {
        let read = |datapath: &InterfaceDatapath| datapath.totals(Some(ServiceId(1))).expect("meters");
        (read(&sender).tx, read(&receiver).rx)
    };
    let (mut sent, mut arrived) = all();
    loop {
        pause(Duration::from_millis(50));
        let now = all();
        if now == (sent, arrived) {
            break;
        }
        (sent, arrived) = now;
    }
    let per_packet = sent.bytes().get() / sent.packets();
    println!("sent {} in {} packets of {per_packet} B", sent.bytes(), sent.packets());
    assert!((1400..=1514).contains(&per_packet), "{per_packet} B per packet");
    assert_eq!((sent.bytes(), sent.packets()), (arrived.bytes(), arrived.packets()), "both formulas agree");
}

#[test]
fn limit_applies_to_its_service_only() {
    if skipped() {
        return;
    }
    let _alone = alone();
    let cable = Cable::new("t3");
    let limits = [Bandwidth::from_mbps(80), Bandwidth::from_mbps(10), Bandwidth::from_mbps(40)];
    let rates: Vec<_> = limits.iter().enumerate().map(|(i, max)| rate(i as u32, 1, *max)).collect();
    let (_datapath, mut shaper) = cable.a.run(|| (attach(Classes::Htb), shape(&rates))).expect("enter");
    for (i, limit) in limits.into_iter().enumerate() {
        let port = 7000 + i as u16;
        let _server = cable.server(port);
        within(cable.goodput(port), goodput(limit), 5.0);
    }
    let _server = cable.server(5000);
    let free = cable.goodput(5000);
    println!("unclassified: {free:.0} Mb/s");
    assert!(free > 100.0, "unclassified traffic takes what is free: {free}");
    for queue in shaper.queues().expect("queues") {
        println!("{queue:?}");
        assert!(queue.sent.get() > 1_000_000, "every class carried something");
        assert_eq!(queue.destinations, 0, "no receiver sent feedback");
    }
}

/// A tunnel of the hosts between `a` (10.79.0.1) and `b` (10.79.0.2); false, with a line of output, without support.
fn add_tunnel(cable: &Cable, kind: &str, more: &str, ends: [&str; 2]) -> bool {
    for (netns, i) in [(&cable.a, 0), (&cable.b, 1)] {
        let local = if kind == "vxlan" { format!("local {} dev eth", ends[i]) } else { String::new() };
        let link = format!("link add tun type {kind} id 5 {more} remote {} {local}", ends[1 - i]);
        let output = netns.command("ip").expect("ip").args(link.split_whitespace()).output().expect("ip");
        let error = String::from_utf8_lossy(&output.stderr);
        if error.contains("Unknown device type") || error.contains("not supported") {
            // Not by println!, which a passing test swallows.
            let line = format!("skipped: this host has no {kind}\n");
            std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).expect("standard error takes a line");
            return false;
        }
        assert!(output.status.success(), "{link}: {error}");
        netns
            .ip_batch(&format!("link set tun mtu 1400\naddr add 10.79.0.{}/24 dev tun\nlink set tun up\n", i + 1))
            .expect("up");
    }
    true
}

/// A filter by `vni` finds the packets of VXLAN to Linux's own port and of Geneve, over IPv4 and IPv6.
#[test]
fn limits_of_networks_hold_in_tunnels() {
    if skipped() {
        return;
    }
    let _alone = alone();
    let cable = Cable::new("t8");
    for (netns, i) in [(&cable.a, 1), (&cable.b, 2)] {
        let on = || std::fs::write("/proc/sys/net/ipv6/conf/eth/disable_ipv6", "0");
        netns.run(on).expect("enter").expect("IPv6 on");
        netns.ip_batch(&format!("addr add fd77::{i}/64 dev eth nodad\n")).expect("an address");
    }
    let of = |vni, service| (ServiceId(service), Match { vni: Some(vni), ..Match::default() });
    let limit = Bandwidth::from_mbps(20);
    let rates = [rate(0, 1, Bandwidth::from_mbps(80)), rate(1, 1, limit)];
    let filters = [of(4, 0), of(5, 1)];
    let (_datapath, _shaper) = cable.a.run(|| (attach_for(&filters, Classes::Htb), shape(&rates))).expect("enter");
    let (ipv4, ipv6) = (["10.77.0.1", "10.77.0.2"], ["fd77::1", "fd77::2"]);
    // With the bytes of the outer IP header.
    for (kind, more, ends, outer) in [
        ("vxlan", "dstport 4789", ipv4, 20),
        ("vxlan", "dstport 8472", ipv4, 20),
        ("vxlan", "dstport 8472", ipv6, 40),
        ("geneve", "dstport 6081", ipv4, 20),
        ("geneve", "dstport 6081", ipv6, 40),
    ] {
        if !add_tunnel(&cable, kind, more, ends) {
            continue;
        }
        let server = cable.server_at("10.79.0.2", 7000);
        let measured = received(cable.client_to("10.79.0.2", 7000, "2", "reno"));
        let frame = f64::from(14 + outer + 8 + 8 + 14 + 1400);
        println!("{kind} {more} over {}", ends[0]);
        within(measured, limit.bps() as f64 / 1e6 * 1348.0 / frame, 5.0);
        drop(server);
        for netns in [&cable.a, &cable.b] {
            netns.ip(["link", "del", "tun"]).expect("removed");
        }
    }
}

/// A queue that is smaller than one buffer drops all of a sender's, for ever; BBR sends large ones from the start.
#[test]
fn a_small_limit_is_reached_with_large_buffers() {
    let known = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    if !known.contains("bbr") {
        // Not by println!, which a passing test swallows.
        let line = b"skipped: needs BBR in the kernel (CONFIG_TCP_CONG_BBR)\n";
        std::io::Write::write_all(&mut std::io::stderr(), line).expect("standard error takes a line");
        return;
    }
    if skipped() {
        return;
    }
    let _alone = alone();
    let cable = Cable::new("t7");
    cable.set_offloads(true);
    let limit = Bandwidth::from_mbps(10);
    let install = || {
        let interface = interface();
        let sending = Sending::over(&interface).expect("offloads");
        HtbShaper::install(&interface, NIC, &[rate(0, 0, limit)], &[], &[], sending, false).expect("install")
    };
    let (_datapath, _shaper) = cable.a.run(|| (attach(Classes::Htb), install())).expect("enter");
    let _server = cable.server(7000);
    within(received(cable.client_with(7000, "2", "bbr")), goodput(limit), 5.0);
}

#[test]
fn a_change_of_rate_takes_effect() {
    if skipped() {
        return;
    }
    let _alone = alone();
    let cable = Cable::new("t4");
    let limit = Bandwidth::from_mbps(20);
    let (datapath, mut shaper) = cable.a.run(|| (attach(Classes::Htb), shape(&[rate(0, 0, limit)]))).expect("enter");
    let _server = cable.server(7000);
    within(cable.goodput(7000), goodput(limit), 5.0);
    // While it runs, measured by the meters over a second.
    let raised = Bandwidth::from_mbps(80);
    let mut client = cable.client(7000, "3");
    pause(Duration::from_millis(500));
    shaper.set(&[rate(0, 0, raised)]).expect("set");
    pause(Duration::from_millis(300));
    let sent = || datapath.totals(Some(ServiceId(0))).expect("meters").tx.bytes();
    #[expect(clippy::disallowed_methods, reason = "a measurement of real time")]
    let (start, before) = (std::time::Instant::now(), sent());
    pause(Duration::from_secs(1));
    let measured = (sent().get() - before.get()) as f64 * 8.0 / 1e6 / start.elapsed().as_secs_f64();
    within(measured, 80.0, 3.0);
    client.kill().expect("kill");
    client.wait().expect("the client");
    shaper.set(&[rate(0, 0, limit)]).expect("set");
    within(cable.goodput(7000), goodput(limit), 5.0);
}

#[test]
fn guarantees_hold_and_excess_is_shared_by_weight() {
    if skipped() {
        return;
    }
    let _alone = alone();
    let cable = Cable::new("t5");
    // 60 Mb/s in all: service 0 is guaranteed 30 and takes no more, 1 and 2 share the other 30 one to two.
    let rates = [
        ServiceRate { max: Bandwidth::from_mbps(30), ..rate(0, 30, NIC) },
        rate(1, 0, NIC),
        ServiceRate { weight: Weight::from_thousandths(2000).expect("a weight"), ..rate(2, 0, NIC) },
    ];
    let install = || {
        let interface = interface();
        let sending = Sending::over(&interface).expect("offloads");
        HtbShaper::install(&interface, Bandwidth::from_mbps(60), &rates, &[], &[], sending, false).expect("install")
    };
    let (datapath, _shaper) = cable.a.run(|| (attach(Classes::Htb), install())).expect("enter");
    let _servers: Vec<_> = (7000..7003).map(|port| cable.server(port)).collect();
    let clients: Vec<_> = (7000..7003).map(|port| cable.client(port, "60")).collect();
    let sent = || [0, 1, 2].map(|id| datapath.totals(Some(ServiceId(id))).expect("meters").tx.bytes().get());
    // Measured while all send: a flow that is alone takes what the others leave.
    assert!((0..1000).any(|_| later(sent().iter().all(|bytes| *bytes > 200_000))), "all send: {:?}", sent());
    #[expect(clippy::disallowed_methods, reason = "a measurement of real time")]
    let (start, before) = (std::time::Instant::now(), sent());
    pause(Duration::from_secs(2));
    let (seconds, after) = (start.elapsed().as_secs_f64(), sent());
    for mut client in clients {
        client.kill().expect("kill");
        client.wait().expect("the client");
    }
    let rates = [0, 1, 2].map(|id| (after[id] - before[id]) as f64 * 8e-6 / seconds);
    if quick() {
        // A sender without a processor leaves its share to the others, but their order stays.
        let [guaranteed, one, two] = rates;
        assert!(18.0 < guaranteed && guaranteed > two && two > one, "{rates:.1?} Mb/s");
        assert!(rates.iter().sum::<f64>() < 60.0 * 1.05, "{rates:.1?} Mb/s of 60");
        return;
    }
    for (rate, expected) in rates.into_iter().zip([30.0, 10.0, 20.0]) {
        within(rate, expected, 5.0);
    }
}
