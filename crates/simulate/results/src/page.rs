//! The page of a run, drawn from its results alone.
//!
//! In the order of a reader's questions: the run, the bandwidths of services under a policy, completion times by size
//! and group, then the behaviour over time, then links and counters. A page does not grow with a run's length: lines
//! are thinned to the picture, and of many links or groups only the busiest are shown, with the
//! number of the others.

use crate::bins::SizeBins;
use crate::page_charts as charts;
use crate::page_tables as tables;
use crate::policy::Backend;
use crate::policy_page;
use crate::record::Results;
use crate::statistics::Statistics;
use crate::text;
use weir_report::{Chart, Page, Panel, side_by_side};

/// Fewer intervals than this do not show a course over time.
const FEW: u64 = 20;

/// The page of a run with the default size bins. `command` reproduces the result.
pub fn page(results: &Results, command: &str) -> Page {
    page_with_bins(results, &SizeBins::default(), command)
}

/// The page of a run with bins of one's own.
pub fn page_with_bins(results: &Results, bins: &SizeBins, command: &str) -> Page {
    let mut page = match &results.policy {
        Some(policy) => policy_page::title(results, policy),
        None => Page::new(results.scenario.as_str()).paragraph(&outline(results)),
    };
    if !results.parameters.is_empty() {
        let changes: Vec<String> = results.parameters.iter().map(|(path, value)| format!("{path} = {value}")).collect();
        page = page.paragraph(&format!("Changed in the scenario: {}.", changes.join(", ")));
    }
    if !results.complete {
        page = page.notice(&match &results.policy {
            Some(policy) => policy_page::interrupted(policy),
            None => format!("Interrupted: these are the first {}.", text::time(results.simulated)),
        });
    }
    if let Some(policy) = &results.policy {
        page = policy_page::services(page, policy);
        if results.backend == Backend::Sim {
            page = page.heading("Network").paragraph(&outline(results));
        }
    }
    page = flows(page, results, &Statistics::new(results, bins));
    page = over_time(page, results);
    if !results.links.is_empty() {
        page = page.heading("Links").paragraph(&tables::links_are(results)).table(&tables::links(results));
        if let Some(classes) = tables::classes(results) {
            page = page.heading("Classes").paragraph("Sums over all links.").table(&classes);
        }
    }
    if !results.counters.is_empty() {
        page = page.heading("Counters").table(&tables::counters(results));
    }
    page.heading("Again").code(command)
}

/// Completion times and groups.
fn flows(mut page: Page, results: &Results, statistics: &Statistics) -> Page {
    page = completion(page, results, statistics);
    if let Some(coflows) = tables::coflows(statistics) {
        page = page
            .heading("Coflows")
            .paragraph(
                "Flows that an application waits for together: a round, a shuffle, or a request and its response. \
                 From the start \
                 of the first to the arrival of the last byte of the last.",
            )
            .table(&coflows);
    }
    if !results.flows.is_empty() {
        page = page
            .heading("Groups")
            .paragraph(
                "Goodput is the data delivered to applications over the simulated time; Jain's index is over the \
                 goodputs of flows, each over its own life.",
            )
            .table(&tables::groups(results, statistics));
        if let Some(deadlines) = tables::deadlines(results, statistics) {
            page = page.heading("Deadlines").table(&deadlines);
        }
    }
    page
}

/// Groups, queues and machine shapers over time.
fn over_time(mut page: Page, results: &Results) -> Page {
    let over_time = charts::over_time(results);
    if !over_time.is_empty() {
        page = figures(page.heading("Over time").paragraph(&samples_are(results)), over_time);
    }
    let (queues, watched) = charts::queues(results);
    if !queues.is_empty() {
        let shown = match watched - queues.len() {
            0 => "The watched links, the busiest first.".to_owned(),
            more => format!("The busiest of the watched links; {more} more are in link_samples.csv."),
        };
        let panels: Vec<Panel<'_>> = queues.iter().map(|(name, chart)| Panel::new(name, chart)).collect();
        page = page.heading("Queue lengths").paragraph(&shown).push(side_by_side(&panels));
    }
    let (meters, all) = charts::meters(results);
    if !meters.is_empty() {
        let shown = match all - meters.len() {
            0 => "Received rates of services at each machine, the busiest first, with the allowed and the \
                  advertised rates."
                .to_owned(),
            more => format!(
                "Received rates of services at machines, the busiest first; {more} more are in \
                             meters.csv."
            ),
        };
        let panels: Vec<Panel<'_>> = meters.iter().map(|(name, chart)| Panel::new(name, chart)).collect();
        page = page.heading("Machine shapers").paragraph(&shown).push(side_by_side(&panels));
    }
    page
}

/// Completion times, of finished flows.
fn completion(mut page: Page, results: &Results, statistics: &Statistics) -> Page {
    let all = &statistics.all.all;
    let flows = results.flows.len() as u64;
    if all.unfinished == flows {
        let none = "No flow finished before the end of the run, so there are no completion times.";
        return if flows > 0 { page.paragraph(none) } else { page };
    }
    if all.unfinished > 0 {
        page = page.notice(&format!(
            "{} of {} did not finish. They count as slower than all others: a mean over one of them, and a \
             percentile that falls on one, is not known (–). `result.json` also has the means of the flows that \
             finished.",
            text::whole(all.unfinished),
            text::count(flows, "flow")
        ));
    }
    page = page
        .heading("Completion times")
        .paragraph(
            "From a flow's start to the arrival of its last byte. Percentiles are nearest-rank: of n flows in \
             ascending order, p % is the one at rank p·n/100, rounded up.",
        )
        .table(&tables::times(statistics));
    if all.slowdown.count > 0 {
        page = page
            .heading("Slowdowns")
            .paragraph("The completion time over that on an idle network.")
            .table(&tables::slowdowns(statistics));
    }
    figures(page, charts::of_flows(results, statistics))
}

/// The meaning of a point of the lines over time.
fn samples_are(results: &Results) -> String {
    let samples = results.link_samples.iter().map(|sample| sample.at).max();
    let samples = samples.max(results.group_samples.iter().map(|sample| sample.at).max());
    let mut text = String::from(
        "Goodput counts the data that reached applications, in order: a packet that fills a gap delivers all data \
         that waited behind it, so that for an interval a group may exceed the rate of its link.",
    );
    if let Some((interval, last)) = results.sample_interval.zip(samples) {
        let count = last.picos().div_ceil(interval.picos().max(1));
        text += &format!(" A point is an interval of {}.", text::time(interval));
        if count < FEW {
            let is = if count == 1 { "is" } else { "are" };
            text += &format!(" There {is} only {count}: a shorter `measure.every` shows more.");
        }
    }
    text
}

fn outline(results: &Results) -> String {
    let groups: Vec<String> =
        results.groups.iter().map(|group| format!("{} ({})", group.name, group.transport)).take(8).collect();
    let more = results.groups.len() - groups.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(
        "{} simulated, seed {}. {} between {} over {}. Groups: {}{more}.",
        text::time(results.simulated),
        results.seed,
        text::count(results.flows.len() as u64, "flow"),
        text::count(results.hosts.len() as u64, "host"),
        text::count(results.links.len() as u64, "link"),
        if groups.is_empty() { "none".to_owned() } else { groups.join(", ") },
    )
}

fn figures(page: Page, charts: Vec<Chart>) -> Page {
    charts.iter().fold(page, Page::chart)
}

#[cfg(test)]
#[path = "page_tests.rs"]
pub(crate) mod tests;
