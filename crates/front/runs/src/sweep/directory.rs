//! The files of a sweep.
//!
//! | file | holds |
//! |---|---|
//! | `sweep.json` | the identity of the sweep, and its points' states |
//! | `points/NAME/` | the files of a run, and `point.json`, which comes last |
//! | `dataset/` | the parts of complete points: [`super::parts`] |
//! | `points.csv` | a row for each complete point, group and size bin |
//! | `report.html` | the curves |
//!
//! Problem: a sweep may be killed at any time, and must neither run a point twice nor use a
//! half-written one. Approach: `point.json` marks a complete point. When a directory is used for
//! another sweep, the old `sweep.json` is removed first, then the old points and parts, and the new
//! `sweep.json` is written last; so the points beside a `sweep.json` belong to it.
//!
//! Worked example: a sweep of 30 points is killed in the 12th. The same command keeps the 11 points with a
//! `point.json` and runs the other 19; with `--force` it runs all 30.

use super::lock::Lock;
use super::parts::{self, PointParts};
use super::table;
use super::{MANIFEST, Manifest, State};
use crate::run_files::{self, COMMAND, PAGE, read_text, remove, write_text};
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use weir_results::dataset::PartOf;
use weir_results::files::{RESULT, replace_synced};
use weir_results::{FileError, Outcome, PointSummary, Results, ResultsDirectory, sweep_page};

/// The reason why a sweep cannot begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// Another process runs a sweep in the directory.
    #[error("another weir runs a sweep in `{}`", .0.display())]
    Busy(PathBuf),
    /// The directory has another sweep.
    #[error("`{}` holds another sweep; different: {}", .path.display(), .differs.join(", "))]
    Another {
        /// The directory.
        path: PathBuf,
        /// The parts of the identity that differ.
        differs: Vec<&'static str>,
    },
    /// Files that cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Files that cannot be written while points run.
    #[error("{cause}")]
    Disk {
        /// The first failure.
        cause: FileError,
        /// The number of points that are complete and kept.
        complete: usize,
    },
    /// Threads that cannot be started.
    #[error("cannot start threads: {0}")]
    Threads(std::io::Error),
}

const POINTS: &str = "points";
const POINT: &str = "point.json";
/// All points as a table.
const TABLE: &str = "points.csv";

/// The files that a sweep writes for each point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contents {
    /// The files of its run. Without, a point is its parts and `point.json`.
    pub runs: bool,
    /// A part of its flows. A sweep that has such parts goes on with them.
    pub flows: bool,
}

/// A directory with a sweep in it.
#[derive(Debug)]
pub struct SweepDirectory {
    path: PathBuf,
    /// Held as long as this value: two programs would run every point twice.
    lock: Lock,
    /// The name of the sweep in its parts.
    digest: String,
    /// The files of each point.
    pub contents: Contents,
    /// The identity of the sweep, and the states of its points.
    pub manifest: Manifest,
}

impl SweepDirectory {
    /// Continues the sweep in the directory, or begins it. A directory with other files is refused
    /// unless `force`, which always begins anew.
    ///
    /// # Errors
    /// A directory with another sweep or other files, one in which another process runs a sweep, or the error of the
    /// disk.
    pub fn open(path: &Path, manifest: Manifest, contents: Contents, force: bool) -> Result<Self, SweepError> {
        let lock = Lock::take(path)?;
        let there = match Manifest::read(path) {
            // With `force` any file is replaced.
            Err(_) if force => None,
            there => there?,
        };
        let digest = manifest.identity.digest();
        let mut sweep = Self { path: path.to_owned(), lock, digest, contents, manifest };
        match there.as_ref().filter(|_| !force) {
            Some(there) if there.identity != sweep.manifest.identity => {
                return Err(another(path, there, &sweep.manifest));
            }
            Some(_) => sweep.resume()?,
            None => sweep.begin(there.as_ref(), force)?,
        }
        remove_unfinished(path)?;
        sweep.write_manifest()?;
        Ok(sweep)
    }

    /// Finds the complete points, and makes the parts that they lack.
    fn resume(&mut self) -> Result<(), SweepError> {
        self.contents.flows |= parts::has_flows(&self.path);
        parts::clean(&self.path, false)?;
        for point in 0..self.manifest.points.len() {
            let complete = self.is_complete(point)?;
            let entry = &mut self.manifest.points[point];
            entry.state = if complete { State::Complete } else { State::Pending };
            if !complete {
                parts::remove_parts(&self.path, &entry.name)?;
            }
        }
        Ok(())
    }

    /// Whether a point has all its files. A point whose file cannot be read is run again.
    fn is_complete(&self, point: usize) -> Result<bool, SweepError> {
        let directory = self.point(point);
        let Some(summary) = read_point(&directory).ok().filter(|point| point.statistics().is_some()) else {
            return Ok(false);
        };
        if self.contents.runs && !Results::is_complete(&directory).unwrap_or(false) {
            return Ok(false);
        }
        let of = self.manifest.part(&self.digest, point, summary.seed);
        Ok(parts::mend(&self.path, &directory, &of, self.contents.flows)?)
    }

    /// Removes what an older sweep has left.
    fn begin(&self, there: Option<&Manifest>, force: bool) -> Result<(), SweepError> {
        ResultsDirectory::prepare(&self.path, force)?;
        for marker in [MANIFEST, RESULT] {
            remove(&self.path.join(marker))?;
        }
        let old = there.iter().flat_map(|there| &there.points).chain(&self.manifest.points);
        for name in old.map(|point| &point.name).filter(|name| is_name(name)) {
            remove_directory(&self.path.join(POINTS).join(name))?;
        }
        if force {
            // The list of the older sweep may be missing or unreadable.
            remove_points(&self.path.join(POINTS))?;
        }
        Ok(parts::clean(&self.path, true)?)
    }

    /// Writes the files of a point that was run elsewhere; it is complete when this returns.
    ///
    /// # Errors
    /// The error of the disk.
    pub fn store(&mut self, point: usize, parts: &PointParts) -> Result<(), FileError> {
        let directory = self.point(point);
        // Leftovers of a killed run.
        remove_directory(&directory)?;
        ResultsDirectory::prepare(&directory, true)?;
        parts.write(&self.path, &self.manifest.points[point].name)?;
        replace_synced(&directory.join(POINT), parts.summary.as_bytes())?;
        self.manifest.points[point].state = State::Complete;
        Ok(())
    }

    /// Whether the directory is locked; some network file systems have no locks.
    pub fn is_locked(&self) -> bool {
        self.lock.locked
    }

    /// The descriptor of the lock. A forked process inherits it, and must close it: it may outlive this process.
    pub fn lock_descriptor(&self) -> BorrowedFd<'_> {
        self.lock.directory.as_fd()
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory of a point.
    pub fn point(&self, point: usize) -> PathBuf {
        self.path.join(POINTS).join(&self.manifest.points[point].name)
    }

    /// Writes the states of points.
    ///
    /// # Errors
    /// The error of the disk.
    pub fn write_manifest(&self) -> Result<(), FileError> {
        self.manifest.write(&self.path)
    }

    /// The results of the finished points.
    ///
    /// # Errors
    /// A point's file that cannot be read.
    pub fn summaries(&self) -> Result<Vec<PointSummary>, FileError> {
        summaries(&self.path, &self.manifest)
    }

    /// Writes the table and the page, if a point has ended, and returns the page's path.
    ///
    /// # Errors
    /// The error of the disk.
    pub fn write_report(&self, summaries: &[PointSummary]) -> Result<Option<PathBuf>, FileError> {
        if summaries.is_empty() {
            return Ok(None);
        }
        table::write(&self.path.join(TABLE), &self.manifest, summaries)?;
        write_page(&self.path, &self.manifest, summaries).map(Some)
    }
}

/// A point whose files are to be written.
pub(super) struct PointPlace<'a> {
    /// The directory of the sweep.
    pub(super) root: &'a Path,
    /// Its names.
    pub(super) of: PartOf,
    /// Whether it has a part of flows.
    pub(super) flows: bool,
}

/// Writes all files of a point; it is complete when this returns.
pub(super) fn write_point(place: &PointPlace<'_>, results: &Results, command: &str) -> Result<(), FileError> {
    let directory = place.root.join(POINTS).join(&place.of.point);
    // Leftovers of a killed run.
    remove_directory(&directory)?;
    ResultsDirectory::prepare(&directory, true)?;
    run_files::write(&directory, results, command)?;
    // Where `point.json` exists they are complete, also after a power cut.
    sync_files(&directory)?;
    let point = directory.join(POINT);
    let parts = PointParts::new(&place.of, results, place.flows);
    let parts = parts.map_err(|cause| FileError::Io { what: "write", path: point.clone(), cause })?;
    parts.write(place.root, &place.of.point)?;
    replace_synced(&point, parts.summary.as_bytes())
}

/// Draws the page of a sweep from its files; None if there is no sweep.
///
/// # Errors
/// Files that cannot be read, or a page that cannot be written.
pub fn draw(directory: &Path) -> Result<Option<PathBuf>, FileError> {
    let Some(manifest) = Manifest::read(directory)? else { return Ok(None) };
    let summaries = summaries(directory, &manifest)?;
    write_page(directory, &manifest, &summaries).map(Some)
}

fn write_page(directory: &Path, manifest: &Manifest, summaries: &[PointSummary]) -> Result<PathBuf, FileError> {
    let path = directory.join(PAGE);
    write_text(&path, &sweep_page(&manifest.scenario, summaries, &manifest.command).to_html())?;
    Ok(path)
}

fn summaries(directory: &Path, manifest: &Manifest) -> Result<Vec<PointSummary>, FileError> {
    let mut summaries = Vec::new();
    for point in &manifest.points {
        match &point.state {
            State::Pending => {}
            State::Complete => {
                let mut summary = read_point(&directory.join(POINTS).join(&point.name))?;
                // Only a name in `points` becomes a link, whatever `sweep.json` contains.
                let page = is_name(&point.name).then(|| format!("{POINTS}/{}/{PAGE}", point.name));
                // Points that ran elsewhere have none.
                summary.page = page.filter(|page| directory.join(page).exists());
                summaries.push(summary);
            }
            State::Failed { cause } => {
                let mut parameters: std::collections::BTreeMap<String, String> =
                    manifest.identity.settings.iter().map(|of| (of.path.clone(), of.value.clone())).collect();
                parameters.extend(point.parameters.clone());
                let seed = parameters.remove("seed").and_then(|seed| seed.parse().ok());
                let outcome = Outcome::Failure(cause.clone());
                summaries.push(PointSummary { parameters, seed: seed.unwrap_or(manifest.seed), outcome, page: None });
            }
        }
    }
    Ok(summaries)
}

pub(super) fn read_point(directory: &Path) -> Result<PointSummary, FileError> {
    let path = directory.join(POINT);
    let text = read_text(&path)?;
    let malformed = |error: serde_json::Error| FileError::Malformed {
        path,
        line: Some(error.line() as u64),
        cause: error.to_string(),
    };
    PointSummary::from_json(&text).map_err(malformed)
}

/// Whether it is a name in a directory, not a path to another one.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && name != "." && name != ".."
}

/// Removes half-written files of a killed run.
fn remove_unfinished(path: &Path) -> Result<(), FileError> {
    let entries = fs::read_dir(path).map_err(|cause| FileError::Io { what: "read", path: path.to_owned(), cause })?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if [MANIFEST, TABLE, PAGE].iter().any(|file| name.starts_with(&format!(".{file}."))) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Removes the directories of points: those with a file that a run writes first (`command.txt`) or last (`result.json`,
/// `point.json`). Directories with other files are the user's.
fn remove_points(points: &Path) -> Result<(), FileError> {
    let entries = match fs::read_dir(points) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|cause| FileError::Io { what: "read", path: points.to_owned(), cause })?,
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_directory && [POINT, RESULT, COMMAND].iter().any(|file| path.join(file).exists()) {
            remove_directory(&path)?;
        }
    }
    Ok(())
}

/// Waits until the files of a directory are on the disk.
fn sync_files(directory: &Path) -> Result<(), FileError> {
    let io = |path: &Path, cause| FileError::Io { what: "write", path: path.to_owned(), cause };
    for entry in fs::read_dir(directory).map_err(|cause| io(directory, cause))? {
        let path = entry.map_err(|cause| io(directory, cause))?.path();
        File::open(&path).and_then(|file| file.sync_all()).map_err(|cause| io(&path, cause))?;
    }
    Ok(())
}

fn remove_directory(path: &Path) -> Result<(), FileError> {
    match fs::remove_dir_all(path) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            Err(FileError::Io { what: "remove", path: path.to_owned(), cause })
        }
        _ => Ok(()),
    }
}

fn another(path: &Path, there: &Manifest, wanted: &Manifest) -> SweepError {
    let (there, wanted) = (&there.identity, &wanted.identity);
    let differs = [
        (there.weir != wanted.weir || there.format != wanted.format, "the version of weir"),
        (there.sha256 != wanted.sha256, "the scenario or a file that it names"),
        (there.settings != wanted.settings, "the values set"),
        (there.parameters != wanted.parameters, "the values swept over"),
    ];
    let differs = differs.into_iter().filter(|(differs, _)| *differs).map(|(_, what)| what).collect();
    SweepError::Another { path: path.to_owned(), differs }
}
