//! The tables of a run's page.

use crate::record::{ClassCount, LinkRecord, Results};
use crate::series::mean_utilisation;
use crate::statistics::{BinStatistics, Statistics};
use crate::text::{bin, factor, known, percent, rate, size, time, whole};
use weir_report::Table;

/// The most links that are shown.
const LINKS: usize = 50;

/// Completion times: a row for each group and size bin that has flows.
pub(crate) fn times(statistics: &Statistics) -> Table {
    by_size(statistics, &["mean", "p50", "p95", "p99", "p99.9", "max"], |of| {
        let fct = of.fct;
        [fct.mean, fct.p50, fct.p95, fct.p99, fct.p999, fct.max].map(|value| known(value, time)).to_vec()
    })
}

/// Slowdowns: the same rows.
pub(crate) fn slowdowns(statistics: &Statistics) -> Table {
    by_size(statistics, &["mean", "p50", "p95", "p99", "p99.9", "max"], |of| {
        let slowdown = of.slowdown;
        let values = [slowdown.mean, slowdown.p50, slowdown.p95, slowdown.p99, slowdown.p999, slowdown.max];
        values.map(|value| known(value, factor)).to_vec()
    })
}

fn by_size(statistics: &Statistics, columns: &[&str], values: impl Fn(&BinStatistics) -> Vec<String>) -> Table {
    let mut table = Table::new().text("group").text("size").number("flows");
    // Mostly all flows finish, and the table is wide.
    let unfinished = statistics.all.all.unfinished > 0;
    if unfinished {
        table = table.number("unfinished");
    }
    table = columns.iter().fold(table, |table, column| table.number(*column));
    // With one group, all flows are its flows.
    let all = Some(&statistics.all).filter(|_| statistics.groups.len() != 1);
    for of in all.into_iter().chain(&statistics.groups) {
        let name = if of.name.is_empty() { "all" } else { &of.name };
        let used: Vec<&BinStatistics> = of.bins.iter().filter(|bin| bin.flows > 0).collect();
        // Of one size, all sizes are that size.
        let total = Some(&of.all).filter(|all| all.flows > 0 && used.len() != 1);
        for of in total.into_iter().chain(used) {
            let mut row = vec![name.to_owned(), bin(of.bin), whole(of.flows)];
            row.extend(unfinished.then(|| whole(of.unfinished)));
            row.extend(values(of));
            table.row(row);
        }
    }
    table
}

/// A row for each group.
pub(crate) fn groups(results: &Results, statistics: &Statistics) -> Table {
    let mut table = Table::new().text("group").text("transport").number("flows").number("delivered");
    table = table.number("goodput").number("Jain's index").number("retransmissions").number("timeouts");
    for (group, of) in results.groups.iter().zip(&statistics.groups) {
        let mut row = vec![group.name.clone(), group.transport.clone(), whole(of.all.flows)];
        row.extend([size(of.delivered), rate(of.goodput), known(of.jain, |index| format!("{index:.3}"))]);
        row.extend([whole(of.retransmissions), whole(of.timeouts)]);
        table.row(row);
    }
    table
}

/// A row for each group that has deadlines, if any has.
pub(crate) fn deadlines(results: &Results, statistics: &Statistics) -> Option<Table> {
    let mut table = Table::new().text("group").number("deadlines").number("met").number("missed").number("share met");
    for (group, of) in results.groups.iter().zip(&statistics.groups).filter(|(_, of)| of.deadlines.count > 0) {
        let counts = of.deadlines;
        let row = [group.name.clone()].into_iter().chain([counts.count, counts.met, counts.missed].map(whole));
        table.row(row.chain([known(counts.percent_met(), |percent| percent)]));
    }
    (statistics.all.deadlines.count > 0).then_some(table)
}

/// Completion times of coflows: a row for each group that has any, if one has.
pub(crate) fn coflows(statistics: &Statistics) -> Option<Table> {
    let mut table = Table::new().text("group").number("flows of each").number("coflows").number("unfinished");
    table = ["mean", "p50", "p95", "p99", "p99.9", "max"].into_iter().fold(table, Table::number);
    let each = statistics.groups.iter().filter_map(|group| Some((group, group.coflows?)));
    let mut any = false;
    for (group, of) in each {
        let cct = of.cct;
        let counts = [of.flows_of_each(whole), whole(of.coflows), whole(of.unfinished)];
        let times = [cct.mean, cct.p50, cct.p95, cct.p99, cct.p999, cct.max].map(|value| known(value, time));
        table.row([group.name.clone()].into_iter().chain(counts).chain(times));
        any = true;
    }
    any.then_some(table)
}

/// Links, the busiest first; of the same utilisation, by name.
pub(crate) fn busiest(results: &Results) -> Vec<(&LinkRecord, f64)> {
    let mut links: Vec<_> = results.links.iter().map(|link| (link, mean_utilisation(results, link))).collect();
    links.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.name.cmp(&b.0.name)));
    links
}

/// The shown and the omitted part of the table of links.
pub(crate) fn links_are(results: &Results) -> String {
    let sum = |of: fn(&LinkRecord) -> u64| results.links.iter().map(of).fold(0, u64::saturating_add);
    let (dropped, marked) = (sum(|link| link.dropped), sum(|link| link.marked));
    let mut counts = format!("Over all links {} packets were dropped and {} marked.", whole(dropped), whole(marked));
    if let lost @ 1.. = unroutable(results) {
        counts += &format!(" {} more were dropped by switches without a route for them.", whole(lost));
    }
    match results.links.len().saturating_sub(LINKS) {
        0 => format!("The busiest first. {counts}"),
        left_out => format!("The {LINKS} busiest; {left_out} more are in links.csv. {counts}"),
    }
}

pub(crate) fn links(results: &Results) -> Table {
    let mut table = Table::new().text("link").number("rate").number("utilisation").number("sent").number("packets");
    table = table.number("dropped").number("marked").number("largest queue");
    for (link, used) in busiest(results).into_iter().take(LINKS) {
        let mut row = vec![link.name.clone(), rate(link.rate), percent(used), size(link.bytes)];
        row.extend([link.packets, link.dropped, link.marked].map(whole));
        row.push(size(link.queue_peak));
        table.row(row);
    }
    if let lost @ 1.. = unroutable(results) {
        table.row(["(no route)", "", "", "", "", &whole(lost), "", ""]);
    }
    table
}

/// Packets that no link dropped: a switch had no route for them, since links are down.
fn unroutable(results: &Results) -> u64 {
    results.counters.get("packets_unroutable").copied().unwrap_or_default()
}

/// A row for each class that was used, if more than one was.
pub(crate) fn classes(results: &Results) -> Option<Table> {
    let mut sums = [ClassCount::default(); 8];
    for (sum, class) in results.links.iter().flat_map(|link| (0..8).map(|i| (i, link.classes[i]))) {
        let sum = &mut sums[sum];
        sum.bytes = sum.bytes.saturating_add(class.bytes);
        sum.packets = sum.packets.saturating_add(class.packets);
        sum.dropped = sum.dropped.saturating_add(class.dropped);
        sum.marked = sum.marked.saturating_add(class.marked);
    }
    let used: Vec<_> = sums.iter().enumerate().filter(|(_, sum)| **sum != ClassCount::default()).collect();
    if used.len() < 2 {
        return None;
    }
    let mut table = Table::new().text("class").number("sent").number("packets").number("dropped").number("marked");
    for (class, sum) in used {
        let counts = [sum.packets, sum.dropped, sum.marked].map(whole);
        table.row([class.to_string(), size(sum.bytes)].into_iter().chain(counts));
    }
    Some(table)
}

pub(crate) fn counters(results: &Results) -> Table {
    let mut table = Table::new().text("counter").number("value");
    for (name, value) in &results.counters {
        table.row([name.replace('_', " "), whole(*value)]);
    }
    table
}
