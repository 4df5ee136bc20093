//! Setting values from outside: `--set traffic[0].load=60%`.
//!
//! Problem: a sweep runs one document with other values, and wants them checked as strictly as if they stood in the
//! file. Approach: the value is put into the tree, along the shape, before the one check; whatever is then wrong with it
//! is told with its setting's name, at the place of what it replaced, or where it was added.
//!
//! A path is keys and places of lists: `seed`, `network.host-link.rate`, `traffic[0].load`. Mappings that are missing on
//! the way are added; of a choice that is written as its bare word, so is the mapping around the word. A value that begins
//! with a bracket is a list or a mapping as the file would have it in one line; every other one is a scalar as it stands.
//!
//! Worked example: `transport: dctcp` with `transport.min-rto=1ms` becomes `{ protocol: dctcp, min-rto: 1ms }`; with
//! `transport.min-rtt=1ms` it is refused: did you mean `min-rto`? `events=[]` takes all events away, and
//! `network.queue={discipline: ecn, mark: 97500B}` replaces the whole queue.

use crate::diagnostic::{Problems, quote};
use crate::nearest::nearest;
use crate::shape::{Key as ShapeKey, Shape};
use crate::source::{Source, Span};
use crate::tree::{self, Key, Kind, Node};

/// Steps of a path: as many as levels of a tree.
const MAX_STEPS: usize = tree::MAX_DEPTH;

enum Step<'a> {
    Key(&'a str),
    Place(usize),
}

/// Puts `value` at `path` into a tree of the shape `shape`. What is wrong with the path is reported.
pub fn set(root: &mut Node, shape: &Shape, path: &str, value: &str, problems: &mut Problems) {
    set_named(root, shape, &format!("--set {path}={value}"), path, value, problems);
}

/// [`set`] for settings that are no option of a command line: messages call this one `setting`.
pub fn set_named(root: &mut Node, shape: &Shape, setting: &str, path: &str, value: &str, problems: &mut Problems) {
    let Some(steps) = parse(path) else {
        let hint = "write keys with dots and places in brackets, for example `traffic[0].load`";
        return problems.error(head(root), format!("{setting}: {} is not a path", quote(path)), hint);
    };
    let mut at = Walk { problems, setting };
    at.walk(root, vec![*shape], &steps, value);
}

fn parse(path: &str) -> Option<Vec<Step<'_>>> {
    let mut steps = Vec::new();
    for part in path.split('.') {
        let (key, mut places) = part.split_at(part.find('[').unwrap_or(part.len()));
        if key.is_empty() {
            return None;
        }
        steps.push(Step::Key(key));
        while !places.is_empty() {
            let (place, rest) = places.strip_prefix('[')?.split_once(']')?;
            if place.is_empty() || place.len() > 9 || !place.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            steps.push(Step::Place(place.parse().ok()?));
            places = rest;
        }
        if steps.len() > MAX_STEPS {
            return None;
        }
    }
    Some(steps)
}

/// Where something is added or missing: the start of what it is in.
fn head(node: &Node) -> Span {
    match node.kind {
        Kind::Scalar { .. } => node.span,
        _ => Span::new(node.span.start, node.span.start),
    }
}

struct Walk<'a> {
    problems: &'a mut Problems,
    setting: &'a str,
}

impl Walk<'_> {
    fn refuse(&mut self, at: Span, cause: &str, hint: String) {
        self.problems.error(at, format!("{}: {cause}", self.setting), hint);
    }

    /// The value as it would be read from the file, at the place `at`.
    fn value(&mut self, at: Span, value: &str) -> Kind {
        if !value.starts_with(['[', '{']) {
            return Kind::Scalar { text: value.to_owned(), quoted: false };
        }
        let source = Source::from_text(self.setting, value);
        let mut problems = Problems::new(&source);
        let read = tree::parse(&source, &mut problems);
        match problems.finish(read) {
            Ok((Some(mut node), _)) => {
                move_to(&mut node, at);
                node.kind
            }
            // An empty text is a scalar, so there is a tree or a mistake.
            Ok((None, _)) => Kind::Refused,
            Err(errors) => {
                for error in errors.all() {
                    self.refuse(at, error.cause(), error.hint().to_owned());
                }
                Kind::Refused
            }
        }
    }

    /// Goes on from `node`, which may be of any of `shapes`.
    fn walk(&mut self, node: &mut Node, shapes: Vec<Shape>, steps: &[Step<'_>], value: &str) {
        let Some((step, rest)) = steps.split_first() else {
            self.problems.note_setting(node.span, self.setting);
            node.kind = self.value(node.span, value);
            // Of a mapping or list mistakes are told at its start.
            self.problems.note_setting(head(node), self.setting);
            return;
        };
        let shapes = shapes.into_iter().flat_map(alternatives).collect::<Vec<_>>();
        match step {
            Step::Key(key) => self.key(node, &shapes, key, rest, value),
            Step::Place(place) => {
                let item = shapes.iter().find_map(|shape| match shape {
                    Shape::List(list) => Some(list.item),
                    _ => None,
                });
                let (at, count) = (head(node), node.items().len());
                match (item, &mut node.kind) {
                    (Some(item), Kind::Sequence(items)) if *place < items.len() => {
                        self.walk(&mut items[*place], vec![item], rest, value);
                    }
                    (Some(_), Kind::Sequence(_)) => {
                        let hint = match count {
                            0 => "write an entry into the file first".to_owned(),
                            _ => format!("write a place from 0 to {}", count - 1),
                        };
                        self.refuse(at, &format!("there is no place {place} in a list of {count}"), hint);
                    }
                    (_, Kind::Refused) => {}
                    _ => self.refuse(
                        at,
                        &format!("this is no list, so there is no place {place}"),
                        String::from("leave out the brackets"),
                    ),
                }
            }
        }
    }

    fn key(&mut self, node: &mut Node, shapes: &[Shape], key: &str, rest: &[Step<'_>], value: &str) {
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
                        "this is a list: write the place of an entry in brackets, for example `[0]`".to_owned()
                    }
                    Some(near) => format!("did you mean `{near}`?"),
                    None if known.is_empty() => "there are no keys at this place".to_owned(),
                    None => {
                        let list = names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                        format!("keys at this place are {list}")
                    }
                };
                let at = head(node);
                return self.refuse(at, &format!("there is no key {}", quote(key)), hint);
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
        // A span of its own, which no mistake about what is in the file can have.
        let added = Span::new(node.span.end, node.span.end);
        let Kind::Mapping(entries) = &mut node.kind else {
            let at = head(node);
            return self.refuse(
                at,
                &format!("this is no mapping, so there is no key {}", quote(key)),
                "write a place".to_owned(),
            );
        };
        let before = self.problems.count();
        let inner = if rest.is_empty() { Vec::new() } else { inner };
        if let Some((_, there)) = entries.iter_mut().find(|(known, _)| known.text == key) {
            return self.walk(there, inner, rest, value);
        }
        let mut new = Node { span: added, kind: Kind::Mapping(Vec::new()) };
        self.problems.note_setting(added, self.setting);
        self.walk(&mut new, inner, rest, value);
        // What could not be set is not there: the check has nothing to say about it.
        if self.problems.count() == before {
            entries.push((Key { text: key.to_owned(), span: added }, new));
        }
    }
}

/// Gives all that a tree has one place: in the file there is no other.
fn move_to(node: &mut Node, at: Span) {
    node.span = at;
    match &mut node.kind {
        Kind::Sequence(items) => items.iter_mut().for_each(|item| move_to(item, at)),
        Kind::Mapping(entries) => {
            for (key, value) in entries {
                key.span = at;
                move_to(value, at);
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

/// The keys that there may be in `node`, with the shapes behind them, and what stands behind names that people choose.
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
        let steps = |path: &str| parse(path).map(|steps| steps.len());
        assert_eq!(steps("seed"), Some(1));
        assert_eq!(steps("traffic[0].load"), Some(3));
        assert_eq!(steps("a[0][12].b.c"), Some(5));
        for path in ["", ".", "a.", "[0]", "a[", "a[]", "a[x]", "a[0]b", "a[-1]", "a..b"] {
            assert_eq!(steps(path), None, "{path}");
        }
    }
}
