//! The table of real-time tests: name, load and duration of each.
//!
//! One line for each test: binary, test, load and seconds. `*` stands for all tests of a binary
//! that have no line of their own. A load is the number of processors that a test uses on average.
//! `-` stands for the other tests of a binary, all in one process: the longest of these start first.
//!
//! ```text
//! weir/agent    sigterm_restores_the_host    0.35      2
//! weir/lab      *                                          0.50     12
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The recorded properties of a real-time test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expected {
    /// In percent of one processor.
    pub(crate) load: u32,
    pub(crate) seconds: u32,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) binary: String,
    pub(crate) test: String,
    pub(crate) expected: Expected,
}

/// The whole table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Loads(Vec<Row>);

const ALL: &str = "*";
/// The name of the tests of a binary that are no real-time tests.
pub(crate) const PURE: &str = "-";

const HEADER: &str = "\
# The tests that use real processes, namespaces and real time: binary, test (* for all others of it), the processors
# that it uses on average, seconds; and with - the other tests of binaries that take long, to start these first.
# Written by: cargo run -p weir-test-runner -- --measured FILE

";

impl Loads {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty() && !line.starts_with('#'));
        lines
            .map(|(line, number)| row(line).map_err(|error| format!("line {number}: {error}")))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The binaries that have real-time tests.
    pub(crate) fn binaries(&self) -> Vec<&str> {
        let rows = self.0.iter().filter(|row| row.test != PURE);
        let mut names: Vec<&str> = rows.map(|row| row.binary.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The recorded properties of a test; `None` for one that is not a real-time test.
    pub(crate) fn of(&self, binary: &str, test: &str) -> Option<Expected> {
        let named = |name: &str| self.0.iter().find(|row| row.binary == binary && row.test == name);
        named(test).or_else(|| named(ALL)).map(|row| row.expected)
    }

    /// The duration of a binary's other tests; 0 if it is not recorded.
    pub(crate) fn pure_seconds(&self, binary: &str) -> u32 {
        let row = self.0.iter().find(|row| row.binary == binary && row.test == PURE);
        row.map_or(0, |row| row.expected.seconds)
    }

    /// The rows of real-time tests without a test among those of the built binaries.
    pub(crate) fn unmatched(&self, built: &BTreeMap<String, Vec<String>>) -> Vec<String> {
        let has = |row: &&Row| match built.get(&row.binary) {
            Some(tests) => row.test == ALL || tests.contains(&row.test),
            None => false,
        };
        let rows = self.0.iter().filter(|row| row.test != PURE && !has(row));
        rows.map(|Row { binary, test, .. }| format!("{binary} {test}")).collect()
    }

    /// This table with measured values; tests that were not measured keep theirs.
    pub(crate) fn with(&self, measured: &BTreeMap<(String, String), Expected>) -> Self {
        let key = |row: &Row| (row.binary.clone(), row.test.clone());
        let mut rows: BTreeMap<_, _> = self.0.iter().map(|row| (key(row), row.expected)).collect();
        rows.extend(measured.iter().map(|(key, expected)| (key.clone(), *expected)));
        let row = |((binary, test), expected)| Row { binary, test, expected };
        Self(rows.into_iter().map(row).collect())
    }

    /// The table as its file has it: rows for whole binaries, then tests, the longest first.
    pub(crate) fn text(&self) -> String {
        let mut rows: Vec<&Row> = self.0.iter().collect();
        rows.sort_by_key(|row| {
            let kind = [ALL, PURE].iter().position(|name| row.test == *name).unwrap_or(2);
            (kind, std::cmp::Reverse(row.expected.seconds), row.binary.clone(), row.test.clone())
        });
        let mut text = HEADER.to_owned();
        for Row { binary, test, expected } in rows {
            let load = f64::from(expected.load) / 100.0;
            // Infallible for a String.
            let _ = writeln!(text, "{binary:<22} {test:<76} {load:>5.2} {:>4}", expected.seconds);
        }
        text
    }
}

fn row(line: &str) -> Result<Row, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [binary, test, load, seconds] = words[..] else {
        return Err(format!("{} columns instead of binary, test, load and seconds", words.len()));
    };
    let load: f64 = load.parse().map_err(|_| format!("the load is {load}, not a number"))?;
    let load = (load * 100.0).round() as u32;
    let seconds = seconds.parse().map_err(|_| format!("{seconds} is not a number of seconds"))?;
    Ok(Row { binary: binary.to_owned(), test: test.to_owned(), expected: Expected { load, seconds } })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# comment\n\nweir/agent one 0.35 2\nweir/agent * 0.5 12\nweir-linux/traffic cost 1.5 9\n";

    #[test]
    fn a_test_of_its_own_line_comes_before_the_binarys() {
        let loads = Loads::parse(TEXT).unwrap();
        let of = |test| loads.of("weir/agent", test).unwrap();
        assert_eq!(of("one"), Expected { load: 35, seconds: 2 });
        assert_eq!(of("two"), Expected { load: 50, seconds: 12 });
        assert_eq!(loads.of("weir-linux/traffic", "cost").unwrap().load, 150);
        assert_eq!(loads.of("weir-linux/traffic", "other"), None);
        assert_eq!(loads.binaries(), ["weir-linux/traffic", "weir/agent"]);
    }

    #[test]
    fn measured_values_replace_earlier_ones_and_other_rows_stay() {
        let loads = Loads::parse(TEXT).unwrap();
        let measured = [(("weir/agent".to_owned(), "one".to_owned()), Expected { load: 40, seconds: 3 })];
        let again = Loads::parse(&loads.with(&measured.into()).text()).unwrap();
        assert_eq!(again.0.iter().map(|row| row.expected.seconds).collect::<Vec<_>>(), [12, 9, 3]);
        assert_eq!(again.of("weir/agent", "two"), loads.of("weir/agent", "two"));
    }

    #[test]
    fn durations_of_other_tests_make_no_real_time_tests() {
        let loads = Loads::parse(&format!("{TEXT}weir/sim - 0.97 43\n")).unwrap();
        assert_eq!((loads.pure_seconds("weir/sim"), loads.pure_seconds("weir/agent")), (43, 0));
        assert!(!loads.binaries().contains(&"weir/sim"));
        assert!(!loads.unmatched(&BTreeMap::new()).iter().any(|row| row.contains("weir/sim")));
    }

    #[test]
    fn rows_without_a_test_are_found() {
        let loads = Loads::parse(TEXT).unwrap();
        let built = |names: &[(&str, &[&str])]| {
            let row = |(binary, tests): &(&str, &[&str])| {
                ((*binary).to_owned(), tests.iter().map(|test| (*test).to_owned()).collect())
            };
            loads.unmatched(&names.iter().map(row).collect())
        };
        assert!(built(&[("weir/agent", &["one"]), ("weir-linux/traffic", &["cost"])]).is_empty());
        assert_eq!(built(&[("weir/agent", &["renamed"])]), ["weir/agent one", "weir-linux/traffic cost"]);
    }

    #[test]
    fn bad_lines_are_refused_with_their_number() {
        for (line, part) in [
            ("a b 0.1", "3 columns"),
            ("a b much 1", "the load is much"),
            ("a b 0.1 x", "x is not a number of seconds"),
        ] {
            let error = Loads::parse(&format!("# one\n{line}\n")).unwrap_err();
            assert!(error.starts_with("line 2: ") && error.contains(part), "{error}");
        }
    }
}
