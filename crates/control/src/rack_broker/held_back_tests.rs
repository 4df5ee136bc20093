//! What [`HELD_BACK_PERCENT`](crate::demand) does in a rack of ten machines, capped at 60 of its 100 Gb/s.

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

/// The brokers after three periods in which each machine received `received` Mb/s of both services, `a` with so many of a hundred
/// packets marked. The last `silent` machines are not heard by anybody.
fn rack(received: impl Fn(usize) -> [u64; 2], marked: u64, silent: usize) -> Vec<RackBroker> {
    let policy = policy();
    let broker = |m| RackBroker::new(&policy, MachineId(m), 1, RackBrokerConfig::default(), Instant::ZERO);
    let mut brokers: Vec<RackBroker> = (0..MACHINES as u32).map(broker).collect();
    for second in 0..3 {
        let now = Instant::ZERO + Duration::from_secs(second);
        let mut reports: Vec<UsageReport> = Vec::new();
        // All measure and tell, then all have heard each other before the next period.
        for (m, broker) in brokers.iter_mut().enumerate() {
            broker.handle_input(now, Input::Timeout);
            while let Some(output) = broker.poll_output() {
                match output {
                    Output::ReadMeters => {
                        let reading = |leaf: usize| MeterReading {
                            service: ServiceId(leaf as u32),
                            bytes: PerDirection {
                                tx: Bytes::ZERO,
                                rx: Bytes::new(second * received(m)[leaf] * 125_000),
                            },
                            network: NetworkReading {
                                packets: second * 100,
                                marked: if leaf == 0 { second * marked } else { 0 },
                                rate: Some(Bandwidth::from_mbps(10)),
                            },
                        };
                        broker.handle_input(now, Input::Meters(&[reading(0), reading(1)]));
                    }
                    Output::Broadcast(report) if m < MACHINES - silent => reports.push(report),
                    Output::Broadcast(_) | Output::SetLimits(_) => {}
                    Output::Relay(_) | Output::ReportRack(_) => panic!("the policy does not speak of the fabric"),
                }
            }
        }
        for (m, broker) in brokers.iter_mut().enumerate() {
            let others = reports.iter().filter(|report| report.machine.index() != m);
            others.for_each(|report| broker.handle_input(now, Input::Report(report)));
        }
    }
    brokers
}

#[test]
fn a_cap_is_found_with_three_of_ten_machines_silent_and_not_with_four() {
    // 97 % of the cap arrive, from all ten machines alike.
    let received = |_| [CAP.bps() / 1_000_000 * 97 / 100 / MACHINES as u64, 0];
    for silent in 0..=4 {
        let brokers = rack(received, 25, silent);
        for (m, broker) in brokers.iter().take(MACHINES - silent).enumerate() {
            let limited = !broker.limit(Direction::Rx, 0).is_unlimited();
            assert_eq!(limited, silent <= 3, "m{} with {silent} silent: {}", m + 1, broker.limit(Direction::Rx, 0));
        }
    }
    // Fewer marks, and nobody is limited: what arrives is below the cap.
    assert!(rack(received, 24, 0).iter().all(|broker| broker.limit(Direction::Rx, 0).is_unlimited()));
}

#[test]
fn marks_from_elsewhere_cost_others_at_most_half_of_what_the_marked_service_uses() {
    // `a` on four machines is slowed by a queue that no limit here can empty. `b` asks for all that it can get on six.
    for used in [0, 500, 2_000, 4_000, 6_000] {
        let received = |m| if m < 4 { [used, 0] } else { [0, 9_900] };
        let of_b = |marked| {
            let brokers = rack(received, marked, 0);
            let shares = brokers[0].shares(Direction::Rx);
            shares.of_service(brokers[0].allocator(), 1)
        };
        let (calm, marked) = (of_b(0), of_b(50));
        let told = Bandwidth::from_bps(4 * rounded(Bandwidth::from_mbps(used)).bps());
        // A service of two never has less than its half.
        let expected = |taken: Bandwidth| CAP.saturating_sub(taken).max(Bandwidth::from_gbps(30)).min(calm);
        assert!(marked >= expected(Bandwidth::from_bps(told.bps() / 2 * 3)), "{used}: {marked} of {calm}");
        assert!(calm - marked <= Bandwidth::from_bps(told.bps() / 2), "{used}: {marked} of {calm}");
        assert_eq!(used > 0, marked < calm);
    }
}
