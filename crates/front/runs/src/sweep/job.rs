//! Everything that a point of a sweep needs to run, on this machine or on another one.
//!
//! Problem: points run on workers without the files of the scenario, and their results must be those of `weir sim` to
//! the byte. Approach: a [`Job`] has the texts of all files, the identity of the sweep and the options. The command
//! line and workers run a point by the same functions; a worker returns its [`PointParts`] instead of writing files. A
//! job as bytes is JSON. A worker of another version of Weir refuses it, since its results could differ.
//!
//! A point that cannot be run is a [`PointOutcome::Failed`], not an error: it would fail on every worker, unless memory
//! is what the worker lacks.
//!
//! Worked example: the job of a scenario with a policy of 3 kB is 4 kB of JSON, and is sent to a worker once.

use super::manifest::Identity;
use super::parts::PointParts;
use super::{Plan, Setting, Shelf};
use crate::pool::{self, PointEnd};
use crate::simulation::catch;
use crate::{Stop, results};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use weir_document::Source;
use weir_results::Results;
use weir_results::dataset::PartOf;
use weir_scenario::ReadOptions;
use weir_sim::{Options, Progress};
use weir_units::Bytes;

/// The version of a job as bytes.
const FORMAT: u32 = 1;

/// The points of a sweep, with all that they read.
#[derive(Debug)]
pub struct Job {
    shelf: Shelf,
    plan: Plan,
    identity: Identity,
    /// Its digest.
    digest: String,
    /// Whether points have parts of flows.
    pub flows: bool,
    /// Options of the simulator.
    pub options: Options,
}

/// The result of a point on a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PointOutcome {
    /// The parts of a run that reached its end.
    Complete(PointParts),
    /// The point cannot be run, with the reason.
    Failed(String),
    /// It ended early on request.
    Interrupted,
}

/// The reason why bytes are no job of this program.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// No JSON, or other keys.
    #[error("this is no job of a sweep: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A driver of another version.
    #[error("the sweep was started by weir {there}, and this worker has weir {here}")]
    Version {
        /// The driver's version.
        there: String,
        /// This program's.
        here: String,
    },
    /// A format that this version does not read.
    #[error("the job has format {0}, and this program reads format {FORMAT}")]
    Format(u32),
    /// More points than a sweep can have.
    #[error(transparent)]
    TooManyPoints(#[from] super::TooManyPoints),
}

/// A job as bytes.
#[derive(Serialize, Deserialize)]
struct JobFile {
    job: u32,
    name: String,
    text: String,
    directory: PathBuf,
    files: BTreeMap<PathBuf, String>,
    identity: Identity,
    flows: bool,
    check: bool,
}

/// The keys that decide whether the others can be read.
#[derive(Deserialize)]
struct JobVersion {
    job: u32,
    identity: WeirVersion,
}

#[derive(Deserialize)]
struct WeirVersion {
    weir: String,
}

impl Job {
    /// A job of a plan whose points have been checked, so that the shelf has all files.
    pub fn new(plan: Plan, shelf: Shelf, flows: bool, options: Options) -> Self {
        let identity = Identity::new(&plan, &shelf);
        Self { digest: identity.digest(), shelf, plan, identity, flows, options }
    }

    /// All points.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The identity of the sweep.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The job for another process.
    ///
    /// # Errors
    /// A path that is not UTF-8.
    pub fn to_bytes(&self) -> Result<Vec<u8>, JobError> {
        let (scenario, directory, files) = self.shelf.content();
        let (name, text) = (scenario.name().to_owned(), scenario.text().to_owned());
        let (identity, flows, check) = (self.identity.clone(), self.flows, self.options.check);
        Ok(serde_json::to_vec(&JobFile { job: FORMAT, name, text, directory, files, identity, flows, check })?)
    }

    /// Reads the output of [`Job::to_bytes`].
    ///
    /// # Errors
    /// Bytes of another version of Weir, or that are no job.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, JobError> {
        let JobVersion { job, identity: WeirVersion { weir } } = serde_json::from_slice(bytes)?;
        if weir != env!("CARGO_PKG_VERSION") {
            return Err(JobError::Version { there: weir, here: env!("CARGO_PKG_VERSION").to_owned() });
        }
        if job != FORMAT {
            return Err(JobError::Format(job));
        }
        let file: JobFile = serde_json::from_slice(bytes)?;
        let source = |(path, text): (PathBuf, String)| {
            let name = path.display().to_string();
            (path, Source::from_text(name, text))
        };
        let files = file.files.into_iter().map(source).collect();
        let shelf = Shelf::closed(Source::from_text(file.name, file.text), file.directory, files);
        let plan = Plan::new(file.identity.settings.clone(), file.identity.parameters.clone())?;
        let (identity, digest) = (file.identity.clone(), file.identity.digest());
        Ok(Self { shelf, plan, identity, digest, flows: file.flows, options: Options { check: file.check } })
    }

    /// Runs a point to its results; `memory` is the bound on its network. A part of a run is no result.
    pub(super) fn simulate(
        &self,
        point: usize,
        memory: Option<Bytes>,
        stop: &Stop,
        step: &mut dyn FnMut(Option<Progress>),
    ) -> Result<Results, PointEnd> {
        if stop.is_requested() {
            return Err(PointEnd::Interrupted);
        }
        let set = Setting::pairs(&self.plan.settings_of(point));
        let scenario = match self.shelf.read(&ReadOptions { set: set.clone(), memory }) {
            Ok((scenario, _)) => scenario,
            Err(refused) => return Err(PointEnd::Failed(refused.render(false))),
        };
        match pool::simulate(&scenario, scenario.seed(), &self.options, stop, step)? {
            outcome if outcome.interrupted => Err(PointEnd::Interrupted),
            outcome => Ok(results::simulated(&scenario, outcome, &set)),
        }
    }

    /// The names of a point in its parts.
    pub(super) fn part(&self, point: usize, seed: u64) -> PartOf {
        let point = &self.plan.points[point];
        let values = point.values.iter().filter(|of| of.path != "seed");
        let values = values.map(|of| (of.path.clone(), of.value.clone())).collect();
        PartOf { sweep: self.digest.clone(), point: point.name.clone(), seed, values }
    }

    /// Runs a point on a worker. `step` is called on this thread, about ten times a second.
    pub fn run(
        &self,
        point: usize,
        memory: Option<Bytes>,
        stop: &Stop,
        step: &mut dyn FnMut(Option<Progress>),
    ) -> PointOutcome {
        let run = || {
            let results = self.simulate(point, memory, stop, step)?;
            results.check().map_err(|cause| PointEnd::Failed(format!("the results are not sound: {cause}")))?;
            let parts = PointParts::new(&self.part(point, results.seed), &results, self.flows);
            parts.map_err(|cause| PointEnd::Failed(cause.to_string()))
        };
        match catch(run) {
            Ok(Ok(parts)) => PointOutcome::Complete(parts),
            Ok(Err(PointEnd::Failed(cause))) | Err(cause) => PointOutcome::Failed(cause),
            Ok(Err(PointEnd::Disk(error))) => PointOutcome::Failed(error.to_string()),
            Ok(Err(PointEnd::Interrupted | PointEnd::Complete)) => PointOutcome::Interrupted,
        }
    }
}

#[cfg(test)]
#[path = "job_tests.rs"]
mod tests;
