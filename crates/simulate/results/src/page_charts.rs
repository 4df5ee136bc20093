//! The charts of a run's page.

use crate::page_tables::busiest;
use crate::record::{FlowRecord, Group, Results};
use crate::series::{self, seconds};
use crate::statistics::{BinStatistics, GroupStatistics, Statistics};
use crate::text::bin;
use std::collections::BTreeMap;
use weir_report::{Axis, Chart, Series, Unit};
use weir_units::{MachineId, SimTime};

/// The most lines in a chart: as many as colours distinguish.
const LINES: usize = 6;
/// The most groups whose bars are drawn beside each other; beyond, the bars are of all flows.
const BARRED: usize = 4;
/// The size of a chart that is drawn beside another, in pixels: two fit on a screen of 1100.
pub(crate) const PANEL: (u32, u32) = (560, 300);
/// From this factor between the largest and the smallest slowdown on, bars have a logarithmic axis.
const WIDE: f64 = 20.0;

fn plain(unit: &str) -> Unit {
    Unit::Plain(unit.to_owned())
}

/// A chart with a title; `shown` of `all` lines, with a remark if some are omitted.
fn titled(title: &str, (shown, all): (usize, usize), of: &str, x: Axis, y: Axis) -> Chart {
    let left_out = if shown < all { format!(" ({shown} of {all} {of})") } else { String::new() };
    Chart { title: format!("{title}{left_out}"), ..Chart::new(x, y) }
}

/// The line of a group, in the colour that it has in every chart.
fn of_group(index: u32, line: Series) -> Series {
    let index = index as usize;
    line.look(index % LINES, index >= LINES)
}

/// Distributions of slowdowns and completion times, and slowdowns by size.
pub(crate) fn of_flows(results: &Results, statistics: &Statistics) -> Vec<Chart> {
    let mut charts = Vec::new();
    let slowdown = distribution(results, "Slowdown", Axis::log("slowdown", plain("")), |flow| {
        (flow.ideal > SimTime::ZERO).then(|| flow.slowdown())
    });
    charts.extend(slowdown);
    charts.extend(by_size(statistics));
    charts.extend(distribution(results, "Completion time", Axis::log("completion time", Unit::Time), |flow| {
        Some(flow.completion_time().map(seconds))
    }));
    charts
}

/// The distribution of `value`, by group: none for flows that do not count, `Some(None)` for
/// unfinished ones.
fn distribution(
    results: &Results,
    title: &str,
    x: Axis,
    value: impl Fn(&FlowRecord) -> Option<Option<f64>>,
) -> Option<Chart> {
    let mut values: Vec<(Vec<f64>, u64)> = vec![(Vec::new(), 0); results.groups.len()];
    for flow in &results.flows {
        let Some((known, unknown)) = values.get_mut(flow.group as usize) else { continue };
        match value(flow) {
            Some(Some(value)) => known.push(value),
            Some(None) => *unknown += 1,
            None => {}
        }
    }
    let mut series: Vec<Series> = Vec::new();
    let with_values = (0..).zip(&results.groups).zip(values).filter(|(_, (known, _))| !known.is_empty());
    series.extend(
        with_values.map(|((index, group), (known, unknown))| {
            of_group(index, Series::cdf(group.name.as_str(), known, unknown))
        }),
    );
    let all = series.len();
    series.truncate(LINES);
    let y = Axis { to: Some(1.0), ..Axis::new("share of flows", plain("")) };
    let chart = titled(&format!("{title}: cumulative distribution"), (series.len(), all), "groups", x, y);
    (!series.is_empty()).then_some(Chart { series, ..chart })
}

/// Median and 99th percentile of slowdowns in the size bins that have flows.
fn by_size(statistics: &Statistics) -> Option<Chart> {
    let all = &statistics.all;
    let used: Vec<usize> = (0..all.bins.len()).filter(|i| all.bins[*i].slowdown.count > 0).collect();
    let groups: Vec<&GroupStatistics> = match statistics.groups.len() {
        0 => return None,
        1..=BARRED => statistics.groups.iter().collect(),
        _ => vec![all],
    };
    let x = Axis::new("flow size", plain(""));
    let title = "Slowdown by flow size: median and 99th percentile";
    let mut chart = titled(title, (1, 1), "", x, Axis::new("slowdown", plain("")));
    chart.categories = used.iter().map(|i| bin(all.bins[*i].bin)).collect();
    for (colour, group) in groups.into_iter().enumerate() {
        let name = |what: &str| format!("{} {what}", if group.name.is_empty() { "all flows" } else { &group.name });
        // No bar and no dash where the group has no flows of a size.
        let here = |point: &(f64, f64)| group.bins[used[point.0 as usize]].slowdown.count > 0;
        let mut add = |what: &str, of: fn(&BinStatistics) -> Option<f64>, second: bool| {
            let mut bars = Series::bars(name(what), used.iter().map(|i| of(&group.bins[*i]))).look(colour, second);
            bars.points.retain(here);
            if !bars.points.is_empty() {
                chart.series.push(bars);
            }
        };
        add("p50", |of| of.slowdown.p50, true);
        add("p99", |of| of.slowdown.p99, false);
    }
    let values = chart.series.iter().flat_map(|series| &series.points).map(|point| point.1);
    let (least, most) = values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, 0.0f64), |(least, most), value| (least.min(value), most.max(value)));
    if most / least > WIDE {
        chart.y = Axis { from: Some(least.min(1.0)), ..Axis::log("slowdown", plain("")) };
    }
    (!used.is_empty() && most > 0.0).then_some(chart)
}

/// From the start of the run to its end.
fn time_axis(results: &Results) -> Axis {
    let end = Some(seconds(results.simulated)).filter(|end| *end > 0.0);
    Axis { from: Some(0.0), to: end, ..Axis::new("time", Unit::Time) }
}

/// Goodput of groups, fairness and utilisation of links, by time.
pub(crate) fn over_time(results: &Results) -> Vec<Chart> {
    let mut charts = Vec::new();
    let mut add = |title: &str, of: &str, y: Axis, lines: Vec<Series>| {
        let lines: Vec<Series> =
            lines.into_iter().filter(|line| line.points.iter().any(|at| at.1.is_finite())).collect();
        if !lines.is_empty() {
            let shown = lines.len().min(LINES);
            let chart = titled(title, (shown, lines.len()), of, time_axis(results), y);
            charts.push(Chart { series: lines.into_iter().take(LINES).collect(), ..chart });
        }
    };
    let goodput = |(index, group): (u32, &Group)| {
        of_group(index, Series::new(group.name.as_str(), series::goodput(results, index)))
    };
    let lines = (0..).zip(&results.groups).map(goodput).collect();
    add("Goodput", "groups", Axis::new("goodput", Unit::Bandwidth), lines);
    let index = Axis { to: Some(1.0), ..Axis::new("Jain's index", plain("")) };
    add("Fairness between flows", "lines", index, fairness(results));

    let watched = busiest_watched(results);
    let by_link = |points: &dyn Fn(u32) -> Vec<(f64, f64)>| -> Vec<Series> {
        watched.iter().map(|link| Series::new(results.links[*link as usize].name.as_str(), points(*link))).collect()
    };
    let percent = Axis { to: Some(100.0), ..Axis::new("utilisation", plain("%")) };
    let used = |link| series::utilisation(results, link).into_iter().map(|(at, share)| (at, share * 100.0)).collect();
    add("Link utilisation", "watched links", percent, by_link(&used));
    charts
}

/// Jain's index between all flows, and between those of each group that has several: one flow is
/// always fair to itself.
fn fairness(results: &Results) -> Vec<Series> {
    let mut flows = vec![0u64; results.groups.len()];
    for flow in &results.flows {
        if let Some(count) = flows.get_mut(flow.group as usize) {
            *count += 1;
        }
    }
    let all = Series::new("all flows", series::fairness_of_all(results)).look(LINES - 1, true);
    let several = (0..).zip(&results.groups).zip(&flows).filter(|(_, flows)| **flows > 1);
    let groups = several
        .map(|((index, group), _)| of_group(index, Series::new(group.name.as_str(), series::fairness(results, index))));
    // With one group, all flows are its flows.
    let all = Some(all).filter(|_| results.groups.len() > 1);
    all.into_iter().chain(groups).collect()
}

/// Queue lengths by time, a chart for each of the busiest watched links: several in one would hide
/// each other. With the number of watched links.
pub(crate) fn queues(results: &Results) -> (Vec<(&str, Chart)>, usize) {
    let links = busiest_watched(results);
    let chart = |link: &u32| {
        let samples = series::queue(results, *link);
        let mut chart = Chart::new(time_axis(results), Axis::new("bytes waiting", Unit::Size));
        chart.size = PANEL;
        let line = |of: fn(&(f64, u64, u64)) -> u64| samples.iter().map(|at| (at.0, of(at) as f64)).collect();
        chart.series.push(Series::new("most in the interval", line(|at| at.2)).look(LINES - 1, false));
        chart.series.push(Series::new("at its end", line(|at| at.1)).look(0, false));
        (results.links[*link as usize].name.as_str(), chart)
    };
    (links.iter().take(LINES).map(chart).collect(), links.len())
}

/// The rates of machine shapers for the services that received most at a machine, a chart for each:
/// received, allowed, and advertised to each sender. With the number of all that received anything.
pub(crate) fn meters(results: &Results) -> (Vec<(String, Chart)>, usize) {
    let mut received: BTreeMap<(MachineId, u32), u64> = BTreeMap::new();
    for sample in &results.meter_samples {
        *received.entry((sample.host, sample.service)).or_default() += sample.received;
    }
    let mut busiest: Vec<_> = received.into_iter().filter(|(_, bytes)| *bytes > 0).collect();
    busiest.sort_by_key(|(receiver, bytes)| (std::cmp::Reverse(*bytes), *receiver));
    let chart = |&((host, service), _): &((MachineId, u32), u64)| {
        let meter = series::meter(results, host, service);
        let mut chart = Chart::new(time_axis(results), Axis::new("received", Unit::Bandwidth));
        chart.size = PANEL;
        let lines = [
            Series::new("usage", meter.received).look(0, false),
            Series::new("capacity", meter.capacity).look(LINES - 1, true),
            Series::new("rate of a sender", meter.rate).look(1, false),
        ];
        chart.series.extend(lines.into_iter().filter(|line| line.points.iter().any(|at| at.1.is_finite())));
        (format!("{} at {}", results.services[service as usize], results.hosts[host.index()]), chart)
    };
    (busiest.iter().take(LINES).map(chart).collect(), busiest.len())
}

/// The indices of watched links, the busiest first.
fn busiest_watched(results: &Results) -> Vec<u32> {
    let watched = series::watched(results);
    let order: BTreeMap<&str, usize> =
        busiest(results).into_iter().enumerate().map(|(order, (link, _))| (link.name.as_str(), order)).collect();
    let mut links = watched;
    links.sort_by_key(|link| order.get(results.links[*link as usize].name.as_str()).copied());
    links
}
