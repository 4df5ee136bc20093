//! The tree passes its own checks. `WEIR_TIDY=crates/simulate/sim` limits the report to paths that begin so.

use std::path::Path;
use weir_tidy::links::Links;
use weir_tidy::terms::Terms;
use weir_tidy::tree::File;
use weir_tidy::wording::Wording;
use weir_tidy::{arrows, contents, length, messages, tree, versions, wire};

fn files() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let files = tree::files(&root).expect("the tree can be read");
    assert!(files.len() > 500, "{} files: the tree is not where the test looks", files.len());
    files
}

fn refuse(check: impl Fn(&File) -> Vec<String>) {
    let only = std::env::var("WEIR_TIDY").unwrap_or_default();
    let files = files();
    let found: Vec<String> = files.iter().filter(|file| file.path.starts_with(&only)).flat_map(check).collect();
    assert!(found.is_empty(), "{} violations:\n{}", found.len(), found.join("\n"));
}

#[test]
fn replaced_terms_do_not_come_back() {
    let terms = Terms::default();
    refuse(|file| terms.check(file));
}

#[test]
fn lines_functions_and_files_are_short() {
    refuse(length::check);
}

#[test]
fn links_and_paths_lead_somewhere() {
    let files = files();
    let links = Links::new(&files);
    refuse(|file| links.check(file));
}

#[test]
fn the_index_of_documents_links_every_page() {
    let found = contents::check(&files());
    assert!(found.is_empty(), "{} violations:\n{}", found.len(), found.join("\n"));
}

#[test]
fn descriptions_and_tests_are_named_by_nouns_and_results() {
    let wording = Wording::default();
    refuse(|file| wording.check(file));
}

#[test]
fn dependencies_follow_the_layers() {
    let found = arrows::check(&files());
    assert!(found.is_empty(), "{} violations:\n{}", found.len(), found.join("\n"));
}

#[test]
fn the_tables_of_messages_are_those_of_the_code() {
    let found = wire::check(&files());
    assert!(found.is_empty(), "{} violations:\n{}", found.len(), found.join("\n"));
}

#[test]
fn quoted_messages_have_a_source() {
    let found = messages::check(&files());
    assert!(found.is_empty(), "{} violations:\n{}", found.len(), found.join("\n"));
}

#[test]
fn documents_have_the_versions_of_the_code() {
    let found = versions::check(&files());
    assert!(found.is_empty(), "{} violations:\n{}", found.len(), found.join("\n"));
}
