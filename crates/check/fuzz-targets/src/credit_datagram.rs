//! Datagrams of credits, as hosts decode them and as ports do.

use std::net::{IpAddr, Ipv4Addr};
use weir_credits::wire::{BYTES, CreditKey, Datagram, DecodeError, MAX_WEIGHT, decode, encode};
use weir_credits::{Allocation, Message, Period, Request, Return};
use weir_datapath::abi::{self, CreditMessage};
use weir_datapath::{SipKey, credit_message};
use weir_units::{Bytes, Duration, Weight};

const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const DESTINATION: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
/// The number is that of the seeds, at bytes 6 and 7.
const KEY: CreditKey = CreditKey { number: 0x4242, bytes: [7; 16] };
/// The bytes of the body before its tag.
const TAG: usize = BYTES - 8;
/// The bytes that keep the sum of the body, which are not tagged.
const BALANCE: std::ops::Range<usize> = 8..10;

/// Takes `data` as a datagram, and as a body of which the tag is still to be written. What decodes encodes to the same
/// bytes but for the balance, and a port accepts it with the same fields; what does not decode is refused by a port.
/// Returns whether either decodes.
///
/// # Panics
/// If any of that does not hold: a finding.
pub fn credit_datagram(data: &[u8]) -> bool {
    let mut accepted = take(data);
    if let Ok(body) = <[u8; TAG]>::try_from(data.get(..TAG).unwrap_or_default()) {
        let datagram = tagged(&body);
        accepted |= take(&datagram);
        assert_ne!(decode(&datagram, SOURCE, DESTINATION, &[number_of(&datagram)]), Err(DecodeError::Forged));
        // Data between other hosts, or with another bit, is forged.
        let swapped = decode(&datagram, DESTINATION, SOURCE, &[number_of(&datagram)]);
        assert!(swapped.is_err(), "the tag covers the addresses");
        let bit = data.iter().fold(0usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
        let mut altered = datagram;
        altered[bit / 8 % BYTES] ^= 1 << (bit % 8);
        let expected = BALANCE.contains(&(bit / 8 % BYTES));
        let same = decode(&altered, SOURCE, DESTINATION, &[KEY]).is_ok();
        assert!(!same || (expected && take(&datagram)), "an altered datagram is accepted");
    }
    accepted
}

/// The key with the number that a datagram has, so that a foreign number does not hide the other fields.
fn number_of(datagram: &[u8; BYTES]) -> CreditKey {
    CreditKey { number: u16::from_be_bytes([datagram[6], datagram[7]]), ..KEY }
}

/// The addresses as the kernel has them.
fn address(address: IpAddr) -> [u64; 2] {
    let IpAddr::V4(address) = address else { panic!("the addresses above") };
    let octets = address.to_ipv6_mapped().octets();
    [0, 8].map(|at| u64::from_ne_bytes(octets[at..at + 8].try_into().expect("eight bytes")))
}

/// A body with its tag, by the code of ports and not that under test.
fn tagged(body: &[u8; TAG]) -> [u8; BYTES] {
    let mut datagram = [0; BYTES];
    datagram[..TAG].copy_from_slice(body);
    let sip = SipKey::new(KEY.bytes);
    let tag = credit_message::tag(&datagram, &address(SOURCE), &address(DESTINATION), &sip);
    datagram[TAG..].copy_from_slice(&tag);
    datagram
}

/// Both sides decode a datagram, or neither. Returns which.
fn take(data: &[u8]) -> bool {
    let Ok(body) = <&[u8; BYTES]>::try_from(data) else {
        assert_eq!(decode(data, SOURCE, DESTINATION, &[KEY]), Err(DecodeError::Foreign));
        return false;
    };
    let key = number_of(body);
    let (source, destination, sip) = (address(SOURCE), address(DESTINATION), SipKey::new(KEY.bytes));
    let message = credit_message::read(body, &source, &destination, &sip).filter(credit_message::is_valid);
    let decoded = decode(body, SOURCE, DESTINATION, &[key]);
    // Hosts also refuse the two bytes without a meaning, which ports forward.
    if decoded == Err(DecodeError::Malformed("reserved bytes are not 0")) {
        return false;
    }
    assert_eq!(decoded.is_ok(), message.is_some(), "{decoded:?} {message:?}");
    let (Ok(datagram), Some(message)) = (decoded, message) else { return false };
    check(&datagram, &message);
    let mut encoded = encode(&datagram, SOURCE, DESTINATION, &key);
    encoded[BALANCE].copy_from_slice(&body[BALANCE]);
    assert_eq!(&encoded, body, "a value has one spelling");
    true
}

fn check(datagram: &Datagram, message: &CreditMessage) {
    let of = (datagram.service, datagram.epoch, datagram.sequence);
    assert_eq!(of, (message.service, message.epoch, message.sequence));
    let fields = &message.fields;
    match datagram.message {
        Message::Request(request) => assert_eq!(request.clock, fields.clock),
        Message::Allocation(allocation) => {
            assert_eq!(allocation.allocation, Bytes::new(fields.allocation.into()));
            assert!((1..=MAX_WEIGHT).contains(&allocation.weight.thousandths()));
        }
        Message::Return(returned) => assert_eq!(returned.potential, Bytes::new(fields.potential.into())),
        Message::Terminate => assert_eq!(*fields, abi::Allocation::default()),
    }
    assert!(datagram.is_newer((0, 0)) || of == (datagram.service, 0, 0));
    assert!(!datagram.is_newer((datagram.epoch, datagram.sequence)), "a replay counts as new");
}

/// The seeds of this target by name.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let (period, longest) = (Period::from_micros(1_540), Period::from_micros(200));
    let (potential, allocation) = (Bytes::new(192_500), Bytes::new(3_008));
    let (clock, queueing) = (9, Duration::from_micros(6_160));
    let request = Message::Request(Request { weight: Weight::ONE, clock });
    let granted = Message::Allocation(Allocation {
        clock,
        period,
        longest,
        potential,
        demand: allocation,
        allocation,
        weight: Weight::ONE,
        queueing,
    });
    let returned = Message::Return(Return { clock, period, longest, potential, allocation, queueing });
    let encoded = |message: Message| {
        let datagram = Datagram { service: 0xdead_beef, epoch: 3, sequence: 1 << 40, message };
        encode(&datagram, SOURCE, DESTINATION, &KEY).to_vec()
    };
    let untagged = |message: Message, alterations: &[(usize, u8)]| {
        let mut body = encoded(message)[..TAG].to_vec();
        alterations.iter().for_each(|(at, byte)| body[*at] = *byte);
        body
    };
    vec![
        ("allocation-with-tag", encoded(granted)),
        ("request", untagged(request, &[])),
        ("allocation", untagged(granted, &[])),
        ("allocation-of-another-key", untagged(granted, &[(6, 1)])),
        ("return", untagged(returned, &[])),
        ("termination", untagged(Message::Terminate, &[])),
        ("broken-magic", untagged(request, &[(0, b'Q')])),
        ("broken-version", untagged(request, &[(4, 2)])),
        ("broken-kind", untagged(request, &[(5, 5)])),
        ("broken-weight", untagged(granted, &[(56, 0xff)])),
        ("broken-clock", untagged(granted, &[(35, 0)])),
        ("broken-termination-with-a-clock", untagged(Message::Terminate, &[(35, 1)])),
        ("broken-reserved-bytes", untagged(granted, &[(11, 1)])),
        ("broken-length", encoded(granted)[..TAG - 1].to_vec()),
    ]
}
