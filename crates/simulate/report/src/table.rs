//! HTML tables.
//!
//! Numbers are right-aligned, texts left-aligned. A text may link to a file relative to the page.
//! Input of callers cannot become markup: texts are escaped, and addresses are relative and
//! encoded.

use crate::escape::escape;
use crate::page::Html;

/// Texts with more characters than this are wrapped in their cell.
const LONG: usize = 48;

/// A cell of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    text: String,
    /// The target of its link, if any.
    address: Option<String>,
}

impl Cell {
    /// A text with a link to the file at `path`, relative to the page, with `/` as the separator.
    pub fn link(text: impl Into<String>, path: &str) -> Self {
        Self { text: text.into(), address: Some(address(path)) }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), address: None }
    }
}

/// A table under construction.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    columns: Vec<(String, bool)>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without columns.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds a column of texts.
    #[must_use]
    pub fn text(mut self, name: impl Into<String>) -> Self {
        self.columns.push((name.into(), false));
        self
    }
    /// Adds a column of numbers.
    #[must_use]
    pub fn number(mut self, name: impl Into<String>) -> Self {
        self.columns.push((name.into(), true));
        self
    }
    /// Adds a row with one cell for each column.
    ///
    /// # Panics
    /// If the number of cells differs from the number of columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<Cell>>) {
        let row: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        assert_eq!(row.len(), self.columns.len(), "one cell for each column");
        self.rows.push(row);
    }

    /// The table as a block of a page.
    pub fn to_html(&self) -> Html {
        let cell = |tag: &str, cell: &Cell, number: bool| {
            let text = escape(&cell.text);
            let inside = match &cell.address {
                Some(address) => format!("<a href=\"{address}\">{text}</a>"),
                None => text,
            };
            let class = match number {
                true => " class=\"number\"",
                false if cell.text.chars().count() > LONG => " class=\"long\"",
                false => "",
            };
            format!("<{tag}{class}>{inside}</{tag}>")
        };
        let head: String =
            self.columns.iter().map(|(name, number)| cell("th", &name.as_str().into(), *number)).collect();
        let mut html = format!("<div class=\"table\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            let cells = row.iter().zip(&self.columns).map(|(of, (_, number))| cell("td", of, *number));
            html.push_str(&format!("<tr>{}</tr>\n", cells.collect::<String>()));
        }
        html.push_str("</tbody>\n</table></div>\n");
        Html(html)
    }
}

/// A relative path as a URL: reserved characters are percent-encoded.
pub(crate) fn address(path: &str) -> String {
    // The prefix keeps the URL relative, whatever the path begins with.
    let mut address = String::from("./");
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                address.push(char::from(byte))
            }
            _ => address.push_str(&format!("%{byte:02X}")),
        }
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tests::assert_balanced;

    #[test]
    #[should_panic(expected = "one cell for each column")]
    fn row_with_a_wrong_number_of_cells_panics() {
        Table::new().text("a").row(["1", "2"]);
    }

    #[test]
    fn links_are_relative_to_the_page() {
        let mut table = Table::new().text("run").number("flows");
        table.row([Cell::link("<1>", "points/1_load-20 %/report.html"), "5".into()]);
        let Html(html) = table.to_html();
        assert_balanced(&html);
        let link = "<td><a href=\"./points/1_load-20%20%25/report.html\">&lt;1&gt;</a></td>";
        assert!(html.contains(link), "{html}");
    }

    #[test]
    fn paths_become_neither_markup_nor_absolute_urls() {
        let addresses = ["//example.org/x", "javascript:alert(1)", "a\"b<c>", "é"].map(address);
        assert_eq!(addresses, [".///example.org/x", "./javascript%3Aalert%281%29", "./a%22b%3Cc%3E", "./%C3%A9"]);
    }
}
