//! Shapes: what a document may contain, as static data.
//!
//! Problem: the check, the schema for editors and the reference for people all describe the same format,
//! and three descriptions drift apart. Approach: one static value of [`Shape`]; [`crate::check`] walks a
//! tree along it and [`crate::schema`] prints it. Shapes may refer to themselves (a service holds
//! services), since statics may refer to each other.
//!
//! Worked example: a rack is
//!
//! ```
//! use weir_document::{scalar::Scalar, shape::{Key, List, Record, Shape}};
//! static RATE: Scalar = Scalar::Rate { unlimited: false, zero: false };
//! static NAMES: List = List { what: "a list of machines", item: Shape::Scalar(&Scalar::Text { what: "a machine" }), min: 1 };
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

/// What may stand at a place.
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
}

/// A mapping with known keys.
#[derive(Debug)]
pub struct Record {
    /// Its name in the schema; different records have different ids.
    pub id: &'static str,
    /// What it is, with an article, for messages.
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
    /// What may stand behind it.
    pub shape: Shape,
    /// What it is for, in one or two sentences.
    pub doc: &'static str,
    /// The key with a value that is right.
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

/// A mapping from names that people choose.
#[derive(Debug)]
pub struct Map {
    /// What it is, with an article, for messages.
    pub what: &'static str,
    /// What a name must look like: [`Scalar::Checked`] or [`Scalar::Text`].
    pub name: &'static Scalar,
    /// What stands behind each name.
    pub value: Shape,
    /// The fewest entries.
    pub min: usize,
}

/// A list.
#[derive(Debug)]
pub struct List {
    /// What it is, with an article, for messages.
    pub what: &'static str,
    /// What each item is.
    pub item: Shape,
    /// The fewest items.
    pub min: usize,
}

impl Shape {
    /// What may stand here, with an article, for messages.
    pub fn what(&self) -> String {
        match self {
            Self::Scalar(scalar) => scalar.what().to_owned(),
            Self::Record(record) => record.what.to_owned(),
            Self::Map(map) => map.what.to_owned(),
            Self::List(list) => list.what.to_owned(),
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
