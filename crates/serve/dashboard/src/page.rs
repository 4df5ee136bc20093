//! The page, and the permissions of its scripts.
//!
//! One file with its own script and styles, put together at build time, without external resources.
//! The content security policy names both by their hashes, so no other script runs, whatever name a
//! status contains; the script never turns texts into markup.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

const STYLE: &str = include_str!("../page/style.css");
/// One module: parts that build on the ones before them.
const SCRIPT: &str = concat!(
    include_str!("../page/format.js"),
    include_str!("../page/store.js"),
    include_str!("../page/tree.js"),
    include_str!("../page/chart.js"),
    include_str!("../page/credits.js"),
    include_str!("../page/detail.js"),
    include_str!("../page/limited.js"),
    include_str!("../page/tenants.js"),
    include_str!("../page/main.js"),
);

static HTML: LazyLock<String> = LazyLock::new(|| {
    let page = include_str!("../page/index.html");
    page.replace("/* style */", STYLE).replace("/* script */", SCRIPT)
});

static SECURITY_POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    // The browser hashes the text between the tags.
    let between = |before: &str, after: &str| {
        let rest = HTML.split_once(before).map_or("", |(_, rest)| rest);
        hash(rest.split_once(after).map_or("", |(inside, _)| inside))
    };
    let (script, style) = (between("<script type=\"module\">", "</script>"), between("<style>", "</style>"));
    format!(
        "default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
         require-trusted-types-for 'script'; trusted-types 'none'"
    )
});

/// The page.
pub fn html() -> &'static str {
    &HTML
}

/// The value of `Content-Security-Policy`.
pub fn security_policy() -> &'static str {
    &SECURITY_POLICY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_has_no_external_resources() {
        let html = html();
        assert_eq!((html.matches("<script").count(), html.matches("<style").count()), (1, 1));
        for foreign in
            ["http://", "https://", "//cdn", "src=", "url(", "@import", "import ", "/* style */", "/* script */"]
        {
            let allowed = html.replace("http://www.w3.org/2000/svg", "").replace("img-src data:", "");
            assert!(!allowed.contains(foreign), "{foreign}");
        }
    }

    /// Texts of statuses must never become markup or code.
    #[test]
    fn script_makes_no_markup_of_texts() {
        for forbidden in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            "setAttribute(\"on",
            "style=\"",
        ] {
            assert!(!SCRIPT.contains(forbidden), "{forbidden}");
        }
        assert!(!html().contains(" onclick") && !html().contains(" style="));
        assert_eq!(security_policy().matches("'sha256-").count(), 2);
        assert!(!security_policy().contains("unsafe"));
    }
}
