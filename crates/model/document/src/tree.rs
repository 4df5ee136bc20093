//! YAML text as a tree in which every node has its position.
//!
//! Problem: deserializers discard positions, stop at the first mistake and follow aliases, of which
//! a few lines can expand to gigabytes. Approach: take the events of the YAML parser and build a
//! small tree on an explicit stack. Only the part of YAML that a policy needs is accepted: one
//! document of mappings, lists and scalars; no anchors, aliases, tags or keys that are not plain
//! words. Refused content is reported and leaves [`Kind::Refused`] behind, which later checks skip,
//! so that one mistake is reported once.
//!
//! Limits: [`MAX_DEPTH`] levels, [`MAX_NODES`] nodes, [`MAX_AHEAD`] characters for one event. The
//! parser is pulled event by event and keeps no recursion, and a tree of bounded depth is dropped
//! in bounded stack.
//!
//! Worked example: `rack: { min: 6Gb/s }` is a mapping with the key `rack` (bytes 0 to 4) and as
//! its value a mapping whose key `min` has the scalar `6Gb/s` (bytes 13 to 18).
//!
//! Source: YAML 1.2.2, chapters 3 and 7.

use crate::diagnostic::{Problems, quote};
use crate::source::{Source, Span};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::str::Chars;

/// Levels of nesting allowed. People write fewer than ten; the stack of every later pass is bounded
/// by it.
pub const MAX_DEPTH: usize = 64;
/// Nodes allowed, keys included: a policy of 100,000 services has some three million, of 100 bytes
/// each.
pub const MAX_NODES: usize = 4_000_000;
/// Characters that the parser may read for one event. It holds a collection in brackets that might
/// be a key as a whole, at up to 170 bytes for each character, before it gives the first event of
/// it.
pub const MAX_AHEAD: usize = 2 << 20;

/// A value and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its position. Of a mapping or list written in block style: from its first to its last entry.
    pub span: Span,
    /// Its kind.
    pub kind: Kind,
}

/// The kind of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A word, number or text.
    Scalar {
        /// The value, escapes resolved.
        text: String,
        /// Whether it is quoted or a block scalar.
        quoted: bool,
    },
    /// A list.
    Sequence(Vec<Node>),
    /// Keys with values, in file order; no key twice.
    Mapping(Vec<(Key, Node)>),
    /// A node that was reported while the tree was built.
    Refused,
}

/// A key of a mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The key.
    pub text: String,
    /// Its position.
    pub span: Span,
}

/// The state of an optional value: later checks must distinguish "not written" from "written but
/// wrong".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field<T> {
    /// Not written.
    Absent,
    /// Written but wrong, and reported.
    Bad,
    /// Written and right, at this position.
    Value(T, Span),
}

impl<T: Copy> Field<T> {
    /// The value, if it is there and right.
    pub fn value(&self) -> Option<T> {
        match self {
            Self::Value(value, _) => Some(*value),
            _ => None,
        }
    }
    /// The position, if the value is there and right.
    pub fn span(&self) -> Option<Span> {
        match self {
            Self::Value(_, span) => Some(*span),
            _ => None,
        }
    }
    /// Whether something is written that was reported.
    pub fn is_bad(&self) -> bool {
        matches!(self, Self::Bad)
    }
    /// This one, or `other` if not written.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        if matches!(self, Self::Absent) { other } else { self }
    }
}

impl Node {
    /// The entries of a mapping; empty for anything else.
    pub fn entries(&self) -> &[(Key, Node)] {
        match &self.kind {
            Kind::Mapping(entries) => entries,
            _ => &[],
        }
    }
    /// The items of a list; empty for anything else.
    pub fn items(&self) -> &[Node] {
        match &self.kind {
            Kind::Sequence(items) => items,
            _ => &[],
        }
    }
    /// The value of a key; `None` when absent or when this is no mapping.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries().iter().find(|(k, _)| k.text == key).map(|(_, node)| node)
    }
    /// The text of a scalar.
    pub fn scalar(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }
    /// The value of a scalar by `read`, without reporting: [`crate::check`] has reported its
    /// mistakes.
    pub fn read<T, E>(&self, read: impl FnOnce(&str) -> Result<T, E>) -> Field<T> {
        match self.scalar().map(read) {
            Some(Ok(value)) => Field::Value(value, self.span),
            _ => Field::Bad,
        }
    }
    /// The value of a key by `read`, without reporting.
    pub fn field<T, E>(&self, key: &str, read: impl FnOnce(&str) -> Result<T, E>) -> Field<T> {
        self.get(key).map_or(Field::Absent, |node| node.read(read))
    }
    /// The kind of the node, for messages.
    pub fn kind_name(&self) -> &'static str {
        match &self.kind {
            Kind::Scalar { text, quoted: false } if text.is_empty() => "nothing",
            Kind::Scalar { .. } => "a single value",
            Kind::Sequence(_) => "a list",
            Kind::Mapping(_) => "a mapping",
            Kind::Refused => "refused",
        }
    }
}

/// Builds the tree of a source. `None` without one; the reason is then in `problems`.
pub fn parse(source: &Source, problems: &mut Problems) -> Option<Node> {
    if let Some((at, c)) = source.control_character() {
        let hint = match c {
            '\r' => "end lines with a line feed",
            _ => "remove it; this is a text file",
        };
        let span = Span::new(at, at + c.len_utf8() as u32);
        problems.error(span, format!("the control character U+{:04X} is not allowed", c as u32), hint);
        return None;
    }
    let mut builder = Builder::new(source, problems);
    let root = builder.run();
    builder.report_lonely_anchors();
    root
}

/// A mapping or list that is not finished.
struct Frame {
    start: u32,
    anchor: usize,
    open: Open,
}

enum Open {
    Sequence(Vec<Node>),
    Mapping {
        entries: Vec<(Key, Node)>,
        /// The index in `entries` of each key, to find duplicates.
        seen: HashMap<String, usize>,
        /// The key that waits for its value; `Err` when the value is to be dropped.
        key: Option<Result<Key, ()>>,
    },
}

struct Builder<'a> {
    source: &'a Source,
    problems: &'a mut Problems,
    offsets: Offsets<'a>,
    stack: Vec<Frame>,
    nodes: usize,
    /// By its name, as JSON is read as YAML.
    is_json: bool,
    /// Anchors that no alias has pointed to yet.
    anchors: BTreeMap<usize, Span>,
}

impl<'a> Builder<'a> {
    fn new(source: &'a Source, problems: &'a mut Problems) -> Self {
        let offsets = Offsets::new(source.text());
        let is_json = Path::new(source.name()).extension().is_some_and(|extension| extension == "json");
        Self { source, problems, offsets, stack: Vec::new(), nodes: 0, is_json, anchors: BTreeMap::new() }
    }

    fn run(&mut self) -> Option<Node> {
        let ahead = Cell::new(0);
        let mut parser = Parser::new_from_iter(MeteredText {
            chars: self.source.text().chars(),
            ahead: &ahead,
            quotes: self.is_json.then(Quotes::default),
        });
        let mut root = None;
        while let Some(event) = parser.next_event() {
            if ahead.replace(0) >= MAX_AHEAD {
                // The parser was given a text that ends here: its later errors are not about the
                // file.
                self.too_far_ahead(event.ok().map(|(_, span)| span));
                return None;
            }
            let (event, span) = match event {
                Ok((event, span)) => (event, self.offsets.span(span.start, span.end)),
                Err(error) => {
                    let at = self.offsets.byte(error.marker());
                    let reported = error.info().contains("tab") || error.info().ends_with("YAML whitespace");
                    let tab = match reported {
                        true => Some(tab_near(self.source.text(), at as usize)),
                        false => tab_of_indentation(self.source.text(), at as usize),
                    };
                    if let Some(span) = tab.filter(|_| !self.is_json) {
                        self.problems.error(span, "a tab is not read here", "write spaces");
                        return None;
                    }
                    if error.info() == "recursion limit exceeded" {
                        // The parser looks ahead over brackets and gives up before this one counts
                        // them.
                        self.too_deep(Span::new(at, at));
                        return None;
                    }
                    let (language, hint) = match self.is_json {
                        true => (
                            "JSON",
                            "check the brackets, quotes and commas here and before, and that the file is whole",
                        ),
                        false => ("YAML", "check the indentation, brackets and quotes here and on the line before"),
                    };
                    let cause = format!("this is not valid {language}: {}", error.info());
                    self.problems.error(Span::new(at, at), cause, hint);
                    return None;
                }
            };
            match event {
                Event::DocumentStart(_) if root.is_some() => {
                    self.problems.error(
                        span,
                        "a second document starts here",
                        "one file contains one document: remove the `---` or use another file",
                    );
                    return None;
                }
                Event::Nothing | Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd => {}
                Event::StreamEnd => break,
                event => {
                    if let Some(node) = self.event(event, span)? {
                        root = Some(node);
                    }
                }
            }
        }
        let empty = root
            .as_ref()
            .is_none_or(|node| matches!(&node.kind, Kind::Scalar { text, quoted: false } if text.is_empty()));
        if empty {
            self.problems.error(Span::default(), "the file is empty", "write at least the keys that are required");
            return None;
        }
        root
    }

    /// Takes one event. The outer `None` means that the tree cannot be built; `Some(Some(node))` is
    /// the root.
    fn event(&mut self, event: Event<'_>, span: Span) -> Option<Option<Node>> {
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag) | Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) => {
                (*anchor, tag.is_some())
            }
            _ => (0, false),
        };
        if anchor > 0 {
            self.anchors.insert(anchor, span);
        }
        if tag {
            self.problems.error(span, "a tag (`!`) is not allowed here", "write the value without it");
        }
        let start = span.start;
        match event {
            Event::Scalar(text, style, ..) => {
                let quoted = style != ScalarStyle::Plain;
                let kind = if tag { Kind::Refused } else { Kind::Scalar { text: text.into_owned(), quoted } };
                self.complete(Node { span, kind })
            }
            Event::Alias(id) => {
                self.alias(id, span);
                self.complete(Node { span, kind: Kind::Refused })
            }
            Event::SequenceStart(..) => self.open(Frame { start, anchor, open: Open::Sequence(Vec::new()) }, span),
            Event::MappingStart(..) => {
                let open = Open::Mapping { entries: Vec::new(), seen: HashMap::new(), key: None };
                self.open(Frame { start, anchor, open }, span)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let frame = self.stack.pop()?;
                let (kind, last) = match frame.open {
                    Open::Sequence(items) => {
                        let last = items.last().map(|node| node.span.end);
                        (Kind::Sequence(items), last)
                    }
                    Open::Mapping { entries, .. } => {
                        let last = entries.last().map(|(key, node)| node.span.end.max(key.span.end));
                        (Kind::Mapping(entries), last)
                    }
                };
                // In block style the parser ends a collection where the next thing starts, lines
                // later.
                let end = if span.end > span.start { span.end } else { last.unwrap_or(span.end) };
                self.complete(Node { span: Span::new(frame.start, end), kind })
            }
            _ => Some(None),
        }
    }

    fn open(&mut self, frame: Frame, span: Span) -> Option<Option<Node>> {
        if self.stack.len() >= MAX_DEPTH {
            self.too_deep(span);
            return None;
        }
        self.stack.push(frame);
        Some(None)
    }

    fn too_far_ahead(&mut self, found: Option<saphyr_parser::Span>) {
        let span = match (found, self.stack.last()) {
            (Some(span), _) => self.offsets.span(span.start, span.end),
            (None, frame) => frame.map_or_else(Span::default, |frame| Span::new(frame.start, frame.start)),
        };
        self.problems.error(
            span,
            format!("a value or comment near here goes on for more than {MAX_AHEAD} characters"),
            "close its bracket or quote; write large lists and mappings without brackets, one entry on each line",
        );
    }

    fn too_deep(&mut self, span: Span) {
        self.problems.error(
            span,
            format!("this is nested more than {MAX_DEPTH} levels deep"),
            "a document needs far fewer levels; check brackets and indentation",
        );
    }

    /// Passes a finished node to its parent.
    fn complete(&mut self, node: Node) -> Option<Option<Node>> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            self.problems.error(
                node.span,
                format!("the file contains more than {MAX_NODES} values"),
                "split it, or write machines as ranges such as `m[1-100]`",
            );
            return None;
        }
        let Some(frame) = self.stack.last_mut() else { return Some(Some(node)) };
        match &mut frame.open {
            Open::Sequence(items) => items.push(node),
            Open::Mapping { entries, seen, key } => match key.take() {
                Some(Ok(key)) => {
                    seen.insert(key.text.clone(), entries.len());
                    entries.push((key, node));
                }
                Some(Err(())) => {}
                None => *key = Some(accept_key(node, entries, seen, self.problems)),
            },
        }
        Some(None)
    }

    fn alias(&mut self, id: usize, span: Span) {
        self.anchors.remove(&id);
        if self.stack.iter().any(|frame| frame.anchor == id) {
            self.problems.error(
                span,
                format!("{} makes a loop: it is inside its own target", quote(self.source.slice(span))),
                "write the value itself",
            );
        } else {
            self.problems.error(
                span,
                format!("the alias {} is not allowed", quote(self.source.slice(span))),
                "write the value out; anchors and aliases are not part of this format",
            );
        }
    }

    /// Anchors that an alias points to have been reported there.
    fn report_lonely_anchors(&mut self) {
        for (_, span) in std::mem::take(&mut self.anchors) {
            self.problems.error(
                span,
                "an anchor (`&`) is not allowed here",
                "write the value without it; anchors and aliases are not part of this format",
            );
        }
    }
}

/// The tab that the parser reports at byte `at`, which may be the text before or behind it: the first one on that line
/// or after it that is no part of a text.
fn tab_near(text: &str, at: usize) -> Span {
    let start = text[..text.floor_char_boundary(at)].rfind('\n').map_or(0, |end| end + 1);
    let separates = |tab: &usize| {
        let line = text[..*tab].rfind('\n').map_or(0, |end| end + 1);
        let before = text[line..*tab].trim_end();
        before.is_empty() || before.ends_with([':', '-', '?'])
    };
    let tab = text[start..].match_indices('\t').map(|(tab, _)| start + tab).find(separates).unwrap_or(at);
    Span::new(tab as u32, (tab + 1).min(text.len()) as u32)
}

/// The tab in the indentation of the line of byte `at`, or of the line before it.
fn tab_of_indentation(text: &str, at: usize) -> Option<Span> {
    let start_of_line = |end: usize| text[..end].rfind('\n').map_or(0, |end| end + 1);
    let start = start_of_line(text.floor_char_boundary(at));
    [start, start_of_line(start.saturating_sub(1))].into_iter().find_map(|start| {
        let indentation = text[start..].len() - text[start..].trim_start_matches([' ', '\t']).len();
        let tab = start + text[start..start + indentation].find('\t')?;
        Some(Span::new(tab as u32, tab as u32 + 1))
    })
}

/// A key must be a word and occur only once. `Err` when its value is to be dropped.
fn accept_key(
    node: Node,
    entries: &[(Key, Node)],
    seen: &HashMap<String, usize>,
    problems: &mut Problems,
) -> Result<Key, ()> {
    let text = match node.kind {
        Kind::Scalar { text, .. } => text,
        Kind::Refused => return Err(()),
        Kind::Sequence(_) | Kind::Mapping(_) => {
            problems.error(
                node.span,
                "a key must be a word, not a list or a mapping",
                "put ranges in quotes: `\"m[1-10]\":`",
            );
            return Err(());
        }
    };
    if let Some(first) = seen.get(&text) {
        let first = entries[*first].0.span;
        let position = problems.source().position(first.start);
        problems.error_with(
            node.span,
            format!(
                "the key {} is written twice: first at line {}, column {}",
                quote(&text),
                position.line,
                position.column
            ),
            "keep one of them",
            (first, "first here"),
        );
        return Err(());
    }
    Ok(Key { text, span: node.span })
}

/// The characters of a text, with a count of how many were taken since it was last set to zero.
struct MeteredText<'a> {
    chars: Chars<'a>,
    ahead: &'a Cell<usize>,
    /// For JSON, which has tabs between its tokens (RFC 8259 section 2) where YAML has none.
    quotes: Option<Quotes>,
}

/// The position of a character of JSON: inside of a string, and behind a backslash.
#[derive(Debug, Clone, Copy, Default)]
struct Quotes {
    inside: bool,
    escaped: bool,
}

impl Quotes {
    /// The character that YAML reads as JSON reads `c`.
    fn in_yaml(&mut self, c: char) -> char {
        let between = !self.inside;
        match c {
            _ if std::mem::take(&mut self.escaped) => {}
            '"' => self.inside = !self.inside,
            '\\' => self.escaped = self.inside,
            _ => {}
        }
        if between && c == '\t' { ' ' } else { c }
    }
}

impl Iterator for MeteredText<'_> {
    type Item = char;
    fn next(&mut self) -> Option<char> {
        if self.ahead.get() >= MAX_AHEAD {
            return None;
        }
        self.ahead.set(self.ahead.get() + 1);
        let c = self.chars.next()?;
        Some(self.quotes.as_mut().map_or(c, |quotes| quotes.in_yaml(c)))
    }
}

/// From the parser's character counts to byte offsets.
struct Offsets<'a> {
    text: &'a str,
    /// The byte offset of every [`STRIDE`]th character; empty when all characters are one byte.
    checkpoints: Vec<u32>,
}

const STRIDE: usize = 64;

impl<'a> Offsets<'a> {
    fn new(text: &'a str) -> Self {
        let checkpoints = if text.is_ascii() {
            Vec::new()
        } else {
            text.char_indices().step_by(STRIDE).map(|(i, _)| i as u32).collect()
        };
        Self { text, checkpoints }
    }
    fn byte(&self, marker: &Marker) -> u32 {
        let index = marker.index();
        if self.checkpoints.is_empty() {
            return index.min(self.text.len()) as u32;
        }
        let Some(from) = self.checkpoints.get(index / STRIDE) else { return self.text.len() as u32 };
        let rest = &self.text[*from as usize..];
        rest.char_indices().nth(index % STRIDE).map_or(self.text.len() as u32, |(i, _)| from + i as u32)
    }
    fn span(&self, start: Marker, end: Marker) -> Span {
        let span = Span::new(self.byte(&start), self.byte(&end));
        let text = &self.text[span.start as usize..span.end as usize];
        Span::new(span.start, span.start + own_length(text) as u32)
    }
}

/// The length of a token without the blanks and the comment that the parser counts to some of them.
fn own_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    match bytes.first() {
        Some(b'}' | b']') => 1,
        Some(&quote @ (b'"' | b'\'')) => {
            let mut at = 1;
            while at < bytes.len() {
                let doubled = quote == b'\'' && bytes.get(at + 1) == Some(&quote);
                match bytes[at] {
                    b'\\' if quote == b'"' => at += 2,
                    b if b == quote && doubled => at += 2,
                    b if b == quote => return at + 1,
                    _ => at += 1,
                }
            }
            text.trim_end().len()
        }
        _ => text.trim_end().len(),
    }
}
