//! Tenants' ECN bits arrive as they were sent, whoever sends to whom: what the programs make of frames by hand.

mod common;

use common::frames::{KEY, Says, address, coded, control, ecn, ethernet, origin, tcp};
use common::{Cable, interface, skipped};
use std::net::{SocketAddr, UdpSocket};
use weir_datapath::{Classifier, ShaperConfig, SipKey};
use weir_linux::class::Sending;
use weir_linux::loader::InterfaceDatapath;
use weir_linux::settings::{Classes, ControlSettings, FeedbackKey};
use weir_policy::Policy;
use weir_units::{Direction, MachineId};

const CODE: u8 = 0b10101;
/// A service's port, another's, and one of no service.
const PORTS: [u16; 3] = [7000, 7001, 80];

/// `a` under a policy, which the machine of the tests' frames is.
fn attach(socket: &UdpSocket) -> InterfaceDatapath {
    let text = "weir: 1
network:
  nic: 10Gb/s
  racks: { r: { uplink: 10Gb/s, machines: [a, b] } }
services:
  bulk: { match: [ { port: 7000 } ] }
  web: { match: [ { port: 7001 } ] }
";
    let (policy, _) = Policy::parse("p.yaml", text).expect("the policy is valid");
    let mut datapath = InterfaceDatapath::attach(&interface(), None).expect("attach");
    let services = policy.services();
    let classifier = Classifier::new(services.classification_order(), Some("eth")).expect("supported");
    datapath.set_slots(services.leaves().map(|(id, service)| (id, service.path()))).expect("slots");
    datapath.set_rules(&classifier, Classes::Htb).expect("rules");
    let (shaper, sending) = (ShaperConfig::parley(&policy, None, None), Sending::over(&interface()).expect("offloads"));
    datapath.set_shaper(&policy, MachineId(0), &shaper, sending).expect("the shaper");
    datapath.set_keys(&[FeedbackKey { id: 7, key: SipKey::new(KEY) }]).expect("keys");
    let control = ControlSettings {
        listen: socket.local_addr().expect("bound"),
        cookie: weir_linux::settings::cookie(socket).expect("a cookie"),
        epoch: 1,
        peers: Vec::new(),
        timeout: weir_units::Duration::from_secs(3600),
    };
    datapath.set_control(&control).expect("control");
    datapath.tell_alive().expect("alive");
    datapath.start_timer().expect("the timer");
    datapath
}

/// Runs `work` with `a` under a policy.
fn with_host(name: &str, work: impl FnOnce(&mut InterfaceDatapath) + Send) {
    let cable = Cable::new(name);
    let enter = || {
        let socket = UdpSocket::bind(SocketAddr::new(address(1, false), 30_565)).expect("a socket");
        let mut datapath = attach(&socket);
        work(&mut datapath);
        datapath.remove().expect("removed");
    };
    cable.a.run(enter).expect("enter");
}

#[test]
fn what_arrives_is_changed_only_where_its_sender_has_given_its_word() {
    if skipped() {
        return;
    }
    with_host("n1", |datapath| {
        let mut arrive = |frame: &[u8]| datapath.passed(Direction::Rx, frame).expect("a test run");
        for ipv6 in [false, true] {
            let frame =
                |from: u8, port, ecn| tcp(ethernet(ipv6, false), address(from, ipv6), address(1, ipv6), port, 10, ecn);
            // Hosts without Weir, and those that are not heard of: whatever it looks like, it is theirs.
            for (port, ecn) in PORTS.into_iter().flat_map(|port| (0..4).map(move |ecn| (port, ecn))) {
                for from in [2, 3] {
                    let frame = coded(frame(from, port, ecn));
                    assert_eq!(arrive(&frame).as_ref(), Some(&frame), "IPv6: {ipv6}, port {port}, ECN {ecn}");
                }
            }
            // A word is of one sender and one service.
            assert_eq!(arrive(&control(Says::Word, ipv6, 7000, 5)), None);
            for (port, ecn) in PORTS.into_iter().flat_map(|port| (0..4).map(move |ecn| (port, ecn))) {
                let [own, other] = [2, 3].map(|from| coded(frame(from, port, ecn)));
                let arrived = arrive(&own).expect("it passes");
                if port == 7000 {
                    assert_eq!((self::ecn(&arrived), origin(&arrived)), (0, CODE), "IPv6: {ipv6}, ECN {ecn}");
                } else {
                    assert_eq!(arrived, own, "IPv6: {ipv6}, port {port}, ECN {ecn}");
                }
                assert_eq!(arrive(&other).as_ref(), Some(&other), "IPv6: {ipv6}, port {port}, ECN {ecn}");
                let plain = frame(2, port, ecn);
                assert_eq!(arrive(&plain), Some(plain), "IPv6: {ipv6}, port {port}, ECN {ecn}: without the code");
            }
        }
        let counters = datapath.control_counters().expect("counters");
        assert_eq!((counters.forged, counters.replayed), (0, 0), "{counters:?}");
        let replayed = control(Says::Word, false, 7000, 5);
        assert_eq!(datapath.passed(Direction::Rx, &replayed).expect("a test run"), None);
        assert_eq!(datapath.control_counters().expect("counters").replayed, 1);
    });
}

#[test]
fn what_leaves_is_coded_only_towards_a_receiver_that_has_this_hosts_word() {
    if skipped() {
        return;
    }
    with_host("n2", |datapath| {
        for ipv6 in [false, true] {
            let frame =
                |to: u8, port, ecn| tcp(ethernet(ipv6, false), address(1, ipv6), address(to, ipv6), port, 10, ecn);
            let mut run = |direction, frame: &[u8]| datapath.passed(direction, frame).expect("a test run");
            let unchanged = |run: &mut dyn FnMut(Direction, &[u8]) -> Option<Vec<u8>>, to, port, ecn| {
                for frame in [frame(to, port, ecn), coded(frame(to, port, ecn))] {
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
            // It answers. What is not coded must not look so from now on, since this host's word is on its way.
            assert_eq!(run(Direction::Rx, &control(Says::Feedback, ipv6, 7000, 1)), None);
            for says in [None, Some(Says::Heard)] {
                if let Some(says) = says {
                    assert_eq!(run(Direction::Rx, &control(says, ipv6, 7000, 2)), None);
                }
                let left = run(Direction::Tx, &frame(2, 7000, 0)).expect("it leaves");
                match says {
                    None => assert_eq!(left, frame(2, 7000, 0), "it may not know"),
                    Some(_) => {
                        assert!((1..=2).contains(&ecn(&left)) && origin(&left) == CODE, "IPv6: {ipv6}: {left:02x?}");
                    }
                }
                for own in 1..4 {
                    let left = run(Direction::Tx, &coded(frame(2, 7000, own))).expect("it leaves");
                    assert_eq!(ecn(&left), own);
                    assert_ne!(origin(&left), CODE, "IPv6: {ipv6}, ECN {own}");
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
