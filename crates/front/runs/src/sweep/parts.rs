//! The dataset of a sweep in its directory: `dataset/statistics/POINT.parquet`, and on request
//! `dataset/flows/POINT.parquet`.
//!
//! Problem: programs read all files of such a directory as one table, so it must have the parts of complete points of
//! this sweep and nothing else; and a directory of an older version has none. Approach: a part has its name when it is
//! whole and on the disk. All parts are removed when another sweep begins, and those of incomplete points when a sweep
//! resumes; a part that a complete point lacks is made again from the point's files.
//!
//! The statistics are those of `point.json`, read back from its text: so the part is the same whether it is made at the
//! end of the run or from the file.
//!
//! Worked example: a sweep is killed after the part of its point 3 is written and before that point's `point.json`:
//! the part is removed when the sweep resumes, and written again by the next run of the point.

use super::directory::read_point;
use crate::run_files::remove;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use weir_results::dataset::PartOf;
use weir_results::files::replace_synced;
use weir_results::{FileError, PointSummary, Results, SizeBins};

/// The directory of the dataset in that of the sweep.
pub const DATASET: &str = "dataset";
/// The parts of statistics in it.
pub const STATISTICS: &str = "statistics";
/// The parts of flows in it.
pub const FLOWS: &str = "flows";
const EXTENSION: &str = "parquet";

/// The texts and bytes that a point adds to its sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointParts {
    /// The text of `point.json`.
    pub summary: String,
    /// The part of the statistics.
    pub statistics: Vec<u8>,
    /// The part of the flows, where it is wanted.
    pub flows: Option<Vec<u8>>,
}

impl PointParts {
    /// The parts of a run that reached its end.
    ///
    /// # Errors
    /// A failure of the writer of Parquet, or a run that did not reach its end.
    pub(super) fn new(of: &PartOf, results: &Results, flows: bool) -> io::Result<Self> {
        let summary = format!("{}\n", PointSummary::new(results, &SizeBins::default()).to_json());
        let statistics = statistics(of, &PointSummary::from_json(&summary)?)?;
        let flows = if flows { Some(of.flows(results)?) } else { None };
        Ok(Self { summary, statistics, flows })
    }

    /// Writes the parts.
    ///
    /// # Errors
    /// The error of the disk.
    pub(super) fn write(&self, root: &Path, name: &str) -> Result<(), FileError> {
        write(&path_of(root, STATISTICS, name), &self.statistics)?;
        self.flows.as_ref().map_or(Ok(()), |flows| write(&path_of(root, FLOWS, name), flows))
    }
}

fn statistics(of: &PartOf, summary: &PointSummary) -> io::Result<Vec<u8>> {
    match summary.statistics() {
        Some(statistics) => of.statistics(statistics),
        None => Err(io::Error::other("the run did not reach its end")),
    }
}

fn path_of(root: &Path, table: &str, name: &str) -> PathBuf {
    root.join(DATASET).join(table).join(format!("{name}.{EXTENSION}"))
}

fn write(path: &Path, part: &[u8]) -> Result<(), FileError> {
    let directory = path.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(directory).map_err(|cause| FileError::Io {
        what: "make the directory",
        path: directory.to_owned(),
        cause,
    })?;
    replace_synced(path, part)
}

/// Whether the sweep in the directory has parts of flows.
pub(super) fn has_flows(root: &Path) -> bool {
    root.join(DATASET).join(FLOWS).is_dir()
}

/// Makes the parts that a point lacks from its files, and returns whether it has all. Without readable files of its
/// run, a part of flows cannot be made.
///
/// # Errors
/// The error of the disk.
pub(super) fn mend(root: &Path, point: &Path, of: &PartOf, flows: bool) -> Result<bool, FileError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |cause| FileError::Io { what: "write", path, cause }
    };
    let path = path_of(root, STATISTICS, &of.point);
    if !of.is_at(&path) {
        write(&path, &statistics(of, &read_point(point)?).map_err(failed(&path))?)?;
    }
    let path = path_of(root, FLOWS, &of.point);
    if flows && !of.is_at(&path) {
        // A result that is damaged or has an older format belongs to a point that is run again.
        let Ok(true) = Results::is_complete(point) else { return Ok(false) };
        let Ok(results) = Results::read(point) else { return Ok(false) };
        write(&path, &of.flows(&results).map_err(failed(&path))?)?;
    }
    Ok(true)
}

/// Removes the parts of a point.
///
/// # Errors
/// The error of the disk.
pub(super) fn remove_parts(root: &Path, name: &str) -> Result<(), FileError> {
    [STATISTICS, FLOWS].iter().try_for_each(|table| remove(&path_of(root, table, name)))
}

/// Removes files of the dataset: half-written ones, and with `all` every part.
///
/// # Errors
/// The error of the disk.
pub(super) fn clean(root: &Path, all: bool) -> Result<(), FileError> {
    for directory in [STATISTICS, FLOWS].map(|table| root.join(DATASET).join(table)) {
        let entries = match fs::read_dir(&directory) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(|cause| FileError::Io { what: "read", path: directory.clone(), cause })?,
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let unfinished = name.starts_with('.') && name.contains(&format!(".{EXTENSION}."));
            if unfinished || all && name.ends_with(&format!(".{EXTENSION}")) {
                remove(&entry.path())?;
            }
        }
        if all {
            // A directory with a user's files stays; one without shows that the sweep has no flows.
            let _ = fs::remove_dir(&directory);
        }
    }
    Ok(())
}
