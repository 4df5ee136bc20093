//! The site of the documents.
//!
//! Problem: the documents are Markdown files that link to each other, to files of the tree and to documents at its
//! root, and a site of docs/ alone would break these links. Approach: [`stage`] arranges the pages as the site has
//! them and corrects their links, mdBook renders the arranged pages, and [`check`] follows every link of the result.
//!
//! | module | content |
//! |---|---|
//! | [`stage`] | from the tree to pages and files of the site; refuses pages that docs/SUMMARY.md lacks |
//! | [`check`] | links, anchors and pictures of the built site |
//! | [`markdown`] | links of a Markdown text |
//!
//! Worked example: docs/reference/tenants.md links to `../../scenarios/tenants.policy.yaml`. The page becomes
//! `reference/tenants.html`, the policy is copied to `files/scenarios/tenants.policy.yaml`, and the link leads there.

pub mod check;
pub mod markdown;
pub mod stage;

use anyhow::{Context, Result, bail, ensure};
use mdbook_driver::MDBook;
use mdbook_driver::config::Config;
use std::path::Path;

/// A file that every site has, and hardly another directory.
const MARK: &str = "toc.html";

/// Writes the site of the tree at `root` into the directory `site`, and returns the number of its pages.
///
/// # Errors
/// A page without an entry in docs/SUMMARY.md, a link that leads nowhere, a file that cannot be read or written, and
/// a directory `site` that contains other files.
pub fn build(root: &Path, site: &Path) -> Result<usize> {
    let is_empty = |directory: &Path| std::fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none());
    if site.exists() && !is_empty(site) && !site.join(MARK).exists() {
        bail!("{} has files and is no site; choose a directory that is absent or empty", site.display());
    }
    let book = stage::Book::of(root)?;
    let staged = tempfile::tempdir().context("no temporary directory")?;
    book.write(root, &staged.path().join("src"))?;

    let mut config: Config = include_str!("../book.toml").parse().context("book.toml")?;
    // A relative directory would be one below the staged pages.
    config.build.build_dir = std::path::absolute(site).context("the directory of the site")?;
    MDBook::load_with_config(staged.path(), config)?.build()?;

    let problems = check::site(site)?.problems;
    ensure!(problems.is_empty(), "the site has broken links:\n{}", problems.join("\n"));
    Ok(book.pages.len())
}
