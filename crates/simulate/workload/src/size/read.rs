//! Reading a distribution: CSV with the columns `size_bytes` and `cdf`.
//!
//! Example, half of the flows of one packet:
//!
//! ```text
//! size_bytes,cdf
//! 1460,0.5
//! 29200,1
//! ```

use super::{ONE, Row, SizeDistribution};
use crate::decimal;
use std::io::Read;
use weir_document::quote;
use weir_document::table::{FieldError, Table, TableError};

/// Decimals of a probability that count. 10^18 · 2^64 is still below 2^127.
const DECIMALS: i32 = 18;
const SCALE: u128 = 1_000_000_000_000_000_000;
/// A head line, for messages.
const EXAMPLE: &str = "size_bytes,cdf";

impl SizeDistribution {
    /// Reads a table with the columns `size_bytes` (whole bytes) and `cdf` (the share of flows of
    /// at most that size). Other columns are not read. The rule between rows is that of
    /// [`SizeDistribution`].
    ///
    /// # Errors
    /// Lines, causes and hints: a missing column, a value that is not a number, a size or a share
    /// below the one before, a share above 1, a last share that is not 1, a flow without bytes, no
    /// row at all.
    pub fn read(input: impl Read) -> Result<Self, TableError> {
        let mut table = Table::open(input)?;
        let mut problems = TableError::default();
        let size = table.need("size_bytes", EXAMPLE, &mut problems);
        let cdf = table.need("cdf", EXAMPLE, &mut problems);
        problems.finish(())?;

        let mut problems = TableError::default();
        let mut rows: Vec<Row> = Vec::new();
        while table.advance(&mut problems) {
            let before = rows.last().copied();
            match read_row(&table, size, cdf).and_then(|row| check(row, before)) {
                Ok(row) => rows.push(row),
                Err((cause, hint)) => problems.add(Some(table.line()), cause, hint),
            }
        }
        // A table with a wrong row may lack its end because of it; one report is enough.
        let mut problems = problems.finish(()).map_or_else(|error| error, |()| TableError::default());
        if problems.rows.is_empty() {
            match rows.last() {
                None => problems.add(None, "the table has no rows", "give sizes with their shares, the last one 1"),
                Some(row) if row.fraction != ONE => problems.add(
                    Some(table.line()),
                    "the last share is below 1",
                    "end with the largest size and a `cdf` of 1",
                ),
                Some(_) => {}
            }
        }
        problems.finish(())?;
        Ok(Self::from_rows(&rows))
    }
}

fn read_row<R: Read>(table: &Table<R>, size: usize, cdf: usize) -> Result<Row, FieldError> {
    let bytes = table.whole(size, "1460")?;
    let text = table.field(cdf);
    let share = decimal::parse(text, DECIMALS).ok_or_else(|| {
        (format!("{} is not a share", quote(text)), "a number from 0 to 1, for example `0.5`".to_owned())
    })?;
    if share > SCALE {
        return Err((format!("a share of {} is above 1", quote(text)), "shares go from 0 to 1".to_owned()));
    }
    // To the nearest 2^−64; 1 comes out exact.
    Ok(Row { size: bytes, fraction: (share * ONE + SCALE / 2) / SCALE })
}

fn check(row: Row, before: Option<Row>) -> Result<Row, FieldError> {
    if row.size == u64::MAX {
        return Err(("a size of 2^64 − 1 bytes stands for flows without end".to_owned(), "write less".to_owned()));
    }
    if row.size == 0 && row.fraction > 0 {
        return Err((
            "flows of 0 bytes have a share".to_owned(),
            "flows have one byte or more: a size of 0 can only have a share of 0".to_owned(),
        ));
    }
    let Some(before) = before else { return Ok(row) };
    if row.size < before.size {
        return Err((
            format!("the size {} is below the {} before it", row.size, before.size),
            "sort the rows by size".to_owned(),
        ));
    }
    if row.fraction < before.fraction {
        return Err((
            "the share is below the one before it".to_owned(),
            "shares count all flows up to the size, so they never fall".to_owned(),
        ));
    }
    Ok(row)
}
