//! The files of a run, in a directory of its own.
//!
//! | file | content |
//! |---|---|
//! | `flows.csv`, `flows.parquet` | one row for each flow, the same columns |
//! | `links.csv` | one row for each link |
//! | `link_samples.csv`, `group_samples.csv` | samples over time |
//! | `meters.csv` | samples of machine shapers; only if there were any |
//! | `hosts.csv` | the hosts' names |
//! | `result.json` | the run, counters, statistics by group and size bin, services' bandwidths |
//!
//! A run in the lab has no flows, links and samples of these, so `result.json` is its only file.
//!
//! Problem: a disk fills up, a run is killed, and half a file looks like a result. Approach: every
//! file is written beside its final name and renamed when it is whole; `result.json` is written
//! last and removed first, so its presence means that the others are present and belong to it.
//! [`Results::read`] returns the written results.
//!
//! A run may take hours, so its results are written even if they fail [`Results::check`]: `result.json`
//! then has the key `unsound` with the reason, an index that no table has is the name `?`, and
//! [`Results::read`] refuses the directory.
//!
//! Worked example: a disk that is full when `flows.parquet` is written leaves `hosts.csv` and
//! `flows.csv`, no `result.json` and nothing half-written; the error names `flows.parquet`.

use crate::bins::SizeBins;
use crate::columns;
use crate::invalid::InvalidResults;
use crate::json::{FORMAT, FormatOnly, ResultFile};
use crate::policy::Backend;
use crate::record::Results;
use crate::statistics::Statistics;
use crate::tables::{self, Names, TableError};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The file whose presence means that the others are whole.
pub const RESULT: &str = "result.json";
const HOSTS: &str = "hosts.csv";
const FLOWS: &str = "flows.csv";
const FLOWS_PARQUET: &str = "flows.parquet";
const LINKS: &str = "links.csv";
const LINK_SAMPLES: &str = "link_samples.csv";
const GROUP_SAMPLES: &str = "group_samples.csv";
const METERS: &str = "meters.csv";

/// The content of each file, for `result.json`; the last one only with machine shapers.
const FILES: [(&str, &str); 7] = [
    ("hosts", HOSTS),
    ("flows", FLOWS),
    ("flows_parquet", FLOWS_PARQUET),
    ("links", LINKS),
    ("link_samples", LINK_SAMPLES),
    ("group_samples", GROUP_SAMPLES),
    ("meters", METERS),
];

/// The files of a run beside `result.json`.
fn files_of(results: &Results) -> &'static [(&'static str, &'static str)] {
    match results.backend {
        Backend::Lab => &[],
        Backend::Sim if results.services.is_empty() => &FILES[..FILES.len() - 1],
        Backend::Sim => &FILES,
    }
}

/// The reason why files cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The name of the directory is taken by a file.
    #[error("`{}` is a file, not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// A directory with files is not overwritten without `force`.
    #[error("`{}` already has files", .0.display())]
    NotEmpty(PathBuf),
    /// The disk, or the file system, refused.
    #[error("cannot {what} `{}`: {cause}", .path.display())]
    Io {
        /// `write`, `read` or `make the directory`.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// The reason; its kind distinguishes a full disk from a missing file.
        cause: io::Error,
    },
    /// The content of a file cannot be read.
    #[error("`{}`{}: {cause}", .path.display(), at(*.line))]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: Option<u64>,
        /// The reason.
        cause: String,
    },
    /// A file that another version wrote.
    #[error("`{}` has format {found}, and this program reads format {FORMAT}", .path.display())]
    Format {
        /// Which file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// Files that were changed after they were written: their results cannot be.
    #[error("the results in `{}` are not sound: {cause}", .path.display())]
    Invalid {
        /// The directory.
        path: PathBuf,
        /// The reason.
        cause: InvalidResults,
    },
    /// Results that a run cannot have; their files are complete all the same.
    #[error("the results in `{}` are complete, but not sound: {cause}", .path.display())]
    Unsound {
        /// The directory.
        path: PathBuf,
        /// The text of an [`InvalidResults`].
        cause: String,
    },
}

fn at(line: Option<u64>) -> String {
    line.map_or(String::new(), |line| format!(", line {line}"))
}

/// A directory that a run may be written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultsDirectory {
    path: PathBuf,
}

impl ResultsDirectory {
    /// Makes the directory and those above it; one that has files is refused unless `force`.
    /// Nothing in it is changed yet.
    ///
    /// # Errors
    /// `NotADirectory`, `NotEmpty`, or the error of the disk.
    pub fn prepare(path: &Path, force: bool) -> Result<Self, FileError> {
        if path.exists() && !path.is_dir() {
            return Err(FileError::NotADirectory(path.to_owned()));
        }
        let io = |what| move |cause| FileError::Io { what, path: path.to_owned(), cause };
        fs::create_dir_all(path).map_err(io("make the directory"))?;
        let mut entries = fs::read_dir(path).map_err(io("read"))?;
        if entries.next().is_some() && !force {
            return Err(FileError::NotEmpty(path.to_owned()));
        }
        Ok(Self { path: path.to_owned() })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes all files of a run; `bins` are those of the statistics in `result.json`.
    ///
    /// # Errors
    /// The error of the disk: then there is no `result.json`, and no file is half-written. `Unsound` if
    /// the results are not sound, after all files are written.
    pub fn write(&self, results: &Results, bins: &SizeBins) -> Result<(), FileError> {
        self.remove(RESULT)?;
        let written = files_of(results);
        for (_, name) in FILES.iter().filter(|file| !written.contains(file)) {
            self.remove(name)?;
        }
        for (_, name) in written {
            self.write_table(name, results)?;
        }
        self.write_text(RESULT, &results.to_json(bins))?;
        results.check().map_err(|cause| FileError::Unsound { path: self.path.clone(), cause: cause.to_string() })
    }

    /// Writes one of [`FILES`].
    fn write_table(&self, name: &str, results: &Results) -> Result<(), FileError> {
        let csv = |written: csv::Result<()>| written.map_err(io_error);
        self.put(name, |out| match name {
            HOSTS => csv(tables::write_hosts(results, out)),
            FLOWS => csv(tables::write_flows(results, out)),
            FLOWS_PARQUET => columns::write_flows(results, out),
            LINKS => csv(tables::write_links(results, out)),
            LINK_SAMPLES => csv(tables::write_link_samples(results, out)),
            GROUP_SAMPLES => csv(tables::write_group_samples(results, out)),
            METERS => csv(tables::write_meter_samples(results, out)),
            other => unreachable!("{other} is no table"),
        })
    }

    /// Writes one more file, for example `report.html`, in the same careful way.
    ///
    /// # Errors
    /// The error of the disk; an older file of that name is then still there.
    pub fn write_text(&self, name: &str, text: &str) -> Result<(), FileError> {
        self.put(name, |out| out.write_all(text.as_bytes()))
    }

    /// Removes a file that an earlier run may have left.
    fn remove(&self, name: &str) -> Result<(), FileError> {
        match fs::remove_file(self.path.join(name)) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                Err(FileError::Io { what: "write", path: self.path.join(name), cause })
            }
            _ => Ok(()),
        }
    }

    fn put(&self, name: &str, fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<(), FileError> {
        replace(&self.path.join(name), fill)
    }
}

/// Writes a file beside `path` and renames it when it is whole; a half-written file is removed.
///
/// # Errors
/// The error of `fill` or of the disk; an older file at `path` is then still there.
pub fn replace(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<(), FileError> {
    replace_then(path, fill, |_| Ok(()))
}

/// The same for a file whose presence means that it is whole, also after a power cut: its content is on the disk before
/// it has its name.
///
/// # Errors
/// Those of [`replace`].
pub fn replace_synced(path: &Path, content: &[u8]) -> Result<(), FileError> {
    replace_then(path, |out| out.write_all(content), File::sync_all)
}

fn replace_then(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    then: impl FnOnce(&File) -> io::Result<()>,
) -> Result<(), FileError> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    // Two programs that write the same file use different temporary names.
    name.push(format!(".{}", std::process::id()));
    let beside = path.with_file_name(name);
    let written = File::create(&beside).and_then(|file| {
        let mut out = BufWriter::new(file);
        fill(&mut out)?;
        out.flush()?;
        then(out.get_ref())?;
        fs::rename(&beside, path)
    });
    written.map_err(|cause| {
        // The first error is reported; there may be nothing to remove.
        let _ = fs::remove_file(&beside);
        FileError::Io { what: "write", path: path.to_owned(), cause }
    })
}

/// The error of the disk, if it was the disk.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

impl Results {
    /// The text of `result.json`, with the statistics by `bins`.
    pub fn to_json(&self, bins: &SizeBins) -> String {
        let statistics = (self.backend == Backend::Sim).then(|| Statistics::new(self, bins));
        let file = ResultFile::new(self, statistics, files_of(self));
        // Numbers, strings and maps with text keys: JSON can express all of it.
        let value = serde_json::to_value(&file);
        weir_report::json::to_text(&value.unwrap_or_else(|error| unreachable!("results are plain data: {error}")))
    }

    /// Reads the files of [`ResultsDirectory::write`].
    ///
    /// # Errors
    /// A missing or malformed file, another format, or results that are not sound.
    pub fn read(directory: &Path) -> Result<Self, FileError> {
        let mut file = read_result(directory)?;
        if let Some(cause) = file.unsound.take() {
            return Err(FileError::Unsound { path: directory.to_owned(), cause });
        }
        let mut results = file.into_results();
        if results.backend == Backend::Lab {
            return Ok(results);
        }
        results.hosts = table(directory, HOSTS, tables::read_hosts)?;
        results.links = table(directory, LINKS, tables::read_links)?;
        let hosts = Names::new("host", results.hosts.iter());
        let groups = Names::new("group", results.groups.iter().map(|group| &group.name));
        let links = Names::new("link", results.links.iter().map(|link| &link.name));
        results.flows = table(directory, FLOWS, |input| tables::read_flows(input, &hosts, &groups))?;
        results.link_samples = table(directory, LINK_SAMPLES, |input| tables::read_link_samples(input, &links))?;
        results.group_samples = table(directory, GROUP_SAMPLES, |input| tables::read_group_samples(input, &groups))?;
        if !results.services.is_empty() {
            let services = Names::new("service", results.services.iter());
            results.meter_samples =
                table(directory, METERS, |input| tables::read_meter_samples(input, &hosts, &services))?;
        }
        results.check().map_err(|cause| FileError::Invalid { path: directory.to_owned(), cause })?;
        Ok(results)
    }

    /// Whether the directory holds a run that reached its end with sound results. A directory that is
    /// not there, or without `result.json`, does not.
    ///
    /// # Errors
    /// A `result.json` that cannot be read.
    pub fn is_complete(directory: &Path) -> Result<bool, FileError> {
        match read_result(directory) {
            Ok(file) => Ok(file.complete && file.unsound.is_none()),
            Err(FileError::Io { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn read_result(directory: &Path) -> Result<ResultFile, FileError> {
    let path = directory.join(RESULT);
    let text = fs::read(&path).map_err(|cause| FileError::Io { what: "read", path: path.clone(), cause })?;
    let malformed = |error: serde_json::Error| {
        let (line, text) = (error.line(), error.to_string());
        // The line is reported beside the file.
        let cause = text.strip_suffix(&format!(" at line {line} column {}", error.column())).unwrap_or(&text);
        FileError::Malformed { path: path.clone(), line: Some(line as u64), cause: cause.to_owned() }
    };
    // The version is checked first, before any other missing part.
    let FormatOnly { format } = serde_json::from_slice(&text).map_err(malformed)?;
    if format != FORMAT {
        return Err(FileError::Format { path, found: format });
    }
    serde_json::from_slice(&text).map_err(malformed)
}

fn table<T>(
    directory: &Path,
    name: &str,
    read: impl FnOnce(BufReader<File>) -> Result<T, TableError>,
) -> Result<T, FileError> {
    let path = directory.join(name);
    let file = File::open(&path).map_err(|cause| FileError::Io { what: "read", path: path.clone(), cause })?;
    read(BufReader::new(file)).map_err(|TableError { line, cause }| FileError::Malformed { path, line, cause })
}

#[cfg(test)]
#[path = "files_tests.rs"]
pub(crate) mod tests;

#[cfg(test)]
#[path = "formats_tests.rs"]
mod formats;
