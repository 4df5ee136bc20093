//! What a packet costs in each program, as the kernel measures it (`BPF_PROG_TEST_RUN`): the whole `weir_egress` and `weir_ingress`,
//! with twenty services, receive meters, feedback and ECN.
//!
//! `cargo bench -p weir-linux --bench cost`, as root. A row is the least of [`RUNS`] averages over [`REPEAT`] packets: what else the
//! machine does only adds. The packets are of 64 to 1,514 bytes; what a row costs does not depend on it.

#[path = "../tests/common/mod.rs"]
mod common;

use common::frames::{self, KEY, Says, address, ethernet, tcp};
use common::{Cable, interface, skipped};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use weir_datapath::{Classifier, ShaperConfig, SipKey};
use weir_linux::class::Sending;
use weir_linux::loader::InterfaceDatapath;
use weir_linux::settings::{Classes, ControlSettings, FeedbackKey};
use weir_policy::Policy;
use weir_units::{Direction, MachineId};

const RUNS: usize = 20;
const REPEAT: u32 = 50_000;
const SERVICES: u16 = 20;

/// Services are the TCP ports from 7000.
fn policy() -> Policy {
    let services: String =
        (0..SERVICES).map(|i| format!("  s{i}: {{ match: [ {{ protocol: tcp, port: {} }} ] }}\n", 7000 + i)).collect();
    let text = format!(
        "weir: 1\nnetwork:\n  nic: 10Gb/s\n  racks: {{ r: {{ uplink: 10Gb/s, machines: [a, b] }} }}\nservices:\n{services}"
    );
    Policy::parse("policy.yaml", &text).expect("the policy is valid").0
}

fn attach(policy: &Policy, socket: &UdpSocket) -> InterfaceDatapath {
    let mut datapath = InterfaceDatapath::attach(&interface(), None).expect("attach");
    let services = policy.services();
    let classifier = Classifier::new(services.classification_order(), Some("eth")).expect("supported");
    datapath.set_slots(services.leaves().map(|(id, service)| (id, service.path()))).expect("slots");
    datapath.set_rules(&classifier, Classes::Htb).expect("rules");
    let sending = Sending::over(&interface()).expect("offloads");
    datapath.set_shaper(policy, MachineId(0), &ShaperConfig::parley(policy, None, None), sending).expect("the shaper");
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

fn main() {
    if skipped() {
        return;
    }
    let policy = policy();
    let cable = Cable::new("c1");
    let enter = || {
        let socket = UdpSocket::bind(SocketAddr::new(address(1, false), 30_565)).expect("a socket");
        let mut datapath = attach(&policy, &socket);
        let device = interface().index();
        measure(&mut datapath, device);
        datapath.remove().expect("removed");
    };
    cable.a.run(enter).expect("enter");
}

fn measure(datapath: &mut InterfaceDatapath, device: u32) {
    let mut row = |name: &str, direction: Direction, frame: &[u8], repeat: u32, on: Option<u32>| {
        let mut costs: Vec<Duration> =
            (0..RUNS).map(|_| datapath.cost(direction, frame, repeat, on).expect("a test run")).collect();
        costs.sort();
        println!("{name:<58} {:>5} ns {:>7} ns", costs[0].as_nanos(), costs[RUNS / 2].as_nanos());
        datapath.tell_alive().expect("alive");
    };
    println!("{:<58} {:>8} {:>10}", "", "least", "median");
    // `a` learns of `b`, in both families.
    for (ipv6, sequence) in [(false, 1), (true, 2)] {
        for port in [7000, 7000 + SERVICES - 1] {
            row(
                "(feedback that is new, once)",
                Direction::Rx,
                &frames::control(Says::Heard, ipv6, port, sequence),
                1,
                None,
            );
        }
    }
    for (ipv6, family) in [(false, "IPv4"), (true, "IPv6")] {
        let group = || ethernet(ipv6, true);
        let [a, b, c] = [1, 2, 3].map(|last| address(last, ipv6));
        let last = 7000 + SERVICES - 1;
        let out = |to, port| tcp(group(), a, to, port, 10, 0);
        let come = |port, payload, ecn| tcp(group(), b, a, port, payload, ecn);
        row(&format!("{family} leaves, first rule"), Direction::Tx, &out(c, 7000), REPEAT, None);
        row(&format!("{family} leaves, last of {SERVICES} rules"), Direction::Tx, &out(c, last), REPEAT, None);
        row(&format!("{family} leaves, no rule"), Direction::Tx, &out(c, 80), REPEAT, None);
        row(
            &format!("{family} leaves towards a receiver that answered, first rule"),
            Direction::Tx,
            &out(b, 7000),
            REPEAT,
            None,
        );
        row(
            &format!("{family} leaves towards a receiver that answered, last rule"),
            Direction::Tx,
            &out(b, last),
            REPEAT,
            None,
        );
        row(&format!("{family} arrives, first rule"), Direction::Rx, &come(7000, 10, 0), REPEAT, None);
        row(&format!("{family} arrives, last of {SERVICES} rules"), Direction::Rx, &come(last, 10, 0), REPEAT, None);
        row(&format!("{family} arrives, no rule"), Direction::Rx, &come(80, 10, 0), REPEAT, None);
        row(
            &format!("{family} arrives, first rule, its tenant's own ECT(0)"),
            Direction::Rx,
            &come(7000, 10, 2),
            REPEAT,
            None,
        );
        row(
            &format!("{family} feedback arrives, replayed"),
            Direction::Rx,
            &frames::control(Says::Heard, ipv6, 7000, 1),
            REPEAT,
            None,
        );
        let mut answered = tcp(ethernet(ipv6, false), b, a, 7000, 1440, 0);
        answered[..6].copy_from_slice(&interface().hardware());
        row(
            &format!("{family} arrives, 1,494 B, a seventh answered"),
            Direction::Rx,
            &answered,
            REPEAT / 10,
            Some(device),
        );
    }
}
