//! Written Parquet reads back.

use super::*;
use crate::sample::sample;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

#[test]
fn parquet_reads_back_the_columns_of_the_csv() {
    let results = sample();
    let file = tempfile::tempfile().unwrap();
    // Two rows at a time, so that there are several groups of rows.
    write_flow_table(&results, &flow_columns(), None, &file, 2).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    assert_eq!(reader.num_row_groups(), results.flows.len().div_ceil(2));
    let mut rows = 0;
    for (row, flow) in reader.get_row_iter(None).unwrap().zip(&results.flows) {
        let expected = FlowRow::new(&results, flow);
        let long = |value: Option<u64>| value.map_or(Field::Null, Field::ULong);
        let text = |text: &str| Field::Str(text.to_owned());
        let fields = [
            Field::ULong(expected.id),
            text(expected.group),
            long(expected.coflow),
            long(expected.coflow_flows),
            text(expected.transport),
            text(expected.from),
            text(expected.to),
            Field::ULong(expected.bytes),
            Field::ULong(expected.start),
            long(expected.finished),
            long(expected.fct),
            Field::ULong(expected.ideal),
            expected.slowdown.map_or(Field::Null, Field::Double),
            Field::ULong(expected.delivered),
            Field::UInt(expected.retransmissions),
            Field::UInt(expected.timeouts),
            long(expected.deadline),
        ];
        let row = row.unwrap();
        let names: Vec<&str> = row.get_column_iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, FLOW_COLUMNS);
        assert!(row.get_column_iter().map(|(_, field)| field).eq(&fields), "{row:?} is not {fields:?}");
        rows += 1;
    }
    assert_eq!(rows, results.flows.len());
}

#[test]
fn a_run_without_flows_is_a_table_without_rows() {
    let file = tempfile::tempfile().unwrap();
    write_flows(&Results::default(), &file).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
    assert_eq!(reader.metadata().file_metadata().schema_descr().num_columns(), FLOW_COLUMNS.len());
}

#[test]
fn errors_of_the_disk_are_shown() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    assert_eq!(write_flows(&sample(), Full).unwrap_err().kind(), io::ErrorKind::StorageFull);
}
