//! A tree as JSON, which is read as the same document: JSON is YAML in one of its notations.
//!
//! Problem: programs that make or change documents have libraries for JSON, and a file of people has ranges, words and
//! comments. Approach: the tree as it is written, without its comments. Words stay texts, and so do rates with units;
//! whole and decimal numbers become numbers where JSON writes them with the same digits.
//!
//! Worked example:
//!
//! ```
//! use serde_json::json;
//! use weir_document::{Problems, Source, tree};
//!
//! let source = Source::from_text("a.yaml", "weir: 1 # ours\nnetwork: { nic: 1Gb/s, hosts: [m1, 'm2'] }\n");
//! let root = tree::parse(&source, &mut Problems::new(&source)).expect("a document");
//! assert_eq!(root.to_json(), json!({ "weir": 1, "network": { "nic": "1Gb/s", "hosts": ["m1", "m2"] } }));
//! ```

use crate::tree::{Kind, Node};
use serde_json::{Map, Number, Value};

impl Node {
    /// The node and all below it as JSON, in the order of the file.
    pub fn to_json(&self) -> Value {
        match &self.kind {
            Kind::Scalar { text, quoted } => scalar(text, *quoted),
            Kind::Sequence(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Kind::Mapping(entries) => {
                let entries = entries.iter().map(|(key, node)| (key.text.clone(), node.to_json()));
                Value::Object(entries.collect::<Map<_, _>>())
            }
            Kind::Refused => Value::Null,
        }
    }
}

/// A number where JSON writes the same text, and a text otherwise.
fn scalar(text: &str, quoted: bool) -> Value {
    let number = text.parse::<Number>().ok().filter(|number| !quoted && number.to_string() == text);
    number.map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_with_the_same_digits_are_numbers() {
        let numbers = ["0", "17", "-3", "0.5", "18446744073709551615"];
        assert!(numbers.iter().all(|text| scalar(text, false).is_number() && scalar(text, true).is_string()));
        let texts = ["", "1.50", "007", "1e3", "0x10", "+1", ".5", "36893488147419103232", "true", "null", "10Gb/s"];
        for text in texts {
            assert_eq!(scalar(text, false), Value::String(text.to_owned()));
        }
    }
}
