//! JSON that programs and people can read: a value that fits on a line is on one.
//!
//! Problem: JSON on one line cannot be read, and JSON with a line for each number fills screens. Approach: the
//! outermost object has a line for each key, a list of objects has a line for each, and other values have one line
//! if it is short enough.
//!
//! Worked example: a list of allocations has one allocation per line, so `grep` works on it too.

use serde_json::Value;
use std::io::{self, Write};

/// The longest line before a value is spread over several.
const LINE: usize = 200;

/// Writes `value` and a line end.
///
/// # Errors
/// The error of `out`.
pub fn write(out: &mut dyn Write, value: &Value) -> io::Result<()> {
    spread(out, value, 0)?;
    writeln!(out)
}

/// The same as a text.
pub fn to_text(value: &Value) -> String {
    let mut out = Vec::new();
    // Writing to memory does not fail, and JSON is UTF-8.
    let _ = write(&mut out, value);
    String::from_utf8(out).unwrap_or_default()
}

fn spread(out: &mut dyn Write, value: &Value, depth: usize) -> io::Result<()> {
    let length = match value {
        // The outermost braces, and lists of objects, are always spread.
        Value::Object(_) if depth == 0 => None,
        Value::Array(items) if items.iter().any(Value::is_object) => None,
        Value::Array(_) | Value::Object(_) => Some(value.to_string()).filter(|text| text.len() <= LINE),
        _ => Some(value.to_string()),
    };
    let indent = "  ".repeat(depth + 1);
    match (length, value) {
        (Some(text), _) => write!(out, "{text}"),
        (None, Value::Object(map)) => {
            write!(out, "{{")?;
            for (i, (key, value)) in map.iter().enumerate() {
                write!(out, "{}\n{indent}{}: ", if i > 0 { "," } else { "" }, Value::from(key.as_str()))?;
                spread(out, value, depth + 1)?;
            }
            write!(out, "\n{}}}", "  ".repeat(depth))
        }
        (None, Value::Array(items)) => {
            write!(out, "[")?;
            for (i, value) in items.iter().enumerate() {
                write!(out, "{}\n{indent}", if i > 0 { "," } else { "" })?;
                spread(out, value, depth + 1)?;
            }
            write!(out, "\n{}]", "  ".repeat(depth))
        }
        (None, value) => write!(out, "{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_of_a_list_have_a_line_each() {
        let value = json!({"a": [{"b": 1}, {"b": [2, 3]}], "c": {"d": null}, "e": []});
        let text = to_text(&value);
        assert_eq!(
            text,
            "{\n  \"a\": [\n    {\"b\":1},\n    {\"b\":[2,3]}\n  ],\n  \"c\": {\"d\":null},\n  \"e\": []\n}\n"
        );
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), value);
    }
}
