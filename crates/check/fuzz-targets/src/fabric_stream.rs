//! Messages of a leader and the fabric broker on a stream, and the brokers that receive them.

use crate::fabric_datagram::take;
use crate::rack_datagram::{POLICY, SELF, key, receive_epoch_notice};
use prost::Message as _;
use weir_control::wire::{Message, decode, encode};
use weir_control::{EpochNotice, LimitsRelay, RackLimits, RackReport, RateRow};
use weir_fabric::convert;
use weir_fabric::proto::{FromBroker, FromLeader, from_broker, from_leader};
use weir_units::{Bandwidth, Duration, MachineId, PerDirection, RackId, ServiceId};

/// Takes `data` as a leader's message and as the fabric broker's. Returns whether either is taken.
///
/// # Panics
/// If something does not hold that should: a finding.
pub fn fabric_stream(data: &[u8]) -> bool {
    let mut taken = false;
    if let Ok(FromLeader { message: Some(from_leader::Message::Report(message)) }) = FromLeader::decode(data)
        && let Ok(report) = convert::report(MachineId(0), &message)
    {
        let again = convert::from_report(&report).message;
        assert_eq!(again, Some(from_leader::Message::Report(message)), "a value has one spelling");
        let report = Message::from(report);
        assert_eq!(decode(&encode(&report, &key()), &key()), Ok(report.clone()), "it would fit a datagram");
        take(&report);
        taken = true;
    }
    if let Ok(FromBroker { message: Some(from_broker::Message::Limits(message)) }) = FromBroker::decode(data)
        && let Ok(limits) = convert::limits(&message)
    {
        let again = convert::from_limits(&limits).message;
        assert_eq!(again, Some(from_broker::Message::Limits(message)), "a value has one spelling");
        // A broker that receives limits relays them in its rack.
        let relay = Message::from(LimitsRelay { age: Duration::ZERO, limits: limits.clone() });
        assert_eq!(decode(&encode(&relay, &key()), &key()), Ok(relay));
        take(&limits.into());
        taken = true;
    }
    if let Ok(FromLeader { message: Some(from_leader::Message::Notice(message)) }) = FromLeader::decode(data)
        && let Ok(notice) = convert::epoch_notice(Some(MachineId(0)), &message)
    {
        let again = convert::from_notice_to_broker(&notice).message;
        assert_eq!(again, Some(from_leader::Message::Notice(message)), "a value has one spelling");
        take(&notice.into());
        taken = true;
    }
    if let Ok(FromBroker { message: Some(from_broker::Message::Notice(message)) }) = FromBroker::decode(data)
        && let Ok(notice) = convert::epoch_notice(None, &message)
    {
        let again = convert::from_notice_to_machine(&notice).message;
        assert_eq!(again, Some(from_broker::Message::Notice(message)), "a value has one spelling");
        // The agent adds its machine.
        receive_epoch_notice(&EpochNotice { to: Some(SELF), ..notice });
        taken = true;
    }
    taken
}

/// The seeds of this target by name.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let (policy, first, last) = (POLICY.digest(), ServiceId(0), ServiceId(u32::MAX));
    let leaves: Vec<ServiceId> = POLICY.services().leaves().map(|(id, _)| id).collect();
    let rows = |rx: Bandwidth| -> Vec<RateRow> {
        let rates = PerDirection { tx: Bandwidth::from_mbps(1), rx };
        leaves.iter().map(|service| RateRow { service: *service, rates }).collect()
    };
    let machine = MachineId(0);
    let report = |rows| convert::from_report(&RackReport { machine, policy, epoch: 1, round: 1, first, last, rows });
    let rack = RackId(0);
    let limits = |rows| convert::from_limits(&RackLimits { rack, policy, epoch: 1, round: 1, first, last, rows });
    let reversed = rows(Bandwidth::ZERO).into_iter().rev().collect();
    let untold = Bandwidth::from_bps(10_000_000_001);
    let many = |count: u32| {
        let rates = PerDirection::both(Bandwidth::ZERO);
        (0..count).map(|service| RateRow { service: ServiceId(service), rates }).collect()
    };
    let known = |epoch| EpochNotice { from: None, policy, to: None, epoch, round: 1 };
    vec![
        ("notice-to-machine", convert::from_notice_to_machine(&known(900)).encode_to_vec()),
        ("notice-to-broker", convert::from_notice_to_broker(&known(900)).encode_to_vec()),
        ("broken-epoch", convert::from_notice_to_broker(&known(u64::MAX)).encode_to_vec()),
        ("report", report(rows(Bandwidth::ZERO)).encode_to_vec()),
        ("report-of-nothing", report(Vec::new()).encode_to_vec()),
        ("report-that-fills-its-part", report(many(167)).encode_to_vec()),
        ("limits", limits(rows(Bandwidth::UNLIMITED)).encode_to_vec()),
        ("no-limits", limits(Vec::new()).encode_to_vec()),
        ("broken-order", report(reversed).encode_to_vec()),
        ("broken-rate", report(rows(untold)).encode_to_vec()),
        ("broken-unbounded-demand", report(rows(Bandwidth::UNLIMITED)).encode_to_vec()),
        ("broken-too-many", limits(many(168)).encode_to_vec()),
        ("broken-without-a-message", FromLeader { message: None }.encode_to_vec()),
    ]
}
