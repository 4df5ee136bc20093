//! Setting values from outside: `--set traffic[0].load=60%`.
//!
//! Problem: a sweep runs one document with other values, and they must be checked as strictly as
//! the file's. Approach: the value is put into the tree, along the shape, before the one check.
//! Settings have positions behind the end of the file ([`Problems`] keeps them), so that any
//! mistake in one is shown in the setting:
//!
//! ```text
//! error: `10` has no unit
//!  --> star.scenario.yaml with --set traffic[0].rate:1:23
//!   |
//! 1 | --set traffic[0].rate=10
//!   |                       ^^
//! ```
//!
//! A path is keys and indices of lists: `seed`, `network.host-link.rate`, `traffic[0].load`.
//! Mappings that are missing on the way are added; a choice written as its bare word becomes the
//! mapping around the word. A value that begins with a bracket is a list or a mapping in the file's
//! one-line notation; every other one is a plain scalar.
//!
//! Worked example: `transport: dctcp` with `transport.min-rto=1ms` becomes `{ protocol: dctcp,
//! min-rto: 1ms }`; with `transport.min-rtt=1ms` it is refused: did you mean `min-rto`? `events=[]`
//! removes all events, and `network.queue={discipline: ecn, mark: 97500B}` replaces the whole
//! queue.

use crate::diagnostic::{Problems, quote};
use crate::nearest::nearest;
use crate::scalar::Refusal;
use crate::shape::{Key as ShapeKey, Shape};
use crate::source::{Source, Span};
use crate::tree::{self, Key, Kind, Node};
use weir_units::digits::{self, Digits};

/// Steps of a path: as many as levels of a tree.
const MAX_STEPS: usize = tree::MAX_DEPTH;

enum What<'a> {
    Key(&'a str),
    Place(usize),
}

/// A step of a path, and its position.
struct Step<'a> {
    what: What<'a>,
    span: Span,
}

/// Puts `value` at `path` into a tree of the shape `shape`. Errors of the path are reported.
pub fn set(root: &mut Node, shape: &Shape, path: &str, value: &str, problems: &mut Problems) {
    set_by("--set ", root, shape, path, value, problems);
}

/// [`set`] for settings that are no option of a command line: `option` is the visible text before
/// the path.
pub fn set_by(option: &str, root: &mut Node, shape: &Shape, path: &str, value: &str, problems: &mut Problems) {
    let name = format!("{} with {option}{path}", problems.source().name());
    let setting = Source::verbatim(name, format!("{option}{path}={value}"));
    let Some(start) = problems.add_setting(&setting) else {
        return problems.error(head(root), "a value from outside is too long", "write it into the file");
    };
    let path_start = start + option.len() as u32;
    let end = start + setting.text().len() as u32;
    let at = Span::new(path_start, path_start + path.len() as u32);
    let steps = match parse(path, path_start) {
        Ok(steps) => steps,
        Err(NoPath::LeadingZero(place, meant)) => {
            let refusal = Refusal::leading_zero(path, meant);
            return problems.error(place, refusal.cause, refusal.hint);
        }
        Err(NoPath::Other) => {
            let hint = "write keys with dots and indices in brackets, for example `traffic[0].load`";
            return problems.error(at, format!("{} is not a path", quote(path)), hint);
        }
    };
    let value_span = Span::new(end - value.len() as u32, end);
    Walk { problems, start, value, value_span }.walk(root, vec![*shape], &steps);
}

/// The reason why a text is no path.
#[derive(Debug, PartialEq, Eq)]
enum NoPath {
    /// An index has a leading zero: its position, and the path without it.
    LeadingZero(Span, String),
    Other,
}

/// The steps of a path that begins at `start`.
fn parse(path: &str, start: u32) -> Result<Vec<Step<'_>>, NoPath> {
    let at = |part: &str| Span::of_slice(path, part).map(|span| shifted(span, start)).ok_or(NoPath::Other);
    let mut steps = Vec::new();
    for part in path.split('.') {
        let (key, mut places) = part.split_at(part.find('[').unwrap_or(part.len()));
        if key.is_empty() {
            return Err(NoPath::Other);
        }
        steps.push(Step { what: What::Key(key), span: at(key)? });
        while !places.is_empty() {
            let split = places.strip_prefix('[').and_then(|places| places.split_once(']'));
            let (place, rest) = split.ok_or(NoPath::Other)?;
            let index = match digits::whole(place) {
                Ok(index) => u32::try_from(index).map_err(|_| NoPath::Other)?,
                Err(Digits::LeadingZero(_)) => {
                    return Err(NoPath::LeadingZero(at(place)?, without_leading_zeros(path)));
                }
                Err(_) => return Err(NoPath::Other),
            };
            steps.push(Step { what: What::Place(index as usize), span: at(place)? });
            places = rest;
        }
        if steps.len() > MAX_STEPS {
            return Err(NoPath::Other);
        }
    }
    Ok(steps)
}

/// The path with the leading zeros of all indices removed.
fn without_leading_zeros(path: &str) -> String {
    let (head, indices) = path.split_at(path.find('[').unwrap_or(path.len()));
    let mut meant = head.to_owned();
    for index in indices.split('[').skip(1) {
        let rest = index.trim_start_matches('0');
        let zero = if rest.len() < index.len() && !rest.starts_with(|c: char| c.is_ascii_digit()) { "0" } else { "" };
        meant.extend(["[", zero, rest]);
    }
    meant
}

/// The position for a document that cannot take a value at all.
fn head(node: &Node) -> Span {
    Span::new(node.span.start, node.span.start)
}

struct Walk<'a> {
    problems: &'a mut Problems,
    /// The start of the setting.
    start: u32,
    value: &'a str,
    value_span: Span,
}

impl Walk<'_> {
    /// The value as the file's reader would parse it.
    fn value(&mut self) -> Node {
        let at = self.value_span;
        let scalar = Kind::Scalar { text: self.value.to_owned(), quoted: false };
        if !self.value.starts_with(['[', '{']) {
            return Node { span: at, kind: scalar };
        }
        // Behind as many blanks as bytes precede it in the setting, so that positions, in messages
        // too, are those of the setting.
        let source = Source::verbatim("", " ".repeat((at.start - self.start) as usize) + self.value);
        let mut problems = Problems::new(&source);
        let read = tree::parse(&source, &mut problems);
        match problems.finish(read) {
            Ok((Some(mut node), _)) => {
                shift(&mut node, self.start);
                node
            }
            // An empty text is a scalar, so there is a tree or a mistake.
            Ok((None, _)) => Node { span: at, kind: Kind::Refused },
            Err(errors) => {
                for error in errors.all() {
                    let (place, cause, hint) = (shifted(error.span(), self.start), error.cause(), error.hint());
                    match error.label() {
                        Some((_, span, text)) => {
                            self.problems.error_with(place, cause, hint, (shifted(span, self.start), text));
                        }
                        None => self.problems.error(place, cause, hint),
                    }
                }
                Node { span: at, kind: Kind::Refused }
            }
        }
    }

    /// Continues from `node`, which may be of any of `shapes`.
    fn walk(&mut self, node: &mut Node, shapes: Vec<Shape>, steps: &[Step<'_>]) {
        let Some((step, rest)) = steps.split_first() else {
            *node = self.value();
            return;
        };
        let shapes = shapes.into_iter().flat_map(alternatives).collect::<Vec<_>>();
        let place = match step.what {
            What::Key(key) => return self.key(node, &shapes, key, step.span, rest),
            What::Place(place) => place,
        };
        let item = shapes.iter().find_map(|shape| match shape {
            Shape::List(list) => Some(list.item),
            _ => None,
        });
        let count = node.items().len();
        match (item, &mut node.kind) {
            (Some(item), Kind::Sequence(items)) if place < items.len() => {
                self.walk(&mut items[place], vec![item], rest);
            }
            (Some(_), Kind::Sequence(_)) => {
                let hint = match count {
                    0 => "write an item into the file first".to_owned(),
                    _ => format!("write an index from 0 to {}", count - 1),
                };
                self.problems.error(step.span, format!("there is no index {place} in a list of {count}"), hint);
            }
            (_, Kind::Refused) => {}
            _ => self.problems.error(
                step.span,
                format!("this is no list, so there is no index {place}"),
                "leave out the brackets",
            ),
        }
    }

    fn key(&mut self, node: &mut Node, shapes: &[Shape], key: &str, at: Span, rest: &[Step<'_>]) {
        if node.kind == Kind::Refused {
            return;
        }
        let (known, any) = keys(node, shapes);
        let inner: Vec<Shape> = match known.iter().find(|(name, _)| *name == key) {
            Some((_, inner)) => inner.clone(),
            None if any.is_some() => any.into_iter().collect(),
            None => {
                let names = || known.iter().map(|(name, _)| *name);
                let list = shapes.iter().any(|shape| matches!(shape, Shape::List(_)));
                let hint = match nearest(key, names()) {
                    None if list => {
                        "this is a list: write the index of an item in brackets, for example `[0]`".to_owned()
                    }
                    Some(near) => format!("did you mean `{near}`?"),
                    None if known.is_empty() => "there are no keys at this position".to_owned(),
                    None => {
                        let list = names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                        format!("keys at this position are {list}")
                    }
                };
                return self.problems.error(at, format!("there is no key {}", quote(key)), hint);
            }
        };
        // A bare word of a choice becomes the mapping that it stands for.
        if let Kind::Scalar { text, .. } = &node.kind {
            let choice = shapes.iter().find_map(|shape| match shape {
                Shape::Choice(choice) if !text.is_empty() => Some(choice.tag),
                _ => None,
            });
            let entries = choice.map(|tag| {
                let word = Node { span: node.span, kind: node.kind.clone() };
                (Key { text: tag.to_owned(), span: node.span }, word)
            });
            node.kind = Kind::Mapping(entries.into_iter().collect());
        }
        let Kind::Mapping(entries) = &mut node.kind else {
            let cause = format!("this is no mapping, so there is no key {}", quote(key));
            return self.problems.error(at, cause, "write a place");
        };
        let before = self.problems.count();
        let inner = if rest.is_empty() { Vec::new() } else { inner };
        if let Some((_, there)) = entries.iter_mut().find(|(known, _)| known.text == key) {
            return self.walk(there, inner, rest);
        }
        // A mapping that is missing on the way has only the setting in it.
        let span = Span::new(rest.first().map_or(at, |next| next.span).start, self.value_span.end);
        let mut new = Node { span, kind: Kind::Mapping(Vec::new()) };
        self.walk(&mut new, inner, rest);
        // A value that could not be set is absent: the check ignores it.
        if self.problems.count() == before {
            entries.push((Key { text: key.to_owned(), span: at }, new));
        }
    }
}

fn shifted(span: Span, by: u32) -> Span {
    Span::new(span.start + by, span.end + by)
}

/// Moves all of a tree to later offsets.
fn shift(node: &mut Node, by: u32) {
    node.span = shifted(node.span, by);
    match &mut node.kind {
        Kind::Sequence(items) => items.iter_mut().for_each(|item| shift(item, by)),
        Kind::Mapping(entries) => {
            for (key, value) in entries {
                key.span = shifted(key.span, by);
                shift(value, by);
            }
        }
        Kind::Scalar { .. } | Kind::Refused => {}
    }
}

/// The shapes that one stands for.
fn alternatives(shape: Shape) -> Vec<Shape> {
    match shape {
        Shape::OneOf(shapes) => shapes.iter().copied().flat_map(alternatives).collect(),
        shape => vec![shape],
    }
}

/// The possible keys of `node`, with their shapes, and the shape behind names that people choose.
fn keys(node: &Node, shapes: &[Shape]) -> (Vec<(&'static str, Vec<Shape>)>, Option<Shape>) {
    let (mut known, mut any) = (Vec::<(&'static str, Vec<Shape>)>::new(), None);
    let mut add = |keys: &mut dyn Iterator<Item = &'static ShapeKey>| {
        for key in keys {
            match known.iter_mut().find(|(name, _)| *name == key.name) {
                Some((_, shapes)) => shapes.push(key.shape),
                None => known.push((key.name, vec![key.shape])),
            }
        }
    };
    let mut tags = Vec::new();
    for shape in shapes {
        match shape {
            Shape::Record(record) => add(&mut record.keys.iter()),
            Shape::Choice(choice) => {
                tags.push(choice.tag);
                match choice.chosen(node) {
                    Some(variant) => add(&mut choice.keys(variant)),
                    None => (choice.variants)().iter().for_each(|variant| add(&mut choice.keys(variant))),
                }
            }
            Shape::Alternatives(alternatives) => match alternatives.chosen(node) {
                Some(record) => add(&mut record.keys.iter()),
                None => alternatives.records.iter().for_each(|(_, record)| add(&mut record.keys.iter())),
            },
            Shape::Map(map) => any = Some(map.value),
            Shape::Scalar(_) | Shape::List(_) | Shape::OneOf(_) => {}
        }
    }
    known.extend(tags.into_iter().map(|tag| (tag, Vec::new())));
    (known, any)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let steps = |path: &str| parse(path, 0).map(|steps| steps.len());
        assert_eq!(steps("seed"), Ok(1));
        assert_eq!(steps("traffic[0].load"), Ok(3));
        assert_eq!(steps("a[0][12].b.c"), Ok(5));
        for path in ["", ".", "a.", "[0]", "a[", "a[]", "a[x]", "a[0]b", "a[-1]", "a..b", "a[99999999999]"] {
            assert_eq!(steps(path), Err(NoPath::Other), "{path}");
        }
        let meant = "traffic[1].load".to_owned();
        assert_eq!(steps("traffic[01].load"), Err(NoPath::LeadingZero(Span::new(8, 10), meant)));
        assert_eq!(without_leading_zeros("a[00].b[0][012].c[x"), "a[0].b[0][12].c[x");
    }
}
