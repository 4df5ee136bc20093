//! The directory that `--report` names.

use crate::error::CommandError;
use crate::run_file::RunFile;
use crate::run_files::{self, SimulatedRun};
use std::path::{Path, PathBuf};
use weir_results::ResultsDirectory;

/// A directory that may be written to.
#[derive(Debug)]
pub(crate) struct ReportFiles {
    directory: PathBuf,
}

impl ReportFiles {
    /// Makes the directory; one that has files is refused unless `force`.
    pub(crate) fn prepare(directory: &Path, force: bool) -> Result<Self, CommandError> {
        let prepared = ResultsDirectory::prepare(directory, force)?;
        // What an older sweep says about this directory does not hold for a run.
        run_files::remove(&directory.join(crate::sweep::MANIFEST))?;
        Ok(Self { directory: prepared.path().to_owned() })
    }

    /// Writes a simulated run and gives the page's path.
    pub(crate) fn write_run(&self, run: &SimulatedRun, command: &str) -> Result<PathBuf, CommandError> {
        Ok(run.write(&self.directory, command)?)
    }

    /// Writes services' bandwidths and gives the page's path.
    pub(crate) fn write_services(&self, file: &RunFile, command: &str) -> Result<PathBuf, CommandError> {
        Ok(run_files::write_services(&self.directory, file, command)?)
    }

    /// A directory below, made if it is not there; whoever asked for this one has settled what becomes of older files.
    pub(crate) fn below(&self, name: &str) -> Result<Self, CommandError> {
        Ok(Self { directory: ResultsDirectory::prepare(&self.directory.join(name), true)?.path().to_owned() })
    }

    /// Writes a file beside the old one and puts it in its place, so that no half file is ever seen.
    pub(crate) fn replace(&self, name: &str, text: &str) -> Result<PathBuf, CommandError> {
        let path = self.directory.join(name);
        run_files::write_text(&path, text)?;
        Ok(path)
    }
}
