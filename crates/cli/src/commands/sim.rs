//! `weir sim`: a scenario in the packet-level simulator.

use crate::error::{CommandError, Exit};
use crate::interrupt::Interrupt;
use crate::output::{Style, Table, Ui};
use crate::progress::Watch;
use crate::report_files::ReportFiles;
use crate::run_file::{RunFile, TransferEntry};
use crate::{input, json, run_page, text};
use serde_json::json;
use std::ops::ControlFlow;
use std::path::PathBuf;
use weir_document::Diagnostic;
use weir_results::FlowRecord;
use weir_scenario::Scenario;
use weir_sim::{Options, RunError, RunOutcome, simulate};

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir sim scenarios/parley-fig14.scenario.yaml
  weir sim scenarios/parley-fig14.scenario.yaml --seed 7 --report out/fig14
  weir sim fig14.scenario.yaml --json | jq '.phases[] | [.from_s, .to_s, .settled_bps]'

Ctrl-C ends the run after the current sample and keeps what is done (exit code 130); twice ends
it at once.

With --json, and in DIR/result.json: {\"format\": 1, \"scenario\", \"body\": \"sim\", \"seed\",
\"enforcement\", \"complete\", \"duration_s\", \"measure\": {\"rack\", \"direction\", \"every_s\",
\"capacity_bps\"}, \"services\": [name], \"phases\": [{\"from_s\", \"to_s\", \"sending\": [name],
\"mean_bps\": {name: rate}, \"settled_bps\": {name: rate}}], \"samples\": [{\"at_s\",
\"bandwidth_bps\": {name: rate}}], \"transfers\": [{\"service\", \"flows\", \"delivered_bytes\",
\"retransmissions\", \"timeouts\"}], \"counters\": {name: number}}. A phase lies between two starts
or stops of traffic; `settled` is its second half; a mean without samples is null. The same
scenario and seed give the same bytes.")]
pub(crate) struct Args {
    /// The scenario file
    scenario: PathBuf,
    /// The seed of all randomness; the scenario's where not given
    #[arg(long)]
    seed: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write result.json and report.html into this directory
    #[arg(long, value_name = "DIR", conflicts_with = "check")]
    report: Option<PathBuf>,
    /// Write into DIR even if it has files
    #[arg(long, requires = "report")]
    force: bool,
    /// Only check the scenario and its policy
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    let read = Scenario::read(&args.scenario);
    if args.check {
        return check(args, read, ui);
    }
    let (scenario, notes) = read?;
    input::tell_notes(&notes, ui)?;
    if scenario.governed().is_none() {
        let cause = "this scenario has a network of its own, and this program simulates the networks of policies";
        return Err(CommandError::refused(cause).hint("`--check` checks it"));
    }
    let seed = args.seed.unwrap_or(scenario.seed());
    // Before the run: nobody wants to hear after an hour that a directory cannot be used.
    let files = args.report.as_deref().map(|directory| ReportFiles::prepare(directory, args.force)).transpose()?;
    // Before the first word, so that Ctrl-C means the same from then on.
    let interrupt =
        Interrupt::listen().map_err(|error| CommandError::failed(format!("cannot listen for Ctrl-C: {error}")))?;
    let command = format!("weir sim {} --seed {seed}", args.scenario.display());
    ui.tell(&format!("{}: {}, seed {seed}\n", scenario.name(), describe(&scenario)))?;

    let outcome = simulate_watched(&scenario, seed, &interrupt, ui)?;
    let file = to_file(&scenario, seed, &outcome);
    if let Some(files) = files {
        let page = files.write(&file, &command)?;
        ui.tell(&format!("report: {}\n", page.display()))?;
    }
    if outcome.interrupted {
        let until = file.samples.last().map_or(0.0, |sample| sample.at_s);
        let title = ui.on_err(Style::Held, "interrupted:");
        ui.tell(&format!("{title} the results cover {until} s of {} s\n", file.duration_s))?;
    }
    if args.json {
        json::write(ui.out(), &file.to_value())?;
    } else {
        print(&file, ui)?;
    }
    Ok(if outcome.interrupted { Exit::Interrupted } else { Exit::Done })
}

/// What runs, in a line.
fn describe(scenario: &Scenario) -> String {
    let graph = scenario.graph();
    let entries = scenario.entries().len();
    let switches = graph.switches.len();
    let switches = if switches == 1 { "1 switch".to_owned() } else { format!("{switches} switches") };
    let mut parts = vec![text::count(graph.hosts.len(), "host"), switches];
    if let Some(governed) = scenario.governed() {
        parts = vec![
            text::count(governed.policy.network().racks().len(), "rack"),
            text::count(governed.policy.network().machines().len(), "machine"),
        ];
    }
    match scenario.simulator_only() {
        None => {
            let transfers = scenario.traffic().iter();
            let flows: usize = transfers.map(|traffic| traffic.pairs().len() * traffic.flows as usize).sum();
            parts.push(text::count(flows, "flow"));
            parts.push(format!("{} of traffic", scenario.duration()));
        }
        Some(_) => {
            let entries =
                if entries == 1 { "1 entry of traffic".to_owned() } else { format!("{entries} entries of traffic") };
            parts.push(format!("{entries}, at most {}", scenario.duration()));
        }
    }
    parts.join(", ")
}

fn check(
    args: &Args,
    read: Result<(Scenario, Vec<Diagnostic>), weir_document::Diagnostics>,
    ui: &mut Ui,
) -> Result<Exit, CommandError> {
    match (read, args.json) {
        (Ok((_, notes)), true) => {
            let notes: serde_json::Value = notes.iter().map(Diagnostic::to_json).collect();
            json::write(ui.out(), &json!({"valid": true, "errors": 0, "diagnostics": notes}))?;
            Ok(Exit::Done)
        }
        (Ok((scenario, notes)), false) => {
            input::tell_notes(&notes, ui)?;
            let valid = ui.on_out(Style::Good, "valid");
            ui.print(&format!("{}: {valid}, {}\n", args.scenario.display(), describe(&scenario)))?;
            Ok(Exit::Done)
        }
        (Err(refused), true) => {
            json::write(ui.out(), &super::check::refused_json(&refused))?;
            Ok(Exit::Refused)
        }
        (Err(refused), false) => Err(refused.into()),
    }
}

/// Runs a scenario in the simulator and shows how far it has come.
pub(super) fn simulate_watched(
    scenario: &Scenario,
    seed: u64,
    interrupt: &Interrupt,
    ui: &mut Ui,
) -> Result<RunOutcome, CommandError> {
    let mut watch = Watch::new(scenario.duration(), "simulated", ui.err_is_terminal());
    let mut step = |progress: weir_sim::Progress| {
        watch.step(progress.at, ui);
        if interrupt.is_asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let outcome = simulate(scenario, seed, &Options::default(), &mut step);
    watch.finish();
    outcome.map_err(|error| match error {
        RunError::Unclassified { .. } => CommandError::refused(error.to_string())
            .hint("give the service a match that TCP packets between these machines have"),
        RunError::Classifier(_) => CommandError::refused(format!("the policy's filters cannot be used: {error}"))
            .hint("use fewer or simpler matches"),
    })
}

/// The result with what the simulator alone knows.
pub(super) fn to_file(scenario: &Scenario, seed: u64, outcome: &RunOutcome) -> RunFile {
    let mut file = RunFile::new(scenario, "sim", seed, &outcome.uplink, !outcome.interrupted);
    let results = &outcome.results;
    let service = |flow: &FlowRecord| scenario.entries().get(flow.group as usize).and_then(|entry| entry.service);
    file.transfers = file
        .services
        .iter()
        .map(|name| {
            let id = scenario.policy().services().named(name);
            let flows = results.flows.iter().filter(|flow| id.is_some() && service(flow) == id);
            flows.fold(TransferEntry { service: name.clone(), ..TransferEntry::default() }, |mut sum, flow| {
                sum.flows += 1;
                sum.delivered_bytes += flow.delivered;
                sum.retransmissions += u64::from(flow.retransmissions);
                sum.timeouts = Some(sum.timeouts.unwrap_or(0) + u64::from(flow.timeouts));
                sum
            })
        })
        .collect();
    file.counters = results.counters.clone();
    file
}

/// The result as tables.
pub(super) fn print(file: &RunFile, ui: &mut Ui) -> Result<(), CommandError> {
    let measure = &file.measure;
    let title = format!("Mean bandwidth at the uplink of rack {} ({})", measure.rack, measure.direction);
    ui.print(&format!("{}\n", ui.on_out(Style::Strong, &title)))?;
    let mut table = Table::new(&[">from", ">to", "sending", "service", ">mean", ">settled"]);
    for row in run_page::mean_rows(file) {
        table.row(row);
    }
    ui.print_table(&table, 2)?;
    ui.print("  settled: the second half of the phase\n\n")?;
    ui.print(&format!("{}\n", ui.on_out(Style::Strong, "Connections")))?;
    let mut table = Table::new(&["service", ">flows", ">delivered", ">sent again", ">timeouts"]);
    for transfer in &file.transfers {
        table.row([
            transfer.service.clone(),
            transfer.flows.to_string(),
            text::size(transfer.delivered_bytes),
            transfer.retransmissions.to_string(),
            transfer.timeouts.map_or("–".to_owned(), |timeouts| timeouts.to_string()),
        ]);
    }
    ui.print_table(&table, 2)?;
    let counter = |name: &str| file.counters.get(name).copied().unwrap_or_default();
    ui.print(&format!(
        "\n{} packets sent, {} dropped; {} broker datagrams, {} refused; {} events\n",
        counter("packets_sent"),
        counter("packets_dropped"),
        counter("broker_datagrams_sent"),
        counter("broker_datagrams_refused"),
        counter("events"),
    ))?;
    Ok(())
}
