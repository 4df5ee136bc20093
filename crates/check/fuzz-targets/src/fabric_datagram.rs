//! Datagrams between racks and the fabric broker, and the brokers that receive them.

use crate::rack_datagram::{POLICY, SELF, datagram, key, untagged};
use weir_control::rate::rounded;
use weir_control::wire::{Message, decode, encode};
use weir_control::{
    EpochNotice, FabricBroker, FabricBrokerConfig, FabricInput, FabricOutput, Input, LimitsRelay, MeterReading, Output,
    RackBroker, RackBrokerConfig, RackLimits, RackReport, RateRow,
};
use weir_units::{
    Bandwidth, Bytes, ContentionPoint, Direction, Duration, Instant, MachineId, PerDirection, RackId, ServiceId,
};

/// Takes `data` as a datagram and as a message that still needs its tag, as
/// [`crate::rack_datagram()`] does; the seeds are of the fabric's kinds. Returns whether either
/// decodes.
///
/// # Panics
/// If something does not hold that should: a finding.
pub fn fabric_datagram(data: &[u8]) -> bool {
    datagram(data)
}

/// Passes a message about the fabric to the broker that decodes it, unchanged and with the broker's
/// policy.
pub(crate) fn take(message: &Message) {
    match message {
        Message::Usage(_) | Message::ShutOut(_) => {}
        Message::EpochNotice(notice) | Message::FabricEpoch(notice) => {
            receive_epoch_notice(notice);
            receive_epoch_notice(&EpochNotice { policy: POLICY.digest(), ..*notice });
        }
        Message::RackReport(report) => {
            receive_report(report);
            receive_report(&RackReport { policy: POLICY.digest(), ..report.clone() });
        }
        Message::Reply(reply) => {
            receive_reply(reply);
            receive_reply(&RackReport { policy: POLICY.digest(), epoch: 1, ..reply.clone() });
        }
        Message::Proposal(limits) => {
            receive_proposal(limits);
            receive_proposal(&RackLimits { policy: POLICY.digest(), rack: RackId(0), ..limits.clone() });
        }
        Message::RackLimits(limits) => {
            receive_limits(limits, Duration::ZERO);
            receive_limits(&RackLimits { policy: POLICY.digest(), rack: RackId(0), ..limits.clone() }, Duration::ZERO);
        }
        Message::Relay(LimitsRelay { age, limits }) => {
            receive_limits(limits, *age);
            receive_limits(&RackLimits { policy: POLICY.digest(), rack: RackId(0), ..limits.clone() }, *age);
        }
    }
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

/// A fabric broker in its first epoch receives a notice twice, and continues above it at most once.
fn receive_epoch_notice(notice: &EpochNotice) {
    let mut broker = FabricBroker::new(&POLICY, 1, FabricBrokerConfig::default(), Instant::ZERO);
    for _ in 0..2 {
        broker.handle_input(at(1), FabricInput::EpochNotice(notice));
    }
    let raised = broker.counters().epochs_raised;
    assert!(raised <= 1, "a repetition raises it again");
    assert_eq!(broker.epoch(), if raised == 1 { notice.epoch + 1 } else { 1 });
    let stored = (raised == 1).then_some(FabricOutput::StoreEpoch(broker.epoch()));
    assert_eq!((broker.poll_output(), broker.poll_output()), (stored, None));
}

/// A fabric broker that proposes nothing receives a reply.
fn receive_reply(reply: &RackReport) {
    let mut broker = FabricBroker::new(&POLICY, 1, FabricBrokerConfig::default(), Instant::ZERO);
    broker.handle_input(at(1), FabricInput::Reply(reply));
    let counters = broker.counters();
    let refused = counters.unknown_machine + counters.other_policy + counters.malformed;
    assert_eq!((counters.replayed + refused, counters.replies), (1, 0), "a reply without a proposal");
    assert_eq!(broker.poll_output(), None);
}

/// A rack broker that has not reported receives a proposal: it does not reply, and its limits stay.
fn receive_proposal(limits: &RackLimits) {
    let mut broker = RackBroker::new(&POLICY, MachineId(0), 1, RackBrokerConfig::default(), Instant::ZERO);
    for _ in 0..2 {
        broker.handle_input(at(1), Input::Proposal(limits));
    }
    assert_eq!(broker.poll_output(), None);
    let first = broker.allocator().leaves().first();
    assert!(first.is_none() || broker.fabric_stamp(0).is_none(), "proposed limits are not in force");
}

/// A fabric broker receives a report twice, computes, and sends limits to the reporters.
fn receive_report(report: &RackReport) {
    let mut broker = FabricBroker::new(&POLICY, 1, FabricBrokerConfig::default(), Instant::ZERO);
    for received in 1..=2 {
        broker.handle_input(at(1), FabricInput::Report(report));
        let counters = broker.counters();
        let refused = counters.unknown_machine + counters.other_policy + counters.malformed + counters.older_epoch;
        assert_eq!(counters.accepted + counters.replayed + refused, received, "each report is counted once");
        assert!(counters.accepted <= 1, "a replay counts as new");
    }
    let accepted = broker.counters().accepted == 1;
    broker.handle_input(at(10), FabricInput::Timeout);
    let mut replied = false;
    loop {
        let (to, limits) = match broker.poll_output() {
            Some(FabricOutput::SendLimits { to, limits }) => (to, limits),
            Some(FabricOutput::Propose { to, .. }) => {
                assert_eq!(to, report.machine, "only the reporter gets proposals");
                continue;
            }
            Some(output) => panic!("no epoch goes down: {output:?}"),
            None if broker.round() == 0 => {
                // It waits for a reply that does not come.
                let until = broker.poll_timeout().expect("the wait ends");
                broker.handle_input(until, FabricInput::Timeout);
                continue;
            }
            None => break,
        };
        replied = true;
        assert_eq!(to, report.machine, "only the reporter gets limits");
        assert_eq!(limits.rack, POLICY.network().machine(to).rack());
        let message = Message::from(limits);
        assert_eq!(decode(&encode(&message, &key()), &key()), Ok(message));
    }
    assert_eq!(replied, accepted, "limits go to the accepted reporter alone");
    for direction in Direction::ALL {
        for (leaf, service) in broker.allocator().leaves().iter().enumerate() {
            let racks = (0..broker.allocator().racks() as u32).map(RackId);
            let has = |rack| broker.demand(rack, leaf, direction).min(broker.limit(rack, leaf, direction));
            let max = POLICY.services().get(*service).share(ContentionPoint::Fabric, direction).max;
            assert!(racks.map(has).sum::<Bandwidth>() <= max, "{service:?} has more than its maximum");
        }
    }
}

/// A rack broker receives limits twice and applies them until they are too old.
fn receive_limits(limits: &RackLimits, age: Duration) {
    let config = RackBrokerConfig::default();
    let mut broker = RackBroker::new(&POLICY, SELF, 1, config, Instant::ZERO);
    let relay = LimitsRelay { age, limits: limits.clone() };
    for received in 1..=2 {
        let input = if age.is_zero() { Input::Fabric(limits) } else { Input::Relay(&relay) };
        broker.handle_input(at(1), input);
        let c = broker.counters();
        let refused =
            c.limits_older_epoch + c.limits_expired + c.limits_other_rack + c.limits_other_policy + c.limits_malformed;
        let counted = c.limits_accepted + c.limits_known + c.limits_replayed + refused;
        assert_eq!(counted, received, "limits are counted once: {c:?}");
        assert!(c.limits_accepted <= 1, "a replay counts as new");
    }
    let accepted = broker.counters().limits_accepted == 1;
    // Limits from the fabric broker itself are relayed once.
    let relays = std::iter::from_fn(|| broker.poll_output()).filter(|output| matches!(output, Output::Relay(_)));
    assert_eq!(relays.count(), usize::from(accepted && age.is_zero()));
    period(&mut broker, at(2));
    let left = config.fabric_timeout.saturating_sub(age) > Duration::from_secs(1);
    check_limits(&broker, limits, accepted && left);
    period(&mut broker, at(1) + config.fabric_timeout);
    check_limits(&broker, limits, false);
}

/// The broker has these limits, or its part of the maxima.
fn check_limits(broker: &RackBroker, limits: &RackLimits, held: bool) {
    for (leaf, service) in broker.allocator().leaves().iter().enumerate() {
        let covered = held && (limits.first..=limits.last).contains(service);
        assert_eq!(broker.fabric_stamp(leaf), covered.then_some((limits.epoch, limits.round)));
        let row = limits.rows.iter().find(|row| row.service == *service).filter(|_| covered);
        for direction in Direction::ALL {
            let otherwise = match covered {
                true => Bandwidth::UNLIMITED,
                false => broker.allocator().static_fabric_limit(direction, leaf),
            };
            let expected = row.map_or(otherwise, |row| row.rates[direction]);
            assert_eq!(broker.fabric_limit(direction, leaf), expected);
            let shares = broker.shares(direction);
            assert!(shares.of_service(broker.allocator(), leaf) <= expected, "more than the fabric allows");
        }
    }
}

fn period(broker: &mut RackBroker, now: Instant) {
    broker.handle_input(now, Input::Timeout);
    let bytes = PerDirection::both(Bytes::new(now.nanos()));
    let readings: Vec<MeterReading> = broker
        .allocator()
        .leaves()
        .iter()
        .map(|service| MeterReading { service: *service, bytes, waits: false, network: Default::default() })
        .collect();
    while let Some(output) = broker.poll_output() {
        if output == Output::ReadMeters {
            broker.handle_input(now, Input::Meters(&readings));
        }
    }
}

/// The seeds of this target by name.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let leaves: Vec<ServiceId> = POLICY.services().leaves().map(|(id, _)| id).collect();
    let rows = |tx: Bandwidth, rx: Bandwidth| -> Vec<RateRow> {
        let rates = PerDirection { tx: rounded(tx), rx: rounded(rx) };
        leaves.iter().map(|service| RateRow { service: *service, rates }).collect()
    };
    let (policy, first, last) = (POLICY.digest(), ServiceId(0), ServiceId(u32::MAX));
    let report = RackReport {
        machine: MachineId(0),
        policy,
        epoch: 1,
        round: 1,
        first,
        last,
        rows: rows(Bandwidth::from_gbps(9), Bandwidth::from_mbps(3)),
    };
    let limits = RackLimits {
        rack: RackId(0),
        policy,
        epoch: 1,
        round: 1,
        first,
        last,
        rows: rows(Bandwidth::from_gbps(2), Bandwidth::UNLIMITED),
    };
    let relay = |millis| LimitsRelay { age: Duration::from_millis(millis), limits: limits.clone() };
    let altered = |message: &Message, at: usize, byte: u8| {
        let mut bytes = untagged(message);
        bytes[at] = byte;
        bytes
    };
    let none = RackLimits { rows: Vec::new(), ..limits.clone() };
    let part = RackLimits { first: leaves[1], last: leaves[1], rows: vec![limits.rows[1]], ..limits.clone() };
    let (report, limits) = (Message::from(report), Message::from(limits.clone()));
    let young = Message::from(relay(500));
    let mut unbounded = untagged(&report);
    unbounded[45..48].copy_from_slice(&[0x7f, 0xff, 0xff]);
    let known = EpochNotice { from: Some(MachineId(0)), policy, to: None, epoch: 900, round: 1 };
    vec![
        ("epoch-notice", untagged(&known.into())),
        ("rack-report", untagged(&report)),
        ("rack-report-with-tag", encode(&report, &key())),
        ("rack-limits", untagged(&limits)),
        ("no-limits", untagged(&none.into())),
        ("limits-of-one-service", untagged(&part.into())),
        ("relay", untagged(&young)),
        ("relay-too-old", untagged(&relay(60_000).into())),
        ("broken-relay-without-age", untagged(&young)[..45].to_vec()),
        ("broken-unbounded-demand", unbounded),
        ("broken-row-count", altered(&limits, 7, 0)),
        ("broken-version", altered(&report, 4, 1)),
    ]
}
