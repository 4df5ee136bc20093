//! The site of the tree's own documents.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

#[test]
fn every_link_anchor_and_picture_of_the_site_leads_somewhere() {
    let directory = tempfile::tempdir().expect("a directory");
    let site = directory.path().join("site");
    let pages = weir_book::build(&root(), &site).expect("a site without problems");
    let checked = weir_book::check::site(&site).expect("a site");
    assert!(checked.problems.is_empty(), "{}", checked.problems.join("\n"));
    // The list of contents for browsers without scripts is no document.
    assert_eq!(checked.pages.len(), pages + 1, "{:?}", checked.pages);
    let (links, anchors, pictures) = (checked.links, checked.anchors, checked.pictures);
    assert!(links > 1500 && anchors > 500 && pictures > 20, "{links} links, {anchors} anchors, {pictures} pictures");
    // A second run replaces the first.
    assert_eq!(weir_book::build(&root(), &site).expect("a second site"), pages);
}

#[test]
fn a_directory_with_other_files_is_not_replaced() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("kept"), "kept").expect("a file");
    let refused = weir_book::build(&root(), directory.path()).expect_err("a refusal");
    assert!(refused.to_string().contains("has files and is no site"), "{refused}");
    assert!(directory.path().join("kept").exists());
}
