//! The leadership of a rack whose machines cannot all reach the fabric broker.

use super::*;
use crate::fabric_message::{RackLimits, ShutOutNotice};
use weir_units::{Bytes, RackId, ServiceId};

const MACHINES: usize = 3;

fn policy_of(machines: usize) -> Arc<Policy> {
    let machines: Vec<String> = (1..=machines).map(|machine| format!("m{machine}")).collect();
    let text = format!(
        "weir: 1\nnetwork: {{ nic: 10Gb/s, racks: {{ r1: {{ uplink: 10Gb/s, machines: [{}] }} }} }}\n\
         services: {{ a: {{ match: [ {{ protocol: tcp, port: 1 }} ], fabric: {{ max: 6Gb/s }} }} }}\n",
        machines.join(", ")
    );
    Arc::new(Policy::parse("policy.yaml", &text).expect("the policy is valid").0)
}

fn limits_under(policy: &Policy, round: u64) -> RackLimits {
    let (first, last) = (ServiceId(0), ServiceId(u32::MAX));
    let rates = PerDirection::both(Bandwidth::from_gbps(6));
    let rows = vec![crate::fabric_message::RateRow { service: ServiceId(0), rates }];
    RackLimits { rack: RackId(0), policy: policy.digest(), epoch: 1, round, first, last, rows }
}

fn limits(round: u64) -> RackLimits {
    limits_under(&policy_of(MACHINES), round)
}

/// A rack whose machines exchange reports and notices without loss, in tenths of a second.
struct Rack {
    brokers: Vec<RackBroker>,
    /// The machines that run.
    on: Vec<bool>,
    tenths: u64,
    /// Machine and tenth of each report to the fabric broker.
    reported: Vec<(usize, u64)>,
    notices: Vec<ShutOutNotice>,
}

impl Rack {
    /// A rack that runs for long enough to have a leader.
    fn new() -> Self {
        Self::of(MACHINES)
    }

    fn of(machines: usize) -> Self {
        Self::with(machines, RackBrokerConfig::default())
    }

    fn with(machines: usize, config: RackBrokerConfig) -> Self {
        let policy = policy_of(machines);
        let broker = |machine| RackBroker::new(&policy, MachineId(machine), 1, config, Instant::ZERO);
        let brokers = (0..machines as u32).map(broker).collect();
        let mut rack = Self { brokers, on: vec![true; machines], tenths: 0, reported: vec![], notices: vec![] };
        rack.run(60);
        assert_eq!(rack.leaders(), [0]);
        rack
    }

    fn now(&self) -> Instant {
        Instant::ZERO + Duration::from_millis(self.tenths * 100)
    }

    /// Passes an input to a machine, and its outputs to the others.
    fn input(&mut self, machine: usize, input: Input<'_>) {
        let now = self.now();
        self.brokers[machine].handle_input(now, input);
        while let Some(output) = self.brokers[machine].poll_output() {
            let others = (0..self.brokers.len()).filter(|other| *other != machine);
            match output {
                Output::ReadMeters => {
                    let bytes = PerDirection::both(Bytes::new(self.tenths * 12_500_000));
                    let reading =
                        MeterReading { service: ServiceId(0), bytes, waits: false, network: Default::default() };
                    self.brokers[machine].handle_input(now, Input::Meters(&[reading]));
                }
                Output::Broadcast(report) => {
                    others.for_each(|other| self.brokers[other].handle_input(now, Input::Report(&report)));
                }
                Output::Relay(relay) => {
                    others.for_each(|other| self.brokers[other].handle_input(now, Input::Relay(&relay)));
                }
                Output::ShutOut(notice) => {
                    self.notices.push(notice);
                    others.for_each(|other| self.brokers[other].handle_input(now, Input::ShutOut(&notice)));
                }
                Output::ReportRack(_) => self.reported.push((machine, self.tenths)),
                Output::ReplyRack(_) | Output::NotifyEpoch(_) | Output::FabricEpoch(_) | Output::SetLimits(_) => {}
                Output::StoreEpoch(_) => panic!("no epoch goes down"),
            }
        }
    }

    /// Runs for so many intervals.
    fn run(&mut self, tenths: u64) {
        for _ in 0..tenths {
            self.tenths += 1;
            for machine in 0..self.brokers.len() {
                if self.on[machine] {
                    self.input(machine, Input::Timeout);
                }
            }
        }
    }

    fn leaders(&self) -> Vec<usize> {
        (0..self.brokers.len()).filter(|machine| self.on[*machine] && self.brokers[*machine].leads()).collect()
    }

    /// The leader as each machine has received.
    fn shown(&self) -> [usize; MACHINES] {
        [0, 1, 2].map(|machine| self.brokers[machine].leader().expect("it has peers").index())
    }

    /// Runs for so many intervals with a fabric broker that only machines of `reach` reach: it sends limits every 10 s
    /// to those that reported since the last ones. Returns the time for which a machine was without limits at most.
    fn run_under_broker(&mut self, tenths: u64, reach: impl Fn(usize) -> bool) -> u64 {
        let policy = policy_of(self.brokers.len());
        let mut without = vec![0; self.brokers.len()];
        for _ in 0..tenths {
            let led = self.leaders();
            self.run(1);
            for (machine, without) in without.iter_mut().enumerate() {
                let trying = led.contains(&machine) && !reach(machine);
                self.input(machine, Input::Reach(if trying { Reach::Trying } else { Reach::Able }));
                *without += u64::from(!self.brokers[machine].has_fabric_limits());
            }
            if self.tenths.is_multiple_of(100) {
                let mut reported: Vec<usize> = self.reported.drain(..).map(|(machine, _)| machine).collect();
                reported.sort_unstable();
                reported.dedup();
                for machine in reported.into_iter().filter(|machine| reach(*machine)) {
                    self.input(machine, Input::Fabric(&limits_under(&policy, self.tenths / 100)));
                }
            }
        }
        without.into_iter().max().expect("a rack has machines")
    }
}

#[test]
fn the_next_machine_leads_beside_a_leader_without_a_stream() {
    let mut rack = Rack::new();
    rack.input(0, Input::Reach(Reach::Trying));
    rack.run(74);
    assert_eq!((rack.leaders(), rack.notices.len()), (vec![0], 0), "a stream may take three quarters of a period");
    rack.reported.clear();
    rack.run(3);
    assert_eq!((rack.leaders(), rack.shown()), (vec![0, 1], [1; 3]));
    assert_eq!(rack.reported.iter().filter(|(machine, _)| *machine == 1).count(), 1, "it reports at once");
    assert!(rack.brokers[0].is_shut_out() && !rack.brokers[1].is_shut_out());
    assert_eq!((rack.brokers[0].leads_after(), rack.brokers[1].leads_after()), (0, 1));
    // One notice in each period.
    rack.run(100);
    assert!((10..=12).contains(&rack.notices.len()), "{:?}", rack.notices);
    assert_eq!(rack.leaders(), [0, 1]);
    // The stream is up: the first machine leads alone again at once.
    rack.input(0, Input::Reach(Reach::Able));
    rack.input(0, Input::Fabric(&limits(1)));
    assert_eq!((rack.leaders(), rack.shown()), (vec![0], [0; 3]));
    let notices = rack.notices.len();
    rack.run(50);
    assert_eq!((rack.leaders(), rack.notices.len()), (vec![0], notices));
    assert_eq!(rack.brokers[0].counters().notices, notices as u64);
}

#[test]
fn each_machine_that_cannot_reach_the_broker_passes_the_leadership_on() {
    let mut rack = Rack::new();
    rack.input(0, Input::Reach(Reach::Trying));
    rack.run(77);
    // The second tries as soon as it leads, in vain.
    rack.input(1, Input::Reach(Reach::Trying));
    rack.run(77);
    assert_eq!((rack.leaders(), rack.shown()), (vec![0, 1, 2], [2; 3]));
    // The broker is down: all lead, and the first is shown.
    rack.input(2, Input::Reach(Reach::Trying));
    rack.run(77);
    assert_eq!((rack.leaders(), rack.shown()), (vec![0, 1, 2], [0; 3]));
    assert_eq!(rack.brokers[2].leads_after(), 2);
    // A machine without a session never has a stream: no time passes.
    let mut rack = Rack::new();
    rack.input(0, Input::Reach(Reach::Never));
    rack.run(2);
    assert_eq!(rack.leaders(), [0, 1]);
}

#[test]
fn a_broker_that_refuses_the_leaders_reports_has_another_leader_after_three_periods() {
    let mut rack = Rack::new();
    // Limits by the own stream prove that the broker takes reports.
    for round in 1..=3 {
        rack.run(100);
        rack.input(0, Input::Fabric(&limits(round)));
    }
    rack.run(299);
    assert_eq!((rack.leaders(), rack.notices.len()), (vec![0], 0));
    rack.run(3);
    assert_eq!(rack.leaders(), [0, 1]);
    // Old limits do not count. The newest do, also where another leader relayed them first.
    rack.input(0, Input::Fabric(&limits(2)));
    assert_eq!(rack.leaders(), [0, 1]);
    rack.input(1, Input::Fabric(&limits(4)));
    assert_eq!(rack.leaders(), [0, 1]);
    rack.input(0, Input::Fabric(&limits(4)));
    assert_eq!(rack.leaders(), [0]);
}

#[test]
fn notices_of_dead_machines_expire_and_replays_have_no_effect() {
    let mut rack = Rack::new();
    rack.input(0, Input::Reach(Reach::Trying));
    rack.run(80);
    let recorded = rack.notices[0];
    assert!(recorded.shut_out);
    rack.input(0, Input::Reach(Reach::Able));
    rack.run(20);
    let last = *rack.notices.last().expect("the end is stated");
    assert!(!last.shut_out);
    for replayed in [recorded, last] {
        rack.input(1, Input::ShutOut(&replayed));
    }
    rack.run(1);
    assert_eq!((rack.leaders(), rack.brokers[1].counters().notices_replayed), (vec![0], 2));
    // Notices in the name of a stranger and of the receiver, and under another policy.
    let newer = ShutOutNotice { round: last.round + 1_000, shut_out: true, ..last };
    for refused in [
        ShutOutNotice { machine: MachineId(9), ..newer },
        ShutOutNotice { machine: MachineId(1), ..newer },
        ShutOutNotice { policy: 1, ..newer },
    ] {
        rack.input(1, Input::ShutOut(&refused));
    }
    rack.run(1);
    let counters = *rack.brokers[1].counters();
    assert_eq!((rack.leaders(), counters.unknown_machine, counters.other_policy), (vec![0], 2, 1));
    // A notice counts for the timeout.
    rack.input(1, Input::ShutOut(&newer));
    assert_eq!(rack.leaders(), [0, 1]);
    rack.run(49);
    assert_eq!(rack.leaders(), [0, 1]);
    rack.run(2);
    assert_eq!(rack.leaders(), [0]);
    // The leader is lost while it is shut out: the next one leads alone.
    rack.input(0, Input::Reach(Reach::Never));
    rack.run(10);
    rack.on[0] = false;
    rack.run(60);
    assert_eq!((rack.leaders(), rack.brokers[1].leads_after()), (vec![1], 0));
}

#[test]
fn a_policy_without_fabric_limits_needs_no_fabric_broker() {
    let text = "weir: 1\nnetwork: { nic: 10Gb/s, racks: { r1: { uplink: 10Gb/s, machines: [m1, m2, m3] } } }\n\
                services: { a: { match: [ { protocol: tcp, port: 1 } ] } }\n";
    let without = Arc::new(Policy::parse("policy.yaml", text).expect("the policy is valid").0);
    let mut rack = Rack::new();
    for broker in &mut rack.brokers {
        broker.set_policy(&without).expect("the same machines and services");
    }
    rack.input(0, Input::Reach(Reach::Never));
    rack.run(100);
    assert_eq!((rack.leaders(), rack.notices.len()), (vec![0], 0));
}

#[test]
fn the_time_without_fabric_limits_in_the_policy_is_no_time_without_limits() {
    let without = "weir: 1\nnetwork: { nic: 10Gb/s, racks: { r1: { uplink: 10Gb/s, machines: [m1, m2, m3] } } }\n\
                   services: { a: { match: [ { protocol: tcp, port: 1 } ] } }\n";
    let without = Arc::new(Policy::parse("policy.yaml", without).expect("the policy is valid").0);
    let mut rack = Rack::new();
    let reload = |rack: &mut Rack, policy: &Arc<Policy>, tenths| {
        rack.brokers.iter_mut().for_each(|broker| broker.set_policy(policy).expect("the same machines and services"));
        rack.reported.clear();
        rack.run(tenths);
    };
    reload(&mut rack, &without, 400);
    assert_eq!(rack.reported, []);
    reload(&mut rack, &policy_of(MACHINES), 5);
    assert_eq!((rack.leaders(), rack.notices.len()), (vec![0], 0));
    assert_eq!(rack.reported.len(), 1, "a leader reports at once");
    rack.run(280);
    assert_eq!(rack.leaders(), [0]);
}

#[test]
fn a_rack_of_40_of_which_only_the_last_machine_reaches_the_broker_keeps_its_limits() {
    let mut rack = Rack::of(40);
    rack.run_under_broker(200, |_| true);
    // Shortly before a round, so the limits are old already.
    rack.run_under_broker(95, |_| true);
    assert_eq!(rack.run_under_broker(1_500, |machine| machine == 39), 0, "tenths without limits");
    // One that reaches the broker leads alone beside those that do not.
    assert_eq!((rack.leaders(), rack.brokers[0].leader()), ((0..40).collect(), Some(MachineId(39))));
    assert_eq!(rack.run_under_broker(500, |machine| machine >= 9), 0);
    assert_eq!((rack.leaders(), rack.brokers[0].leader()), ((0..10).collect(), Some(MachineId(9))));
    // No machine does: all lead. Then all do: the first leads alone.
    rack.run_under_broker(1_000, |_| false);
    assert_eq!(rack.leaders().len(), 40);
    rack.run_under_broker(200, |_| true);
    assert_eq!(rack.leaders(), [0]);
}

#[test]
fn machines_that_lead_in_place_of_shut_out_ones_are_1_2_6_and_42() {
    let mut rack = Rack::of(44);
    let mut counts = vec![];
    for _ in 0..400 {
        rack.run_under_broker(1, |_| false);
        counts.push(rack.leaders().len());
    }
    counts.dedup();
    assert_eq!(counts, [1, 2, 6, 42, 44]);
    // The fourth reaches the broker: those after it end their leadership within its next period.
    let mut rack = Rack::of(44);
    rack.run_under_broker(180, |machine| machine > 2);
    assert_eq!(rack.leaders(), (0..6).collect::<Vec<_>>());
    rack.run_under_broker(160, |machine| machine > 2);
    assert_eq!(rack.leaders(), [0, 1, 2, 3]);
}

#[test]
fn reports_that_are_refused_end_no_limits_that_hold_for_four_periods_or_more() {
    for (timeout_s, tenths) in [(50, 300), (45, 250), (40, 200), (20, 200)] {
        let config = RackBrokerConfig { fabric_timeout: Duration::from_secs(timeout_s), ..RackBrokerConfig::default() };
        let mut rack = Rack::with(MACHINES, config);
        rack.run_under_broker(240, |_| true);
        rack.input(0, Input::Fabric(&limits(100)));
        rack.run(tenths - 1);
        assert_eq!(rack.leaders(), [0], "limits hold for {timeout_s} s");
        rack.run(1);
        assert_eq!(rack.leaders(), [0, 1], "limits hold for {timeout_s} s");
        // A round later the second has limits.
        rack.run(100);
        rack.input(1, Input::Fabric(&limits(101)));
        rack.run(1);
        assert_eq!(rack.brokers[2].counters().fabric_fallbacks, u64::from(timeout_s < 40));
    }
}
