//! The page, and what a browser may do with it.
//!
//! One file with its own script and styles, put together when the program is built; nothing comes from elsewhere. The
//! content security policy names the two by their hashes, so nothing else runs, whatever a name in a status may look like;
//! the script in turn never makes markup of texts.

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
    include_str!("../page/detail.js"),
    include_str!("../page/limited.js"),
    include_str!("../page/main.js"),
);

static HTML: LazyLock<String> = LazyLock::new(|| {
    let page = include_str!("../page/index.html");
    page.replace("/* style */", STYLE).replace("/* script */", SCRIPT)
});

static SECURITY_POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    // What stands between the tags, as the browser hashes it.
    let between = |before: &str, after: &str| {
        let rest = HTML.split_once(before).map_or("", |(_, rest)| rest);
        hash(rest.split_once(after).map_or("", |(inside, _)| inside))
    };
    let (script, style) = (between("<script type=\"module\">", "</script>"), between("<style>", "</style>"));
    format!(
        "default-src 'none'; script-src {script}; style-src {style}; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
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
    fn the_page_needs_nothing_from_elsewhere() {
        let html = html();
        assert_eq!((html.matches("<script").count(), html.matches("<style").count()), (1, 1));
        for foreign in
            ["http://", "https://", "//cdn", "src=", "url(", "@import", "import ", "/* style */", "/* script */"]
        {
            let allowed = html.replace("http://www.w3.org/2000/svg", "").replace("img-src data:", "");
            assert!(!allowed.contains(foreign), "{foreign}");
        }
    }

    /// Texts from elsewhere must never become markup or code.
    #[test]
    fn the_script_makes_no_markup_of_texts() {
        for word in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            "setAttribute(\"on",
            "style=\"",
        ] {
            assert!(!SCRIPT.contains(word), "{word}");
        }
        assert!(!html().contains(" onclick") && !html().contains(" style="));
        assert_eq!(security_policy().matches("'sha256-").count(), 2);
        assert!(!security_policy().contains("unsafe"));
    }
}
