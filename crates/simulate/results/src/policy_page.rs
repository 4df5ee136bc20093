//! The part of a run's page about services: their bandwidths at the measured uplink.
//!
//! Problem: a policy is judged by the bandwidths of services over time and by their means once brokers have settled.
//! Approach: one chart of all services with the uplink's capacity and the phases, and one row for each phase and
//! service.
//!
//! Worked example: services `a` and `b`, where `b` starts at 20 s of 60 s, have a chart of two lines with the phases
//! "a" and "a and b", and four rows of means.

use crate::policy::{Backend, Phase, PolicyResults, ServiceSample};
use crate::record::Results;
use crate::series::seconds;
use crate::text::UNKNOWN;
use weir_report::{Axis, Chart, Page, Reference, Series, Table, Unit};
use weir_units::{Bandwidth, SimTime};

/// The beginning of the page: title, measuring point and enforcement.
pub(crate) fn title(results: &Results, policy: &PolicyResults) -> Page {
    let how = match results.backend {
        Backend::Sim => "simulated",
        Backend::Lab => "measured on Linux",
    };
    let measure = &policy.measure;
    Page::new(format!("{} ({how})", results.scenario)).paragraph(&format!(
        "Bandwidth of each service at the uplink of rack {} ({}), as the mean of every {}. Enforcement: {}. Seed {}.",
        measure.rack,
        measure.direction,
        in_seconds(measure.every),
        policy.enforcement,
        results.seed
    ))
}

/// The notice of a run that was interrupted.
pub(crate) fn interrupted(policy: &PolicyResults) -> String {
    let until = policy.samples.last().map_or(SimTime::ZERO, |sample| sample.at);
    format!("Interrupted: this is the beginning, {} of {}.", in_seconds(until), in_seconds(policy.duration))
}

/// The chart and the tables of services; nothing without services that send at the measured uplink.
pub(crate) fn services(page: Page, policy: &PolicyResults) -> Page {
    if policy.services.is_empty() {
        return page;
    }
    page.chart(&chart(policy))
        .heading("Mean bandwidth by phase")
        .paragraph(
            "Settled is the mean of the phase's second half. The first seconds of a phase are the brokers' reaction.",
        )
        .table(&means(policy))
        .heading("Connections")
        .table(&transfers(policy))
}

/// The time series as a chart.
fn chart(policy: &PolicyResults) -> Chart {
    let mut chart = Chart::new(Axis::new("time", Unit::Time), Axis::new("bandwidth", Unit::Bandwidth));
    (chart.x.from, chart.x.to) = (Some(0.0), Some(seconds(policy.duration)));
    for service in &policy.services {
        // A sample is the mean of its interval, so its point is the middle.
        let point = |sample: &ServiceSample| {
            let bps = sample.bandwidth.get(service).map_or(f64::NAN, |rate| rate.bps() as f64);
            (seconds(sample.at) - seconds(policy.measure.every) / 2.0, bps)
        };
        chart.series.push(Series::new(service.clone(), policy.samples.iter().map(point).collect()));
    }
    let capacity = policy.measure.capacity;
    chart.references_are = "capacity".to_owned();
    chart.references.push(Reference::new(rate(capacity), capacity.bps() as f64));
    let phase = |phase: &Phase| weir_report::Phase::new(sending(phase), seconds(phase.from), seconds(phase.to));
    chart.phases = policy.phases.iter().map(phase).collect();
    chart
}

/// The sending services as a text.
fn sending(phase: &Phase) -> String {
    /// The number of services that a label has room for.
    const NAMED: usize = 4;
    match phase.sending.as_slice() {
        [] => "idle".to_owned(),
        [one] => one.clone(),
        all if all.len() > NAMED => format!("{} and {} more", all[..NAMED].join(", "), all.len() - NAMED),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn rate(rate: Bandwidth) -> String {
    if rate.is_unlimited() { "unlimited".to_owned() } else { Unit::Bandwidth.format(rate.bps() as f64) }
}

/// `2 s`, `0.5 s`.
fn in_seconds(time: SimTime) -> String {
    format!("{} s", seconds(time))
}

/// Rows of (from, to, sending services, service, mean, settled), for every phase and service.
pub fn mean_rows(policy: &PolicyResults) -> Vec<[String; 6]> {
    let known = |mean: Option<&Option<Bandwidth>>| mean.copied().flatten().map_or(UNKNOWN.to_owned(), rate);
    let mut rows = Vec::new();
    for phase in &policy.phases {
        for service in &policy.services {
            rows.push([
                in_seconds(phase.from),
                in_seconds(phase.to),
                sending(phase),
                service.clone(),
                known(phase.mean.get(service)),
                known(phase.settled.get(service)),
            ]);
        }
    }
    rows
}

fn means(policy: &PolicyResults) -> Table {
    let mut table =
        Table::new().number("from").number("to").text("sending").text("service").number("mean").number("settled");
    for row in mean_rows(policy) {
        table.row(row);
    }
    table
}

fn transfers(policy: &PolicyResults) -> Table {
    let mut table =
        Table::new().text("service").number("flows").number("delivered").number("retransmissions").number("timeouts");
    for transfer in &policy.transfers {
        table.row([
            transfer.service.clone(),
            transfer.flows.to_string(),
            Unit::Size.format(transfer.delivered_bytes as f64),
            transfer.retransmissions.to_string(),
            transfer.timeouts.map_or(UNKNOWN.to_owned(), |timeouts| timeouts.to_string()),
        ]);
    }
    table
}
