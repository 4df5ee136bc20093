use super::*;
use crate::report::UsageReport;
use weir_units::{Bytes, ServiceId};

const A: ServiceId = ServiceId(0);
const MBPS: fn(u64) -> Bandwidth = Bandwidth::from_mbps;

/// Two machines of 1 Gb/s under an uplink; `a` has a share at the rack.
fn policy(uplink: &str, a: &str) -> Arc<Policy> {
    let text = format!(
        "weir: 1\nnetwork: {{ nic: 1Gb/s, racks: {{ r: {{ uplink: {uplink}, machines: [m1, m2] }} }} }}\n\
         services:\n  a: {{ match: [ {{ protocol: tcp, port: 1 }} ]{a} }}\n"
    );
    Arc::new(Policy::parse("policy.yaml", &text).expect("the policy is valid").0)
}

struct Host {
    broker: RackBroker,
    bytes: Bytes,
    /// The part of packets that a remote queue marks, in percent.
    marked: u64,
    network: NetworkReading,
}

impl Host {
    /// A tenth of a second in which `wanted` would arrive: the rate law keeps it to the unmarked part of the limit.
    fn send(&mut self, wanted: Bandwidth, limit: Bandwidth) -> Bandwidth {
        let passed = match self.marked {
            0 => limit,
            marked => Bandwidth::from_bps(limit.bps() / 100 * (100 - marked)),
        };
        let sent = wanted.min(passed);
        let bytes = sent.bytes_in(Duration::from_millis(100));
        self.bytes += bytes;
        self.network.packets += bytes.get() / 1_500;
        self.network.marked += bytes.get() / 1_500 * self.marked / 100;
        self.network.capacity = limit;
        self.network.rate = Some(if wanted < passed { limit } else { passed });
        sent
    }
}

/// Both machines, whose brokers read their meters every 100 ms, 50 ms apart.
struct Rack {
    hosts: [Host; 2],
    /// Of all traffic.
    direction: Direction,
    /// Tenths of a second since the start.
    tenths: u64,
    /// The number of reports so far.
    reports: usize,
}

impl Rack {
    fn new(policy: &Arc<Policy>) -> Self {
        Self::of(policy, Direction::Tx)
    }

    fn of(policy: &Arc<Policy>, direction: Direction) -> Self {
        let host = |machine: u32| {
            let start = Instant::ZERO + Duration::from_millis(50 * u64::from(machine));
            let broker = RackBroker::new(policy, MachineId(machine), 1, RackBrokerConfig::default(), start);
            Host { broker, bytes: Bytes::ZERO, marked: 0, network: NetworkReading::default() }
        };
        let mut rack = Self { hosts: [host(0), host(1)], direction, tenths: 0, reports: 0 };
        rack.read();
        rack
    }

    /// A tenth of a second in which the machines would send, or receive, these rates in Mb/s; returns
    /// the rates within their limits.
    fn send(&mut self, wanted: [u64; 2]) -> [Bandwidth; 2] {
        let mut sent = [Bandwidth::ZERO; 2];
        for ((host, wanted), sent) in self.hosts.iter_mut().zip(wanted).zip(&mut sent) {
            *sent = host.send(MBPS(wanted), host.broker.limit(self.direction, 0));
        }
        self.tenths += 1;
        self.read();
        sent
    }

    /// Seconds of the same rates; returns what was sent in the last tenth.
    fn send_for(&mut self, seconds: u64, wanted: [u64; 2]) -> [Bandwidth; 2] {
        (0..10 * seconds).map(|_| self.send(wanted)).last().expect("some time")
    }

    fn read(&mut self) {
        for index in 0..2 {
            let now = Instant::ZERO + Duration::from_millis(100 * self.tenths + 50 * index as u64);
            let mut reports: Vec<UsageReport> = Vec::new();
            let Host { broker, bytes, network, .. } = &mut self.hosts[index];
            let network = if self.direction == Direction::Rx { *network } else { NetworkReading::default() };
            broker.handle_input(now, Input::Timeout);
            while let Some(output) = broker.poll_output() {
                match output {
                    Output::ReadMeters => {
                        let mut bytes = PerDirection { tx: *bytes, rx: Bytes::ZERO };
                        if self.direction == Direction::Rx {
                            std::mem::swap(&mut bytes.tx, &mut bytes.rx);
                        }
                        let reading = MeterReading { service: A, bytes, waits: false, network };
                        broker.handle_input(now, Input::Meters(&[reading]));
                    }
                    Output::Broadcast(report) => reports.push(report),
                    Output::SetLimits(_) => {}
                    other => panic!("{other:?} under a policy without a fabric section"),
                }
            }
            self.reports += reports.len();
            let other = &mut self.hosts[1 - index].broker;
            reports.iter().for_each(|report| other.handle_input(now, Input::Report(report)));
        }
    }
}

#[test]
fn a_maximum_is_a_bound_from_the_start_on() {
    let mut rack = Rack::new(&policy("1Gb/s", ", rack: { max: 100Mb/s }"));
    for _ in 0..100 {
        let [one, two] = rack.send([800, 800]);
        assert!(one + two <= MBPS(110), "{one} and {two} at {} tenths", rack.tenths);
    }
    assert_eq!(rack.send([800, 800]), [MBPS(50), MBPS(50)]);
}

#[test]
fn waking_instance_has_its_share_within_three_intervals() {
    let mut rack = Rack::new(&policy("1Gb/s", ", rack: { max: 100Mb/s }"));
    // One alone has all of it.
    assert_eq!(rack.send_for(3, [800, 0]), [MBPS(100), Bandwidth::ZERO]);
    let sent: Vec<[Bandwidth; 2]> = (0..4).map(|_| rack.send([800, 800])).collect();
    assert_eq!(sent[3], [MBPS(50), MBPS(50)]);
    assert!(sent.iter().all(|[one, two]| *one + *two <= MBPS(110)), "{sent:?}");
}

#[test]
fn pulses_do_not_exceed_the_maximum() {
    let mut rack = Rack::new(&policy("1Gb/s", ", rack: { max: 10Mb/s }"));
    for _ in 0..5 {
        for wanted in [[800, 800], [0, 0]] {
            for _ in 0..20 {
                let [one, two] = rack.send(wanted);
                assert!(one + two <= MBPS(11), "{one} and {two} at {} tenths", rack.tenths);
            }
        }
    }
}

#[test]
fn limits_at_a_contended_uplink_stay_when_a_service_pauses_at_once() {
    let mut rack = Rack::new(&policy("1Gb/s", ""));
    assert_eq!(rack.send_for(3, [900, 900]), [MBPS(500), MBPS(500)]);
    // A tenth of a second in which little is sent: without limits 1.8 Gb/s would follow.
    rack.send([50, 50]);
    for _ in 0..10 {
        let [one, two] = rack.send([900, 900]);
        assert!(one + two <= MBPS(1_100), "{one} and {two} at {} tenths", rack.tenths);
    }
}

#[test]
fn contention_is_relieved_within_three_intervals_of_a_start() {
    for direction in Direction::ALL {
        let mut rack = Rack::of(&policy("1Gb/s", ""), direction);
        rack.send_for(3, [300, 0]);
        let rates: Vec<[Bandwidth; 2]> = (0..10).map(|_| rack.send([900, 900])).collect();
        assert!(rates[3..].iter().all(|[one, two]| *one + *two <= MBPS(1_000)), "{direction}: {rates:?}");
    }
}

#[test]
fn a_steady_demand_does_not_fill_its_ceiling_at_a_contended_uplink() {
    for direction in Direction::ALL {
        let mut rack = Rack::of(&policy("1Gb/s", ""), direction);
        // Both are limited; then the second one uses nine tenths of its due share, less a little.
        rack.send_for(3, [900, 900]);
        rack.send_for(20, [900, 449]);
        for _ in 0..20 {
            let sent = rack.send([900, 449])[0];
            let limit = rack.hosts[1].broker.limit(direction, 0);
            // 449 and an eighth, where 500 are due.
            assert!(MBPS(505) <= limit && limit < MBPS(506), "{limit} ({direction})");
            assert!(sent >= MBPS(550), "the first machine has the rest: {sent} ({direction})");
        }
    }
}

#[test]
fn away_from_contention_no_instance_is_limited() {
    let mut rack = Rack::new(&policy("1Gb/s", ""));
    rack.send_for(3, [200, 200]);
    assert!(rack.hosts.iter().all(|host| host.broker.limit(Direction::Tx, 0).is_unlimited()));
    assert_eq!(rack.send_for(1, [800, 10]), [MBPS(800), MBPS(10)]);
}

#[test]
fn a_steady_rack_reports_once_a_period() {
    for wanted in [[200, 200], [900, 900], [0, 0]] {
        let mut rack = Rack::new(&policy("1Gb/s", ", rack: { max: 800Mb/s }"));
        rack.send_for(5, wanted);
        let before = rack.reports;
        rack.send_for(10, wanted);
        assert_eq!(rack.reports - before, 20, "{wanted:?}");
    }
}

#[test]
fn after_the_timeout_each_machine_has_its_part_of_the_maximum() {
    let mut rack = Rack::new(&policy("1Gb/s", ", rack: { max: 4Mb/s }"));
    assert_eq!(rack.send_for(3, [800, 0])[0], MBPS(4));
    // The other machine is down.
    let Host { broker, .. } = &mut rack.hosts[0];
    for tenth in 31..=90 {
        broker.handle_input(Instant::ZERO + Duration::from_millis(100 * tenth), Input::Timeout);
        broker.handle_input(Instant::ZERO + Duration::from_millis(100 * tenth), Input::Meters(&[]));
    }
    assert_eq!((broker.mode(), broker.limit(Direction::Tx, 0)), (Mode::Static, MBPS(2)));
}

#[test]
fn a_ceiling_leaves_room_for_marks_so_that_shares_settle() {
    let mut rack = Rack::of(&policy("10Gb/s", ", rack: { max: 900Mb/s }"), Direction::Rx);
    rack.hosts[0].marked = 50;
    // A receiving instance has a ceiling from the moment in which it was limited: to 450 Mb/s, of which the law passes
    // 225.
    assert_eq!(rack.send_for(3, [900, 900]), [MBPS(225), MBPS(450)]);
    rack.send_for(5, [200, 900]);
    let limits = |rack: &Rack| rack.hosts.each_ref().map(|host| host.broker.limit(Direction::Rx, 0));
    let settled = limits(&rack);
    for _ in 0..20 {
        assert_eq!(rack.send([200, 900]), [MBPS(200), settled[1]], "at {} tenths", rack.tenths);
        assert_eq!(limits(&rack), settled, "at {} tenths", rack.tenths);
    }
    // A limit of two and a quarter times the demand passes the demand and an eighth more. Rates are rounded.
    assert!(settled[0] >= MBPS(449) && settled[1] >= MBPS(700), "{settled:?}");
}

#[test]
fn a_maximum_holds_when_marks_end() {
    for marked in [50, 90] {
        let mut rack = Rack::of(&policy("10Gb/s", ", rack: { max: 900Mb/s }"), Direction::Rx);
        rack.send_for(3, [900, 900]);
        rack.hosts.iter_mut().for_each(|host| host.marked = marked);
        rack.send_for(5, [300, 300]);
        rack.hosts.iter_mut().for_each(|host| host.marked = 0);
        let rates: Vec<u64> = (0..20).map(|_| rack.send([900, 900]).iter().map(|rate| rate.bps()).sum()).collect();
        let worst = rates.windows(10).map(|second| second.iter().sum::<u64>() / 10).max().expect("seconds");
        assert!(worst <= 990_000_000, "{marked} %: {worst} b/s, {rates:?}");
    }
}
