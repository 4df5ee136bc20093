//! Self-contained HTML pages.
//!
//! A [`Page`] is a list of blocks in one HTML file without scripts, fonts or external images.
//! Panels are side by side on a wide screen, and below each other on a narrow one. Colours follow
//! the reader's light or dark setting. All texts are escaped here, so callers pass plain text.

use crate::canvas::{GRID, INK, MUTED, PALETTE, PAPER, SHADE};
use crate::chart::Chart;
use crate::escape::escape;
use crate::map::SlotMap;
use crate::table::{Table, address};
use plotters::style::RGBColor;

/// A block of a page. Only this crate creates them, so they are well-formed HTML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Html(pub(crate) String);

/// A page under construction.
#[derive(Debug, Clone)]
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    /// A page with its title as the first heading.
    pub fn new(title: impl Into<String>) -> Self {
        let title = title.into();
        let body = format!("<h1>{}</h1>\n", escape(&title));
        Self { title, body }
    }
    /// Adds a block.
    #[must_use]
    pub fn push(mut self, block: Html) -> Self {
        self.body.push_str(&block.0);
        self
    }
    /// Adds a heading.
    #[must_use]
    pub fn heading(self, text: &str) -> Self {
        self.push(Html(format!("<h2>{}</h2>\n", escape(text))))
    }
    /// Adds a paragraph.
    #[must_use]
    pub fn paragraph(self, text: &str) -> Self {
        self.push(Html(format!("<p>{}</p>\n", escape(text))))
    }
    /// Adds a highlighted paragraph.
    #[must_use]
    pub fn notice(self, text: &str) -> Self {
        self.push(Html(format!("<p class=\"notice\">{}</p>\n", escape(text))))
    }
    /// Adds a paragraph with a link to the file at `path`, relative to the page, with `/` as the
    /// separator.
    #[must_use]
    pub fn link(self, text: &str, path: &str) -> Self {
        self.push(Html(format!("<p><a href=\"{}\">{}</a></p>\n", address(path), escape(text))))
    }
    /// Adds preformatted text, such as a command line.
    #[must_use]
    pub fn code(self, text: &str) -> Self {
        self.push(Html(format!("<pre><code>{}</code></pre>\n", escape(text))))
    }
    /// Adds a chart of full width.
    #[must_use]
    pub fn chart(self, chart: &Chart) -> Self {
        self.push(figure(chart, "", &chart.to_svg()))
    }
    /// Adds a map of slots.
    #[must_use]
    pub fn map(self, map: &SlotMap) -> Self {
        self.push(Html(format!("<figure style=\"max-width: 800px\">\n{}</figure>\n", map.to_svg())))
    }
    /// Adds a table.
    #[must_use]
    pub fn table(self, table: &Table) -> Self {
        self.push(table.to_html())
    }
    /// The complete HTML file.
    pub fn to_html(&self) -> String {
        let style = style();
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{style}</style>\n\
             </head>\n<body>\n<main>\n{}</main>\n</body>\n</html>\n",
            escape(&self.title),
            self.body
        )
    }
}

/// A named chart of [`side_by_side`].
#[derive(Debug, Clone, Copy)]
pub struct Panel<'a> {
    name: &'a str,
    chart: &'a Chart,
}

impl<'a> Panel<'a> {
    /// A panel.
    pub fn new(name: &'a str, chart: &'a Chart) -> Self {
        Self { name, chart }
    }
}

/// Charts side by side, if the screen is wide enough. Charts with equal units have equal axes, so
/// that they are comparable.
pub fn side_by_side(panels: &[Panel<'_>]) -> Html {
    let mut html = String::from("<div class=\"panels\">\n");
    for panel in panels {
        let alike =
            |other: &&Panel<'_>| other.chart.y.unit == panel.chart.y.unit && other.chart.x.unit == panel.chart.x.unit;
        let join = |ranges: &mut dyn Iterator<Item = (f64, f64)>| {
            ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or_default()
        };
        let x = join(&mut panels.iter().filter(alike).map(|other| other.chart.x_range()));
        let y = join(&mut panels.iter().filter(alike).map(|other| other.chart.y_range()));
        let (heading, title) = match panel.chart.title.as_str() {
            "" => (String::new(), panel.name),
            title => (format!("<h3>{}</h3>\n", escape(panel.name)), title),
        };
        html.push_str(&figure(panel.chart, &heading, &crate::draw::draw(panel.chart, title, x, y)).0);
    }
    html.push_str("</div>\n");
    Html(html)
}

/// A chart below its heading. It is scaled up by a ninth at most, so that texts have similar sizes
/// on the whole page.
fn figure(chart: &Chart, heading: &str, svg: &str) -> Html {
    let widest = chart.size.0 + chart.size.0 / 9;
    Html(format!("<figure style=\"max-width: {widest}px\">\n{heading}{svg}</figure>\n"))
}

/// The style sheet. In dark mode it overrides the charts' colours one by one.
fn style() -> String {
    let hex = |RGBColor(r, g, b): RGBColor| format!("#{r:02X}{g:02X}{b:02X}");
    let mut style = String::from(STYLE);
    style.push_str("@media (prefers-color-scheme: dark) {\n");
    for (colour, variable) in [(PAPER, "paper"), (INK, "ink"), (MUTED, "muted"), (GRID, "grid"), (SHADE, "shade")] {
        for attribute in ["fill", "stroke"] {
            let colour = hex(colour);
            style.push_str(&format!("  .chart [{attribute}=\"{colour}\"] {{ {attribute}: var(--{variable}); }}\n"));
        }
    }
    for (colour, lighter) in LIGHTER {
        for attribute in ["fill", "stroke"] {
            let colour = hex(colour);
            style.push_str(&format!("  .chart [{attribute}=\"{colour}\"] {{ {attribute}: {lighter}; }}\n"));
        }
    }
    style.push_str("}\n");
    style
}

/// Colours that dark mode lightens: the palette's blue, which is too dark on a dark background, and
/// its sky blue, which the lightened blue would resemble.
const LIGHTER: [(RGBColor, &str); 2] = [(PALETTE[0], "#3A8BE0"), (PALETTE[5], "#A8DCFA")];

const STYLE: &str = "\
:root { --paper: #ffffff; --ink: #1f242b; --muted: #5b6470; --grid: #e4e7eb; --shade: #f4f6f8; --mark: #e69f00; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16191e; --ink: #e6e8eb; --muted: #a3abb5; --grid: #313740; --shade: #1d2127; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.5;
  font-family: system-ui, -apple-system, \"Segoe UI\", \"Helvetica Neue\", Arial, sans-serif; }
main { max-width: 88rem; margin: 0 auto; padding: 1.5rem clamp(1rem, 3vw, 2.5rem) 4rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0.5rem 0 0.75rem; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 0.6rem; }
h3 { font-size: 1rem; margin: 0 0 0.4rem; }
p { max-width: 46rem; margin: 0.5rem 0; }
.notice { border-left: 4px solid var(--mark); background: var(--shade); padding: 0.6rem 0.9rem; }
pre { background: var(--shade); padding: 0.7rem 0.9rem; overflow-x: auto; border-radius: 4px; max-width: 60rem; }
code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: 0.88rem; }
figure { margin: 1rem 0; }
.panels { display: grid; gap: 1.5rem 2rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); }
.panels figure { margin: 0; }
svg.chart { display: block; width: 100%; height: auto; }
svg.chart text { font-family: inherit; }
.table { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 0.32rem 1.1rem 0.32rem 0; vertical-align: top;
  border-bottom: 1px solid var(--grid); }
th { color: var(--muted); font-weight: 600; }
td { white-space: nowrap; }
td.long { white-space: normal; min-width: 24rem; }
th.number, td.number { text-align: right; }
a { color: inherit; text-underline-offset: 0.15em; }
@media (max-width: 60rem) { table { font-size: 0.8rem; } th, td { padding-right: 0.55rem; } }
@media print { main { max-width: none; padding: 0; } figure { break-inside: avoid; } }
";

#[cfg(test)]
#[path = "page_tests.rs"]
pub(crate) mod tests;
