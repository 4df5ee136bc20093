//! `weir sim --sweep`: many runs, one report.

use super::{Args, check, print_sweep};
use crate::error::{CommandError, Exit};
use crate::interrupt::Interrupt;
use crate::output::{Style, Ui};
use crate::progress::{self, Watch};
use crate::run_files::SimulatedRun;
use crate::simulation::{self, Ran};
use crate::sweep::{
    Ended, Event, Manifest, Plan, Setting, Shelf, State, SweepDirectory, run_all, short_names, write_point,
};
use crate::{input, memory, shaper_remarks, text};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use weir_results::FileError;
use weir_scenario::{Outcome, ReadOptions};
use weir_sim::{Options, Progress};
use weir_units::Bytes;

/// The time between two writes of `sweep.json`, in wall-clock seconds: with many short points
/// writing would be most of the work.
const SAVE: f64 = 1.0;
/// The number of running points that a line of progress names.
const NAMED: usize = 2;

pub(super) fn run(args: &Args, settings: Vec<Setting>, ui: &mut Ui) -> Result<Exit, CommandError> {
    let plan = Plan::new(settings, args.axes())
        .map_err(|cause| CommandError::refused(cause).hint("sweep over fewer values"))?;
    let jobs = args.jobs.or(std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let jobs = jobs.min(plan.points.len());
    let shelf = Shelf::open(&args.scenario)?;
    // All simultaneous points share the available memory.
    let memory = memory::available().map(|memory| Bytes::new(memory.get() / jobs as u64));
    let first = shaper_remarks::with_remarks(read_all(&plan, &shelf, memory));
    if args.check {
        return check::check(args, first, plan.points.len(), ui);
    }
    let (scenario, notes) = first?;
    let Some(report) = args.report.as_deref() else {
        return Err(CommandError::refused("a sweep needs a directory for its points").hint("add `--report DIR`"));
    };
    input::print_notes(&notes, ui)?;
    input::for_the_simulator(&scenario)?;

    let manifest = Manifest::new(&plan, &shelf, &scenario, command(args, &plan));
    let mut sweep = SweepDirectory::open(report, manifest, args.force)?;
    let interrupt = Interrupt::listen()?;
    let kept = match sweep.manifest.counts().0 {
        0 => String::new(),
        kept => format!(", {kept} already complete"),
    };
    let checkers = if args.checkers { ", checkers on" } else { "" };
    let count = text::count(plan.points.len(), "point");
    ui.notice(&format!("{}: {count}{kept}, {jobs} at a time{checkers}\n", scenario.name()))?;
    // Its network would take memory from the points.
    drop(scenario);

    let work = Work { args, plan: &plan, shelf: &shelf, memory, interrupt: &interrupt };
    run_points(&work, &mut sweep, jobs, ui)?;
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
        () if interrupt.is_requested() && complete + failed < plan.points.len() => Exit::Interrupted,
        () if failed > 0 => Exit::Failed,
        () => Exit::Done,
    })
}

/// Reads enough to check every point: returns the first point's scenario, or the first one that is
/// invalid.
fn read_all(plan: &Plan, shelf: &Shelf, memory: Option<Bytes>) -> Outcome {
    let read = |point: usize| shelf.read(&ReadOptions { set: Setting::pairs(&plan.settings_of(point)), memory });
    let first = read(0)?;
    for point in plan.worth_checking().into_iter().skip(1) {
        read(point)?;
    }
    Ok(first)
}

/// The command line that makes the same sweep, whatever the directory and the number of jobs.
fn command(args: &Args, plan: &Plan) -> String {
    format!("{} {} --report DIR", args.command(&plan.settings), crate::sweep::options(&plan.axes).join(" "))
}

/// The data for a thread that runs a point.
struct Work<'a> {
    args: &'a Args,
    plan: &'a Plan,
    shelf: &'a Shelf,
    memory: Option<Bytes>,
    interrupt: &'a Interrupt,
}

impl Work<'_> {
    fn run(&self, point: usize, directory: &std::path::Path, step: &mut dyn FnMut(Progress)) -> Ended {
        if self.interrupt.is_requested() {
            return Ended::Interrupted;
        }
        let settings = self.plan.settings_of(point);
        let set = Setting::pairs(&settings);
        let scenario = match self.shelf.read(&ReadOptions { set: set.clone(), memory: self.memory }) {
            Ok((scenario, _)) => scenario,
            Err(refused) => return Ended::Failed(refused.render(false)),
        };
        let options = Options { check: self.args.checkers };
        let seed = scenario.seed();
        let ran =
            simulation::run(&scenario, seed, &options, self.interrupt, &mut |now| now.into_iter().for_each(&mut *step));
        let outcome = match ran {
            Ok(Ran::Outcome(outcome, _)) if outcome.interrupted => return Ended::Interrupted,
            Ok(Ran::Outcome(outcome, _)) => *outcome,
            Ok(Ran::Nothing) => return Ended::Interrupted,
            Ok(Ran::Refused(error)) => return Ended::Failed(error.to_string()),
            Ok(Ran::Broken(panic)) => return Ended::Failed(panic),
            Err(error) => return Ended::Failed(format!("cannot start a thread: {error}")),
        };
        let run = SimulatedRun::new(&scenario, scenario.seed(), outcome, &set);
        match write_point(directory, &run, &self.args.command(&settings)) {
            Ok(()) => Ended::Complete,
            Err(error) => Ended::Disk(error),
        }
    }
}

/// Runs all points that are not complete, and updates the list.
fn run_points(work: &Work<'_>, sweep: &mut SweepDirectory, jobs: usize, ui: &mut Ui) -> Result<(), CommandError> {
    let todo: Vec<usize> =
        (0..work.plan.points.len()).filter(|point| sweep.manifest.points[*point].state != State::Complete).collect();
    let directories: Vec<PathBuf> = (0..work.plan.points.len()).map(|point| sweep.point(point)).collect();
    let stop = AtomicBool::new(false);
    let mut disk: Option<FileError> = None;
    let mut watch = Watch::new(ui.err_is_terminal());
    let (mut saved, mut over) = (0.0, 0);
    let mut running: BTreeMap<usize, Option<Progress>> = BTreeMap::new();
    let threads =
        run_all(&todo, jobs, &stop, &|point, step| work.run(point, &directories[point], step), &mut |event| {
            match event {
                Event::Started(point) => drop(running.insert(point, None)),
                Event::Step(point, progress) => drop(running.insert(point, Some(progress))),
                Event::Ended(point, ended) => {
                    running.remove(&point);
                    over += 1;
                    match ended {
                        Ended::Complete => sweep.manifest.points[point].state = State::Complete,
                        Ended::Failed(cause) => sweep.manifest.points[point].state = State::Failed { cause },
                        Ended::Interrupted => {}
                        Ended::Disk(error) => drop(disk.get_or_insert(error)),
                    }
                    if watch.elapsed() - saved >= SAVE {
                        saved = watch.elapsed();
                        disk = disk.take().or(sweep.write_manifest().err());
                    }
                }
            }
            if disk.is_some() {
                stop.store(true, Ordering::Relaxed);
            }
            let done = over as f64 + running.values().flatten().map(progress::fraction).sum::<f64>();
            let done = done / todo.len() as f64;
            watch.show(done, ui, |elapsed| {
                describe(work.plan, &sweep.manifest, &running, progress::left(done, elapsed))
            });
        });
    watch.finish();
    threads.map_err(|error| CommandError::failed(format!("cannot start threads: {error}")))?;
    let written = sweep.write_manifest();
    match disk {
        None => Ok(written?),
        Some(error) => {
            let (complete, _) = sweep.manifest.counts();
            Err(CommandError::from(error).hint(format!(
                "{} complete and kept; the same command runs the rest",
                if complete == 1 { "1 point is".to_owned() } else { format!("{complete} points are") }
            )))
        }
    }
}

/// `40 s left; 3 of 12 points complete; running seed 3 (1 ms of 10 ms) and 1 more`: ordered by
/// importance, since a narrow terminal cuts the end off.
fn describe(
    plan: &Plan,
    manifest: &Manifest,
    running: &BTreeMap<usize, Option<Progress>>,
    left: Option<f64>,
) -> String {
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
    let names: Vec<String> = running.iter().map(name).collect();
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
