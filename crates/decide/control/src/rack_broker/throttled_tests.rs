//! Throttling by the network ([`crate::demand`]) in a rack of ten machines, capped at 60 of its 100
//! Gb/s.

use super::*;
use crate::rate::rounded;
use crate::report::UsageReport;
use weir_units::{Bytes, Duration, ServiceId};

const MACHINES: usize = 10;
const CAP: Bandwidth = Bandwidth::from_gbps(60);

fn policy() -> Arc<Policy> {
    let text = "weir: 1\nnetwork: { nic: 10Gb/s, racks: { r: { uplink: 100Gb/s, machines: [\"m[1-10]\"] } } }\n\
                services:\n  a: { match: [ { protocol: tcp, port: 1 } ] }\n  \
                b: { match: [ { protocol: tcp, port: 2 } ] }\ncaps: { rack: 60Gb/s }\n";
    Arc::new(Policy::parse("policy.yaml", text).expect("the policy is valid").0)
}

/// Traffic received by a machine in a period.
#[derive(Clone, Copy)]
struct Arrival {
    /// Of `a` and of `b`, in Mb/s.
    received: [u64; 2],
    /// Marked packets of `a`, in percent.
    marked: u64,
}

/// Ten machines and their meters.
struct Rack {
    brokers: Vec<RackBroker>,
    /// Seconds since the start.
    second: u64,
    /// By machine and leaf.
    meters: Vec<[MeterReading; 2]>,
    /// Number of machines, the last ones, whose reports are lost.
    silent: usize,
}

impl Rack {
    /// After the first period, which shows no usage yet.
    fn new(silent: usize) -> Self {
        let policy = policy();
        let broker = |m| RackBroker::new(&policy, MachineId(m), 1, RackBrokerConfig::published(), Instant::ZERO);
        let reading = |leaf| MeterReading {
            service: ServiceId(leaf),
            bytes: PerDirection::default(),
            waits: false,
            network: NetworkReading { rate: Some(Bandwidth::from_mbps(10)), ..NetworkReading::default() },
        };
        let brokers = (0..MACHINES as u32).map(broker).collect();
        let mut rack = Self { brokers, second: 0, meters: vec![[reading(0), reading(1)]; MACHINES], silent };
        rack.end_period();
        rack
    }

    /// A second in which each machine receives this traffic.
    fn period(&mut self, arrival: impl Fn(usize) -> Arrival) {
        self.second += 1;
        for (m, meters) in self.meters.iter_mut().enumerate() {
            let Arrival { received, marked } = arrival(m);
            for (leaf, reading) in meters.iter_mut().enumerate() {
                reading.bytes.rx += Bytes::new(received[leaf] * 125_000);
                reading.network.packets += 100;
                reading.network.marked += if leaf == 0 { marked } else { 0 };
            }
        }
        self.end_period();
    }

    /// All machines measure and report, then receive each other's reports before the next period.
    fn end_period(&mut self) {
        let now = Instant::ZERO + Duration::from_secs(self.second);
        let mut reports: Vec<UsageReport> = Vec::new();
        for (m, broker) in self.brokers.iter_mut().enumerate() {
            broker.handle_input(now, Input::Timeout);
            while let Some(output) = broker.poll_output() {
                match output {
                    Output::ReadMeters => broker.handle_input(now, Input::Meters(&self.meters[m])),
                    Output::Broadcast(report) if m < MACHINES - self.silent => reports.push(report),
                    Output::Broadcast(_) | Output::SetLimits(_) => {}
                    Output::NotifyEpoch(_) | Output::FabricEpoch(_) | Output::StoreEpoch(_) => {
                        panic!("no epoch goes down")
                    }
                    Output::Relay(_) | Output::ReportRack(_) | Output::ReplyRack(_) | Output::ShutOut(_) => {
                        panic!("the policy has no fabric section")
                    }
                }
            }
        }
        for (m, broker) in self.brokers.iter_mut().enumerate() {
            let others = reports.iter().filter(|report| report.machine.index() != m);
            others.for_each(|report| broker.handle_input(now, Input::Report(report)));
        }
    }

    /// The receive limits on `a`, by machine.
    fn limits(&self) -> Vec<Bandwidth> {
        self.brokers.iter().map(|broker| broker.limit(Direction::Rx, 0)).collect()
    }
}

/// The brokers after three periods in which each machine received `received` Mb/s of both services,
/// with `marked` percent of the packets of `a` marked. The reports of the last `silent` machines
/// are lost.
fn rack(received: impl Fn(usize) -> [u64; 2], marked: u64, silent: usize) -> Vec<RackBroker> {
    let mut rack = Rack::new(silent);
    for _ in 0..2 {
        rack.period(|m| Arrival { received: received(m), marked });
    }
    rack.brokers
}

/// A rack whose machines have a limit of 6 Gb/s each on `a` and have used all of it for a period,
/// so that the limits no longer count as just lowered.
fn limited() -> Rack {
    let mut rack = Rack::new(0);
    rack.period(|_| Arrival { received: [7_000, 0], marked: 50 });
    // Each machine computes before it receives: the limits of a period follow from the reports of
    // the one before.
    for _ in 0..2 {
        rack.period(|_| Arrival { received: [6_000, 0], marked: 50 });
    }
    assert!(rack.limits().iter().all(|limit| *limit == Bandwidth::from_gbps(6)), "{:?}", rack.limits());
    rack
}

#[test]
fn limits_used_by_half_stay_while_packets_are_marked() {
    let mut rack = limited();
    let before = rack.limits();
    // Half more than 3 is 4.5 Gb/s, all ten machines together 45 of 60 Gb/s.
    for marked in [50, 25, 47, 7, 25, 50] {
        rack.period(|_| Arrival { received: [3_000, 0], marked });
        assert_eq!(rack.limits(), before, "{marked} of a hundred marked");
    }
    // Below a sixteenth marked, usage is the demand. One period later all machines have all
    // reports.
    for _ in 0..2 {
        rack.period(|_| Arrival { received: [3_000, 0], marked: 6 });
    }
    assert!(rack.limits().iter().all(|limit| limit.is_unlimited()), "{:?}", rack.limits());
    // Without a limit 45 Gb/s are below the cap, so none is set.
    for _ in 0..2 {
        rack.period(|_| Arrival { received: [3_000, 0], marked: 50 });
        assert!(rack.limits().iter().all(|limit| limit.is_unlimited()), "{:?}", rack.limits());
    }
}

#[test]
fn limit_used_by_less_than_half_is_lifted() {
    // A remote queue leaves a tenth of the limit. Others must not lose the rest while it marks.
    let mut rack = limited();
    for _ in 0..2 {
        rack.period(|_| Arrival { received: [600, 0], marked: 50 });
    }
    assert!(rack.limits().iter().all(|limit| limit.is_unlimited()), "{:?}", rack.limits());
}

#[test]
fn cap_is_enforced_with_three_of_ten_machines_silent_but_not_with_four() {
    // 97 % of the cap is received, equally by all ten machines.
    let received = |_| [CAP.bps() / 1_000_000 * 97 / 100 / MACHINES as u64, 0];
    for silent in 0..=4 {
        let brokers = rack(received, 25, silent);
        for (m, broker) in brokers.iter().take(MACHINES - silent).enumerate() {
            let limited = !broker.limit(Direction::Rx, 0).is_unlimited();
            assert_eq!(limited, silent <= 3, "m{} with {silent} silent: {}", m + 1, broker.limit(Direction::Rx, 0));
        }
    }
    // With fewer marks no machine is limited: the received traffic is below the cap.
    assert!(rack(received, 24, 0).iter().all(|broker| broker.limit(Direction::Rx, 0).is_unlimited()));
}

#[test]
fn remote_marks_cost_other_services_at_most_half_of_the_marked_usage() {
    // A queue that no limit here can drain throttles `a` on three machines. `b` has an unlimited
    // demand on seven.
    for used in [0, 500, 2_000, 4_000, 6_000] {
        let received = |m| if m < 3 { [used, 0] } else { [0, 9_900] };
        let of_b = |marked| {
            let brokers = rack(received, marked, 0);
            let shares = brokers[0].shares(Direction::Rx);
            shares.of_service(brokers[0].allocator(), 1)
        };
        let (calm, marked) = (of_b(0), of_b(50));
        let reported = Bandwidth::from_bps(3 * rounded(Bandwidth::from_mbps(used)).bps());
        // One of two services never has less than half.
        let expected = |taken: Bandwidth| CAP.saturating_sub(taken).max(Bandwidth::from_gbps(30)).min(calm);
        assert!(marked >= expected(Bandwidth::from_bps(reported.bps() / 2 * 3)), "{used}: {marked} of {calm}");
        assert!(calm - marked <= Bandwidth::from_bps(reported.bps() / 2), "{used}: {marked} of {calm}");
        assert_eq!(used > 0, marked < calm);
    }
}
