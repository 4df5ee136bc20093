//! Descriptions without a noun, test names that are clauses, other names of a key and of an index.
//!
//! Problem: "What it is called" describes a key by a question, and a reader has to find the noun.
//! Approach: the first word of a description decides: of a comment in crates/*/*/src, and of a key in
//! the modules that define a language. The name of a test states a result, so the words that begin
//! a clause are refused.
//!
//! Worked example: `/// What happens, packed.` is refused; `/// The event, packed.` is not.

use crate::tree::File;
use regex_lite::Regex;

/// Integers under the name of a location.
const INDICES: [&str; 4] = [
    concat!("place", ": usize"),
    concat!("place", ": u32"),
    concat!("place", " as usize"),
    concat!("places", " as usize"),
];

/// The patterns, compiled once.
#[derive(Debug)]
pub struct Wording {
    comment: Regex,
    key: Regex,
    test: Regex,
}

impl Default for Wording {
    fn default() -> Self {
        let pattern = |text: &str| Regex::new(text).expect("a constant pattern");
        Self {
            comment: pattern(r"^\s*//[/!]\s*(What|Who|Whom|Whose)\b"),
            key: pattern(concat!(
                r#"^[^/]*"(What|Who|Whom|Whose|Where|When|Which|How (long|often|many|much|fast|steep)|How \w+ \w+)\b"#,
                r#"[^"?]*[.:;]"#
            )),
            test: pattern(
                r"fn (what_\w*|\w*(_what_|_who_|_said|says_|sees_|_seen_|_held_|lives_by|stands_still|goes_on)\w*)\(",
            ),
        }
    }
}

impl Wording {
    /// Each violation as `path:line: message`.
    pub fn check(&self, file: &File) -> Vec<String> {
        if !file.path.ends_with(".rs") {
            return Vec::new();
        }
        let is_source = file.path.starts_with("crates/") && file.path.contains("/src/");
        let is_language = is_source && defines_keys(&file.path);
        let mut found = Vec::new();
        for (line, number) in file.text.lines().zip(1..) {
            let mut refuse = |message: &str| found.push(format!("{}:{number}: {message}", file.path));
            if is_source && line.contains("//") && self.comment.is_match(line) {
                refuse("a description begins with its noun: \"The cause\" instead of \"What is wrong\"");
            }
            if is_language && self.key.is_match(line) {
                refuse("a key's description begins with its noun: \"The number of\" instead of \"How many\"");
            }
            if is_source && line.contains(concat!("alias", " = \"")) {
                refuse("a key has one name");
            }
            if INDICES.iter().any(|text| line.contains(text)) {
                refuse("an index is called index, a slot slot");
            }
            if line.contains("fn ")
                && let Some(name) = self.test.captures(line)
            {
                refuse(&format!("`{}`: name the result, not a clause", &name[1]));
            }
        }
        found
    }
}

/// Whether a module describes the keys of policies, scenarios, experiments or transports.
fn defines_keys(path: &str) -> bool {
    path.ends_with("/language.rs") || path.contains("/language/") || path.starts_with("crates/simulate/transport/src/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        Wording::default().check(&File { path: path.to_owned(), text: text.to_owned() }).len()
    }

    #[test]
    fn descriptions_begin_with_a_noun() {
        assert_eq!(found("crates/x/src/lib.rs", "    /// What happens, packed.\n//! Who leads."), 2);
        assert_eq!(found("crates/x/src/lib.rs", "/// The event, packed.\n// What follows is read once."), 0);
        assert_eq!(found("crates/x/tests/a.rs", "/// What happens."), 0);
        assert_eq!(found("crates/x/src/language.rs", "doc: \"How many.\",\ndoc: \"The number.\","), 1);
        assert_eq!(found("crates/x/src/lib.rs", "\"How many?\""), 0);
    }

    #[test]
    fn tests_are_named_by_results() {
        assert_eq!(found("crates/x/tests/a.rs", concat!("fn an_agent_", "sees_what_is_sent() {")), 1);
        assert_eq!(found("crates/x/tests/a.rs", "fn reports_are_received() {"), 0);
    }

    #[test]
    fn a_key_has_one_name() {
        assert_eq!(found("crates/x/src/lib.rs", concat!("#[serde(", "alias", " = \"b\")]")), 1);
    }
}
