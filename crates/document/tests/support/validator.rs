//! A JSON Schema validator for tests: the part of 2020-12 that generated schemas use.
//!
//! Anything else in a schema is a failure, so that the generator cannot grow past what is tested here.

use serde_json::Value;

/// The first thing about `value` that `schema` refuses, with its path.
pub(crate) fn validate(schema: &Value, value: &Value) -> Result<(), String> {
    visit(schema, schema, value, "$")
}

fn visit(root: &Value, schema: &Value, value: &Value, path: &str) -> Result<(), String> {
    for (keyword, rule) in schema.as_object().expect("a schema is an object") {
        let fail = || Err(format!("{path}: {keyword}: {rule}"));
        match keyword.as_str() {
            "$schema" | "title" | "description" | "examples" | "$defs" => {}
            "$ref" => {
                let pointer = rule.as_str().and_then(|rule| rule.strip_prefix('#')).expect("a local reference");
                visit(root, root.pointer(pointer).expect("a definition"), value, path)?;
            }
            "type" => {
                let is = |name: &str| match name {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "number" => value.is_number(),
                    "integer" => value.is_i64() || value.is_u64(),
                    _ => panic!("type {name}"),
                };
                let one = rule.as_str().map(is);
                if !one
                    .unwrap_or_else(|| rule.as_array().expect("types").iter().any(|t| is(t.as_str().expect("a type"))))
                {
                    return fail();
                }
            }
            "properties" => {
                for (name, schema) in rule.as_object().expect("properties") {
                    if let Some(value) = value.get(name) {
                        visit(root, schema, value, &format!("{path}.{name}"))?;
                    }
                }
            }
            "required" => {
                if rule
                    .as_array()
                    .expect("names")
                    .iter()
                    .any(|name| value.get(name.as_str().expect("a name")).is_none())
                {
                    return fail();
                }
            }
            "additionalProperties" => {
                for (name, value) in value.as_object().into_iter().flatten() {
                    let known = schema.get("properties").is_some_and(|properties| properties.get(name).is_some());
                    if !known && rule == &Value::Bool(false) {
                        return Err(format!("{path}: {name} is not allowed"));
                    }
                    if !known {
                        visit(root, rule, value, &format!("{path}.{name}"))?;
                    }
                }
            }
            "propertyNames" => {
                for name in value.as_object().into_iter().flatten().map(|(name, _)| name) {
                    visit(root, rule, &Value::String(name.clone()), path)?;
                }
            }
            "items" => {
                for (i, value) in value.as_array().into_iter().flatten().enumerate() {
                    visit(root, rule, value, &format!("{path}[{i}]"))?;
                }
            }
            "anyOf" => {
                if !rule.as_array().expect("schemas").iter().any(|schema| visit(root, schema, value, path).is_ok()) {
                    return fail();
                }
            }
            "oneOf" => {
                let all = rule.as_array().expect("schemas");
                if all.iter().filter(|schema| visit(root, schema, value, path).is_ok()).count() != 1 {
                    return fail();
                }
            }
            "const" => {
                if rule != value {
                    return fail();
                }
            }
            "enum" => {
                if !rule.as_array().expect("values").contains(value) {
                    return fail();
                }
            }
            "pattern" => {
                let pattern = regex_lite::Regex::new(rule.as_str().expect("a pattern")).expect("a regular expression");
                if value.as_str().is_some_and(|text| !pattern.is_match(text)) {
                    return fail();
                }
            }
            "minimum" | "maximum" => {
                let (Some(bound), Some(number)) = (rule.as_f64(), value.as_f64()) else { continue };
                if (keyword == "minimum" && number < bound) || (keyword == "maximum" && number > bound) {
                    return fail();
                }
            }
            "minItems" | "minProperties" | "minLength" => {
                let length = match value {
                    Value::Array(items) => items.len(),
                    Value::Object(entries) => entries.len(),
                    Value::String(text) => text.chars().count(),
                    _ => continue,
                };
                if (length as u64) < rule.as_u64().expect("a count") {
                    return fail();
                }
            }
            other => panic!("{path}: the validator does not know {other}"),
        }
    }
    Ok(())
}

/// A YAML document as the JSON that an editor sees: unquoted numbers are numbers.
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
