//! The programs of a forwarder's port: messages and data through the kernel (`BPF_PROG_TEST_RUN`), over IPv4 and IPv6.

mod common;
#[path = "forwarder/port.rs"]
mod port;

use aya::programs::{SchedClassifier, TcAttachType};
use common::frames::{ethernet, tcp, words};
use common::{Cable, interface, skipped};
use port::{CAPACITY, CREDIT_KEY, DATA, FRAME, OTHER, Port, SERVICE, allocation, credit_port};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use weir_credits::wire::{self, Datagram};
use weir_credits::{Message, Period, Request};
use weir_datapath::abi::{self, ForwarderCounts};
use weir_datapath::{SipKey, credit_message};
use weir_linux::forwarder::{FlowKey, ForwarderPort};
use weir_linux::loader::LoaderError;
use weir_linux::pins::sweep;
use weir_linux::settings::FeedbackKey;
use weir_units::{Bytes, Duration, Weight};

fn both_families(test: &str, run: impl Fn(&Cable, bool)) {
    if skipped() {
        return;
    }
    for ipv6 in [false, true] {
        let cable = Cable::new(&format!("{test}{}", u8::from(ipv6)));
        run(&cable, ipv6);
    }
}

#[test]
fn allocations_are_reduced_and_data_uses_them() {
    both_families("f1", |cable, ipv6| {
        let mut port = Port::open(&cable.a, ipv6);
        port.request();
        // A half of C(p), rounded up; the budget of 2 · C_0 has room for it.
        let granted = port.allocate(1).expect("it passes");
        assert!((CAPACITY / 2..=CAPACITY / 2 + 1).contains(&granted), "{granted}");
        let reading = port.port.read().expect("read");
        assert_eq!((reading.outstanding, reading.queued), (Bytes::new(granted), Bytes::ZERO));
        // Two frames, an acknowledgement, and a packet of another service.
        assert!(port.data(DATA) && port.data(DATA) && port.data(OTHER));
        let (from, to) = port.hosts();
        let ack = tcp(ethernet(ipv6, false), from, to, DATA, 0, 0);
        assert!(port.port.passed(true, &ack).expect("a run").is_some());
        let reading = port.port.read().expect("read");
        assert_eq!((reading.credits.arrived, reading.outstanding.get()), (2 * FRAME, granted - 2 * FRAME));
        // Q drains at 100 Mb/s: of two frames, in the time of the calls between.
        assert!(reading.queued <= Bytes::new(2 * FRAME), "{reading:?}");
        // A later port has cut the grant to ten frames.
        port.give_back(1, 10 * FRAME).expect("it passes");
        let reading = port.port.read().expect("read");
        assert_eq!(reading.outstanding, Bytes::new(8 * FRAME));
        assert_eq!(reading.credits.released, granted - 10 * FRAME);
        assert!((0..8).all(|_| port.data(DATA)));
        assert!(!port.data(DATA), "data beyond the grant is dropped");
        let reading = port.port.read().expect("read");
        assert_eq!((reading.credits.late, reading.credits.late_packets, reading.counts.dropped), (FRAME, 1, 1));
        assert_eq!((reading.counts.messages, reading.outstanding), (3, Bytes::ZERO));
        let flows = port.port.flows().expect("read");
        assert_eq!(flows.len(), 1);
        assert_eq!(flows[0].key, FlowKey::new(SERVICE, from, to));
        assert_eq!((flows[0].arrived.demand, flows[0].arrived.clock, flows[0].ended), (CAPACITY as u32, 1, false));
    });
}

#[test]
fn messages_of_others_grant_nothing() {
    both_families("f2", |cable, ipv6| {
        let mut port = Port::open(&cable.a, ipv6);
        port.request();
        let like = Message::Allocation(allocation(1));
        let body = port.body(like);
        let mut expected = ForwarderCounts { messages: 1, ..ForwarderCounts::default() };
        for byte in [24, 56, 64] {
            let mut forged = body;
            forged[byte] ^= 1;
            assert_eq!(port.send_body(&forged, &like), None, "byte {byte}");
        }
        expected.forged = 3;
        let mut other = body;
        other[4] = 9;
        assert_eq!(port.send_body(&other, &like), None);
        other[..4].copy_from_slice(b"none");
        assert_eq!(port.send_body(&other, &like), None);
        expected.other_version = 1;
        expected.foreign = 1;
        // A weight out of range, of a sender with the key.
        let (from, to) = port.ends(&like);
        let fields = abi::Allocation { clock: 1, period: 1, weight: 1_000_001, ..abi::Allocation::default() };
        let message =
            abi::CreditMessage { service: SERVICE, epoch: 1, sequence: 9, key: 7, kind: 2, reserved: 0, fields };
        let heavy = credit_message::write(&message, &words(from), &words(to), &SipKey::new(CREDIT_KEY.bytes));
        assert_eq!(port.send_body(&heavy, &like), None);
        expected.malformed = 1;
        assert_eq!(port.port.read().expect("read").outstanding, Bytes::ZERO);
        // The authentic one passes once.
        assert!(port.send_body(&body, &like).is_some());
        assert_eq!(port.send_body(&body, &like), None);
        expected.messages = 2;
        expected.replayed = 1;
        // A request of a service without credits.
        let datagram = Datagram { service: 1, epoch: 1, sequence: 50, message: Message::Terminate };
        let (source, destination) = port.hosts();
        let unknown = wire::encode(&datagram, source, destination, &CREDIT_KEY);
        assert_eq!(port.send_body(&unknown, &Message::Terminate), None);
        expected.unknown = 1;
        assert_eq!(port.counts(), expected);
    });
}

#[test]
fn allocations_of_flows_of_other_ports_are_astray() {
    both_families("f3", |cable, ipv6| {
        let mut port = Port::open(&cable.a, ipv6);
        assert_eq!(port.allocate(1), Some(0));
        assert_eq!(port.port.read().expect("read").credits.astray, 1);
        assert_eq!(port.port.flows().expect("read"), []);
        // Data of a flow without an entry is late.
        assert!(!port.data(DATA));
        port.request();
        assert!(port.allocate(2).expect("it passes") > 0);
        // The flow's data has left by another port for longer than the memory.
        let rules = *port.credit.rules();
        port.port.publish(&rules, Duration::ZERO).expect("published");
        assert_eq!(port.allocate(3), Some(0));
        assert_eq!(port.port.read().expect("read").credits.astray, 2);
    });
}

#[test]
fn data_of_a_flow_that_moved_to_the_port_is_not_dropped() {
    both_families("f4", |cable, ipv6| {
        let mut port = Port::open(&cable.a, ipv6);
        // The grant was another port's.
        port.give_back(5, FRAME).expect("it passes");
        assert!(port.data(DATA));
        let reading = port.port.read().expect("read");
        assert_eq!((reading.credits.rerouted, reading.credits.late), (FRAME, 0));
        assert!(port.allocate(6).expect("it passes") > 0);
    });
}

/// A sender is silent for longer than the memory, and then sends more than it was granted.
#[test]
fn data_beyond_the_grants_is_dropped_after_a_silence() {
    both_families("f7", |cable, ipv6| {
        let mut port = Port::open(&cable.a, ipv6);
        port.request();
        for clock in 1..=6 {
            assert!(port.allocate(clock).expect("it passes") > 0);
            port.give_back(clock, FRAME).expect("it passes");
        }
        let rules = *port.credit.rules();
        port.port.publish(&rules, Duration::ZERO).expect("published");
        // All allocations have crossed the port, so the data has no credits of another one.
        port.give_back(6, FRAME).expect("it passes");
        let passed = (0..10).filter(|_| port.data(DATA)).count();
        let credits = port.port.read().expect("read").credits;
        assert!((1..10).contains(&passed) && credits.late_packets == 10 - passed as u64, "{passed}: {credits:?}");
        assert_eq!(credits.rerouted, 0);
        // Those before the return have not: the flow comes from another port.
        port.give_back(60, FRAME).expect("it passes");
        assert!(port.data(DATA));
        assert_eq!(port.port.read().expect("read").credits.rerouted, FRAME);
    });
}

/// Both ends lose their clocks, and then the sender is silent for longer than the memory.
#[test]
fn data_is_dropped_after_a_silence_of_a_flow_whose_clocks_start_anew() {
    both_families("fc", |cable, ipv6| {
        // Allocations of 1 s live longer than the wheel of a port of 20 ms: the flow has no live grant.
        let mut port = Port::open_with(&cable.a, ipv6, Period::from_micros(20_000));
        port.request();
        assert_eq!([port.allocate(10), port.allocate(12)], [Some(0); 2]);
        port.request();
        assert_eq!(port.allocate(1), Some(0));
        assert_eq!(port.port.read().expect("read").credits.stale, 0);
        let rules = *port.credit.rules();
        port.port.publish(&rules, Duration::ZERO).expect("published");
        port.give_back(1, FRAME).expect("it passes");
        assert!(!port.data(DATA));
        assert_eq!(port.port.read().expect("read").credits.rerouted, 0);
    });
}

#[test]
fn messages_of_a_forgotten_flow_are_replayed() {
    both_families("f8", |cable, ipv6| {
        let mut port = Port::open(&cable.a, ipv6);
        let request = Message::Request(Request { weight: Weight::ONE, clock: 0 });
        let bodies = [port.body(request), port.body(Message::Allocation(allocation(1)))];
        assert!(port.send_body(&bodies[0], &request).is_some());
        assert!(port.send_body(&bodies[1], &Message::Allocation(allocation(1))).is_some());
        let (source, destination) = port.hosts();
        let flow = FlowKey::new(SERVICE, source, destination);
        port.port.forget(&flow).expect("forgotten");
        assert_eq!(port.send_body(&bodies[0], &request), None);
        assert_eq!(port.port.flows().expect("read"), []);
        let granted = |passed: Datagram| match passed.message {
            Message::Allocation(allocation) => allocation.allocation,
            other => panic!("{other:?}"),
        };
        // Without an entry it is astray, and the next entry takes it for a replay.
        let passed = port.send_body(&bodies[1], &Message::Allocation(allocation(1)));
        assert_eq!(passed.map(granted), Some(Bytes::ZERO));
        port.request_after(1);
        assert_eq!(port.send_body(&bodies[1], &Message::Allocation(allocation(1))), None);
        assert_eq!(port.counts().replayed, 2);
        assert!(port.allocate(2).expect("it passes") > 0);
    });
}

#[test]
fn keys_with_one_number_all_verify() {
    both_families("f9", |cable, ipv6| {
        let mut port = Port::open(&cable.a, ipv6);
        // The numbers of keys have 16 bits.
        let keys = [[9; 16], CREDIT_KEY.bytes].map(|key| FeedbackKey { id: CREDIT_KEY.number, key: SipKey::new(key) });
        port.port.set_keys(&keys).expect("keys");
        port.request();
        assert_eq!(port.counts(), ForwarderCounts { messages: 1, ..ForwarderCounts::default() });
    });
}

#[test]
fn a_start_that_fails_leaves_nothing() {
    if skipped() {
        return;
    }
    let cable = Cable::new("fl");
    drop(Port::open(&cable.a, false));
    let inode = || std::fs::metadata("/proc/thread-self/ns/net").expect("a namespace").ino();
    let which =
        format!("-{}-{}", cable.a.run(inode).expect("enter"), cable.a.run(|| interface().index()).expect("enter"));
    let pins = || Path::new("/sys/fs/bpf/weir").join(format!("credits-forwarder{which}"));
    assert!(pins().join("weir_forward_rx").exists());
    // The program of arriving packets has a pin elsewhere, so that the next start can attach one program only.
    let elsewhere = Path::new("/sys/fs/bpf").join(format!("weir-test{which}"));
    std::fs::rename(pins().join("weir_forward_rx"), &elsewhere).expect("moved");
    let removed = || ForwarderPort::remove_leftover(&interface()).expect("removed");
    assert!(cable.a.run(removed).expect("enter"));
    let failed = cable.a.run(|| {
        let mut port = ForwarderPort::open(&interface(), 20).expect("opened");
        port.attach().expect_err("another program has the name")
    });
    std::fs::remove_file(&elsewhere).expect("removed");
    assert!(matches!(failed.expect("enter"), LoaderError::AlreadyAttached(_)));
    assert!(!pins().exists(), "no map and no program is left");
    assert!(!cable.a.run(removed).expect("enter"));
    drop(Port::open(&cable.a, false));
    assert!(cable.a.run(removed).expect("enter"));
}

#[test]
fn pins_of_a_deleted_interface_are_swept_from_another_namespace() {
    if skipped() {
        return;
    }
    let cable = Cable::new("fm");
    drop(Port::open(&cable.a, false));
    let inode = cable.a.run(|| std::fs::metadata("/proc/thread-self/ns/net").expect("a namespace").ino());
    let start = format!("credits-forwarder-{}-", inode.expect("enter"));
    let left = || {
        let entries = std::fs::read_dir("/sys/fs/bpf/weir").into_iter().flatten().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&start)).count()
    };
    sweep();
    assert_eq!(left(), 1, "its interface is there");
    cable.a.ip(["link", "delete", "eth"]).expect("deleted");
    sweep();
    assert_eq!(left(), 0);
}

#[test]
fn ended_flows_get_credits_after_a_request() {
    both_families("f5", |cable, ipv6| {
        let mut port = Port::open(&cable.a, ipv6);
        port.request();
        assert!(port.allocate(1).expect("it passes") > 0);
        port.send(Message::Terminate).expect("it passes");
        assert_eq!(port.port.read().expect("read").outstanding, Bytes::ZERO);
        // The receiver had sent it before the termination arrived.
        assert_eq!(port.allocate(2), Some(0));
        assert_eq!(port.port.read().expect("read").credits.ended, 1);
        port.request_after(1);
        assert!(port.allocate(3).expect("it passes") > 0);
    });
}

#[test]
fn maps_are_adopted_and_removed() {
    if skipped() {
        return;
    }
    let cable = Cable::new("fn");
    let mut port = Port::open(&cable.a, false);
    port.request();
    let granted = port.allocate(1).expect("it passes");
    assert!(!port.port.is_adopted());
    let second = || ForwarderPort::open(&interface(), 20);
    assert!(cable.a.run(second).expect("enter").is_err(), "one daemon at a time");
    // A daemon that ends leaves everything in force.
    let sequence = port.sequence;
    assert!(cable.a.run(|| port.port.is_attached()).expect("enter").expect("readable"));
    drop(port);
    let mut next = Port { sequence, ..Port::open(&cable.a, false) };
    assert!(next.port.is_adopted());
    let reading = next.port.read().expect("read");
    assert_eq!((reading.outstanding, reading.counts.messages), (Bytes::new(granted), 2));
    assert!(next.data(DATA));
    // Another wheel: until its programs are attached, those of before stay in force with their grants.
    let (sequence, before) = (next.sequence, next.port.read().expect("read").outstanding);
    drop(next);
    let slot_bits = credit_port(Period::from_micros(20_000)).rules().slot_bits;
    let opened = || ForwarderPort::open(&interface(), slot_bits).expect("opened").is_adopted();
    assert!(!cable.a.run(opened).expect("enter"));
    let next = Port { sequence, ..Port::open(&cable.a, false) };
    let outstanding = next.port.read().expect("read").outstanding;
    assert!(next.port.is_adopted() && before > Bytes::ZERO);
    assert_eq!(outstanding, before);
    // Then the grants are lost, and the programs stay attached.
    drop(next);
    let other = Port::open_with(&cable.a, false, Period::from_micros(20_000));
    assert!(!other.port.is_adopted());
    assert_eq!(other.port.read().expect("read").outstanding, Bytes::ZERO);
    drop(other);
    let removed = || ForwarderPort::remove_leftover(&interface()).expect("removed");
    // A pin's deletion alone detaches the program at a later time.
    let running = || {
        let there = |direction| SchedClassifier::query_tcx(interface().name(), direction).expect("programs").1.len();
        (removed(), there(TcAttachType::Ingress), there(TcAttachType::Egress))
    };
    assert_eq!(cable.a.run(running).expect("enter"), (true, 0, 0));
    assert!(!cable.a.run(removed).expect("enter"), "nothing is left");
}

/// At 1 kb/s a frame takes 12 s, longer than a reading is late, and 2 · C_0 = 250 bytes drain in 2 · p.
#[test]
fn data_beyond_the_grants_is_in_the_queue_up_to_the_budget() {
    both_families("fo", |cable, ipv6| {
        let mut port = Port::open(&cable.a, ipv6);
        let rules = abi::CreditRules { rate: 1_000, lossless: 0, ..*port.credit.rules() };
        port.port.publish(&rules, Duration::from_secs(60)).expect("published");
        let budget = 2 * rules.rate * u64::from(rules.longest.max(rules.period)) / 8_000_000;
        let is_bounded = |port: &Port| {
            let queued = port.port.read().expect("read").queued.get();
            assert!((1..=budget + FRAME).contains(&queued), "{queued} of {budget} B");
        };
        // Of a flow without an entry, and then of one without a grant: both pass.
        assert!((0..20).all(|_| port.data(DATA)));
        is_bounded(&port);
        port.request();
        assert!((0..20).all(|_| port.data(DATA)));
        is_bounded(&port);
        assert_eq!(port.port.read().expect("read").credits.late_packets, 40);
    });
}

/// At 10 kb/s a small frame of 64 bytes takes 50 ms, and 2 · C_0 drain in 2 · p.
#[test]
fn packets_without_credits_are_in_the_queue() {
    both_families("fj", |cable, ipv6| {
        let mut port = Port::open(&cable.a, ipv6);
        let rules = abi::CreditRules { rate: 10_000, ..*port.credit.rules() };
        port.port.publish(&rules, Duration::from_secs(1)).expect("published");
        let queued = |port: &Port| port.port.read().expect("read").queued.get();
        assert!(port.data(OTHER));
        assert_eq!(queued(&port), 0, "another service has the rest of the link");
        let (from, to) = port.hosts();
        let ack = tcp(ethernet(ipv6, false), from, to, DATA, 0, 0);
        for _ in 0..50 {
            assert!(port.port.passed(true, &ack).expect("a run").is_some());
        }
        let budget = 2 * rules.rate * u64::from(rules.longest.max(rules.period)) / 8_000_000;
        assert!((1..budget + 2 * 64 + 40).contains(&queued(&port)), "{} of {budget} B", queued(&port));
    });
    both_families("fk", |cable, ipv6| {
        let mut port = Port::open(&cable.a, ipv6);
        let rules = abi::CreditRules { rate: 10_000, ..*port.credit.rules() };
        port.port.publish(&rules, Duration::from_secs(1)).expect("published");
        port.port.set_whole(true).expect("set");
        assert!(port.data(OTHER) && port.port.read().expect("read").queued > Bytes::ZERO);
    });
}
