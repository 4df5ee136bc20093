//! Replies to proposed limits.

use super::*;
use crate::fabric_message::{RackLimits, RackReport, RateRow};
use weir_units::{Bytes, RackId, ServiceId};

const A: ServiceId = ServiceId(0);
const B: ServiceId = ServiceId(1);

/// A rack of one machine, with an uplink of 10 Gb/s.
struct Host {
    broker: RackBroker,
    sent: [u64; 2],
    replies: Vec<RackReport>,
    reports: Vec<RackReport>,
}

impl Host {
    fn new() -> Self {
        let text = "weir: 1\nnetwork: { nic: 20Gb/s, racks: { r: { uplink: 10Gb/s, machines: [m] } } }\nservices:\n  \
                    a: { match: [ { protocol: tcp, port: 1 } ], fabric: { max: 5Gb/s } }\n  \
                    b: { match: [ { protocol: tcp, port: 2 } ] }\n";
        let policy = Arc::new(Policy::parse("policy.yaml", text).expect("the policy is valid").0);
        let config = RackBrokerConfig::published();
        let broker = RackBroker::new(&policy, MachineId(0), 1, config, Instant::ZERO);
        Self { broker, sent: [0; 2], replies: vec![], reports: vec![] }
    }

    /// The seconds up to this one, in which `a` and `b` send this many Mb/s each.
    fn run(&mut self, seconds: std::ops::Range<u64>, mbps: [u64; 2]) {
        for second in seconds {
            self.sent[0] += mbps[0] * 125_000;
            self.sent[1] += mbps[1] * 125_000;
            self.input(second, Input::Timeout);
        }
    }

    fn input(&mut self, second: u64, input: Input<'_>) {
        let now = Instant::ZERO + Duration::from_secs(second);
        self.broker.handle_input(now, input);
        while let Some(output) = self.broker.poll_output() {
            match output {
                Output::ReadMeters => {
                    let reading = |(service, sent)| MeterReading {
                        service,
                        bytes: PerDirection { tx: Bytes::new(sent), rx: Bytes::ZERO },
                        waits: false,
                        network: Default::default(),
                    };
                    let readings = [(A, self.sent[0]), (B, self.sent[1])].map(reading);
                    self.broker.handle_input(now, Input::Meters(&readings));
                }
                Output::ReportRack(report) => self.reports.push(report),
                Output::ReplyRack(reply) => self.replies.push(reply),
                Output::Broadcast(_) | Output::Relay(_) | Output::ShutOut(_) | Output::SetLimits(_) => {}
                Output::NotifyEpoch(_) | Output::FabricEpoch(_) | Output::StoreEpoch(_) => panic!("no epoch goes down"),
            }
        }
    }

    /// Proposes a limit of 3 Gb/s on `a`.
    fn propose(&mut self, second: u64, round: u64) {
        let tx = Bandwidth::from_gbps(3);
        let limits = RackLimits {
            rack: RackId(0),
            policy: self.broker.allocator().policy().digest(),
            epoch: 1,
            round,
            first: A,
            last: ServiceId(u32::MAX),
            rows: vec![RateRow { service: A, rates: PerDirection { tx, rx: Bandwidth::UNLIMITED } }],
        };
        self.input(second, Input::Proposal(&limits));
    }
}

/// The rates of `a` and `b` in Gb/s. Those on the wire are rounded down by less than a thousandth.
fn sent(report: &RackReport) -> [u64; 2] {
    let gbps = |row: usize| (report.rows[row].rates.tx + Bandwidth::from_mbps(1)).bps() / 1_000_000_000;
    [gbps(0), gbps(1)]
}

#[test]
fn reply_is_repeated_while_offers_under_proposed_limits_differ_from_it() {
    let mut host = Host::new();
    host.run(0..12, [9_000, 5_000]);
    host.propose(12, 7);
    let reported = host.reports.len();
    assert_eq!((sent(&host.reports[reported - 1]), sent(&host.replies[0])), ([5, 5], [3, 5]));
    // No reply follows the reports of a steady load.
    host.run(12..30, [9_000, 5_000]);
    assert!(host.reports.len() >= reported + 2 && host.replies.len() == 1);
    // `b` could use what the limit on `a` leaves. The shares without limits stay the same.
    let reported = host.reports.len();
    host.run(30..50, [9_000, 9_000]);
    let reports = &host.reports[reported + 1..];
    assert!(reports.len() >= 2 && reports.iter().all(|report| sent(report) == [5, 5]));
    let renewed = &host.replies[host.replies.len() - reports.len()..];
    assert!(renewed.iter().all(|reply| sent(reply) == [3, 7] && (reply.epoch, reply.round) == (1, 7)));
    // Until the next proposal.
    host.propose(50, 8);
    let replied = host.replies.len();
    assert_eq!(sent(&host.replies[replied - 1]), [3, 7]);
    host.run(50..70, [9_000, 9_000]);
    assert_eq!(host.replies.len(), replied);
}
