//! The dataset of a sweep: for each point a Parquet file of its statistics, and on request one of its flows.
//!
//! Problem: the results of a sweep are read by pyarrow, polars or DuckDB as one table, while points end in any order,
//! on several machines, and may be interrupted. Approach: each point has a file of its own, a part. All parts have the
//! same columns, and the point's name, seed and swept values are columns of every row; so the parts in one directory
//! are one table, and no name of a directory carries a value. A part names its sweep and its point at its end; a part
//! of another sweep, or of another point, does not count. A part is a function of the results alone, so the same point
//! has the same bytes wherever it was run.
//!
//! [`StatisticsTable`] has the columns of `points.csv` too. Where a swept path is also a column of flows, as
//! `transport` is, the path's column is `swept_transport`.
//!
//! Worked example: the part of point `2_seed-1_load-60` has 6 rows for all flows (all sizes, and five size bins) and 6
//! rows for each flow group, each with `1` as seed and `60%` in the column `traffic[0].load`.

use crate::columns::{Column, ROWS, Table, flow_columns, io_error, write, write_flow_table};
use crate::record::Results;
use crate::statistics::{BinStatistics, GroupStatistics, Statistics};
use crate::summary::Summary;
use crate::tables::FLOW_COLUMNS;
use parquet::data_type::ByteArray;
use parquet::file::metadata::KeyValue;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs::File;
use std::io;
use std::path::Path;
use weir_units::SimTime;

/// The version of parts, in their key `weir.format`; an additional column does not raise it.
const FORMAT: u32 = 1;

const FORMAT_KEY: &str = "weir.format";
const SWEEP_KEY: &str = "weir.sweep";
const POINT_KEY: &str = "weir.point";

/// A point, as its parts and its rows of `points.csv` name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartOf {
    /// The digest of the sweep's identity.
    pub sweep: String,
    /// The point's name.
    pub point: String,
    /// The seed of its run.
    pub seed: u64,
    /// Path and value of each axis but the seed, in the order of the axes.
    pub values: Vec<(String, String)>,
}

/// A row of statistics: a group, or all flows, and one of its bins.
type StatisticsRow<'a> = (&'a GroupStatistics, &'a BinStatistics);

impl PartOf {
    /// The Parquet file of the point's statistics.
    ///
    /// # Errors
    /// A failure of the writer.
    pub fn statistics(&self, statistics: &Statistics) -> io::Result<Vec<u8>> {
        let mut table = self.columns(&[]);
        table.extend(statistics_columns());
        let mut bytes = Vec::new();
        write("statistics", &table, std::iter::once(rows(statistics)), Some(self.keys()), &mut bytes)
            .map_err(io_error)?;
        Ok(bytes)
    }

    /// The Parquet file of the point's flows.
    ///
    /// # Errors
    /// A failure of the writer.
    pub fn flows(&self, results: &Results) -> io::Result<Vec<u8>> {
        let mut table = self.columns(&FLOW_COLUMNS);
        table.extend(flow_columns());
        let mut bytes = Vec::new();
        write_flow_table(results, &table, Some(self.keys()), &mut bytes, ROWS).map_err(io_error)?;
        Ok(bytes)
    }

    /// Whether the file is a whole part of this point.
    pub fn is_at(&self, path: &Path) -> bool {
        let Ok(Ok(reader)) = File::open(path).map(SerializedFileReader::new) else { return false };
        let Some(keys) = reader.metadata().file_metadata().key_value_metadata() else { return false };
        self.keys().iter().all(|key| keys.contains(key))
    }

    fn keys(&self) -> Vec<KeyValue> {
        let format = FORMAT.to_string();
        let keys = [(FORMAT_KEY, format.as_str()), (SWEEP_KEY, &self.sweep), (POINT_KEY, &self.point)];
        keys.map(|(key, value)| KeyValue::new(key.to_owned(), value.to_owned())).into()
    }

    /// The columns that are the same in all rows; `others` are the names of those that follow.
    fn columns<'a, R: 'a>(&self, others: &[&str]) -> Table<'a, R> {
        let text = |value: &str| {
            // Clones of it share its bytes.
            let value = ByteArray::from(value);
            Column::Text(Box::new(move |_: &R| value.clone()))
        };
        let seed = self.seed;
        let mut columns: Table<'a, R> =
            vec![("point".to_owned(), text(&self.point)), ("seed".to_owned(), Column::Long(Box::new(move |_| seed)))];
        columns.extend(self.values.iter().map(|(path, value)| {
            let name = if others.contains(&path.as_str()) { format!("swept_{path}") } else { path.clone() };
            (name, text(value))
        }));
        columns
    }
}

/// The rows of the statistics of a run.
fn rows(statistics: &Statistics) -> Vec<StatisticsRow<'_>> {
    let groups = std::iter::once(&statistics.all).chain(&statistics.groups);
    groups.flat_map(|group| std::iter::once(&group.all).chain(&group.bins).map(move |bin| (group, bin))).collect()
}

/// The statistics of points as rows of texts, for a CSV file.
pub struct StatisticsTable {
    axes: Vec<String>,
}

impl StatisticsTable {
    /// The table of a sweep over these paths other than the seed.
    pub fn new(axes: Vec<String>) -> Self {
        Self { axes }
    }

    /// The names of the columns.
    pub fn header(&self) -> Vec<String> {
        let values = self.axes.iter().map(|path| (path.clone(), String::new())).collect();
        let of = PartOf { sweep: String::new(), point: String::new(), seed: 0, values };
        let columns = of.columns::<StatisticsRow<'_>>(&[]);
        columns.into_iter().chain(statistics_columns()).map(|(name, _)| name).collect()
    }

    /// The rows of a point.
    pub fn rows(&self, of: &PartOf, statistics: &Statistics) -> Vec<Vec<String>> {
        let mut table = of.columns(&[]);
        table.extend(statistics_columns());
        rows(statistics).iter().map(|row| table.iter().map(|(_, column)| column.csv(row)).collect()).collect()
    }
}

/// The columns of statistics: those of a bin, and those of its group as a whole, in its row of all sizes.
fn statistics_columns<'a, 'r: 'a>() -> Table<'a, StatisticsRow<'r>> {
    type Row<'r> = StatisticsRow<'r>;
    let name = |(group, _): &Row<'r>| if group.name.is_empty() { "all" } else { group.name.as_str() }.into();
    let mut columns: Table<'a, Row<'r>> = vec![
        ("group".to_owned(), Column::Text(Box::new(name))),
        ("over_bytes".to_owned(), Column::Long(Box::new(|(_, bin): &Row<'r>| bin.bin.over))),
        ("up_to_bytes".to_owned(), Column::MaybeLong(Box::new(|(_, bin): &Row<'r>| bin.bin.up_to))),
        ("flows".to_owned(), Column::Long(Box::new(|(_, bin): &Row<'r>| bin.flows))),
        ("unfinished".to_owned(), Column::Long(Box::new(|(_, bin): &Row<'r>| bin.unfinished))),
    ];
    for (at, of) in PARTS.iter().enumerate() {
        let time = move |(_, bin): &Row<'r>| parts(&bin.fct)[at].map(SimTime::picos);
        columns.push((format!("fct_{of}_ps"), Column::MaybeLong(Box::new(time))));
    }
    for (at, of) in PARTS.iter().enumerate() {
        let value = move |(_, bin): &Row<'r>| parts(&bin.slowdown)[at];
        columns.push((format!("slowdown_{of}"), Column::MaybeReal(Box::new(value))));
    }
    let jain = |row: &Row<'r>| is_whole(row).then_some(row.0.jain).flatten();
    columns.push(whole("goodput_bps", |group| group.goodput.bps()));
    columns.push(("jain".to_owned(), Column::MaybeReal(Box::new(jain))));
    columns.push(whole("retransmissions", |group| group.retransmissions));
    columns.push(whole("timeouts", |group| group.timeouts));
    columns.push(whole("deadlines", |group| group.deadlines.count));
    columns.push(whole("deadlines_met", |group| group.deadlines.met));
    let finished = |(_, bin): &Row<'r>| bin.fct.finished_mean.map(SimTime::picos);
    columns.push(("fct_finished_mean_ps".to_owned(), Column::MaybeLong(Box::new(finished))));
    let finished = |(_, bin): &Row<'r>| bin.slowdown.finished_mean;
    columns.push(("slowdown_finished_mean".to_owned(), Column::MaybeReal(Box::new(finished))));
    columns
}

/// A column of a group as a whole.
fn whole<'a, 'r: 'a>(name: &str, of: fn(&GroupStatistics) -> u64) -> (String, Column<'a, StatisticsRow<'r>>) {
    let value = move |row: &StatisticsRow<'r>| is_whole(row).then(|| of(row.0));
    (name.to_owned(), Column::MaybeLong(Box::new(value)))
}

/// Whether the row is that of all sizes: the only bin without bounds.
fn is_whole((_, bin): &StatisticsRow<'_>) -> bool {
    bin.bin.over == 0 && bin.bin.up_to.is_none()
}

/// The values of a summary in the order of the columns.
const PARTS: [&str; 6] = ["mean", "p50", "p95", "p99", "p999", "max"];

fn parts<T: Copy>(of: &Summary<T>) -> [Option<T>; PARTS.len()] {
    [of.mean, of.p50, of.p95, of.p99, of.p999, of.max]
}

#[cfg(test)]
#[path = "dataset_tests.rs"]
mod tests;
