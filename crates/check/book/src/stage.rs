//! Pages and files of the site, from the tree.
//!
//! docs/SUMMARY.md lists the pages. Documents below docs/ keep their paths in the site, docs/README.md becomes the
//! start page, documents elsewhere are below `project/`, and other files that pages link to are below `files/`.
//!
//! Worked example: `[Glossary](../GLOSSARY.md)` in docs/SUMMARY.md makes GLOSSARY.md the page `project/GLOSSARY.md`,
//! and docs/how-to/a.md links to it as `../project/GLOSSARY.md`.

use crate::markdown;
use anyhow::{Context, Result, anyhow, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The list of the pages.
pub const SUMMARY: &str = "docs/SUMMARY.md";
/// The page that a visitor opens first.
const START: &str = "docs/README.md";

/// Pages and files of a site.
#[derive(Debug, Default)]
pub struct Book {
    /// Texts of the pages by their paths in the site, links corrected.
    pub pages: BTreeMap<String, String>,
    /// Paths in the tree of the other files, by their paths in the site.
    pub files: BTreeMap<String, String>,
    /// The list of the pages, links corrected.
    summary: String,
}

impl Book {
    /// The book of the tree at `root`.
    ///
    /// # Errors
    /// A document below docs/ that is absent from docs/SUMMARY.md, an entry or a link to a file that does not exist,
    /// and a link to a directory or to a document that is no page.
    pub fn of(root: &Path) -> Result<Self> {
        let read = |path: &str| fs::read_to_string(root.join(path)).with_context(|| path.to_owned());
        let summary = read(SUMMARY)?;
        let mut pages = BTreeSet::new();
        markdown::replace_targets(&summary, |target| {
            let path = resolve(SUMMARY, target)?;
            pages.insert(path);
            Ok::<_, anyhow::Error>(String::new())
        })
        .map_err(|error| anyhow!("{SUMMARY}:{error}"))?;
        for document in documents(root)?.iter().filter(|path| *path != SUMMARY) {
            if !pages.contains(document) {
                bail!("{document} is not in {SUMMARY}: add it below the kind of page that it is");
            }
        }

        let mut book = Self::default();
        book.summary = book.correct(root, &pages, SUMMARY, &summary)?;
        for page in &pages {
            let text = book.correct(root, &pages, page, &read(page)?)?;
            book.pages.insert(page_path(page), text);
        }
        Ok(book)
    }

    /// `text`, a page of the tree, with the links of the site.
    fn correct(&mut self, root: &Path, pages: &BTreeSet<String>, page: &str, text: &str) -> Result<String> {
        let from = page_path(page);
        let files = &mut self.files;
        let corrected = markdown::replace_targets(text, |target| {
            if target.contains("://") || target.starts_with('#') {
                return Ok(target.to_owned());
            }
            let (path, anchor) = target.find('#').map_or((target, ""), |at| target.split_at(at));
            let path = resolve(page, path)?;
            let to = if pages.contains(&path) {
                page_path(&path)
            } else if has_extension(&path, "md") {
                bail!("not in {SUMMARY}");
            } else if root.join(&path).is_file() {
                let to = file_path(&path);
                files.insert(to.clone(), path);
                to
            } else {
                bail!("no such file; a link of the site leads to a file");
            };
            Ok(format!("{}{anchor}", relative(&from, &to)))
        });
        corrected.map_err(|error| anyhow!("{page}:{error}"))
    }

    /// Writes the pages, and copies the files of the tree at `root`, into `directory`.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub fn write(&self, root: &Path, directory: &Path) -> Result<()> {
        let target = |path: &str| -> Result<_> {
            let path = directory.join(path);
            let parent = path.parent().context("a file is in a directory")?;
            fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
            Ok(path)
        };
        fs::write(target("SUMMARY.md")?, &self.summary).context("SUMMARY.md")?;
        for (path, text) in &self.pages {
            fs::write(target(path)?, text).with_context(|| path.clone())?;
        }
        for (to, from) in &self.files {
            fs::copy(root.join(from), target(to)?).with_context(|| from.clone())?;
        }
        Ok(())
    }
}

/// The documents below docs/, as paths in the tree.
fn documents(root: &Path) -> Result<Vec<String>> {
    let (mut found, mut open) = (Vec::new(), vec!["docs".to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(root.join(&directory)).with_context(|| directory.clone())? {
            let entry = entry?;
            let name = format!("{directory}/{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                open.push(name);
            } else if has_extension(&name, "md") {
                found.push(name);
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == extension)
}

/// The path in the site of a page of the tree.
fn page_path(page: &str) -> String {
    match page.strip_prefix("docs/") {
        _ if page == START => "index.md".to_owned(),
        Some(below) => below.to_owned(),
        None => format!("project/{page}"),
    }
}

/// The path in the site of another file of the tree.
fn file_path(file: &str) -> String {
    file.strip_prefix("docs/").map_or_else(|| format!("files/{file}"), str::to_owned)
}

/// The path in the tree of `target`, a link in the file `from`.
fn resolve(from: &str, target: &str) -> Result<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop().ok_or_else(|| anyhow!("outside of the tree"))?),
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

/// The link from the page `from` to the page or file `to`, both paths in the site.
fn relative(from: &str, to: &str) -> String {
    let (from, to): (Vec<&str>, Vec<&str>) = (from.split('/').collect(), to.split('/').collect());
    let shared = from.iter().zip(&to).take(from.len().min(to.len()) - 1).take_while(|(a, b)| a == b).count();
    let up = "../".repeat(from.len() - 1 - shared);
    format!("{up}{}", to[shared..].join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of these files.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            fs::write(path, text).expect("a file");
        }
        root
    }

    fn refusal(files: &[(&str, &str)]) -> String {
        let root = tree(files);
        format!("{:#}", Book::of(root.path()).expect_err("a refusal"))
    }

    #[test]
    fn links_lead_to_the_pages_and_files_of_the_site() {
        let root = tree(&[
            ("docs/SUMMARY.md", "[Weir](README.md)\n\n- [A](how-to/a.md)\n- [Terms](../TERMS.md)\n"),
            ("docs/README.md", "[a](how-to/a.md#b)\n"),
            ("docs/how-to/a.md", "[t](../../TERMS.md) ![p](../p.svg) [s](../../s/x.yaml) [w](https://example.org)\n"),
            ("docs/p.svg", "<svg/>"),
            ("TERMS.md", "[a](docs/how-to/a.md) [start](docs/README.md)\n"),
            ("s/x.yaml", "x: 1"),
        ]);
        let book = Book::of(root.path()).expect("a book");
        assert_eq!(book.summary, "[Weir](index.md)\n\n- [A](how-to/a.md)\n- [Terms](project/TERMS.md)\n");
        assert_eq!(book.pages["index.md"], "[a](how-to/a.md#b)\n");
        assert_eq!(
            book.pages["how-to/a.md"],
            "[t](../project/TERMS.md) ![p](../p.svg) [s](../files/s/x.yaml) [w](https://example.org)\n"
        );
        assert_eq!(book.pages["project/TERMS.md"], "[a](../how-to/a.md) [start](../index.md)\n");
        assert_eq!(book.files["files/s/x.yaml"], "s/x.yaml");
        assert_eq!(book.files["p.svg"], "docs/p.svg");
    }

    #[test]
    fn a_page_that_the_summary_lacks_is_refused() {
        let found = refusal(&[("docs/SUMMARY.md", "[Weir](README.md)\n"), ("docs/README.md", ""), ("docs/b/a.md", "")]);
        assert_eq!(found, "docs/b/a.md is not in docs/SUMMARY.md: add it below the kind of page that it is");
    }

    #[test]
    fn links_that_lead_nowhere_are_refused_with_their_lines() {
        let with =
            |text| refusal(&[("docs/SUMMARY.md", "[Weir](README.md)\n"), ("docs/README.md", text), ("X.md", "")]);
        assert_eq!(with("\n[x](../X.md)"), "docs/README.md:2: ../X.md: not in docs/SUMMARY.md");
        let no_file = "no such file; a link of the site leads to a file";
        assert_eq!(with("[x](x.yaml)"), format!("docs/README.md:1: x.yaml: {no_file}"));
        assert_eq!(with("[x](../docs)"), format!("docs/README.md:1: ../docs: {no_file}"));
        assert_eq!(with("[x](../../x.yaml)"), "docs/README.md:1: ../../x.yaml: outside of the tree");
        let found = refusal(&[("docs/SUMMARY.md", "[Weir](README.md)\n")]);
        assert!(found.starts_with("docs/README.md: "), "{found}");
    }
}
