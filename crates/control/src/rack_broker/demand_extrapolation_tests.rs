//! Demand extrapolation in two racks of one machine each below a fabric broker.

use super::*;
use crate::fabric_broker::{FabricBroker, FabricBrokerConfig, FabricInput, FabricOutput};
use crate::fabric_message::{RackLimits, RateRow};
use weir_units::{Bytes, Duration, RackId, ServiceId};

const A: ServiceId = ServiceId(0);
const SERVICES: [ServiceId; 3] = [A, ServiceId(1), ServiceId(2)];

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

/// By report of the first rack: the reported demand of `a` and the receive rate of all services of
/// both racks at that time, in Mb/s.
fn run(fabric: u64, weight: u64, offered: [[u64; 3]; 2]) -> Vec<(u64, u64)> {
    run_with_losses(fabric, weight, offered, &[])
}

/// As `run`, with losses: the listed reports of the first rack do not arrive, nor the limits for it
/// before the next report.
///
/// Interfaces have 10 Gb/s, the fabric `fabric` Mb/s. `a` is guaranteed 10 Gb/s of the fabric, `b`
/// has a weight there, `c` a weight of one. `offered` is by rack and service.
fn run_with_losses(fabric: u64, weight: u64, offered: [[u64; 3]; 2], lost: &[usize]) -> Vec<(u64, u64)> {
    let text = format!(
        "weir: 1\nsharing: fill\nnetwork: {{ nic: 10Gb/s, racks: {{ r1: {{ uplink: 40Gb/s, machines: [m1] }}, \
         r2: {{ uplink: 40Gb/s, machines: [m2] }} }} }}\nservices:\n  \
         a: {{ match: [ {{ protocol: tcp, port: 1 }} ], fabric: {{ min: 10Gb/s }} }}\n  \
         b: {{ match: [ {{ protocol: tcp, port: 2 }} ], fabric: {{ weight: {weight} }} }}\n  \
         c: {{ match: [ {{ protocol: tcp, port: 3 }} ] }}\ncaps: {{ fabric: {fabric}Mb/s }}\n"
    );
    let policy = Arc::new(Policy::parse("policy.yaml", &text).expect("the policy is valid").0);
    let mut fabric = FabricBroker::new(&policy, 1, FabricBrokerConfig::default(), at(0));
    let broker = |machine| RackBroker::new(&policy, MachineId(machine), 1, RackBrokerConfig::default(), at(0));
    let mut racks = [broker(0), broker(1)];
    let mut received = [[0; 3]; 2];
    let mut reported = Vec::new();
    for second in 0..100 {
        let usage = |racks: &[RackBroker; 2], rack: usize, leaf: usize| {
            let limit = racks[rack].limit(Direction::Rx, leaf);
            Bandwidth::from_mbps(offered[rack][leaf]).min(limit).bps()
        };
        let all: u64 = (0..6).map(|i| usage(&racks, i / 3, i % 3)).sum();
        for rack in 0..2 {
            let used = [0, 1, 2].map(|leaf| usage(&racks, rack, leaf));
            received[rack].iter_mut().zip(used).for_each(|(received, used)| *received += used / 8);
            racks[rack].handle_input(at(second), Input::Timeout);
            while let Some(output) = racks[rack].poll_output() {
                match output {
                    Output::ReadMeters => {
                        let reading = |service: ServiceId| MeterReading {
                            service,
                            bytes: PerDirection { tx: Bytes::ZERO, rx: Bytes::new(received[rack][service.index()]) },
                            network: Default::default(),
                        };
                        racks[rack].handle_input(at(second), Input::Meters(&SERVICES.map(reading)));
                    }
                    Output::ReportRack(report) => {
                        if rack == 0 {
                            let a = report.rows.iter().find(|row| row.service == A);
                            reported.push((a.map_or(0, |row| row.rates.rx.bps()) / 1_000_000, all / 1_000_000));
                        }
                        if rack == 1 || !lost.contains(&reported.len()) {
                            fabric.handle_input(at(second), FabricInput::Report(&report));
                        }
                    }
                    Output::SetLimits(_) => {}
                    Output::Broadcast(_) | Output::Relay(_) => panic!("the rack has no other machine"),
                }
            }
        }
        fabric.handle_input(at(second), FabricInput::Timeout);
        while let Some(FabricOutput::SendLimits { to, limits }) = fabric.poll_output() {
            assert_eq!(limits.rack, RackId(to.0));
            if to.0 == 0 && lost.contains(&reported.len()) {
                continue;
            }
            racks[to.index()].handle_input(at(second), Input::Fabric(&limits));
        }
    }
    reported
}

#[test]
fn worked_example() {
    let reported = run(12_000, 1, [[8_000, 8_000, 0], [0, 8_000, 0]]);
    // Reported rates are rounded down. The fabric's first limits follow the second report.
    let expected = [(4_999, 18_000), (4_999, 18_000), (6_499, 13_499), (8_000, 12_749), (8_000, 11_999)];
    assert_eq!(reported[..5], expected);
    assert!(reported[5..].iter().all(|reported| *reported == (8_000, 11_999)), "{reported:?}");
}

#[test]
fn slow_growth_is_reported_as_its_maximum_and_converges_from_above() {
    // `b` has nine tenths of the rest of `a`, so each step of `a` is nine tenths of the one before.
    // Without extrapolation: 5.3, 5.57, 5.81, .., 8 after a hundred steps.
    let reported = run(10_222, 9, [[10_000, 10_000, 0], [0, 0, 10_000]]);
    let a: Vec<u64> = reported.iter().map(|(a, _)| *a).collect();
    assert_eq!(a[..5], [4_999, 4_999, 5_300, 5_840, 9_999]);
    assert!(a[4..].is_sorted_by(|before, after| before >= after), "{a:?}");
    assert!(a[4..].iter().all(|a| *a >= 8_000), "{a:?}");
    assert!(reported[5..].iter().all(|(_, all)| *all <= 10_222), "{reported:?}");
}

#[test]
fn fabric_capacity_holds_from_the_fourth_round_for_every_step_size() {
    for weight in (1..100).step_by(7) {
        for fabric in (10_100..15_000).step_by(700) {
            let reported = run(fabric, weight, [[10_000, 10_000, 0], [0, 0, 10_000]]);
            let after = &reported[5..];
            // A thousandth: smaller growth is not extrapolated.
            assert!(after.iter().all(|(_, all)| *all <= fabric + fabric / 1_000), "{weight} of {fabric}: {reported:?}");
        }
    }
}

#[test]
fn lost_report_is_repeated_with_the_extrapolated_demand() {
    let offered = [[8_000, 8_000, 0], [0, 8_000, 0]];
    let whole: Vec<u64> = run(12_000, 1, offered).iter().map(|(a, _)| *a).collect();
    assert_eq!(whole[2..5], [6_499, 8_000, 8_000]);
    // The fourth report is lost, and the limits after it. The extrapolated demand is repeated twice
    // until the next limits, not the 7.25 that `a` has.
    let lost: Vec<u64> = run_with_losses(12_000, 1, offered, &[4]).iter().map(|(a, _)| *a).collect();
    assert_eq!(lost[2..7], [6_499, 8_000, 8_000, 8_000, 8_000]);
    // With small steps the first growth is lost: the next one still counts as the second.
    let steps = |lost: &[usize]| -> Vec<u64> {
        let reported = run_with_losses(10_222, 9, [[10_000, 10_000, 0], [0, 0, 10_000]], lost);
        reported.iter().map(|(a, _)| *a).collect()
    };
    assert_eq!(steps(&[])[2..5], [5_300, 5_840, 9_999]);
    assert_eq!(steps(&[4])[2..7], [5_300, 5_840, 5_840, 5_840, 9_999]);
}

/// One rack of three machines with an uplink of 12 Gb/s and unlimited demands of `a` and `b`; the
/// demands of `b` that its leaders report, in Mb/s, with the machine and the second. The fabric
/// leaves `a` 6 Gb/s from the 10th second on and 5 from the 20th; then no limits arrive. m1 crashes
/// in second `death`.
fn run_with_leader_crash(death: u64) -> Vec<(u32, u64, u64)> {
    let text = "weir: 1\nnetwork: { nic: 10Gb/s, racks: { r1: { uplink: 12Gb/s, machines: [m1, m2, m3] }, \
                r2: { uplink: 12Gb/s, machines: [m4] } } }\nservices:\n  \
                a: { match: [ { protocol: tcp, port: 1 } ], fabric: { max: 10Gb/s } }\n  \
                b: { match: [ { protocol: tcp, port: 2 } ] }\n";
    let policy = Arc::new(Policy::parse("policy.yaml", text).expect("the policy is valid").0);
    let broker = |m| RackBroker::new(&policy, MachineId(m), 1, RackBrokerConfig::default(), at(0));
    let mut brokers = [0, 1, 2].map(broker);
    let mut sent = [[0; 2]; 3];
    let mut reported = Vec::new();
    for second in 0..40 {
        let live = if second < death { 0..3 } else { 1..3 };
        let mut reports = Vec::new();
        for m in live.clone() {
            for (leaf, sent) in sent[m].iter_mut().enumerate() {
                *sent += brokers[m].limit(Direction::Tx, leaf).min(Bandwidth::from_gbps(10)).bps() / 8;
            }
            brokers[m].handle_input(at(second), Input::Timeout);
            while let Some(output) = brokers[m].poll_output() {
                match output {
                    Output::ReadMeters => {
                        let reading = |leaf: usize| MeterReading {
                            service: SERVICES[leaf],
                            bytes: PerDirection { tx: Bytes::new(sent[m][leaf]), rx: Bytes::ZERO },
                            network: Default::default(),
                        };
                        brokers[m].handle_input(at(second), Input::Meters(&[reading(0), reading(1)]));
                    }
                    Output::Broadcast(report) => reports.push((m, report)),
                    Output::ReportRack(report) => {
                        let b = report.rows.iter().find(|row| row.service == SERVICES[1]);
                        reported.push((m as u32 + 1, second, b.map_or(0, |row| row.rates.tx.bps()) / 1_000_000));
                    }
                    Output::SetLimits(_) | Output::Relay(_) => {}
                }
            }
        }
        for m in live.clone() {
            let others = reports.iter().filter(|(from, _)| *from != m);
            others.for_each(|(_, report)| brokers[m].handle_input(at(second), Input::Report(report)));
        }
        if second == 10 || second == 20 {
            let limits = RackLimits {
                rack: RackId(0),
                policy: policy.digest(),
                epoch: 1,
                round: second,
                first: A,
                last: SERVICES[2],
                rows: vec![RateRow {
                    service: A,
                    rates: PerDirection { tx: Bandwidth::from_gbps(7 - second / 10), rx: Bandwidth::UNLIMITED },
                }],
            };
            live.for_each(|m| brokers[m].handle_input(at(second), Input::Fabric(&limits)));
        }
    }
    reported
}

#[test]
fn new_leader_reports_the_extrapolated_demand() {
    // `b` has 6, then 7, and one more is reported.
    let whole = run_with_leader_crash(40);
    assert!(whole.contains(&(1, 15, 5_999)) && whole.contains(&(1, 25, 7_999)), "{whole:?}");
    // m2 becomes the leader before its next report is due, and repeats the demand. A repeated
    // demand is no growth at the next report.
    let successor: Vec<(u32, u64, u64)> =
        run_with_leader_crash(26).into_iter().filter(|(machine, _, _)| *machine == 2).collect();
    assert_eq!(successor, [(2, 30, 7_999), (2, 32, 7_999), (2, 39, 7_999)]);
}
