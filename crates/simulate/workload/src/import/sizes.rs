//! Tables of flow sizes.

use super::{Line, Refused, decimal_text, end_of, lines, size};
use crate::{SizeDistribution, decimal};
use std::sync::Arc;
use weir_document::{Diagnostic, Diagnostics, Problems, Source, Span, quote};

/// Decimals of a share that count, as in Weir's own tables.
const DECIMALS: i32 = 18;
/// A share of 1.
const ONE: u128 = 1_000_000_000_000_000_000;
/// The stated mean of a table may differ so much from that of its rows: it is rounded, or measured before sampling.
const MEAN_TOLERANCE: f64 = 0.01;

/// A format of tables of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeFormat {
    /// HPCC's traffic generator: `size percentile`, from 0 to 100.
    HpccCdf,
    /// The HKUST traffic generator: `size share`, from 0 to 1.
    HkustCdf,
    /// Homa's simulator: the mean, then `size share`, from 0 to 1.
    Homa,
}

impl SizeFormat {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HpccCdf => "hpcc-cdf",
            Self::HkustCdf => "hkust-cdf",
            Self::Homa => "homa",
        }
    }
}

/// The unit of sizes in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeUnit {
    /// Bytes.
    Bytes,
    /// Packets of so many bytes of payload.
    Packets(u32),
}

/// A row: the share of flows of at most this size, in parts of [`ONE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    size: u64,
    share: u128,
}

/// A table of sizes that was read from a file of another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeTable {
    title: String,
    rows: Vec<Row>,
}

impl SizeTable {
    /// Reads a table. `unit` is required for formats whose files have two units.
    ///
    /// # Errors
    /// A missing or wrong unit, and all mistakes of lines with their positions.
    pub fn read(
        source: &Arc<Source>,
        format: SizeFormat,
        unit: Option<SizeUnit>,
    ) -> Result<(Self, Vec<Diagnostic>), Diagnostics> {
        let mut problems = Problems::new(source);
        let Some(unit) = checked_unit(format, unit, &mut problems) else {
            return problems.finish(Self { title: String::new(), rows: Vec::new() });
        };
        let mut lines = lines(source).peekable();
        let mean = match format {
            SizeFormat::Homa => {
                lines.next_if(|line| line.fields.len() == 1).and_then(|line| mean(&line, &mut problems))
            }
            SizeFormat::HpccCdf | SizeFormat::HkustCdf => None,
        };
        if format == SizeFormat::Homa && mean.is_none() && problems.count() == 0 {
            problems.error(
                Span::default(),
                "the first line is not the mean",
                "a table of Homa starts with its mean size, alone in a line; without a mean it is `hkust-cdf`",
            );
        }
        let mut rows: Vec<Row> = Vec::new();
        for line in lines {
            if problems.is_full() {
                break;
            }
            match row(&line, format, &mut problems) {
                Some(row) if is_in_order(row, rows.last().copied(), &line, &mut problems) => rows.push(row),
                _ => {}
            }
        }
        if problems.count() == 0 {
            check_ends(source, format, &rows, &mut problems);
        }
        if let Some((stated, span)) = mean.filter(|_| problems.count() == 0) {
            compare_means(stated, step_mean(&rows), span, &mut problems);
        }
        let rows = in_bytes(rows, unit, source, &mut problems);
        let table = Self { title: title(source, format, unit), rows: as_linear(&rows, format) };
        problems.finish(table)
    }

    /// The table in Weir's format, with a comment about its origin.
    pub fn to_csv(&self) -> String {
        let rows = self.rows.iter().map(|row| format!("{},{}\n", row.size, decimal_text(row.share, DECIMALS as usize)));
        format!("# {}\nsize_bytes,cdf\n{}", self.title, rows.collect::<String>())
    }

    /// The distribution.
    pub fn distribution(&self) -> SizeDistribution {
        SizeDistribution::read(self.to_csv().as_bytes())
            .unwrap_or_else(|error| unreachable!("a table that is checked: {error}"))
    }
}

fn title(source: &Source, format: SizeFormat, unit: SizeUnit) -> String {
    let unit = match unit {
        SizeUnit::Bytes => "sizes in bytes".to_owned(),
        SizeUnit::Packets(payload) => format!("sizes in packets of {payload} bytes"),
    };
    format!("weir import sizes: {}, format {}, {unit}", source.name(), format.name())
}

/// The unit of the file, if the format has it.
fn checked_unit(format: SizeFormat, unit: Option<SizeUnit>, problems: &mut Problems) -> Option<SizeUnit> {
    let refused = match (format, unit) {
        (_, Some(SizeUnit::Packets(0))) => ("packets of 0 bytes", "state their payload, for example `--payload 1460B`"),
        (SizeFormat::Homa, Some(unit)) => return Some(unit),
        (SizeFormat::Homa, None) => (
            "tables of Homa have sizes in bytes or in packets, and the file does not state which",
            "state `--unit bytes`, or `--unit packets --payload 1460B` (its DCTCP workload is in packets)",
        ),
        (_, None | Some(SizeUnit::Bytes)) => return Some(SizeUnit::Bytes),
        (_, Some(SizeUnit::Packets(_))) => {
            ("the format has sizes in bytes", "leave out `--unit`, or convert the file to bytes")
        }
    };
    problems.error(Span::default(), refused.0, refused.1);
    None
}

/// The mean in the first line of a table of Homa, in the unit of the file.
fn mean(line: &Line<'_>, problems: &mut Problems) -> Option<(f64, Span)> {
    let field = line.fields[0];
    match field.text.parse::<f64>() {
        Ok(mean) if mean.is_finite() && mean > 0.0 => Some((mean, field.span)),
        _ => {
            let cause = format!("{} is not a mean size", quote(field.text));
            problems.error(field.span, cause, "write the mean size of the table, for example `1744.70`");
            None
        }
    }
}

/// A row, with its share in parts of [`ONE`].
fn row(line: &Line<'_>, format: SizeFormat, problems: &mut Problems) -> Option<Row> {
    let [bytes, fraction] = line.fields[..] else {
        let cause = format!("the line has {} fields, not 2", line.fields.len());
        let second = if format == SizeFormat::HpccCdf { "percentile" } else { "share" };
        problems.error(line.span, cause, format!("write a size and its {second}, with a space between"));
        return None;
    };
    let mut report = |span, refused: Refused| problems.error(span, refused.0, refused.1);
    let size = size(bytes.text, 0).map_err(|refused| report(bytes.span, refused)).ok();
    let share = share(fraction.text, format).map_err(|refused| report(fraction.span, refused)).ok();
    Some(Row { size: size?, share: share? })
}

fn share(text: &str, format: SizeFormat) -> Result<u128, Refused> {
    let (what, whole, decimals, other) = match format {
        SizeFormat::HpccCdf => ("percentile", 100, DECIMALS - 2, "write a percentile from 0 to 100"),
        SizeFormat::HkustCdf => ("share", 1, DECIMALS, "percentiles from 0 to 100 are the format `hpcc-cdf`"),
        SizeFormat::Homa => ("share", 1, DECIMALS, "write a share from 0 to 1"),
    };
    match decimal::parse(text, decimals) {
        None => Err((format!("{} is not a {what}", quote(text)), format!("write a number from 0 to {whole}"))),
        Some(share) if share > ONE => Err((format!("a {what} of {} is above {whole}", quote(text)), other.to_owned())),
        Some(share) => Ok(share),
    }
}

fn is_in_order(row: Row, before: Option<Row>, line: &Line<'_>, problems: &mut Problems) -> bool {
    let Some(before) = before else { return true };
    let (cause, hint, field) = if row.size < before.size {
        (format!("the size {} is below the {} before it", row.size, before.size), "sort the lines by size", 0)
    } else if row.share < before.share {
        ("the share is below the one before it".to_owned(), "shares count all flows up to the size: they never fall", 1)
    } else {
        return true;
    };
    problems.error(line.fields[field].span, cause, hint);
    false
}

/// Refuses a table that does not begin or end as its format defines.
fn check_ends(source: &Source, format: SizeFormat, rows: &[Row], problems: &mut Problems) {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        return problems.error(end_of(source), "the table has no rows", "write sizes with their shares");
    };
    if first.share > 0 && format == SizeFormat::HpccCdf {
        let hint = "HPCC's generator refuses this; add a line with the smallest size and 0";
        problems.error(Span::default(), "the first percentile is not 0", hint);
    }
    if let Some(empty) = rows.iter().find(|row| row.size == 0 && row.share > 0) {
        let cause = format!("flows of 0 bytes have a share of {}", decimal_text(empty.share, DECIMALS as usize));
        problems.error(Span::default(), cause, "flows have one byte or more: a size of 0 can only have a share of 0");
    }
    if last.share < ONE {
        let (cause, hint) = match format {
            SizeFormat::HpccCdf if last.share == ONE / 100 => {
                ("the last percentile is 1, not 100", "shares from 0 to 1 are the format `hkust-cdf`")
            }
            SizeFormat::HpccCdf => ("the last percentile is below 100", "end with the largest size and 100"),
            SizeFormat::HkustCdf => ("the last share is below 1", "end with the largest size and 1"),
            SizeFormat::Homa => (
                "the last share is below 1",
                "end with the largest size and 1; Homa draws the tail of its key-value workload from a formula, and \
                 has a sampled table of it",
            ),
        };
        problems.error(end_of(source), cause, hint);
    }
}

/// The mean of rows between which no sizes lie, in the unit of the file.
fn step_mean(rows: &[Row]) -> f64 {
    let mut before = 0;
    let mut sum = 0.0;
    for row in rows {
        sum += row.size as f64 * ((row.share - before) as f64 / ONE as f64);
        before = row.share;
    }
    sum
}

fn compare_means(stated: f64, found: f64, span: Span, problems: &mut Problems) {
    if (found / stated - 1.0).abs() > MEAN_TOLERANCE {
        problems.note(
            span,
            format!("the rows have a mean of {found:.1}, not the one in the first line"),
            "the rows are imported; the file may be cut or changed",
        );
    }
}

/// The rows with sizes in bytes.
fn in_bytes(mut rows: Vec<Row>, unit: SizeUnit, source: &Source, problems: &mut Problems) -> Vec<Row> {
    let SizeUnit::Packets(payload) = unit else { return rows };
    for row in &mut rows {
        match row.size.checked_mul(u64::from(payload)).filter(|size| *size < u64::MAX) {
            Some(size) => row.size = size,
            None => {
                let cause = format!("{} packets of {payload} bytes are too large", row.size);
                problems.error(end_of(source), cause, "a flow is below 2^64 − 1 bytes");
                break;
            }
        }
    }
    rows
}

/// The rows for Weir's rule, which is linear between rows.
fn as_linear(rows: &[Row], format: SizeFormat) -> Vec<Row> {
    match format {
        SizeFormat::HpccCdf => rows.to_vec(),
        // Sizes below the first row are linear from 0.
        SizeFormat::HkustCdf => {
            let from_zero = rows.first().filter(|row| row.share > 0).map(|_| Row { size: 0, share: 0 });
            from_zero.into_iter().chain(rows.iter().copied()).collect()
        }
        // A row with the share before it leaves no size between: each flow has the upper size.
        SizeFormat::Homa => {
            let before = std::iter::once(0).chain(rows.iter().map(|row| row.share));
            let steps = rows.iter().zip(before).filter(|(row, before)| row.share > *before);
            steps.flat_map(|(row, before)| [Row { share: before, ..*row }, *row]).collect()
        }
    }
}
