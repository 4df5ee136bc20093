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
//! | [`run_file`] | the content of `result.json` of a run under a policy |
//! | [`run_files`] | the directory of a run |
//! | [`sweep`] | one scenario at every combination of some values |
//! | [`experiments`] | the runs of published experiments, their values and figures |
//! | [`papers`] | the published experiments, embedded in the program |
//! | [`memory`] | the available memory |
//! | [`shaper_remarks`] | remarks on guarantees that leave shapers no capacity |
//! | [`text`] | words of command lines and messages |
//!
//! Worked example: [`simulation::run`] with a scenario and a [`Stop`] returns an outcome, from which a
//! [`SimulatedRun`] is made and written to a directory; [`run_files::draw`] draws its page from the files alone.

pub mod experiments;
pub mod memory;
pub mod papers;
pub mod pool;
pub mod run_file;
pub mod run_files;
pub mod run_page;
pub mod shaper_remarks;
pub mod simulation;
mod stop;
mod stopwatch;
pub mod sweep;
pub mod text;

pub use run_file::RunFile;
pub use run_files::SimulatedRun;
pub use stop::Stop;
pub use stopwatch::Stopwatch;
