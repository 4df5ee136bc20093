//! The format of datagrams: `wire` agrees with `datapath/credit_message.h`, which the kernel runs.

use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_credits::wire::{self, BYTES, CreditKey, Datagram, DecodeError};
use weir_credits::{Allocation, Message, Period, Request, Return};
use weir_datapath::abi::{self, CreditMessage};
use weir_datapath::{Address, SipKey, credit_message};
use weir_units::{Bytes, Duration, Weight};

/// An address as the kernel's parser has it.
fn address(of: IpAddr) -> Address {
    let bytes = match of {
        IpAddr::V4(of) => of.to_ipv6_mapped().octets(),
        IpAddr::V6(of) => of.octets(),
    };
    [0, 8].map(|from| u64::from_ne_bytes(bytes[from..from + 8].try_into().expect("eight bytes")))
}

/// The kind and the message of C, with the fields of a message of Rust.
fn raw(datagram: &Datagram, key: &CreditKey) -> CreditMessage {
    let number = |bytes: Bytes| bytes.get() as u32;
    let (kind, fields) = match datagram.message {
        Message::Request(of) => (
            abi::CREDIT_REQUEST,
            abi::Allocation { clock: of.clock, weight: of.weight.thousandths(), ..Default::default() },
        ),
        Message::Allocation(of) => (
            abi::CREDIT_ALLOCATION,
            abi::Allocation {
                clock: of.clock,
                period: of.period.micros(),
                longest: of.longest.micros(),
                potential: number(of.potential),
                demand: number(of.demand),
                allocation: number(of.allocation),
                weight: of.weight.thousandths(),
                queueing: (of.queueing.nanos() / 1_000) as u32,
            },
        ),
        Message::Return(of) => (
            abi::CREDIT_RETURN,
            abi::Allocation {
                clock: of.clock,
                period: of.period.micros(),
                longest: of.longest.micros(),
                potential: number(of.potential),
                allocation: number(of.allocation),
                queueing: (of.queueing.nanos() / 1_000) as u32,
                ..Default::default()
            },
        ),
        Message::Terminate => (abi::CREDIT_TERMINATION, abi::Allocation::default()),
    };
    CreditMessage {
        epoch: datagram.epoch,
        sequence: datagram.sequence,
        service: datagram.service,
        key: key.number,
        kind: kind as u8,
        reserved: 0,
        fields,
    }
}

prop_compose! {
    fn messages()(
        kind in 0..4,
        clock in 1..=u32::MAX,
        period in 1..=u32::MAX,
        numbers in any::<[u32; 4]>(),
        weight in 1..=wire::MAX_WEIGHT,
        queueing in any::<u32>(),
    ) -> Message {
        let weight = Weight::from_thousandths(weight).expect("in range");
        let [longest, potential, demand, allocation] = numbers;
        let (period, longest) = (Period::from_micros(period), Period::from_micros(longest));
        let [potential, demand, allocation] = [potential, demand, allocation].map(|of| Bytes::new(of.into()));
        let queueing = Duration::from_micros(queueing.into());
        match kind {
            0 => Message::Request(Request { weight, clock }),
            1 => Message::Allocation(Allocation {
                clock, period, longest, potential, demand, allocation, weight, queueing
            }),
            2 => Message::Return(Return { clock, period, longest, potential, allocation, queueing }),
            _ => Message::Terminate,
        }
    }
}

fn addresses() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(|of| IpAddr::V4(Ipv4Addr::from(of))),
        any::<[u8; 16]>().prop_map(|of| IpAddr::V6(Ipv6Addr::from(of))),
    ]
}

/// The ones' complement sum of a UDP datagram's body.
fn sum(body: &[u8; BYTES]) -> u32 {
    let sum: u32 = body.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let once = (sum & 0xffff) + (sum >> 16);
    (once & 0xffff) + (once >> 16)
}

proptest! {
    #[test]
    fn both_sides_have_one_format(
        message in messages(),
        (service, epoch, sequence) in any::<(u32, u64, u64)>(),
        (source, destination) in (addresses(), addresses()),
        (number, secret) in any::<(u16, [u8; 16])>(),
    ) {
        let key = CreditKey { number, bytes: secret };
        let datagram = Datagram { service, epoch, sequence, message };
        let (from, to, sip) = (address(source), address(destination), SipKey::new(secret));
        let body = wire::encode(&datagram, source, destination, &key);
        let message = raw(&datagram, &key);
        prop_assert_eq!(credit_message::write(&message, &from, &to, &sip), body);
        prop_assert_eq!(credit_message::read(&body, &from, &to, &sip), Some(message));
        prop_assert_eq!(credit_message::read(&body, &to, &from, &sip).is_none(), from != to);
        prop_assert!(credit_message::is_valid(&message));
        prop_assert_eq!(wire::decode(&body, source, destination, &[key]), Ok(datagram));
    }

    /// A port with another key of the deployment reduces an allocation; the UDP checksum holds.
    #[test]
    fn rewritten_allocations_decode(
        numbers in any::<[u32; 3]>(),
        (source, destination) in (addresses(), addresses()),
        secrets in any::<[[u8; 16]; 2]>(),
    ) {
        let keys = [CreditKey { number: 1, bytes: secrets[0] }, CreditKey { number: 2, bytes: secrets[1] }];
        let period = Period::from_micros(200);
        let whole = Bytes::new(u32::MAX.into());
        let allocation = Allocation {
            clock: 9, period, longest: period, potential: whole, demand: whole, allocation: whole,
            weight: Weight::ONE, queueing: Duration::ZERO
        };
        let datagram = Datagram { service: 5, epoch: 1, sequence: 2, message: Message::Allocation(allocation) };
        let body = wire::encode(&datagram, source, destination, &keys[0]);
        let mut fields = raw(&datagram, &keys[0]).fields;
        [fields.potential, fields.demand, fields.allocation] = numbers;
        let (from, to) = (address(source), address(destination));
        let mut rewritten = body;
        credit_message::rewrite(&mut rewritten, &fields, 2, (&from, &to), &SipKey::new(secrets[1]));
        let [potential, demand, granted] = numbers.map(|of| Bytes::new(of.into()));
        let reduced = Allocation { potential, demand, allocation: granted, ..allocation };
        let expected = Datagram { message: Message::Allocation(reduced), ..datagram };
        prop_assert_eq!(wire::decode(&rewritten, source, destination, &keys), Ok(expected));
        prop_assert_eq!(sum(&rewritten), sum(&body));
    }

    #[test]
    fn both_sides_reject_the_same_fields(kind in 1..5u8, numbers in any::<[u32; 8]>(), zeros in any::<u8>()) {
        let [clock, period, longest, potential, demand, allocation, weight, queueing] =
            std::array::from_fn(|at| if zeros >> at & 1 == 1 { 0 } else { numbers[at] });
        let fields =
            abi::Allocation { clock, period, longest, potential, demand, allocation, weight, queueing };
        let message = CreditMessage { service: 1, epoch: 1, sequence: 1, key: 3, kind, reserved: 0, fields };
        let (source, destination) = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::BROADCAST));
        let (from, to, secret) = (address(source), address(destination), [9; 16]);
        let body = credit_message::write(&message, &from, &to, &SipKey::new(secret));
        let decoded = wire::decode(&body, source, destination, &[CreditKey { number: 3, bytes: secret }]);
        prop_assert_eq!(decoded.is_ok(), credit_message::is_valid(&message));
        prop_assert!(decoded.is_ok() || matches!(decoded, Err(DecodeError::Malformed(_))));
    }
}

#[test]
fn kinds_of_other_datagrams() {
    assert_eq!(credit_message::kind(*b"WEIR\x01\x02\0\0"), abi::CREDIT_FOREIGN);
    assert_eq!(credit_message::kind(*b"PACE\x02\x02\0\0"), abi::CREDIT_OTHER_VERSION);
    assert_eq!(
        [0, 5].map(|of| credit_message::kind([b'P', b'A', b'C', b'E', 1, of, 0, 0])),
        [abi::CREDIT_MALFORMED; 2]
    );
    assert_eq!((wire::PORT, usize::try_from(abi::CREDIT_MESSAGE_BYTES)), (abi::CREDIT_MESSAGE_PORT, Ok(BYTES)));
    assert_eq!((u32::from(wire::VERSION), wire::MAX_WEIGHT), (abi::CREDIT_VERSION, abi::CREDIT_WEIGHT_MAX));
}
