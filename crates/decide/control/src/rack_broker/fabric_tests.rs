//! The fabric's limits in a rack (in force, relayed, expired) and the rack's leadership.

use super::*;
use crate::fabric_message::{LimitsRelay, RackLimits, RackReport, RateRow};
use crate::rate::rounded;
use crate::report::UsageReport;
use weir_units::{Bytes, Duration, RackId, ServiceId};

const A: ServiceId = ServiceId(0);

fn policy(max: &str) -> Arc<Policy> {
    let text = format!(
        "weir: 1\nnetwork: {{ nic: 10Gb/s, racks: {{ r1: {{ uplink: 10Gb/s, machines: [m1, m2] }}, \
         r2: {{ uplink: 10Gb/s, machines: [m3] }} }} }}\nservices:\n  \
         a: {{ match: [ {{ protocol: tcp, port: 1 }} ], fabric: {{ max: {max} }} }}\n  \
         b: {{ match: [ {{ protocol: tcp, port: 2 }} ] }}\n"
    );
    Arc::new(Policy::parse("policy.yaml", &text).expect("the policy is valid").0)
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn gbps(rate: u64) -> Bandwidth {
    rounded(Bandwidth::from_gbps(rate))
}

/// The fabric broker's limits on `a` in r1.
fn limits(round: u64, a: Bandwidth) -> RackLimits {
    RackLimits {
        rack: RackId(0),
        policy: policy("6Gb/s").digest(),
        epoch: 1,
        round,
        first: ServiceId(0),
        last: ServiceId(u32::MAX),
        rows: vec![RateRow { service: A, rates: PerDirection { tx: a, rx: Bandwidth::UNLIMITED } }],
    }
}

struct Host {
    broker: RackBroker,
    sent: u64,
    broadcasts: Vec<UsageReport>,
    relayed: Vec<LimitsRelay>,
    /// With the second of the report.
    reported: Vec<(u64, RackReport)>,
}

impl Host {
    fn new(machine: u32, now: u64) -> Self {
        let config = RackBrokerConfig::published();
        let broker = RackBroker::new(&policy("6Gb/s"), MachineId(machine), now + 1, config, at(now));
        Self { broker, sent: 0, broadcasts: vec![], relayed: vec![], reported: vec![] }
    }

    fn input(&mut self, seconds: u64, input: Input<'_>) {
        self.broker.handle_input(at(seconds), input);
        while let Some(output) = self.broker.poll_output() {
            match output {
                Output::ReadMeters => {
                    let bytes = PerDirection { tx: Bytes::new(self.sent), rx: Bytes::ZERO };
                    self.broker.handle_input(
                        at(seconds),
                        Input::Meters(&[MeterReading { service: A, bytes, waits: false, network: Default::default() }]),
                    );
                }
                Output::Broadcast(report) => self.broadcasts.push(report),
                Output::Relay(relay) => self.relayed.push(relay),
                Output::ReportRack(report) => self.reported.push((seconds, report)),
                Output::ReplyRack(_)
                | Output::ShutOut(_)
                | Output::NotifyEpoch(_)
                | Output::FabricEpoch(_)
                | Output::SetLimits(_) => {}
                Output::StoreEpoch(_) => panic!("no epoch goes down"),
            }
        }
    }

    /// A period in which `a` sent this many Mb/s; returns its limit from then on.
    fn period(&mut self, seconds: u64, mbps: u64) -> Bandwidth {
        self.sent += mbps * 125_000;
        self.input(seconds, Input::Timeout);
        self.broker.limit(Direction::Tx, 0)
    }
}

/// A period of both machines of r1, which exchange their reports.
fn period_of_both(hosts: [&mut Host; 2], seconds: u64, mbps: [u64; 2]) -> [Bandwidth; 2] {
    let [m1, m2] = hosts;
    let limits = [m1.period(seconds, mbps[0]), m2.period(seconds, mbps[1])];
    let (first, second) = (std::mem::take(&mut m1.broadcasts), std::mem::take(&mut m2.broadcasts));
    first.iter().for_each(|report| m2.input(seconds, Input::Report(report)));
    second.iter().for_each(|report| m1.input(seconds, Input::Report(report)));
    limits
}

/// The rack after five seconds of 4 Gb/s each: its leader has listened for the timeout.
fn rack() -> (Host, Host) {
    let (mut m1, mut m2) = (Host::new(0, 0), Host::new(1, 0));
    period_of_both([&mut m1, &mut m2], 0, [0, 0]);
    for second in 1..=5 {
        period_of_both([&mut m1, &mut m2], second, [4_000, 4_000]);
    }
    (m1, m2)
}

/// The seconds of a host's reports.
fn seconds(host: &Host) -> Vec<u64> {
    host.reported.iter().map(|(second, _)| *second).collect()
}

#[test]
fn leader_reports_at_once_and_repeats_until_limits_arrive() {
    let (mut m1, mut m2) = rack();
    assert!(m1.broker.leads() && !m2.broker.leads());
    assert_eq!(m1.reported.len(), 1);
    let row = RateRow { service: A, rates: PerDirection { tx: rounded(gbps(4) + gbps(4)), rx: Bandwidth::ZERO } };
    assert_eq!(m1.reported[0].1.rows, [row]);
    // Then one period after the start, and after two thirds of a period each: 10, 16.7, 23.7 s, in
    // whole seconds.
    for second in 6..=30 {
        period_of_both([&mut m1, &mut m2], second, [4_000, 0]);
    }
    assert_eq!((seconds(&m1), seconds(&m2)), (vec![5, 10, 17, 24], vec![]));
    assert_eq!(m1.reported[3].1.rows[0].rates.tx, gbps(4));
    assert_eq!(m1.broker.counters().rack_reports, 4);
}

#[test]
fn leader_that_receives_limits_reports_once_before_each_fabric_round() {
    let (mut m1, mut m2) = rack();
    // The other rack reports a little later, to spread the load: 5 + 2.5 · 1/2 s after the limits.
    let mut m3 = Host::new(2, 0);
    for second in 0..=5 {
        m3.period(second, 4_000);
    }
    for second in 6..=50 {
        period_of_both([&mut m1, &mut m2], second, [4_000, 0]);
        m3.period(second, 4_000);
        if second.is_multiple_of(10) {
            m3.input(second, Input::Fabric(&RackLimits { rack: RackId(1), ..limits(second, gbps(6)) }));
            // At 30 s the limits arrive by relay, 1 s later: their age counts.
            if second != 30 {
                m1.input(second, Input::Fabric(&limits(second, gbps(6))));
            }
        } else if second == 31 {
            let relay = LimitsRelay { age: Duration::from_secs(1), limits: limits(30, gbps(6)) };
            m1.input(second, Input::Relay(&relay));
        }
    }
    assert_eq!(seconds(&m1), [5, 10, 15, 25, 35, 45]);
    assert_eq!(seconds(&m3), [5, 10, 17, 27, 37, 47]);
}

#[test]
fn frequent_limits_do_not_delay_reports_without_bound() {
    let (mut m1, mut m2) = rack();
    for second in 6..=50 {
        period_of_both([&mut m1, &mut m2], second, [4_000, 0]);
        if second.is_multiple_of(3) {
            m1.input(second, Input::Fabric(&limits(second, gbps(6))));
        }
    }
    // 5 s after the first limits since the last report.
    assert_eq!(seconds(&m1), [5, 11, 17, 23, 29, 35, 41, 47]);
}

#[test]
fn leadership_moves_when_the_leader_falls_silent() {
    let (mut m1, mut m2) = rack();
    period_of_both([&mut m1, &mut m2], 6, [4_000, 4_000]);
    // In a rack of two, a machine without its peer is in static mode and does not lead.
    for second in 7..=11 {
        m2.period(second, 4_000);
    }
    assert_eq!((m2.broker.mode(), m2.broker.leads()), (Mode::Static, false));
    // The first machine restarts; it leads after it has listened for the timeout.
    let mut m1 = Host::new(0, 12);
    for second in 12..17 {
        period_of_both([&mut m1, &mut m2], second, [4_000, 4_000]);
        assert!(!m1.broker.leads() && !m2.broker.leads(), "at {second} s");
    }
    period_of_both([&mut m1, &mut m2], 17, [4_000, 4_000]);
    assert!(m1.broker.leads() && m1.reported.len() == 1 && m2.reported.is_empty());
}

#[test]
fn limits_are_relayed_and_kept_until_they_expire() {
    let (mut m1, mut m2) = rack();
    m1.input(5, Input::Fabric(&limits(1, gbps(6))));
    let relay = m1.relayed.pop().expect("new limits are relayed at once");
    assert_eq!((relay.age, &relay.limits), (Duration::ZERO, &limits(1, gbps(6))));
    m2.input(5, Input::Relay(&relay));
    let half = Bandwidth::from_bps(gbps(6).bps() / 2);
    assert_eq!(period_of_both([&mut m1, &mut m2], 6, [4_000, 4_000]), [half, half]);
    assert_eq!(m1.broker.fabric_limit(Direction::Tx, 0), gbps(6));
    // Under a fabric limit both demands are those without it, bounded by the uplink.
    period_of_both([&mut m1, &mut m2], 7, [3_000, 3_000]);
    period_of_both([&mut m1, &mut m2], 8, [3_000, 3_000]);
    // One pauses: it keeps a part of a tenth of the limit, the other uses all.
    period_of_both([&mut m1, &mut m2], 9, [0, 3_000]);
    let [paused, other] = period_of_both([&mut m1, &mut m2], 10, [0, 3_000]);
    assert_eq!((paused, other), (Bandwidth::from_bps(gbps(6).bps() / 20), gbps(6)));
    // Relays are repeated with their age; known limits are not counted as accepted.
    let repeated = m1.relayed.last().expect("relays are repeated");
    assert!(repeated.age >= Duration::from_secs(2));
    m2.input(10, Input::Relay(repeated));
    assert_eq!((m2.broker.counters().limits_accepted, m2.broker.counters().limits_known), (1, 1));
    // Limits expire 50 s after their arrival, also where they arrived by relay.
    for second in 11..55 {
        period_of_both([&mut m1, &mut m2], second, [3_000, 3_000]);
        assert!(m1.broker.has_fabric_limits() && m2.broker.has_fabric_limits(), "at {second} s");
    }
    // The rack's own limit remains: both are backlogged and share the uplink by half.
    assert_eq!(period_of_both([&mut m1, &mut m2], 55, [3_000, 3_000]), [Bandwidth::from_gbps(5); 2]);
    assert!(!m1.broker.has_fabric_limits() && !m2.broker.has_fabric_limits());
    assert_eq!(m2.broker.counters().fabric_fallbacks, 1);
    // Expired limits are neither relayed nor accepted.
    m1.relayed.clear();
    period_of_both([&mut m1, &mut m2], 56, [3_000, 3_000]);
    period_of_both([&mut m1, &mut m2], 57, [3_000, 3_000]);
    assert!(m1.relayed.is_empty());
    m2.input(57, Input::Relay(&LimitsRelay { age: Duration::from_secs(50), limits: limits(2, gbps(1)) }));
    assert_eq!(m2.broker.counters().limits_expired, 1);
}

#[test]
fn rejected_limits_are_counted() {
    let (mut m1, _) = rack();
    m1.input(5, Input::Fabric(&limits(3, gbps(6))));
    let altered = |change: fn(&mut RackLimits)| {
        let mut limits = limits(9, gbps(1));
        change(&mut limits);
        limits
    };
    for wrong in [
        limits(2, gbps(1)),
        limits(3, gbps(1)),
        altered(|limits| limits.rack = RackId(1)),
        altered(|limits| limits.policy ^= 1),
        altered(|limits| limits.rows[0].service = ServiceId(7)),
        altered(|limits| limits.rows.push(limits.rows[0])),
        altered(|limits| limits.last = ServiceId(0)),
        altered(|limits| limits.first = ServiceId(1)),
    ] {
        m1.input(5, Input::Fabric(&wrong));
    }
    let counters = *m1.broker.counters();
    assert_eq!((counters.limits_replayed, counters.limits_known), (1, 1));
    assert_eq!((counters.limits_other_rack, counters.limits_other_policy), (1, 1));
    // The one before the last covers only `a`, which is valid.
    assert_eq!((counters.limits_malformed, counters.limits_accepted), (3, 2));
}

#[test]
fn policy_update_keeps_received_limits() {
    let (mut m1, mut m2) = rack();
    m1.input(5, Input::Fabric(&limits(1, gbps(6))));
    for host in [&mut m1, &mut m2] {
        host.broker.set_policy(&policy("3Gb/s")).expect("the same racks, machines and services");
    }
    period_of_both([&mut m1, &mut m2], 6, [4_000, 4_000]);
    assert_eq!(m1.broker.fabric_limit(Direction::Tx, 0), gbps(6));
    // Limits that were sent before the update carry the old policy.
    m1.input(6, Input::Fabric(&limits(2, gbps(1))));
    assert_eq!(m1.broker.counters().limits_other_policy, 1);
    // A policy without a fabric section ends the fabric's limits.
    let text = "weir: 1\nnetwork: { nic: 10Gb/s, racks: { r1: { uplink: 10Gb/s, machines: [m1, m2] }, \
                r2: { uplink: 10Gb/s, machines: [m3] } } }\nservices:\n  \
                a: { match: [ { protocol: tcp, port: 1 } ] }\n  b: { match: [ { protocol: tcp, port: 2 } ] }\n";
    let without_fabric = Arc::new(Policy::parse("policy.yaml", text).expect("the policy is valid").0);
    assert!(m1.broker.has_fabric_limits());
    m1.broker.set_policy(&without_fabric).expect("the same racks, machines and services");
    m1.period(7, 3_000);
    assert_eq!(m1.broker.fabric_limit(Direction::Tx, 0), Bandwidth::UNLIMITED);
    assert!(!m1.broker.has_fabric_limits());
    // The end of the limits is no expiry.
    assert_eq!(m1.broker.counters().fabric_fallbacks, 0);
    let other = Arc::new(Policy::parse("policy.yaml", &text.replace("m3", "m4")).expect("the policy is valid").0);
    assert_eq!(m1.broker.set_policy(&other), Err(IncompatiblePolicy));
}
