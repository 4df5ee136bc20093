//! Everything that reaches the terminal: texts, colours, tables.
//!
//! Colours only repeat the texts: without them a text reads the same. They are used on a terminal
//! unless `NO_COLOR` is set (see no-color.org) or `--color` overrides it, for each stream by
//! itself.

use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal, Write};

/// `--color`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum ColourChoice {
    #[default]
    Auto,
    Always,
    Never,
}

impl ColourChoice {
    /// The choice in a command line that is not yet parsed; `auto` if it has none or an unknown
    /// one.
    pub(crate) fn among(arguments: &[OsString]) -> Self {
        let texts: Vec<_> = arguments.iter().map(|argument| argument.to_string_lossy()).collect();
        let joined = texts.iter().find_map(|text| text.strip_prefix("--color="));
        let next = texts.iter().position(|text| text == "--color").and_then(|at| texts.get(at + 1)).map(AsRef::as_ref);
        match joined.or(next) {
            Some("always") => Self::Always,
            Some("never") => Self::Never,
            _ => Self::Auto,
        }
    }
    fn applies(self, is_terminal: bool) -> bool {
        let wanted = || std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        match self {
            Self::Auto => is_terminal && wanted(),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

impl From<ColourChoice> for clap::ColorChoice {
    fn from(choice: ColourChoice) -> Self {
        match choice {
            ColourChoice::Auto => Self::Auto,
            ColourChoice::Always => Self::Always,
            ColourChoice::Never => Self::Never,
        }
    }
}

/// The style of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Style {
    #[default]
    Plain,
    /// A heading, or the subject of a line.
    Strong,
    /// Optional information.
    Faint,
    /// A limit is in effect.
    Limited,
    /// Success.
    Good,
    /// An error.
    Error,
}

impl Style {
    /// The SGR codes; from the eight colours that every terminal theme makes readable.
    fn codes(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "\x1b[1m",
            Self::Faint => "\x1b[2m",
            Self::Limited => "\x1b[33m",
            Self::Good => "\x1b[32m",
            Self::Error => "\x1b[1;31m",
        }
    }
    /// `text` in this style.
    pub(crate) fn paint(self, text: &str, coloured: bool) -> String {
        if coloured && self != Self::Plain && !text.is_empty() {
            format!("{}{text}\x1b[0m", self.codes())
        } else {
            text.to_owned()
        }
    }
}

/// The outputs of a command.
pub(crate) struct Ui {
    out: Box<dyn Write>,
    err: Box<dyn Write>,
    out_coloured: bool,
    err_coloured: bool,
    err_is_terminal: bool,
}

/// The bytes of an output, for tests.
#[cfg(test)]
pub(crate) type Kept = std::rc::Rc<std::cell::RefCell<Vec<u8>>>;

/// Writes into [`Kept`] bytes.
#[cfg(test)]
struct Copied(Kept);

#[cfg(test)]
impl Write for Copied {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Ui {
    /// The process's standard output and standard error.
    pub(crate) fn terminal(choice: ColourChoice) -> Self {
        let (out, err) = (io::stdout(), io::stderr());
        let err_is_terminal = err.is_terminal();
        Self {
            out_coloured: choice.applies(out.is_terminal()),
            err_coloured: choice.applies(err_is_terminal),
            err_is_terminal,
            out: Box::new(BufWriter::new(out)),
            err: Box::new(err),
        }
    }
    /// Outputs without colours that are kept, standard output first.
    #[cfg(test)]
    pub(crate) fn captured() -> (Self, Kept, Kept) {
        let (out, err) = (Kept::default(), Kept::default());
        let (out_coloured, err_coloured, err_is_terminal) = (false, false, false);
        let (first, second) = (Box::new(Copied(out.clone())), Box::new(Copied(err.clone())));
        (Self { out: first, err: second, out_coloured, err_coloured, err_is_terminal }, out, err)
    }
    /// Writes to standard output.
    pub(crate) fn print(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())
    }
    /// Standard output itself, for output that is too large to be one text.
    pub(crate) fn out(&mut self) -> &mut dyn Write {
        &mut self.out
    }
    /// Writes to standard error.
    pub(crate) fn notice(&mut self, text: &str) -> io::Result<()> {
        self.err.write_all(text.as_bytes())
    }
    /// Writes a table to standard output.
    pub(crate) fn print_table(&mut self, table: &Table, indent: usize) -> io::Result<()> {
        let coloured = self.out_coloured;
        table.write(&mut self.out, indent, coloured)
    }
    /// A text in a style, for standard output.
    pub(crate) fn on_out(&self, style: Style, text: &str) -> String {
        style.paint(text, self.out_coloured)
    }
    /// A text in a style, for standard error.
    pub(crate) fn on_err(&self, style: Style, text: &str) -> String {
        style.paint(text, self.err_coloured)
    }
    /// Whether standard output has colours.
    pub(crate) fn out_is_coloured(&self) -> bool {
        self.out_coloured
    }
    /// Whether standard error has colours.
    pub(crate) fn err_is_coloured(&self) -> bool {
        self.err_coloured
    }
    /// Whether standard error is a terminal.
    pub(crate) fn err_is_terminal(&self) -> bool {
        self.err_is_terminal
    }
    /// Writes out what is buffered.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Text in columns.
#[derive(Debug, Default)]
pub(crate) struct Table {
    columns: Vec<(String, bool)>,
    rows: Vec<Vec<(String, Style)>>,
}

impl Table {
    /// A table with a heading for each column; one that starts with `>` has its cells to the right.
    pub(crate) fn new(columns: &[&str]) -> Self {
        let column = |name: &&str| (name.trim_start_matches('>').to_owned(), name.starts_with('>'));
        Self { columns: columns.iter().map(column).collect(), rows: Vec::new() }
    }
    /// Adds a row of plain cells.
    pub(crate) fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.styled(cells.into_iter().map(|cell| (cell.into(), Style::Plain)));
    }
    /// Adds a row of cells with their styles.
    pub(crate) fn styled(&mut self, cells: impl IntoIterator<Item = (String, Style)>) {
        let row: Vec<_> = cells.into_iter().collect();
        debug_assert_eq!(row.len(), self.columns.len(), "one cell for each column");
        self.rows.push(row);
    }
    fn write(&self, out: &mut dyn Write, indent: usize, coloured: bool) -> io::Result<()> {
        let mut widths: Vec<usize> = self.columns.iter().map(|(name, _)| name.chars().count()).collect();
        for row in &self.rows {
            for (width, (text, _)) in widths.iter_mut().zip(row) {
                *width = (*width).max(text.chars().count());
            }
        }
        let mut line = |cells: &mut dyn Iterator<Item = (&str, Style)>| {
            let mut text = " ".repeat(indent);
            for (i, (cell, style)) in cells.enumerate() {
                let blank = " ".repeat(widths[i].saturating_sub(cell.chars().count()));
                let painted = style.paint(cell, coloured);
                let (before, after) = if self.columns[i].1 { (blank.as_str(), "") } else { ("", blank.as_str()) };
                text.push_str(&format!("{}{before}{painted}{after}", if i == 0 { "" } else { "  " }));
            }
            writeln!(out, "{}", text.trim_end())
        };
        line(&mut self.columns.iter().map(|(name, _)| (name.as_str(), Style::Faint)))?;
        for row in &self.rows {
            line(&mut row.iter().map(|(text, style)| (text.as_str(), *style)))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_with_and_without_colours() {
        let mut table = Table::new(&["service", ">share"]);
        table.styled([("dfs".to_owned(), Style::Strong), ("8 Gb/s".to_owned(), Style::Plain)]);
        table.row(["vm", "200 µs"]);
        let text = |coloured| {
            let mut out = Vec::new();
            table.write(&mut out, 2, coloured).expect("memory");
            String::from_utf8(out).expect("text")
        };
        assert_eq!(text(false), "  service   share\n  dfs      8 Gb/s\n  vm       200 µs\n");
        let stripped: String = ["\x1b[1m", "\x1b[2m", "\x1b[0m"].iter().fold(text(true), |t, code| t.replace(code, ""));
        assert_eq!(stripped, text(false));
    }

    #[test]
    fn colour_choice_is_found_before_parsing() {
        let among = |texts: &[&str]| ColourChoice::among(&texts.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(among(&["weir", "--color", "never", "x"]), ColourChoice::Never);
        assert_eq!(among(&["weir", "x", "--color=always"]), ColourChoice::Always);
        assert_eq!(among(&["weir", "--color"]), ColourChoice::Auto);
    }
}
