//! Shapes: the allowed content of a document, as static data.
//!
//! Problem: the check, the schema for editors and the reference for people all describe the same
//! format, and three descriptions drift apart. Approach: one static value of [`Shape`];
//! [`crate::check`] walks a tree along it and [`crate::schema`] prints it. Shapes may refer to
//! themselves (a service contains services), since statics may refer to each other.
//!
//! Worked example: a rack is
//!
//! ```
//! use weir_document::{scalar::Scalar, shape::{Key, List, Record, Shape}};
//! static RATE: Scalar = Scalar::Rate { unlimited: false, zero: false };
//! static NAMES: List = List {
//!     what: "a list of machines",
//!     item: Shape::Scalar(&Scalar::Text { what: "a machine" }),
//!     min: 1,
//! };
//! static RACK: Record = Record {
//!     id: "rack",
//!     what: "a rack",
//!     doc: "Machines behind one uplink.",
//!     keys: &[
//!         Key::required("uplink", Shape::Scalar(&RATE), "Its speed to the fabric.", "uplink: 80Gb/s"),
//!         Key::required("machines", Shape::List(&NAMES), "The machines in it.", "machines: [m1, m2]"),
//!     ],
//! };
//! # assert_eq!(RACK.keys.len(), 2);
//! ```

use crate::scalar::{Refusal, Scalar};
use crate::tree::{Kind, Node};

/// The allowed content at a position.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// A single value.
    Scalar(&'static Scalar),
    /// A mapping with known keys.
    Record(&'static Record),
    /// A mapping from names that people choose.
    Map(&'static Map),
    /// A list.
    List(&'static List),
    /// One of several. No two of them are the same kind of node, so the kind decides.
    OneOf(&'static [Shape]),
    /// A mapping in which one key decides the others.
    Choice(&'static Choice),
    /// One of several mappings; the first key of one decides.
    Alternatives(&'static Alternatives),
}

impl From<&'static Record> for Shape {
    fn from(record: &'static Record) -> Self {
        Self::Record(record)
    }
}

impl From<&'static Alternatives> for Shape {
    fn from(alternatives: &'static Alternatives) -> Self {
        Self::Alternatives(alternatives)
    }
}

/// A mapping with known keys.
#[derive(Debug)]
pub struct Record {
    /// Its name in the schema, different for different records; of a variant of a [`Choice`], its
    /// keyword.
    pub id: &'static str,
    /// Its name with an article, for messages.
    pub what: &'static str,
    /// One or two sentences.
    pub doc: &'static str,
    /// The keys, in the order in which people write them.
    pub keys: &'static [Key],
}

/// A key of a [`Record`].
#[derive(Debug)]
pub struct Key {
    /// The key.
    pub name: &'static str,
    /// Whether it must be there.
    pub required: bool,
    /// The shape of its value.
    pub shape: Shape,
    /// Its purpose, in one or two sentences.
    pub doc: &'static str,
    /// The key with a valid value.
    pub example: &'static str,
}

impl Key {
    /// A key that must be there.
    pub const fn required(name: &'static str, shape: Shape, doc: &'static str, example: &'static str) -> Self {
        Self { name, required: true, shape, doc, example }
    }
    /// A key that may be left out.
    pub const fn optional(name: &'static str, shape: Shape, doc: &'static str, example: &'static str) -> Self {
        Self { name, required: false, shape, doc, example }
    }
}

/// A mapping in which the word behind one key, the tag, chooses a variant: a record with the other
/// keys.
///
/// A variant without required keys may also be written as the bare word: `transport: dctcp` is
/// `transport: { protocol: dctcp }`. A variant that needs a key of its own name needs no tag, since
/// that key identifies it: `{ at: 1s, rate: 1Gb/s }` is `{ at: 1s, do: rate, rate: 1Gb/s }`.
#[derive(Debug)]
pub struct Choice {
    /// Its name in the schema, where variants are `id-word`.
    pub id: &'static str,
    /// Its name with an article, for messages.
    pub what: &'static str,
    /// One or two sentences.
    pub doc: &'static str,
    /// The key that chooses.
    pub tag: &'static str,
    /// The subject of the tag, with an article, for messages: `a discipline`.
    pub tag_what: &'static str,
    /// The purpose of the tag, in one or two sentences.
    pub tag_doc: &'static str,
    /// The variant where the tag is not written; `None` where it must be.
    pub default: Option<&'static str>,
    /// Keys that every variant has.
    pub common: &'static [Key],
    /// Keys that people may expect here, with the reason of their absence.
    pub elsewhere: &'static [(&'static str, &'static str)],
    /// The variants: records whose `id` is their keyword, with their keys beside the tag and the
    /// common ones. A function, since the list may be another crate's.
    pub variants: fn() -> &'static [&'static Record],
}

/// One of several mappings, distinguished by the keys that they need. A mapping may have the deciding
/// key of another one as an optional key: with both, it is the one that has both.
#[derive(Debug)]
pub struct Alternatives {
    /// Its name in the schema.
    pub id: &'static str,
    /// Its name with an article, for messages.
    pub what: &'static str,
    /// One or two sentences.
    pub doc: &'static str,
    /// The keys that decide, each with its record, in which it is a required key.
    pub records: &'static [(&'static str, &'static Record)],
}

impl Choice {
    /// The variant with this word.
    pub fn variant(&self, word: &str) -> Option<&'static Record> {
        (self.variants)().iter().copied().find(|variant| variant.id == word)
    }
    /// The variant that a node chooses by its tag, as a bare word, by a key of the variant's name,
    /// or by default. `None` if the choice is wrong.
    pub fn chosen(&self, node: &Node) -> Option<&'static Record> {
        match (node.scalar(), node.get(self.tag)) {
            (Some(word), _) => self.variant(word),
            (None, Some(tag)) => tag.scalar().and_then(|word| self.variant(word)),
            (None, None) => {
                let mut named = (self.variants)().iter().copied().filter(|variant| self.is_named_by_key(variant));
                // `racks: 9` is another key than `racks: { r1: … }`.
                let has = |variant: &&'static Record| {
                    let key = variant.keys.iter().find(|key| key.name == variant.id);
                    let is_map = key.is_some_and(|key| matches!(key.shape, Shape::Map(_)));
                    node.get(variant.id).is_some_and(|value| !is_map || matches!(value.kind, Kind::Mapping(_)))
                };
                let named = named.find(has);
                named.or_else(|| self.default.and_then(|word| self.variant(word)))
            }
        }
    }
    /// Whether a variant needs a key of its own name, and so no tag.
    pub fn is_named_by_key(&self, variant: &'static Record) -> bool {
        variant.keys.iter().any(|key| key.required && key.name == variant.id)
    }
    /// The keys of a variant, without the tag.
    pub fn keys(&self, variant: &'static Record) -> impl Iterator<Item = &'static Key> + Clone {
        self.common.iter().chain(variant.keys)
    }
    /// Whether a variant may be written as the bare word.
    pub fn is_bare(&self, variant: &'static Record) -> bool {
        self.keys(variant).all(|key| !key.required)
    }
    /// The words, for messages.
    pub fn words(&self) -> Vec<&'static str> {
        (self.variants)().iter().map(|variant| variant.id).collect()
    }
}

impl Alternatives {
    /// The record that a node is, by its keys; `None` where no key or more than one decides.
    pub fn chosen(&self, node: &Node) -> Option<&'static Record> {
        let written = || self.records.iter().filter(|(key, _)| node.get(key).is_some());
        let has = |record: &Record, name: &str| record.keys.iter().any(|key| key.name == name);
        let mut found = written().filter(|(_, record)| written().all(|(key, _)| has(record, key)));
        match (found.next(), found.next()) {
            (Some((_, record)), None) => Some(record),
            _ => None,
        }
    }
}

/// A mapping from names that people choose.
#[derive(Debug)]
pub struct Map {
    /// Its name with an article, for messages.
    pub what: &'static str,
    /// The syntax of a name: [`Scalar::Checked`] or [`Scalar::Text`].
    pub name: &'static Scalar,
    /// The shape behind each name.
    pub value: Shape,
    /// The fewest entries.
    pub min: usize,
}

/// A list.
#[derive(Debug)]
pub struct List {
    /// Its name with an article, for messages.
    pub what: &'static str,
    /// The shape of each item.
    pub item: Shape,
    /// The fewest items.
    pub min: usize,
}

impl Shape {
    /// Whether both are the same description, not a copy of it.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Scalar(a), Self::Scalar(b)) => std::ptr::eq(*a, *b),
            (Self::Record(a), Self::Record(b)) => std::ptr::eq(*a, *b),
            (Self::Map(a), Self::Map(b)) => std::ptr::eq(*a, *b),
            (Self::List(a), Self::List(b)) => std::ptr::eq(*a, *b),
            (Self::OneOf(a), Self::OneOf(b)) => std::ptr::eq(*a, *b),
            (Self::Choice(a), Self::Choice(b)) => std::ptr::eq(*a, *b),
            (Self::Alternatives(a), Self::Alternatives(b)) => std::ptr::eq(*a, *b),
            _ => false,
        }
    }
    /// The allowed content, with an article, for messages.
    pub fn what(&self) -> String {
        match self {
            Self::Scalar(scalar) => scalar.what().to_owned(),
            Self::Record(record) => record.what.to_owned(),
            Self::Map(map) => map.what.to_owned(),
            Self::List(list) => list.what.to_owned(),
            Self::Choice(choice) => choice.what.to_owned(),
            Self::Alternatives(alternatives) => alternatives.what.to_owned(),
            Self::OneOf(shapes) => shapes.iter().map(Shape::what).collect::<Vec<_>>().join(" or "),
        }
    }
}

impl Map {
    /// Refuses a name that does not look like one.
    pub fn check_name(&self, name: &str) -> Result<(), Refusal> {
        self.name.check(name)
    }
}
