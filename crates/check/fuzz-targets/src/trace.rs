//! Traces of times and sizes.

use crate::refusal::acts_on_a_terminal;
use std::io::BufReader;
use weir_latency::trace::ReadError;
use weir_latency::{Tag, Trace, TraceError, TraceQueue};
use weir_units::{Bandwidth, Duration, Quantile};

/// Services that a trace may name; a service's tag is its index.
const SERVICES: [&str; 3] = ["a", "web.search", "b"];
/// Messages above which no queue is computed: a fuzz case should take a millisecond.
const MOST_QUEUED: usize = 1_000;
/// Digits before nanoseconds above which a time is beyond 64 bits.
const MOST_DIGITS: i64 = 30;

fn tag(name: &str) -> Option<Tag> {
    SERVICES.iter().position(|known| *known == name).map(|index| Tag(index as u32))
}

/// Reads `data` as a trace. A refusal has its line in the text. A trace has the messages that a
/// second reader finds, which moves points in texts instead of counting in powers of ten, and a
/// queue gives it times that fall as the capacity rises. Returns whether it is accepted.
///
/// # Panics
/// If any of that does not hold: a finding.
pub fn trace(data: &[u8]) -> bool {
    let read = Trace::read(data, tag, &mut ());
    let slowly = Trace::read(BufReader::with_capacity(1, data), tag, &mut ());
    match (read, slowly) {
        (Ok(trace), Ok(slowly)) => {
            assert!(trace == slowly, "it matters how the bytes come: {trace:?} and {slowly:?}");
            let text = std::str::from_utf8(data).expect("what is accepted is text");
            let again = Trace::new(messages(text).expect("a second reader reads what is accepted"));
            assert!(again.as_ref() == Ok(&trace), "a second reader finds {again:?} instead of {trace:?}");
            queue(&trace);
            true
        }
        (Err(error), Err(slowly)) => {
            assert_eq!(format!("{error:?}"), format!("{slowly:?}"), "it matters how the bytes come");
            refused(&error, data)
        }
        (read, slowly) => panic!("it matters how the bytes come: {read:?} and {slowly:?}"),
    }
}

/// The messages of an accepted trace.
fn messages(text: &str) -> Option<Vec<(u64, u64, Option<Tag>)>> {
    let lines = text.strip_prefix('\u{feff}').unwrap_or(text).split('\n').map(str::trim);
    let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).peekable();
    let numeric = |field: &String| field.starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    let head = match lines.next_if(|line| !fields(line).first().is_some_and(numeric)) {
        Some(head) => fields(head),
        None => vec!["time".to_owned(), "size".to_owned()],
    };
    let column = |names: &[&str]| head.iter().position(|name| names.contains(&name.as_str()));
    let times = [
        (["time", "time_s", "start_s"], 0),
        (["time_ms", "start_ms", ""], 3),
        (["time_us", "start_us", ""], 6),
        (["time_ns", "start_ns", ""], 9),
        (["time_ps", "start_ps", ""], 12),
    ];
    let is_time = |name: &String| !name.is_empty() && times.iter().any(|(names, _)| names.contains(&name.as_str()));
    if head.iter().filter(|name| is_time(name)).count() != 1 {
        return None;
    }
    let time = head.iter().position(is_time)?;
    let (_, behind_second) = times.iter().find(|(names, _)| names.contains(&head[time].as_str()))?;
    let (size, service) = (column(&["size", "bytes"])?, column(&["service"]));
    let mut messages = Vec::new();
    for line in lines {
        let fields = fields(line);
        let name = service.and_then(|service| fields.get(service)).filter(|name| !name.is_empty());
        let at = nanos(fields.get(time)?, 9 - behind_second)?;
        let tag = match name {
            Some(name) => Some(tag(name)?),
            None => None,
        };
        messages.push((at, fields.get(size)?.parse().ok().filter(|bytes| *bytes > 0)?, tag));
    }
    Some(messages)
}

/// The fields of a line, character by character. A quote counts where a field starts; inside, two are one.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut quoted, mut starts) = (Vec::new(), String::new(), false, true);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.next_if_eq(&'"').is_some() => field.push('"'),
            '"' if quoted => quoted = false,
            '"' if starts => quoted = true,
            ',' if !quoted => {
                fields.push(std::mem::take(&mut field).trim().to_owned());
                starts = true;
                continue;
            }
            other => field.push(other),
        }
        starts = false;
    }
    fields.push(field.trim().to_owned());
    fields
}

/// A decimal number with its point moved `places` to the right, cut to an integer.
fn nanos(text: &str, places: i64) -> Option<u64> {
    let (number, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{part}");
    if digits.bytes().all(|digit| digit == b'0') {
        return (!digits.is_empty()).then_some(0);
    }
    let zeros = digits.len() - digits.trim_start_matches('0').len();
    let point = whole.len() as i64 + exponent.parse::<i64>().ok()? + places - zeros as i64;
    match point {
        ..=0 => Some(0),
        1..=MOST_DIGITS => format!("{:0<30}", &digits[zeros..])[..point as usize].parse().ok(),
        _ => None,
    }
}

/// Sends a trace through a queue.
fn queue(trace: &Trace) {
    assert!(trace.len() >= 2 && trace.span() > Duration::ZERO && !trace.offered().is_unlimited());
    if trace.len() > MOST_QUEUED {
        return;
    }
    let queue = TraceQueue::new(trace, Quantile::P99, &[]).expect("all messages are counted");
    assert_eq!(queue.counted(), trace.len() as u64);
    let rates = [1_000, 1_000_000, 10_000_000_000, Bandwidth::MAX.bps()].map(Bandwidth::from_bps);
    let times = rates.map(|rate| queue.completion_time(rate, &mut ()));
    for (rate, pair) in rates.iter().zip(times.windows(2)) {
        match (&pair[0], &pair[1]) {
            (Ok(slow), Ok(fast)) => {
                assert!(slow >= fast, "{slow} at {rate}, then {fast}");
                let enough = queue.smallest_capacity(*slow, &mut ());
                assert!(enough.is_ok_and(|enough| enough <= *rate), "{enough:?} for {slow}, which {rate} keeps");
            }
            (Err(TraceError::OutOfRange), _) => {}
            (slow, fast) => panic!("{slow:?} at {rate}, then {fast:?}"),
        }
    }
}

/// Checks the report of a refused trace. Returns `false`: not accepted.
fn refused(error: &ReadError, data: &[u8]) -> bool {
    let lines = data.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
    match error {
        ReadError::Line { line, cause, hint } => {
            assert!((1..=lines).contains(line), "line {line} of {lines}: {cause}");
            for words in [cause, hint] {
                assert!(!words.trim().is_empty(), "neither a cause nor a hint is empty");
                assert!(!words.contains(acts_on_a_terminal), "a control character in {words:?}");
            }
        }
        ReadError::Trace(error) => assert_eq!(*error, TraceError::TooShort),
        ReadError::Io(error) => panic!("bytes in memory cannot fail: {error}"),
    }
    false
}
