//! Diagnostics: a position, a cause and a hint; and the list of them that a reader collects.
//!
//! Problem: a reader that stops at the first mistake must be run once per mistake. Approach: every
//! layer adds to one [`Problems`] and continues with the sound part; at the end,
//! [`Problems::finish`] gives the value or all mistakes in the order in which the file is read.
//!
//! Worked example: `Problems::error(span, "`10` has no unit", "write the unit, for example
//! `10Gb/s`")` at line 3, column 8 of `policy.yaml` prints
//!
//! ```text
//! error: `10` has no unit
//!  --> policy.yaml:3:8
//!   |
//! 3 |   nic: 10
//!   |        ^^
//!   = help: write the unit, for example `10Gb/s`
//! ```
//!
//! Causes quote the file. A quoted YAML string can contain any character, so control characters are
//! written as escapes before they reach a terminal, and long texts are cut.

use crate::render;
use crate::source::{Position, Source, Span};
use std::fmt;
use std::sync::Arc;

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The document is refused.
    Error,
    /// The document is accepted, with a remark.
    Note,
}

impl Severity {
    /// `error` or `note`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Note => "note",
        }
    }
}

/// One report about a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    source: Arc<Source>,
    severity: Severity,
    span: Span,
    cause: String,
    hint: String,
    label: Option<Label>,
    fix: Option<(Span, String)>,
}

/// A second position that explains the first, perhaps of another source.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Label {
    source: Arc<Source>,
    span: Span,
    text: String,
}

/// The longest cause or hint, in bytes.
const MAX_TEXT: usize = 800;

impl Diagnostic {
    /// A mistake at `span`. `cause` and `hint` are clauses without a final stop.
    pub fn error(source: &Arc<Source>, span: Span, cause: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            source: Arc::clone(source),
            severity: Severity::Error,
            span,
            cause: clean(cause.into(), MAX_TEXT),
            hint: clean(hint.into(), MAX_TEXT),
            label: None,
            fix: None,
        }
    }
    /// A remark at `span`.
    pub fn note(source: &Arc<Source>, span: Span, cause: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { severity: Severity::Note, ..Self::error(source, span, cause, hint) }
    }
    /// Adds a second position of the same source that explains the first.
    #[must_use]
    pub fn with_label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.label = Some(Label { source: Arc::clone(&self.source), span, text: clean(text.into(), MAX_TEXT) });
        self
    }
    /// Adds a text that, in place of the one at `span`, is a correction: what the hint suggests, and nothing else.
    #[must_use]
    pub fn with_fix(mut self, span: Span, text: impl Into<String>) -> Self {
        self.fix = Some((span, text.into()));
        self
    }
    /// The document.
    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }
    /// The document's name, usually its path.
    pub fn file(&self) -> &str {
        self.source.name()
    }
    /// Its severity.
    pub fn severity(&self) -> Severity {
        self.severity
    }
    /// Its position, in bytes.
    pub fn span(&self) -> Span {
        self.span
    }
    /// Its start, for people.
    pub fn position(&self) -> Position {
        self.source.position(self.span.start)
    }
    /// The cause.
    pub fn cause(&self) -> &str {
        &self.cause
    }
    /// The hint.
    pub fn hint(&self) -> &str {
        &self.hint
    }
    /// The second position, with its document and its text.
    pub fn label(&self) -> Option<(&Arc<Source>, Span, &str)> {
        self.label.as_ref().map(|label| (&label.source, label.span, label.text.as_str()))
    }
    /// A text, and the position of the text of this document that it corrects.
    pub fn fix(&self) -> Option<(Span, &str)> {
        self.fix.as_ref().map(|(span, text)| (*span, text.as_str()))
    }
    /// For programs: `{"severity", "file", "line", "column", "cause", "hint"}`, and where the hint suggests one text,
    /// `"fix": {"line", "column", "length", "text"}`: the text, and the position and the characters that it replaces.
    pub fn to_json(&self) -> serde_json::Value {
        let Position { line, column } = self.position();
        let mut json = serde_json::json!({
            "severity": self.severity.name(),
            "file": self.file(),
            "line": line,
            "column": column,
            "cause": self.cause,
            "hint": self.hint,
        });
        if let Some((span, text)) = &self.fix {
            let Position { line, column } = self.source.position(span.start);
            let length = self.source.slice(*span).chars().count();
            json["fix"] = serde_json::json!({ "line": line, "column": column, "length": length, "text": text });
        }
        json
    }
    /// For people: with the lines of its positions. Without colour nothing is missing.
    pub fn render(&self, colour: bool) -> String {
        render::render(std::slice::from_ref(self), 0, colour)
    }
}

/// A list of errors with at least one member, in reading order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    /// Errors beyond the ones kept.
    dropped: usize,
}

impl Diagnostics {
    /// A list of one.
    pub fn one(diagnostic: Diagnostic) -> Self {
        Self { list: vec![diagnostic], dropped: 0 }
    }
    /// All that were kept: a file with very many mistakes keeps the first [`Problems::KEPT`].
    pub fn all(&self) -> &[Diagnostic] {
        &self.list
    }
    /// The number of errors, kept or not; at least 1.
    pub fn count(&self) -> usize {
        self.list.len() + self.dropped
    }
    /// Adds the errors of another document behind these.
    pub fn merge(&mut self, other: Self) {
        self.list.extend(other.list);
        self.dropped += other.dropped;
    }
    /// For people: the first [`Diagnostics::SHOWN`], then the number of the others.
    pub fn render(&self, colour: bool) -> String {
        let shown = &self.list[..self.list.len().min(Self::SHOWN)];
        render::render(shown, self.count() - shown.len(), colour)
    }
    /// For programs: an array of [`Diagnostic::to_json`].
    pub fn to_json(&self) -> serde_json::Value {
        self.list.iter().map(Diagnostic::to_json).collect()
    }
    /// The number of printed errors: a screen or two, after which people fix and run again.
    pub const SHOWN: usize = 50;
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

/// Collects the mistakes of one document.
#[derive(Debug)]
pub struct Problems {
    source: Arc<Source>,
    list: Vec<Diagnostic>,
    notes: Vec<Diagnostic>,
    dropped: usize,
    /// Settings from outside, each from an offset of its own on, which lies behind the document's
    /// end.
    settings: Vec<(u32, Arc<Source>)>,
}

impl Problems {
    /// How many errors are kept. More are counted only, so that a hostile file cannot fill the
    /// memory.
    pub const KEPT: usize = 1_000;

    /// No mistake yet.
    pub fn new(source: &Arc<Source>) -> Self {
        Self { source: Arc::clone(source), list: Vec::new(), notes: Vec::new(), dropped: 0, settings: Vec::new() }
    }
    /// The document.
    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }
    /// Reports a mistake.
    pub fn error(&mut self, span: Span, cause: impl Into<String>, hint: impl Into<String>) {
        if self.is_full() {
            self.dropped += 1;
        } else {
            self.list.push(Diagnostic::error(&self.source, span, cause, hint));
        }
    }
    /// Reports a mistake with the text that corrects it, as it stands in a document; see [`Diagnostic::with_fix`].
    pub fn error_with_fix(
        &mut self,
        span: Span,
        cause: impl Into<String>,
        hint: impl Into<String>,
        (at, text): (Span, String),
    ) {
        if self.is_full() {
            self.dropped += 1;
        } else {
            self.list.push(Diagnostic::error(&self.source, span, cause, hint).with_fix(at, text));
        }
    }
    /// Reports a mistake of this document that was made with [`Diagnostic::error`].
    pub fn report(&mut self, error: Diagnostic) {
        if self.is_full() {
            self.dropped += 1;
        } else {
            self.list.push(error);
        }
    }
    /// Makes room for a setting from outside. Its offsets count from the one given here, behind the
    /// document and the settings before; a diagnostic there shows the setting. `None` if offsets do
    /// not suffice.
    pub(crate) fn add_setting(&mut self, setting: &Arc<Source>) -> Option<u32> {
        let (start, last) = self.settings.last().map_or((0, &self.source), |(start, source)| (*start, source));
        let length = |source: &Source| u32::try_from(source.text().len()).ok();
        // The end of a text is a position of that text.
        let start = start.checked_add(length(last)?)?.checked_add(1)?;
        start.checked_add(length(setting)?)?;
        self.settings.push((start, Arc::clone(setting)));
        Some(start)
    }
    /// A position of a checked tree, for diagnostics that are made after this list is reported: its
    /// document or setting, and the position there.
    pub fn place(&self, span: Span) -> (Arc<Source>, Span) {
        match self.settings.iter().rev().find(|(start, _)| *start <= span.start) {
            Some((start, setting)) => {
                let within = |offset: u32| (offset - start).min(setting.text().len() as u32);
                (Arc::clone(setting), Span::new(within(span.start), within(span.end)))
            }
            None => (Arc::clone(&self.source), span),
        }
    }
    /// Moves the reports about settings to the visible settings.
    fn placed(&self, mut diagnostic: Diagnostic) -> Diagnostic {
        (diagnostic.source, diagnostic.span) = self.place(diagnostic.span);
        if let Some(label) = &mut diagnostic.label {
            (label.source, label.span) = self.place(label.span);
        }
        if let Some((span, _)) = &mut diagnostic.fix {
            *span = self.place(*span).1;
        }
        diagnostic
    }
    /// Reports a mistake with a second position that explains it.
    pub fn error_with(
        &mut self,
        span: Span,
        cause: impl Into<String>,
        hint: impl Into<String>,
        label: (Span, impl Into<String>),
    ) {
        if self.is_full() {
            self.dropped += 1;
        } else {
            self.list.push(Diagnostic::error(&self.source, span, cause, hint).with_label(label.0, label.1));
        }
    }
    /// Remarks on something that is allowed.
    pub fn note(&mut self, span: Span, cause: impl Into<String>, hint: impl Into<String>) {
        if self.notes.len() < Self::KEPT {
            self.notes.push(Diagnostic::note(&self.source, span, cause, hint));
        }
    }
    /// The number of errors.
    pub fn count(&self) -> usize {
        self.list.len() + self.dropped
    }
    /// Whether further errors would be counted only; a reader may stop looking for them.
    pub fn is_full(&self) -> bool {
        self.list.len() >= Self::KEPT
    }
    /// The value with the notes, if there was no error; otherwise the errors in reading order.
    pub fn finish<T>(mut self, value: T) -> Result<(T, Vec<Diagnostic>), Diagnostics> {
        if self.list.is_empty() {
            self.notes.sort_by_key(|note| note.span.start);
            let notes = std::mem::take(&mut self.notes).into_iter().map(|note| self.placed(note)).collect();
            return Ok((value, notes));
        }
        Err(self.into_diagnostics().unwrap_or_else(|| unreachable!("the list is not empty")))
    }
    /// [`Problems::finish`] for a document that names others: the notes on all of them, or the
    /// errors in all of them, this document's first. There is no value only if something was
    /// reported.
    pub fn finish_with<T>(
        self,
        value: Option<T>,
        mut notes: Vec<Diagnostic>,
        others: Vec<Diagnostics>,
    ) -> Result<(T, Vec<Diagnostic>), Diagnostics> {
        let errors = match self.finish(value) {
            Ok((Some(value), own)) if others.is_empty() => {
                notes.extend(own);
                return Ok((value, notes));
            }
            Ok(_) => None,
            Err(errors) => Some(errors),
        };
        let all = errors.into_iter().chain(others).reduce(|mut all, more| {
            all.merge(more);
            all
        });
        Err(all.unwrap_or_else(|| unreachable!("no value, so an error was reported")))
    }
    /// The errors, if any.
    pub fn into_diagnostics(mut self) -> Option<Diagnostics> {
        // Stable: two errors at one place stay in the order in which they were found.
        self.list.sort_by_key(|diagnostic| diagnostic.span.start);
        let list: Vec<_> =
            std::mem::take(&mut self.list).into_iter().map(|diagnostic| self.placed(diagnostic)).collect();
        (!list.is_empty()).then_some(Diagnostics { list, dropped: self.dropped })
    }
}

/// A text of the file inside a message: in backquotes, control characters escaped, cut after 60
/// characters.
pub fn quote(text: &str) -> String {
    const SHOWN: usize = 60;
    let cut = text.char_indices().nth(SHOWN).map(|(i, _)| i);
    match cut {
        Some(end) => format!("`{}…`", clean(text[..end].to_owned(), MAX_TEXT)),
        None => format!("`{}`", clean(text.to_owned(), MAX_TEXT)),
    }
}

/// Escapes characters that a terminal would interpret.
pub(crate) fn printable(text: String) -> String {
    let unsafe_char = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(unsafe_char) {
        return text;
    }
    text.chars().map(|c| if unsafe_char(c) { c.escape_unicode().to_string() } else { c.to_string() }).collect()
}

/// The same, cut at `limit` bytes.
fn clean(text: String, limit: usize) -> String {
    let mut text = printable(text);
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_capped_and_for_programs() {
        let source = Source::from_text("p.yaml", "a: 1\nb: 2\n");
        let mut problems = Problems::new(&source);
        problems.error(Span::new(5, 6), "second", "hint");
        problems.error(Span::new(0, 1), "first", "hint");
        for _ in 0..2 * Problems::KEPT {
            problems.error(Span::new(8, 9), "flood", "hint");
        }
        let errors = problems.finish(()).unwrap_err();
        assert_eq!(errors.count(), 2 + 2 * Problems::KEPT);
        assert_eq!(errors.all().len(), Problems::KEPT);
        assert_eq!(
            errors.to_json()[1],
            serde_json::json!({
                "severity": "error", "file": "p.yaml", "line": 2, "column": 1, "cause": "second", "hint": "hint",
            })
        );
        assert!(errors.to_string().ends_with("error: and 1952 more\n"), "{errors}");
    }

    #[test]
    fn quotes_are_safe_for_a_terminal() {
        assert_eq!(quote("a\u{1b}[31m\u{202e}"), "`a\\u{1b}[31m\\u{202e}`");
        assert_eq!(quote(&"é".repeat(100)), format!("`{}…`", "é".repeat(60)));
    }
}
