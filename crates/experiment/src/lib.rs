//! Published experiments as data: what to run, what a paper prints for it, and how the two compare.
//!
//! Problem: "reproduced" means little without the published value beside the measured one, the place where it stands, how it
//! was measured, and when the two count as equal. Approach: a file under `papers/` names runs (a scenario with some values
//! changed, in a quick and a full [`Setting`]) and values. A value says where it was published, what [`Measure`] gives its
//! counterpart, and what is [`Expected`] of it. Whoever drives (the command line, a test) runs the scenarios and hands over
//! what they gave; everything here is a pure function of that. Values that need no run are computed here: shares of a
//! policy, latency formulas, a queue of one server, brokers' bytes.
//!
//! | module | does |
//! |---|---|
//! | [`language`] | what a file may contain, as one description; the JSON Schema |
//! | `model` | the valid [`Experiment`] |
//! | `read` | file → experiment |
//! | [`unit`] | the units that papers print |
//! | `outcome` | published beside measured: difference and [`Verdict`] |
//! | [`measure`] | what a run gives for a value |
//! | [`compute`] | what needs no run |
//! | [`figure`] | the lines of an experiment's figures |
//!
//! Worked example, Parley's Table 3, one bound of it: at a load of 50 % the paper prints 15.32 ms for messages of 200 kB.
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
pub mod figure;
pub mod language;
pub mod measure;
mod model;
mod outcome;
mod read;
pub mod unit;

pub use figure::{Figure, FigureKind};
pub use measure::{Reading, RunData};
pub use model::{
    Counted, Expected, Experiment, Measure, PerSetting, Published, Run, Setting, Share, Value, Which, Window,
};
pub use outcome::{Outcome, Verdict, outcomes};
pub use unit::{Dimension, Unit};
