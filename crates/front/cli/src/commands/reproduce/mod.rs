//! `weir reproduce`: published experiments, published beside measured.
//!
//! | file | does |
//! |---|---|
//! | `watch` | the progress of the runs in the simulator |
//! | `lab` | those that the lab can run, on Linux |
//! | `print` | tables and JSON |
//! | `page` | the files of `--report` |
//! | `results` | the file of `--write` |

mod help;
#[cfg(feature = "host")]
mod lab;
mod page;
mod print;
mod results;
mod watch;

use crate::error::{CommandError, Exit};
use crate::interrupt::Interrupt;
use crate::output::{Style, Table, Ui};
use crate::report_files::{ReportArgs, ReportFiles};
use crate::text;
use crate::values;
use serde_json::json;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use weir_experiment::{Experiment, Setting};
use weir_report::json;
use weir_runs::experiments::{BackendRun, Work};
use weir_runs::papers::{self, Papers};
use weir_runs::run_files;

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = help::TEXT)]
pub(crate) struct Args {
    /// The experiments; `--list` names them
    #[arg(value_name = "ID", required_unless_present_any = ["list", "all"], conflicts_with = "all")]
    ids: Vec<String>,
    /// Run all experiments
    #[arg(long)]
    all: bool,
    /// The full setting, which takes longer; `--list` shows the times
    #[arg(long)]
    full: bool,
    /// Where to run it: sim, lab or both
    #[arg(long, value_enum, default_value_t, hide_default_value = true, hide_possible_values = true)]
    backend: Backend,
    /// The first seed of the simulator; the scenario's where not given
    #[arg(long, value_parser = values::seed)]
    seed: Option<u64>,
    /// How many runs at once; as many as there are processors where not given
    #[arg(long, value_name = "N", value_parser = values::jobs)]
    jobs: Option<NonZeroUsize>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    report: ReportArgs,
    /// Write the table of all experiments to this file; only with --all
    // clap ignores a requirement if it conflicts with another given argument, as --all does with an
    // id.
    #[arg(long, value_name = "FILE", requires = "all", conflicts_with = "ids")]
    write: Option<PathBuf>,
    /// List the experiments
    #[arg(long, conflicts_with_all = ["ids", "all", "report", "write"])]
    list: bool,
}

/// The backend of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Backend {
    #[default]
    Sim,
    #[cfg(feature = "host")]
    Lab,
    #[cfg(feature = "host")]
    Both,
}

impl Backend {
    /// Whether it includes the simulator.
    fn has_simulator(self) -> bool {
        match self {
            Self::Sim => true,
            #[cfg(feature = "host")]
            Self::Lab => false,
            #[cfg(feature = "host")]
            Self::Both => true,
        }
    }

    /// The seconds of an experiment's runs in the lab; `None` if it runs none there.
    fn lab_takes(self, experiment: &Experiment, setting: Setting) -> Option<f64> {
        #[cfg(feature = "host")]
        if self != Self::Sim {
            return lab::takes(experiment, setting);
        }
        let _ = (experiment, setting);
        None
    }
}

/// An experiment with the results of its backends.
struct ExperimentResults {
    experiment: Experiment,
    runs: Vec<BackendRun>,
    /// Why the lab did not run although it was requested.
    no_lab: Option<String>,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    let papers = Papers::unpack()?;
    if args.list {
        return list(&papers, args.json, ui);
    }
    let requested: Vec<&str> = args.ids.iter().map(String::as_str).collect();
    let requested = if args.all { papers::IDS } else { &requested };
    // A repeated experiment would have the same result and directory.
    let ids = requested.iter().enumerate().filter(|(index, id)| !requested[..*index].contains(id)).map(|(_, id)| *id);
    let setting = if args.full { Setting::Full } else { Setting::Quick };
    let experiments = ids.map(|id| papers.read(id)).collect::<Result<Vec<_>, _>>()?;
    let files = args.report.prepare()?;
    for experiment in &experiments {
        let Experiment { id, title, .. } = experiment;
        let simulated = args.backend.has_simulator().then(|| experiment.takes.get(setting).as_secs_f64());
        let lab = args.backend.lab_takes(experiment, setting);
        let takes = text::about(simulated.unwrap_or(0.0) + lab.unwrap_or(0.0));
        if simulated.is_some() || lab.is_some() {
            ui.notice(&format!("{id}: {title}; {} setting, about {takes} on two cores\n", setting.name()))?;
        }
    }
    let interrupt = Interrupt::listen()?;

    let mut all: Vec<ExperimentResults> = experiments
        .into_iter()
        .map(|experiment| ExperimentResults { experiment, runs: Vec::new(), no_lab: None })
        .collect();
    let mut failed = false;
    #[cfg(feature = "host")]
    if args.backend != Backend::Sim {
        failed |= lab::run_all(args, &mut all, setting, &interrupt, ui)?;
    }
    if args.backend.has_simulator() && !interrupt.is_requested() {
        let experiments: Vec<&Experiment> = all.iter().map(|reproduced| &reproduced.experiment).collect();
        let directory = args.report.directory();
        let stop = interrupt.stop();
        let work = Work { papers: &papers, experiments, setting, seed: args.seed, directory, stop };
        let runs = watch::run(&work, args.jobs, ui)?;
        for (reproduced, run) in all.iter_mut().zip(runs) {
            reproduced.runs.push(run);
        }
    }
    if let Some(files) = &files {
        failed |= write_report(files, &mut all, setting, ui)?;
    }
    // Of several experiments some may have no run in the lab.
    for reproduced in all.iter().filter(|reproduced| !reproduced.runs.is_empty()) {
        if args.json {
            for backend in &reproduced.runs {
                json::write(ui.out(), &print::to_json(reproduced, backend, setting))?;
            }
        } else {
            print::print(reproduced, ui)?;
        }
    }
    let interrupted = interrupt.is_requested();
    if let Some(path) = &args.write {
        write_results(path, &all, args, setting, interrupted, ui)?;
    }
    if interrupted {
        let title = ui.on_err(Style::Limited, "interrupted:");
        ui.notice(&format!("{title} the results until then are above\n"))?;
        return Ok(Exit::Interrupted);
    }
    let agrees = all.iter().flat_map(|reproduced| &reproduced.runs).all(BackendRun::agrees);
    Ok(if failed || !agrees { Exit::Failed } else { Exit::Done })
}

/// Writes the report, and prints the runs and experiments whose files cannot be written; returns whether there is one.
/// The others' files are written, and all results are printed.
fn write_report(
    files: &ReportFiles,
    all: &mut [ExperimentResults],
    setting: Setting,
    ui: &mut Ui,
) -> Result<bool, CommandError> {
    let page::Written { page, unwritten } = page::write(files, all, setting, ui)?;
    let runs = all.iter_mut().flat_map(|reproduced| &mut reproduced.runs);
    let unwritten: Vec<_> = runs.flat_map(|run| std::mem::take(&mut run.unwritten)).chain(unwritten).collect();
    let failed = !unwritten.is_empty();
    for (name, error) in unwritten {
        CommandError::from(error).of(&name).print(ui);
    }
    if let Some(page) = page {
        ui.notice(&format!("report: {}\n", page.display()))?;
    }
    Ok(failed)
}

fn write_results(
    path: &Path,
    all: &[ExperimentResults],
    args: &Args,
    setting: Setting,
    interrupted: bool,
    ui: &mut Ui,
) -> Result<(), CommandError> {
    if interrupted {
        let title = ui.on_err(Style::Limited, "not written:");
        return Ok(ui.notice(&format!("{title} {}, since some runs are missing\n", path.display()))?);
    }
    run_files::write_text(path, &results::document(all, args.backend, path, setting))?;
    Ok(ui.notice(&format!("written: {}\n", path.display()))?)
}

fn list(papers: &Papers, as_json: bool, ui: &mut Ui) -> Result<Exit, CommandError> {
    let mut table = Table::new(&["id", ">quick", ">full", "source", "what"]);
    let mut values = Vec::new();
    for id in papers::IDS {
        let Experiment { title, source, takes, .. } = papers.read(id)?;
        values.push(json!({
            "id": id,
            "title": title,
            "source": source,
            "quick_s": takes.quick.as_secs_f64(),
            "full_s": takes.full.as_secs_f64(),
        }));
        let takes = [takes.quick, takes.full].map(|takes| text::about(takes.as_secs_f64()));
        let [quick, full] = takes;
        table.row([(*id).to_owned(), quick, full, source, title]);
    }
    if as_json {
        json::write(ui.out(), &json!({ "experiments": values }))?;
    } else {
        ui.print_table(&table, 0)?;
    }
    Ok(Exit::Done)
}
