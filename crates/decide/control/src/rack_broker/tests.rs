use super::*;
use crate::rate::rounded;
use crate::report::UsageReport;
use weir_units::{Bytes, Duration, ServiceId};

const A: ServiceId = ServiceId(0);
const B: ServiceId = ServiceId(1);
const M1: MachineId = MachineId(0);
const M2: MachineId = MachineId(1);

/// Fig 14 on two machines: A at most 30, B at least 30, capped at 60.
fn policy() -> Arc<Policy> {
    let text = r#"
weir: 1
sharing: fill
network: { nic: 80Gb/s, racks: { r: { uplink: 80Gb/s, machines: [m1, m2] } } }
services:
  a: { match: [ { protocol: tcp, port: 1 } ], rack: { max: 30Gb/s } }
  b: { match: [ { protocol: tcp, port: 2 } ], rack: { min: 30Gb/s } }
caps: { rack: 60Gb/s }
"#;
    Arc::new(Policy::parse("policy.yaml", text).expect("the policy is valid").0)
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

/// A broker with its counters.
struct Host {
    broker: RackBroker,
    sent: [u64; 2],
}

impl Host {
    fn new(machine: MachineId) -> Self {
        let broker = RackBroker::new(&policy(), machine, 1, RackBrokerConfig::published(), Instant::ZERO);
        Self { broker, sent: [0, 0] }
    }

    /// One period at `now` in which A and B sent this many Gb/s; returns the broadcast reports and
    /// the limits on A and B.
    fn period(&mut self, now: Instant, gbps: [u64; 2]) -> (Vec<UsageReport>, [Bandwidth; 2]) {
        self.broker.handle_input(now, Input::Timeout);
        let (mut reports, mut limits) = (Vec::new(), [Bandwidth::ZERO; 2]);
        while let Some(output) = self.broker.poll_output() {
            match output {
                Output::ReadMeters => {
                    for (sent, gbps) in self.sent.iter_mut().zip(gbps) {
                        *sent += gbps * 125_000_000;
                    }
                    let reading = |service, bytes| MeterReading {
                        service,
                        bytes: PerDirection { tx: Bytes::new(bytes), rx: Bytes::ZERO },
                        waits: false,
                        network: Default::default(),
                    };
                    let readings = [reading(A, self.sent[0]), reading(B, self.sent[1])];
                    self.broker.handle_input(now, Input::Meters(&readings));
                }
                Output::Broadcast(report) => reports.push(report),
                Output::NotifyEpoch(_) | Output::FabricEpoch(_) | Output::StoreEpoch(_) => panic!("no epoch goes down"),
                Output::Relay(_) | Output::ReportRack(_) | Output::ReplyRack(_) | Output::ShutOut(_) => {
                    panic!("the policy has no fabric section")
                }
                Output::SetLimits(all) => {
                    for limit in all.iter().filter(|limit| limit.direction == Direction::Tx) {
                        limits[limit.service.index()] = limit.limit;
                    }
                }
            }
        }
        (reports, limits)
    }

    fn receive(&mut self, now: Instant, reports: &[UsageReport]) {
        for report in reports {
            self.broker.handle_input(now, Input::Report(report));
        }
    }
}

const GBPS: fn(u64) -> Bandwidth = Bandwidth::from_gbps;

#[test]
fn worked_example() {
    let (mut m1, mut m2) = (Host::new(M1), Host::new(M2));
    // The first readings are the start of the count.
    let (r1, _) = m1.period(at(0), [0, 0]);
    let (r2, _) = m2.period(at(0), [0, 0]);
    m1.receive(at(0), &r2);
    m2.receive(at(0), &r1);
    // A uses 80 on machine 1: limited to its maximum of 30.
    let (r1, limits) = m1.period(at(1), [80, 0]);
    assert_eq!(limits, [GBPS(30), Bandwidth::UNLIMITED]);
    m2.receive(at(1), &r1);
    let (r2, limits) = m2.period(at(1), [0, 0]);
    assert_eq!(limits, [Bandwidth::UNLIMITED; 2]);
    m1.receive(at(1), &r2);
    // A uses 29 of 30: backlogged. B starts on machine 2 with 50: 30 each.
    let (r1, limits) = m1.period(at(2), [29, 0]);
    assert_eq!(limits, [GBPS(30), Bandwidth::UNLIMITED]);
    assert!(r1[0].rows[0].tx.backlogged);
    m2.receive(at(2), &r1);
    let (r2, limits) = m2.period(at(2), [0, 50]);
    assert_eq!(limits, [Bandwidth::UNLIMITED, GBPS(30)]);
    m1.receive(at(2), &r2);
    // A stops: B may use all 60.
    let (r1, _) = m1.period(at(3), [0, 0]);
    m2.receive(at(3), &r1);
    let (_, limits) = m2.period(at(3), [0, 30]);
    assert_eq!(limits, [Bandwidth::UNLIMITED, GBPS(60)]);
}

#[test]
fn silence_of_all_peers_restores_the_static_policy_until_a_report_arrives() {
    let (mut m1, mut m2) = (Host::new(M1), Host::new(M2));
    assert_eq!(m1.broker.mode(), Mode::Static);
    m1.period(at(0), [0, 0]);
    let (reports, _) = m2.period(at(0), [0, 0]);
    m1.receive(at(0), &reports);
    for second in 1..5 {
        let (_, limits) = m1.period(at(second), [80, 0]);
        assert_eq!((m1.broker.mode(), limits[0]), (Mode::Runtime, GBPS(30)), "at {second} s");
    }
    let (_, limits) = m1.period(at(5), [30, 0]);
    assert_eq!((m1.broker.mode(), limits), (Mode::Static, [Bandwidth::UNLIMITED; 2]));
    assert_eq!(m1.broker.counters().fallbacks, 1);
    // The other machine restarts: a new epoch whose rounds start again.
    let mut m2 = Host { broker: RackBroker::new(&policy(), M2, 2, RackBrokerConfig::published(), at(6)), sent: [0, 0] };
    let (reports, _) = m2.period(at(6), [0, 0]);
    m1.receive(at(6), &reports);
    let (_, limits) = m1.period(at(6), [80, 0]);
    assert_eq!((m1.broker.mode(), limits[0]), (Mode::Runtime, GBPS(30)));
}

#[test]
fn machine_without_peers_enforces_the_rack_policy() {
    let text = "weir: 1\nnetwork: { nic: 10Gb/s, racks: { r: { uplink: 5Gb/s, machines: [m1] } } }\n\
                services: { a: { match: [ { protocol: tcp, port: 1 } ] } }\n";
    let policy = Arc::new(Policy::parse("policy.yaml", text).expect("the policy is valid").0);
    let mut broker = RackBroker::new(&policy, M1, 1, RackBrokerConfig::published(), at(0));
    for second in 0..20 {
        broker.handle_input(at(second), Input::Timeout);
        assert_eq!(broker.poll_output(), Some(Output::ReadMeters));
        let bytes = PerDirection { tx: Bytes::new(second * 1_250_000_000), rx: Bytes::ZERO };
        broker.handle_input(
            at(second),
            Input::Meters(&[MeterReading { service: A, bytes, waits: false, network: Default::default() }]),
        );
        let Some(Output::SetLimits(limits)) = broker.poll_output() else {
            panic!("a machine without peers broadcasts nothing")
        };
        let expected = if second == 0 { Bandwidth::UNLIMITED } else { GBPS(5) };
        assert_eq!(limits[0].limit, expected);
    }
    assert_eq!(broker.mode(), Mode::Runtime);
}

#[test]
fn early_timeout_and_unrequested_meters_are_no_ops() {
    let mut broker = Host::new(M1).broker;
    broker.handle_input(at(0), Input::Timeout);
    assert_eq!(broker.poll_timeout(), Some(at(1)));
    assert_eq!(broker.poll_output(), Some(Output::ReadMeters));
    broker.handle_input(at(0), Input::Timeout);
    assert_eq!(broker.poll_output(), None);
    broker.handle_input(at(0), Input::Meters(&[]));
    while broker.poll_output().is_some() {}
    broker.handle_input(at(0), Input::Meters(&[]));
    assert_eq!(broker.poll_output(), None);
}

#[test]
fn rejected_reports_are_counted() {
    let (mut m1, mut m2) = (Host::new(M1), Host::new(M2));
    m2.period(at(0), [0, 0]);
    let (old, _) = m2.period(at(1), [1, 0]);
    let (new, _) = m2.period(at(2), [2, 0]);
    m1.receive(at(2), &new);
    m1.receive(at(2), &new);
    m1.receive(at(2), &old);
    let altered = |change: fn(&mut UsageReport)| {
        let mut report = new[0].clone();
        report.round = 99;
        change(&mut report);
        report
    };
    m1.receive(at(2), &[altered(|report| report.machine = MachineId(7))]);
    m1.receive(at(2), &[altered(|report| report.machine = M1)]);
    m1.receive(at(2), &[altered(|report| report.policy ^= 1)]);
    m1.receive(at(2), &[altered(|report| report.rows[0].service = ServiceId(5))]);
    m1.receive(at(2), &[altered(|report| report.first = B)]);
    m1.receive(at(2), &[altered(|report| report.rows.push(report.rows[0]))]);
    let expected = RackBrokerCounters {
        accepted: 1,
        replayed: 2,
        unknown_machine: 2,
        other_policy: 1,
        malformed: 3,
        epoch_notices: 1,
        ..RackBrokerCounters::default()
    };
    assert_eq!(*m1.broker.counters(), expected);
    let instance = m1.broker.allocator().instance(0, 1);
    assert_eq!(m1.broker.demands(Direction::Tx)[instance], rounded(GBPS(2)));
}

#[test]
fn unfetched_outputs_are_dropped_at_the_next_period() {
    let mut broker = Host::new(M1).broker;
    for second in 0..100 {
        broker.handle_input(at(second), Input::Timeout);
    }
    assert_eq!(broker.counters().dropped_outputs, 99);
    assert_eq!(broker.poll_output(), Some(Output::ReadMeters));
    assert_eq!(broker.poll_output(), None);
}

#[test]
fn reports_of_many_services_are_split_and_cover_all() {
    let services: String =
        (0..400).map(|i| format!("  s{i}: {{ match: [ {{ protocol: tcp, port: {} }} ] }}\n", i + 1)).collect();
    let text = format!(
        "weir: 1\nnetwork: {{ nic: 10Gb/s, racks: {{ r: {{ uplink: 10Gb/s, machines: [m1, m2] }} }} }}\n\
         services:\n{services}"
    );
    let policy = Arc::new(Policy::parse("policy.yaml", &text).expect("the policy is valid").0);
    let broker = |machine| RackBroker::new(&policy, machine, 1, RackBrokerConfig::published(), at(0));
    let (mut m1, mut m2) = (broker(M1), broker(M2));
    let mut reports = Vec::new();
    for second in 0..2u64 {
        m1.handle_input(at(second), Input::Timeout);
        assert_eq!(m1.poll_output(), Some(Output::ReadMeters));
        let bytes = |i: u64| PerDirection { tx: Bytes::new(second * (i + 1) * 125), rx: Bytes::ZERO };
        let readings: Vec<_> = (0..400)
            .map(|i| MeterReading {
                service: ServiceId(i),
                bytes: bytes(u64::from(i)),
                waits: false,
                network: Default::default(),
            })
            .collect();
        m1.handle_input(at(second), Input::Meters(&readings));
        reports.clear();
        while let Some(output) = m1.poll_output() {
            if let Output::Broadcast(report) = output {
                reports.push(report);
            }
        }
    }
    assert_eq!(reports.iter().map(|report| report.rows.len()).collect::<Vec<_>>(), [167, 167, 66]);
    // In any order, each accepted once.
    for report in reports.iter().rev() {
        m2.handle_input(at(1), Input::Report(report));
    }
    for i in 0..400u64 {
        let instance = m2.allocator().instance(i as usize, 0);
        assert_eq!(m2.demands(Direction::Tx)[instance], rounded(Bandwidth::from_bps((i + 1) * 1_000)));
    }
    assert_eq!(m2.counters().accepted, 3);
}

/// A single machine behind 5 of its 10 Gb/s that receives at these rates in Mb/s, by second;
/// returns its receive limits.
fn limits_when_receiving(seconds: impl IntoIterator<Item = (u64, NetworkReading)>) -> Vec<Bandwidth> {
    let text = "weir: 1\nnetwork: { nic: 10Gb/s, racks: { r: { uplink: 5Gb/s, machines: [m1] } } }\n\
                services: { a: { match: [ { protocol: tcp, port: 1 } ] } }\n";
    let policy = Arc::new(Policy::parse("policy.yaml", text).expect("the policy is valid").0);
    let mut broker = RackBroker::new(&policy, M1, 1, RackBrokerConfig::published(), at(0));
    let (mut received, mut limits) = (0, Vec::new());
    for (second, (mbps, network)) in (0..).zip(seconds) {
        received += mbps * 125_000;
        broker.handle_input(at(second), Input::Timeout);
        assert_eq!(broker.poll_output(), Some(Output::ReadMeters));
        let bytes = PerDirection { tx: Bytes::ZERO, rx: Bytes::new(received) };
        broker.handle_input(at(second), Input::Meters(&[MeterReading { service: A, bytes, waits: false, network }]));
        let Some(Output::SetLimits(set)) = broker.poll_output() else {
            panic!("a machine without peers broadcasts nothing")
        };
        limits.extend(set.iter().filter(|limit| limit.direction == Direction::Rx).map(|limit| limit.limit));
    }
    limits
}

#[test]
fn demand_of_a_throttled_service_is_raised_by_half() {
    let reading = |packets, marked| NetworkReading {
        packets,
        marked,
        rate: Some(Bandwidth::from_mbps(10)),
        ..NetworkReading::default()
    };
    // 4.1 of 5 Gb/s: no limit. With a quarter of the packets marked the demand is 6.1, and the
    // limit stays.
    let calm = limits_when_receiving([(0, reading(0, 0)), (4100, reading(1000, 240)), (4100, reading(2000, 480))]);
    assert_eq!(calm, [Bandwidth::UNLIMITED; 3]);
    let limited = limits_when_receiving([(0, reading(0, 0)), (4100, reading(1000, 250)), (4100, reading(2000, 500))]);
    assert_eq!(limited, [Bandwidth::UNLIMITED, GBPS(5), GBPS(5)]);
    // Under the limit a sixteenth is marked: the limit stays. Below a sixteenth it is lifted.
    let seconds =
        [(0, reading(0, 0)), (4100, reading(1600, 400)), (4100, reading(3200, 500)), (4100, reading(4800, 599))];
    assert_eq!(limits_when_receiving(seconds), [Bandwidth::UNLIMITED, GBPS(5), GBPS(5), Bandwidth::UNLIMITED]);
}

#[test]
fn just_lowered_limit_stays_while_half_used() {
    let none = NetworkReading::default();
    // 9 of 5 Gb/s: limited. Senders restart from below with 2.6: the limit stays. The same usage a
    // period later: lifted.
    let limits = limits_when_receiving([(0, none), (9000, none), (2600, none), (2600, none)]);
    assert_eq!(limits, [Bandwidth::UNLIMITED, GBPS(5), GBPS(5), Bandwidth::UNLIMITED]);
    // A usage below half lifts the limit at once.
    assert_eq!(limits_when_receiving([(0, none), (9000, none), (2400, none)])[2], Bandwidth::UNLIMITED);
}
