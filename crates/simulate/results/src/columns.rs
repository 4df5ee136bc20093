//! The flows as Parquet: the columns of `flows.csv`, for programs that read millions of them.
//!
//! Integers are unsigned 64 or 32 bits wide as in the records, times picoseconds; a value that a
//! flow may lack is null. Nothing is compressed: names are stored once by their dictionary, and the
//! rest are numbers that differ.
//!
//! Source: the Apache Parquet format, version 2 of its logical types.

use crate::record::Results;
use crate::tables::{FLOW_COLUMNS, FlowRow};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use std::io::{self, Write};
use std::sync::Arc;

/// Rows that are written together: some 20 MB while they are.
pub(crate) const ROWS: usize = 1 << 17;

/// The source of a column's values: a function of a row.
pub(crate) type Of<'a, R, T> = Box<dyn Fn(&R) -> T + 'a>;

/// The type of a column and its source.
pub(crate) enum Column<'a, R> {
    Text(Of<'a, R, ByteArray>),
    Long(Of<'a, R, u64>),
    MaybeLong(Of<'a, R, Option<u64>>),
    MaybeReal(Of<'a, R, Option<f64>>),
    Short(Of<'a, R, u32>),
}

/// Columns with their names.
pub(crate) type Table<'a, R> = Vec<(String, Column<'a, R>)>;

/// In the order of [`FLOW_COLUMNS`].
pub(crate) fn flow_columns<'a, 'r: 'a>() -> Table<'a, FlowRow<'r>> {
    let columns: [Column<'a, FlowRow<'r>>; FLOW_COLUMNS.len()] = [
        Column::Long(Box::new(|row| row.id)),
        Column::Text(Box::new(|row| row.group.into())),
        Column::MaybeLong(Box::new(|row| row.coflow)),
        Column::MaybeLong(Box::new(|row| row.coflow_flows)),
        Column::Text(Box::new(|row| row.transport.into())),
        Column::Text(Box::new(|row| row.from.into())),
        Column::Text(Box::new(|row| row.to.into())),
        Column::Long(Box::new(|row| row.bytes)),
        Column::Long(Box::new(|row| row.start)),
        Column::MaybeLong(Box::new(|row| row.finished)),
        Column::MaybeLong(Box::new(|row| row.fct)),
        Column::Long(Box::new(|row| row.ideal)),
        Column::MaybeReal(Box::new(|row| row.slowdown)),
        Column::Long(Box::new(|row| row.delivered)),
        Column::Short(Box::new(|row| row.retransmissions)),
        Column::Short(Box::new(|row| row.timeouts)),
        Column::MaybeLong(Box::new(|row| row.deadline)),
    ];
    FLOW_COLUMNS.iter().map(|name| (*name).to_owned()).zip(columns).collect()
}

impl<R> Column<'_, R> {
    fn schema(&self, name: &str) -> Result<Type> {
        let (physical, logical, repetition) = match self {
            Self::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
            Self::Long(_) => (Physical::INT64, Some(LogicalType::integer(64, false)), Repetition::REQUIRED),
            Self::MaybeLong(_) => (Physical::INT64, Some(LogicalType::integer(64, false)), Repetition::OPTIONAL),
            Self::MaybeReal(_) => (Physical::DOUBLE, None, Repetition::OPTIONAL),
            Self::Short(_) => (Physical::INT32, Some(LogicalType::integer(32, false)), Repetition::REQUIRED),
        };
        let builder = Type::primitive_type_builder(name, physical);
        builder.with_logical_type(logical).with_repetition(repetition).build()
    }

    /// The value of a row in a CSV file; an unknown value is empty.
    pub(crate) fn csv(&self, row: &R) -> String {
        match self {
            // Texts are made of `str`.
            Self::Text(of) => String::from_utf8_lossy(of(row).data()).into_owned(),
            Self::Long(of) => of(row).to_string(),
            Self::Short(of) => of(row).to_string(),
            Self::MaybeLong(of) => of(row).map_or(String::new(), |value| value.to_string()),
            Self::MaybeReal(of) => of(row).map_or(String::new(), |value| value.to_string()),
        }
    }

    fn write<W: Write + Send>(&self, rows: &[R], group: &mut SerializedRowGroupWriter<'_, W>) -> Result<()> {
        match self {
            Self::Text(of) => put::<ByteArrayType, _>(group, rows.iter().map(of), None),
            // Parquet's unsigned integers are the same bits in signed ones.
            Self::Long(of) => put::<Int64Type, _>(group, rows.iter().map(|row| of(row) as i64), None),
            Self::Short(of) => put::<Int32Type, _>(group, rows.iter().map(|row| of(row) as i32), None),
            Self::MaybeLong(of) => {
                let there: Vec<i16> = rows.iter().map(|row| i16::from(of(row).is_some())).collect();
                put::<Int64Type, _>(
                    group,
                    rows.iter().filter_map(|row| of(row).map(|value| value as i64)),
                    Some(&there),
                )
            }
            Self::MaybeReal(of) => {
                let there: Vec<i16> = rows.iter().map(|row| i16::from(of(row).is_some())).collect();
                put::<DoubleType, _>(group, rows.iter().filter_map(of), Some(&there))
            }
        }
    }
}

/// Writes the next column; `present` has 1 for each row with a value and 0 for each without.
fn put<T: DataType, W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: impl Iterator<Item = T::T>,
    present: Option<&[i16]>,
) -> Result<()> {
    let missing = || ParquetError::General("more columns than the schema has".to_owned());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    let values: Vec<T::T> = values.collect();
    column.typed::<T>().write_batch(&values, present, None)?;
    column.close()
}

/// Writes the flows of `results`.
pub(crate) fn write_flows(results: &Results, out: impl Write + Send) -> io::Result<()> {
    write_flow_table(results, &flow_columns(), None, out, ROWS).map_err(io_error)
}

/// Writes the flows of `results` with these columns, `rows` rows at a time.
pub(crate) fn write_flow_table<'r>(
    results: &'r Results,
    table: &Table<'_, FlowRow<'r>>,
    keys: Option<Vec<KeyValue>>,
    out: impl Write + Send,
    rows: usize,
) -> Result<()> {
    let groups = results.flows.chunks(rows).map(|flows| flows.iter().map(|flow| FlowRow::new(results, flow)).collect());
    write("flows", table, groups, keys, out)
}

/// Writes groups of rows as a file: a schema of this name, and pairs of texts for its end.
pub(crate) fn write<R>(
    name: &str,
    table: &Table<'_, R>,
    groups: impl Iterator<Item = Vec<R>>,
    keys: Option<Vec<KeyValue>>,
    out: impl Write + Send,
) -> Result<()> {
    let fields = table.iter().map(|(name, column)| column.schema(name).map(Arc::new));
    let schema = Type::group_type_builder(name).with_fields(fields.collect::<Result<_>>()?).build()?;
    let properties = WriterProperties::builder().set_created_by("weir".to_owned()).set_key_value_metadata(keys).build();
    let mut writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
    for rows in groups {
        let mut group = writer.next_row_group()?;
        for (_, column) in table {
            column.write(&rows, &mut group)?;
        }
        group.close()?;
    }
    writer.close()?;
    Ok(())
}

/// The error of the disk, if it was the disk.
pub(crate) fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(cause) => io::Error::other(cause),
        },
        error => io::Error::other(error),
    }
}

#[cfg(test)]
#[path = "columns_tests.rs"]
mod tests;
