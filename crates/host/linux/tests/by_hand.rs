//! The programs run on hand-made frames: tenants' ECN bits arrive as they were sent between any
//! two hosts, packets trigger feedback, and feedback limits destinations.

mod common;

use common::frames::{KEY, Message, address, control, ecn, ecn_marker_bits, ethernet, tcp, udp, with_marker};
use common::{Cable, interface, later, pause, quick, skipped};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Instant;
use weir_datapath::{Classifier, FEEDBACK_BYTES, SipKey};
use weir_linux::class::Sending;
use weir_linux::destinations::Destinations;
use weir_linux::fabric_sockets::FabricSockets;
use weir_linux::htb_shaper::HtbShaper;
use weir_linux::loader::InterfaceDatapath;
use weir_linux::settings::{Classes, ControlSettings, FeedbackKey};
use weir_linux::shaper::{ServiceRate, Shaper};
use weir_policy::Policy;
use weir_shaping::ShaperConfig;
use weir_units::{Bandwidth, Direction, Duration, MachineId, ServiceId, Weight};

/// The bits of the ECN encapsulation marker.
const MARKER: u8 = 0b10101;
/// Signed bytes of a control message: the contents and the tag, without format, key and the two
/// unused bytes that hardware may write.
const SIGNED: usize = FEEDBACK_BYTES - 10;
/// A receive limit of `bulk` at which 15,140 bytes of strangers pass, and 3,785 more with marks.
const LIMITED: &str = ", machine: { rx: { max: 10kb/s } }";
/// A service's port, another's, and one of no service.
const PORTS: [u16; 3] = [7000, 7001, 80];

/// Two services at interfaces of this rate: the first, of port 7000, is `name` with more keys.
fn policy(nic: &str, name: &str, keys: &str) -> Policy {
    let text = format!(
        "weir: 1
network:
  nic: {nic}
  racks: {{ r: {{ uplink: {nic}, machines: [a, b] }} }}
services:
  {name}: {{ match: [ {{ port: 7000 }} ]{keys} }}
  web: {{ match: [ {{ port: 7001 }} ] }}
"
    );
    Policy::parse("p.yaml", &text).expect("the policy is valid").0
}

/// Puts `a` under a policy.
fn apply(datapath: &mut InterfaceDatapath, policy: &Policy) {
    let services = policy.services();
    let classifier = Classifier::of(policy, Some("eth")).expect("supported");
    datapath.set_slots(services.leaves().map(|(id, service)| (id, service.path()))).expect("slots");
    datapath.set_rules(&classifier, Classes::Htb).expect("rules");
    let (shaper, sending) = (ShaperConfig::parley(policy, None, None), Sending::over(&interface()).expect("offloads"));
    datapath.set_shaper(policy, MachineId(0), &shaper, sending).expect("the shaper");
}

/// `a` under a policy, which the machine of the tests' frames is.
fn attach(socket: &UdpSocket, nic: &str, bulk: &str) -> (Policy, InterfaceDatapath) {
    let policy = policy(nic, "bulk", bulk);
    let mut datapath = InterfaceDatapath::attach(&interface(), None).expect("attach");
    apply(&mut datapath, &policy);
    datapath.set_keys(&[FeedbackKey { id: 7, key: SipKey::new(KEY) }]).expect("keys");
    datapath.set_control(&control_settings(socket, Duration::from_secs(3600))).expect("control");
    datapath.heartbeat().expect("alive");
    datapath.start_timer().expect("the timer");
    (policy, datapath)
}

fn control_settings(socket: &UdpSocket, timeout: Duration) -> ControlSettings {
    ControlSettings {
        listen: socket.local_addr().expect("bound"),
        cookie: weir_linux::settings::cookie(socket).expect("a cookie"),
        epoch: 1,
        peers: Vec::new(),
        timeout,
    }
}

/// Runs `work` with `a` under a policy.
fn with_host(name: &str, nic: &str, work: impl FnOnce(&Policy, &mut InterfaceDatapath) + Send) {
    with_host_under(name, nic, "", work);
}

/// The same, where `bulk` has more keys.
fn with_host_under(name: &str, nic: &str, bulk: &str, work: impl FnOnce(&Policy, &mut InterfaceDatapath) + Send) {
    let cable = Cable::new(name);
    let enter = || {
        let socket = UdpSocket::bind(SocketAddr::new(address(1, false), 30_565)).expect("a socket");
        let (policy, mut datapath) = attach(&socket, nic, bulk);
        work(&policy, &mut datapath);
        datapath.remove().expect("removed");
    };
    cable.a.run(enter).expect("enter");
}

#[test]
fn only_packets_of_ecn_senders_are_decapsulated() {
    if skipped() {
        return;
    }
    with_host("n1", "10Gb/s", |_, datapath| {
        let mut arrive = |frame: &[u8]| datapath.passed(Direction::Rx, frame).expect("a test run");
        for ipv6 in [false, true] {
            let frame =
                |from: u8, port, ecn| tcp(ethernet(ipv6, false), address(from, ipv6), address(1, ipv6), port, 10, ecn);
            // Without a message from the sender, the ECN bits belong to the tenant, marker or not.
            for (port, ecn) in PORTS.into_iter().flat_map(|port| (0..4).map(move |ecn| (port, ecn))) {
                for from in [2, 3] {
                    let frame = with_marker(frame(from, port, ecn));
                    assert_eq!(arrive(&frame).as_ref(), Some(&frame), "IPv6: {ipv6}, port {port}, ECN {ecn}");
                }
            }
            // An ECN capability message covers one sender and one service.
            assert_eq!(arrive(&control(Message::EcnCapability, ipv6, 7000, 5)), None);
            for (port, ecn) in PORTS.into_iter().flat_map(|port| (0..4).map(move |ecn| (port, ecn))) {
                let [own, other] = [2, 3].map(|from| with_marker(frame(from, port, ecn)));
                let arrived = arrive(&own).expect("it passes");
                if port == 7000 {
                    assert_eq!(
                        (self::ecn(&arrived), ecn_marker_bits(&arrived)),
                        (0, MARKER),
                        "IPv6: {ipv6}, ECN {ecn}"
                    );
                } else {
                    assert_eq!(arrived, own, "IPv6: {ipv6}, port {port}, ECN {ecn}");
                }
                assert_eq!(arrive(&other).as_ref(), Some(&other), "IPv6: {ipv6}, port {port}, ECN {ecn}");
                let plain = frame(2, port, ecn);
                assert_eq!(arrive(&plain), Some(plain), "IPv6: {ipv6}, port {port}, ECN {ecn}: without the marker");
            }
        }
        let counters = datapath.counts().expect("counters");
        assert_eq!((counters.feedback_forged, counters.feedback_replayed), (0, 0), "{counters:?}");
    });
}

/// Above a receive limit, packets of a sender without ECN capability messages are marked if they are ECT and then
/// dropped; those of another sender, and of another service, pass unchanged.
#[test]
fn strangers_are_policed_at_a_receive_limit() {
    if skipped() {
        return;
    }
    for ipv6 in [false, true] {
        with_host_under("n7", "10Gb/s", LIMITED, |_, datapath| {
            let mut arrive = |frame: &[u8]| datapath.passed(Direction::Rx, frame).expect("a test run");
            let frame =
                |from: u8, port, ecn| tcp(ethernet(ipv6, false), address(from, ipv6), address(1, ipv6), port, 400, ecn);
            assert_eq!(arrive(&control(Message::EcnCapability, ipv6, 7000, 5)), None);
            // The first packet has the limit set.
            arrive(&frame(3, 7000, 2));
            pause(std::time::Duration::from_millis(50));
            let (mut passed, mut marked, mut dropped) = (0, 0, 0);
            for _ in 0..100 {
                match arrive(&frame(3, 7000, 2)) {
                    None => dropped += 1,
                    Some(arrived) if ecn(&arrived) == 3 => {
                        let mut expected = frame(3, 7000, 3);
                        if !ipv6 {
                            // One more in the header is one less in its checksum, which is 0 in these frames.
                            expected[24..26].copy_from_slice(&[0xff, 0xfe]);
                        }
                        assert_eq!(arrived, expected, "IPv6: {ipv6}");
                        marked += 1;
                    }
                    Some(arrived) => {
                        assert_eq!(arrived, frame(3, 7000, 2));
                        passed += 1;
                    }
                }
            }
            println!("IPv6: {ipv6}: {passed} passed, {marked} marked, {dropped} dropped");
            assert!(passed > 20 && marked > 0 && dropped > 20, "{passed}, {marked}, {dropped}");
            for other in [frame(2, 7000, 0), frame(2, 7000, 2), frame(3, 7001, 2), frame(3, 80, 2)] {
                assert_eq!(arrive(&other).as_ref(), Some(&other), "IPv6: {ipv6}");
            }
            let policed = datapath.receive_reading(ServiceId(0)).expect("a meter").policed;
            let totals = datapath.totals(Some(ServiceId(0))).expect("totals").rx;
            println!("{policed:?}, {totals:?}");
            assert_eq!((policed.dropped_packets, policed.marked_packets), (dropped, marked), "{policed:?}");
            // 100 and 1 frames, and two of the sender with Weir: what was dropped is no usage.
            assert_eq!(totals.packets() + policed.dropped_packets, 103, "{totals:?}, {policed:?}");
        });
    }
}

/// The next service of a slot has a virtual queue of its own. At 10 kb/s a full one would need 12 s.
#[test]
fn service_is_not_policed_for_the_previous_one_of_its_slot() {
    if skipped() {
        return;
    }
    with_host_under("n9", "10Gb/s", LIMITED, |_, datapath| {
        let frame = tcp(ethernet(false, false), address(3, false), address(1, false), 7000, 400, 0);
        let arrives = |datapath: &mut InterfaceDatapath| {
            let passed = datapath.passed(Direction::Rx, &frame).expect("a test run").is_some();
            // Longer than a tick, which counts the packet. The timer or the next packet runs it.
            pause(std::time::Duration::from_millis(50));
            passed
        };
        assert!(arrives(datapath), "the packet that has the limit set");
        for _ in 0..100 {
            datapath.passed(Direction::Rx, &frame).expect("a test run");
        }
        assert!(!arrives(datapath) && !arrives(datapath), "the virtual queue is full");
        let slot = datapath.slot(ServiceId(0)).expect("a slot");
        apply(datapath, &policy("10Gb/s", "next", LIMITED));
        assert_eq!(datapath.slot(ServiceId(0)).expect("a slot"), slot);
        // The packet of the new service's first tick.
        arrives(datapath);
        assert!(arrives(datapath), "the next service has the virtual queue of the previous one");
    });
}

/// A sender with Weir that sends at R, and a stranger that sends three times the limit: each has half.
#[test]
#[expect(clippy::disallowed_methods, reason = "a measurement of real time")]
fn sender_with_weir_and_a_stranger_have_half_of_the_limit_each() {
    if skipped() {
        return;
    }
    let limit = 20e6;
    with_host_under("n10", "1Gb/s", ", machine: { rx: { max: 20Mb/s } }", |_, datapath| {
        let frame = |from: u8| tcp(ethernet(false, false), address(from, false), address(1, false), 7000, 1446, 0);
        let frames = [frame(2), frame(3)];
        let bytes = frames[0].len() as f64;
        let start = Instant::now();
        let mut last = start;
        let (mut ready, mut passed, mut sequence) = ([0.0; 2], [0.0; 2], 0);
        while start.elapsed().as_secs() < 10 {
            // ECN capability messages are sent four times a second.
            if start.elapsed().as_millis() / 250 >= sequence {
                sequence += 1;
                let capability = control(Message::EcnCapability, false, 7000, sequence as u64);
                assert_eq!(datapath.passed(Direction::Rx, &capability).expect("a test run"), None);
            }
            let reading = datapath.receive_reading(ServiceId(0)).expect("a meter");
            // Without a measurement R is not known: the sender starts at the limit.
            let rate = if reading.rate.is_unlimited() { limit } else { reading.rate.bps() as f64 };
            // A longer pause of this thread is no burst afterwards.
            let time = last.elapsed().as_secs_f64().min(0.05);
            last = Instant::now();
            for (sender, rate) in [rate, 3.0 * limit].into_iter().enumerate() {
                ready[sender] += rate * time / 8.0;
                while ready[sender] >= bytes {
                    ready[sender] -= bytes;
                    let arrived = datapath.passed(Direction::Rx, &frames[sender]).expect("a test run").is_some();
                    assert!(arrived || sender == 1, "a follower's packet is dropped");
                    // F of the stranger passes at first.
                    if arrived && start.elapsed().as_secs() >= 5 {
                        passed[sender] += bytes;
                    }
                }
            }
            pause(std::time::Duration::from_millis(1));
        }
        let parts = passed.map(|passed| passed * 8.0 / 5.0 / limit);
        println!("{parts:?} of the limit, {:?}", datapath.receive_reading(ServiceId(0)).expect("a meter"));
        // A sender without a processor has less, and the stranger then has up to 15/16 without that.
        let (least, most) = if quick() { (0.25, 0.7) } else { (0.42, 0.58) };
        assert!(parts.iter().all(|part| (least..=most).contains(part)), "{parts:?}");
    });
}

/// With `htb` and without an agent nothing applies a receiver's rate, so the host no longer reports that it does.
#[test]
fn capability_is_not_sent_during_fallback() {
    if skipped() {
        return;
    }
    with_host("n8", "10Gb/s", |_, datapath| {
        let socket = UdpSocket::bind("10.77.0.1:0").expect("a socket");
        datapath.set_control(&control_settings(&socket, Duration::from_millis(500))).expect("control");
        datapath.heartbeat().expect("alive");
        let mut sequence = 10;
        let mut sent = |datapath: &mut InterfaceDatapath| {
            // Longer than until a repetition is due.
            pause(std::time::Duration::from_millis(300));
            sequence += 1;
            let before = datapath.totals(None).expect("totals").tx.packets();
            let feedback = self::control(Message::FeedbackAck, false, 7000, sequence);
            // From the interface, over which the message leaves.
            datapath.cost_from(interface().index(), &feedback, 1).expect("a test run");
            datapath.totals(None).expect("totals").tx.packets() - before
        };
        assert_eq!(sent(datapath), 1, "with an agent");
        let fallback = |datapath: &InterfaceDatapath| datapath.timer().expect("the timer").fallback;
        assert!((0..100).any(|_| later(fallback(datapath))), "the kernel falls back");
        assert_eq!(sent(datapath), 0, "without one");
        datapath.heartbeat().expect("alive");
        assert!((0..100).any(|_| later(!fallback(datapath))), "the agent is back");
        assert_eq!(sent(datapath), 1, "with an agent again");
    });
}

/// Replayed and altered messages are counted and change nothing, over IPv4 and IPv6.
#[test]
fn replayed_and_forged_feedback_is_refused() {
    if skipped() {
        return;
    }
    with_host("n6", "10Gb/s", |_, datapath| {
        for ipv6 in [false, true] {
            let before = datapath.counts().expect("counters");
            let mut arrive =
                |frame: &[u8]| assert_eq!(datapath.passed(Direction::Rx, frame).expect("a test run"), None);
            for kind in [Message::EcnCapability, Message::Feedback] {
                arrive(&control(kind, ipv6, 7000, 5));
                for old in [5, 4] {
                    arrive(&control(kind, ipv6, 7000, old));
                }
                let newer = control(kind, ipv6, 7000, 6);
                for at in newer.len() - SIGNED..newer.len() {
                    let mut forged = newer.clone();
                    forged[at] ^= 1;
                    arrive(&forged);
                }
                // The forged copies were rejected: the original message is still new.
                arrive(&newer);
            }
            let after = datapath.counts().expect("counters");
            let refused =
                (after.feedback_forged - before.feedback_forged, after.feedback_replayed - before.feedback_replayed);
            assert_eq!(refused, (2 * SIGNED as u64, 4), "IPv6: {ipv6}: {after:?}");
            assert_eq!(after.feedback_accepted - before.feedback_accepted, 2, "IPv6: {ipv6}: {after:?}");
        }
    });
}

/// Runs the program of a direction on a frame.
type Run<'a> = dyn FnMut(Direction, &[u8]) -> Option<Vec<u8>> + 'a;

#[test]
fn packets_are_encapsulated_only_to_receivers_that_acknowledged() {
    if skipped() {
        return;
    }
    with_host("n2", "10Gb/s", |_, datapath| {
        for ipv6 in [false, true] {
            let frame =
                |to: u8, port, ecn| tcp(ethernet(ipv6, false), address(1, ipv6), address(to, ipv6), port, 10, ecn);
            let mut run = |direction, frame: &[u8]| datapath.passed(direction, frame).expect("a test run");
            let unchanged = |run: &mut Run<'_>, to, port, ecn| {
                for frame in [frame(to, port, ecn), with_marker(frame(to, port, ecn))] {
                    assert_eq!(
                        run(Direction::Tx, &frame),
                        Some(frame),
                        "IPv6: {ipv6}, to {to}, port {port}, ECN {ecn}"
                    );
                }
            };
            for ecn in 0..4 {
                unchanged(&mut run, 2, 7000, ecn);
            }
            // The receiver sends feedback. From now on, packets without encapsulation must not carry
            // the marker, since this host's capability message is under way.
            assert_eq!(run(Direction::Rx, &control(Message::Feedback, ipv6, 7000, 1)), None);
            for reply in [None, Some(Message::FeedbackAck)] {
                if let Some(reply) = reply {
                    assert_eq!(run(Direction::Rx, &control(reply, ipv6, 7000, 2)), None);
                }
                let left = run(Direction::Tx, &frame(2, 7000, 0)).expect("it leaves");
                match reply {
                    None => assert_eq!(left, frame(2, 7000, 0), "no acknowledgement yet"),
                    Some(_) => {
                        assert!(
                            (1..=2).contains(&ecn(&left)) && ecn_marker_bits(&left) == MARKER,
                            "IPv6: {ipv6}: {left:02x?}"
                        );
                    }
                }
                for own in 1..4 {
                    let left = run(Direction::Tx, &with_marker(frame(2, 7000, own))).expect("it leaves");
                    assert_eq!(ecn(&left), own);
                    assert_ne!(ecn_marker_bits(&left), MARKER, "IPv6: {ipv6}, ECN {own}");
                    assert_eq!(run(Direction::Tx, &frame(2, 7000, own)), Some(frame(2, 7000, own)));
                }
                // Another service, no service, another host.
                for ecn in 0..4 {
                    unchanged(&mut run, 2, 7001, ecn);
                    unchanged(&mut run, 2, 80, ecn);
                    unchanged(&mut run, 3, 7000, ecn);
                }
            }
        }
    });
}

/// After a silence an unchanged rate is an event again: the class of the destination was removed.
#[test]
fn destination_is_limited_again_after_a_silence() {
    if skipped() {
        return;
    }
    with_host("n3", "10Gb/s", |policy, datapath| {
        let nic = Bandwidth::from_gbps(10);
        let rate = |(service, _)| ServiceRate {
            service,
            slot: datapath.slot(service).expect("a slot"),
            min: Bandwidth::ZERO,
            max: nic,
            machine_max: nic,
            static_limit: nic,
            weight: Weight::ONE,
        };
        let rates: Vec<ServiceRate> = policy.services().leaves().map(rate).collect();
        let sending = Sending::over(&interface()).expect("offloads");
        let mut shaper = HtbShaper::install(&interface(), nic, &rates, &[], &[], sending, false).expect("install");
        let mut destinations = Destinations::open(datapath).expect("destinations");
        let own_classes = |shaper: &mut HtbShaper| shaper.queues().expect("queues")[1].destinations;
        for sequence in [1, 3, 5] {
            let feedback = control(Message::Feedback, false, 7000, sequence);
            assert_eq!(datapath.passed(Direction::Rx, &feedback).expect("a test run"), None);
            let events = destinations.events().expect("events");
            assert_eq!(events.len(), 1, "{sequence}");
            assert_eq!(events[0].rate, Some(Bandwidth::from_gbps(1)));
            let assigned = shaper.limit_destinations(&events).expect("classes");
            assert!(assigned[0].1 != 0, "it has a class");
            assigned.into_iter().for_each(|(destination, class)| destinations.set_class(destination, class));
            // While the class exists, an unchanged rate is no event.
            let again = control(Message::Feedback, false, 7000, sequence + 1);
            assert_eq!(datapath.passed(Direction::Rx, &again).expect("a test run"), None);
            assert!(destinations.events().expect("events").is_empty());
            assert_eq!(own_classes(&mut shaper), 1);
            pause(std::time::Duration::from_millis(250));
            let silent = destinations.silent(Duration::from_millis(200)).expect("silent");
            assert_eq!(silent.len(), 1);
            for (destination, class) in shaper.limit_destinations(&silent).expect("classes") {
                assert_eq!(class, 0);
                destinations.set_class(destination, class);
            }
            assert_eq!(own_classes(&mut shaper), 0);
            let leaves = || {
                let output =
                    std::process::Command::new("tc").args(["class", "show", "dev", "eth"]).output().expect("tc");
                String::from_utf8(output.stdout).expect("text").matches("class htb 7765:3").count()
            };
            // One beside that of control traffic, until packets are known to go elsewhere.
            assert_eq!(leaves(), 2, "what waits there goes out");
            shaper.limit_destinations(&[]).expect("classes");
            assert_eq!(leaves(), 1);
        }
        drop(shaper);
    });
}

/// Feedback requests trigger feedback, up to a budget per tick.
#[test]
fn feedback_requests_are_limited_per_tick() {
    if skipped() {
        return;
    }
    // A tick of 20 ms, in which this test is quicker than the budget.
    with_host("n4", "100Mb/s", |_, datapath| {
        assert_eq!(
            datapath.passed(Direction::Rx, &control(Message::EcnCapability, false, 7000, 1)).expect("a test run"),
            None
        );
        let request = with_marker(tcp(ethernet(false, false), address(2, false), address(1, false), 7000, 10, 1));
        let ticks = |datapath: &InterfaceDatapath| datapath.timer().expect("the timer").ticks;
        let one = |datapath: &mut InterfaceDatapath| {
            datapath.passed(Direction::Rx, &request).expect("a test run").expect("it passes")
        };
        // The meter begins with the first tick that finds a packet.
        for _ in 0..3 {
            one(datapath);
            pause(std::time::Duration::from_millis(50));
        }
        let before = ticks(datapath);
        let requests = 2000;
        for _ in 0..requests {
            one(datapath);
        }
        let most = 32 * (ticks(datapath) - before + 1);
        let counters = datapath.counts().expect("counters");
        println!("{} of {requests} requests beyond the budget of {most}", counters.requests_limited);
        assert!(most < requests, "{most}: the machine was too slow to exceed the budget");
        // The timer has a processor of its own, and so may each run.
        assert!(counters.requests_limited > 0 && counters.requests_limited < requests, "{counters:?}");
    });
}

/// A packet that a switch floods triggers feedback only on its destination host, which may be the
/// host of a guest behind this interface.
#[test]
fn packets_for_other_hosts_trigger_no_feedback() {
    if skipped() {
        return;
    }
    with_host("n5", "1Gb/s", |_, datapath| {
        let device = interface();
        let feedback_sent =
            |datapath: &InterfaceDatapath| datapath.receive_reading(ServiceId(0)).expect("a meter").feedback_sent;
        let to = |hardware: [u8; 6], last: u8| {
            let mut frame = tcp(ethernet(false, false), address(2, false), address(last, false), 7000, 1400, 0);
            frame[..6].copy_from_slice(&hardware);
            frame
        };
        let guest = [2, 0, 0, 0, 0, 9];
        // Each call delivers fifty times the bytes between two feedback packets, with pauses after
        // which an unchanged rate is sent again.
        let arrive = |datapath: &mut InterfaceDatapath, hardware, last| {
            let before = feedback_sent(datapath);
            for _ in 0..10 {
                datapath.cost_from(device.index(), &to(hardware, last), 40).expect("a test run");
                pause(std::time::Duration::from_millis(30));
            }
            feedback_sent(datapath) - before
        };
        // The meter begins with the first tick.
        arrive(datapath, device.hardware(), 1);
        assert!(arrive(datapath, device.hardware(), 1) > 0, "this host's own");
        assert_eq!(arrive(datapath, guest, 9), 0, "another's");
        // The guest sends.
        let mut frame = tcp(ethernet(false, false), address(9, false), address(2, false), 7000, 10, 0);
        frame[6..12].copy_from_slice(&guest);
        datapath.passed(Direction::Tx, &frame).expect("a test run");
        assert!(arrive(datapath, guest, 9) > 0, "a guest's");
        assert_eq!(arrive(datapath, guest, 8), 0, "still another's");
    });
}

/// Test runs have no socket of an agent: TCP to the broker's address and port is dropped if it has SYN or payload, TCP
/// to its address without ports as well, and nothing else.
#[test]
fn tcp_of_other_sockets_to_a_fabric_broker_is_dropped() {
    if skipped() {
        return;
    }
    with_host("n12", "10Gb/s", |_, datapath| {
        let mut sends = |frame: &[u8]| datapath.passed(Direction::Tx, frame).expect("a test run").is_some();
        let to = |last: u8, port: u16, ipv6: bool| {
            tcp(ethernet(ipv6, false), address(1, ipv6), address(last, ipv6), port, 10, 0)
        };
        let cut = |last: u8| to(last, 30_567, false)[..14 + 20 + 8].to_vec();
        let later_fragment = |last: u8| {
            let mut frame = to(last, 30_567, false);
            frame[21] = 1;
            frame
        };
        let datagram = |port: u16| udp(ethernet(false, false), address(1, false), address(9, false), (40_000, port));
        let of_broker = [to(9, 30_567, false), to(9, 30_567, true), cut(9), later_fragment(9)];
        let others = [
            to(9, 30_566, false),
            to(9, 30_567 + 64, false),
            to(9, 64, true),
            to(8, 30_567, false),
            to(8, 30_567, true),
            cut(8),
            later_fragment(8),
            datagram(30_567),
        ];
        let all = |sends: &mut dyn FnMut(&[u8]) -> bool, frames: &[Vec<u8>]| -> Vec<bool> {
            frames.iter().map(|frame| sends(frame)).collect()
        };
        assert_eq!(all(&mut sends, &of_broker), [true; 4], "no broker is known");
        assert_eq!(all(&mut sends, &others), [true; 8], "no broker is known");
        let fabric = Arc::new(FabricSockets::default());
        datapath.set_fabric(&fabric).expect("set");
        let brokers = [false, true].map(|ipv6| SocketAddr::new(address(9, ipv6), 30_567));
        fabric.set_broker("broker", &brokers).expect("set");
        let mut sends = |frame: &[u8]| datapath.passed(Direction::Tx, frame).expect("a test run").is_some();
        assert_eq!(all(&mut sends, &of_broker), [false; 4]);
        assert_eq!(all(&mut sends, &others), [true; 8]);
        assert!(!sends(&datagram(30_565)), "UDP to the control port is dropped as before");
        let segment = |flags: u8, payload: usize, ipv6: bool| {
            let mut frame = tcp(ethernet(ipv6, false), address(1, ipv6), address(9, ipv6), 30_567, payload, 0);
            frame[if ipv6 { 14 + 40 } else { 14 + 20 } + 13] = flags;
            frame
        };
        let [fin, syn, rst, ack] = [1, 2, 4, 16];
        for ipv6 in [false, true] {
            let replies = [rst, rst | ack, ack, fin | ack].map(|flags| segment(flags, 0, ipv6));
            assert_eq!(all(&mut sends, &replies), [true; 4], "IPv6: {ipv6}: as the kernel's for closed sockets");
            let tenants = [(syn, 0), (syn | ack, 0), (syn, 1), (ack, 1), (rst, 1)];
            let tenants = tenants.map(|(flags, payload)| segment(flags, payload, ipv6));
            assert_eq!(all(&mut sends, &tenants), [false; 5], "IPv6: {ipv6}");
        }
        // Another setting keeps the brokers, and they can go.
        datapath.set_keys(&[FeedbackKey { id: 7, key: SipKey::new(KEY) }]).expect("keys");
        let mut sends = |frame: &[u8]| datapath.passed(Direction::Tx, frame).expect("a test run").is_some();
        assert_eq!(all(&mut sends, &of_broker), [false; 4]);
        fabric.set_broker("broker", &[]).expect("set");
        assert_eq!(all(&mut sends, &of_broker), [true; 4]);
        assert_eq!(datapath.counts().expect("counters").spoofed, 19);
    });
}

/// Whether the kernel resets a connection to a broker whose socket is gone, and no packet counts as spoofed.
fn is_reset_by_the_kernel(socket: socket2::Socket, broker: &TcpListener, datapath: &InterfaceDatapath) -> bool {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    let (on, size): (libc::c_int, _) = (1, size_of::<libc::c_int>() as libc::socklen_t);
    let spoofed = || datapath.counts().expect("counters").spoofed;
    let before = spoofed();
    // Closed in repair mode, a socket sends nothing.
    // SAFETY: the kernel reads one number.
    let set =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_TCP, libc::TCP_REPAIR, (&raw const on).cast(), size) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    drop(socket);
    let (mut connection, _) = broker.accept().expect("a connection");
    connection.write_all(b"x").expect("the buffer has room");
    (0..50).any(|_| later(connection.take_error().expect("a socket").is_some())) && spoofed() == before
}

#[test]
fn agents_sockets_connect_to_a_fabric_broker_and_no_others_do() {
    if skipped() {
        return;
    }
    let cable = Cable::new("n13");
    let listen = |port: u16| cable.b.run(|| TcpListener::bind(("10.77.0.2", port))).expect("enter").expect("a port");
    let listeners = [30_567, 30_568, 30_569].map(listen);
    let [broker, other, second] = listeners.each_ref().map(|listener| listener.local_addr().expect("an address"));
    let patience = std::time::Duration::from_secs(5);
    let connects = |to: SocketAddr| TcpStream::connect_timeout(&to, patience).is_ok();
    // What passes takes a millisecond.
    let is_refused = || TcpStream::connect_timeout(&broker, patience / 20).is_err();
    let inside = || {
        let socket = UdpSocket::bind(SocketAddr::new(address(1, false), 30_565)).expect("a socket");
        let fabric = Arc::new(FabricSockets::default());
        let new = || socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
        let connects_with = |fabric: &FabricSockets| {
            let socket = new();
            let cookie = fabric.open(&socket).expect("written");
            let connected = socket.connect_timeout(&broker.into(), patience).is_ok();
            drop(socket);
            fabric.close(cookie);
            connected
        };
        // A connection from before there are programs, as of a session that starts first.
        let early = new();
        fabric.open(&early).expect("no interface");
        early.connect_timeout(&broker.into(), patience).expect("connected");
        let tenant = TcpStream::connect_timeout(&broker, patience).expect("nothing keeps it from the tenant yet");
        fabric.set_broker("broker", &[broker, second]).expect("no interface");
        let (_, mut datapath) = attach(&socket, "10Gb/s", "");
        datapath.set_fabric(&fabric).expect("set");
        assert!(is_refused() && connects(other));
        assert!(connects_with(&fabric));
        let gone = new();
        fabric.open(&gone).expect("written");
        gone.connect_timeout(&second.into(), patience).expect("connected");
        assert!(is_reset_by_the_kernel(gone, &listeners[2], &datapath));
        // The session of an agent that has another interface.
        assert!(connects_with(&FabricSockets::default()));
        let delivers = |mut stream: &TcpStream| {
            use std::io::Write;
            stream.write_all(b"x").expect("the buffer has room");
            let unsent = || {
                let mut unsent: libc::c_int = 0;
                // SAFETY: the kernel writes one number.
                let read =
                    unsafe { libc::ioctl(std::os::fd::AsRawFd::as_raw_fd(stream), libc::TIOCOUTQ, &raw mut unsent) };
                assert_eq!(read, 0);
                unsent
            };
            (0..50).any(|_| later(unsent() == 0))
        };
        assert!(delivers(&early.into()), "a session from before goes on");
        assert!(!delivers(&tenant), "a tenant's connection from before does not");
        // Entries of agents that ended fill the map, which has 64.
        let many: Vec<_> = (0..80).map(|_| new()).collect();
        for socket in &many {
            FabricSockets::default().open(socket).expect("written");
        }
        assert!(connects_with(&fabric) && is_refused());
        datapath.remove().expect("removed");
        assert!(connects(broker));
    };
    cable.a.run(inside).expect("enter");
}
