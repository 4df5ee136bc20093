//! `sweep.json`: what a sweep is, and how far it has come.
//!
//! What a sweep is (its [`Identity`]) never changes in a directory: the same command goes on with it, another is refused.
//! The states of points are told for people and programs; whether a point is done says its own `point.json`.

use super::{Axis, Plan, Setting, Shelf};
use crate::json;
use crate::run_files::{read_text, write_text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::ErrorKind::{NotADirectory, NotFound};
use std::path::Path;
use weir_results::FileError;
use weir_scenario::Scenario;

/// The file's name.
pub(crate) const MANIFEST: &str = "sweep.json";
/// The version of the format; a key more does not raise it.
const FORMAT: u32 = 1;

/// The whole file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    #[serde(flatten)]
    pub(crate) identity: Identity,
    /// The scenario's name.
    pub(crate) scenario: String,
    /// The seed of points that are not given one.
    pub(crate) seed: u64,
    /// What gives the same again.
    pub(crate) command: String,
    /// In the order of the plan.
    pub(crate) points: Vec<Entry>,
}

/// What makes a sweep the one that it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// [`FORMAT`].
    pub(crate) format: u32,
    /// The version of the program: another may simulate otherwise.
    pub(crate) weir: String,
    /// Of the scenario and all files that it names.
    pub(crate) sha256: String,
    pub(crate) settings: Vec<Setting>,
    pub(crate) parameters: Vec<Axis>,
}

impl Identity {
    /// What a plan over these files is. All points have been read, so that the shelf has all files.
    pub(crate) fn new(plan: &Plan, shelf: &Shelf) -> Self {
        Self {
            format: FORMAT,
            weir: env!("CARGO_PKG_VERSION").to_owned(),
            sha256: shelf.digest(),
            settings: plan.settings.clone(),
            parameters: plan.axes.clone(),
        }
    }
}

/// A point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Its directory below `points`.
    pub(crate) name: String,
    /// Its values.
    pub(crate) parameters: BTreeMap<String, String>,
    #[serde(flatten)]
    pub(crate) state: State,
}

/// How far a point has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub(crate) enum State {
    /// It has not been run to its end.
    Pending,
    /// Its files are there.
    Complete,
    /// It cannot be run.
    Failed {
        /// Why.
        cause: String,
    },
}

impl Manifest {
    /// A sweep of which nothing is done.
    pub(crate) fn new(plan: &Plan, shelf: &Shelf, scenario: &Scenario, command: String) -> Self {
        let entry = |point: &super::Point| Entry {
            name: point.name.clone(),
            parameters: point.values.iter().map(|of| (of.path.clone(), of.value.clone())).collect(),
            state: State::Pending,
        };
        Self {
            identity: Identity::new(plan, shelf),
            scenario: scenario.name().to_owned(),
            seed: scenario.seed(),
            command,
            points: plan.points.iter().map(entry).collect(),
        }
    }

    /// Reads the file of a directory; None where there is none.
    pub(crate) fn read(directory: &Path) -> Result<Option<Self>, FileError> {
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
    pub(crate) fn write(&self, directory: &Path) -> Result<(), FileError> {
        // Strings and lists always have a JSON form.
        let value = serde_json::to_value(self).unwrap_or_default();
        write_text(&directory.join(MANIFEST), &json::to_text(&value))
    }

    /// How many points are complete, and how many failed.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let count = |is: fn(&State) -> bool| self.points.iter().filter(|point| is(&point.state)).count();
        (count(|state| *state == State::Complete), count(|state| matches!(state, State::Failed { .. })))
    }
}
