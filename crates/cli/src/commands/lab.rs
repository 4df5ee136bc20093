//! `weir lab`: a scenario on real Linux hosts in network namespaces.

use crate::error::{CommandError, Exit};
use crate::input;
use crate::interrupt::Interrupt;
use crate::output::{Style, Ui};
use crate::progress::{self, Watch};
use crate::report_files::ReportArgs;
use std::collections::BTreeMap;
use std::path::PathBuf;
use weir_lab::run::LabOutcome;
use weir_lab::{LabError, Progress, janitor};
use weir_report::json;
use weir_results::Percentile;
use weir_results::summary::percentile_of;
use weir_runs::run_file::{AgentEntry, MessagesEntry, PortEntry, RequestsEntry, RunFile, TransferEntry};
use weir_runs::sweep::{self, Setting};
use weir_scenario::{Governed, LabScenario, ReadOptions, Scenario};
use weir_units::SimTime;

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
`weir sim` under a policy, without network/.")]
pub(crate) struct Args {
    /// The scenario file
    #[arg(required_unless_present_any = ["clean", "janitor"])]
    scenario: Option<PathBuf>,
    /// Change a value of the scenario: a path in its file, `=` and a value
    #[arg(long, value_name = "PATH=VALUE", value_parser = Setting::parse)]
    set: Vec<Setting>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    report: ReportArgs,
    /// Delete what an earlier lab left behind, and do nothing else
    #[arg(long, conflicts_with_all = ["scenario", "set", "json", "report"])]
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
    let files = args.report.prepare()?;
    let interrupt = Interrupt::listen()?;
    let outcome = run_watched(lab, &interrupt, ui)?.map_err(refusal)?;
    let file = to_file(lab, &outcome);
    if let Some(files) = files {
        let page = files.write_services(&file, &command(path, &args.set))?;
        ui.notice(&format!("report: {}\n", page.display()))?;
    }
    if outcome.interrupted {
        let until = file.samples.last().map_or(0.0, |sample| sample.at_s);
        let title = ui.on_err(Style::Limited, "interrupted:");
        ui.notice(&format!("{title} the results cover {until} s of {} s; the lab is down\n", file.duration_s))?;
    }
    if args.json {
        json::write(ui.out(), &file.to_value())?;
    } else {
        super::sim::print_lab(&file, ui)?;
    }
    Ok(if outcome.interrupted { Exit::Interrupted } else { Exit::Done })
}

/// The command line that runs it again.
fn command(scenario: &std::path::Path, set: &[Setting]) -> String {
    sweep::command(&format!("weir lab {}", crate::text::shell_word(&scenario.display().to_string())), set)
}

/// Runs a scenario in the lab and shows its progress. The inner error is the lab's.
pub(super) fn run_watched(
    scenario: LabScenario<'_>,
    interrupt: &Interrupt,
    ui: &mut Ui,
) -> Result<Result<LabOutcome, LabError>, CommandError> {
    let weir =
        std::env::current_exe().map_err(|error| CommandError::failed(format!("cannot find this program: {error}")))?;
    let mut watch = None;
    let terminal = ui.err_is_terminal();
    let outcome = weir_lab::run(scenario, &weir, &|| interrupt.is_requested(), &mut |progress| match progress {
        Progress::Step(step) => {
            if let Some(watch) = &watch {
                Watch::finish(watch);
            }
            // A failure to print progress does not end a run.
            let _ = ui.notice(&format!("{step}\n"));
        }
        Progress::Sample { sample, of } => {
            let watch = watch.get_or_insert_with(|| Watch::new(terminal));
            watch.show(sample.at.as_secs_f64() / of.as_secs_f64(), ui, |_| progress::of_real_time(sample.at, of));
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

/// The result with the measurements that only the lab has.
pub(super) fn to_file(scenario: LabScenario<'_>, outcome: &LabOutcome) -> RunFile {
    let (governed, seed) = (scenario.governed(), scenario.seed());
    let mut file = RunFile::new(&scenario, governed, ("lab", seed), &outcome.result, !outcome.interrupted);
    let entry = |goodput: &weir_lab::traffic::Goodput| TransferEntry {
        service: governed.service_path(goodput.service).to_owned(),
        flows: goodput.flows,
        delivered_bytes: goodput.delivered.get(),
        retransmissions: goodput.retransmissions,
        timeouts: None,
    };
    file.transfers = outcome.goodputs.iter().map(entry).collect();
    file.requests =
        (0u32..).zip(scenario.applications()).map(|(group, own)| requests(governed, own, group, outcome)).collect();
    let first = scenario.applications().len() as u32;
    file.messages =
        (first..).zip(scenario.messages()).map(|(group, own)| messages(governed, own, group, outcome)).collect();
    let port = |(name, counts): &(String, weir_linux::port::QueueCounts)| PortEntry {
        port: name.clone(),
        packets: counts.packets,
        above: counts.above,
        marked: counts.marked,
    };
    file.ports = outcome.ports.iter().map(port).collect();
    file.agents = outcome.agents.iter().map(|(machine, status)| agent(machine, status)).collect();
    let failed: usize = outcome.goodputs.iter().map(|goodput| goodput.failures.len()).sum();
    file.counters.insert("transfers_without_report".to_owned(), failed as u64);
    file
}

/// The times of a group's flows.
struct Times {
    flows: u64,
    unfinished: u64,
    p50_s: Option<f64>,
    p99_s: Option<f64>,
    max_s: Option<f64>,
}

fn times(group: u32, outcome: &LabOutcome) -> Times {
    let flows = || outcome.requests.flows.iter().filter(|flow| flow.group == group);
    let seconds = |time: SimTime| time.picos() as f64 / 1e12;
    let mut times: Vec<f64> = flows().filter_map(|flow| Some(seconds(flow.completion_time()?))).collect();
    times.sort_unstable_by(f64::total_cmp);
    let unfinished = (flows().count() - times.len()) as u64;
    Times {
        flows: flows().count() as u64,
        unfinished,
        p50_s: percentile_of(&times, unfinished, Percentile::P50),
        p99_s: percentile_of(&times, unfinished, Percentile::P99),
        max_s: times.last().copied().filter(|_| unfinished == 0),
    }
}

/// The times of the requests to one server.
fn requests(governed: &Governed, own: &weir_scenario::Application, group: u32, outcome: &LabOutcome) -> RequestsEntry {
    let Times { flows, unfinished, p50_s, p99_s, max_s } = times(group, outcome);
    let service = governed.service_path(own.service).to_owned();
    RequestsEntry { name: own.name.clone(), service, requests: flows, unfinished, p50_s, p99_s, max_s }
}

/// The times of the messages of one flow group.
fn messages(governed: &Governed, own: &weir_scenario::Traffic, group: u32, outcome: &LabOutcome) -> MessagesEntry {
    let Times { flows, unfinished, p50_s, p99_s, max_s } = times(group, outcome);
    let service = own.service.expect("a flow group under a policy has a service");
    let service = governed.service_path(service).to_owned();
    MessagesEntry { name: own.name.clone(), service, messages: flows, unfinished, p50_s, p99_s, max_s }
}

/// The enforcement that an agent reported at the end.
fn agent(machine: &str, status: &serde_json::Value) -> AgentEntry {
    let text = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
    let services = status["services"].as_array().map_or(&[][..], Vec::as_slice);
    let sum = |direction: &str, key: &str| services.iter().filter_map(|own| own[direction][key].as_u64()).sum();
    AgentEntry {
        machine: machine.to_owned(),
        backend: text("backend"),
        attachment: text("attachment"),
        mode: text("mode"),
        packets_marked: sum("rx", "packets_marked"),
        packets_markable: sum("rx", "packets_markable"),
        feedback_sent: sum("rx", "feedback_sent"),
        feedback_received: sum("tx", "feedback_received"),
    }
}

/// The lab's error with hints.
pub(super) fn refusal(error: LabError) -> CommandError {
    match &error {
        LabError::Missing(missing) => {
            let error = CommandError::failed("the lab cannot run on this host");
            missing.iter().fold(error, |error, missing| error.hint(missing.to_string()))
        }
        LabError::SimulatorOnly(_) => CommandError::refused(error.to_string())
            .hint("run it with `weir sim`, or change the part that the lab does not support"),
        LabError::Busy => CommandError::failed(error.to_string()).hint("wait for it to end"),
        _ => CommandError::failed(error.to_string()),
    }
}
