//! Spellings of units that people write and that are not accepted, with their exact meaning.
//!
//! Problem: `10KB/s` is ten kilobytes a second; the accepted unit that looks most like it, `kb/s`, is an eighth of
//! that. Approach: a unit is read as a prefix and a base, where `b` is never taken for `B`, and its meaning is a number
//! of base units. A spelling with two meanings gives both, with a note for each:
//!
//! | spelling | meanings |
//! |---|---|
//! | `KB/s`, `kBps`, `Kbyte/s` | kilobytes a second |
//! | `Mbps`, `Mbit`, `mb/s`, `Mbits/s` | megabits a second: nothing is slower than 1 b/s, so that `m` is mega |
//! | `mbps` | megabits a second; megabytes a second to `tc` |
//! | `Gib/s` | 2^30 bits a second |
//! | `G`, of a rate | gigabits, or gigabytes, a second |
//! | `kb`, of a size | kilobits, or kilobytes |
//! | `m`, of a time | minutes, or milliseconds |
//!
//! Sources: tc(8), "Units"; IEC 80000-13 for binary prefixes.

/// A meaning of a spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Alias {
    /// The size in base units, times `divisor`.
    pub(crate) multiplier: u64,
    /// See `multiplier`.
    pub(crate) divisor: u64,
    /// The difference from the other meanings; empty where it is the only one.
    pub(crate) note: &'static str,
}

const fn alias(multiplier: u64, divisor: u64, note: &'static str) -> Alias {
    Alias { multiplier, divisor, note }
}

/// Cuts a prefix of a unit off; 1 without one.
fn prefix(text: &str) -> (u64, &str) {
    const PREFIXES: &[(&str, u64)] = &[
        ("ki", 1 << 10),
        ("mi", 1 << 20),
        ("gi", 1 << 30),
        ("ti", 1 << 40),
        ("k", 1_000),
        ("m", 1_000_000),
        ("g", 1_000_000_000),
        ("t", 1_000_000_000_000),
    ];
    let found = PREFIXES.iter().find_map(|(prefix, factor)| {
        let (head, rest) = text.split_at_checked(prefix.len())?;
        head.eq_ignore_ascii_case(prefix).then_some((*factor, rest))
    });
    found.unwrap_or((1, text))
}

/// Whether a unit without its prefix and without `per second` is bits or bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    /// `b`
    Bits,
    /// `bit`, which never stands for bytes.
    BitsInFull,
    /// `B`
    Bytes,
    /// Nothing.
    Unknown,
}

fn base(text: &str) -> Option<Base> {
    match text {
        "b" => Some(Base::Bits),
        "B" => Some(Base::Bytes),
        "" => Some(Base::Unknown),
        _ => match &*text.to_ascii_lowercase() {
            "bit" | "bits" => Some(Base::BitsInFull),
            "byte" | "bytes" => Some(Base::Bytes),
            _ => None,
        },
    }
}

/// The meanings of a unit of a rate, in bits a second.
pub(crate) fn rate(text: &str) -> Vec<Alias> {
    let (factor, rest) = prefix(text);
    let per_second = ["/s", "ps", "/sec", "/second", "s"].into_iter().find_map(|end| {
        let (head, tail) = rest.split_at_checked(rest.len().checked_sub(end.len())?)?;
        // The plural of bit and byte has an s of its own.
        let plural = end == "s" && head.len() > 1;
        (tail.eq_ignore_ascii_case(end) && !plural).then_some((head, end))
    });
    let (rest, end) = per_second.unwrap_or((rest, ""));
    let Some(base) = base(rest) else { return Vec::new() };
    let (bits, bytes) = (alias(factor, 1, ""), alias(factor * 8, 1, ""));
    let of_tc = end == "ps" && !text.bytes().any(|b| b.is_ascii_uppercase());
    match base {
        Base::Bits if of_tc => vec![Alias { note: "bits", ..bits }, Alias { note: "bytes, as in tc", ..bytes }],
        Base::Bits | Base::BitsInFull => vec![bits],
        Base::Bytes => vec![bytes],
        // A number a second of nothing.
        Base::Unknown if factor == 1 || !end.is_empty() => Vec::new(),
        Base::Unknown => vec![Alias { note: "bits", ..bits }, Alias { note: "bytes", ..bytes }],
    }
}

/// The meanings of a unit of a size, in bytes.
pub(crate) fn size(text: &str) -> Vec<Alias> {
    let (factor, rest) = prefix(text);
    match base(rest) {
        Some(Base::Bits) => vec![alias(factor, 8, "from bits"), alias(factor, 1, "from bytes")],
        Some(Base::BitsInFull) => vec![alias(factor, 8, "")],
        Some(Base::Bytes) => vec![alias(factor, 1, "")],
        Some(Base::Unknown) if factor > 1 => vec![alias(factor, 1, "")],
        _ => Vec::new(),
    }
}

/// The meanings of a unit of a time, in nanoseconds.
pub(crate) fn time(text: &str) -> Vec<Alias> {
    const SECOND: u64 = 1_000_000_000;
    let lower = text.to_lowercase().replace('\u{3bc}', "\u{b5}");
    // A capital letter is a slip of the shift key: megaseconds are not in use.
    let one = match &*lower {
        "ps" | "psec" => return vec![alias(1, 1_000, "")],
        "m" => return vec![alias(60 * SECOND, 1, ""), alias(SECOND / 1_000, 1, "")],
        "ns" | "nsec" | "nsecs" | "nanosecond" | "nanoseconds" => 1,
        "us" | "\u{b5}s" | "u" | "usec" | "usecs" | "\u{b5}sec" | "microsecond" | "microseconds" => 1_000,
        "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => 1_000_000,
        "s" | "sec" | "secs" | "second" | "seconds" => SECOND,
        "min" | "mins" | "minute" | "minutes" => 60 * SECOND,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600 * SECOND,
        "d" | "day" | "days" => 86_400 * SECOND,
        "w" | "week" | "weeks" => 7 * 86_400 * SECOND,
        _ => return Vec::new(),
    };
    vec![alias(one, 1, "")]
}
