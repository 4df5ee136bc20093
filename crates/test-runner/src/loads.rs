//! The table of real-time tests: which they are, what each uses of a processor, and how long it takes.
//!
//! One line for each test: binary, test, load and seconds. `*` stands for all tests of a binary
//! that have no line of their own. A load is the number of processors that a test uses on average.
//!
//! ```text
//! weir/agent    sigterm_restores_the_host    0.35      2
//! weir/lab      *                                          0.50     12
//! ```

use std::fmt::Write as _;

/// What is known of a real-time test before it runs.
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
        let mut names: Vec<&str> = self.0.iter().map(|row| row.binary.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// What is expected of a test; `None` for one that is not a real-time test.
    pub(crate) fn of(&self, binary: &str, test: &str) -> Option<Expected> {
        let named = |name: &str| self.0.iter().find(|row| row.binary == binary && row.test == name);
        named(test).or_else(|| named(ALL)).map(|row| row.expected)
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

/// The rows as the table has them, the longest test first.
pub(crate) fn text(rows: &[Row]) -> String {
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by(|a, b| {
        let key = |row: &Row| (std::cmp::Reverse(row.expected.seconds), row.binary.clone(), row.test.clone());
        key(a).cmp(&key(b))
    });
    let mut text = String::new();
    for Row { binary, test, expected } in rows {
        let load = f64::from(expected.load) / 100.0;
        // Infallible for a String.
        let _ = writeln!(text, "{binary:<24} {test:<76} {load:>5.2} {:>4}", expected.seconds);
    }
    text
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
    fn what_is_written_is_read_again() {
        let loads = Loads::parse(TEXT).unwrap();
        let again = Loads::parse(&text(&loads.0)).unwrap();
        assert_eq!(again.0.iter().map(|row| row.expected.seconds).collect::<Vec<_>>(), [12, 9, 2]);
        assert_eq!(again.of("weir/agent", "one"), loads.of("weir/agent", "one"));
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
