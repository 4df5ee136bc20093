//! Splits the rows of a message into parts that each fit one datagram.
//!
//! A machine with a thousand services needs several datagrams, and each of them may be lost,
//! duplicated or late. Each part is independent: it names the range of services that it covers, and
//! a service of the range without a row has no usage, demand or limit. The ranges of one round's
//! parts cover all services.
//!
//! A row takes the distance from the service before it (7 bits to a byte) and two rates of 24 bits:
//! 7 bytes where ids are close.
//!
//! Worked example: 1,000 services with consecutive ids make 5 parts of 167 rows and one of 165.
//!
//! Source: fill for a point that Parley §5.2 leaves open.

use weir_units::ServiceId;

/// Bytes of rows in one datagram: 1280, which every IPv6 path carries unfragmented, less 40 of
/// IPv6, 8 of UDP, at most 46 of header and 16 of tag (`wire` defines the layout).
pub const ROW_BYTES: usize = 1_170;

/// The most rows in one datagram: the shortest row has 7 bytes.
pub const ROWS_PER_PART: usize = ROW_BYTES / 7;

/// A row about one service.
pub trait Row: Copy {
    /// The service.
    fn service(&self) -> ServiceId;
}

/// One datagram's worth of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part<R> {
    pub(crate) first: ServiceId,
    pub(crate) last: ServiceId,
    pub(crate) rows: Vec<R>,
}

/// Bytes of a row that is `distance` services after the one before it.
fn row_len(distance: u32) -> usize {
    let bits = u32::BITS - distance.leading_zeros();
    bits.div_ceil(7).max(1) as usize + 6
}

/// Splits rows in ascending order into parts that together cover all services. There is at least
/// one part: without rows it covers all services and is empty.
pub(crate) fn split<R: Row>(rows: &[R]) -> Vec<Part<R>> {
    let mut parts = vec![Part { first: ServiceId(0), last: ServiceId(u32::MAX), rows: Vec::new() }];
    let (mut bytes, mut before) = (0, 0);
    for row in rows {
        let service = row.service().0;
        let part = parts.last_mut().expect("there is one from the start");
        let len = row_len(service - before);
        if bytes + len > ROW_BYTES {
            part.last = ServiceId(before);
            let first = ServiceId(before + 1);
            bytes = row_len(service - first.0);
            parts.push(Part { first, last: ServiceId(u32::MAX), rows: vec![*row] });
        } else {
            bytes += len;
            part.rows.push(*row);
        }
        before = service;
    }
    parts
}

/// Whether rows are ascending and within the range, as a sender must make them.
pub(crate) fn well_formed<R: Row>(first: ServiceId, last: ServiceId, rows: &[R]) -> bool {
    let ascending = rows.windows(2).all(|pair| pair[0].service() < pair[1].service());
    first <= last && ascending && rows.iter().all(|row| (first..=last).contains(&row.service()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Row for u32 {
        fn service(&self) -> ServiceId {
            ServiceId(*self)
        }
    }

    #[test]
    fn worked_example() {
        let rows: Vec<u32> = (0..1_000).collect();
        let lengths: Vec<usize> = split(&rows).iter().map(|part| part.rows.len()).collect();
        assert_eq!(lengths, [167, 167, 167, 167, 167, 165]);
        assert_eq!(split::<u32>(&[]), [Part { first: ServiceId(0), last: ServiceId(u32::MAX), rows: vec![] }]);
    }

    proptest! {
        #[test]
        fn parts_cover_every_service_once_and_fit_a_datagram(
            steps in proptest::collection::vec(0u32..100_000, 0..1_000),
        ) {
            let rows: Vec<u32> = steps.iter().scan(0, |id, step| { *id += step + 1; Some(*id - 1) }).collect();
            let parts = split(&rows);
            prop_assert_eq!(parts.iter().flat_map(|part| part.rows.clone()).collect::<Vec<_>>(), rows);
            prop_assert_eq!(parts[0].first, ServiceId(0));
            prop_assert_eq!(parts[parts.len() - 1].last, ServiceId(u32::MAX));
            for pair in parts.windows(2) {
                prop_assert_eq!(pair[0].last.0 + 1, pair[1].first.0);
            }
            for part in &parts {
                prop_assert!(well_formed(part.first, part.last, &part.rows));
                let befores = std::iter::once(part.first.0).chain(part.rows.iter().copied());
                let bytes: usize = befores.zip(&part.rows).map(|(before, row)| row_len(row - before)).sum();
                prop_assert!(bytes <= ROW_BYTES);
            }
        }
    }
}
