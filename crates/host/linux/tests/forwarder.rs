//! The programs of a forwarder's port: messages and data through the kernel (`BPF_PROG_TEST_RUN`), over IPv4 and IPv6.

mod common;

use common::frames::{KEY, address, ethernet, octets, tcp, words};
use common::{Cable, interface, skipped};
use std::net::IpAddr;
use weir_credits::wire::{self, CreditKey, Datagram};
use weir_credits::{Allocation, Message, Period, Published, Request, Return, WHOLE};
use weir_datapath::abi::{self, ForwarderCounts};
use weir_datapath::{Classifier, CreditPort, CreditPortSettings, SipKey, credit_message};
use weir_linux::forwarder::{FlowKey, ForwarderPort};
use weir_linux::netns::Netns;
use weir_linux::settings::FeedbackKey;
use weir_policy::{Match, Protocol};
use weir_units::{Bandwidth, Bytes, Duration, ServiceId, Weight};

const CREDIT_KEY: CreditKey = CreditKey { number: 7, bytes: KEY };
/// The number of the service with credits, whose data has this TCP port.
const SERVICE: u32 = 0x1234_5678;
const DATA: u16 = 7_000;
const OTHER: u16 = 9_000;
/// Longer than a test takes, so that no grant expires within one.
const PERIOD: Period = Period::from_micros(1_000_000);
const RATE: Bandwidth = Bandwidth::from_mbps(100);
/// C(p).
const CAPACITY: u64 = 12_500_000;
const FRAME: u64 = 1_514;

/// The flow's data goes from host 1 to host 2.
struct Port {
    port: ForwarderPort,
    credit: CreditPort,
    ipv6: bool,
    sequence: u64,
}

fn credit_port(period: Period) -> CreditPort {
    let settings = CreditPortSettings { rate: RATE, most: period, lossless: true };
    CreditPort::new(&settings).with_whole_frames(Bytes::new(FRAME))
}

impl Port {
    /// A port with a half for each thousandth of weight of a flow of weight 1.
    fn open(netns: &Netns, ipv6: bool) -> Self {
        Self::open_with(netns, ipv6, PERIOD)
    }

    fn open_with(netns: &Netns, ipv6: bool, period: Period) -> Self {
        let mut credit = credit_port(period);
        credit.publish(&Published { per_weight: (WHOLE << 16) / 2 / 1_000, rest: 0, period, longest: period });
        let port = netns.run(|| {
            let mut port = ForwarderPort::open(&interface(), credit.rules().slot_bits).expect("opened");
            port.set_keys(&[FeedbackKey { id: 7, key: SipKey::new(KEY) }]).expect("keys");
            let filter = Match { protocol: Some(Protocol::TCP), ports: Some((DATA, DATA)), ..Match::default() };
            let classifier = Classifier::new([(ServiceId(0), &filter)], Some("eth")).expect("supported");
            port.set_rules(&classifier, &[SERVICE]).expect("rules");
            port.publish(credit.rules(), Duration::from_secs(60)).expect("published");
            port.attach().expect("attached");
            port
        });
        Self { port: port.expect("enter"), credit, ipv6, sequence: 0 }
    }

    fn hosts(&self) -> (IpAddr, IpAddr) {
        (address(1, self.ipv6), address(2, self.ipv6))
    }

    fn counts(&self) -> ForwarderCounts {
        self.port.read().expect("read").counts
    }

    /// The body of a message with the next sequence, between the hosts in the direction of its kind.
    fn body(&mut self, message: Message) -> [u8; wire::BYTES] {
        self.sequence += 1;
        let datagram = Datagram { service: SERVICE, epoch: 1, sequence: self.sequence, message };
        let (from, to) = self.ends(&message);
        wire::encode(&datagram, from, to, &CREDIT_KEY)
    }

    fn ends(&self, message: &Message) -> (IpAddr, IpAddr) {
        let (source, destination) = self.hosts();
        if matches!(message, Message::Allocation(_)) { (destination, source) } else { (source, destination) }
    }

    /// Sends a message by its program; returns the datagram that passes, after its UDP checksum was verified.
    fn send(&mut self, message: Message) -> Option<Datagram> {
        let body = self.body(message);
        self.send_body(&body, &message)
    }

    fn send_body(&mut self, body: &[u8], like: &Message) -> Option<Datagram> {
        let (from, to) = self.ends(like);
        let frame = datagram(from, to, body);
        let passed = self.port.passed(!matches!(like, Message::Allocation(_)), &frame).expect("a run")?;
        assert_eq!(passed.len(), frame.len());
        let start = frame.len() - body.len();
        assert_eq!(passed[..start], frame[..start], "headers stay, the UDP checksum included");
        assert_eq!(checksum(from, to, &passed[start - 8..]), 0, "and it is right");
        Some(wire::decode(&passed[start..], from, to, &[CREDIT_KEY]).expect("authentic"))
    }

    fn request(&mut self) {
        assert!(self.send(Message::Request(Request { weight: Weight::ONE })).is_some());
    }

    /// Sends an allocation of all of the port, and returns the credits that pass.
    fn allocate(&mut self, clock: u32) -> Option<u64> {
        match self.send(Message::Allocation(allocation(clock)))?.message {
            Message::Allocation(reduced) => Some(reduced.allocation.get()),
            other => panic!("{other:?}"),
        }
    }

    fn give_back(&mut self, clock: u32, bytes: u64) -> Option<Datagram> {
        self.send(Message::Return(Return {
            clock,
            period: PERIOD,
            longest: PERIOD,
            potential: Bytes::new(CAPACITY),
            allocation: Bytes::new(bytes),
            queueing: Duration::from_micros(0),
        }))
    }

    /// Whether a packet of data of `FRAME` bytes passes.
    fn data(&mut self, port: u16) -> bool {
        let (from, to) = self.hosts();
        let headers = if self.ipv6 { 74 } else { 54 };
        let frame = tcp(ethernet(self.ipv6, false), from, to, port, FRAME as usize - headers, 0);
        self.port.passed(true, &frame).expect("a run").is_some()
    }
}

fn allocation(clock: u32) -> Allocation {
    let bytes = Bytes::new(CAPACITY);
    Allocation {
        clock,
        period: PERIOD,
        longest: PERIOD,
        potential: bytes,
        demand: bytes,
        allocation: bytes,
        weight: Weight::ONE,
        queueing: Duration::ZERO,
        ahead: None,
    }
}

fn datagram(from: IpAddr, to: IpAddr, body: &[u8]) -> Vec<u8> {
    let length = (8 + body.len()) as u16;
    let ports = [wire::PORT.to_be_bytes(), wire::PORT.to_be_bytes()].concat();
    let mut udp = [&ports[..], &length.to_be_bytes(), &[0; 2], body].concat();
    let sum = checksum(from, to, &udp);
    udp[6..8].copy_from_slice(&sum.to_be_bytes());
    let ip = if from.is_ipv6() {
        let [high, low] = length.to_be_bytes();
        [&[0x60, 0, 0, 0, high, low, 17, 64][..], &octets(from), &octets(to)].concat()
    } else {
        let [high, low] = (length + 20).to_be_bytes();
        [&[0x45, 0, high, low, 0, 0, 0x40, 0, 64, 17, 0, 0][..], &octets(from), &octets(to)].concat()
    };
    [ethernet(from.is_ipv6(), false), ip, udp].concat()
}

/// The complement of the sum over the pseudo header and a UDP datagram: 0 if its checksum is right.
fn checksum(from: IpAddr, to: IpAddr, udp: &[u8]) -> u16 {
    let pseudo = [octets(from), octets(to), vec![0, 17], (udp.len() as u16).to_be_bytes().to_vec()].concat();
    let bytes = [&pseudo[..], udp].concat();
    let mut sum: u32 =
        bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |b| (*b).into())).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

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
        let fields = abi::Allocation { clock: 1, period: 1, weight: 1_000_000_001, ..abi::Allocation::default() };
        let message =
            abi::CreditMessage { service: SERVICE, epoch: 1, sequence: 9, key: 7, kind: 2, reserved: 0, fields };
        let heavy = credit_message::write(&message, &words(from), &words(to), &SipKey::new(KEY));
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
        assert_eq!((reading.rerouted, reading.credits.late), (Bytes::new(FRAME), FRAME));
        assert!(port.allocate(6).expect("it passes") > 0);
    });
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
        assert_eq!(port.counts().ended, 1);
        port.request();
        assert!(port.allocate(3).expect("it passes") > 0);
    });
}

#[test]
fn maps_are_adopted_and_removed() {
    if skipped() {
        return;
    }
    let cable = Cable::new("f6");
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
    // Another wheel: the grants are lost, the programs stay attached.
    drop(next);
    let other = Port::open_with(&cable.a, false, Period::from_micros(20_000));
    assert!(!other.port.is_adopted());
    assert_eq!(other.port.read().expect("read").outstanding, Bytes::ZERO);
    drop(other);
    let removed = || ForwarderPort::remove_leftover(&interface()).expect("removed");
    assert!(cable.a.run(removed).expect("enter"));
    assert!(!cable.a.run(removed).expect("enter"), "nothing is left");
}
