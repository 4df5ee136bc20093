//! Hosts with credits and a forwarder's port between them, which outlives both.

use std::collections::BTreeMap;
use weir_credits::host::{Aggregate, Host, HostSettings, NoPort, Output, Reading};
use weir_credits::{Coding, Message, Period, Published, WHOLE};
use weir_datapath::{CreditFlow, CreditPort, CreditPortSettings};
use weir_units::{Bandwidth, Bytes, Duration, Instant, ServiceId, Weight};

const SERVICE: ServiceId = ServiceId(3);
const FLOW: Aggregate<u8> = Aggregate { service: SERVICE, source: 1, destination: 2 };
const RATE: Bandwidth = Bandwidth::from_gbps(1);
const PERIOD: Period = Period::from_micros(1_000);

fn host() -> Host<u8, NoPort> {
    let settings = HostSettings {
        rate: RATE,
        least: PERIOD,
        frame: Bytes::new(1_514),
        whole_frames: true,
        timeout: [Duration::from_millis(10), Duration::from_secs(1)],
        silence: Duration::from_millis(100),
        linger: Duration::from_millis(100),
        abandon_after: None,
        memory: Duration::from_secs(10),
        coding: Coding::Wide,
    };
    let mut host = Host::new(settings, None);
    host.set_services(Instant::ZERO, BTreeMap::from([(SERVICE, Weight::ONE)]));
    host
}

/// A sender, a receiver, and the port between them.
struct Path {
    hosts: [Host<u8, NoPort>; 2],
    port: CreditPort,
    flow: CreditFlow,
    sent: u64,
}

impl Path {
    /// The sender's data waits without end; returns the bytes that the port has granted in a millisecond at `now`.
    fn step(&mut self, now: Instant) -> u64 {
        let before = self.port.counters().granted;
        self.hosts[0].on_reading(now, FLOW, Reading { sent: self.sent, waiting: Bytes::new(1_000_000) });
        for end in [0, 1, 0] {
            if self.hosts[end].timer().is_some_and(|due| due <= now) {
                self.hosts[end].on_timer(now);
            }
            while let Some(output) = self.hosts[end].poll() {
                let Output::Send { mut message, .. } = output else { continue };
                match &mut message {
                    Message::Request(request) => self.port.on_request(&mut self.flow, request.clock),
                    Message::Allocation(allocation) => {
                        self.port.allocate(&mut self.flow, allocation, now, Bytes::ZERO, true);
                    }
                    Message::Return(returned) => self.port.on_return(&mut self.flow, returned, now),
                    Message::Terminate => self.port.terminate(&mut self.flow, now),
                }
                self.hosts[1 - end].on_message(now, FLOW, &message);
            }
        }
        let granted = self.port.counters().granted - before;
        self.port.on_data(&mut self.flow, Bytes::new(granted), now);
        self.sent += granted;
        granted
    }
}

#[test]
fn hosts_without_their_clocks_get_credits_again() {
    let mut port = CreditPort::new(&CreditPortSettings { rate: RATE, most: PERIOD, lossless: true });
    port.publish(&Published { per_weight: (WHOLE << 16) / 1000 + 1, rest: 0, period: PERIOD, longest: PERIOD });
    let mut path = Path { hosts: [host(), host()], port, flow: CreditFlow::default(), sent: 0 };
    let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
    let granted: Vec<u64> = (0..500).map(|millis| path.step(at(millis))).collect();
    assert!(granted[10..].iter().all(|bytes| *bytes > 0), "{granted:?}");
    path.hosts = [host(), host()];
    let granted: Vec<u64> = (600..700).map(|millis| path.step(at(millis))).collect();
    // The grants of before have expired meanwhile.
    let first = granted.iter().position(|bytes| *bytes > 0).expect("credits");
    assert!(first <= 40 && granted[first + 1..].iter().all(|bytes| *bytes > 0), "{granted:?}");
    // Without a pause they live on for some periods, and the request is repeated after 10 ms and 30 ms.
    path.hosts = [host(), host()];
    let granted: Vec<u64> = (700..800).map(|millis| path.step(at(millis))).collect();
    let first = granted.iter().skip(5).position(|bytes| *bytes > 0).expect("credits") + 5;
    assert!(first <= 80 && granted[first + 1..].iter().all(|bytes| *bytes > 0), "{granted:?}");
}
