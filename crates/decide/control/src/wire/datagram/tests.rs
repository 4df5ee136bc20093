use super::*;
use crate::parts::ROWS_PER_PART;
use crate::rate::{QuantisedRate, rounded};
use crate::{Demand, RateRow, UsageRow};
use proptest::prelude::*;
use weir_datapath::abi;
use weir_units::{Bandwidth, PerDirection};

fn key() -> Key {
    Key::new([1; 32]).expect("a key")
}

fn mbps(rate: u64) -> Bandwidth {
    rounded(Bandwidth::from_mbps(rate))
}

fn report() -> UsageReport {
    let demand = |usage, backlogged| Demand { usage: mbps(usage), backlogged };
    UsageReport {
        machine: MachineId(3),
        policy: 0x0123_4567_89ab_cdef,
        epoch: 7,
        round: 99,
        first: ServiceId(0),
        last: ServiceId(u32::MAX),
        rows: vec![
            UsageRow { service: ServiceId(0), tx: demand(300, true), rx: demand(0, false) },
            UsageRow { service: ServiceId(5), tx: demand(0, false), rx: demand(12, false) },
        ],
    }
}

fn limits() -> RackLimits {
    let row = |service, tx, rx| RateRow { service: ServiceId(service), rates: PerDirection { tx, rx } };
    RackLimits {
        rack: RackId(2),
        policy: 1,
        epoch: 2,
        round: 3,
        first: ServiceId(4),
        last: ServiceId(900),
        rows: vec![row(4, mbps(20), Bandwidth::UNLIMITED), row(300, Bandwidth::UNLIMITED, Bandwidth::ZERO)],
    }
}

fn rack_report() -> RackReport {
    let rows = vec![RateRow { service: ServiceId(9), rates: PerDirection { tx: mbps(7), rx: mbps(80_000) } }];
    let UsageReport { machine, policy, epoch, round, first, last, .. } = report();
    RackReport { machine, policy, epoch, round, first, last, rows }
}

fn notice(shut_out: bool) -> ShutOutNotice {
    ShutOutNotice { machine: MachineId(3), policy: 1, epoch: 2, round: 3, shut_out }
}

fn epoch_notice(from: Option<u32>, to: Option<u32>) -> EpochNotice {
    let (from, to) = (from.map(MachineId), to.map(MachineId));
    EpochNotice { from, policy: 1, to, epoch: LARGEST_CLAIM, round: 3 }
}

/// The kernel's programs pass brokers' datagrams on by these constants of theirs (`datapath/feedback.h`).
#[test]
fn kernel_has_the_same_format_and_other_kinds() {
    assert_eq!(u32::from_be_bytes(*MAGIC), abi::MAGIC);
    assert_eq!(u32::from(VERSION), abi::WIRE_VERSION);
    // Proposals and replies are messages of the fabric session, and datagrams in the simulator only.
    for kind in [KIND_USAGE, KIND_RELAY, KIND_RACK_REPORT, KIND_RACK_LIMITS, KIND_EPOCH, KIND_SHUT_OUT] {
        assert!(![abi::KIND_FEEDBACK, abi::KIND_ECN_CAPABILITY].contains(&kind.into()), "{kind}");
    }
}

#[test]
fn every_kind_survives_encoding() {
    let relay = LimitsRelay { age: Duration::from_millis(1_230), limits: limits() };
    // 44 + rows + 16. A row has 7 bytes, and 8 if the difference is 128 or more.
    let messages: [(Message, usize); 10] = [
        (report().into(), 44 + 14 + 16),
        (relay.into(), 46 + 15 + 16),
        (rack_report().into(), 44 + 7 + 16),
        (limits().into(), 44 + 15 + 16),
        (notice(true).into(), 44 + 16),
        (notice(false).into(), 44 + 16),
        (epoch_notice(Some(3), Some(0)).into(), 44 + 16),
        (epoch_notice(Some(3), None).into(), 44 + 16),
        (epoch_notice(None, Some(3)).into(), 44 + 16),
        (Message::FabricEpoch(epoch_notice(Some(3), None)), 44 + 16),
    ];
    for (message, len) in messages {
        let bytes = encode(&message, &key());
        assert_eq!(bytes.len(), len, "{message:?}");
        assert_eq!(decode(&bytes, &key()), Ok(message));
    }
}

#[test]
fn messages_are_inputs_of_one_kind_of_broker_only() {
    let relay = LimitsRelay { age: Duration::ZERO, limits: limits() };
    let for_racks: [Message; 6] = [
        report().into(),
        relay.into(),
        limits().into(),
        notice(true).into(),
        epoch_notice(None, Some(3)).into(),
        Message::FabricEpoch(epoch_notice(Some(3), None)),
    ];
    assert!(for_racks.iter().all(|message| message.rack_input().is_some() && message.fabric_input().is_none()));
    let for_the_fabric: [Message; 2] = [rack_report().into(), epoch_notice(Some(3), None).into()];
    assert!(for_the_fabric.iter().all(|message| message.rack_input().is_none() && message.fabric_input().is_some()));
}

#[test]
fn relay_age_is_rounded_up() {
    let decoded_age = |nanos: u64| {
        let relay = LimitsRelay { age: Duration::from_nanos(nanos), limits: limits() };
        match decode(&encode(&relay.into(), &key()), &key()) {
            Ok(Message::Relay(relay)) => relay.age,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(decoded_age(1), Duration::from_millis(10));
    assert_eq!(decoded_age(10_000_000), Duration::from_millis(10));
    // The maximum age exceeds any reasonable timeout.
    assert_eq!(decoded_age(u64::MAX), Duration::from_millis(655_350));
}

#[test]
fn largest_datagram_fits_the_minimum_mtu() {
    let largest =
        Demand { usage: Bandwidth::from_bps(QuantisedRate::of(Bandwidth::MAX).bandwidth().bps()), backlogged: true };
    let rows: Vec<UsageRow> =
        (0..ROWS_PER_PART as u32).map(|i| UsageRow { service: ServiceId(i), tx: largest, rx: largest }).collect();
    assert_eq!(rows.len(), 167);
    let bytes = encode(&UsageReport { rows, ..report() }.into(), &key());
    assert_eq!(bytes.len(), 1_229);
    let rates = PerDirection::both(Bandwidth::UNLIMITED);
    let rows: Vec<RateRow> = (4..4 + ROWS_PER_PART as u32).map(|i| RateRow { service: ServiceId(i), rates }).collect();
    let relay = LimitsRelay { age: Duration::ZERO, limits: RackLimits { rows, ..limits() } };
    assert!(encode(&relay.into(), &key()).len() <= LARGEST);
}

#[test]
fn invalid_datagrams_are_rejected_with_their_reason() {
    let valid = encode(&report().into(), &key());
    let altered = |at: usize, byte: u8| {
        let mut bytes = valid.clone();
        bytes[at] = byte;
        bytes
    };
    assert_eq!(decode(&[], &key()), Err(DecodeError::Truncated));
    assert_eq!(decode(&valid[..HEADER_LEN], &key()), Err(DecodeError::Truncated));
    assert_eq!(decode(&valid[..valid.len() - 1], &key()), Err(DecodeError::Forged));
    assert_eq!(decode(&altered(0, b'X'), &key()), Err(DecodeError::Foreign));
    assert_eq!(decode(&altered(4, 1), &key()), Err(DecodeError::Version(1)));
    assert_eq!(decode(&altered(30, 0xff), &key()), Err(DecodeError::Forged));
    assert_eq!(decode(&valid, &Key::new([2; 32]).expect("a key")), Err(DecodeError::Forged));
}

fn tagged(mut message: Vec<u8>) -> Vec<u8> {
    let tag = key().tag(&message);
    message.extend(tag);
    message
}

#[test]
fn malformed_content_with_a_valid_tag_is_rejected() {
    let alter = |message: Message, change: fn(&mut Vec<u8>)| {
        let mut bytes = encode(&message, &key());
        bytes.truncate(bytes.len() - TAG_LEN);
        change(&mut bytes);
        decode(&tagged(bytes), &key())
    };
    let malformed = |cause| Err(DecodeError::Malformed(cause));
    let usage = |change: fn(&mut Vec<u8>)| alter(report().into(), change);
    assert_eq!(usage(|m| m[5] = 9), malformed("unknown kind"));
    assert_eq!(usage(|m| m.push(1)), malformed("a row is truncated"));
    assert_eq!(usage(|m| m.extend([1, 0, 0, 0, 0, 0, 0])), malformed("wrong number of rows"));
    assert_eq!(usage(|m| m.extend([0, 0, 0, 0, 0, 0, 0])), malformed("duplicate service"));
    assert_eq!(usage(|m| m.resize(1_300, 1)), malformed("too many rows"));
    assert_eq!(usage(|m| m[7] = 3), malformed("wrong number of rows"));
    assert_eq!(usage(|m| m[40..44].fill(0)), malformed("service out of range"));
    assert_eq!(usage(|m| m[36..44].copy_from_slice(&[0, 0, 0, 9, 0, 0, 0, 1])), malformed("empty range of services"));
    // The code between the maximum rate and unlimited, and unlimited where it is not allowed.
    assert_eq!(usage(|m| m[45..48].copy_from_slice(&[0x7f, 0xff, 0xfe])), malformed("rate above the maximum"));
    assert_eq!(usage(|m| m[45..48].fill(0xff)), malformed("unlimited demand"));
    let rack = |change: fn(&mut Vec<u8>)| alter(rack_report().into(), change);
    assert_eq!(rack(|m| m[45..48].copy_from_slice(&[0x7f, 0xff, 0xff])), malformed("unlimited demand"));
    // Fabric rows have no backlogged bit.
    assert_eq!(rack(|m| m[45] |= 0x80), malformed("rate above the maximum"));
    let relay = LimitsRelay { age: Duration::ZERO, limits: limits() };
    assert_eq!(alter(relay.into(), |m| m.truncate(45)), malformed("relay without an age"));
    let notice = |change: fn(&mut Vec<u8>)| alter(notice(true).into(), change);
    assert_eq!(notice(|m| m[43] = 2), malformed("neither shut out nor not"));
    assert_eq!(notice(|m| m[39] = 1), malformed("neither shut out nor not"));
    assert_eq!(notice(|m| m[7] = 1), malformed("a notice with rows"));
    assert_eq!(notice(|m| m.push(0)), malformed("a notice with rows"));
    let notice = |change: fn(&mut Vec<u8>)| alter(epoch_notice(Some(3), Some(5)).into(), change);
    assert_eq!(notice(|m| m[23] = 1), malformed("epoch out of range"));
    assert_eq!(notice(|m| m[16..24].fill(0xff)), malformed("epoch out of range"));
    assert_eq!(notice(|m| m[43] = 3), malformed("a notice without a receiver"));
    assert_eq!(notice(|m| m[39] = 1), malformed("a notice without a receiver"));
    assert_eq!(notice(|m| m[39] = 2), malformed("a notice without a receiver"));
    assert_eq!(notice(|m| m[7] = 1), malformed("a notice with rows"));
    assert_eq!(notice(|m| m.push(0)), malformed("a notice with rows"));
}

fn any_rate(unlimited: bool) -> impl Strategy<Value = Bandwidth> {
    let finite = (0u32..60, any::<u64>()).prop_map(|(bits, low)| rounded(Bandwidth::from_bps((low >> 5) >> bits)));
    let odds = u32::from(unlimited);
    prop_oneof![4 => finite, odds => Just(Bandwidth::UNLIMITED)]
}

fn any_message() -> impl Strategy<Value = Message> {
    let services = proptest::collection::btree_set(prop_oneof![0u32..300, any::<u32>()], 0..100);
    let rates = proptest::collection::vec((any_rate(false), any_rate(true), any::<bool>()), 100);
    let header = (any::<u32>(), any::<u64>(), any::<u64>(), any::<u64>(), 0u16..);
    (0u8..6, header, services, rates).prop_map(|(kind, (from, policy, epoch, round, age), services, rates)| {
        let (first, last) = (ServiceId(0), ServiceId(u32::MAX));
        let rows = services.iter().map(|id| ServiceId(*id)).zip(&rates);
        let rack = |unlimited: bool| -> Vec<RateRow> {
            let other = |limit: Bandwidth| if unlimited || !limit.is_unlimited() { limit } else { Bandwidth::ZERO };
            rows.clone()
                .map(|(service, (tx, rx, _))| RateRow { service, rates: PerDirection { tx: *tx, rx: other(*rx) } })
                .collect()
        };
        let machine = MachineId(from);
        let limits = || RackLimits { rack: RackId(from), policy, epoch, round, first, last, rows: rack(true) };
        match kind {
            0 => {
                let demand = |usage, backlogged| Demand { usage, backlogged };
                let rows = rows
                    .map(|(service, (a, _, b))| UsageRow { service, tx: demand(*a, *b), rx: demand(*a, !*b) })
                    .collect();
                UsageReport { machine, policy, epoch, round, first, last, rows }.into()
            }
            1 => LimitsRelay { age: AGE_STEP * u64::from(age), limits: limits() }.into(),
            2 => RackReport { machine, policy, epoch, round, first, last, rows: rack(false) }.into(),
            3 => limits().into(),
            4 => {
                let to = (from % 3 != 0).then_some(MachineId(from / 2));
                EpochNotice { from: Some(machine), policy, to, epoch: epoch / 2, round }.into()
            }
            _ => ShutOutNotice { machine, policy, epoch, round, shut_out: age % 2 == 1 }.into(),
        }
    })
}

proptest! {
    /// Encoding and decoding returns the original message.
    #[test]
    fn any_message_survives_encoding(message in any_message()) {
        prop_assert_eq!(decode(&encode(&message, &key()), &key()), Ok(message));
    }

    /// Arbitrary bytes are decoded or rejected, and a decoded message encodes to the same bytes.
    #[test]
    fn any_bytes_are_decoded_or_rejected(
        kind in 0u8..10,
        rows in 0u8..4,
        message in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let _ = decode(&message, &key());
        let mut framed = encode(&report().into(), &key())[..8].to_vec();
        (framed[5], framed[7]) = (kind, rows);
        framed.extend(&message);
        let framed = tagged(framed);
        if let Ok(message) = decode(&framed, &key()) {
            prop_assert_eq!(encode(&message, &key()), framed);
        }
    }
}

#[test]
fn any_configured_key_verifies() {
    let key = |byte| Key::new([byte; 32]).expect("a key");
    let keys = |bytes: &[u8]| crate::wire::Keys::new(bytes.iter().map(|byte| key(*byte)).collect()).expect("keys");
    let message = Message::Usage(UsageReport {
        machine: MachineId(1),
        policy: 2,
        epoch: 3,
        round: 4,
        first: ServiceId(0),
        last: ServiceId(u32::MAX),
        rows: vec![],
    });
    // The steps of a key rotation: machines at adjacent steps accept each other's datagrams.
    let steps = [keys(&[1]), keys(&[1, 2]), keys(&[2, 1]), keys(&[2])];
    for pair in steps.windows(2) {
        for (sender, receiver) in [(&pair[0], &pair[1]), (&pair[1], &pair[0])] {
            assert_eq!(decode(&encode(&message, sender.signing()), receiver).as_ref(), Ok(&message));
        }
    }
    let (first, last) = (&steps[0], &steps[3]);
    assert_eq!(decode(&encode(&message, first.signing()), last), Err(DecodeError::Forged));
}
