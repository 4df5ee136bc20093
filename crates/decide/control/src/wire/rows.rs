//! Rows of a datagram: a service and two rates. A row has 7 bytes if its service is near the
//! previous one.
//!
//! | bytes | field |
//! |---|---|
//! | 1 to 5 | varint: difference from the previous row's service, or the range's first service |
//! | 3 | transmit rate: 1 bit backlogged, 6 exponent, 17 mantissa, big-endian ([`QuantisedRate`]) |
//! | 3 | receive rate |
//!
//! Each value has exactly one encoding: differences are encoded in the fewest bytes, and between
//! rows they are not zero.

use super::datagram::DecodeError;
use super::varint;
use crate::parts::ROW_BYTES;
use crate::rate::QuantisedRate;
use crate::{Demand, RateRow, UsageRow};
use weir_units::{Bandwidth, PerDirection, ServiceId};

const BACKLOGGED: u32 = 1 << 23;

/// A row that can be encoded and decoded.
pub(crate) trait WireRow: Sized {
    fn service(&self) -> ServiceId;
    /// The 24 bits of each direction, transmit first.
    fn codes(&self) -> [u32; 2];
    fn of(service: ServiceId, codes: [u32; 2]) -> Result<Self, DecodeError>;
}

impl WireRow for UsageRow {
    fn service(&self) -> ServiceId {
        self.service
    }
    fn codes(&self) -> [u32; 2] {
        // Usage is finite: a meter cannot measure more than `Bandwidth::MAX`.
        let code = |demand: Demand| QuantisedRate::of(demand.usage.min(Bandwidth::MAX)).bits();
        [self.tx, self.rx].map(|demand| code(demand) | if demand.backlogged { BACKLOGGED } else { 0 })
    }
    fn of(service: ServiceId, codes: [u32; 2]) -> Result<Self, DecodeError> {
        let demand = |code: u32| {
            let usage = finite(code & !BACKLOGGED)?;
            Ok(Demand { usage, backlogged: code & BACKLOGGED != 0 })
        };
        Ok(Self { service, tx: demand(codes[0])?, rx: demand(codes[1])? })
    }
}

/// A row of rates from or to the fabric broker. A demand is finite; a limit may be unlimited.
pub(crate) struct FabricRow<const LIMIT: bool>(pub(crate) RateRow);

impl<const LIMIT: bool> WireRow for FabricRow<LIMIT> {
    fn service(&self) -> ServiceId {
        self.0.service
    }
    fn codes(&self) -> [u32; 2] {
        [self.0.rates.tx, self.0.rates.rx].map(|rate| QuantisedRate::of(rate).bits())
    }
    fn of(service: ServiceId, codes: [u32; 2]) -> Result<Self, DecodeError> {
        let rate = |code: u32| if LIMIT { rate(code) } else { finite(code) };
        Ok(Self(RateRow { service, rates: PerDirection { tx: rate(codes[0])?, rx: rate(codes[1])? } }))
    }
}

fn rate(code: u32) -> Result<Bandwidth, DecodeError> {
    QuantisedRate::from_bits(code).map(QuantisedRate::bandwidth).ok_or(DecodeError::Malformed("rate above the maximum"))
}

fn finite(code: u32) -> Result<Bandwidth, DecodeError> {
    match rate(code)? {
        Bandwidth::UNLIMITED => Err(DecodeError::Malformed("unlimited demand")),
        rate => Ok(rate),
    }
}

/// Appends rows. Their services must ascend, beginning at `first` or above.
pub(crate) fn put<R: WireRow>(out: &mut Vec<u8>, first: ServiceId, rows: impl Iterator<Item = R>) {
    let mut previous = first.0;
    for row in rows {
        debug_assert!(row.service().0 >= previous, "rows ascend within the range");
        varint::put(out, u64::from(row.service().0 - previous));
        for code in row.codes() {
            out.extend(&code.to_be_bytes()[1..]);
        }
        previous = row.service().0;
    }
}

/// Whether rows that ascend from `first` fit into one datagram. Limits that arrive over another
/// transport are checked before they are relayed in a rack.
pub fn rows_fit(first: ServiceId, rows: &[RateRow]) -> bool {
    let mut out = Vec::with_capacity(ROW_BYTES);
    put(&mut out, first, rows.iter().map(|row| FabricRow::<true>(*row)));
    out.len() <= ROW_BYTES
}

/// Decodes rows, which must fill `bytes` exactly.
pub(crate) fn take<R: WireRow>(mut bytes: &[u8], first: ServiceId, last: ServiceId) -> Result<Vec<R>, DecodeError> {
    const TRUNCATED: DecodeError = DecodeError::Malformed("a row is truncated");
    if bytes.len() > ROW_BYTES {
        return Err(DecodeError::Malformed("too many rows"));
    }
    let mut rows = Vec::with_capacity(bytes.len() / 7);
    let mut previous = u64::from(first.0);
    while !bytes.is_empty() {
        let step = varint::take(&mut bytes).ok_or(TRUNCATED)?;
        if !rows.is_empty() && step == 0 {
            return Err(DecodeError::Malformed("duplicate service"));
        }
        previous = previous.saturating_add(step);
        if previous > u64::from(last.0) {
            return Err(DecodeError::Malformed("service out of range"));
        }
        let mut codes = [0; 2];
        for code in &mut codes {
            let (bits, rest) = bytes.split_first_chunk().ok_or(TRUNCATED)?;
            let [high, middle, low]: [u8; 3] = *bits;
            *code = u32::from_be_bytes([0, high, middle, low]);
            bytes = rest;
        }
        rows.push(R::of(ServiceId(previous as u32), codes)?);
    }
    Ok(rows)
}
