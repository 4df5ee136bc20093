//! The documents at the root and under docs/ point to what is there.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn entries(directory: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path())
}

fn is_document(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

fn documents() -> Vec<PathBuf> {
    let docs = root().join("docs");
    let kinds = entries(&docs).filter(|path| path.is_dir());
    let below = kinds.flat_map(|directory| entries(&directory).collect::<Vec<_>>());
    entries(&root()).chain(entries(&docs)).chain(below).filter(|path| is_document(path)).collect()
}

#[test]
fn links_lead_somewhere() {
    let mut links = 0;
    for document in documents() {
        let text = fs::read_to_string(&document).expect("text");
        for part in text.split("](").skip(1) {
            let target = part.split(')').next().expect("a link ends").split('#').next().expect("a part");
            let here = document.parent().expect("a directory").join(target);
            assert!(target.is_empty() || here.exists(), "{}: {target} is not there", document.display());
            links += 1;
        }
    }
    assert!(links > 10, "only {links} links were found");
}

#[test]
fn the_glossary_names_files_that_exist() {
    let text = fs::read_to_string(root().join("GLOSSARY.md")).expect("text");
    let mut files = 0;
    for row in text.lines().filter(|line| line.starts_with("| ") && line.contains('`')) {
        let cell = row.split('|').nth(3).expect("a column for the file");
        let mut base = String::new();
        for name in cell.split('`').skip(1).step_by(2).filter(|name| name.contains('/') || name.ends_with(".rs")) {
            // A second file without directory is in the directory of the first.
            let path = if name.contains('/') { name.to_owned() } else { format!("{base}/{name}") };
            base = path.rsplit_once('/').map_or(String::new(), |(directory, _)| directory.to_owned());
            assert!(root().join(&path).exists(), "{path} is not there: {row}");
            files += 1;
        }
    }
    assert!(files > 40, "only {files} files were found");
}
