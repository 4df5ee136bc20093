//! Datagrams of PACE on Linux: their format, which `datapath/credit_message.h` describes, and their tags.
//!
//! Problem: allocations set what a host may send, and ports on the path must rewrite them. Approach: fixed fields under
//! a 64-bit tag that a port verifies and computes anew in the kernel; (epoch, sequence) against replay. [`encode`] and
//! [`decode`] are pure: sockets are the driver's. Each message has one encoding but for two bytes, the balance, which
//! keep the UDP checksum of a rewritten datagram valid and are not tagged.
//!
//! Requests, returns and terminations go from the flow's source to its destination, allocations against them. The
//! addresses are those of the IP header, and the tag covers them, so a datagram between other hosts does not verify.
//!
//! Worked example: `encode(&datagram, source, destination, &key)` returns 72 bytes, from which [`decode`] with the same
//! addresses and key returns the same datagram, and with others [`DecodeError::Forged`].
//!
//! Source: PACE (Carvalho et al. 2013) §III.B. Deviates from the paper in: datagrams of their own, 32-bit fields, the
//! tag, the epoch and the sequence.

mod siphash;

use crate::{Allocation, Message, Period, Request, Return};
use std::fmt;
use std::net::IpAddr;
use weir_units::{Bytes, Duration, Weight};

/// The UDP port of the datagrams.
pub const PORT: u16 = 30_568;
/// The version of the format.
pub const VERSION: u8 = 1;
/// Bytes of a datagram after its UDP header.
pub const BYTES: usize = 72;

/// The largest weight in a message, in thousandths: ports divide weights in millionths below 2³² among pairs of hosts.
pub const MAX_WEIGHT: u32 = 1_000_000;

const MAGIC: &[u8; 4] = b"PACE";
const KIND_REQUEST: u8 = 1;
const KIND_ALLOCATION: u8 = 2;
const KIND_RETURN: u8 = 3;
const KIND_TERMINATION: u8 = 4;
/// Where the balance and the tag are.
const BALANCE: usize = 8;
const TAG: usize = BYTES - 8;

/// A key of the datagrams, which hosts and forwarders have. It is not printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CreditKey {
    /// Identifies the key on the wire.
    pub number: u16,
    /// The key of SipHash-2-4.
    pub bytes: [u8; 16],
}

impl fmt::Debug for CreditKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CreditKey({:#06x})", self.number)
    }
}

/// The content of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// The service of the flow: the first four bytes, big-endian, of SHA-256 over its path.
    pub service: u32,
    /// Of the sending agent: not lower than at any earlier message, and higher after each start.
    pub epoch: u64,
    /// Ascends with each message that the agent sends in an epoch, of any flow.
    pub sequence: u64,
    /// The message.
    pub message: Message,
}

impl Datagram {
    /// Whether this is newer than the last accepted datagram of the flow and direction, by (epoch, sequence).
    pub fn is_newer(&self, last: (u64, u64)) -> bool {
        (self.epoch, self.sequence) > last
    }
}

/// Why a datagram was rejected. Each reason has a counter of its own, and the datagram is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The magic number or the length is another one.
    #[error("not a datagram of credits")]
    Foreign,
    /// Another version of the format.
    #[error("format version {0}, this is version {VERSION}")]
    Version(u8),
    /// No key verifies the tag between these addresses.
    #[error("the tag does not verify")]
    Forged,
    /// The tag verifies, but a field has an impossible value: the sender is faulty.
    #[error("malformed: {0}")]
    Malformed(&'static str),
}

/// The numbers of a message: clock, p, longest, d_p, d, a, weight, queueing.
type Numbers = [u32; 8];

/// Encodes a datagram from `source` to `destination`, the addresses of its IP header. A weight above [`MAX_WEIGHT`],
/// which no policy has, is encoded as that.
pub fn encode(datagram: &Datagram, source: IpAddr, destination: IpAddr, key: &CreditKey) -> [u8; BYTES] {
    let (kind, numbers) = numbers(&datagram.message);
    let mut body = [0; BYTES];
    body[..4].copy_from_slice(MAGIC);
    (body[4], body[5]) = (VERSION, kind);
    body[6..8].copy_from_slice(&key.number.to_be_bytes());
    body[12..16].copy_from_slice(&datagram.service.to_be_bytes());
    body[16..24].copy_from_slice(&datagram.epoch.to_be_bytes());
    body[24..32].copy_from_slice(&datagram.sequence.to_be_bytes());
    for (field, number) in body[32..TAG].chunks_exact_mut(4).zip(numbers) {
        field.copy_from_slice(&number.to_be_bytes());
    }
    let tag = tag(&body, source, destination, key);
    body[TAG..].copy_from_slice(&tag.to_be_bytes());
    let balance = !sum(&body);
    body[BALANCE..BALANCE + 2].copy_from_slice(&balance.to_be_bytes());
    body
}

/// Decodes the body of a datagram from `source` to `destination` that one of the keys verifies.
pub fn decode(body: &[u8], source: IpAddr, destination: IpAddr, keys: &[CreditKey]) -> Result<Datagram, DecodeError> {
    let body: &[u8; BYTES] = body.try_into().map_err(|_| DecodeError::Foreign)?;
    if &body[..4] != MAGIC {
        return Err(DecodeError::Foreign);
    }
    if body[4] != VERSION {
        return Err(DecodeError::Version(body[4]));
    }
    let number = u16::from_be_bytes([body[6], body[7]]);
    // Differences are collected, so that the comparison takes the same time for each tag.
    let verifies = |key: &&CreditKey| {
        let tag = tag(body, source, destination, key).to_be_bytes();
        tag.iter().zip(&body[TAG..]).fold(0, |differences, (ours, theirs)| differences | (ours ^ theirs)) == 0
    };
    keys.iter().filter(|key| key.number == number).find(verifies).ok_or(DecodeError::Forged)?;
    let word = |from: usize| u64::from_be_bytes(body[from..from + 8].try_into().expect("eight bytes"));
    let mut numbers: Numbers = [0; 8];
    for (number, field) in numbers.iter_mut().zip(body[32..TAG].chunks_exact(4)) {
        *number = u32::from_be_bytes(field.try_into().expect("four bytes"));
    }
    if body[10..12] != [0; 2] {
        return Err(DecodeError::Malformed("reserved bytes are not 0"));
    }
    let service = u32::from_be_bytes(body[12..16].try_into().expect("four bytes"));
    Ok(Datagram { service, epoch: word(16), sequence: word(24), message: message(body[5], &numbers)? })
}

fn numbers(message: &Message) -> (u8, Numbers) {
    let bytes = |bytes: Bytes| u32::try_from(bytes.get()).unwrap_or(u32::MAX);
    // Rounded up: it is a bound.
    let micros = |time: Duration| u32::try_from(time.nanos().div_ceil(1_000)).unwrap_or(u32::MAX);
    let weight = |weight: Weight| weight.thousandths().min(MAX_WEIGHT);
    match message {
        Message::Request(of) => (KIND_REQUEST, [of.clock, 0, 0, 0, 0, 0, weight(of.weight), 0]),
        Message::Allocation(of) => (
            KIND_ALLOCATION,
            [
                of.clock,
                of.period.micros(),
                of.longest.micros(),
                bytes(of.potential),
                bytes(of.demand),
                bytes(of.allocation),
                weight(of.weight),
                micros(of.queueing),
            ],
        ),
        Message::Return(of) => (
            KIND_RETURN,
            [
                of.clock,
                of.period.micros(),
                of.longest.micros(),
                bytes(of.potential),
                0,
                bytes(of.allocation),
                0,
                micros(of.queueing),
            ],
        ),
        Message::Terminate => (KIND_TERMINATION, [0; 8]),
    }
}

fn message(kind: u8, numbers: &Numbers) -> Result<Message, DecodeError> {
    let &[clock, period, longest, potential, demand, allocation, weight, queueing] = numbers;
    let bytes = |bytes: u32| Bytes::new(bytes.into());
    let zeros = |fields: &[u32]| match fields.iter().any(|field| *field != 0) {
        true => Err(DecodeError::Malformed("a field that the kind does not have is not 0")),
        false => Ok(()),
    };
    let in_range = Weight::from_thousandths(weight).filter(|_| weight <= MAX_WEIGHT);
    let weight_of = || in_range.ok_or(DecodeError::Malformed("weight out of range"));
    let has_values = || match clock == 0 || period == 0 {
        true => Err(DecodeError::Malformed("clock or period 0")),
        false => Ok(()),
    };
    let (period, longest) = (Period::from_micros(period), Period::from_micros(longest));
    match kind {
        KIND_REQUEST => {
            zeros(&numbers[1..6])?;
            zeros(&numbers[7..])?;
            Ok(Message::Request(Request { weight: weight_of()?, clock }))
        }
        KIND_ALLOCATION => {
            has_values()?;
            Ok(Message::Allocation(Allocation {
                clock,
                period,
                longest,
                potential: bytes(potential),
                demand: bytes(demand),
                allocation: bytes(allocation),
                weight: weight_of()?,
                queueing: Duration::from_micros(queueing.into()),
            }))
        }
        KIND_RETURN => {
            has_values()?;
            zeros(&[demand, weight])?;
            Ok(Message::Return(Return {
                clock,
                period,
                longest,
                potential: bytes(potential),
                allocation: bytes(allocation),
                queueing: Duration::from_micros(queueing.into()),
            }))
        }
        KIND_TERMINATION => {
            zeros(numbers)?;
            Ok(Message::Terminate)
        }
        _ => Err(DecodeError::Malformed("unknown kind")),
    }
}

/// The tag over the addresses and all fields but the balance.
fn tag(body: &[u8; BYTES], source: IpAddr, destination: IpAddr, key: &CreditKey) -> u64 {
    let mut tagged = [0; 32 + TAG];
    tagged[..16].copy_from_slice(&octets(source));
    tagged[16..32].copy_from_slice(&octets(destination));
    tagged[32..].copy_from_slice(&body[..TAG]);
    tagged[32 + BALANCE..][..2].fill(0);
    siphash::tag(&key.bytes, &tagged)
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

/// The ones' complement sum of the words of 16 bits.
fn sum(body: &[u8; BYTES]) -> u16 {
    let mut sum: u32 = body.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    while sum > u32::from(u16::MAX) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests;
