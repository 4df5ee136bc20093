//! The directory of a report: `result.json`, and `report.html` drawn from it alone.

use crate::error::CommandError;
use crate::run_file::RunFile;
use crate::run_page;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A directory that may be written to.
#[derive(Debug)]
pub(crate) struct ReportFiles {
    directory: PathBuf,
}

impl ReportFiles {
    /// Makes the directory; one that has files is refused unless `force`.
    pub(crate) fn prepare(directory: &Path, force: bool) -> Result<Self, CommandError> {
        let shown = directory.display();
        if directory.exists() && !directory.is_dir() {
            return Err(CommandError::refused(format!("`{shown}` is a file, not a directory"))
                .hint("name a directory for the report"));
        }
        std::fs::create_dir_all(directory).map_err(|error| CommandError::cannot_write(directory, error))?;
        let mut entries = std::fs::read_dir(directory).map_err(|error| CommandError::cannot_write(directory, error))?;
        if entries.next().is_some() && !force {
            return Err(CommandError::refused(format!("`{shown}` already has files"))
                .hint("name another directory, or add --force to replace result.json and report.html in this one"));
        }
        Ok(Self { directory: directory.to_owned() })
    }

    /// Writes both files and gives the page's path.
    pub(crate) fn write(&self, file: &RunFile, command: &str) -> Result<PathBuf, CommandError> {
        let text = file.to_text();
        self.replace("result.json", &text)?;
        // From the text, not from the run: whoever has the file can draw the same page.
        let read = RunFile::from_text(&text)
            .map_err(|error| CommandError::failed(format!("cannot read result.json again: {error}")))?;
        self.replace("report.html", &run_page::page(&read, command).to_html())
    }

    /// Writes a file beside the old one and puts it in its place, so that no half file is ever seen.
    pub(crate) fn replace(&self, name: &str, text: &str) -> Result<PathBuf, CommandError> {
        let path = self.directory.join(name);
        let beside = self.directory.join(format!(".{name}.{}", std::process::id()));
        let written = std::fs::File::create(&beside)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| std::fs::rename(&beside, &path));
        written.map_err(|error| CommandError::cannot_write(&path, error))?;
        Ok(path)
    }
}
