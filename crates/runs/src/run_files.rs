//! The directory of a run: its files, and `report.html` drawn from them alone.
//!
//! Problem: a run over a scenario's own network gives flows and links ([`weir_results`]); a run
//! under a policy also gives services' bandwidths ([`RunFile`]), which the lab measures as well and
//! programs read. Approach: `result.json` is always the one file about the whole run; under a
//! policy it is a [`RunFile`], and the results of the packet-level network are below, in
//! `network/`.
//!
//! | scenario | files |
//! |---|---|
//! | with a network of its own | `result.json`, `flows.csv`, `flows.parquet`, `links.csv`, `link_samples.csv`, |
//! | | `group_samples.csv`, `hosts.csv` |
//! | under a policy | `result.json` (format 1), and all of the above in `network/` with a page of its own |
//! | both | `report.html`, `command.txt` (the command that makes the same files) |
//!
//! `result.json` is removed first and written last of the results: where it exists, the other files
//! are complete and belong to it.
//!
//! Worked example: `weir sim scenarios/incast.scenario.yaml --report out`; later `weir report out`
//! draws the same page again.

use crate::run_file::RunFile;
use crate::run_page;
use serde::Deserialize;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use weir_report::Page;
use weir_results::files::{RESULT, replace};
use weir_results::{FileError, Results, ResultsDirectory, SizeBins};
use weir_scenario::Scenario;
use weir_sim::RunOutcome;

/// The page.
pub const PAGE: &str = "report.html";
/// The command line that makes the same files.
const COMMAND: &str = "command.txt";
/// The results of the network in a run under a policy.
pub const NETWORK: &str = "network";

/// The results of a simulated run.
#[derive(Debug)]
pub struct SimulatedRun {
    /// Flows, links and samples.
    pub results: Results,
    /// Services' bandwidths; only under a policy.
    pub services: Option<RunFile>,
}

impl SimulatedRun {
    /// The results of `outcome`, with the changed values of the scenario.
    pub fn new(scenario: &Scenario, seed: u64, outcome: RunOutcome, set: &[(String, String)]) -> Self {
        let services = scenario.governed().map(|governed| RunFile::simulated(scenario, governed, seed, &outcome));
        let mut results = outcome.results;
        // The seed has a key of its own.
        results.parameters = set.iter().filter(|(path, _)| path != "seed").cloned().collect();
        Self { results, services }
    }

    /// The text of `result.json`.
    pub fn to_json(&self) -> String {
        match &self.services {
            Some(services) => services.to_text(),
            None => self.results.to_json(&SizeBins::default()),
        }
    }

    /// Writes all files and the page, and returns the page's path. The directory exists; files of
    /// older runs are replaced.
    pub fn write(&self, directory: &Path, command: &str) -> Result<PathBuf, FileError> {
        remove(&directory.join(RESULT))?;
        write_text(&directory.join(COMMAND), &format!("{command}\n"))?;
        let network = if self.services.is_some() { directory.join(NETWORK) } else { directory.to_owned() };
        // Older files were accepted with the outer directory.
        ResultsDirectory::prepare(&network, true)?.write(&self.results, &SizeBins::default())?;
        if let Some(services) = &self.services {
            write_text(&directory.join(RESULT), &services.to_text())?;
        } else {
            remove(&directory.join(NETWORK).join(RESULT))?;
        }
        // Drawn from the files, not from the run, so that `weir report` draws the same page.
        draw(directory)
    }
}

/// Writes the results of a run outside the simulator, and its page.
pub fn write_services(directory: &Path, file: &RunFile, command: &str) -> Result<PathBuf, FileError> {
    remove(&directory.join(NETWORK).join(RESULT))?;
    write_text(&directory.join(COMMAND), &format!("{command}\n"))?;
    write_text(&directory.join(RESULT), &file.to_text())?;
    draw(directory)
}

/// Draws the page of a run from its files.
///
/// # Errors
/// Files that are missing or cannot be read, or a page that cannot be written.
pub fn draw(directory: &Path) -> Result<PathBuf, FileError> {
    /// The key that distinguishes the formats.
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let command = read_text(&directory.join(COMMAND))?;
    let command = command.trim_end();
    let path = directory.join(RESULT);
    let text = read_text(&path)?;
    let malformed = |error: serde_json::Error| FileError::Malformed {
        path: path.clone(),
        line: Some(error.line() as u64),
        cause: error.to_string(),
    };
    let Format { format } = serde_json::from_str(&text).map_err(malformed)?;
    if format != crate::run_file::FORMAT {
        // The other format is that of the results, which report their own errors.
        return put(directory, &weir_results::page(&Results::read(directory)?, command));
    }
    let mut page = run_page::page(&RunFile::from_text(&text).map_err(malformed)?, command);
    let network = directory.join(NETWORK);
    if network.join(RESULT).exists() {
        put(&network, &weir_results::page(&Results::read(&network)?, command))?;
        page = page.heading("Network").link("Flows, links and queues of this run", &format!("{NETWORK}/{PAGE}"));
    }
    put(directory, &page)
}

fn put(directory: &Path, page: &Page) -> Result<PathBuf, FileError> {
    let path = directory.join(PAGE);
    write_text(&path, &page.to_html())?;
    Ok(path)
}

/// Writes a file beside its path and renames it when it is complete.
pub fn write_text(path: &Path, text: &str) -> Result<(), FileError> {
    replace(path, |out| out.write_all(text.as_bytes()))
}

/// Reads a file as text.
pub fn read_text(path: &Path) -> Result<String, FileError> {
    std::fs::read_to_string(path).map_err(|cause| FileError::Io { what: "read", path: path.to_owned(), cause })
}

/// Removes a file if it exists.
pub fn remove(path: &Path) -> Result<(), FileError> {
    match std::fs::remove_file(path) {
        // A missing directory has no such file either.
        Err(cause) if !matches!(cause.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            Err(FileError::Io { what: "remove", path: path.to_owned(), cause })
        }
        _ => Ok(()),
    }
}
