//! Guests of a host under a policy that names their interfaces: limits by `machine: { max: … }` in both directions.
#![expect(clippy::disallowed_methods, reason = "a test of real traffic waits in real time")]

use std::io::Write as _;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_agent::host::{Host, HostContext};
use weir_control::LimitRule;
use weir_control::wire::{Key, Keys};
use weir_linux::netns::{Netns, Prefix, connect};
use weir_linux::requirements::{Purpose, check};
use weir_linux::settings::{self, ControlSettings};
use weir_policy::Policy;
use weir_units::MachineId;

const POLICY: &str = "weir: 1
network: { nic: 100Mb/s, racks: { r: { uplink: 100Mb/s, machines: [m1, m2] } } }
services:
  vm: { match: [ { interface: \"tap*\" } ], machine: { max: 10Mb/s } }
  container: { match: [ { interface: \"veth*\" } ], machine: { max: 20Mb/s } }
";
/// Bytes of a datagram, and of its frame.
const PAYLOAD: usize = 1_200;
const FRAME: f64 = PAYLOAD as f64 + 42.0;
const PORT: u16 = 5001;

/// Whether this host lacks what the test needs, which is reported; with WEIR_NO_SKIP that is a failure.
fn is_skipped() -> bool {
    let skipped = !check(Purpose::Lab).is_empty();
    if skipped {
        assert!(std::env::var_os("WEIR_NO_SKIP").is_none(), "WEIR_NO_SKIP is set, and this cannot run");
        let line = "skipped: guests under an agent: root and Linux's network parts are required\n";
        std::io::stderr().write_all(line.as_bytes()).expect("standard error takes a line");
    }
    skipped
}

fn socket(netns: &Netns, port: u16) -> UdpSocket {
    netns.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).expect("bound")).expect("inside")
}

/// The rates on the wire, in Mb/s, at which datagrams of 60 Mb/s each arrive between namespaces.
fn rates(flows: &[(&Netns, &Netns, [u8; 4])]) -> Vec<f64> {
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let measured: Vec<_> = (PORT..)
            .zip(flows)
            .map(|(port, (from, to, at))| {
                let (sender, sink, ends) = (socket(from, 0), socket(to, port), &ends);
                scope.spawn(move || {
                    while !ends.load(Ordering::Relaxed) {
                        for _ in 0..6 {
                            // A full queue refuses a datagram, which is what a limit does.
                            let _ = sender.send_to(&[7; PAYLOAD], (Ipv4Addr::from(*at), port));
                        }
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
                scope.spawn(move || {
                    sink.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
                    let (mut count, mut buffer) = (0u32, [0; PAYLOAD]);
                    let begin = Instant::now();
                    let warm = Duration::from_millis(700);
                    while begin.elapsed() < Duration::from_millis(2200) {
                        let is_received = sink.recv_from(&mut buffer).is_ok();
                        count += u32::from(is_received && begin.elapsed() > warm);
                    }
                    f64::from(count) * FRAME * 8.0 / 1.5e6
                })
            })
            .collect();
        let rates = measured.into_iter().map(|rate| rate.join().expect("no panic")).collect();
        ends.store(true, Ordering::Relaxed);
        rates
    })
}

#[test]
fn limits_of_guests_hold_in_both_directions() {
    if is_skipped() {
        return;
    }
    let prefix = Prefix::new("wgl").expect("a prefix");
    prefix.cleanup().expect("leftovers of an earlier run go");
    let (m1, m2) = (prefix.create("m1").expect("made"), prefix.create("m2").expect("made"));
    connect((&m1, "eth0", None), (&m2, "eth0", Some("10.79.0.2/24"))).expect("connected");
    m1.ip_batch("link add br0 type bridge forward_delay 0\nlink set br0 up\nlink set eth0 master br0")
        .expect("a bridge");
    m1.ip(["addr", "add", "10.79.0.1/24", "dev", "br0"]).expect("an address");
    let guest = |name: &str, link: &str, at: &str| {
        let guest = prefix.create(name).expect("made");
        connect((&m1, link, None), (&guest, "eth0", Some(at))).expect("connected");
        m1.ip(["link", "set", link, "master", "br0"]).expect("a port");
        guest
    };
    let (vm, other) = (guest("g1", "tap1", "10.79.0.11/24"), guest("g3", "other3", "10.79.0.13/24"));
    let policy = Arc::new(Policy::parse("policy.yaml", POLICY).expect("valid").0);
    let keys = Keys::new(vec![Key::new([7; 32]).expect("a key")]).expect("keys");
    let install = || {
        let socket = UdpSocket::bind("10.79.0.1:0").expect("bound");
        let control = ControlSettings {
            listen: socket.local_addr().expect("bound"),
            cookie: settings::cookie(&socket).expect("a cookie"),
            epoch: 1,
            peers: Vec::new(),
            // Without a heartbeat during the test.
            timeout: weir_units::Duration::from_secs(60),
        };
        let (rule, machine) = (LimitRule::Ceilings, MachineId(0));
        let context = HostContext {
            credit_period: weir_agent::CREDIT_PERIOD,
            policy: &policy,
            machine,
            keys: &keys,
            rule,
            control,
            fabric: &Arc::default(),
            pods: weir_linux::guests::PODS.as_ref(),
            backend: None,
            tags: None,
            reserved: &[],
        };
        Host::install("eth0", &context, false).expect("installed")
    };
    let mut host = m1.run(install).expect("inside");
    // A guest that appears while the agent runs.
    let container = guest("g2", "veth2", "10.79.0.12/24");
    let sent = rates(&[(&vm, &m2, [10, 79, 0, 2]), (&container, &m2, [10, 79, 0, 2]), (&other, &m2, [10, 79, 0, 2])]);
    let received =
        rates(&[(&m2, &vm, [10, 79, 0, 11]), (&m2, &container, [10, 79, 0, 12]), (&m2, &other, [10, 79, 0, 13])]);
    println!("sent {sent:.1?}, received {received:.1?} Mb/s");
    for rates in [&sent, &received] {
        for (rate, limit) in rates.iter().zip([10.0, 20.0]) {
            assert!((0.6 * limit..1.15 * limit).contains(rate), "{rate} of {limit} Mb/s: {sent:?} {received:?}");
        }
        assert!(rates[2] > 25.0, "a guest of no service has no limit: {rates:?}");
    }
    let reading = host.kernel_readings().expect("read").guests.expect("filters by interface");
    assert_eq!((reading.guests, reading.missed), (2, None));
    host.remove().expect("removed");
    let restored = rates(&[(&vm, &m2, [10, 79, 0, 2])]);
    assert!(restored[0] > 25.0, "the limit is gone: {restored:?}");
}
