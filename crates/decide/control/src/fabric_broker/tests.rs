use super::*;
use crate::fabric_message::{RackLimits, RackReport, RateRow};
use crate::rack_broker::LimitRule;
use crate::rate::rounded;
use weir_units::{Duration, MachineId, ServiceId};

const A: ServiceId = ServiceId(0);
const B: ServiceId = ServiceId(1);

/// Two racks of two machines; `a` is limited to `max` over all.
fn policy(max: &str) -> Arc<Policy> {
    let text = format!(
        "weir: 1\nnetwork: {{ nic: 10Gb/s, racks: {{ r1: {{ uplink: 10Gb/s, machines: [m1, m2] }}, \
         r2: {{ uplink: 10Gb/s, machines: [m3, m4] }} }} }}\nservices:\n  \
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

fn broker(stale: Stale) -> FabricBroker {
    let config = FabricBrokerConfig { stale, rule: LimitRule::Backlogged, ..FabricBrokerConfig::default() };
    FabricBroker::new(&policy("10Gb/s"), 1, config, at(0))
}

/// A report of a transmit demand of `a` Gb/s in a machine's rack.
fn report(machine: u32, round: u64, a: u64) -> RackReport {
    let rates = PerDirection { tx: gbps(a), rx: Bandwidth::ZERO };
    RackReport {
        machine: MachineId(machine),
        policy: policy("10Gb/s").digest(),
        epoch: 1,
        round,
        first: ServiceId(0),
        last: ServiceId(u32::MAX),
        rows: vec![RateRow { service: A, rates }],
    }
}

fn receive(broker: &mut FabricBroker, seconds: u64, reports: &[RackReport]) {
    for report in reports {
        broker.handle_input(at(seconds), FabricInput::Report(report));
    }
}

/// Ends the period at a time and returns the recipients with their limits on `a`. The leaders reply
/// that nothing else in their racks grows under the proposed limits.
fn period(broker: &mut FabricBroker, seconds: u64) -> Vec<(u32, Bandwidth)> {
    broker.handle_input(at(seconds), FabricInput::Timeout);
    let mut sent = Vec::new();
    while let Some(output) = broker.poll_output() {
        match output {
            FabricOutput::NotifyEpoch(_) | FabricOutput::StoreEpoch(_) => panic!("no epoch goes down"),
            FabricOutput::Propose { to, limits } => {
                let reply = reply(broker, to, &limits);
                broker.handle_input(at(seconds), FabricInput::Reply(&reply));
            }
            FabricOutput::SendLimits { to, limits } => {
                let rack = broker.allocator().policy().network().machine(to).rack();
                assert_eq!((limits.rack, limits.epoch, limits.round), (rack, 1, broker.round()));
                let row = limits.rows.iter().find(|row| row.service == A);
                sent.push((to.0, row.map_or(Bandwidth::UNLIMITED, |row| row.rates.tx)));
            }
        }
    }
    sent
}

/// A rack's demands, at most the proposed limits.
fn reply(broker: &FabricBroker, machine: MachineId, limits: &RackLimits) -> RackReport {
    let offer = |(leaf, service): (usize, &ServiceId)| {
        let limit = limits.rows.iter().find(|row| row.service == *service).map(|row| row.rates.tx);
        let demand = broker.demand(limits.rack, leaf, Direction::Tx);
        let tx = demand.min(limit.unwrap_or(Bandwidth::UNLIMITED));
        RateRow { service: *service, rates: PerDirection { tx, rx: Bandwidth::ZERO } }
    };
    let rows = broker.allocator().leaves().iter().enumerate().map(offer).collect();
    let RackLimits { policy, epoch, round, first, last, .. } = *limits;
    RackReport { machine, policy, epoch, round, first, last, rows }
}

#[test]
fn worked_example() {
    let mut broker = broker(Stale::Keep);
    assert_eq!(broker.poll_timeout(), Some(at(10)));
    receive(&mut broker, 1, &[report(0, 1, 8), report(2, 1, 8)]);
    assert_eq!(period(&mut broker, 10), [(0, gbps(5)), (2, gbps(5))]);
    receive(&mut broker, 11, &[report(0, 2, 3), report(2, 2, 8)]);
    let eight = broker.limit(RackId(1), 0, Direction::Tx);
    assert_eq!(eight, gbps(5), "the last period's");
    let sent = period(&mut broker, 20);
    // 3 Gb/s is rounded down in the report, so the second rack has a little more than 7 Gb/s.
    let seven = Bandwidth::from_gbps(10) - gbps(3);
    assert_eq!(sent, [(0, Bandwidth::UNLIMITED), (2, rounded(seven))]);
    assert_eq!(broker.demand(RackId(1), 0, Direction::Tx), gbps(8));
}

#[test]
fn early_timeout_is_a_no_op() {
    let mut broker = broker(Stale::Keep);
    receive(&mut broker, 1, &[report(0, 1, 8)]);
    assert_eq!(period(&mut broker, 9), []);
    assert_eq!(broker.round(), 0);
}

#[test]
fn demands_of_a_silent_rack_are_kept_or_expire() {
    for (stale, then) in [(Stale::Keep, gbps(5)), (Stale::Forget, Bandwidth::UNLIMITED)] {
        let mut broker = broker(stale);
        receive(&mut broker, 0, &[report(0, 1, 8)]);
        for second in 1..=6 {
            receive(&mut broker, 10 * second - 1, &[report(2, second, 8)]);
            let sent = period(&mut broker, 10 * second);
            // The silent rack receives limits until its timeout, because earlier ones may be lost.
            let expected = match second {
                1..5 => vec![(0, gbps(5)), (2, gbps(5))],
                5 => vec![(2, then)],
                _ => vec![(2, then)],
            };
            assert_eq!(sent, expected, "{stale:?} at {} s", 10 * second);
        }
        assert_eq!(broker.racks_reporting(), 1);
        assert_eq!(broker.racks_forgotten() as u64, broker.counters().forgotten);
        assert_eq!(broker.counters().forgotten, u64::from(stale == Stale::Forget));
        receive(&mut broker, 61, &[report(0, 2, 8)]);
        assert_eq!((broker.racks_forgotten(), broker.demand(RackId(0), 0, Direction::Tx)), (0, gbps(8)));
    }
}

#[test]
fn reports_of_two_leaders_of_one_rack_combine_by_maximum() {
    // In a partition each leader reports a part of the rack: the larger demand counts, and both
    // leaders receive limits.
    let mut broker = broker(Stale::Keep);
    receive(&mut broker, 1, &[report(0, 7, 8), report(1, 3, 1), report(2, 1, 8)]);
    assert_eq!(period(&mut broker, 10), [(0, gbps(5)), (1, gbps(5)), (2, gbps(5))]);
    receive(&mut broker, 11, &[report(1, 4, 1), report(0, 8, 8)]);
    assert_eq!(period(&mut broker, 20), [(0, gbps(5)), (1, gbps(5)), (2, gbps(5))]);
    // After the partition the next period's only report counts alone.
    receive(&mut broker, 21, &[report(1, 5, 3)]);
    let seven = Bandwidth::from_gbps(10) - gbps(3);
    assert_eq!(period(&mut broker, 30), [(1, Bandwidth::UNLIMITED), (2, rounded(seven))]);
    assert_eq!(broker.leader(RackId(0)), Some(MachineId(1)));
}

#[test]
fn rejected_reports_are_counted() {
    let mut broker = broker(Stale::Keep);
    receive(&mut broker, 1, &[report(0, 5, 8), report(0, 5, 8), report(0, 4, 1)]);
    let altered = |change: fn(&mut RackReport)| {
        let mut report = report(0, 9, 1);
        change(&mut report);
        report
    };
    receive(
        &mut broker,
        1,
        &[
            altered(|report| report.machine = MachineId(4)),
            altered(|report| report.policy ^= 1),
            altered(|report| report.rows[0].service = ServiceId(7)),
            altered(|report| report.first = B),
            altered(|report| report.rows.push(report.rows[0])),
            altered(|report| report.rows[0].rates.rx = Bandwidth::UNLIMITED),
        ],
    );
    let expected = FabricBrokerCounters {
        accepted: 1,
        replayed: 2,
        unknown_machine: 1,
        other_policy: 1,
        malformed: 4,
        epoch_notices: 1,
        ..FabricBrokerCounters::default()
    };
    assert_eq!(*broker.counters(), expected);
    assert_eq!(broker.demand(RackId(0), 0, Direction::Tx), gbps(8));
}

#[test]
fn parts_of_a_report_are_independent() {
    // `a` and `b` in two parts of one round, in any order, each accepted once.
    let mut broker = broker(Stale::Keep);
    let mut a = report(0, 1, 8);
    a.last = A;
    let mut b = report(0, 1, 3);
    (b.first, b.rows[0].service) = (B, B);
    receive(&mut broker, 1, &[b.clone(), a, b]);
    assert_eq!((broker.counters().accepted, broker.counters().replayed), (2, 1));
    assert_eq!(broker.demand(RackId(0), 0, Direction::Tx), gbps(8));
    assert_eq!(broker.demand(RackId(0), 1, Direction::Tx), gbps(3));
    // Where a part of the next round is lost, its services keep their demands.
    let mut a = report(0, 2, 4);
    a.last = A;
    period(&mut broker, 10);
    receive(&mut broker, 11, &[a]);
    assert_eq!(broker.demand(RackId(0), 0, Direction::Tx), gbps(4));
    assert_eq!(broker.demand(RackId(0), 1, Direction::Tx), gbps(3));
}

#[test]
fn policy_update_keeps_demands() {
    let mut broker = broker(Stale::Keep);
    receive(&mut broker, 1, &[report(0, 1, 8), report(2, 1, 8)]);
    broker.set_policy(&policy("4Gb/s")).expect("the same racks, machines and services");
    assert_eq!(period(&mut broker, 10), [(0, gbps(2)), (2, gbps(2))]);
    let text = "weir: 1\nnetwork: { nic: 10Gb/s, racks: { r1: { uplink: 10Gb/s, machines: [m1] } } }\n\
                services: { a: { match: [ { protocol: tcp, port: 1 } ] } }\n";
    let other = Arc::new(Policy::parse("policy.yaml", text).expect("the policy is valid").0);
    assert_eq!(broker.set_policy(&other), Err(IncompatiblePolicy));
}

#[test]
fn unfetched_limits_are_dropped_at_the_next_period() {
    let mut broker = broker(Stale::Keep);
    receive(&mut broker, 1, &[report(0, 1, 2), report(2, 1, 2)]);
    broker.handle_input(at(10), FabricInput::Timeout);
    assert!(broker.poll_output().is_some());
    broker.handle_input(at(20), FabricInput::Timeout);
    assert_eq!(broker.counters().dropped_outputs, 1);
    assert!(broker.poll_output().is_some() && broker.poll_output().is_some());
    assert_eq!(broker.poll_output(), None);
}

#[test]
fn missing_reply_counts_as_the_proposed_limits_after_a_tenth_of_a_period() {
    let mut broker = broker(Stale::Keep);
    receive(&mut broker, 1, &[report(0, 1, 8), report(2, 1, 8)]);
    broker.handle_input(at(10), FabricInput::Timeout);
    let mut proposals = Vec::new();
    while let Some(output) = broker.poll_output() {
        let FabricOutput::Propose { to, limits } = output else { panic!("{output:?} precedes the replies") };
        assert_eq!(limits.rows[0].rates.tx, gbps(5));
        proposals.push((to, limits));
    }
    assert_eq!(proposals.len(), 2);
    // A reply to another exchange is none.
    let mut other = reply(&broker, proposals[0].0, &proposals[0].1);
    other.round += 1;
    broker.handle_input(at(10), FabricInput::Reply(&other));
    broker.handle_input(at(10), FabricInput::Reply(&reply(&broker, proposals[0].0, &proposals[0].1)));
    assert_eq!((broker.round(), broker.poll_timeout()), (0, Some(at(11))));
    assert_eq!(period(&mut broker, 11), [(0, gbps(5)), (2, gbps(5))]);
    let counters = broker.counters();
    assert_eq!((counters.replies, counters.replies_missed, counters.replayed), (1, 1, 1));
}

#[test]
fn changed_demands_are_shared_after_a_tenth_of_a_period() {
    let mut broker = broker(Stale::Keep);
    receive(&mut broker, 1, &[report(0, 1, 8), report(2, 1, 8)]);
    period(&mut broker, 10);
    assert_eq!(broker.poll_timeout(), Some(at(20)));
    receive(&mut broker, 10, &[report(0, 2, 3)]);
    assert_eq!(broker.poll_timeout(), Some(at(11)));
    let seven = Bandwidth::from_gbps(10) - gbps(3);
    assert_eq!(period(&mut broker, 12), [(0, Bandwidth::UNLIMITED), (2, rounded(seven))]);
    // A demand that stays within a tenth waits for the period's end.
    receive(&mut broker, 13, &[report(2, 2, 8)]);
    assert_eq!(broker.poll_timeout(), Some(at(20)));
}

#[test]
fn first_allocation_follows_the_reports_of_all_racks() {
    let mut broker = broker(Stale::Keep);
    receive(&mut broker, 5, &[report(0, 1, 8)]);
    assert_eq!(broker.poll_timeout(), Some(at(10)));
    let part = RackReport { last: A, ..report(2, 1, 8) };
    receive(&mut broker, 6, &[part]);
    assert_eq!(broker.poll_timeout(), Some(at(10)), "`b` in the second rack is missing");
    receive(&mut broker, 6, &[RackReport { first: B, rows: vec![], ..report(2, 1, 8) }]);
    assert_eq!(broker.poll_timeout(), Some(at(6)));
    assert_eq!(period(&mut broker, 6), [(0, gbps(5)), (2, gbps(5))]);
}

#[test]
fn racks_below_their_share_have_ceilings_under_a_maximum() {
    let mut broker = FabricBroker::new(&policy("10Gb/s"), 1, FabricBrokerConfig::default(), at(0));
    receive(&mut broker, 1, &[report(0, 1, 3), report(2, 1, 8)]);
    let sent = period(&mut broker, 10);
    let seven = Bandwidth::from_gbps(10) - gbps(3);
    assert_eq!(sent[1], (2, rounded(seven)));
    // An eighth of its demand, to vary, and a part of a twentieth of the maximum, to begin.
    let ceiling = sent[0].1;
    assert!(ceiling > Bandwidth::from_mbps(3_374) && ceiling < Bandwidth::from_mbps(3_900), "{ceiling}");
}
