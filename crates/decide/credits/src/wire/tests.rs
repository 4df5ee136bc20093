use super::*;
use std::net::{Ipv4Addr, Ipv6Addr};

const KEY: CreditKey = CreditKey { number: 0x4242, bytes: [7; 16] };
const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const DESTINATION: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

fn datagram(message: Message) -> Datagram {
    Datagram { service: 0xdead_beef, epoch: 3, sequence: 1 << 40, message }
}

fn messages() -> [Message; 4] {
    let (period, longest) = (Period::from_micros(1_540), Period::from_micros(200));
    let (potential, allocation) = (Bytes::new(192_500), Bytes::new(3_008));
    let queueing = Duration::from_micros(6_160);
    [
        Message::Request(Request { weight: Weight::from_thousandths(MAX_WEIGHT).expect("in range"), clock: 7 }),
        Message::Allocation(Allocation {
            clock: u32::MAX,
            period,
            longest,
            potential,
            demand: Bytes::new(u32::MAX.into()),
            allocation,
            weight: Weight::ONE,
            queueing,
        }),
        Message::Return(Return { clock: 1, period, longest, potential, allocation, queueing }),
        Message::Terminate,
    ]
}

#[test]
fn each_kind_of_message_decodes() {
    let v6 = [1, 2].map(|last| IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last)));
    for (source, destination) in [(SOURCE, DESTINATION), (v6[0], v6[1])] {
        for message in messages() {
            let body = encode(&datagram(message), source, destination, &KEY);
            assert_eq!(decode(&body, source, destination, &[KEY]), Ok(datagram(message)));
            assert_eq!(sum(&body), u16::MAX, "0 in ones' complement");
            assert_eq!(decode(&body, destination, source, &[KEY]), Err(DecodeError::Forged));
        }
    }
}

#[test]
fn each_bit_but_the_balance_is_tagged() {
    for message in messages() {
        let body = encode(&datagram(message), SOURCE, DESTINATION, &KEY);
        for bit in 0..BYTES * 8 {
            let mut altered = body;
            altered[bit / 8] ^= 1 << (bit % 8);
            let decoded = decode(&altered, SOURCE, DESTINATION, &[KEY]);
            match bit / 8 {
                0..4 => assert_eq!(decoded, Err(DecodeError::Foreign)),
                4 => assert_eq!(decoded, Err(DecodeError::Version(altered[4]))),
                BALANCE | 9 => assert_eq!(decoded, Ok(datagram(message))),
                _ => assert_eq!(decoded, Err(DecodeError::Forged), "bit {bit}"),
            }
        }
    }
}

#[test]
fn only_the_key_with_the_number_verifies() {
    let other = CreditKey { number: 0x4243, bytes: [8; 16] };
    let body = encode(&datagram(Message::Terminate), SOURCE, DESTINATION, &other);
    assert_eq!(decode(&body, SOURCE, DESTINATION, &[KEY]), Err(DecodeError::Forged));
    assert!(decode(&body, SOURCE, DESTINATION, &[KEY, other]).is_ok());
    assert_eq!(format!("{KEY:?}"), "CreditKey(0x4242)");
}

/// A faulty sender with the key: the datagram verifies.
#[test]
fn impossible_values_are_malformed() {
    let encoded = |kind: u8, at: usize, number: u32| {
        let message = messages()[usize::from(kind - 1) % 4];
        let mut body = encode(&datagram(message), SOURCE, DESTINATION, &KEY);
        body[5] = kind;
        body[32 + 4 * at..][..4].copy_from_slice(&number.to_be_bytes());
        let tag = tag(&body, SOURCE, DESTINATION, &KEY);
        body[TAG..].copy_from_slice(&tag.to_be_bytes());
        decode(&body, SOURCE, DESTINATION, &[KEY])
    };
    let cases = [
        (KIND_REQUEST, 6, 0, "weight out of range"),
        (KIND_ALLOCATION, 6, 1_000_001, "weight out of range"),
        (KIND_ALLOCATION, 0, 0, "clock or period 0"),
        (KIND_ALLOCATION, 1, 0, "clock or period 0"),
        (KIND_RETURN, 0, 0, "clock or period 0"),
        (KIND_RETURN, 4, 1, "a field that the kind does not have is not 0"),
        (KIND_REQUEST, 5, 1, "a field that the kind does not have is not 0"),
        (KIND_REQUEST, 7, 1, "a field that the kind does not have is not 0"),
        (KIND_TERMINATION, 3, 1, "a field that the kind does not have is not 0"),
        (5, 0, 0, "unknown kind"),
    ];
    for (kind, at, number, cause) in cases {
        assert_eq!(encoded(kind, at, number), Err(DecodeError::Malformed(cause)), "kind {kind}, number {at}");
    }
}

#[test]
fn other_lengths_are_foreign() {
    let body = encode(&datagram(Message::Terminate), SOURCE, DESTINATION, &KEY);
    for length in [0, 4, 71] {
        assert_eq!(decode(&body[..length], SOURCE, DESTINATION, &[KEY]), Err(DecodeError::Foreign));
    }
    assert_eq!(decode(&[body.as_slice(), &[0]].concat(), SOURCE, DESTINATION, &[KEY]), Err(DecodeError::Foreign));
}

#[test]
fn newer_datagrams_have_a_later_epoch_or_sequence() {
    let datagram = datagram(Message::Terminate);
    assert!(datagram.is_newer((3, (1 << 40) - 1)) && datagram.is_newer((2, u64::MAX)));
    assert!(!datagram.is_newer((3, 1 << 40)) && !datagram.is_newer((4, 0)));
}

#[test]
fn larger_weights_are_encoded_as_the_largest() {
    let body =
        encode(&datagram(Message::Request(Request { weight: Weight::MAX, clock: 7 })), SOURCE, DESTINATION, &KEY);
    assert_eq!(decode(&body, SOURCE, DESTINATION, &[KEY]), Ok(datagram(messages()[0])));
}
