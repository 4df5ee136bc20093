//! `-o`: a text goes to a new file, or to standard output.

use crate::error::CommandError;
use crate::output::Ui;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Output {
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

impl Output {
    /// Writes a text. A file that exists is kept without `--force`.
    pub(crate) fn write(&self, text: &str, ui: &mut Ui) -> Result<(), CommandError> {
        let Some(path) = &self.output else { return Ok(ui.print(text)?) };
        let opened = if self.force { File::create(path) } else { File::create_new(path) };
        let mut file = opened.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => CommandError::refused(format!("`{}` exists already", path.display()))
                .hint("name another file, or add --force to replace this one"),
            _ => CommandError::cannot_write(path, error),
        })?;
        file.write_all(text.as_bytes()).map_err(|error| CommandError::cannot_write(path, error))
    }
}
