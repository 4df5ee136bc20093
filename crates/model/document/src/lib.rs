//! Documents that people write: YAML with positions, shapes, diagnostics and JSON Schema.
//!
//! Problem: a person who writes a policy needs to see *where* it is wrong, *why*, and *what to
//! write instead*, about everything at once; an editor needs a schema; and hostile input must not
//! crash the program that reads it.
//!
//! Approach: four small layers, each independent of the ones after it.
//!
//! | module | does |
//! |---|---|
//! | [`source`] | reads a file within limits and turns byte offsets into lines and columns |
//! | [`tree`] | YAML text → a tree in which every node has its position |
//! | [`shape`], [`scalar`], [`check`] | a static description of allowed content; one check over a tree |
//! | [`set()`] | values from outside, put into a tree before the check |
//! | [`schema`], [`mod@reference`] | JSON Schema for editors and tables for people, from the same description |
//! | [`table`] | CSV tables: columns by name, mistakes with their lines |
//!
//! All of them report through [`Problems`], which ends in a value or in [`Diagnostics`].
//!
//! Worked example, a document with one key:
//!
//! ```
//! use weir_document::{Problems, Source, check, scalar::Scalar, shape::{Key, Record, Shape}, tree};
//!
//! static FORM: Record = Record {
//!     id: "form",
//!     what: "the form",
//!     doc: "A form with a name.",
//!     keys: &[Key::required("name", Shape::Scalar(&Scalar::Text { what: "a name" }), "Who it is.", "name: Ada")],
//! };
//! let source = Source::from_text("form.yaml", "nmae: Ada\n");
//! let mut problems = Problems::new(&source);
//! if let Some(root) = tree::parse(&source, &mut problems) {
//!     check::check(&root, &Shape::Record(&FORM), &mut problems);
//! }
//! let diagnostics = problems.finish(()).unwrap_err();
//! assert_eq!(diagnostics.all()[0].cause(), "`nmae` is not a key of the form");
//! assert!(diagnostics.all()[0].hint().starts_with("did you mean `name`?"));
//! ```

pub mod check;
pub mod diagnostic;
mod json;
pub mod nearest;
pub mod reference;
mod render;
pub mod scalar;
pub mod schema;
mod set;
pub mod shape;
pub mod source;
pub mod table;
pub mod tree;

pub use diagnostic::{Diagnostic, Diagnostics, Problems, Severity, quote};
pub use nearest::Suggester;
pub use set::{set, set_by};
pub use source::{Position, Source, Span};
pub use tree::{Field, Key, Kind, Node};
