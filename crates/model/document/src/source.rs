//! A text with a name: reading it within limits, and finding lines and columns in it.
//!
//! Problem: a file may be missing, a directory, endless (`/dev/zero`), or not text at all, and
//! every such failure must be reported like any other mistake. Approach: read at most one byte more
//! than the limit, check the encoding and the control characters once, and keep the offsets of all
//! lines so that a position is a binary search away.
//!
//! Worked example: in `"a: é\nb: 1"` the byte offset 6 (the `b`) is line 2, column 1; the offset of
//! the end of `é` is line 1, column 5, since columns count characters and `é` is two bytes.

use crate::diagnostic::{Diagnostic, Diagnostics, printable};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// A part of a source: byte offsets, the end not included. Offsets count after a byte order mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset after the last byte; not before `start`.
    pub end: u32,
}

impl Span {
    /// The span from `start` to `end`; an `end` before `start` is moved to `start`.
    pub const fn new(start: u32, end: u32) -> Self {
        Self { start, end: if end < start { start } else { end } }
    }
    /// The span of `part`, which must be a slice of `whole` (not a copy); `None` otherwise.
    pub fn of_slice(whole: &str, part: &str) -> Option<Self> {
        let start = (part.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
        (start + part.len() <= whole.len()).then(|| Self::new(start as u32, (start + part.len()) as u32))
    }
}

/// A position for people: both count from 1, the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
}

/// A text with the name under which it is reported.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    name: String,
    text: String,
    /// Byte offset at which each line starts; never empty.
    line_starts: Vec<u32>,
}

/// The largest document, for any limit of its own: offsets are 32 bits.
const HARD_LIMIT: u64 = 1 << 31;

impl Source {
    /// A source from a text in memory. A byte order mark at its start is dropped.
    ///
    /// Texts of more than 2 GiB are cut: callers with such texts go through [`Source::from_bytes`],
    /// which refuses them.
    pub fn from_text(name: impl Into<String>, text: impl Into<String>) -> Arc<Self> {
        let mut text: String = text.into();
        if text.starts_with('\u{FEFF}') {
            text.drain(..'\u{FEFF}'.len_utf8());
        }
        if text.len() as u64 > HARD_LIMIT {
            let cut = text.floor_char_boundary(HARD_LIMIT as usize);
            text.truncate(cut);
        }
        Self::verbatim(name, text)
    }

    /// A source from a text that is short and has no byte order mark, or one that counts.
    pub(crate) fn verbatim(name: impl Into<String>, text: String) -> Arc<Self> {
        let mut line_starts = vec![0];
        line_starts.extend(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i as u32 + 1));
        // A path can contain characters that a terminal would interpret.
        Arc::new(Self { name: printable(name.into()), text, line_starts })
    }

    /// A source from bytes of a file, refused when larger than `limit` bytes or not UTF-8.
    pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>, limit: u64) -> Result<Arc<Self>, Diagnostics> {
        let name = name.into();
        let limit = limit.min(HARD_LIMIT);
        if bytes.len() as u64 > limit {
            return Err(whole_file(
                name,
                format!("the file is larger than the limit of {limit} bytes"),
                "split it, or write machines as ranges such as `m[1-100]`",
            ));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self::from_text(name, text)),
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let bytes = error.into_bytes();
                let byte = bytes[valid];
                // The bytes before are text, so that the mistake has a line and a column like any
                // other.
                let text = String::from_utf8_lossy(&bytes[..valid]).into_owned();
                let had_mark = text.starts_with('\u{FEFF}');
                let source = Self::from_text(name, text);
                let at = (valid - if had_mark { 3 } else { 0 }) as u32;
                Err(Diagnostics::one(Diagnostic::error(
                    &source,
                    Span::new(at, at),
                    format!("the file is not UTF-8: byte 0x{byte:02x} at offset {valid}"),
                    "save the file as UTF-8 text",
                )))
            }
        }
    }

    /// Reads a file of at most `limit` bytes. Never reads more than that, so an endless file is
    /// refused too.
    pub fn read(path: &Path, limit: u64) -> Result<Arc<Self>, Diagnostics> {
        let name = path.display().to_string();
        let cannot = |error: std::io::Error| {
            whole_file(name.clone(), format!("cannot read the file: {error}"), "check the path and its permissions")
        };
        let file = File::open(path).map_err(cannot)?;
        if file.metadata().map_err(cannot)?.is_dir() {
            return Err(whole_file(name, "this is a directory, not a file".to_owned(), "name the file inside it"));
        }
        let mut bytes = Vec::new();
        file.take(limit.min(HARD_LIMIT).saturating_add(1)).read_to_end(&mut bytes).map_err(cannot)?;
        Self::from_bytes(name, bytes, limit)
    }

    /// The name under which it is reported, usually a path.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The text, without a byte order mark.
    pub fn text(&self) -> &str {
        &self.text
    }
    /// The text of a span; empty where the span is outside.
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.start as usize..span.end as usize).unwrap_or("")
    }
    /// The line and column of a byte offset; offsets past the end are the end.
    pub fn position(&self, offset: u32) -> Position {
        let offset = self.text.floor_char_boundary(offset as usize);
        let line = self.line_starts.partition_point(|start| *start as usize <= offset).saturating_sub(1);
        let start = self.line_starts[line] as usize;
        Position { line: line + 1, column: self.text[start..offset].chars().count() + 1 }
    }
    /// The bytes of a line (from 1) without its end, and the offset of its start.
    pub(crate) fn line(&self, line: usize) -> Option<(u32, &str)> {
        let start = *self.line_starts.get(line.checked_sub(1)?)?;
        let end = self.line_starts.get(line).map_or(self.text.len(), |next| *next as usize - 1);
        Some((start, self.text[start as usize..end].trim_end_matches('\r')))
    }
    /// The first control character that no document may contain, with its offset. Tabs and line
    /// ends are allowed; all others that a terminal would interpret are not.
    pub(crate) fn control_character(&self) -> Option<(u32, char)> {
        let bytes = self.text.as_bytes();
        // Nearly every file has none: look at bytes first, at characters only where one may start.
        let suspicious = |b: u8| (b < 0x20 && b != b'\t' && b != b'\n') || b == 0x7f || b == 0xc2;
        bytes.iter().enumerate().filter(|(_, b)| suspicious(**b)).find_map(|(i, _)| {
            let c = self.text[i..].chars().next()?;
            let line_end = c == '\r' && bytes.get(i + 1) == Some(&b'\n');
            (c.is_control() && !line_end).then_some((i as u32, c))
        })
    }
}

/// A diagnostic about a file as a whole, which has no text to show.
fn whole_file(name: String, cause: String, hint: &str) -> Diagnostics {
    Diagnostics::one(Diagnostic::error(&Source::from_text(name, ""), Span::default(), cause, hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters() {
        let source = Source::from_text("x", "\u{FEFF}a: é\nb: 1");
        assert_eq!(source.text(), "a: é\nb: 1");
        assert_eq!(source.position(6), Position { line: 2, column: 1 });
        assert_eq!(source.position(5), Position { line: 1, column: 5 });
        assert_eq!(source.position(4), Position { line: 1, column: 4 }, "inside a character: its start");
        assert_eq!(source.position(999), Position { line: 2, column: 5 });
        assert_eq!(source.line(2), Some((6, "b: 1")));
        assert_eq!(source.line(3), None);
    }

    #[test]
    fn refuses_binary_content() {
        let error = Source::from_bytes("x", b"a: 1\nb: \xff".to_vec(), 100).unwrap_err();
        assert_eq!(error.all()[0].position(), Position { line: 2, column: 4 });
        assert_eq!(error.all()[0].cause(), "the file is not UTF-8: byte 0xff at offset 8");
        let error = Source::from_bytes("x", vec![b'a'; 11], 10).unwrap_err();
        assert_eq!(error.all()[0].cause(), "the file is larger than the limit of 10 bytes");
    }

    #[test]
    fn refuses_missing_and_endless_files() {
        let cause = |path: &str| Source::read(Path::new(path), 100).unwrap_err().all()[0].cause().to_owned();
        assert_eq!(cause("/"), "this is a directory, not a file");
        assert!(cause("/nonexistent/policy.yaml").starts_with("cannot read the file: "));
        if Path::new("/dev/zero").exists() {
            assert_eq!(cause("/dev/zero"), "the file is larger than the limit of 100 bytes");
        }
    }

    #[test]
    fn finds_control_characters() {
        let find = |text: &str| Source::from_text("x", text).control_character();
        assert_eq!(find("a\tb\r\nc é ©\n"), None);
        assert_eq!(find("a\0"), Some((1, '\0')));
        assert_eq!(find("a\rb"), Some((1, '\r')));
        assert_eq!(find("é\u{9b}"), Some((2, '\u{9b}')));
    }
}
