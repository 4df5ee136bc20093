//! Reading a trace: a table of times and sizes, as a stream.
//!
//! Problem: traces have tens of millions of lines and come from any tool. Approach: one pass over
//! lines, 16 bytes kept of each, the first mistake ends it with its line. A head line names the
//! columns; without one the first two are the time and the size.
//!
//! | column | meaning |
//! |---|---|
//! | `time`, `time_s` or `start_s` | the arrival in seconds, decimal; cut to nanoseconds |
//! | `time_ms` or `start_ms`, also `_us`, `_ns`, `_ps` | the same in milliseconds to picoseconds |
//! | `size` or `bytes` | bytes, a whole number above zero |
//! | `service` | optional: the message's service; empty for other traffic at the same queue |
//!
//! in any order; other columns are not read, so that a simulated run's `flows.csv` is a trace too.
//! Empty lines and lines that start with `#` are skipped. Fields may have quotes, as RFC 4180 has them;
//! the parser is that of the other tables. It reads one line at a time, so that a quote that is not
//! closed is refused at its line.
//!
//! Worked example: `0.000001,1500` is a message of 1500 bytes after a microsecond.

use super::{Arrival, LOOK, Tag, Trace, TraceError, Watch, add};
use csv_core::ReadRecordResult;
use std::io::{self, BufRead};

/// The reason why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A line is wrong.
    #[error("line {line}: {cause}")]
    Line {
        /// The line, from 1.
        line: u64,
        /// The cause.
        cause: String,
        /// The hint.
        hint: String,
    },
    /// The lines are sound, but there are too few.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The file or the pipe failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Bytes of a line: no table of times and sizes has longer ones.
const MAX_LINE: u64 = 4096;

/// The positions of the columns.
struct Columns {
    time: usize,
    unit: TimeUnit,
    size: usize,
    service: Option<usize>,
}

/// The unit of times.
#[derive(Clone, Copy)]
struct TimeUnit {
    /// Seconds times ten to this power.
    power: i32,
    /// The end of a column's name, behind `time` or `start`.
    suffix: &'static str,
    name: &'static str,
}

const SECONDS: TimeUnit = TimeUnit { power: 0, suffix: "_s", name: "seconds" };
const UNITS: [TimeUnit; 5] = [
    SECONDS,
    TimeUnit { power: -3, suffix: "_ms", name: "milliseconds" },
    TimeUnit { power: -6, suffix: "_us", name: "microseconds" },
    TimeUnit { power: -9, suffix: "_ns", name: "nanoseconds" },
    TimeUnit { power: -12, suffix: "_ps", name: "picoseconds" },
];

/// Digits before a time's point: the latest time of 64 bits of nanoseconds has as many in
/// picoseconds.
const MAX_WHOLE: usize = 23;

const FIRST_TWO: Columns = Columns { time: 0, unit: SECONDS, size: 1, service: None };
const HINT: &str = "write `time,size` in seconds and bytes, for example `0.000125,1500`";
const OTHER_UNITS: &str = "times in other units have columns `time_ms`, `time_us`, `time_ns` or `time_ps`";

impl Trace {
    /// Reads a trace. `tag` gives the tag of a service's name, or `None` if there is no such
    /// service.
    ///
    /// # Errors
    /// The first line that is wrong; too few messages; an error of the input.
    /// [`TraceError::Stopped`] if `watch` requests it.
    pub fn read(
        mut input: impl BufRead,
        mut tag: impl FnMut(&str) -> Option<Tag>,
        watch: &mut impl Watch,
    ) -> Result<Self, ReadError> {
        let (mut arrivals, mut tags) = (Vec::new(), Vec::new());
        let (mut columns, mut fields) = (None, Fields::new());
        let mut buffer = Vec::new();
        let mut line = 0;
        loop {
            buffer.clear();
            if io::Read::take(&mut input, MAX_LINE).read_until(b'\n', &mut buffer)? == 0 {
                break;
            }
            line += 1;
            let refuse = |(cause, hint): (String, String)| ReadError::Line { line, cause, hint };
            if buffer.len() as u64 == MAX_LINE && buffer.last() != Some(&b'\n') {
                return Err(refuse((format!("the line is longer than {MAX_LINE} bytes"), HINT.to_owned())));
            }
            let text =
                std::str::from_utf8(&buffer).map_err(|_| refuse(("it is no text".to_owned(), HINT.to_owned())))?;
            // A byte order mark may start the file.
            let text = if line == 1 { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text }.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            fields.split(text).map_err(refuse)?;
            let at = match &columns {
                Some(columns) => columns,
                None => {
                    let head = head(&fields).map_err(refuse)?;
                    let is_head = head.is_some();
                    let found = columns.insert(head.unwrap_or(FIRST_TWO));
                    if is_head {
                        continue;
                    }
                    found
                }
            };
            let (arrival, name) = message(&fields, at).map_err(refuse)?;
            let tag = match name {
                "" => None,
                name => Some(tag(name).ok_or_else(|| {
                    let hint = "name a service of the policy, or leave the field empty for other traffic";
                    refuse((format!("there is no service `{}`", shown(name)), hint.to_owned()))
                })?),
            };
            add(&mut arrivals, &mut tags, arrival, tag);
            if arrivals.len() % LOOK == 0 && watch.rows(arrivals.len() as u64, 0).is_break() {
                return Err(TraceError::Stopped.into());
            }
        }
        Ok(Self::sorted(arrivals, tags)?)
    }
}

type Refused = (String, String);

/// The fields of a line, with room for those of the longest line.
struct Fields {
    parser: csv_core::Reader,
    text: Vec<u8>,
    ends: Vec<usize>,
    /// The number of fields.
    count: usize,
}

impl Fields {
    fn new() -> Self {
        // A field has an end and, but for the last one, a comma.
        let room = MAX_LINE as usize + 1;
        // A carriage return inside a line is text.
        let parser = csv_core::ReaderBuilder::new().terminator(csv_core::Terminator::Any(b'\n')).build();
        let mut fields = Self { parser, text: vec![0; room], ends: vec![0; room], count: 0 };
        // The parser skips a byte order mark before its first line; that of the file is skipped already.
        let _ = fields.parser.read_record(b"\n", &mut fields.text, &mut fields.ends);
        fields
    }

    /// Splits a line that is not empty.
    fn split(&mut self, line: &str) -> Result<(), Refused> {
        let (_, _, written, ended) = self.parser.read_record(line.as_bytes(), &mut self.text, &mut self.ends);
        // Inside quotes a line feed is text, elsewhere it ends the record.
        let (text, ends) = (&mut self.text[written..], &mut self.ends[ended..]);
        let (result, _, _, more) = self.parser.read_record(b"\n", text, ends);
        self.count = ended + more;
        if matches!(result, ReadRecordResult::Record) {
            return Ok(());
        }
        Err(("a quote is not closed on its line".to_owned(), "close it, or write `\"\"` for a quote".to_owned()))
    }

    /// A field without its quotes and the spaces around it.
    fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends[..self.count].get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        // Commas and quotes are of one byte, so all parts of a text are texts.
        std::str::from_utf8(&self.text[start..end]).ok().map(str::trim)
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        (0..self.count).map_while(|index| self.get(index))
    }
}

/// The columns that a head line names; `None` if the line is no head but starts with a number.
fn head(names: &Fields) -> Result<Option<Columns>, Refused> {
    if names.get(0).is_some_and(|name| name.starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == '-')) {
        return Ok(None);
    }
    let find = |known: &[&str]| names.all().position(|name| known.contains(&name));
    let missing = |what: &str| {
        let found: Vec<String> = names.all().take(8).map(|name| format!("`{}`", shown(name))).collect();
        let hint = format!("its columns are {}; name them `time,size`; {OTHER_UNITS}", found.join(", "));
        (format!("the head line has no column `{what}`"), hint)
    };
    let mut times = names.all().enumerate().filter_map(|(index, name)| Some((index, name, unit(name)?)));
    let (time, name, unit) = times.next().ok_or_else(|| missing("time"))?;
    if let Some((_, other, _)) = times.next() {
        return Err((format!("there are both `{name}` and `{other}`"), "keep one of these columns".to_owned()));
    }
    let size = find(&["size", "bytes"]).ok_or_else(|| missing("size"))?;
    Ok(Some(Columns { time, unit, size, service: find(&["service"]) }))
}

/// The unit of a column of times; `None` for other columns.
fn unit(column: &str) -> Option<TimeUnit> {
    let suffix = column.strip_prefix("time").or_else(|| column.strip_prefix("start"))?;
    match suffix {
        "" if column == "time" => Some(SECONDS),
        suffix => UNITS.into_iter().find(|unit| unit.suffix == suffix),
    }
}

/// A line as a message and its service's name.
fn message<'a>(fields: &'a Fields, columns: &Columns) -> Result<(Arrival, &'a str), Refused> {
    let service = columns.service.and_then(|index| fields.get(index)).unwrap_or_default();
    let (Some(time), Some(size)) = (fields.get(columns.time), fields.get(columns.size)) else {
        return Err(("a field is missing".to_owned(), HINT.to_owned()));
    };
    let at = nanos(time, columns.unit.power).ok_or_else(|| {
        let (time_is, unit) = (shown(time), columns.unit.name);
        match !time.is_empty() && time.bytes().all(|b| b.is_ascii_digit()) {
            true => (format!("`{time_is}` {unit} are more than the 584 years that are read"), OTHER_UNITS.to_owned()),
            false => {
                (format!("`{time_is}` is not a time in {unit}"), "zero or more, for example `0.000125`".to_owned())
            }
        }
    })?;
    let bytes: u64 = match size.parse() {
        Ok(bytes) if bytes > 0 && size.bytes().all(|b| b.is_ascii_digit()) => bytes,
        _ => {
            let hint = "a whole number of bytes above zero, for example `1500`".to_owned();
            return Err((format!("`{}` is not a size in bytes", shown(size)), hint));
        }
    };
    Ok((Arrival { at, bytes }, service))
}

/// A decimal number of seconds times ten to the `unit` in nanoseconds, cut. An exponent (`1.5e-05`)
/// is read too, since many tools write small times so.
fn nanos(text: &str, unit: i32) -> Option<u64> {
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && part.is_empty()) || !digits(whole) || !digits(part) || whole.len() > MAX_WHOLE {
        return None;
    }
    // The first digit after the point is 10^8 nanoseconds.
    let power = |exponent: i32| 10u128.checked_pow(u32::try_from(exponent).ok()?);
    let mut nanos = 0u128;
    for (index, digit) in whole.bytes().chain(part.bytes()).enumerate() {
        let before_point = i32::try_from(whole.len()).ok()?.checked_sub(i32::try_from(index).ok()?)?;
        let power_of_ten = before_point.checked_add(8)?.checked_add(exponent)?.checked_add(unit)?;
        match (digit - b'0', power_of_ten) {
            (0, _) => {}
            // Below a nanosecond: cut.
            (_, ..0) => break,
            (digit, own) => nanos = nanos.checked_add(u128::from(digit).checked_mul(power(own)?)?)?,
        }
    }
    u64::try_from(nanos).ok()
}

/// A field in a message, cut to fit, with characters that a terminal would interpret (control
/// characters, and marks that turn the direction of text) written out.
fn shown(field: &str) -> String {
    let turns = |c| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let safe = |c: char| if c.is_control() || turns(c) { c.escape_unicode().collect() } else { vec![c] };
    field.chars().take(40).flat_map(safe).collect()
}
