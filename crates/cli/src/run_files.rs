//! The directory of a run: its files, and `report.html` drawn from them alone.
//!
//! Problem: a run over a scenario's own network gives flows and links ([`weir_results`]); a run under a policy gives
//! services' bandwidths too ([`RunFile`]), which the lab measures as well and programs read. Approach: `result.json` is
//! always the one file about the whole run; under a policy it is a [`RunFile`], and what the packet-level network did
//! stands below, in `network/`.
//!
//! | scenario | files |
//! |---|---|
//! | with a network of its own | `result.json`, `flows.csv`, `flows.parquet`, `links.csv`, `link_samples.csv`, `group_samples.csv`, `hosts.csv` |
//! | under a policy | `result.json` (format 1), and all of the above in `network/` with a page of its own |
//! | both | `report.html`, `command.txt` (what gives the same again) |
//!
//! `result.json` is taken away first and comes last of what is measured: where it is, the other files are, and belong to it.
//!
//! Worked example: `weir sim scenarios/incast.scenario.yaml --report out` and, after a look at the flows in another
//! program, `weir report out` draws the same page again.

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
pub(crate) const PAGE: &str = "report.html";
/// The command line that gives the same files.
const COMMAND: &str = "command.txt";
/// What the network did in a run under a policy.
pub(crate) const NETWORK: &str = "network";

/// What a simulated run gave.
#[derive(Debug)]
pub(crate) struct SimulatedRun {
    /// Flows, links and samples.
    pub(crate) results: Results,
    /// Services' bandwidths; only under a policy.
    pub(crate) services: Option<RunFile>,
}

impl SimulatedRun {
    /// What `outcome` gave, with what was changed in the scenario for it.
    pub(crate) fn new(scenario: &Scenario, seed: u64, outcome: RunOutcome, set: &[(String, String)]) -> Self {
        let services = scenario.governed().map(|_| RunFile::simulated(scenario, seed, &outcome));
        let mut results = outcome.results;
        // The seed has a place of its own.
        results.parameters = set.iter().filter(|(path, _)| path != "seed").cloned().collect();
        Self { results, services }
    }

    /// The text of `result.json`.
    pub(crate) fn to_json(&self) -> String {
        match &self.services {
            Some(services) => services.to_text(),
            None => self.results.to_json(&SizeBins::default()),
        }
    }

    /// Writes all files and the page, and gives the page's path. The directory exists; what older runs left there under
    /// the same names is replaced.
    pub(crate) fn write(&self, directory: &Path, command: &str) -> Result<PathBuf, FileError> {
        remove(&directory.join(RESULT))?;
        write_text(&directory.join(COMMAND), &format!("{command}\n"))?;
        let network = if self.services.is_some() { directory.join(NETWORK) } else { directory.to_owned() };
        // Whoever asked for the directory has settled what becomes of older files.
        ResultsDirectory::prepare(&network, true)?.write(&self.results, &SizeBins::default())?;
        if let Some(services) = &self.services {
            write_text(&directory.join(RESULT), &services.to_text())?;
        } else {
            remove(&directory.join(NETWORK).join(RESULT))?;
        }
        // From the files, not from the run: whoever has them can draw the same page.
        draw(directory)
    }
}

/// Writes what a run outside the simulator gave, and its page.
pub(crate) fn write_services(directory: &Path, file: &RunFile, command: &str) -> Result<PathBuf, FileError> {
    remove(&directory.join(NETWORK).join(RESULT))?;
    write_text(&directory.join(COMMAND), &format!("{command}\n"))?;
    write_text(&directory.join(RESULT), &file.to_text())?;
    draw(directory)
}

/// Draws the page of a run from its files.
///
/// # Errors
/// Files that are missing or cannot be read, or a page that cannot be written.
pub(crate) fn draw(directory: &Path) -> Result<PathBuf, FileError> {
    /// The one key that tells which file it is.
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
        // The other format is the results' own, and they say what they do not know.
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

/// Writes a file beside its place and puts it there when it is whole.
pub(crate) fn write_text(path: &Path, text: &str) -> Result<(), FileError> {
    replace(path, |out| out.write_all(text.as_bytes()))
}

/// Reads a file as text.
pub(crate) fn read_text(path: &Path) -> Result<String, FileError> {
    std::fs::read_to_string(path).map_err(|cause| FileError::Io { what: "read", path: path.to_owned(), cause })
}

/// Takes a file away if it is there.
pub(crate) fn remove(path: &Path) -> Result<(), FileError> {
    match std::fs::remove_file(path) {
        // A directory that is not there has no such file either.
        Err(cause) if !matches!(cause.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            Err(FileError::Io { what: "remove", path: path.to_owned(), cause })
        }
        _ => Ok(()),
    }
}
