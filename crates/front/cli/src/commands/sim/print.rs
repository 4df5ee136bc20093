//! The tables of a run.

use crate::error::CommandError;
use crate::output::{Style, Table, Ui};
use crate::text;
use weir_report::Unit;
use weir_results::series::mean_utilisation;
use weir_results::statistics::{BinStatistics, GroupStatistics, Statistics};
use weir_results::summary::Summary;
use weir_results::{Bin, PolicyResults, Results, SizeBins, policy_page};
use weir_units::{Bandwidth, SimTime};

/// The most links that fit on a screen beside the rest.
const LINKS: usize = 8;
/// The text for an unknown value.
pub(in crate::commands) const UNKNOWN: &str = "–";

/// A run: its services if it has a policy, else its flows and links.
pub(super) fn print(results: &Results, ui: &mut Ui) -> Result<(), CommandError> {
    match &results.policy {
        Some(policy) => {
            services_tables(policy, ui)?;
            // Without these links the bandwidths of such a run would be in its files only.
            if is_idle(policy) && results.links.iter().any(|link| link.bytes > 0) {
                print_links(results, ui)?;
                ui.print("\n")?;
            }
            let statistics = Statistics::new(results, &SizeBins::default());
            // Long-lived transfers end with the run: all their results are above.
            if has_ended(&statistics) {
                print_flows(results, &statistics, ui)?;
                ui.print("\n")?;
            }
            levels_table(results, ui)?;
            services_counters(results, ui)
        }
        None => print_network(results, ui),
    }
}

pub(in crate::commands) fn heading(text: &str, ui: &mut Ui) -> Result<(), CommandError> {
    let title = ui.on_out(Style::Strong, text);
    Ok(ui.print(&format!("{title}\n"))?)
}

/// Every table ends with an empty line.
pub(in crate::commands) fn services_tables(policy: &PolicyResults, ui: &mut Ui) -> Result<(), CommandError> {
    let measure = &policy.measure;
    let rows = policy_page::mean_rows(policy);
    if is_idle(policy) {
        ui.print(&format!(
            "No traffic crossed the uplink of rack {} ({}), which is measured\n\n",
            measure.rack, measure.direction
        ))?;
    } else if !rows.is_empty() {
        heading(&format!("Mean bandwidth at the uplink of rack {} ({})", measure.rack, measure.direction), ui)?;
        let mut table = Table::new(&[">from", ">to", "sending", "service", ">mean", ">settled"]);
        for row in rows {
            table.row(row);
        }
        ui.print_table(&table, 2)?;
        ui.print("  settled: the second half of the phase\n\n")?;
    }
    let mut table = Table::new(&["service", ">flows", ">delivered", ">sent again", ">timeouts"]);
    for transfer in &policy.transfers {
        table.row([
            transfer.service.clone(),
            transfer.flows.to_string(),
            text::size(transfer.delivered_bytes),
            transfer.retransmissions.to_string(),
            transfer.timeouts.map_or(UNKNOWN.to_owned(), |timeouts| timeouts.to_string()),
        ]);
    }
    if !policy.transfers.is_empty() {
        heading("Connections", ui)?;
        ui.print_table(&table, 2)?;
        ui.print("\n")?;
    }
    Ok(())
}

/// Whether the uplink was measured and nothing crossed it, as where all machines are in one rack.
fn is_idle(policy: &PolicyResults) -> bool {
    let mut means = policy.phases.iter().flat_map(|phase| phase.mean.values().flatten()).peekable();
    means.peek().is_some() && means.all(|mean| *mean == Bandwidth::ZERO)
}

/// The frames of each latency level: the longest delay beside its bound, and the largest queue.
fn levels_table(results: &Results, ui: &mut Ui) -> Result<(), CommandError> {
    let counter = |level: usize, name: &str| results.counters.get(&format!("level_{level}_{name}")).copied();
    if counter(1, "frames").is_none() {
        return Ok(());
    }
    heading("Latency levels, from the hosts' regulators to the receivers", ui)?;
    let columns = [">level", ">frames", ">longest", ">bound", ">late", ">largest queue", ">overfull", ">longest wait"];
    let mut table = Table::new(&columns);
    for level in (1..).take_while(|level| counter(*level, "frames").is_some()) {
        let count = |name: &str| counter(level, name).unwrap_or_default();
        let time =
            |name: &str| counter(level, name).map_or("unbounded".to_owned(), |nanos| text::time(nanos as f64 / 1e9));
        table.row([
            level.to_string(),
            count("frames").to_string(),
            time("worst_ns"),
            time("bound_ns"),
            count("late").to_string(),
            text::size(count("backlog_bytes")),
            count("overfull").to_string(),
            time("longest_wait_ns"),
        ]);
    }
    ui.print_table(&table, 2)?;
    ui.print("  late, overfull: frames that arrived after their bound, or found a queue above its bound\n")?;
    for level in (1..).take_while(|level| counter(*level, "frames").is_some()) {
        if let Some(((tight, most), (loose, least))) = queue_ratios(results, level) {
            let other = if loose == tight { String::new() } else { format!(", {least:.0} % at {loose}") };
            ui.print(&format!("  largest queue of level {level} in its bound: {most:.0} % at {tight}{other}\n"))?;
        }
    }
    Ok(ui.print("\n")?)
}

/// A port, and the largest queue of a level there as a percentage of its bound.
type QueueRatio<'r> = (&'r str, f64);

/// The ports of switches at which the bound of a level's queue is tightest and most pessimistic; `None` if no bounded
/// queue had frames.
fn queue_ratios(results: &Results, level: usize) -> Option<(QueueRatio<'_>, QueueRatio<'_>)> {
    let backlog = format!("level_{level}_backlog_bytes_at_");
    let ratios = results.counters.iter().filter_map(|(name, bytes)| {
        let port = name.strip_prefix(&backlog)?;
        let bound = results.counters.get(&format!("level_{level}_backlog_bound_bytes_at_{port}"))?;
        Some((port, *bytes as f64 * 100.0 / *bound as f64))
    });
    let by_ratio = |one: &QueueRatio<'_>, other: &QueueRatio<'_>| one.1.total_cmp(&other.1);
    Some((ratios.clone().max_by(by_ratio)?, ratios.min_by(by_ratio)?))
}

fn services_counters(results: &Results, ui: &mut Ui) -> Result<(), CommandError> {
    let counter = |name: &str| results.counters.get(name).copied().unwrap_or_default();
    ui.print(&format!(
        "{} packets sent, {} dropped; {} broker datagrams, {} refused; {} events\n",
        counter("packets_sent"),
        counter("packets_dropped"),
        counter("broker_datagrams_sent"),
        counter("broker_datagrams_refused"),
        counter("events"),
    ))?;
    let lost = counter("credits_dropped_packets");
    if lost > 0 {
        let excluded = counter("credits_excluded_packets");
        ui.print(&format!(
            "{lost} packets with credits dropped, {excluded} of them after changes of links or routes\n"
        ))?;
    }
    Ok(())
}

/// Whether any flow is over.
fn has_ended(statistics: &Statistics) -> bool {
    statistics.all.all.flows > statistics.all.all.unfinished
}

/// Flows, and the times of flows, rounds and requests.
fn print_flows(results: &Results, statistics: &Statistics, ui: &mut Ui) -> Result<(), CommandError> {
    heading("Flows", ui)?;
    ui.print_table(&groups(results, statistics), 2)?;
    if has_ended(statistics) {
        ui.print("\n")?;
        heading("Completion times", ui)?;
        ui.print_table(&by_size(statistics, |bin| percentiles(&bin.fct, seconds)), 2)?;
        if statistics.all.all.unfinished > 0 {
            ui.print(&format!("  {UNKNOWN}: depends on unfinished flows\n"))?;
        }
    }
    if statistics.all.all.slowdown.finished_mean.is_some() {
        ui.print("\n")?;
        heading("Slowdowns: completion times over those on an idle network", ui)?;
        ui.print_table(&by_size(statistics, |bin| percentiles(&bin.slowdown, factor)), 2)?;
    }
    if statistics.groups.iter().any(|group| group.coflows.is_some()) {
        ui.print("\n")?;
        heading("Coflows: rounds, shuffles, requests with their responses, from first byte to last", ui)?;
        ui.print_table(&coflows(statistics), 2)?;
    }
    Ok(())
}

fn print_network(results: &Results, ui: &mut Ui) -> Result<(), CommandError> {
    print_flows(results, &Statistics::new(results, &SizeBins::default()), ui)?;
    if results.links.iter().any(|link| link.bytes > 0) {
        ui.print("\n")?;
        print_links(results, ui)?;
    }
    let counters =
        results.counters.iter().map(|(name, value)| format!("{} {}", text::whole(*value), name.replace('_', " ")));
    ui.print(&format!("\n{}", text::wrapped(&counters.collect::<Vec<_>>().join(", "), 0)))?;
    Ok(())
}

fn groups(results: &Results, statistics: &Statistics) -> Table {
    let deadlines = statistics.all.deadlines.count > 0;
    let mut columns = vec![
        "group",
        "transport",
        ">flows",
        ">finished",
        ">unfinished",
        ">goodput",
        ">fairness",
        ">sent again",
        ">timeouts",
    ];
    if deadlines {
        columns.push(">deadlines met");
    }
    let mut table = Table::new(&columns);
    let all = (statistics.groups.len() > 1).then_some(("all", "", &statistics.all));
    let each = results.groups.iter().zip(&statistics.groups);
    let each = each.map(|(group, of)| (group.name.as_str(), group.transport.as_str(), of));
    for (name, transport, of) in each.chain(all) {
        let mut row = vec![
            name.to_owned(),
            transport.to_owned(),
            text::whole(of.all.flows),
            text::whole(of.all.flows - of.all.unfinished),
            text::whole(of.all.unfinished),
            text::rate(of.goodput),
            of.jain.map_or(UNKNOWN.to_owned(), |jain| format!("{jain:.3}")),
            text::whole(of.retransmissions),
            text::whole(of.timeouts),
        ];
        if deadlines {
            row.push(of.deadlines.percent_met().unwrap_or_else(|| UNKNOWN.to_owned()));
        }
        table.row(row);
    }
    table
}

/// Completion times of coflows.
fn coflows(statistics: &Statistics) -> Table {
    let mut table = Table::new(&["group", ">flows each", ">coflows", ">unfinished", ">mean", ">p50", ">p99", ">p99.9"]);
    for (group, of) in statistics.groups.iter().filter_map(|group| Some((group, group.coflows?))) {
        let counts = [of.flows_of_each(text::whole), text::whole(of.coflows), text::whole(of.unfinished)];
        table.row([group.name.clone()].into_iter().chain(counts).chain(percentiles(&of.cct, seconds)));
    }
    table
}

/// Every group's flows together, and its size bins if there is more than one.
fn by_size(statistics: &Statistics, values: impl Fn(&BinStatistics) -> [String; 4]) -> Table {
    let mut table = Table::new(&["group", "size", ">flows", ">unfinished", ">mean", ">p50", ">p99", ">p99.9"]);
    let all = (statistics.groups.len() > 1).then_some(("all", &statistics.all));
    let groups = statistics.groups.iter().map(|group| (group.name.as_str(), group));
    for (name, group) in groups.chain(all) {
        for bin in bins(group) {
            let row = [name.to_owned(), size(bin.bin), text::whole(bin.flows), text::whole(bin.unfinished)];
            table.row(row.into_iter().chain(values(bin)));
        }
    }
    table
}

/// The bins of a group to show: where there are several of them, and a flow of the group has ended.
fn bins(group: &GroupStatistics) -> impl Iterator<Item = &BinStatistics> {
    let used = group.bins.iter().filter(|bin| bin.flows > 0);
    let several = used.clone().count() > 1 && group.all.flows > group.all.unfinished;
    std::iter::once(&group.all).filter(|all| all.flows > 0).chain(used.filter(move |_| several))
}

fn percentiles<T: Copy>(of: &Summary<T>, text: impl Fn(T) -> String) -> [String; 4] {
    [of.mean, of.p50, of.p99, of.p999].map(|value| value.map_or(UNKNOWN.to_owned(), &text))
}

fn print_links(results: &Results, ui: &mut Ui) -> Result<(), CommandError> {
    let mut links: Vec<_> = results.links.iter().map(|link| (mean_utilisation(results, link), link)).collect();
    // The sort is stable: equally busy links stay in the network's order.
    links.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    heading(&format!("Busiest links, {} of {}", links.len().min(LINKS), text::whole(links.len() as u64)), ui)?;
    let mut table = Table::new(&["link", ">rate", ">utilisation", ">dropped", ">marked", ">peak queue"]);
    for (utilisation, link) in links.into_iter().take(LINKS) {
        table.row([
            link.name.clone(),
            text::rate(link.rate),
            percent(utilisation),
            text::whole(link.dropped),
            text::whole(link.marked),
            text::size(link.queue_peak),
        ]);
    }
    Ok(ui.print_table(&table, 2)?)
}

pub(in crate::commands) fn seconds(time: SimTime) -> String {
    text::time(time.picos() as f64 / 1e12)
}

pub(super) fn factor(value: f64) -> String {
    format!("{value:.2}")
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn size(bin: Bin) -> String {
    let size = |bytes: u64| Unit::Size.format_short(bytes as f64);
    match (bin.over, bin.up_to) {
        (0, None) => "all".to_owned(),
        (over, None) => format!("> {}", size(over)),
        (0, Some(up_to)) => format!("≤ {}", size(up_to)),
        (over, Some(up_to)) => format!("{} to {}", size(over), size(up_to)),
    }
}
