//! `report.html`: a run drawn, from its `result.json` alone.

use crate::run_file::{PhaseEntry, RunFile};
use crate::text;
use weir_report::{Axis, Chart, Page, Phase, Reference, Series, Table, Unit};

/// The page of a run. `command` makes the same result again.
pub fn page(run: &RunFile, command: &str) -> Page {
    let how = if run.backend == "sim" { "simulated" } else { "measured on Linux" };
    let mut page = Page::new(format!("{} ({how})", run.scenario)).paragraph(&format!(
        "Bandwidth of each service at the uplink of rack {} ({}), as the mean of every {} s. Enforcement: {}. Seed {}.",
        run.measure.rack, run.measure.direction, run.measure.every_s, run.enforcement, run.seed
    ));
    if !run.complete {
        let until = run.samples.last().map_or(0.0, |sample| sample.at_s);
        page = page.notice(&format!("Interrupted: this is the beginning, {until} s of {} s.", run.duration_s));
    }
    page.chart(&chart(run))
        .heading("Mean bandwidth by phase")
        .paragraph(
            "Settled is the mean of the phase's second half. The first seconds of a phase are the brokers' reaction.",
        )
        .table(&means(run))
        .heading("Connections")
        .table(&transfers(run))
        .heading("Counters")
        .table(&counters(run))
        .heading("Again")
        .code(command)
}

/// The time series as a chart.
pub fn chart(run: &RunFile) -> Chart {
    let mut chart = Chart::new(Axis::new("time", Unit::Time), Axis::new("bandwidth", Unit::Bandwidth));
    (chart.x.from, chart.x.to) = (Some(0.0), Some(run.duration_s));
    for service in &run.services {
        // A sample is the mean of its interval, so its point is the middle.
        let point = |sample: &crate::run_file::SampleEntry| {
            let bps = sample.bandwidth_bps.get(service).map_or(f64::NAN, |bps| *bps as f64);
            (sample.at_s - run.measure.every_s / 2.0, bps)
        };
        chart.series.push(Series::new(service.clone(), run.samples.iter().map(point).collect()));
    }
    let capacity = run.measure.capacity_bps;
    chart.references_are = "capacity".to_owned();
    chart.references.push(Reference::new(Unit::Bandwidth.format(capacity as f64), capacity as f64));
    chart.phases = run.phases.iter().map(|phase| Phase::new(sending(phase), phase.from_s, phase.to_s)).collect();
    chart
}

/// The sending services as a text.
pub fn sending(phase: &PhaseEntry) -> String {
    if phase.sending.is_empty() { "idle".to_owned() } else { text::list(&phase.sending, 4) }
}

fn rate(bps: Option<&Option<u64>>) -> String {
    bps.copied().flatten().map_or("–".to_owned(), |bps| Unit::Bandwidth.format(bps as f64))
}

/// Rows of (from, to, sending services, service, mean, settled), for every phase and service.
pub fn mean_rows(run: &RunFile) -> Vec<[String; 6]> {
    let mut rows = Vec::new();
    for phase in &run.phases {
        for service in &run.services {
            rows.push([
                format!("{} s", phase.from_s),
                format!("{} s", phase.to_s),
                sending(phase),
                service.clone(),
                rate(phase.mean_bps.get(service)),
                rate(phase.settled_bps.get(service)),
            ]);
        }
    }
    rows
}

fn means(run: &RunFile) -> Table {
    let mut table =
        Table::new().number("from").number("to").text("sending").text("service").number("mean").number("settled");
    for row in mean_rows(run) {
        table.row(row);
    }
    table
}

fn transfers(run: &RunFile) -> Table {
    let mut table =
        Table::new().text("service").number("flows").number("delivered").number("retransmissions").number("timeouts");
    for transfer in &run.transfers {
        table.row([
            transfer.service.clone(),
            transfer.flows.to_string(),
            Unit::Size.format(transfer.delivered_bytes as f64),
            transfer.retransmissions.to_string(),
            transfer.timeouts.map_or("–".to_owned(), |timeouts| timeouts.to_string()),
        ]);
    }
    table
}

fn counters(run: &RunFile) -> Table {
    let mut table = Table::new().text("counter").number("value");
    for (name, value) in &run.counters {
        table.row([name.replace('_', " "), value.to_string()]);
    }
    table
}
