//! CSV, Parquet and JSON agree about a run, as other programs read them from the disk.

use super::tests::{results, written};
use super::*;
use crate::sample::sample;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use proptest::prelude::*;
use serde_json::Value;

/// A table as names of columns and rows of texts.
type Texts = (Vec<String>, Vec<Vec<String>>);

fn csv_of(path: &Path) -> Texts {
    let mut reader = csv::Reader::from_path(path).unwrap();
    let texts = |record: &csv::StringRecord| record.iter().map(str::to_owned).collect();
    let columns = texts(reader.headers().unwrap());
    (columns, reader.records().map(|record| texts(&record.unwrap())).collect())
}

/// Nothing is an empty text, as in CSV.
fn parquet_of(path: &Path) -> Texts {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let schema = reader.metadata().file_metadata().schema_descr();
    let columns = schema.columns().iter().map(|column| column.name().to_owned()).collect();
    let text = |field: &Field| match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        // Written by the shortest digits that read back, as the CSV has it.
        Field::Double(number) => serde_json::to_string(number).unwrap(),
        other => other.to_string(),
    };
    let rows =
        reader.get_row_iter(None).unwrap().map(|row| row.unwrap().get_column_iter().map(|of| text(of.1)).collect());
    (columns, rows.collect())
}

/// The flow that `percent` of `times` (in ascending order, the unknown last) do not exceed.
fn percentile(times: &[Option<u64>], percent: f64) -> Option<u64> {
    let index = (percent / 100.0 * times.len() as f64 - 1e-9).ceil().max(1.0) as usize;
    times.get(index - 1).copied().flatten()
}

fn agree(results: &Results) {
    let directory = written(results);
    let (columns, rows) = csv_of(&directory.path().join(FLOWS));
    let parquet = parquet_of(&directory.path().join(FLOWS_PARQUET));
    let number = |text: &str| text.parse::<f64>().ok().map(f64::to_bits);
    assert_eq!(columns, parquet.0);
    assert_eq!(rows.len(), parquet.1.len());
    for (csv, parquet) in rows.iter().zip(&parquet.1) {
        for ((column, csv), parquet) in columns.iter().zip(csv).zip(parquet) {
            let same = if column == "slowdown" { number(csv) == number(parquet) } else { csv == parquet };
            assert!(same, "{column}: {csv} in CSV, {parquet} in Parquet");
        }
    }

    let json: Value = serde_json::from_slice(&fs::read(directory.path().join(RESULT)).unwrap()).unwrap();
    let column = |name: &str| columns.iter().position(|column| column == name).unwrap();
    let names = std::iter::once(None).chain(results.groups.iter().map(|group| Some(group.name.as_str())));
    let statistics = std::iter::once(&json["statistics"]["all"]);
    for (name, of) in names.zip(statistics.chain(json["statistics"]["groups"].as_array().unwrap())) {
        let flows: Vec<&Vec<String>> =
            rows.iter().filter(|row| name.is_none_or(|name| row[column("group")] == name)).collect();
        let sum =
            |name: &str| flows.iter().map(|row| row[column(name)].parse::<u64>().unwrap()).fold(0, u64::saturating_add);
        let mut times: Vec<Option<u64>> = flows.iter().map(|row| row[column("fct_ps")].parse().ok()).collect();
        times.sort_unstable_by_key(|time| (time.is_none(), *time));
        let all = &of["all"];
        assert_eq!(of["name"], name.unwrap_or_default());
        assert_eq!(all["flows"], flows.len());
        assert_eq!(all["unfinished"], times.iter().filter(|time| time.is_none()).count());
        for (key, percent) in [("p50", 50.0), ("p95", 95.0), ("p99", 99.0), ("p999", 99.9), ("max", 100.0)] {
            assert_eq!(all["fct_ps"][key], serde_json::to_value(percentile(&times, percent)).unwrap(), "{key}");
        }
        assert_eq!(of["delivered_bytes"], sum("delivered_bytes"));
        assert_eq!(
            (&of["retransmissions"], &of["timeouts"]),
            (&sum("retransmissions").into(), &sum("timeouts").into())
        );
    }
}

#[test]
fn the_formats_of_the_sample_agree() {
    agree(&sample());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_formats_of_any_run_agree(results in results()) {
        agree(&results);
    }
}
