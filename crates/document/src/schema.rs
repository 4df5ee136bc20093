//! JSON Schema (2020-12) from a shape, so that editors complete and check while people type.
//!
//! The schema says what the shape says: keys, kinds and the syntax of scalars. It cannot say what spans
//! several places (a machine in two racks, minima that do not fit); the program checks those. YAML reads
//! an unquoted `1` as a number, so a scalar whose text may look like one accepts numbers too.
//!
//! Worked example: the key `min` of a share becomes
//! `"min": {"description": "The guarantee.", "examples": ["3Gb/s"], "type": "string", "pattern": "^[0-9]+…$"}`.
//!
//! Source: <https://json-schema.org/draft/2020-12/schema>.

use crate::scalar::Scalar;
use crate::shape::{Record, Shape};
use serde_json::{Map, Value, json};

const NUMBER: &str = r"[0-9]{1,20}(\.[0-9]{1,12})?";
/// The spellings of `weir_units`; a test holds them to its messages.
const RATE_UNITS: &str = "(b|kb|Mb|Gb|Tb|B|kB|MB|GB|TB)/s";
const SIZE_UNITS: &str = "(B|kB|MB|GB|TB|KiB|MiB|GiB)";
const TIME_UNITS: &str = "(ns|µs|ms|s|us|min)";

/// The schema of a document whose root is `root`.
pub fn schema(title: &str, root: &'static Record) -> Value {
    let mut definitions = Map::new();
    define(root, &mut definitions);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "$ref": reference(root),
        "$defs": definitions,
    })
}

/// The schema as a file: indented, with a final line end.
pub fn to_file(schema: &Value) -> String {
    // Writing a `Value` to a string cannot fail: its keys are strings and its numbers finite.
    let mut text = serde_json::to_string_pretty(schema).unwrap_or_default();
    text.push('\n');
    text
}

fn reference(record: &Record) -> String {
    format!("#/$defs/{}", record.id)
}

/// Adds `record` and everything it refers to. Defined ones are skipped, so recursive shapes end.
fn define(record: &'static Record, definitions: &mut Map<String, Value>) {
    if definitions.contains_key(record.id) {
        return;
    }
    definitions.insert(record.id.to_owned(), Value::Null);
    let mut properties = Map::new();
    for key in record.keys {
        let mut value = Map::new();
        value.insert("description".to_owned(), json!(key.doc));
        value.insert("examples".to_owned(), json!([key.example]));
        if let Value::Object(shape) = of(&key.shape, definitions) {
            value.extend(shape);
        }
        properties.insert(key.name.to_owned(), Value::Object(value));
    }
    let required: Vec<_> = record.keys.iter().filter(|key| key.required).map(|key| key.name).collect();
    let mut object = Map::new();
    object.insert("description".to_owned(), json!(record.doc));
    object.insert("type".to_owned(), json!("object"));
    object.insert("properties".to_owned(), Value::Object(properties));
    if !required.is_empty() {
        object.insert("required".to_owned(), json!(required));
    }
    object.insert("additionalProperties".to_owned(), json!(false));
    definitions.insert(record.id.to_owned(), Value::Object(object));
}

fn of(shape: &Shape, definitions: &mut Map<String, Value>) -> Value {
    match shape {
        Shape::Scalar(scalar) => of_scalar(scalar),
        Shape::Record(record) => {
            define(record, definitions);
            json!({ "$ref": reference(record) })
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
        Scalar::Weight => json!({ "anyOf": [
            { "type": "number", "minimum": 0.001, "maximum": 1_000_000 },
            { "type": "string", "pattern": r"^[0-9]{1,7}(\.[0-9]{1,3}0*)?$" },
        ] }),
        Scalar::Integer { min, max, .. } => {
            json!({ "type": "integer", "minimum": number(min), "maximum": number(max) })
        }
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

    /// The unit lists above are the ones that the parsers know.
    #[test]
    fn units_are_those_of_the_parsers() {
        let known = |hint: String| hint.rsplit("known units are ").next().unwrap_or_default().replace(", ", "|");
        let rates = known("1x".parse::<weir_units::Bandwidth>().unwrap_err().hint);
        assert_eq!(rates.replace("/s", ""), RATE_UNITS.trim_start_matches('(').trim_end_matches(")/s"));
        let sizes = known("1x".parse::<weir_units::Bytes>().unwrap_err().hint);
        assert_eq!(format!("({sizes})"), SIZE_UNITS);
        let times = known("1x".parse::<weir_units::Duration>().unwrap_err().hint);
        assert_eq!(format!("({times})"), TIME_UNITS);
    }
}
