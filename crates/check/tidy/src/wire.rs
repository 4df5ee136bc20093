//! Tables of docs/reference/wire.md that differ from those in the code.
//!
//! Problem: a field of a message changes, and the reference keeps the old one. Approach: the comment at the head of
//! each format's source has a table of bytes and fields. A line `<!-- table of PATH -->` in the document names the
//! source of the table that follows, and both must have the same rows.
//!
//! Worked example: "4      `WEIR`" in datapath/feedback.h is the row "| 4 | `WEIR` |" of the document.

use crate::tree::File;

const DOCUMENT: &str = "docs/reference/wire.md";
/// The sources of formats. Each has its table in the document.
const SOURCES: [&str; 3] =
    ["datapath/feedback.h", "datapath/credit_message.h", "crates/decide/control/src/wire/datagram.rs"];

/// Bytes and meaning of a field.
type Row = (String, String);

/// Each violation as `path: message`.
pub fn check(files: &[File]) -> Vec<String> {
    let text = |path: &str| files.iter().find(|file| file.path == path).map_or("", |file| file.text.as_str());
    let document = text(DOCUMENT);
    let mut found = Vec::new();
    for source in SOURCES {
        let (defined, documented) = (defined(text(source)), documented(document, source));
        if defined.is_empty() {
            found.push(format!("{source}: no table of bytes and fields"));
        } else if documented.is_empty() {
            found.push(format!("{DOCUMENT}: no table of {source}"));
        }
        let longest = defined.len().max(documented.len());
        for index in 0..longest {
            let (have, want) = (documented.get(index), defined.get(index));
            if have != want && !documented.is_empty() {
                found.push(format!("{DOCUMENT}: row {} is {have:?}, and in {source} {want:?}", index + 1));
            }
        }
    }
    found
}

/// The rows behind the heading "bytes field" in a comment, to the first empty line.
fn defined(source: &str) -> Vec<Row> {
    let lines = source.lines().map(|line| line.trim_start().trim_start_matches(['/', '!', '*']).trim());
    let is_head = |line: &&str| line.trim_start_matches("| ").starts_with("bytes ");
    let rows = lines.skip_while(|line| !is_head(line)).skip(1).take_while(|line| !line.is_empty());
    rows.filter_map(row).collect()
}

/// The rows of the document's table of this source.
fn documented(document: &str, source: &str) -> Vec<Row> {
    let mark = format!("<!-- table of {source} -->");
    let lines = document.lines().skip_while(|line| *line != mark).skip_while(|line| !line.starts_with('|'));
    lines.take_while(|line| line.starts_with('|')).skip(1).filter_map(row).collect()
}

/// A row of a table, whose columns `|` or two spaces separate; none for the line below a heading.
fn row(line: &str) -> Option<Row> {
    let (bytes, field) = match line.strip_prefix("| ") {
        Some(row) => row.trim_end_matches('|').split_once(" | ")?,
        None => line.split_once("  ")?,
    };
    Some((bytes.trim().to_owned(), field.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const C: &str = "/*\n * Text.\n *\n *   bytes  field, big-endian\n *   1, 1   version, kind\n *   2      key\n *\n";
    const RUST: &str = "//! | bytes | field |\n//! |---|---|\n//! | 1, 1 | version, kind |\n//! | 2 | key |\n//!\n";

    fn rows(fields: [(&str, &str); 2]) -> Vec<Row> {
        fields.map(|(bytes, field)| (bytes.to_owned(), field.to_owned())).to_vec()
    }

    #[test]
    fn both_kinds_of_comments_give_the_same_rows() {
        let wanted = rows([("1, 1", "version, kind"), ("2", "key")]);
        assert_eq!(defined(C), wanted);
        assert_eq!(defined(RUST), wanted);
    }

    #[test]
    fn rows_that_differ_and_absent_tables_are_refused() {
        let document = "<!-- table of datapath/feedback.h -->\n\n| bytes | field |\n|---|---|\n\
                        | 1, 1 | version, kind |\n| 4 | key |\n";
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let files = [file(DOCUMENT, document), file(SOURCES[0], C), file(SOURCES[1], C), file(SOURCES[2], "")];
        let found = check(&files);
        assert_eq!(found.len(), 3, "{found:#?}");
        assert!(found[0].contains("row 2 is"), "{found:#?}");
        assert_eq!(found[1], format!("{DOCUMENT}: no table of {}", SOURCES[1]));
        assert_eq!(found[2], format!("{}: no table of bytes and fields", SOURCES[2]));
    }
}
