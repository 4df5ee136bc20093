//! A JSON Schema validator for tests: the part of 2020-12 that generated schemas use.
//!
//! Anything else in a schema is a failure, so that the generator cannot grow past what is tested
//! here.

use serde_json::Value;

/// The first thing about `value` that `schema` refuses, with its path.
pub(crate) fn validate(schema: &Value, value: &Value) -> Result<(), String> {
    visit(schema, schema, value, "$")
}

fn visit(root: &Value, schema: &Value, value: &Value, path: &str) -> Result<(), String> {
    for (keyword, rule) in schema.as_object().expect("a schema is an object") {
        let holds = match keyword.as_str() {
            "$schema" | "title" | "description" | "examples" | "$defs" => true,
            "$ref" => {
                let pointer = rule.as_str().and_then(|rule| rule.strip_prefix('#')).expect("a local reference");
                visit(root, root.pointer(pointer).expect("a definition"), value, path)?;
                true
            }
            "properties" | "additionalProperties" | "propertyNames" | "items" => {
                children(root, schema, (keyword, rule), value, path)?;
                true
            }
            "anyOf" => accepting(root, rule, value, path) > 0,
            "oneOf" => accepting(root, rule, value, path) == 1,
            "const" => rule == value,
            "enum" => rule.as_array().expect("values").contains(value),
            "type" => has_type(rule, value),
            "required" => {
                let names = rule.as_array().expect("names");
                names.iter().all(|name| value.get(name.as_str().expect("a name")).is_some())
            }
            _ => within(keyword, rule, value, path),
        };
        if !holds {
            return Err(format!("{path}: {keyword}: {rule}"));
        }
    }
    Ok(())
}

/// Keywords whose schemas are for the members of a value.
fn children(
    root: &Value,
    schema: &Value,
    (keyword, rule): (&str, &Value),
    value: &Value,
    path: &str,
) -> Result<(), String> {
    let members = || value.as_object().into_iter().flatten();
    match keyword {
        "properties" => {
            for (name, schema) in rule.as_object().expect("properties") {
                if let Some(value) = value.get(name) {
                    visit(root, schema, value, &format!("{path}.{name}"))?;
                }
            }
        }
        "additionalProperties" => {
            let known = |name: &str| schema.get("properties").is_some_and(|properties| properties.get(name).is_some());
            for (name, value) in members().filter(|(name, _)| !known(name)) {
                if rule == &Value::Bool(false) {
                    return Err(format!("{path}: {name} is not allowed"));
                }
                visit(root, rule, value, &format!("{path}.{name}"))?;
            }
        }
        "propertyNames" => {
            for (name, _) in members() {
                visit(root, rule, &Value::String(name.clone()), path)?;
            }
        }
        _ => {
            for (i, value) in value.as_array().into_iter().flatten().enumerate() {
                visit(root, rule, value, &format!("{path}[{i}]"))?;
            }
        }
    }
    Ok(())
}

/// The number of schemas of a list that accept `value`.
fn accepting(root: &Value, rule: &Value, value: &Value, path: &str) -> usize {
    let schemas = rule.as_array().expect("schemas");
    schemas.iter().filter(|schema| visit(root, schema, value, path).is_ok()).count()
}

fn has_type(rule: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        _ => panic!("type {name}"),
    };
    match rule.as_str() {
        Some(name) => is(name),
        None => rule.as_array().expect("types").iter().any(|name| is(name.as_str().expect("a type"))),
    }
}

/// Keywords that bound a number, a length or a text; each holds for values of other types.
fn within(keyword: &str, rule: &Value, value: &Value, path: &str) -> bool {
    match keyword {
        "pattern" => {
            let pattern = regex_lite::Regex::new(rule.as_str().expect("a pattern")).expect("a regular expression");
            value.as_str().is_none_or(|text| pattern.is_match(text))
        }
        "minimum" | "maximum" => match (rule.as_f64(), value.as_f64()) {
            (Some(bound), Some(number)) if keyword == "minimum" => number >= bound,
            (Some(bound), Some(number)) => number <= bound,
            _ => true,
        },
        "minItems" | "minProperties" | "minLength" => {
            let length = match value {
                Value::Array(items) => items.len(),
                Value::Object(members) => members.len(),
                Value::String(text) => text.chars().count(),
                _ => return true,
            };
            length as u64 >= rule.as_u64().expect("a count")
        }
        other => panic!("{path}: the validator has no keyword {other}"),
    }
}

/// A YAML document as the JSON of an editor: unquoted numbers are numbers.
pub(crate) fn to_json(node: &weir_document::Node) -> Value {
    match &node.kind {
        weir_document::Kind::Scalar { text, quoted: false } if text.parse::<f64>().is_ok() => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
        }
        weir_document::Kind::Scalar { text, .. } => Value::String(text.clone()),
        weir_document::Kind::Sequence(items) => items.iter().map(to_json).collect(),
        weir_document::Kind::Mapping(entries) => {
            entries.iter().map(|(key, node)| (key.text.clone(), to_json(node))).collect()
        }
        weir_document::Kind::Refused => panic!("a document with refused parts"),
    }
}
