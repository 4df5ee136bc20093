//! Tables that people supply as CSV: columns by name, and all mistakes with their lines.
//!
//! Problem: a list of a million flows has one wrong line, or a hundred. Approach: the table is read
//! row by row, never stored as text; a row gives its fields by column; mistakes are collected, up
//! to a readable number.
//!
//! Worked example: `src,dst` without `start_s` is refused once, at line 1; a later `7,7` at its own
//! line.

use std::fmt;
use std::io::{self, Read};
use weir_document::{nearest::nearest, quote};

/// The number of reported mistakes: more than a screen of them is unreadable.
const MOST_REPORTED: usize = 10;

/// One mistake in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowError {
    /// The line, from 1; `None` for the table as a whole.
    pub line: Option<u64>,
    /// The cause, in one clause without a final stop.
    pub cause: String,
    /// The hint.
    pub hint: String,
}

/// The reason why a table cannot be used: its first mistakes, in the order of their lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableError {
    /// At least one and at most ten mistakes.
    pub rows: Vec<RowError>,
    /// The number of omitted ones.
    pub left_out: u64,
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, row) in self.rows.iter().enumerate() {
            let separator = if i > 0 { "\n" } else { "" };
            let place = row.line.map(|line| format!("line {line}: ")).unwrap_or_default();
            write!(f, "{separator}{place}{} ({})", row.cause, row.hint)?;
        }
        if self.left_out > 0 {
            write!(f, "\nand {} more", self.left_out)?;
        }
        Ok(())
    }
}

impl std::error::Error for TableError {}

impl TableError {
    pub(crate) fn add(&mut self, line: Option<u64>, cause: impl Into<String>, hint: impl Into<String>) {
        if self.rows.len() < MOST_REPORTED {
            self.rows.push(RowError { line, cause: cause.into(), hint: hint.into() });
        } else {
            self.left_out += 1;
        }
    }
    pub(crate) fn finish<T>(mut self, value: T) -> Result<T, Self> {
        self.rows.sort_by_key(|row| row.line);
        if self.rows.is_empty() { Ok(value) } else { Err(self) }
    }
}

/// One wrong field of a row, before its line is known: cause and hint.
pub(crate) type FieldError = (String, String);

/// A CSV table with a head line.
pub(crate) struct Table<R> {
    reader: csv::Reader<io::Chain<R, &'static [u8]>>,
    columns: Vec<String>,
    record: csv::ByteRecord,
    line: u64,
}

impl<R: Read> Table<R> {
    /// Reads the head line. Spaces around fields do not count.
    pub(crate) fn open(input: R) -> Result<Self, TableError> {
        // Lines end in a line feed, also the last one; a carriage return before it is a space,
        // which is trimmed. So lines are counted alike for all line ends.
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .trim(csv::Trim::All)
            .terminator(csv::Terminator::Any(b'\n'))
            .from_reader(input.chain(&b"\n"[..]));
        let mut problems = TableError::default();
        let columns: Vec<String> = match reader.byte_headers() {
            Ok(head) => head.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect(),
            Err(error) => {
                add_csv(&mut problems, &error);
                Vec::new()
            }
        };
        if columns.iter().all(String::is_empty) && problems.rows.is_empty() {
            problems.add(None, "the table is empty", "name the columns in the first line");
        }
        problems.finish(Self { reader, columns, record: csv::ByteRecord::new(), line: 1 })
    }

    /// The position of a column, if it exists.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// The position of a required column. If it is missing, the mistake goes to `problems`.
    pub(crate) fn need(&self, name: &str, example: &str, problems: &mut TableError) -> usize {
        self.find(name).unwrap_or_else(|| {
            let hint = match self.columns.iter().find(|column| nearest(column, [name]).is_some()) {
                Some(near) => format!("rename {}", quote(near)),
                None => format!("the first line names the columns, for example `{example}`"),
            };
            problems.add(Some(1), format!("there is no column `{name}`"), hint);
            0
        })
    }

    /// Goes to the next row. `false` at the end, or when the input cannot be read further.
    pub(crate) fn advance(&mut self, problems: &mut TableError) -> bool {
        loop {
            match self.reader.read_byte_record(&mut self.record) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(error) => {
                    add_csv(problems, &error);
                    return false;
                }
            }
            // The position of a record is the start of the parser's search for it, so empty lines
            // before it would be counted wrongly. Its end is exact: behind the line feed, which
            // every line has.
            self.line = self.reader.position().line() - 1;
            if self.record.len() == 1 && self.record[0].is_empty() && self.columns.len() > 1 {
                // An empty line that ends in a carriage return.
                continue;
            }
            if self.record.len() == self.columns.len() {
                return true;
            }
            problems.add(
                Some(self.line),
                format!("the number of fields is {}, the first line names {}", self.record.len(), self.columns.len()),
                "separate the fields by commas, as many as there are columns",
            );
        }
    }

    /// The line of the row.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// The row's field in a column.
    pub(crate) fn field(&self, column: usize) -> &str {
        // A field that is not UTF-8 is no number and no host either, and is refused as such.
        std::str::from_utf8(self.record.get(column).unwrap_or_default()).unwrap_or("\u{fffd}")
    }

    /// The row's field as a whole number.
    pub(crate) fn whole(&self, column: usize, example: &str) -> Result<u64, FieldError> {
        let text = self.field(column);
        text.parse().map_err(|_| {
            (format!("{} is not a whole number", quote(text)), format!("for example `{example}`, below 2^64"))
        })
    }
}

fn add_csv(problems: &mut TableError, error: &csv::Error) {
    let line = error.position().map(csv::Position::line);
    problems.add(line, format!("the table cannot be read: {error}"), "give a readable file of lines with commas");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<(u64, String)> {
        let mut table = Table::open(text.as_bytes()).expect("a head line");
        let mut problems = TableError::default();
        let mut lines = Vec::new();
        while table.advance(&mut problems) {
            lines.push((table.line(), table.field(0).to_owned()));
        }
        assert_eq!(problems, TableError::default());
        lines
    }

    #[test]
    fn lines_are_counted_as_editors_do() {
        let expected =
            |numbers: [u64; 3]| numbers.into_iter().zip(["x", "y", "z"].map(String::from)).collect::<Vec<_>>();
        assert_eq!(lines("a,b\nx,1\ny,2\nz,3\n"), expected([2, 3, 4]));
        assert_eq!(lines("a,b\r\nx,1\r\ny,2\r\nz,3\r\n"), expected([2, 3, 4]));
        assert_eq!(lines("a,b\nx,1\n\n\ny,2\nz,3"), expected([2, 5, 6]));
        assert_eq!(lines("a,b\r\nx,1\r\n\r\n\r\ny,2\r\n\r\nz,3"), expected([2, 5, 7]));
        assert_eq!(lines("\u{feff}a , b\n x , 1\ny,2\nz,3\n"), expected([2, 3, 4]));
    }

    #[test]
    fn many_mistakes_are_counted_not_listed() {
        let text = format!("a,b\n{}", "x\n".repeat(100_000));
        let mut table = Table::open(text.as_bytes()).expect("a head line");
        let mut problems = TableError::default();
        assert!(!table.advance(&mut problems));
        assert_eq!((problems.rows.len(), problems.left_out), (10, 99_990));
        assert_eq!(problems.rows[9].line, Some(11));
    }
}
