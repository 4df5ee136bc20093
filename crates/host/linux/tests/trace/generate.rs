//! A seeded sequence of events.
//!
//! Gaps between events are 50 ns to 2 s, log-uniform within a range that changes with each phase of a few
//! hundred to a few thousand events: most phases are busy, some are slow, and in a few the host is idle for
//! seconds. Sizes change with phases too, so that limiters, batches and leases pass through all their states.

use crate::common::frames::{KEY, content, ethernet, tcp, udp, with_marker, words};
use crate::event::{Content, Control, Event, Frame, Kind};
use crate::frames::Random;
use crate::setup::{
    CREDITED, FIRST_PORT, HARDWARE, LEVEL_DSCP, LEVELLED, LIMITED, SERVICES, SLOTS, Setup, TIMEOUT, level,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_datapath::SipKey;
use weir_datapath::abi::{CONTROL_PORT, DestinationKey, FEEDBACK_ECN_ACK};
use weir_datapath::feedback::{headers_ipv4, headers_ipv6};
use weir_units::{Bandwidth, Bytes, Duration};

/// The first event's time: long after the start of a host, in ns.
const BEGIN: u64 = 1_000_000_000_000;
/// Destinations, of IPv4 and IPv6 in turn.
const HOSTS: u64 = 8;
/// Hosts without an agent.
const STRANGERS: u64 = 4;
/// An Ethernet, an IPv4 and a TCP header.
const HEADERS: u32 = 54;
const MTU: u32 = 1514;
/// Limits of the service with a receive limit are lower by this, in bit/s at least the other: the virtual queue of a
/// policer takes a quarter of a second at the limit.
const POLICED_PART: u64 = 300;
const POLICED_LEAST: u64 = 1_000_000;

/// Bounds of sizes and of gaps while a phase lasts.
#[derive(Debug, Clone, Copy)]
struct Phase {
    until: u64,
    gap: (u64, u64),
    largest: u64,
    /// Most packets are of this service.
    favourite: u32,
    beats: bool,
}

pub(crate) struct Generator {
    random: Random,
    number: u64,
    at: u64,
    beat_at: u64,
    phase: Phase,
    /// Of control messages.
    sequence: u64,
    /// Feedback that was delivered, for replays.
    delivered: Vec<Frame>,
    /// Of the last packet of a service that left.
    last: Option<DestinationKey>,
    /// Feedback to come after an event that freed a slot.
    claims: u32,
    setup: Setup,
}

impl Generator {
    pub(crate) fn new(seed: u64, setup: Setup) -> Self {
        let phase = Phase { until: 0, gap: (50, 5_000), largest: 65_536, favourite: 0, beats: true };
        let random = Random(seed);
        Self {
            random,
            number: 0,
            at: BEGIN,
            beat_at: 0,
            phase,
            sequence: 1,
            delivered: Vec::new(),
            last: None,
            claims: 0,
            setup,
        }
    }

    /// Log-uniform between two bounds.
    fn between(&mut self, (low, high): (u64, u64)) -> u64 {
        let part = (self.random.next() >> 11) as f64 / (1u64 << 53) as f64;
        ((low as f64) * (high as f64 / low as f64).powf(part)) as u64
    }

    fn next_phase(&mut self) {
        let gap = match self.random.below(10) {
            0 => (10_000, 1_000_000),
            1 => (50, 2_000_000_000),
            2 | 3 => (50, 300),
            _ => (50, 20_000),
        };
        let largest = self.random.pick(&[200, 400, 1514, 9_000, 65_536]);
        let length = if gap.1 > 1_000_000 { 100 } else { 300 + self.random.below(1_500) };
        let (favourite, beats) = (self.random.below(SERVICES.into()) as u32, !self.random.one_in(6));
        self.phase = Phase { until: self.number + length, gap, largest, favourite, beats };
    }

    fn kind(&mut self) -> Kind {
        if self.claims > 0 {
            self.claims -= 1;
            return Kind::Arrives(self.feedback());
        }
        match self.random.below(100) {
            0..45 => Kind::Leaves(self.leaving()),
            45..80 => Kind::Arrives(self.arriving()),
            80..88 => Kind::Arrives(self.feedback()),
            88..91 => Kind::Arrives(self.control_message(0, 0, Content::EcnCapability)),
            91..97 => Kind::Tick,
            _ => Kind::Control(Box::new(self.control())),
        }
    }

    fn service(&mut self) -> u32 {
        match self.random.below(4) {
            0 => self.random.below(u64::from(SERVICES) + 1) as u32,
            1 => self.random.below(2) as u32,
            _ => self.phase.favourite,
        }
    }

    /// A TCP segment between two hosts about a service, with other bits of the header at random.
    fn segment(&mut self, from: IpAddr, to: IpAddr, service: u32, payload: usize) -> Vec<u8> {
        let port = if service < SERVICES { FIRST_PORT + service as u16 } else { 80 };
        let ecn = self.random.pick(&[0, 0, 0, 1, 2, 3]);
        let mut frame = tcp(ethernet(from.is_ipv6(), false), from, to, port, payload, ecn);
        if from.is_ipv4() {
            frame[18..20].copy_from_slice(&(self.random.next() as u16).to_be_bytes());
        }
        if self.random.one_in(30) {
            set_dscp(&mut frame, self.random.pick(&[LEVEL_DSCP, 10, 40, 8]));
        }
        frame
    }

    fn leaving(&mut self) -> Frame {
        match self.random.below(60) {
            0 => return not_ip(),
            1 => {
                let mut bytes = udp(ethernet(false, false), own(false), host(2), (CONTROL_PORT, 80));
                bytes[6..12].copy_from_slice(&HARDWARE);
                let wire_len = bytes.len() as u32;
                return Frame { wire_len, ..plain(Content::Foreign, bytes) };
            }
            _ => {}
        }
        let service = self.service();
        let to = if self.random.one_in(10) { self.stranger() } else { self.host() };
        if service < SERVICES {
            self.last = Some(DestinationKey { address: words(to), service, reserved: 0 });
        }
        let payload = 10 + self.random.below(60) as usize;
        let is_guest = self.random.one_in(40);
        let from = if is_guest { guest(to.is_ipv6()) } else { own(to.is_ipv6()) };
        let mut bytes = self.segment(from, to, service, payload);
        if !is_guest {
            bytes[6..12].copy_from_slice(&HARDWARE);
        }
        if service == CREDITED && self.random.one_in(4) {
            syn(&mut bytes);
        }
        let wire_len = self.between((64, self.phase.largest)).max(bytes.len() as u64) as u32;
        let (gso_size, gso_segs) = match wire_len > MTU {
            true if self.random.one_in(12) => (MTU - HEADERS, 0),
            true => (MTU - HEADERS, wire_len.div_ceil(MTU)),
            false => (0, 0),
        };
        Frame { wire_len, gso_size, gso_segs, ..plain(Content::Data(service), bytes) }
    }

    fn arriving(&mut self) -> Frame {
        match self.random.below(60) {
            0 => return not_ip(),
            1 => {
                let bytes = udp(ethernet(false, false), host(2), own(false), (80, CONTROL_PORT));
                return plain(Content::Foreign, bytes);
            }
            _ => {}
        }
        let is_stranger = self.random.one_in(6);
        let service = if self.random.one_in(if is_stranger { 2 } else { 6 }) { LIMITED } else { self.service() };
        let from = if is_stranger { self.stranger() } else { self.host() };
        let most = self.random.pick(&[60, 60, 60, 1_400, 2_800]);
        let payload = 10 + self.random.below(most) as usize;
        let to_guest = self.random.one_in(40);
        let to = if to_guest { guest(from.is_ipv6()) } else { own(from.is_ipv6()) };
        let mut bytes = self.segment(from, to, service, payload);
        if self.random.below(3) > 0 {
            bytes = with_marker(bytes);
            set_ecn(&mut bytes, self.random.pick(&[1, 1, 2, 2, 2, 3]));
        }
        if service == LEVELLED && self.random.one_in(2) {
            set_dscp(&mut bytes, LEVEL_DSCP);
        }
        // Merged by GRO: each segment had the headers. Only frames to other hosts, which get no feedback: the clone
        // of a test's packet has no type of GSO, and the kernel refuses to send it.
        let (gso_size, gso_segs) = match self.random.below(if is_stranger { 2 } else { 4 }) {
            _ if to_guest => (0, 0),
            0 => (MTU - HEADERS, self.between((2, self.phase.largest / 64)) as u32),
            1 if self.random.one_in(8) => (MTU - HEADERS, 0),
            _ => (0, 0),
        };
        if gso_size != 0 || to_guest || self.random.one_in(30) {
            // Flooded by a switch.
            bytes[5] = 9;
        }
        Frame { gso_size, gso_segs, ..plain(Content::Data(service), bytes) }
    }

    fn feedback(&mut self) -> Frame {
        let kind = self.random.below(20);
        if kind < 2 && !self.delivered.is_empty() {
            let index = self.random.below(self.delivered.len() as u64) as usize;
            return Frame { content: Content::Replayed, ..self.delivered[index].clone() };
        }
        let (rate, has) = (self.between((10_000_000, 20_000_000_000)), self.random.below(4) > 0);
        let frame = self.control_message(rate, if has { FEEDBACK_ECN_ACK } else { 0 }, Content::Feedback);
        if kind == 2 {
            let mut forged = Frame { content: Content::Forged, ..frame };
            *forged.bytes.last_mut().expect("a body") ^= 0x10;
            return forged;
        }
        if self.delivered.len() < 64 {
            self.delivered.push(frame.clone());
        } else {
            let index = self.random.below(64) as usize;
            self.delivered[index] = frame.clone();
        }
        frame
    }

    /// From a host about a packet of a service between it and this host: feedback or an ECN capability message.
    fn control_message(&mut self, rate: u64, has: u8, kind: Content) -> Frame {
        self.sequence += 1;
        let (from, service) = (self.host(), self.service());
        let port = if service < SERVICES { FIRST_PORT + service as u16 } else { 80 };
        let content = content(rate, port, self.sequence, has);
        let (ipv6, key) = (from.is_ipv6(), SipKey::new(KEY));
        let (from, to) = (words(from), words(own(ipv6)));
        let body = match kind {
            Content::EcnCapability => content.ecn_capability(&from, &to, &key),
            _ => content.body(&from, &to, &key),
        };
        let headers = if ipv6 { headers_ipv6(&from, &to, &body).to_vec() } else { headers_ipv4(&from, &to).to_vec() };
        let bytes = [ethernet(ipv6, false), headers, body.to_vec()].concat();
        Frame { message: Some(content.0), ..plain(kind, bytes) }
    }

    fn control(&mut self) -> Control {
        match self.random.below(11) {
            0 | 1 => self.limit(),
            2 | 3 => self.share(),
            4 => {
                let side = self.random.below(2) as usize;
                let interface = &mut self.setup.interfaces[side];
                interface.generation += 1;
                Control::Interface { side: side as u32, interface: *interface }
            }
            5 => {
                let rate = Bandwidth::from_bps(self.between((1_000_000, 4_000_000_000)));
                let epoch = self.random.one_in(3).then_some(Duration::from_micros(300));
                let queue = Bytes::new(self.between((20_000, 4_000_000)));
                Control::Level(level(rate, epoch, queue))
            }
            6 => Control::Free(self.destination()),
            7 | 8 => {
                // A batch on this CPU can still have to be charged to it. Another destination gets the slot.
                self.claims = 3;
                Control::Free(self.last.unwrap_or_default())
            }
            9 => {
                let class = if self.random.one_in(3) { 0 } else { 0x3000 + self.random.below(64) as u32 };
                Control::Class { destination: self.destination(), class }
            }
            _ => {
                let to = self.host();
                Control::Idle { source: words(own(to.is_ipv6())), destination: words(to), service: CREDITED }
            }
        }
    }

    /// Limits of brokers and of the static policy, which keep the generation.
    fn limit(&mut self) -> Control {
        let (slot, rate) = (self.random.below(SLOTS.len() as u64) as usize, self.between((10_000_000, 8_000_000_000)));
        let rate = if self.random.one_in(3) { 0 } else { rate };
        let is_static = self.random.one_in(4);
        if self.random.one_in(2) && slot < SERVICES as usize {
            let rate = if slot == LIMITED as usize { (rate / POLICED_PART).max(POLICED_LEAST) } else { rate };
            let service = &mut self.setup.services[slot];
            *(if is_static { &mut service.rx_static } else { &mut service.rx_limit }) = rate;
            return Control::Service { slot: slot as u32, service: *service };
        }
        let sending = &mut self.setup.sendings[slot];
        *(if is_static { &mut sending.static_limit } else { &mut sending.limit }) = rate;
        Control::Sending { slot: SLOTS[slot], sending: *sending }
    }

    /// Guarantees, maxima and weights, with a new generation; now and then of another service in the slot.
    fn share(&mut self) -> Control {
        let slot = self.random.below(SERVICES.into()) as usize;
        let min = if self.random.one_in(2) { 0 } else { self.between((1_000_000, 2_000_000_000)) };
        let max = if self.random.one_in(2) { 0 } else { self.between((10_000_000, 8_000_000_000)) };
        let weight = self.random.pick(&[1_000, 1_000, 500, 4_000]);
        if self.random.one_in(2) {
            let sending = &mut self.setup.sendings[slot];
            (sending.min, sending.max, sending.weight) = (min, max, weight);
            sending.generation += 1;
            return Control::Sending { slot: slot as u32, sending: *sending };
        }
        let (min, max) = match slot == LIMITED as usize {
            true => (min / POLICED_PART, (max / POLICED_PART).max(POLICED_LEAST)),
            false => (min, max),
        };
        let service = &mut self.setup.services[slot];
        (service.rx_min, service.rx_max, service.rx_weight) = (min, max, weight);
        service.sender_weight = self.random.pick(&[1_000, 250, 3_000]);
        service.name[1] += u32::from(self.random.one_in(8));
        service.generation += 1;
        Control::Service { slot: slot as u32, service: *service }
    }

    fn destination(&mut self) -> DestinationKey {
        let (address, service) = (words(self.host()), self.random.below(SERVICES.into()) as u32);
        DestinationKey { address, service, reserved: 0 }
    }

    fn host(&mut self) -> IpAddr {
        host(self.random.below(HOSTS) as u8)
    }

    fn stranger(&mut self) -> IpAddr {
        host(100 + self.random.below(STRANGERS) as u8)
    }
}

impl Iterator for Generator {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        if self.number >= self.phase.until {
            self.next_phase();
        }
        self.at += self.between(self.phase.gap);
        let is_due = self.phase.beats && self.at - self.beat_at > TIMEOUT.nanos() / 3;
        let kind = match is_due && self.random.one_in(2) {
            true => {
                self.beat_at = self.at;
                Kind::Control(Box::new(Control::Heartbeat))
            }
            false => self.kind(),
        };
        self.number += 1;
        Some(Event { number: self.number, at: self.at, kind })
    }
}

/// The address of this host.
fn own(ipv6: bool) -> IpAddr {
    address(1, ipv6)
}

/// That of a guest behind this host's interface.
fn guest(ipv6: bool) -> IpAddr {
    address(5, ipv6)
}

/// Another host's; odd numbers have IPv6.
fn host(number: u8) -> IpAddr {
    address(10 + number, number % 2 == 1)
}

fn address(last: u8, ipv6: bool) -> IpAddr {
    match ipv6 {
        false => Ipv4Addr::new(10, 77, 0, last).into(),
        true => Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, last.into()).into(),
    }
}

/// A packet that arrives, and is no message and no super-packet.
fn plain(content: Content, bytes: Vec<u8>) -> Frame {
    Frame { content, bytes, wire_len: 0, gso_size: 0, gso_segs: 0, message: None }
}

/// A request of ARP.
fn not_ip() -> Frame {
    let bytes = [&[0xff; 6][..], &HARDWARE, &[8, 6], &[0; 46]].concat();
    Frame { wire_len: bytes.len() as u32, ..plain(Content::NotIp, bytes) }
}

fn set_dscp(frame: &mut [u8], dscp: u8) {
    if frame[14] >> 4 == 6 {
        frame[14] = 0x60 | dscp >> 2;
        frame[15] = frame[15] & 0x3f | dscp << 6;
    } else {
        frame[15] = frame[15] & 3 | dscp << 2;
    }
}

fn set_ecn(frame: &mut [u8], ecn: u8) {
    if frame[14] >> 4 == 6 {
        frame[15] = frame[15] & 0xcf | ecn << 4;
    } else {
        frame[15] = frame[15] & 0xfc | ecn;
    }
}

/// Makes a TCP segment the first of its connection.
fn syn(frame: &mut [u8]) {
    let transport = if frame[14] >> 4 == 6 { 54 } else { 34 };
    frame[transport + 13] = 2;
}
