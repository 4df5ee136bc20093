//! The points of a sweep for `weir.sweep`: `SweepJob`, which runs them on any worker, and `SweepDirectory`, which
//! keeps their results.
//!
//! The Python part (`weir/_sweep.py`) sends jobs to an engine and receives outcomes; plan, identity and files are those
//! of `weir sim --sweep`.

use crate::error::Subject;
use crate::interrupt::Signals;
use crate::scenario::{Scenario, scalar};
use pyo3::exceptions::{PyFileExistsError, PyIndexError, PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};
use std::collections::BTreeMap;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use weir_answers::AnswerError;
use weir_document::Diagnostics;
use weir_results::FileError;
use weir_runs::sweep::{
    Axes, Axis, Contents, Job, Manifest, Plan, PointOutcome, PointParts, Setting, Shelf, State, SweepError, command,
    options,
};
use weir_runs::{Stop, memory, shaper_remarks, text};
use weir_sim::Options;
use weir_units::Bytes;

/// Paths with their values; those of one list change together.
type Grid<'py> = Vec<Vec<(String, Vec<Bound<'py, PyAny>>)>>;

/// State, text, and the parts of statistics and flows.
type Outcome<'py> = (&'static str, String, Option<Bound<'py, PyBytes>>, Option<Bound<'py, PyBytes>>);

/// The points of a sweep, with all files that they read. Pickled, it is sent to workers.
#[pyclass(frozen, module = "weir._weir")]
pub(crate) struct SweepJob {
    job: Job,
    stop: Stop,
    /// The sweep before its first point; on a worker there is none.
    manifest: Option<Manifest>,
}

#[pymethods]
impl SweepJob {
    /// All points of a grid, checked. Raises ScenarioError with the mistakes of the first point that is invalid, such
    /// as a network that does not fit into the memory of one of `share` points at once.
    #[new]
    #[pyo3(signature = (scenario, grid, *, flows = false, checkers = false, share = 1))]
    fn new(
        py: Python<'_>,
        scenario: &Scenario,
        grid: Grid<'_>,
        flows: bool,
        checkers: bool,
        share: usize,
    ) -> PyResult<Self> {
        let refused = |error: AnswerError| Subject::Scenario.error(py, &error);
        let settings = scenario.settings();
        let axes = axes(grid)?.map_err(|cause| refused(AnswerError::refused(cause)))?;
        if let Some(twice) = twice(&settings, &axes) {
            let hint = "give each value once, by the scenario's own or in the grid";
            return Err(refused(AnswerError::refused(format!("`{twice}` is given twice")).hint(hint)));
        }
        let plan = Plan::new(settings, axes);
        let plan = plan.map_err(|error| refused(AnswerError::refused(error.to_string()).hint("use fewer values")))?;
        let (source, directory) = scenario.place();
        let start = format!("weir sim {}", text::shell_word(source.name()));
        let command = format!("{} {} --report DIR", command(&start, &plan.settings), options(&plan.axes).join(" "));
        let made = py.detach(|| {
            let shelf = Shelf::new(source, &directory);
            let (first, _) =
                shaper_remarks::with_remarks(plan.check(&shelf, memory_of(memory::available(), share, &plan)))?;
            if let Some(reason) = first.lab_only() {
                return Err(Diagnostics::one(reason.clone()));
            }
            let job = Job::new(plan, shelf, flows, Options { check: checkers });
            let manifest = Manifest::new(&job, &first, command);
            Ok(Self { job, stop: Stop::new(), manifest: Some(manifest) })
        });
        made.map_err(|diagnostics| Subject::Scenario.refused(py, &diagnostics))
    }

    /// The job that `__reduce__` has written. Raises RuntimeError in another version of Weir.
    #[classmethod]
    fn from_bytes(_class: &Bound<'_, PyType>, job: &[u8]) -> PyResult<Self> {
        let job = Job::from_bytes(job).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        Ok(Self { job, stop: Stop::new(), manifest: None })
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let bytes = self.job.to_bytes().map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        Ok((py.get_type::<Self>().getattr("from_bytes")?, (PyBytes::new(py, &bytes),)))
    }

    /// The names of the points.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.job.plan().points.iter().map(|point| point.name.clone()).collect()
    }

    /// Runs a point, beside `share - 1` others on this machine, without the GIL. Returns its state, `complete`,
    /// `failed` or `interrupted`; its summary, or the reason of its failure; and its parts of the dataset.
    #[pyo3(signature = (point, share = 1))]
    fn run<'py>(&self, py: Python<'py>, point: usize, share: usize) -> PyResult<Outcome<'py>> {
        /// Measured before the first point of this process takes any.
        static AVAILABLE: OnceLock<Option<Bytes>> = OnceLock::new();
        if point >= self.job.plan().points.len() {
            return Err(PyIndexError::new_err(format!("the sweep has no point {point}")));
        }
        let mut signals = Signals::new();
        let outcome = py.detach(|| {
            let memory = memory_of(*AVAILABLE.get_or_init(memory::available), share, self.job.plan());
            self.job.run(point, memory, &self.stop, &mut |_| {
                if signals.poll().is_break() {
                    self.stop.request();
                }
            })
        });
        signals.finish(match outcome {
            PointOutcome::Complete(PointParts { summary, statistics, flows }) => {
                let flows = flows.map(|flows| PyBytes::new(py, &flows));
                ("complete", summary, Some(PyBytes::new(py, &statistics)), flows)
            }
            PointOutcome::Failed(cause) => ("failed", cause, None, None),
            PointOutcome::Interrupted => ("interrupted", String::new(), None, None),
        })
    }

    /// Ends the points that run in this process.
    fn stop(&self) {
        self.stop.request();
    }

    /// Opens the directory of the sweep, or begins it there.
    #[pyo3(signature = (path, *, force = false))]
    fn open(&self, py: Python<'_>, path: PathBuf, force: bool) -> PyResult<SweepDirectory> {
        let Some(manifest) = self.manifest.clone() else {
            return Err(PyRuntimeError::new_err("a job that was sent to a worker has no directory"));
        };
        let contents = Contents { runs: false, flows: self.job.flows };
        let opened = py.detach(|| weir_runs::sweep::SweepDirectory::open(&path, manifest, contents, force));
        Ok(SweepDirectory(Mutex::new(Some(opened.map_err(|error| sweep_error(&error))?))))
    }

    fn __repr__(&self) -> String {
        format!("<weir.SweepJob: {}>", text::count(self.job.plan().points.len(), "point"))
    }
}

/// The memory of one of `share` points at once, of which there are not more than the plan has.
fn memory_of(available: Option<Bytes>, share: usize, plan: &Plan) -> Option<Bytes> {
    let share = share.min(plan.points.len()).max(1);
    available.map(|memory| Bytes::new(memory.get() / share as u64))
}

/// The processors that this process may use: its affinity and the limits of its control groups are considered.
#[pyfunction]
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The axes of a grid; the inner error is a refused list of values.
fn axes(grid: Grid<'_>) -> PyResult<Result<Vec<Axis>, String>> {
    let mut all = Vec::new();
    for group in grid {
        let mut axes = Vec::new();
        for (path, values) in group {
            let values = values.iter().map(|value| scalar(&path, value)).collect::<PyResult<_>>()?;
            axes.push(Axis { together: !axes.is_empty(), path, values });
        }
        match Axes::new(axes) {
            Ok(Axes(axes)) => all.extend(axes),
            Err(refused) => return Ok(Err(refused.to_string())),
        }
    }
    Ok(Ok(all))
}

/// A path that has two values.
fn twice<'a>(settings: &'a [Setting], axes: &'a [Axis]) -> Option<&'a str> {
    let paths: Vec<&str> =
        settings.iter().map(|of| of.path.as_str()).chain(axes.iter().map(|axis| axis.path.as_str())).collect();
    paths.iter().enumerate().find(|(at, path)| paths[..*at].contains(path)).map(|(_, path)| *path)
}

/// The directory of a sweep, locked until it is closed.
#[pyclass(frozen, module = "weir._weir")]
pub(crate) struct SweepDirectory(Mutex<Option<weir_runs::sweep::SweepDirectory>>);

impl SweepDirectory {
    fn lock(&self) -> MutexGuard<'_, Option<weir_runs::sweep::SweepDirectory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `work` without the GIL.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut weir_runs::sweep::SweepDirectory) -> Result<T, FileError> + Send,
    ) -> PyResult<T> {
        py.detach(|| match self.lock().as_mut() {
            Some(sweep) => work(sweep).map_err(|error| PyOSError::new_err(error.to_string())),
            None => Err(PyRuntimeError::new_err("the directory of the sweep is closed")),
        })
    }
}

#[pymethods]
impl SweepDirectory {
    /// The points that are not complete.
    #[getter]
    fn pending(&self, py: Python<'_>) -> PyResult<Vec<usize>> {
        self.with(py, |sweep| {
            let points = sweep.manifest.points.iter().enumerate();
            Ok(points.filter(|(_, point)| point.state != State::Complete).map(|(index, _)| index).collect())
        })
    }

    /// The reasons of failed points, by name.
    #[getter]
    fn failed(&self, py: Python<'_>) -> PyResult<BTreeMap<String, String>> {
        self.with(py, |sweep| {
            let cause = |state: &State| match state {
                State::Failed { cause } => Some(cause.trim_end().to_owned()),
                State::Pending | State::Complete => None,
            };
            let points = sweep.manifest.points.iter();
            Ok(points.filter_map(|point| Some((point.name.clone(), cause(&point.state)?))).collect())
        })
    }

    /// Whether the dataset has flows.
    #[getter]
    fn flows(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |sweep| Ok(sweep.contents.flows))
    }

    /// Whether the directory is locked against other processes; some network file systems have no locks.
    #[getter]
    fn is_locked(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |sweep| Ok(sweep.is_locked()))
    }

    /// The descriptor of the lock, which a forked process inherits and must not keep.
    #[getter]
    fn lock_descriptor(&self, py: Python<'_>) -> PyResult<i32> {
        self.with(py, |sweep| Ok(sweep.lock_descriptor().as_raw_fd()))
    }

    /// Writes the parts of a complete point.
    fn store(
        &self,
        py: Python<'_>,
        point: usize,
        summary: String,
        statistics: Vec<u8>,
        flows: Option<Vec<u8>>,
    ) -> PyResult<()> {
        self.with(py, |sweep| sweep.store(point, &PointParts { summary, statistics, flows }))
    }

    /// Records the failure of a point.
    fn fail(&self, py: Python<'_>, point: usize, cause: String) -> PyResult<()> {
        self.with(py, |sweep| {
            sweep.manifest.points[point].state = State::Failed { cause };
            Ok(())
        })
    }

    /// Writes the states of the points.
    fn save(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |sweep| sweep.write_manifest())
    }

    /// Writes the states of the points, their table and the page.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |sweep| {
            sweep.write_manifest()?;
            let summaries = sweep.summaries()?;
            sweep.write_report(&summaries).map(drop)
        })
    }

    /// Unlocks the directory.
    fn close(&self) {
        *self.lock() = None;
    }
}

/// A directory that cannot be used.
fn sweep_error(error: &SweepError) -> PyErr {
    match error {
        SweepError::Another { .. } | SweepError::File(FileError::NotEmpty(_)) => PyFileExistsError::new_err(format!(
            "{error}\nhint: use another directory; `force=True` replaces the files and starts over"
        )),
        SweepError::Busy(_) | SweepError::File(_) | SweepError::Disk { .. } | SweepError::Threads(_) => {
            PyOSError::new_err(error.to_string())
        }
    }
}
