//! Pages that docs/README.md does not link.
//!
//! Problem: a new page is in docs/SUMMARY.md, without which the site has no such page, and a reader who begins at
//! docs/README.md never finds it. Approach: the index links every page of the summary except itself and the pages of
//! design/, which docs/design/README.md lists.
//!
//! Worked example: a summary with `[Collect a bug report](how-to/capture.md)` and an index without
//! `](how-to/capture.md)` are refused.

use crate::tree::File;
use regex_lite::Regex;
use std::collections::BTreeSet;

const SUMMARY: &str = "docs/SUMMARY.md";
const INDEX: &str = "docs/README.md";
const DESIGN: &str = "design/";

/// Each violation as `path:line: message`.
pub fn check(files: &[File]) -> Vec<String> {
    let text = |path: &str| files.iter().find(|file| file.path == path).map(|file| file.text.as_str());
    let (Some(summary), Some(index)) = (text(SUMMARY), text(INDEX)) else {
        return vec![format!("{SUMMARY}, {INDEX}: one of them is absent")];
    };
    let link = Regex::new(r"\]\(([^)#\s]+)").expect("a constant pattern");
    let linked: BTreeSet<&str> = link.captures_iter(index).filter_map(|found| Some(found.get(1)?.as_str())).collect();
    let mut found = Vec::new();
    for (line, number) in summary.lines().zip(1..) {
        for page in link.captures_iter(line).filter_map(|found| Some(found.get(1)?.as_str())) {
            let is_exempt = page == "README.md" || page.starts_with(DESIGN) && page != "design/README.md";
            if !is_exempt && !linked.contains(page) {
                found.push(format!("{SUMMARY}:{number}: {INDEX} has no link to {page}"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    #[test]
    fn page_without_a_link_is_refused() {
        let summary = "[Weir](README.md)\n- [A](how-to/a.md)\n- [B](how-to/b.md)\n- [D](design/d.md)\n";
        let found = check(&[file(SUMMARY, summary), file(INDEX, "| a | [A](how-to/a.md#steps) |\n")]);
        assert_eq!(found, ["docs/SUMMARY.md:3: docs/README.md has no link to how-to/b.md"]);
        assert_eq!(check(&[file(SUMMARY, summary)]).len(), 1);
    }
}
