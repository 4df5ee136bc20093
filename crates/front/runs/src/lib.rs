//! Runs, sweeps and published experiments: what the commands `sim`, `lab`, `report` and `reproduce` share.
//!
//! Problem: a run is more than a simulation. It has a directory of files that is whole or absent, a command that
//! repeats it, a bound on its memory and an early end; a sweep has hundreds of them and survives a power cut; a
//! published experiment compares their values. All of this is independent of a terminal. Approach: this crate does the
//! work, and callers pass a [`Stop`] and callbacks for progress. Errors are typed; the command line adds hints and exit
//! codes. There is no output, no signal handler and no parsing of arguments here.
//!
//! | module | content |
//! |---|---|
//! | [`simulation`] | one simulation on a thread of its own |
//! | [`pool`] | many points on threads |
//! | [`results`] | from a run to its results |
//! | [`run_files`] | the directory of a run |
//! | [`sweep`] | one scenario at every combination of some values |
//! | [`experiments`] | the runs of published experiments, their values and figures |
//! | [`papers`] | the published experiments, embedded in the program |
//! | [`memory`] | the available memory |
//! | [`shaper_remarks`] | remarks on guarantees that leave shapers no capacity |
//! | [`text`] | words of command lines and messages |
//!
//! Worked example: [`simulation::run`] with a scenario and a [`Stop`] returns an outcome, [`results::simulated`] makes
//! results of it, and [`run_files::write`] writes these; [`run_files::draw`] draws the page again from the files alone.

pub mod experiments;
pub mod memory;
pub mod papers;
pub mod pool;
pub mod results;
pub mod run_files;
pub mod shaper_remarks;
pub mod simulation;
mod stop;
mod stopwatch;
pub mod sweep;
pub mod text;

pub use stop::Stop;
pub use stopwatch::Stopwatch;
