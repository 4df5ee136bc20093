//! Machines, and a fabric broker, whose epochs go down.

use super::*;
use crate::epoch::{EpochNotice, LARGEST_CLAIM};
use crate::fabric_message::{RackLimits, RackReport};
use weir_units::{Bytes, RackId, ServiceId};

fn policy() -> Arc<Policy> {
    let text = "weir: 1\nnetwork: { nic: 10Gb/s, racks: { r1: { uplink: 10Gb/s, machines: [m1, m2] } } }\n\
                services: { a: { match: [ { protocol: tcp, port: 1 } ], fabric: { max: 6Gb/s } } }\n";
    Arc::new(Policy::parse("policy.yaml", text).expect("the policy is valid").0)
}

fn limits(epoch: u64, round: u64) -> RackLimits {
    let (first, last) = (ServiceId(0), ServiceId(u32::MAX));
    RackLimits { rack: RackId(0), policy: policy().digest(), epoch, round, first, last, rows: vec![] }
}

/// Two machines that exchange datagrams without loss, in tenths of a second.
struct Rack {
    brokers: Vec<RackBroker>,
    tenths: u64,
    /// Each notice with the tenth of its sending.
    notices: Vec<(EpochNotice, u64)>,
    /// Machine and epoch.
    stored: Vec<(usize, u64)>,
    reported: Vec<RackReport>,
    spread: Vec<EpochNotice>,
}

impl Rack {
    fn new(epochs: [u64; 2]) -> Self {
        let broker = |machine| Self::broker(machine, epochs[machine], Instant::ZERO);
        let brokers = [0, 1].map(broker).into();
        Self { brokers, tenths: 0, notices: vec![], stored: vec![], reported: vec![], spread: vec![] }
    }

    fn broker(machine: usize, epoch: u64, now: Instant) -> RackBroker {
        RackBroker::new(&policy(), MachineId(machine as u32), epoch, RackBrokerConfig::default(), now)
    }

    fn now(&self) -> Instant {
        Instant::ZERO + Duration::from_millis(self.tenths * 100)
    }

    fn restart(&mut self, machine: usize, epoch: u64) {
        self.brokers[machine] = Self::broker(machine, epoch, self.now());
    }

    fn input(&mut self, machine: usize, input: Input<'_>) {
        let (now, other) = (self.now(), 1 - machine);
        self.brokers[machine].handle_input(now, input);
        while let Some(output) = self.brokers[machine].poll_output() {
            match output {
                Output::ReadMeters => {
                    let bytes = PerDirection::both(Bytes::new(self.tenths * 12_500_000));
                    let reading =
                        MeterReading { service: ServiceId(0), bytes, waits: false, network: Default::default() };
                    self.brokers[machine].handle_input(now, Input::Meters(&[reading]));
                }
                Output::Broadcast(report) => self.input(other, Input::Report(&report)),
                Output::NotifyEpoch(notice) => {
                    self.notices.push((notice, self.tenths));
                    if notice.to == Some(MachineId(other as u32)) {
                        self.input(other, Input::EpochNotice(&notice));
                    }
                }
                Output::FabricEpoch(notice) => {
                    self.spread.push(notice);
                    self.input(other, Input::FabricEpoch(&notice));
                }
                Output::StoreEpoch(epoch) => self.stored.push((machine, epoch)),
                Output::ReportRack(report) => self.reported.push(report),
                Output::Relay(relay) => self.input(other, Input::Relay(&relay)),
                Output::ShutOut(_) | Output::ReplyRack(_) | Output::SetLimits(_) => {}
            }
        }
    }

    fn run(&mut self, tenths: u64) {
        for _ in 0..tenths {
            self.tenths += 1;
            (0..2).for_each(|machine| self.input(machine, Input::Timeout));
        }
    }

    /// The stamp that a machine has of the other one.
    fn known(&self, machine: usize) -> (u64, u64) {
        let broker = &self.brokers[machine];
        broker.stamp(broker.allocator().instance(0, 1 - machine))
    }

    fn notice(&self, epoch: u64, round: u64) -> EpochNotice {
        let (from, to) = (Some(MachineId(0)), Some(MachineId(1)));
        EpochNotice { from, policy: policy().digest(), to, epoch, round }
    }
}

#[test]
fn a_machine_whose_epoch_goes_down_continues_above_the_known_one() {
    let mut rack = Rack::new([7, 900]);
    rack.run(40);
    let known = rack.known(0);
    assert_eq!((known.0, rack.notices.len()), (900, 0));
    rack.restart(1, 5);
    rack.run(20);
    // One notice, and the report again at once.
    assert_eq!(rack.notices.iter().map(|(notice, _)| *notice).collect::<Vec<_>>(), [rack.notice(900, known.1)]);
    assert_eq!((rack.stored.as_slice(), rack.brokers[1].epoch(), rack.known(0).0), ([(1, 901)].as_slice(), 901, 901));
    let (m1, m2) = (*rack.brokers[0].counters(), *rack.brokers[1].counters());
    assert_eq!((m1.older_epoch, m1.epoch_notices, m1.epochs_raised), (1, 1, 0));
    assert_eq!((m2.older_epoch, m2.epoch_notices, m2.epochs_raised), (0, 0, 1));
    assert_eq!(rack.brokers[0].unheard().count(), 0);
    assert_eq!(rack.brokers[0].peers_alive(), 1);
}

#[test]
fn notices_of_no_newer_stamp_of_this_machine_have_no_effect() {
    let mut rack = Rack::new([7, 900]);
    rack.run(10);
    let own = rack.known(0);
    let notice = rack.notice(own.0, own.1);
    let ignored = [
        notice,
        EpochNotice { epoch: 899, round: 9_999, ..notice },
        EpochNotice { epoch: 901, to: Some(MachineId(0)), ..notice },
        EpochNotice { epoch: 901, to: None, ..notice },
        EpochNotice { epoch: 901, from: Some(MachineId(1)), ..notice },
        EpochNotice { epoch: 901, from: Some(MachineId(7)), ..notice },
        EpochNotice { epoch: 901, policy: 1, ..notice },
        EpochNotice { epoch: LARGEST_CLAIM + 1, ..notice },
    ];
    for notice in ignored {
        rack.input(1, Input::EpochNotice(&notice));
        assert_eq!((rack.brokers[1].epoch(), rack.stored.len()), (900, 0), "{notice:?}");
    }
    let counters = *rack.brokers[1].counters();
    assert_eq!((counters.unknown_machine, counters.other_policy, counters.malformed), (4, 1, 1));
    // A later round of the present epoch is another start's.
    rack.input(1, Input::EpochNotice(&EpochNotice { round: own.1 + 1_000, ..notice }));
    assert_eq!((rack.brokers[1].epoch(), rack.known(0).0), (901, 901));
    // The largest number leaves as many for the machine itself, and the same notice raises it once.
    for _ in 0..2 {
        rack.input(1, Input::EpochNotice(&EpochNotice { epoch: LARGEST_CLAIM, ..notice }));
        assert_eq!((rack.brokers[1].epoch(), rack.known(0).0), (LARGEST_CLAIM + 1, LARGEST_CLAIM + 1));
    }
}

#[test]
fn a_machine_that_ignores_notices_is_listed_and_has_one_a_period() {
    let mut rack = Rack::new([7, 900]);
    rack.run(40);
    rack.restart(1, 5);
    let report = UsageReportOf { epoch: 5 };
    for _ in 0..100 {
        rack.tenths += 1;
        rack.input(0, Input::Timeout);
        report.receive(&mut rack);
    }
    let listed: Vec<MachineId> = rack.brokers[0].unheard().collect();
    assert_eq!((listed, rack.brokers[0].peers_alive()), (vec![MachineId(1)], 0));
    let times: Vec<u64> = rack.notices.iter().map(|(_, tenths)| *tenths).collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 7) && times.len() <= 14, "{times:?}");
    assert_eq!(rack.brokers[0].counters().older_epoch, 100);
    // It goes from the list with its next report that counts, or when its reports end.
    UsageReportOf { epoch: 901 }.receive(&mut rack);
    assert_eq!(rack.brokers[0].unheard().count(), 0);
}

/// Reports of an agent of an earlier version.
struct UsageReportOf {
    epoch: u64,
}

impl UsageReportOf {
    fn receive(&self, rack: &mut Rack) {
        let report = crate::report::UsageReport {
            machine: MachineId(1),
            policy: policy().digest(),
            epoch: self.epoch,
            round: rack.tenths,
            first: ServiceId(0),
            last: ServiceId(u32::MAX),
            rows: vec![],
        };
        let now = rack.now();
        rack.brokers[0].handle_input(now, Input::Report(&report));
        while let Some(output) = rack.brokers[0].poll_output() {
            if let Output::NotifyEpoch(notice) = output {
                rack.notices.push((notice, rack.tenths));
            }
        }
    }
}

#[test]
fn a_fabric_broker_whose_epoch_goes_down_receives_a_notice() {
    let mut rack = Rack::new([7, 7]);
    rack.run(60);
    rack.input(0, Input::Fabric(&limits(900, 3)));
    let notice = EpochNotice { to: None, ..rack.notice(900, 3) };
    // Limits of an older epoch change nothing, and lead to one notice.
    for part in 0..2 {
        rack.input(0, Input::Fabric(&limits(5, 10)));
        assert_eq!(rack.brokers[0].fabric_stamp(0), Some((900, 3)), "part {part}");
    }
    assert_eq!(rack.notices.iter().map(|(notice, _)| *notice).collect::<Vec<_>>(), [notice]);
    let counters = *rack.brokers[0].counters();
    assert_eq!((counters.limits_older_epoch, counters.epoch_notices, counters.limits_replayed), (2, 1, 0));
    rack.input(0, Input::Fabric(&limits(901, 11)));
    assert_eq!(rack.brokers[0].fabric_stamp(0), Some((901, 11)));
    assert_eq!(rack.brokers[1].fabric_stamp(0), Some((901, 11)));
}

#[test]
fn a_leader_that_has_just_started_receives_the_fabric_brokers_epoch_of_its_rack() {
    let mut rack = Rack::new([7, 7]);
    rack.run(60);
    rack.input(0, Input::Fabric(&limits(900, 3)));
    assert_eq!(rack.brokers[1].fabric_stamp(0), Some((900, 3)));
    // The leader and the fabric broker start again, and the broker's epoch has gone down.
    rack.restart(0, 8);
    rack.run(60);
    rack.notices.clear();
    rack.input(0, Input::Fabric(&limits(5, 1)));
    assert_eq!(rack.brokers[0].fabric_stamp(0), Some((5, 1)), "it has no other ones");
    assert_eq!(rack.brokers[1].fabric_stamp(0), Some((900, 3)));
    let notice = EpochNotice { to: None, ..rack.notice(900, 3) };
    assert_eq!(rack.spread, [EpochNotice { from: Some(MachineId(1)), ..notice }]);
    assert_eq!(rack.notices.iter().map(|(notice, _)| *notice).collect::<Vec<_>>(), [notice]);
    rack.input(0, Input::Fabric(&limits(901, 2)));
    assert_eq!([0, 1].map(|machine| rack.brokers[machine].fabric_stamp(0)), [Some((901, 2)); 2]);
    // A machine that has received nothing of the fabric broker sends it nothing.
    rack.restart(0, 9);
    rack.notices.clear();
    rack.input(0, Input::FabricEpoch(&EpochNotice { from: Some(MachineId(1)), ..notice }));
    assert_eq!(rack.notices.len(), 0);
}

#[test]
fn a_leader_whose_epoch_goes_down_reports_again_to_the_fabric_broker() {
    let mut rack = Rack::new([7, 7]);
    rack.run(60);
    let before = rack.reported.last().expect("the first machine leads").clone();
    let notice = EpochNotice { from: None, to: Some(MachineId(0)), ..rack.notice(900, 3) };
    rack.input(0, Input::EpochNotice(&notice));
    let after = rack.reported.last().expect("it reported").clone();
    let round = after.round;
    assert_eq!(after, RackReport { epoch: 901, round, ..before });
    assert_eq!(rack.known(1), (901, round), "its rack has the new epoch too");
    // A policy without limits of the fabric has no fabric broker.
    let text = "weir: 1\nnetwork: { nic: 10Gb/s, racks: { r1: { uplink: 10Gb/s, machines: [m1, m2] } } }\n\
                services: { a: { match: [ { protocol: tcp, port: 1 } ] } }\n";
    let without = Arc::new(Policy::parse("policy.yaml", text).expect("the policy is valid").0);
    rack.brokers[0].set_policy(&without).expect("the same machines and services");
    rack.input(0, Input::EpochNotice(&EpochNotice { epoch: 1_000, policy: without.digest(), ..notice }));
    assert_eq!(rack.brokers[0].epoch(), 901);
}
