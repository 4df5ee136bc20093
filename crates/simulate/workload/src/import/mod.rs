//! Sizes and flows in the file formats of other simulators and traffic generators.
//!
//! Problem: published work has its sizes and flows in files of its own, which differ in units, in the rule between
//! rows and in the names of hosts. Approach: each format is read by the definition of its own repository into rows of
//! Weir's tables, which are written as text; nothing is guessed. Where files of a format exist in two units, the
//! caller states the unit, and a file is refused without it.
//!
//! | format | a line | units | between two rows |
//! |---|---|---|---|
//! | [`SizeFormat::HpccCdf`] | `size percentile` | bytes, 0 to 100 | linear |
//! | [`SizeFormat::HkustCdf`] | `size share` | bytes, 0 to 1 | linear |
//! | [`SizeFormat::Homa`] | the mean, then `size share` | bytes or packets, 0 to 1 | the upper size |
//! | [`FlowFormat::Ns3Hpcc`] | a count, then `src dst pg dport size start` | bytes, seconds | |
//! | [`FlowFormat::HtsimCm`] | `Nodes`, `Connections`, then `src->dst id N start T size S` | bytes, ps or µs | |
//!
//! Worked example, a table of percentiles:
//!
//! ```
//! use weir_document::Source;
//! use weir_workload::import::{SizeFormat, SizeTable};
//!
//! let source = Source::from_text("sizes.txt", "0 0\n4000 22.93\n2000000 100\n");
//! let (table, _) = SizeTable::read(&source, SizeFormat::HpccCdf, None)?;
//! let head = "# weir import sizes: sizes.txt, format hpcc-cdf, sizes in bytes\n";
//! assert_eq!(table.to_csv(), format!("{head}size_bytes,cdf\n0,0\n4000,0.2293\n2000000,1\n"));
//! # Ok::<(), weir_document::Diagnostics>(())
//! ```
//!
//! Sources: the generators and readers of github.com/alibaba-edu/High-Precision-Congestion-Control (`traffic_gen`,
//! `simulation/scratch/third.cc`), github.com/HKUST-SING/TrafficGenerator (`src/common/cdf.c`),
//! github.com/PlatformLab/HomaSimulation (`MsgSizeDistributions.cc`) and github.com/Broadcom/csg-htsim
//! (`sim/datacenter/connection_matrix.cpp`).

mod flows;
mod htsim;
mod ns3;
mod sizes;
#[cfg(test)]
mod tests;

pub use flows::{FlowFormat, FlowOptions, FlowTable, StartUnit};
pub use sizes::{SizeFormat, SizeTable, SizeUnit};

use crate::decimal;
use std::sync::Arc;
use weir_document::{Source, Span, quote};

/// Decimals of a size that are compared with zero: a size is whole.
const DECIMALS_OF_SIZES: i32 = 9;
const SIZE_SCALE: u128 = 1_000_000_000;

/// The cause and the hint of a refused field.
type Refused = (String, String);

/// A field of a line, and its position.
#[derive(Debug, Clone, Copy)]
struct Field<'a> {
    text: &'a str,
    span: Span,
}

/// A line that has fields.
#[derive(Debug)]
struct Line<'a> {
    fields: Vec<Field<'a>>,
    /// From its first to its last field.
    span: Span,
}

/// The lines of a file that have fields.
fn lines(source: &Arc<Source>) -> impl Iterator<Item = Line<'_>> {
    let whole = source.text();
    whole.split('\n').filter_map(move |line| {
        let span = |text| Span::of_slice(whole, text).unwrap_or_default();
        let fields: Vec<Field<'_>> =
            line.split_ascii_whitespace().map(|text| Field { text, span: span(text) }).collect();
        let (first, last) = (fields.first()?.span, fields.last()?.span);
        Some(Line { fields, span: Span::new(first.start, last.end) })
    })
}

/// The end of a file, where something is missing.
fn end_of(source: &Source) -> Span {
    let end = source.text().trim_end().len() as u32;
    Span::new(end, end)
}

/// A size of at least `least`, which is also written as `4000.0` or `4e3`.
fn size(text: &str, least: u64) -> Result<u64, Refused> {
    let hint = || "write a whole number below 2^64 − 1, for example `4000`".to_owned();
    let parts = decimal::parse(text, DECIMALS_OF_SIZES);
    let parts = parts.ok_or_else(|| (format!("{} is not a size", quote(text)), hint()))?;
    if !parts.is_multiple_of(SIZE_SCALE) {
        return Err((format!("the size {} is not whole", quote(text)), hint()));
    }
    match u64::try_from(parts / SIZE_SCALE) {
        Ok(size) if size < least => {
            Err(("the flow has no bytes".to_owned(), format!("write a size of {least} or more")))
        }
        Ok(size) if size < u64::MAX => Ok(size),
        _ => Err((format!("the size {} is too large", quote(text)), hint())),
    }
}

/// A whole number of 32 bits: a node, a port, a group.
fn number(text: &str, what: &str) -> Result<u32, Refused> {
    text.parse().map_err(|_| {
        (format!("{} is not {what}", quote(text)), "write a whole number below 2^32, for example `17`".to_owned())
    })
}

/// `value` / 10^`decimals`, with the digits that it needs.
fn decimal_text(value: u128, decimals: usize) -> String {
    let scale = 10_u128.pow(decimals as u32);
    let fraction = format!("{:0decimals$}", value % scale);
    match fraction.trim_end_matches('0') {
        "" => (value / scale).to_string(),
        digits => format!("{}.{digits}", value / scale),
    }
}
