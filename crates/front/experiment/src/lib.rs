//! Published experiments as data: the runs, the published values, and the comparison.
//!
//! Problem: "reproduced" means little without the published value beside the measured one, its
//! source, the method of measurement, and the criterion of equality. Approach: a file under
//! `papers/` names runs (a scenario with some values changed, in a quick and a full [`Setting`])
//! and values. A value gives its source, the [`Measure`] of its counterpart, and the [`Expected`]
//! relation. The caller (the command line, a test) runs the scenarios and passes their results;
//! everything here is a pure function of them. Values that need no run are computed here: shares of
//! a policy, latency formulas, a queue of one server, brokers' bytes.
//!
//! | module | contents |
//! |---|---|
//! | [`language`] | the content of a file, as one description; the JSON Schema |
//! | `model` | the valid [`Experiment`] |
//! | `read` | file → experiment |
//! | [`unit`] | the units that papers print |
//! | `outcome` | published beside measured: difference and [`Verdict`] |
//! | [`measure`] | the measured value of a run |
//! | [`compute`] | values that need no run |
//! | [`datacenter`] | datacenters filled with tenants, and their values |
//! | [`figure`] | the lines of an experiment's figures |
//!
//! Worked example, Parley's Table 3, one bound of it: at a load of 50 % the paper prints 15.32 ms
//! for messages of 200 kB.
//!
//! ```
//! use weir_experiment::{Experiment, Setting, compute};
//!
//! let directory = tempfile::tempdir()?;
//! let file = directory.path().join("bound.yaml");
//! std::fs::write(&file, "
//! paper: 2
//! id: bound
//! title: One bound
//! source: Parley, table 3
//! takes: { quick: 1ms, full: 1ms }
//! values:
//!   - metric: bound of A at 50 %
//!     unit: ms
//!     published: 15.32
//!     where: table 3
//!     measure: { kind: bound, capacity: 10Gb/s, load: 50%, message: 200kB, convergence: 7500us }
//!     expect: as-printed
//! ")?;
//! let (experiment, _) = Experiment::read(&file)?;
//! let value = &experiment.values[0];
//! let measured = compute::value(&value.measure, Setting::Quick, &|| 0.0);
//! assert!((measured.unwrap().value - 0.01532).abs() < 1e-6);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod compute;
pub mod datacenter;
pub mod figure;
pub mod language;
pub mod measure;
mod model;
mod outcome;
mod read;
pub mod unit;

pub use datacenter::Datacenter;
pub use figure::{Figure, FigureKind};
pub use measure::{Reading, RunData};
pub use model::{
    Counted, Expected, Experiment, FairnessIndex, Measure, PerSetting, Published, Run, Setting, Share, SlowdownOf,
    Value, Which, Window,
};
pub use outcome::{Outcome, Verdict, outcomes};
pub use unit::{Dimension, Unit};
