//! `weir sim`: scenarios in the packet-level simulator.
//!
//! | file | does |
//! |---|---|
//! | `check` | `--check` |
//! | `print` | the tables of a run |
//! | `sweep` | `--sweep` |
//! | `print_sweep` | the table of a sweep |

mod check;
mod help;
pub(super) mod print;
mod print_sweep;
mod sweep;

use crate::error::{CommandError, Exit};
use crate::interrupt::Interrupt;
use crate::output::{Style, Ui};
use crate::progress::{self, Watch};
use crate::report_files::ReportFiles;
use crate::values;
use crate::{input, text};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use weir_results::SizeBins;
use weir_runs::pool::fraction;
use weir_runs::results::simulated;
use weir_runs::simulation::{self, Ran};
use weir_runs::sweep::{Axes, Axis, Setting, command};
use weir_runs::{memory, shaper_remarks};
use weir_scenario::{ReadOptions, Scenario};
use weir_sim::{Options, RunOutcome};

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = help::TEXT)]
pub(crate) struct Args {
    /// The scenario file; `-` is standard input
    scenario: PathBuf,
    /// The seed of all randomness; the scenario's where not given
    #[arg(long, value_parser = values::seed)]
    seed: Option<u64>,
    /// Change a value of the scenario; may be given again
    #[arg(long, value_name = "PATH=VALUE", value_parser = Setting::parse)]
    set: Vec<Setting>,
    /// Run once for every value; may be given again, for every combination
    #[arg(long, value_name = "PATH=VALUES", value_parser = Axes::parse)]
    sweep: Vec<Axes>,
    /// How many points of a sweep run at once; as many as there are processors where not given
    #[arg(long, value_name = "N", requires = "sweep", value_parser = values::jobs)]
    jobs: Option<NonZeroUsize>,
    /// Add the flows of each point of a sweep to its dataset, as Parquet
    #[arg(long, requires_all = ["sweep", "report"])]
    flows: bool,
    /// Fail when an invariant of the simulator breaks; a third to a half slower
    #[arg(long)]
    checkers: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write results and report.html into this directory
    #[arg(long, value_name = "DIR", conflicts_with = "check")]
    report: Option<PathBuf>,
    /// Write into DIR even if it has files; a sweep starts over
    #[arg(long, requires = "report")]
    force: bool,
    /// Only check the scenario and what it names
    #[arg(long)]
    check: bool,
}

impl Args {
    /// The changed values of the scenario, the seed last.
    fn settings(&self) -> Vec<Setting> {
        let seed = self.seed.map(|seed| Setting { path: "seed".to_owned(), value: seed.to_string() });
        self.set.iter().cloned().chain(seed).collect()
    }

    /// The swept values, in the order of the options.
    fn axes(&self) -> Vec<Axis> {
        self.sweep.iter().flat_map(|axes| axes.0.iter().cloned()).collect()
    }

    /// The command without values.
    fn start(&self) -> String {
        format!("weir sim {}", text::shell_word(&self.scenario.display().to_string()))
    }

    /// The beginning of every command line that makes the same results again.
    fn command(&self, settings: &[Setting]) -> String {
        command(&self.start(), settings)
    }
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    let settings = args.settings();
    twice(&settings, &args.axes())?;
    if !args.sweep.is_empty() {
        return sweep::run(args, settings, ui);
    }
    let set = Setting::pairs(&settings);
    let options = ReadOptions { set: set.clone(), memory: memory::available() };
    let read = shaper_remarks::with_remarks(input::scenario(&args.scenario, &options)?);
    if args.check {
        return check::check(args, read, 1, ui);
    }
    let (scenario, notes) = read?;
    input::print_notes(&notes, ui)?;
    input::for_the_simulator(&scenario)?;
    let seed = scenario.seed();
    // Before the run, so that an unusable directory is reported at once, not after an hour.
    let files = args.report.as_deref().map(|directory| ReportFiles::prepare(directory, args.force)).transpose()?;
    // Before the first output, so that Ctrl-C has the same effect from then on.
    let interrupt = Interrupt::listen()?;
    let checkers = if args.checkers { ", checkers on" } else { "" };
    ui.notice(&format!("{}: {}, seed {seed}{checkers}\n", scenario.name(), check::describe(&scenario)))?;

    let options = Options { check: args.checkers };
    let outcome = simulate_watched(&scenario, seed, &options, &interrupt, ui)?;
    let interrupted = outcome.interrupted;
    let results = simulated(&scenario, outcome, &set);
    let mut written = Ok(());
    if let Some(files) = files {
        // The command contains the seed even if it is the scenario's, since the file may change.
        let settings: Vec<Setting> = settings.into_iter().filter(|setting| setting.path != "seed").collect();
        let command = format!("{} --seed {seed}", args.command(&settings));
        match files.write(&results, &command) {
            Ok(page) => ui.notice(&format!("report: {}\n", page.display()))?,
            // After the results are printed: a full disk does not take the outcome of an hour with it.
            Err(error) => written = Err(error),
        }
    }
    if interrupted {
        let until = results.simulated.picos() as f64 / 1e12;
        let title = ui.on_err(Style::Limited, "interrupted:");
        let of = scenario.duration().as_secs_f64();
        ui.notice(&format!("{title} the results cover {} of {}\n", text::time(until), text::time(of)))?;
    }
    if args.json {
        ui.print(&results.to_json(&SizeBins::default()))?;
    } else {
        print::print(&results, ui)?;
    }
    written?;
    Ok(if interrupted { Exit::Interrupted } else { Exit::Done })
}

/// Refuses two values for one path, since it would be unclear which of them counts.
fn twice(settings: &[Setting], axes: &[Axis]) -> Result<(), CommandError> {
    let paths: Vec<&str> = settings
        .iter()
        .map(|setting| setting.path.as_str())
        .chain(axes.iter().map(|axis| axis.path.as_str()))
        .collect();
    match paths.iter().enumerate().find(|(i, path)| paths[..*i].contains(path)) {
        None => Ok(()),
        Some((_, path)) => Err(CommandError::refused(format!("`{path}` is given twice"))
            .hint("give each value once, by --set, --seed or --sweep; a sweep takes a list: `seed=1,2,3`")),
    }
}

/// From this many seconds on the time to build a network is reported.
const SLOW: f64 = 1.0;

/// Runs a scenario in the simulator and shows its progress.
pub(super) fn simulate_watched(
    scenario: &Scenario,
    seed: u64,
    options: &Options,
    interrupt: &Interrupt,
    ui: &mut Ui,
) -> Result<RunOutcome, CommandError> {
    let mut watch = Watch::new(ui.err_is_terminal());
    let mut built = false;
    let ran = simulation::run(scenario, seed, options, interrupt.stop(), &mut |now| match now {
        None => watch.show(0.0, ui, |elapsed| progress::of_building(scenario.graph().hosts.len(), elapsed)),
        Some(now) => {
            // Speed and remaining time are those of the simulation alone.
            if !std::mem::replace(&mut built, true) {
                watch.restart();
            }
            watch.show(fraction(&now), ui, |elapsed| progress::of_run(&now, elapsed));
        }
    });
    watch.finish();
    let (outcome, spent) = match ran.map_err(|error| CommandError::failed(format!("cannot start a thread: {error}")))? {
        Ran::Outcome(outcome, spent) => (*outcome, spent),
        Ran::Refused(error) => return Err(error.into()),
        Ran::SameName(error) => {
            let hint = "rename one of them: results refer to it by name";
            return Err(CommandError::refused(error.to_string()).hint(hint));
        }
        Ran::Nothing => {
            return Err(CommandError::interrupted("the network was still being built; nothing was simulated"));
        }
        Ran::Broken(panic) => {
            return Err(CommandError::failed(panic).hint("this is a mistake of the simulator, not of the scenario"));
        }
    };
    let hops = outcome.results.counters.get("packet_hops").copied().unwrap_or_default();
    let simulated = outcome.results.simulated.picos() as f64 / 1e12;
    let speed = progress::speed(hops, spent.running).map_or(String::new(), |speed| format!(", {speed}"));
    let built = Some(spent.building).filter(|seconds| *seconds >= SLOW);
    let built = built.map_or(String::new(), |seconds| format!(", after {} of building", text::time(seconds)));
    ui.notice(&format!("{} simulated in {}{speed}{built}\n", text::time(simulated), text::time(spent.running)))?;
    Ok(outcome)
}
