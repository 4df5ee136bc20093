//! A fabric broker, and leaders, whose epochs go down.

use super::*;
use crate::epoch::{EpochNotice, LARGEST_CLAIM};
use crate::fabric_message::{RackLimits, RackReport, RateRow};
use crate::rate::rounded;
use weir_units::{Duration, MachineId, ServiceId};

fn policy() -> Arc<Policy> {
    let text = "weir: 1\nnetwork: { nic: 10Gb/s, racks: { r1: { uplink: 10Gb/s, machines: [m1, m2] }, \
                r2: { uplink: 10Gb/s, machines: [m3, m4] } } }\nservices:\n  \
                a: { match: [ { protocol: tcp, port: 1 } ], fabric: { max: 10Gb/s } }\n";
    Arc::new(Policy::parse("policy.yaml", text).expect("the policy is valid").0)
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn report(machine: u32, (epoch, round): (u64, u64), gbps: u64) -> RackReport {
    let rates = PerDirection { tx: rounded(Bandwidth::from_gbps(gbps)), rx: Bandwidth::ZERO };
    RackReport {
        machine: MachineId(machine),
        policy: policy().digest(),
        epoch,
        round,
        first: ServiceId(0),
        last: ServiceId(u32::MAX),
        rows: vec![RateRow { service: ServiceId(0), rates }],
    }
}

/// Passes an input in and returns the limits and the notices that are sent. Leaders reply to proposals with their
/// demands, at most the limits.
fn input(broker: &mut FabricBroker, seconds: u64, input: FabricInput<'_>) -> (Vec<RackLimits>, Vec<FabricOutput>) {
    broker.handle_input(at(seconds), input);
    let (mut sent, mut notices) = (Vec::new(), Vec::new());
    while let Some(output) = broker.poll_output() {
        match output {
            FabricOutput::SendLimits { limits, .. } => sent.push(limits),
            FabricOutput::Propose { to, limits } => {
                assert_eq!(limits.epoch, broker.epoch());
                let RackLimits { policy, epoch, round, first, last, rows, .. } = limits;
                let rates = |row: &RateRow| PerDirection { tx: row.rates.tx, rx: Bandwidth::ZERO };
                let rows = rows.iter().map(|row| RateRow { rates: rates(row), ..*row }).collect();
                let reply = RackReport { machine: to, policy, epoch, round, first, last, rows };
                broker.handle_input(at(seconds), FabricInput::Reply(&reply));
            }
            notice => notices.push(notice),
        }
    }
    (sent, notices)
}

/// A broker in epoch 5 that has sent limits to the leaders of both racks, of epoch 7.
fn broker() -> FabricBroker {
    let mut broker = FabricBroker::new(&policy(), 5, FabricBrokerConfig::default(), at(0));
    for machine in [0, 1, 2] {
        let (sent, notices) = input(&mut broker, 1, FabricInput::Report(&report(machine, (7, 1), 8)));
        assert!(sent.is_empty() && notices.is_empty());
    }
    let (sent, notices) = input(&mut broker, 10, FabricInput::Timeout);
    assert!(sent.iter().map(|limits| (limits.epoch, limits.round)).eq([(5, 1); 3]) && notices.is_empty());
    broker
}

#[test]
fn a_leader_whose_epoch_goes_down_receives_a_notice() {
    let mut broker = broker();
    let notice = |epoch, round| {
        let (policy, to) = (policy().digest(), Some(MachineId(2)));
        FabricOutput::NotifyEpoch(EpochNotice { from: None, policy, to, epoch, round })
    };
    let older = report(2, (3, 50), 4);
    assert_eq!(input(&mut broker, 11, FabricInput::Report(&older)).1, [notice(7, 1)]);
    // Not for each part, and again after a loss.
    assert_eq!(input(&mut broker, 11, FabricInput::Report(&older)).1, []);
    assert_eq!(input(&mut broker, 12, FabricInput::Report(&older)).1, [notice(7, 1)]);
    assert_eq!(broker.demand(RackId(1), 0, Direction::Tx), rounded(Bandwidth::from_gbps(8)));
    let counters = *broker.counters();
    assert_eq!((counters.older_epoch, counters.epoch_notices, counters.replayed), (3, 2, 0));
    assert_eq!(input(&mut broker, 12, FabricInput::Report(&report(2, (8, 51), 4))).1, []);
    assert_eq!(broker.demand(RackId(1), 0, Direction::Tx), rounded(Bandwidth::from_gbps(4)));
}

#[test]
fn a_broker_whose_epoch_goes_down_sends_its_limits_again_above_the_known_one() {
    let mut broker = broker();
    let notice = EpochNotice { from: Some(MachineId(0)), policy: policy().digest(), to: None, epoch: 900, round: 40 };
    let (sent, outputs) = input(&mut broker, 10, FabricInput::EpochNotice(&notice));
    assert_eq!(outputs, [FabricOutput::StoreEpoch(901)]);
    // To both leaders of the first rack, as before.
    let stamps = sent.iter().map(|limits| (limits.rack.0, limits.epoch, limits.round));
    assert!(stamps.eq([(0, 901, 2), (0, 901, 2), (1, 901, 2)]), "{sent:?}");
    // Both leaders send it, and one of them again.
    for from in [0, 2, 0] {
        let again = EpochNotice { from: Some(MachineId(from)), ..notice };
        assert_eq!(input(&mut broker, 10, FabricInput::EpochNotice(&again)), (vec![], vec![]));
    }
    assert_eq!((broker.epoch(), broker.counters().epochs_raised), (901, 1));
}

/// A leader that sends notices of ever higher stamps neither keeps limits back nor has them sent at its pace.
#[test]
fn a_stream_of_notices_raises_the_epoch_some_times_and_then_once_a_period() {
    let mut broker = broker();
    let mut epoch = 900;
    let mut sent = vec![0; 3];
    for (period, sent) in sent.iter_mut().enumerate() {
        for second in 0..10 {
            let now = 10 + period as u64 * 10 + second;
            for _ in 0..100 {
                epoch += 2;
                let (from, policy) = (Some(MachineId(0)), policy().digest());
                let notice = EpochNotice { from, policy, to: None, epoch, round: 0 };
                *sent += input(&mut broker, now, FabricInput::EpochNotice(&notice)).0.len();
            }
            for machine in [0, 2] {
                input(&mut broker, now, FabricInput::Report(&report(machine, (7, now), 8)));
            }
            *sent += input(&mut broker, now, FabricInput::Timeout).0.len();
        }
    }
    assert!(sent[0] >= 2 && sent.iter().skip(1).all(|sent| (2..=9).contains(sent)), "{sent:?}");
    assert!((16..=19).contains(&broker.counters().epochs_raised), "{}", broker.counters().epochs_raised);
}

#[test]
fn notices_of_no_newer_stamp_of_this_broker_have_no_effect() {
    let mut broker = broker();
    let notice = EpochNotice { from: Some(MachineId(0)), policy: policy().digest(), to: None, epoch: 5, round: 1 };
    let ignored = [
        notice,
        EpochNotice { epoch: 4, round: 99, ..notice },
        EpochNotice { epoch: 900, to: Some(MachineId(0)), ..notice },
        EpochNotice { epoch: 900, from: None, ..notice },
        EpochNotice { epoch: 900, from: Some(MachineId(9)), ..notice },
        EpochNotice { epoch: 900, policy: 1, ..notice },
        EpochNotice { epoch: LARGEST_CLAIM + 1, ..notice },
    ];
    for notice in ignored {
        assert_eq!(input(&mut broker, 10, FabricInput::EpochNotice(&notice)), (vec![], vec![]), "{notice:?}");
    }
    let counters = *broker.counters();
    assert_eq!((counters.unknown_machine, counters.other_policy, counters.malformed), (3, 1, 1));
    assert_eq!((broker.epoch(), counters.epochs_raised), (5, 0));
    let (_, outputs) = input(&mut broker, 10, FabricInput::EpochNotice(&EpochNotice { round: 2, ..notice }));
    assert_eq!(outputs, [FabricOutput::StoreEpoch(6)], "another start had this epoch");
}
