//! Output of a plan for people.

use super::write::ChangedLine;
use crate::output::{Style, Table, Ui};
use crate::text;
use std::io;
use weir_answers::plan::words::{limited_by, load, percent, time};
use weir_answers::plan::{AsItIs, Found, Plan, ServicePlan, TraceSummary, caps};
use weir_latency::plan::{Bound, PortNeed, Verdict, in_rows};
use weir_units::Load;

/// The highest load that keeps a target.
pub(crate) fn largest(found: &Found<Option<Load>>) -> String {
    match found {
        Ok(Some(most)) => load(Some(*most)),
        Ok(None) => "any".to_owned(),
        Err(_) => "none".to_owned(),
    }
}

fn found<T>(found: &Found<T>, shown: impl Fn(&T) -> String) -> String {
    found.as_ref().map_or("none".to_owned(), shown)
}

/// The heads of the columns of smallest capacities. Each names the part of the queue that it holds.
pub(crate) fn capacity_heads(service: &ServicePlan) -> [String; 2] {
    let held = [format!("at {}", load(service.load)), format!("for {}", text::rate(service.traffic()))];
    held.map(|held| format!("smallest capacity {held}"))
}

/// A trace in one line.
pub(crate) fn summary(trace: &TraceSummary) -> String {
    let (messages, size) = (text::whole(trace.messages), weir_report::Unit::Size.format(trace.bytes as f64));
    let offered = if trace.offered.bps() == 0 { "< 1 b/s".to_owned() } else { text::rate(trace.offered) };
    let [span, gap] = [trace.span, trace.longest_gap].map(|time| text::about(time.as_secs_f64()));
    format!("{}: {messages} messages, {size} in {span}; {offered} on average, the longest gap {gap}", trace.name)
}

/// The remark on a trace whose times may be in another unit.
pub(crate) const STRANGE_TIMES: &str = "times are read in the unit of their column: seconds under `time`, other units \
                                        under `time_ms`, `time_us`, `time_ns` and `time_ps`";

/// The rows of a trace as it is: capacity, load and time.
pub(crate) fn as_it_is_rows(service: &ServicePlan) -> Vec<[String; 3]> {
    let row =
        |at: &AsItIs, which: &str| [text::rate(at.capacity) + which, percent(at.load), found(&at.time, |of| time(*of))];
    let mut rows: Vec<_> = service.as_it_is.iter().map(|at| row(at, "")).collect();
    match &service.as_it_is_smallest {
        Some(Ok(at)) => rows.push(row(at, " (the smallest)")),
        Some(Err(_)) => rows.push(["none (the smallest)".to_owned(), String::new(), String::new()]),
        None => {}
    }
    rows
}

/// `99 of 100 messages of 1 MB within 20 ms`.
pub(crate) fn target(service: &ServicePlan) -> String {
    format!("99 of 100 messages of {} within {}", service.target.message, service.target.p99)
}

/// Whether a service's target is kept, and by how much.
pub(crate) fn verdict(service: &ServicePlan) -> String {
    let Some(estimate) = service.deciding() else { return String::new() };
    let by = format!("by the {}", estimate.method.title());
    match (service.verdict(), &estimate.time) {
        (verdict, Ok(of)) => {
            let relation = if verdict == Verdict::NotKept { "not within" } else { "within" };
            format!("{by}: {} at a load of {}, {relation} {}", time(*of), load(service.load), service.target.p99)
        }
        (_, Err(why)) => format!("{by}: {why}"),
    }
}

/// The cost of a loss, in one line.
pub(crate) fn cost_of_a_loss(service: &ServicePlan) -> String {
    let (Some(shortest), Some(one), Some(two)) =
        (service.timer.shortest, service.with_timeouts(1), service.with_timeouts(2))
    else {
        return "a lost packet is not sent again".to_owned();
    };
    format!(
        "a lost packet may wait for the retransmission timer, at least {shortest} ({}): {} with one timeout, {} with \
         two",
        service.timer.from,
        time(one),
        time(two)
    )
}

/// A buffer for people.
pub(crate) fn stated(need: &PortNeed) -> String {
    need.stated.map_or("none".to_owned(), |stated| stated.to_string())
}

/// Ports with equal needs in both directions have one row.
pub(crate) fn buffer_rows(service: &ServicePlan) -> Vec<(&PortNeed, &'static str)> {
    let mut rows: Vec<(&PortNeed, &'static str)> = Vec::new();
    for need in &service.needs {
        match rows.last_mut() {
            Some((last, directions)) if PortNeed { direction: need.direction, ..**last } == *need => {
                *directions = "tx, rx";
            }
            _ => rows.push((need, need.direction.name())),
        }
    }
    rows
}

/// Proposals that would keep all targets.
pub(crate) fn advice(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    if !plan.exceeds_a_target() {
        let unproven = plan.services.iter().filter(|service| service.verdict() == Verdict::Unproven);
        lines.extend(unproven.map(|service| {
            let (path, target) = (&service.path, service.target.p99);
            format!("{path}: the bound is within {target}, but not every premise of it is known to hold.")
        }));
        return lines;
    }
    match &plan.most {
        Err(why) => lines.push(format!("No load keeps every target: {why}")),
        Ok(most) => {
            let most = load(*most);
            if plan.caps.is_empty() {
                lines.push(format!("A load of at most {most} keeps every target; the policy's caps limit it to that."));
            } else {
                let caps = caps::as_written(&plan.caps);
                lines.push(format!("A load of at most {most} keeps every target: {caps}"));
            }
        }
    }
    if let Some(refused) = &plan.refused {
        lines.push(format!("With these caps the policy would be refused: {refused}"));
    }
    for service in plan.services.iter().filter(|service| service.verdict() == Verdict::NotKept) {
        let Some(estimate) = service.deciding() else { continue };
        if service.load.is_none() {
            continue;
        }
        for (capacity, held) in [
            (&estimate.capacity_at_load, format!("at a load of {}", load(service.load))),
            (&estimate.capacity_for_traffic, format!("for {} of traffic", text::rate(service.traffic()))),
        ] {
            let path = &service.path;
            lines.push(match capacity {
                Ok(capacity) => {
                    let (capacity, planned) = (text::rate(*capacity), text::rate(service.capacity));
                    format!("{path}: {held} it takes {capacity} instead of {planned}.")
                }
                Err(why) => format!("{path}: {why}"),
            });
        }
    }
    lines
}

/// Prints the plan.
pub(crate) fn print(plan: &Plan, ui: &mut Ui) -> io::Result<()> {
    let mut table = Table::new(&["where", "direction", ">capacity", ">peak load", "because of"]);
    for (point, directions) in in_rows(&plan.points) {
        let style = if point.bound == Bound::Nothing { Style::Limited } else { Style::Plain };
        table.styled([
            (weir_latency::plan::points::name(point.point).to_owned(), Style::Plain),
            (directions.to_owned(), Style::Plain),
            (text::rate(point.capacity), Style::Plain),
            (load(point.load), style),
            (limited_by(point), style),
        ]);
    }
    ui.print_table(&table, 0)?;
    if let Some(trace) = &plan.trace {
        ui.print(&format!("\n{}", text::wrapped(&format!("trace {}", summary(trace)), 0)))?;
        if trace.has_strange_times() {
            ui.print(&text::wrapped(STRANGE_TIMES, 2))?;
        }
    }
    for service in &plan.services {
        print_service(service, ui)?;
    }
    let advice = advice(plan);
    if !advice.is_empty() {
        ui.print("\n")?;
    }
    for line in advice {
        ui.print(&text::wrapped(&line, 0))?;
    }
    Ok(())
}

fn print_service(service: &ServicePlan, ui: &mut Ui) -> io::Result<()> {
    let path = ui.on_out(Style::Strong, &service.path);
    ui.print(&format!("\n{path}: {}\n", target(service)))?;
    let planned = format!(
        "planned for {} ({}) under a load of {} ({})",
        text::rate(service.capacity),
        service.capacity_from,
        load(service.load),
        service.load_from
    );
    ui.print(&text::wrapped(&planned, 2))?;
    let [at, for_traffic] = capacity_heads(service).map(|head| format!(">{head}"));
    let mut table = Table::new(&["by", ">time", ">largest load", &at, &for_traffic]);
    for estimate in &service.estimates {
        table.styled([
            (estimate.method.title().to_owned(), Style::Plain),
            (found(&estimate.time, |of| time(*of)), Style::Strong),
            (largest(&estimate.largest_load), Style::Plain),
            (found(&estimate.capacity_at_load, |capacity| text::rate(*capacity)), Style::Plain),
            (found(&estimate.capacity_for_traffic, |capacity| text::rate(*capacity)), Style::Plain),
        ]);
    }
    ui.print("\n")?;
    ui.print_table(&table, 2)?;
    if !service.as_it_is.is_empty() {
        let mut table = Table::new(&["trace as it is, at", ">load", ">time"]);
        for row in as_it_is_rows(service) {
            table.row(row);
        }
        ui.print("\n")?;
        ui.print_table(&table, 2)?;
    }
    ui.print("\n")?;
    print_buffers(service, ui)?;
    for estimate in &service.estimates {
        ui.print(&text::wrapped(&format!("{}: {}", estimate.method.title(), estimate.assumes), 2))?;
    }
    for line in &service.assumes {
        ui.print(&text::wrapped(&format!("all: {line}"), 2))?;
    }
    let style = match service.verdict() {
        Verdict::Kept => Style::Good,
        Verdict::NotKept => Style::Error,
        Verdict::Unproven => Style::Limited,
    };
    let name = ui.on_out(style, service.verdict().name());
    ui.print(&format!("  {name} {}\n", verdict(service)))?;
    for doubt in service.doubts() {
        ui.print(&text::wrapped(&format!("unproven: {doubt}"), 2))?;
    }
    if service.may_lose() {
        ui.print(&text::wrapped(&format!("unproven: {}", cost_of_a_loss(service)), 2))?;
    }
    Ok(())
}

/// The buffers that the bound needs, beside the network's.
fn print_buffers(service: &ServicePlan, ui: &mut Ui) -> io::Result<()> {
    if service.needs.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["buffer of each port at", "direction", ">needed", ">stated"]);
    for (need, directions) in buffer_rows(service) {
        let style = if need.is_met() { Style::Plain } else { Style::Limited };
        table.styled([
            (weir_latency::plan::points::name(need.point).to_owned(), Style::Plain),
            (directions.to_owned(), Style::Plain),
            (need.needed.to_string(), Style::Plain),
            (stated(need), style),
        ]);
    }
    ui.print_table(&table, 2)?;
    ui.print("\n")
}

/// The changes of `--write` to a file.
pub(crate) fn print_changes(name: &str, lines: &[ChangedLine], ui: &mut Ui) -> io::Result<()> {
    if lines.is_empty() {
        return ui.print(&format!("\n{name}: the cap is there already\n"));
    }
    ui.print(&format!("\n{name}: written\n"))?;
    for line in lines {
        for (sign, content, style) in [("-", &line.was, Style::Limited), ("+", &line.is, Style::Good)] {
            // The end of the last line is no line.
            let Some(content) = content.as_ref().filter(|content| !content.is_empty()) else { continue };
            let shown = format!("{:>4} {sign} {content}", line.number);
            ui.print(&format!("{}\n", ui.on_out(style, &shown)))?;
        }
    }
    Ok(())
}
