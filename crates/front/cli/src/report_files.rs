//! The directory of `--report`.

use crate::error::CommandError;
use std::path::{Path, PathBuf};
use weir_results::{FileError, Results, ResultsDirectory};
use weir_runs::run_files;
use weir_runs::sweep::MANIFEST;

/// The options of commands that write a report of one run. `weir sim` has its own, since a sweep
/// continues in its directory.
#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    /// Write results, drawings and report.html into this directory
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Write into DIR even if it has files
    #[arg(long, requires = "report")]
    force: bool,
}

impl ReportArgs {
    /// The directory, if one is named.
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.report.as_deref()
    }
    /// Makes the directory, if one is named.
    pub(crate) fn prepare(&self) -> Result<Option<ReportFiles>, CommandError> {
        self.directory().map(|directory| ReportFiles::prepare(directory, self.force)).transpose()
    }
}

/// A directory that may be written to.
#[derive(Debug)]
pub(crate) struct ReportFiles {
    directory: PathBuf,
}

impl ReportFiles {
    /// Makes the directory; a directory with files is refused unless `force`.
    pub(crate) fn prepare(directory: &Path, force: bool) -> Result<Self, CommandError> {
        let prepared = ResultsDirectory::prepare(directory, force)?;
        // The manifest of an older sweep does not describe a run.
        run_files::remove(&directory.join(MANIFEST))?;
        Ok(Self { directory: prepared.path().to_owned() })
    }

    /// Writes a run and returns the page's path.
    pub(crate) fn write(&self, results: &Results, command: &str) -> Result<PathBuf, CommandError> {
        Ok(run_files::write(&self.directory, results, command)?)
    }

    /// A directory below, made if it does not exist; older files were accepted with the outer one.
    pub(crate) fn below(&self, name: &str) -> Result<Self, FileError> {
        Ok(Self { directory: ResultsDirectory::prepare(&self.directory.join(name), true)?.path().to_owned() })
    }

    /// Writes a file beside the old one and renames it, so that no reader gets half a file.
    pub(crate) fn replace(&self, name: &str, text: &str) -> Result<PathBuf, FileError> {
        let path = self.directory.join(name);
        run_files::write_text(&path, text)?;
        Ok(path)
    }
}
