//! Diagnostics as text, with the lines of their positions.
//!
//! The drawing is done by `annotate-snippets`. It receives only the one or two relevant lines, not
//! the document, and of a long line only a window around the position: a policy written on one line
//! of megabytes prints as readably as any other, and in time that does not depend on the file's
//! size.

use crate::diagnostic::{Diagnostic, Severity};
use crate::source::{Source, Span};
use annotate_snippets::{Annotation, AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use std::fmt::Write as _;

/// Lines of at most this many bytes are shown whole.
const WHOLE: usize = 200;
/// Characters of a longer line shown before and after the position.
const BEFORE: usize = 60;
const AFTER: usize = 100;
/// Bytes between two positions that are still drawn together (the lines between are folded).
const JOINED: usize = 64 << 10;

type Place = std::ops::Range<usize>;

/// Renders `list` one after the other, then a line about the `more` that are not shown.
pub(crate) fn render(list: &[Diagnostic], more: usize, colour: bool) -> String {
    let renderer = if colour { Renderer::styled().hyperlink(false) } else { Renderer::plain() };
    let mut out = String::new();
    for diagnostic in list {
        out.push_str(&without_c1(render_one(diagnostic, &renderer)));
        out.push_str("\n\n");
    }
    if more > 0 {
        let _ = writeln!(out, "error: and {more} more");
    } else {
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out
}

/// Replaces the C1 controls of an echoed line: U+009B starts a terminal sequence as ESC [ does. The
/// drawing replaces the other controls itself, and its own colours start with ESC.
fn without_c1(text: String) -> String {
    let c1 = |c: char| ('\u{80}'..='\u{9f}').contains(&c);
    if text.contains(c1) { text.replace(c1, "\u{fffd}") } else { text }
}

fn render_one(diagnostic: &Diagnostic, renderer: &Renderer) -> String {
    let level = match diagnostic.severity() {
        Severity::Error => Level::ERROR,
        Severity::Note => Level::NOTE,
    };
    let source = diagnostic.source();
    let position = diagnostic.position();
    let mut group = Group::with_title(level.primary_title(diagnostic.cause()));
    let primary = Excerpt::new(source, diagnostic.span());
    let label = diagnostic.label().and_then(|(source, span, text)| Some((source, Excerpt::new(source, span)?, text)));
    // The drawing counts columns in its input, so the true position of a cut line is printed
    // separately.
    if primary.as_ref().is_none_or(|primary| primary.cut) {
        group = group.element(Origin::path(source.name()).line(position.line).char_column(position.column));
    }
    match (primary, label) {
        (Some(primary), Some((of, other, text))) => match primary.join(&other, source).filter(|_| of == source) {
            Some((snippet, place, other)) => {
                group = group.element(
                    snippet
                        .path(source.name())
                        .annotation(AnnotationKind::Primary.span(place))
                        .annotation(AnnotationKind::Context.span(other).label(text)),
                );
            }
            None => {
                group = group
                    .element(primary.snippet(source).annotation(AnnotationKind::Primary.span(primary.place.clone())))
                    .element(
                        other.snippet(of).annotation(AnnotationKind::Context.span(other.place.clone()).label(text)),
                    );
            }
        },
        (Some(primary), None) => {
            group =
                group.element(primary.snippet(source).annotation(AnnotationKind::Primary.span(primary.place.clone())));
        }
        (None, _) => {}
    }
    if !diagnostic.hint().is_empty() {
        group = group.element(Level::HELP.message(diagnostic.hint()));
    }
    renderer.render(&[group])
}

/// One line, or the part of it around a position.
struct Excerpt {
    line: usize,
    text: String,
    /// The position in bytes of `text`.
    place: Place,
    cut: bool,
}

impl Excerpt {
    /// `None` where the source has no text to show.
    fn new(source: &Source, span: Span) -> Option<Self> {
        if source.text().is_empty() {
            return None;
        }
        let line = source.position(span.start).line;
        let (start, text) = source.line(line)?;
        let from = text.floor_char_boundary((span.start.saturating_sub(start)) as usize);
        // A span over several lines shows its first one.
        let to = text.ceil_char_boundary((span.end.saturating_sub(start)) as usize).max(from);
        let whole = text.len() <= WHOLE;
        let left = text[..from].char_indices().rev().nth(BEFORE).filter(|_| !whole).map_or(0, |(i, _)| i);
        let right = text[from..].char_indices().nth(AFTER).filter(|_| !whole).map_or(text.len(), |(i, _)| from + i);
        let to = to.min(right);
        let mut shown = String::new();
        if left > 0 {
            shown.push('…');
        }
        let shift = shown.len();
        shown.push_str(&text[left..right]);
        if right < text.len() {
            shown.push('…');
        }
        let place = (from - left + shift)..(to - left + shift);
        Some(Self { line, text: shown, place, cut: left > 0 || right < text.len() })
    }

    fn snippet<'a>(&self, source: &'a Source) -> Snippet<'a, Annotation<'a>> {
        let path = (!self.cut).then(|| source.name());
        Snippet::source(self.text.clone()).line_start(self.line).path(path)
    }

    /// Both positions in one drawing, if the text between is short enough.
    fn join<'a>(&self, other: &Self, source: &'a Source) -> Option<(Snippet<'a, Annotation<'a>>, Place, Place)> {
        let (first, last) = (self.line.min(other.line), self.line.max(other.line));
        let start = source.line(first)?.0;
        let (last_start, last_text) = source.line(last)?;
        let text = source.text().get(start as usize..last_start as usize + last_text.len())?;
        if self.cut || other.cut || text.len() > JOINED {
            return None;
        }
        let place = |excerpt: &Self| {
            let shift = source.line(excerpt.line).map_or(0, |(at, _)| (at - start) as usize);
            excerpt.place.start + shift..excerpt.place.end + shift
        };
        Some((Snippet::source(text).line_start(first), place(self), place(other)))
    }
}
