//! The part of an experiment that the lab can run: scenarios whose traffic is long-lived flows and
//! real servers.

use super::{Args, Backend, ExperimentResults};
use crate::commands::host::lab;
use crate::error::CommandError;
use crate::interrupt::Interrupt;
use crate::output::Ui;
use std::path::Path;
use weir_experiment::figure::Line;
use weir_experiment::{Expected, Experiment, Reading, RunData, Setting, compute, outcomes};
use weir_lab::LabError;
use weir_results::{FileError, Results, ResultsDirectory};
use weir_runs::experiments::{BackendRun, Drawing};
use weir_runs::{Stopwatch, results, run_files};
use weir_scenario::{LabScenario, RunResult};
use weir_units::{Bandwidth, Duration};

/// The fastest interface for each processor of the host: above it the result depends more on the processors, which
/// carry the packets of all machines, than on the experiment. Two of them carried all of a link of 94 Mb/s for ten
/// tenants, and 740 to 930 Mb/s of one of 940 (`qshare-fig4a`).
const FASTEST_PER_PROCESSOR: Bandwidth = Bandwidth::from_mbps(250);

/// Seconds to set up and take down namespaces, agents and servers of a run on two cores: one to
/// six.
const SET_UP: f64 = 4.0;

/// Runs all experiments in the lab, one after the other; returns whether an unexpected failure occurred.
pub(super) fn run_all(
    args: &Args,
    all: &mut [ExperimentResults],
    setting: Setting,
    interrupt: &Interrupt,
    ui: &mut Ui,
) -> Result<bool, CommandError> {
    let several = all.len() > 1;
    let mut failed = false;
    for reproduced in &mut *all {
        failed |= run_one(args, reproduced, several, setting, interrupt, ui)?;
    }
    let nothing = all.iter().all(|reproduced| reproduced.runs.is_empty() && reproduced.no_lab.is_none());
    if args.backend == Backend::Lab && nothing && !failed && !interrupt.is_requested() {
        return Err(CommandError::refused("the lab can run nothing of these experiments".to_owned())
            .hint("leave `--backend` out to simulate them"));
    }
    Ok(failed)
}

/// Runs in the lab what it can run; returns whether an unexpected failure occurred.
fn run_one(
    args: &Args,
    reproduced: &mut ExperimentResults,
    several: bool,
    setting: Setting,
    interrupt: &Interrupt,
    ui: &mut Ui,
) -> Result<bool, CommandError> {
    if interrupt.is_requested() {
        return Ok(false);
    }
    let both = args.backend == Backend::Both;
    let directory = args.report.directory().map(|directory| match several {
        true => directory.join(&reproduced.experiment.id),
        false => directory.to_owned(),
    });
    match run(&reproduced.experiment, setting, directory.as_deref(), interrupt, ui)? {
        Ok(Some(run)) => reproduced.runs.push(run),
        Ok(None) if both || several => {}
        Ok(None) => {
            return Err(CommandError::refused(format!("the lab can run nothing of {}", reproduced.experiment.id))
                .hint("leave `--backend` out to simulate it"));
        }
        Err(LabError::Missing(what)) if both => {
            ui.notice("the lab cannot run on this host, so the simulator runs alone:\n")?;
            for one in &what {
                ui.notice(&format!("  missing: {one}\n"))?;
            }
            reproduced.no_lab = Some(LabError::Missing(what).to_string());
        }
        // The simulator's results, and those of other experiments, are useful even if the lab failed.
        Err(error) if (both || several) && !interrupt.is_requested() => {
            reproduced.no_lab = Some(error.to_string());
            lab::refusal(error).print(ui);
            return Ok(true);
        }
        Err(error) => return Err(lab::refusal(error)),
    }
    Ok(false)
}

/// Whether no machine's interface is faster than the processors carry.
fn is_carried(scenario: LabScenario<'_>) -> bool {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let fastest = Bandwidth::from_bps(FASTEST_PER_PROCESSOR.bps() * processors);
    let nics = scenario.policy().network().machines().iter().map(|machine| machine.nic());
    nics.into_iter().all(|nic| nic.tx.max(nic.rx) <= fastest)
}

/// The runs that the lab can run.
fn runs(experiment: &Experiment, setting: Setting) -> Vec<usize> {
    let can = |run: &usize| {
        let scenario = experiment.runs[*run].scenario.get(setting);
        scenario.for_lab().is_ok_and(is_carried)
    };
    (0..experiment.runs.len()).filter(can).collect()
}

/// The approximate seconds of its runs: they run in real time, one after the other, each with its
/// hosts to set up and take down.
pub(super) fn takes(experiment: &Experiment, setting: Setting) -> Option<f64> {
    let runs = runs(experiment, setting);
    let seconds = |run: &usize| experiment.runs[*run].scenario.get(setting).duration().as_secs_f64() + SET_UP;
    (!runs.is_empty()).then(|| runs.iter().map(seconds).sum())
}

/// Runs them one after the other; `None` if the lab can run none of them. The inner error is the
/// lab's.
fn run(
    experiment: &Experiment,
    setting: Setting,
    directory: Option<&Path>,
    interrupt: &Interrupt,
    ui: &mut Ui,
) -> Result<Result<Option<BackendRun>, LabError>, CommandError> {
    let runs = runs(experiment, setting);
    if runs.is_empty() {
        return Ok(Ok(None));
    }
    let clock = Stopwatch::start();
    let mut measured: Vec<Option<Reading>> = vec![None; experiment.values.len()];
    let mut lines: Vec<(usize, usize, Vec<Line>)> = Vec::new();
    let (mut complete, mut seed, mut unwritten) = (true, 1, Vec::new());
    for index in &runs {
        let run = &experiment.runs[*index];
        let scenario = run.scenario.get(setting);
        seed = scenario.seed();
        ui.notice(&format!("{} {} on Linux, about {}\n", experiment.id, run.name, scenario.duration()))?;
        let scenario_on_linux = match scenario.for_lab() {
            Ok(scenario) => scenario,
            Err(reason) => return Ok(Err(LabError::SimulatorOnly(reason.to_owned()))),
        };
        let outcome = match lab::run_watched(scenario_on_linux, interrupt, ui)? {
            Ok(outcome) => outcome,
            Err(error) => return Ok(Err(error)),
        };
        complete &= !outcome.interrupted;
        let data = RunData {
            scenario,
            services: &outcome.result,
            results: Some(&outcome.requests),
            until: until(&outcome.result),
        };
        for (value, reading) in experiment.values.iter().zip(&mut measured) {
            if value.measure.run() == Some(*index) {
                *reading = data.reading(run, &value.measure, setting);
            }
        }
        for (figure, of) in experiment.figures.iter().enumerate() {
            let own = of.kind.lines(*index, &data, setting);
            lines.extend((!own.is_empty()).then_some((figure, *index, own)));
        }
        if let Some(directory) = directory {
            let directory = directory.join("runs").join(format!("{}-lab", run.name));
            let (complete, records) = (!outcome.interrupted, outcome.records(scenario_on_linux));
            let set = run.set.get(setting);
            let results = results::measured(scenario_on_linux, &outcome.result, complete, records, set);
            let error = write(&directory, &results, &experiment.id).err();
            unwritten.extend(error.map(|error| (format!("{} {} on Linux", experiment.id, run.name), error)));
        }
        if interrupt.is_requested() {
            break;
        }
    }
    // Values without a run to which other values are compared.
    let measures: Vec<bool> = (0..experiment.values.len()).map(|value| is_shown(experiment, &runs, value)).collect();
    for (index, value) in experiment.values.iter().enumerate().filter(|(index, _)| measures[*index]) {
        if value.measure.run().is_none() {
            measured[index] = compute::value(&value.measure, setting, &|| clock.seconds()).ok();
        }
    }
    let all = outcomes(experiment, &measured);
    let of_figure = |figure: usize| -> Vec<(usize, Vec<Line>)> {
        lines.iter().filter(|(of, ..)| *of == figure).map(|(_, run, lines)| (*run, lines.clone())).collect()
    };
    let drawn = |figure: usize| Drawing::new(experiment, figure, &of_figure(figure), &all, setting);
    Ok(Ok(Some(BackendRun {
        backend: "lab",
        seed,
        figures: (0..experiment.figures.len()).map(drawn).collect(),
        outcomes: all.into_iter().zip(measures).map(|(outcome, own)| own.then_some(outcome)).collect(),
        complete,
        failures: Vec::new(),
        unwritten,
        wall_s: clock.seconds(),
    })))
}

/// Writes the files of a run into its directory.
fn write(directory: &Path, results: &Results, id: &str) -> Result<(), FileError> {
    ResultsDirectory::prepare(directory, true)?;
    run_files::write(directory, results, &format!("weir reproduce {id} --backend lab")).map(drop)
}

/// Whether the lab shows a value: it measures the value, or a value that is compared to it.
fn is_shown(experiment: &Experiment, runs: &[usize], value: usize) -> bool {
    let measured = |value: &weir_experiment::Value| value.measure.run().is_some_and(|run| runs.contains(&run));
    let held_to_it = |other: &weir_experiment::Value| {
        measured(other) && matches!(other.expected, Some(Expected::Beside(_, to)) if to == value)
    };
    let own = &experiment.values[value];
    measured(own) || (own.measure.run().is_none() && experiment.values.iter().any(held_to_it))
}

/// The measured time of a run: the end of its last sample.
fn until(result: &RunResult) -> Duration {
    result.samples.last().map_or(Duration::ZERO, |sample| sample.at)
}
