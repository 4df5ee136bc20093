//! The progress of experiments' runs in the simulator.

use crate::error::CommandError;
use crate::output::Ui;
use crate::progress::{self, Watch};
use crate::text;
use std::num::NonZeroUsize;
use weir_runs::experiments::{BackendRun, Job, Work};
use weir_runs::pool::Status;
use weir_sim::Progress;

/// The number of running jobs that a line of progress names.
const NAMED: usize = 2;

/// Runs everything, `cores` at a time, and shows the progress; one result for each experiment.
pub(super) fn run(work: &Work<'_>, cores: Option<NonZeroUsize>, ui: &mut Ui) -> Result<Vec<BackendRun>, CommandError> {
    let cores = cores.or(std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let jobs = work.jobs();
    let mut watch = Watch::new(ui.err_is_terminal());
    let ran = work.run(&jobs, cores, &mut |status| {
        let done = status.fraction();
        watch.show(done, ui, |elapsed| describe(work, &jobs, status, progress::left(done, elapsed)));
    });
    watch.finish();
    Ok(ran?)
}

/// `40 s left; 3 of 12 runs; running parley-table3 none-50 (1 ms of 10 ms) and 1 more`.
fn describe(work: &Work<'_>, jobs: &[Job], status: &Status, left: Option<f64>) -> String {
    let left = left.map_or(String::new(), |left| format!("{} left; ", progress::wall(left)));
    let mut line = format!("{left}{} of {} runs", status.over, status.all);
    let name = |(index, now): (&usize, &Option<Progress>)| {
        let now = now.as_ref().map_or("begins".to_owned(), progress::of_simulated_time);
        format!("{} ({now})", work.name(jobs[*index]))
    };
    let names: Vec<String> = status.running.iter().map(name).collect();
    if !names.is_empty() {
        line.push_str(&format!("; running {}", text::list(&names, NAMED)));
    }
    line
}
