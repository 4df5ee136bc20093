//! The one check of a tree against a shape.
//!
//! Reports unknown keys (with the nearest known one), values of the wrong kind, scalars that do not read,
//! names that are none, and required keys that are missing: all of them, each at its place. What it lets
//! through can be read without looking again; what it has reported, readers pass over in silence.
//!
//! Worked example: `{ uplnik: 10Gb/s, machines: m1 }` as a rack gives two errors: `uplnik` is not a key of a
//! rack (did you mean `uplink`?), and a list of machines is expected where a single value stands. That
//! `uplink` is missing is not said too.

use crate::diagnostic::{Problems, quote};
use crate::nearest::nearest;
use crate::scalar::Scalar;
use crate::shape::{List, Map, Record, Shape};
use crate::source::Span;
use crate::tree::{Kind, Node};

/// Checks `node` against `shape`. The recursion is bounded by the depth of the tree.
pub fn check(node: &Node, shape: &Shape, problems: &mut Problems) {
    Checker { problems }.node(node, shape);
}

struct Checker<'a> {
    problems: &'a mut Problems,
}

impl Checker<'_> {
    fn node(&mut self, node: &Node, shape: &Shape) {
        match (shape, &node.kind) {
            (_, Kind::Refused) => {}
            (Shape::Scalar(scalar), Kind::Scalar { text, quoted }) => self.scalar(node, text, *quoted, scalar),
            (Shape::Record(record), Kind::Mapping(_)) => self.record(node, record),
            (Shape::Map(map), Kind::Mapping(_)) => self.map(node, map),
            (Shape::List(list), Kind::Sequence(_)) => self.list(node, list),
            (Shape::OneOf(shapes), _) => match shapes.iter().find(|shape| fits(shape, node)) {
                Some(shape) => self.node(node, shape),
                None => self.wrong_kind(node, shape),
            },
            _ => self.wrong_kind(node, shape),
        }
    }

    fn wrong_kind(&mut self, node: &Node, shape: &Shape) {
        let found = match node.scalar() {
            Some(text) if !text.is_empty() => format!("{} stands here", quote(text)),
            _ => format!("this is {}", node.kind_name()),
        };
        self.problems.error(head(node), format!("{} is expected, but {found}", shape.what()), hint(shape));
    }

    fn scalar(&mut self, node: &Node, text: &str, quoted: bool, scalar: &'static Scalar) {
        if text.is_empty() && !quoted {
            return self.wrong_kind(node, &Shape::Scalar(scalar));
        }
        if let Err(refusal) = scalar.check(text) {
            self.problems.error(node.span, refusal.cause, refusal.hint);
        }
    }

    fn record(&mut self, node: &Node, record: &Record) {
        // Keys that an unknown one was taken for: to say that they are missing would be to say it twice.
        let mut misspelt = Vec::new();
        for (key, value) in node.entries() {
            match record.keys.iter().find(|known| known.name == key.text) {
                Some(known) => self.node(value, &known.shape),
                None => {
                    let names = record.keys.iter().map(|known| known.name);
                    let list = names.clone().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                    let near = nearest(&key.text, names);
                    misspelt.extend(near);
                    let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
                    self.problems.error(
                        key.span,
                        format!("{} is not a key of {}", quote(&key.text), record.what),
                        format!("{near}known keys are {list}"),
                    );
                }
            }
        }
        for known in record.keys.iter().filter(|known| known.required && node.get(known.name).is_none()) {
            if misspelt.contains(&known.name) {
                continue;
            }
            self.problems.error(
                head(node),
                format!("`{}` is missing in {}", known.name, record.what),
                format!("add it, for example `{}`", known.example),
            );
        }
    }

    fn map(&mut self, node: &Node, map: &'static Map) {
        if node.entries().len() < map.min {
            self.problems.error(
                node.span,
                format!("{} is expected, but this is empty", map.what),
                hint(&Shape::Map(map)),
            );
        }
        for (key, value) in node.entries() {
            if let Err(refusal) = map.check_name(&key.text) {
                self.problems.error(key.span, refusal.cause, refusal.hint);
            }
            self.node(value, &map.value);
        }
    }

    fn list(&mut self, node: &Node, list: &'static List) {
        if node.items().len() < list.min {
            self.problems.error(
                node.span,
                format!("{} is expected, but this is empty", list.what),
                hint(&Shape::List(list)),
            );
        }
        for item in node.items() {
            self.node(item, &list.item);
        }
    }
}

fn fits(shape: &Shape, node: &Node) -> bool {
    match (shape, &node.kind) {
        (Shape::Scalar(_), Kind::Scalar { text, quoted }) => *quoted || !text.is_empty(),
        (Shape::Record(_) | Shape::Map(_), Kind::Mapping(_)) | (Shape::List(_), Kind::Sequence(_)) => true,
        (Shape::OneOf(shapes), _) => shapes.iter().any(|shape| fits(shape, node)),
        _ => false,
    }
}

/// Where a node starts: a mistake about a whole mapping does not underline all of it.
fn head(node: &Node) -> Span {
    match node.kind {
        Kind::Scalar { .. } => node.span,
        _ => Span::new(node.span.start, node.span.start),
    }
}

/// What to write, from the shape.
fn hint(shape: &Shape) -> String {
    match shape {
        Shape::Scalar(scalar) => format!("for example `{}`", scalar.example()),
        Shape::Record(record) => {
            let example = record.keys.iter().find(|key| key.required).or(record.keys.first());
            example.map_or_else(String::new, |key| format!("for example `{{ {} }}`", key.example))
        }
        Shape::Map(map) => format!("write a name, a colon and {}", map.value.what()),
        Shape::List(list) => match list.item {
            Shape::Scalar(scalar) => format!("for example `[{}]`", scalar.example()),
            item => format!("write a list with `-` or brackets, each item {}", item.what()),
        },
        Shape::OneOf(shapes) => shapes.first().map_or_else(String::new, hint),
    }
}
