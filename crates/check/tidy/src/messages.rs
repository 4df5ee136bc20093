//! Messages that docs/how-to/troubleshoot.md quotes and no source has.
//!
//! Problem: a message is renamed, and an operator searches the document for its new text in vain.
//! Approach: the messages are the texts in back quotes in the first column of the table
//! "Messages". Each is split where the program inserts a value: at an ellipsis, at a colon, at
//! the interface `eth0` and at an absolute path. Each piece must occur in crates/*/*/src.
//!
//! Worked example: "eth0 is gone: nothing is limited here until it is back" has the pieces "is gone"
//! and "nothing is limited here until it is back".

use crate::tree::File;

const DOCUMENT: &str = "docs/how-to/troubleshoot.md";
const HEADING: &str = "## Messages";
/// Pieces that are texts of the system.
const OF_THE_SYSTEM: [&str; 2] = ["Address already in use", "Cannot assign requested address"];

/// Each violation as `path:line: message`.
pub fn check(files: &[File]) -> Vec<String> {
    let is_source = |file: &&File| {
        file.path.starts_with("crates/") && file.path.contains("/src/") && !file.path.starts_with("crates/check/tidy/")
    };
    let sources: Vec<String> = files.iter().filter(is_source).map(|file| joined(&file.text)).collect();
    let is_there = |piece: &&str| sources.iter().any(|text| text.contains(*piece));
    let mut found = Vec::new();
    let Some(document) = files.iter().find(|file| file.path == DOCUMENT) else { return found };
    let lines = document.text.lines().zip(1..).skip_while(|(line, _)| *line != HEADING).skip(1);
    for (line, number) in lines.take_while(|(line, _)| !line.starts_with("## ")) {
        let Some(column) = line.strip_prefix("| ").and_then(|row| row.split(" | ").next()) else { continue };
        for message in column.split('`').skip(1).step_by(2) {
            for piece in pieces(message).iter().filter(|piece| !is_there(&piece.as_str())) {
                if !OF_THE_SYSTEM.contains(&piece.as_str()) {
                    found.push(format!("{DOCUMENT}:{number}: \"{piece}\": no source has this message"));
                }
            }
        }
    }
    found
}

/// The parts of a message between the values that a program inserts.
fn pieces(message: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for word in message.split(' ') {
        let text = word.trim_end_matches([':', ',', '…']);
        let is_value = text.is_empty() || text == "eth0" || text.starts_with('/');
        let piece = pieces.last_mut().expect("one at least");
        if !is_value {
            *piece += if piece.is_empty() { "" } else { " " };
            *piece += text;
        }
        if is_value || text != word {
            pieces.push(String::new());
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// A source with its continued string literals on one line.
fn joined(text: &str) -> String {
    let mut parts = text.split("\\\n");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |joined, part| joined + part.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_split_at_their_values() {
        assert_eq!(pieces("eth0 is gone: nothing is limited"), ["is gone", "nothing is limited"]);
        assert_eq!(
            pieces("is to listen on …, and the agent listens on …"),
            ["is to listen on", "and the agent listens on"]
        );
        assert_eq!(pieces("kernel BTF: /sys/kernel/btf is not there"), ["kernel BTF", "is not there"]);
    }

    #[test]
    fn messages_without_a_source_are_refused() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let document = "`nowhere`\n## Messages\n| `a b`, `c …` | `nowhere` |\n| `d` | |\n## Next\n| `e` | |\n";
        let source = "\"x a \\\n    b\" \"c {}\"";
        let files = [file(DOCUMENT, document), file("crates/x/src/lib.rs", source)];
        assert_eq!(check(&files), ["docs/how-to/troubleshoot.md:4: \"d\": no source has this message"]);
    }
}
