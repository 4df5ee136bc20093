//! Tests of complete pages.

use super::*;
use crate::chart::{Axis, Series};
use crate::scale::Unit;

/// Panics unless all elements are closed in order and no text contains an unescaped `>`.
pub(crate) fn assert_balanced(markup: &str) {
    let mut open: Vec<&str> = Vec::new();
    for part in markup.split('<').skip(1) {
        let Some((tag, text)) = part.split_once('>') else { panic!("`<{part}` is not closed") };
        assert!(!text.contains('>'), "a bare `>` in `{text}`");
        let name = tag.split([' ', '\n', '/']).find(|name| !name.is_empty()).unwrap_or_default();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "in {markup}");
        } else if !tag.ends_with('/') && name != "meta" && name != "!DOCTYPE" {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?} are not closed");
}

fn chart(name: &str, value: f64) -> Chart {
    let mut chart = Chart::new(Axis::new("time", Unit::Time), Axis::new("bandwidth", Unit::Bandwidth));
    chart.series.push(Series::new(name, vec![(0.0, value), (10.0, value)]));
    chart
}

#[test]
fn page_is_well_formed_and_self_contained() {
    let mut table = Table::new().text("service").number("mean");
    table.row(["<a>", "300 Mb/s"]);
    let (left, right) = (chart("a", 3e8), chart("a", 9e8));
    let html = Page::new("x < y & z")
        .paragraph("<script>alert(1)</script>")
        .notice("broken off")
        .link("more & more", "network/a b.html")
        .heading("Means")
        .table(&table)
        .code("weir sim 'x'")
        .chart(&left)
        .push(side_by_side(&[Panel::new("Simulator", &left), Panel::new("Linux", &right)]))
        .to_html();
    assert_balanced(&html);
    for text in [
        "x &lt; y &amp; z",
        "&lt;script&gt;",
        "&lt;a&gt;",
        "class=\"number\">300 Mb/s",
        "Simulator",
        "Linux",
        "<a href=\"./network/a%20b.html\">more &amp; more</a>",
    ] {
        assert!(html.contains(text), "{text} is missing");
    }
    let without_namespace = html.replace("http://www.w3.org/2000/svg", "");
    for outside in ["http:", "https:", "url(", "src=", "<script", "@import"] {
        assert!(!without_namespace.contains(outside), "{outside}");
    }
}

#[test]
fn panels_have_equal_axes() {
    let (left, right) = (chart("a", 3e8), chart("a", 9e8));
    let Html(html) = side_by_side(&[Panel::new("Simulator", &left), Panel::new("Linux", &right)]);
    assert_eq!(html.matches(">\n1000\n<").count(), 2, "{html}");
}
