//! `weir reproduce`: a published experiment, published beside measured.

use super::{lab, sim};
use crate::error::{CommandError, Exit};
use crate::interrupt::Interrupt;
use crate::output::{Style, Table, Ui};
use crate::report_files::ReportFiles;
use crate::run_file::RunFile;
use crate::{json, papers, reproduce_page, text};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Instant;
use weir_lab::LabError;
use weir_scenario::{Experiment, RunResult};
use weir_units::Bandwidth;

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir reproduce --list
  weir reproduce parley-fig14
  weir reproduce parley-fig14 --body both --report out/parley-fig14
  weir reproduce parley-fig14 --body lab --json

With --json, one object for each body: {\"id\", \"body\": \"sim\" or \"lab\", \"seed\", \"rows\":
[{\"metric\", \"unit\", \"published\", \"measured\", \"note\"}], \"wall_s\"}; `published` is null where
the source prints no number, `measured` where the run ended too early. The lab needs root; with
`--body both` and without it, what is missing is said and the simulator runs alone.

The exit code is 1 when a measured value is outside the experiment's tolerance.")]
pub(crate) struct Args {
    /// The experiment
    #[arg(required_unless_present = "list")]
    id: Option<String>,
    /// Where to run it: sim, lab or both
    #[arg(long, value_enum, default_value_t, hide_default_value = true, hide_possible_values = true)]
    body: Body,
    /// The seed of the simulator; the scenario's where not given
    #[arg(long)]
    seed: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write results, drawings and report.html into this directory
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Write into DIR even if it has files
    #[arg(long, requires = "report")]
    force: bool,
    /// List the experiments
    #[arg(long)]
    list: bool,
}

/// Where an experiment runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Body {
    #[default]
    Sim,
    Lab,
    Both,
}

/// One body's run.
pub(crate) struct BodyRun {
    /// `sim` or `lab`.
    pub(crate) body: &'static str,
    /// What it measured.
    pub(crate) file: RunFile,
    /// The published values' counterparts.
    pub(crate) measured: Vec<Option<Bandwidth>>,
    wall_s: f64,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    let directory =
        tempfile::tempdir().map_err(|error| CommandError::failed(format!("cannot make a directory: {error}")))?;
    if args.list {
        return list(directory.path(), args.json, ui);
    }
    let Some(id) = &args.id else { return Err(CommandError::refused("an experiment is needed")) };
    let experiment = papers::read(id, directory.path())?;
    let files = args.report.as_deref().map(|directory| ReportFiles::prepare(directory, args.force)).transpose()?;
    ui.tell(&format!("{}: {} ({})\n", experiment.id, experiment.title, experiment.source))?;
    let interrupt =
        Interrupt::listen().map_err(|error| CommandError::failed(format!("cannot listen for Ctrl-C: {error}")))?;

    let mut runs = Vec::new();
    // Why there is no run of the lab, and whether that is a failure.
    let mut lab_error: Option<(String, bool)> = None;
    if args.body != Body::Sim {
        ui.tell(&format!("{} on Linux, about {}\n", experiment.id, experiment.scenario.duration()))?;
        match lab_run(&experiment, &interrupt, ui)? {
            Err(LabError::Missing(what)) if args.body == Body::Both => {
                ui.tell("the lab cannot run on this host, so the simulator runs alone:\n")?;
                for one in &what {
                    ui.tell(&format!("  missing: {one}\n"))?;
                }
                lab_error = Some((LabError::Missing(what).to_string(), false));
            }
            // What the simulator has to say is worth having even if the lab broke down.
            Err(error) if args.body == Body::Both && !interrupt.is_asked() => {
                let message = error.to_string();
                lab::refusal(error).print(ui);
                lab_error = Some((message, true));
            }
            result => runs.push(result.map_err(lab::refusal)?),
        }
    }
    if args.body != Body::Lab && !interrupt.is_asked() {
        ui.tell(&format!("{} in the simulator\n", experiment.id))?;
        let seed = args.seed.unwrap_or(experiment.scenario.seed());
        runs.push(sim_run(&experiment, seed, &interrupt, ui)?);
    }
    if let Some(files) = files {
        let reason = lab_error.as_ref().map(|(reason, _)| reason.as_str());
        reproduce_page::write(&files, &experiment, &runs, reason, ui)?;
    }
    if args.json {
        for run in &runs {
            json::write(ui.out(), &to_json(&experiment, run))?;
        }
    } else {
        print(&experiment, &runs, ui)?;
    }
    if interrupt.is_asked() {
        let title = ui.on_err(Style::Held, "interrupted:");
        ui.tell(&format!("{title} what was done until then is above\n"))?;
        return Ok(Exit::Interrupted);
    }
    let agrees = |run: &BodyRun| (0..experiment.values.len()).all(|i| verdict(&experiment, i, run.measured[i]).1);
    let failed = lab_error.is_some_and(|(_, failed)| failed);
    Ok(if failed || !runs.iter().all(agrees) { Exit::Failed } else { Exit::Done })
}

#[expect(clippy::disallowed_methods, reason = "how long a run took is told to people; the run sees no clock")]
fn now() -> Instant {
    Instant::now()
}

fn measured(experiment: &Experiment, result: &RunResult, interrupted: bool) -> Vec<Option<Bandwidth>> {
    let last = result.samples.last().map(|sample| sample.at);
    let whole = |to| !interrupted || last.is_some_and(|last| last >= to);
    experiment.values.iter().map(|value| value.measured(experiment, result).filter(|_| whole(value.to))).collect()
}

fn lab_run(
    experiment: &Experiment,
    interrupt: &Interrupt,
    ui: &mut Ui,
) -> Result<Result<BodyRun, LabError>, CommandError> {
    let start = now();
    Ok(lab::run_watched(&experiment.scenario, interrupt, ui)?.map(|outcome| BodyRun {
        body: "lab",
        file: lab::to_file(&experiment.scenario, &outcome),
        measured: measured(experiment, &outcome.result, outcome.interrupted),
        wall_s: (now() - start).as_secs_f64(),
    }))
}

fn sim_run(experiment: &Experiment, seed: u64, interrupt: &Interrupt, ui: &mut Ui) -> Result<BodyRun, CommandError> {
    let start = now();
    let options = weir_sim::Options::default();
    let outcome = sim::simulate_watched(&experiment.scenario, seed, &options, interrupt, ui)?;
    Ok(BodyRun {
        body: "sim",
        file: RunFile::simulated(&experiment.scenario, seed, &outcome),
        measured: measured(experiment, &outcome.uplink, outcome.interrupted),
        wall_s: (now() - start).as_secs_f64(),
    })
}

fn list(directory: &std::path::Path, as_json: bool, ui: &mut Ui) -> Result<Exit, CommandError> {
    let mut table = Table::new(&["id", "what", "source"]);
    let mut values = Vec::new();
    for id in papers::IDS {
        let experiment = papers::read(id, directory)?;
        values.push(json!({"id": id, "title": experiment.title, "source": experiment.source}));
        table.row([experiment.id, experiment.title, experiment.source]);
    }
    if as_json {
        json::write(ui.out(), &json!({ "experiments": values }))?;
    } else {
        ui.print_table(&table, 0)?;
    }
    Ok(Exit::Done)
}

/// Gb/s, for programs.
fn gbps(bandwidth: Bandwidth) -> f64 {
    bandwidth.bps() as f64 / 1e9
}

/// How far off, and whether that counts as reproduced.
pub(crate) fn verdict(experiment: &Experiment, value: usize, measured: Option<Bandwidth>) -> (String, bool) {
    let Some(measured) = measured else { return ("not measured".to_owned(), false) };
    let published = experiment.values[value].published;
    let off = (gbps(measured) / gbps(published) - 1.0) * 100.0;
    let agrees = experiment.values[value].agrees(experiment, measured);
    let within = if agrees { "within" } else { "outside" };
    // A difference of nothing has no sign.
    let off = if off.abs() < 0.05 { 0.0 } else { off };
    (format!("{off:+.1} %, {within} {} %", experiment.tolerance_percent), agrees)
}

fn to_json(experiment: &Experiment, run: &BodyRun) -> Value {
    let values = experiment.values.iter().zip(&run.measured).enumerate();
    let rows = values.map(|(i, (value, measured))| {
        json!({
            "metric": value.metric,
            "unit": "Gb/s",
            "published": gbps(value.published),
            "measured": measured.map(gbps),
            "note": format!("measured at 1/{} of the speed; {}", experiment.scale, verdict(experiment, i, *measured).0),
        })
    });
    json!({
        "id": experiment.id,
        "body": run.body,
        "seed": run.file.seed,
        "rows": rows.collect::<Vec<_>>(),
        "wall_s": (run.wall_s * 1e3).round() / 1e3,
    })
}

fn print(experiment: &Experiment, runs: &[BodyRun], ui: &mut Ui) -> Result<(), CommandError> {
    let title = format!("{}: published beside measured (measured × {})", experiment.source, experiment.scale);
    ui.print(&format!("{}\n", ui.on_out(Style::Strong, &title)))?;
    let mut table = Table::new(&["metric", ">published", "body", ">measured", "difference"]);
    for (i, value) in experiment.values.iter().enumerate() {
        for run in runs {
            let (difference, agrees) = verdict(experiment, i, run.measured[i]);
            let style = if agrees { Style::Good } else { Style::Held };
            let cells = [
                value.metric.clone(),
                text::rate(value.published),
                run.body.to_owned(),
                run.measured[i].map_or("–".to_owned(), text::rate),
            ];
            table.styled(cells.into_iter().map(|cell| (cell, Style::Plain)).chain([(difference, style)]));
        }
    }
    ui.print_table(&table, 2)?;
    for note in &experiment.notes {
        ui.print(&format!("\n{}", text::wrapped(note, 2)))?;
    }
    Ok(())
}
