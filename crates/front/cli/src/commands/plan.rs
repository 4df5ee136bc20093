//! `weir plan`: the capacity or the cap that keeps a latency target.

use crate::error::{CommandError, Exit};
use crate::output::Ui;
use crate::plan::trace::{self, TerminalMonitor};
use crate::plan::write::PolicyFile;
use crate::plan::{page, print};
use crate::report_files::{ReportArgs, ReportFiles};
use crate::values::{self, refusal_text};
use crate::{input, levels, text};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::path::{Path, PathBuf};
use weir_answers::plan::{self as answer, Method, Plan, PlanOptions, PlannedNetwork, TraceInput, caps, words};
use weir_answers::{AnswerError, ReadPolicy};
use weir_document::scalar;
use weir_latency::levels::Admitted;
use weir_latency::plan::queue;
use weir_policy::Policy;
use weir_report::{Page, json};
use weir_runs::memory;
use weir_scenario::ReadOptions;
use weir_units::{Bandwidth, ContentionPoint, Duration, Load};

/// The options.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weir plan policy.yaml
  weir plan policy.yaml --iterations 30 --report out/plan
  weir plan policy.yaml --trace messages.csv --by trace
  weir plan policy.yaml --write

For each service with `latency: { message: 1MB, p99: 20ms }`: the completion time at the planned
capacity and load, the largest load on that capacity that keeps the target, and the smallest
capacity that keeps it at the same load in per cent, and for the same traffic in bit/s; by the
M/M/1 queue, by the burst bound and, with --trace, by the messages of a trace in a simulated queue.
Prints the assumptions of each. A trace as it is has a table of its own.

A plan is for the slowest capacity and the highest load on a message's way: machine's interface,
rack's uplink, fabric. --at leaves the others out; --capacity and --load replace the derived
values.

The bound needs ports that can queue its burst and the message. A target is kept only if the policy
states such buffers (`network: { switches: { buffer: 1MB } }`), or the scenario of --scenario has
them; if no service that may send UDP or has no target can overload an uplink or a machine's port
until Weir limits it; and if neither the machine cap nor a maximum of the service makes messages
wait at hosts. Otherwise the target is unproven, and where packets may be lost the plan shows what
a retransmission timer adds.

A trace is CSV with the columns time (seconds; or time_ms, time_us, time_ns, time_ps) and size
(bytes), and perhaps service; other columns are not read, so the flows.csv of a report is a trace.

--write puts the cap that keeps every target into the policy's file, at the rack or at the level
named (--write=machine). Nothing else in the file changes.

A service with `level: auto` and `latency: { message: 1kB, worst: 400us, rate: 10Mb/s }` gets the
latency level that keeps `worst`: the fewest levels, then the largest rates. --write=levels puts
levels and factors into the file, as --write does where there are no other targets.

With --json: {\"kept\", \"largest_load\", \"caps\": [{\"point\", \"tx_bps\", \"rx_bps\"}], \"refused\",
\"points\": [{\"point\", \"direction\", \"capacity_bps\", \"peak_load\", \"limited_by\"}], \"trace\":
{\"file\", \"messages\", \"bytes\", \"span_ns\", \"longest_gap_ns\", \"offered_bps\"}, \"services\":
[{\"service\", \"message_bytes\", \"p99_ns\", \"kept\", \"verdict\": \"kept\", \"not kept\" or
\"unproven\", \"unproven\": [reason], \"by\", \"capacity_bps\", \"peak_load\", \"traffic_bps\",
\"sigma_bytes\", \"buffers\": [{\"point\", \"direction\", \"capacity_bps\", \"sigma_bytes\", \"needed_bytes\",
\"stated_bytes\", \"enough\"}], \"overloads\": [{\"point\", \"direction\", \"offered_bps\",
\"capacity_bps\", \"until_ns\", \"burst_bytes\", \"services\"}], \"retransmission\": {\"shortest_ns\",
\"from\", \"one_timeout_ns\", \"two_timeouts_ns\"}, \"estimates\": [{\"by\", \"time_ns\", \"largest_load\",
\"smallest_capacity_bps\" (at peak_load), \"smallest_capacity_for_traffic_bps\" (for traffic_bps),
\"assumes\"}], \"trace_as_it_is\": [{\"capacity_bps\", \"load\", \"time_ns\"}],
\"trace_as_it_is_smallest\": {the same at the smallest capacity}, ...}]}. Loads are parts of
1; that of a trace as it is may be above 1. null is 100 %, no estimate (its \"..._why\" is the
reason), no trace, a buffer that is not stated, or no bound on the time or bytes of an overload. A
policy with latency levels has \"levels\", as in `weir check --json`.

Exit code 0: the policy keeps every target. 1: it does not (with proposals), or a target is
unproven. 2: refused.")]
pub(crate) struct Args {
    /// The policy file; `-` is standard input
    policy: PathBuf,
    /// How the verdict is found: mm1, bound or trace
    #[arg(long, value_name = "METHOD", default_value = "bound", value_parser = method())]
    #[arg(hide_possible_values = true)]
    by: Method,
    /// Only this contention point: machine, rack or fabric; may be given again
    #[arg(long, value_name = "POINT", value_parser = point)]
    at: Vec<ContentionPoint>,
    /// The capacity to plan for, instead of the slowest one
    #[arg(long, value_name = "RATE", value_parser = rate)]
    capacity: Option<Bandwidth>,
    /// The load to plan for, instead of the highest that the caps allow
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    load: Option<Load>,
    /// Steps of the rate law until senders have converged; 30 in the worst case
    #[arg(long, value_name = "N", default_value_t = queue::ITERATIONS, conflicts_with = "convergence")]
    #[arg(value_parser = |text: &str| values::count::<u32>(text, 1_000_000))]
    iterations: u32,
    /// The time until senders have converged, instead of iterations times the service's interval
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    convergence: Option<Duration>,
    /// How many senders' bursts may come at once
    #[arg(long, value_name = "N", default_value_t = queue::SENDERS)]
    #[arg(value_parser = |text: &str| values::count::<u32>(text, 1_000_000))]
    senders: u32,
    /// The shortest retransmission timeout, instead of the scenario's or Linux's 200 ms
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    min_rto: Option<Duration>,
    /// A scenario under this policy, whose buffers and timers count instead of the policy's
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Messages that arrived, as CSV; `-` is standard input
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Also the trace as it is at these capacities
    #[arg(long, value_name = "RATE,...", value_parser = rate, value_delimiter = ',', requires = "trace")]
    trace_at: Vec<Bandwidth>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    report: ReportArgs,
    /// Write the cap into the policy's file, at the rack or at machine, rack or fabric; or the chosen `levels`
    #[arg(long, value_name = "PART", value_parser = written_part, num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "rack")]
    write: Option<WrittenPart>,
}

/// The part of a policy that `--write` changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WrittenPart {
    /// A cap.
    Cap(ContentionPoint),
    /// Latency levels and their factors.
    Levels,
}

impl WrittenPart {
    fn cap(self) -> Option<ContentionPoint> {
        match self {
            Self::Cap(point) => Some(point),
            Self::Levels => None,
        }
    }
}

fn written_part(text: &str) -> Result<WrittenPart, String> {
    if text == "levels" { Ok(WrittenPart::Levels) } else { point(text).map(WrittenPart::Cap) }
}

pub(crate) fn run(args: &Args, ui: &mut Ui) -> Result<Exit, CommandError> {
    let dash = Path::new("-");
    if args.policy == dash && args.trace.as_deref() == Some(dash) {
        return Err(CommandError::refused("the policy and the trace cannot both be standard input")
            .hint("write one of them to a file"));
    }
    if args.by == Method::Trace && args.trace.is_none() {
        return Err(CommandError::refused("there is no trace to decide by").hint("name one with `--trace FILE`"));
    }
    let (file, policy, admitted) = read(args, ui)?;
    let percentiles = answer::targets(&policy, admitted.as_ref())
        .map_err(|error| error.at(args.policy.display().to_string(), None))?;
    if let Some(admitted) = &admitted
        && (!percentiles || args.write == Some(WrittenPart::Levels))
    {
        return plan_levels(args, &policy, admitted, file.as_ref(), ui);
    }
    let network = network(args, &policy, ui)?;
    let report = args.report.prepare()?;
    let options = args.options(report.is_some());
    let plan = with_trace(args, &policy, &options, &network, ui)?;

    if let Some(report) = &report {
        write_report(args, &plan, report, ui)?;
    }
    if !args.json {
        print::print(&plan, ui)?;
        if let Some(admitted) = &admitted {
            ui.print("\n")?;
            levels::print::print(admitted, ui)?;
        }
    }
    let written = match (args.write.and_then(WrittenPart::cap), &file) {
        (Some(point), Some(file)) => Some(write(args, point, (&policy, &plan, &options), file, ui)?),
        _ => None,
    };
    let kept = written.unwrap_or(plan.is_kept());
    if args.json {
        json::write(ui.out(), &answer::to_json(&plan, admitted.as_ref(), written))?;
    }
    Ok(if kept { Exit::Done } else { Exit::Failed })
}

/// The network of the policy, or that of the scenario.
fn network(args: &Args, policy: &Policy, ui: &mut Ui) -> Result<PlannedNetwork, CommandError> {
    let Some(path) = &args.scenario else { return Ok(PlannedNetwork::of_policy(policy, args.min_rto)) };
    let options = ReadOptions { set: Vec::new(), memory: memory::available() };
    let (scenario, notes) = input::scenario(path, &options)??;
    input::print_notes(&notes, ui)?;
    let name = path.display().to_string();
    Ok(PlannedNetwork::of_scenario(policy, args.min_rto, (&name, scenario))?)
}

/// The plan, by the trace too if there is one.
fn with_trace(
    args: &Args,
    policy: &Policy,
    options: &PlanOptions,
    network: &PlannedNetwork,
    ui: &mut Ui,
) -> Result<Plan, CommandError> {
    let ended = |error: AnswerError| match error.is_stopped() {
        true => CommandError::interrupted("the plan was not finished; nothing was written"),
        false => error.into(),
    };
    let Some(path) = &args.trace else { return answer::plan(policy, options, network, None).map_err(ended) };
    let mut monitor = TerminalMonitor::listen(path, ui)?;
    let mut trace = TraceInput::read(trace::name(path), trace::open(path)?, policy, &mut monitor).map_err(ended)?;
    answer::plan(policy, options, network, Some(&mut trace)).map_err(ended)
}

/// The policy, and its file if that is to be written.
fn read(args: &Args, ui: &mut Ui) -> Result<(Option<PolicyFile>, Policy, Option<Admitted>), CommandError> {
    let (file, read) = if args.write.is_some() {
        let (file, source) = PolicyFile::read(&args.policy)?;
        (Some(file), ReadPolicy::from_source(&source)?)
    } else {
        (None, input::admitted_policy(&args.policy)??)
    };
    let ReadPolicy { policy, notes, admitted } = read.with_shaper_remarks();
    input::print_notes(&notes, ui)?;
    Ok((file, policy, admitted))
}

/// The plan of a policy whose only targets are those of latency levels. Targets that are not kept have been refused.
fn plan_levels(
    args: &Args,
    policy: &Policy,
    admitted: &Admitted,
    file: Option<&PolicyFile>,
    ui: &mut Ui,
) -> Result<Exit, CommandError> {
    if let Some(report) = args.report.prepare()? {
        let charts = levels::page::charts(admitted);
        let mut page = Page::new(format!("Latency levels of {}", args.policy.display()));
        for (number, chart) in (1..).zip(charts) {
            report.replace(&format!("levels-{number}.svg"), &chart.to_svg())?;
            page = page.chart(&chart);
        }
        report.replace("plan.json", &json::to_text(&weir_answers::levels::to_json(admitted)))?;
        let path = report.replace("report.html", &page.heading("Again").code(&args.command()).to_html())?;
        ui.notice(&format!("report: {}\n", path.display()))?;
    }
    if args.json {
        json::write(ui.out(), &answer::levels_to_json(admitted))?;
    } else {
        levels::print::print(admitted, ui)?;
        if let Some(chosen) = &admitted.chosen {
            let (level, rate, needed) = chosen.least;
            let generous = format!(
                "chosen: the fewest levels, then the largest rate for what hosts need: level {level} has {} for each \
                 host, which needs {}\n",
                text::rate(rate),
                text::rate(needed)
            );
            ui.print(&format!("\n{}", text::filled(&generous, 100, "  ", "  ")))?;
        }
    }
    if let Some(file) = file {
        let chosen = admitted.chosen.as_ref().ok_or_else(|| {
            CommandError::refused("every level has a number: there is no choice to write").hint("leave `--write` out")
        })?;
        let (changed, _) = policy.write_values(&weir_latency::levels::admit::settings(policy, chosen))?;
        let lines = file.replace(&changed)?;
        if !args.json {
            print::print_changes(&args.policy.display().to_string(), &lines, ui)?;
        }
    }
    Ok(Exit::Done)
}

/// Writes the cap, shows its changes, and returns whether the policy then keeps every target.
fn write(
    args: &Args,
    point: ContentionPoint,
    (policy, plan, options): (&Policy, &Plan, &PlanOptions),
    file: &PolicyFile,
    ui: &mut Ui,
) -> Result<bool, CommandError> {
    let capped = caps::written(policy, plan, options, point)?;
    let lines = file.replace(&capped.text).map_err(|error| error.hint(capped.hint()))?;
    if !args.json {
        print::print_changes(&args.policy.display().to_string(), &lines, ui)?;
        let load = words::load(Some(capped.load));
        ui.print(&match (capped.is_low, capped.is_proven) {
            (true, false) => format!("with it no load is above {load}, but not every target is proven\n"),
            (true, true) => format!("with it every target is kept: no load is above {load}\n"),
            (false, _) => format!("not every target is kept yet: {}\n", caps::as_written(&capped.needed)),
        })?;
    }
    Ok(capped.is_kept())
}

/// Writes the page, a picture for each service, and the plan for programs.
fn write_report(args: &Args, plan: &Plan, report: &ReportFiles, ui: &mut Ui) -> Result<(), CommandError> {
    for service in &plan.services {
        // No name has a `+`, so no two paths have the same picture.
        let name = format!("{}.svg", service.path.replace('/', "+"));
        report.replace(&name, &page::chart(service).to_svg())?;
    }
    report.replace("plan.json", &json::to_text(&answer::to_json(plan, None, None)))?;
    let page = page::page(plan, &args.policy.display().to_string(), &args.command());
    let path = report.replace("report.html", &page.to_html())?;
    Ok(ui.notice(&format!("report: {}\n", path.display()))?)
}

/// A method by its name.
fn method() -> impl TypedValueParser<Value = Method> {
    let named = |name: String| Method::ALL.into_iter().find(|method| method.name() == name).expect("a possible value");
    PossibleValuesParser::new(Method::ALL.map(Method::name)).map(named)
}

impl Args {
    /// The same for the computation.
    fn options(&self, curve: bool) -> PlanOptions {
        PlanOptions {
            at: self.at.clone(),
            capacity: self.capacity,
            load: self.load,
            iterations: self.iterations,
            convergence: self.convergence,
            senders: self.senders,
            by: self.by,
            trace_at: self.trace_at.clone(),
            curve,
        }
    }
    /// The command line that makes the same plan.
    fn command(&self) -> String {
        let mut parts = vec!["weir".to_owned(), "plan".to_owned(), self.policy.display().to_string()];
        let mut option = |name: &str, value: String| parts.extend([name.to_owned(), value]);
        if self.by != Method::Bound {
            option("--by", self.by.name().to_owned());
        }
        for at in &self.at {
            option("--at", at.name().to_owned());
        }
        if let Some(capacity) = self.capacity {
            option("--capacity", capacity.to_string().replace(' ', ""));
        }
        if let Some(load) = self.load {
            option("--load", load.to_string().replace(' ', ""));
        }
        match self.convergence {
            Some(time) => option("--convergence", time.to_string().replace(' ', "")),
            None if self.iterations != 15 => option("--iterations", self.iterations.to_string()),
            None => {}
        }
        if self.senders != 1 {
            option("--senders", self.senders.to_string());
        }
        if let Some(timer) = self.min_rto {
            option("--min-rto", timer.to_string().replace(' ', ""));
        }
        if let Some(scenario) = &self.scenario {
            option("--scenario", scenario.display().to_string());
        }
        if let Some(trace) = &self.trace {
            option("--trace", trace.display().to_string());
        }
        if !self.trace_at.is_empty() {
            let rates: Vec<String> = self.trace_at.iter().map(|rate| rate.to_string().replace(' ', "")).collect();
            option("--trace-at", rates.join(","));
        }
        let parts: Vec<String> = parts.iter().map(|part| text::shell_word(part)).collect();
        parts.join(" ")
    }
}

fn rate(text: &str) -> Result<Bandwidth, String> {
    scalar::rate(text, false, false).map_err(refusal_text)
}

fn percent(text: &str) -> Result<Load, String> {
    let millionths =
        scalar::percent(text, "a load", "a queue that is always full never empties").map_err(refusal_text)?;
    u32::try_from(millionths * 1_000)
        .map_err(|_| "a load is below 100%".to_owned())
        .and_then(|billionths| Load::from_billionths(billionths).map_err(|error| error.to_string()))
}

fn point(text: &str) -> Result<ContentionPoint, String> {
    let names = ContentionPoint::ALL.map(ContentionPoint::name);
    scalar::word(text, "a contention point", &names).map(|index| ContentionPoint::ALL[index]).map_err(refusal_text)
}
