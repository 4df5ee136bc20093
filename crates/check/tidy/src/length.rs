//! Lines of at most 120 columns, C functions of at most 70 lines, source files of at most 700, module
//! docs of the per-packet code and the brokers of at most 45.
//!
//! The bounds are rustfmt's `max_width` and the project's own (CONTRIBUTING.md). A tab counts to
//! the next multiple of eight, as the kernel's coding style has it. Tables of Markdown, data and
//! recorded output keep their lines.

use crate::tree::File;

/// Columns of a line.
pub const COLUMNS: usize = 120;
/// Lines of a C function, its first and last included.
pub const FUNCTION: usize = 70;
/// Lines of a source file.
pub const FILE: usize = 700;
/// Lines of the comment at the head of a file: a screen; derivations are in docs/design/.
pub const HEAD: usize = 45;
/// Where heads are checked.
const HEADS: [&str; 3] = ["datapath/", "bpf/", "crates/decide/control/"];

/// Files that may have longer lines, by a part of their paths: recorded output and
/// input, data, generated files, and a text of others.
const NOT_CHECKED: [&str; 8] =
    [".snap", "fuzz/corpus/", "/proptest-regressions/", ".csv", ".json", ".svg", ".lock", "LICENSE"];

/// Files that are longer for a reason.
const LONG_FILES: [(&str, &str); 0] = [];
/// C functions that are longer for a reason.
const LONG_FUNCTIONS: [(&str, &str); 0] = [];

/// Each violation as `path:line: message`.
pub fn check(file: &File) -> Vec<String> {
    if NOT_CHECKED.iter().any(|name| file.path.contains(name)) {
        return Vec::new();
    }
    let mut found = long_lines(file);
    if file.path.ends_with(".c") || file.path.ends_with(".h") {
        found.extend(long_functions(file));
    }
    let lines = file.text.lines().count();
    let is_source = [".rs", ".c", ".h", ".js"].iter().any(|end| file.path.ends_with(end));
    if is_source && lines > FILE && !LONG_FILES.iter().any(|(path, _)| *path == file.path) {
        found.push(format!("{}:1: {lines} lines, at most {FILE}", file.path));
    }
    let head = head(file);
    if is_source && HEADS.iter().any(|path| file.path.starts_with(path)) && head > HEAD {
        found.push(format!("{}:1: {head} lines of comment at the head, at most {HEAD}", file.path));
    }
    found
}

/// Lines of the comment before the first line of code.
fn head(file: &File) -> usize {
    let is_comment = |line: &&str| ["//", "/*", " *"].iter().any(|mark| line.starts_with(mark)) || line.is_empty();
    file.text.lines().take_while(is_comment).filter(|line| !line.is_empty()).count()
}

fn long_lines(file: &File) -> Vec<String> {
    let markdown = file.path.ends_with(".md");
    let is_table = |line: &str| markdown && line.trim_start().starts_with('|');
    let long = |line: &str| columns(line) > COLUMNS && !is_table(line) && !is_one_word(line);
    let lines = file.text.lines().zip(1..).filter(|(line, _)| long(line));
    lines
        .map(|(line, number)| format!("{}:{number}: {} columns, at most {COLUMNS}", file.path, columns(line)))
        .collect()
}

/// Whether no line could be shorter: a link or a path, with a few columns before or after it.
fn is_one_word(line: &str) -> bool {
    let longest = line.split_whitespace().map(columns).max().unwrap_or_default();
    columns(line) - longest <= 20
}

/// Columns that a line takes.
fn columns(line: &str) -> usize {
    line.chars().fold(0, |columns, letter| if letter == '\t' { columns / 8 * 8 + 8 } else { columns + 1 })
}

/// A function begins where a line without indentation is `{` and ends with the next `}` in the first column.
fn long_functions(file: &File) -> Vec<String> {
    let (mut found, mut begin) = (Vec::new(), None);
    for (line, number) in file.text.lines().zip(1_usize..) {
        match (line, begin) {
            ("{", None) => begin = Some(number),
            ("}", Some(first)) => {
                let lines = number - first + 2;
                if lines > FUNCTION && !LONG_FUNCTIONS.iter().any(|(path, _)| *path == file.path) {
                    found.push(format!("{}:{first}: a function of {lines} lines, at most {FUNCTION}", file.path));
                }
                begin = None;
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: String) -> File {
        File { path: path.to_owned(), text }
    }

    #[test]
    fn long_lines_are_refused_and_tables_are_not() {
        let long = "word ".repeat(30);
        assert_eq!(check(&file("docs/a.md", format!("short\n{long}"))), ["docs/a.md:2: 150 columns, at most 120"]);
        assert!(check(&file("docs/a.md", format!("| {long} |"))).is_empty());
        assert!(check(&file("docs/a.md", format!("[a link]({})", "x".repeat(150)))).is_empty());
        assert_eq!(check(&file("docs/a.md", format!("{} {}", "x".repeat(101), "y".repeat(21)))).len(), 1);
    }

    #[test]
    fn a_tab_ends_at_a_multiple_of_eight() {
        assert_eq!([columns("\tx"), columns("xx\tx"), columns("\t\t")], [9, 9, 16]);
    }

    #[test]
    fn long_functions_of_c_are_refused() {
        let of = |lines: usize| format!("int f(void)\n{{\n{}}}\n", "\tx();\n".repeat(lines));
        assert!(check(&file("bpf/a.h", of(67))).is_empty());
        assert_eq!(check(&file("bpf/a.h", of(68))), ["bpf/a.h:2: a function of 71 lines, at most 70"]);
    }

    #[test]
    fn long_heads_are_refused() {
        let of =
            |lines: usize| format!("/* L */\n/*\n{} */\n#include \"b.h\"\n/* more */\n", " * word\n".repeat(lines));
        assert!(check(&file("datapath/a.h", of(42))).is_empty());
        assert_eq!(
            check(&file("datapath/a.h", of(43))),
            ["datapath/a.h:1: 46 lines of comment at the head, at most 45"]
        );
        assert!(check(&file("tools/a.h", of(43))).is_empty());
    }

    #[test]
    fn long_files_are_refused() {
        assert_eq!(check(&file("crates/a.rs", "\n".repeat(701))), ["crates/a.rs:1: 701 lines, at most 700"]);
    }
}
