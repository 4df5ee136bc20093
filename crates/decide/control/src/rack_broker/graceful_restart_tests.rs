//! A restarted broker changes no limits, on its machine and on the others.

use super::*;
use crate::demand::BURST;
use crate::fabric_message::{LimitsRelay, RackLimits, RateRow};
use crate::rate::rounded;
use crate::report::UsageReport;
use weir_units::{Bytes, Duration, RackId, ServiceId};

const A: ServiceId = ServiceId(0);

/// A machine may send 30 Mb/s of `a`, a rack 24, and the fabric leaves this rack 16.
fn policy() -> Arc<Policy> {
    let text = "weir: 1\nnetwork: { nic: 100Mb/s, racks: { r1: { uplink: 100Mb/s, machines: [m1, m2, m3] }, \
                r2: { uplink: 100Mb/s, machines: [m4] } } }\nservices:\n  \
                a: { match: [ { protocol: tcp, port: 1 } ], machine: { max: 30Mb/s }, rack: { max: 24Mb/s }, \
                fabric: { max: 16Mb/s } }\n";
    Arc::new(Policy::parse("policy.yaml", text).expect("the policy is valid").0)
}

fn at(tenths: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(100 * tenths)
}

fn relay(round: u64, mbps: u64) -> LimitsRelay {
    LimitsRelay { age: Duration::ZERO, limits: limits(0, round, mbps) }
}

/// The fabric's limits on a rack, in Mb/s.
fn limits(rack: u32, round: u64, mbps: u64) -> RackLimits {
    let rates = PerDirection { tx: rounded(Bandwidth::from_mbps(mbps)), rx: Bandwidth::UNLIMITED };
    RackLimits {
        rack: RackId(rack),
        policy: policy().digest(),
        epoch: 1,
        round,
        first: ServiceId(0),
        last: ServiceId(u32::MAX),
        rows: vec![RateRow { service: A, rates }],
    }
}

/// A machine with a demand of this many Mb/s for `a`.
struct Machine {
    broker: RackBroker,
    demand: f64,
    sent: f64,
    /// Bytes that its meter counts at once.
    burst: f64,
    /// The limit in force, in Mb/s.
    limit: f64,
    /// Reports to the fabric broker.
    reported: u64,
}

impl Machine {
    fn new(machine: u32, demand: f64) -> Self {
        let broker = RackBroker::new(&policy(), MachineId(machine), 1, RackBrokerConfig::published(), at(0));
        Self { broker, demand, sent: 0.0, burst: 1.0, limit: 30.0, reported: 0 }
    }

    /// Replaces the broker by a new one, with or without the limits in force.
    fn restart(&mut self, tenths: u64, resumes: bool) {
        let machine = self.broker.machine;
        self.broker = RackBroker::new(&policy(), machine, tenths, RackBrokerConfig::published(), at(tenths));
        if resumes {
            self.broker.resume(&[PerDirection {
                tx: Bandwidth::from_bps((self.limit * 1e6) as u64),
                rx: Bandwidth::UNLIMITED,
            }]);
        }
    }

    /// Ends a period and returns the broadcast reports.
    fn period(&mut self, tenths: u64) -> Vec<UsageReport> {
        self.broker.handle_input(at(tenths), Input::Timeout);
        let mut reported = Vec::new();
        while let Some(output) = self.broker.poll_output() {
            match output {
                Output::ReadMeters => {
                    let counted = self.sent - self.sent % self.burst;
                    let bytes = PerDirection { tx: Bytes::new(counted as u64), rx: Bytes::ZERO };
                    let reading = MeterReading { service: A, bytes, waits: false, network: Default::default() };
                    self.broker.handle_input(at(tenths), Input::Meters(&[reading]));
                }
                Output::Broadcast(report) => reported.push(report),
                Output::Relay(_) => {}
                Output::ReportRack(_) => self.reported += 1,
                Output::ReplyRack(_) => panic!("nothing is proposed"),
                Output::ShutOut(_) => {}
                Output::NotifyEpoch(_) | Output::FabricEpoch(_) | Output::StoreEpoch(_) => panic!("no epoch goes down"),
                Output::SetLimits(limits) => {
                    let tx = limits.iter().find(|limit| limit.direction == Direction::Tx).expect("a limit");
                    self.limit = 30f64.min(tx.limit.bps() as f64 / 1e6);
                }
            }
        }
        reported
    }
}

/// A rack: m1 and m2 are always backlogged, m3 is idle.
struct Rack {
    machines: [Machine; 3],
    tenths: u64,
    /// By machine: the time of its next period.
    due: [u64; 3],
    /// The fabric's limit on the rack in Mb/s.
    limits: u64,
}

impl Rack {
    /// A converged rack: m1 and m2 have 8 Mb/s each.
    fn settled() -> Self {
        Self::settled_under(16)
    }

    /// The same under another limit of the fabric in Mb/s.
    fn settled_under(limits: u64) -> Self {
        let machines = [Machine::new(0, f64::MAX), Machine::new(1, f64::MAX), Machine::new(2, 0.0)];
        let mut rack = Self { machines, tenths: 0, due: [0, 3, 6], limits };
        for _ in 0..60 {
            rack.step(&[0, 1, 2], 10);
        }
        let each = limits as f64 / 2.0;
        assert!(rack.machines[..2].iter().all(|machine| (machine.limit / each - 1.0).abs() < 0.0125));
        rack
    }

    /// A tenth of a second: machines whose period is due report to all others; every `every` tenths
    /// the machines in `receive` receive the fabric's limits.
    fn step(&mut self, receive: &[usize], every: u64) {
        self.tenths += 1;
        for index in 0..3 {
            let machine = &mut self.machines[index];
            machine.sent += machine.limit.min(machine.demand) * 12_500.0;
        }
        for index in (0..3).filter(|index| self.due[*index] <= self.tenths).collect::<Vec<_>>() {
            let reported = self.machines[index].period(self.tenths);
            let due = self.machines[index].broker.poll_timeout().expect("a period ends").nanos();
            self.due[index] = due.div_ceil(at(1).nanos());
            for report in reported {
                let others = (0..3).filter(|other| *other != index);
                others.for_each(|other| self.deliver(other, &report));
            }
        }
        if self.tenths.is_multiple_of(every) {
            for index in receive {
                let limits = relay(self.tenths, self.limits);
                self.machines[*index].broker.handle_input(at(self.tenths), Input::Relay(&limits));
            }
        }
    }

    fn deliver(&mut self, index: usize, report: &UsageReport) {
        self.machines[index].broker.handle_input(at(self.tenths), Input::Report(report));
    }

    /// Restarts m2's broker; the fabric's limits reach it from `late` tenths on. Returns the lowest
    /// and highest limits of m1 and m2 in the ten seconds from then on.
    fn restarted(&mut self, resumes: bool, late: u64) -> [(f64, f64); 2] {
        self.machines[1].restart(self.tenths, resumes);
        self.due[1] = self.tenths;
        let mut seen = [(f64::MAX, 0.0f64); 2];
        for passed in 0..100 {
            self.step(if passed < late { &[0, 2] } else { &[0, 1, 2] }, 10);
            for (seen, machine) in seen.iter_mut().zip(&self.machines) {
                *seen = (seen.0.min(machine.limit), seen.1.max(machine.limit));
            }
        }
        seen
    }
}

#[test]
fn limits_do_not_move_for_any_delay_of_the_fabric_limits() {
    for late in 0..=40 {
        for (index, (least, most)) in Rack::settled().restarted(true, late).into_iter().enumerate() {
            assert!(
                7.9 < least && most < 8.1,
                "m{} with fabric limits {late} tenths late: {least} to {most}",
                index + 1
            );
        }
    }
}

#[test]
fn limits_do_not_move_for_any_phase_of_the_meters() {
    for limits in [4, 8, 16] {
        for part in 0..=20 {
            let mut rack = Rack::settled_under(limits);
            for machine in &mut rack.machines[..2] {
                machine.burst = BURST.get() as f64;
                machine.sent += machine.burst * f64::from(part) / 20.0;
            }
            let each = limits as f64 / 2.0;
            for (index, (least, most)) in rack.restarted(true, 0).into_iter().enumerate() {
                let stays = 0.9875 * each < least && most < 1.0125 * each;
                assert!(stays, "m{} of {each}, {part} twentieths of a burst sent: {least} to {most}", index + 1);
            }
        }
    }
}

#[test]
fn broker_without_inherited_limits_moves_them() {
    let [_, (_, most)] = Rack::settled().restarted(false, 15);
    assert!(most > 10.0, "without reports the static policy of the machine is in force: {most}");
}

#[test]
fn inherited_limits_stay_until_the_timeout_at_most() {
    let mut rack = Rack::settled();
    rack.machines[1].restart(rack.tenths, true);
    rack.due[1] = rack.tenths;
    let begun = rack.tenths;
    while rack.machines[1].broker.is_resuming() {
        assert!((7.9..8.1).contains(&rack.machines[1].limit));
        rack.step(&[0, 2], 10);
    }
    // The timeout, five quarters of a fabric period of 10 s, and the rest of a period.
    assert!((175..=186).contains(&(rack.tenths - begun)), "{} tenths", rack.tenths - begun);
    assert!(rack.machines[1].limit > 10.0, "the rack's own policy: {}", rack.machines[1].limit);

    // Without any peer: the static policy.
    let mut alone = Rack::settled().machines.into_iter().nth(1).expect("m2");
    alone.restart(100, true);
    for second in 10..16 {
        alone.period(10 * second);
        let (mode, resumes) = (alone.broker.mode(), second < 15);
        assert_eq!((mode, alone.broker.is_resuming()), (Mode::Static, resumes), "at {second} s");
        assert_eq!(alone.limit > 29.0, !resumes, "at {second} s: {}", alone.limit);
    }
}

#[test]
fn leader_keeps_inherited_limits_until_its_first_report_is_answered() {
    // A rack of one machine: no other machine relays the fabric's limits.
    let mut m4 = Machine::new(3, f64::MAX);
    m4.limit = 8.0;
    m4.restart(1000, true);
    let mut response_due = None;
    for tenths in 1000..1300 {
        m4.sent += m4.limit.min(m4.demand) * 12_500.0;
        m4.period(tenths);
        if m4.reported > 0 && response_due.is_none() {
            response_due = Some(tenths + 100);
        }
        if response_due == Some(tenths) {
            m4.broker.handle_input(at(tenths), Input::Fabric(&limits(1, 1, 8)));
        }
        assert!((7.9..8.1).contains(&m4.limit), "{} Mb/s at {tenths} tenths", m4.limit);
    }
    assert!(!m4.broker.is_resuming() && m4.broker.has_fabric_limits(), "limits arrived at {response_due:?}");
}

#[test]
fn first_report_measures_usage_against_inherited_limits() {
    let mut rack = Rack::settled();
    let m2 = &mut rack.machines[1];
    m2.restart(rack.tenths, true);
    assert_eq!(m2.period(rack.tenths), [], "the first reading shows no usage");
    m2.sent += 1e6;
    // The next period is due a quarter of a period later; 8 Mb/s are 300 kB in three tenths.
    m2.sent -= 700_000.0;
    assert_eq!(m2.period(rack.tenths + 2), [], "not due");
    let reported = m2.period(rack.tenths + 3);
    assert!(reported[0].rows[0].tx.backlogged, "8 of 8 used: {:?}", reported[0].rows);
}
