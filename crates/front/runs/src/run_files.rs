//! The directory of a run: its files, and `report.html` drawn from them alone.
//!
//! Problem: the page of a run must be the same when it is drawn again from the files, years later; and a killed run
//! must not leave files that look like a result. Approach: the files of [`weir_results::files`], the command that
//! makes them again, and then the page, drawn from the written files. `result.json` is removed first and written
//! last of the results: where it exists, the other files are complete and belong to it. Results that are not sound
//! have all files but the page.
//!
//! | run | files |
//! |---|---|
//! | simulated | `result.json`, `flows.csv`, `flows.parquet`, `links.csv`, `link_samples.csv`, |
//! | | `group_samples.csv`, `hosts.csv`; with machine shapers `meters.csv` |
//! | in the lab | `result.json` |
//! | both | `report.html`, `command.txt` (the command that makes the same files) |
//!
//! Worked example: `weir sim scenarios/incast.scenario.yaml --report out`; later `weir report out`
//! draws the same page again.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use weir_results::files::{RESULT, replace};
use weir_results::{FileError, Results, ResultsDirectory, SizeBins, page};

/// The page.
pub const PAGE: &str = "report.html";
/// The command line that makes the same files.
pub const COMMAND: &str = "command.txt";

/// Writes all files of a run and its page, and returns the page's path. The directory exists; files of older runs are
/// replaced.
///
/// # Errors
/// The error of the disk, or results that are not sound, after their files are written.
pub fn write(directory: &Path, results: &Results, command: &str) -> Result<PathBuf, FileError> {
    for old in [RESULT, PAGE] {
        remove(&directory.join(old))?;
    }
    write_text(&directory.join(COMMAND), &format!("{command}\n"))?;
    ResultsDirectory::prepare(directory, true)?.write(results, &SizeBins::default())?;
    // Drawn from the files, not from the run, so that `weir report` draws the same page.
    draw(directory)
}

/// Draws the page of a run from its files.
///
/// # Errors
/// Files that are missing, cannot be read or have another format, or a page that cannot be written.
pub fn draw(directory: &Path) -> Result<PathBuf, FileError> {
    let results = Results::read(directory)?;
    let command = read_text(&directory.join(COMMAND))?;
    let path = directory.join(PAGE);
    write_text(&path, &page(&results, command.trim_end()).to_html())?;
    Ok(path)
}

/// Writes a file beside its path and renames it when it is complete.
///
/// # Errors
/// The error of the disk; an older file is then still there.
pub fn write_text(path: &Path, text: &str) -> Result<(), FileError> {
    replace(path, |out| out.write_all(text.as_bytes()))
}

/// Reads a file as text.
///
/// # Errors
/// The error of the disk.
pub fn read_text(path: &Path) -> Result<String, FileError> {
    std::fs::read_to_string(path).map_err(|cause| FileError::Io { what: "read", path: path.to_owned(), cause })
}

/// Removes a file if it exists.
///
/// # Errors
/// The error of the disk.
pub fn remove(path: &Path) -> Result<(), FileError> {
    match std::fs::remove_file(path) {
        // A missing directory has no such file either.
        Err(cause) if !matches!(cause.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            Err(FileError::Io { what: "remove", path: path.to_owned(), cause })
        }
        _ => Ok(()),
    }
}
