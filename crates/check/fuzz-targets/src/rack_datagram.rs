//! Rack datagrams, and the broker that receives them.

use crate::{fabric_datagram, fixed_policy, shares};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::sync::{Arc, LazyLock};
use weir_control::parts::ROWS_PER_PART;
use weir_control::rack_broker::LOWEST_LIMIT;
use weir_control::rate::{QuantisedRate, rounded};
use weir_control::wire::{DecodeError, Key, Message, decode, encode};
use weir_control::{
    Demand, EpochNotice, Input, LARGEST_CLAIM, MeterReading, Mode, Output, RackBroker, RackBrokerConfig, ShutOutNotice,
    UsageReport, UsageRow,
};
use weir_policy::Policy;
use weir_units::{Bandwidth, Bytes, Direction, Duration, Instant, MachineId, PerDirection, ServiceId};

/// The broker under test is the first machine's, so that all others of its rack are peers.
pub(crate) const SELF: MachineId = MachineId(0);
const KEY: [u8; 32] = [7; 32];

pub(crate) static POLICY: LazyLock<Arc<Policy>> = LazyLock::new(|| Arc::new(fixed_policy()));

pub(crate) fn key() -> Key {
    Key::new(KEY).expect("it is not zero")
}

/// The message with its tag, computed here from the format's description (HMAC-SHA-256, first 16
/// bytes) and not by the code under test: so the parser behind the tag is reached, and the tag is
/// checked too.
fn tagged(message: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&KEY).expect("HMAC takes keys of any length");
    mac.update(message);
    let full = mac.finalize().into_bytes();
    [message, &full[..16]].concat()
}

/// Takes `data` as a datagram and as a message that still needs its tag. A decoded message encodes
/// to the same bytes, and a broker that receives it keeps its invariants. Returns whether either
/// decodes.
///
/// # Panics
/// If any of that does not hold: a finding.
pub fn rack_datagram(data: &[u8]) -> bool {
    datagram(data)
}

/// The same of any kind of datagram.
pub(crate) fn datagram(data: &[u8]) -> bool {
    // Only a seed with a true tag passes; the engine cannot forge one.
    let mut accepted = false;
    if let Ok(message) = decode(data, &key()) {
        accepted = true;
        assert_eq!(encode(&message, &key()), data);
        take(&message);
    }
    let datagram = tagged(data);
    match decode(&datagram, &key()) {
        Ok(message) => {
            accepted = true;
            assert_eq!(encode(&message, &key()), datagram, "a value has one spelling");
            take(&message);
        }
        Err(DecodeError::Forged) => panic!("a genuine tag does not verify"),
        Err(_) => {}
    }
    // One altered bit anywhere is refused.
    let mut altered = datagram;
    let bit = data.iter().fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    let at = bit / 8 % altered.len();
    altered[at] ^= 1 << (bit % 8);
    assert!(decode(&altered, &key()).is_err(), "an altered datagram is accepted");
    accepted
}

/// Passes a message to a broker that decodes it.
fn take(message: &Message) {
    if let Message::Usage(report) = message {
        check(report);
        receive(report);
        // A report under another policy is ignored; so that the engine need not find the
        // fingerprint, the same report is also sent under the broker's own.
        receive(&UsageReport { policy: POLICY.digest(), ..report.clone() });
    }
    if let Message::ShutOut(notice) = message {
        receive_notice(notice);
        receive_notice(&ShutOutNotice { policy: POLICY.digest(), ..*notice });
    }
    if let Message::EpochNotice(notice) = message {
        receive_epoch_notice(notice);
        receive_epoch_notice(&EpochNotice { policy: POLICY.digest(), ..*notice });
    }
    if let Message::FabricEpoch(notice) = message {
        let mut broker = RackBroker::new(&POLICY, SELF, 1, RackBrokerConfig::default(), Instant::ZERO);
        for policy in [notice.policy, POLICY.digest()] {
            broker.handle_input(Instant::ZERO, Input::FabricEpoch(&EpochNotice { policy, ..*notice }));
        }
        assert_eq!((broker.epoch(), broker.poll_output()), (1, None), "it has no limits of an older epoch");
    }
    fabric_datagram::take(message);
}

/// A broker in its first epoch receives the notice twice. It continues above it at most once, and never below its own.
pub(crate) fn receive_epoch_notice(notice: &EpochNotice) {
    let mut broker = RackBroker::new(&POLICY, SELF, 1, RackBrokerConfig::default(), Instant::ZERO);
    for received in 1..=2 {
        broker.handle_input(Instant::ZERO, Input::EpochNotice(notice));
        let counters = broker.counters();
        let refused = counters.unknown_machine + counters.other_policy + counters.malformed;
        assert!(counters.epochs_raised + refused <= received && counters.epochs_raised <= 1, "{counters:?}");
    }
    let raised = broker.counters().epochs_raised == 1;
    assert_eq!(broker.epoch(), if raised { notice.epoch + 1 } else { 1 });
    let stored = raised.then_some(Output::StoreEpoch(broker.epoch()));
    assert_eq!((broker.poll_output(), broker.poll_output()), (stored, None));
}

/// A broker receives a notice twice. It accepts the notice once at most, sends nothing, and is not shut out itself.
fn receive_notice(notice: &ShutOutNotice) {
    let mut broker = RackBroker::new(&POLICY, SELF, 1, RackBrokerConfig::default(), Instant::ZERO);
    for sent in 1..=2 {
        broker.handle_input(Instant::ZERO, Input::ShutOut(notice));
        let counters = broker.counters();
        let refused = counters.unknown_machine + counters.other_policy + counters.notices_replayed;
        assert!(refused >= sent - 1 && refused <= sent, "a replay counts as new: {counters:?}");
    }
    assert!(broker.poll_output().is_none() && !broker.is_shut_out());
}

/// The decoder's guarantees for a report.
fn check(report: &UsageReport) {
    assert!(report.rows.len() <= ROWS_PER_PART && report.first <= report.last);
    assert!(report.rows.windows(2).all(|pair| pair[0].service < pair[1].service), "services ascend");
    for row in &report.rows {
        assert!((report.first..=report.last).contains(&row.service), "{row:?} is out of range");
        assert!(!row.tx.usage.is_unlimited() && !row.rx.usage.is_unlimited(), "usage is finite");
    }
}

/// A broker receives the report, receives it again, has a period, and receives it anew as the next
/// round's.
fn receive(report: &UsageReport) {
    let mut driver = Driver::new();
    driver.period(Mode::Static);
    let is_new = driver.report(report);
    assert!(!driver.report(report), "a replay counts as new");
    driver.period(if is_new { Mode::Runtime } else { Mode::Static });
    if let Some(round) = report.round.checked_add(1) {
        assert_eq!(driver.report(&UsageReport { round, ..report.clone() }), is_new || older_only(report));
    }
    // Silence for longer than the timeout: alone again.
    driver.now = driver.now + RackBrokerConfig::default().timeout;
    driver.period(Mode::Static);
}

/// Whether a report is stale merely because it is of epoch 0 and round 0, which precede all others.
fn older_only(report: &UsageReport) -> bool {
    let peer = POLICY.network().machines().get(report.machine.index());
    let peer = peer.is_some_and(|machine| report.machine != SELF && machine.rack() == rack());
    let leaf = |id: ServiceId| POLICY.services().all().get(id.index()).is_some_and(|service| service.is_leaf());
    let any = POLICY.services().leaves().any(|(id, _)| (report.first..=report.last).contains(&id));
    (report.epoch, report.round) == (0, 0)
        && report.policy == POLICY.digest()
        && peer
        && any
        && report.rows.iter().all(|row| leaf(row.service))
}

fn rack() -> weir_units::RackId {
    POLICY.network().machine(SELF).rack()
}

/// A broker with a machine around it that uses its interface evenly, and the invariants after each
/// input.
struct Driver {
    broker: RackBroker,
    now: Instant,
    bytes: u64,
    reports: u64,
}

impl Driver {
    fn new() -> Self {
        let broker = RackBroker::new(&POLICY, SELF, 1, RackBrokerConfig::default(), Instant::ZERO);
        Self { broker, now: Instant::ZERO, bytes: 0, reports: 0 }
    }

    /// Passes a report on; returns whether it was new.
    fn report(&mut self, report: &UsageReport) -> bool {
        let demands = |broker: &RackBroker| Direction::ALL.map(|direction| broker.demands(direction).to_vec());
        let stamps = |broker: &RackBroker| -> Vec<(u64, u64)> {
            (0..broker.allocator().instance_count()).map(|instance| broker.stamp(instance)).collect()
        };
        let (before, stamps_before) = (demands(&self.broker), stamps(&self.broker));
        let accepted = self.broker.counters().accepted;
        self.broker.handle_input(self.now, Input::Report(report));
        self.reports += 1;
        let counters = *self.broker.counters();
        let counted = counters.accepted
            + counters.replayed
            + counters.older_epoch
            + counters.unknown_machine
            + counters.other_policy
            + counters.malformed;
        assert_eq!(counted, self.reports, "each report is counted once: {counters:?}");
        let is_new = counters.accepted > accepted;
        let (after, stamps_after) = (demands(&self.broker), stamps(&self.broker));
        if !is_new {
            assert!(before == after && stamps_before == stamps_after, "a refused report leaves no trace");
            return false;
        }
        assert_eq!(report.policy, POLICY.digest(), "a report of another policy is accepted");
        assert_ne!(report.machine, SELF, "a report in the broker's own name is accepted");
        let machines = self.broker.allocator().machines();
        for (leaf, service) in self.broker.allocator().leaves().iter().enumerate() {
            for (index, machine) in machines.iter().enumerate() {
                let instance = self.broker.allocator().instance(leaf, index);
                assert!(stamps_after[instance] >= stamps_before[instance], "a stamp goes back");
                let known = after.each_ref().map(|demands| demands[instance]);
                let covered = *machine == report.machine && (report.first..=report.last).contains(service);
                if covered && stamps_after[instance] == (report.epoch, report.round) {
                    let row = report.rows.iter().find(|row| row.service == *service);
                    let reported = row.map_or([Bandwidth::ZERO; 2], |row| [row.tx.bandwidth(), row.rx.bandwidth()]);
                    assert_eq!(known, reported, "the broker stores the report of {service:?}");
                } else {
                    assert_eq!(known, before.each_ref().map(|demands| demands[instance]), "another's demand changes");
                }
            }
        }
        true
    }

    /// Runs a period, at the end of which the broker is in `mode`, and checks its decisions.
    fn period(&mut self, mode: Mode) {
        self.now = self.now + Duration::from_secs(1);
        self.broker.handle_input(self.now, Input::Timeout);
        let mut set = 0;
        while let Some(output) = self.broker.poll_output() {
            match output {
                Output::ReadMeters => {
                    // 80 Mb/s more or less each period, on every service and in both directions.
                    self.bytes += 10_000_000;
                    let bytes = PerDirection::both(Bytes::new(self.bytes));
                    let readings: Vec<MeterReading> = (self.broker.allocator().leaves().iter())
                        .map(|service| MeterReading {
                            service: *service,
                            bytes,
                            waits: false,
                            network: Default::default(),
                        })
                        .collect();
                    self.broker.handle_input(self.now, Input::Meters(&readings));
                }
                Output::Broadcast(report) => {
                    assert_eq!((report.machine, report.policy), (SELF, POLICY.digest()));
                    check(&report);
                    let message = Message::from(report);
                    assert_eq!(decode(&encode(&message, &key()), &key()), Ok(message));
                }
                Output::NotifyEpoch(_) | Output::FabricEpoch(_) | Output::StoreEpoch(_) => {
                    panic!("no machine has another epoch of it")
                }
                Output::Relay(_) | Output::ReportRack(_) | Output::ReplyRack(_) | Output::ShutOut(_) => {
                    panic!("it is no leader and has no limits of the fabric")
                }
                Output::SetLimits(limits) => {
                    set += 1;
                    assert_eq!(limits.len(), 2 * self.broker.allocator().leaves().len());
                    for limit in limits {
                        assert!(limit.limit >= LOWEST_LIMIT, "{limit:?} stops a service for good");
                        let allocator = self.broker.allocator();
                        let leaf = allocator.leaves().binary_search(&limit.service).expect("a leaf");
                        let of_policy = allocator.static_ceiling(limit.direction, leaf, SELF.index());
                        assert!(mode == Mode::Runtime || limit.limit <= of_policy, "{limit:?} on its own");
                    }
                }
            }
        }
        assert_eq!((set, self.broker.mode()), (1, mode));
        assert!(self.broker.poll_timeout() > Some(self.now), "the next period is ahead");
        for direction in Direction::ALL {
            let (allocator, demands) = (self.broker.allocator(), self.broker.demands(direction));
            shares::check_one(allocator, direction, demands, self.broker.shares(direction));
        }
    }
}

/// A message's bytes without its tag.
pub(crate) fn untagged(message: &Message) -> Vec<u8> {
    let mut datagram = encode(message, &key());
    datagram.truncate(datagram.len() - 16);
    datagram
}

/// The seeds of this target by name: messages without their tag, one with it, and broken ones.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let untagged = |report: &UsageReport| untagged(&report.clone().into());
    let leaves: Vec<ServiceId> = POLICY.services().leaves().map(|(id, _)| id).collect();
    let row = |service: ServiceId, mbps: u64, backlogged: bool| {
        let demand = |mbps, backlogged| Demand { usage: rounded(Bandwidth::from_mbps(mbps)), backlogged };
        UsageRow { service, tx: demand(mbps, backlogged), rx: demand(mbps / 10, false) }
    };
    let report = UsageReport {
        machine: MachineId(1),
        policy: POLICY.digest(),
        epoch: 1,
        round: 1,
        first: ServiceId(0),
        last: ServiceId(u32::MAX),
        rows: leaves.iter().map(|leaf| row(*leaf, 900, leaf.0 % 2 == 0)).collect(),
    };
    let idle = UsageReport { rows: Vec::new(), ..report.clone() };
    let part =
        UsageReport { first: leaves[1], last: leaves[1], rows: vec![row(leaves[1], 10_000, true)], ..idle.clone() };
    let largest = Demand { usage: QuantisedRate::of(Bandwidth::MAX).bandwidth(), backlogged: true };
    let full = UsageReport {
        rows: (0..ROWS_PER_PART as u32).map(|i| UsageRow { service: ServiceId(i), tx: largest, rx: largest }).collect(),
        ..idle.clone()
    };
    let altered = |at: usize, byte: u8| {
        let mut message = untagged(&report);
        message[at] = byte;
        message
    };
    let cut = untagged(&report);
    let UsageReport { machine, policy, epoch, round, .. } = report;
    let notice = |shut_out| ShutOutNotice { machine, policy, epoch, round, shut_out };
    let about_fabric = Message::FabricEpoch(EpochNotice { from: Some(machine), policy, to: None, epoch, round });
    let known = |epoch| EpochNotice { from: Some(machine), policy, to: Some(SELF), epoch, round };
    vec![
        ("busy", untagged(&report)),
        ("busy-with-tag", encode(&report.clone().into(), &key())),
        ("idle", untagged(&idle)),
        ("part-of-the-services", untagged(&part)),
        ("as-many-rows-as-fit", untagged(&full)),
        ("other-policy", untagged(&UsageReport { policy: 1, ..report.clone() })),
        ("own-name", untagged(&UsageReport { machine: SELF, ..report.clone() })),
        ("machine-of-another-rack", untagged(&UsageReport { machine: MachineId(4), ..report.clone() })),
        ("shut-out", super::rack_datagram::untagged(&notice(true).into())),
        ("not-shut-out", super::rack_datagram::untagged(&notice(false).into())),
        ("higher-epoch", super::rack_datagram::untagged(&known(900).into())),
        ("epoch-of-fabric-broker", super::rack_datagram::untagged(&about_fabric)),
        ("largest-epoch", super::rack_datagram::untagged(&known(LARGEST_CLAIM).into())),
        ("before-all-others", untagged(&UsageReport { epoch: 0, round: 0, ..report.clone() })),
        ("last-round", untagged(&UsageReport { epoch: u64::MAX, round: u64::MAX, ..report.clone() })),
        ("broken-version", altered(4, 1)),
        ("broken-kind", altered(5, 9)),
        ("broken-row-count", altered(7, 200)),
        ("broken-cut-off", cut[..cut.len() - 3].to_vec()),
        ("broken-empty-range", altered(36, 0xff)[..40].iter().copied().chain([0; 4]).collect()),
    ]
}
