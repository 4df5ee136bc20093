//! Reading a trace: a table of times and sizes, as a stream.
//!
//! Problem: traces have tens of millions of lines and come from any tool. Approach: one pass over
//! lines, 16 bytes kept of each, the first mistake ends it with its line. A head line names the
//! columns; without one the first two are the time and the size.
//!
//! | column | meaning |
//! |---|---|
//! | `time` or `start_s`, or `start_ps` | the arrival in seconds, or picoseconds, decimal; cut to nanoseconds |
//! | `size` or `bytes` | bytes, a whole number above zero |
//! | `service` | optional: the message's service; empty for other traffic at the same queue |
//!
//! in any order; other columns are not read, so that a simulated run's `flows.csv` is a trace too.
//! Empty lines and lines that start with `#` are skipped. No field needs quotes, so quotes are
//! refused.
//!
//! Worked example: `0.000001,1500` is a message of 1500 bytes after a microsecond.

use super::{Arrival, LOOK, Tag, Trace, TraceError, Watch, add};
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
    /// The time's unit: seconds times ten to this power.
    unit: i32,
    size: usize,
    service: Option<usize>,
}

/// Digits before a time's point: the latest time of 64 bits of nanoseconds has as many in
/// picoseconds.
const MAX_WHOLE: usize = 23;

const FIRST_TWO: Columns = Columns { time: 0, unit: 0, size: 1, service: None };
const HINT: &str = "write `time,size` in seconds and bytes, for example `0.000125,1500`";

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
        let mut columns = None;
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
            let at = match &columns {
                Some(columns) => columns,
                None => {
                    let head = head(text).map_err(refuse)?;
                    let is_head = head.is_some();
                    let found = columns.insert(head.unwrap_or(FIRST_TWO));
                    if is_head {
                        continue;
                    }
                    found
                }
            };
            let (arrival, name) = message(text, at).map_err(refuse)?;
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

/// The columns that a head line names; `None` if the line is no head but starts with a number.
fn head(text: &str) -> Result<Option<Columns>, Refused> {
    if text.starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == '-') {
        return Ok(None);
    }
    let names: Vec<&str> = text.split(',').map(str::trim).collect();
    let find = |known: &[&str]| names.iter().position(|name| known.contains(name));
    let missing = |what: &str| {
        (format!("the head line has no column `{what}`"), format!("name the columns, for example `time,size`; {HINT}"))
    };
    let seconds = find(&["time", "start_s"]).map(|index| (index, 0));
    let picoseconds = || find(&["start_ps"]).map(|index| (index, -12));
    let (time, unit) = seconds.or_else(picoseconds).ok_or_else(|| missing("time"))?;
    let size = find(&["size", "bytes"]).ok_or_else(|| missing("size"))?;
    Ok(Some(Columns { time, unit, size, service: find(&["service"]) }))
}

/// A line as a message and its service's name.
fn message<'a>(text: &'a str, columns: &Columns) -> Result<(Arrival, &'a str), Refused> {
    let (mut time, mut size, mut service) = (None, None, "");
    for (index, field) in text.split(',').enumerate() {
        if index == columns.time {
            time = Some(field.trim());
        } else if index == columns.size {
            size = Some(field.trim());
        } else if Some(index) == columns.service {
            service = field.trim();
        }
    }
    let (Some(time), Some(size)) = (time, size) else {
        return Err(("a field is missing".to_owned(), HINT.to_owned()));
    };
    let at = nanos(time, columns.unit).ok_or_else(|| {
        let unit = if columns.unit == 0 { "seconds" } else { "picoseconds" };
        (format!("`{}` is not a time in {unit}", shown(time)), "zero or more, for example `0.000125`".to_owned())
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
