//! `sweep.json`: the identity of a sweep, and its progress.
//!
//! Problem: a directory must not mix the points of two sweeps. Approach: the [`Identity`] of a sweep never changes in a
//! directory: the same command continues it, another one is refused. The states of points are for people and programs;
//! a point is complete if its own `point.json` exists.
//!
//! Worked example: a sweep over `seed=1..3` is repeated with `seed=1..4`: `parameters` differs, and the sweep is
//! refused.

use super::{Axis, Job, Plan, Setting, Shelf};
use crate::run_files::{read_text, write_text};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::ErrorKind::{NotADirectory, NotFound};
use std::path::Path;
use weir_report::json;
use weir_results::FileError;
use weir_results::dataset::PartOf;
use weir_scenario::Scenario;

/// The file's name.
pub const MANIFEST: &str = "sweep.json";
/// The version of a sweep's files; an additional key does not raise it. 1 had points of an older format, beside which
/// a sweep must not go on.
const FORMAT: u32 = 2;

/// The whole file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// It never changes in a directory.
    #[serde(flatten)]
    pub identity: Identity,
    /// The scenario's name.
    pub scenario: String,
    /// The seed of points without one of their own.
    pub seed: u64,
    /// The command that makes the same sweep.
    pub command: String,
    /// In the order of the plan.
    pub points: Vec<Entry>,
}

/// The identity of a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// [`FORMAT`].
    pub format: u32,
    /// The version of the program: another one may simulate differently.
    pub weir: String,
    /// The digest of the scenario and all files that it names.
    pub sha256: String,
    /// The values of all points.
    pub settings: Vec<Setting>,
    /// The swept values.
    pub parameters: Vec<Axis>,
}

impl Identity {
    /// The identity of a plan over these files. All points have been read, so that the shelf has
    /// all files.
    pub(super) fn new(plan: &Plan, shelf: &Shelf) -> Self {
        Self {
            format: FORMAT,
            weir: env!("CARGO_PKG_VERSION").to_owned(),
            sha256: shelf.digest(),
            settings: plan.settings.clone(),
            parameters: plan.axes.clone(),
        }
    }

    /// The name of the sweep in the parts of its dataset: the SHA-256 of the identity as JSON.
    pub fn digest(&self) -> String {
        // Strings and lists always have a JSON form.
        let text = serde_json::to_string(self).unwrap_or_default();
        Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The swept paths other than the seed, which has a column of its own.
    pub(super) fn swept(&self) -> impl Iterator<Item = &str> {
        self.parameters.iter().map(|axis| axis.path.as_str()).filter(|path| *path != "seed")
    }
}

/// A point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its directory below `points`.
    pub name: String,
    /// Its values.
    pub parameters: BTreeMap<String, String>,
    /// Its state.
    #[serde(flatten)]
    pub state: State,
}

/// The state of a point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum State {
    /// It has not been run to its end.
    Pending,
    /// Its files are complete.
    Complete,
    /// It cannot be run.
    Failed {
        /// Why.
        cause: String,
    },
}

impl Manifest {
    /// A sweep before its first point.
    pub fn new(job: &Job, scenario: &Scenario, command: String) -> Self {
        let entry = |point: &super::Point| Entry {
            name: point.name.clone(),
            parameters: point.values.iter().map(|of| (of.path.clone(), of.value.clone())).collect(),
            state: State::Pending,
        };
        Self {
            identity: job.identity().clone(),
            scenario: scenario.name().to_owned(),
            seed: scenario.seed(),
            command,
            points: job.plan().points.iter().map(entry).collect(),
        }
    }

    /// Reads the file of a directory; None if it does not exist.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn read(directory: &Path) -> Result<Option<Self>, FileError> {
        let path = directory.join(MANIFEST);
        let text = match read_text(&path) {
            Err(FileError::Io { cause, .. }) if matches!(cause.kind(), NotFound | NotADirectory) => return Ok(None),
            text => text?,
        };
        let malformed = |error: serde_json::Error| FileError::Malformed {
            path,
            line: Some(error.line() as u64),
            cause: error.to_string(),
        };
        serde_json::from_str(&text).map(Some).map_err(malformed)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The error of the disk.
    pub fn write(&self, directory: &Path) -> Result<(), FileError> {
        // Strings and lists always have a JSON form.
        let value = serde_json::to_value(self).unwrap_or_default();
        write_text(&directory.join(MANIFEST), &json::to_text(&value))
    }

    /// The names of a point in the parts of the dataset; `sweep` is the [`Identity::digest`].
    pub(super) fn part(&self, sweep: &str, point: usize, seed: u64) -> PartOf {
        let Entry { name, parameters, .. } = &self.points[point];
        let value = |path: &str| (path.to_owned(), parameters.get(path).cloned().unwrap_or_default());
        let values = self.identity.swept().map(value).collect();
        PartOf { sweep: sweep.to_owned(), point: name.clone(), seed, values }
    }

    /// The number of complete points, and of failed ones.
    pub fn counts(&self) -> (usize, usize) {
        let count = |is: fn(&State) -> bool| self.points.iter().filter(|point| is(&point.state)).count();
        (count(|state| *state == State::Complete), count(|state| matches!(state, State::Failed { .. })))
    }
}
