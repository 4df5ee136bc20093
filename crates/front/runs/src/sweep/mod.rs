//! Sweeps: one scenario at every combination of some values.
//!
//! Problem: a curve is hundreds of runs; they should use all processors, survive a power cut, and
//! have the same results whichever of them ran first. Approach: everything about a sweep (its
//! [`Plan`]) follows from the command line and the scenario's files; each point is a run in a
//! directory of its own, complete when its `point.json` exists; the page is drawn from these alone.
//!
//! | module | holds |
//! |---|---|
//! | `axis` | `--set` and `--sweep` |
//! | `plan` | all points, with their names |
//! | `shelf` | the files that a scenario names, read once, and their digest |
//! | `manifest` | `sweep.json` |
//! | `job` | one point, on this machine or another one |
//! | `directory` | the files of a sweep |
//! | `lock` | the lock of their directory |
//! | `parts` | its Parquet dataset |
//! | `run` | the points that are not complete, on threads |
//! | `table` | `points.csv` |
//!
//! Worked example: `--sweep seed=1..5 --sweep 'traffic[0].load=20%,60%'` is ten points, from
//! `points/01_seed-1_load-20` to `points/10_seed-5_load-60`.

mod axis;
mod directory;
mod job;
mod lock;
mod manifest;
mod parts;
mod plan;
mod run;
mod shelf;
mod table;

pub use axis::{Axes, Axis, InvalidOption, Setting, command, options, short_names};
pub use directory::{Contents, SweepDirectory, SweepError, draw};
pub use job::{Job, JobError, PointOutcome};
pub use manifest::{Entry, Identity, MANIFEST, Manifest, State};
pub use parts::{DATASET, FLOWS, PointParts, STATISTICS};
pub use plan::{Plan, Point, TooManyPoints};
pub use run::Work;
pub use shelf::Shelf;
