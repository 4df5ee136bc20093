//! Reading a transport's parameters from a scenario.
//!
//! A transport describes its keys once, as a [`Record`]; the same description checks the file and
//! gives this reader the kind of scalar of each key, so that ranges are written once. Values that
//! the check has refused are skipped silently; this reader reports only errors that involve several
//! values.
//!
//! Example: with `Key::optional("min-rto", TIME, ..)` in the record, `reader.time("min-rto", &mut
//! value)` sets `value` if the key is written, and leaves the default if it is not.

use weir_credits::Period;
use weir_document::scalar::{self, Scalar};
use weir_document::shape::{Record, Shape};
use weir_document::{Field, Node, Problems, Span};
use weir_units::{Bandwidth, Duration, SimTime};

/// The longest time that a parameter may be. Timeouts are counted in picoseconds, of which 64 bits
/// hold 213 days; an hour leaves room for every sum of them.
pub(crate) const LONGEST: Duration = Duration::from_secs(3600);

/// A time above zero.
pub(crate) const TIME: Shape = Shape::Scalar(&Scalar::Duration { zero: false });
/// A size above zero.
pub(crate) const SIZE: Shape = Shape::Scalar(&Scalar::Bytes);
/// A window in packets. RFC 7323 allows windows of 1 GiB, which is less than 2^20 full packets.
pub(crate) const PACKETS: Shape = Shape::Scalar(&Scalar::Integer { what: "a number of packets", min: 1, max: 1 << 20 });

const SWITCH_KEYWORDS: &[&str] = &["on", "off"];
/// `on` or `off`.
pub(crate) const SWITCH: Shape = Shape::Scalar(&Scalar::Words { what: "a switch", words: SWITCH_KEYWORDS });

/// Reads the keys of one record.
pub(crate) struct Reader<'a> {
    record: &'static Record,
    node: &'a Node,
    problems: &'a mut Problems,
    sound: bool,
}

impl<'a> Reader<'a> {
    /// A reader of `node`, which `record` describes.
    pub(crate) fn new(record: &'static Record, node: &'a Node, problems: &'a mut Problems) -> Self {
        Self { record, node, problems, sound: true }
    }

    /// The parameters, unless something is wrong with them, which has been reported.
    pub(crate) fn finish<T>(self, parameters: T) -> Option<T> {
        self.sound.then_some(parameters)
    }

    /// Reports a mistake.
    pub(crate) fn error(&mut self, span: Span, cause: impl Into<String>, hint: impl Into<String>) {
        self.sound = false;
        self.problems.error(span, cause, hint);
    }

    /// Reports a value that is allowed, and probably not intended.
    pub(crate) fn note(&mut self, span: Span, cause: impl Into<String>, hint: impl Into<String>) {
        self.problems.note(span, cause, hint);
    }

    /// The position of a key's value, or the whole record if the key is absent.
    pub(crate) fn span(&self, key: &str) -> Span {
        self.node.get(key).map_or(self.node.span, |node| node.span)
    }

    /// Whether a key is written.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.node.get(key).is_some()
    }

    /// The allowed values of a key.
    fn scalar(&self, key: &str) -> &'static Scalar {
        match self.record.keys.iter().find(|known| known.name == key).map(|known| known.shape) {
            Some(Shape::Scalar(scalar)) => scalar,
            _ => unreachable!("`{key}` is a scalar of {}", self.record.what),
        }
    }

    /// Records whether a value reads; the check has reported it if not.
    fn value<T: Copy>(&mut self, field: Field<T>) -> Option<T> {
        self.sound &= !field.is_bad();
        field.value()
    }

    /// Reads a time of at most [`LONGEST`].
    pub(crate) fn time(&mut self, key: &str, into: &mut SimTime) {
        let zero = matches!(self.scalar(key), Scalar::Duration { zero: true });
        let field = self.node.field(key, |text| scalar::time(text, zero));
        let Some(time) = self.value(field) else { return };
        if time > LONGEST {
            let span = self.span(key);
            return self.error(span, format!("the {key} {time} is longer than {LONGEST}"), "write a shorter time");
        }
        *into = time.into();
    }

    /// Reads a size of at most `most` bytes.
    pub(crate) fn size(&mut self, key: &str, most: u64, into: &mut u64) {
        let field = self.node.field(key, scalar::size);
        let Some(size) = self.value(field) else { return };
        if size.get() > most {
            let span = self.span(key);
            return self.error(
                span,
                format!("the {key} {size} is larger than {most} B"),
                format!("write at most `{most}B`"),
            );
        }
        *into = size.get();
    }

    /// Reads a whole number; the record's range must fit in 32 bits.
    pub(crate) fn number(&mut self, key: &str, into: &mut u32) {
        let Scalar::Integer { what, min, max } = *self.scalar(key) else {
            unreachable!("`{key}` is a number of {}", self.record.what)
        };
        let field = self.node.field(key, |text| scalar::integer(text, what, min, max));
        if let Some(number) = self.value(field) {
            *into = u32::try_from(number).unwrap_or_else(|_| unreachable!("{number} is in the record's range"));
        }
    }

    /// Reads a decimal number.
    pub(crate) fn decimal(&mut self, key: &str, into: &mut f64) {
        let Scalar::Decimal { what, min, max } = *self.scalar(key) else {
            unreachable!("`{key}` is a decimal number of {}", self.record.what)
        };
        let field = self.node.field(key, |text| scalar::decimal(text, what, min, max));
        if let Some(millionths) = self.value(field) {
            // Exact for every number that is written: both have fewer than 53 bits, and the
            // quotient is rounded once.
            *into = millionths as f64 / scalar::MILLION as f64;
        }
    }

    /// Reads `on` or `off`.
    pub(crate) fn switch(&mut self, key: &str, into: &mut bool) {
        let field = self.node.field(key, |text| scalar::word(text, "", SWITCH_KEYWORDS));
        if let Some(word) = self.value(field) {
            *into = word == 0;
        }
    }

    /// Reads a rate.
    pub(crate) fn rate(&mut self, key: &str, into: &mut Bandwidth) {
        let zero = matches!(self.scalar(key), Scalar::Rate { zero: true, .. });
        let field = self.node.field(key, |text| scalar::rate(text, false, zero));
        if let Some(rate) = self.value(field) {
            *into = rate;
        }
    }

    /// Reads a time as a period of whole microseconds.
    pub(crate) fn period(&mut self, key: &str, into: &mut Period) {
        let mut time = into.duration().into();
        self.time(key, &mut time);
        let nanos = time.duration().nanos();
        if nanos % 1_000 != 0 {
            let span = self.span(key);
            return self.error(span, format!("the {key} is not a whole number of microseconds"), "write `200us`");
        }
        // An hour, the longest time of a key, is below 2³² µs.
        *into = Period::from_micros((nanos / 1_000) as u32);
    }

    /// Reads one of the words of a key, as the value that `of` gives for its index.
    pub(crate) fn word<T>(&mut self, key: &str, into: &mut T, of: impl Fn(usize) -> T) {
        let Scalar::Words { what, words } = *self.scalar(key) else {
            unreachable!("`{key}` is a word of {}", self.record.what)
        };
        let field = self.node.field(key, |text| scalar::word(text, what, words));
        if let Some(word) = self.value(field) {
            *into = of(word);
        }
    }
}
