//! Output of a plan for people.

use super::caps;
use super::model::{Found, Plan, ServicePlan};
use super::write::ChangedLine;
use crate::output::{Style, Table, Ui};
use crate::text;
use std::io;
use weir_latency::plan::{Bound, Point, PortNeed, Verdict, in_rows};
use weir_units::Duration;
use weir_units::Load;

/// A load in per cent, at most two decimals; a full point has 100 %.
pub(crate) fn load(load: Option<Load>) -> String {
    match load {
        None => "100 %".to_owned(),
        Some(load) => {
            let percent = format!("{:.2}", load.as_f64() * 100.0);
            format!("{} %", percent.trim_end_matches('0').trim_end_matches('.'))
        }
    }
}

/// A time in four digits.
pub(crate) fn time(time: Duration) -> String {
    text::time(time.as_secs_f64())
}

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

/// The limit of a point's load, as a text.
pub(crate) fn limited_by(point: &Point) -> String {
    let name = point.point;
    match point.bound {
        Bound::Cap => format!("caps.{name}"),
        Bound::Below => "the capacities below it".to_owned(),
        Bound::Evenly => "the uplink's load, spread evenly over the rack".to_owned(),
        Bound::Nothing => format!("nothing limits it: there is no caps.{name}"),
    }
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
        match &estimate.smallest_capacity {
            Ok(capacity) => lines.push(format!(
                "{}: at a load of {} it takes {} instead of {}.",
                service.path,
                load(service.load),
                text::rate(*capacity),
                text::rate(service.capacity)
            )),
            Err(why) if service.load.is_some() => lines.push(format!("{}: {why}", service.path)),
            Err(_) => {}
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
    let mut table = Table::new(&["by", ">time", ">largest load", ">smallest capacity"]);
    for estimate in &service.estimates {
        table.styled([
            (estimate.method.title().to_owned(), Style::Plain),
            (found(&estimate.time, |of| time(*of)), Style::Strong),
            (largest(&estimate.largest_load), Style::Plain),
            (found(&estimate.smallest_capacity, |capacity| text::rate(*capacity)), Style::Plain),
        ]);
    }
    ui.print("\n")?;
    ui.print_table(&table, 2)?;
    if !service.as_it_is.is_empty() {
        let mut table = Table::new(&["trace as it is, at", ">load", ">time"]);
        for at in &service.as_it_is {
            table.row([text::rate(at.capacity), load(at.load), found(&at.time, |of| time(*of))]);
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
