//! Links and paths of the tree that lead nowhere.
//!
//! Checked are, in Markdown, links to files of the tree, with their anchors, and paths in back
//! quotes; in sources, scripts and data, every path that begins with a directory of the root.
//! Addresses elsewhere are not: the check makes no connections.
//!
//! Worked example: `[the law](receive-meter.md#the-law)` in docs/design/ needs
//! docs/design/receive-meter.md with a heading "The law".

use crate::tree::File;
use regex_lite::Regex;
use std::collections::{BTreeMap, BTreeSet};

/// First parts of a path in back quotes that belongs to the tree.
const ROOTS: [&str; 13] = [
    "bpf/",
    "crates/",
    "data/",
    "datapath/",
    "docs/",
    "fuzz/",
    "packaging/",
    "papers/",
    "scenarios/",
    "schemas/",
    "tools/",
    "Makefile",
    ".ci/",
];

/// Files whose paths are checked wherever they stand, by the end of their names.
const SOURCES: [&str; 7] = [".rs", ".c", ".h", ".sh", ".yaml", ".toml", ".js"];
/// Files with paths of an invented tree, and inputs of parsers.
const INVENTED: [&str; 3] = ["crates/check/tidy/", "crates/check/book/", "fuzz/corpus/"];

/// All files of the tree, as targets of links.
#[derive(Debug)]
pub struct Links<'a> {
    files: BTreeMap<&'a str, &'a str>,
    directories: BTreeSet<&'a str>,
    link: Regex,
    quoted: Regex,
    path: Regex,
}

impl<'a> Links<'a> {
    /// The targets are `files`.
    pub fn new(files: &'a [File]) -> Self {
        let pattern = |text: &str| Regex::new(text).expect("a constant pattern");
        let parents = |path: &'a str| path.match_indices('/').map(move |(end, _)| &path[..end]);
        Self {
            files: files.iter().map(|file| (file.path.as_str(), file.text.as_str())).collect(),
            directories: files.iter().flat_map(|file| parents(&file.path)).collect(),
            link: pattern(r"\]\(([^)\s]+)\)"),
            quoted: pattern(r"`([A-Za-z0-9._/-]+)`"),
            // Not behind `<`: the kernel's headers have a bpf/, too.
            path: pattern(concat!(
                r"(?:^|[^\w/.<-])((?:bpf|crates|data|datapath|docs|fuzz|packaging|papers|scenarios|schemas|tools)/",
                r#"[A-Za-z0-9._/-]*[A-Za-z0-9_])([^\s"'`),;]*)"#
            )),
        }
    }

    /// Each violation as `path:line: message`.
    pub fn check(&self, file: &File) -> Vec<String> {
        if file.path.ends_with(".md") {
            return self.document(file);
        }
        if SOURCES.iter().any(|end| file.path.ends_with(end))
            && !INVENTED.iter().any(|directory| file.path.starts_with(directory))
        {
            return self.source(file);
        }
        Vec::new()
    }

    fn document(&self, file: &File) -> Vec<String> {
        let mut found = Vec::new();
        for (line, number) in file.text.lines().zip(1..) {
            let links = self.link.captures_iter(line).filter_map(|captures| captures.get(1));
            for target in links.map(|link| link.as_str()).filter(|target| !target.contains("://")) {
                if let Err(message) = self.follow(&file.path, target) {
                    found.push(format!("{}:{number}: {target}: {message}", file.path));
                }
            }
            let quoted = self.quoted.captures_iter(line).filter_map(|captures| captures.get(1));
            for path in quoted.map(|path| path.as_str()).filter(|path| ROOTS.iter().any(|root| path.starts_with(root)))
            {
                if !is_pattern(path) && !self.exists(path.trim_end_matches('/')) {
                    found.push(format!("{}:{number}: `{path}`: no such file", file.path));
                }
            }
        }
        found
    }

    fn source(&self, file: &File) -> Vec<String> {
        let mut found = Vec::new();
        // Most lines need no search.
        let has_root = |line: &str| ROOTS.iter().any(|root| line.contains(root));
        for (line, number) in file.text.lines().zip(1..).filter(|(line, _)| has_root(line)) {
            for captures in self.path.captures_iter(line) {
                let (path, behind) = (&captures[1], &captures[2]);
                // The rest of a pattern or of a path that is put together: `papers/*.yaml`, "docs/{name}".
                let is_beginning = behind.contains(['*', '{', '$', '<', '[', '%', '…']);
                if !is_beginning && !is_pattern(path) && !self.exists(path) {
                    found.push(format!("{}:{number}: {path}: no such file", file.path));
                }
            }
        }
        found
    }

    fn exists(&self, path: &str) -> bool {
        self.files.contains_key(path) || self.directories.contains(path)
    }

    fn follow(&self, from: &str, target: &str) -> Result<(), &'static str> {
        let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
        let path = if path.is_empty() { from.to_owned() } else { resolve(from, path) };
        if !self.exists(path.trim_end_matches('/')) {
            return Err("no such file");
        }
        match (anchor, self.files.get(path.as_str())) {
            (Some(anchor), Some(text)) if path.ends_with(".md") && !anchors(text).any(|found| found == anchor) => {
                Err("no such heading")
            }
            _ => Ok(()),
        }
    }
}

/// Whether a path has a placeholder in capitals: `papers/ID.yaml`.
fn is_pattern(path: &str) -> bool {
    let is_name = |part: &str| part.len() > 1 && part.chars().all(|letter| letter.is_ascii_uppercase());
    path.split(['/', '.']).any(is_name)
}

/// `target` as seen from the directory of `from`.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchors of a document's headings, as they are made on code hosts: lower case, punctuation
/// dropped, blanks as `-`.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
        kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let files =
            [file("docs/a.md", text), file("docs/design/b.md", "# The law, in short\n"), file("crates/x/y.rs", "")];
        Links::new(&files).check(&files[0])
    }

    #[test]
    fn links_that_lead_somewhere_are_accepted() {
        let text = "[b](design/b.md#the-law-in-short) [c](../crates/x) `crates/x/y.rs` `papers/ID.yaml` \
                [d](https://example.org/none) `a/b`";
        assert!(found(text).is_empty(), "{:?}", found(text));
    }

    #[test]
    fn dead_links_anchors_and_paths_are_refused() {
        assert_eq!(found("\n[b](design/c.md)"), ["docs/a.md:2: design/c.md: no such file"]);
        assert_eq!(found("[b](design/b.md#law)"), ["docs/a.md:1: design/b.md#law: no such heading"]);
        assert_eq!(found("`crates/x/z.rs`"), ["docs/a.md:1: `crates/x/z.rs`: no such file"]);
    }

    #[test]
    fn paths_in_sources_are_checked_without_quotes() {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let files = [file("docs/a.md", ""), file("crates/x/y.rs", "")];
        let found = |text: &str| Links::new(&files).check(&file("crates/x/y.rs", text));
        let accepted = "// docs/a.md, crates/x/y.rs; papers/ID.yaml docs/*.md docs/{name} ../docs/b.md";
        assert!(found(accepted).is_empty(), "{:?}", found(accepted));
        assert_eq!(found("\n// see docs/b.md."), ["crates/x/y.rs:2: docs/b.md: no such file"]);
        assert!(found("#include <bpf/bpf_helpers.h>").is_empty());
    }
}
