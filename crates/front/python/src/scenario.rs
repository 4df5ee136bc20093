//! `weir.Scenario`: a scenario with changed values, and its runs in the simulator.
//!
//! A run is on a thread of Rust; the thread of Python waits for it without the GIL, and takes the GIL about ten times a
//! second for signal handlers and for the callback of progress. An exception of either ends the run.

use crate::arguments;
use crate::error::{Subject, remarks};
use crate::results::Results;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use weir_answers::AnswerError;
use weir_document::{Diagnostic, Diagnostics, Source, quote};
use weir_runs::pool::fraction;
use weir_runs::simulation::{self, Ran};
use weir_runs::sweep::Setting;
use weir_runs::{Stop, memory, results, shaper_remarks};
use weir_scenario::{Disk, ReadOptions, language};
use weir_sim::{Options, RunError};

/// A valid scenario. A change replaces its values at once, so a run has those of its start.
#[pyclass(frozen, module = "weir")]
pub(crate) struct Scenario {
    source: Arc<Source>,
    directory: PathBuf,
    /// Never locked while the GIL is waited for.
    read: Mutex<Arc<Read>>,
}

/// A scenario that was read.
struct Read {
    scenario: weir_scenario::Scenario,
    notes: Vec<Diagnostic>,
    /// The changed values, by path.
    set: Vec<(String, String)>,
}

impl Read {
    fn new(source: &Arc<Source>, directory: &std::path::Path, set: Vec<(String, String)>) -> Result<Self, Diagnostics> {
        let options = ReadOptions { set, memory: memory::available() };
        let outcome = weir_scenario::Scenario::from_files(source, directory, &mut Disk, &options);
        let (scenario, notes) = shaper_remarks::with_remarks(outcome)?;
        if let Some(reason) = scenario.lab_only() {
            return Err(Diagnostics::one(reason.clone()));
        }
        Ok(Self { scenario, notes, set: options.set })
    }
}

/// The progress of a run.
#[pyclass(frozen, get_all, module = "weir")]
pub(crate) struct Progress {
    /// The finished part, 0 to 1.
    fraction: f64,
    /// Simulated seconds.
    simulated_s: f64,
    /// Seconds to simulate.
    duration_s: f64,
    /// Flows that have started.
    started: u64,
    /// Flows that have ended.
    finished: u64,
    /// All flows, if their number is known.
    expected: Option<u64>,
}

#[pymethods]
impl Progress {
    fn __repr__(&self) -> String {
        format!("<weir.Progress {:.1} % of {} s>", 100.0 * self.fraction, self.duration_s)
    }
}

impl From<&weir_sim::Progress> for Progress {
    fn from(now: &weir_sim::Progress) -> Self {
        Self {
            fraction: fraction(now),
            simulated_s: now.at.as_secs_f64(),
            duration_s: now.of.as_secs_f64(),
            started: now.started,
            finished: now.over,
            expected: now.expected,
        }
    }
}

impl Scenario {
    fn of_source(source: Arc<Source>, directory: PathBuf) -> Result<Self, Diagnostics> {
        let read = Mutex::new(Arc::new(Read::new(&source, &directory, Vec::new())?));
        Ok(Self { source, directory, read })
    }

    fn read(&self) -> Arc<Read> {
        Arc::clone(&self.read.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The changed values in the order of the command line, which has the seed last.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let read = self.read();
        let setting = |(path, value): &(String, String)| Setting { path: path.clone(), value: value.clone() };
        let (seed, others): (Vec<_>, Vec<_>) = read.set.iter().map(setting).partition(|of| of.path == "seed");
        others.into_iter().chain(seed).collect()
    }

    /// Its text, and the directory of the files that it names.
    pub(crate) fn place(&self) -> (Arc<Source>, PathBuf) {
        (Arc::clone(&self.source), self.directory.clone())
    }

    /// Reads the scenario again with more changed values; a later value of a path replaces an earlier one.
    fn change(&self, py: Python<'_>, changes: Vec<(String, String)>) -> PyResult<()> {
        let mut set = self.read().set.clone();
        set.retain(|(path, _)| !changes.iter().any(|(changed, _)| changed == path));
        set.extend(changes);
        let read = py.detach(|| Read::new(&self.source, &self.directory, set));
        let read = read.map_err(|refused| Subject::Scenario.refused(py, &refused))?;
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(read);
        Ok(())
    }
}

#[pymethods]
impl Scenario {
    /// Reads a scenario's file and the files that it names. Raises ScenarioError with all mistakes in them.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let read = py.detach(|| {
            let source = Source::read(&path, language::MAX_FILE)?;
            let directory = path.parent().map(PathBuf::from).unwrap_or_default();
            Self::of_source(source, directory)
        });
        read.map_err(|refused| Subject::Scenario.refused(py, &refused))
    }

    /// Reads a scenario from a text; the files that it names are below `directory`.
    #[staticmethod]
    #[pyo3(
        signature = (text, *, name = "<scenario>".to_owned(), directory = PathBuf::new()),
        text_signature = "(text, *, name='<scenario>', directory='')"
    )]
    fn parse(py: Python<'_>, text: String, name: String, directory: PathBuf) -> PyResult<Self> {
        let read = py.detach(|| Self::of_source(arguments::source(&name, text, language::MAX_FILE)?, directory));
        read.map_err(|refused| Subject::Scenario.refused(py, &refused))
    }

    /// Changes a value, as `--set PATH=VALUE` does. Raises ScenarioError, and changes nothing, if the scenario is then
    /// not valid.
    fn set(&self, py: Python<'_>, path: String, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let text = scalar(&path, value)?;
        self.change(py, vec![(path, text)])
    }

    /// Changes several values at once: only the result must be valid.
    fn update(&self, py: Python<'_>, values: &Bound<'_, PyDict>) -> PyResult<()> {
        let change = |(path, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            let path: String = path.extract()?;
            let text = scalar(&path, &value)?;
            Ok((path, text))
        };
        let changes: PyResult<Vec<_>> = values.iter().map(change).collect();
        self.change(py, changes?)
    }

    /// The name of the scenario.
    #[getter]
    fn name(&self) -> String {
        self.read().scenario.name().to_owned()
    }

    /// The seed of all randomness.
    #[getter]
    fn seed(&self) -> u64 {
        self.read().scenario.seed()
    }

    /// The changed values, by path.
    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let parameters = PyDict::new(py);
        for (path, value) in &self.read().set {
            parameters.set_item(path, value)?;
        }
        Ok(parameters)
    }

    /// Remarks on the scenario and its policy.
    #[getter]
    fn remarks<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        remarks(py, &self.read().notes)
    }

    /// Another scenario with the same values.
    fn copy(&self) -> Self {
        let (source, directory) = (Arc::clone(&self.source), self.directory.clone());
        Self { source, directory, read: Mutex::new(self.read()) }
    }

    /// Simulates the scenario. `progress` is called with a Progress when the network is built, and then about ten times
    /// a second; if it returns False, the run ends early with the results so far. `checkers` makes a broken invariant
    /// of the simulator an error.
    #[pyo3(signature = (*, progress = None, checkers = false))]
    fn run(&self, py: Python<'_>, progress: Option<Py<PyAny>>, checkers: bool) -> PyResult<Results> {
        let read = self.read();
        let (ran, raised) = py.detach(|| {
            let (stop, mut raised) = (Stop::new(), None);
            let mut on = |now: Option<weir_sim::Progress>| {
                // After an exception the run ends at its next sample.
                if raised.is_none() {
                    raised = Python::attach(|py| step(py, progress.as_ref(), now.as_ref(), &stop)).err();
                }
                if raised.is_some() {
                    stop.request();
                }
            };
            let options = Options { check: checkers };
            let ran = simulation::run(&read.scenario, read.scenario.seed(), &options, &stop, &mut on);
            (ran, raised)
        });
        if let Some(raised) = raised {
            return Err(raised);
        }
        let ran = ran.map_err(|error| PyOSError::new_err(format!("cannot start a thread: {error}")))?;
        let refused = |error: AnswerError| Err(Subject::Scenario.error(py, &error));
        match ran {
            Ran::Outcome(outcome, _) => {
                Ok(Results::new(py.detach(|| results::simulated(&read.scenario, *outcome, &read.set))))
            }
            Ran::Refused(error) => refused(run_error(&error)),
            Ran::SameName(error) => {
                refused(AnswerError::refused(error.to_string()).hint("rename one of them: results refer to it by name"))
            }
            Ran::Nothing => Err(PyRuntimeError::new_err("the run ended before its network was built")),
            Ran::Broken(panic) => Err(PyRuntimeError::new_err(format!(
                "{panic}\nhint: this is a mistake of the simulator, not of the scenario"
            ))),
        }
    }

    fn __repr__(&self) -> String {
        let read = self.read();
        format!("<weir.Scenario {}, seed {}>", quote(read.scenario.name()), read.scenario.seed())
    }
}

/// Runs signal handlers and the callback of progress.
fn step(py: Python<'_>, progress: Option<&Py<PyAny>>, now: Option<&weir_sim::Progress>, stop: &Stop) -> PyResult<()> {
    py.check_signals()?;
    if let (Some(callback), Some(now)) = (progress, now) {
        let returned = callback.call1(py, (Progress::from(now),))?;
        if returned.bind(py).is(PyBool::new(py, false)) {
            stop.request();
        }
    }
    Ok(())
}

/// A scalar as it is written in documents.
pub(crate) fn scalar(path: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(flag.is_true().to_string());
    }
    if let Ok(text) = value.cast::<PyString>() {
        return text.extract();
    }
    if let Ok(number) = value.extract::<u64>() {
        return Ok(number.to_string());
    }
    if let Ok(number) = value.extract::<f64>() {
        return Ok(number.to_string());
    }
    Err(PyTypeError::new_err(format!(
        "`{path}` cannot have the value {}\nhint: a value is a text as in the file, a number or a bool",
        value.repr()?
    )))
}

/// A refusal of the simulator, with a hint.
fn run_error(error: &RunError) -> AnswerError {
    let refused = AnswerError::refused(error.to_string());
    match error {
        RunError::LabOnly(_) => refused.hint("run it with `weir lab`"),
        RunError::Unclassified(_) => {
            refused.hint("give the service a match that TCP packets between these machines have")
        }
        RunError::Classifier(filters) => refused.hint(filters.hint()),
        RunError::Unenforceable(refusal) => refused.hint(refusal.hint()),
    }
}
