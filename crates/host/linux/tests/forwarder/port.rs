//! A forwarder's port on a cable, and the frames of a flow of it.

#![allow(dead_code, reason = "tests and benches use a part")]

use crate::common::frames::{KEY, address, ethernet, octets, tcp};
use crate::common::interface;
use std::net::IpAddr;
use weir_credits::wire::{self, CreditKey, Datagram};
use weir_credits::{Allocation, Message, Period, Published, Request, Return, WHOLE};
use weir_datapath::abi::ForwarderCounts;
use weir_datapath::{Classifier, CreditPort, CreditPortSettings, SipKey};
use weir_linux::forwarder::ForwarderPort;
use weir_linux::netns::Netns;
use weir_linux::settings::FeedbackKey;
use weir_policy::{Match, Protocol};
use weir_units::{Bandwidth, Bytes, Duration, ServiceId, Weight};

pub(crate) const CREDIT_KEY: CreditKey = CreditKey { number: 7, bytes: KEY };
/// The number of the service with credits, whose data has this TCP port.
pub(crate) const SERVICE: u32 = 0x1234_5678;
pub(crate) const DATA: u16 = 7_000;
pub(crate) const OTHER: u16 = 9_000;
/// Longer than a test takes, so that no grant expires within one.
pub(crate) const PERIOD: Period = Period::from_micros(1_000_000);
pub(crate) const RATE: Bandwidth = Bandwidth::from_mbps(100);
/// C(p).
pub(crate) const CAPACITY: u64 = 12_500_000;
pub(crate) const FRAME: u64 = 1_514;

/// The flow's data goes from host 1 to host 2.
pub(crate) struct Port {
    pub(crate) port: ForwarderPort,
    pub(crate) credit: CreditPort,
    pub(crate) ipv6: bool,
    pub(crate) sequence: u64,
}

pub(crate) fn credit_port(period: Period) -> CreditPort {
    let settings = CreditPortSettings { rate: RATE, most: period, lossless: true };
    CreditPort::new(&settings).with_whole_frames(Bytes::new(FRAME))
}

impl Port {
    /// A port with a half of its rate for a service of weight 1.
    pub(crate) fn open(netns: &Netns, ipv6: bool) -> Self {
        Self::open_with(netns, ipv6, PERIOD)
    }

    pub(crate) fn open_with(netns: &Netns, ipv6: bool, period: Period) -> Self {
        let mut credit = credit_port(period);
        credit.publish(&Published { per_weight: (WHOLE << 16) / 2 / 1_000_000, rest: 0, period, longest: period });
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

    pub(crate) fn hosts(&self) -> (IpAddr, IpAddr) {
        (address(1, self.ipv6), address(2, self.ipv6))
    }

    pub(crate) fn counts(&self) -> ForwarderCounts {
        self.port.read().expect("read").counts
    }

    /// The body of a message with the next sequence, between the hosts in the direction of its kind.
    pub(crate) fn body(&mut self, message: Message) -> [u8; wire::BYTES] {
        self.sequence += 1;
        let datagram = Datagram { service: SERVICE, epoch: 1, sequence: self.sequence, message };
        let (from, to) = self.ends(&message);
        wire::encode(&datagram, from, to, &CREDIT_KEY)
    }

    pub(crate) fn ends(&self, message: &Message) -> (IpAddr, IpAddr) {
        let (source, destination) = self.hosts();
        if matches!(message, Message::Allocation(_)) { (destination, source) } else { (source, destination) }
    }

    /// Sends a message by its program; returns the datagram that passes, after its UDP checksum was verified.
    pub(crate) fn send(&mut self, message: Message) -> Option<Datagram> {
        let body = self.body(message);
        self.send_body(&body, &message)
    }

    pub(crate) fn send_body(&mut self, body: &[u8], like: &Message) -> Option<Datagram> {
        let (from, to) = self.ends(like);
        let frame = datagram(from, to, body);
        let passed = self.port.passed(!matches!(like, Message::Allocation(_)), &frame).expect("a run")?;
        assert_eq!(passed.len(), frame.len());
        let start = frame.len() - body.len();
        assert_eq!(passed[..start], frame[..start], "headers stay, the UDP checksum included");
        assert_eq!(checksum(from, to, &passed[start - 8..]), 0, "and it is right");
        Some(wire::decode(&passed[start..], from, to, &[CREDIT_KEY]).expect("authentic"))
    }

    pub(crate) fn request(&mut self) {
        self.request_after(0);
    }

    /// A request of a sender that has had the allocation with this clock.
    pub(crate) fn request_after(&mut self, clock: u32) {
        assert!(self.send(Message::Request(Request { weight: Weight::ONE, clock })).is_some());
    }

    /// Ends the flow and starts it again.
    pub(crate) fn request_anew(&mut self) {
        assert!(self.send(Message::Terminate).is_some());
        self.request();
    }

    /// Sends an allocation of all of the port, and returns the credits that pass.
    pub(crate) fn allocate(&mut self, clock: u32) -> Option<u64> {
        match self.send(Message::Allocation(allocation(clock)))?.message {
            Message::Allocation(reduced) => Some(reduced.allocation.get()),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn give_back(&mut self, clock: u32, bytes: u64) -> Option<Datagram> {
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
    pub(crate) fn data(&mut self, port: u16) -> bool {
        let frame = self.data_frame(port, FRAME as usize);
        self.port.passed(true, &frame).expect("a run").is_some()
    }

    /// A TCP segment of the flow's hosts to a port, of this size with all headers.
    pub(crate) fn data_frame(&self, port: u16, size: usize) -> Vec<u8> {
        let (from, to) = self.hosts();
        let headers = if self.ipv6 { 74 } else { 54 };
        tcp(ethernet(self.ipv6, false), from, to, port, size - headers, 0)
    }

    /// The frame of the next allocation of all of the port.
    pub(crate) fn allocation_frame(&mut self, clock: u32) -> Vec<u8> {
        let message = Message::Allocation(allocation(clock));
        let body = self.body(message);
        let (from, to) = self.ends(&message);
        datagram(from, to, &body)
    }
}

pub(crate) fn allocation(clock: u32) -> Allocation {
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
    }
}

pub(crate) fn datagram(from: IpAddr, to: IpAddr, body: &[u8]) -> Vec<u8> {
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
pub(crate) fn checksum(from: IpAddr, to: IpAddr, udp: &[u8]) -> u16 {
    let pseudo = [octets(from), octets(to), vec![0, 17], (udp.len() as u16).to_be_bytes().to_vec()].concat();
    let bytes = [&pseudo[..], udp].concat();
    let mut sum: u32 =
        bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | word.get(1).map_or(0, |b| (*b).into())).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
