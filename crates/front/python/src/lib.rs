//! The Python package `weir`: policies, their answers, and the simulator.
//!
//! Problem: sweeps, plots and notebooks are written in Python, and would start a program and parse its output for each
//! value. Approach: a thin shell over `weir-answers` and `weir-runs`. Documents are read, and questions computed, by
//! the same functions as those of the command line; answers are plain objects, equal to the output of `--json`, and the
//! results of runs are Arrow tables. Mistakes raise exceptions with file, line, cause and hint as values. The package
//! reads files; only the directory of a sweep is written.
//!
//! | module | does |
//! |---|---|
//! | `error` | mistakes as exceptions |
//! | `arguments` | rates, times and demands from Python's values |
//! | `interrupt` | Ctrl-C during long work |
//! | `policy` | `weir.Policy` |
//! | `planning` | the options of `Policy.plan` |
//! | `scenario` | `weir.Scenario` and its runs |
//! | `results` | `weir.Results` |
//! | `sweep` | the points and the directory of `weir.sweep` |
//! | `table` | `weir.Table`: Arrow's C data interface |
//!
//! Threads and the GIL:
//!
//! - The GIL is released while a document is read, a question is computed and a simulation runs. Other threads of
//!   Python run meanwhile, and several policies may be used at once.
//! - Objects may be shared between threads: all but `Scenario` are immutable, and a change of a scenario replaces its
//!   values at once, so a run has those of its start.
//! - A simulation runs on a thread of its own that never takes the GIL. The callback of its progress is called on the
//!   thread that called `run`.
//! - Long work takes the GIL about ten times a second to run Python's signal handlers. A handler that raises ends the
//!   work, and its exception is raised: Ctrl-C raises `KeyboardInterrupt`. Python runs handlers on its main thread
//!   only, so Ctrl-C does not end work that another thread started.
//! - Placements are interruptible before each tenant, and plans by a trace between its rows; other answers run to their
//!   end.
//!
//! Worked example:
//!
//! ```python
//! import weir
//!
//! policy = weir.Policy.load("policy.yaml")
//! shares = policy.allocate([("m1", "dfs", "tx", "unlimited")])["allocations"]
//! ```

mod arguments;
mod error;
mod interrupt;
mod planning;
mod policy;
mod results;
mod scenario;
mod sweep;
mod table;

use pyo3::prelude::*;

/// The compiled part of the package; its Python part adds the exceptions.
#[pymodule(name = "_weir")]
fn package(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<policy::Policy>()?;
    module.add_class::<scenario::Scenario>()?;
    module.add_class::<scenario::Progress>()?;
    module.add_class::<results::Results>()?;
    module.add_class::<sweep::SweepJob>()?;
    module.add_class::<sweep::SweepDirectory>()?;
    module.add_class::<table::Table>()?;
    module.add_function(wrap_pyfunction!(sweep::processors, module)?)
}
