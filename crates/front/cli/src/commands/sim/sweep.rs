//! `weir sim --sweep`: many runs, one report.

use super::{Args, check, print_sweep};
use crate::error::{CommandError, Exit};
use crate::interrupt::Interrupt;
use crate::output::{Style, Ui};
use crate::progress::{self, Watch};
use crate::{input, text};
use std::num::NonZeroUsize;
use std::path::Path;
use weir_runs::pool::Status;
use weir_runs::sweep::{
    Contents, Job, Manifest, Plan, Setting, Shelf, State, SweepDirectory, Work, options, short_names,
};
use weir_runs::{memory, shaper_remarks};
use weir_scenario::language;
use weir_sim::{Options, Progress};
use weir_units::Bytes;

/// The number of running points that a line of progress names.
const NAMED: usize = 2;

pub(super) fn run(args: &Args, settings: Vec<Setting>, ui: &mut Ui) -> Result<Exit, CommandError> {
    let plan = Plan::new(settings, args.axes())
        .map_err(|error| CommandError::refused(error.to_string()).hint("sweep over fewer values"))?;
    let jobs = args.jobs.or(std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let jobs = jobs.min(plan.points.len());
    let shelf = shelf(&args.scenario)?;
    // All simultaneous points share the available memory.
    let memory = memory::available().map(|memory| Bytes::new(memory.get() / jobs as u64));
    let first = shaper_remarks::with_remarks(plan.check(&shelf, memory));
    if args.check {
        return check::check(args, first, plan.points.len(), ui);
    }
    let (scenario, notes) = first?;
    let Some(report) = args.report.as_deref() else {
        return Err(CommandError::refused("a sweep needs a directory for its points").hint("add `--report DIR`"));
    };
    input::print_notes(&notes, ui)?;
    input::for_the_simulator(&scenario)?;

    let command = command(args, &plan);
    let job = Job::new(plan, shelf, args.flows, Options { check: args.checkers });
    let manifest = Manifest::new(&job, &scenario, command);
    let contents = Contents { runs: true, flows: args.flows };
    let mut sweep = SweepDirectory::open(report, manifest, contents, args.force)?;
    if !sweep.is_locked() {
        let title = ui.on_err(Style::Strong, "note:");
        let risk = "has no locks: another sweep there would not be refused";
        ui.notice(&format!("{title} the file system of `{}` {risk}\n", report.display()))?;
    }
    let interrupt = Interrupt::listen()?;
    let kept = match sweep.manifest.counts().0 {
        0 => String::new(),
        kept => format!(", {kept} already complete"),
    };
    let checkers = if args.checkers { ", checkers on" } else { "" };
    let points = job.plan().points.len();
    let count = text::count(points, "point");
    ui.notice(&format!("{}: {count}{kept}, {jobs} at a time{checkers}\n", scenario.name()))?;
    // Its network would take memory from the points.
    drop(scenario);

    let work = Work { job: &job, memory, start: &args.start(), stop: interrupt.stop() };
    run_watched(&work, &mut sweep, jobs, ui)?;
    let summaries = sweep.summaries()?;
    if let Some(page) = sweep.write_report(&summaries)? {
        ui.notice(&format!("report: {}\n", page.display()))?;
    }
    report_outcome(&sweep.manifest, interrupt.is_requested(), ui)?;
    if args.json {
        print_sweep::print_json(&sweep.manifest, &summaries, ui)?;
    } else {
        print_sweep::print(&sweep.manifest, &summaries, ui)?;
    }
    let (complete, failed) = sweep.manifest.counts();
    Ok(match () {
        () if interrupt.is_requested() && complete + failed < points => Exit::Interrupted,
        () if failed > 0 => Exit::Failed,
        () => Exit::Done,
    })
}

/// The scenario's files; a scenario from standard input names files relative to the working directory.
fn shelf(path: &Path) -> Result<Shelf, CommandError> {
    let source = input::source(path, language::MAX_FILE)?;
    Ok(Shelf::new(source, path.parent().unwrap_or(Path::new(""))))
}

/// The command line that makes the same sweep, whatever the directory and the number of jobs.
fn command(args: &Args, plan: &Plan) -> String {
    format!("{} {} --report DIR", args.command(&plan.settings), options(&plan.axes).join(" "))
}

/// Runs all points that are not complete and shows the progress.
fn run_watched(work: &Work<'_>, sweep: &mut SweepDirectory, jobs: usize, ui: &mut Ui) -> Result<(), CommandError> {
    let mut watch = Watch::new(ui.err_is_terminal());
    let ran = work.run(sweep, jobs, &mut |status, manifest| {
        let done = status.fraction();
        watch.show(done, ui, |elapsed| describe(work.job.plan(), manifest, status, progress::left(done, elapsed)));
    });
    watch.finish();
    Ok(ran?)
}

/// `40 s left; 3 of 12 points complete; running seed 3 (1 ms of 10 ms) and 1 more`: ordered by
/// importance, since a narrow terminal cuts the end off.
fn describe(plan: &Plan, manifest: &Manifest, status: &Status, left: Option<f64>) -> String {
    let (complete, failed) = manifest.counts();
    let left = left.map_or(String::new(), |left| format!("{} left; ", progress::wall(left)));
    let mut text = format!("{left}{complete} of {} points complete", plan.points.len());
    if failed > 0 {
        text.push_str(&format!(", {failed} failed"));
    }
    let names = short_names(&plan.axes);
    let name = |(point, now): (&usize, &Option<Progress>)| {
        let values = names.iter().zip(&plan.points[*point].values);
        let values: Vec<String> = values.map(|(name, of)| format!("{name} {}", of.value)).collect();
        let now = now.as_ref().map_or("begins".to_owned(), progress::of_simulated_time);
        format!("{} ({now})", values.join(" "))
    };
    let names: Vec<String> = status.running.iter().map(name).collect();
    if !names.is_empty() {
        text.push_str(&format!("; running {}", text::list(&names, NAMED)));
    }
    text
}

/// Reports failures, and how to go on.
fn report_outcome(manifest: &Manifest, interrupted: bool, ui: &mut Ui) -> Result<(), CommandError> {
    let (complete, failed) = manifest.counts();
    let all = manifest.points.len();
    for point in &manifest.points {
        if let State::Failed { cause } = &point.state {
            let title = ui.on_err(Style::Error, "failed:");
            ui.notice(&format!("{title} {}: {}\n", point.name, cause.trim_end()))?;
        }
    }
    if interrupted && complete + failed < all {
        let title = ui.on_err(Style::Limited, "interrupted:");
        let kept = format!("{complete} of {all} points are complete and kept");
        ui.notice(&format!("{title} {kept}; the same command runs the rest\n"))?;
    }
    Ok(())
}
