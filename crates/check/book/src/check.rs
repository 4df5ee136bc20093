//! Links, anchors and pictures of a built site.
//!
//! Every `href` and `src` of every page must lead to a file of the site, and its anchor to an element with that id.
//! Addresses elsewhere are not followed: the check makes no connections.
//!
//! Worked example: `<a href="b.html#law">` in a/a.html needs a/b.html with an element of `id="law"`.

use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The result of a check.
#[derive(Debug, Default)]
pub struct Checked {
    /// Pages of the site.
    pub pages: BTreeSet<PathBuf>,
    /// Links that lead to a file of the site, pictures included.
    pub links: usize,
    /// Links that lead to an anchor.
    pub anchors: usize,
    /// Pictures.
    pub pictures: usize,
    /// Each violation as `page: link: message`.
    pub problems: Vec<String>,
}

/// A page, as the check needs it.
#[derive(Debug, Default)]
struct Page {
    ids: BTreeSet<String>,
    /// Name of the element and the link.
    links: Vec<(String, String)>,
}

/// Checks the site in the directory `site`.
///
/// # Errors
/// A directory or page that cannot be read.
pub fn site(site: &Path) -> Result<Checked> {
    let (mut files, mut open) = (BTreeSet::new(), vec![PathBuf::new()]);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(site.join(&directory)).with_context(|| site.display().to_string())? {
            let entry = entry?;
            let path = directory.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                open.push(path);
            } else {
                files.insert(path);
            }
        }
    }
    let is_page = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "html");
    let mut pages = BTreeMap::new();
    for path in files.iter().filter(is_page) {
        let text = fs::read_to_string(site.join(path)).with_context(|| path.display().to_string())?;
        pages.insert(path.clone(), page(&text));
    }

    let mut checked = Checked { pages: pages.keys().cloned().collect(), ..Checked::default() };
    for (path, page) in &pages {
        for (element, link) in page.links.iter().filter(|(_, link)| !is_elsewhere(link)) {
            checked.links += 1;
            checked.pictures += usize::from(element == "img");
            checked.anchors += usize::from(link.contains('#'));
            if let Err(message) = follow(&files, &pages, path, link) {
                checked.problems.push(format!("{}: {link}: {message}", path.display()));
            }
        }
    }
    Ok(checked)
}

fn is_elsewhere(link: &str) -> bool {
    ["http://", "https://", "mailto:", "data:"].iter().any(|scheme| link.starts_with(scheme))
}

fn follow(
    files: &BTreeSet<PathBuf>,
    pages: &BTreeMap<PathBuf, Page>,
    from: &Path,
    link: &str,
) -> Result<(), &'static str> {
    let (target, anchor) = link.split_once('#').map_or((link, None), |(target, anchor)| (target, Some(anchor)));
    let mut path = from.to_owned();
    if !target.is_empty() {
        path.pop();
        for part in target.split('/') {
            match part {
                "" | "." => {}
                ".." if !path.pop() => return Err("outside of the site"),
                ".." => {}
                part => path.push(decoded(part)),
            }
        }
    }
    if !files.contains(&path) {
        return Err("no such file");
    }
    match (anchor, pages.get(&path)) {
        (Some(anchor), Some(page)) if !page.ids.contains(&decoded(anchor)) => Err("no such anchor"),
        _ => Ok(()),
    }
}

/// A part of an address without its percent signs; a malformed sequence stays.
fn decoded(part: &str) -> String {
    let bytes = part.as_bytes();
    let (mut found, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let code = part.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        if let Some(byte) = code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            found.push(byte);
            at += 3;
        } else {
            found.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&found).into_owned()
}

/// Ids and links of a page.
fn page(text: &str) -> Page {
    let mut page = Page::default();
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, behind)| behind);
            continue;
        }
        if !rest.starts_with(|first: char| first.is_ascii_alphabetic()) {
            continue;
        }
        let (element, attributes, behind) = tag(rest);
        rest = behind;
        for (name, value) in attributes {
            match name {
                "id" => drop(page.ids.insert(unescaped(value))),
                "href" | "src" => page.links.push((element.to_owned(), unescaped(value))),
                _ => {}
            }
        }
        // The text of these elements is no markup.
        if ["script", "style"].contains(&element) {
            rest = rest.split_once(&format!("</{element}")).map_or("", |(_, behind)| behind);
        }
    }
    page
}

/// Name and attributes of the tag that `text` begins with, behind its `<`, and the text behind its `>`.
fn tag(text: &str) -> (&str, Vec<(&str, &str)>, &str) {
    let is_name_end = |letter: char| letter.is_whitespace() || letter == '>' || letter == '/';
    let (element, mut rest) = text.split_at(text.find(is_name_end).unwrap_or(text.len()));
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start_matches(|letter: char| letter.is_whitespace() || letter == '/');
        if rest.is_empty() {
            return (element, attributes, rest);
        }
        if let Some(behind) = rest.strip_prefix('>') {
            return (element, attributes, behind);
        }
        let end = rest.find(|letter: char| is_name_end(letter) || letter == '=').unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        rest = behind;
        let Some(value) = rest.strip_prefix('=') else { continue };
        let quote = value.chars().next().filter(|first| ['"', '\''].contains(first));
        let (value, behind) = match quote {
            Some(quote) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
            None => value.split_at(value.find(is_name_end).unwrap_or(value.len())),
        };
        attributes.push((name, value));
        rest = behind;
    }
}

fn unescaped(value: &str) -> String {
    value.replace("&quot;", "\"").replace("&#39;", "'").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(pages: &[(&str, &str)]) -> Vec<String> {
        let directory = tempfile::tempdir().expect("a directory");
        for (path, text) in pages {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
            fs::write(path, text).expect("a file");
        }
        site(directory.path()).expect("a site").problems
    }

    #[test]
    fn links_that_lead_somewhere_are_accepted() {
        let text = "<a href='b.html#the-%CF%83'>b</a> <img alt=\"a > b\" src=\"../p.svg\"> \
            <a href=\"#x\" id=\"x\">x</a> <a href=\"https://example.org/none\">d</a> \
            <!-- <a href=\"none\"> --> <script>\"<a href='none'>\"</script>";
        let found = problems(&[("a/a.html", text), ("a/b.html", "<h1 id=\"the-σ\">σ</h1>"), ("p.svg", "")]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn dead_links_anchors_and_pictures_are_reported() {
        let text = "<a href=\"b.html\">b</a> <a href=\"#y\">y</a> <img src=\"p.svg\"/> <a href=\"../../c.html\">c</a>";
        assert_eq!(
            problems(&[("a/a.html", text)]),
            [
                "a/a.html: b.html: no such file",
                "a/a.html: #y: no such anchor",
                "a/a.html: p.svg: no such file",
                "a/a.html: ../../c.html: outside of the site"
            ]
        );
    }

    #[test]
    fn links_and_pictures_are_counted() {
        let directory = tempfile::tempdir().expect("a directory");
        let text = "<a href=\"#y\" id=\"y\">y</a> <a href=\"a.html\">a</a> <img src=\"p.svg\">";
        fs::write(directory.path().join("a.html"), text).expect("a file");
        fs::write(directory.path().join("p.svg"), "").expect("a file");
        let checked = site(directory.path()).expect("a site");
        assert_eq!((checked.pages.len(), checked.links, checked.anchors, checked.pictures), (1, 3, 1, 1));
    }
}
