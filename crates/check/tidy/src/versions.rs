//! Versions of formats and of Weir that documents state otherwise than the sources.
//!
//! Problem: operators decide by docs/reference/compatibility.md whether two versions of Weir can share a rack, and a
//! constant changes without that page; a release has no entry in CHANGELOG.md. Approach: [`FORMATS`] names the
//! definition of each format's version. The version there must be that of the format's row in the page, and a
//! definition that looks like a version and is not in [`FORMATS`] is refused. The newest release in CHANGELOG.md must
//! be the version of the workspace, below a part for changes that are not released.
//!
//! Worked example: `#define WEIR_WIRE_VERSION 3` beside a row `| feedback packet | `2` |` is refused.

use crate::tree::File;
use regex_lite::Regex;

const DOCUMENT: &str = "docs/reference/compatibility.md";
const CHANGELOG: &str = "CHANGELOG.md";
/// Definitions that are not of a format: a number that the build computes, and names of results.
const OTHERS: [(&str, &str); 3] = [
    ("crates/packet/datapath/build/main.rs", "VERSION: u64 = {version:#x}"),
    ("datapath/credit_message.h", "WEIR_CREDIT_OTHER_VERSION"),
    ("datapath/feedback.h", "WEIR_FEEDBACK_VERSION"),
];

const LANGUAGE: &str = "static VERSION: Scalar = Scalar::Words { what: \"a format version that this program reads\", \
                        words: &[\"";

/// The name of a format's row, and its definitions: a file, and the text before the version.
const FORMATS: &[(&str, &[(&str, &str)])] = &[
    ("policy", &[("crates/model/policy/src/language.rs", LANGUAGE)]),
    ("scenario", &[("crates/simulate/scenario/src/language/mod.rs", LANGUAGE)]),
    ("published experiment", &[("crates/front/experiment/src/language.rs", LANGUAGE)]),
    (
        "placement",
        &[(
            "crates/decide/placement/src/file.rs",
            "static VERSION: Scalar = Scalar::Words { what: \"a version\", words: &[\"",
        )],
    ),
    ("results of a run", &[("crates/simulate/results/src/json.rs", "pub(crate) const FORMAT: u32 = ")]),
    ("sweep", &[("crates/front/runs/src/sweep/manifest.rs", "const FORMAT: u32 = ")]),
    ("sweep dataset", &[("crates/simulate/results/src/dataset.rs", "const FORMAT: u32 = ")]),
    ("sweep job", &[("crates/front/runs/src/sweep/job.rs", "const FORMAT: u32 = ")]),
    ("status", &[("crates/serve/status/src/model.rs", "pub const VERSION: u32 = ")]),
    ("rack datagram", &[("crates/decide/control/src/wire/datagram.rs", "pub const VERSION: u8 = ")]),
    ("feedback packet", &[("datapath/feedback.h", "#define WEIR_WIRE_VERSION ")]),
    (
        "credit message",
        &[
            ("datapath/credit_message.h", "#define WEIR_CREDIT_VERSION "),
            ("crates/decide/credits/src/wire/mod.rs", "pub const VERSION: u8 = "),
        ],
    ),
    ("fabric RPC", &[("crates/serve/fabric/proto/fabric.proto", "package ")]),
    ("tenants' queues RPC", &[("crates/serve/fabric/proto/binding.proto", "package ")]),
    ("fingerprint of a policy", &[("crates/model/policy/src/digest.rs", "writeln!(out, \"weir ")]),
    ("pinned maps", &[("datapath/host/tables.h", "#define WEIR_STATE_REVISION ")]),
    ("record of a pod", &[("crates/host/pods/src/record.rs", "pub const FORMAT: u32 = ")]),
    ("saved tenants", &[("crates/host/agent/src/daemon/saved.rs", "const FORMAT: u32 = ")]),
];

/// The violations of all files, as `path:line: message`.
pub fn check(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    formats(files, &mut found);
    definitions(files, &mut found);
    changelog(files, &mut found);
    found
}

fn text<'a>(files: &'a [File], path: &str) -> Option<&'a str> {
    files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
}

/// The version that follows `before` in a file: it ends at a quote, a blank or a semicolon.
fn defined<'a>(files: &'a [File], path: &str, before: &str) -> Result<&'a str, String> {
    let file = text(files, path).ok_or_else(|| format!("{path}:1: there is no such file"))?;
    let mut parts = file.split(before).skip(1);
    match (parts.next(), parts.next()) {
        (Some(after), None) => Ok(after.split(['"', ' ', ';', '\n']).next().unwrap_or_default()),
        _ => Err(format!("{path}:1: `{before}` occurs not once")),
    }
}

/// The cells of the page's rows, with their lines.
fn rows(document: &str) -> Vec<(usize, Vec<&str>)> {
    (1..)
        .zip(document.lines())
        .filter_map(|(number, line)| {
            let cells = line.strip_prefix("| ")?.strip_suffix(" |")?;
            Some((number, cells.split(" | ").collect()))
        })
        .collect()
}

fn formats(files: &[File], found: &mut Vec<String>) {
    let Some(document) = text(files, DOCUMENT) else {
        found.push(format!("{DOCUMENT}:1: there is no such file"));
        return;
    };
    let rows = rows(document);
    for (name, sources) in FORMATS {
        let mut of = rows.iter().filter(|(_, cells)| cells[0] == *name);
        let (Some((line, cells)), None) = (of.next(), of.next()) else {
            found.push(format!("{DOCUMENT}:1: `{name}` has not one row"));
            continue;
        };
        let stated = cells.get(1).copied().unwrap_or_default();
        for (path, before) in *sources {
            match defined(files, path, before) {
                Ok(version) if stated == format!("`{version}`") => {}
                Ok(version) => {
                    found.push(format!("{DOCUMENT}:{line}: `{name}` has version `{version}` in {path}, here {stated}"));
                }
                Err(error) => found.push(error),
            }
        }
    }
}

/// Definitions of versions that no format has.
fn definitions(files: &[File], found: &mut Vec<String>) {
    const RUST: &str = r"^\s*(pub(\(\w+\))? )?(const|static) (\w+_)?(VERSION|FORMAT): (u|Scalar)";
    const C_OR_PROTOBUF: &str = r"^#define \w*(VERSION|REVISION) +\d|^package weir\.";
    let definition = Regex::new(&format!("{RUST}|{C_OR_PROTOBUF}")).expect("a regular expression");
    let is_source = |file: &&File| {
        ["crates/", "datapath/", "bpf/"].iter().any(|folder| file.path.starts_with(folder))
            && [".rs", ".h", ".proto"].iter().any(|end| file.path.ends_with(end))
    };
    for file in files.iter().filter(is_source) {
        let own = FORMATS.iter().flat_map(|(_, sources)| *sources).chain(&OTHERS);
        let known: Vec<&str> = own.filter(|(path, _)| *path == file.path).map(|(_, text)| *text).collect();
        for (number, line) in (1..).zip(file.text.lines()) {
            if definition.is_match(line) && !known.iter().any(|text| line.contains(text)) {
                found.push(format!(
                    "{}:{number}: a version without a row in {DOCUMENT}: add both to crates/check/tidy/src/versions.rs",
                    file.path
                ));
            }
        }
    }
}

fn changelog(files: &[File], found: &mut Vec<String>) {
    let Some(log) = text(files, CHANGELOG) else {
        found.push(format!("{CHANGELOG}:1: there is no such file"));
        return;
    };
    let release = Regex::new(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$").expect("a regular expression");
    let mut headings = (1..).zip(log.lines()).filter(|(_, line)| line.starts_with("## "));
    if headings.next().is_none_or(|(_, line)| line != "## [Unreleased]") {
        found.push(format!("{CHANGELOG}:1: the first heading is not `## [Unreleased]`"));
    }
    let mut releases = Vec::new();
    for (number, line) in headings {
        match release.captures(line) {
            Some(parts) => releases.push(parts[1].to_owned()),
            None => found.push(format!("{CHANGELOG}:{number}: write `## [0.2.0] - 2026-11-29`")),
        }
    }
    match defined(files, "Cargo.toml", "[workspace.package]\nversion = \"") {
        Ok(version) if releases.first().is_some_and(|first| first == version) => {}
        Ok(version) => {
            found.push(format!("{CHANGELOG}:1: the newest release is not {version}, the version of the workspace"));
        }
        Err(error) => found.push(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn a_version_that_differs_from_its_row_is_refused() {
        let header = "#define WEIR_WIRE_VERSION 3\n";
        let files = [
            file("datapath/feedback.h", header),
            file(DOCUMENT, "# Compatibility\n\n| feedback packet | `2` | always |\n"),
        ];
        let mut found = Vec::new();
        formats(&files, &mut found);
        let wrong = format!("{DOCUMENT}:3: `feedback packet` has version `3` in datapath/feedback.h, here `2`");
        assert!(found.contains(&wrong), "{found:#?}");
        assert_eq!(found.len(), FORMATS.len(), "each other format lacks its row");
    }

    #[test]
    fn definitions_without_a_row_are_refused() {
        let files = [
            file("crates/serve/status/src/model.rs", "pub const VERSION: u32 = 1;\n"),
            file("crates/serve/new/src/lib.rs", "\n    const PART_FORMAT: u8 = 1;\n"),
            file("bpf/new.h", "#define WEIR_NEW_VERSION 1\n"),
            file("crates/serve/new/proto/new.proto", "package weir.new.v1;\n"),
        ];
        let mut found = Vec::new();
        definitions(&files, &mut found);
        let places: Vec<_> = found.iter().map(|line| line.split(": ").next().expect("a place")).collect();
        let expected = ["crates/serve/new/src/lib.rs:2", "bpf/new.h:1", "crates/serve/new/proto/new.proto:1"];
        assert_eq!(places, expected);
    }

    #[test]
    fn the_changelog_has_the_workspace_version() {
        let of = |version: &str, log: &str| {
            let manifest = format!("[workspace.package]\nversion = \"{version}\"\n");
            let mut found = Vec::new();
            changelog(&[file("Cargo.toml", &manifest), file(CHANGELOG, log)], &mut found);
            found
        };
        let log = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-11-29\n";
        assert!(of("0.2.0", log).is_empty());
        assert_eq!(of("0.3.0", log).len(), 1);
        assert_eq!(of("0.2.0", "# Changelog\n\n## [0.2.0] - 2026-11-29\n").len(), 2, "no part for later changes");
        assert_eq!(of("0.2.0", &log.replace("2026-11-29", "November")).len(), 2);
    }
}
