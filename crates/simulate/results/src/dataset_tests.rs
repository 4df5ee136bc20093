//! Parts read back as the rows of the table, and name their sweep and point.

use super::*;
use crate::bins::SizeBins;
use crate::sample::sample;
use parquet::basic::{LogicalType, Type as Physical};
use parquet::record::Field;

fn part_of(sweep: &str, point: &str, seed: u64) -> PartOf {
    let values = [("transport", "dctcp"), ("traffic[0].load", "60%")];
    let values = values.map(|(path, value)| (path.to_owned(), value.to_owned())).into();
    PartOf { sweep: sweep.to_owned(), point: point.to_owned(), seed, values }
}

fn file(bytes: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("part.parquet");
    std::fs::write(&path, bytes).expect("a written part");
    (directory, path)
}

fn rows_of(path: &Path) -> (Vec<String>, Vec<Vec<Field>>) {
    let reader = SerializedFileReader::new(File::open(path).expect("a part")).expect("Parquet");
    let columns = reader.metadata().file_metadata().schema_descr().columns().iter();
    let names = columns.map(|column| column.name().to_owned()).collect();
    let fields = |row: parquet::record::Row| row.get_column_iter().map(|(_, field)| field.clone()).collect();
    let rows = reader.get_row_iter(None).expect("rows");
    (names, rows.map(|row| fields(row.expect("a row"))).collect())
}

#[test]
fn statistics_read_back_as_the_rows_of_the_table() {
    let statistics = Statistics::new(&sample(), &SizeBins::default());
    let part = part_of("ab", "1_x", u64::MAX);
    let (_directory, path) = file(&part.statistics(&statistics).expect("a part of statistics"));
    let (names, found) = rows_of(&path);
    let table = StatisticsTable::new(part.values.iter().map(|(path, _)| path.clone()).collect());
    assert_eq!(names, table.header());
    assert_eq!(names[..6], ["point", "seed", "transport", "traffic[0].load", "group", "over_bytes"]);
    let text = |field: &Field| match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::ULong(number) => number.to_string(),
        Field::Double(number) => number.to_string(),
        other => panic!("{other:?}"),
    };
    let found: Vec<Vec<String>> = found.iter().map(|row| row.iter().map(text).collect()).collect();
    assert_eq!(found, table.rows(&part, &statistics));
    assert_eq!(found.len(), 6 * (1 + statistics.groups.len()));
    // The row of all sizes alone has the values of its group.
    let goodput = names.iter().position(|name| name == "goodput_bps").expect("a column of goodputs");
    assert!(!found[0][goodput].is_empty() && found[1][goodput].is_empty());
}

#[test]
fn flows_read_back_beside_their_point() {
    let results = sample();
    let part = part_of("ab", "1_x", 7);
    let (_directory, path) = file(&part.flows(&results).expect("a part of flows"));
    let (names, rows) = rows_of(&path);
    assert_eq!(names[..4], ["point", "seed", "swept_transport", "traffic[0].load"]);
    assert_eq!(names[4..], FLOW_COLUMNS);
    let ids: Vec<Field> = results.flows.iter().map(|flow| Field::ULong(flow.id)).collect();
    assert_eq!(rows.iter().map(|row| row[4].clone()).collect::<Vec<_>>(), ids);
    assert!(rows.iter().all(|row| row[1] == Field::ULong(7) && row[2] == Field::Str("dctcp".to_owned())));
}

#[test]
fn parts_of_others_and_torn_parts_do_not_count() {
    let statistics = Statistics::new(&sample(), &SizeBins::default());
    let part = part_of("ab", "1_x", 1);
    let bytes = part.statistics(&statistics).expect("a part of statistics");
    let (directory, path) = file(&bytes);
    assert!(part.is_at(&path));
    assert!(!part_of("ac", "1_x", 1).is_at(&path) && !part_of("ab", "2_x", 1).is_at(&path));
    assert!(!part.is_at(&directory.path().join("absent.parquet")) && !part.is_at(directory.path()));
    std::fs::write(&path, &bytes[..bytes.len() - 1]).expect("a torn part");
    assert!(!part.is_at(&path));
    std::fs::write(&path, vec![0; bytes.len()]).expect("a part of zeros");
    assert!(!part.is_at(&path));
}

/// Names and types of the columns of a part.
fn schema_of(part: &[u8]) -> Vec<(String, String)> {
    let (_directory, path) = file(part);
    let reader = SerializedFileReader::new(File::open(path).expect("a part")).expect("Parquet");
    let columns = reader.metadata().file_metadata().schema_descr().columns().iter();
    let column = |column: &parquet::schema::types::ColumnDescPtr| {
        let kind = match (column.physical_type(), column.logical_type_ref()) {
            (Physical::BYTE_ARRAY, Some(LogicalType::String)) => "string",
            (Physical::INT64, Some(LogicalType::Integer(int))) if !int.is_signed => "uint64",
            (Physical::INT32, Some(LogicalType::Integer(int))) if !int.is_signed => "uint32",
            (Physical::DOUBLE, None) => "double",
            other => panic!("{other:?}"),
        };
        let null = if column.max_def_level() > 0 { " or null" } else { "" };
        (column.name().to_owned(), format!("{kind}{null}"))
    };
    columns.map(column).collect()
}

/// Names and types of the columns in a table of the document: a row may have several names.
fn documented(name: &str) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/results-files.md");
    let text = std::fs::read_to_string(path).expect("the reference");
    let mark = format!("<!-- columns of {name} -->");
    let lines = text.lines().skip_while(|line| *line != mark).skip(1).take_while(|line| line.starts_with('|'));
    let rows = lines.skip(2).flat_map(|line| {
        let mut cells = line.split('|').skip(1).map(str::trim);
        let (names, kind) = (cells.next().expect("names"), cells.next().expect("a type"));
        // Texts in parentheses are explanations.
        let names = names.split(" (").next().expect("names").split('`').skip(1).step_by(2);
        names.map(|name| (name.to_owned(), kind.to_owned())).collect::<Vec<_>>()
    });
    rows.collect()
}

#[test]
fn columns_are_those_of_the_reference() {
    let part = PartOf { values: vec![("traffic[0].load".to_owned(), "60%".to_owned())], ..part_of("ab", "1_x", 1) };
    let statistics = part.statistics(&Statistics::new(&sample(), &SizeBins::default()));
    let statistics = statistics.expect("a part of statistics");
    assert_eq!(schema_of(&statistics), documented("statistics"));
    let flows = schema_of(&part.flows(&sample()).expect("a part of flows"));
    assert_eq!(flows[..3], documented("statistics")[..3]);
    assert_eq!(flows[3..], documented("flows"));
}
