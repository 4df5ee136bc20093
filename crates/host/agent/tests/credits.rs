//! Services with credits between real hosts: three namespaces on a bridge, each with an agent's host, real TCP and UDP.
#![expect(clippy::disallowed_methods, reason = "a test of real hosts waits in real time")]

mod rack;

use rack::{EndOnDrop, FORWARDERS, FRAME, NIC, PAYLOAD, PLAIN, Rack, Traffic, pause, tcp, udp};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_agent::CreditReading;
use weir_agent::host::{Host, HostError, Missing};
use weir_credits::host::Held;
use weir_linux::credits::PAIRS_MAX;
use weir_linux::requirements::{Purpose, check};
use weir_linux::shaper::ShaperError;
use weir_units::{Bandwidth, Weight};

/// Whether this host lacks what the lab needs, which is reported; with WEIR_NO_SKIP that is a failure.
fn is_skipped() -> bool {
    let skipped = !check(Purpose::Lab).is_empty();
    if skipped {
        assert!(std::env::var_os("WEIR_NO_SKIP").is_none(), "WEIR_NO_SKIP is set, and this cannot run");
        let line = "skipped: credits between hosts: root and Linux's network parts are required\n";
        std::io::stderr().write_all(line.as_bytes()).expect("standard error takes a line");
    }
    skipped
}

fn warm() -> Duration {
    Duration::from_millis(500)
}

fn reading(host: &Host) -> CreditReading {
    host.credits().expect("services have credits")
}

/// Whether rates divide their sum as `parts` do, and the sum is the interface's. Busy processors make threads late, so
/// periods are lost: of one flow more than of another, and of the sum. What waited in the sockets of a receiver that
/// was not run before the measured time is added to it.
fn are_parts(rates: &[f64], parts: &[f64]) -> bool {
    let sum: f64 = rates.iter().sum();
    let divided = rates.iter().zip(parts).all(|(rate, part)| ((0.8 * part)..=(1.2 * part)).contains(&(rate / sum)));
    divided && (0.5 * NIC..=1.1 * NIC).contains(&sum)
}

/// Whether so many bytes are at most 2 % of those that arrived with credits. A gate closes when its thread runs: one
/// that is late by some periods lets data out whose grant has expired.
fn is_rare(lost: u64, arrived: u64) -> bool {
    lost * 50 <= arrived
}

#[test]
fn weights_share_the_first_port() {
    if is_skipped() {
        return;
    }
    let rack = Rack::new("wca", PLAIN);
    let hosts: Vec<Host> = (0..3).map(|machine| rack.install(machine, 7)).collect();
    let both = [udp(0, 1, 5001), udp(0, 1, 5002)];
    let (rates, middle) = std::thread::scope(|scope| {
        let rates = scope.spawn(|| rack.rates(&both, warm(), Duration::from_secs(2)));
        // A thread that is late for some periods leaves a flow without an allocation, or ends it, for a moment.
        let states = (0..40).map(|_| {
            std::thread::sleep(Duration::from_millis(50));
            reading(&hosts[0])
        });
        let middle = { states }.find(|state| {
            let all = state.flows[0] == 2 && state.sending.len() == 2;
            all && state.sending.iter().all(|flow| flow.held == Some(Held::FirstPort))
        });
        (rates.join().expect("measured"), middle)
    });
    println!("{rates:.2?} Mb/s, {:?}", reading(&hosts[0]));
    assert!(are_parts(&rates, &[1.0 / 3.0, 2.0 / 3.0]), "{rates:?}");
    let middle = middle.expect("a state in which the first port holds both flows");
    let weights: Vec<_> = middle.sending.iter().filter_map(|flow| flow.weight).map(Weight::thousandths).collect();
    assert_eq!(weights, [1_000, 2_000]);
    assert!(middle.first.budget > 0 && middle.first.per_weight > 0, "{middle:?}");
    // Two pairs of service a have the weight of one.
    let pairs = [udp(0, 1, 5001), udp(0, 2, 5001), udp(0, 2, 5002)];
    let rates = rack.rates(&pairs, warm(), Duration::from_secs(2));
    println!("{rates:.2?} Mb/s, {:?}", reading(&hosts[0]));
    assert!(are_parts(&rates, &[1.0 / 6.0, 1.0 / 6.0, 2.0 / 3.0]), "{rates:?}");
    let reading = reading(&hosts[0]);
    assert_eq!((reading.host.overspent, reading.messages.forged), (0, 0), "{reading:?}");
    assert!(is_rare(reading.port.late, reading.port.arrived), "{reading:?}");
    hosts.into_iter().for_each(|host| host.remove().expect("removed"));
}

#[test]
fn forwarders_share_an_incast_and_lose_nothing() {
    if is_skipped() {
        return;
    }
    let rack = Rack::new("wcd", FORWARDERS);
    let hosts: Vec<Host> = (0..3).map(|machine| rack.install(machine, 7)).collect();
    // The port to m3 is the bottleneck: service a has two pairs there.
    let flows = [udp(0, 2, 5001), udp(1, 2, 5003), udp(0, 2, 5002)];
    let (rates, ports) = rack.forward(|| rack.rates(&flows, Duration::from_secs(1), Duration::from_secs(3)));
    println!("{rates:.2?} Mb/s, {:?}\n{ports:#?}", hosts.iter().map(reading).collect::<Vec<_>>());
    assert!(are_parts(&rates, &[1.0 / 6.0, 1.0 / 6.0, 2.0 / 3.0]), "{rates:?}");
    for port in &ports {
        let failed = (port.messages_forged, port.rewrites_failed);
        assert_eq!((port.lossless, failed), (true, (0, 0)), "{port:?}");
        let lost = port.late_packets + port.dropped_packets;
        assert!(is_rare(lost * FRAME, port.arrived_bytes), "{port:?}");
        assert!(port.outstanding_bytes + port.queued_bytes <= 500_000, "{port:?}");
    }
    hosts.into_iter().for_each(|host| host.remove().expect("removed"));
}

#[test]
fn tcp_uses_its_credits_in_both_families() {
    if is_skipped() {
        return;
    }
    let rack = Rack::new("wcb", PLAIN);
    let hosts: Vec<Host> = (0..3).map(|machine| rack.install(machine, 7)).collect();
    for is_v6 in [false, true] {
        let flows = [Traffic { is_v6, ..tcp(0, 1, 5001) }];
        let rates = rack.rates(&flows, warm(), Duration::from_secs(2));
        println!("{rates:.2?} Mb/s, {:?}", reading(&hosts[0]));
        assert!(are_parts(&rates, &[1.0]), "{rates:?}");
    }
    // Flows that have ended leave neither allocations nor credits.
    std::thread::sleep(Duration::from_millis(800));
    let all: Vec<CreditReading> = hosts.iter().map(reading).collect();
    let left: Vec<_> = all.iter().map(|reading| (reading.flows, reading.outstanding)).collect();
    assert_eq!(left, [([0, 0], 0); 3]);
    hosts.into_iter().for_each(|host| host.remove().expect("removed"));
}

/// Sends `count` datagrams from a machine to an address.
fn send_some(rack: &Rack, machine: usize, at: SocketAddr, count: usize) {
    let send = || {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("bound");
        for _ in 0..count {
            socket.send_to(&[0; PAYLOAD], at).expect("sent");
        }
    };
    rack.hosts[machine].run(send).expect("inside");
}

/// Datagrams that arrive at a socket: so many within 10 s, and later ones.
fn arrivals_from(sink: &UdpSocket, count: usize) -> usize {
    let began = Instant::now();
    let mut arrived = 0;
    while arrived < count && began.elapsed() < Duration::from_secs(10) {
        arrived += arrivals(sink, Duration::from_millis(20));
    }
    arrived + arrivals(sink, Duration::from_millis(100))
}

/// Datagrams that arrive at a socket within a time.
fn arrivals(sink: &UdpSocket, time: Duration) -> usize {
    sink.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
    let (began, mut buffer) = (Instant::now(), [0; 2 * PAYLOAD]);
    let mut count = 0;
    while began.elapsed() < time {
        count += usize::from(sink.recv(&mut buffer).is_ok());
    }
    count
}

#[test]
fn a_renewed_host_is_no_replay() {
    if is_skipped() {
        return;
    }
    let rack = Rack::new("wce", PLAIN);
    let mut hosts: Vec<Host> = (0..2).map(|machine| rack.install(machine, 7)).collect();
    let flows = [udp(0, 1, 5001)];
    let before = rack.rates(&flows, warm(), Duration::from_millis(500));
    for renewed in [0, 1] {
        rack.renew(&mut hosts[renewed], renewed, 7);
        let after = rack.rates(&flows, warm(), Duration::from_secs(1));
        println!("{before:.2?} and {after:.2?} Mb/s, {:?}", hosts.iter().map(reading).collect::<Vec<_>>());
        assert!(are_parts(&after, &[1.0]), "{before:?} before, {after:?} after host {renewed}");
    }
    for host in &hosts {
        assert_eq!(reading(host).messages.replayed, 0, "{:?}", reading(host));
    }
    hosts.into_iter().for_each(|host| host.remove().expect("removed"));
}

#[test]
fn waiting_data_outlives_a_change_of_policy_and_of_agent() {
    if is_skipped() {
        return;
    }
    let rack = Rack::new("wcf", PLAIN);
    let mut sender = rack.install(0, 7);
    let at = udp(0, 1, 5001).address();
    let sink = rack.hosts[1].run(|| UdpSocket::bind(at).expect("bound")).expect("inside");
    // The receiver has no agent yet, so there are no credits.
    send_some(&rack, 0, at, 5);
    std::thread::sleep(Duration::from_millis(200));
    rack.renew(&mut sender, 0, 7);
    send_some(&rack, 0, at, 5);
    std::thread::sleep(Duration::from_millis(200));
    sender.keep();
    drop(sender);
    let sender = rack.install(0, 7);
    send_some(&rack, 0, at, 5);
    assert_eq!(arrivals(&sink, Duration::from_millis(300)), 0);
    let receiver = rack.install(1, 7);
    // Requests are repeated after a second at the latest.
    assert_eq!(arrivals_from(&sink, 15), 15, "{:?}", reading(&sender));
    [sender, receiver].into_iter().for_each(|host| host.remove().expect("removed"));
}

/// Sends `count` datagrams from a machine to an address, from any port: a program in a container may do that.
fn send_raw(rack: &Rack, machine: usize, from: u16, at: SocketAddr, count: usize) {
    let send = || {
        let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)).expect("root");
        let words = [from, at.port(), 8 + 72, 0];
        let datagram: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).chain([0; 72]).collect();
        for _ in 0..count {
            socket.send_to(&datagram, &at.into()).expect("sent");
        }
    };
    rack.hosts[machine].run(send).expect("inside");
}

#[test]
fn tenants_send_nothing_from_the_port_of_credits() {
    if is_skipped() {
        return;
    }
    let rack = Rack::new("wch", PLAIN);
    let sender = rack.install(0, 7);
    let at: SocketAddr = "10.80.0.2:9".parse().expect("an address");
    let sink = rack.hosts[1].run(|| UdpSocket::bind(at).expect("bound")).expect("inside");
    send_raw(&rack, 0, 30_568, at, 20);
    assert_eq!(arrivals(&sink, Duration::from_millis(200)), 0);
    send_raw(&rack, 0, 30_569, at, 20);
    send_raw(&rack, 2, 30_568, at, 20);
    assert_eq!(arrivals_from(&sink, 40), 40);
    sender.remove().expect("removed");
}

#[test]
fn credits_return_with_the_qdisc() {
    if is_skipped() {
        return;
    }
    let rack = Rack::new("wcj", PLAIN);
    let (mut sender, receiver) = (rack.install(0, 7), rack.install(1, 7));
    let flows = [udp(0, 1, 5001)];
    let rates = rack.rates(&flows, warm(), Duration::from_millis(500));
    assert!(are_parts(&rates, &[1.0]), "{rates:?}");
    let replace =
        || std::process::Command::new("tc").args(["qdisc", "replace", "dev", "eth0", "root", "pfifo"]).status();
    assert!(rack.hosts[0].run(replace).expect("inside").is_ok_and(|status| status.success()));
    let foreign = rack.with_context(0, 7, |context| sender.restore(context, false));
    assert!(matches!(foreign, Err(HostError::Shaper(ShaperError::Foreign(_)))), "{foreign:?}");
    rack.renew(&mut sender, 0, 7);
    assert_eq!(sender.credits(), None, "there are no gates");
    let rates = rack.rates(&flows, warm(), Duration::from_millis(500));
    assert!(rates[0] > 0.5 * NIC, "data leaves without credits: {rates:?}");
    rack.with_context(0, 7, |context| sender.restore(context, true).expect("restored"));
    let rates = rack.rates(&flows, warm(), Duration::from_secs(1));
    assert!(are_parts(&rates, &[1.0]), "{rates:?}");
    [sender, receiver].into_iter().for_each(|host| host.remove().expect("removed"));
}

fn is_taken(started: &Result<(), HostError>) -> bool {
    matches!(started, Err(HostError::CreditStart(error)) if matches!(**error, HostError::CreditSocket(_)))
}

/// Without its socket a thread cannot start, and data waits until it can.
#[test]
fn the_port_of_credits_stays_taken_and_is_taken_again() {
    if is_skipped() {
        return;
    }
    let mut rack = Rack::new("wci", PLAIN);
    let (mut sender, receiver) = (rack.install(0, 7), rack.install(1, 7));
    let bind = |rack: &Rack| rack.hosts[0].run(|| UdpSocket::bind("[::]:30568")).expect("inside");
    let ends = &AtomicBool::new(false);
    let attempts = std::thread::scope(|scope| {
        let end = EndOnDrop(ends);
        let host = &rack.hosts[0];
        let attempt = move || {
            let mut attempts = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                attempts.push(UdpSocket::bind("[::]:30568").is_ok());
                std::thread::sleep(Duration::from_micros(100));
            }
            attempts
        };
        let attempts = scope.spawn(move || host.run(attempt).expect("inside"));
        (0..3).for_each(|_| rack.renew(&mut sender, 0, 7));
        drop(end);
        attempts.join().expect("no panic")
    });
    assert!(!attempts.is_empty() && !attempts.contains(&true), "{} attempts", attempts.len());
    std::mem::swap(&mut rack.policy, &mut rack.without);
    rack.renew(&mut sender, 0, 7);
    let taken = bind(&rack).expect("free without credits");
    assert!(matches!(sender.missing(), Ok(None)), "{:?}", sender.missing());
    // All the rest of a policy is in force without credits: it has one service more, with a limit.
    rack.policy = rack.policy_with("c: { match: [ { port: 6000 } ], machine: { max: 20Mb/s }, credits: {} }");
    let renewed = rack.with_context(0, 7, |context| sender.renew(context, false));
    assert!(is_taken(&renewed), "{renewed:?}");
    assert_eq!(sender.limits().len(), 3);
    assert!(sender.send_limits().contains(&Bandwidth::from_mbps(20)), "{:?}", sender.send_limits());
    for _ in 0..2 {
        assert!(matches!(sender.missing(), Ok(Some(Missing::Credits))), "{:?}", sender.missing());
        let started = rack.with_context(0, 7, |context| sender.start_credits(context));
        assert!(is_taken(&started), "{started:?}");
    }
    drop(taken);
    rack.with_context(0, 7, |context| sender.start_credits(context).expect("started"));
    assert!(matches!(sender.missing(), Ok(None)), "{:?}", sender.missing());
    let rates = rack.rates(&[udp(0, 1, 5001)], warm(), Duration::from_millis(500));
    assert!(are_parts(&rates, &[1.0]), "{rates:?}");
    [sender, receiver].into_iter().for_each(|host| host.remove().expect("removed"));
}

/// Begins a connection and closes it: its first frame makes a pair, and needs no credits.
fn connect_some(at: SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), Some(Protocol::TCP)).expect("a socket");
    let error = socket.connect(&at.into()).expect_err("no connection at once");
    assert_eq!(error.raw_os_error(), Some(libc::EINPROGRESS));
}

/// The first state of a host's credits for which `is` holds.
fn state_with(host: &Host, is: impl Fn(&CreditReading) -> bool) -> CreditReading {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(60) {
        let state = reading(host);
        if is(&state) {
            return state;
        }
        pause();
    }
    panic!("not within 60 s: {:?}", reading(host))
}

/// Begins pairs with new hosts of 10.81.0.0/16 until `is_done`, for a minute at most; returns whether it is.
fn begin_pairs(is_done: impl Fn() -> bool) -> bool {
    let began = Instant::now();
    let batches = (0x0a51_0001..0x0a51_ff00).step_by(32);
    for first in batches.take_while(|_| !is_done() && began.elapsed().as_secs() < 60) {
        (first..first + 32).for_each(|ip| connect_some(SocketAddr::new(Ipv4Addr::from_bits(ip).into(), 5001)));
        std::thread::sleep(Duration::from_millis(20));
    }
    is_done()
}

/// More pairs than there are gates, one after the other.
#[test]
fn idle_pairs_give_up_their_gates_and_waiting_data_keeps_its_own() {
    if is_skipped() {
        return;
    }
    let rack = Rack::new("wck", PLAIN);
    let sender = rack.install(0, 7);
    let at = udp(0, 1, 5001).address();
    let sink = rack.hosts[1].run(|| UdpSocket::bind(at).expect("bound")).expect("inside");
    send_some(&rack, 0, at, 5);
    rack.hosts[0].ip(["route", "add", "10.81.0.0/16", "via", "10.80.0.2"]).expect("a route");
    // A thread that is late leaves some without gates.
    let is_done = || reading(&sender).host.begun > u64::from(PAIRS_MAX);
    assert!(rack.hosts[0].run(|| begin_pairs(is_done)).expect("inside"), "{:?}", reading(&sender));
    // Only the flow with data that waits is left.
    let state = state_with(&sender, |state| state.flows[0] == 1);
    let receiver = rack.install(1, 7);
    assert_eq!(state.dropped, 0, "{state:?}");
    assert_eq!(arrivals_from(&sink, 5), 5, "{:?}", reading(&sender));
    // New pairs still have gates, and so has one that gave its own up.
    let rates = rack.rates(&[udp(0, 1, 5002)], warm(), Duration::from_millis(500));
    assert!(are_parts(&rates, &[1.0]), "{rates:?}");
    [sender, receiver].into_iter().for_each(|host| host.remove().expect("removed"));
}

/// Service a has all gates, for hosts without agents.
#[test]
fn a_service_gives_up_gates_that_another_one_needs() {
    if is_skipped() {
        return;
    }
    // Flows give up their gates after 10 periods, 10 s, and end after 20. Before, all gates can be taken: in 2 s.
    let mut rack = Rack::new("wcl", PLAIN);
    rack.period = weir_units::Duration::from_secs(1);
    let (sender, receiver) = (rack.install(0, 7), rack.install(1, 7));
    rack.hosts[0].ip(["route", "add", "10.81.0.0/16", "via", "10.80.0.2"]).expect("a route");
    let is_full = || reading(&sender).flows[0] == PAIRS_MAX as usize;
    assert!(rack.hosts[0].run(|| begin_pairs(is_full)).expect("inside"), "{:?}", reading(&sender).flows);
    let full = Instant::now();
    let state = state_with(&sender, |state| state.flows[0] < PAIRS_MAX as usize);
    assert!(state.flows[0] > PAIRS_MAX as usize / 2, "the others have not ended: {:?}", state.flows);
    let other = udp(0, 1, 5002).address();
    let sink = rack.hosts[1].run(|| UdpSocket::bind(other).expect("bound")).expect("inside");
    send_some(&rack, 0, other, 5);
    assert_eq!(arrivals_from(&sink, 5), 5, "after {:?}: {:?}", full.elapsed(), reading(&sender).flows);
    state_with(&sender, |state| state.flows[0] == 0);
    [sender, receiver].into_iter().for_each(|host| host.remove().expect("removed"));
}

#[test]
fn data_to_a_host_without_an_agent_gives_up_its_gate() {
    if is_skipped() {
        return;
    }
    let rack = Rack::new("wcm", PLAIN);
    let sender = rack.install(0, 7);
    let at = udp(0, 1, 5001).address();
    send_some(&rack, 0, at, 5);
    let began = Instant::now();
    let state = state_with(&sender, |state| state.host.begun > 0 && state.flows[0] == 0);
    assert_eq!(state.dropped, 5, "{state:?}");
    assert!(began.elapsed() > Duration::from_secs(29), "after {:?}", began.elapsed());
    let receiver = rack.install(1, 7);
    let sink = rack.hosts[1].run(|| UdpSocket::bind(at).expect("bound")).expect("inside");
    send_some(&rack, 0, at, 5);
    assert_eq!(arrivals_from(&sink, 5), 5, "{:?}", reading(&sender));
    [sender, receiver].into_iter().for_each(|host| host.remove().expect("removed"));
}

#[test]
fn tenants_send_nothing_to_the_port_of_credits() {
    if is_skipped() {
        return;
    }
    let rack = Rack::new("wcg", PLAIN);
    let (sender, receiver) = (rack.install(0, 7), rack.install(1, 7));
    let at: SocketAddr = "10.80.0.2:30568".parse().expect("an address");
    let foreign = |least| {
        state_with(&receiver, |state| state.messages.foreign >= least);
        std::thread::sleep(Duration::from_millis(300));
        reading(&receiver).messages.foreign
    };
    send_some(&rack, 0, at, 20);
    assert_eq!(foreign(0), 0);
    // A host without an agent is no host of the policy, and has no key.
    send_some(&rack, 2, at, 20);
    assert_eq!(foreign(20), 20);
    let rates = rack.rates(&[udp(0, 1, 5001)], warm(), Duration::from_millis(500));
    assert!(are_parts(&rates, &[1.0]), "the agents' own messages pass: {rates:?}");
    [sender, receiver].into_iter().for_each(|host| host.remove().expect("removed"));
}

#[test]
fn nothing_leaves_without_credits() {
    if is_skipped() {
        return;
    }
    let rack = Rack::new("wcc", PLAIN);
    // The key of the receiver is another one: its allocations do not verify, nor do the requests.
    let (mut sender, receiver) = (rack.install(0, 7), rack.install(1, 8));
    let flows = [udp(0, 1, 5001), udp(0, 2, 5002)];
    let bind = |flow: Traffic| rack.hosts[flow.to].run(|| UdpSocket::bind(flow.address()).expect("bound"));
    let sinks = flows.map(|flow| bind(flow).expect("inside"));
    let ends = &AtomicBool::new(false);
    let sender = std::thread::scope(|scope| {
        let end = EndOnDrop(ends);
        for flow in flows {
            let source = &rack.hosts[flow.from];
            // Data that waits fills a socket, which then sends nothing.
            let send = move || UdpSocket::bind("0.0.0.0:0").expect("bound").send_to(&[0; PAYLOAD], flow.address());
            let send_all = move || {
                while !ends.load(Ordering::Relaxed) {
                    let _ = send();
                    std::thread::sleep(Duration::from_millis(1));
                }
            };
            scope.spawn(move || source.run(send_all).expect("inside"));
        }
        std::thread::sleep(Duration::from_secs(1));
        // Nor during a change of the policy, or of the agent.
        rack.renew(&mut sender, 0, 7);
        sender.keep();
        drop(sender);
        let sender = rack.install(0, 7);
        std::thread::sleep(Duration::from_millis(500));
        drop(end);
        sender
    });
    assert_eq!(sinks.map(|sink| arrivals(&sink, Duration::from_millis(200))), [0, 0]);
    assert!(reading(&receiver).messages.forged > 0, "{:?}", reading(&receiver));
    sender.remove().expect("removed");
    let rates = rack.rates(&flows[..1], warm(), Duration::from_millis(500));
    assert!(rates[0] > 0.5 * NIC, "a host without an agent sends: {rates:?}");
    receiver.remove().expect("removed");
}
