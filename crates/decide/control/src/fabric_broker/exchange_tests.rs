use crate::fabric_broker::{FabricBroker, FabricBrokerConfig, FabricInput, FabricOutput};
use crate::fabric_message::{RackLimits, RackReport, RateRow};
use crate::rack_broker::LimitRule;
use crate::rate::rounded;
use std::sync::Arc;
use weir_policy::Policy;
use weir_units::{Bandwidth, Direction, Duration, Instant, MachineId, PerDirection, RackId, ServiceId};

/// Two racks of two machines; over both, `a` may use 10 and `b` 9 Gb/s.
fn policy() -> Arc<Policy> {
    let text = "weir: 1\nnetwork: { nic: 10Gb/s, racks: { r1: { uplink: 20Gb/s, machines: [m1, m2] }, \
                r2: { uplink: 20Gb/s, machines: [m3, m4] } } }\nservices:\n  \
                a: { match: [ { protocol: tcp, port: 1 } ], fabric: { max: 10Gb/s } }\n  \
                b: { match: [ { protocol: tcp, port: 2 } ], fabric: { max: 9Gb/s } }\n";
    Arc::new(Policy::parse("policy.yaml", text).expect("the policy is valid").0)
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn mbps(rate: u64) -> Bandwidth {
    rounded(Bandwidth::from_mbps(rate))
}

/// A report, or a reply with an exchange's number, of `a` and `b` in Mb/s.
fn rates(machine: u32, round: u64, of: [u64; 2]) -> RackReport {
    let row = |service| RateRow {
        service: ServiceId(service),
        rates: PerDirection { tx: mbps(of[service as usize]), rx: Bandwidth::ZERO },
    };
    RackReport {
        machine: MachineId(machine),
        policy: policy().digest(),
        epoch: 1,
        round,
        first: ServiceId(0),
        last: ServiceId(u32::MAX),
        rows: vec![row(0), row(1)],
    }
}

/// A broker that has received these reports in its tenth second.
fn broker(reports: &[RackReport]) -> FabricBroker {
    let config = FabricBrokerConfig { rule: LimitRule::Backlogged, ..FabricBrokerConfig::default() };
    let mut broker = FabricBroker::new(&policy(), 1, config, at(0));
    reports.iter().for_each(|report| broker.handle_input(at(9), FabricInput::Report(report)));
    broker
}

/// Ends a wait or a period; returns the proposals by recipient, with the number of their exchange.
fn proposals(broker: &mut FabricBroker, seconds: u64) -> Vec<(u32, RackLimits)> {
    broker.handle_input(at(seconds), FabricInput::Timeout);
    std::iter::from_fn(|| broker.poll_output())
        .filter_map(|output| match output {
            FabricOutput::Propose { to, limits } => Some((to.0, limits)),
            FabricOutput::SendLimits { .. } => None,
            FabricOutput::NotifyEpoch(_) | FabricOutput::StoreEpoch(_) => panic!("no epoch goes down"),
        })
        .collect()
}

fn recipients(proposals: &[(u32, RackLimits)]) -> Vec<u32> {
    proposals.iter().map(|(to, _)| *to).collect()
}

/// The broker after an allocation in which both racks replied that they offer 5 and 4.5 Gb/s, and
/// the number of its exchange.
fn allocated() -> (FabricBroker, u64) {
    let mut broker = broker(&[rates(0, 1, [8_000, 8_000]), rates(2, 1, [8_000, 8_000])]);
    let proposed = proposals(&mut broker, 10);
    assert_eq!(recipients(&proposed), [0, 2]);
    let number = proposed[0].1.round;
    for machine in [0, 2] {
        broker.handle_input(at(10), FabricInput::Reply(&rates(machine, number, [5_000, 4_500])));
    }
    assert_eq!(broker.round(), 1);
    while broker.poll_output().is_some() {}
    (broker, number)
}

#[test]
fn offers_that_changed_under_the_proposed_limits_start_an_exchange() {
    let (mut steady, number) = allocated();
    // The same demands, and offers within a 64th, leave the limits.
    steady.handle_input(at(15), FabricInput::Report(&rates(0, 2, [8_000, 8_000])));
    steady.handle_input(at(15), FabricInput::Reply(&rates(0, number, [4_950, 4_500])));
    assert_eq!((steady.poll_timeout(), recipients(&proposals(&mut steady, 20))), (Some(at(20)), vec![]));
    // Less is reported, which the demands do not show.
    let (mut falling, number) = allocated();
    falling.handle_input(at(15), FabricInput::Reply(&rates(0, number, [4_800, 4_500])));
    assert_eq!((falling.poll_timeout(), recipients(&proposals(&mut falling, 20))), (Some(at(20)), vec![0, 2]));
    // A change by more than a tenth is shared at once.
    let (mut much, number) = allocated();
    much.handle_input(at(15), FabricInput::Reply(&rates(0, number, [4_000, 4_500])));
    assert_eq!((much.poll_timeout(), recipients(&proposals(&mut much, 15))), (Some(at(15)), vec![0, 2]));
    // A reply to an earlier proposal shows nothing.
    let (mut earlier, number) = allocated();
    earlier.handle_input(at(15), FabricInput::Reply(&rates(0, number - 1, [4_000, 4_500])));
    assert_eq!((earlier.counters().replayed, recipients(&proposals(&mut earlier, 20))), (1, vec![]));
}

#[test]
fn leader_that_has_not_replied_starts_an_exchange() {
    // Another machine has become the leader.
    let (mut broker, _) = allocated();
    broker.handle_input(at(15), FabricInput::Report(&rates(1, 1, [8_000, 8_000])));
    assert_eq!(recipients(&proposals(&mut broker, 20)), [1, 2]);
    // The leader has restarted.
    let (mut broker, _) = allocated();
    broker.handle_input(at(15), FabricInput::Report(&RackReport { epoch: 2, ..rates(0, 1, [8_000, 8_000]) }));
    assert_eq!(recipients(&proposals(&mut broker, 20)), [0, 2]);
}

#[test]
fn replies_of_two_leaders_of_one_rack_combine_by_maximum() {
    let reports = [rates(0, 1, [8_000, 1_000]), rates(1, 1, [8_000, 1_000]), rates(2, 1, [8_000, 1_000])];
    for replies in [[2_000, 3_000], [3_000, 2_000]] {
        let mut broker = broker(&reports);
        let proposed = proposals(&mut broker, 10);
        assert_eq!(recipients(&proposed), [0, 1, 2]);
        let number = proposed[0].1.round;
        broker.handle_input(at(10), FabricInput::Reply(&rates(2, number, [5_000, 1_000])));
        broker.handle_input(at(10), FabricInput::Reply(&rates(0, number, [5_000, replies[0]])));
        assert_eq!((broker.round(), broker.poll_timeout()), (0, Some(at(11))), "the other leader's is awaited");
        broker.handle_input(at(10), FabricInput::Reply(&rates(1, number, [5_000, replies[1]])));
        assert_eq!((broker.round(), broker.offer(RackId(0), 1, Direction::Tx)), (1, mbps(3_000)));
    }
    // One reply is enough where the other is lost.
    let mut broker = broker(&reports);
    let number = proposals(&mut broker, 10)[0].1.round;
    broker.handle_input(at(10), FabricInput::Reply(&rates(2, number, [5_000, 1_000])));
    broker.handle_input(at(10), FabricInput::Reply(&rates(0, number, [4_000, 3_000])));
    broker.handle_input(at(11), FabricInput::Timeout);
    assert_eq!((broker.round(), broker.offer(RackId(0), 0, Direction::Tx)), (1, mbps(4_000)));
    assert_eq!(broker.counters().replies_missed, 1);
}

#[test]
fn rack_without_a_reply_has_no_more_proposals_in_the_allocation() {
    let mut broker = broker(&[rates(0, 1, [6_000, 9_000]), rates(2, 1, [3_000, 9_000])]);
    let proposed = proposals(&mut broker, 10);
    assert_eq!(recipients(&proposed), [0, 2]);
    broker.handle_input(at(10), FabricInput::Reply(&rates(2, proposed[0].1.round, [5_500, 4_500])));
    // `a` exceeds its maximum in both racks now.
    let proposed = proposals(&mut broker, 11);
    assert_eq!(recipients(&proposed), [2]);
    assert_eq!(broker.counters().replies_missed, 1);
}
