//! JSON Schema (2020-12) from a shape, so that editors complete and check while people type.
//!
//! The schema agrees with the shape: keys, kinds and the syntax of scalars. It cannot express rules
//! that span several positions (a machine in two racks, minima that do not fit); the program checks
//! those. YAML reads an unquoted `1` as a number, so a scalar whose text may look like one accepts
//! numbers too.
//!
//! Worked example: the key `min` of a share becomes
//! `"min": {"description": "The guarantee.", "examples": ["3Gb/s"], "type": "string", "pattern":
//! "^[0-9]+…$"}`.
//!
//! Source: <https://json-schema.org/draft/2020-12/schema>.

use crate::scalar::{MILLION, Scalar};
use crate::shape::{Choice, Key, Record, Shape};
use serde_json::{Map, Value, json};

const NUMBER: &str = r"(0|[1-9][0-9]{0,19})(\.[0-9]{1,12})?";
/// The spellings of `weir_units`; a test holds them to its messages.
const RATE_UNITS: &str = "(b|kb|Mb|Gb|Tb|B|kB|MB|GB|TB)/s";
const SIZE_UNITS: &str = "(B|kB|MB|GB|TB|KiB|MiB|GiB)";
/// With the micro sign, U+00B5, and the Greek letter, U+03BC.
const TIME_UNITS: &str = "(ns|[\u{b5}\u{3bc}]s|ms|s|us|min|h|d)";

/// The schema of a document of the shape `root`, usually a record.
pub fn schema(title: &str, root: impl Into<Shape>) -> Value {
    let mut definitions = Map::new();
    let mut object = Map::new();
    object.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    object.insert("title".to_owned(), json!(title));
    if let Value::Object(root) = of(&root.into(), &mut definitions) {
        object.extend(root);
    }
    object.insert("$defs".to_owned(), Value::Object(definitions));
    Value::Object(object)
}

/// The schema as a file: indented, with a final line end.
pub fn to_file(schema: &Value) -> String {
    // Writing a `Value` to a string cannot fail: its keys are strings and its numbers finite.
    let mut text = serde_json::to_string_pretty(schema).unwrap_or_default();
    text.push('\n');
    text
}

fn reference(id: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{id}") })
}

/// Adds `record` and everything it refers to. Defined ones are skipped, so recursive shapes end.
fn define(record: &'static Record, definitions: &mut Map<String, Value>) {
    if definitions.contains_key(record.id) {
        return;
    }
    definitions.insert(record.id.to_owned(), Value::Null);
    let object = object(record.doc, None, record.keys.iter(), definitions);
    definitions.insert(record.id.to_owned(), object);
}

/// A tag with its word and whether it must be there.
type Tag = (&'static Choice, &'static str, bool);

fn object(
    doc: &str,
    tag: Option<Tag>,
    keys: impl Iterator<Item = &'static Key>,
    definitions: &mut Map<String, Value>,
) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    if let Some((choice, word, must)) = tag {
        properties.insert(choice.tag.to_owned(), json!({ "description": choice.tag_doc, "const": word }));
        required.extend(must.then_some(choice.tag));
    }
    for key in keys {
        let mut value = Map::new();
        value.insert("description".to_owned(), json!(key.doc));
        value.insert("examples".to_owned(), json!([key.example]));
        if let Value::Object(shape) = of(&key.shape, definitions) {
            value.extend(shape);
        }
        properties.insert(key.name.to_owned(), Value::Object(value));
        required.extend(key.required.then_some(key.name));
    }
    let mut object = Map::new();
    object.insert("description".to_owned(), json!(doc));
    object.insert("type".to_owned(), json!("object"));
    object.insert("properties".to_owned(), Value::Object(properties));
    if !required.is_empty() {
        object.insert("required".to_owned(), json!(required));
    }
    object.insert("additionalProperties".to_owned(), json!(false));
    Value::Object(object)
}

/// Adds a choice: one of its variants, or the bare word of one that needs no keys.
fn define_choice(choice: &'static Choice, definitions: &mut Map<String, Value>) {
    if definitions.contains_key(choice.id) {
        return;
    }
    definitions.insert(choice.id.to_owned(), Value::Null);
    let mut all = Vec::new();
    let bare: Vec<_> = (choice.variants)().iter().filter(|v| choice.is_bare(v)).map(|variant| variant.id).collect();
    if !bare.is_empty() {
        all.push(json!({ "enum": bare }));
    }
    for variant in (choice.variants)() {
        let id = format!("{}-{}", choice.id, variant.id);
        let must = choice.default != Some(variant.id) && !choice.is_named_by_key(variant);
        let tag = (choice, variant.id, must);
        let object = object(variant.doc, Some(tag), choice.keys(variant), definitions);
        all.push(reference(&id));
        definitions.insert(id, object);
    }
    definitions.insert(choice.id.to_owned(), json!({ "description": choice.doc, "oneOf": all }));
}

fn of(shape: &Shape, definitions: &mut Map<String, Value>) -> Value {
    match shape {
        Shape::Scalar(scalar) => of_scalar(scalar),
        Shape::Record(record) => {
            define(record, definitions);
            reference(record.id)
        }
        Shape::Choice(choice) => {
            define_choice(choice, definitions);
            reference(choice.id)
        }
        Shape::Alternatives(alternatives) => {
            let all: Vec<_> = alternatives
                .records
                .iter()
                .map(|(_, record)| {
                    define(record, definitions);
                    reference(record.id)
                })
                .collect();
            json!({ "description": alternatives.doc, "oneOf": all })
        }
        Shape::Map(map) => {
            let mut object = json!({ "type": "object", "additionalProperties": of(&map.value, definitions) });
            if let Scalar::Checked { pattern, .. } = map.name {
                object["propertyNames"] = json!({ "pattern": pattern });
            }
            if map.min > 0 {
                object["minProperties"] = json!(map.min);
            }
            object
        }
        Shape::List(list) => {
            let mut array = json!({ "type": "array", "items": of(&list.item, definitions) });
            if list.min > 0 {
                array["minItems"] = json!(list.min);
            }
            array
        }
        Shape::OneOf(shapes) => {
            let all: Vec<_> = shapes.iter().map(|shape| of(shape, definitions)).collect();
            json!({ "anyOf": all })
        }
    }
}

fn of_scalar(scalar: &Scalar) -> Value {
    let quantity = |units: &str| format!("{NUMBER} *{units}");
    match *scalar {
        Scalar::Rate { unlimited, .. } => {
            let rate = quantity(RATE_UNITS);
            let pattern = if unlimited { format!("^(unlimited|{rate})$") } else { format!("^{rate}$") };
            json!({ "type": "string", "pattern": pattern })
        }
        Scalar::Bytes => json!({ "type": "string", "pattern": format!("^{}$", quantity(SIZE_UNITS)) }),
        Scalar::Duration { .. } => json!({ "type": "string", "pattern": format!("^{}$", quantity(TIME_UNITS)) }),
        Scalar::Weight { most } => json!({ "anyOf": [
            { "type": "number", "minimum": 0.001, "maximum": most },
            { "type": "string", "pattern": r"^(0|[1-9][0-9]{0,6})(\.[0-9]{1,3}0*)?$" },
        ] }),
        Scalar::Integer { min, max, .. } => {
            json!({ "type": "integer", "minimum": number(min), "maximum": number(max) })
        }
        Scalar::Decimal { min, max, .. } => json!({ "anyOf": [
            { "type": "number", "minimum": min as f64 / MILLION as f64, "maximum": max as f64 / MILLION as f64 },
            { "type": "string", "pattern": r"^(0|[1-9][0-9]{0,11})(\.[0-9]{1,6})?$" },
        ] }),
        Scalar::Percent { .. } => json!({ "type": "string", "pattern": r"^(0|[1-9][0-9]?)(\.[0-9]{1,4}0*)? *%$" }),
        Scalar::Named { min, max, names, .. } => json!({ "anyOf": [
            { "type": "integer", "minimum": number(min), "maximum": number(max) },
            { "enum": names.iter().map(|(name, _)| *name).collect::<Vec<_>>() },
        ] }),
        Scalar::Words { words, .. } => {
            let mut all = Vec::new();
            for word in words {
                // `level: 1` is a number to YAML and a word to the reader.
                if let Ok(n) = word.parse::<i64>() {
                    all.push(json!(n));
                }
                all.push(json!(word));
            }
            json!({ "enum": all })
        }
        Scalar::Text { .. } => json!({ "type": ["string", "number"], "minLength": 1 }),
        Scalar::Checked { pattern, .. } => json!({ "type": ["string", "number"], "pattern": pattern }),
    }
}

/// JSON numbers are 64-bit here; bounds beyond that are cut.
fn number(value: i128) -> Value {
    u64::try_from(value).map(Value::from).unwrap_or_else(|_| Value::from(i64::try_from(value).unwrap_or(i64::MIN)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The unit lists above are those of the parsers.
    #[test]
    fn units_are_those_of_the_parsers() {
        let known = |hint: String| hint.rsplit("known units are ").next().unwrap_or_default().replace(", ", "|");
        let rates = known("1x".parse::<weir_units::Bandwidth>().unwrap_err().hint);
        assert_eq!(rates.replace("/s", ""), RATE_UNITS.trim_start_matches('(').trim_end_matches(")/s"));
        let sizes = known("1x".parse::<weir_units::Bytes>().unwrap_err().hint);
        assert_eq!(format!("({sizes})"), SIZE_UNITS);
        let times = known("1x".parse::<weir_units::Duration>().unwrap_err().hint);
        assert_eq!(format!("({times})").replace('\u{b5}', "[\u{b5}\u{3bc}]"), TIME_UNITS);
    }
}
