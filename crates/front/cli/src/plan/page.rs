//! A plan drawn: for each service the curves of all methods against the load, with the target and the estimate.

use super::print;
use crate::text;
use weir_answers::plan::{Method, Plan, ServicePlan, caps, words};
use weir_latency::plan::in_rows;
use weir_latency::{BurstBound, Mm1};
use weir_report::{Axis, Chart, Marker, Page, Reference, Series, Table, Unit};
use weir_units::{Duration, Load, Quantile};

/// Points of a curve: a third of a per cent apart.
const STEPS: u32 = 300;
/// The height of the chart in targets: longer times do not matter.
const TARGETS: f64 = 3.0;

/// The page of a plan. `command` makes the same plan again.
pub(crate) fn page(plan: &Plan, policy: &str, command: &str) -> Page {
    let mut page = Page::new(format!("Latency plan of {policy}"));
    let advice = print::advice(plan);
    if plan.is_kept() {
        page = page.notice("The policy keeps every target.");
    }
    for line in &advice {
        page = page.notice(line);
    }
    if let Some(trace) = &plan.trace {
        page = page.paragraph(&format!("Trace {}.", print::summary(trace)));
        if trace.has_strange_times() {
            page = page.paragraph(&format!("Remark: {}.", print::STRANGE_TIMES));
        }
    }
    for service in &plan.services {
        page = page
            .heading(&service.path)
            .paragraph(&format!(
                "{}. Planned for {} ({}) under a load of {} ({}).",
                print::target(service),
                text::rate(service.capacity),
                service.capacity_from,
                words::load(service.load),
                service.load_from
            ))
            .chart(&chart(service))
            .table(&estimates(service))
            .table(&buffers(service));
        for doubt in service.doubts() {
            page = page.paragraph(&format!("Unproven: {doubt}."));
        }
        if service.may_lose() {
            page = page.paragraph(&format!("Unproven: {}.", print::cost_of_a_loss(service)));
        }
        for estimate in &service.estimates {
            page = page.paragraph(&format!("{}: {}.", estimate.method.title(), estimate.assumes));
        }
        for line in &service.assumes {
            page = page.paragraph(&format!("All: {line}."));
        }
    }
    page.heading("Where messages contend").table(&points(plan)).heading("Again").code(command)
}

/// The curves of one service.
pub(crate) fn chart(service: &ServicePlan) -> Chart {
    let mut chart =
        Chart::new(Axis::new("peak load", Unit::Plain("%".to_owned())), Axis::new("completion time", Unit::Time));
    chart.title =
        format!("{}: completion time of {} at {}", service.path, service.target.message, text::rate(service.capacity));
    let target = service.target.p99.as_secs_f64();
    let most = target * TARGETS;
    (chart.x.from, chart.x.to) = (Some(0.0), Some(100.0));
    (chart.y.from, chart.y.to) = (Some(0.0), Some(most));

    let bound = BurstBound { burst: service.burst, message: service.target.message };
    let mm1 = Mm1::new(service.target.message, Quantile::P99);
    let at = |load: Load| (load, bound.completion_time(service.capacity, load).ok());
    chart.series.push(Series::new("burst bound", visible(loads().map(at), most)));
    if let Ok(mm1) = mm1 {
        let at = |load: Load| (load, mm1.completion_time(service.capacity, load).ok());
        chart.series.push(Series::new("M/M/1, 99th percentile", visible(loads().map(at), most)));
    }
    if !service.trace_curve.is_empty() {
        let points = service.trace_curve.iter().map(|(load, time)| (*load, Some(*time)));
        chart.series.push(Series::marked("trace, 99th percentile", visible(points, most), Vec::new()));
    }
    chart.references_are = "target".to_owned();
    chart.references.push(Reference::new(service.target.p99.to_string(), target));
    if let Some(load) = service.load {
        chart.markers.push(Marker::new(format!("planned: {}", words::load(Some(load))), load.as_f64() * 100.0));
    }
    if let Some(Ok(Some(most))) = service.deciding().map(|estimate| &estimate.largest_load) {
        chart.markers.push(Marker::new(format!("largest: {}", words::load(Some(*most))), most.as_f64() * 100.0));
    }
    chart
}

/// Loads from nearly none to nearly all.
fn loads() -> impl Iterator<Item = Load> {
    (0..STEPS).filter_map(|step| Load::from_billionths((step * (1_000_000_000 / STEPS)).max(1_000_000)).ok())
}

/// The part of a curve inside the chart.
fn visible(points: impl Iterator<Item = (Load, Option<Duration>)>, most: f64) -> Vec<(f64, f64)> {
    points
        .map(|(load, time)| (load.as_f64() * 100.0, time.map_or(f64::INFINITY, Duration::as_secs_f64)))
        .filter(|(_, time)| *time <= most)
        .collect()
}

fn estimates(service: &ServicePlan) -> Table {
    let [at, for_traffic] = print::capacity_heads(service);
    let table = Table::new().text("by").number("time").number("largest load");
    let mut table = table.number(&at).number(&for_traffic).text("");
    for estimate in &service.estimates {
        let none = || "none".to_owned();
        let decides = if estimate.method == service.by { print::verdict(service) } else { String::new() };
        table.row([
            estimate.method.title().to_owned(),
            estimate.time.as_ref().map_or_else(|_| none(), |time| words::time(*time)),
            print::largest(&estimate.largest_load),
            estimate.capacity_at_load.as_ref().map_or_else(|_| none(), |capacity| text::rate(*capacity)),
            estimate.capacity_for_traffic.as_ref().map_or_else(|_| none(), |capacity| text::rate(*capacity)),
            if decides.is_empty() { decides } else { format!("decides: {}, {decides}", service.verdict().name()) },
        ]);
    }
    for [capacity, load, time] in print::as_it_is_rows(service) {
        let name = format!("{} as it is, at {capacity}", Method::Trace.title());
        let load = if load.is_empty() { load } else { format!("a load of {load}") };
        table.row([name, time, String::new(), String::new(), String::new(), load]);
    }
    table
}

fn buffers(service: &ServicePlan) -> Table {
    let mut table = Table::new().text("buffer of each port at").text("direction").number("needed").number("stated");
    for (need, directions) in print::buffer_rows(service) {
        let name = weir_latency::plan::points::name(need.point).to_owned();
        table.row([name, directions.to_owned(), need.needed.to_string(), print::stated(need)]);
    }
    table
}

fn points(plan: &Plan) -> Table {
    let mut table = Table::new()
        .text("where")
        .text("direction")
        .number("capacity")
        .number("peak load")
        .text("because of")
        .text("cap");
    for (point, directions) in in_rows(&plan.points) {
        let cap = plan.caps.iter().find(|needed| needed.point == point.point);
        table.row([
            weir_latency::plan::points::name(point.point).to_owned(),
            directions.to_owned(),
            text::rate(point.capacity),
            words::load(point.load),
            words::limited_by(point),
            cap.map_or(String::new(), |needed| caps::as_written(std::slice::from_ref(needed))),
        ]);
    }
    table
}
