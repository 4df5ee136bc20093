//! `weir lab`: a scenario on real Linux hosts in network namespaces.

mod print;

use crate::error::{CommandError, Exit};
use crate::input;
use crate::interrupt::Interrupt;
use crate::output::{Style, Ui};
use crate::progress::Watch;
use crate::report_files::{ReportArgs, ReportFiles};
use std::collections::BTreeMap;
use std::path::PathBuf;
use weir_lab::run::LabOutcome;
use weir_lab::{Fault, LabError, Progress, Recovery, janitor};
use weir_results::{Results, SizeBins};
use weir_runs::results::measured;
use weir_runs::sweep::{self, Setting};
use weir_scenario::{LabScenario, ReadOptions, Scenario};
use weir_units::{Bandwidth, Duration};

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir lab scenarios/parley-fig14.scenario.yaml
  weir lab scenarios/parley-fig14.scenario.yaml --report out/fig14-lab
  weir lab scenarios/receive-flows.scenario.yaml --set enforcement=none
  weir lab --clean

Builds the scenario's racks, machines and switches from network namespaces, runs an agent on every
machine, iperf3 for every flow and redis where the scenario has it, measures at the uplink, and
takes everything down again, also after Ctrl-C and when it is killed. Needs root. One lab at a time
runs on a host, and nothing outside its own namespaces is touched. Output and files are those of
`weir sim` under a policy, without flows and links.")]
pub(crate) struct Args {
    /// The scenario file
    #[arg(required_unless_present_any = ["clean", "janitor"])]
    scenario: Option<PathBuf>,
    /// Change a value of the scenario: a path in its file, `=` and a value
    #[arg(long, value_name = "PATH=VALUE", value_parser = Setting::parse)]
    set: Vec<Setting>,
    /// Kill a process of tenants' control during the traffic, or remove the queues of a switch: TIME=agent:MACHINE,
    /// TIME=switch:SWITCH, TIME=ports:SWITCH or TIME=controller
    #[arg(long, value_name = "FAULT")]
    fault: Vec<Fault>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    report: ReportArgs,
    /// Delete what an earlier lab left behind, and do nothing else
    #[arg(long, conflicts_with_all = ["scenario", "set", "fault", "json", "report"])]
    clean: bool,
    /// Clean up, this directory too, once standard input ends; the lab starts this for itself
    #[arg(long, hide = true, value_name = "DIR")]
    janitor: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    if let Some(directory) = &args.janitor {
        janitor::wait_and_clean(directory).map_err(|error| CommandError::failed(error.to_string()))?;
        return Ok(Exit::Done);
    }
    if args.clean {
        let removed = weir_lab::clean().map_err(refusal)?;
        ui.notice(&format!("{} removed\n", crate::text::count(removed.len(), "namespace")))?;
        return Ok(Exit::Done);
    }
    let Some(path) = &args.scenario else { return Err(CommandError::refused("a scenario is needed")) };
    let options = ReadOptions { set: Setting::pairs(&args.set), memory: None };
    let (scenario, notes) = Scenario::read_with(path, &options)?;
    input::print_notes(&notes, ui)?;
    let lab = scenario.for_lab().map_err(|reason| refusal(LabError::SimulatorOnly(reason.to_owned())))?;
    weir_lab::faults::check(&args.fault, lab).map_err(|error| refusal(error.into()))?;
    let files = args.report.prepare()?;
    let interrupt = Interrupt::listen()?;
    let outcome = run_watched_with(lab, &args.fault, &interrupt, ui)?.map_err(refusal)?;
    print_tenants(lab, &outcome, ui)?;
    let complete = !outcome.interrupted;
    let results = measured(lab, &outcome.result, complete, outcome.records(lab), &options.set);
    publish(&results, files, &command(path, &args.set), lab.duration(), args.json, ui)?;
    Ok(match outcome.interrupted {
        true => Exit::Interrupted,
        false if outcome.omitted_faults.is_empty() => Exit::Done,
        false => Exit::Failed,
    })
}

/// Writes the results into a directory and prints them. They are printed also if they cannot be written: a full disk
/// does not take the outcome of an hour with it.
fn publish(
    results: &Results,
    files: Option<ReportFiles>,
    command: &str,
    duration: Duration,
    json: bool,
    ui: &mut Ui,
) -> Result<(), CommandError> {
    let written = match files.map(|files| files.write(results, command)) {
        Some(Ok(page)) => Ok(ui.notice(&format!("report: {}\n", page.display()))?),
        Some(Err(error)) => Err(error),
        None => Ok(()),
    };
    if !results.complete {
        let (until, of) = (results.simulated.picos() as f64 / 1e12, duration.as_secs_f64());
        let title = ui.on_err(Style::Limited, "interrupted:");
        ui.notice(&format!("{title} the results cover {until} s of {of} s; the lab is down\n"))?;
    }
    if json {
        ui.print(&results.to_json(&SizeBins::default()))?;
    } else {
        print::print(results, ui)?;
    }
    written
}

/// The command line that runs it again.
fn command(scenario: &std::path::Path, set: &[Setting]) -> String {
    sweep::command(&format!("weir lab {}", crate::text::shell_word(&scenario.display().to_string())), set)
}

/// The times of moves between queues and of recoveries, with the least bandwidth of the tenants around a fault.
fn print_tenants(lab: LabScenario<'_>, outcome: &LabOutcome, ui: &mut Ui) -> Result<(), CommandError> {
    for (key, what) in [("move_times", "moves of tenants between queues"), ("switch_times", "weights at all switches")]
    {
        let of = |field: &str| outcome.tenants[key][field].as_u64().unwrap_or(0);
        if let Some(mean) = of("sum_us").checked_div(of("count")) {
            let ms = |us: u64| us as f64 / 1e3;
            let (count, longest) = (of("count"), ms(of("longest_us")));
            ui.notice(&format!("{what}: {count}, mean {:.0} ms, longest {longest:.0} ms\n", ms(mean)))?;
        }
    }
    if outcome.tenants.is_object() {
        ui.notice(&format!("TCP found packets overtaken {} times\n", outcome.reorderings))?;
    }
    for Recovery { fault, took } in &outcome.recoveries {
        let took = took.map_or("not recovered".to_owned(), |took| format!("recovered after {took}"));
        ui.notice(&format!("{}: {}, {took}\n", fault.at, fault.target))?;
        let (from, to) = (fault.at, fault.at + Duration::from_secs(5));
        let within = outcome.result.samples.iter().filter(|sample| sample.at > from && sample.at <= to);
        let samples: Vec<_> = within.collect();
        let all = |sample: &&weir_scenario::Sample| -> Bandwidth {
            sample.bandwidth.iter().map(|(_, bandwidth)| *bandwidth).sum()
        };
        // A busy host sends less than the link carries.
        if let Some(least) = samples.iter().map(all).min() {
            ui.notice(&format!("  all together: {} at least, in a sample\n", crate::text::rate(least)))?;
        }
        for tenant in lab.policy().tenants() {
            // Of those that send all the time.
            let of = |sample: &&weir_scenario::Sample| {
                sample.bandwidth.iter().find(|(id, _)| *id == tenant.service).map(|(_, bandwidth)| *bandwidth)
            };
            let windows: Vec<_> = samples.windows(2).filter_map(|two| Some((of(&two[0])?, of(&two[1])?))).collect();
            let mean = |(one, other): &(Bandwidth, Bandwidth)| Bandwidth::from_bps((one.bps() + other.bps()) / 2);
            let Some(least) = windows.iter().map(mean).min().filter(|least| *least > Bandwidth::ZERO) else { continue };
            ui.notice(&format!("  {}: {} at least, over two samples\n", tenant.name, crate::text::rate(least)))?;
        }
    }
    for fault in &outcome.omitted_faults {
        let title = ui.on_err(Style::Error, "not carried out:");
        let cause = "the run ended before the fault before it was recovered from";
        ui.notice(&format!("{title} {} at {}: {cause}\n", fault.target, fault.at))?;
    }
    Ok(())
}

/// Runs a scenario in the lab and shows its progress. The inner error is the lab's.
pub(in crate::commands) fn run_watched(
    scenario: LabScenario<'_>,
    interrupt: &Interrupt,
    ui: &mut Ui,
) -> Result<Result<LabOutcome, LabError>, CommandError> {
    run_watched_with(scenario, &[], interrupt, ui)
}

/// The same with faults.
fn run_watched_with(
    scenario: LabScenario<'_>,
    faults: &[Fault],
    interrupt: &Interrupt,
    ui: &mut Ui,
) -> Result<Result<LabOutcome, LabError>, CommandError> {
    let weir =
        std::env::current_exe().map_err(|error| CommandError::failed(format!("cannot find this program: {error}")))?;
    let mut watch = None;
    let terminal = ui.err_is_terminal();
    let requested = || interrupt.is_requested();
    let outcome = weir_lab::run_with(scenario, &weir, faults, &requested, &mut |progress| match progress {
        Progress::Step(step) => {
            if let Some(watch) = &watch {
                Watch::finish(watch);
            }
            // A failure to print progress does not end a run.
            let _ = ui.notice(&format!("{step}\n"));
        }
        Progress::Sample { sample, of } => {
            let watch = watch.get_or_insert_with(|| Watch::new(terminal));
            watch.show(sample.at.as_secs_f64() / of.as_secs_f64(), ui, |_| of_real_time(sample.at, of));
        }
    });
    if let Some(watch) = watch {
        watch.finish();
    }
    let mut failures: BTreeMap<&str, usize> = BTreeMap::new();
    for failure in outcome.iter().flat_map(|outcome| &outcome.goodputs).flat_map(|goodput| &goodput.failures) {
        *failures.entry(failure).or_default() += 1;
    }
    for (failure, times) in failures {
        ui.notice(&format!("iperf3: {failure} ({})\n", crate::text::count(times, "transfer")))?;
    }
    Ok(outcome)
}

/// `12 s of 1 min, 48 s left`, of a run in real time.
fn of_real_time(at: Duration, of: Duration) -> String {
    let left = of.saturating_sub(at).as_secs_f64();
    format!("{:.0} s of {of}, {left:.0} s left", at.as_secs_f64())
}

/// The lab's error with hints.
pub(in crate::commands) fn refusal(error: LabError) -> CommandError {
    match &error {
        LabError::Missing(missing) => {
            let error = CommandError::failed("the lab cannot run on this host");
            missing.iter().fold(error, |error, missing| error.hint(missing.to_string()))
        }
        LabError::SimulatorOnly(_) => CommandError::refused(error.to_string())
            .hint("run it with `weir sim`, or change the part that the lab does not support"),
        LabError::Fault(fault) => CommandError::refused(fault.cause.clone()).hint(fault.hint.clone()),
        LabError::Busy => CommandError::failed(error.to_string()).hint("wait for it to end"),
        _ => CommandError::failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_results::Backend;

    /// A directory that disappears during the run: the results are on standard output, and the command fails.
    #[test]
    fn results_are_printed_also_if_they_cannot_be_written() {
        let directory = tempfile::tempdir().expect("a directory");
        let report = directory.path().join("report");
        let files = ReportFiles::prepare(&report, false).expect("prepared");
        std::fs::remove_dir(&report).expect("removed");
        std::fs::write(&report, "a file in its place").expect("written");
        let results = Results {
            scenario: "small".to_owned(),
            backend: Backend::Lab,
            policy: Some(weir_results::PolicyResults::default()),
            ..Results::default()
        };
        let (mut ui, out, err) = Ui::captured();
        let second = Duration::from_secs(1);
        let failed =
            publish(&results, Some(files), "weir lab s.yaml", second, true, &mut ui).expect_err("no directory");
        assert_eq!(failed.exit(), Exit::Failed);
        let value: serde_json::Value = serde_json::from_slice(&out.borrow()).expect("JSON");
        assert_eq!((&value["scenario"], &value["complete"]), (&"small".into(), &false.into()));
        let notices = String::from_utf8(err.borrow().clone()).expect("text");
        assert!(
            notices.contains("interrupted: the results cover 0 s of 1 s") && !notices.contains("report:"),
            "{notices}"
        );
    }

    #[test]
    fn progress_is_in_real_time() {
        assert_eq!(of_real_time(Duration::from_secs(12), Duration::from_secs(50)), "12 s of 50 s, 38 s left");
    }
}
