//! Tables that people supply as CSV: columns by name, and all mistakes with their lines.
//!
//! Problem: a list of a million flows has one wrong line, or a hundred. Approach: the table is read
//! row by row, never stored as text; a row gives its fields by column; mistakes are collected, up
//! to a readable number. Fields may stand in quotes, as programs write them. Lines that begin with `#` are comments.
//!
//! A column of times has its unit in its name (`start_us`): a column is never renamed to one of
//! another unit, which would change every time of the table.
//!
//! Worked example: `src,dst` without a column of starts is refused once, at line 1; a later `7,7`
//! at its own line.
//!
//! Source: RFC 4180.

use crate::{diagnostic::quote, nearest::nearest};
use std::fmt;
use std::io::{self, Read};

/// The number of reported mistakes: more than a screen of them is unreadable.
const MOST_REPORTED: usize = 10;
/// Bytes of a line: rows of flows and messages are shorter, and a file without line ends must not fill the memory.
const MAX_LINE: usize = 1 << 16;

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
    /// Adds a mistake at a line, or in the table as a whole.
    pub fn add(&mut self, line: Option<u64>, cause: impl Into<String>, hint: impl Into<String>) {
        if self.rows.len() < MOST_REPORTED {
            self.rows.push(RowError { line, cause: cause.into(), hint: hint.into() });
        } else {
            self.left_out += 1;
        }
    }
    /// The value, if there is no mistake.
    ///
    /// # Errors
    /// The mistakes in the order of their lines.
    pub fn finish<T>(mut self, value: T) -> Result<T, Self> {
        self.rows.sort_by_key(|row| row.line);
        if self.rows.is_empty() { Ok(value) } else { Err(self) }
    }
}

/// One wrong field of a row, before its line is known: cause and hint.
pub type FieldError = (String, String);

/// A CSV table with a head line.
#[derive(Debug)]
pub struct Table<R> {
    reader: csv::Reader<BoundedLines<io::Chain<R, &'static [u8]>>>,
    columns: Vec<String>,
    record: csv::ByteRecord,
    line: u64,
}

/// An input that fails in a line that is too long, behind all bytes before that.
#[derive(Debug)]
struct BoundedLines<R> {
    input: R,
    /// Bytes since the last line end.
    bytes: usize,
}

impl<R: Read> Read for BoundedLines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let too_long = || io::Error::other(format!("a line is longer than {MAX_LINE} bytes"));
        if self.bytes > MAX_LINE {
            return Err(too_long());
        }
        let count = self.input.read(buffer)?;
        for (at, byte) in buffer[..count].iter().enumerate() {
            self.bytes = if *byte == b'\n' { 0 } else { self.bytes + 1 };
            if self.bytes > MAX_LINE {
                return if at == 0 { Err(too_long()) } else { Ok(at) };
            }
        }
        Ok(count)
    }
}

/// The units of times in names of columns: the end of the name, and the unit in seconds as a power of ten.
const TIME_UNITS: [(&str, i32); 5] = [("s", 0), ("ms", -3), ("us", -6), ("ns", -9), ("ps", -12)];

/// A column of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeColumn {
    /// The position of the column.
    pub index: usize,
    /// Its unit in seconds, as a power of ten: 0 for seconds, -12 for picoseconds.
    pub power: i32,
    /// The name of its unit, for messages: `s`, `ms`, `us`, `ns` or `ps`.
    pub unit: &'static str,
}

impl<R: Read> Table<R> {
    /// Reads the head line. Spaces around fields do not count.
    ///
    /// # Errors
    /// If there is none, or the input cannot be read.
    pub fn open(input: R) -> Result<Self, TableError> {
        // Lines end in a line feed, also the last one; a carriage return before it is a space,
        // which is trimmed. So lines are counted alike for all line ends.
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .has_headers(false)
            .comment(Some(b'#'))
            .trim(csv::Trim::All)
            .terminator(csv::Terminator::Any(b'\n'))
            .from_reader(BoundedLines { input: input.chain(&b"\n"[..]), bytes: 0 });
        let mut problems = TableError::default();
        let mut record = csv::ByteRecord::new();
        // The first line with a field in it; a carriage return alone is an empty field.
        loop {
            match reader.read_byte_record(&mut record) {
                Ok(true) if record.iter().all(<[u8]>::is_empty) => {}
                Ok(_) => break,
                Err(error) => {
                    add_csv(&mut problems, &error);
                    break;
                }
            }
        }
        let columns: Vec<String> = record.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        if columns.iter().all(String::is_empty) && problems.rows.is_empty() {
            problems.add(None, "the table is empty", "name the columns in the first line");
        }
        let line = reader.position().line().saturating_sub(1);
        problems.finish(Self { reader, columns, record, line })
    }

    /// The position of a column, if it exists.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// The position of a required column, before the first row. If it is missing, the mistake goes to `problems`.
    pub fn need(&self, name: &str, example: &str, problems: &mut TableError) -> usize {
        self.find(name).unwrap_or_else(|| {
            let near = |column: &&String| nearest(column, [name]).is_some() && unit_of(column) == unit_of(name);
            let hint = match self.columns.iter().find(near) {
                Some(near) => format!("rename {}", quote(near)),
                None => format!("the first line names the columns, for example `{example}`"),
            };
            problems.add(Some(self.line), format!("there is no column `{name}`"), hint);
            0
        })
    }

    /// The column of times whose name is one of `stems` with a unit: `start_s`, `start_ms`, `start_us`, `start_ns` or
    /// `start_ps`. `bare` is a name that means seconds. If there is none, or more than one, the mistake goes to
    /// `problems`.
    pub fn time_column(&self, stems: &[&str], bare: Option<&str>, problems: &mut TableError) -> TimeColumn {
        let with_unit = |stem: &&str| TIME_UNITS.map(|(unit, power)| (format!("{stem}_{unit}"), unit, power));
        let names: Vec<_> = stems.iter().flat_map(with_unit).collect();
        let seconds = bare.map(|name| (name.to_owned(), "s", 0));
        let found = names.iter().chain(&seconds).filter_map(|(name, unit, power)| {
            Some((name, TimeColumn { index: self.find(name)?, power: *power, unit }))
        });
        let found: Vec<_> = found.collect();
        match &*found {
            [(_, column)] => return *column,
            [(first, _), (second, _), ..] => {
                let cause = format!("there are both `{first}` and `{second}`");
                problems.add(Some(self.line), cause, "keep one of the columns");
            }
            [] => {
                let all = seconds.iter().chain(&names).map(|(name, ..)| &**name).collect::<Vec<_>>();
                let near = self.columns.iter().find(|column| {
                    nearest(column, all.iter().copied()).is_some_and(|near| unit_of(near) == unit_of(column))
                });
                let hint = match near {
                    Some(near) => format!("rename {}", quote(near)),
                    None => format!("columns of times are {}", all.join(", ")),
                };
                let name = all.first().copied().unwrap_or_default();
                problems.add(Some(self.line), format!("there is no column `{name}`"), hint);
            }
        }
        TimeColumn { index: 0, power: 0, unit: "s" }
    }

    /// Goes to the next row. `false` at the end, or when the input cannot be read further.
    pub fn advance(&mut self, problems: &mut TableError) -> bool {
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
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The row's field in a column.
    pub fn field(&self, column: usize) -> &str {
        // A field that is not UTF-8 is no number and no host either, and is refused as such.
        std::str::from_utf8(self.record.get(column).unwrap_or_default()).unwrap_or("\u{fffd}")
    }

    /// The row's field as a whole number.
    ///
    /// # Errors
    /// Anything else, and 2^64 and above.
    pub fn whole(&self, column: usize, example: &str) -> Result<u64, FieldError> {
        let text = self.field(column);
        text.parse().map_err(|_| {
            (format!("{} is not a whole number", quote(text)), format!("for example `{example}`, below 2^64"))
        })
    }
}

/// The unit at the end of a column's name, behind the last `_`, in the singular; `None` without one.
fn unit_of(name: &str) -> Option<&str> {
    let (_, unit) = name.rsplit_once('_')?;
    // `bytes`, but not `ms`.
    Some(if unit.len() > 2 { unit.strip_suffix('s').unwrap_or(unit) } else { unit })
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
    fn comments_are_skipped_and_counted() {
        let seen = lines("# made by a program, 2026\r\n#\na,b\n# one\nx,1\n\n# two, \"quoted\ny,\"#2\"\n#3");
        assert_eq!(seen, [(5, "x".to_owned()), (8, "y".to_owned())]);
        assert_eq!(lines("\u{feff}# mark\na,b\nx,1\n"), [(3, "x".to_owned())]);
    }

    #[test]
    fn quotes_do_not_count() {
        assert_eq!(lines("\"a\",\"b\"\n\"x\",1\n"), [(2, "x".to_owned())]);
        let table = Table::open(&b"\xef\xbb\xbf\"a\",\"b c\"\n"[..]).expect("a head line");
        assert_eq!((table.find("a"), table.find("b c")), (Some(0), Some(1)));
    }

    #[test]
    fn a_table_without_a_name_is_empty() {
        let refused = |text: &str| Table::open(text.as_bytes()).map(drop).unwrap_err().to_string();
        for text in ["", "\n\r\n", ",\n", "# a comment\n"] {
            assert_eq!(refused(text), "the table is empty (name the columns in the first line)", "{text:?}");
        }
    }

    #[test]
    fn a_column_of_times_has_a_unit() {
        let of = |head: &str| {
            let table = Table::open(head.as_bytes()).expect("a head line");
            let mut problems = TableError::default();
            let TimeColumn { index, power, unit } = table.time_column(&["start"], Some("time"), &mut problems);
            problems.finish(format!("{index} {power} {unit}")).unwrap_or_else(|error| error.to_string())
        };
        assert_eq!(of("src,start_s"), "1 0 s");
        assert_eq!(of("src,start_ns"), "1 -9 ns");
        assert_eq!(of("start_ps,src"), "0 -12 ps");
        assert_eq!(of("time"), "0 0 s");
        assert_eq!(of("start_ns,start_s"), "line 1: there are both `start_s` and `start_ns` (keep one of the columns)");
        assert_eq!(of("src,strat_us"), "line 1: there is no column `time` (rename `strat_us`)");
        let all = "columns of times are time, start_s, start_ms, start_us, start_ns, start_ps";
        for head in ["src", "start_min", "start"] {
            assert_eq!(of(head), format!("line 1: there is no column `time` ({all})"), "{head}");
        }
    }

    #[test]
    fn a_column_of_another_unit_is_not_renamed() {
        let need = |head: &str, name: &str| {
            let table = Table::open(head.as_bytes()).expect("a head line");
            let mut problems = TableError::default();
            table.need(name, "start_s,src", &mut problems);
            problems.rows.remove(0).hint
        };
        assert_eq!(need("strat_s", "start_s"), "rename `strat_s`");
        assert_eq!(need("packet", "packets"), "rename `packet`");
        assert_eq!(need("size_byte", "size_bytes"), "rename `size_byte`");
        let example = "the first line names the columns, for example `start_s,src`";
        assert_eq!(need("start_ns", "start_s"), example);
        assert_eq!(need("size_bits", "size_bytes"), example);
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let endless = io::repeat(b'x');
        let error = Table::open(endless).map(drop).unwrap_err().to_string();
        assert!(error.contains("a line is longer than 65536 bytes"), "{error}");
        let long = format!("a\n{}\nx\n", "y".repeat(MAX_LINE));
        assert_eq!(lines(&long).len(), 2);
        // The rows before it are read.
        let mut table = Table::open(io::Read::chain(&b"a\nx\n"[..], io::repeat(b'y'))).expect("a head line");
        let mut problems = TableError::default();
        assert!(table.advance(&mut problems) && problems.rows.is_empty());
        assert!(!table.advance(&mut problems) && problems.to_string().contains("longer than 65536 bytes"));
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
