//! The rack datagram.
//!
//! | bytes | field |
//! |---|---|
//! | 4 | `WEIR` |
//! | 1 | format version, 1 |
//! | 1 | kind, 1: usage report |
//! | 2 | number of rows |
//! | 8 | fingerprint of the sender's policy |
//! | 8, 8 | epoch and round |
//! | 4 | the sending machine |
//! | 4, 4 | first and last service covered |
//! | each row | service: distance from the one before; transmit, receive: usage in bit/s × 2 + backlogged; as varints |
//! | 16 | tag over all before it, see [`crate::key`] |
//!
//! Fixed fields are big-endian. Nothing is read before the tag is verified, except what says that this is
//! another version. A value has one spelling, so a datagram that decodes encodes to the same bytes.
//!
//! Size: 60 bytes and at most 24 a row (typically 8, as Parley §6.2 reckons: 4 for the service, 4 for the
//! usage, and here both directions and a tag).

use crate::key::{Key, TAG_LEN};
use crate::varint;
use weir_control::rack_broker::ROWS_PER_REPORT;
use weir_control::{Demand, UsageReport, UsageRow};
use weir_units::{Bandwidth, MachineId, ServiceId};

const MAGIC: &[u8; 4] = b"WEIR";
/// The version of the format that this code speaks.
pub const VERSION: u8 = 1;
const KIND_USAGE: u8 = 1;
const HEADER_LEN: usize = 44;

/// Why a datagram was not accepted. Each is counted under its own name and the datagram is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Too short to be a rack datagram.
    #[error("the datagram is cut off")]
    Truncated,
    /// It does not start like one.
    #[error("not a rack datagram")]
    Foreign,
    /// Another version of the format.
    #[error("format version {0}, this is version {VERSION}")]
    Version(u8),
    /// The tag is not of this key: forged, altered, or another deployment's.
    #[error("the tag does not verify")]
    Forged,
    /// The tag verifies but the content is not well-formed: a sender with a fault.
    #[error("malformed: {0}")]
    Malformed(&'static str),
}

/// The datagram of a report.
///
/// # Panics
/// In tests, if the report has more than [`ROWS_PER_REPORT`] rows or they are not ascending within its range.
pub fn encode(report: &UsageReport, key: &Key) -> Vec<u8> {
    debug_assert!(report.rows.len() <= ROWS_PER_REPORT, "too many rows for one datagram");
    let mut out = Vec::with_capacity(HEADER_LEN + 16 * report.rows.len() + TAG_LEN);
    out.extend(MAGIC);
    out.extend([VERSION, KIND_USAGE]);
    out.extend((report.rows.len() as u16).to_be_bytes());
    out.extend(report.policy.to_be_bytes());
    out.extend(report.epoch.to_be_bytes());
    out.extend(report.round.to_be_bytes());
    out.extend(report.machine.0.to_be_bytes());
    out.extend(report.first.0.to_be_bytes());
    out.extend(report.last.0.to_be_bytes());
    let mut before = report.first.0;
    for row in &report.rows {
        debug_assert!(row.service.0 >= before && row.service <= report.last, "rows ascend within the range");
        varint::put(&mut out, u64::from(row.service.0 - before));
        put_demand(&mut out, row.tx);
        put_demand(&mut out, row.rx);
        before = row.service.0;
    }
    let tag = key.tag(&out);
    out.extend(tag);
    out
}

/// The report in a datagram.
pub fn decode(datagram: &[u8], key: &Key) -> Result<UsageReport, DecodeError> {
    if datagram.len() < 5 {
        return Err(DecodeError::Truncated);
    }
    if &datagram[..4] != MAGIC {
        return Err(DecodeError::Foreign);
    }
    if datagram[4] != VERSION {
        return Err(DecodeError::Version(datagram[4]));
    }
    if datagram.len() < HEADER_LEN + TAG_LEN {
        return Err(DecodeError::Truncated);
    }
    let (message, tag) = datagram.split_at(datagram.len() - TAG_LEN);
    if !key.verify(message, tag) {
        return Err(DecodeError::Forged);
    }
    if message[5] != KIND_USAGE {
        return Err(DecodeError::Malformed("unknown kind"));
    }
    let mut fields = Fields(&message[6..]);
    let row_count = fields.take(u16::from_be_bytes);
    let policy = fields.take(u64::from_be_bytes);
    let epoch = fields.take(u64::from_be_bytes);
    let round = fields.take(u64::from_be_bytes);
    let machine = MachineId(fields.take(u32::from_be_bytes));
    let first = ServiceId(fields.take(u32::from_be_bytes));
    let last = ServiceId(fields.take(u32::from_be_bytes));
    if usize::from(row_count) > ROWS_PER_REPORT {
        return Err(DecodeError::Malformed("too many rows"));
    }
    if first > last {
        return Err(DecodeError::Malformed("an empty range of services"));
    }
    let mut rest = fields.0;
    let mut rows = Vec::with_capacity(usize::from(row_count));
    let mut before = u64::from(first.0);
    for i in 0..row_count {
        let step = varint::take(&mut rest).ok_or(DecodeError::Malformed("a row is cut off"))?;
        if i > 0 && step == 0 {
            return Err(DecodeError::Malformed("a service twice"));
        }
        before = before.saturating_add(step);
        if before > u64::from(last.0) {
            return Err(DecodeError::Malformed("a service out of range"));
        }
        let (tx, rx) = (take_demand(&mut rest)?, take_demand(&mut rest)?);
        rows.push(UsageRow { service: ServiceId(before as u32), tx, rx });
    }
    if !rest.is_empty() {
        return Err(DecodeError::Malformed("bytes after the last row"));
    }
    Ok(UsageReport { machine, policy, epoch, round, first, last, rows })
}

fn put_demand(out: &mut Vec<u8>, demand: Demand) {
    // A usage is finite: a meter cannot count more than `Bandwidth::MAX`.
    let usage = demand.usage.min(Bandwidth::MAX).bps();
    varint::put(out, usage << 1 | u64::from(demand.backlogged));
}

fn take_demand(rest: &mut &[u8]) -> Result<Demand, DecodeError> {
    let value = varint::take(rest).ok_or(DecodeError::Malformed("a row is cut off"))?;
    let usage = value >> 1;
    if usage > Bandwidth::MAX.bps() {
        return Err(DecodeError::Malformed("a usage above the largest rate"));
    }
    Ok(Demand { usage: Bandwidth::from_bps(usage), backlogged: value & 1 == 1 })
}

/// Takes fixed fields off the front. The caller has checked that the header is there.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize, T>(&mut self, read: fn([u8; N]) -> T) -> T {
        let (field, rest) = self.0.split_first_chunk().expect("the header's length was checked");
        self.0 = rest;
        read(*field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> Key {
        Key::new([1; 32]).expect("a key")
    }

    fn report() -> UsageReport {
        let demand = |usage, backlogged| Demand { usage: Bandwidth::from_mbps(usage), backlogged };
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

    #[test]
    fn a_report_survives_the_wire() {
        let bytes = encode(&report(), &key());
        assert_eq!(decode(&bytes, &key()), Ok(report()));
        // 44 + rows (1 + 5 + 1, 1 + 1 + 4) + 16
        assert_eq!(bytes.len(), 73);
    }

    #[test]
    fn the_largest_report_fits_the_smallest_path() {
        let largest = Demand { usage: Bandwidth::MAX, backlogged: true };
        let rows = (0..ROWS_PER_REPORT as u32)
            .map(|i| UsageRow { service: ServiceId(i * (u32::MAX / ROWS_PER_REPORT as u32)), tx: largest, rx: largest })
            .collect();
        let bytes = encode(&UsageReport { rows, ..report() }, &key());
        // 1280 bytes (IPv6 minimum) less 40 (IPv6) and 8 (UDP).
        assert!(bytes.len() <= 1232, "{}", bytes.len());
    }

    #[test]
    fn what_is_not_a_report_is_named() {
        let good = encode(&report(), &key());
        let altered = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        assert_eq!(decode(&[], &key()), Err(DecodeError::Truncated));
        assert_eq!(decode(&good[..HEADER_LEN], &key()), Err(DecodeError::Truncated));
        assert_eq!(decode(&good[..good.len() - 1], &key()), Err(DecodeError::Forged));
        assert_eq!(decode(&altered(0, b'X'), &key()), Err(DecodeError::Foreign));
        assert_eq!(decode(&altered(4, 2), &key()), Err(DecodeError::Version(2)));
        assert_eq!(decode(&altered(30, 0xff), &key()), Err(DecodeError::Forged));
        assert_eq!(decode(&good, &Key::new([2; 32]).expect("a key")), Err(DecodeError::Forged));
    }

    fn tagged(mut message: Vec<u8>) -> Vec<u8> {
        let tag = key().tag(&message);
        message.extend(tag);
        message
    }

    #[test]
    fn a_faulty_sender_with_the_key_is_refused_too() {
        let good = encode(&report(), &key());
        let message = &good[..good.len() - TAG_LEN];
        let altered = |change: fn(&mut Vec<u8>)| {
            let mut message = message.to_vec();
            change(&mut message);
            decode(&tagged(message), &key())
        };
        assert_eq!(altered(|m| m[5] = 9), Err(DecodeError::Malformed("unknown kind")));
        assert_eq!(altered(|m| m.push(0)), Err(DecodeError::Malformed("bytes after the last row")));
        assert_eq!(altered(|m| m[7] = 200), Err(DecodeError::Malformed("too many rows")));
        assert_eq!(altered(|m| m[7] = 3), Err(DecodeError::Malformed("a row is cut off")));
        assert_eq!(altered(|m| m[43] = 3), Ok(UsageReport { last: ServiceId(u32::MAX - 252), ..report() }));
        assert_eq!(altered(|m| m[40..44].fill(0)), Err(DecodeError::Malformed("a service out of range")));
        assert_eq!(
            altered(|m| m[36..44].copy_from_slice(&[0, 0, 0, 9, 0, 0, 0, 1])),
            Err(DecodeError::Malformed("an empty range of services"))
        );
    }

    proptest! {
        /// Whatever arrives is decoded or refused, and what is decoded was spelled in the only way.
        #[test]
        fn any_bytes_are_decoded_or_refused(message in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&message, &key());
            let mut framed = encode(&report(), &key())[..8].to_vec();
            framed.extend(&message);
            let framed = tagged(framed);
            if let Ok(report) = decode(&framed, &key()) {
                prop_assert_eq!(encode(&report, &key()), framed);
            }
        }
    }
}
