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
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use std::io::{self, Write};
use std::sync::Arc;

/// Rows that are written together: some 20 MB while they are.
const ROWS: usize = 1 << 17;

/// The type of a column and its source.
enum Column {
    Text(fn(&FlowRow<'_>) -> ByteArray),
    Long(fn(&FlowRow<'_>) -> u64),
    MaybeLong(fn(&FlowRow<'_>) -> Option<u64>),
    MaybeReal(fn(&FlowRow<'_>) -> Option<f64>),
    Short(fn(&FlowRow<'_>) -> u32),
}

/// In the order of [`FLOW_COLUMNS`].
const COLUMNS: [Column; FLOW_COLUMNS.len()] = [
    Column::Long(|row| row.id),
    Column::Text(|row| row.group.into()),
    Column::MaybeLong(|row| row.coflow),
    Column::MaybeLong(|row| row.coflow_flows),
    Column::Text(|row| row.transport.into()),
    Column::Text(|row| row.from.into()),
    Column::Text(|row| row.to.into()),
    Column::Long(|row| row.bytes),
    Column::Long(|row| row.start),
    Column::MaybeLong(|row| row.finished),
    Column::MaybeLong(|row| row.fct),
    Column::Long(|row| row.ideal),
    Column::MaybeReal(|row| row.slowdown),
    Column::Long(|row| row.delivered),
    Column::Short(|row| row.retransmissions),
    Column::Short(|row| row.timeouts),
    Column::MaybeLong(|row| row.deadline),
];

impl Column {
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

    fn write<W: Write + Send>(&self, rows: &[FlowRow<'_>], group: &mut SerializedRowGroupWriter<'_, W>) -> Result<()> {
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
    write(results, out, ROWS).map_err(|error| match error {
        // The error of the disk, if it was the disk.
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(cause) => io::Error::other(cause),
        },
        error => io::Error::other(error),
    })
}

fn write(results: &Results, out: impl Write + Send, rows: usize) -> Result<()> {
    let fields = COLUMNS.iter().zip(FLOW_COLUMNS).map(|(column, name)| column.schema(name).map(Arc::new));
    let schema = Type::group_type_builder("flows").with_fields(fields.collect::<Result<_>>()?).build()?;
    let properties = WriterProperties::builder().set_created_by("weir".to_owned()).build();
    let mut writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))?;
    for flows in results.flows.chunks(rows) {
        let rows: Vec<FlowRow<'_>> = flows.iter().map(|flow| FlowRow::new(results, flow)).collect();
        let mut group = writer.next_row_group()?;
        for column in &COLUMNS {
            column.write(&rows, &mut group)?;
        }
        group.close()?;
    }
    writer.close()?;
    Ok(())
}

#[cfg(test)]
#[path = "columns_tests.rs"]
mod tests;
